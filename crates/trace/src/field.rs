//! Reading one field of a record as a typed value: planned once per event kind,
//! carried out for each record.

use crate::{
    format::{EventFormat, Field, FieldShape},
    ident::{Comm, Cpu, Tid},
    strings::{StringId, Strings},
    task_state::TaskState,
};

/// Byte order of the machine that wrote the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

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

/// Where text sits.
#[derive(Clone, Copy, Debug)]
pub struct BytesPlan {
    offset: u32,
    size: u32,
    shape: FieldShape,
    swap: bool,
}

impl BytesPlan {
    /// Plans to read a field's bytes, whatever they mean.
    pub fn new(field: &Field, endian: Endian) -> BytesPlan {
        let swap = (endian == Endian::Big) != cfg!(target_endian = "big");
        BytesPlan { offset: field.offset, size: field.size, shape: field.shape, swap }
    }

    /// The field's bytes in `record`, dynamic ones followed to where they lie.
    pub fn bytes<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let start = self.offset as usize;
        match self.shape {
            FieldShape::Array { length: 0 } => record.get(start..),
            FieldShape::Scalar | FieldShape::Array { .. } => record.get(start..start + self.size as usize),
            FieldShape::DataLoc | FieldShape::RelLoc => {
                let raw = u32::from_ne_bytes(*record.get(start..)?.first_chunk()?);
                let raw = if self.swap { raw.swap_bytes() } else { raw };
                let base = if self.shape == FieldShape::RelLoc { start + 4 } else { 0 };
                let from = base + (raw & 0xffff) as usize;
                record.get(from..from + (raw >> 16) as usize)
            }
        }
    }

    /// The field's bytes up to the first NUL.
    pub fn text<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let bytes = self.bytes(record)?;
        Some(&bytes[..bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len())])
    }
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
        if plan.size == 16
            && let Some(array) = record.get(plan.offset as usize..)?.first_chunk::<16>()
        {
            return Some(Comm::from_array(*array));
        }
        Some(Comm::new(plan.text(record)?))
    }
}

/// The states of small raw values, decoded once from the print format.
#[derive(Clone, Debug)]
pub struct StatePlan {
    raw: IntPlan,
    states: Vec<TaskState>,
}

impl FieldValue for TaskState {
    type Plan = StatePlan;
    fn plan(format: &EventFormat, field: &Field, endian: Endian) -> Option<StatePlan> {
        let raw = IntPlan::new(field, endian)?;
        // All encodings so far fit in 13 bits (TASK_STATE_MAX of 4.13 is 0x2000).
        let states = (0..0x4000u64)
            .map(|value| match format.print_field_alone(&field.name, value) {
                Some(text) => TaskState::from_letters(&text),
                None => TaskState::Unknown,
            })
            .collect();
        Some(StatePlan { raw, states })
    }
    #[inline]
    fn read(plan: &StatePlan, record: &[u8], _: &mut Strings) -> Option<TaskState> {
        let raw = plan.raw.read(record)?;
        Some(plan.states.get(raw as usize).copied().unwrap_or(TaskState::Unknown))
    }
}
