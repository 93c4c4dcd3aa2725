//! What a compile needs to know of a kernel. A live kernel answers lazily (the `kernel` crate reads only
//! the formats a program uses); [`SavedFacts`] answers from a file, so that a compile for another kernel
//! is an ordinary test.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::btf::Btf;
use crate::map::MapKind;
use crate::program::ProgramType;

/// Major, minor, patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version(pub u16, pub u16, pub u16);

impl Version {
    /// Reads the head of a release such as `6.1.0-47-amd64`; missing parts are 0.
    pub fn parse(release: &str) -> Version {
        let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
        let mut next = || parts.next().unwrap_or(0);
        Version(next(), next(), next())
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// An ability of the running kernel, found by trying it, not by its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    /// perf kprobes.
    Kprobes,
    /// Trampolines at function entry and return.
    Fentry,
    /// `BPF_TRACE_KPROBE_MULTI`.
    KprobeMulti,
    /// `BPF_TRACE_UPROBE_MULTI`.
    UprobeMulti,
    /// perf uprobes.
    Uprobes,
    /// Raw tracepoints.
    RawTracepoint,
    /// tp_btf.
    TpBtf,
    /// Cookies of raw and BTF tracepoints.
    RawTracepointCookie,
    /// Cookies of perf links.
    PerfCookie,
    /// Ring buffer.
    RingBuf,
    /// `bpf_loop`.
    BpfLoop,
    /// `bpf_for_each_map_elem`.
    ForEachMapElem,
    /// Calls of kernel functions.
    Kfuncs,
    /// `bpf_iter_num_*`.
    IterNum,
    /// String kfuncs (`bpf_strlen`, …).
    StringKfuncs,
    /// Arena maps.
    Arena,
    /// Iterator programs.
    Iterators,
    /// Instruction set v4: sign-extending loads and moves, bswap, signed division, gotol.
    InstructionsV4,
    /// `ld_imm64` addresses into array maps, with mmap.
    MapValueAddress,
    /// Hardware counters.
    HardwareEvents,
    /// Hardware breakpoints.
    Breakpoints,
    /// `bpf_get_func_ip`.
    GetFuncIp,
    /// Tracefs can be mounted or is.
    Tracefs,
}

impl Feature {
    /// All of them.
    pub const ALL: [Feature; 23] = [
        Feature::Kprobes,
        Feature::Fentry,
        Feature::KprobeMulti,
        Feature::UprobeMulti,
        Feature::Uprobes,
        Feature::RawTracepoint,
        Feature::TpBtf,
        Feature::RawTracepointCookie,
        Feature::PerfCookie,
        Feature::RingBuf,
        Feature::BpfLoop,
        Feature::ForEachMapElem,
        Feature::Kfuncs,
        Feature::IterNum,
        Feature::StringKfuncs,
        Feature::Arena,
        Feature::Iterators,
        Feature::InstructionsV4,
        Feature::MapValueAddress,
        Feature::HardwareEvents,
        Feature::Breakpoints,
        Feature::GetFuncIp,
        Feature::Tracefs,
    ];
}

/// What the compiler asks of a kernel.
pub trait KernelFacts {
    /// `uname -r`.
    fn release(&self) -> &str;

    /// `uname -m`.
    fn machine(&self) -> &str;

    /// Possible CPUs: one more than the highest number.
    fn possible_cpus(&self) -> u32;

    /// The value of `CONFIG_…` ("y", "m", "250", …), where the configuration can be read.
    fn config(&self, option: &str) -> Option<&str>;

    /// Types of the kernel itself; none without CONFIG_DEBUG_INFO_BTF.
    fn btf(&self) -> Option<&Btf>;

    /// Modules that have BTF.
    fn btf_modules(&self) -> Vec<String>;

    /// Types of a module, on top of the kernel's.
    fn module_btf(&self, module: &str) -> Option<&Btf>;

    /// All tracepoints as `category:name`, sorted.
    fn tracepoints(&self) -> &[String];

    /// The text of a tracepoint's `format` file.
    fn tracepoint_format(&self, category: &str, name: &str) -> Option<String>;

    /// Functions that kprobes accept, sorted, as `name` or `module:name`. A list that is known to be
    /// incomplete (from BTF or kallsyms) is still given.
    fn kernel_functions(&self) -> &[String];

    /// Address of a kernel symbol, where kallsyms shows it.
    fn kernel_symbol(&self, name: &str) -> Option<u64>;

    /// Syscall names by number.
    fn syscalls(&self) -> &BTreeMap<u32, String>;

    /// Whether this works here.
    fn has(&self, feature: Feature) -> bool;

    /// Whether programs of this type may call the helper.
    fn has_helper(&self, program: ProgramType, helper: u32) -> bool;

    /// Whether maps of this kind can be created.
    fn has_map(&self, kind: MapKind) -> bool;

    /// Whether the tracer numbers processes as the kernel does: it is in no PID namespace of its own. True unless
    /// told otherwise.
    fn host_process_ids(&self) -> bool {
        true
    }

    /// Tick rate, for `jiffies`.
    fn ticks_per_second(&self) -> u32 {
        self.config("CONFIG_HZ").and_then(|hz| hz.parse().ok()).unwrap_or(250)
    }

    /// `release` as numbers.
    fn version(&self) -> Version {
        Version::parse(self.release())
    }
}

/// Facts of one kernel as one value. BTF is kept outside of the serialised text ([`SavedFacts::btf_bytes`]),
/// so that the saver may compress it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct SavedFacts {
    /// `uname -r`.
    pub release: String,
    /// `uname -m`.
    pub machine: String,
    /// Possible CPUs.
    pub possible_cpus: u32,
    /// The subset of the configuration that matters to tracing.
    pub config: BTreeMap<String, String>,
    /// `category:name`, sorted.
    pub tracepoints: Vec<String>,
    /// `format` texts by `category:name`.
    pub formats: BTreeMap<String, String>,
    /// Functions that can be probed.
    pub functions: Vec<String>,
    /// Addresses by symbol.
    pub symbols: BTreeMap<String, u64>,
    /// Syscall names by number.
    pub syscalls: BTreeMap<u32, String>,
    /// What works.
    pub features: BTreeSet<Feature>,
    /// Helper numbers by program type.
    pub helpers: BTreeMap<ProgramType, BTreeSet<u32>>,
    /// Map kinds that can be created.
    pub maps: BTreeSet<MapKind>,
    /// Modules with BTF.
    pub modules: Vec<String>,
    /// vmlinux BTF, raw.
    #[serde(skip)]
    pub btf_bytes: Option<Arc<[u8]>>,
    /// Module BTF, raw, by module.
    #[serde(skip)]
    pub module_bytes: BTreeMap<String, Arc<[u8]>>,
    #[serde(skip)]
    parsed: OnceLock<Option<Btf>>,
    #[serde(skip)]
    parsed_modules: OnceLock<BTreeMap<String, Btf>>,
}

impl KernelFacts for SavedFacts {
    fn release(&self) -> &str {
        &self.release
    }

    fn machine(&self) -> &str {
        &self.machine
    }

    fn possible_cpus(&self) -> u32 {
        self.possible_cpus.max(1)
    }

    fn config(&self, option: &str) -> Option<&str> {
        self.config.get(option).map(String::as_str)
    }

    fn btf(&self) -> Option<&Btf> {
        self.parsed.get_or_init(|| Btf::new(self.btf_bytes.clone()?).ok()).as_ref()
    }

    fn btf_modules(&self) -> Vec<String> {
        self.modules.clone()
    }

    fn module_btf(&self, module: &str) -> Option<&Btf> {
        let parsed = self.parsed_modules.get_or_init(|| {
            let Some(base) = self.btf() else { return BTreeMap::new() };
            self.module_bytes
                .iter()
                .filter_map(|(name, bytes)| Some((name.clone(), Btf::split(bytes.clone(), base).ok()?)))
                .collect()
        });
        parsed.get(module)
    }

    fn tracepoints(&self) -> &[String] {
        &self.tracepoints
    }

    fn tracepoint_format(&self, category: &str, name: &str) -> Option<String> {
        self.formats.get(&format!("{category}:{name}")).cloned()
    }

    fn kernel_functions(&self) -> &[String] {
        &self.functions
    }

    fn kernel_symbol(&self, name: &str) -> Option<u64> {
        self.symbols.get(name).copied()
    }

    fn syscalls(&self) -> &BTreeMap<u32, String> {
        &self.syscalls
    }

    fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    fn has_helper(&self, program: ProgramType, helper: u32) -> bool {
        self.helpers.get(&program).is_some_and(|known| known.contains(&helper))
    }

    fn has_map(&self, kind: MapKind) -> bool {
        self.maps.contains(&kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_become_versions() {
        assert_eq!(Version::parse("6.1.0-47-amd64"), Version(6, 1, 0));
        assert_eq!(Version::parse("6.18.44-fc-v657"), Version(6, 18, 44));
        assert_eq!(Version::parse("7"), Version(7, 0, 0));
        assert!(Version::parse("6.6") > Version::parse("6.1.99"));
    }
}
