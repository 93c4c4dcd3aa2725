//! Bytes and their type to a [`Value`]. Whatever needs the world (symbols, names, clocks) is asked of
//! [`Names`].

use lang::schema::{TEXT_CUT, TEXT_SLOT_BYTES};
use lang::types::{Clock, Stack, Type, TypeTable};

use super::value::{StackLines, Value};

/// Names for numbers.
pub trait Names {
    /// A kernel address: `vfs_read`, or `0x…`; with `+offset` for frames.
    fn kernel_address(&self, address: u64, with_offset: bool) -> String;
    /// A user address in a process.
    fn user_address(&self, address: u64, pid: u32, with_offset: bool) -> String;
    /// Frames of a stack by its key in the map of stacks.
    fn stack(&self, stack: Stack, hash: u64, frames: u32, pid: u32) -> StackLines;
    /// A time on a clock, in the local time zone.
    fn time(&self, nanoseconds: u64, clock: Clock, format: &str) -> String;
    /// The path of a cgroup.
    fn cgroup(&self, id: u64, filter: Option<&str>) -> String;
    /// The name of a user.
    fn user(&self, uid: u32) -> String;
    /// The name of a system call.
    fn syscall(&self, number: u32) -> String;
    /// The name of a process, empty if there is none with that number.
    fn process(&self, pid: u32) -> String;
    /// The text of an errno.
    fn errno(&self, number: i32) -> String;
}

/// What decoding needs besides bytes and type.
#[derive(Clone, Copy)]
pub struct Decoder<'a> {
    /// Structs and enums.
    pub types: &'a TypeTable,
    /// Names for numbers.
    pub names: &'a dyn Names,
    /// `Schema::time_formats`.
    pub time_formats: &'a [String],
    /// `Schema::strings`.
    pub strings: &'a [String],
    /// Put after a text that was cut.
    pub trailer: &'a str,
}

impl Decoder<'_> {
    /// A value as it lies in maps and in the fixed part of records. Missing bytes count as zero.
    pub fn value(&self, ty: &Type, bytes: &[u8]) -> Value {
        match ty {
            Type::Void => Value::Null,
            Type::Bool => Value::Bool(unsigned(bytes, 0, 1) != 0),
            Type::Integer(integer) => {
                let size = usize::from(integer.bytes);
                let number = match integer.signed {
                    true => i128::from(signed(bytes, 0, size)),
                    false => i128::from(unsigned(bytes, 0, size)),
                };
                match integer.names.map(|id| self.types.enum_name(id, number as i64)) {
                    Some(name) => {
                        let text = name.map_or_else(|| number.to_string(), str::to_owned);
                        Value::Symbolic { text, number }
                    }
                    None if integer.signed => Value::Signed(number as i64),
                    None => Value::Unsigned(number as u64),
                }
            }
            Type::Pointer { .. } => {
                let number = unsigned(bytes, 0, 8);
                Value::Symbolic { text: format!("{number:#x}"), number: number.into() }
            }
            Type::String(size) => Value::Text(until_nul(bytes, *size as usize).to_vec()),
            Type::Buffer(room) => {
                let length = (unsigned(bytes, 0, 4) as usize).min(*room as usize);
                Value::Bytes(slice(bytes, 4, length).to_vec())
            }
            Type::Inet => Value::Text(inet(bytes).into_bytes()),
            Type::MacAddress => {
                let pairs: Vec<String> = (0..6).map(|at| format!("{:02X}", unsigned(bytes, at, 1))).collect();
                Value::Text(pairs.join(":").into_bytes())
            }
            Type::KernelSymbol => text(self.names.kernel_address(unsigned(bytes, 0, 8), false)),
            Type::UserSymbol => {
                text(self.names.user_address(unsigned(bytes, 0, 8), unsigned(bytes, 8, 4) as u32, false))
            }
            Type::Timestamp => {
                let format = self.time_formats.get(unsigned(bytes, 8, 4) as usize);
                let clock = match unsigned(bytes, 12, 4) {
                    1 => Clock::Monotonic,
                    2 => Clock::Tai,
                    3 => Clock::SoftwareTai,
                    _ => Clock::Boot,
                };
                text(self.names.time(unsigned(bytes, 0, 8), clock, format.map_or("", String::as_str)))
            }
            Type::CgroupPath => {
                let filter = (unsigned(bytes, 8, 4) as usize).checked_sub(1);
                let filter = filter.and_then(|index| self.strings.get(index)).map(String::as_str);
                text(self.names.cgroup(unsigned(bytes, 0, 8), filter))
            }
            Type::ErrorText => text(self.names.errno(signed(bytes, 0, 4) as i32)),
            Type::SyscallName => text(self.names.syscall(unsigned(bytes, 0, 4) as u32)),
            Type::ProcessName => text(self.names.process(unsigned(bytes, 0, 4) as u32)),
            Type::UserName => text(self.names.user(unsigned(bytes, 0, 4) as u32)),
            Type::Stack(stack) => {
                let word = |at| unsigned(bytes, at, 4) as u32;
                Value::Stack(self.names.stack(*stack, unsigned(bytes, 0, 8), word(8), word(12)))
            }
            Type::Array { element, count } => {
                let size = element.size() as usize;
                let each = (0..*count as usize).map(|n| self.value(element, slice(bytes, n * size, size)));
                Value::Array(each.collect())
            }
            Type::Record(record) => {
                let fields = self.types.record(record.id).fields.iter();
                Value::Record(
                    fields.map(|field| (field.name.to_string(), self.field(field, bytes))).collect(),
                )
            }
            Type::Tuple(fields) => {
                let value = |field: &lang::types::TupleField| {
                    self.value(&field.ty, slice(bytes, field.offset as usize, field.ty.size() as usize))
                };
                if fields.iter().any(|field| field.name.is_some()) {
                    let name =
                        |field: &lang::types::TupleField| field.name.as_deref().unwrap_or("").to_owned();
                    Value::Record(fields.iter().map(|field| (name(field), value(field))).collect())
                } else {
                    Value::Tuple(fields.iter().map(value).collect())
                }
            }
        }
    }

    /// An argument of a streamed record: texts and buffers are slots that point into the record.
    pub fn argument(&self, ty: &Type, offset: u32, record: &[u8]) -> Value {
        let at = offset as usize;
        match ty {
            Type::String(_) => {
                let (bytes, cut) = slot(record, at);
                let mut shown = until_nul(bytes, bytes.len()).to_vec();
                if cut {
                    shown.extend_from_slice(self.trailer.as_bytes());
                }
                Value::Text(shown)
            }
            Type::Buffer(_) => Value::Bytes(slot(record, at).0.to_vec()),
            other => self.value(other, slice(record, at, other.size() as usize)),
        }
    }

    fn field(&self, field: &lang::types::Field, bytes: &[u8]) -> Value {
        let at = field.offset as usize;
        let Some(bits) = field.bits else {
            return self.value(&field.ty, slice(bytes, at, field.ty.size() as usize));
        };
        let size = field.ty.size() as usize;
        let raw = unsigned(bytes, at, size.min(8)) >> bits.shift;
        let spare = 64 - u32::from(bits.bits).clamp(1, 64);
        if field.ty.is_signed() {
            Value::Signed((raw << spare) as i64 >> spare)
        } else {
            Value::Unsigned(raw << spare >> spare)
        }
    }
}

/// The bytes that a text slot points at, and whether the text was cut.
pub fn slot(record: &[u8], at: usize) -> (&[u8], bool) {
    debug_assert_eq!(TEXT_SLOT_BYTES, 8);
    let (offset, length) = (unsigned(record, at, 4) as usize, unsigned(record, at + 4, 4) as u32);
    (slice(record, offset, (length & !TEXT_CUT) as usize), length & TEXT_CUT != 0)
}

/// A little-endian number; bytes beyond the end count as zero.
pub fn unsigned(bytes: &[u8], at: usize, size: usize) -> u64 {
    let mut number = [0u8; 8];
    for (to, from) in number[..size.min(8)].iter_mut().zip(bytes.get(at..).unwrap_or(&[])) {
        *to = *from;
    }
    u64::from_le_bytes(number)
}

/// The same with a sign.
pub fn signed(bytes: &[u8], at: usize, size: usize) -> i64 {
    let spare = 64 - 8 * size.clamp(1, 8) as u32;
    (unsigned(bytes, at, size) << spare) as i64 >> spare
}

fn slice(bytes: &[u8], at: usize, length: usize) -> &[u8] {
    let rest = bytes.get(at..).unwrap_or(&[]);
    &rest[..length.min(rest.len())]
}

fn until_nul(bytes: &[u8], most: usize) -> &[u8] {
    let bytes = &bytes[..most.min(bytes.len())];
    &bytes[..bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len())]
}

fn text(text: String) -> Value {
    Value::Text(text.into_bytes())
}

fn inet(bytes: &[u8]) -> String {
    const IPV6: u64 = 10;
    let mut address = [0u8; 16];
    for (to, from) in address.iter_mut().zip(bytes.get(4..).unwrap_or(&[])) {
        *to = *from;
    }
    if unsigned(bytes, 0, 4) == IPV6 {
        return std::net::Ipv6Addr::from(address).to_string();
    }
    std::net::Ipv4Addr::new(address[0], address[1], address[2], address[3]).to_string()
}
