//! Findings as text: place, sentence, the line with the place marked, what to do.

use std::fmt::Write;

use super::{Diagnostic, Severity};
use crate::source::{Source, Span};

/// One finding as several lines, ending with a newline. No colours: the caller adds them.
pub fn render(diagnostic: &Diagnostic, source: &Source) -> String {
    let mut out = String::new();
    let word = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    if diagnostic.span == Span::NONE {
        let _ = writeln!(out, "{word}[{}]: {}", diagnostic.code, diagnostic.message);
    } else {
        let _ = writeln!(
            out,
            "{}: {word}[{}]: {}",
            place(source, diagnostic.span),
            diagnostic.code,
            diagnostic.message
        );
        mark(&mut out, source, diagnostic.span);
    }
    for (span, text) in &diagnostic.notes {
        if *span == Span::NONE {
            let _ = writeln!(out, "  note: {text}");
        } else {
            let _ = writeln!(out, "  note: {}: {text}", place(source, *span));
        }
    }
    if let Some(help) = &diagnostic.help {
        let _ = writeln!(out, "  help: {help}");
    }
    out
}

/// `stdin:1:9-20`, or `stdin:1:9-2:4` when it goes over a line's end.
fn place(source: &Source, span: Span) -> String {
    let start = source.line_column(span.start);
    let end = source.line_column(span.end.max(span.start));
    let name = source.name(span.start);
    if start.line == end.line {
        if end.column <= start.column + 1 {
            return format!("{name}:{}:{}", start.line, start.column);
        }
        return format!("{name}:{}:{}-{}", start.line, start.column, end.column);
    }
    format!("{name}:{}:{}-{}:{}", start.line, start.column, end.line, end.column)
}

/// The longest line shown whole; of a longer one the part around the place.
const WIDEST: usize = 120;

fn mark(out: &mut String, source: &Source, span: Span) {
    let (line, start) = source.line_text(span.start);
    let at = (span.start - start).min(line.len() as u32) as usize;
    let until = ((span.end.max(span.start)) - start).min(line.len() as u32) as usize;
    let Some((before, rest)) = line.split_at_checked(at) else { return };
    let marked = rest.get(..until.saturating_sub(at)).unwrap_or(rest);
    let (mut shown, mut lead) = (line.to_string(), before.to_string());
    if line.chars().count() > WIDEST {
        let skip = before.chars().count().saturating_sub(40);
        shown = line.chars().skip(skip).take(WIDEST).collect();
        lead = before.chars().skip(skip).collect();
    }
    let shown: String = shown.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let blank: String = lead.chars().map(|_| ' ').collect();
    let width = marked.chars().count().clamp(1, WIDEST);
    let _ = writeln!(out, "    {shown}\n    {blank}{}", "~".repeat(width));
}

#[cfg(test)]
mod tests {
    use super::super::Code;
    use super::*;

    #[test]
    fn a_finding_shows_its_place_its_line_and_what_to_do() {
        let source = Source::new("stdin", "begin { foo(1); }\n");
        let finding =
            Diagnostic::error(Code::UnknownFunction, Span::new(8, 14), "there is no function 'foo'")
                .help("did you mean 'for'?");
        let expected = "\
stdin:1:9-15: error[L0301]: there is no function 'foo'
    begin { foo(1); }
            ~~~~~~
  help: did you mean 'for'?
";
        assert_eq!(render(&finding, &source), expected);
    }

    #[test]
    fn places_at_the_end_or_without_text_do_not_panic() {
        let source = Source::new("stdin", "");
        let finding = Diagnostic::error(Code::UnexpectedToken, Span::new(9, 3), "x");
        assert!(render(&finding, &source).starts_with("stdin:1:1: error"));
    }
}
