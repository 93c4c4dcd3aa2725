//! What tracing this kernel grants to this process, found by asking it, not by its version.

use serde::{Deserialize, Serialize};

use crate::tracefs::{Access, Tracefs};

/// The answer to one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "answer", content = "reason")]
pub enum Ability {
    /// It works.
    Yes,
    /// It does not, with the kernel's reason.
    No(String),
}

impl Ability {
    /// Whether it works.
    pub fn is_yes(&self) -> bool {
        *self == Ability::Yes
    }
}

/// A performance monitoring unit of /sys/bus/event_source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pmu {
    /// Its name, such as `cpu`, `software`, `kprobe`.
    pub name: String,
    /// The number that perf_event_open wants.
    pub number: u32,
}

/// What works here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abilities {
    /// Where tracefs is mounted, if it is.
    pub tracefs_mounted: Option<String>,
    /// Whether a tracefs can be reached, by an own mount or a mounted one.
    pub tracefs: Ability,
    /// Whether it was reached by an own mount that no path leads to.
    pub tracefs_private: bool,
    /// Tracepoints that can be enabled.
    pub tracepoints: Option<u32>,
    /// Bytes of the kernel's type information (BTF); `None` without it.
    pub btf_bytes: Option<u64>,
    /// Performance monitoring units.
    pub pmus: Vec<Pmu>,
    /// Counting a software event of the own process.
    pub perf_own: Ability,
    /// Counting a software event of a whole CPU, the kernel included.
    pub perf_system: Ability,
    /// Counting CPU cycles in hardware.
    pub hardware_counters: Ability,
    /// Probing kernel functions through perf.
    pub kprobes: Ability,
    /// Probing user functions through perf.
    pub uprobes: Ability,
}

impl Abilities {
    /// Tries each. Nothing is enabled or left behind: counters are opened disabled and closed.
    pub fn gather() -> Abilities {
        let pmus = pmus();
        let tracefs = Tracefs::open();
        let unit = |name: &str| pmus.iter().find(|pmu| pmu.name == name);
        let has_unit = |name: &str, option: &str| match unit(name) {
            Some(_) => Ability::Yes,
            None => Ability::No(format!("the kernel has no {name} unit (built without {option})")),
        };
        Abilities {
            tracefs_mounted: mounted_tracefs(),
            tracefs_private: tracefs.as_ref().is_ok_and(|tracefs| *tracefs.access() == Access::Private),
            tracepoints: tracefs.as_ref().ok().and_then(|tracefs| Some(tracefs.events().ok()?.len() as u32)),
            tracefs: match &tracefs {
                Ok(_) => Ability::Yes,
                Err(refused) => Ability::No(refused.to_string()),
            },
            btf_bytes: std::fs::metadata("/sys/kernel/btf/vmlinux").ok().map(|file| file.len()),
            perf_own: try_count(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, Scope::OwnProcess),
            perf_system: try_count(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, Scope::FirstCpu),
            hardware_counters: Abilities::hardware_counters(),
            kprobes: has_unit("kprobe", "CONFIG_KPROBE_EVENTS"),
            uprobes: has_unit("uprobe", "CONFIG_UPROBE_EVENTS"),
            pmus,
        }
    }

    /// Whether cycles can be counted in hardware, asked alone.
    pub fn hardware_counters() -> Ability {
        try_count(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, Scope::OwnProcess)
    }
}

fn mounted_tracefs() -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (path, kind) = (words.next()?, words.next()?);
        (kind == "tracefs").then(|| path.replace("\\040", " "))
    })
}

fn pmus() -> Vec<Pmu> {
    let entries = std::fs::read_dir("/sys/bus/event_source/devices").into_iter().flatten().flatten();
    let mut pmus: Vec<Pmu> = entries
        .filter_map(|entry| {
            let number = super::number(&format!("{}/type", entry.path().display()))?;
            Some(Pmu { name: entry.file_name().to_str()?.to_owned(), number })
        })
        .collect();
    pmus.sort_by(|a, b| a.name.cmp(&b.name));
    pmus
}

// include/uapi/linux/perf_event.h
const PERF_TYPE_HARDWARE: u32 = 0;
const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_HW_CPU_CYCLES: u64 = 0;
const PERF_COUNT_SW_TASK_CLOCK: u64 = 1;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
/// Bit 0 of the flags: the counter starts stopped.
const DISABLED: u64 = 1;

#[derive(Clone, Copy)]
enum Scope {
    OwnProcess,
    FirstCpu,
}

/// The first published size of `perf_event_attr`, which every kernel accepts.
#[repr(C)]
#[derive(Default)]
struct CountAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config1: u64,
}

fn try_count(kind: u32, config: u64, scope: Scope) -> Ability {
    let attr = CountAttr {
        kind,
        size: size_of::<CountAttr>() as u32,
        config,
        flags: DISABLED,
        ..CountAttr::default()
    };
    let (pid, cpu): (libc::c_long, libc::c_long) = match scope {
        Scope::OwnProcess => (0, -1),
        Scope::FirstCpu => (-1, 0),
    };
    // SAFETY: `attr` is as long as its size field says and lives through the call; the rest
    // are integers.
    let result = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            pid,
            cpu,
            -1 as libc::c_long,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    match crate::stop::owned(result) {
        Ok(_closed_at_once) => Ability::Yes,
        Err(error) => Ability::No(match error.raw_os_error() {
            Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => "the machine does not have it".into(),
            Some(libc::EACCES | libc::EPERM) => "not permitted".into(),
            Some(libc::ENOSYS) => "the kernel was built without perf events".into(),
            _ => error.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abilities_are_found_without_leaving_anything_open() {
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        // Other tests of this process open files too: the least of several differences counts.
        let grown = (0..5)
            .map(|_| {
                let before = open();
                let abilities = Abilities::gather();
                assert!(abilities.pmus.iter().any(|pmu| pmu.name == "software") || abilities.pmus.is_empty());
                open() as i64 - before as i64
            })
            .min();
        assert!(grown <= Some(0), "{grown:?}");
    }

    #[test]
    fn a_counter_that_cannot_be_has_its_reason() {
        assert!(!try_count(PERF_TYPE_HARDWARE, 999, Scope::OwnProcess).is_yes());
    }
}
