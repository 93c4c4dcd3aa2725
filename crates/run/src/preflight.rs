//! What has to be known before a recording begins: which events this kernel has, how often
//! they come, and whether rings, memory and disk suffice. Says no when they cannot.

use serde::{Deserialize, Serialize};

/// What was found and decided before recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Preflight {
    /// Events to record, `system:name`.
    pub events: Vec<String>,
    /// Optional events of the recipe that this kernel does not have.
    pub left_out: Vec<String>,
    /// How often the events came in a trial before the run.
    pub measured: Option<MeasuredRate>,
    /// Bytes of each CPU's ring.
    pub ring_bytes_per_cpu: u64,
    /// CPUs to record.
    pub cpus: u32,
    /// Bytes that the recording is expected to take on disk at its largest.
    pub expected_disk_bytes: Option<u64>,
    /// Bytes free where it goes.
    pub free_disk_bytes: Option<u64>,
    /// Bytes of memory that could be used when the run began.
    pub available_memory_bytes: Option<u64>,
}

/// How often events came in a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRate {
    /// Milliseconds that the trial took.
    pub over_ms: f64,
    /// Events that passed the filters.
    pub events: u64,
    /// Events per second of the CPU that had most.
    pub busiest_cpu_per_s: f64,
    /// Events per second of all CPUs.
    pub per_s: f64,
    /// Bytes that an event takes in the ring.
    pub bytes_per_event: f64,
    /// Whether a command will run that did not in the trial.
    pub before_command: bool,
}
