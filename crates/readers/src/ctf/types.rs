//! Types of CTF fields.

use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    Int(Int),
    /// Bits of exponent and mantissa together, alignment, byte order.
    Float {
        size: u32,
        align: u32,
        big: bool,
    },
    Enum {
        int: Int,
        labels: Arc<Vec<(String, i128, i128)>>,
    },
    /// Text up to its NUL.
    Text,
    Struct(Arc<Struct>),
    /// The tag's name decides which.
    Variant {
        tag: String,
        options: Arc<Vec<(String, Type)>>,
    },
    Array {
        element: Arc<Type>,
        length: u64,
    },
    /// The length is the value of an earlier field.
    Sequence {
        element: Arc<Type>,
        length: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Int {
    /// Bits, 1 to 64.
    pub(super) size: u32,
    pub(super) align: u32,
    pub(super) signed: bool,
    pub(super) big: bool,
    /// An array of it is text.
    pub(super) text: bool,
    /// Its value moves the clock on.
    pub(super) clock: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Struct {
    pub(super) fields: Vec<(String, Type)>,
    pub(super) align: u32,
}

impl Type {
    /// Alignment in bits.
    pub(super) fn align(&self) -> u32 {
        match self {
            Type::Int(int) | Type::Enum { int, .. } => int.align,
            Type::Float { align, .. } => *align,
            Type::Text => 8,
            Type::Struct(s) => s.align,
            Type::Variant { .. } => 1,
            Type::Array { element, .. } | Type::Sequence { element, .. } => element.align(),
        }
    }

    pub(super) fn is_text_element(&self) -> bool {
        matches!(self, Type::Int(Int { text: true, size: 8, .. }))
    }
}
