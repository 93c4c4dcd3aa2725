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

/// Values are drawn in thousandths of the track's height.
const FULL: f64 = 1000.0;

/// The timeline with a lane for each row.
pub fn timeline(out: &mut String, timeline: &Timeline) {
    if timeline.lanes.is_empty() || timeline.time.columns == 0 {
        return;
    }
    let height = if timeline.lanes.len() > 32 {
        10
    } else if timeline.lanes.len() > 8 {
        18
    } else {
        30
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
        self::lane(out, timeline, lane, height);
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

fn lane(out: &mut String, timeline: &Timeline, lane: &Lane, height: u32) {
    let tracks = timeline.tracks.len() as u32;
    let _ = writeln!(out, "<div class=\"row\"><span class=\"y\">{}</span>", escape(&lane.title));
    let _ = write!(
        out,
        "<div class=\"plot\" tabindex=\"0\" role=\"img\" aria-label=\"{}: {}\" data-lane=\"{}\">",
        escape(&timeline.title),
        escape(&lane.title),
        escape(&lane.title)
    );
    for (track, values) in timeline.tracks.iter().zip(&lane.values) {
        self::track(out, timeline.time.columns, track, values, height);
    }
    let _ = write!(out, "</div></div>");
    out.push('\n');
    debug_assert!(tracks as usize == lane.values.len(), "a lane has a row of values for each track");
}

fn track(out: &mut String, columns: usize, track: &Track, values: &[Option<f64>], height: u32) {
    let _ = write!(
        out,
        "<svg class=\"time\" width=\"100%\" height=\"{height}\" viewBox=\"0 0 {columns} {FULL}\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><path class=\"m-{}\" d=\"{}\"/>",
        track.meaning.name(),
        steps(track, values)
    );
    let unknown: Vec<bool> = values.iter().map(Option::is_none).collect();
    time::doubtful(out, &unknown, FULL as usize);
    out.push_str("</svg>");
}

/// A staircase from the ground up and back to it. The script reads the values from it.
fn steps(track: &Track, values: &[Option<f64>]) -> String {
    let ground = FULL as u32;
    let top = if track.top > 0.0 { track.top } else { 1.0 };
    let y = |value: &Option<f64>| match value {
        Some(v) if v.is_finite() => ground - (v / top * FULL).round().clamp(0.0, FULL) as u32,
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
