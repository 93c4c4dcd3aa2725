//! Annotated assembly: each run of instructions with the source it came from beside it.

use std::fmt::Write;

use bpf::insn::Instruction;

use crate::source::{Source, Span};

/// `slot: instruction ; line:column source`, the source only where it changes.
pub fn listing(
    instructions: &[Instruction],
    functions: &[(u32, String)],
    spans: &[(u32, Span)],
    source: &Source,
) -> String {
    let mut out = String::new();
    let mut slot = 0;
    let mut spans = spans.iter().peekable();
    let mut functions = functions.iter().peekable();
    for instruction in instructions {
        while let Some((_, name)) = functions.next_if(|(start, _)| *start <= slot) {
            let _ = writeln!(out, "{name}:");
        }
        let mut here = None;
        while let Some((_, span)) = spans.next_if(|(start, _)| *start <= slot) {
            here = Some(*span);
        }
        let text = format!("{slot:5}: {instruction}");
        match here.map(|span| (span, source.slice(span))) {
            Some((span, code)) if !code.is_empty() => {
                let place = source.line_column(span.start);
                let code: String =
                    code.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(60).collect();
                let _ = writeln!(out, "{text:<44} ; {}:{} {code}", place.line, place.column);
            }
            _ => {
                let _ = writeln!(out, "{text}");
            }
        }
        slot += instruction.slots();
    }
    out
}
