//! Flame graphs: nested pictures that clip their own text, so that nothing has to be
//! measured. The script adds search and zoom.

use std::fmt::Write;

use super::{
    axis::percent,
    escape::{anchor, escape},
};
use crate::{
    flame::{Drawn, Flame, Frame},
    number::{count, fixed, share},
};

/// The kind of a document that only draws stacks.
pub const KIND: &str = "flame";
/// Pixels of one row of boxes.
pub const ROW: usize = 18;
/// Changes of less than these parts of the whole are one shade.
const STEPS: [f64; 4] = [0.001, 0.005, 0.02, 0.08];

/// The graph, roots at the bottom.
pub fn flame(out: &mut String, flame: &Flame) {
    let drawn = flame.drawn();
    if drawn.boxes.is_empty() {
        return;
    }
    let height = drawn.depth * ROW;
    let _ = writeln!(out, "<figure class=\"chart flame\" id=\"{}\">", anchor(&flame.id));
    let _ = writeln!(out, "<figcaption>{} <span class=\"tools\"></span></figcaption>", escape(&flame.title));
    if let Some(about) = &flame.about {
        let _ = writeln!(out, "<p class=\"about\">{}</p>", escape(about));
    }
    if let Some(text) = compared(flame) {
        let _ = writeln!(out, "<p class=\"about\">{}</p>", escape(&text));
    }
    out.push_str("<p class=\"legend\">");
    for (class, label) in legend(flame) {
        let _ = write!(
            out,
            "<span><svg class=\"{class}\" width=\"12\" height=\"12\" aria-hidden=\"true\"><rect width=\"12\" height=\"12\"/></svg> {}</span> ",
            escape(&label)
        );
    }
    out.push_str("</p>\n");
    let _ = writeln!(
        out,
        "<div class=\"plot\" tabindex=\"0\" role=\"img\" aria-label=\"{}\"><svg width=\"100%\" height=\"{height}\" aria-hidden=\"true\">",
        escape(&described(flame, &drawn))
    );
    boxes(out, flame, &drawn);
    out.push_str("</svg></div>\n");
    if drawn.left_out > 0 {
        let _ = writeln!(
            out,
            "<p class=\"about\">{} boxes too narrow to be seen are left out.</p>",
            count(drawn.left_out as u64)
        );
    }
    out.push_str("<p class=\"readout\" aria-live=\"polite\"></p>\n</figure>\n");
}

/// What the picture is, for who cannot see it.
pub fn described(flame: &Flame, drawn: &Drawn<'_>) -> String {
    let boxes = count(drawn.boxes.len() as u64);
    format!("Flame graph: {}. {boxes} boxes, {} in all.", flame.title, flame.print(flame.total()))
}

/// The boxes, each a picture of its own with its name and weight as title.
pub fn boxes(out: &mut String, flame: &Flame, drawn: &Drawn<'_>) {
    let total = flame.total().max(1) as f64;
    let height = drawn.depth * ROW;
    for frame in &drawn.boxes {
        let part = frame.weight as f64 / total;
        let _ = writeln!(
            out,
            "<svg class=\"f {}\" x=\"{}\" width=\"{}\" y=\"{}\" height=\"{ROW}\"><title>{}: {}</title><rect width=\"100%\" height=\"17\"/>{}</svg>",
            shade(flame, frame),
            percent(frame.start as f64 / total),
            percent(part),
            height - (frame.depth + 1) * ROW,
            escape(frame.name),
            escape(&told(flame, frame, part)),
            // Where no letter has room there is none; the script adds it when zooming.
            if part > 0.012 {
                format!("<text x=\"4\" y=\"13\">{}</text>", escape(frame.name))
            } else {
                String::new()
            }
        );
    }
}

fn told(flame: &Flame, frame: &Frame<'_>, part: f64) -> String {
    let mut text = format!("{} ({})", flame.print(frame.weight), share(part));
    if flame.before.is_some() {
        let before = frame.before as f64 / flame.total_before().max(1) as f64;
        match frame.before {
            0 => text.push_str(", not in the first run"),
            _ => {
                let _ = write!(
                    text,
                    ", {} points; in the first run {} ({})",
                    points(flame.change(frame)),
                    flame.print(frame.before),
                    share(before)
                );
            }
        }
    }
    text
}

/// A change of a share with its sign: `+1.25`.
fn points(change: f64) -> String {
    format!("{}{}", if change < 0.0 { "−" } else { "+" }, fixed(change.abs() * 100.0, 2))
}

/// How the two runs were made comparable; none where there is one.
pub fn compared(flame: &Flame) -> Option<String> {
    flame.before.as_ref()?;
    let gone = match flame.gone() {
        gone if gone > 0.0 => format!(
            " {} of the first run is in stacks that the second has not: it has no width here; compare the other way round to see it.",
            share(gone)
        ),
        _ => String::new(),
    };
    Some(format!(
        "Widths are the second run's {}. Colours are the change of each box's share of its run, so that runs of different length compare (first run: {}).{gone}",
        flame.print(flame.total()),
        flame.print(flame.total_before())
    ))
}

/// What the shades mean: class and words.
pub fn legend(flame: &Flame) -> Vec<(&'static str, String)> {
    if flame.before.is_none() {
        return vec![("u1", "program".into()), ("k1", "kernel".into())];
    }
    let step = |n: usize| fixed(STEPS[n] * 100.0, 1).trim_end_matches(".0").to_owned();
    vec![
        ("l4", format!("less by {} points", step(3))),
        ("l3", step(2)),
        ("l2", step(1)),
        ("l1", step(0)),
        ("s", "same".into()),
        ("m1", step(0)),
        ("m2", step(1)),
        ("m3", step(2)),
        ("m4", format!("more by {} points", step(3))),
        ("s k", "kernel in italics".into()),
    ]
}

/// Warm shades for programs, cool ones for the kernel, the same name always the same; in a comparison red
/// for more and blue for less.
fn shade(flame: &Flame, frame: &Frame<'_>) -> String {
    if flame.before.is_some() {
        let change = flame.change(frame);
        let step = STEPS.iter().filter(|step| change.abs() >= **step).count();
        let kernel = if frame.is_kernel { " k" } else { "" };
        return match step {
            0 => format!("s{kernel}"),
            _ => format!("{}{step}{kernel}", if change < 0.0 { 'l' } else { 'm' }),
        };
    }
    let hash = frame.name.bytes().fold(0u32, |h, b| h.wrapping_mul(31).wrapping_add(b.into()));
    match frame.is_kernel {
        false => format!("u{}", hash % 4),
        true => format!("k{}", hash % 4 / 2),
    }
}
