//! Options that say whose events are meant; the same for `run` and `record`.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use run::run_record::SelectionRequest;

/// Whose events.
#[derive(Clone, Debug, Default, Args)]
pub struct SelectionOptions {
    /// Only these processes, with all their threads and children
    #[arg(short, long, value_name = "PID", value_delimiter = ',', conflicts_with_all = ["tid", "cgroup"])]
    pub pid: Vec<u32>,
    /// Only these threads, with what they start
    #[arg(short, long, value_name = "TID", value_delimiter = ',', conflicts_with = "cgroup")]
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
