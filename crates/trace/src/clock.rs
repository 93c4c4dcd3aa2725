//! Times and the clocks they were read from.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A point in time or a span, in nanoseconds of the trace's own clock.
///
/// Points of two traces compare only when both used the same [`ClockKind`] on the
/// same boot of the same machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The span from `earlier` to `self`; zero when `earlier` is the later one
    /// (callers that care count the backward step first).
    pub fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// Seconds as a float, for display and rates only.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl std::ops::Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl std::ops::AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// The clock a trace's time stamps were read from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockKind {
    /// `CLOCK_MONOTONIC` (ftrace `mono`).
    Mono,
    /// `CLOCK_MONOTONIC_RAW` (ftrace `mono_raw`).
    MonoRaw,
    /// `CLOCK_BOOTTIME` (ftrace `boot`).
    Boot,
    /// `CLOCK_TAI` (ftrace `tai`).
    Tai,
    /// `CLOCK_REALTIME`, as wall time since 1970.
    Real,
    /// The scheduler's per-CPU clock (ftrace `local`, perf's default): order between
    /// CPUs holds to within a tick only.
    Local,
    /// The scheduler's clock made monotonic between CPUs (ftrace `global`).
    Global,
    /// Raw TSC or architectural counter cycles, not nanoseconds.
    Cycles,
    /// Any other, by the name its producer gave it.
    Other(String),
}

impl ClockKind {
    /// From the name ftrace prints in `trace_clock`.
    pub fn from_ftrace(name: &str) -> ClockKind {
        match name {
            "mono" => ClockKind::Mono,
            "mono_raw" => ClockKind::MonoRaw,
            "boot" => ClockKind::Boot,
            "tai" => ClockKind::Tai,
            "local" | "perf" => ClockKind::Local,
            "global" => ClockKind::Global,
            "x86-tsc" | "tsc" => ClockKind::Cycles,
            other => ClockKind::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for ClockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClockKind::Mono => "mono",
            ClockKind::MonoRaw => "mono_raw",
            ClockKind::Boot => "boot",
            ClockKind::Tai => "tai",
            ClockKind::Real => "real",
            ClockKind::Local => "local",
            ClockKind::Global => "global",
            ClockKind::Cycles => "cycles",
            ClockKind::Other(name) => name,
        })
    }
}
