//! What many durations look like together: count, sum, percentiles, and pictures of them.

use serde::{Deserialize, Serialize};

/// A set of durations in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// How many durations.
    pub count: u64,
    /// Their sum.
    pub sum_ns: u64,
    /// Their percentiles; `None` when there are no durations.
    pub quantiles: Option<Quantiles>,
    /// For drawing; `None` where only the percentiles are kept (rows of long tables).
    pub histogram: Option<Histogram>,
}

impl Distribution {
    /// Sum over count, `None` without durations. For display only.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }
}

/// Percentiles by nearest rank: the smallest duration that at least so many percent of
/// all durations do not exceed. Each is a duration that occurred, if `error_ns` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantiles {
    /// The shortest duration, always exact.
    pub min_ns: u64,
    /// Half are not longer.
    pub p50_ns: u64,
    /// 90 % are not longer.
    pub p90_ns: u64,
    /// 99 % are not longer.
    pub p99_ns: u64,
    /// 99.9 % are not longer.
    pub p999_ns: u64,
    /// The longest duration, always exact.
    pub max_ns: u64,
    /// How much the true percentiles may be shorter than those given: 0 where they come from
    /// the durations themselves, the bucket's width where they come from a histogram.
    pub error_ns: u64,
}

/// Counts by length, each bucket a fixed share of its lower bound wide.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Greatest width of a bucket as a share of its lower bound, such as 0.0625.
    pub relative_width: f64,
    /// The buckets that hold something, in rising order, without overlap.
    pub buckets: Vec<Bucket>,
}

/// One bucket of a [`Histogram`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// The shortest duration it takes.
    pub low_ns: u64,
    /// The first duration too long for it.
    pub high_ns: u64,
    /// How many it holds.
    pub count: u64,
}

/// Counts by time of occurrence and length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeatMap {
    /// Time of the first column's left edge, on the trace's clock.
    pub start_ns: u64,
    /// Width of each column.
    pub column_ns: u64,
    /// Lower bounds of the rows, rising; row `i` ends where row `i + 1` begins.
    pub row_low_ns: Vec<u64>,
    /// Where the last row ends.
    pub row_end_ns: u64,
    /// `columns[c][r]`: how many durations ended in column `c` with a length in row `r`.
    pub columns: Vec<Vec<u32>>,
}
