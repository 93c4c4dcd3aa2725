//! Heat maps: one path for each shade, so that 10 000 cells stay small and readable
//! without a script.

use std::fmt::Write;

use super::{
    axis::{percent, tick_label},
    escape::{anchor, escape},
    time,
};
use crate::{chart::HeatMap, number::count};

const SHADES: usize = 8;
const HEIGHT: u32 = 240;

/// The heat map with axes, legend and the counts for the readout.
pub fn heat_map(out: &mut String, map: &HeatMap) {
    let rows = map.rows();
    let filled = |row: &usize| (0..map.time.columns).any(|column| map.at(column, *row) > 0);
    let (Some(low), Some(high)) = ((0..rows).find(filled), (0..rows).rev().find(filled)) else { return };
    let most = map.counts.iter().copied().max().unwrap_or(1);
    let bounds = shade_bounds(most);
    let (columns, shown) = (map.time.columns, high - low + 1);
    let _ = writeln!(out, "<figure class=\"chart heat\" id=\"{}\">", anchor(&map.id));
    time::caption(out, &map.title, map.about.as_deref());
    out.push_str("<div class=\"row\"><span class=\"y\">");
    let _ = write!(out, "<svg class=\"y-axis\" width=\"100%\" height=\"{HEIGHT}\" aria-hidden=\"true\">");
    for (value, place, label) in row_ticks(map, low, high) {
        if label {
            let _ = write!(
                out,
                "<text x=\"100%\" dx=\"-6\" y=\"{}\" dy=\"{}\" text-anchor=\"end\">{}</text>",
                percent(1.0 - place),
                if place > 0.97 {
                    10
                } else if place < 0.03 {
                    -2
                } else {
                    4
                },
                tick_label(map.unit, value)
            );
        }
    }
    out.push_str("</svg></span>\n");
    let label = format!(
        "Heat map: {}. {} columns of time by {shown} rows; the fullest cell holds {}.",
        map.title,
        columns,
        count(most)
    );
    let _ = write!(
        out,
        "<div class=\"plot\" tabindex=\"0\" role=\"img\" aria-label=\"{}\"><svg class=\"time\" width=\"100%\" height=\"{HEIGHT}\" viewBox=\"0 0 {columns} {shown}\" preserveAspectRatio=\"none\" aria-hidden=\"true\">",
        escape(&label)
    );
    for (shade, path) in paths(map, &bounds, low, high).iter().enumerate() {
        if !path.is_empty() {
            let _ = write!(out, "<path class=\"h{}\" d=\"{path}\"/>", shade + 1);
        }
    }
    for (_, place, label) in row_ticks(map, low, high) {
        if label {
            let y = shown as f64 * (1.0 - place);
            let _ = write!(out, "<path class=\"grid\" d=\"M0 {y:.2}H{columns}\"/>");
        }
    }
    let doubtful = time::doubtful(out, &map.doubtful, shown);
    out.push_str("</svg></div></div>\n");
    time::x_axis(out, &map.time);
    legend(out, &bounds, most, doubtful);
    data(out, map, low, high);
    out.push_str("<p class=\"readout\" aria-live=\"polite\"></p>\n</figure>\n");
}

/// The least count of each shade: powers of one base, so that each shade stands for the same
/// factor; fewer shades where counts are small.
fn shade_bounds(most: u64) -> Vec<u64> {
    let mut bounds: Vec<u64> =
        (0..SHADES).map(|i| (most as f64).powf(i as f64 / SHADES as f64).ceil() as u64).collect();
    bounds.dedup();
    bounds
}

fn paths(map: &HeatMap, bounds: &[u64], low: usize, high: usize) -> Vec<String> {
    let mut paths = vec![String::new(); SHADES];
    // The darkest shade is used even where there are few.
    let first = SHADES - bounds.len();
    let shade = |column, row| match map.at(column, row) {
        0 => None,
        count => Some(first + bounds.partition_point(|&b| b <= count).max(1) - 1),
    };
    for row in low..=high {
        let mut column = 0;
        while column < map.time.columns {
            let Some(this) = shade(column, row) else {
                column += 1;
                continue;
            };
            let mut end = column + 1;
            while end < map.time.columns && shade(end, row) == Some(this) {
                end += 1;
            }
            let _ = write!(paths[this], "M{column} {}h{}v1h-{}z", high - row, end - column, end - column);
            column = end;
        }
    }
    paths
}

/// Round values with their place 0…1 between the lowest and the highest row. Rows are
/// equally high; within one the place is found on a logarithmic scale.
fn row_ticks(map: &HeatMap, low: usize, high: usize) -> Vec<(u64, f64, bool)> {
    let axis = super::axis::LogAxis::new(map.edges[low], map.edges[high + 1]);
    let shown = (high - low + 1) as f64;
    let mut ticks = axis.ticks();
    ticks.retain_mut(|(value, place, _)| {
        let row = map.edges.partition_point(|&e| e <= *value).saturating_sub(1);
        if row < low || row > high {
            *place = if row > high { 1.0 } else { 0.0 };
            return row > high;
        }
        let (from, to) = (map.edges[row].max(1) as f64, map.edges[row + 1].max(2) as f64);
        let within = ((*value as f64).ln() - from.ln()) / (to.ln() - from.ln()).max(1e-9);
        *place = ((row - low) as f64 + within.clamp(0.0, 1.0)) / shown;
        true
    });
    ticks
}

fn legend(out: &mut String, bounds: &[u64], most: u64, doubtful: bool) {
    out.push_str("<p class=\"legend\"><span>waits in a cell:</span> ");
    let first = SHADES - bounds.len();
    for (i, &from) in bounds.iter().enumerate() {
        let to = bounds.get(i + 1).map_or(most, |next| next - 1);
        let text = if from == to { count(from) } else { format!("{}–{}", count(from), count(to)) };
        let _ = write!(
            out,
            "<span><svg width=\"12\" height=\"12\" aria-hidden=\"true\"><rect width=\"12\" height=\"12\" class=\"h{}\"/></svg> {text}</span> ",
            first + i + 1
        );
    }
    if doubtful {
        time::doubtful_key(out);
    }
    out.push_str("</p>\n");
}

/// What the readout needs: for each column a list of row and count, in turn.
fn data(out: &mut String, map: &HeatMap, low: usize, high: usize) {
    out.push_str("<script type=\"application/json\">{");
    time::data(out, &map.time);
    let edges: Vec<String> =
        map.edges[low..=high + 1].iter().map(|&e| format!("\"{}\"", map.unit.print(e))).collect();
    let _ = write!(out, ",\"edges\":[{}],\"cells\":[", edges.join(","));
    for column in 0..map.time.columns {
        out.push_str(if column == 0 { "[" } else { ",[" });
        let cells = (low..=high).filter(|&row| map.at(column, row) > 0);
        let cells: Vec<String> = cells.map(|row| format!("{},{}", row - low, map.at(column, row))).collect();
        out.push_str(&cells.join(","));
        out.push(']');
    }
    out.push_str("]}</script>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_cover_all_counts_without_overlap() {
        for most in [1, 2, 3, 9, 1_000, u64::MAX] {
            let bounds = shade_bounds(most);
            assert_eq!(bounds[0], 1, "{most}");
            assert!(bounds.windows(2).all(|w| w[0] < w[1]), "{most}: {bounds:?}");
            assert!(bounds.last().is_some_and(|&b| b <= most), "{most}: {bounds:?}");
        }
    }
}
