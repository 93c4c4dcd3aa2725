//! Percentiles exact to the nanosecond for traces too long to keep each duration.
//!
//! A histogram has told in which bucket the value of each wanted rank lies. The trace is
//! read again, and only what falls into those buckets is looked at: kept if it is
//! little, else counted in 2048 narrower buckets, of which one holds the rank; and so on
//! until one nanosecond is left. One further reading is the rule, up to some hundred million
//! events two.

use trace::TaskState;

use super::{
    cpus::Cpus,
    groups::{GroupId, GroupTable, WaitTag, of_blocked},
    machine::{Output, Wait},
    result::BlockReason,
    summary::{PER_MILLE, Place, Summary, rank},
    threads::{Thread, Threads, state_index},
};

/// As many values are kept rather than counted: 1 MB of them.
const KEPT: u64 = 1 << 17;
/// Counters per bucket that is counted.
const COUNTERS: u64 = 2048;

struct Target {
    group: GroupId,
    low: u64,
    width: u64,
    found: Found,
}

enum Found {
    Values(Vec<u64>),
    Counts(Vec<u32>),
}

/// One more reading of the trace.
pub(crate) struct Refiner<'t> {
    table: &'t GroupTable,
    targets: Vec<Target>,
    /// By group: the range of its targets.
    range: Vec<(u32, u32)>,
}

impl<'t> Refiner<'t> {
    /// Aims at places not yet exact, as many as `bytes` suffice for; `None` if all are.
    pub fn aim(table: &'t GroupTable, summaries: &[Summary], bytes: usize) -> Option<Refiner<'t>> {
        let mut targets: Vec<Target> = Vec::new();
        let mut range = vec![(0, 0); summaries.len()];
        let mut used = 0;
        'all: for (group, summary) in summaries.iter().enumerate() {
            let first = targets.len();
            for place in summary.at.iter().filter(|p| p.width > 1) {
                if targets[first..].iter().any(|t| t.low == place.low) {
                    continue;
                }
                let cost = if place.inside <= KEPT { place.inside * 8 } else { COUNTERS * 4 } as usize;
                if used + cost > bytes && used > 0 {
                    break 'all;
                }
                used += cost;
                let found = if place.inside <= KEPT {
                    Found::Values(Vec::with_capacity(place.inside as usize))
                } else {
                    Found::Counts(vec![0; COUNTERS.min(place.width) as usize])
                };
                targets.push(Target { group: group as GroupId, low: place.low, width: place.width, found });
            }
            range[group] = (first as u32, targets.len() as u32);
        }
        // The group at which memory ran out has its targets before the limit too.
        if let Some(last) = targets.last() {
            let group = last.group;
            let first = targets.iter().position(|t| t.group == group).unwrap_or(0);
            range[group as usize] = (first as u32, targets.len() as u32);
        }
        (!targets.is_empty()).then_some(Refiner { table, targets, range })
    }

    #[inline]
    fn add(&mut self, group: GroupId, value: u64) {
        let Some(&(from, to)) = self.range.get(group as usize) else { return };
        for target in &mut self.targets[from as usize..to as usize] {
            let offset = value.wrapping_sub(target.low);
            if offset < target.width {
                match &mut target.found {
                    Found::Values(values) => values.push(value),
                    Found::Counts(counts) => {
                        let count = &mut counts[(offset / (target.width.div_ceil(COUNTERS))) as usize];
                        *count = count.saturating_add(1);
                    }
                }
            }
        }
    }

    /// Narrows the places by what was found.
    pub fn narrow(mut self, summaries: &mut [Summary]) {
        for target in &mut self.targets {
            let summary = &mut summaries[target.group as usize];
            if let Found::Values(values) = &mut target.found {
                values.sort_unstable();
            }
            let count = summary.count;
            for (place, per_mille) in summary.at.iter_mut().zip(PER_MILLE) {
                if place.width == 1 || place.low != target.low {
                    continue;
                }
                let wanted = rank(count, per_mille) - place.before;
                match &target.found {
                    Found::Values(values) => {
                        if let Some(&value) = values.get(wanted as usize - 1) {
                            *place = Place::exact(value);
                        }
                    }
                    Found::Counts(counts) => {
                        let step = target.width.div_ceil(COUNTERS);
                        let mut before = 0;
                        for (index, &inside) in counts.iter().enumerate() {
                            let inside = u64::from(inside);
                            if before + inside >= wanted {
                                let low = target.low + index as u64 * step;
                                *place = Place { low, width: step, before: place.before + before, inside };
                                break;
                            }
                            before += inside;
                        }
                    }
                }
            }
        }
    }
}

impl Output for Refiner<'_> {
    const ALL: bool = false;

    #[inline]
    fn wait(&mut self, wait: &Wait<'_>, _: &Threads, _: &Cpus) {
        let thread = wait.thread;
        let tag = WaitTag { serial: thread.serial, cpu: wait.cpu, prio: thread.prio, cause: thread.cause };
        for group in self.table.of_wait(tag) {
            self.add(group, wait.end - wait.start);
        }
    }

    #[inline]
    fn blocked(&mut self, _: &Thread, state: TaskState, reason: BlockReason, time: u64) {
        for group in of_blocked(state_index(state), reason as usize) {
            self.add(group, time);
        }
    }
}
