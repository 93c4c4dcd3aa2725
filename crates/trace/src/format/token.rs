//! The tokens of C declarations and expressions.

/// One token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A name or keyword.
    Word(&'a str),
    /// An integer or character constant.
    Number { value: u64, unsigned: bool, long: bool },
    /// A string constant, escapes resolved.
    Text(Vec<u8>),
    /// An operator or bracket.
    Mark(&'static str),
}

/// Longest first, so that the first that fits is the right one.
const MARKS: &[&str] = &[
    "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "->", "(", ")", "[", "]", "{", "}", ",", "?", ":", "+",
    "-", "*", "/", "%", "&", "|", "^", "~", "!", "<", ">", "=", ";", ".",
];

/// Splits `text`; `Err` with the byte offset of what no token begins with.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, usize> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte.is_ascii_whitespace() {
            at += 1;
        } else if byte.is_ascii_alphabetic() || byte == b'_' {
            let end = at + length_of(&bytes[at..], |b| b.is_ascii_alphanumeric() || b == b'_');
            found.push(Token::Word(&text[at..end]));
            at = end;
        } else if byte.is_ascii_digit() {
            let end = at + length_of(&bytes[at..], |b| b.is_ascii_alphanumeric());
            found.push(number(&text[at..end]).ok_or(at)?);
            at = end;
        } else if byte == b'"' {
            let (value, length) = quoted(&bytes[at..], b'"').ok_or(at)?;
            found.push(Token::Text(value));
            at += length;
        } else if byte == b'\'' {
            let (value, length) = quoted(&bytes[at..], b'\'').ok_or(at)?;
            let value = value.first().map_or(0, |&b| u64::from(b));
            found.push(Token::Number { value, unsigned: false, long: false });
            at += length;
        } else {
            let mark = MARKS.iter().find(|mark| bytes[at..].starts_with(mark.as_bytes())).ok_or(at)?;
            found.push(Token::Mark(mark));
            at += mark.len();
        }
    }
    Ok(found)
}

fn length_of(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|&b| !belongs(b)).unwrap_or(bytes.len())
}

fn number(text: &str) -> Option<Token<'static>> {
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    let suffix = &text[digits.len()..];
    let value = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => u64::from_str_radix(&digits[2..], 16).ok()?,
        [b'0', b'b' | b'B', ..] => u64::from_str_radix(&digits[2..], 2).ok()?,
        [b'0', _, ..] => u64::from_str_radix(&digits[1..], 8).ok()?,
        _ => digits.parse().ok()?,
    };
    let decimal = !digits.starts_with('0') || digits.len() == 1;
    let mut long = suffix.contains(['l', 'L']) || value > u64::from(u32::MAX);
    let mut unsigned = suffix.contains(['u', 'U']);
    // C: a constant has the first of int, unsigned (not for decimals), long, unsigned
    // long that holds it.
    if !unsigned && !long && value > i32::MAX as u64 {
        if decimal {
            long = true;
        } else {
            unsigned = true;
        }
    }
    unsigned |= value > i64::MAX as u64;
    Some(Token::Number { value, unsigned, long })
}

/// The value of a quoted text and its length with both quotes.
fn quoted(bytes: &[u8], quote: u8) -> Option<(Vec<u8>, usize)> {
    let mut value = Vec::new();
    let mut at = 1;
    loop {
        match *bytes.get(at)? {
            b if b == quote => return Some((value, at + 1)),
            b'\\' => {
                let escape = *bytes.get(at + 1)?;
                at += 2;
                match escape {
                    b'n' => value.push(b'\n'),
                    b't' => value.push(b'\t'),
                    b'r' => value.push(b'\r'),
                    b'a' => value.push(7),
                    b'b' => value.push(8),
                    b'f' => value.push(12),
                    b'v' => value.push(11),
                    b'e' => value.push(27),
                    b'x' => {
                        let n = length_of(&bytes[at..], |b| b.is_ascii_hexdigit()).min(2);
                        value.push(
                            bytes[at..at + n]
                                .iter()
                                .fold(0, |v, &d| v << 4 | (d as char).to_digit(16).unwrap_or(0) as u8),
                        );
                        at += n;
                    }
                    b'0'..=b'7' => {
                        at -= 1;
                        let n = length_of(&bytes[at..], |b| (b'0'..=b'7').contains(&b)).min(3);
                        value
                            .push(bytes[at..at + n].iter().fold(0u8, |v, &d| v.wrapping_shl(3) | (d - b'0')));
                        at += n;
                    }
                    other => value.push(other),
                }
            }
            b => {
                value.push(b);
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_c_types() {
        let type_of = |text: &str| match &tokens(text).unwrap()[..] {
            [Token::Number { value, unsigned, long }] => (*value, *unsigned, *long),
            other => panic!("{other:?}"),
        };
        assert_eq!(type_of("0"), (0, false, false));
        assert_eq!(type_of("010"), (8, false, false));
        assert_eq!(type_of("0xffffffff"), (0xffff_ffff, true, false));
        assert_eq!(type_of("4294967295"), (0xffff_ffff, false, true));
        assert_eq!(type_of("1U"), (1, true, false));
        assert_eq!(type_of("1ULL"), (1, true, true));
        assert_eq!(type_of("0xffffffffffffffff"), (u64::MAX, true, true));
        assert_eq!(type_of("'a'"), (97, false, false));
    }

    #[test]
    fn escapes_are_resolved_and_open_quotes_refused() {
        assert_eq!(tokens(r#""a\n\x41\101\"""#).unwrap(), [Token::Text(b"a\nAA\"".to_vec())]);
        assert_eq!(tokens("x \"abc"), Err(2));
        assert_eq!(tokens("\"abc\\"), Err(0));
        assert_eq!(tokens("12q"), Err(0));
    }
}
