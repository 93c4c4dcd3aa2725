//! A flame graph as a file of its own: an SVG picture, or a page.
//!
//! The picture is whole as an image; opened by itself it has search and zoom. It asks nothing of any
//! network, and text of the traced machine is text everywhere.

use std::fmt::Write;

use crate::document::{Block, Document, Section};
use crate::flame::{Drawn, Flame};
use crate::html::escape::escape;
use crate::html::flame::{KIND, ROW, boxes, compared, described, legend};
use crate::html::{self, FLAME_SCRIPT, FLAME_STYLE};
use crate::number::count;

const STYLE: &str = include_str!("picture.css");
const SCRIPT: &str = include_str!("picture.js");
/// As an image; opened by itself the picture takes the width there is.
const WIDTH: usize = 1200;
const MARGIN: usize = 12;
/// Letters of a line of words above the picture.
const LINE: usize = 110;

/// The graph as an SVG file.
pub fn svg(flame: &Flame) -> String {
    let drawn = flame.drawn();
    let mut words: Vec<String> = flame.about.iter().flat_map(|about| lines(about)).collect();
    words.extend(compared(flame).iter().flat_map(|text| lines(text)));
    if drawn.boxes.is_empty() {
        words.push("There is nothing to show: no stack was counted.".into());
    }
    if drawn.left_out > 0 {
        words.push(format!("{} boxes too narrow to be seen are left out.", count(drawn.left_out as u64)));
    }
    let legend_top = 44 + 17 * words.len();
    let plot_top = legend_top + 28;
    let plot_height = drawn.depth * ROW;
    let height = plot_top + plot_height + 40;
    let mut out = String::with_capacity(64 << 10);
    let style = STYLE.replace("/*flame*/", FLAME_STYLE.trim());
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-label=\"{}\">\n<style>{}</style>",
        escape(&described(flame, &drawn)),
        // Style sheets hold `>`, which XML allows, and no `<` nor `&`.
        style.trim()
    );
    let _ = writeln!(out, "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>");
    let _ = writeln!(out, "<text class=\"title\" x=\"{MARGIN}\" y=\"28\">{}</text>", escape(&flame.title));
    for (number, line) in words.iter().enumerate() {
        let y = 50 + 17 * number;
        let _ = writeln!(out, "<text class=\"words\" x=\"{MARGIN}\" y=\"{y}\">{}</text>", escape(line));
    }
    write_legend(&mut out, flame, legend_top);
    write_plot(&mut out, flame, &drawn, plot_top);
    let y = plot_top + plot_height + 22;
    let total = format!("{} in all", flame.print(flame.total()));
    let _ = writeln!(
        out,
        "<text id=\"readout\" class=\"words\" x=\"{MARGIN}\" y=\"{y}\">{}</text>",
        escape(&total)
    );
    let script = SCRIPT.replace("/*flame*/", FLAME_SCRIPT.trim());
    let _ = write!(out, "<script><![CDATA[\n{}\n]]></script>\n</svg>\n", script.trim());
    out
}

/// The graphs as one page.
pub fn page(title: &str, flames: &[Flame]) -> String {
    let mut document = Document::new(KIND, title.to_owned());
    for flame in flames {
        let section = Section::new(flame.id.clone(), "");
        document.sections.push(section.with(Block::Flame(flame.clone())));
    }
    html::document(&document)
}

fn write_plot(out: &mut String, flame: &Flame, drawn: &Drawn<'_>, top: usize) {
    let height = drawn.depth * ROW;
    // A nested picture can end before the right margin only by being shifted: its width is of the whole.
    let _ = writeln!(
        out,
        "<svg class=\"frame\" x=\"1%\" width=\"98%\" y=\"{top}\" height=\"{height}\"><g id=\"plot\"><rect class=\"ground\" width=\"100%\" height=\"{height}\"/>"
    );
    boxes(out, flame, drawn);
    out.push_str("</g></svg>\n");
}

fn write_legend(out: &mut String, flame: &Flame, top: usize) {
    let mut x = MARGIN;
    for (class, label) in legend(flame) {
        let _ = writeln!(
            out,
            "<g class=\"{class}\"><rect x=\"{x}\" y=\"{}\" width=\"12\" height=\"12\"/></g><text class=\"words\" x=\"{}\" y=\"{}\">{}</text>",
            top + 4,
            x + 17,
            top + 14,
            escape(&label)
        );
        x += 17 + 7 * label.chars().count() + 14;
    }
}

/// A text in lines of bounded length.
fn lines(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().filter(|line| line.chars().count() + 1 + word.chars().count() <= LINE);
        match last {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests;
