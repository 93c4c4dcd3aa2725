//! Pictures made of characters.

use std::fmt::Write;

use crate::{
    chart::{Bin, Budget, Distribution, Lane, Part, Percentile, Series, Timeline},
    number,
    table::{Column, Unit, Value},
    terminal_text::{visible, width, wrap},
    text::{
        paint::{Style, TextOptions},
        table,
    },
};

/// Rows that a histogram may have.
const HISTOGRAM_ROWS: usize = 20;
/// Lanes that a timeline shows.
const MOST_LANES: usize = 16;
/// Columns of a budget bar.
const BUDGET_COLUMNS: usize = 24;

/// A percentile table with a row for each series, then the first series as a histogram.
pub fn distribution(distribution: &Distribution, options: &TextOptions) -> String {
    let mut out = table(&distribution.percentile_table(), options);
    if let Some(series) = distribution.series.first()
        && series.counts.iter().any(|&c| c > 0)
    {
        out.push('\n');
        out.push_str(&histogram(distribution, series, options));
    }
    out
}

/// Bars, one for each bin from the lowest that holds something to the highest, with the
/// percentiles marked at the bin they fall in. Neighbouring bins are joined until they fit.
pub fn histogram(distribution: &Distribution, series: &Series, options: &TextOptions) -> String {
    let bins = distribution.even_bins(series, HISTOGRAM_ROWS);
    let labels: Vec<String> = bins
        .iter()
        .map(|bin| format!("{} … {}", distribution.unit.print(bin.from), distribution.unit.print(bin.to)))
        .collect();
    let counts: Vec<String> = bins.iter().map(|bin| number::count(bin.count)).collect();
    let label_width = labels.iter().map(|l| width(l)).max().unwrap_or(0);
    let count_width = counts.iter().map(|c| c.len()).max().unwrap_or(0);
    let marks: Vec<String> = (0..bins.len()).map(|i| marks(&bins, i, &series.percentiles)).collect();
    let mark_width = marks.iter().map(|m| width(m)).max().unwrap_or(0);
    let room = options.paragraph_width().saturating_sub(label_width + count_width + mark_width + 6);
    let room = room.clamp(10, 50);
    let most = bins.iter().map(|b| b.count).max().unwrap_or(1).max(1);
    let mut out = String::new();
    for (i, bin) in bins.iter().enumerate() {
        let bar = bar(bin.count as f64 / most as f64, room);
        let line = format!(
            "{}{}  {}{}  {bar}{}  {}",
            " ".repeat(label_width - width(&labels[i])),
            labels[i],
            " ".repeat(count_width - counts[i].len()),
            counts[i],
            " ".repeat(room - width(&bar)),
            options.paint(Style::Faint, &marks[i]),
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

/// The percentiles that fall into a bin; the last bin also takes what lies above it.
fn marks(bins: &[Bin], index: usize, percentiles: &[Percentile]) -> String {
    let bin = bins[index];
    let is_last = index + 1 == bins.len();
    let inside = |p: &&Percentile| p.value >= bin.from && (p.value < bin.to || is_last);
    let names: Vec<&str> = percentiles.iter().filter(inside).map(|p| p.name.as_ref()).collect();
    if names.is_empty() { String::new() } else { format!("◄ {}", names.join(", ")) }
}

/// A bar of eighths of a column; anything above nothing shows at least one.
fn bar(part: f64, room: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (part.clamp(0.0, 1.0) * room as f64 * 8.0).round() as usize;
    let eighths = if part > 0.0 { eighths.max(1) } else { 0 };
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// The budget's table with a bar for each row, and the legend of the bars.
pub fn budget(budget: &Budget, options: &TextOptions) -> String {
    let parts: Vec<(usize, &Part)> =
        budget.parts.iter().filter_map(|part| Some((budget.part_column(part)?, part))).collect();
    let mut with_bars = budget.table.clone();
    let shown = if options.all_rows { with_bars.rows.len() } else { with_bars.brief_rows };
    let place = budget.bar_column();
    with_bars.columns.insert(place, Column::new("bar", "where its time went", Unit::Text).essential());
    for (i, row) in with_bars.rows.iter_mut().enumerate() {
        let bar = if i < shown { budget_bar(row, &parts) } else { String::new() };
        row.insert(place, Value::text(bar));
    }
    let mut out = table(&with_bars, options);
    let used = |(column, _): &&(usize, &Part)| {
        budget.table.rows.iter().take(shown).any(|row| row[*column].as_number().is_some_and(|v| v > 0.0))
    };
    let legend: Vec<String> = parts
        .iter()
        .filter(used)
        .map(|(column, part)| format!("{} {}", part.meaning.fill(), budget.table.columns[*column].title))
        .collect();
    for line in flow(&legend, options.paragraph_width()) {
        let _ = writeln!(out, "{}", options.paint(Style::Faint, &line));
    }
    out
}

/// As many entries to a line as fit.
fn flow(entries: &[String], limit: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for entry in entries {
        match lines.last_mut() {
            Some(line) if width(line) + 3 + width(entry) <= limit => {
                line.push_str("   ");
                line.push_str(entry);
            }
            _ => lines.push(entry.clone()),
        }
    }
    lines
}

/// The characters are shared out by largest remainder, so that they add up to the bar.
fn budget_bar(row: &[Value], parts: &[(usize, &Part)]) -> String {
    let values: Vec<f64> = parts.iter().map(|(c, _)| row[*c].as_number().unwrap_or(0.0).max(0.0)).collect();
    let total: f64 = values.iter().sum();
    if total <= 0.0 {
        return String::new();
    }
    let exact: Vec<f64> = values.iter().map(|v| v / total * BUDGET_COLUMNS as f64).collect();
    let mut cells: Vec<usize> = exact.iter().map(|e| e.floor() as usize).collect();
    let mut order: Vec<usize> = (0..exact.len()).collect();
    order.sort_by(|&a, &b| exact[b].fract().total_cmp(&exact[a].fract()));
    let missing = BUDGET_COLUMNS - cells.iter().sum::<usize>().min(BUDGET_COLUMNS);
    for &i in order.iter().take(missing) {
        cells[i] += 1;
    }
    let bar = cells.iter().zip(parts).map(|(&n, (_, part))| part.meaning.fill().to_string().repeat(n));
    bar.collect()
}

/// One line of eighth blocks for each lane and track, joined to the terminal's width.
pub fn timeline(timeline: &Timeline, options: &TextOptions) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", options.paint(Style::Title, &timeline.title));
    let many = timeline.tracks.len() > 1;
    let label = |lane: &str, track: &str| if many { format!("{lane} {track}") } else { lane.to_owned() };
    let names =
        timeline.lanes.iter().flat_map(|lane| timeline.tracks.iter().map(|t| label(&lane.title, &t.title)));
    let label_width = names.map(|name| width(&visible(&name))).max().unwrap_or(0);
    let room = options.paragraph_width().saturating_sub(label_width + 2).clamp(10, 72);
    let shown = busiest_lanes(timeline, if options.all_rows { usize::MAX } else { MOST_LANES });
    for lane in &shown {
        for (track, values) in timeline.tracks.iter().zip(&lane.values) {
            let name = label(&lane.title, &track.title);
            let name = visible(&name);
            let line: String = joined(values, room).into_iter().map(|v| level(v, track.top)).collect();
            let _ = writeln!(out, "{name}{}  {line}", " ".repeat(label_width - width(&name)));
        }
    }
    let columns = room.min(timeline.time.columns.max(1));
    let start = seconds(timeline.time.offset_ns(0));
    let end = seconds(timeline.time.offset_ns(timeline.time.columns));
    let gap = columns.saturating_sub(start.len() + end.len()).max(1);
    let axis = format!("{}{start}{}{end}", " ".repeat(label_width + 2), " ".repeat(gap));
    let _ = writeln!(out, "{}", options.paint(Style::Faint, &axis));
    let tops: Vec<String> = timeline
        .tracks
        .iter()
        .map(|t| format!("{}: full height is {}", t.title, top_of(t.unit, t.top)))
        .collect();
    let mut notes = tops.join("; ");
    if shown.len() < timeline.lanes.len() {
        let _ = write!(
            notes,
            "; {} of {} lanes shown, those with most {}",
            shown.len(),
            timeline.lanes.len(),
            timeline.tracks[timeline.tracks.len() - 1].title
        );
    }
    for line in wrap(&notes, options.paragraph_width()) {
        let _ = writeln!(out, "{}", options.paint(Style::Faint, &line));
    }
    out
}

/// At most so many lanes, those in which the last track amounts to most, in their order.
fn busiest_lanes(timeline: &Timeline, most: usize) -> Vec<&Lane> {
    let weight = |lane: &Lane| lane.values.last().map_or(0.0, |values| values.iter().flatten().sum::<f64>());
    let mut order: Vec<usize> = (0..timeline.lanes.len()).collect();
    order.sort_by(|&a, &b| weight(&timeline.lanes[b]).total_cmp(&weight(&timeline.lanes[a])));
    order.truncate(most);
    order.sort_unstable();
    order.into_iter().map(|i| &timeline.lanes[i]).collect()
}

/// A scale's upper end in words.
pub fn top_of(unit: Unit, top: f64) -> String {
    match unit {
        Unit::Share => number::share(top),
        Unit::Number => number::fixed(top, if top.fract() == 0.0 { 0 } else { 1 }),
        other => other.print(top as u64),
    }
}

/// A time on an axis: seconds with as many decimals as it has, at most three.
fn seconds(nanos: i64) -> String {
    let text = format!("{:.3}", nanos as f64 / 1e9);
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Averages of neighbouring columns where there are more than `room`; unknown where none of
/// them is known.
fn joined(values: &[Option<f64>], room: usize) -> Vec<Option<f64>> {
    if values.len() <= room {
        return values.to_vec();
    }
    (0..room)
        .map(|i| {
            let (from, to) = (i * values.len() / room, (i + 1) * values.len() / room);
            let known: Vec<f64> = values[from..to].iter().copied().flatten().collect();
            if known.is_empty() { None } else { Some(known.iter().sum::<f64>() / known.len() as f64) }
        })
        .collect()
}

fn level(value: Option<f64>, top: f64) -> char {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    match value {
        None => '?',
        Some(v) if v <= 0.0 || top <= 0.0 => ' ',
        Some(v) => LEVELS[((v / top * 8.0).ceil() as usize).clamp(1, 8) - 1],
    }
}
