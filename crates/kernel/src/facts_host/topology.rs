//! Processors as the scheduler sees them.

use serde::{Deserialize, Serialize};

use super::line;
use crate::cpu::parse_list;

/// One logical CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogicalCpu {
    /// Its number.
    pub cpu: u32,
    /// Socket.
    pub package: Option<u32>,
    /// Core within the socket.
    pub core: Option<u32>,
    /// Memory node.
    pub node: Option<u32>,
    /// Logical CPUs that share this core, itself included.
    pub siblings: Vec<u32>,
    /// Relative capacity on machines with big and little cores (1024 is the biggest).
    pub capacity: Option<u32>,
    /// The deepest-level cache's id, shared by CPUs between which moves are cheap.
    pub last_level_cache: Option<u32>,
}

/// Processors, cores and memory nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// The processor's name.
    pub model: Option<String>,
    /// Online logical CPUs, ascending.
    pub cpus: Vec<LogicalCpu>,
    /// CPUs that are present and switched off.
    pub offline: Vec<u32>,
    /// CPUs kept from the scheduler's balancing (`isolcpus=`).
    pub isolated: Vec<u32>,
    /// CPUs whose tick stops under load (`nohz_full=`).
    pub tickless: Vec<u32>,
    /// Whether simultaneous multithreading is on.
    pub smt_active: Option<bool>,
    /// CPUs that this process may run on.
    pub allowed: Vec<u32>,
}

impl Topology {
    /// Reads /sys/devices/system/cpu and /proc/cpuinfo.
    pub fn gather() -> Topology {
        let list = |name: &str| {
            line(&format!("/sys/devices/system/cpu/{name}"))
                .and_then(|text| parse_list(&text))
                .unwrap_or_default()
        };
        let online = list("online");
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let allowed = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).and_then(parse_list);
        Topology {
            model: model(),
            offline: list("present").into_iter().filter(|cpu| !online.contains(cpu)).collect(),
            isolated: list("isolated"),
            tickless: list("nohz_full"),
            smt_active: line("/sys/devices/system/cpu/smt/active").map(|text| text == "1"),
            allowed: allowed.unwrap_or_default(),
            cpus: online.into_iter().map(logical_cpu).collect(),
        }
    }

    /// Distinct sockets; at least 1.
    pub fn sockets(&self) -> usize {
        distinct(self.cpus.iter().map(|cpu| cpu.package))
    }

    /// Distinct cores.
    pub fn cores(&self) -> usize {
        distinct(self.cpus.iter().map(|cpu| (cpu.package, cpu.core)))
    }

    /// Distinct memory nodes; at least 1.
    pub fn nodes(&self) -> usize {
        distinct(self.cpus.iter().map(|cpu| cpu.node))
    }
}

fn distinct<T: Ord>(all: impl Iterator<Item = T>) -> usize {
    all.collect::<std::collections::BTreeSet<_>>().len()
}

fn logical_cpu(cpu: u32) -> LogicalCpu {
    let directory = format!("/sys/devices/system/cpu/cpu{cpu}");
    let read = |name: &str| line(&format!("{directory}/{name}"));
    let number = |name: &str| read(name)?.parse().ok();
    // cache/indexN grows with the level; the last one that exists is the last level.
    let last_level_cache = (0..10).map_while(|index| number(&format!("cache/index{index}/id"))).last();
    LogicalCpu {
        cpu,
        package: number("topology/physical_package_id"),
        core: number("topology/core_id"),
        node: node_of(&directory),
        siblings: read("topology/thread_siblings_list")
            .and_then(|text| parse_list(&text))
            .unwrap_or_default(),
        capacity: number("cpu_capacity"),
        last_level_cache,
    }
}

/// A CPU's directory has a link `nodeN` to its memory node.
fn node_of(directory: &str) -> Option<u32> {
    let entries = std::fs::read_dir(directory).ok()?;
    entries.flatten().find_map(|entry| entry.file_name().to_str()?.strip_prefix("node")?.parse().ok())
}

fn model() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    for key in ["model name", "Model", "Processor", "CPU implementer"] {
        let found = text.lines().find(|l| l.starts_with(key)).and_then(|l| l.split_once(':'));
        if let Some((_, value)) = found {
            return Some(value.trim().to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_of_distinct_things() {
        let cpu = |cpu, package, core| LogicalCpu {
            cpu,
            package: Some(package),
            core: Some(core),
            node: Some(package),
            siblings: vec![],
            capacity: None,
            last_level_cache: None,
        };
        let topology = Topology {
            model: None,
            cpus: vec![cpu(0, 0, 0), cpu(1, 0, 0), cpu(2, 1, 0), cpu(3, 1, 1)],
            offline: vec![],
            isolated: vec![],
            tickless: vec![],
            smt_active: Some(true),
            allowed: vec![0, 1, 2, 3],
        };
        assert_eq!((topology.sockets(), topology.cores(), topology.nodes()), (2, 3, 2));
    }
}
