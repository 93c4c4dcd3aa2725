//! Durations on their way to percentiles, exact and in bounded memory.
//!
//! While they fit, single durations are kept ([`Kept`]), tagged with the number of what
//! decides their distributions, of which there are few. When they do not fit they are
//! counted into histograms instead, one per distribution, from which the percentiles are
//! known to a bucket. [`super::refine`] makes those exact by reading the trace again.

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
    summary::{Summary, summarize},
    threads::{Thread, Threads, state_index},
    wakers::WordHasher,
};
use crate::{
    heat::Heat,
    kept::{FINE, Kept},
    loglinear::LogLinear,
};

/// Buckets of each thread's distribution, 1/8.
const COARSE: u32 = 3;

pub(crate) struct Values {
    /// By number of their tag.
    waits: Kept,
    tags: Tags,
    /// By state and reason.
    blocked: Kept,
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
        Values {
            waits: Kept::new(bytes / 4 * 3),
            tags: Tags::default(),
            blocked: Kept::new(bytes / 4),
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
        let mut waits = std::mem::replace(&mut self.waits, Kept::new(0));
        waits.settle();
        let tags = std::mem::take(&mut self.tags).words;
        waits.all(|tag, value, count| {
            let tag = WaitTag::unpack(tags[tag as usize]);
            (0..count).for_each(|_| histograms.add(tag, value));
        });
        self.wait_histograms = Some(histograms);
    }

    #[cold]
    fn spill_blocked(&mut self) {
        let mut histograms = vec![LogLinear::new(FINE); (BY_POLICY - BLOCKED) as usize];
        let mut blocked = std::mem::replace(&mut self.blocked, Kept::new(0));
        blocked.settle();
        blocked.all(|tag, value, count| {
            (0..count).for_each(|_| add_blocked(&mut histograms, tag, value));
        });
        self.blocked_histograms = Some(histograms);
    }

    /// What became of each distribution: its summary, with percentiles as exact as they are.
    pub fn resolve(&mut self, table: &GroupTable) -> Vec<Summary> {
        let mut summaries = vec![Summary::default(); table.count as usize];
        match &self.wait_histograms {
            None => {
                let tags = self.tags.words.iter();
                let groups: Vec<_> = tags.map(|word| table.of_wait(WaitTag::unpack(*word))).collect();
                summarize(&mut self.waits, &groups, &mut summaries, table.without_histogram);
            }
            Some(histograms) => histograms.resolve(table, &mut summaries),
        }
        match &self.blocked_histograms {
            None => {
                let groups: Vec<_> = (0..256).map(|tag: usize| of_blocked(tag >> 4, tag & 15)).collect();
                summarize(&mut self.blocked, &groups, &mut summaries, table.without_histogram);
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
        self.waits = Kept::new(0);
        self.tags = Tags::default();
        self.blocked = Kept::new(0);
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
                if number >= MOST_TAGS || !self.waits.add(number, value) {
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
        let tag = (state_index(state) as u32) << 4 | reason as u32;
        if self.blocked_histograms.is_none() {
            if self.blocked.add(tag, time) {
                return;
            }
            self.spill_blocked();
        }
        if let Some(histograms) = &mut self.blocked_histograms {
            add_blocked(histograms, tag, time);
        }
    }
}

fn add_blocked(histograms: &mut [LogLinear], tag: u32, time: u64) {
    for group in of_blocked((tag >> 4) as usize, (tag & 15) as usize) {
        histograms[(group - BLOCKED) as usize].add(time);
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
