//! A whole document as text: trust first, then the answer, then what supports it.

use std::fmt::Write;

use crate::{
    document::{Block, Check, Document, Findings, Level, Section, Verdict},
    sentences,
    table::Value,
    terminal_text::{shorten, visible, width, wrap},
    text::{
        charts,
        paint::{Style, TextOptions},
        table,
    },
};

/// Where the text behind a mark and its label begins.
const INDENT: usize = 12;

/// The document as it is read in a terminal or from a pipe.
pub fn document(document: &Document, options: &TextOptions) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", options.paint(Style::Title, &document.title));
    let headline: Vec<String> = document
        .facts
        .iter()
        .filter(|f| f.headline && !matches!(f.value, Value::Missing(_)))
        // A long command would push everything else out of sight.
        .map(|f| shorten(&visible(&f.value.print()), 60))
        .collect();
    if !headline.is_empty() {
        paragraph(&mut out, &headline.join(" · "), Some(Style::Faint), options);
    }
    out.push('\n');
    let before = out.len();
    trust(&mut out, document, options);
    if out.len() > before {
        out.push('\n');
    }
    for answer in &document.answer {
        paragraph(&mut out, answer, Some(Style::Title), options);
    }
    if !document.answer.is_empty() {
        out.push('\n');
    }
    for section in document.sections.iter().filter(|s| s.brief || options.all_rows) {
        self::section(&mut out, section, options);
    }
    notices(&mut out, document, |level| level <= Level::Note, options);
    let hidden: Vec<&str> = document
        .sections
        .iter()
        .filter(|s| !s.brief && !options.all_rows && !s.title.is_empty())
        .map(|s| s.title.as_ref())
        .collect();
    if !hidden.is_empty() {
        let text = format!("--all, or another --format, also tells: {}", hidden.join("; "));
        paragraph(&mut out, &text, Some(Style::Faint), options);
    }
    while out.ends_with("\n\n") {
        out.pop();
    }
    out
}

fn paragraph(out: &mut String, text: &str, style: Option<Style>, options: &TextOptions) {
    for line in wrap(&visible(&text.replace('\n', " ")), options.paragraph_width()) {
        let line = style.map_or(line.clone(), |style| options.paint(style, &line));
        let _ = writeln!(out, "{line}");
    }
}

/// Losses, cross-checks, limits and notices, one line each where nothing is wrong.
fn trust(out: &mut String, document: &Document, options: &TextOptions) {
    if let Some(ledger) = &document.ledger {
        line(out, ledger.level(), "events", &sentences::ledger(ledger), options);
        if let Some(remedy) = &ledger.remedy {
            self::remedy(out, remedy, options);
        }
        if let (Some(places), true) = (&ledger.places, ledger.level() >= Level::Warning) {
            for row in table(places, options).lines() {
                let _ = writeln!(out, "{}{row}", " ".repeat(INDENT));
            }
        }
    }
    checks(out, &document.checks, options);
    for limit in &document.limits {
        line(out, limit.level(), "limit", &sentences::limit(limit), options);
    }
    notices(out, document, |level| level > Level::Note, options);
}

/// Warnings stand before the answer; notes, which change no number, after all else.
fn notices(out: &mut String, document: &Document, which: fn(Level) -> bool, options: &TextOptions) {
    for notice in document.notices.iter().filter(|n| which(n.level)) {
        line(out, notice.level, notice.level.word(), &notice.text, options);
        if let Some(remedy) = &notice.remedy {
            self::remedy(out, remedy, options);
        }
    }
}

fn checks(out: &mut String, checks: &[Check], options: &TextOptions) {
    let named = |verdict| checks.iter().filter(move |c| c.verdict == verdict);
    let agreeing: Vec<&Check> = named(Verdict::Agrees).collect();
    if !agreeing.is_empty() {
        let names = sentences::checks_in_short(&agreeing);
        let text = format!("{} of {} agree: {names}", agreeing.len(), checks.len());
        line(out, Level::Good, "checks", &text, options);
    }
    for verdict in [Verdict::Differs, Verdict::Explained] {
        for check in named(verdict) {
            line(out, verdict.level(), "check", &sentences::check(check), options);
        }
    }
    let open: Vec<String> = named(Verdict::Unavailable)
        .map(|c| match &c.reason {
            Some(reason) => format!("{} ({reason})", c.what),
            None => c.what.to_string(),
        })
        .collect();
    if !open.is_empty() {
        line(out, Level::Note, "not checked", &open.join(", "), options);
    }
}

fn line(out: &mut String, level: Level, label: &str, text: &str, options: &TextOptions) {
    let room = options.paragraph_width().saturating_sub(INDENT + 2).max(20);
    let text = visible(text);
    for (i, piece) in wrap(&text, room).into_iter().enumerate() {
        if i == 0 {
            let padding = " ".repeat(INDENT.saturating_sub(width(label)));
            let _ = writeln!(out, "{} {label}{padding}{piece}", options.mark(level));
        } else {
            let _ = writeln!(out, "{}{piece}", " ".repeat(INDENT + 2));
        }
    }
}

fn remedy(out: &mut String, text: &str, options: &TextOptions) {
    let text = visible(text);
    let _ = writeln!(out, "{}→ {}", " ".repeat(INDENT + 2), options.paint(Style::Remedy, &text));
}

fn section(out: &mut String, section: &Section, options: &TextOptions) {
    if !section.title.is_empty() {
        let _ = writeln!(out, "{}", options.paint(Style::Head, &section.title));
    }
    if let Some(lead) = &section.lead {
        paragraph(out, lead, None, options);
    }
    for block in &section.blocks {
        match block {
            Block::Text(text) => paragraph(out, text, None, options),
            Block::Table(table) => out.push_str(&self::table(table, options)),
            Block::Distribution(distribution) => out.push_str(&charts::distribution(distribution, options)),
            // Needs more room than a terminal has; HTML and JSON carry it.
            Block::HeatMap(_) => continue,
            Block::Budget(budget) => out.push_str(&charts::budget(budget, options)),
            Block::Timeline(timeline) => out.push_str(&charts::timeline(timeline, options)),
            Block::Flame(flame) => out.push_str(&super::flame(flame, options)),
            Block::Findings(findings) => self::findings(out, findings, options),
        }
        out.push('\n');
    }
    if !out.ends_with("\n\n") {
        out.push('\n');
    }
}

fn findings(out: &mut String, findings: &Findings, options: &TextOptions) {
    let label_width = findings.items.iter().map(|f| width(&f.what)).max().unwrap_or(0);
    let indent = label_width + 4;
    let room = options.paragraph_width().saturating_sub(indent).max(20);
    for item in &findings.items {
        let mut text = visible(&item.found).into_owned();
        if let Some(meaning) = &item.meaning {
            let _ = write!(text, ": {}", visible(meaning));
        }
        for (i, piece) in wrap(&text, room).into_iter().enumerate() {
            if i == 0 {
                let padding = " ".repeat(label_width - width(&item.what));
                let _ = writeln!(out, "{} {}{padding}  {piece}", options.mark(item.level), item.what);
            } else {
                let _ = writeln!(out, "{}{piece}", " ".repeat(indent));
            }
        }
        if let Some(remedy) = &item.remedy {
            let _ =
                writeln!(out, "{}→ {}", " ".repeat(indent), options.paint(Style::Remedy, &visible(remedy)));
        }
    }
}
