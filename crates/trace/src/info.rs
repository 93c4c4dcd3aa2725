//! What a trace says about itself before its first event.

use serde::Serialize;

use crate::{
    clock::{ClockKind, Nanos},
    field::Endian,
    format::EventFormat,
    ident::{Comm, Cpu, Tid},
    loss::Loss,
};

/// What a trace says about itself.
#[derive(Clone, Debug, Serialize)]
pub struct TraceInfo {
    /// The file format, such as `trace.dat v7`, `perf.data (file mode)`.
    pub file_format: String,
    /// The program that wrote it, with version where it says so.
    pub producer: Option<String>,
    /// `uname -r` of the traced machine.
    pub kernel_release: Option<String>,
    /// `uname -m` of the traced machine.
    pub machine: Option<String>,
    /// Host name of the traced machine.
    pub host_name: Option<String>,
    /// Byte order of the records.
    pub endian: Endian,
    /// Bytes in the traced machine's `long`.
    pub long_size: u8,
    /// The clock of the time stamps.
    pub clock: ClockKind,
    /// CPUs that the traced machine had (those without events too).
    pub cpu_count: u32,
    /// CPUs of which events were recorded, where the producer says so.
    pub recorded_cpus: Option<Vec<Cpu>>,
    /// All event formats; [`crate::stream::FormatIndex`] is the position in this list.
    #[serde(skip)]
    pub formats: Vec<EventFormat>,
    /// What was sampled (`cycles`, `cpu-clock`, …); [`crate::stream::Item::Sample`] refers
    /// to it by position.
    pub sampled: Vec<String>,
    /// Threads known from side tables (saved command lines), not from events.
    #[serde(skip)]
    pub tasks: Vec<KnownTask>,
    /// Losses known from totals, without a place in the stream.
    pub losses: Vec<Loss>,
    /// Set when the file ends before its producer meant it to (killed, truncated),
    /// with the reason.
    pub cut: Option<String>,
    /// Further facts in the producer's words, as key and value, in file order.
    pub facts: Vec<(String, String)>,
    /// Parts of the file that could not be used, each with offset and reason.
    pub problems: Vec<String>,
}

/// A thread known from a side table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownTask {
    /// The thread.
    pub tid: Tid,
    /// Its process, where known.
    pub process: Option<Tid>,
    /// Its name at some time (for ftrace: its last).
    pub comm: Comm,
}

impl TraceInfo {
    /// An empty description for a format, to be filled in.
    pub fn new(file_format: impl Into<String>) -> TraceInfo {
        TraceInfo {
            file_format: file_format.into(),
            producer: None,
            kernel_release: None,
            machine: None,
            host_name: None,
            endian: Endian::Little,
            long_size: 8,
            clock: ClockKind::Local,
            cpu_count: 0,
            recorded_cpus: None,
            formats: Vec::new(),
            sampled: Vec::new(),
            tasks: Vec::new(),
            losses: Vec::new(),
            cut: None,
            facts: Vec::new(),
            problems: Vec::new(),
        }
    }
}

/// First and last event time of a stream, `None` before the first event.
pub type Span = Option<(Nanos, Nanos)>;
