//! Values of C expressions over a record.

use super::{BytesPlan, Field, FieldShape};
use crate::Endian;

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Int(Int),
    /// Bytes in the record (an array, or what a pointer points to).
    Region(Region<'a>),
    /// Text made by a function or written in the format.
    Text(Vec<u8>),
}

/// An integer with its C type after promotion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Int {
    /// Sign- or zero-extended from its width.
    pub(super) bits: u64,
    pub(super) unsigned: bool,
    /// 64 bits wide, 32 otherwise.
    pub(super) wide: bool,
}

/// Bytes of a record with the type of their elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) element_size: u32,
    pub(super) signed: bool,
}

impl Int {
    pub(super) fn new(bits: u64, unsigned: bool, wide: bool) -> Int {
        let bits = match (wide, unsigned) {
            (true, _) => bits,
            (false, true) => u64::from(bits as u32),
            (false, false) => bits as i32 as i64 as u64,
        };
        Int { bits, unsigned, wide }
    }

    pub(super) fn truth(value: bool) -> Int {
        Int::new(u64::from(value), false, false)
    }

    /// Of an integer `size` bytes wide, promoted as C does: what is narrower than `int`
    /// becomes `int`.
    pub(super) fn promoted(bits: u64, size: u32, signed: bool) -> Int {
        match size {
            8 => Int::new(bits, !signed, true),
            4 => Int::new(bits, !signed, false),
            2 => Int::new(if signed { bits as i16 as u64 } else { bits & 0xffff }, false, false),
            _ => Int::new(if signed { bits as i8 as u64 } else { bits & 0xff }, false, false),
        }
    }

    /// `self OP other` with C's usual conversions; `None` for a division by zero.
    pub(super) fn binary(self, op: &str, other: Int) -> Option<Int> {
        // Shifts have the type of their left side alone.
        if op == "<<" || op == ">>" {
            let width = if self.wide { 64 } else { 32 };
            let by = (other.bits % width) as u32;
            let bits = match (op, self.unsigned) {
                ("<<", _) => self.bits << by,
                (_, true) => self.bits >> by,
                (_, false) => ((self.bits as i64) >> by) as u64,
            };
            return Some(Int::new(bits, self.unsigned, self.wide));
        }
        let wide = self.wide || other.wide;
        let unsigned = self.unsigned && (self.wide || !wide) || other.unsigned && (other.wide || !wide);
        let a = Int::new(self.bits, unsigned, wide);
        let b = Int::new(other.bits, unsigned, wide);
        let order = if unsigned { a.bits.cmp(&b.bits) } else { (a.bits as i64).cmp(&(b.bits as i64)) };
        let bits = match op {
            "+" => a.bits.wrapping_add(b.bits),
            "-" => a.bits.wrapping_sub(b.bits),
            "*" => a.bits.wrapping_mul(b.bits),
            "/" if unsigned => a.bits.checked_div(b.bits)?,
            "%" if unsigned => a.bits.checked_rem(b.bits)?,
            "/" if b.bits != 0 => (a.bits as i64).wrapping_div(b.bits as i64) as u64,
            "%" if b.bits != 0 => (a.bits as i64).wrapping_rem(b.bits as i64) as u64,
            "&" => a.bits & b.bits,
            "|" => a.bits | b.bits,
            "^" => a.bits ^ b.bits,
            "<" => return Some(Int::truth(order.is_lt())),
            ">" => return Some(Int::truth(order.is_gt())),
            "<=" => return Some(Int::truth(order.is_le())),
            ">=" => return Some(Int::truth(order.is_ge())),
            "==" => return Some(Int::truth(order.is_eq())),
            "!=" => return Some(Int::truth(order.is_ne())),
            "&&" => return Some(Int::truth(a.bits != 0 && b.bits != 0)),
            "||" => return Some(Int::truth(a.bits != 0 || b.bits != 0)),
            _ => return None,
        };
        Some(Int::new(bits, unsigned, wide))
    }
}

impl Field {
    /// The field's value in `record`.
    pub(super) fn value<'a>(&self, record: &'a [u8], endian: Endian, long_size: u8) -> Option<Value<'a>> {
        if self.shape == FieldShape::Scalar && matches!(self.size, 1 | 2 | 4 | 8) {
            let bytes = record.get(self.offset as usize..)?;
            let bits = endian.integer(bytes, self.size as usize, self.signed)?;
            return Some(Value::Int(Int::promoted(bits, self.size, self.signed)));
        }
        let bytes = BytesPlan::new(self, endian).bytes(record)?;
        let element_size = if self.shape == FieldShape::Scalar { 1 } else { self.element_size(long_size) };
        Some(Value::Region(Region { bytes, element_size, signed: self.signed }))
    }
}

impl<'a> Region<'a> {
    /// Element `index`, as an integer.
    pub(super) fn element(&self, index: u64, endian: Endian) -> Option<Int> {
        let start = usize::try_from(index).ok()?.checked_mul(self.element_size as usize)?;
        let bits = endian.integer(self.bytes.get(start..)?, self.element_size as usize, self.signed)?;
        Some(Int::promoted(bits, self.element_size, self.signed))
    }

    /// The bytes up to the first NUL.
    pub(super) fn text(&self) -> &'a [u8] {
        &self.bytes[..self.bytes.iter().position(|&b| b == 0).unwrap_or(self.bytes.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_follows_c() {
        let int = |v: i64| Int::new(v as u64, false, false);
        let unsigned = |v: u32| Int::new(u64::from(v), true, false);
        let long = |v: i64| Int::new(v as u64, false, true);
        assert_eq!(int(-1).binary("<", unsigned(1)), Some(Int::truth(false)), "int becomes unsigned");
        assert_eq!(long(-1).binary("<", unsigned(1)), Some(Int::truth(true)), "unsigned becomes long");
        assert_eq!(unsigned(0).binary("-", unsigned(1)).unwrap().bits, 0xffff_ffff);
        assert_eq!(int(i64::from(i32::MIN)).binary("/", int(-1)).unwrap().bits, i32::MIN as i64 as u64);
        assert_eq!(long(i64::MIN).binary("%", long(-1)).unwrap().bits, 0);
        assert_eq!(int(1).binary("/", int(0)), None);
        assert_eq!(int(1).binary("<<", int(40)).unwrap().bits, 256, "as the machine shifts");
        assert_eq!(Int::promoted(0xff, 1, true).bits, u64::MAX);
    }
}
