//! What is drawn rather than tabulated: plain numbers, before any drawing.

use crate::table::{Column, Table, Text, Unit, Value};

/// Counts over the bins of one quantity, one series or several on the same bins.
#[derive(Clone, Debug)]
pub struct Distribution {
    /// Its name in JSON and its anchor in HTML.
    pub id: Text,
    /// Its title.
    pub title: Text,
    /// What one value is, in a sentence.
    pub about: Option<Text>,
    /// What the values are.
    pub unit: Unit,
    /// Bounds of the bins, ascending: bin `i` holds `edges[i] <= value < edges[i + 1]`.
    pub edges: Vec<u64>,
    /// The series; the first is the one that text output draws.
    pub series: Vec<Series>,
}

impl Distribution {
    /// The bins of a series that hold something and those between them, neighbours joined
    /// until there are at most `most`. Joined bins end at powers of two or at equal parts
    /// between them; an empty stretch may be one wide bin.
    pub fn joined_bins(&self, series: &Series, most: usize) -> Vec<Bin> {
        self.join(series, |bins, _| bins.len() <= most)
    }

    /// The same with bins that are all parts of an octave equally wide, or whole octaves, so
    /// that their counts compare.
    pub fn even_bins(&self, series: &Series, most: usize) -> Vec<Bin> {
        self.join(series, |bins, even| bins.len() <= most && even)
    }

    fn join(&self, series: &Series, enough: impl Fn(&[Bin], bool) -> bool) -> Vec<Bin> {
        let bin_count = series.counts.len().min(self.edges.len().saturating_sub(1));
        let counts = &series.counts[..bin_count];
        let (Some(first), Some(last)) =
            (counts.iter().position(|&c| c > 0), counts.iter().rposition(|&c| c > 0))
        else {
            return Vec::new();
        };
        // Parts of an octave, then octaves together. The parts are equally wide, as those of
        // log-linear histograms are.
        let coarser = [(16, 1), (8, 1), (4, 1), (2, 1), (1, 1), (1, 2), (1, 4), (1, 8), (1, 16)];
        for (parts, octaves) in coarser {
            let group = |low: u64| {
                let octave = low.max(1).ilog2();
                let part = (u128::from(low.max(1) - (1 << octave)) * parts) >> octave;
                (octave / octaves, part)
            };
            let mut bins: Vec<Bin> = Vec::new();
            let mut open = None;
            let mut even = true;
            for (i, &count) in counts.iter().enumerate().take(last + 1).skip(first) {
                let (from, to) = (self.edges[i], self.edges[i + 1]);
                let this = group(from);
                // A bin that reaches into the next group would make this one too wide.
                let fits = group(to.saturating_sub(1).max(from)) == this;
                match bins.last_mut() {
                    Some(bin) if fits && open == Some(this) => {
                        bin.to = to;
                        bin.count += count;
                    }
                    _ => bins.push(Bin { from, to, count }),
                }
                open = fits.then_some(this);
                even &= fits;
            }
            if enough(&bins, even) || octaves == 16 {
                return bins;
            }
        }
        Vec::new()
    }
}

impl Distribution {
    /// The percentiles of all series, one row each.
    pub fn percentile_table(&self) -> Table {
        let mut columns = vec![
            Column::new("series", self.title.clone(), Unit::Text).essential(),
            Column::new("count", "count", Unit::Count).essential(),
        ];
        // Every series has the same percentiles unless it is empty.
        let fullest = self.series.iter().max_by_key(|s| s.percentiles.len());
        let names: Vec<Text> =
            fullest.map(|s| s.percentiles.iter().map(|p| p.name.clone()).collect()).unwrap_or_default();
        let columns_of_names = names
            .iter()
            .map(|n| Column::new(n.clone(), n.clone(), self.unit).over("percentiles").essential());
        columns.extend(columns_of_names);
        let mut table = Table::new(self.id.clone(), "values", columns);
        for series in &self.series {
            let mut row = vec![Value::Text(series.title.clone()), Value::Count(series.count)];
            for name in &names {
                let found = series.percentiles.iter().find(|p| p.name == *name);
                row.push(Value::or_missing(found.map(|p| Value::of_unit(self.unit, p.value)), "no values"));
            }
            table.push(row);
        }
        table
    }
}

/// Some values lie in `from <= value < to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    /// The lowest value it takes.
    pub from: u64,
    /// The first value above it.
    pub to: u64,
    /// How many values it holds.
    pub count: u64,
}

/// One series of a [`Distribution`].
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in JSON.
    pub key: Text,
    /// Its name for people.
    pub title: Text,
    /// A count for each bin.
    pub counts: Vec<u64>,
    /// How many values there are (those outside the bins too).
    pub count: u64,
    /// The sum of the values, in the distribution's unit.
    pub sum: Option<u64>,
    /// Percentiles in ascending order, the maximum last.
    pub percentiles: Vec<Percentile>,
}

/// A value below which a stated part of all values lies.
#[derive(Clone, Debug, PartialEq)]
pub struct Percentile {
    /// `p50`, `p99.9`, `max`; in JSON with `_` for the point.
    pub name: Text,
    /// The value.
    pub value: u64,
    /// The bounds it lies between, when it comes from a histogram rather than raw values.
    pub bounds: Option<(u64, u64)>,
}

/// Counts over time × magnitude.
#[derive(Clone, Debug)]
pub struct HeatMap {
    /// Its name in JSON and its anchor in HTML.
    pub id: Text,
    /// Its title.
    pub title: Text,
    /// What one value is and when it counts, in a sentence.
    pub about: Option<Text>,
    /// What the values are.
    pub unit: Unit,
    /// The span covered.
    pub time: TimeAxis,
    /// Bounds of the rows, ascending, as for [`Distribution::edges`].
    pub edges: Vec<u64>,
    /// Counts, column after column (time), each from the lowest row to the highest.
    pub counts: Vec<u64>,
    /// Columns whose counts are not whole because events were lost.
    pub doubtful: Vec<bool>,
}

impl HeatMap {
    /// How many rows a column has.
    pub fn rows(&self) -> usize {
        self.edges.len().saturating_sub(1)
    }

    /// The count of a cell; 0 outside.
    pub fn at(&self, column: usize, row: usize) -> u64 {
        if row >= self.rows() { 0 } else { self.counts.get(column * self.rows() + row).copied().unwrap_or(0) }
    }
}

/// A span of time in equal steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeAxis {
    /// Where the axis begins, in nanoseconds of the trace's clock.
    pub start_ns: u64,
    /// What is called second 0, in nanoseconds of the trace's clock: the recording's
    /// start, the same for all charts of a document.
    pub zero_ns: u64,
    /// Width of one column.
    pub step_ns: u64,
    /// How many columns.
    pub columns: usize,
}

impl TimeAxis {
    /// Nanoseconds from second 0 to the start of a column.
    pub fn offset_ns(&self, column: usize) -> i64 {
        self.start_ns as i64 - self.zero_ns as i64 + (self.step_ns as i64).saturating_mul(column as i64)
    }

    /// The whole span in nanoseconds.
    pub fn span_ns(&self) -> u64 {
        self.step_ns.saturating_mul(self.columns as u64)
    }
}

/// Where the time of each row went: parts that add up to the row's span.
#[derive(Clone, Debug)]
pub struct Budget {
    /// The parts, in drawing order.
    pub parts: Vec<Part>,
    /// The rows as a table. The columns named in `parts` hold nanoseconds.
    pub table: Table,
}

impl Budget {
    /// The column that holds a part's time. Its share may have a column of the same key.
    pub fn part_column(&self, part: &Part) -> Option<usize> {
        self.table.columns.iter().position(|c| c.key == part.key && c.unit != Unit::Share)
    }

    /// Where a bar is shown: behind the columns that name the row.
    pub fn bar_column(&self) -> usize {
        self.table.columns.iter().take_while(|c| matches!(c.unit, Unit::Text | Unit::Id)).count()
    }
}

/// One part of a [`Budget`].
#[derive(Clone, Debug)]
pub struct Part {
    /// The key of its column in the table.
    pub key: Text,
    /// What it means, which decides its colour in every chart.
    pub meaning: Meaning,
}

/// What a stretch of time means to the thread it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// On a CPU.
    Running,
    /// Runnable, waiting for a CPU.
    Waiting,
    /// Taken from it by interrupts or the hypervisor.
    Stolen,
    /// Blocked on a device.
    BlockedIo,
    /// Blocked on a lock or futex.
    BlockedLock,
    /// Blocked on the network.
    BlockedNetwork,
    /// Blocked on memory: faults, reclaim.
    BlockedMemory,
    /// Asleep by its own wish, or not needed.
    Sleeping,
    /// Any other state.
    Other,
    /// Not known: lost events, before the first or after the last event.
    Unknown,
}

impl Meaning {
    /// The name that CSS classes and JSON use.
    pub fn name(self) -> &'static str {
        match self {
            Meaning::Running => "running",
            Meaning::Waiting => "waiting",
            Meaning::Stolen => "stolen",
            Meaning::BlockedIo => "io",
            Meaning::BlockedLock => "lock",
            Meaning::BlockedNetwork => "network",
            Meaning::BlockedMemory => "memory",
            Meaning::Sleeping => "sleeping",
            Meaning::Other => "other",
            Meaning::Unknown => "unknown",
        }
    }

    /// The character that fills a bar in text.
    pub fn fill(self) -> char {
        match self {
            Meaning::Running => '█',
            Meaning::Waiting => '▒',
            Meaning::Stolen => '!',
            Meaning::BlockedIo => 'D',
            Meaning::BlockedLock => 'L',
            Meaning::BlockedNetwork => 'N',
            Meaning::BlockedMemory => 'M',
            Meaning::Sleeping => '·',
            Meaning::Other => 'o',
            Meaning::Unknown => '?',
        }
    }
}

/// Tracks over time, one lane for each CPU (or thread, device …).
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Its name in JSON and its anchor in HTML.
    pub id: Text,
    /// Its title.
    pub title: Text,
    /// What it shows, in a sentence.
    pub about: Option<Text>,
    /// The span covered.
    pub time: TimeAxis,
    /// The tracks of every lane, drawn over each other on separate scales.
    pub tracks: Vec<Track>,
    /// The lanes.
    pub lanes: Vec<Lane>,
}

/// One quantity of a [`Timeline`].
#[derive(Clone, Debug)]
pub struct Track {
    /// Its name in JSON.
    pub key: Text,
    /// Its name for people.
    pub title: Text,
    /// What its values are.
    pub unit: Unit,
    /// What it means, for its colour.
    pub meaning: Meaning,
    /// The upper end of its scale, the same in all lanes.
    pub top: f64,
}

/// One lane of a [`Timeline`].
#[derive(Clone, Debug)]
pub struct Lane {
    /// `CPU 0`.
    pub title: Text,
    /// For each track a value for each column; `None` where it is not known.
    pub values: Vec<Vec<Option<f64>>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_joined_at_octaves_and_lose_nothing() {
        let edges: Vec<u64> =
            (4..20).flat_map(|p| (0..16).map(move |i| (1u64 << p) + i * (1 << (p - 4)))).collect();
        let counts: Vec<u64> = (0..edges.len() as u64 - 1).map(|i| if i < 16 { 0 } else { i }).collect();
        let total: u64 = counts.iter().sum();
        let series = Series {
            key: "a".into(),
            title: "a".into(),
            counts,
            count: total,
            sum: None,
            percentiles: vec![],
        };
        let distribution = Distribution {
            id: "d".into(),
            title: "d".into(),
            about: None,
            unit: Unit::Nanos,
            edges,
            series: vec![series],
        };
        let bins = distribution.joined_bins(&distribution.series[0], 16);
        assert_eq!(bins.len(), 15);
        assert_eq!(bins.iter().map(|b| b.count).sum::<u64>(), total);
        assert!(bins.iter().all(|b| b.from.is_power_of_two()), "{bins:?}");
        assert!(bins.windows(2).all(|w| w[0].to == w[1].from));
        let fine = distribution.joined_bins(&distribution.series[0], 128);
        assert_eq!(fine.len(), 15 * 8);
    }
}
