//! The time source, and how far time stamps of two CPUs can be compared.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::line;
use crate::clock::monotonic_ns;

/// The time source and its health.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockFacts {
    /// The source in use, such as `tsc`, `kvm-clock`, `arch_sys_counter`.
    pub source: Option<String>,
    /// All that the kernel would accept. The kernel strikes `tsc` off when it found it unstable.
    pub available: Vec<String>,
    /// Processor flags that speak for the TSC: `constant_tsc`, `nonstop_tsc`, `tsc_known_freq`,
    /// `tsc_reliable`.
    pub tsc_flags: Vec<String>,
    /// Nanoseconds that one reading takes here; some 20 to 50 without a system call.
    pub reading_ns: f64,
    /// The check between CPUs; `None` with one CPU.
    pub between_cpus: Option<ClockCheck>,
}

/// Threads on different CPUs read the clock in turn; a later reading must not be smaller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockCheck {
    /// Handovers between threads on different CPUs.
    pub handovers: u64,
    /// How many went backwards.
    pub backward: u64,
    /// The largest step backwards in nanoseconds.
    pub largest_backward_ns: u64,
}

impl ClockFacts {
    /// Reads /sys and takes the measurements, in some 10 ms.
    pub fn gather() -> ClockFacts {
        let directory = "/sys/devices/system/clocksource/clocksource0";
        let available = line(&format!("{directory}/available_clocksource")).unwrap_or_default();
        ClockFacts {
            source: line(&format!("{directory}/current_clocksource")),
            available: available.split_ascii_whitespace().map(str::to_owned).collect(),
            tsc_flags: tsc_flags(),
            reading_ns: reading_ns(),
            between_cpus: check_between_cpus(Duration::from_millis(6)),
        }
    }

    /// Whether time stamps of two CPUs compare: no step backwards seen, and a source that
    /// the kernel holds to be the same on all CPUs.
    pub fn is_healthy(&self) -> bool {
        let steady = matches!(
            self.source.as_deref(),
            Some(
                "tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page" | "xen" | "timebase"
            )
        );
        steady && self.between_cpus.as_ref().is_none_or(|check| check.backward == 0)
    }
}

fn tsc_flags() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|l| l.starts_with("flags")).unwrap_or_default();
    flags
        .split_ascii_whitespace()
        .filter(|flag| flag.contains("tsc") && *flag != "tsc")
        .map(str::to_owned)
        .collect()
}

fn reading_ns() -> f64 {
    const READINGS: u32 = 2_000;
    // The best of several rounds: the others were interrupted.
    (0..5)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..READINGS {
                std::hint::black_box(monotonic_ns());
            }
            start.elapsed().as_nanos() as f64 / f64::from(READINGS)
        })
        .fold(f64::INFINITY, f64::min)
}

/// Two threads hand a time stamp back and forth; the CPU each is on is asked for, and
/// only handovers between different CPUs count. Not pinned: the affinity a user gave is kept.
fn check_between_cpus(budget: Duration) -> Option<ClockCheck> {
    if thread::available_parallelism().map_or(1, usize::from) < 2 {
        return None;
    }
    let latest = AtomicU64::new(0);
    let writer = AtomicU64::new(u64::MAX);
    let stop = AtomicBool::new(false);
    let side = || {
        let (mut handovers, mut backward, mut largest) = (0, 0, 0u64);
        while !stop.load(Ordering::Relaxed) {
            let cpu = current_cpu();
            let from = writer.load(Ordering::Acquire);
            let seen = latest.load(Ordering::Acquire);
            let now = monotonic_ns();
            if from != cpu && from != u64::MAX {
                handovers += 1;
                if now < seen {
                    backward += 1;
                    largest = largest.max(seen - now);
                }
            }
            latest.fetch_max(now, Ordering::AcqRel);
            writer.store(cpu, Ordering::Release);
            std::hint::spin_loop();
        }
        (handovers, backward, largest)
    };
    let sides = thread::scope(|scope| {
        let threads = [scope.spawn(side), scope.spawn(side)];
        thread::sleep(budget);
        stop.store(true, Ordering::Relaxed);
        threads.map(|thread| thread.join().unwrap_or_default())
    });
    Some(ClockCheck {
        handovers: sides.iter().map(|side| side.0).sum(),
        backward: sides.iter().map(|side| side.1).sum(),
        largest_backward_ns: sides.iter().map(|side| side.2).max().unwrap_or(0),
    })
}

fn current_cpu() -> u64 {
    // SAFETY: sched_getcpu takes no argument and touches no memory of ours.
    let cpu = unsafe { libc::sched_getcpu() };
    cpu as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_backwards_makes_the_clock_unhealthy() {
        let mut facts = ClockFacts {
            source: Some("tsc".into()),
            available: vec![],
            tsc_flags: vec![],
            reading_ns: 25.0,
            between_cpus: Some(ClockCheck { handovers: 10, backward: 0, largest_backward_ns: 0 }),
        };
        assert!(facts.is_healthy());
        facts.between_cpus = Some(ClockCheck { handovers: 10, backward: 1, largest_backward_ns: 40 });
        assert!(!facts.is_healthy());
        facts.between_cpus = None;
        facts.source = Some("jiffies".into());
        assert!(!facts.is_healthy());
    }

    #[test]
    fn the_measurement_comes_to_an_end_and_finds_something() {
        let facts = ClockFacts::gather();
        assert!(facts.reading_ns > 0.0 && facts.reading_ns < 1e6);
        if facts.between_cpus.is_none() {
            testkit::skipped!("one CPU, nothing to compare");
        }
    }
}
