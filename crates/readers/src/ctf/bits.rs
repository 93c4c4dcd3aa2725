//! Fields out of the bits of a packet.

use super::types::{Int, Type};

/// A packet's bytes and a position in bits.
pub(super) struct Bits<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: u64,
    /// First bit behind the content.
    pub(super) end: u64,
}

impl Bits<'_> {
    pub(super) fn align(&mut self, align: u32) {
        self.at = self.at.next_multiple_of(u64::from(align.max(1)));
    }

    fn take(&mut self, size: u64) -> Option<u64> {
        let start = self.at;
        let end = start.checked_add(size)?;
        if end > self.end {
            return None;
        }
        self.at = end;
        Some(start)
    }

    pub(super) fn int(&mut self, int: &Int) -> Option<u64> {
        self.align(int.align);
        let start = self.take(u64::from(int.size))?;
        let raw = raw(self.bytes, start, int.size, int.big)?;
        let unused = 64 - int.size;
        Some(if int.signed { (((raw << unused) as i64) >> unused) as u64 } else { raw })
    }

    /// Bytes up to a NUL, which is taken too.
    pub(super) fn text(&mut self) -> Option<(usize, usize)> {
        self.align(8);
        let start = (self.at / 8) as usize;
        let limit = ((self.end / 8) as usize).min(self.bytes.len());
        let length = self.bytes.get(start..limit)?.iter().position(|&b| b == 0)?;
        self.at += 8 * (length as u64 + 1);
        Some((start, start + length))
    }

    /// `count` whole bytes.
    pub(super) fn bytes(&mut self, count: u64) -> Option<(usize, usize)> {
        self.align(8);
        let start = self.take(count.checked_mul(8)?)?;
        Some(((start / 8) as usize, (start / 8) as usize + count as usize))
    }
}

/// `size` bits from `start`: from the lowest bit of each byte (little endian), or from the
/// highest.
fn raw(bytes: &[u8], start: u64, size: u32, big: bool) -> Option<u64> {
    let first = (start / 8) as usize;
    let shift = (start % 8) as u32;
    let count = (shift + size).div_ceil(8) as usize;
    let bytes = bytes.get(first..first + count)?;
    // Up to nine bytes.
    let mut value = 0u128;
    if big {
        for &byte in bytes {
            value = value << 8 | u128::from(byte);
        }
        value >>= 8 * count as u32 - shift - size;
    } else {
        for (at, &byte) in bytes.iter().enumerate() {
            value |= u128::from(byte) << (8 * at);
        }
        value >>= shift;
    }
    let mask = if size == 64 { u64::MAX } else { (1 << size) - 1 };
    Some(value as u64 & mask)
}

/// Takes what a field holds.
pub(super) trait Taker {
    /// An integer (also of an enum); `signed` says how to read it.
    fn int(&mut self, name: &str, value: u64, int: &Int);
    /// Bits of a floating point number.
    fn float(&mut self, name: &str, value: u64);
    /// Text: where in the packet's bytes.
    fn text(&mut self, name: &str, bytes: (usize, usize));
    /// An array (or a variant) begins; its elements follow until `end_array`.
    fn array(&mut self, name: &str);
    /// See `array`.
    fn end_array(&mut self);
}

/// Integers seen so far by name, for lengths and tags.
#[derive(Default)]
pub(super) struct Seen<'t> {
    values: Vec<(&'t str, i128, Option<&'t str>)>,
}

impl<'t> Seen<'t> {
    pub(super) fn clear(&mut self) {
        self.values.clear();
    }

    pub(super) fn last(&self, name: &str) -> Option<i128> {
        self.values.iter().rev().find(|(known, ..)| *known == name).map(|(_, value, _)| *value)
    }

    fn label(&self, name: &str) -> Option<&'t str> {
        self.values.iter().rev().find(|(known, ..)| *known == name).and_then(|(.., label)| *label)
    }

    fn push(&mut self, name: &'t str, value: i128, label: Option<&'t str>) {
        self.values.push((name, value, label));
    }
}

/// Reads a field of any type; `None` when it reaches beyond the content or its length or
/// tag cannot be had.
pub(super) fn read<'t>(
    bits: &mut Bits<'_>,
    name: &'t str,
    kind: &'t Type,
    seen: &mut Seen<'t>,
    taker: &mut dyn Taker,
) -> Option<()> {
    match kind {
        Type::Int(int) => {
            let value = bits.int(int)?;
            seen.push(name, wide(value, int), None);
            taker.int(name, value, int);
        }
        Type::Enum { int, labels } => {
            let value = bits.int(int)?;
            let number = wide(value, int);
            let label = labels.iter().find(|(_, low, high)| (*low..=*high).contains(&number));
            seen.push(name, number, label.map(|(label, ..)| label.as_str()));
            taker.int(name, value, int);
        }
        Type::Float { size, align, big } => {
            bits.align(*align);
            let start = bits.take(u64::from(*size))?;
            taker.float(name, raw(bits.bytes, start, *size, *big)?);
        }
        Type::Text => {
            let place = bits.text()?;
            taker.text(name, place);
        }
        Type::Struct(structure) => {
            bits.align(structure.align);
            for (name, kind) in &structure.fields {
                read(bits, name, kind, seen, taker)?;
            }
        }
        Type::Variant { tag, options } => {
            let label = seen.label(tag)?;
            let (name, kind) =
                options.iter().find(|(name, _)| name == label || name.trim_start_matches('_') == label)?;
            // What it holds differs from record to record, as an array's elements do.
            taker.array(name);
            read(bits, name, kind, seen, taker)?;
            taker.end_array();
        }
        Type::Array { element, length } => elements(bits, name, element, *length, seen, taker)?,
        Type::Sequence { element, length } => {
            let length = u64::try_from(seen.last(length)?).ok()?;
            elements(bits, name, element, length, seen, taker)?;
        }
    }
    Some(())
}

fn elements<'t>(
    bits: &mut Bits<'_>,
    name: &'t str,
    element: &'t Type,
    length: u64,
    seen: &mut Seen<'t>,
    taker: &mut dyn Taker,
) -> Option<()> {
    if element.is_text_element() {
        let place = bits.bytes(length)?;
        taker.text(name, place);
        return Some(());
    }
    // An array is aligned as its elements are, also an empty one.
    bits.align(element.align());
    // No more elements than there are bits, so that empty ones cannot loop for ever.
    let left = bits.end.saturating_sub(bits.at);
    if length > left && length > 0 {
        return None;
    }
    taker.array(name);
    let known = seen.values.len();
    for _ in 0..length {
        read(bits, name, element, seen, taker)?;
        seen.values.truncate(known);
    }
    taker.end_array();
    Some(())
}

fn wide(value: u64, int: &Int) -> i128 {
    if int.signed { i128::from(value as i64) } else { i128::from(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_both_orders() {
        let bytes = [0b1010_0110, 0b1100_0001, 0xff, 0x01, 2, 3, 4, 5, 6];
        assert_eq!(raw(&bytes, 0, 5, false), Some(0b0_0110));
        assert_eq!(raw(&bytes, 5, 6, false), Some(0b00_1101), "three bits here, three there");
        assert_eq!(raw(&bytes, 0, 5, true), Some(0b1_0100));
        assert_eq!(raw(&bytes, 5, 6, true), Some(0b11_0110));
        assert_eq!(raw(&bytes, 4, 64, false).map(|v| v & 0xff), Some(0b0001_1010));
        assert_eq!(raw(&bytes, 9, 64, true), None);
        assert_eq!(raw(&bytes, 16, 16, true), Some(0xff01));
        let mut bits = Bits { bytes: &bytes, at: 0, end: 16 };
        let int = Int { size: 5, align: 1, signed: true, big: true, text: false, clock: false };
        assert_eq!(bits.int(&int), Some(-12i64 as u64));
        bits.at = 12;
        assert_eq!(bits.int(&int), None, "beyond the content");
    }
}
