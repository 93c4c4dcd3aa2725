//! Lines of cells in columns: under their heads as long as the values allow.

use std::io::{self, Write};

use lang::types::Type;

use super::text;
use super::value::Value;

/// A column of aligned lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// What stands above it.
    pub head: String,
    /// Characters that its values usually need.
    pub width: usize,
    /// Numbers end, texts begin where their neighbours do.
    pub right: bool,
}

impl Column {
    /// A column for values of a type that are not known yet.
    pub fn of_type(head: &str, ty: &Type) -> Column {
        let (width, right) = match ty {
            Type::Bool => (5, false),
            // Process numbers, ports, sizes: more digits are rare, and then only shift their line.
            Type::Integer(integer) if integer.names.is_some() => (12, false),
            Type::Integer(integer) => (if integer.bytes <= 2 { 5 } else { 7 }, true),
            Type::Pointer { .. } => (18, false),
            Type::String(size) => ((*size as usize).min(16), false),
            Type::Inet => (15, false),
            Type::MacAddress => (17, false),
            Type::KernelSymbol | Type::UserSymbol => (24, false),
            Type::Timestamp => (8, false),
            Type::SyscallName | Type::UserName => (12, false),
            _ => (16, false),
        };
        Column { head: head.to_ascii_uppercase(), width: width.max(head.chars().count()), right }
    }

    /// A column that fits all of these cells.
    pub fn fitting<'a>(head: &str, right: bool, cells: impl Iterator<Item = &'a str>) -> Column {
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        Column { head: head.to_owned(), width: widest.max(head.chars().count()), right }
    }
}

/// Writes the heads.
pub fn write_heads(out: &mut dyn Write, columns: &[Column]) -> io::Result<()> {
    let heads: Vec<&str> = columns.iter().map(|column| column.head.as_str()).collect();
    write_line(out, columns, &heads)
}

/// Writes a line. A cell that is too long pushes what follows to the right only until blanks in later columns
/// have made up for it; the last cell is as long as it likes.
pub fn write_line(out: &mut dyn Write, columns: &[Column], cells: &[&str]) -> io::Result<()> {
    let mut line = String::new();
    let mut debt = 0usize;
    for (at, (column, cell)) in columns.iter().zip(cells).enumerate() {
        if at > 0 {
            line.push(' ');
        }
        let length = cell.chars().count();
        let spare = column.width.saturating_sub(length);
        let fill = spare.saturating_sub(debt);
        debt = debt.saturating_sub(spare) + length.saturating_sub(column.width);
        let last = at + 1 == columns.len();
        if column.right {
            line.extend(std::iter::repeat_n(' ', fill));
            line.push_str(cell);
        } else {
            line.push_str(cell);
            if !last {
                line.extend(std::iter::repeat_n(' ', fill));
            }
        }
    }
    line.push('\n');
    out.write_all(line.as_bytes())
}

/// A value on one line: what would drive a terminal is shown as `\xNN`.
pub fn cell(value: &Value) -> String {
    if let Value::Stack(stack) = value {
        return stack.frames.join(";");
    }
    let bytes = text::to_bytes(value);
    let mut shown = String::with_capacity(bytes.len());
    for character in String::from_utf8_lossy(&bytes).chars() {
        if character.is_control() {
            shown.push_str(&format!("\\x{:02x}", u32::from(character)));
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(cells: &[&str]) -> String {
        let column = |head: &str, width, right| Column { head: head.into(), width, right };
        let columns = [
            column("PID", 5, true),
            column("COMM", 6, false),
            column("N", 4, true),
            column("PATH", 4, false),
        ];
        let mut out = Vec::new();
        write_line(&mut out, &columns, cells).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_long_cell_shifts_no_more_than_it_must() {
        assert_eq!(line(&["1", "sh", "22", "/bin/a long path"]), "    1 sh       22 /bin/a long path\n");
        // One digit more is made up for by the blanks of the next column.
        assert_eq!(line(&["123456", "sh", "22", "x"]), "123456 sh      22 x\n");
        // Eight more are only partly.
        assert_eq!(line(&["1", "eleven char", "4444", "x"]), "    1 eleven char 4444 x\n");
        assert_eq!(line(&["1", "seven c", "22", "x"]), "    1 seven c  22 x\n");
    }

    #[test]
    fn cells_are_one_line() {
        assert_eq!(cell(&Value::Text(b"a\nb\x1b[2J".to_vec())), "a\\x0ab\\x1b[2J");
        assert_eq!(cell(&Value::Signed(-3)), "-3");
    }
}
