//! Losses, cross-checks, limits and notices: a strip at the top, the details further down.

use std::fmt::Write;

use super::{
    escape::{escape, prose},
    table,
};
use crate::{
    document::{Document, Level, Verdict},
    sentences,
    table::{Column, Table, Unit, Value},
};

/// One entry for each kind, linked to the details.
pub fn strip(out: &mut String, document: &Document) {
    out.push_str("<ul class=\"strip\" aria-label=\"Losses, cross-checks and limits\">\n");
    if let Some(ledger) = &document.ledger {
        entry(out, ledger.level(), &sentences::ledger_in_short(ledger));
    }
    let number = |verdict| document.checks.iter().filter(|c| c.verdict == verdict).count();
    let (agree, differ) = (number(Verdict::Agrees), number(Verdict::Differs));
    let explained = number(Verdict::Explained);
    match (document.checks.len(), differ) {
        (0, _) => entry(out, Level::Note, "no cross-check"),
        (all, 0) if explained > 0 => {
            entry(
                out,
                Level::Warning,
                &format!("{agree} of {all} cross-checks agree, {explained} differ for a known reason"),
            );
        }
        (_, 0) if agree == 0 => entry(out, Level::Note, "no cross-check could be made"),
        (_, 0) => entry(out, Level::Good, &format!("{agree} cross-checks agree")),
        (all, _) => entry(out, Level::Bad, &format!("{differ} of {all} cross-checks differ")),
    }
    for limit in &document.limits {
        entry(out, limit.level(), &sentences::limit(limit));
    }
    let worst = document.notices.iter().map(|n| n.level).max();
    if let Some(level) = worst {
        let number = document.notices.len();
        let word = if number == 1 { "thing" } else { "things" };
        entry(out, level, &format!("{number} {word} to know"));
    }
    out.push_str("</ul>\n");
}

fn entry(out: &mut String, level: Level, text: &str) {
    let _ = writeln!(
        out,
        "<li class=\"l-{}\"><a href=\"#trust\">{}{}</a></li>",
        class(level),
        mark(level),
        prose(text)
    );
}

/// The mark, and the word for those who do not see it.
fn mark(level: Level) -> String {
    format!("<span class=\"mark\" role=\"img\" aria-label=\"{}\">{}</span> ", level.word(), level.mark())
}

fn class(level: Level) -> &'static str {
    match level {
        Level::Good => "good",
        Level::Note => "note",
        Level::Warning => "warning",
        Level::Bad => "bad",
    }
}

/// An entry of a list; `html` is escaped already.
pub fn item(out: &mut String, level: Level, html: &str, remedy: Option<&str>) {
    let _ = write!(out, "<li class=\"l-{}\">{}<div>{html}", class(level), mark(level));
    if let Some(remedy) = remedy {
        let _ = write!(out, "<br>→ <code>{}</code>", escape(remedy));
    }
    out.push_str("</div></li>\n");
}

/// The whole account.
pub fn details(out: &mut String, document: &Document) {
    out.push_str("<section id=\"trust\">\n<h2>Can it be trusted?</h2>\n<ul class=\"findings\">\n");
    if let Some(ledger) = &document.ledger {
        let text = format!("<b>Events</b> {}", prose(&sentences::ledger(ledger)));
        item(out, ledger.level(), &text, ledger.remedy.as_deref());
    }
    for limit in &document.limits {
        item(out, limit.level(), &format!("<b>Limit</b> {}", prose(&sentences::limit(limit))), None);
    }
    for notice in &document.notices {
        item(out, notice.level, &prose(&notice.text), notice.remedy.as_deref());
    }
    out.push_str("</ul>\n");
    if let Some(places) = document.ledger.as_ref().and_then(|l| l.places.as_ref()) {
        table::table(out, places);
    }
    if !document.checks.is_empty() {
        table::table(out, &checks(document));
    }
    out.push_str("</section>\n");
}

/// The cross-checks as a table, those that differ first.
fn checks(document: &Document) -> Table {
    let mut table = Table::new(
        "checks",
        "cross-checks",
        vec![
            Column::new("what", "what", Unit::Text).essential(),
            Column::new("verdict", "verdict", Unit::Text).essential(),
            Column::new("ours", "from events", Unit::Text).essential(),
            Column::new("theirs", "by counter", Unit::Text).essential(),
            Column::new("difference", "difference", Unit::Share).essential(),
            Column::new("source", "counter", Unit::Text).essential(),
            Column::new("reason", "why", Unit::Text).essential(),
        ],
    )
    .title("Cross-checks against the kernel's own counters");
    let mut checks: Vec<_> = document.checks.iter().collect();
    checks.sort_by_key(|c| std::cmp::Reverse(c.verdict.level()));
    for check in checks {
        let print = |value: &Value| match value {
            Value::Missing(reason) => Value::Missing(reason.clone()),
            value => Value::text(value.print()),
        };
        table.push(vec![
            Value::Text(check.what.clone()),
            Value::text(format!("{} {}", check.verdict.level().mark(), check.verdict.word())),
            print(&check.ours),
            print(&check.theirs),
            check.difference.clone(),
            Value::Text(check.source.clone()),
            Value::text(check.reason.clone().unwrap_or_default()),
        ]);
    }
    table
}
