//! Tables in a terminal.

use std::fmt::Write;

use crate::{
    number::{Scale, count},
    table::{Importance, Table, Unit, Value},
    terminal_text::{shorten, visible, width, wrap},
    text::paint::{Style, TextOptions},
};

/// Between two columns.
const GAP: usize = 2;
/// Words are not shortened below this.
const SHORTEST_TEXT: usize = 12;

/// The table with its title, heads, rows, and a line for what is not shown.
pub fn table(table: &Table, options: &TextOptions) -> String {
    let mut out = String::new();
    if let Some(title) = &table.title {
        let _ = writeln!(out, "{}", options.paint(Style::Title, title));
    }
    if let Some(about) = &table.about {
        for line in wrap(about, options.paragraph_width()) {
            let _ = writeln!(out, "{}", options.paint(Style::Faint, &line));
        }
    }
    let shown = if options.all_rows { table.rows.len() } else { table.brief_rows.min(table.rows.len()) };
    let rows = &table.rows[..shown];
    if rows.is_empty() {
        let _ = writeln!(out, "no {}", table.row_name);
        return out;
    }
    let layout = Layout::new(table, rows, options.width);
    layout.heads(table, options, &mut out);
    for row in rows {
        layout.row(row, &mut out);
    }
    layout.foot(table, rows, options, &mut out);
    out
}

struct Layout {
    scales: Vec<Scale>,
    /// Columns shown, by their index in the table.
    columns: Vec<usize>,
    /// Width of each shown column.
    widths: Vec<usize>,
    is_text: Vec<bool>,
    left_out: Vec<usize>,
}

impl Layout {
    fn new(table: &Table, rows: &[Vec<Value>], limit: Option<usize>) -> Layout {
        let scales = table.scales(rows);
        let mut columns: Vec<usize> =
            (0..table.columns.len()).filter(|&c| table.columns[c].importance < Importance::Detail).collect();
        let natural: Vec<usize> = (0..table.columns.len())
            .map(|c| {
                let cells = rows.iter().map(|row| width(&visible(&row[c].print_in(scales[c])))).max();
                cells.unwrap_or(0).max(width(&head(table, c, scales[c])))
            })
            .collect();
        let mut left_out = Vec::new();
        let mut layout = Layout {
            is_text: table.columns.iter().map(|c| c.unit == Unit::Text).collect(),
            widths: Vec::new(),
            columns: Vec::new(),
            left_out: Vec::new(),
            scales,
        };
        loop {
            layout.widths = columns.iter().map(|&c| natural[c]).collect();
            layout.columns = columns.clone();
            layout.widen_for_groups(table);
            let Some(limit) = limit else { break };
            if layout.total() <= limit {
                break;
            }
            // First the columns that may be left out, then the words.
            let droppable = columns.iter().rposition(|&c| table.columns[c].importance == Importance::Useful);
            match droppable {
                Some(position) => left_out.push(columns.remove(position)),
                None => {
                    layout.shorten_words(limit);
                    break;
                }
            }
        }
        left_out.sort_unstable();
        layout.left_out = left_out;
        layout
    }

    fn total(&self) -> usize {
        self.widths.iter().sum::<usize>() + GAP * self.widths.len().saturating_sub(1)
    }

    fn shorten_words(&mut self, limit: usize) {
        for position in (0..self.columns.len()).rev() {
            let excess = self.total().saturating_sub(limit);
            if self.is_text[self.columns[position]] && excess > 0 {
                let width = &mut self.widths[position];
                *width = (*width).min((*width).saturating_sub(excess).max(SHORTEST_TEXT));
            }
        }
    }

    /// A head over several columns must fit over them.
    fn widen_for_groups(&mut self, table: &Table) {
        for (start, end) in self.groups(table) {
            let text = width(&group_head(table, self.columns[start], self.scales[self.columns[start]]));
            let space = self.widths[start..end].iter().sum::<usize>() + GAP * (end - start - 1);
            // A dash and a blank on each side make it a bracket.
            let needed = text + 4;
            self.widths[start] += needed.saturating_sub(space);
        }
    }

    /// Runs of shown columns that stand under one head.
    fn groups(&self, table: &Table) -> Vec<(usize, usize)> {
        let mut groups = Vec::new();
        let mut start = 0;
        while start < self.columns.len() {
            let over = &table.columns[self.columns[start]].over;
            let mut end = start + 1;
            while over.is_some() && end < self.columns.len() && table.columns[self.columns[end]].over == *over
            {
                end += 1;
            }
            if over.is_some() {
                groups.push((start, end));
            }
            start = end;
        }
        groups
    }

    fn heads(&self, table: &Table, options: &TextOptions, out: &mut String) {
        let groups = self.groups(table);
        if !groups.is_empty() {
            let mut line = String::new();
            let mut at = 0;
            for position in 0..self.columns.len() {
                if position > 0 {
                    at += GAP;
                }
                if let Some(&(_, end)) = groups.iter().find(|(start, _)| *start == position) {
                    let column = self.columns[position];
                    let text = group_head(table, column, self.scales[column]);
                    let space = self.widths[position..end].iter().sum::<usize>() + GAP * (end - position - 1);
                    let dashes = space.saturating_sub(width(&text) + 2);
                    pad_to(&mut line, at);
                    line.push_str(&"─".repeat(dashes / 2));
                    line.push(' ');
                    line.push_str(&text);
                    line.push(' ');
                    line.push_str(&"─".repeat(dashes - dashes / 2));
                }
                at += self.widths[position];
            }
            let _ = writeln!(out, "{}", options.paint(Style::Faint, &line));
        }
        let mut line = String::new();
        for (position, &column) in self.columns.iter().enumerate() {
            self.cell(&mut line, position, &head(table, column, self.scales[column]), self.is_text[column]);
        }
        let _ = writeln!(out, "{}", options.paint(Style::Title, line.trim_end()));
    }

    fn row(&self, row: &[Value], out: &mut String) {
        let mut line = String::new();
        for (position, &column) in self.columns.iter().enumerate() {
            let text = row[column].print_in(self.scales[column]);
            self.cell(&mut line, position, &visible(&text), self.is_text[column]);
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }

    fn cell(&self, line: &mut String, position: usize, text: &str, left: bool) {
        let room = self.widths[position];
        let text = if left { shorten(text, room) } else { text.to_owned() };
        let padding = " ".repeat(room.saturating_sub(width(&text)));
        if position > 0 {
            line.push_str(&" ".repeat(GAP));
        }
        if left {
            line.push_str(&text);
            line.push_str(&padding);
        } else {
            line.push_str(&padding);
            line.push_str(&text);
        }
    }

    fn foot(&self, table: &Table, rows: &[Vec<Value>], options: &TextOptions, out: &mut String) {
        let mut notes = Vec::new();
        if rows.len() < table.rows.len() {
            let (shown, all) = (count(rows.len() as u64), count(table.rows.len() as u64));
            notes.push(format!("{shown} of {all} {} shown", table.row_name));
        }
        if !self.left_out.is_empty() {
            let names: Vec<&str> = self.left_out.iter().map(|&c| table.columns[c].title.as_ref()).collect();
            notes.push(format!("not shown at this width: {}", names.join(", ")));
        }
        notes.extend(table.missing_reasons(rows).into_iter().map(|reason| format!("–: {}", visible(reason))));
        for note in notes {
            for line in wrap(&note, options.paragraph_width()) {
                let _ = writeln!(out, "{}", options.paint(Style::Faint, &line));
            }
        }
    }
}

fn pad_to(line: &mut String, column: usize) {
    let used = width(line);
    line.push_str(&" ".repeat(column.saturating_sub(used)));
}

/// A column's own head: with its unit, unless a common head above says it.
fn head(table: &Table, column: usize, scale: Scale) -> String {
    let title = &table.columns[column].title;
    if scale.unit.is_empty() || table.unit_stands_above(column) {
        title.to_string()
    } else {
        format!("{title}, {}", scale.unit)
    }
}

fn group_head(table: &Table, column: usize, scale: Scale) -> String {
    let over = table.columns[column].over.as_deref().unwrap_or_default();
    if scale.unit.is_empty() || !table.unit_stands_above(column) {
        over.to_owned()
    } else {
        format!("{over}, {}", scale.unit)
    }
}
