//! Reading one field of a record as a typed value: planned once per event kind,
//! carried out for each record.

use crate::{
    format::{BytesPlan, EventFormat, Field, FieldShape},
    ident::{Comm, Cpu, RecordedComm, Tid},
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
    big: bool,
}

impl IntPlan {
    fn new(field: &Field, endian: Endian) -> Option<IntPlan> {
        let size = match (field.shape, field.size) {
            (FieldShape::Scalar, size @ (1 | 2 | 4 | 8)) => size as u8,
            _ => return None,
        };
        Some(IntPlan { offset: field.offset, size, signed: field.signed, big: endian == Endian::Big })
    }

    /// The most frequent kind by itself. Of others eight bytes are loaded where the record has
    /// them, so that width and sign are two shifts instead of branches.
    #[inline(always)]
    fn read(&self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.offset as usize..)?;
        if self.size == 4 && !self.big {
            let word = u32::from_le_bytes(*bytes.first_chunk()?);
            return Some(if self.signed { word as i32 as u64 } else { u64::from(word) });
        }
        let raw = match bytes.first_chunk::<8>() {
            Some(eight) => u64::from_le_bytes(*eight),
            None => self.load_near_end(bytes)?,
        };
        let unused = 64 - 8 * u32::from(self.size);
        let high = if self.big { u64::from_be_bytes(raw.to_le_bytes()) >> unused } else { raw } << unused;
        Some(if self.signed { ((high as i64) >> unused) as u64 } else { high >> unused })
    }

    /// The field's bytes and zeros behind them. Each size by one load: a copy of variable
    /// length would be read back before it is written.
    #[inline(always)]
    fn load_near_end(&self, bytes: &[u8]) -> Option<u64> {
        Some(match self.size {
            4 => u64::from(u32::from_le_bytes(*bytes.first_chunk()?)),
            2 => u64::from(u16::from_le_bytes(*bytes.first_chunk()?)),
            1 => u64::from(*bytes.first()?),
            _ => return None,
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
        Some(recorded_comm(plan, record)?.comm())
    }
}

/// A name where it lies in the record; `None` when the record is too short.
#[inline]
pub fn recorded_comm<'r>(plan: &BytesPlan, record: &'r [u8]) -> Option<RecordedComm<'r>> {
    match plan.array16(record) {
        Some(array) => Some(RecordedComm::Array(array)),
        None => plan.text(record).map(RecordedComm::Text),
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
    #[inline(always)]
    fn read(plan: &StatePlan, record: &[u8], _: &mut Strings) -> Option<TaskState> {
        let raw = plan.raw.read(record)? & plan.mask;
        Some(plan.states.get(raw as usize).copied().unwrap_or(TaskState::Unknown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_all_widths_signs_and_orders() {
        let mut field = Field {
            name: "x".to_owned(),
            type_name: "int".to_owned(),
            offset: 3,
            size: 4,
            signed: true,
            shape: FieldShape::Scalar,
            common: false,
        };
        let record = [9, 9, 9, 0xf1, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 9, 9, 9];
        for endian in [Endian::Little, Endian::Big] {
            for signed in [true, false] {
                for size in [1, 2, 4, 8] {
                    (field.size, field.signed) = (size, signed);
                    let plan = IntPlan::new(&field, endian).unwrap();
                    let expected = endian.integer(&record[3..], size as usize, signed);
                    assert!(expected.is_some());
                    // With bytes behind it, as the record's last bytes, and cut off.
                    let end = 3 + size as usize;
                    assert_eq!(plan.read(&record), expected, "{endian:?} {signed} {size}");
                    assert_eq!(plan.read(&record[..end]), expected, "{endian:?} {signed} {size}");
                    assert_eq!(plan.read(&record[..end - 1]), None);
                }
            }
        }
    }
}
