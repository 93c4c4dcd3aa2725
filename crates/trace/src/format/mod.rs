//! Descriptions of event records, as the kernel gives them in `format` files.
//!
//! The text of a `format` file in, an [`EventFormat`] out; with it, a record becomes
//! the text the kernel would have printed ([`Printer`]). Where the kernel's own text
//! and libtraceevent's differ (`__print_array`, zero flags), this gives the kernel's.

mod token;
mod ctype;
mod declaration;
mod place;
mod value;
mod expression;
mod evaluate;
mod lookup;
mod printf;
mod printer;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use declaration::FormatError;
pub use lookup::{NoLookup, PrintLookup};
pub use place::BytesPlan;
pub use printer::{FieldText, Printer};

/// The layout of one kind of event: what the kernel's `events/SYSTEM/NAME/format`
/// says, or what a reader made up for a producer that has no such file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventFormat {
    /// The subsystem, such as `sched`; empty where unknown.
    pub system: String,
    /// The event's name, such as `sched_switch`.
    pub name: String,
    /// The number that records of this kind carry.
    pub id: u16,
    /// All fields in record order, the common ones first.
    pub fields: Vec<Field>,
    /// The text after `print fmt:`, verbatim; empty if there was none.
    pub print_fmt: String,
}

/// One field of an [`EventFormat`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// The field's name.
    pub name: String,
    /// The C type as declared, without name and array length, such as `unsigned long`.
    pub type_name: String,
    /// Bytes from the start of the record.
    pub offset: u32,
    /// Bytes in the fixed part of the record.
    pub size: u32,
    /// Whether integers of it are signed.
    pub signed: bool,
    /// How the bytes are to be read.
    pub shape: FieldShape,
    /// Whether this is one of the `common_` fields each record starts with.
    pub common: bool,
}

/// How a field's bytes are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FieldShape {
    /// One integer, pointer or bool of `Field::size` bytes.
    Scalar,
    /// `length` elements of `Field::size / length` bytes each, in place. A `char`
    /// array is text up to its first NUL.
    Array {
        /// Number of elements; 0 for a flexible array that runs to the record's end.
        length: u32,
    },
    /// `__data_loc`: a u32, low half the offset from the record's start, high half the length.
    DataLoc,
    /// `__rel_loc`: likewise, the offset counted from the end of this field.
    RelLoc,
}

impl EventFormat {
    /// Parses the text of a `format` file. `system` is the folder it lies in, empty
    /// where unknown.
    pub fn parse(system: &str, text: &str) -> Result<EventFormat, FormatError> {
        declaration::parse(system, text)
    }

    /// The field called `name`.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.name == name)
    }

    /// `system:name`, or the name alone where the system is unknown.
    pub fn full_name(&self) -> String {
        if self.system.is_empty() { self.name.clone() } else { format!("{}:{}", self.system, self.name) }
    }

    /// Bytes that each record has at least.
    pub fn fixed_size(&self) -> u32 {
        self.fields.iter().map(|field| field.offset.saturating_add(field.size)).max().unwrap_or(0)
    }

    /// Prepares printing of records. `long_size` is the traced machine's.
    pub fn printer(&self, endian: crate::Endian, long_size: u8) -> Printer {
        Printer::new(self, endian, long_size)
    }

    /// What `print fmt` prints for the argument(s) that use the field `name` alone;
    /// `None` when no such argument exists.
    pub fn field_text(&self, name: &str) -> Option<FieldText> {
        FieldText::new(self, name)
    }

    /// What `print fmt` prints for the argument(s) that use the field `name`, were its
    /// value `value` and nothing else known; `None` when no such argument exists.
    /// Parses the print format at each call; [`EventFormat::field_text`] does so once.
    pub fn print_field_alone(&self, name: &str, value: u64) -> Option<String> {
        self.field_text(name)?.text(value)
    }
}

impl Field {
    /// Whether the field holds text: an array or dynamic array of `char`.
    pub fn is_text(&self) -> bool {
        self.shape != FieldShape::Scalar && ctype::CType::parse_words(&self.type_name).is_char()
    }

    /// Bytes of one element of an array (dynamic ones too), of the value otherwise.
    pub fn element_size(&self, long_size: u8) -> u32 {
        match self.shape {
            FieldShape::Scalar => self.size,
            FieldShape::Array { length } if length > 0 => self.size / length,
            _ => ctype::CType::parse_words(&self.type_name).size(long_size).unwrap_or(1),
        }
    }
}
