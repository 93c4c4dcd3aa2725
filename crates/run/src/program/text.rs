//! Values as text, to the letter as bpftrace prints them.

use super::value::{KEY_INDENT, VALUE_INDENT, Value, escaped};

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
