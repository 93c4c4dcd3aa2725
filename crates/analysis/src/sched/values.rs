//! Durations on their way to percentiles, exact and in bounded memory.
//!
//! While they fit, single durations are kept, each in 8 bytes: its length, and the number of
//! its tag, of which there are few. At the end they are sorted once by length; then one walk
//! in that order meets, for every distribution at the same time, the duration of each
//! wanted rank.
//!
//! When they do not fit they are counted into histograms instead, one per distribution,
//! from which the percentiles are known to a bucket. [`super::refine`] makes those exact
//! by reading the trace again.

use std::{collections::HashMap, hash::BuildHasherDefault};

use trace::TaskState;

use super::{
    cpus::Cpus,
    groups::{
        BLOCKED, BY_CPU, BY_POLICY, BY_PRIORITY, GroupId, GroupTable, NO_GROUP, PREEMPTION, PRIORITIES,
        TOTAL, WAKEUP, WaitTag, of_blocked, policy_of,
    },
    long::LongWaits,
    machine::{Output, Wait},
    result::{BlockReason, CountAndTime, WaitCause},
    threads::{Thread, Threads, state_index},
    wakers::WordHasher,
};
use crate::{
    distribution::{Distribution, Quantiles},
    heat::Heat,
    loglinear::{LogLinear, bounds_of, bucket_of},
};

/// Per mille of the percentiles given.
pub(crate) const PER_MILLE: [u64; 4] = [500, 900, 990, 999];

/// The rank, from 1, of a percentile among `count` values: the nearest-rank definition.
pub(crate) fn rank(count: u64, per_mille: u64) -> u64 {
    ((u128::from(count) * u128::from(per_mille)).div_ceil(1000) as u64).max(1)
}

/// Buckets of the few large distributions, 1/128 of their lower bound.
const FINE: u32 = 7;
/// Buckets of each thread's distribution, 1/8.
const COARSE: u32 = 3;

pub(crate) struct Values {
    /// Length above [`TAG_BITS`] bits of the tag's number.
    waits: Vec<u64>,
    tags: Tags,
    blocked: Vec<u64>,
    wait_histograms: Option<WaitHistograms>,
    blocked_histograms: Option<Vec<LogLinear>>,
    pub heat_wakeup: Heat,
    pub heat_preemption: Heat,
    pub long: LongWaits,
    /// Waits after a wakeup and after preemption, by CPU and by priority (from -1).
    by_cpu: Vec<[CountAndTime; 2]>,
    by_prio: Vec<[CountAndTime; 2]>,
}

struct WaitHistograms {
    wakeup: LogLinear,
    preemption: LogLinear,
    priorities: Vec<(i16, LogLinear)>,
    cpus: Vec<LogLinear>,
    /// By serial; threads summed into one row have none.
    threads: Vec<Option<Box<LogLinear>>>,
}

/// Bits of a word for the tag's number; the others hold lengths of up to 18 minutes.
const TAG_BITS: u32 = 24;
/// More different tags than this have no room in memory.
const MOST_TAGS: u32 = 1 << 19;

/// Numbers of the tags that occur: threads, CPUs and priorities combine in few ways.
#[derive(Default)]
struct Tags {
    words: Vec<u64>,
    numbers: HashMap<u64, u32, BuildHasherDefault<WordHasher>>,
    /// By thread serial: its last tag and that tag's number.
    last: Vec<(u64, u32)>,
}

impl Tags {
    /// The tag of a kept word.
    fn of(&self, word: u64) -> WaitTag {
        WaitTag::unpack(self.words[(word & ((1 << TAG_BITS) - 1)) as usize])
    }

    #[inline]
    fn number(&mut self, tag: WaitTag) -> u32 {
        let (word, serial) = (tag.pack(), tag.serial as usize);
        match self.last.get(serial) {
            Some((last, number)) if *last == word => *number,
            _ => self.number_slow(word, serial),
        }
    }

    fn number_slow(&mut self, word: u64, serial: usize) -> u32 {
        let number = match self.numbers.get(&word) {
            Some(number) => *number,
            None if self.words.len() >= MOST_TAGS as usize || serial >= MOST_TAGS as usize => {
                return MOST_TAGS;
            }
            None => {
                let number = self.words.len() as u32;
                self.words.push(word);
                self.numbers.insert(word, number);
                number
            }
        };
        if self.last.len() <= serial {
            // No tag is all ones: its priority would be beyond the highest.
            self.last.resize(serial + 1, (u64::MAX, 0));
        }
        self.last[serial] = (word, number);
        number
    }
}

impl Values {
    pub fn new(bytes: usize, columns: usize, long_waits: usize) -> Values {
        // The memory is only touched as far as it is used.
        Values {
            waits: Vec::with_capacity((bytes / 4 * 3 / 8).max(16)),
            tags: Tags::default(),
            blocked: Vec::with_capacity((bytes / 4 / 8).max(16)),
            wait_histograms: None,
            blocked_histograms: None,
            heat_wakeup: Heat::new(columns),
            heat_preemption: Heat::new(columns),
            long: LongWaits::new(long_waits),
            by_cpu: Vec::new(),
            by_prio: vec![Default::default(); PRIORITIES as usize],
        }
    }

    /// Whether percentiles are known only to a bucket.
    pub fn inexact(&self) -> bool {
        self.wait_histograms.is_some() || self.blocked_histograms.is_some()
    }

    #[cold]
    fn spill_waits(&mut self) {
        let mut histograms = WaitHistograms {
            wakeup: LogLinear::new(FINE),
            preemption: LogLinear::new(FINE),
            priorities: Vec::new(),
            cpus: Vec::new(),
            threads: Vec::new(),
        };
        for word in std::mem::take(&mut self.waits) {
            histograms.add(self.tags.of(word), word >> TAG_BITS);
        }
        self.tags = Tags::default();
        self.wait_histograms = Some(histograms);
    }

    #[cold]
    fn spill_blocked(&mut self) {
        let mut histograms = vec![LogLinear::new(FINE); (BY_POLICY - BLOCKED) as usize];
        for word in std::mem::take(&mut self.blocked) {
            add_blocked(&mut histograms, word);
        }
        self.blocked_histograms = Some(histograms);
    }

    /// What became of each distribution: its summary, with percentiles as exact as they are.
    pub fn resolve(&mut self, table: &GroupTable) -> Vec<Summary> {
        let mut summaries = vec![Summary::default(); table.count as usize];
        match &self.wait_histograms {
            None => {
                self.waits.sort_unstable();
                let groups = self.tags.words.iter().map(|w| table.of_wait(WaitTag::unpack(*w))).collect();
                walk(&self.waits, TAG_BITS, groups, &mut summaries, table.without_histogram);
            }
            Some(histograms) => histograms.resolve(table, &mut summaries),
        }
        match &self.blocked_histograms {
            None => {
                self.blocked.sort_unstable();
                let groups = (0..256).map(|tag: usize| of_blocked(tag >> 4, tag & 15)).collect();
                walk(&self.blocked, 8, groups, &mut summaries, table.without_histogram);
            }
            Some(histograms) => {
                for (group, histogram) in histograms.iter().enumerate() {
                    summaries[BLOCKED as usize + group].take(histogram, true);
                }
            }
        }
        summaries
    }

    /// Waits after a wakeup and after preemption of one CPU's, priority's or policy's group.
    pub fn parts_of(&self, group: GroupId) -> [CountAndTime; 2] {
        let at =
            |table: &[[CountAndTime; 2]], index: u32| table.get(index as usize).copied().unwrap_or_default();
        match group {
            BY_CPU.. => at(&self.by_cpu, group - BY_CPU),
            BY_PRIORITY..BY_CPU => at(&self.by_prio, group - BY_PRIORITY),
            _ => {
                let mut sum = [CountAndTime::default(); 2];
                for (index, parts) in self.by_prio.iter().enumerate() {
                    if BY_POLICY + policy_of(index as i32 - 1) as u32 == group {
                        sum[0].merge(&parts[0]);
                        sum[1].merge(&parts[1]);
                    }
                }
                sum
            }
        }
    }

    /// Gives back the memory of single durations.
    pub fn release(&mut self) {
        self.waits = Vec::new();
        self.tags = Tags::default();
        self.blocked = Vec::new();
    }
}

impl Output for Values {
    fn begins(&mut self, start: u64) {
        self.heat_wakeup.start_at(start);
        self.heat_preemption.start_at(start);
    }

    #[inline]
    fn wait(&mut self, wait: &Wait<'_>, threads: &Threads, cpus: &Cpus) {
        let value = wait.end - wait.start;
        let thread = wait.thread;
        let heat = if thread.cause == WaitCause::Preemption {
            &mut self.heat_preemption
        } else {
            &mut self.heat_wakeup
        };
        heat.add(wait.end, value);
        let kind = usize::from(thread.cause == WaitCause::Preemption);
        if self.by_cpu.len() <= wait.cpu as usize {
            self.by_cpu.resize(wait.cpu as usize + 1, Default::default());
        }
        self.by_cpu[wait.cpu as usize][kind].add(value);
        self.by_prio[(thread.prio + 1) as usize][kind].add(value);
        let tag = WaitTag { serial: thread.serial, cpu: wait.cpu, prio: thread.prio, cause: thread.cause };
        match &mut self.wait_histograms {
            Some(histograms) => histograms.add(tag, value),
            None => {
                let number = self.tags.number(tag);
                if number < MOST_TAGS
                    && value < 1 << (64 - TAG_BITS)
                    && self.waits.len() < self.waits.capacity()
                {
                    self.waits.push(value << TAG_BITS | u64::from(number));
                } else {
                    self.spill_waits();
                    if let Some(histograms) = &mut self.wait_histograms {
                        histograms.add(tag, value);
                    }
                }
            }
        }
        if self.long.wants(value) {
            self.long.take(wait, threads, cpus);
        }
    }

    fn folded(&mut self, serial: u32) {
        if let Some(histograms) = &mut self.wait_histograms
            && let Some(histogram) = histograms.threads.get_mut(serial as usize)
        {
            *histogram = None;
        }
    }

    #[inline]
    fn blocked(&mut self, _: &Thread, state: TaskState, reason: BlockReason, time: u64) {
        let word = time.min((1 << 56) - 1) << 8 | (state_index(state) as u64) << 4 | reason as u64;
        match &mut self.blocked_histograms {
            None if self.blocked.len() < self.blocked.capacity() => self.blocked.push(word),
            Some(histograms) => add_blocked(histograms, word),
            None => {
                self.spill_blocked();
                if let Some(histograms) = &mut self.blocked_histograms {
                    add_blocked(histograms, word);
                }
            }
        }
    }
}

fn add_blocked(histograms: &mut [LogLinear], word: u64) {
    for group in of_blocked((word >> 4 & 15) as usize, (word & 15) as usize) {
        histograms[(group - BLOCKED) as usize].add(word >> 8);
    }
}

impl WaitHistograms {
    fn add(&mut self, tag: WaitTag, value: u64) {
        if tag.cause == WaitCause::Preemption { &mut self.preemption } else { &mut self.wakeup }.add(value);
        let cpu = tag.cpu as usize;
        if self.cpus.len() <= cpu {
            self.cpus.resize(cpu + 1, LogLinear::new(FINE));
        }
        self.cpus[cpu].add(value);
        // A trace has few priorities.
        match self.priorities.iter_mut().find(|p| p.0 == tag.prio) {
            Some((_, histogram)) => histogram.add(value),
            None => {
                let mut histogram = LogLinear::new(FINE);
                histogram.add(value);
                self.priorities.push((tag.prio, histogram));
            }
        }
        let serial = tag.serial as usize;
        if self.threads.len() <= serial {
            self.threads.resize_with(serial + 1, || None);
        }
        self.threads[serial].get_or_insert_with(|| Box::new(LogLinear::new(COARSE))).add(value);
    }

    fn resolve(&self, table: &GroupTable, summaries: &mut [Summary]) {
        let mut total = self.wakeup.clone();
        total.merge(&self.preemption);
        summaries[TOTAL as usize].take(&total, true);
        summaries[WAKEUP as usize].take(&self.wakeup, true);
        summaries[PREEMPTION as usize].take(&self.preemption, true);
        for (cpu, histogram) in self.cpus.iter().enumerate() {
            summaries[BY_CPU as usize + cpu].take(histogram, true);
        }
        let mut policies = vec![LogLinear::new(FINE); 3];
        for (prio, histogram) in &self.priorities {
            summaries[(BY_PRIORITY as i32 + i32::from(*prio) + 1) as usize].take(histogram, true);
            policies[policy_of(i32::from(*prio)) as usize].merge(histogram);
        }
        for (policy, histogram) in policies.iter().enumerate() {
            summaries[BY_POLICY as usize + policy].take(histogram, true);
        }
        let mut merged: HashMap<GroupId, LogLinear> = HashMap::new();
        for (serial, histogram) in self.threads.iter().enumerate() {
            let Some(histogram) = histogram else { continue };
            for group in [table.thread[serial], table.process[serial], table.cgroup[serial]] {
                if group != NO_GROUP {
                    merged.entry(group).or_insert_with(|| LogLinear::new(COARSE)).merge(histogram);
                }
            }
        }
        for (group, histogram) in merged {
            summaries[group as usize].take(&histogram, group < table.without_histogram);
        }
    }
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

/// What the walk keeps of each distribution, small since it is touched for each value.
#[derive(Clone, Copy, Default)]
struct Tally {
    met: u64,
    /// The rank wanted next.
    next_rank: u64,
}

/// Meets all values in rising order and notes those of the wanted ranks. The low `tag_bits` of
/// each word say to which distributions it belongs: a position in `groups`.
fn walk<const N: usize>(
    words: &[u64],
    tag_bits: u32,
    groups: Vec<[GroupId; N]>,
    summaries: &mut [Summary],
    without_histogram: GroupId,
) {
    let mask = (1 << tag_bits) - 1;
    let mut by_tag = vec![(0u64, 0u64); groups.len()];
    for word in words {
        let (count, sum) = &mut by_tag[(word & mask) as usize];
        *count += 1;
        *sum = sum.saturating_add(word >> tag_bits);
    }
    for (groups, (count, sum)) in groups.iter().zip(by_tag) {
        for group in groups {
            if let Some(summary) = summaries.get_mut(*group as usize) {
                summary.count += count;
                summary.sum = summary.sum.saturating_add(sum);
            }
        }
    }
    let mut tallies = vec![Tally::default(); summaries.len()];
    let mut drawn: Vec<Option<Box<DrawnCounts>>> = Vec::new();
    for (group, (tally, summary)) in tallies.iter_mut().zip(summaries.iter()).enumerate() {
        // The first value is the smallest, and wanted as such.
        tally.next_rank = 1;
        if group < without_histogram as usize {
            drawn.push((summary.count > 0).then(|| Box::new([0; DRAWN_BUCKETS])));
        }
    }
    for word in words {
        let value = word >> tag_bits;
        let bucket = bucket_of(DRAWN_BITS, value);
        for group in groups[(word & mask) as usize] {
            let Some(tally) = tallies.get_mut(group as usize) else { continue };
            tally.met += 1;
            if let Some(Some(drawn)) = drawn.get_mut(group as usize) {
                drawn[bucket] += 1;
            }
            if tally.met >= tally.next_rank {
                meet(tally, value, &mut summaries[group as usize]);
            }
        }
    }
    for (summary, counts) in summaries.iter_mut().zip(drawn) {
        // Distributions of the other walk have counts of their own already.
        let Some(counts) = counts.filter(|c| c.iter().any(|count| *count > 0)) else { continue };
        let mut histogram = LogLinear::new(DRAWN_BITS);
        for (bucket, count) in counts.iter().enumerate().filter(|(_, c)| **c > 0) {
            histogram.add_counted(bucket, *count);
        }
        (histogram.count, histogram.sum) = (summary.count, summary.sum);
        (histogram.min, histogram.max) = (summary.min, summary.max);
        summary.drawn = Some(Box::new(histogram));
    }
}

const DRAWN_BITS: u32 = 4;
const DRAWN_BUCKETS: usize = 61 << DRAWN_BITS;
type DrawnCounts = [u32; DRAWN_BUCKETS];

/// The first value, that of a wanted rank, or the last value.
#[cold]
fn meet(tally: &mut Tally, value: u64, summary: &mut Summary) {
    if tally.met == 1 {
        summary.min = value;
    }
    if tally.met == summary.count {
        summary.max = value;
    }
    // After the percentiles, the maximum is what is left to meet.
    tally.next_rank = summary.count;
    for (place, per_mille) in summary.at.iter_mut().zip(PER_MILLE) {
        let wanted = rank(summary.count, per_mille);
        if wanted == tally.met {
            *place = Place::exact(value);
        } else if wanted > tally.met {
            tally.next_rank = tally.next_rank.min(wanted);
        }
    }
}

impl Summary {
    fn take(&mut self, histogram: &LogLinear, draw: bool) {
        (self.count, self.sum, self.min, self.max) =
            (histogram.count, histogram.sum, histogram.min, histogram.max);
        for (place, per_mille) in self.at.iter_mut().zip(PER_MILLE) {
            if let Some((bucket, before)) = histogram.bucket_with_rank(rank(histogram.count, per_mille)) {
                let (low, width) = bounds_of(histogram.sub_bits(), bucket);
                *place = Place { low, width, before, inside: histogram.count_in(bucket) };
            }
        }
        if draw && histogram.count > 0 {
            let mut drawn = LogLinear::new(DRAWN_BITS.min(histogram.sub_bits()));
            drawn.merge(histogram);
            self.drawn = Some(Box::new(drawn));
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
