//! `printf` format texts, with the kernel's own `%p…` conversions.

use super::{
    evaluate::hex,
    lookup::PrintLookup,
    value::{Int, Region, Value},
};
use crate::Endian;

/// A format text, split.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Template {
    pub(super) pieces: Vec<Piece>,
    /// Text after the last conversion.
    pub(super) tail: Vec<u8>,
}

/// Text and the conversion behind it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) literal: Vec<u8>,
    pub(super) conversion: Conversion,
}

/// One conversion, such as `%-16s`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Conversion {
    left: bool,
    plus: bool,
    space: bool,
    alternative: bool,
    zero: bool,
    pub(super) width: Amount,
    pub(super) precision: Amount,
    pub(super) length: Length,
    pub(super) kind: u8,
    /// What follows `%p`: `I4`, `MF`, …
    extension: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Amount {
    None,
    Fixed(u32),
    /// `*`: an argument gives it.
    Argument,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Byte,
    Short,
    Int,
    /// The traced machine's `long`, `size_t`, `ptrdiff_t`.
    Long,
    LongLong,
}

/// Wider fields than this are cut: a width can come from a record.
const WIDEST: usize = 512;

impl Conversion {
    fn plain(kind: u8) -> Conversion {
        Conversion {
            left: false,
            plus: false,
            space: false,
            alternative: false,
            zero: false,
            width: Amount::None,
            precision: Amount::None,
            length: Length::Int,
            kind,
            extension: String::new(),
        }
    }
}

impl Template {
    /// Splits a format text. What is no conversion stays as text.
    pub(super) fn parse(text: &[u8]) -> Template {
        let mut template = Template::default();
        let mut literal = Vec::new();
        let mut at = 0;
        while at < text.len() {
            if text[at] != b'%' {
                literal.push(text[at]);
                at += 1;
            } else if text.get(at + 1) == Some(&b'%') {
                literal.push(b'%');
                at += 2;
            } else if let Some((conversion, length)) = conversion(&text[at + 1..]) {
                template.pieces.push(Piece { literal: std::mem::take(&mut literal), conversion });
                at += 1 + length;
            } else {
                literal.push(b'%');
                at += 1;
            }
        }
        template.tail = literal;
        template
    }
}

fn conversion(text: &[u8]) -> Option<(Conversion, usize)> {
    let mut found = Conversion::plain(0);
    let mut at = 0;
    loop {
        match *text.get(at)? {
            b'-' => found.left = true,
            b'+' => found.plus = true,
            b' ' => found.space = true,
            b'#' => found.alternative = true,
            b'0' => found.zero = true,
            _ => break,
        }
        at += 1;
    }
    let amount = |at: &mut usize| -> Amount {
        if text.get(*at) == Some(&b'*') {
            *at += 1;
            return Amount::Argument;
        }
        let digits = text[*at..].iter().take_while(|b| b.is_ascii_digit()).count();
        let value = text[*at..*at + digits]
            .iter()
            .fold(0u32, |v, d| v.saturating_mul(10).saturating_add(u32::from(d - b'0')));
        *at += digits;
        if digits == 0 { Amount::None } else { Amount::Fixed(value) }
    };
    found.width = amount(&mut at);
    if text.get(at) == Some(&b'.') {
        at += 1;
        found.precision = match amount(&mut at) {
            Amount::None => Amount::Fixed(0),
            other => other,
        };
    }
    loop {
        found.length = match (*text.get(at)?, found.length) {
            (b'h', Length::Short) => Length::Byte,
            (b'h', _) => Length::Short,
            (b'l', Length::Long) => Length::LongLong,
            (b'l' | b'z' | b'Z' | b't', _) => Length::Long,
            (b'L' | b'q' | b'j', _) => Length::LongLong,
            _ => break,
        };
        at += 1;
    }
    found.kind = *text.get(at)?;
    at += 1;
    match found.kind {
        b'd' | b'i' | b'u' | b'x' | b'X' | b'o' | b'c' | b's' => {}
        b'p' => {
            let letters = text[at..].iter().take_while(|b| b.is_ascii_alphanumeric()).count();
            let taken = extension_length(&text[at..at + letters]);
            found.extension = String::from_utf8_lossy(&text[at..at + taken]).into_owned();
            at += taken;
        }
        _ => return None,
    }
    Some((found, at))
}

/// How many of the letters after `%p` belong to it.
fn extension_length(letters: &[u8]) -> usize {
    let count = |belongs: &[u8], from: usize| {
        letters.get(from..).map_or(0, |rest| rest.iter().take_while(|b| belongs.contains(b)).count())
    };
    match letters.first() {
        Some(b'S' | b's' | b'B') => 1 + count(b"bR", 1),
        Some(b'F' | b'f' | b'K' | b'x' | b'e' | b'V' | b'd' | b'D') => 1,
        Some(b'I' | b'i') => match letters.get(1) {
            Some(b'4') => 2 + count(b"hnbl", 2).min(1),
            Some(b'6') => 2 + count(b"c", 2).min(1),
            Some(b'S') => 2 + count(b"pfschnbl", 2),
            _ => 0,
        },
        Some(b'M' | b'm') => 1 + count(b"FR", 1).min(2),
        Some(b'U') => 1 + count(b"bBlL", 1).min(1),
        Some(b'h') => 1 + count(b"CDN", 1).min(1),
        Some(b'a') => 1 + count(b"dp", 1).min(1),
        Some(b'b') => 1 + count(b"l", 1).min(1),
        _ => 0,
    }
}

/// What conversions need to know besides their value.
pub(super) struct Setting<'a> {
    pub(super) endian: Endian,
    pub(super) long_size: u8,
    pub(super) lookup: &'a dyn PrintLookup,
}

impl Conversion {
    /// Appends `value` as this conversion prints it. `width` and `precision` are the
    /// values of `*`. `false` when the value is of the wrong kind.
    pub(super) fn print(
        &self,
        out: &mut Vec<u8>,
        value: &Value<'_>,
        width: Option<i64>,
        precision: Option<i64>,
        setting: &Setting<'_>,
    ) -> bool {
        let mut left = self.left;
        let width = match self.width {
            Amount::None => 0,
            Amount::Fixed(width) => width as usize,
            Amount::Argument => {
                let width = width.unwrap_or(0);
                left |= width < 0;
                width.unsigned_abs() as usize
            }
        };
        let precision = match self.precision {
            Amount::None => None,
            Amount::Fixed(precision) => Some(precision as usize),
            Amount::Argument => precision.and_then(|p| usize::try_from(p).ok()),
        };
        let body: Vec<u8> = match self.kind {
            b's' => {
                let text: &[u8] = match value {
                    Value::Text(text) => text,
                    Value::Region(region) => region.text(),
                    // A pointer to text elsewhere in the kernel: the address is all there is.
                    Value::Int(int) => {
                        match setting.lookup.string_at(int.bits) {
                            Some(text) => pad(out, text.as_bytes(), width, left),
                            None if int.bits == 0 => pad(out, b"(null)", width, left),
                            None => pad(out, format!("{:#x}", int.bits).as_bytes(), width, left),
                        }
                        return true;
                    }
                };
                text[..text.len().min(precision.unwrap_or(usize::MAX))].to_vec()
            }
            b'c' => match value {
                Value::Int(int) => vec![int.bits as u8],
                _ => return false,
            },
            b'p' => match self.pointer(value, width, setting) {
                Some(text) => text,
                None => return false,
            },
            _ => match value {
                Value::Int(int) => self.integer(*int, precision, width, left, setting.long_size),
                // An array where a number is printed: its address, which the trace has not.
                Value::Region(_) | Value::Text(_) => return false,
            },
        };
        // `%*ph` takes its width as a count of bytes.
        let width = if self.kind == b'p' && self.extension.starts_with(['h', 'b']) { 0 } else { width };
        pad(out, &body, width, left);
        true
    }

    fn integer(
        &self,
        int: Int,
        precision: Option<usize>,
        width: usize,
        left: bool,
        long_size: u8,
    ) -> Vec<u8> {
        let size = match self.length {
            Length::Byte => 1,
            Length::Short => 2,
            Length::Int => 4,
            Length::Long => u32::from(long_size),
            Length::LongLong => 8,
        };
        let unused = 64 - 8 * size.min(8);
        let (negative, digits, prefix) = if matches!(self.kind, b'd' | b'i') {
            let value = ((int.bits << unused) as i64) >> unused;
            (value < 0, value.unsigned_abs().to_string(), "")
        } else {
            let value = (int.bits << unused) >> unused;
            let prefix = if self.alternative && value != 0 { self.kind } else { 0 };
            match self.kind {
                b'x' => (false, format!("{value:x}"), if prefix == 0 { "" } else { "0x" }),
                b'X' => (false, format!("{value:X}"), if prefix == 0 { "" } else { "0X" }),
                b'o' => (false, format!("{value:o}"), if prefix == 0 { "" } else { "0" }),
                _ => (false, value.to_string(), ""),
            }
        };
        let sign = match (negative, self.kind) {
            (true, _) => "-",
            (false, b'd' | b'i') if self.plus => "+",
            (false, b'd' | b'i') if self.space => " ",
            _ => "",
        };
        let mut least = precision.unwrap_or(1).min(WIDEST);
        if precision.is_none() && self.zero && !left {
            least = width.min(WIDEST).saturating_sub(sign.len() + prefix.len());
        }
        let zeros = least.saturating_sub(digits.len());
        let mut text = Vec::with_capacity(sign.len() + prefix.len() + zeros + digits.len());
        text.extend_from_slice(sign.as_bytes());
        text.extend_from_slice(prefix.as_bytes());
        text.resize(text.len() + zeros, b'0');
        text.extend_from_slice(digits.as_bytes());
        text
    }

    fn pointer(&self, value: &Value<'_>, width: usize, setting: &Setting<'_>) -> Option<Vec<u8>> {
        let extension = self.extension.as_bytes();
        let text = match (extension, value) {
            ([b'S' | b's' | b'F' | b'f' | b'B', ..], Value::Int(int)) => {
                let with_offset = matches!(extension[0], b'S' | b'F' | b'B');
                match setting.lookup.symbol(int.bits) {
                    Some((name, offset)) if with_offset => format!("{name}+{offset:#x}"),
                    Some((name, _)) => name,
                    None => format!("{:#x}", int.bits),
                }
            }
            ([b'e', ..], Value::Int(int)) => format!("{}", int.bits as i32),
            ([b'I' | b'i', b'4', ..], value) => {
                let bytes = bytes_of(value, 4, setting.endian)?;
                bytes.iter().map(|b| b.to_string()).collect::<Vec<_>>().join(".")
            }
            ([b'I', b'6', b'c', ..], value) => ipv6(&bytes_of(value, 16, setting.endian)?)?,
            ([b'I' | b'i', b'6', ..], value) => {
                let separator = if extension[0] == b'I' { ":" } else { "" };
                let bytes = bytes_of(value, 16, setting.endian)?;
                bytes
                    .chunks(2)
                    .map(|c| format!("{:02x}{:02x}", c[0], c[1]))
                    .collect::<Vec<_>>()
                    .join(separator)
            }
            ([b'I' | b'i', b'S', flags @ ..], Value::Region(region)) => {
                socket_address(region.bytes, flags.contains(&b'p'), setting.endian)?
            }
            ([b'M', ..], value) => {
                let separator = if extension.contains(&b'F') { "-" } else { ":" };
                return Some(hex(&bytes_of(value, 6, setting.endian)?, separator));
            }
            ([b'm', ..], value) => return Some(hex(&bytes_of(value, 6, setting.endian)?, "")),
            ([b'U', flags @ ..], value) => {
                uuid(&bytes_of(value, 16, setting.endian)?, flags.first().copied().unwrap_or(b'b'))?
            }
            ([b'h', flags @ ..], Value::Region(region)) => {
                let separator = match flags.first() {
                    Some(b'C') => ":",
                    Some(b'D') => "-",
                    Some(b'N') => "",
                    _ => " ",
                };
                // Kernel: at most 64 bytes.
                return Some(hex(&region.bytes[..region.bytes.len().min(width).min(64)], separator));
            }
            ([b'a', ..], Value::Region(region)) => {
                let size = region.bytes.len().min(8);
                format!("{:#0width$x}", setting.endian.unsigned(region.bytes, size)?, width = 2 + 2 * size)
            }
            (_, Value::Int(Int { bits: 0, .. })) => "(nil)".to_owned(),
            (_, Value::Int(int)) => format!("{:#x}", int.bits),
            // `%p` of an array: the address is not in the trace.
            (_, Value::Region(_) | Value::Text(_)) => return None,
        };
        Some(text.into_bytes())
    }
}

fn pad(out: &mut Vec<u8>, body: &[u8], width: usize, left: bool) {
    let spaces = width.min(WIDEST).saturating_sub(body.len());
    if !left {
        out.resize(out.len() + spaces, b' ');
    }
    out.extend_from_slice(body);
    if left {
        out.resize(out.len() + spaces, b' ');
    }
}

/// The first `count` bytes of an array, or those of an integer passed by value.
fn bytes_of(value: &Value<'_>, count: usize, endian: Endian) -> Option<Vec<u8>> {
    match value {
        Value::Region(Region { bytes, .. }) => Some(bytes.get(..count)?.to_vec()),
        Value::Int(int) if count <= 8 => Some(match endian {
            Endian::Little => int.bits.to_le_bytes()[..count].to_vec(),
            Endian::Big => int.bits.to_be_bytes()[8 - count..].to_vec(),
        }),
        _ => None,
    }
}

fn ipv6(bytes: &[u8]) -> Option<String> {
    let address: [u8; 16] = *bytes.first_chunk()?;
    Some(std::net::Ipv6Addr::from(address).to_string())
}

fn socket_address(bytes: &[u8], with_port: bool, endian: Endian) -> Option<String> {
    let family = endian.unsigned(bytes, 2)?;
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    match family {
        2 => {
            let address: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
            let address = std::net::Ipv4Addr::from(address);
            Some(if with_port { format!("{address}:{port}") } else { address.to_string() })
        }
        10 => {
            let address = ipv6(bytes.get(8..)?)?;
            Some(if with_port { format!("[{address}]:{port}") } else { address })
        }
        _ => Some(format!("(family {family})")),
    }
}

fn uuid(bytes: &[u8], flag: u8) -> Option<String> {
    let mut bytes: [u8; 16] = *bytes.first_chunk()?;
    if flag.eq_ignore_ascii_case(&b'l') {
        bytes[0..4].reverse();
        bytes[4..6].reverse();
        bytes[6..8].reverse();
    }
    let text = String::from_utf8(hex(&bytes, "")).ok()?;
    let text = format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]);
    Some(if flag.is_ascii_uppercase() { text.to_ascii_uppercase() } else { text })
}
