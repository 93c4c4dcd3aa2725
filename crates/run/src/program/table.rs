//! Maps with the same keys as one table: a line for each key, a column for each part of the key and each map.

use std::cmp::Ordering;
use std::io::{self, Write};

use super::columns::{self, Column};
use super::json;
use super::shown::{MapShown, Shown};
use super::value::Value;

/// How maps are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSpec {
    /// Heads of the parts of the key.
    pub keys: Vec<String>,
    /// The columns after them; lines are sorted by the first, the greatest first.
    pub values: Vec<TableValue>,
}

/// A column made from a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableValue {
    /// Its head.
    pub head: String,
    /// The map, with its `@`.
    pub map: String,
    /// What its numbers are divided by; 1: shown as they are.
    pub divisor: u64,
}

/// A table with its lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    heads: Vec<String>,
    /// Parts of the key, then the values; a map that lacks the key gives none.
    lines: Vec<Vec<Option<Cell>>>,
}

#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Whole(Value),
    /// A number and its divisor.
    Divided(i128, u64),
}

impl TableSpec {
    /// The table of a map that none was made for: its key's names where it has some.
    pub fn of_map(map: &MapShown) -> TableSpec {
        let keys = match map.rows.first() {
            Some((Some(Value::Record(fields)), _)) => {
                fields.iter().map(|(name, _)| name.to_ascii_uppercase()).collect()
            }
            Some((Some(Value::Tuple(fields)), _)) => (1..=fields.len()).map(|n| format!("KEY{n}")).collect(),
            _ => vec!["KEY".to_owned()],
        };
        let name = map.name.trim_start_matches('@');
        let head = if name.is_empty() { "VALUE".to_owned() } else { name.to_ascii_uppercase() };
        TableSpec { keys, values: vec![TableValue { head, map: map.name.clone(), divisor: 1 }] }
    }
}

impl Table {
    /// Joins maps (those of the specification that exist, in its order) and keeps the `top` greatest lines
    /// (0: all).
    pub fn join(spec: &TableSpec, maps: &[&MapShown], top: u64) -> Table {
        let mut lines: Vec<(Option<Value>, Vec<Option<Cell>>)> = Vec::new();
        let mut places = std::collections::HashMap::new();
        for (column, value) in spec.values.iter().enumerate() {
            let Some(map) = maps.iter().find(|map| map.name == value.map) else { continue };
            for (key, shown) in &map.rows {
                // Values have no hash of their own; as JSON equal keys are equal texts.
                let mut text = Vec::new();
                json::put(&mut text, key.as_ref().unwrap_or(&Value::Null));
                let at = *places.entry(text).or_insert_with(|| {
                    lines.push((key.clone(), vec![None; spec.values.len()]));
                    lines.len() - 1
                });
                lines[at].1[column] = cell_of(shown, value.divisor);
            }
        }
        lines.sort_by(|(a_key, a), (b_key, b)| {
            let order = number(b.first()).partial_cmp(&number(a.first())).unwrap_or(Ordering::Equal);
            order.then_with(|| match (a_key, b_key) {
                (Some(a), Some(b)) => a.key_order(b),
                _ => Ordering::Equal,
            })
        });
        if top > 0 {
            lines.truncate(usize::try_from(top).unwrap_or(usize::MAX));
        }
        let heads: Vec<String> =
            spec.keys.iter().cloned().chain(spec.values.iter().map(|value| value.head.clone())).collect();
        let lines = lines.into_iter().map(|(key, values)| {
            let mut parts = match key {
                Some(Value::Tuple(parts)) => parts,
                Some(Value::Record(fields)) => fields.into_iter().map(|(_, value)| value).collect(),
                Some(value) => vec![value],
                None => vec![],
            };
            // A header that does not fit the key is refused by a test; here nothing is dropped.
            if parts.len() > spec.keys.len() && !spec.keys.is_empty() {
                let rest = parts.split_off(spec.keys.len() - 1);
                parts.push(Value::Tuple(rest));
            }
            parts.resize(spec.keys.len(), Value::Null);
            parts.into_iter().map(|part| Some(Cell::Whole(part))).chain(values).collect()
        });
        Table { heads, lines: lines.collect() }
    }

    /// As aligned text; nothing without lines.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let texts: Vec<Vec<String>> = self
            .lines
            .iter()
            .map(|line| line.iter().map(|cell| cell_text(cell.as_ref())).collect())
            .collect();
        let columns: Vec<Column> = self
            .heads
            .iter()
            .enumerate()
            .map(|(at, head)| {
                let right = self.lines.iter().all(|line| is_number(line[at].as_ref()));
                Column::fitting(head, right, texts.iter().map(|line| line[at].as_str()))
            })
            .collect();
        columns::write_heads(out, &columns)?;
        for line in &texts {
            let cells: Vec<&str> = line.iter().map(String::as_str).collect();
            columns::write_line(out, &columns, &cells)?;
        }
        Ok(())
    }

    /// As JSON: an object for each line.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        for line in &self.lines {
            let mut text = b"{\"type\": \"row\", \"data\": {".to_vec();
            for (at, (head, cell)) in self.heads.iter().zip(line).enumerate() {
                if at > 0 {
                    text.extend_from_slice(b", ");
                }
                json::string(&mut text, head.to_ascii_lowercase().as_bytes());
                text.extend_from_slice(b": ");
                match cell {
                    Some(Cell::Whole(value)) => json::put_named(&mut text, value),
                    Some(Cell::Divided(number, by)) => {
                        text.extend_from_slice(divided(*number, *by).as_bytes())
                    }
                    None => text.extend_from_slice(b"null"),
                }
            }
            text.extend_from_slice(b"}}\n");
            out.write_all(&text)?;
        }
        Ok(())
    }
}

fn cell_of(shown: &Shown, divisor: u64) -> Option<Cell> {
    let value = match shown {
        Shown::Value(value) => value,
        Shown::Stats { average, .. } => average,
        // A histogram or series is no number.
        Shown::Histogram(_) | Shown::Series(_) => return None,
    };
    Some(match value.as_integer() {
        Some(number) if divisor > 1 => Cell::Divided(number, divisor),
        _ => Cell::Whole(value.clone()),
    })
}

fn number(cell: Option<&Option<Cell>>) -> f64 {
    match cell {
        Some(Some(Cell::Whole(value))) => {
            value.as_integer().map_or(f64::NEG_INFINITY, |number| number as f64)
        }
        Some(Some(Cell::Divided(number, by))) => *number as f64 / *by as f64,
        _ => f64::NEG_INFINITY,
    }
}

fn is_number(cell: Option<&Cell>) -> bool {
    match cell {
        Some(Cell::Whole(value)) => matches!(value, Value::Signed(_) | Value::Unsigned(_)),
        Some(Cell::Divided(..)) | None => true,
    }
}

fn cell_text(cell: Option<&Cell>) -> String {
    match cell {
        Some(Cell::Whole(value)) => columns::cell(value),
        Some(Cell::Divided(number, by)) => divided(*number, *by),
        None => "-".to_owned(),
    }
}

/// With three digits after the point, cut, not rounded: 1.999 of something is not two.
fn divided(number: i128, by: u64) -> String {
    let thousandths = number * 1000 / i128::from(by);
    let sign = if thousandths < 0 { "-" } else { "" };
    let thousandths = thousandths.unsigned_abs();
    format!("{sign}{}.{:03}", thousandths / 1000, thousandths % 1000)
}

#[cfg(test)]
mod tests {
    use super::super::shown::ShownKind;
    use super::*;

    fn map(name: &str, rows: &[(u64, &str, u64)]) -> MapShown {
        let rows = rows.iter().map(|(pid, comm, value)| {
            let key = Value::Tuple(vec![Value::Unsigned(*pid), Value::Text(comm.as_bytes().to_vec())]);
            (Some(key), Shown::Value(Value::Unsigned(*value)))
        });
        MapShown { name: name.into(), scalar: false, kind: ShownKind::Map, rows: rows.collect() }
    }

    fn joined(top: u64) -> (String, String) {
        let spec = TableSpec {
            keys: vec!["PID".into(), "COMM".into()],
            values: vec![
                TableValue { head: "WAITS".into(), map: "@waits".into(), divisor: 1 },
                TableValue { head: "TOTAL_MS".into(), map: "@total".into(), divisor: 1_000_000 },
            ],
        };
        let waits = map("@waits", &[(1, "init", 3), (20, "sh", 11), (7, "a", 3)]);
        let total = map("@total", &[(20, "sh", 1_234_567), (7, "a", 0)]);
        let table = Table::join(&spec, &[&waits, &total], top);
        let (mut text, mut json) = (Vec::new(), Vec::new());
        table.write(&mut text).unwrap();
        table.write_json(&mut json).unwrap();
        (String::from_utf8(text).unwrap(), String::from_utf8(json).unwrap())
    }

    #[test]
    fn maps_are_joined_by_key_and_sorted_by_the_first_value() {
        let (text, json) = joined(0);
        assert_eq!(
            text,
            "PID COMM WAITS TOTAL_MS\n 20 sh      11    1.234\n  1 init     3        -\n  7 a        3    0.000\n"
        );
        assert_eq!(
            json.lines().nth(1),
            Some(r#"{"type": "row", "data": {"pid": 1, "comm": "init", "waits": 3, "total_ms": null}}"#)
        );
    }

    #[test]
    fn top_keeps_the_greatest() {
        assert_eq!(joined(1).0, "PID COMM WAITS TOTAL_MS\n 20 sh      11    1.234\n");
    }
}
