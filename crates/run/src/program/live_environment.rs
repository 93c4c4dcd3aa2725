//! The compiler's questions about files, loaded programs and cgroups, answered from this machine.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bpf::btf::Btf;
use kernel::debug_info::{DebugInfo, Place};
use kernel::elf::{ElfFile, SymbolKind, find_libraries, library_cache};
use kernel::user_symbols::demangled;
use lang::environment::{
    DebugFunction, DebugParameter, Environment, ParameterPlace, Pattern, Symbol, Unanswered, UsdtNote,
};

/// The machine at hand.
#[derive(Default)]
pub struct LiveEnvironment {
    /// Files are looked for where this process sees them.
    pid: Option<u32>,
    files: RefCell<HashMap<PathBuf, Rc<ElfFile>>>,
    /// Of those files whose debug information was asked for.
    debug: RefCell<HashMap<PathBuf, Result<Rc<DebugInfo>, Unanswered>>>,
    libraries: OnceCell<Vec<(String, String)>>,
}

impl LiveEnvironment {
    /// `pid` is the process that the user traces, if it is one.
    pub fn new(pid: Option<u32>) -> LiveEnvironment {
        LiveEnvironment { pid, ..LiveEnvironment::default() }
    }

    fn elf(&self, path: &str) -> Result<Rc<ElfFile>, Unanswered> {
        let path = Path::new(path);
        if let Some(known) = self.files.borrow().get(path) {
            return Ok(known.clone());
        }
        let elf = Rc::new(ElfFile::open(path).map_err(|error| Unanswered(error.to_string()))?);
        self.files.borrow_mut().insert(path.to_owned(), elf.clone());
        Ok(elf)
    }

    fn debug_info(&self, path: &str) -> Result<Rc<DebugInfo>, Unanswered> {
        let path = Path::new(path);
        if let Some(known) = self.debug.borrow().get(path) {
            return known.clone();
        }
        let read = DebugInfo::open(path).map(Rc::new).map_err(|error| Unanswered(error.to_string()));
        self.debug.borrow_mut().insert(path.to_owned(), read.clone());
        read
    }

    /// A path as this process reaches it.
    fn reach(&self, path: &str) -> Option<String> {
        let inside = self.pid.map(|pid| format!("/proc/{pid}/root{path}"));
        let candidates = inside.into_iter().filter(|_| path.starts_with('/')).chain([path.to_owned()]);
        candidates.into_iter().find(|path| Path::new(path).is_file())
    }
}

/// Paths that match a pattern whose wildcards may stand in any component.
fn matching_paths(pattern: &str) -> Vec<String> {
    let mut found = vec![if pattern.starts_with('/') { "/".to_owned() } else { String::new() }];
    for component in pattern.split('/').filter(|component| !component.is_empty()) {
        let wild = lang::glob::has_wildcard(component);
        let matcher = Pattern::new(component);
        let mut next = Vec::new();
        for base in &found {
            let join = |name: &str| match base.as_str() {
                "" => name.to_owned(),
                base => format!("{}/{name}", base.trim_end_matches('/')),
            };
            if !wild {
                next.push(join(component));
                continue;
            }
            let directory = if base.is_empty() { "." } else { base.as_str() };
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                let name = entry.file_name();
                if let Some(name) = name.to_str().filter(|name| matcher.matches(name)) {
                    next.push(join(name));
                }
            }
        }
        found = next;
    }
    found.retain(|path| Path::new(path).is_file());
    found.sort_unstable();
    found
}

impl Environment for LiveEnvironment {
    fn binaries(&self, name: &str) -> Result<Vec<String>, Unanswered> {
        if name.contains('/') {
            if lang::glob::has_wildcard(name) {
                return Ok(matching_paths(name));
            }
            return Ok(self.reach(name).into_iter().collect());
        }
        let libraries = self
            .libraries
            .get_or_init(|| library_cache(&std::fs::read("/etc/ld.so.cache").unwrap_or_default()));
        let directories = std::env::var("PATH").unwrap_or_default();
        if lang::glob::has_wildcard(name) {
            let directories = directories.split(':').filter(|directory| !directory.is_empty());
            let mut found: Vec<String> =
                directories.flat_map(|directory| matching_paths(&format!("{directory}/{name}"))).collect();
            let pattern = Pattern::new(name);
            found.extend(
                libraries.iter().filter(|(soname, _)| pattern.matches(soname)).map(|(_, path)| path.clone()),
            );
            found.dedup();
            return Ok(found);
        }
        let command =
            directories.split(':').filter(|directory| !directory.is_empty()).find_map(|directory| {
                let path = format!("{directory}/{name}");
                Path::new(&path).is_file().then_some(path)
            });
        match command {
            Some(path) => Ok(vec![path]),
            None => Ok(find_libraries(name, libraries)),
        }
    }

    fn symbols(&self, path: &str, pattern: &Pattern, cpp: bool) -> Result<Vec<Symbol>, Unanswered> {
        let elf = self.elf(path)?;
        let wanted = |name: &str| match cpp {
            true => {
                let full = demangled(name);
                // `cpp:foo` also means `foo(int)`.
                pattern.matches(&full) || pattern.matches(full.split('(').next().unwrap_or(&full))
            }
            false => pattern.matches(name),
        };
        let found = elf.symbols(wanted).into_iter().filter(|symbol| symbol.kind == SymbolKind::Function);
        Ok(found.map(symbol_of).collect())
    }

    fn data_symbol(&self, path: &str, name: &str) -> Result<Option<Symbol>, Unanswered> {
        let elf = self.elf(path)?;
        let found = elf.symbols(|have| have == name).into_iter().next();
        Ok(found.map(symbol_of))
    }

    fn address_to_offset(&self, path: &str, address: u64) -> Result<Option<u64>, Unanswered> {
        Ok(self.elf(path)?.code_offset_of(address))
    }

    fn source_line(&self, path: &str, file: &str, line: u32) -> Result<Vec<u64>, Unanswered> {
        let addresses = self.debug_info(path)?.line(file, line);
        let addresses = addresses.map_err(|error| Unanswered(format!("{path}: {error}")))?;
        let elf = self.elf(path)?;
        Ok(addresses.into_iter().filter_map(|address| elf.code_offset_of(address)).collect())
    }

    fn debug_function(&self, path: &str, function: &Symbol) -> Result<Option<DebugFunction>, Unanswered> {
        let Some(found) = self.debug_info(path)?.function_at(function.address) else { return Ok(None) };
        let parameters = found.parameters.into_iter().map(|parameter| DebugParameter {
            name: parameter.name,
            type_id: parameter.type_id,
            place: match parameter.place {
                Place::Register(name) => ParameterPlace::Register(name),
                Place::Stack(offset) => ParameterPlace::Stack(offset),
                Place::Constant(value) => ParameterPlace::Constant(value),
                Place::Unreadable(why) => ParameterPlace::Unreadable(why),
            },
        });
        let result = if found.result_in_register { found.result } else { 0 };
        Ok(Some(DebugFunction { types: found.types, parameters: parameters.collect(), result }))
    }

    fn debug_type(&self, path: &str, name: &str) -> Result<Option<Btf>, Unanswered> {
        // Files without debug information have no types: whoever needs one hears that it is unknown.
        Ok(self.debug_info(path).ok().and_then(|info| info.type_named(name)))
    }

    fn inlined(&self, path: &str, function: &str) -> Result<Option<u32>, Unanswered> {
        Ok(self.debug_info(path).ok().and_then(|info| info.inlined(function)))
    }

    fn usdt(&self, path: &str, provider: &Pattern, name: &Pattern) -> Result<Vec<UsdtNote>, Unanswered> {
        let probes = self.elf(path)?.static_probes().into_iter();
        let wanted = probes.filter(|probe| provider.matches(&probe.provider) && name.matches(&probe.name));
        Ok(wanted
            .map(|probe| UsdtNote {
                provider: probe.provider,
                name: probe.name,
                file_offset: probe.file_offset,
                semaphore_offset: probe.semaphore_offset,
                arguments: probe.arguments,
            })
            .collect())
    }

    fn bpf_functions(
        &self,
        program: Option<u32>,
        pattern: &Pattern,
    ) -> Result<Vec<(u32, String)>, Unanswered> {
        let loaded =
            kernel::ebpf::types::loaded_programs().into_iter().map(|(_, facts)| (facts.id, facts.name));
        let wanted =
            loaded.filter(|(id, name)| program.is_none_or(|wanted| wanted == *id) && pattern.matches(name));
        Ok(wanted.collect())
    }

    fn cgroup_id(&self, path: &str) -> Result<Option<u64>, Unanswered> {
        match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => Ok(Some(metadata.ino())),
            Ok(_) => Err(Unanswered(format!("{path} is no cgroup directory"))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Unanswered(format!("cannot read {path}: {error}"))),
        }
    }

    fn import(&self, path: &str) -> Result<String, Unanswered> {
        std::fs::read_to_string(path).map_err(|error| Unanswered(format!("cannot read {path}: {error}")))
    }
}

fn symbol_of(symbol: kernel::elf::ElfSymbol) -> Symbol {
    let full = demangled(&symbol.name);
    Symbol {
        demangled: (full != symbol.name).then_some(full),
        name: symbol.name,
        address: symbol.address,
        file_offset: symbol.file_offset,
        size: symbol.size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_paths_and_libraries_are_found() {
        let environment = LiveEnvironment::new(None);
        let shell = environment.binaries("sh").unwrap();
        assert!(shell.len() == 1 && shell[0].ends_with("/sh"), "{shell:?}");
        assert_eq!(environment.binaries("/no/such/file").unwrap(), Vec::<String>::new());
        assert_eq!(matching_paths("/et[c]/pass*d"), ["/etc/passwd"]);
    }

    #[test]
    fn symbols_match_by_pattern() {
        let environment = LiveEnvironment::new(None);
        let own = std::env::current_exe().unwrap();
        let found = environment.symbols(own.to_str().unwrap(), &Pattern::new("mai?"), false).unwrap();
        assert!(found.iter().any(|symbol| symbol.name == "main" && symbol.file_offset > 0), "{found:?}");
    }
}
