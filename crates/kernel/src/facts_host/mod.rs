//! Facts about the host that decide what can be traced and how far its numbers go: kept with
//! every run, told by `lotse doctor`. Gathering never fails as a whole: what cannot be read
//! is `None`, and a report says "unknown" for it, never a guess.

use serde::{Deserialize, Serialize};

pub mod abilities;
pub mod clock_source;
pub mod environment;
pub mod kernel_config;
pub mod power;
pub mod rights;
pub mod topology;

pub use abilities::Abilities;
pub use clock_source::ClockFacts;
pub use environment::Environment;
pub use kernel_config::KernelConfig;
pub use power::PowerFacts;
pub use rights::Rights;
pub use topology::Topology;

/// Which kernel runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelIdentity {
    /// `uname -r`.
    pub release: String,
    /// `uname -v`: the build, with its preemption model.
    pub version: String,
    /// `uname -m`.
    pub machine: String,
    /// Host name.
    pub host_name: String,
    /// This boot, to tell runs of one boot from those of another.
    pub boot_id: Option<String>,
    /// Boot parameters, as one line.
    pub command_line: Option<String>,
}

impl KernelIdentity {
    /// Reads them from /proc.
    pub fn gather() -> KernelIdentity {
        let of_kernel = |name: &str| line(&format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        KernelIdentity {
            release: of_kernel("osrelease"),
            version: of_kernel("version"),
            machine: crate::facts_host::environment::machine(),
            host_name: of_kernel("hostname"),
            boot_id: line("/proc/sys/kernel/random/boot_id"),
            command_line: line("/proc/cmdline"),
        }
    }
}

/// The facts that a later reader needs to judge or repeat a measurement: part of `run.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Which kernel.
    pub kernel: KernelIdentity,
    /// Hardware or virtual machine, container or not.
    pub environment: Environment,
    /// Processors, cores, caches, memory nodes.
    pub topology: Topology,
    /// Frequency and idle settings.
    pub power: PowerFacts,
    /// Time source and its health.
    pub clock: ClockFacts,
    /// Rights of this process and the limits the administrator has set.
    pub rights: Rights,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// 1-, 5- and 15-minute load when the facts were gathered.
    pub load_average: Option<[f64; 3]>,
}

impl HostFacts {
    /// Gathers all of them; takes a few milliseconds, of which the clock check is most.
    pub fn gather() -> HostFacts {
        HostFacts {
            kernel: KernelIdentity::gather(),
            environment: Environment::gather(),
            topology: Topology::gather(),
            power: PowerFacts::gather(),
            clock: ClockFacts::gather(),
            rights: Rights::gather(),
            memory_bytes: memory_bytes(),
            load_average: load_average(),
        }
    }
}

fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    kib.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib * 1024)
}

fn load_average() -> Option<[f64; 3]> {
    let text = line("/proc/loadavg")?;
    let mut numbers = text.split(' ').map_while(|word| word.parse().ok());
    Some([numbers.next()?, numbers.next()?, numbers.next()?])
}

/// The trimmed text of a small file; `None` when it cannot be read or is empty.
pub(crate) fn line(path: &str) -> Option<String> {
    let text = std::fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    if text.is_empty() { None } else { Some(text) }
}

/// The number in a small file.
pub(crate) fn number<T: std::str::FromStr>(path: &str) -> Option<T> {
    line(path)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_is_described_and_survives_json() {
        let facts = HostFacts::gather();
        assert!(!facts.kernel.release.is_empty());
        assert!(!facts.kernel.machine.is_empty());
        assert!(!facts.topology.cpus.is_empty());
        assert!(facts.memory_bytes.is_some_and(|bytes| bytes > 1 << 20));
        let again: HostFacts = serde_json::from_str(&serde_json::to_string(&facts).unwrap()).unwrap();
        assert_eq!(again.kernel, facts.kernel);
        assert_eq!(again.topology, facts.topology);
    }
}
