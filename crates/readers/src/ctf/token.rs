//! The tokens of CTF's metadata language (TSDL).

/// One token and the line it is on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) line: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind {
    Word(String),
    Number(i128),
    Text(String),
    Mark(&'static str),
}

const MARKS: &[&str] =
    &["...", ":=", "->", "{", "}", "[", "]", "(", ")", "<", ">", ";", ":", "=", ",", ".", "*", "-", "+"];

/// Splits metadata; `Err` with the line that no token begins with.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, (u32, String)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at..];
        let length_while =
            |belongs: fn(u8) -> bool| rest.iter().position(|&b| !belongs(b)).unwrap_or(rest.len());
        let mut push = |kind: TokenKind| found.push(Token { kind, line });
        if byte == b'\n' {
            line += 1;
            at += 1;
        } else if byte.is_ascii_whitespace() {
            at += 1;
        } else if rest.starts_with(b"//") {
            at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
        } else if rest.starts_with(b"/*") {
            let end = rest
                .windows(2)
                .position(|w| w == b"*/")
                .ok_or((line, "a comment does not end".to_owned()))?;
            line += rest[..end].iter().filter(|&&b| b == b'\n').count() as u32;
            at += end + 2;
        } else if byte.is_ascii_alphabetic() || byte == b'_' {
            let length = length_while(|b| b.is_ascii_alphanumeric() || b == b'_');
            push(TokenKind::Word(text[at..at + length].to_owned()));
            at += length;
        } else if byte.is_ascii_digit() {
            let length = length_while(|b| b.is_ascii_alphanumeric());
            let word = text[at..at + length].trim_end_matches(['u', 'U', 'l', 'L']);
            let value = match word.as_bytes() {
                [b'0', b'x' | b'X', ..] => i128::from_str_radix(&word[2..], 16),
                [b'0', b'b' | b'B', ..] => i128::from_str_radix(&word[2..], 2),
                [b'0', _, ..] => i128::from_str_radix(&word[1..], 8),
                _ => word.parse(),
            };
            push(TokenKind::Number(value.map_err(|_| (line, format!("{word:?} is not a number")))?));
            at += length;
        } else if byte == b'"' || byte == b'\'' {
            let mut value = Vec::new();
            let mut end = at + 1;
            loop {
                match bytes.get(end) {
                    None => return Err((line, "a text does not end".to_owned())),
                    Some(&b) if b == byte => break,
                    Some(b'\\') => {
                        let escaped = bytes.get(end + 1).copied().unwrap_or(b'\\');
                        value.push(match escaped {
                            b'n' => b'\n',
                            b't' => b'\t',
                            other => other,
                        });
                        end += 2;
                    }
                    Some(&b) => {
                        value.push(b);
                        end += 1;
                    }
                }
            }
            line += bytes[at..end].iter().filter(|&&b| b == b'\n').count() as u32;
            found.push(Token { kind: TokenKind::Text(String::from_utf8_lossy(&value).into_owned()), line });
            at = end + 1;
        } else if let Some(mark) = MARKS.iter().find(|mark| rest.starts_with(mark.as_bytes())) {
            push(TokenKind::Mark(mark));
            at += mark.len();
        } else {
            return Err((line, format!("nothing begins with {:?}", char::from(byte))));
        }
    }
    Ok(found)
}
