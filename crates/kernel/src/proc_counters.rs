//! The kernel's own counters of what a trace also tells: switches, run time, wait time.
//! Read before and after a recording, they are what a trace is checked against.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

use crate::clock::monotonic_ns;

/// Counters of the whole host, all ever growing since boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemCounters {
    /// `CLOCK_MONOTONIC` right before the reading.
    pub read_from_ns: u64,
    /// and right after it.
    pub read_to_ns: u64,
    /// Context switches (`ctxt`); the switch to and from idle counts.
    pub context_switches: u64,
    /// Processes and threads made (`processes`).
    pub forks: u64,
    /// Hardware interrupts.
    pub interrupts: u64,
    /// Soft interrupts.
    pub soft_interrupts: u64,
    /// Per CPU, in its number's order.
    pub cpus: Vec<CpuTimes>,
}

/// How one CPU's time went, in clock ticks (100 per second).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTimes {
    /// The CPU.
    pub cpu: u32,
    /// User code, niced or not.
    pub user: u64,
    /// The kernel.
    pub system: u64,
    /// Nothing to do.
    pub idle: u64,
    /// Nothing to do, with block I/O under way.
    pub io_wait: u64,
    /// Hardware interrupts.
    pub irq: u64,
    /// Soft interrupts.
    pub soft_irq: u64,
    /// Taken by the hypervisor for others.
    pub steal: u64,
}

impl SystemCounters {
    /// Reads /proc/stat.
    pub fn read() -> std::io::Result<SystemCounters> {
        let read_from_ns = monotonic_ns();
        let text = fs::read_to_string("/proc/stat")?;
        let read_to_ns = monotonic_ns();
        Ok(SystemCounters { read_from_ns, read_to_ns, ..SystemCounters::parse(&text) })
    }

    fn parse(text: &str) -> SystemCounters {
        let mut counters = SystemCounters::default();
        for line in text.lines() {
            let Some((key, rest)) = line.split_once(' ') else { continue };
            let first =
                || rest.split_ascii_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
            match key {
                "ctxt" => counters.context_switches = first(),
                "processes" => counters.forks = first(),
                "intr" => counters.interrupts = first(),
                "softirq" => counters.soft_interrupts = first(),
                _ => {
                    let Some(cpu) = key.strip_prefix("cpu").and_then(|cpu| cpu.parse().ok()) else {
                        continue;
                    };
                    let times: Vec<u64> =
                        rest.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
                    let time = |index: usize| times.get(index).copied().unwrap_or(0);
                    counters.cpus.push(CpuTimes {
                        cpu,
                        user: time(0) + time(1),
                        system: time(2),
                        idle: time(3),
                        io_wait: time(4),
                        irq: time(5),
                        soft_irq: time(6),
                        steal: time(7),
                    });
                }
            }
        }
        counters
    }
}

/// Counters of one thread, growing over its life.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadCounters {
    /// `CLOCK_MONOTONIC` when they were read.
    pub read_at_ns: u64,
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub process: u32,
    /// Its name then.
    pub comm: String,
    /// Switches because it had to wait for something. `None` where the kernel does not tell.
    pub voluntary_switches: Option<u64>,
    /// Switches although it could have gone on.
    pub involuntary_switches: Option<u64>,
    /// Nanoseconds on a CPU.
    pub run_ns: Option<u64>,
    /// Nanoseconds runnable and not on a CPU (needs CONFIG_SCHED_INFO).
    pub wait_ns: Option<u64>,
    /// How many times it was put on a CPU.
    pub times_on_cpu: Option<u64>,
    /// CPUs it may run on.
    pub allowed_cpus: Option<Vec<u32>>,
}

impl ThreadCounters {
    /// Reads those of a living (or not yet reaped) thread.
    pub fn read(process: u32, tid: u32) -> Option<ThreadCounters> {
        let directory = format!("/proc/{process}/task/{tid}");
        let status = fs::read(format!("{directory}/status")).ok()?;
        let read_at_ns = monotonic_ns();
        let schedstat = fs::read_to_string(format!("{directory}/schedstat")).unwrap_or_default();
        let status = String::from_utf8_lossy(&status);
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let mut times = schedstat.split_ascii_whitespace().map_while(|word| word.parse::<u64>().ok());
        Some(ThreadCounters {
            read_at_ns,
            tid,
            process,
            comm: field("Name:").unwrap_or_default().to_owned(),
            voluntary_switches: field("voluntary_ctxt_switches:").and_then(|text| text.parse().ok()),
            involuntary_switches: field("nonvoluntary_ctxt_switches:").and_then(|text| text.parse().ok()),
            run_ns: times.next(),
            wait_ns: times.next(),
            times_on_cpu: times.next(),
            allowed_cpus: field("Cpus_allowed_list:").and_then(crate::cpu::parse_list),
        })
    }
}

/// Counters of all threads that pass `wanted` (process, thread), by thread.
pub fn read_threads(mut wanted: impl FnMut(u32, u32) -> bool) -> BTreeMap<u32, ThreadCounters> {
    let mut found = BTreeMap::new();
    let numbers = |path: &str| -> Vec<u32> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    };
    for process in numbers("/proc") {
        for tid in numbers(&format!("/proc/{process}/task")) {
            if wanted(process, tid)
                && let Some(counters) = ThreadCounters::read(process, tid)
            {
                found.insert(tid, counters);
            }
        }
    }
    found
}

/// The control group of a thread: its path in the version 2 tree, else in the hierarchy of
/// the `cpu` controller.
pub fn control_group_of(process: u32, tid: u32) -> Option<String> {
    group_in(&fs::read_to_string(format!("/proc/{process}/task/{tid}/cgroup")).ok()?)
}

fn group_in(text: &str) -> Option<String> {
    let of = |wanted: &dyn Fn(&str) -> bool| {
        text.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            wanted(controllers).then(|| path.to_owned())
        })
    };
    let unified = of(&|controllers| controllers.is_empty());
    // On a hybrid host everything sits in the unified tree's root; version 1 knows more.
    match unified.as_deref() {
        Some("/") | None => of(&|controllers| controllers.split(',').any(|c| c == "cpu")).or(unified),
        Some(_) => unified,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_counters_are_read_by_name() {
        let text = "cpu  9 9 9 9\ncpu0 10 1 3 400 5 0 7 8 0 0\ncpu3 1 0 0 2\nintr 77 1 2\nctxt 123\nprocesses 45\nsoftirq 6 1\n";
        let counters = SystemCounters::parse(text);
        assert_eq!((counters.context_switches, counters.forks), (123, 45));
        assert_eq!((counters.interrupts, counters.soft_interrupts), (77, 6));
        let expected =
            CpuTimes { cpu: 0, user: 11, system: 3, idle: 400, io_wait: 5, irq: 0, soft_irq: 7, steal: 8 };
        assert_eq!(counters.cpus, [expected, CpuTimes { cpu: 3, user: 1, idle: 2, ..CpuTimes::default() }]);
    }

    #[test]
    fn the_group_that_schedules_is_found() {
        assert_eq!(group_in("0::/a.slice\n").as_deref(), Some("/a.slice"));
        assert_eq!(group_in("4:memory:/m\n2:cpu,cpuacct:/docker/x\n0::/\n").as_deref(), Some("/docker/x"));
        assert_eq!(group_in("0::/\n").as_deref(), Some("/"));
        assert_eq!(group_in("").as_deref(), None);
    }

    #[test]
    fn a_threads_counters_grow_as_it_works() {
        let me = std::process::id();
        let tid = crate::stop::own_tid();
        let before = ThreadCounters::read(me, tid).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let after = ThreadCounters::read(me, tid).unwrap();
        assert!(after.voluntary_switches > before.voluntary_switches);
        assert!(after.read_at_ns > before.read_at_ns);
        assert_eq!(ThreadCounters::read(me, u32::MAX), None);
        assert!(read_threads(|process, _| process == me).contains_key(&tid));
    }
}
