//! How often events happen here and how large they are, measured for a moment in the kernel,
//! so that rings, disk space and duration can be chosen before anything is recorded.

use std::os::fd::AsFd;
use std::time::Duration;

use kernel::clock;
use kernel::stop::{StopToken, wait_readable};
use kernel::tracefs::Tracefs;
use kernel::tracefs_ring::RingStats;

use super::error::RecordError;
use super::events;
use super::members::Members;
use super::setup;
use super::spec::{RecordSpec, Selection};

/// Measured rates.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    /// One entry for each CPU, ascending.
    pub cpus: Vec<CpuRate>,
    /// How long was measured.
    pub measured: Duration,
    /// What the rates cannot know, as a sentence; empty if there is nothing of the kind.
    pub note: String,
}

/// One CPU's rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuRate {
    /// The CPU.
    pub cpu: u32,
    /// Events that passed the filters, per second.
    pub events_per_second: f64,
    /// Bytes of ring that an event takes, on average; `None` if none happened.
    pub bytes_per_event: Option<f64>,
}

/// What a recording at these rates needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Ring size for each CPU in KiB that bridges [`BRIDGED`] at twice the rate of the busiest.
    pub ring_kb_per_cpu: u32,
    /// Kernel memory for all rings, bytes.
    pub ring_memory: u64,
    /// Disk space for the raw pages, per second of recording, bytes.
    pub disk_per_second: u64,
}

/// How long a recorder may be kept from fetching before its rings overflow.
pub const BRIDGED: Duration = Duration::from_secs(1);

impl Rates {
    /// Events per second on all CPUs together.
    pub fn events_per_second(&self) -> f64 {
        self.cpus.iter().map(|cpu| cpu.events_per_second).sum()
    }

    /// Bytes of ring per second on all CPUs together.
    pub fn bytes_per_second(&self) -> f64 {
        self.cpus.iter().map(CpuRate::bytes_per_second).sum()
    }

    /// What a recording needs. Rings are not smaller than 1 MiB (rates are uneven) and not
    /// larger than `most_ring_kb`.
    pub fn needs(&self, most_ring_kb: u32) -> Needs {
        let busiest = self.cpus.iter().map(CpuRate::bytes_per_second).fold(0.0, f64::max);
        let wanted = (busiest * 2.0 * BRIDGED.as_secs_f64() / 1024.0).ceil();
        let ring_kb_per_cpu =
            (wanted.min(f64::from(u32::MAX / 2)) as u32).next_power_of_two().max(1024).min(most_ring_kb);
        Needs {
            ring_kb_per_cpu,
            ring_memory: u64::from(ring_kb_per_cpu) * 1024 * self.cpus.len() as u64,
            disk_per_second: self.bytes_per_second().ceil() as u64,
        }
    }
}

impl CpuRate {
    fn bytes_per_second(&self) -> f64 {
        self.events_per_second * self.bytes_per_event.unwrap_or(0.0)
    }
}

/// Measures the rates of the spec's events, selection and filters for `time`, in a small ring
/// that overwrites itself: nothing is copied out, so measuring costs what the events cost. A
/// command is not started for it; its share is unknown and the note says so.
pub fn estimate_rates(spec: &RecordSpec, time: Duration) -> Result<Rates, RecordError> {
    let tracefs = Tracefs::open()?;
    let cpus = setup::cpus(spec)?;
    let chosen = events::choose(&tracefs.events()?, &spec.events)?;
    let mut small = spec.clone();
    small.rings.kb_per_cpu = 64;
    small.rings.when_full = super::WhenFull::Overwrite;
    let mut note = String::new();
    if spec.selection == Selection::Command {
        small.selection = Selection::Everything;
        note = "measured for everybody, because the command does not run yet".to_owned();
    } else if spec.command.is_some() {
        note = "measured without the command, which does not run yet".to_owned();
    }
    let instance = setup::instance(&tracefs, &small, &cpus, &chosen)?;
    let mut members = Members::new(&small.selection, None)?;
    if members.filters() {
        setup::begin_thread_filter(&instance, kernel::stop::own_tid())?;
        while members.follow(&[&instance])? > 0 {}
    }
    setup::enable(&instance, &chosen)?;
    let stop = match &spec.stop {
        Some(stop) => stop.clone(),
        None => StopToken::new()?,
    };
    let begun = clock::monotonic_ns();
    instance.set_tracing(true)?;
    wait_readable(&[stop.as_fd()], Some(time))?;
    instance.set_tracing(false)?;
    let measured = Duration::from_nanos(clock::monotonic_ns() - begun);
    if stop.requested().is_some() {
        note = "cut short".to_owned();
    }
    let mut rates = Vec::new();
    for &cpu in &cpus {
        let (stats, _) = instance.stats(cpu)?;
        rates.push(rate(cpu, stats, measured));
    }
    instance.remove()?;
    Ok(Rates { cpus: rates, measured, note })
}

fn rate(cpu: u32, stats: RingStats, measured: Duration) -> CpuRate {
    CpuRate {
        cpu,
        events_per_second: stats.written() as f64 / measured.as_secs_f64().max(1e-9),
        bytes_per_event: (stats.entries > 0).then(|| stats.bytes as f64 / stats.entries as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(cpus: &[(f64, f64)]) -> Rates {
        let cpu = |(i, &(events_per_second, bytes)): (usize, &(f64, f64))| CpuRate {
            cpu: i as u32,
            events_per_second,
            bytes_per_event: Some(bytes),
        };
        Rates {
            cpus: cpus.iter().enumerate().map(cpu).collect(),
            measured: Duration::from_secs(1),
            note: String::new(),
        }
    }

    #[test]
    fn rings_bridge_a_second_of_the_busiest_cpu_at_twice_its_rate() {
        let needs = rates(&[(200_000.0, 28.0), (1_000.0, 40.0)]).needs(1 << 20);
        assert_eq!(needs.ring_kb_per_cpu, 16_384); // 11.2 MB, the next power of two
        assert_eq!(needs.ring_memory, 2 * 16_384 * 1024);
        assert_eq!(needs.disk_per_second, 5_640_000);
    }

    #[test]
    fn rings_keep_to_their_bounds() {
        assert_eq!(rates(&[(0.0, 0.0)]).needs(1 << 20).ring_kb_per_cpu, 1024);
        assert_eq!(rates(&[(1e9, 100.0)]).needs(4096).ring_kb_per_cpu, 4096);
    }

    #[test]
    fn a_rate_counts_what_was_overwritten_too() {
        let stats = RingStats { entries: 100, overrun: 900, bytes: 2800, ..RingStats::default() };
        let rate = rate(1, stats, Duration::from_millis(500));
        assert_eq!((rate.events_per_second, rate.bytes_per_event), (2000.0, Some(28.0)));
    }
}
