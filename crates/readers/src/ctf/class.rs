//! Event classes as formats, and their fields as records laid out by them.

use trace::{
    EventFormat,
    format::{Field, FieldShape},
};

use super::{
    bits::Taker,
    tsdl::EventClass,
    types::{Int, Type},
};
use crate::text::{STATE_PRINT, state};

/// How a field is stored in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// Eight bytes.
    Number,
    /// `prev_state`, whose meaning the metadata do not tell.
    State,
    /// Text of sixteen bytes in place: a thread's name.
    Name,
    /// Text behind the fixed part.
    Text,
    /// Numbers of eight bytes each behind the fixed part.
    Numbers,
}

impl Slot {
    fn size(self) -> u32 {
        match self {
            Slot::Number | Slot::State => 8,
            Slot::Name => 16,
            Slot::Text | Slot::Numbers => 4,
        }
    }
}

/// The slots of an event's fields and the format they make.
pub(super) fn layout(class: &EventClass, id: u16) -> (Vec<Slot>, EventFormat) {
    let (system, name) = class.name.split_once(':').unwrap_or(("", &class.name));
    let mut fields = vec![
        field("common_type", "unsigned short", 0, 2, FieldShape::Scalar, false),
        field("common_pid", "int", 4, 4, FieldShape::Scalar, true),
    ];
    let mut slots = Vec::new();
    let mut at = 8;
    let mut add = |name: &str, kind: &Type, is_switch: bool| {
        let name = name.strip_prefix('_').unwrap_or(name);
        let (slot, type_name, shape, signed) = match kind {
            Type::Int(int) | Type::Enum { int, .. } if is_switch && name == "prev_state" => {
                let _ = int;
                (Slot::State, "s64", FieldShape::Scalar, true)
            }
            Type::Int(int) | Type::Enum { int, .. } => {
                (Slot::Number, if int.signed { "s64" } else { "u64" }, FieldShape::Scalar, int.signed)
            }
            Type::Float { .. } => (Slot::Number, "double", FieldShape::Scalar, false),
            Type::Text => (Slot::Text, "char", FieldShape::DataLoc, false),
            Type::Array { element, length: 16 } if element.is_text_element() => {
                (Slot::Name, "char", FieldShape::Array { length: 16 }, false)
            }
            Type::Array { element, .. } | Type::Sequence { element, .. } if element.is_text_element() => {
                (Slot::Text, "char", FieldShape::DataLoc, false)
            }
            Type::Array { .. } | Type::Sequence { .. } | Type::Variant { .. } => {
                (Slot::Numbers, "u64", FieldShape::DataLoc, false)
            }
            Type::Struct(_) => return,
        };
        fields.push(field(name, type_name, at, slot.size(), shape, signed));
        slots.push(slot);
        at += slot.size();
    };
    let is_switch = name == "sched_switch";
    if let Some(kind) = &class.fields {
        flatten("", kind, &mut |name, kind| add(name, kind, is_switch));
    }
    let has_state = slots.contains(&Slot::State);
    let format = EventFormat {
        system: system.to_owned(),
        name: name.to_owned(),
        id,
        print_fmt: if has_state {
            STATE_PRINT
                .replace("_pid", if fields.iter().any(|f| f.name == "prev_tid") { "_tid" } else { "_pid" })
        } else {
            String::new()
        },
        fields,
    };
    (slots, format)
}

/// Visits the fields as [`super::bits::read`] gives them, structures opened.
fn flatten(name: &str, kind: &Type, visit: &mut dyn FnMut(&str, &Type)) {
    match kind {
        Type::Struct(structure) => {
            structure.fields.iter().for_each(|(name, kind)| flatten(name, kind, visit))
        }
        other => visit(name, other),
    }
}

fn field(name: &str, type_name: &str, offset: u32, size: u32, shape: FieldShape, signed: bool) -> Field {
    Field {
        name: name.to_owned(),
        type_name: type_name.to_owned(),
        offset,
        size,
        signed,
        shape,
        common: name.starts_with("common_"),
    }
}

/// Puts fields into a record.
pub(super) struct RecordTaker<'a> {
    pub(super) record: &'a mut Vec<u8>,
    tail: &'a mut Vec<u8>,
    packet: &'a [u8],
    slots: &'a [Slot],
    next: usize,
    size: u32,
    depth: u32,
    array_at: usize,
}

impl<'a> RecordTaker<'a> {
    pub(super) fn new(
        record: &'a mut Vec<u8>,
        tail: &'a mut Vec<u8>,
        packet: &'a [u8],
        slots: &'a [Slot],
        id: u16,
        tid: i32,
    ) -> RecordTaker<'a> {
        record.clear();
        tail.clear();
        record.extend_from_slice(&id.to_le_bytes());
        record.extend_from_slice(&[0, 0]);
        record.extend_from_slice(&tid.to_le_bytes());
        let size = 8 + slots.iter().map(|slot| slot.size()).sum::<u32>();
        RecordTaker { record, tail, packet, slots, next: 0, size, depth: 0, array_at: 0 }
    }

    /// Joins both parts.
    pub(super) fn finish(self) {
        self.record.extend_from_slice(self.tail);
    }

    fn slot(&mut self) -> Option<Slot> {
        self.next += 1;
        self.slots.get(self.next - 1).copied()
    }

    /// The place of what was put into the tail from `start` on.
    fn place(&mut self, start: usize) {
        let at = (self.size as usize + start).min(0xffff);
        let length = (self.tail.len() - start).min(0xffff - at);
        self.tail.truncate(start + length);
        self.record.extend_from_slice(&((length << 16 | at) as u32).to_le_bytes());
    }
}

impl Taker for RecordTaker<'_> {
    fn int(&mut self, _: &str, value: u64, int: &Int) {
        if self.depth > 0 {
            self.tail.extend_from_slice(&value.to_le_bytes());
            return;
        }
        let value = match self.slot() {
            Some(Slot::State) if int.signed => state(&(value as i64).to_string()),
            Some(Slot::State) => state(&value.to_string()),
            _ => value,
        };
        self.record.extend_from_slice(&value.to_le_bytes());
    }

    fn float(&mut self, _: &str, value: u64) {
        if self.depth == 0 {
            self.slot();
            self.record.extend_from_slice(&value.to_le_bytes());
        }
    }

    fn text(&mut self, _: &str, (from, to): (usize, usize)) {
        if self.depth > 0 {
            return;
        }
        let bytes = self.packet.get(from..to).unwrap_or(&[]);
        if self.slot() == Some(Slot::Name) {
            let mut name = [0; 16];
            let length = bytes.len().min(16);
            name[..length].copy_from_slice(&bytes[..length]);
            self.record.extend_from_slice(&name);
        } else {
            let start = self.tail.len();
            self.tail.extend_from_slice(bytes);
            self.place(start);
        }
    }

    fn array(&mut self, _: &str) {
        if self.depth == 0 {
            self.slot();
            self.array_at = self.tail.len();
        }
        self.depth += 1;
    }

    fn end_array(&mut self) {
        self.depth -= 1;
        if self.depth == 0 {
            self.place(self.array_at);
        }
    }
}
