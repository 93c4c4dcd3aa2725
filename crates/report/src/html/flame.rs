//! Flame graphs: nested pictures that clip their own text, so that nothing has to be
//! measured. The script adds search and zoom.

use std::fmt::Write;

use super::{
    axis::percent,
    escape::{anchor, escape},
};
use crate::{
    flame::{Flame, Frame},
    number::{count, share},
};

const ROW: usize = 18;
/// Boxes narrower than this part of the whole are not drawn.
const NARROWEST: f64 = 0.0008;
/// Boxes drawn at most, the widest; more make a page slow.
const MOST: usize = 4_000;
/// Deeper than this is cut, and said.
const DEEPEST: usize = 200;

/// The graph, roots at the bottom.
pub fn flame(out: &mut String, flame: &Flame) {
    let total = flame.total();
    let frames = flame.frames();
    if total == 0 || frames.is_empty() {
        return;
    }
    let part = |frame: &Frame<'_>| frame.weight as f64 / total as f64;
    let mut drawn: Vec<&Frame<'_>> =
        frames.iter().filter(|f| part(f) >= NARROWEST && f.depth < DEEPEST).collect();
    if drawn.len() > MOST {
        // A box goes only with all it called: those are never wider, and come later.
        drawn.sort_by_key(|f| (std::cmp::Reverse(f.weight), f.depth));
        drawn.truncate(MOST);
    }
    let depth = drawn.iter().map(|f| f.depth).max().unwrap_or(0) + 1;
    let height = depth * ROW;
    let _ = writeln!(out, "<figure class=\"chart flame\" id=\"{}\">", anchor(&flame.id));
    let _ = writeln!(out, "<figcaption>{} <span class=\"tools\"></span></figcaption>", escape(&flame.title));
    if let Some(about) = &flame.about {
        let _ = writeln!(out, "<p class=\"about\">{}</p>", escape(about));
    }
    let _ = writeln!(
        out,
        "<div class=\"plot\" tabindex=\"0\" role=\"img\" aria-label=\"Flame graph: {}. {} boxes, {} in all.\"><svg width=\"100%\" height=\"{height}\" aria-hidden=\"true\">",
        escape(&flame.title),
        count(drawn.len() as u64),
        flame.unit.print(total)
    );
    for frame in &drawn {
        let place = frame.start as f64 / total as f64;
        let _ = writeln!(
            out,
            "<svg class=\"f {}\" x=\"{}\" width=\"{}\" y=\"{}\" height=\"{ROW}\"><title>{}: {} ({})</title><rect width=\"100%\" height=\"17\"/>{}</svg>",
            shade(frame),
            percent(place),
            percent(part(frame)),
            height - (frame.depth + 1) * ROW,
            escape(frame.name),
            flame.unit.print(frame.weight),
            escape(&share(part(frame))),
            // Where no letter has room there is none; the script adds it when zooming.
            if part(frame) > 0.012 {
                format!("<text x=\"4\" y=\"13\">{}</text>", escape(frame.name))
            } else {
                String::new()
            }
        );
    }
    out.push_str("</svg></div>\n");
    let left_out = frames.len() - drawn.len();
    if left_out > 0 {
        let _ = writeln!(
            out,
            "<p class=\"about\">{} boxes too narrow to be seen are left out; <code>--format json</code> has all stacks.</p>",
            count(left_out as u64)
        );
    }
    out.push_str("<p class=\"readout\" aria-live=\"polite\"></p>\n</figure>\n");
}

/// Warm shades for programs, cool ones for the kernel; the same name always has the same.
fn shade(frame: &Frame<'_>) -> &'static str {
    let hash = frame.name.bytes().fold(0u32, |h, b| h.wrapping_mul(31).wrapping_add(b.into()));
    match (frame.is_kernel, hash % 4) {
        (false, 0) => "u0",
        (false, 1) => "u1",
        (false, 2) => "u2",
        (false, _) => "u3",
        (true, 0 | 1) => "k0",
        (true, _) => "k1",
    }
}
