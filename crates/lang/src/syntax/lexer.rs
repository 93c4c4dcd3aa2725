//! Words of the program, one at a time from any byte: the parser decides where the text is
//! a probe's description rather than code.

use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;

/// What a word is.
#[derive(Clone, PartialEq, Debug)]
pub enum Token {
    /// A name or keyword.
    Name,
    /// `$name`
    Variable,
    /// `@name` or `@`
    Map,
    /// `$1`
    Positional(u32),
    /// `$#`
    PositionalCount,
    /// A number, with its unit or exponent worked in.
    Int(u64),
    /// A string without its quotes, escapes resolved.
    Str(Vec<u8>),
    /// A sign of punctuation.
    Sign(&'static str),
    /// The end of the text.
    End,
    /// Something that is no word; the finding says why.
    Bad,
}

/// Longest first, so that `<<=` is not read as `<`.
const SIGNS: &[&str] = &[
    "<<=", ">>=", "...", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=",
    "/=", "%=", "&=", "|=", "^=", "..", "+", "-", "*", "/", "%", "&", "|", "^", "!", "~", "<", ">", "=", "(",
    ")", "{", "}", "[", "]", ",", ";", ":", "?", ".", "#",
];

/// The word at or after byte `at` of `text`, its place relative to `base`, and a finding if it is malformed.
pub fn next(text: &str, at: usize, base: u32) -> (Token, Span, Option<Diagnostic>) {
    let span = |start: usize, end: usize| Span::new(base as usize + start, base as usize + end);
    let start = match skip_blank(text, at) {
        Ok(start) => start,
        Err(open) => {
            let finding =
                Diagnostic::error(Code::BadComment, span(open, open + 2), "this comment has no end");
            return (Token::End, span(text.len(), text.len()), Some(finding));
        }
    };
    let rest = &text[start..];
    let Some(first) = rest.chars().next() else { return (Token::End, span(start, start), None) };
    let ok = |token: Token, length: usize| (token, span(start, start + length), None);
    match first {
        'a'..='z' | 'A'..='Z' | '_' => ok(Token::Name, word_length(rest)),
        '0'..='9' => number(rest, &|length| span(start, start + length)),
        '"' => string(rest, &|from, to| span(start + from, start + to)),
        '@' => ok(Token::Map, 1 + word_length(&rest[1..])),
        '$' => match rest[1..].chars().next() {
            Some('#') => ok(Token::PositionalCount, 2),
            Some('0'..='9') => {
                let length = 1 + rest[1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - 1);
                match rest[1..length].parse() {
                    Ok(n) if n > 0 => ok(Token::Positional(n), length),
                    _ => {
                        let message = format!("there is no parameter {}: they begin at $1", &rest[..length]);
                        let place = span(start, start + length);
                        (Token::Bad, place, Some(Diagnostic::error(Code::BadNumber, place, message)))
                    }
                }
            }
            Some('a'..='z' | 'A'..='Z' | '_') => ok(Token::Variable, 1 + word_length(&rest[1..])),
            _ => bad(span(start, start + 1), "'$' has to be followed by a name, a number or '#'"),
        },
        '\'' => bad(
            span(start, start + character_length(rest)),
            "characters are written as numbers (65 for A), strings with '\"'",
        ),
        _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            Some(sign) => ok(Token::Sign(sign), sign.len()),
            None => bad(
                span(start, start + first.len_utf8()),
                format!("'{}' has no meaning here", first.escape_debug()),
            ),
        },
    }
}

fn bad(place: Span, message: impl Into<String>) -> (Token, Span, Option<Diagnostic>) {
    (Token::Bad, place, Some(Diagnostic::error(Code::UnexpectedToken, place, message)))
}

/// Bytes of `'x'`, or of the quote alone.
fn character_length(text: &str) -> usize {
    let closing = text.char_indices().skip(1).take(6).find(|(_, c)| *c == '\'');
    closing.map_or(1, |(at, _)| at + 1)
}

/// Past blanks, comments and line joins; an error is where a comment without an end begins.
pub fn skip_blank(text: &str, mut at: usize) -> Result<usize, usize> {
    loop {
        let rest = &text[at..];
        let trimmed = rest.trim_start();
        at += rest.len() - trimmed.len();
        if trimmed.starts_with("//") {
            at += trimmed.find('\n').unwrap_or(trimmed.len());
        } else if let Some(comment) = trimmed.strip_prefix("/*") {
            at += 2 + comment.find("*/").ok_or(at)? + 2;
        } else if trimmed.starts_with("\\\n") || trimmed.starts_with("\\\r\n") {
            at += 2;
        } else {
            return Ok(at);
        }
    }
}

/// Bytes of the name at the start of `text`.
pub fn word_length(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// Units of time in nanoseconds.
pub const UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

fn number(text: &str, span: &dyn Fn(usize) -> Span) -> (Token, Span, Option<Diagnostic>) {
    let length = word_length(text);
    let place = span(length);
    match parse_number(&text[..length]) {
        Ok(value) => (Token::Int(value), place, None),
        Err(why) => (Token::Int(0), place, Some(Diagnostic::error(Code::BadNumber, place, why))),
    }
}

/// The value of a number with its prefix, exponent, unit or C suffix.
pub fn parse_number(word: &str) -> Result<u64, String> {
    let too_large = || format!("{word} has more than 64 bits");
    if let Some(hex) = word.strip_prefix("0x").or(word.strip_prefix("0X")) {
        let digits: String = hex.chars().filter(|c| *c != '_').collect();
        let digits = digits.trim_end_matches(['u', 'U', 'l', 'L']);
        if digits.is_empty() || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
            return Err(format!("{word} is not a hexadecimal number"));
        }
        return u64::from_str_radix(digits, 16).map_err(|_| too_large());
    }
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(word.len());
    let digits: String = word[..end].chars().filter(|c| *c != '_').collect();
    let suffix = &word[end..];
    if digits.len() > 1 && digits.starts_with('0') && suffix.chars().all(|c| "uUlL".contains(c)) {
        return u64::from_str_radix(&digits, 8).map_err(|_| format!("{word} begins with 0 and is not octal"));
    }
    let value: u64 = digits.parse().map_err(|_| too_large())?;
    if suffix.is_empty() || suffix.len() <= 3 && suffix.chars().all(|c| "uUlL".contains(c)) {
        return Ok(value);
    }
    if let Some((_, nanoseconds)) = UNITS.iter().find(|(unit, _)| *unit == suffix) {
        return value.checked_mul(*nanoseconds).ok_or_else(too_large);
    }
    if let Some(exponent) = suffix.strip_prefix(['e', 'E']) {
        let exponent = exponent.parse().map_err(|_| format!("{word}: the exponent has to be a number"))?;
        let power = 10u64.checked_pow(exponent).ok_or_else(too_large)?;
        return value.checked_mul(power).ok_or_else(too_large);
    }
    Err(format!("'{suffix}' cannot follow a number; units are ns, us, ms, s, m, h, d"))
}

fn string(text: &str, span: &dyn Fn(usize, usize) -> Span) -> (Token, Span, Option<Diagnostic>) {
    let mut bytes = Vec::new();
    let mut finding = None;
    let mut at = 1;
    let source = text.as_bytes();
    loop {
        match source.get(at) {
            None | Some(b'\n') => {
                let place = span(0, at);
                let wrong = Diagnostic::error(Code::BadString, place, "this string has no end")
                    .help("a string ends with '\"' on the same line");
                return (Token::Str(bytes), place, Some(wrong));
            }
            Some(b'"') => return (Token::Str(bytes), span(0, at + 1), finding),
            Some(b'\\') => match escape(&source[at + 1..]) {
                Ok((value, length)) => {
                    bytes.extend(value);
                    at += 1 + length;
                }
                Err(why) => {
                    finding.get_or_insert(Diagnostic::error(Code::BadString, span(at, at + 2), why));
                    at += 1;
                }
            },
            Some(byte) => {
                bytes.push(*byte);
                at += 1;
            }
        }
    }
}

/// The byte of an escape after its `\` and the length it has there; a joined line gives none.
fn escape(rest: &[u8]) -> Result<(Option<u8>, usize), String> {
    let simple = |byte| Ok((Some(byte), 1));
    match rest.first() {
        Some(b'n') => simple(b'\n'),
        Some(b't') => simple(b'\t'),
        Some(b'r') => simple(b'\r'),
        Some(b'a') => simple(7),
        Some(b'b') => simple(8),
        Some(b'v') => simple(11),
        Some(b'f') => simple(12),
        Some(b'e') => simple(27),
        Some(byte @ (b'"' | b'\\' | b'\'' | b'?')) => simple(*byte),
        Some(b'\n') => Ok((None, 1)),
        Some(b'x') => {
            let digits = rest[1..].iter().take(2).take_while(|b| b.is_ascii_hexdigit()).count();
            let text = std::str::from_utf8(&rest[1..1 + digits]).unwrap_or("");
            let value =
                u8::from_str_radix(text, 16).map_err(|_| "\\x needs hexadecimal digits".to_string())?;
            Ok((Some(value), 1 + digits))
        }
        Some(b'0'..=b'7') => {
            let digits = rest.iter().take(3).take_while(|b| (b'0'..=b'7').contains(*b)).count();
            let value = rest[..digits].iter().fold(0u32, |value, digit| value * 8 + u32::from(digit - b'0'));
            let value = u8::try_from(value).map_err(|_| "this octal escape is over 255".to_string())?;
            Ok((Some(value), digits))
        }
        Some(byte) => Err(format!("'\\{}' is not an escape", char::from(*byte).escape_default())),
        None => Err("the text ends after '\\'".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_every_spelling() {
        let cases = [
            ("0", 0),
            ("1_000", 1000),
            ("0x1F", 31),
            ("0755", 493),
            ("1e6", 1_000_000),
            ("10ms", 10_000_000),
            ("2m", 120_000_000_000),
            ("123UL", 123),
            ("0xffffffffffffffffULL", u64::MAX),
        ];
        for (word, value) in cases {
            assert_eq!(parse_number(word), Ok(value), "{word}");
        }
        for word in ["08", "1e", "1e99", "0x", "5parsecs", "99999999999999999999"] {
            assert!(parse_number(word).is_err(), "{word}");
        }
    }

    #[test]
    fn words_are_told_apart() {
        let mut at = 0;
        let text = "$x+=@m[$1]->y..$# /* c */ \"a\\x41\\101\\n\" // end";
        let mut out = Vec::new();
        loop {
            let (token, span, finding) = next(text, at, 0);
            assert_eq!(finding, None);
            at = span.end as usize;
            match token {
                Token::End => break,
                Token::Str(bytes) => out.push(String::from_utf8(bytes).unwrap()),
                _ => out.push(text[span.start as usize..at].to_string()),
            }
        }
        assert_eq!(out, ["$x", "+=", "@m", "[", "$1", "]", "->", "y", "..", "$#", "aAA\n"]);
    }

    #[test]
    fn what_is_no_word_is_said() {
        for text in ["'a'", "\"abc", "`", "$", "/* x", "\"\\q\"", "$0"] {
            assert!(next(text, 0, 0).2.is_some(), "{text}");
        }
    }
}
