//! Names of the threads that may have caused events, and the processes they belong to.

use std::collections::BTreeMap;

use kernel::procfs::{self, ThreadName};
use kernel::tracefs::Tracefs;

/// The threads that live now or did at the start, with their names; those of now win.
pub(super) fn living(at_start: &[ThreadName]) -> Vec<ThreadName> {
    let both = at_start.iter().cloned().chain(procfs::all_threads());
    let by_tid: BTreeMap<u32, ThreadName> = both.map(|thread| (thread.tid, thread)).collect();
    by_tid.into_values().collect()
}

/// The names the kernel remembers, of this recording's threads and of many others.
pub(super) fn remembered(tracefs: &Tracefs) -> Vec<ThreadName> {
    let read = |file: &str| tracefs.root().read_text(file).unwrap_or_default();
    let tgids: BTreeMap<u32, u32> = read("saved_tgids").lines().filter_map(two_numbers).collect();
    let named = |line: &str| {
        let (tid, comm) = line.split_once(' ')?;
        let tid = tid.parse().ok()?;
        Some(ThreadName { tid, pid: tgids.get(&tid).copied().unwrap_or(0), comm: comm.to_owned() })
    };
    read("saved_cmdlines").lines().filter_map(named).collect()
}

fn two_numbers(line: &str) -> Option<(u32, u32)> {
    let (first, second) = line.split_once(' ')?;
    Some((first.parse().ok()?, second.trim().parse().ok()?))
}
