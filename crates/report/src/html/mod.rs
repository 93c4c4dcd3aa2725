//! Documents as one self-contained HTML file.
//!
//! It is whole without its script (which only sorts, filters, zooms and reads out), asks
//! nothing of any network, and its content security policy forbids that it ever could:
//! the one style sheet and the one script are named by their hashes.

use std::fmt::Write;

pub(crate) mod escape;
mod hash;
mod axis;
mod table;
mod histogram;
mod time;
mod heat;
mod timeline;
pub(crate) mod flame;
mod trust;

use escape::{anchor, escape, prose};

use crate::{
    document::{Block, Document, Findings, Section},
    table::Value,
};

const STYLE: &str = include_str!("page.css");
const DARK: &str = include_str!("dark.css");
const SCRIPT: &str = include_str!("page.js");
/// Flame graphs are also pictures of their own.
pub(crate) const FLAME_STYLE: &str = include_str!("flame.css");
pub(crate) const FLAME_SCRIPT: &str = include_str!("flame.js");

/// The document as a page.
pub fn document(document: &Document) -> String {
    // The dark colours are needed twice: for who prefers them and for who chose them.
    let style = STYLE.replace("/*dark*/", DARK.trim()).replace("/*flame*/", FLAME_STYLE.trim());
    let script = SCRIPT.replace("/*flame*/", FLAME_SCRIPT.trim());
    let mut out = String::with_capacity(64 << 10);
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{}'; script-src '{}'; \
         img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"lotse {}\">\n\
         <title>{}</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>{style}</style>\n</head>\n<body>\n",
        hash::csp_source(&style),
        hash::csp_source(&script),
        env!("CARGO_PKG_VERSION"),
        escape(&document.title)
    );
    header(&mut out, document);
    out.push_str("<main>\n");
    // A drawing of what was given has nothing that could be checked.
    let is_measured = document.kind != flame::KIND;
    if is_measured {
        trust::strip(&mut out, document);
    }
    if !document.answer.is_empty() {
        out.push_str("<section class=\"answer\" id=\"answer\" aria-label=\"The answer\">\n");
        for answer in &document.answer {
            let _ = writeln!(out, "<p>{}</p>", prose(answer));
        }
        out.push_str("</section>\n");
    }
    if is_measured {
        contents(&mut out, document);
    }
    for section in &document.sections {
        self::section(&mut out, section);
    }
    if is_measured {
        trust::details(&mut out, document);
    }
    facts(&mut out, document);
    let _ = write!(
        out,
        "</main>\n<footer>Made by lotse {}. This page is one file and loads nothing.</footer>\n",
        env!("CARGO_PKG_VERSION")
    );
    // The pattern for what is not known; referred to by the style sheet.
    out.push_str(
        "<svg width=\"0\" height=\"0\" aria-hidden=\"true\" class=\"defs\"><defs>\
         <pattern id=\"hatch\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\"><path d=\"M0 4L4 0M-1 1L1 -1M3 5L5 3\"/></pattern>\
         </defs></svg>\n",
    );
    let _ = write!(out, "<script>{script}</script>\n</body>\n</html>\n");
    out
}

fn header(out: &mut String, document: &Document) {
    let headline: Vec<String> = document
        .facts
        .iter()
        .filter(|f| f.headline && !matches!(f.value, Value::Missing(_)))
        .map(|f| format!("<span>{}</span>", escape(&f.value.print())))
        .collect();
    let _ = writeln!(
        out,
        "<header>\n<p class=\"brand\"><b>lotse</b> {}</p>\n<h1>{}</h1>",
        headline.join(" "),
        escape(&document.title)
    );
    if let Some(question) = &document.question {
        let _ = writeln!(out, "<p class=\"question\">{}</p>", escape(question));
    }
    out.push_str("</header>\n");
}

fn contents(out: &mut String, document: &Document) {
    out.push_str("<nav aria-label=\"Contents\">");
    for section in document.sections.iter().filter(|s| !s.title.is_empty()) {
        let _ = write!(out, "<a href=\"#s-{}\">{}</a> ", anchor(&section.id), escape(&section.title));
    }
    out.push_str("<a href=\"#trust\">Can it be trusted?</a>");
    if !document.facts.is_empty() {
        out.push_str(" <a href=\"#facts\">Measured where and how</a>");
    }
    out.push_str("</nav>\n");
}

fn section(out: &mut String, section: &Section) {
    let _ = writeln!(out, "<section id=\"s-{}\">", anchor(&section.id));
    if !section.title.is_empty() {
        let _ = writeln!(out, "<h2>{}</h2>", escape(&section.title));
    }
    if let Some(lead) = &section.lead {
        let _ = writeln!(out, "<p class=\"lead\">{}</p>", prose(lead));
    }
    for block in &section.blocks {
        match block {
            Block::Text(text) => {
                let _ = writeln!(out, "<p>{}</p>", prose(text));
            }
            Block::Table(table) => table::table(out, table),
            Block::Distribution(distribution) => histogram::distribution(out, distribution),
            Block::HeatMap(map) => heat::heat_map(out, map),
            Block::Budget(budget) => table::budget(out, budget),
            Block::Timeline(timeline) => timeline::timeline(out, timeline),
            Block::Flame(flame) => flame::flame(out, flame),
            Block::Findings(findings) => self::findings(out, findings),
        }
    }
    out.push_str("</section>\n");
}

fn findings(out: &mut String, findings: &Findings) {
    out.push_str("<ul class=\"findings\">\n");
    for item in &findings.items {
        let what =
            if item.what.is_empty() { String::new() } else { format!("<b>{}</b> ", escape(&item.what)) };
        let mut text = format!("{what}{}", prose(&item.found));
        if let Some(meaning) = &item.meaning {
            let _ = write!(text, ": {}", prose(meaning));
        }
        trust::item(out, item.level, &text, item.remedy.as_deref());
    }
    out.push_str("</ul>\n");
}

fn facts(out: &mut String, document: &Document) {
    if document.facts.is_empty() {
        return;
    }
    out.push_str("<section id=\"facts\">\n<h2>Measured where and how</h2>\n<dl class=\"facts\">\n");
    for fact in &document.facts {
        let value = match &fact.value {
            Value::Missing(reason) => format!("<span class=\"x\">– ({})</span>", escape(reason)),
            value => escape(&value.print()),
        };
        let _ = writeln!(out, "<div><dt>{}</dt><dd>{value}</dd></div>", escape(&fact.title));
    }
    out.push_str("</dl>\n</section>\n");
}

/// A text as a JSON string that may stand inside a `script` element.
fn script_text(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}
