//! Documents as Markdown for a ticket: what was measured where and when, whether it can
//! be trusted, the answer, and the tables that support it, short enough to be read there.

use std::fmt::Write;

use crate::{
    chart::{Budget, Distribution, Timeline},
    document::{Block, Document, Findings, Level, Section},
    sentences,
    table::{Importance, Table, Unit, Value},
    terminal_text::visible,
    text::{self, TextOptions},
};

/// The document as Markdown (CommonMark with GitHub's tables).
pub fn document(document: &Document) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "## {}\n", escape(&document.title));
    if let Some(question) = &document.question {
        let _ = writeln!(out, "*{}*\n", escape(question));
    }
    for answer in &document.answer {
        let _ = writeln!(out, "**{}**\n", escape(answer));
    }
    trust(&mut out, document);
    for section in &document.sections {
        self::section(&mut out, section);
    }
    if !document.facts.is_empty() {
        out.push_str("### Measured where and how\n\n| | |\n|---|---|\n");
        for fact in &document.facts {
            let _ = writeln!(out, "| {} | {} |", escape(&fact.title), cell(&with_reason(&fact.value)));
        }
        out.push('\n');
    }
    let _ = writeln!(out, "*lotse {}*", env!("CARGO_PKG_VERSION"));
    out
}

fn with_reason(value: &Value) -> String {
    match value {
        Value::Missing(reason) => format!("– ({reason})"),
        value => value.print(),
    }
}

fn trust(out: &mut String, document: &Document) {
    let before = out.len();
    if let Some(ledger) = &document.ledger {
        item(out, ledger.level(), "Events", &sentences::ledger(ledger), ledger.remedy.as_deref());
    }
    for check in &document.checks {
        item(out, check.verdict.level(), "Cross-check", &sentences::check(check), None);
    }
    for limit in &document.limits {
        item(out, limit.level(), "Limit", &sentences::limit(limit), None);
    }
    for notice in &document.notices {
        item(out, notice.level, capitalised(notice.level), &notice.text, notice.remedy.as_deref());
    }
    if out.len() > before {
        out.push('\n');
    }
}

fn capitalised(level: Level) -> &'static str {
    match level {
        Level::Good => "OK",
        Level::Note => "Note",
        Level::Warning => "Warning",
        Level::Bad => "Failed",
    }
}

fn item(out: &mut String, level: Level, label: &str, text: &str, remedy: Option<&str>) {
    let _ = write!(out, "- {} **{label}**: {}", level.mark(), escape(text));
    if let Some(remedy) = remedy {
        let _ = write!(out, " → {}", code(remedy));
    }
    out.push('\n');
}

fn section(out: &mut String, section: &Section) {
    let _ = writeln!(out, "### {}\n", escape(&section.title));
    if let Some(lead) = &section.lead {
        let _ = writeln!(out, "{}\n", escape(lead));
    }
    for block in &section.blocks {
        match block {
            Block::Text(text) => {
                let _ = writeln!(out, "{}\n", escape(text));
            }
            Block::Table(table) => self::table(out, table),
            Block::Distribution(distribution) => self::distribution(out, distribution),
            // A picture of characters would not be read in a ticket.
            Block::HeatMap(_) => {}
            Block::Budget(Budget { table, .. }) => self::table(out, table),
            Block::Timeline(timeline) => self::timeline(out, timeline),
            Block::Flame(flame) => {
                let _ = writeln!(out, "{}\n", fenced(&text::flame(flame, &TextOptions::PIPED)));
            }
            Block::Findings(findings) => self::findings(out, findings),
        }
    }
}

fn table(out: &mut String, table: &Table) {
    if let Some(title) = &table.title {
        let _ = writeln!(out, "**{}**\n", escape(title));
    }
    let rows = &table.rows[..table.brief_rows.min(table.rows.len())];
    if rows.is_empty() {
        let _ = writeln!(out, "No {}.\n", escape(&table.row_name));
        return;
    }
    let scales = table.scales(rows);
    let columns: Vec<usize> =
        (0..table.columns.len()).filter(|&c| table.columns[c].importance < Importance::Detail).collect();
    for &c in &columns {
        let column = &table.columns[c];
        let mut head = match &column.over {
            Some(over) => format!("{over}: {}", column.title),
            None => column.title.to_string(),
        };
        if !scales[c].unit.is_empty() {
            let _ = write!(head, ", {}", scales[c].unit);
        }
        let _ = write!(out, "| {} ", cell(&head));
    }
    out.push_str("|\n");
    for &c in &columns {
        out.push_str(if table.columns[c].unit == Unit::Text { "|---" } else { "|--:" });
    }
    out.push_str("|\n");
    for row in rows {
        for &c in &columns {
            let _ = write!(out, "| {} ", cell(&row[c].print_in(scales[c])));
        }
        out.push_str("|\n");
    }
    out.push('\n');
    if rows.len() < table.rows.len() {
        let _ = writeln!(out, "{} of {} {} shown.\n", rows.len(), table.rows.len(), escape(&table.row_name));
    }
    for reason in table.missing_reasons(rows) {
        let _ = writeln!(out, "–: {}\n", escape(reason));
    }
}

fn distribution(out: &mut String, distribution: &Distribution) {
    table(out, &distribution.percentile_table());
    if let Some(series) = distribution.series.first() {
        let histogram = text::histogram(distribution, series, &TextOptions::PIPED);
        if !histogram.is_empty() {
            let _ = writeln!(out, "{}\n", fenced(&histogram));
        }
    }
}

fn timeline(out: &mut String, timeline: &Timeline) {
    let _ = writeln!(out, "{}\n", fenced(&text::timeline(timeline, &TextOptions::PIPED)));
}

fn findings(out: &mut String, findings: &Findings) {
    for finding in &findings.items {
        let mut text = finding.found.clone();
        if let Some(meaning) = &finding.meaning {
            let _ = write!(text, ": {meaning}");
        }
        item(out, finding.level, &escape(&finding.what), &text, finding.remedy.as_deref());
    }
    out.push('\n');
}

fn cell(text: &str) -> String {
    escape(text)
}

/// Text in which nothing is markup: Markdown's own characters are escaped, HTML's too since
/// Markdown lets it through, and control characters are made visible.
fn escape(text: &str) -> String {
    let text = visible(text);
    let mut out = String::with_capacity(text.len());
    let mut previous = ' ';
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' | '#' | '~' => {
                out.push('\\');
                out.push(c);
            }
            // Inside a word it is no emphasis, and names are full of it.
            '_' if !previous.is_alphanumeric() => out.push_str("\\_"),
            '&' => out.push_str("&amp;"),
            // A mention would send mail to a stranger.
            '@' => out.push_str("&#64;"),
            c => out.push(c),
        }
        previous = c;
    }
    out
}

/// Text as it is, in a fence that nothing inside it can end.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{text}{fence}")
}

/// A command, in as many backticks as it needs.
fn code(text: &str) -> String {
    let text = visible(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    if longest > 0 { format!("{fence} {text} {fence}") } else { format!("{fence}{text}{fence}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_not_markup() {
        assert_eq!(escape("a b] ==> c|d"), "a b\\] ==\\> c\\|d");
        assert_eq!(escape("<img src=x>"), "\\<img src=x\\>");
        assert_eq!(escape("sched_switch _x_ @here"), "sched_switch \\_x_ &#64;here");
        assert_eq!(code("echo `id`"), "`` echo `id` ``");
    }
}
