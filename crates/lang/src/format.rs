//! `printf` formats, taken apart once at compile time so that printing only walks pieces.

/// A format: literal bytes and places for arguments, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Hash)]
pub struct Format {
    /// Pieces in order; each `Value` takes the next argument.
    pub pieces: Vec<Piece>,
}

/// A part of a format.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum Piece {
    /// Bytes as they are (`%%` is already `%`).
    Text(Vec<u8>),
    /// The next argument.
    Value(Spec),
}

/// How an argument prints: `%[flags][width][.precision][length]conversion`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct Spec {
    /// `-`: to the left.
    pub left: bool,
    /// `0`: padded with zeros.
    pub zero: bool,
    /// `+`: sign also for positive numbers.
    pub plus: bool,
    /// ` `: a space in place of a plus.
    pub space: bool,
    /// `#`: with `0x`.
    pub alternate: bool,
    /// `'`: thousands separators.
    pub group: bool,
    /// Least number of characters.
    pub width: Option<u32>,
    /// Most characters of a string, least digits of a number.
    pub precision: Option<u32>,
    /// Width of the integer that is printed: `hh` 1, `h` 2, none 0, `l`, `ll`, `j`, `z`, `t` 8.
    pub length: u8,
    /// What is printed.
    pub conversion: Conversion,
}

/// What a conversion character asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum Conversion {
    /// `%d`, `%i`
    #[default]
    Signed,
    /// `%u`
    Unsigned,
    /// `%x`
    Hex,
    /// `%X`
    HexUpper,
    /// `%o`
    Octal,
    /// `%c`
    Character,
    /// `%p`
    Pointer,
    /// `%s`
    String,
    /// `%r`: bytes, those that cannot be printed as `\xNN`
    Bytes,
    /// `%rx`: bytes, all as `\xNN`
    BytesEscaped,
    /// `%rh`: bytes as hex with spaces
    BytesHex,
    /// `%gr`: GFP flags by name
    GfpFlags,
}

impl Format {
    /// Takes a format apart. An error says what is wrong and at which byte of the format.
    pub fn parse(text: &[u8]) -> Result<Format, (usize, String)> {
        let mut pieces = Vec::new();
        let mut literal = Vec::new();
        let mut at = 0;
        while at < text.len() {
            if text[at] != b'%' {
                literal.push(text[at]);
                at += 1;
                continue;
            }
            let start = at;
            at += 1;
            if text.get(at) == Some(&b'%') {
                literal.push(b'%');
                at += 1;
                continue;
            }
            let (spec, next) = parse_spec(text, at).map_err(|why| (start, why))?;
            at = next;
            if !literal.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut literal)));
            }
            pieces.push(Piece::Value(spec));
        }
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        Ok(Format { pieces })
    }

    /// The argument places in order.
    pub fn specs(&self) -> impl Iterator<Item = &Spec> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Value(spec) => Some(spec),
            Piece::Text(_) => None,
        })
    }
}

fn parse_spec(text: &[u8], mut at: usize) -> Result<(Spec, usize), String> {
    let mut spec = Spec::default();
    loop {
        match text.get(at) {
            Some(b'-') => spec.left = true,
            Some(b'0') => spec.zero = true,
            Some(b'+') => spec.plus = true,
            Some(b' ') => spec.space = true,
            Some(b'#') => spec.alternate = true,
            Some(b'\'') => spec.group = true,
            _ => break,
        }
        at += 1;
    }
    (spec.width, at) = number(text, at)?;
    if text.get(at) == Some(&b'.') {
        (spec.precision, at) = number(text, at + 1)?;
        spec.precision = spec.precision.or(Some(0));
    }
    let lengths: [(&[u8], u8); 7] =
        [(b"hh", 1), (b"h", 2), (b"ll", 8), (b"l", 8), (b"j", 8), (b"z", 8), (b"t", 8)];
    if let Some((name, length)) = lengths.iter().find(|(name, _)| text[at..].starts_with(name)) {
        spec.length = *length;
        at += name.len();
    }
    let conversions: [(&[u8], Conversion); 13] = [
        (b"rx", Conversion::BytesEscaped),
        (b"rh", Conversion::BytesHex),
        (b"r", Conversion::Bytes),
        (b"gr", Conversion::GfpFlags),
        (b"d", Conversion::Signed),
        (b"i", Conversion::Signed),
        (b"u", Conversion::Unsigned),
        (b"x", Conversion::Hex),
        (b"X", Conversion::HexUpper),
        (b"o", Conversion::Octal),
        (b"c", Conversion::Character),
        (b"p", Conversion::Pointer),
        (b"s", Conversion::String),
    ];
    match conversions.iter().find(|(name, _)| text[at..].starts_with(name)) {
        Some((name, conversion)) => {
            spec.conversion = *conversion;
            Ok((spec, at + name.len()))
        }
        None => Err(match text.get(at) {
            Some(byte) => format!("'%{}' is not a conversion", char::from(*byte)),
            None => "the format ends after '%'".into(),
        }),
    }
}

fn number(text: &[u8], mut at: usize) -> Result<(Option<u32>, usize), String> {
    let mut value = None;
    while let Some(digit) = text.get(at).filter(|byte| byte.is_ascii_digit()) {
        let next = value.unwrap_or(0u32) * 10 + u32::from(digit - b'0');
        // Padding is made in memory: a width of a billion would take a gigabyte.
        if next > 4096 {
            return Err("a width or precision over 4096".into());
        }
        value = Some(next);
        at += 1;
    }
    Ok((value, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_taken_apart() {
        let format = Format::parse(b"%-6d 100%% %.3s%llx\n").unwrap();
        let value = |spec| Piece::Value(spec);
        assert_eq!(
            format.pieces,
            [
                value(Spec { left: true, width: Some(6), ..Spec::default() }),
                Piece::Text(b" 100% ".to_vec()),
                value(Spec { precision: Some(3), conversion: Conversion::String, ..Spec::default() }),
                value(Spec { length: 8, conversion: Conversion::Hex, ..Spec::default() }),
                Piece::Text(b"\n".to_vec()),
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        assert_eq!(Format::parse(b"a%y"), Err((1, "'%y' is not a conversion".into())));
        assert_eq!(Format::parse(b"ab%"), Err((2, "the format ends after '%'".into())));
        assert!(Format::parse(b"%99999999999d").is_err());
    }
}
