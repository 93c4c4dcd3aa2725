//! What bytes from the kernel mean, ready to print: one tree for text and JSON.

use std::cmp::Ordering;

/// A decoded value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// `true`, `false`.
    Bool(bool),
    /// A signed integer.
    Signed(i64),
    /// An unsigned integer.
    Unsigned(u64),
    /// Text, as the kernel had it (perhaps not UTF-8).
    Text(Vec<u8>),
    /// Bytes of a buffer.
    Bytes(Vec<u8>),
    /// Elements of an array.
    Array(Vec<Value>),
    /// Fields of a tuple.
    Tuple(Vec<Value>),
    /// Named fields of a struct or record.
    Record(Vec<(String, Value)>),
    /// A number that text shows by a name: pointers, enums, bucket bounds.
    Symbolic {
        /// What text shows.
        text: String,
        /// What JSON shows.
        number: i128,
    },
    /// A call stack.
    Stack(StackLines),
}

/// A call stack with its frames already put into words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct StackLines {
    /// One line a frame, innermost first.
    pub frames: Vec<String>,
    /// Indented by a tab whatever the place (`perf` mode).
    pub tab: bool,
}

/// Spaces before a frame in a value.
pub const VALUE_INDENT: usize = 8;
/// Spaces before a frame in a map's key.
pub const KEY_INDENT: usize = 4;

impl StackLines {
    /// A newline, then each frame on a line of its own.
    pub fn text(&self, indent: usize) -> String {
        let indent = if self.tab { "\t".to_owned() } else { " ".repeat(indent) };
        let mut text = String::from("\n");
        for frame in &self.frames {
            text.push_str(&indent);
            text.push_str(frame);
            text.push('\n');
        }
        text
    }
}

impl Value {
    /// As an integer, where it is one.
    pub fn as_integer(&self) -> Option<i128> {
        match self {
            Value::Bool(value) => Some(i128::from(*value)),
            Value::Signed(value) => Some(i128::from(*value)),
            Value::Unsigned(value) => Some(i128::from(*value)),
            Value::Symbolic { number, .. } => Some(*number),
            _ => None,
        }
    }

    /// Whether it is or holds a call stack, which takes lines of its own.
    pub fn has_stack(&self) -> bool {
        match self {
            Value::Stack(_) => true,
            Value::Tuple(parts) | Value::Array(parts) => parts.iter().any(Value::has_stack),
            Value::Record(fields) => fields.iter().any(|(_, value)| value.has_stack()),
            _ => false,
        }
    }

    /// Divided, where it is a number; a divisor of 0 leaves it.
    pub fn divided(self, by: u64) -> Value {
        if by <= 1 {
            return self;
        }
        match self {
            Value::Signed(value) => Value::Signed((i128::from(value) / i128::from(by)) as i64),
            Value::Unsigned(value) => Value::Unsigned(value / by),
            other => other,
        }
    }

    /// The order in which maps print their keys: numbers by size, texts by bytes, tuples by their first
    /// field that differs.
    pub fn key_order(&self, other: &Value) -> Ordering {
        if let (Some(a), Some(b)) = (self.as_integer(), other.as_integer()) {
            return a.cmp(&b);
        }
        match (self, other) {
            (Value::Text(a) | Value::Bytes(a), Value::Text(b) | Value::Bytes(b)) => a.cmp(b),
            (Value::Array(a) | Value::Tuple(a), Value::Array(b) | Value::Tuple(b)) => {
                let differing = a.iter().zip(b).map(|(a, b)| a.key_order(b)).find(|order| order.is_ne());
                differing.unwrap_or(a.len().cmp(&b.len()))
            }
            (Value::Record(a), Value::Record(b)) => {
                let differing =
                    a.iter().zip(b).map(|((_, a), (_, b))| a.key_order(b)).find(|order| order.is_ne());
                differing.unwrap_or(a.len().cmp(&b.len()))
            }
            (Value::Stack(a), Value::Stack(b)) => a.cmp(b),
            _ => Ordering::Equal,
        }
    }
}

/// How bytes print in text: those that can be seen as they are, others as `\xNN`.
pub fn escaped(bytes: &[u8], keep_printable: bool) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\\' if keep_printable => text.push_str("\\\\"),
            0x20..=0x7e if keep_printable => text.push(char::from(*byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

/// Bytes as hexadecimal pairs with blanks between.
pub fn hex_pairs(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}
