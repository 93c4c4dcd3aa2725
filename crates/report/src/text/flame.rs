//! Stacks as an indented tree.

use std::fmt::Write;

use crate::{
    flame::Flame,
    number,
    terminal_text::{shorten, visible, width},
    text::paint::{Style, TextOptions},
};

/// Boxes of less than a hundredth of the whole are left out, and lines beyond these.
const MOST_LINES: usize = 40;

/// Callers above what they call, with the part of the whole and the function's own part.
pub fn flame(flame: &Flame, options: &TextOptions) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", options.paint(Style::Title, &flame.title));
    let total = flame.total();
    let frames = flame.frames();
    let wide: Vec<_> = frames.iter().filter(|f| f.weight.saturating_mul(100) >= total).collect();
    let most = if options.all_rows { wide.len() } else { MOST_LINES };
    let _ = writeln!(out, "{}", options.paint(Style::Faint, "   all    own"));
    for frame in wide.iter().take(most) {
        let part = |weight: u64| number::fixed(weight as f64 * 100.0 / total.max(1) as f64, 1);
        let own = if frame.own > 0 { part(frame.own) } else { String::new() };
        // Deep stacks would indent beyond the edge.
        let indent = "  ".repeat(frame.depth.min(20));
        let mark = if frame.is_kernel { " [kernel]" } else { "" };
        let line = format!("{:>6} {own:>6}  {indent}{}{mark}", part(frame.weight), visible(frame.name));
        let line = match options.width {
            Some(limit) if width(&line) > limit => shorten(&line, limit),
            _ => line,
        };
        let _ = writeln!(out, "{line}");
    }
    let hidden = frames.len() - wide.len().min(most);
    if hidden > 0 {
        let text = format!(
            "in % of {}; {} narrower boxes not shown",
            flame.print(total),
            number::count(hidden as u64)
        );
        let _ = writeln!(out, "{}", options.paint(Style::Faint, &text));
    }
    out
}
