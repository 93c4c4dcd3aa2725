//! Reading one field of a record as a typed value: planned once per event kind,
//! carried out for each record.

use crate::{
    format::{BytesPlan, EventFormat, Field, FieldShape},
    ident::{Comm, Cpu, Tid},
    strings::{StringId, Strings},
    task_state::TaskState,
};

pub use crate::endian::Endian;

/// A type that an event declaration may give a field.
pub trait FieldValue: Sized {
    /// What has to be known to read the field from any record of its kind.
    type Plan: Clone + std::fmt::Debug;
    /// Plans the reading, or `None` if the field's layout cannot hold this type.
    fn plan(format: &EventFormat, field: &Field, endian: Endian) -> Option<Self::Plan>;
    /// Reads from a record; `None` when the record is too short.
    fn read(plan: &Self::Plan, record: &[u8], strings: &mut Strings) -> Option<Self>;
}

/// Where an integer sits and how wide it is.
#[derive(Clone, Copy, Debug)]
pub struct IntPlan {
    offset: u32,
    size: u8,
    signed: bool,
    swap: bool,
}

impl IntPlan {
    fn new(field: &Field, endian: Endian) -> Option<IntPlan> {
        let size = match (field.shape, field.size) {
            (FieldShape::Scalar, size @ (1 | 2 | 4 | 8)) => size as u8,
            _ => return None,
        };
        let swap = (endian == Endian::Big) != cfg!(target_endian = "big");
        Some(IntPlan { offset: field.offset, size, signed: field.signed, swap })
    }

    #[inline]
    fn read(&self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.offset as usize..)?;
        Some(match self.size {
            4 => {
                let v = u32::from_ne_bytes(*bytes.first_chunk()?);
                let v = if self.swap { v.swap_bytes() } else { v };
                if self.signed { v as i32 as i64 as u64 } else { u64::from(v) }
            }
            8 => {
                let v = u64::from_ne_bytes(*bytes.first_chunk()?);
                if self.swap { v.swap_bytes() } else { v }
            }
            2 => {
                let v = u16::from_ne_bytes(*bytes.first_chunk()?);
                let v = if self.swap { v.swap_bytes() } else { v };
                if self.signed { v as i16 as i64 as u64 } else { u64::from(v) }
            }
            _ => {
                let v = *bytes.first()?;
                if self.signed { v as i8 as i64 as u64 } else { u64::from(v) }
            }
        })
    }
}

macro_rules! integer_field {
    ($($type:ty => $from:expr),* $(,)?) => {$(
        impl FieldValue for $type {
            type Plan = IntPlan;
            fn plan(_: &EventFormat, field: &Field, endian: Endian) -> Option<IntPlan> {
                IntPlan::new(field, endian)
            }
            #[inline]
            fn read(plan: &IntPlan, record: &[u8], _: &mut Strings) -> Option<$type> {
                let from: fn(u64) -> $type = $from;
                plan.read(record).map(from)
            }
        }
    )*};
}

integer_field! {
    u64 => |v| v,
    i64 => |v| v as i64,
    u32 => |v| v as u32,
    i32 => |v| v as i32,
    bool => |v| v != 0,
    Tid => |v| Tid(v as i32),
    Cpu => |v| Cpu(v as u32),
}

impl FieldValue for StringId {
    type Plan = BytesPlan;
    fn plan(_: &EventFormat, field: &Field, endian: Endian) -> Option<BytesPlan> {
        Some(BytesPlan::new(field, endian))
    }
    fn read(plan: &BytesPlan, record: &[u8], strings: &mut Strings) -> Option<StringId> {
        Some(strings.intern(plan.text(record)?))
    }
}

impl FieldValue for Comm {
    type Plan = BytesPlan;
    fn plan(_: &EventFormat, field: &Field, endian: Endian) -> Option<BytesPlan> {
        // Since 6.x some events carry comm as __string; before, as char[16].
        Some(BytesPlan::new(field, endian))
    }
    #[inline]
    fn read(plan: &BytesPlan, record: &[u8], _: &mut Strings) -> Option<Comm> {
        if let Some(array) = plan.array16(record) {
            return Some(Comm::from_array(*array));
        }
        Some(Comm::new(plan.text(record)?))
    }
}

/// The states of small raw values, decoded once from the print format.
#[derive(Clone, Debug)]
pub struct StatePlan {
    raw: IntPlan,
    /// Bits of the raw value that the print format looks at.
    mask: u64,
    states: Vec<TaskState>,
}

/// Raw values above this are not tabled; all encodings so far fit in 13 bits
/// (`TASK_STATE_MAX` of 4.13 is 0x2000).
const MOST_STATES: u64 = 0x4000;

impl FieldValue for TaskState {
    type Plan = StatePlan;
    fn plan(format: &EventFormat, field: &Field, endian: Endian) -> Option<StatePlan> {
        let raw = IntPlan::new(field, endian)?;
        let Some(text) = format.field_text(&field.name) else {
            return Some(StatePlan { raw, mask: 0, states: Vec::new() });
        };
        let nothing = text.text(0);
        let mask =
            (0..64).map(|bit| 1u64 << bit).filter(|&bit| text.text(bit) != nothing).fold(0, |m, bit| m | bit);
        let entries = (mask.checked_next_power_of_two().unwrap_or(MOST_STATES)).clamp(1, MOST_STATES);
        let entries = if mask.is_power_of_two() && mask < MOST_STATES { entries * 2 } else { entries };
        let states = (0..entries)
            .map(|value| {
                text.text(value & mask).map_or(TaskState::Unknown, |text| TaskState::from_letters(&text))
            })
            .collect();
        Some(StatePlan { raw, mask, states })
    }
    #[inline]
    fn read(plan: &StatePlan, record: &[u8], _: &mut Strings) -> Option<TaskState> {
        let raw = plan.raw.read(record)? & plan.mask;
        Some(plan.states.get(raw as usize).copied().unwrap_or(TaskState::Unknown))
    }
}
