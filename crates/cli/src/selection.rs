//! Options that say whose events are meant; the same for `run` and `record`.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use lang::options::{SelectedCgroup, Selection};
use run::run_record::SelectionRequest;

use crate::values;

/// Whose events.
#[derive(Clone, Debug, Default, Args)]
pub struct SelectionOptions {
    /// Only these processes, with all their threads and children
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = values::task, conflicts_with_all = ["tid", "cgroup"])]
    pub pid: Vec<u32>,
    /// Only these threads, with what they start
    #[arg(short, long, value_name = "TID", value_delimiter = ',', value_parser = values::task, conflicts_with = "cgroup")]
    pub tid: Vec<u32>,
    /// Only members of this control group: its directory, or its path below /sys/fs/cgroup
    #[arg(long, value_name = "GROUP")]
    pub cgroup: Option<PathBuf>,
    /// Only events on these CPUs, such as 0,2-3
    #[arg(short, long, value_name = "LIST", value_parser = cpu_list)]
    pub cpu: Option<CpuList>,
}

/// CPUs as the kernel lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuList(pub Vec<u32>);

/// Reads a list of CPUs.
pub fn cpu_list(text: &str) -> Result<CpuList, String> {
    match kernel::cpu::parse_list(text) {
        Some(cpus) if !cpus.is_empty() => Ok(CpuList(cpus)),
        _ => Err("write numbers and ranges: 0,2-3".to_owned()),
    }
}

impl SelectionOptions {
    /// The request; `None` when nothing was selected.
    pub fn request(&self) -> anyhow::Result<Option<SelectionRequest>> {
        Ok(match (&self.pid[..], &self.tid[..], &self.cgroup) {
            ([], [], None) => None,
            (pids @ [_, ..], ..) => Some(SelectionRequest::Processes(pids.to_vec())),
            (_, tids @ [_, ..], _) => Some(SelectionRequest::Threads(tids.to_vec())),
            (_, _, Some(group)) => Some(SelectionRequest::Cgroup(cgroup_directory(group)?)),
        })
    }

    /// The CPUs.
    pub fn cpus(&self) -> Option<Vec<u32>> {
        self.cpu.as_ref().map(|list| list.0.clone())
    }
}

/// Whose events a program sees; the control group is of the second version's hierarchy.
pub fn of_program(
    pids: &[u32],
    tids: &[u32],
    cpus: Option<&CpuList>,
    cgroup: Option<&Path>,
) -> anyhow::Result<Selection> {
    let cgroup = cgroup.map(selected_cgroup).transpose()?;
    let cpus = cpus.map(|list| list.0.clone()).unwrap_or_default();
    Ok(Selection { pids: pids.to_vec(), tids: tids.to_vec(), cpus, cgroup })
}

/// A control group as programs are told of it.
pub fn selected_cgroup(group: &Path) -> anyhow::Result<SelectedCgroup> {
    let directory = cgroup_directory(group)?;
    let directory =
        directory.canonicalize().with_context(|| format!("there is no control group {}", group.display()))?;
    let metadata = std::fs::metadata(&directory)
        .with_context(|| format!("there is no control group {}", group.display()))?;
    // Directories above that are control groups too: the root of the hierarchy has none.
    let above = directory.ancestors().skip(1).take_while(|parent| parent.join("cgroup.procs").is_file());
    Ok(SelectedCgroup { id: metadata.ino(), level: above.count() as u32 })
}

/// A control group by directory, or by its path in any mounted hierarchy.
fn cgroup_directory(group: &Path) -> anyhow::Result<PathBuf> {
    if group.join("cgroup.procs").is_file() {
        return Ok(group.to_owned());
    }
    let below = group.strip_prefix("/").unwrap_or(group);
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for wanted in ["cgroup2", "cgroup"] {
        for line in mounts.lines() {
            let mut words = line.split(' ');
            if let (Some(_), Some(root), Some(kind)) = (words.next(), words.next(), words.next())
                && kind == wanted
            {
                let path = Path::new(root).join(below);
                if path.join("cgroup.procs").is_file() {
                    return Ok(path);
                }
            }
        }
    }
    bail!(
        "there is no control group {}; give its directory, such as /sys/fs/cgroup/system.slice \
         (systemd-cgls shows the tree)",
        group.display()
    )
}

/// How a selection is recorded.
pub fn for_recording(request: &SelectionRequest) -> run::record::Selection {
    use run::record::Selection;
    match request {
        SelectionRequest::System => Selection::Everything,
        SelectionRequest::Command => Selection::Command,
        SelectionRequest::Processes(pids) => Selection::Processes(pids.clone()),
        SelectionRequest::Threads(tids) => Selection::Threads(tids.clone()),
        SelectionRequest::Cgroup(path) => Selection::Cgroup(path.clone()),
    }
}
