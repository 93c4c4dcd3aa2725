//! The stream itself: readers push, analyses receive.

use std::ops::ControlFlow;

use crate::{
    clock::Nanos,
    format::{NoLookup, PrintLookup},
    ident::{Comm, Cpu, Tid},
    info::TraceInfo,
    loss::Loss,
};

/// When and where something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Time stamp. Exact in order on one CPU; between CPUs as good as the clock.
    pub time: Nanos,
    /// The CPU it happened on.
    pub cpu: Cpu,
    /// The thread that was current, a bystander for interrupts. `None` where the
    /// record does not say.
    pub tid: Option<Tid>,
}

/// Position of an event's format in [`TraceInfo::formats`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FormatIndex(pub u32);

/// One thing that a trace tells, in time order.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// A record of an event whose format is known.
    Event {
        /// When and where.
        at: At,
        /// Its format.
        format: FormatIndex,
        /// The whole record, common fields included, as `EventFormat` offsets count.
        record: &'a [u8],
        /// What a sampling producer adds.
        sample: Option<&'a Sample<'a>>,
    },
    /// A sample without a tracepoint record (CPU clock, cycles, page faults, …).
    Sample {
        /// When and where.
        at: At,
        /// What was sampled, such as `cycles`; position in [`TraceInfo::sampled`].
        event: u32,
        /// The sample.
        sample: &'a Sample<'a>,
    },
    /// A producer's side record about threads and address spaces.
    Task {
        /// When; the CPU is 0 where the record has none.
        at: At,
        /// What.
        change: TaskChange<'a>,
    },
    /// Events are missing. Told when the loss begins where the producer's data allow it, else
    /// when it ends (`Loss::to` is then not after the last event).
    Lost(Loss),
}

/// What perf-like producers attach to events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample<'a> {
    /// Process of the current thread.
    pub process: Option<Tid>,
    /// Instruction address.
    pub ip: Option<u64>,
    /// Call chain, innermost first, with the producer's context markers.
    pub callchain: &'a [u64],
    /// Events that this sample stands for.
    pub period: u64,
}

/// A producer's side record about threads and address spaces.
#[derive(Clone, Copy, Debug)]
pub enum TaskChange<'a> {
    /// A thread has this name (by exec if so marked).
    Comm {
        /// Process.
        process: Tid,
        /// Thread.
        tid: Tid,
        /// Name.
        comm: Comm,
        /// Whether the name comes from an exec.
        exec: bool,
    },
    /// A thread was made.
    Fork {
        /// Its process.
        process: Tid,
        /// The new thread.
        tid: Tid,
        /// The maker's process.
        parent_process: Tid,
        /// The maker.
        parent_tid: Tid,
    },
    /// A thread ended.
    Exit {
        /// Its process.
        process: Tid,
        /// The thread.
        tid: Tid,
    },
    /// Part of a file is mapped executable.
    Map {
        /// Process; -1 for the kernel.
        process: Tid,
        /// Start address.
        start: u64,
        /// Bytes.
        length: u64,
        /// Offset in the file.
        offset: u64,
        /// Path as the producer wrote it.
        path: &'a [u8],
        /// Build id, empty where unknown.
        build_id: &'a [u8],
    },
    /// A thread comes to a CPU or leaves it (what a producer without `sched_switch` tells).
    Switch {
        /// Its process.
        process: Tid,
        /// The thread.
        tid: Tid,
        /// Whether it leaves.
        out: bool,
        /// Whether it leaves while still runnable.
        preempted: bool,
    },
    /// A thread's namespaces, as device and inode numbers in the producer's order
    /// (net, uts, ipc, pid, user, mnt, cgroup).
    Namespaces {
        /// Its process.
        process: Tid,
        /// The thread.
        tid: Tid,
        /// Device and inode of each.
        links: &'a [(u64, u64)],
    },
    /// A cgroup's number and path.
    Cgroup {
        /// Its number, as samples carry it.
        id: u64,
        /// Its path below the hierarchy's root.
        path: &'a [u8],
    },
    /// The kernel held back samples of an event that came too fast, or lets them through
    /// again.
    Throttle {
        /// The event, a position in [`TraceInfo::sampled`]; `None` where not told.
        event: Option<u32>,
        /// Whether samples are now held back.
        held_back: bool,
    },
}

impl TaskChange<'_> {
    /// A short name of its kind, such as `fork`.
    pub fn kind(&self) -> &'static str {
        match self {
            TaskChange::Comm { .. } => "comm",
            TaskChange::Fork { .. } => "fork",
            TaskChange::Exit { .. } => "exit",
            TaskChange::Map { .. } => "map",
            TaskChange::Switch { .. } => "switch",
            TaskChange::Namespaces { .. } => "namespaces",
            TaskChange::Cgroup { .. } => "cgroup",
            TaskChange::Throttle { held_back: true, .. } => "throttle",
            TaskChange::Throttle { held_back: false, .. } => "unthrottle",
        }
    }
}

/// Receives a stream. Break to stop early.
pub trait Sink {
    /// Takes the next item; times do not decrease except where the clock itself
    /// steps back, which readers pass on as it is on one CPU.
    fn item(&mut self, item: Item<'_>) -> ControlFlow<()>;
}

impl<F: FnMut(Item<'_>) -> ControlFlow<()>> Sink for F {
    fn item(&mut self, item: Item<'_>) -> ControlFlow<()> {
        self(item)
    }
}

/// A trace that can be told from its beginning, as often as asked.
pub trait Source {
    /// What the trace says about itself.
    fn info(&self) -> &TraceInfo;
    /// Names of addresses, for printing records as text.
    fn names(&self) -> &dyn PrintLookup {
        &NoLookup
    }
    /// Pushes all items in time order into `sink`. A damaged trace gives what can be
    /// read, then the error.
    fn stream(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError>;
}

/// Why a trace, or the rest of it, cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {}{reason}", place(*offset))]
pub struct SourceError {
    /// The file.
    pub file: String,
    /// Bytes from the start of the file to the trouble.
    pub offset: u64,
    /// What is wrong there, and what to do about it where something can be done.
    pub reason: String,
}

/// What is wrong at the very start is wrong with the file as a whole.
fn place(offset: u64) -> String {
    if offset == 0 { String::new() } else { format!("at byte {offset}: ") }
}
