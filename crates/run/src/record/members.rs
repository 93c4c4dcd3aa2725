//! Whose events are recorded: process ids and cgroup members as thread ids for the kernel's
//! filter, followed while the recording runs.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use kernel::error::Refused;
use kernel::procfs;
use kernel::tracefs_instance::{Instance, PidFilter};

use super::error::RecordError;
use super::spec::Selection;

/// The threads a recording selects, and where more may come from.
#[derive(Debug)]
pub(super) enum Members {
    /// No filter.
    Everything,
    /// A fixed set; the kernel adds what they fork.
    Tasks { processes: Vec<u32>, threads: Vec<u32>, known: HashSet<u32> },
    /// A cgroup's directory.
    Cgroup { path: PathBuf, known: HashSet<u32> },
}

/// Refuses a selection of threads that do not exist, or whose numbers events do not carry. A selection that only the
/// analysis makes needs this too: it would find nothing and say so as if that were an answer.
pub fn check_selection(selection: &Selection) -> Result<(), RecordError> {
    check_namespace(selection, procfs::process_ids_are_the_hosts())?;
    match selection {
        Selection::Everything | Selection::Command => Ok(()),
        chosen => Members::new(chosen, None).map(drop),
    }
}

fn check_namespace(selection: &Selection, ids_are_the_hosts: bool) -> Result<(), RecordError> {
    let what = match selection {
        _ if ids_are_the_hosts => return Ok(()),
        Selection::Everything => return Ok(()),
        Selection::Command => "the command's threads",
        Selection::Processes(_) => "the threads of a process",
        Selection::Threads(_) => "threads",
        Selection::Cgroup(_) => "the members of a cgroup",
    };
    Err(RecordError::PidNamespace { what, instead: "--all, or --duration without a command" })
}

impl Members {
    /// Checks that what is selected exists. `command` is the process started for
    /// [`Selection::Command`].
    pub fn new(selection: &Selection, command: Option<u32>) -> Result<Self, RecordError> {
        let tasks = |processes: &[u32], threads: &[u32]| Members::Tasks {
            processes: processes.to_vec(),
            threads: threads.to_vec(),
            known: HashSet::new(),
        };
        Ok(match selection {
            Selection::Everything => Members::Everything,
            Selection::Processes(pids) => {
                for &pid in pids {
                    procfs::threads_of(pid)
                        .map_err(|_| RecordError::NoSuchTask { kind: "process", id: pid })?;
                }
                tasks(pids, &[])
            }
            Selection::Threads(tids) => {
                for &tid in tids {
                    // /proc/TID exists for every thread, also where it is not listed.
                    let lives = fs::metadata(format!("/proc/{tid}")).is_ok();
                    lives.then_some(()).ok_or(RecordError::NoSuchTask { kind: "thread", id: tid })?;
                }
                tasks(&[], tids)
            }
            Selection::Cgroup(path) => {
                cgroup_threads(path).map_err(|source| RecordError::Cgroup { path: path.clone(), source })?;
                Members::Cgroup { path: path.clone(), known: HashSet::new() }
            }
            Selection::Command => match command {
                Some(pid) => tasks(&[pid], &[]),
                None => {
                    return Err(RecordError::Spec(
                        "the events of a command were asked for, but no command was given".to_owned(),
                    ));
                }
            },
        })
    }

    /// True if the kernel is to filter by thread.
    pub fn filters(&self) -> bool {
        !matches!(self, Members::Everything)
    }

    /// Members may come that the kernel does not see as children of known ones.
    pub fn needs_following(&self) -> bool {
        matches!(self, Members::Cgroup { .. })
    }

    /// Adds the members that are new since the last call to the instances' filters; answers how
    /// many. To be called with `event-fork` on, until it finds none: a thread made between
    /// listing and fork following is then found by the next listing.
    pub fn follow(&mut self, instances: &[&Instance]) -> Result<usize, Refused> {
        let (now, known) = match self {
            Members::Everything => return Ok(0),
            Members::Tasks { processes, threads, known } => {
                let mut now = threads.clone();
                for pid in processes {
                    now.extend(procfs::threads_of(*pid).unwrap_or_default());
                }
                (now, known)
            }
            Members::Cgroup { path, known } => (cgroup_threads(path).unwrap_or_default(), known),
        };
        let new: Vec<u32> = now.into_iter().filter(|tid| !known.contains(tid)).collect();
        if !new.is_empty() {
            for instance in instances {
                instance.add_threads(PidFilter::Only, &new)?;
            }
            known.extend(&new);
        }
        Ok(new.len())
    }

    /// The selected processes that are to end before the recording has nothing left to record.
    pub fn ended(&self) -> bool {
        match self {
            Members::Tasks { processes, threads, .. } => {
                processes.iter().chain(threads).all(|id| fs::metadata(format!("/proc/{id}")).is_err())
            }
            Members::Everything | Members::Cgroup { .. } => false,
        }
    }
}

/// The threads of a cgroup and of the groups below it. Version 1 calls the list `tasks`,
/// version 2 `cgroup.threads`; in a threaded subtree's root the latter is not readable, the
/// list of processes is.
fn cgroup_threads(path: &Path) -> std::io::Result<Vec<u32>> {
    let mut tids = Vec::new();
    let numbers =
        |text: String| -> Vec<u32> { text.lines().filter_map(|line| line.trim().parse().ok()).collect() };
    match fs::read_to_string(path.join("cgroup.threads")).or_else(|_| fs::read_to_string(path.join("tasks")))
    {
        Ok(text) => tids.extend(numbers(text)),
        Err(_) => {
            for pid in numbers(fs::read_to_string(path.join("cgroup.procs"))?) {
                tids.extend(procfs::threads_of(pid).unwrap_or_default());
            }
        }
    }
    for entry in fs::read_dir(path)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // A group that goes away meanwhile has no members.
            tids.extend(cgroup_threads(&entry.path()).unwrap_or_default());
        }
    }
    tids.retain(|&tid| tid != 0);
    Ok(tids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroups_members_are_those_of_the_groups_below_too() {
        let root = std::env::temp_dir().join(format!("lotse-cgroup-{}", std::process::id()));
        fs::create_dir_all(root.join("below")).unwrap();
        fs::write(root.join("tasks"), "5\n6\n").unwrap();
        fs::write(root.join("below/cgroup.threads"), "7\n0\n").unwrap();
        let mut tids = cgroup_threads(&root).unwrap();
        tids.sort_unstable();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(tids, [5, 6, 7]);
        assert!(cgroup_threads(&root).is_err());
    }

    #[test]
    fn threads_are_not_selected_by_numbers_of_another_namespace() {
        for selection in [Selection::Command, Selection::Processes(vec![1]), Selection::Threads(vec![1])] {
            assert!(matches!(check_namespace(&selection, false), Err(RecordError::PidNamespace { .. })));
            assert!(check_namespace(&selection, true).is_ok());
        }
        assert!(check_namespace(&Selection::Everything, false).is_ok());
    }

    #[test]
    fn what_does_not_exist_cannot_be_selected() {
        let nobody = u32::MAX / 2;
        assert!(matches!(
            Members::new(&Selection::Processes(vec![nobody]), None),
            Err(RecordError::NoSuchTask { kind: "process", .. })
        ));
        assert!(matches!(Members::new(&Selection::Command, None), Err(RecordError::Spec(_))));
        assert!(matches!(
            Members::new(&Selection::Cgroup("/no/such/group".into()), None),
            Err(RecordError::Cgroup { .. })
        ));
    }
}
