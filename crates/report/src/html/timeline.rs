//! Tracks over time, a lane for each CPU.

use std::fmt::Write;

use super::{
    escape::{anchor, escape},
    time,
};
use crate::{
    chart::{Lane, Timeline, Track},
    text::top_of,
};

/// With more lanes than this they are flat and their values coarse: a machine of 256 CPUs
/// has to fit into a page.
const MANY: usize = 32;

/// The timeline with a lane for each row.
pub fn timeline(out: &mut String, timeline: &Timeline) {
    if timeline.lanes.is_empty() || timeline.time.columns == 0 {
        return;
    }
    // A lane's height on the page and the steps that its values are drawn in.
    let (height, full) = match timeline.lanes.len() {
        0..=8 => (30, 1000),
        9..=MANY => (18, 1000),
        _ => (8, 100),
    };
    let _ = writeln!(out, "<figure class=\"chart lanes\" id=\"{}\">", anchor(&timeline.id));
    time::caption(out, &timeline.title, timeline.about.as_deref());
    out.push_str("<p class=\"legend\">");
    for track in &timeline.tracks {
        let _ = write!(
            out,
            "<span><svg width=\"12\" height=\"12\" aria-hidden=\"true\"><rect width=\"12\" height=\"12\" class=\"m-{}\"/></svg> {}, full height is {}</span> ",
            track.meaning.name(),
            escape(&track.title),
            top_of(track.unit, track.top)
        );
    }
    if timeline.lanes.iter().flat_map(|lane| &lane.values).flatten().any(Option::is_none) {
        time::doubtful_key(out);
    }
    out.push_str("</p>\n<div class=\"lanes-body\">\n");
    for lane in &timeline.lanes {
        self::lane(out, timeline, lane, height, full);
    }
    out.push_str("</div>\n");
    time::x_axis(out, &timeline.time);
    out.push_str("<script type=\"application/json\">{");
    time::data(out, &timeline.time);
    out.push_str(",\"tracks\":[");
    for (i, track) in timeline.tracks.iter().enumerate() {
        let separator = if i == 0 { "" } else { "," };
        let (scale, unit) = match track.unit {
            crate::Unit::Share => (track.top * 100.0, " %"),
            _ => (track.top, ""),
        };
        let title = super::script_text(&track.title);
        let _ = write!(out, "{separator}{{\"title\":{title},\"top\":{scale},\"unit\":\"{unit}\"}}");
    }
    out.push_str("]}</script>\n<p class=\"readout\" aria-live=\"polite\"></p>\n</figure>\n");
}

fn lane(out: &mut String, timeline: &Timeline, lane: &Lane, height: u32, full: u32) {
    let _ = writeln!(out, "<div class=\"row\"><span class=\"y\">{}</span>", escape(&lane.title));
    let _ = write!(
        out,
        "<div class=\"plot\" tabindex=\"0\" role=\"img\" aria-label=\"{}: {}\" data-lane=\"{}\">",
        escape(&timeline.title),
        escape(&lane.title),
        escape(&lane.title)
    );
    for (track, values) in timeline.tracks.iter().zip(&lane.values) {
        let _ = write!(
            out,
            "<svg class=\"time\" width=\"100%\" height=\"{height}\" viewBox=\"0 0 {} {full}\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><path class=\"m-{}\" d=\"{}\"/>",
            timeline.time.columns,
            track.meaning.name(),
            steps(track, values, full)
        );
        let unknown: Vec<bool> = values.iter().map(Option::is_none).collect();
        time::doubtful(out, &unknown, full as usize);
        out.push_str("</svg>");
    }
    out.push_str("</div></div>\n");
}

/// A staircase from the ground up and back to it. The script reads the values from it.
fn steps(track: &Track, values: &[Option<f64>], ground: u32) -> String {
    let top = if track.top > 0.0 { track.top } else { 1.0 };
    let y = |value: &Option<f64>| match value {
        Some(v) if v.is_finite() => {
            ground - (v / top * f64::from(ground)).round().clamp(0.0, f64::from(ground)) as u32
        }
        _ => ground,
    };
    let mut path = format!("M0 {ground}");
    let mut column = 0;
    while column < values.len() {
        let level = y(&values[column]);
        let end = column + values[column..].iter().take_while(|v| y(v) == level).count();
        let _ = write!(path, "V{level}H{end}");
        column = end;
    }
    let _ = write!(path, "V{ground}Z");
    path
}
