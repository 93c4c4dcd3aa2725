//! Facts of the running kernel, each read when first asked for: a program that uses three things pays for
//! three things.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};

use bpf::KernelFacts;
use bpf::btf::{Btf, KindSet};
use bpf::facts::{Feature, SavedFacts};
use bpf::map::MapKind;
use bpf::program::ProgramType;

use crate::cpu;
use crate::facts_host::kernel_config::KernelConfig;
use crate::features;
use crate::kallsyms::KernelSymbols;
use crate::mapped::KernelFile;
use crate::tracefs::{EventName, Tracefs};

const BTF_DIRECTORY: &str = "/sys/kernel/btf";

/// The running kernel.
#[derive(Debug, Default)]
pub struct LiveFacts {
    release: OnceLock<String>,
    possible_cpus: OnceLock<u32>,
    config: OnceLock<KernelConfig>,
    btf: OnceLock<Option<Btf>>,
    modules: Mutex<BTreeMap<String, Option<&'static Btf>>>,
    tracefs: OnceLock<Option<Tracefs>>,
    tracepoints: OnceLock<Vec<String>>,
    functions: OnceLock<Vec<String>>,
    symbols: OnceLock<KernelSymbols>,
    syscalls: OnceLock<BTreeMap<u32, String>>,
    features: Mutex<BTreeMap<Feature, bool>>,
    helpers: Mutex<BTreeMap<(ProgramType, u32), bool>>,
    maps: Mutex<BTreeMap<MapKind, bool>>,
}

impl LiveFacts {
    /// Nothing is read yet.
    pub fn new() -> LiveFacts {
        LiveFacts::default()
    }

    /// Tracefs, if it can be had here.
    pub fn tracefs(&self) -> Option<&Tracefs> {
        self.tracefs.get_or_init(|| Tracefs::open().ok()).as_ref()
    }

    /// The kernel's symbols; empty where they cannot be read.
    pub fn symbols(&self) -> &KernelSymbols {
        self.symbols.get_or_init(|| KernelSymbols::read().unwrap_or_default())
    }

    /// From the list that ftrace keeps; where that cannot be read, from BTF, which knows functions that
    /// cannot be probed too.
    fn read_functions(&self) -> Vec<String> {
        let listed =
            self.tracefs().and_then(|tracefs| tracefs.root().read_text("available_filter_functions").ok());
        let mut functions: Vec<String> = match listed {
            Some(text) if !text.is_empty() => text.lines().filter_map(probed_function).collect(),
            _ => {
                let own = self.btf().map(|btf| btf.names(KindSet::FUNCTION).map(str::to_owned).collect());
                let mut functions: Vec<String> = own.unwrap_or_default();
                for module in self.btf_modules() {
                    if let Some(btf) = self.module_btf(&module) {
                        functions.extend(btf.names(KindSet::FUNCTION).map(|name| format!("{module}:{name}")));
                    }
                }
                functions
            }
        };
        functions.sort_unstable();
        functions.dedup();
        functions
    }

    /// Everything, as one value that can be kept. Takes a second or so.
    pub fn save(&self) -> SavedFacts {
        let formats = self.tracepoints().iter().filter_map(|name| {
            let (category, event) = name.split_once(':')?;
            Some((name.clone(), self.tracepoint_format(category, event)?))
        });
        let helpers = ProgramType::ALL.into_iter().map(|kind| {
            let known = bpf::helpers::HELPERS.iter().map(|helper| helper.id);
            (kind, known.filter(|id| self.has_helper(kind, *id)).collect())
        });
        let mut saved = SavedFacts::default();
        saved.release = self.release().to_owned();
        saved.machine = self.machine().to_owned();
        saved.possible_cpus = self.possible_cpus();
        saved.config = self.config.get_or_init(KernelConfig::gather).options().clone();
        saved.tracepoints = self.tracepoints().to_vec();
        saved.formats = formats.collect();
        saved.functions = self.kernel_functions().to_vec();
        saved.symbols = BTreeMap::new();
        saved.syscalls = self.syscalls().clone();
        saved.features = Feature::ALL.into_iter().filter(|feature| self.has(*feature)).collect();
        saved.helpers = helpers.collect();
        saved.maps = MapKind::ALL.into_iter().filter(|kind| self.has_map(*kind)).collect();
        saved.modules = self.btf_modules();
        saved.btf_bytes = self.btf().map(|btf| btf.bytes().into());
        saved.module_bytes = self
            .btf_modules()
            .into_iter()
            .filter_map(|module| Some((module.clone(), self.module_btf(&module)?.bytes().into())))
            .collect();
        saved
    }
}

/// `name` or `name [module]`; entries that ftrace made unusable are left out.
fn probed_function(line: &str) -> Option<String> {
    let (name, module) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    if name.starts_with("__ftrace_invalid_address__") {
        return None;
    }
    match module.trim().strip_prefix('[').and_then(|module| module.strip_suffix(']')) {
        Some(module) => Some(format!("{module}:{name}")),
        None => Some(name.to_owned()),
    }
}

impl KernelFacts for LiveFacts {
    fn release(&self) -> &str {
        self.release.get_or_init(|| {
            std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
        })
    }

    fn machine(&self) -> &str {
        std::env::consts::ARCH
    }

    fn possible_cpus(&self) -> u32 {
        *self
            .possible_cpus
            .get_or_init(|| cpu::possible().ok().and_then(|cpus| Some(cpus.last()? + 1)).unwrap_or(1))
    }

    fn host_process_ids(&self) -> bool {
        crate::procfs::process_ids_are_the_hosts()
    }

    fn config(&self, option: &str) -> Option<&str> {
        self.config.get_or_init(KernelConfig::gather).get(option)
    }

    fn btf(&self) -> Option<&Btf> {
        self.btf
            .get_or_init(|| Btf::new(KernelFile::open(&format!("{BTF_DIRECTORY}/vmlinux")).ok()?).ok())
            .as_ref()
    }

    fn btf_modules(&self) -> Vec<String> {
        let entries = std::fs::read_dir(BTF_DIRECTORY).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| name != "vmlinux").collect();
        names.sort_unstable();
        names
    }

    fn module_btf(&self, module: &str) -> Option<&Btf> {
        if module.contains('/') {
            return None;
        }
        let mut modules = self.modules.lock().ok()?;
        *modules.entry(module.to_owned()).or_insert_with(|| {
            let bytes = KernelFile::open(&format!("{BTF_DIRECTORY}/{module}")).ok()?;
            // Kept for the life of the process: a handful of modules at most, each opened once.
            Some(&*Box::leak(Box::new(Btf::split(bytes, self.btf()?).ok()?)))
        })
    }

    fn tracepoints(&self) -> &[String] {
        self.tracepoints.get_or_init(|| {
            let events = self.tracefs().and_then(|tracefs| tracefs.events().ok()).unwrap_or_default();
            let mut names: Vec<String> = events.iter().map(EventName::to_string).collect();
            names.sort_unstable();
            names
        })
    }

    fn tracepoint_format(&self, category: &str, name: &str) -> Option<String> {
        if [category, name].iter().any(|part| part.is_empty() || part.contains('/') || part.starts_with('.'))
        {
            return None;
        }
        self.tracefs()?.format(&EventName { system: category.to_owned(), name: name.to_owned() }).ok()
    }

    fn kernel_functions(&self) -> &[String] {
        self.functions.get_or_init(|| self.read_functions())
    }

    fn kernel_symbol(&self, name: &str) -> Option<u64> {
        self.symbols().find(name).map(|symbol| symbol.address)
    }

    fn syscalls(&self) -> &BTreeMap<u32, String> {
        self.syscalls.get_or_init(crate::syscall_table::names)
    }

    fn has(&self, feature: Feature) -> bool {
        remembered(&self.features, feature, || features::has(feature, self.btf()))
    }

    fn has_helper(&self, program: ProgramType, helper: u32) -> bool {
        remembered(&self.helpers, (program, helper), || {
            let tracepoint = match program {
                ProgramType::Tracing => {
                    self.btf().and_then(|btf| btf.tracepoint("sys_enter")).map(|found| found.id)
                }
                _ => None,
            };
            features::has_helper(program, helper, tracepoint)
        })
    }

    fn has_map(&self, kind: MapKind) -> bool {
        remembered(&self.maps, kind, || features::has_map(kind))
    }
}

/// The answer given before, or a new one.
fn remembered<K: Ord + Copy>(known: &Mutex<BTreeMap<K, bool>>, key: K, ask: impl FnOnce() -> bool) -> bool {
    if let Some(answer) = known.lock().ok().and_then(|known| known.get(&key).copied()) {
        return answer;
    }
    let answer = ask();
    if let Ok(mut known) = known.lock() {
        known.insert(key, answer);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_modules_are_told_apart() {
        assert_eq!(probed_function("vfs_read"), Some("vfs_read".into()));
        assert_eq!(probed_function("ext4_read [ext4]"), Some("ext4:ext4_read".into()));
        assert_eq!(probed_function("__ftrace_invalid_address___7 "), None);
    }

    #[test]
    fn the_running_kernel_answers() {
        let facts = LiveFacts::new();
        assert!(facts.version() > bpf::facts::Version(4, 0, 0), "{}", facts.release());
        assert!(facts.possible_cpus() >= 1);
        assert_eq!(facts.syscalls()[&0], "read");
        let Some(btf) = facts.btf() else { testkit::skipped!("this kernel has no BTF") };
        assert!(btf.tracepoint("sched_switch").is_some());
        assert!(facts.kernel_functions().iter().any(|function| function == "vfs_read"));
        if facts.has(Feature::RawTracepoint) {
            // get_current_pid_tgid is for every tracing program; sk_storage_get for none of raw tracepoints.
            assert!(facts.has_helper(ProgramType::RawTracepoint, 14));
            assert!(!facts.has_helper(ProgramType::RawTracepoint, 107));
        }
    }

    #[test]
    fn a_tracepoint_name_cannot_leave_its_directory() {
        let facts = LiveFacts::new();
        assert_eq!(facts.tracepoint_format("..", "README"), None);
        assert_eq!(facts.tracepoint_format("sched/sched_switch", ""), None);
    }
}
