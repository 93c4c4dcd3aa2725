//! Tables. All rows and columns are in the page; the script folds, sorts and filters them.

use std::fmt::Write;

use super::escape::{anchor, escape};
use crate::{
    chart::{Budget, Part},
    html::axis::percent,
    number::{Scale, count},
    table::{Importance, Table, Unit, Value},
};

/// More rows than this make a page heavy and nobody reads them; JSON has all.
const MOST_ROWS: usize = 300;
/// A bar takes more room than a row of numbers.
const MOST_BARS: usize = 100;

/// A table with its title and sentence.
pub fn table(out: &mut String, table: &Table) {
    write(out, table, None);
}

/// A table whose rows begin with a bar of where the time went.
pub fn budget(out: &mut String, budget: &Budget) {
    write(out, &budget.table, Some((budget, budget.bar_column())));
}

fn write(out: &mut String, table: &Table, bars: Option<(&Budget, usize)>) {
    let _ = writeln!(out, "<div class=\"block\" id=\"{}\">", anchor(&table.id));
    if let Some(title) = &table.title {
        let _ = writeln!(out, "<h3>{}</h3>", escape(title));
    }
    if let Some(about) = &table.about {
        let _ = writeln!(out, "<p class=\"about\">{}</p>", escape(about));
    }
    if table.rows.is_empty() {
        let _ = writeln!(out, "<p class=\"about\">No {}.</p></div>", escape(&table.row_name));
        return;
    }
    let rows = &table.rows[..table.rows.len().min(if bars.is_some() { MOST_BARS } else { MOST_ROWS })];
    let scales = table.scales(rows);
    let bars = bars.map(|(budget, place)| (legend(out, budget), place));
    let label = table.title.as_ref().unwrap_or(&table.row_name);
    let _ = writeln!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n<table data-brief=\"{}\" data-rows=\"{}\">",
        escape(label),
        table.brief_rows,
        escape(&table.row_name)
    );
    heads(out, table, &scales, bars.as_ref().map(|(_, place)| *place));
    out.push_str("<tbody>\n");
    for (index, row) in rows.iter().enumerate() {
        match table.spans.get(index) {
            Some((from, to)) => {
                let _ = write!(out, "<tr data-from=\"{from}\" data-to=\"{to}\">");
            }
            None => out.push_str("<tr>"),
        }
        for (c, (column, value)) in table.columns.iter().zip(row).enumerate() {
            let text = escape(&value.print_in(scales[c]));
            let detail = if column.importance == Importance::Detail { " d" } else { "" };
            if c == 0 && column.unit == Unit::Text {
                let _ = write!(out, "<th scope=\"row\">{text}</th>");
            } else if let Value::Missing(reason) = value {
                let _ = write!(out, "<td class=\"x{detail}\" title=\"{}\">–</td>", escape(reason));
            } else if column.unit == Unit::Text {
                // A sentence may break; a name may not.
                let long = if text.len() > 48 { " w" } else { "" };
                let _ = write!(out, "<td class=\"t{long}{detail}\">{text}</td>");
            } else if detail.is_empty() {
                let _ = write!(out, "<td>{text}</td>");
            } else {
                let _ = write!(out, "<td class=\"d\">{text}</td>");
            }
            if let Some((parts, place)) = &bars
                && c + 1 == *place
            {
                bar(out, row, parts);
            }
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    if rows.len() < table.rows.len() {
        let _ = writeln!(
            out,
            "<p class=\"about\">{} of {} {} are in this page; <code>--format json</code> has all.</p>",
            count(rows.len() as u64),
            count(table.rows.len() as u64),
            escape(&table.row_name)
        );
    }
    for reason in table.missing_reasons(rows) {
        let _ = writeln!(out, "<p class=\"about\">–: {}</p>", escape(reason));
    }
    out.push_str("</div>\n");
}

fn heads(out: &mut String, table: &Table, scales: &[Scale], bars: Option<usize>) {
    out.push_str("<thead>\n");
    if table.columns.iter().any(|c| c.over.is_some()) {
        out.push_str("<tr class=\"over\">");
        let mut c = 0;
        while c < table.columns.len() {
            let column = &table.columns[c];
            // Detail columns are folded as one, so they have a head of their own.
            let same = |other: &crate::Column| {
                column.over.is_some()
                    && other.over == column.over
                    && (other.importance == Importance::Detail) == (column.importance == Importance::Detail)
            };
            let span = 1 + table.columns[c + 1..].iter().take_while(|o| same(o)).count();
            let detail = if column.importance == Importance::Detail { " class=\"d\"" } else { "" };
            match &column.over {
                None => {
                    let _ = write!(out, "<td{detail}></td>");
                }
                Some(over) => {
                    let unit = if table.unit_stands_above(c) && !scales[c].unit.is_empty() {
                        format!(", {}", scales[c].unit)
                    } else {
                        String::new()
                    };
                    let _ = write!(
                        out,
                        "<th{detail} scope=\"colgroup\" colspan=\"{span}\">{}{unit}</th>",
                        escape(over)
                    );
                }
            }
            c += span;
            if bars == Some(c) {
                out.push_str("<td></td>");
            }
        }
        out.push_str("</tr>\n");
    }
    out.push_str("<tr>");
    for (c, column) in table.columns.iter().enumerate() {
        let mut classes = Vec::new();
        if column.unit == Unit::Text {
            classes.push("t");
        }
        if column.importance == Importance::Detail {
            classes.push("d");
        }
        let class =
            if classes.is_empty() { String::new() } else { format!(" class=\"{}\"", classes.join(" ")) };
        let about = column.about.as_ref().map(|a| format!(" title=\"{}\"", escape(a))).unwrap_or_default();
        let unit = if scales[c].unit.is_empty() || table.unit_stands_above(c) {
            String::new()
        } else {
            format!(", {}", scales[c].unit)
        };
        let _ = write!(out, "<th{class}{about} scope=\"col\">{}{unit}</th>", escape(&column.title));
        if bars == Some(c + 1) {
            out.push_str("<th class=\"t bar\" scope=\"col\">where its time went</th>");
        }
    }
    out.push_str("</tr>\n</thead>\n");
}

/// The parts that occur, with their columns.
fn legend<'a>(out: &mut String, budget: &'a Budget) -> Vec<(usize, &'a Part)> {
    let table = &budget.table;
    let parts: Vec<(usize, &Part)> = budget
        .parts
        .iter()
        .filter_map(|part| Some((budget.part_column(part)?, part)))
        .filter(|(c, _)| table.rows.iter().any(|row| row[*c].as_number().is_some_and(|v| v > 0.0)))
        .collect();
    out.push_str("<p class=\"legend\">");
    for (c, part) in &parts {
        let _ = write!(
            out,
            "<span><svg width=\"12\" height=\"12\" aria-hidden=\"true\"><rect width=\"12\" height=\"12\" class=\"m-{}\"/></svg> {}</span> ",
            part.meaning.name(),
            escape(&table.columns[*c].title)
        );
    }
    out.push_str("</p>\n");
    parts
}

fn bar(out: &mut String, row: &[Value], parts: &[(usize, &Part)]) {
    let total: f64 = parts.iter().filter_map(|(c, _)| row[*c].as_number()).sum();
    // The numbers stand beside it, so it is decoration for those who cannot see it.
    out.push_str("<td class=\"bar\"><svg width=\"100%\" height=\"13\" aria-hidden=\"true\">");
    let mut at = 0.0;
    for (c, part) in parts {
        let size = row[*c].as_number().unwrap_or(0.0) / total.max(1.0);
        // A tenth of a per cent is less than a pixel.
        if size >= 0.001 {
            let _ = write!(
                out,
                "<rect class=\"m-{}\" x=\"{}\" width=\"{}\" height=\"13\"/>",
                part.meaning.name(),
                percent(at),
                percent(size)
            );
        }
        at += size;
    }
    out.push_str("</svg></td>");
}
