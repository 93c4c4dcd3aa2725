//! What /proc says of processes and threads, as far as recording needs it.

use std::fs;

use crate::error::Refused;

/// A process told apart from any later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProcessIdentity {
    /// The process id in the reader's pid namespace.
    pub pid: u32,
    /// When it started, in clock ticks since boot (field 22 of /proc/PID/stat).
    pub start_ticks: u64,
}

impl ProcessIdentity {
    /// The process of this number that lives now, if any does.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Some(ProcessIdentity { pid, start_ticks: start_ticks(&String::from_utf8_lossy(&stat))? })
    }

    /// This process itself.
    pub fn own() -> Option<Self> {
        ProcessIdentity::of(std::process::id())
    }

    /// True while this very process lives.
    pub fn lives(&self) -> bool {
        ProcessIdentity::of(self.pid) == Some(*self)
    }
}

/// The inode number of the own pid namespace: process ids mean something only within it.
pub fn pid_namespace() -> u64 {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let text = link.to_string_lossy();
    text.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0)
}

/// Inode number of the pid namespace that the kernel itself numbers threads in (`PROC_PID_INIT_INO`).
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// False in a container with process ids of its own: those in events are the host's, and differ. True also where
/// /proc does not tell.
pub fn process_ids_are_the_hosts() -> bool {
    matches!(pid_namespace(), 0 | INITIAL_PID_NAMESPACE)
}

/// Device and inode of the own pid namespace, as `bpf_get_ns_current_pid_tgid` wants them.
pub fn pid_namespace_file() -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self/ns/pid").map_or((0, 0), |file| (file.dev(), file.ino()))
}

/// The threads of a process now; an error if there is no such process.
pub fn threads_of(pid: u32) -> Result<Vec<u32>, Refused> {
    let path = format!("/proc/{pid}/task");
    let entries =
        fs::read_dir(&path).map_err(|e| Refused::new("list the threads of process", pid.to_string(), e))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// A thread with its process and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadName {
    /// Thread id.
    pub tid: u32,
    /// Id of the process it belongs to.
    pub pid: u32,
    /// What the thread calls itself, at most 15 bytes.
    pub comm: String,
}

/// Every thread of the system with its name. Threads that end meanwhile are left out.
pub fn all_threads() -> Vec<ThreadName> {
    let mut names = Vec::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        for tid in threads_of(pid).unwrap_or_default() {
            if let Ok(comm) = fs::read(format!("/proc/{pid}/task/{tid}/comm")) {
                let comm = String::from_utf8_lossy(&comm);
                let comm = own_name(comm.strip_suffix('\n').unwrap_or(&comm)).to_owned();
                names.push(ThreadName { tid, pid, comm });
            }
        }
    }
    names
}

/// /proc adds to a kernel worker's name what it works on ("kworker/u8:0-flush-254:0"); events
/// carry the name alone. A rescuer's name ("kworker/R-…") has its hyphen of its own.
fn own_name(comm: &str) -> &str {
    match comm.find(['-', '+']) {
        Some(end) if comm.starts_with("kworker/") && !comm.starts_with("kworker/R-") => &comm[..end],
        _ => comm,
    }
}

/// The name may hold blanks and parentheses, so fields are counted from its last ')'.
fn start_ticks(stat: &str) -> Option<u64> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_found_behind_a_hostile_name() {
        let stat = "7 (a) b ) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
        assert_eq!(start_ticks(stat), Some(4242));
    }

    #[test]
    fn kernel_workers_keep_their_own_name() {
        assert_eq!(own_name("kworker/u8:0-flush-254:0"), "kworker/u8:0");
        assert_eq!(own_name("kworker/0:1H+kblockd"), "kworker/0:1H");
        assert_eq!(own_name("kworker/R-rcu_gp"), "kworker/R-rcu_gp");
        assert_eq!(own_name("my-thread+1"), "my-thread+1");
    }

    #[test]
    fn the_own_process_lives_and_an_earlier_one_of_its_number_does_not() {
        let own = ProcessIdentity::own().unwrap();
        assert!(own.lives());
        assert!(!ProcessIdentity { start_ticks: own.start_ticks + 1, ..own }.lives());
    }
}
