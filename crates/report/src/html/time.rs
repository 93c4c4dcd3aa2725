//! What all pictures over time share: caption with room for zoom buttons, axis, marks for
//! columns in which events were lost, and the data that zooming needs.

use std::fmt::Write;

use super::{
    axis::{percent, time_ticks},
    escape::escape,
    histogram::anchor_at,
};
use crate::chart::TimeAxis;

/// Title, sentence and the place for buttons.
pub fn caption(out: &mut String, title: &str, about: Option<&str>) {
    let _ = writeln!(out, "<figcaption>{} <span class=\"tools\"></span></figcaption>", escape(title));
    if let Some(about) = about {
        let _ = writeln!(out, "<p class=\"about\">{}</p>", escape(about));
    }
}

/// The axis in seconds; the script redraws it when the view changes.
pub fn x_axis(out: &mut String, axis: &TimeAxis) {
    out.push_str("<div class=\"row\"><span class=\"y\"></span><svg class=\"x-axis seconds\" width=\"100%\" height=\"20\" aria-hidden=\"true\">");
    for (place, label) in time_ticks(axis) {
        let _ = write!(
            out,
            "<text x=\"{}\" y=\"15\" text-anchor=\"{}\">{label}</text>",
            percent(place),
            anchor_at(place)
        );
    }
    out.push_str("</svg></div>\n");
}

/// Start (from second 0), step and number of columns, as members of a JSON object.
pub fn data(out: &mut String, axis: &TimeAxis) {
    let _ =
        write!(out, "\"start\":{},\"step\":{},\"columns\":{}", axis.offset_ns(0), axis.step_ns, axis.columns);
}

/// Hatches the columns in which events were lost; whether there are any.
pub fn doubtful(out: &mut String, columns: &[bool], height: usize) -> bool {
    let mut column = 0;
    let mut any = false;
    while column < columns.len() {
        if !columns[column] {
            column += 1;
            continue;
        }
        let end = column + columns[column..].iter().take_while(|&&d| d).count();
        let _ = write!(
            out,
            "<rect class=\"doubt\" x=\"{column}\" width=\"{}\" y=\"0\" height=\"{height}\"/>",
            end - column
        );
        any = true;
        column = end;
    }
    any
}

/// The key for it.
pub fn doubtful_key(out: &mut String) {
    out.push_str("<span><svg width=\"12\" height=\"12\" aria-hidden=\"true\"><rect width=\"12\" height=\"12\" class=\"doubt\"/></svg> events were lost, or nothing is known</span>");
}
