//! Program types and attach kinds, with the kernel's numbers.

use serde::{Deserialize, Serialize};

/// `enum bpf_prog_type`, the part that tracing needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramType {
    /// `kprobe`, `uprobe`, their returns and multi links, USDT.
    Kprobe,
    /// Perf-based tracepoints.
    Tracepoint,
    /// Perf events: profile, interval, software, hardware, breakpoints.
    PerfEvent,
    /// Raw tracepoints with untyped arguments; also run by `BPF_PROG_TEST_RUN`.
    RawTracepoint,
    /// Typed by BTF: tp_btf, fentry, fexit, iterators.
    Tracing,
    /// Programs of `BPF_PROG_TYPE_SYSCALL`.
    Syscall,
}

impl ProgramType {
    /// All of them.
    pub const ALL: [ProgramType; 6] = [
        ProgramType::Kprobe,
        ProgramType::Tracepoint,
        ProgramType::PerfEvent,
        ProgramType::RawTracepoint,
        ProgramType::Tracing,
        ProgramType::Syscall,
    ];

    /// The kernel's number.
    pub fn number(self) -> u32 {
        match self {
            ProgramType::Kprobe => 2,
            ProgramType::Tracepoint => 5,
            ProgramType::PerfEvent => 7,
            ProgramType::RawTracepoint => 17,
            ProgramType::Tracing => 26,
            ProgramType::Syscall => 31,
        }
    }

    /// As bpftool names it.
    pub fn name(self) -> &'static str {
        match self {
            ProgramType::Kprobe => "kprobe",
            ProgramType::Tracepoint => "tracepoint",
            ProgramType::PerfEvent => "perf_event",
            ProgramType::RawTracepoint => "raw_tracepoint",
            ProgramType::Tracing => "tracing",
            ProgramType::Syscall => "syscall",
        }
    }
}

/// `enum bpf_attach_type`, the part that tracing needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachType {
    /// No expected attach type.
    None,
    /// tp_btf.
    TraceRawTp,
    /// Function entry by trampoline.
    TraceFentry,
    /// Function return by trampoline.
    TraceFexit,
    /// Iterator.
    TraceIter,
    /// Perf event link.
    PerfEvent,
    /// Many kernel functions with one link (kernel 5.18, CONFIG_FPROBE).
    TraceKprobeMulti,
    /// Many user-space places with one link (kernel 6.6).
    TraceUprobeMulti,
}

impl AttachType {
    /// The kernel's number.
    pub fn number(self) -> u32 {
        match self {
            AttachType::None => 0,
            AttachType::TraceRawTp => 23,
            AttachType::TraceFentry => 24,
            AttachType::TraceFexit => 25,
            AttachType::TraceIter => 28,
            AttachType::PerfEvent => 41,
            AttachType::TraceKprobeMulti => 42,
            AttachType::TraceUprobeMulti => 48,
        }
    }
}
