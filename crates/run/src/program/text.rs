//! Values and maps as text, to the letter as bpftrace prints them.

use std::io::{self, Write};

use super::shown::{Histogram, Label, MapShown, Shown};
use super::value::{KEY_INDENT, VALUE_INDENT, Value, escaped};

/// Characters of a histogram's longest bar.
const BAR: usize = 52;

/// A value as text.
pub fn to_bytes(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, value, VALUE_INDENT);
    out
}

/// A key as it stands between brackets: a tuple loses its parentheses.
pub fn key_bytes(key: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    match key {
        Value::Tuple(fields) => put_list(&mut out, fields, b", ", KEY_INDENT),
        other => put(&mut out, other, KEY_INDENT),
    }
    out
}

fn put(out: &mut Vec<u8>, value: &Value, indent: usize) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Signed(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Unsigned(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Text(text) => out.extend_from_slice(text),
        Value::Bytes(bytes) => out.extend_from_slice(escaped(bytes, true).as_bytes()),
        Value::Array(elements) => {
            out.push(b'[');
            put_list(out, elements, b",", indent);
            out.push(b']');
        }
        Value::Tuple(fields) => {
            out.push(b'(');
            put_list(out, fields, b", ", indent);
            out.push(b')');
        }
        Value::Record(fields) if fields.is_empty() => out.extend_from_slice(b"{}"),
        Value::Record(fields) => {
            out.extend_from_slice(b"{ ");
            for (at, (name, value)) in fields.iter().enumerate() {
                out.extend_from_slice(if at > 0 { b", ." } else { b"." });
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(b" = ");
                put(out, value, indent);
            }
            out.extend_from_slice(b" }");
        }
        Value::Symbolic { text, .. } => out.extend_from_slice(text.as_bytes()),
        Value::Stack(stack) => out.extend_from_slice(stack.text(indent).as_bytes()),
    }
}

fn put_list(out: &mut Vec<u8>, values: &[Value], between: &[u8], indent: usize) {
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            out.extend_from_slice(between);
        }
        put(out, value, indent);
    }
}

/// A whole map.
pub fn map(out: &mut dyn Write, map: &MapShown) -> io::Result<()> {
    for (key, shown) in &map.rows {
        out.write_all(map.name.as_bytes())?;
        if let Some(key) = key {
            out.write_all(b"[")?;
            out.write_all(&key_bytes(key))?;
            out.write_all(b"]")?;
        }
        match shown {
            Shown::Value(value) => {
                out.write_all(b": ")?;
                out.write_all(&to_bytes(value))?;
                out.write_all(b"\n")?;
            }
            Shown::Stats { count, average, total } => {
                out.write_all(b": ")?;
                let average = to_bytes(average);
                write!(out, "count {count}, average ")?;
                out.write_all(&average)?;
                out.write_all(b", total ")?;
                out.write_all(&to_bytes(total))?;
                out.write_all(b"\n")?;
            }
            Shown::Histogram(histogram) => {
                out.write_all(b":\n")?;
                write_histogram(out, histogram)?;
                out.write_all(b"\n")?;
            }
            Shown::Series(series) => {
                out.write_all(b":\n")?;
                super::series::write(out, series)?;
                out.write_all(b"\n")?;
            }
        }
    }
    Ok(())
}

fn write_histogram(out: &mut dyn Write, histogram: &Histogram) -> io::Result<()> {
    let most = histogram.buckets.iter().map(|bucket| bucket.count).max().unwrap_or(0).max(1);
    for bucket in &histogram.buckets {
        let range = match (&bucket.low, &bucket.high) {
            (None, Some(high)) => format!("(..., {})", high.text()),
            (Some(low), None) => format!("[{}, ...)", low.text()),
            (Some(Label::Plain(low)), Some(Label::Plain(high))) if low + 1 == *high => format!("[{low}]"),
            (Some(low), Some(high)) => format!("[{}, {})", low.text(), high.text()),
            (None, None) => "(..., ...)".into(),
        };
        let bar = "@".repeat((bucket.count as f32 / most as f32 * BAR as f32) as usize);
        writeln!(out, "{range:<16}{:>8} |{bar:<BAR$}|", bucket.count)?;
    }
    if let Some(percentiles) = &histogram.percentiles {
        let parts: Vec<String> = percentiles
            .values
            .iter()
            .map(|(name, low, high)| format!("{name} {}", between(*low, *high)))
            .collect();
        writeln!(
            out,
            "n {}, {}, relative error at most {:.1} %",
            percentiles.count,
            parts.join(", "),
            percentiles.error * 100.0
        )?;
    }
    Ok(())
}

fn between(low: u128, high: u128) -> String {
    if high <= low + 1 { low.to_string() } else { format!("{low}..{high}") }
}
