//! Traces made up from a seed: a scheduler's events that fit together, written as
//! `trace.dat` and `perf.data` by code that shares nothing with the readers.
//!
//! The same [`Shape`] gives the same events in every file, so that what two readers make of
//! them can be compared with each other and with [`Schedule`], the truth.

mod layout;
mod ring;
pub mod perf_data;
pub mod trace_dat;

use std::collections::VecDeque;

pub use layout::Machine;

/// What to make up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Events in all.
    pub events: u64,
    /// CPUs, at least one.
    pub cpus: u32,
    /// Threads besides the idle ones.
    pub threads: u32,
    /// Another seed, other events.
    pub seed: u64,
}

impl Shape {
    /// `events` events of 40 threads on `cpus` CPUs.
    pub fn new(events: u64, cpus: u32) -> Shape {
        Shape { events, cpus, threads: 40, seed: 1 }
    }
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Happened {
    /// Nanoseconds.
    pub time: u64,
    /// Where.
    pub cpu: u32,
    /// The thread that was current there.
    pub current: i32,
    /// What.
    pub what: What,
}

/// What happened. Threads are their numbers; their names follow from them ([`comm`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A thread leaves the CPU and another comes.
    Switch {
        /// The thread that leaves.
        prev: i32,
        /// 0 runnable, 1 sleeping, 2 uninterruptible.
        state: u64,
        /// The thread that comes.
        next: i32,
    },
    /// A thread is to be woken.
    Waking {
        /// The thread.
        tid: i32,
        /// Its CPU.
        target: u32,
    },
    /// It has been woken.
    Wakeup {
        /// The thread.
        tid: i32,
        /// Its CPU.
        target: u32,
    },
}

/// Name of a thread, padded with NULs.
pub fn comm(tid: i32) -> [u8; 16] {
    let name = match tid {
        0 => "swapper".to_owned(),
        // One that readers of text stumble over.
        101 => "a b] ==> c".to_owned(),
        _ => format!("worker-{tid}"),
    };
    let mut comm = [0; 16];
    comm[..name.len().min(15)].copy_from_slice(&name.as_bytes()[..name.len().min(15)]);
    comm
}

/// Priority of a thread.
pub fn priority(tid: i32) -> i32 {
    if tid % 10 == 3 { 49 } else { 120 }
}

/// The events of a [`Shape`], in order of time, each time once.
#[derive(Debug)]
pub struct Schedule {
    shape: Shape,
    random: Random,
    time: u64,
    told: u64,
    current: Vec<i32>,
    queues: Vec<VecDeque<i32>>,
    sleeping: Vec<i32>,
    /// The second event of a pair.
    next: Option<Happened>,
}

impl Schedule {
    /// From its first event.
    pub fn new(shape: Shape) -> Schedule {
        let cpus = shape.cpus.max(1) as usize;
        Schedule {
            random: Random(shape.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            time: 1_000_000_000_000,
            told: 0,
            current: vec![0; cpus],
            queues: vec![VecDeque::new(); cpus],
            sleeping: (0..shape.threads.max(2) as i32).map(|n| 100 + n).collect(),
            next: None,
            shape,
        }
    }

    fn step(&mut self) -> Happened {
        loop {
            let cpu = self.random.below(self.current.len() as u64) as usize;
            self.time += 200 + self.random.below(3000);
            let (time, current) = (self.time, self.current[cpu]);
            let wake = !self.sleeping.is_empty()
                && (self.random.below(100) < 36 || current == 0 && self.queues[cpu].is_empty());
            if wake {
                let tid = self.sleeping.swap_remove(self.random.below(self.sleeping.len() as u64) as usize);
                let target = self.random.below(self.queues.len() as u64) as u32;
                self.queues[target as usize].push_back(tid);
                let at = |time, what| Happened { time, cpu: cpu as u32, current, what };
                self.time += 90 + self.random.below(50);
                self.next = Some(at(self.time, What::Wakeup { tid, target }));
                return at(time, What::Waking { tid, target });
            }
            let next = self.queues[cpu].pop_front().unwrap_or(0);
            if next == 0 && current == 0 {
                continue;
            }
            let mut state = 0;
            if current != 0 {
                state = [0, 1, 1, 1, 2][self.random.below(5) as usize];
                if state == 0 {
                    self.queues[cpu].push_back(current);
                } else {
                    self.sleeping.push(current);
                }
            }
            self.current[cpu] = next;
            let what = What::Switch { prev: current, state, next };
            return Happened { time, cpu: cpu as u32, current, what };
        }
    }
}

impl Iterator for Schedule {
    type Item = Happened;

    fn next(&mut self) -> Option<Happened> {
        if self.told == self.shape.events {
            return None;
        }
        self.told += 1;
        Some(match self.next.take() {
            Some(second) => second,
            None => self.step(),
        })
    }
}

/// A small generator of pseudo-random numbers (xorshift): the same everywhere.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// A number below `bound` (0 where that is 0).
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_fits_together() {
        let mut current = [0; 3];
        let mut last = 0;
        let mut kinds = [0u32; 3];
        for event in Schedule::new(Shape::new(20_000, 3)) {
            assert!(event.time > last);
            last = event.time;
            assert_eq!(event.current, current[event.cpu as usize]);
            match event.what {
                What::Switch { prev, next, .. } => {
                    assert_eq!(prev, event.current);
                    assert!(prev != next || prev != 0);
                    current[event.cpu as usize] = next;
                    kinds[0] += 1;
                }
                What::Waking { .. } => kinds[1] += 1,
                What::Wakeup { .. } => kinds[2] += 1,
            }
        }
        assert!(kinds.iter().all(|&count| count > 3000), "{kinds:?}");
    }
}
