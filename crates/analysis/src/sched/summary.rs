//! One distribution's numbers, and how they come from durations that were kept.

use super::groups::GroupId;
use crate::{
    distribution::{Distribution, Quantiles},
    kept::{FINE, Kept},
    loglinear::{LogLinear, bounds_of},
};

/// Per mille of the percentiles given.
pub(crate) const PER_MILLE: [u64; 4] = [500, 900, 990, 999];

/// The rank, from 1, of a percentile among `count` values: the nearest-rank definition.
pub(crate) fn rank(count: u64, per_mille: u64) -> u64 {
    ((u128::from(count) * u128::from(per_mille)).div_ceil(1000) as u64).max(1)
}

/// One distribution's numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    pub count: u64,
    pub sum: u64,
    pub min: u64,
    pub max: u64,
    /// For each of [`PER_MILLE`].
    pub at: [Place; 4],
    pub drawn: Option<Box<LogLinear>>,
}

/// Where the value of one rank lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The value is at least this
    pub low: u64,
    /// and less than this much more: 1 when it is known exactly.
    pub width: u64,
    /// Values of the distribution that are less than `low`.
    pub before: u64,
    /// Values of the distribution in `low..low + width`; 0 when exact.
    pub inside: u64,
}

impl Place {
    pub fn exact(value: u64) -> Place {
        Place { low: value, width: 1, before: 0, inside: 0 }
    }
}

/// Distributions of no more than this many durations are put in order as they are.
const FEW: u64 = 256;

/// The summaries of all distributions that have some of the durations kept. `groups` tells, by
/// tag, to which each belongs; those below `drawn_below` get a histogram for drawing.
pub(crate) fn summarize<const N: usize>(
    kept: &mut Kept,
    groups: &[[GroupId; N]],
    summaries: &mut [Summary],
    drawn_below: GroupId,
) {
    kept.settle();
    let mut members: Vec<(GroupId, u32)> = Vec::new();
    for (tag, groups) in (0u32..).zip(groups) {
        if kept.count(tag) > 0 {
            let known = groups.iter().filter(|group| (**group as usize) < summaries.len());
            members.extend(known.map(|group| (*group, tag)));
        }
    }
    members.sort_unstable();
    let mut scratch = Scratch::default();
    for tags in members.chunk_by(|a, b| a.0 == b.0) {
        let group = tags[0].0;
        scratch.summarize(kept, tags, &mut summaries[group as usize], group < drawn_below);
    }
}

/// Memory used again from distribution to distribution.
#[derive(Default)]
struct Scratch {
    values: Vec<u64>,
    counters: Vec<u64>,
}

impl Scratch {
    fn summarize(&mut self, kept: &Kept, tags: &[(GroupId, u32)], summary: &mut Summary, draw: bool) {
        let mut histogram = LogLinear::new(if draw { FINE } else { 1 });
        if tags.iter().map(|(_, tag)| kept.count(*tag)).sum::<u64>() <= FEW {
            self.values.clear();
            for (_, tag) in tags {
                kept.values(*tag, 0, u64::MAX, |value, count| {
                    self.values.extend(std::iter::repeat_n(value, count as usize));
                });
            }
            self.values.sort_unstable();
            self.values.iter().for_each(|value| histogram.add(*value));
            summary.take(&histogram, draw);
            for (place, per_mille) in summary.at.iter_mut().zip(PER_MILLE) {
                *place = Place::exact(self.values[rank(histogram.count, per_mille) as usize - 1]);
            }
            return;
        }
        histogram = LogLinear::new(FINE);
        for (_, tag) in tags {
            kept.count_into(*tag, &mut histogram);
        }
        summary.take(&histogram, draw);
        for (place, per_mille) in summary.at.iter_mut().zip(PER_MILLE).filter(|(place, _)| place.width > 1) {
            let wanted = rank(summary.count, per_mille) - place.before;
            *place = Place::exact(self.value_of_rank(kept, tags, *place, wanted));
        }
    }

    /// The value of a rank, from 1, among those in a bucket.
    fn value_of_rank(&mut self, kept: &Kept, tags: &[(GroupId, u32)], place: Place, wanted: u64) -> u64 {
        let tags = tags.iter().map(|(_, tag)| *tag);
        if place.inside <= place.width.max(FEW) {
            self.values.clear();
            for tag in tags {
                kept.values(tag, place.low, place.width, |value, count| {
                    self.values.extend(std::iter::repeat_n(value, count as usize));
                });
            }
            return *self.values.select_nth_unstable(wanted as usize - 1).1;
        }
        self.counters.clear();
        self.counters.resize(place.width as usize, 0);
        for tag in tags {
            kept.values(tag, place.low, place.width, |value, count| {
                self.counters[(value - place.low) as usize] += u64::from(count);
            });
        }
        let mut before = 0;
        let found = self.counters.iter().position(|count| {
            before += count;
            before >= wanted
        });
        place.low + found.unwrap_or(0) as u64
    }
}

impl Summary {
    pub fn take(&mut self, histogram: &LogLinear, draw: bool) {
        (self.count, self.sum, self.min, self.max) =
            (histogram.count, histogram.sum, histogram.min, histogram.max);
        for (place, per_mille) in self.at.iter_mut().zip(PER_MILLE) {
            if let Some((bucket, before)) = histogram.bucket_with_rank(rank(histogram.count, per_mille)) {
                let (low, width) = bounds_of(histogram.sub_bits(), bucket);
                *place = Place { low, width, before, inside: histogram.count_in(bucket) };
            }
        }
        if draw && histogram.count > 0 {
            self.drawn = Some(Box::new(histogram.drawn()));
        }
    }

    /// The result's form.
    pub fn to_distribution(&self) -> Distribution {
        // The highest value a place allows: never below the truth, never above the maximum.
        let value = |place: &Place| (place.low + (place.width - 1)).min(self.max).max(self.min);
        Distribution {
            count: self.count,
            sum_ns: self.sum,
            quantiles: (self.count > 0).then(|| Quantiles {
                min_ns: self.min,
                p50_ns: value(&self.at[0]),
                p90_ns: value(&self.at[1]),
                p99_ns: value(&self.at[2]),
                p999_ns: value(&self.at[3]),
                max_ns: self.max,
                error_ns: self.at.iter().map(|p| p.width - 1).max().unwrap_or(0),
            }),
            histogram: self.drawn.as_ref().map(|d| d.to_histogram()),
        }
    }
}
