//! Whether this kernel tells its rings of every switch. Some virtual machines keep those of a CPU's
//! idle thread from ftrace and perf, and no counter of a ring tells of it: but the kernel counts a
//! thread's switches, so a thread that sleeps a few times on each CPU shows them.

use std::fmt;
use std::thread;
use std::time::Duration;

use kernel::cpu;
use kernel::stop::own_tid;
use kernel::tracefs::{EventName, Tracefs};
use kernel::tracefs_instance::{FilterRefused, Instance};
use serde::{Deserialize, Serialize};

use super::error::RecordError;
use super::spec::RecordSpec;
use super::{events, setup};

/// Switches of one CPU that happened while it was tried, and those of them that a ring was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HiddenSwitches {
    /// The CPU.
    pub cpu: u32,
    /// Switches to and from the trying thread, as the kernel counts them for it.
    pub happened: u64,
    /// Those that a ring has; a few more where the thread was made and ended there.
    pub told: u64,
}

impl HiddenSwitches {
    /// Whether more are missing than the counting at both ends can explain.
    pub fn is_worth_saying(&self) -> bool {
        self.told * 10 < self.happened * 9
    }
}

impl fmt::Display for HiddenSwitches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "this kernel told ftrace {} of {} switches in a trial on CPU {}: it keeps those of the idle thread there \
             to itself, so the beginnings of runs on that CPU are missing, which the report counts as gaps \
             (docs/recording.md, \"Events that the kernel tells no ring\")",
            self.told.min(self.happened),
            self.happened,
            self.cpu
        )
    }
}

/// Sleeps on each CPU: each is a switch away and one back.
const SLEEPS: u32 = 20;
const SLEEP: Duration = Duration::from_micros(50);
/// The trying threads' name, by which the ring is filtered.
const NAME: &str = "lotse-trial";

/// Tries the CPUs of a recording of switches, all at once and in some milliseconds; nothing where
/// switches are not recorded. A CPU that is busy meanwhile switches from other threads than its
/// idle one, and shows nothing.
pub fn try_switches(spec: &RecordSpec) -> Result<Vec<HiddenSwitches>, RecordError> {
    let tracefs = Tracefs::open()?;
    let switch = EventName { system: "sched".to_owned(), name: "sched_switch".to_owned() };
    let chosen = events::choose(&tracefs.events()?, &spec.events)?;
    if !chosen.iter().any(|chosen| chosen.event == switch) {
        return Ok(Vec::new());
    }
    try_on(&tracefs, &switch, &setup::cpus(spec)?)
}

fn try_on(tracefs: &Tracefs, switch: &EventName, cpus: &[u32]) -> Result<Vec<HiddenSwitches>, RecordError> {
    let instance = Instance::create(tracefs)?;
    instance.set_cpus(cpus)?;
    instance.set_buffer_kb(16)?;
    let filter = format!("prev_comm == \"{NAME}\" || next_comm == \"{NAME}\"");
    instance.set_filter(switch, &filter).map_err(|refused| match refused {
        FilterRefused::Other(refused) => RecordError::Kernel(refused),
        FilterRefused::BadFilter { kernel_says } => RecordError::Spec(kernel_says),
    })?;
    instance.enable(switch, true)?;
    instance.set_tracing(true)?;
    let switches: Vec<(u32, Option<u64>)> = thread::scope(|scope| {
        let trials: Vec<_> = cpus
            .iter()
            .map(|&cpu| {
                (cpu, thread::Builder::new().name(NAME.to_owned()).spawn_scoped(scope, move || sleep_on(cpu)))
            })
            .collect();
        trials
            .into_iter()
            .map(|(cpu, trial)| (cpu, trial.ok().and_then(|trial| trial.join().ok().flatten())))
            .collect()
    });
    instance.set_tracing(false)?;
    let mut found = Vec::new();
    for (cpu, switches) in switches {
        let Some(switches) = switches else { continue };
        let told = instance.stats(cpu)?.0.written();
        found.push(HiddenSwitches { cpu, happened: 2 * switches, told });
    }
    instance.remove()?;
    Ok(found)
}

/// Switches away from this thread while it slept on a CPU; `None` where it may not run there.
fn sleep_on(cpu: u32) -> Option<u64> {
    cpu::run_on(cpu).ok()?;
    let before = own_switches()?;
    for _ in 0..SLEEPS {
        thread::sleep(SLEEP);
    }
    Some(own_switches()?.saturating_sub(before))
}

fn own_switches() -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/self/task/{}/status", own_tid())).ok()?;
    let count = |key: &str| -> Option<u64> {
        status.lines().find_map(|line| line.strip_prefix(key))?.trim().parse().ok()
    };
    Some(count("voluntary_ctxt_switches:")? + count("nonvoluntary_ctxt_switches:")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_at_the_ends_are_no_finding() {
        let trial = |happened, told| HiddenSwitches { cpu: 1, happened, told };
        assert!(!trial(40, 43).is_worth_saying());
        assert!(!trial(40, 36).is_worth_saying());
        assert!(trial(40, 23).is_worth_saying());
        assert!(!trial(0, 0).is_worth_saying());
    }

    #[test]
    fn own_switches_are_counted() {
        let before = own_switches().unwrap();
        for _ in 0..3 {
            thread::sleep(SLEEP);
        }
        assert!(own_switches().unwrap() >= before + 3);
    }
}
