//! Values, maps and messages as JSON, one object a line, as bpftrace prints them.

use std::io::{self, Write};

use super::shown::{Bucket, Histogram, MapShown, Series, Shown, ShownKind};
use super::text;
use super::value::{VALUE_INDENT, Value};

/// `{"type": …, "data": …}`.
pub fn message(out: &mut dyn Write, kind: &str, data: &Value) -> io::Result<()> {
    let mut line = format!("{{\"type\": \"{kind}\", \"data\": ").into_bytes();
    put(&mut line, data);
    line.extend_from_slice(b"}\n");
    out.write_all(&line)
}

/// A tool's row: what has a name is told by it, as in text, so that who reads the rows needs no table of numbers.
pub fn row(out: &mut dyn Write, fields: &[(String, Value)]) -> io::Result<()> {
    let mut line = b"{\"type\": \"row\", \"data\": {".to_vec();
    for (at, (name, value)) in fields.iter().enumerate() {
        if at > 0 {
            line.extend_from_slice(b", ");
        }
        string(&mut line, name.as_bytes());
        line.extend_from_slice(b": ");
        put_named(&mut line, value);
    }
    line.extend_from_slice(b"}}\n");
    out.write_all(&line)
}

/// A value in a row.
pub fn put_named(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Symbolic { text, .. } if text.starts_with(|c: char| c.is_alphabetic()) => {
            string(out, text.as_bytes());
        }
        other => put(out, other),
    }
}

/// A whole map.
pub fn map(out: &mut dyn Write, map: &MapShown) -> io::Result<()> {
    write_map(out, map, false)
}

/// The same with the percentiles of histograms beside the data, by the same keys.
pub fn tool_map(out: &mut dyn Write, map: &MapShown) -> io::Result<()> {
    write_map(out, map, map.kind == ShownKind::Histogram)
}

fn write_map(out: &mut dyn Write, map: &MapShown, ranks: bool) -> io::Result<()> {
    let kind = match map.kind {
        ShownKind::Map => "map",
        ShownKind::Histogram => "hist",
        ShownKind::Stats => "stats",
        ShownKind::Series => "tseries",
    };
    let mut line = format!("{{\"type\": \"{kind}\", \"data\": {{").into_bytes();
    string(&mut line, map.name.as_bytes());
    line.extend_from_slice(b": ");
    put_rows(&mut line, map, put_shown);
    line.push(b'}');
    if ranks {
        line.extend_from_slice(b", \"percentiles\": {");
        string(&mut line, map.name.as_bytes());
        line.extend_from_slice(b": ");
        put_rows(&mut line, map, put_ranks);
        line.push(b'}');
    }
    line.extend_from_slice(b"}\n");
    out.write_all(&line)
}

fn put_rows(line: &mut Vec<u8>, map: &MapShown, put: fn(&mut Vec<u8>, &Shown)) {
    if map.scalar {
        match map.rows.first() {
            Some((_, shown)) => put(line, shown),
            None => line.extend_from_slice(b"{}"),
        }
        return;
    }
    line.push(b'{');
    for (at, (key, shown)) in map.rows.iter().enumerate() {
        if at > 0 {
            line.extend_from_slice(b", ");
        }
        string(line, &key_bytes(key.as_ref().unwrap_or(&Value::Null)));
        line.extend_from_slice(b": ");
        put(line, shown);
    }
    line.push(b'}');
}

fn put_ranks(out: &mut Vec<u8>, shown: &Shown) {
    let Shown::Histogram(histogram) = shown else { return out.extend_from_slice(b"null") };
    out.extend_from_slice(format!("{{\"count\": {}", histogram.count()).as_bytes());
    for (name, bucket) in histogram.ranks() {
        out.extend_from_slice(format!(", \"{name}\": {{").as_bytes());
        put_bounds(out, bucket);
        out.push(b'}');
    }
    out.push(b'}');
}

/// `"min": …, "max": …` of the bounds there are.
fn put_bounds(out: &mut Vec<u8>, bucket: &Bucket) {
    if let Some(low) = &bucket.low {
        out.extend_from_slice(b"\"min\": ");
        number(out, low.number());
    }
    if let Some(high) = &bucket.high {
        out.extend_from_slice(if bucket.low.is_some() { b", \"max\": " } else { b"\"max\": " });
        number(out, high.number() - 1);
    }
}

/// A key: the fields of a tuple with commas between, without blanks.
fn key_bytes(key: &Value) -> Vec<u8> {
    match key {
        Value::Tuple(fields) => fields.iter().map(text::key_bytes).collect::<Vec<_>>().join(&b','),
        other => text::key_bytes(other),
    }
}

fn put_shown(out: &mut Vec<u8>, shown: &Shown) {
    match shown {
        Shown::Value(value) => put(out, value),
        Shown::Stats { count, average, total } => {
            out.extend_from_slice(format!("{{\"count\": {count}, \"average\": ").as_bytes());
            put(out, average);
            out.extend_from_slice(b", \"total\": ");
            put(out, total);
            out.push(b'}');
        }
        Shown::Histogram(histogram) => put_histogram(out, histogram),
        Shown::Series(series) => put_series(out, series),
    }
}

fn put_histogram(out: &mut Vec<u8>, histogram: &Histogram) {
    out.push(b'[');
    for (at, bucket) in histogram.buckets.iter().enumerate() {
        out.extend_from_slice(if at > 0 { b", {" } else { b"{" });
        put_bounds(out, bucket);
        if bucket.low.is_some() || bucket.high.is_some() {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(format!("\"count\": {}}}", bucket.count).as_bytes());
    }
    out.push(b']');
}

fn put_series(out: &mut Vec<u8>, series: &Series) {
    out.push(b'[');
    for (at, (start, value)) in series.points.iter().enumerate() {
        out.extend_from_slice(if at > 0 { b", {" } else { b"{" });
        let when = kernel::local_time::formatted("%Y-%m-%dT%H:%M:%S", *start);
        out.extend_from_slice(
            format!("\"interval_start\": \"{when}.{:09}\", \"value\": ", start % 1_000_000_000).as_bytes(),
        );
        put(out, value.as_ref().unwrap_or(&Value::Null));
        out.push(b'}');
    }
    out.push(b']');
}

/// A value.
pub fn put(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Signed(value) => number(out, (*value).into()),
        Value::Unsigned(value) => number(out, (*value).into()),
        Value::Symbolic { number: value, .. } => number(out, *value),
        Value::Text(text) => string(out, text),
        Value::Bytes(bytes) => string(out, super::value::escaped(bytes, true).as_bytes()),
        Value::Stack(stack) => string(out, stack.text(VALUE_INDENT).as_bytes()),
        Value::Array(values) | Value::Tuple(values) => {
            out.push(b'[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                put(out, value);
            }
            out.push(b']');
        }
        Value::Record(fields) => {
            out.push(b'{');
            for (at, (name, value)) in fields.iter().enumerate() {
                if at > 0 {
                    out.extend_from_slice(b", ");
                }
                string(out, name.as_bytes());
                out.extend_from_slice(b": ");
                put(out, value);
            }
            out.push(b'}');
        }
    }
}

/// JSON's numbers are doubles to most readers: an integer that no double holds is given as a string.
fn number(out: &mut Vec<u8>, number: i128) {
    if number as f64 as i128 == number {
        out.extend_from_slice(number.to_string().as_bytes());
    } else {
        out.extend_from_slice(format!("\"{number}\"").as_bytes());
    }
}

/// A quoted string; bytes that are not UTF-8 become the replacement character.
pub fn string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for character in String::from_utf8_lossy(text).chars() {
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\0'..='\x1f' => out.extend_from_slice(format!("\\u{:04x}", u32::from(character)).as_bytes()),
            other => out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}
