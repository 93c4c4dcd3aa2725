//! `printf`: a format's pieces and decoded arguments to bytes.

use lang::format::{Conversion, Format, Piece, Spec};

use super::text;
use super::value::{Value, escaped, hex_pairs};

/// Formats the arguments. Missing arguments print nothing.
pub fn formatted(format: &Format, arguments: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut next = arguments.iter();
    for piece in &format.pieces {
        match piece {
            Piece::Text(text) => out.extend_from_slice(text),
            Piece::Value(spec) => {
                if let Some(value) = next.next() {
                    argument(&mut out, spec, value);
                }
            }
        }
    }
    out
}

fn argument(out: &mut Vec<u8>, spec: &Spec, value: &Value) {
    let numeric = match spec.conversion {
        Conversion::String => None,
        Conversion::Bytes | Conversion::BytesEscaped | Conversion::BytesHex => None,
        _ => value.as_integer(),
    };
    let shown = match (spec.conversion, numeric) {
        (Conversion::Character, Some(number)) => vec![number as u8],
        (Conversion::GfpFlags, Some(number)) => super::gfp_flags::names(number as u64).into_bytes(),
        (_, Some(number)) => return pad_number(out, spec, &digits(spec, value, number)),
        (Conversion::BytesEscaped, None) => escaped(bytes_of(value), false).into_bytes(),
        (Conversion::BytesHex, None) => hex_pairs(bytes_of(value)).into_bytes(),
        (Conversion::Bytes, None) => escaped(bytes_of(value), true).into_bytes(),
        (_, None) => text::to_bytes(value),
    };
    let most = match (spec.conversion, spec.precision) {
        (Conversion::String, Some(most)) => most as usize,
        _ => shown.len(),
    };
    pad(out, spec, &shown[..most.min(shown.len())]);
}

fn bytes_of(value: &Value) -> &[u8] {
    match value {
        Value::Text(bytes) | Value::Bytes(bytes) => bytes,
        _ => &[],
    }
}

/// Sign or prefix, and digits.
struct Digits {
    prefix: String,
    digits: String,
}

fn digits(spec: &Spec, value: &Value, number: i128) -> Digits {
    let width = match spec.length {
        1 => 8,
        2 => 16,
        _ => 64,
    };
    let kept = (number as u128) & ((1u128 << width) - 1);
    let (prefix, digits) = match spec.conversion {
        Conversion::Signed => {
            // An unsigned 64-bit number keeps its value: nanosecond counters and hashes are printed so.
            let unsigned = matches!(value, Value::Unsigned(_) | Value::Symbolic { .. }) && width == 64;
            let signed =
                if unsigned { kept as i128 } else { ((kept << (128 - width)) as i128) >> (128 - width) };
            let sign = if signed < 0 {
                "-"
            } else if spec.plus {
                "+"
            } else if spec.space {
                " "
            } else {
                ""
            };
            (sign.to_owned(), signed.unsigned_abs().to_string())
        }
        Conversion::Hex => (if spec.alternate { "0x" } else { "" }.to_owned(), format!("{kept:x}")),
        Conversion::HexUpper => (if spec.alternate { "0X" } else { "" }.to_owned(), format!("{kept:X}")),
        Conversion::Octal => (if spec.alternate { "0" } else { "" }.to_owned(), format!("{kept:o}")),
        Conversion::Pointer => ("0x".to_owned(), format!("{kept:x}")),
        _ => (String::new(), kept.to_string()),
    };
    let digits = if spec.group { grouped(&digits) } else { digits };
    let least = spec.precision.unwrap_or(0) as usize;
    let zeros = "0".repeat(least.saturating_sub(digits.len()));
    Digits { prefix, digits: zeros + &digits }
}

fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn pad_number(out: &mut Vec<u8>, spec: &Spec, number: &Digits) {
    let missing =
        (spec.width.unwrap_or(0) as usize).saturating_sub(number.prefix.len() + number.digits.len());
    if spec.zero && !spec.left && spec.precision.is_none() {
        out.extend_from_slice(number.prefix.as_bytes());
        out.extend(std::iter::repeat_n(b'0', missing));
        out.extend_from_slice(number.digits.as_bytes());
        return;
    }
    pad(out, spec, format!("{}{}", number.prefix, number.digits).as_bytes());
}

fn pad(out: &mut Vec<u8>, spec: &Spec, shown: &[u8]) {
    let blanks = std::iter::repeat_n(b' ', (spec.width.unwrap_or(0) as usize).saturating_sub(shown.len()));
    if spec.left {
        out.extend_from_slice(shown);
        out.extend(blanks);
    } else {
        out.extend(blanks);
        out.extend_from_slice(shown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(format: &str, arguments: &[Value], expected: &str) {
        let format = Format::parse(format.as_bytes()).unwrap();
        assert_eq!(String::from_utf8_lossy(&formatted(&format, arguments)), expected);
    }

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    #[test]
    fn integers_print_as_in_c() {
        let n = Value::Signed;
        check("%5d|%-5d|%05d|%+d|% d", &[n(42), n(42), n(-42), n(42), n(42)], "   42|42   |-0042|+42| 42");
        check("%x %X %#x %o %p", &[n(255), n(255), n(255), n(8), n(255)], "ff FF 0xff 10 0xff");
        check("%hhx %hx %llx", &[n(0x1234_5678), n(0x1234_5678), n(-1)], "78 5678 ffffffffffffffff");
        check("%hhd %u", &[n(300), n(-1)], "44 18446744073709551615");
        check("%d", &[Value::Unsigned(u64::MAX)], "18446744073709551615");
        check("%.3d|%'d", &[n(7), n(1_234_567)], "007|1,234,567");
        check("%c%c %d", &[n(72), n(105), Value::Bool(true)], "Hi 1");
    }

    #[test]
    fn texts_and_buffers_print_with_width_and_precision() {
        check("%-10s|%10s|%.2s|", &[text("ab"), text("cd"), text("efgh")], "ab        |        cd|ef|");
        check("%s", &[Value::Signed(-5)], "-5");
        check("%s", &[Value::Tuple(vec![Value::Signed(1), text("x")])], "(1, x)");
        let bytes = Value::Bytes(b"Hello\0".to_vec());
        check(
            "%r|%rx|%rh",
            &[bytes.clone(), bytes.clone(), bytes],
            "Hello\\x00|\\x48\\x65\\x6c\\x6c\\x6f\\x00|48 65 6c 6c 6f 00",
        );
        check("%s %d %#x", &[enumerator(), enumerator(), enumerator()], "RUN 3 0x3");
    }

    fn enumerator() -> Value {
        Value::Symbolic { text: "RUN".into(), number: 3 }
    }
}
