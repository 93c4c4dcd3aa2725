//! Expression trees over a record → values.

use super::{
    Field,
    expression::{Call, Expr, Unary},
    value::{Int, Region, Value},
};
use crate::Endian;

/// What expressions refer to.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) fields: &'a [Field],
    pub(super) what: What<'a>,
    pub(super) endian: Endian,
    pub(super) long_size: u8,
}

/// Where fields have their values from.
#[derive(Clone, Copy)]
pub(super) enum What<'a> {
    Record(&'a [u8]),
    /// One field has a value, the others are unknown.
    Alone {
        field: usize,
        value: u64,
    },
}

/// The value of an expression without fields.
pub(super) fn constant(expr: &Expr) -> Option<u64> {
    let scope = Scope { fields: &[], what: What::Record(&[]), endian: Endian::NATIVE, long_size: 8 };
    match scope.value(expr)? {
        Value::Int(int) => Some(int.bits),
        _ => None,
    }
}

impl<'a> Scope<'a> {
    /// The value of `expr`; `None` where the record is too short for it, or the format
    /// does not tell.
    pub(super) fn value(&self, expr: &Expr) -> Option<Value<'a>> {
        Some(match expr {
            Expr::Number { value, unsigned, long } => Value::Int(Int::new(*value, *unsigned, *long)),
            Expr::Text(text) => Value::Text(text.clone()),
            Expr::Field(field) => self.field(*field)?,
            Expr::Unknown => return None,
            Expr::SizeOf(c_type) => self.size(c_type.size(self.long_size)?),
            Expr::SizeOfField(field) => self.size(self.fields.get(*field)?.size),
            Expr::Unary(Unary::Deref, inner) => match self.value(inner)? {
                Value::Region(region) => Value::Int(region.element(0, self.endian)?),
                _ => return None,
            },
            Expr::Unary(Unary::Address, inner) => self.address(inner)?,
            Expr::Unary(unary, inner) => {
                let int = self.int(inner)?;
                let zero = Int::new(0, false, false);
                Value::Int(match unary {
                    Unary::Minus => zero.binary("-", int)?,
                    Unary::Not => Int::truth(int.bits == 0),
                    _ => Int::new(!int.bits, int.unsigned, int.wide),
                })
            }
            Expr::Binary("&&", a, b) => Value::Int(Int::truth(self.truth(a)? && self.truth(b)?)),
            Expr::Binary("||", a, b) => Value::Int(Int::truth(self.truth(a)? || self.truth(b)?)),
            Expr::Binary(op, a, b) => self.binary(op, a, b)?,
            Expr::Choose(condition, then, otherwise) => {
                if self.truth(condition)? {
                    self.value(then)?
                } else {
                    self.value(otherwise)?
                }
            }
            Expr::Cast(c_type, inner) => match self.value(inner)? {
                Value::Region(region) if c_type.pointers > 0 => Value::Region(Region {
                    element_size: c_type.pointed_size(self.long_size).unwrap_or(region.element_size),
                    signed: c_type.signed,
                    ..region
                }),
                Value::Int(int) => match c_type.size(self.long_size) {
                    Some(size) => Value::Int(cast(int.bits, size, c_type.signed && c_type.pointers == 0)),
                    None => Value::Int(int),
                },
                other => other,
            },
            Expr::Index(array, index) => {
                let index = self.int(index)?.bits;
                match self.value(array)? {
                    Value::Region(region) => Value::Int(region.element(index, self.endian)?),
                    Value::Text(text) => Value::Int(Int::promoted(
                        u64::from(*text.get(usize::try_from(index).ok()?)?),
                        1,
                        true,
                    )),
                    Value::Int(_) => return None,
                }
            }
            Expr::Call(call, arguments) => self.call(*call, arguments)?,
            Expr::Names { flags, value, delimiter, names } => {
                let value = self.int(value)?.bits;
                Value::Text(if *flags { flag_names(value, delimiter, names) } else { symbol(value, names) })
            }
        })
    }

    /// The value of `expr` where it is an integer (a text has one when its bytes are
    /// asked as a truth, which [`Scope::truth`] does).
    pub(super) fn int(&self, expr: &Expr) -> Option<Int> {
        match self.value(expr)? {
            Value::Int(int) => Some(int),
            _ => None,
        }
    }

    fn truth(&self, expr: &Expr) -> Option<bool> {
        Some(match self.value(expr)? {
            Value::Int(int) => int.bits != 0,
            // A pointer to something in the record is not null.
            Value::Region(_) | Value::Text(_) => true,
        })
    }

    fn size(&self, size: u32) -> Value<'a> {
        Value::Int(Int::new(u64::from(size), true, self.long_size == 8))
    }

    fn field(&self, index: usize) -> Option<Value<'a>> {
        let field = self.fields.get(index)?;
        match self.what {
            What::Record(record) => field.value(record, self.endian, self.long_size),
            What::Alone { field: alone, value } if alone == index => {
                Some(Value::Int(Int::promoted(value, field.size, field.signed)))
            }
            What::Alone { .. } => None,
        }
    }

    fn address(&self, inner: &Expr) -> Option<Value<'a>> {
        match inner {
            Expr::Field(index) => {
                let field = self.fields.get(*index)?;
                match (self.field(*index)?, self.what) {
                    (Value::Int(_), What::Record(record)) => {
                        let start = field.offset as usize;
                        Some(Value::Region(Region {
                            bytes: record.get(start..start + field.size as usize)?,
                            element_size: field.size,
                            signed: field.signed,
                        }))
                    }
                    (other, _) => Some(other),
                }
            }
            Expr::Index(array, index) => self.advanced(self.value(array)?, self.int(index)?.bits),
            _ => None,
        }
    }

    fn advanced(&self, pointer: Value<'a>, elements: u64) -> Option<Value<'a>> {
        let Value::Region(region) = pointer else { return None };
        let start = usize::try_from(elements).ok()?.checked_mul(region.element_size as usize)?;
        Some(Value::Region(Region { bytes: region.bytes.get(start..)?, ..region }))
    }

    fn binary(&self, op: &str, a: &Expr, b: &Expr) -> Option<Value<'a>> {
        match (self.value(a)?, self.value(b)?) {
            (Value::Int(a), Value::Int(b)) => Some(Value::Int(a.binary(op, b)?)),
            (region @ Value::Region(_), Value::Int(by)) if op == "+" => self.advanced(region, by.bits),
            (Value::Int(by), region @ Value::Region(_)) if op == "+" => self.advanced(region, by.bits),
            // Pointers compared with null.
            (Value::Region(_), Value::Int(Int { bits: 0, .. })) if op == "==" => {
                Some(Value::Int(Int::truth(false)))
            }
            (Value::Region(_), Value::Int(Int { bits: 0, .. })) if op == "!=" => {
                Some(Value::Int(Int::truth(true)))
            }
            _ => None,
        }
    }

    fn call(&self, call: Call, arguments: &[Expr]) -> Option<Value<'a>> {
        let region = |at: usize| match self.value(arguments.get(at)?)? {
            Value::Region(region) => Some(region),
            _ => None,
        };
        let int = |at: usize| Some(self.int(arguments.get(at)?)?.bits);
        let first_bytes = |count_at: usize| {
            let region = region(0)?;
            let count = usize::try_from(int(count_at)?).unwrap_or(usize::MAX);
            Some(&region.bytes[..count.min(region.bytes.len())])
        };
        Some(match call {
            Call::Bytes => Value::Region(region(0)?),
            Call::Length => Value::Int(Int::new(region(0)?.bytes.len() as u64, false, false)),
            Call::Bitmask => Value::Text(bitmask(region(0)?.bytes, self.endian)),
            Call::Hex { separated } => Value::Text(hex(first_bytes(1)?, if separated { " " } else { "" })),
            Call::Array => {
                let element_size = int(2)?;
                let bytes = first_bytes_of(&region(0)?, int(1)?, element_size);
                Value::Text(array(bytes, element_size, self.endian)?)
            }
            Call::DynamicArray => Value::Text(array(region(0)?.bytes, int(1)?, self.endian)?),
            Call::HexDump => {
                // (prefix_str, prefix_type, rowsize, groupsize, buf, len, ascii)
                let Value::Region(buffer) = self.value(arguments.get(4)?)? else { return None };
                let length = usize::try_from(int(5)?).unwrap_or(usize::MAX).min(buffer.bytes.len());
                let row = (int(2)?.clamp(1, 64)) as usize;
                let mut text = Vec::new();
                for (at, line) in buffer.bytes[..length].chunks(row).enumerate() {
                    text.push(b'\n');
                    text.extend_from_slice(format!("{:08x}: ", at * row).as_bytes());
                    text.extend_from_slice(&hex(line, " "));
                }
                Value::Text(text)
            }
            Call::Seconds => Value::Int(Int::new(int(0)? / 1_000_000_000, true, true)),
            Call::WithoutSeconds => Value::Int(Int::new(int(0)? % 1_000_000_000, true, false)),
            Call::Same => self.value(arguments.first()?)?,
            Call::SwapBytes(size) => {
                let value = int(0)?;
                Value::Int(match size {
                    2 => Int::promoted(u64::from((value as u16).swap_bytes()), 2, false),
                    4 => Int::new(u64::from((value as u32).swap_bytes()), true, false),
                    _ => Int::new(value.swap_bytes(), true, true),
                })
            }
            Call::Unknown => return None,
        })
    }
}

/// A cast narrows first, then promotes.
fn cast(bits: u64, size: u32, signed: bool) -> Int {
    Int::promoted(bits, size, signed)
}

fn first_bytes_of<'a>(region: &Region<'a>, count: u64, element_size: u64) -> &'a [u8] {
    let bytes = usize::try_from(count.saturating_mul(element_size)).unwrap_or(usize::MAX);
    &region.bytes[..bytes.min(region.bytes.len())]
}

fn flag_names(mut value: u64, delimiter: &[u8], names: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut add = |part: &[u8]| {
        if !text.is_empty() {
            text.extend_from_slice(delimiter);
        }
        text.extend_from_slice(part);
    };
    for (mask, name) in names {
        if value == 0 {
            break;
        }
        if value & mask == *mask {
            value &= !mask;
            add(name);
        }
    }
    if value != 0 {
        add(format!("{value:#x}").as_bytes());
    }
    text
}

fn symbol(value: u64, names: &[(u64, Vec<u8>)]) -> Vec<u8> {
    // A value may have been widened from 32 bits with another sign than the list's.
    match names.iter().find(|(number, _)| *number == value || u64::from(*number as u32) == value) {
        Some((_, name)) => name.clone(),
        None => format!("{value:#x}").into_bytes(),
    }
}

pub(super) fn hex(bytes: &[u8], separator: &str) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = Vec::with_capacity(bytes.len() * (2 + separator.len()));
    for (at, byte) in bytes.iter().enumerate() {
        if at > 0 {
            text.extend_from_slice(separator.as_bytes());
        }
        text.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    text
}

fn array(bytes: &[u8], element_size: u64, endian: Endian) -> Option<Vec<u8>> {
    if !matches!(element_size, 1 | 2 | 4 | 8) {
        return None;
    }
    let mut text = vec![b'{'];
    for (at, element) in bytes.chunks_exact(element_size as usize).enumerate() {
        let value = endian.unsigned(element, element_size as usize)?;
        let comma = if at > 0 { "," } else { "" };
        text.extend_from_slice(format!("{comma}{value:#x}").as_bytes());
    }
    text.push(b'}');
    Some(text)
}

/// As the kernel's `%*pb`: groups of 32 bits, the highest first.
fn bitmask(bytes: &[u8], endian: Endian) -> Vec<u8> {
    let words: Vec<u32> = match endian {
        Endian::Little => {
            bytes.chunks(4).map(|c| c.iter().rev().fold(0, |v, &b| v << 8 | u32::from(b))).collect()
        }
        // An array of longs: within each the halves are the other way round.
        Endian::Big => bytes
            .chunks(8)
            .flat_map(|long| {
                let mut halves: Vec<u32> =
                    long.chunks(4).map(|c| c.iter().fold(0, |v, &b| v << 8 | u32::from(b))).collect();
                halves.reverse();
                halves
            })
            .collect(),
    };
    let mut text = Vec::new();
    for (at, word) in words.iter().rev().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        text.extend_from_slice(format!("{comma}{word:08x}").as_bytes());
    }
    text
}
