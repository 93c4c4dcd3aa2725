//! Tables: typed columns with units, rows of values, and what a reader needs beside them.

use std::borrow::Cow;

use crate::number::{self, Scale};

/// A text that is either part of the program or made at run time.
pub type Text = Cow<'static, str>;

/// What the numbers of a column are; decides alignment, format, and the ending of the
/// column's name in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Words, left-aligned.
    Text,
    /// A number that names something (tid, CPU, priority): never grouped, never summed.
    Id,
    /// How many.
    Count,
    /// Nanoseconds.
    Nanos,
    /// Bytes.
    Bytes,
    /// A part of a whole, 0…1, shown in per cent.
    Share,
    /// Per second.
    Rate,
    /// A plain number with decimals.
    Number,
}

impl Unit {
    /// The ending of a JSON key for such numbers, so that a number never comes without
    /// its unit: `p99` in nanoseconds is `p99_ns`.
    pub fn json_suffix(self) -> &'static str {
        match self {
            Unit::Nanos => "_ns",
            Unit::Bytes => "_bytes",
            Unit::Share => "_share",
            Unit::Rate => "_per_s",
            Unit::Text | Unit::Id | Unit::Count | Unit::Number => "",
        }
    }

    /// The unit's name in JSON's column lists.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Text => "text",
            Unit::Id => "id",
            Unit::Count => "count",
            Unit::Nanos => "ns",
            Unit::Bytes => "bytes",
            Unit::Share => "share",
            Unit::Rate => "per_s",
            Unit::Number => "number",
        }
    }

    /// One whole number in this unit, for sentences, axes and marks.
    pub fn print(self, value: u64) -> String {
        match self {
            Unit::Nanos => number::time(value),
            Unit::Bytes => number::bytes(value),
            Unit::Share => number::share(value as f64),
            Unit::Rate => number::rate(value as f64),
            Unit::Text | Unit::Id => value.to_string(),
            Unit::Count | Unit::Number => number::count(value),
        }
    }
}

/// One cell, fact or limit: a number with its unit, a text, or the reason why there is none.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Words.
    Text(Text),
    /// A number that names something.
    Id(i64),
    /// How many.
    Count(u64),
    /// Nanoseconds.
    Nanos(u64),
    /// Bytes.
    Bytes(u64),
    /// A part of a whole, 0…1 (a difference may be negative).
    Share(f64),
    /// Per second.
    Rate(f64),
    /// A plain number.
    Number(f64),
    /// No answer, and why. Never printed as zero.
    Missing(Text),
}

impl Value {
    /// Words.
    pub fn text(text: impl Into<Text>) -> Value {
        Value::Text(text.into())
    }

    /// No answer, and why.
    pub fn missing(reason: impl Into<Text>) -> Value {
        Value::Missing(reason.into())
    }

    /// A whole number of this unit.
    pub fn of_unit(unit: Unit, value: u64) -> Value {
        match unit {
            Unit::Nanos => Value::Nanos(value),
            Unit::Bytes => Value::Bytes(value),
            _ => Value::Count(value),
        }
    }

    /// The value if there is one, else the reason.
    pub fn or_missing(value: Option<Value>, reason: impl Into<Text>) -> Value {
        value.unwrap_or_else(|| Value::Missing(reason.into()))
    }

    /// The number to compare and draw by; none for words and missing values.
    pub fn as_number(&self) -> Option<f64> {
        match *self {
            Value::Id(v) => Some(v as f64),
            Value::Count(v) | Value::Nanos(v) | Value::Bytes(v) => Some(v as f64),
            Value::Share(v) | Value::Rate(v) | Value::Number(v) => Some(v).filter(|v| v.is_finite()),
            Value::Text(_) | Value::Missing(_) => None,
        }
    }

    /// Alone, in a sentence or a list of facts, with its unit. A missing value is `–`.
    pub fn print(&self) -> String {
        match self {
            Value::Text(text) => text.clone().into_owned(),
            Value::Id(v) => v.to_string(),
            Value::Count(v) => number::count(*v),
            Value::Nanos(v) => number::time(*v),
            Value::Bytes(v) => number::bytes(*v),
            Value::Share(v) if v.is_finite() => number::share(*v),
            Value::Rate(v) if v.is_finite() => number::rate(*v),
            Value::Number(v) if v.is_finite() => number::fixed(*v, if v.abs() >= 1000.0 { 0 } else { 2 }),
            Value::Share(_) | Value::Rate(_) | Value::Number(_) | Value::Missing(_) => "–".to_owned(),
        }
    }

    /// In a column that has this scale, without the unit.
    pub fn print_in(&self, scale: Scale) -> String {
        match self {
            Value::Text(_) | Value::Id(_) | Value::Missing(_) => self.print(),
            other => match other.as_number() {
                Some(number) => scale.print(number),
                None => "–".to_owned(),
            },
        }
    }
}

/// Where a column may be left out for want of room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Importance {
    /// In every format at every width.
    Essential,
    /// Left out of a terminal that is too narrow, the rightmost first.
    Useful,
    /// In HTML and JSON only.
    Detail,
}

/// A column: what its numbers are and mean.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name in JSON, without the unit's ending.
    pub key: Text,
    /// Its head.
    pub title: Text,
    /// What its numbers are.
    pub unit: Unit,
    /// A head over several neighbouring columns that belong together, such as the
    /// percentiles of one quantity. They share one unit and number of decimals.
    pub over: Option<Text>,
    /// What it says, in a sentence; for a hint and the JSON contract.
    pub about: Option<Text>,
    /// Whether it may be left out.
    pub importance: Importance,
}

impl Column {
    /// A column of useful importance.
    pub fn new(key: impl Into<Text>, title: impl Into<Text>, unit: Unit) -> Column {
        Column {
            key: key.into(),
            title: title.into(),
            unit,
            over: None,
            about: None,
            importance: Importance::Useful,
        }
    }

    /// With a head that it shares with its neighbours.
    pub fn over(mut self, head: impl Into<Text>) -> Column {
        self.over = Some(head.into());
        self
    }

    /// With a sentence that says what it means.
    pub fn about(mut self, about: impl Into<Text>) -> Column {
        self.about = Some(about.into());
        self
    }

    /// In every format at every width.
    pub fn essential(mut self) -> Column {
        self.importance = Importance::Essential;
        self
    }

    /// In HTML and JSON only.
    pub fn detail(mut self) -> Column {
        self.importance = Importance::Detail;
        self
    }

    /// The column's name in JSON.
    pub fn json_key(&self) -> String {
        format!("{}{}", self.key, self.unit.json_suffix())
    }
}

/// Rows of values under typed columns, in the order a reader should meet them.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name in JSON and its anchor in HTML, unique in a document.
    pub id: Text,
    /// Its title, or none where the section's title says it.
    pub title: Option<Text>,
    /// What it shows and in which order, in a sentence.
    pub about: Option<Text>,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<Value>>,
    /// How many rows text and Markdown show; the rest is counted and named.
    pub brief_rows: usize,
    /// What one row is, as a plural, for the line that counts rows left out: `threads`.
    pub row_name: Text,
    /// For rows that stand for a stretch of time: from when to when, in nanoseconds since
    /// second 0 of the pictures over time, so that a page can show it there. Empty, or one
    /// for each row.
    pub spans: Vec<(u64, u64)>,
}

impl Table {
    /// An empty table; text output shows up to 20 rows.
    pub fn new(id: impl Into<Text>, row_name: impl Into<Text>, columns: Vec<Column>) -> Table {
        Table {
            id: id.into(),
            title: None,
            about: None,
            columns,
            rows: Vec::new(),
            brief_rows: 20,
            row_name: row_name.into(),
            spans: Vec::new(),
        }
    }

    /// With a title.
    pub fn title(mut self, title: impl Into<Text>) -> Table {
        self.title = Some(title.into());
        self
    }

    /// With a sentence that says what it shows.
    pub fn about(mut self, about: impl Into<Text>) -> Table {
        self.about = Some(about.into());
        self
    }

    /// With this many rows in text and Markdown.
    pub fn brief(mut self, rows: usize) -> Table {
        self.brief_rows = rows;
        self
    }

    /// Adds a row, which has to be as long as the columns.
    pub fn push(&mut self, row: Vec<Value>) {
        assert_eq!(row.len(), self.columns.len(), "table {}: a row for other columns", self.id);
        self.rows.push(row);
    }

    /// Whether a column stands under a common head whose columns all have one unit, so that
    /// the head can say it for all.
    pub fn unit_stands_above(&self, column: usize) -> bool {
        let Some(over) = &self.columns[column].over else { return false };
        let unit = self.columns[column].unit;
        let same_head = |c: &&Column| c.over.as_ref() == Some(over);
        let before = self.columns[..column].iter().rev().take_while(same_head);
        let after = self.columns[column..].iter().take_while(same_head);
        before.chain(after).all(|c| c.unit == unit)
    }

    /// The scale of each column over these rows: columns that stand side by side under one
    /// head and have the same unit share it.
    pub fn scales(&self, rows: &[Vec<Value>]) -> Vec<Scale> {
        let mut scales: Vec<Scale> = Vec::with_capacity(self.columns.len());
        let mut start = 0;
        while start < self.columns.len() {
            let first = &self.columns[start];
            let mut end = start + 1;
            while end < self.columns.len()
                && first.over.is_some()
                && self.columns[end].over == first.over
                && self.columns[end].unit == first.unit
            {
                end += 1;
            }
            let numbers = || rows.iter().flat_map(|row| &row[start..end]).filter_map(Value::as_number);
            let whole = || numbers().map(|v| v as u64);
            let scale = match first.unit {
                Unit::Nanos if end - start > 1 => Scale::for_times_finely(whole()),
                Unit::Nanos => Scale::for_times(whole()),
                Unit::Bytes => Scale::for_bytes(whole()),
                Unit::Share => Scale::SHARE,
                Unit::Rate => Scale::for_numbers("/s", numbers()),
                Unit::Number => Scale::for_numbers("", numbers()),
                Unit::Text | Unit::Id | Unit::Count => Scale::COUNT,
            };
            scales.extend(std::iter::repeat_n(scale, end - start));
            start = end;
        }
        scales
    }

    /// The distinct reasons for missing values of these rows in the columns that are not
    /// details, in order.
    pub fn missing_reasons<'a>(&self, rows: &'a [Vec<Value>]) -> Vec<&'a str> {
        let mut reasons = Vec::new();
        for (column, value) in rows.iter().flat_map(|row| self.columns.iter().zip(row)) {
            if column.importance < Importance::Detail
                && let Value::Missing(reason) = value
                && !reason.is_empty()
                && !reasons.contains(&reason.as_ref())
            {
                reasons.push(reason.as_ref());
            }
        }
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_under_one_head_share_a_scale() {
        let mut table = Table::new(
            "t",
            "threads",
            vec![
                Column::new("p50", "p50", Unit::Nanos).over("wait"),
                Column::new("max", "max", Unit::Nanos).over("wait"),
                Column::new("run", "run", Unit::Nanos),
                Column::new("n", "n", Unit::Count),
            ],
        );
        table.push(vec![Value::Nanos(500), Value::Nanos(5_000_000), Value::Nanos(800), Value::Count(3)]);
        let scales = table.scales(&table.rows);
        assert_eq!(scales.iter().map(|s| s.unit).collect::<Vec<_>>(), ["ms", "ms", "ns", ""]);
    }

    #[test]
    fn a_value_that_is_not_finite_is_missing() {
        assert_eq!(Value::Share(f64::NAN).print(), "–");
        assert_eq!(Value::Number(f64::INFINITY).as_number(), None);
        assert_eq!(Value::Share(f64::NAN).print_in(Scale::SHARE), "–");
    }

    #[test]
    #[should_panic(expected = "a row for other columns")]
    fn a_short_row_is_a_mistake_of_ours() {
        Table::new("t", "rows", vec![Column::new("a", "a", Unit::Count)]).push(vec![]);
    }
}
