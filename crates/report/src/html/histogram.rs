//! Distributions as histograms on one logarithmic axis, with their percentiles marked.

use std::fmt::Write;

use super::{
    axis::{LogAxis, percent, tick_label},
    escape::{anchor, escape},
    table,
};
use crate::{
    chart::{Bin, Distribution, Series},
    number::{count, share},
};

/// Bars at most; a phone has three pixels for each.
const MOST_BARS: usize = 110;
const BARS_HEIGHT: f64 = 96.0;
const FLAG_HEIGHT: f64 = 15.0;
/// Part of the width that a flag's text takes on a phone.
const FLAG_WIDTH: f64 = 0.29;

/// The percentiles as a table and each series as a histogram below the other.
pub fn distribution(out: &mut String, distribution: &Distribution) {
    table::table(out, &distribution.percentile_table());
    let panels: Vec<(&Series, Vec<Bin>)> = distribution
        .series
        .iter()
        .map(|series| (series, distribution.joined_bins(series, MOST_BARS)))
        .filter(|(_, bins)| !bins.is_empty())
        .collect();
    let low = panels.iter().map(|(_, bins)| bins[0].from).min();
    let high = panels.iter().map(|(_, bins)| bins[bins.len() - 1].to).max();
    let (Some(low), Some(high)) = (low, high) else { return };
    let axis = LogAxis::new(low, high);
    let _ = writeln!(out, "<figure class=\"chart histogram\" id=\"{}-chart\">", anchor(&distribution.id));
    let _ = writeln!(
        out,
        "<figcaption>How often each duration occurred; areas stand for numbers <span class=\"tools\"></span></figcaption>"
    );
    for (series, bins) in &panels {
        panel(out, distribution, series, bins, axis);
    }
    out.push_str("<div class=\"row\"><span class=\"y\"></span><svg class=\"x-axis\" width=\"100%\" height=\"20\" aria-hidden=\"true\">");
    for (value, place, label) in axis.ticks() {
        if label {
            let _ = write!(
                out,
                "<text x=\"{}\" y=\"15\" text-anchor=\"{}\">{}</text>",
                percent(place),
                anchor_at(place),
                tick_label(distribution.unit, value)
            );
        }
    }
    out.push_str("</svg></div>\n<p class=\"readout\" aria-live=\"polite\"></p>\n</figure>\n");
}

/// Labels at the ends must not run out of the picture.
pub fn anchor_at(place: f64) -> &'static str {
    if place < 0.04 {
        "start"
    } else if place > 0.96 {
        "end"
    } else {
        "middle"
    }
}

fn panel(out: &mut String, distribution: &Distribution, series: &Series, bins: &[Bin], axis: LogAxis) {
    let most = bins.iter().map(|b| b.count).max().unwrap_or(1).max(1);
    // Bins differ in width, so that areas, not heights, stand for counts.
    let density = |bin: &Bin| bin.count as f64 / (axis.place(bin.to) - axis.place(bin.from)).max(1e-6);
    let densest = bins.iter().map(density).fold(0.0, f64::max);
    let flags = Flags::new(series, axis);
    let top = flags.rows as f64 * FLAG_HEIGHT + 4.0;
    let height = top + BARS_HEIGHT;
    let label = format!(
        "Histogram of {}, {}: {} values; {}",
        distribution.title,
        series.title,
        count(series.count),
        series
            .percentiles
            .iter()
            .map(|p| format!("{} {}", p.name, distribution.unit.print(p.value)))
            .collect::<Vec<_>>()
            .join(", ")
    );
    let _ = writeln!(
        out,
        "<div class=\"row\"><span class=\"y\"><b>{}</b><br><span>{} values</span><br><small>≤ {} a bar</small></span>",
        escape(&series.title),
        count(series.count),
        count(most)
    );
    let _ = write!(
        out,
        "<svg class=\"plot\" width=\"100%\" height=\"{height}\" role=\"img\" tabindex=\"0\" aria-label=\"{}\" data-top=\"{top}\">",
        escape(&label)
    );
    for (_, place, label) in axis.ticks() {
        if label {
            let x = percent(place);
            let _ = write!(out, "<line class=\"grid\" x1=\"{x}\" x2=\"{x}\" y1=\"{top}\" y2=\"{height}\"/>");
        }
    }
    out.push_str("<g class=\"bars\">");
    for bin in bins.iter().filter(|b| b.count > 0) {
        let (from, to) = (axis.place(bin.from), axis.place(bin.to));
        // One in a million still shows.
        let tall = (density(bin) / densest * BARS_HEIGHT).max(1.5);
        let _ = write!(
            out,
            "<rect x=\"{}\" width=\"{}\" y=\"{:.1}\" height=\"{tall:.1}\" data-c=\"{}\"><title>{} … {}: {} ({})</title></rect>",
            percent(from),
            percent(to - from),
            height - tall,
            bin.count,
            distribution.unit.print(bin.from),
            distribution.unit.print(bin.to),
            count(bin.count),
            escape(&share(bin.count as f64 / series.count.max(1) as f64))
        );
    }
    out.push_str("</g>");
    let _ = write!(out, "<line class=\"base\" x1=\"0\" x2=\"100%\" y1=\"{height}\" y2=\"{height}\"/>");
    flags.write(out, distribution, series, height);
    out.push_str("</svg></div>\n");
}

/// Percentiles as flags on poles, in as few rows as keep texts apart and poles out of texts.
struct Flags {
    flags: Vec<Flag>,
    rows: usize,
}

#[derive(Clone, Copy)]
struct Flag {
    /// Of the pole.
    place: f64,
    /// 0 is the lowest, nearest to the bars.
    row: usize,
    /// Whether the text is to the left of the pole.
    left: bool,
}

impl Flags {
    fn new(series: &Series, axis: LogAxis) -> Flags {
        let mut flags: Vec<Flag> = series
            .percentiles
            .iter()
            .map(|p| Flag { place: axis.place(p.value), row: 0, left: false })
            .collect();
        // From right to left: a flag that would run out of the picture, or into one that hangs
        // to the left, hangs to the left itself.
        for i in (0..flags.len()).rev() {
            let place = flags[i].place;
            let beside = flags[i + 1..].iter().any(|f| f.left && f.place < place + FLAG_WIDTH);
            flags[i].left = place > 1.0 - FLAG_WIDTH || beside && place > FLAG_WIDTH;
        }
        // A pole passes beside texts of lower rows only: of flags that hang to the right, the
        // left one is higher; of those that hang to the left, the right one.
        for i in (0..flags.len()).rev().filter(|&i| !flags[i].left).collect::<Vec<_>>() {
            let near = flags[i + 1..].iter().filter(|f| f.place < flags[i].place + FLAG_WIDTH);
            flags[i].row = near.map(|f| f.row + 1).max().unwrap_or(0);
        }
        for i in (0..flags.len()).filter(|&i| flags[i].left).collect::<Vec<_>>() {
            // A text to the right of its pole reaches further.
            let reach = |f: &&Flag| if f.left { FLAG_WIDTH } else { 2.0 * FLAG_WIDTH };
            let near = flags[..i].iter().filter(|f| f.place > flags[i].place - reach(f));
            flags[i].row = near.map(|f| f.row + 1).max().unwrap_or(0);
        }
        let rows = flags.iter().map(|f| f.row + 1).max().unwrap_or(0);
        Flags { flags, rows }
    }

    /// All poles, then all texts, so that no pole crosses a text.
    fn write(&self, out: &mut String, distribution: &Distribution, series: &Series, height: f64) {
        let top = |row: usize| (self.rows - 1 - row) as f64 * FLAG_HEIGHT;
        for &Flag { place, row, .. } in &self.flags {
            let x = percent(place);
            let _ = write!(
                out,
                "<line class=\"pole\" x1=\"{x}\" x2=\"{x}\" y1=\"{}\" y2=\"{height}\"/>",
                top(row) + 2.0
            );
        }
        for (&Flag { place, row, left }, percentile) in self.flags.iter().zip(&series.percentiles) {
            let _ = write!(
                out,
                "<text class=\"flag\" x=\"{}\" y=\"{}\" dx=\"{}\" text-anchor=\"{}\"><tspan class=\"p\">{}</tspan> {}</text>",
                percent(place),
                top(row) + 12.0,
                if left { -4 } else { 4 },
                if left { "end" } else { "start" },
                escape(&percentile.name),
                distribution.unit.print(percentile.value)
            );
        }
    }
}
