//! What the user or the run tells the scheduler analysis besides the trace.

use serde::{Deserialize, Serialize};
use trace::{Cpu, Nanos, Tid};

/// Limits and facts for the scheduler analysis. The default suits any trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SchedOptions {
    /// Only what happens from here on is counted (state before it is followed, though), on
    /// the trace's clock: leaves out warm-up.
    pub from: Option<Nanos>,
    /// Only what happens up to here is counted.
    pub to: Option<Nanos>,
    /// Only these threads are counted, and threads they make; empty: all.
    pub threads: Vec<Tid>,
    /// What `threads` make is counted only where it is named there, too.
    pub only_listed: bool,
    /// Only waits that end on these CPUs are counted, and only these CPUs told of; empty: all.
    /// Budgets of threads are those of all CPUs.
    pub cpus: Vec<Cpu>,
    /// How many long waits to list.
    pub long_waits: usize,
    /// How many pairs of waker and woken to list.
    pub wakers: usize,
    /// At most so many threads with rows of their own; when there are more, exited threads
    /// that waited least are summed into one row.
    pub max_threads: usize,
    /// Columns of timelines and heat maps: between half of this and this many.
    pub columns: usize,
    /// Waits overlapped by an idle allowed CPU for less than this are not counted as waits
    /// beside an idle CPU: a CPU that is being woken is idle for some microseconds still.
    pub idle_floor_ns: u64,
    /// Waits on a CPU that was idle itself for less than this are not counted as held back.
    pub held_floor_ns: u64,
    /// Bytes for keeping single durations, from which percentiles are exact in one pass. When
    /// they do not suffice the trace is read again; when it cannot be, percentiles are
    /// given with the bounds of their histogram's buckets.
    pub value_bytes: usize,
    /// CPUs that threads may run on, where known from outside the trace (`sched_getaffinity`).
    pub affinity: Vec<AffinityFact>,
    /// Processes of threads, where known from outside the trace.
    pub processes: Vec<ProcessFact>,
    /// Cgroups of threads, where known from outside the trace.
    pub cgroups: Vec<CgroupFact>,
}

impl Default for SchedOptions {
    fn default() -> Self {
        SchedOptions {
            from: None,
            to: None,
            threads: Vec::new(),
            only_listed: false,
            cpus: Vec::new(),
            long_waits: 20,
            wakers: 50,
            max_threads: 20_000,
            columns: 240,
            idle_floor_ns: 50_000,
            held_floor_ns: 1_000_000,
            value_bytes: 52 << 20,
            affinity: Vec::new(),
            processes: Vec::new(),
            cgroups: Vec::new(),
        }
    }
}

/// The CPUs that one thread may run on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AffinityFact {
    /// The thread.
    pub tid: Tid,
    /// Its allowed CPUs.
    pub cpus: Vec<Cpu>,
}

/// The process that one thread belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessFact {
    /// The thread.
    pub tid: Tid,
    /// Its process.
    pub process: Tid,
}

/// The cgroup that one thread is in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupFact {
    /// The thread.
    pub tid: Tid,
    /// Path below the cgroup mount, beginning with `/`.
    pub path: String,
}
