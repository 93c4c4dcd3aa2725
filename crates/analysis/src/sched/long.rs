//! The longest waits, each with who ran meanwhile.

use trace::{Cpu, Nanos, Tid, ident::ThreadKey};

use super::{
    cpus::{Cpus, IDLE_SLOT, Run},
    machine::Wait,
    result::{LongWait, Meanwhile, WaitCause, Waker},
    threads::{NO_CPU, Slot, Threads, WokenBy},
};

/// The key that the idle threads share.
pub(crate) const IDLE_KEY: ThreadKey = ThreadKey { tid: Tid::IDLE, generation: 0 };

pub(crate) struct LongWaits {
    limit: usize,
    kept: Vec<LongWait>,
    threshold: u64,
}

impl LongWaits {
    pub fn new(limit: usize) -> LongWaits {
        LongWaits { limit, kept: Vec::new(), threshold: 0 }
    }

    /// Whether a wait of this length belongs among the longest so far.
    #[inline]
    pub fn wants(&self, wait_ns: u64) -> bool {
        wait_ns > self.threshold || self.kept.len() < self.limit
    }

    #[cold]
    pub fn take(&mut self, wait: &Wait<'_>, threads: &Threads, cpus: &Cpus) {
        if self.kept.len() >= self.limit {
            let shortest = (0..self.kept.len()).min_by_key(|i| self.kept[*i].wait_ns);
            let Some(shortest) = shortest else { return };
            self.kept.swap_remove(shortest);
        }
        self.kept.push(long_wait(wait, threads, cpus));
        if self.kept.len() >= self.limit {
            self.threshold = self.kept.iter().map(|w| w.wait_ns).min().unwrap_or(0);
        }
    }

    /// The waits, longest first.
    pub fn into_sorted(mut self) -> Vec<LongWait> {
        self.kept.sort_by_key(|w| (std::cmp::Reverse(w.wait_ns), w.start, w.thread));
        self.kept
    }
}

fn long_wait(wait: &Wait<'_>, threads: &Threads, cpus: &Cpus) -> LongWait {
    let thread = wait.thread;
    let waited_on = if thread.queue_cpu == NO_CPU { wait.cpu } else { thread.queue_cpu };
    let (meanwhile, covers) = meanwhile(waited_on, wait.start, wait.end, threads, cpus);
    LongWait {
        thread: thread.key,
        name: thread.comm.to_string(),
        priority: i32::from(thread.prio),
        cause: thread.cause,
        start: Nanos(wait.start),
        wait_ns: wait.end - wait.start,
        waited_on: Cpu(u32::from(waited_on)),
        ran_on: Cpu(u32::from(wait.cpu)),
        waker: (thread.cause == WaitCause::Wakeup).then(|| waker(thread.woken_by, threads)),
        idle_beside_ns: wait.beside,
        meanwhile,
        meanwhile_covers_ns: covers,
    }
}

/// A waker as the result names it.
pub(crate) fn waker(woken_by: WokenBy, threads: &Threads) -> Waker {
    match woken_by {
        WokenBy::Thread(slot) => match threads.list.get(slot as usize) {
            Some(thread) => Waker::Thread(thread.key),
            None => Waker::Unknown,
        },
        WokenBy::Interrupt => Waker::Interrupt,
        WokenBy::Unknown => Waker::Unknown,
    }
}

fn meanwhile(cpu: u16, start: u64, end: u64, threads: &Threads, cpus: &Cpus) -> (Vec<Meanwhile>, u64) {
    let mut by_slot: Vec<(Slot, u64, u32)> = Vec::new();
    let mut covers = 0;
    let state = &cpus.list[cpu as usize];
    let present = match state.current {
        super::cpus::Current::Thread(slot) => Some(Run { slot, from: state.since, to: end }),
        super::cpus::Current::Idle => Some(Run { slot: IDLE_SLOT, from: state.since, to: end }),
        _ => None,
    };
    for run in state.runs().iter().copied().chain(present) {
        let time = run.to.min(end).saturating_sub(run.from.max(start));
        if time == 0 {
            continue;
        }
        covers += time;
        match by_slot.iter_mut().find(|s| s.0 == run.slot) {
            Some((_, sum, runs)) => {
                *sum += time;
                *runs += 1;
            }
            None => by_slot.push((run.slot, time, 1)),
        }
    }
    by_slot.sort_by_key(|s| (std::cmp::Reverse(s.1), s.0));
    by_slot.truncate(8);
    let named = |(slot, time_ns, runs): (Slot, u64, u32)| {
        let thread = threads.list.get(slot as usize);
        Meanwhile {
            thread: thread.map_or(IDLE_KEY, |t| t.key),
            name: thread.map_or_else(|| "idle".to_owned(), |t| t.comm.to_string()),
            time_ns,
            runs,
        }
    };
    (by_slot.into_iter().map(named).collect(), covers)
}
