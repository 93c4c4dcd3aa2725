//! What has to be known before a recording begins: which events this kernel has, how often
//! they come, and whether rings, memory and disk suffice. Says no when they cannot.

use std::path::Path;
use std::time::Duration;

use kernel::files::free_bytes;
use kernel::stop::{SignalsStop, StopToken};
use kernel::tracefs::Tracefs;
use serde::{Deserialize, Serialize};

use crate::recipe::format_bytes;
use crate::record::{self, EventSelection, HiddenSwitches, Rates, RecordError, RecordSpec, Rings};

/// What was found and decided before recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Preflight {
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
    /// CPUs whose switches the kernel does not tell its rings, as a trial found.
    #[serde(default)]
    pub hidden_switches: Vec<HiddenSwitches>,
}

/// How often events came in a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRate {
    /// Milliseconds that the trial took.
    pub over_ms: f64,
    /// Events per second of all CPUs.
    pub per_s: f64,
    /// Events per second of the CPU that had most.
    pub busiest_cpu_per_s: f64,
    /// Bytes of ring per second of all CPUs.
    pub bytes_per_s: f64,
    /// What the rate cannot know, as a sentence; empty if nothing.
    pub note: String,
}

/// What the user or recipe demands of rings and disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demands {
    /// Bytes of each CPU's ring; `None`: choose.
    pub ring_bytes_per_cpu: Option<u64>,
    /// The most that the recording may take on disk.
    pub max_disk_bytes: Option<u64>,
}

/// Why a recording is not begun.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// Something that recording would have refused too.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The rings would take too much memory.
    #[error(
        "rings of {} for each of {cpus} CPUs are {}, more than half of the {} of memory available; \
         ask for smaller rings (--ring) or fewer CPUs (--cpu)",
        format_bytes(*each), format_bytes(each * u64::from(*cpus)), format_bytes(*available)
    )]
    Memory {
        /// Bytes of each ring.
        each: u64,
        /// How many.
        cpus: u32,
        /// Bytes available.
        available: u64,
    },
    /// The events would not fit on the disk.
    #[error(
        "at the measured {per_s:.0} events/s, {} of recording take about {}, and {} ({}); record shorter \
         (--duration), fewer events (filters, --pid, --cpu), or to another disk (--output)",
        crate::recipe::format_duration(*duration), format_bytes(*expected), why, format_bytes(*limit)
    )]
    Disk {
        /// Events per second.
        per_s: f64,
        /// The recording's length.
        duration: Duration,
        /// Bytes expected.
        expected: u64,
        /// Which limit it breaks.
        why: &'static str,
        /// The limit in bytes.
        limit: u64,
    },
    /// A signal came before recording had begun.
    #[error("interrupted before recording began; nothing was recorded")]
    Interrupted,
    /// The disk is as good as full.
    #[error("only {} are free in {folder}; free some space or record to another disk (--output)", format_bytes(*free))]
    DiskFull {
        /// Bytes free.
        free: u64,
        /// Where.
        folder: String,
    },
}

/// How long rates are measured.
const TRIAL: Duration = Duration::from_millis(250);
/// Left free on the disk, whatever is recorded.
const RESERVE: u64 = 64 << 20;
/// Rings are not made smaller than this where memory allows: room for a command of which
/// the trial knows nothing, at some 400 000 events/s and CPU for a second.
const USUAL_RING: u64 = 16 << 20;
/// Nor larger than this by themselves.
const LARGEST_RING: u64 = 512 << 20;

/// Leaves out optional events that this kernel does not have; answers which.
pub fn leave_out_missing(
    spec: &mut RecordSpec,
    optional: &[EventSelection],
) -> Result<Vec<String>, RecordError> {
    let tracefs = Tracefs::open()?;
    let available = tracefs.events()?;
    let mut left_out = Vec::new();
    for event in optional {
        if record::is_there(&available, event) {
            spec.events.push(event.clone());
        } else {
            left_out.push(event.pattern.clone());
        }
    }
    Ok(left_out)
}

/// Measures, decides on rings (into `spec.rings`), and refuses what cannot fit. Takes some
/// 300 ms. `folder` is where the recording goes; it exists.
pub fn preflight(
    spec: &mut RecordSpec,
    demands: Demands,
    folder: &Path,
) -> Result<Preflight, PreflightError> {
    record::check(spec)?;
    let free = free_bytes(folder).ok();
    if let Some(free) = free.filter(|&free| free < RESERVE / 8) {
        return Err(PreflightError::DiskFull { free, folder: folder.display().to_string() });
    }
    if let (Some(ring), None) = (demands.ring_bytes_per_cpu, spec.duration) {
        // Nothing is left to decide, so nothing is measured: the recording begins at once.
        return without_trial(spec, ring, free);
    }
    let rates = uninterrupted(spec)?;
    let cpus = rates.cpus.len() as u32;
    // A trial that cannot be made is no reason not to record.
    let mut hidden_switches = record::try_switches(spec).unwrap_or_default();
    hidden_switches.retain(HiddenSwitches::is_worth_saying);
    let available = available_memory();
    let ring = ring_bytes(&rates, demands.ring_bytes_per_cpu, available);
    set_rings(spec, ring, cpus, available)?;
    let expected = spec.duration.filter(|_| spec.command.is_none()).map(|duration| {
        // Raw pages until the end, then the compressed file beside them: a quarter of it.
        (rates.bytes_per_second() * duration.as_secs_f64() * 1.25) as u64
    });
    if let (Some(expected), Some(duration)) = (expected, spec.duration) {
        let refuse = |why, limit| PreflightError::Disk {
            per_s: rates.events_per_second(),
            duration,
            expected,
            why,
            limit,
        };
        if let Some(limit) = demands.max_disk_bytes.filter(|&limit| expected > limit) {
            return Err(refuse("the limit is lower", limit));
        }
        if let Some(free) = free.filter(|&free| expected > free.saturating_sub(RESERVE)) {
            return Err(refuse("less is free", free));
        }
    }
    Ok(Preflight {
        left_out: Vec::new(),
        measured: Some(MeasuredRate {
            over_ms: rates.measured.as_secs_f64() * 1e3,
            per_s: rates.events_per_second(),
            busiest_cpu_per_s: rates.cpus.iter().map(|cpu| cpu.events_per_second).fold(0.0, f64::max),
            bytes_per_s: rates.bytes_per_second(),
            note: rates.note.clone(),
        }),
        ring_bytes_per_cpu: ring,
        cpus,
        expected_disk_bytes: expected,
        free_disk_bytes: free,
        available_memory_bytes: available,
        hidden_switches,
    })
}

/// Measures. A signal meanwhile ends it cleanly: the trial's ring buffer goes with it.
fn uninterrupted(spec: &mut RecordSpec) -> Result<Rates, PreflightError> {
    if !spec.handle_signals {
        return Ok(record::estimate_rates(spec, TRIAL)?);
    }
    let stop = match &spec.stop {
        Some(stop) => stop.clone(),
        None => StopToken::new().map_err(RecordError::from)?,
    };
    let signals = SignalsStop::route_to(&stop);
    let trial = RecordSpec { stop: Some(stop.clone()), ..spec.clone() };
    let rates = record::estimate_rates(&trial, TRIAL);
    signals.notice();
    if stop.requested().is_some() {
        return Err(PreflightError::Interrupted);
    }
    Ok(rates?)
}

fn without_trial(spec: &mut RecordSpec, ring: u64, free: Option<u64>) -> Result<Preflight, PreflightError> {
    let cpus = match &spec.cpus {
        Some(cpus) => cpus.len(),
        None => kernel::cpu::online().map_err(RecordError::from)?.len(),
    };
    let ring = ring.next_multiple_of(4096);
    let available = available_memory();
    set_rings(spec, ring, cpus as u32, available)?;
    Ok(Preflight {
        ring_bytes_per_cpu: ring,
        cpus: cpus as u32,
        free_disk_bytes: free,
        available_memory_bytes: available,
        ..Preflight::default()
    })
}

fn set_rings(
    spec: &mut RecordSpec,
    ring: u64,
    cpus: u32,
    available: Option<u64>,
) -> Result<(), PreflightError> {
    if let Some(available) = available
        && ring.saturating_mul(u64::from(cpus)) > available / 2
    {
        return Err(PreflightError::Memory { each: ring, cpus, available });
    }
    spec.rings = Rings { kb_per_cpu: (ring / 1024) as u32, ..spec.rings };
    Ok(())
}

/// What was asked for; else what the rate needs, at least the usual size, at most an eighth
/// of the memory for all rings together.
fn ring_bytes(rates: &Rates, asked: Option<u64>, available: Option<u64>) -> u64 {
    if let Some(asked) = asked {
        return asked.next_multiple_of(4096);
    }
    let needed = u64::from(rates.needs((LARGEST_RING / 1024) as u32).ring_kb_per_cpu) * 1024;
    let most = available.map_or(u64::MAX, |available| available / 8 / rates.cpus.len().max(1) as u64);
    needed.max(USUAL_RING).min(most.max(64 << 10)) / 4096 * 4096
}

fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(kib.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::CpuRate;

    fn rates(events_per_second: f64, cpus: u32) -> Rates {
        let cpu = |cpu| CpuRate { cpu, events_per_second, bytes_per_event: Some(32.0) };
        Rates { cpus: (0..cpus).map(cpu).collect(), measured: TRIAL, note: String::new() }
    }

    #[test]
    fn rings_follow_rate_memory_and_wish() {
        assert_eq!(ring_bytes(&rates(100.0, 2), None, Some(8 << 30)), USUAL_RING);
        assert_eq!(ring_bytes(&rates(1e6, 2), None, Some(8 << 30)), 64 << 20);
        assert_eq!(ring_bytes(&rates(100.0, 64), None, Some(1 << 30)), 2 << 20);
        assert_eq!(ring_bytes(&rates(100.0, 2), Some(100_000), Some(1 << 20)), 102_400);
    }

    #[test]
    fn refusals_say_what_to_do() {
        let error = PreflightError::Disk {
            per_s: 250_000.4,
            duration: Duration::from_secs(3600),
            expected: 40 << 30,
            why: "less is free",
            limit: 10 << 30,
        };
        let text = error.to_string();
        assert!(text.starts_with(
            "at the measured 250000 events/s, 1h of recording take about 40 GiB, and less is free (10 GiB)"
        ));
        assert!(text.contains("--duration"));
    }
}
