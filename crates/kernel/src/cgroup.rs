//! Control groups: their members, and how often their CPU quota held them back.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};

use crate::error::Refused;

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
    let is_version_1 = |kind: &str, options: &str| kind == "cgroup" && options.split(',').any(|o| o == "cpu");
    mounted(mounts, is_version_1).or_else(|| version_2(mounts))
}

fn version_2(mounts: &str) -> Option<PathBuf> {
    mounted(mounts, |kind, _| kind == "cgroup2")
}

/// The first mount point of a file system of the wanted kind and options.
fn mounted(mounts: &str, wanted: impl Fn(&str, &str) -> bool) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (path, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        wanted(kind, options).then(|| PathBuf::from(path.replace("\\040", " ")))
    })
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

/// A group of version 2 for one command and all that it starts: inside the caller's own group, gone when dropped.
/// Processes that are left in it then go back to the caller's group.
#[derive(Debug)]
pub struct OwnGroup {
    directory: PathBuf,
    parent: PathBuf,
}

impl OwnGroup {
    /// Makes the group, and removes those that killed runs have left.
    pub fn create() -> Result<OwnGroup, Refused> {
        let refused =
            |what: &Path, error| Refused::new("make the control group", what.display().to_string(), error);
        let missing =
            || io::Error::new(io::ErrorKind::NotFound, "version 2 of control groups is not mounted");
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mount = version_2(&mounts).ok_or_else(|| refused(Path::new("/sys/fs/cgroup"), missing()))?;
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        let parent = mount.join(own);
        remove_left_over(&parent);
        // Several in one process are told apart by a number.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = parent.join(format!("{NAME}{}-{number}", std::process::id()));
        std::fs::create_dir(&directory).map_err(|error| refused(&directory, error))?;
        Ok(OwnGroup { directory, parent })
    }

    /// Moves a process into it.
    pub fn add(&self, pid: u32) -> Result<(), Refused> {
        std::fs::write(self.directory.join("cgroup.procs"), pid.to_string()).map_err(|error| {
            Refused::new("move a process into the control group", self.directory.display().to_string(), error)
        })
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

/// What the names of our groups begin with, before the process that made them.
const NAME: &str = "lotse-tool-";

impl Drop for OwnGroup {
    fn drop(&mut self) {
        // Whoever forks meanwhile is met in the next round.
        for _ in 0..100 {
            let members = std::fs::read_to_string(self.directory.join("cgroup.procs")).unwrap_or_default();
            for pid in members.lines() {
                let _ = std::fs::write(self.parent.join("cgroup.procs"), pid);
            }
            match std::fs::remove_dir(&self.directory) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                _ => return,
            }
        }
    }
}

fn remove_left_over(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(NAME)?.split('-').next());
        if let Some(maker) = maker.filter(|maker| maker.parse::<u32>().is_ok())
            && !Path::new("/proc").join(maker).exists()
        {
            // One with members stays.
            let _ = std::fs::remove_dir(entry.path());
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
