//! Control groups: their members, and how often their CPU quota held them back.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// How often a group was held back by its CPU quota, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttling {
    /// Periods in which the group wanted to run.
    pub periods: u64,
    /// Of these, periods in which its quota ran out.
    pub throttled_periods: u64,
    /// Nanoseconds that it was held back, summed over CPUs.
    pub throttled_ns: u64,
}

impl Throttling {
    /// What came since `earlier`.
    pub fn since(self, earlier: Throttling) -> Throttling {
        Throttling {
            periods: self.periods.saturating_sub(earlier.periods),
            throttled_periods: self.throttled_periods.saturating_sub(earlier.throttled_periods),
            throttled_ns: self.throttled_ns.saturating_sub(earlier.throttled_ns),
        }
    }

    fn parse(text: &str) -> Throttling {
        let number = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
            line.and_then(|number| number.trim().parse::<u64>().ok())
        };
        Throttling {
            periods: number("nr_periods").unwrap_or(0),
            throttled_periods: number("nr_throttled").unwrap_or(0),
            // Version 1 counts nanoseconds, version 2 microseconds.
            throttled_ns: number("throttled_time")
                .or_else(|| number("throttled_usec").map(|us| us.saturating_mul(1000)))
                .unwrap_or(0),
        }
    }
}

/// Where the `cpu` controller's hierarchy is mounted: version 1's, else the version 2 tree.
pub fn cpu_hierarchy() -> Option<PathBuf> {
    hierarchy(&std::fs::read_to_string("/proc/self/mounts").ok()?)
}

fn hierarchy(mounts: &str) -> Option<PathBuf> {
    let fields =
        || mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).filter(|fields| fields.len() > 3);
    let version1 = fields().find(|f| f[2] == "cgroup" && f[3].split(',').any(|option| option == "cpu"));
    let version2 = || fields().find(|f| f[2] == "cgroup2");
    version1.or_else(version2).map(|fields| PathBuf::from(fields[1].replace("\\040", " ")))
}

/// The counts of a group, given its path below the hierarchy; `None` where it has no quota
/// or is gone.
pub fn throttling(hierarchy: &Path, group: &str) -> Option<Throttling> {
    let path = hierarchy.join(group.trim_start_matches('/')).join("cpu.stat");
    let counts = Throttling::parse(&std::fs::read_to_string(path).ok()?);
    (counts.periods > 0).then_some(counts)
}

/// The threads of a group and of those below it, now; empty when it cannot be read.
pub fn threads_of(directory: &Path) -> Vec<u32> {
    let mut threads = Vec::new();
    collect(directory, &mut threads, 0);
    threads.sort_unstable();
    threads.dedup();
    threads
}

fn collect(directory: &Path, threads: &mut Vec<u32>, depth: u32) {
    // `tasks` is version 1's name for it.
    let text = ["cgroup.threads", "tasks"]
        .iter()
        .find_map(|name| std::fs::read_to_string(directory.join(name)).ok());
    threads.extend(text.unwrap_or_default().lines().filter_map(|line| line.parse::<u32>().ok()));
    // The kernel's limit on nesting is lower; a loop by bind mounts ends here.
    if depth > 64 {
        return;
    }
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&entry.path(), threads, depth + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_read() {
        let expected = Throttling { periods: 10, throttled_periods: 4, throttled_ns: 5_000_000 };
        let version1 = "nr_periods 10\nnr_throttled 4\nthrottled_time 5000000\nwait_sum 7\n";
        let version2 = "usage_usec 9\nnr_periods 10\nnr_throttled 4\nthrottled_usec 5000\nnr_bursts 0\n";
        assert_eq!(Throttling::parse(version1), expected);
        assert_eq!(Throttling::parse(version2), expected);
        assert_eq!(Throttling::parse(""), Throttling::default());
    }

    #[test]
    fn the_hierarchy_of_the_cpu_controller_is_found() {
        let version1 = "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n";
        let version2 = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nosuid 0 0\n";
        assert_eq!(hierarchy(&format!("{version2}{version1}")), Some("/sys/fs/cgroup/cpu,cpuacct".into()));
        assert_eq!(hierarchy(version2), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(hierarchy("proc /proc proc rw 0 0\n"), None);
    }
}
