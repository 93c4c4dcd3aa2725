//! A map read out and combined over CPUs, sorted as it prints: the common ground of text, JSON and
//! metrics.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use lang::aggregate;
use lang::schema::{Combine, MapValue, TIME_SERIES_SLOT_BYTES};
use lang::types::Type;

use super::decode::{Decoder, signed, unsigned};
use super::value::Value;

/// A map as it prints.
#[derive(Clone, Debug, PartialEq)]
pub struct MapShown {
    /// With its `@`.
    pub name: String,
    /// Whether it has no key: exactly one row, or none.
    pub scalar: bool,
    /// What its rows are.
    pub kind: ShownKind,
    /// In the order of printing. Scalars have no key.
    pub rows: Vec<(Option<Value>, Shown)>,
}

/// The `type` of a map in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownKind {
    /// Plain values, counts, sums.
    Map,
    /// Histograms.
    Histogram,
    /// Averages and statistics.
    Stats,
    /// Time series.
    Series,
}

/// A row's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown {
    /// A single value.
    Value(Value),
    /// `stats()`.
    Stats {
        /// Number of values.
        count: u64,
        /// Their mean.
        average: Value,
        /// Their sum.
        total: Value,
    },
    /// `hist()`, `lhist()`, `llhist()`.
    Histogram(Histogram),
    /// `tseries()`.
    Series(Series),
}

/// The buckets from the first that counted to the last.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Histogram {
    /// In the order of size.
    pub buckets: Vec<Bucket>,
    /// Of equal width: a bucket of one value is `[1, 2)` and not `[1]`.
    pub linear: bool,
    /// Of log-linear histograms.
    pub percentiles: Option<Percentiles>,
}

/// Ranks that are told of a histogram, in thousandths.
const RANKS: [(&str, u128); 5] = [("p50", 500), ("p90", 900), ("p99", 990), ("p99.9", 999), ("max", 1000)];

impl Histogram {
    /// Values counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.count).sum()
    }

    /// Percentiles, each as the bucket that holds it; none of an empty histogram.
    pub fn ranks(&self) -> impl Iterator<Item = (&'static str, &Bucket)> {
        let count = u128::from(self.count());
        RANKS.into_iter().filter_map(move |(name, per_mille)| {
            let rank = (count * per_mille).div_ceil(1000).max(1);
            let mut below = 0u128;
            let holds = |bucket: &&Bucket| {
                below += u128::from(bucket.count);
                below >= rank
            };
            self.buckets.iter().find(holds).map(|bucket| (name, bucket))
        })
    }
}

/// A bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    /// Lowest value in it; none: no lower bound.
    pub low: Option<Label>,
    /// Lowest value above it; none: no upper bound.
    pub high: Option<Label>,
    /// Values counted (divided by `print`'s divisor).
    pub count: u64,
}

/// A bound.
#[derive(Clone, Debug, PartialEq)]
pub enum Label {
    /// Printed as it is.
    Plain(i128),
    /// Printed with a suffix for a power of 1024.
    Scaled {
        /// `4K`.
        text: String,
        /// 4096.
        number: i128,
    },
}

impl Label {
    /// As printed.
    pub fn text(&self) -> String {
        match self {
            Label::Plain(number) => number.to_string(),
            Label::Scaled { text, .. } => text.clone(),
        }
    }

    /// The number itself.
    pub fn number(&self) -> i128 {
        match self {
            Label::Plain(number) | Label::Scaled { number, .. } => *number,
        }
    }
}

/// Percentiles of a log-linear histogram, each as the bounds of its bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct Percentiles {
    /// Values counted.
    pub count: u64,
    /// Bound of the relative error.
    pub error: f64,
    /// Name, lower and upper bound.
    pub values: Vec<(&'static str, u128, u128)>,
}

/// Values of consecutive intervals.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Nanoseconds of one interval.
    pub interval: u64,
    /// Start in nanoseconds since 1970, value.
    pub points: Vec<(u64, Option<Value>)>,
}

/// A raw entry of a map: the key's bytes (empty for scalars), the value of each CPU.
pub struct RawEntry<'a> {
    /// Key.
    pub key: &'a [u8],
    /// One value, or one for each possible CPU.
    pub values: Vec<&'a [u8]>,
}

/// How to show a map: `print`'s arguments.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShowOptions {
    /// Only so many rows, the last ones; 0: all.
    pub top: u64,
    /// Numbers are divided by this; 0 and 1: not.
    pub divisor: u64,
    /// What to add to an interval's start on the program's clock to get nanoseconds since 1970.
    pub wall_clock_offset: i64,
}

/// Combines, sorts, cuts.
pub fn map(
    name: &str,
    key_type: Option<&Type>,
    value: &MapValue,
    entries: &[RawEntry<'_>],
    decoder: Decoder<'_>,
    options: ShowOptions,
) -> MapShown {
    let mut rows: Vec<(Option<Value>, Combined)> = Vec::with_capacity(entries.len());
    for entry in entries {
        let key = key_type.map(|ty| decoder.value(ty, entry.key));
        rows.push((key, Combined::of(value, &entry.values, decoder)));
    }
    // Of equal rows the one with the lower key comes first, so that output does not depend on hashes.
    rows.sort_by(|(a_key, a), (b_key, b)| {
        a.order(b).then_with(|| match (a_key, b_key) {
            (Some(a), Some(b)) => a.key_order(b),
            _ => Ordering::Equal,
        })
    });
    let latest = rows.iter().filter_map(|(_, row)| row.latest_interval()).max();
    let skip = match options.top {
        0 => 0,
        top => rows.len().saturating_sub(usize::try_from(top).unwrap_or(usize::MAX)),
    };
    let kind = match value {
        MapValue::Hist { .. } | MapValue::Lhist { .. } | MapValue::LogLinear { .. } => ShownKind::Histogram,
        MapValue::Avg { .. } | MapValue::Stats { .. } => ShownKind::Stats,
        MapValue::TimeSeries { .. } => ShownKind::Series,
        _ => ShownKind::Map,
    };
    let rows =
        rows.into_iter().skip(skip).map(|(key, row)| (key, row.shown(value, latest, options))).collect();
    MapShown { name: name.to_owned(), scalar: key_type.is_none(), kind, rows }
}

/// An entry over all CPUs.
enum Combined {
    Value(Value),
    Mean {
        total: i128,
        count: u64,
        signed: bool,
    },
    Buckets(Vec<u64>),
    /// By interval number.
    Series(BTreeMap<u64, Value>),
}

impl Combined {
    fn of(value: &MapValue, cpus: &[&[u8]], decoder: Decoder<'_>) -> Combined {
        let sum = |at: usize| cpus.iter().map(|bytes| unsigned(bytes, at, 8)).fold(0u64, u64::wrapping_add);
        let number = |number: i128, signed: bool| match signed {
            true => Value::Signed(number as i64),
            false => Value::Unsigned(number as u64),
        };
        match value {
            MapValue::Plain(ty) => Combined::Value(decoder.value(ty, cpus.first().copied().unwrap_or(&[]))),
            MapValue::Count => Combined::Value(Value::Unsigned(sum(0))),
            MapValue::Sum { signed } => Combined::Value(number(i128::from(sum(0) as i64), *signed)),
            MapValue::Min { signed } | MapValue::Max { signed } => {
                // CPUs that saw no value do not take part.
                let seen = cpus.iter().filter(|bytes| unsigned(bytes, 8, 8) != 0);
                let values = seen.map(|bytes| integer(bytes, 0, *signed));
                let extreme = if matches!(value, MapValue::Min { .. }) { values.min() } else { values.max() };
                Combined::Value(number(extreme.unwrap_or(0), *signed))
            }
            MapValue::Avg { signed } | MapValue::Stats { signed } => Combined::Mean {
                total: integer(&sum(0).to_le_bytes(), 0, *signed),
                count: sum(8),
                signed: *signed,
            },
            MapValue::Hist { .. } | MapValue::Lhist { .. } | MapValue::LogLinear { .. } => {
                Combined::Buckets((0..value.size() as usize / 8).map(|bucket| sum(8 * bucket)).collect())
            }
            MapValue::TimeSeries { intervals, combine, signed, .. } => {
                Combined::Series(series(cpus, *intervals, *combine, *signed))
            }
        }
    }

    /// Integers by value, statistics by mean, histograms by the number of values; others only by key.
    fn order(&self, other: &Combined) -> Ordering {
        match (self, other) {
            (Combined::Value(a), Combined::Value(b)) => match (a, b) {
                (Value::Signed(_) | Value::Unsigned(_), Value::Signed(_) | Value::Unsigned(_)) => {
                    a.key_order(b)
                }
                _ => Ordering::Equal,
            },
            (
                Combined::Mean { total: a, count: a_count, .. },
                Combined::Mean { total: b, count: b_count, .. },
            ) => mean(*a, *a_count).cmp(&mean(*b, *b_count)),
            (Combined::Buckets(a), Combined::Buckets(b)) => a.iter().sum::<u64>().cmp(&b.iter().sum()),
            _ => Ordering::Equal,
        }
    }

    fn latest_interval(&self) -> Option<u64> {
        match self {
            Combined::Series(values) => values.last_key_value().map(|(number, _)| *number),
            _ => None,
        }
    }

    fn shown(self, value: &MapValue, latest: Option<u64>, options: ShowOptions) -> Shown {
        let divisor = options.divisor;
        match self {
            Combined::Value(value) => Shown::Value(value.divided(divisor)),
            Combined::Mean { total, count, signed } => {
                let as_value = |number: i128| match signed {
                    true => Value::Signed(number as i64),
                    false => Value::Unsigned(number as u64),
                };
                let average = as_value(mean(total, count)).divided(divisor);
                match value {
                    MapValue::Stats { .. } => Shown::Stats { count, average, total: as_value(total) },
                    _ => Shown::Value(average),
                }
            }
            Combined::Buckets(counts) => Shown::Histogram(histogram(value, &counts, divisor)),
            Combined::Series(values) => Shown::Series(points(value, &values, latest, options)),
        }
    }
}

fn integer(bytes: &[u8], at: usize, with_sign: bool) -> i128 {
    if with_sign { signed(bytes, at, 8).into() } else { unsigned(bytes, at, 8).into() }
}

fn mean(total: i128, count: u64) -> i128 {
    if count == 0 { 0 } else { total / i128::from(count) }
}

fn histogram(value: &MapValue, counts: &[u64], divisor: u64) -> Histogram {
    let Some(first) = counts.iter().position(|count| *count > 0) else { return Histogram::default() };
    let last = counts.iter().rposition(|count| *count > 0).unwrap_or(first);
    let bucket = |index: usize| -> (Option<Label>, Option<Label>) {
        match value {
            MapValue::Lhist { min, max, step } => {
                let label = |n: usize| {
                    let number = i128::from(*min) + i128::from(*step) * (n as i128);
                    (number <= i128::from(*max)).then(|| linear_label(number, *step))
                };
                // The last bucket is everything from the upper bound on.
                let high = if index + 1 == counts.len() { None } else { label(index) };
                (index.checked_sub(1).and_then(label), high)
            }
            MapValue::Hist { bits } | MapValue::LogLinear { bits } => match index {
                0 => (None, Some(Label::Plain(0))),
                _ => (Some(power_label(index as u32 - 1, *bits)), Some(power_label(index as u32, *bits))),
            },
            _ => (None, None),
        }
    };
    // `print`'s divisor has no effect on linear histograms in bpftrace either.
    let divisor = if matches!(value, MapValue::Lhist { .. }) { 1 } else { divisor.max(1) };
    let buckets = (first..=last).map(|index| {
        let (low, high) = bucket(index);
        Bucket { low, high, count: counts[index] / divisor }
    });
    let percentiles = match value {
        MapValue::LogLinear { bits } => Some(percentiles(counts, *bits)),
        _ => None,
    };
    Histogram { buckets: buckets.collect(), linear: matches!(value, MapValue::Lhist { .. }), percentiles }
}

/// The lower bound of bucket `index + 1` of `hist`.
fn power_label(index: u32, bits: u8) -> Label {
    if u64::from(index) <= 2 << bits {
        return Label::Plain(index.into());
    }
    let bits = u32::from(bits);
    let mantissa = (1i128 << bits) + i128::from(index & ((1 << bits) - 1));
    let power = (index >> bits) - 1;
    let suffix = ["", "K", "M", "G", "T", "P", "E"][(power / 10).min(6) as usize];
    let text = format!("{}{suffix}", mantissa << (power % 10));
    Label::Scaled { text, number: mantissa << power }
}

fn linear_label(number: i128, step: i64) -> Label {
    const KILO: i128 = 1024;
    let scaled = |unit: i128, suffix| Label::Scaled { text: format!("{}{suffix}", number / unit), number };
    if step % KILO as i64 != 0 || number == 0 {
        Label::Plain(number)
    } else if number % (KILO * KILO) == 0 {
        scaled(KILO * KILO, "M")
    } else if number % KILO == 0 {
        scaled(KILO, "K")
    } else {
        Label::Plain(number)
    }
}

fn percentiles(counts: &[u64], bits: u8) -> Percentiles {
    let count: u64 = counts.iter().sum();
    let at = |per_mille: u128| -> (u128, u128) {
        let rank = (u128::from(count) * per_mille).div_ceil(1000).max(1);
        let mut below = 0u128;
        for (index, in_bucket) in counts.iter().enumerate() {
            below += u128::from(*in_bucket);
            if below >= rank {
                return if index == 0 { (0, 0) } else { aggregate::hist_bounds(index as u32, bits) };
            }
        }
        (0, 0)
    };
    let values = RANKS.into_iter().map(|(name, per_mille)| {
        let (low, high) = at(per_mille);
        (name, low, high)
    });
    Percentiles { count, error: 1.0 / f64::from(1u32 << bits.min(31)), values: values.collect() }
}

fn series(cpus: &[&[u8]], intervals: u32, combine: Combine, signed: bool) -> BTreeMap<u64, Value> {
    struct Slot {
        value: i128,
        total: i128,
        /// Number of values; for `Last` the time of the value.
        count: u64,
    }
    let mut slots: BTreeMap<u64, Slot> = BTreeMap::new();
    for bytes in cpus {
        for index in 0..intervals as usize {
            let at = index * TIME_SERIES_SLOT_BYTES as usize;
            let Some(number) = unsigned(bytes, at, 8).checked_sub(1) else { continue };
            let (value, total) = (integer(bytes, at + 8, signed), integer(bytes, at + 16, signed));
            let count = unsigned(bytes, at + 24, 8);
            let new = Slot { value, total, count };
            let Some(have) = slots.get_mut(&number) else {
                slots.insert(number, new);
                continue;
            };
            match combine {
                Combine::Last if count >= have.count => *have = new,
                Combine::Last => {}
                Combine::Min => have.value = have.value.min(value),
                Combine::Max => have.value = have.value.max(value),
                Combine::Avg | Combine::Sum => {
                    have.value += value;
                    have.total += total;
                    have.count += count;
                }
            }
        }
    }
    let shown = |slot: Slot| {
        let number = match combine {
            Combine::Avg => mean(slot.total, slot.count),
            Combine::Sum => slot.total,
            _ => slot.value,
        };
        if signed { Value::Signed(number as i64) } else { Value::Unsigned(number as u64) }
    };
    slots.into_iter().map(|(number, slot)| (number, shown(slot))).collect()
}

fn points(
    value: &MapValue,
    values: &BTreeMap<u64, Value>,
    latest: Option<u64>,
    options: ShowOptions,
) -> Series {
    let MapValue::TimeSeries { interval, intervals, .. } = value else {
        return Series { interval: 1, points: vec![] };
    };
    let Some(latest) = latest else { return Series { interval: *interval, points: vec![] } };
    let oldest_kept = (latest + 1).saturating_sub(u64::from(*intervals));
    let first = values.range(oldest_kept..).next().map_or(latest + 1, |(number, _)| *number);
    let start = |number: u64| number.wrapping_mul(*interval).wrapping_add_signed(options.wall_clock_offset);
    let points = (first..=latest).map(|number| (start(number), values.get(&number).cloned()));
    Series { interval: *interval, points: points.collect() }
}
