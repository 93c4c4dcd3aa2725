//! Names for user-space addresses: the symbol tables of executables and libraries, the perf maps of
//! just-in-time compilers. Offsets are those of the symbol tables, which also hold for functions that the
//! compiler split.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::elf::{ElfFile, ElfSymbol, SymbolKind};
use crate::process_maps::ProcessMaps;

/// Where an address lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserPlace {
    /// Function, demangled if asked for; none if no symbol covers the address.
    pub function: Option<(String, u64)>,
    /// The file.
    pub path: PathBuf,
    /// Offset in the file.
    pub file_offset: u64,
}

/// Symbols of files, read when first needed and kept.
#[derive(Default)]
pub struct UserSymbols {
    files: HashMap<PathBuf, Option<Rc<FileSymbols>>>,
    jit: HashMap<u32, Rc<Vec<JitSymbol>>>,
    /// Show C++ and Rust names as in their source.
    pub demangle: bool,
}

struct FileSymbols {
    elf: ElfFile,
    /// Functions by offset in the file.
    functions: Vec<ElfSymbol>,
    build_id: Option<Vec<u8>>,
}

#[derive(Debug, PartialEq, Eq)]
struct JitSymbol {
    start: u64,
    size: u64,
    name: String,
}

impl UserSymbols {
    /// Where an address of a process lies. None if no mapping is known there.
    pub fn find(&mut self, maps: &ProcessMaps, pid: u32, address: u64) -> Option<UserPlace> {
        let Some(mapping) = maps.find(pid, address) else { return self.find_jit(pid, address) };
        let file_offset = address - mapping.start + mapping.offset;
        let path = mapping.path.clone();
        let function = self.file(pid, &path).and_then(|file| file.function_at(file_offset));
        let function =
            function.map(|(name, offset)| (if self.demangle { demangled(&name) } else { name }, offset));
        Some(UserPlace { function, path, file_offset })
    }

    /// The build id of a file.
    pub fn build_id(&mut self, pid: u32, path: &Path) -> Option<Vec<u8>> {
        self.file(pid, path)?.build_id.clone()
    }

    fn file(&mut self, pid: u32, path: &Path) -> Option<Rc<FileSymbols>> {
        if let Some(known) = self.files.get(path) {
            return known.clone();
        }
        // The path is the process's own view; it may live in another mount namespace.
        let inside = PathBuf::from(format!("/proc/{pid}/root{}", path.display()));
        let read = [inside.as_path(), path].into_iter().find_map(FileSymbols::read).map(Rc::new);
        self.files.insert(path.to_owned(), read.clone());
        read
    }

    fn find_jit(&mut self, pid: u32, address: u64) -> Option<UserPlace> {
        let symbols = self.jit.entry(pid).or_insert_with(|| Rc::new(read_perf_map(pid)));
        let after = symbols.partition_point(|symbol| symbol.start <= address);
        let symbol = symbols.get(after.checked_sub(1)?)?;
        let offset = address - symbol.start;
        (offset < symbol.size).then(|| UserPlace {
            function: Some((symbol.name.clone(), offset)),
            path: PathBuf::from(format!("/tmp/perf-{pid}.map")),
            file_offset: 0,
        })
    }
}

impl FileSymbols {
    fn read(path: &Path) -> Option<FileSymbols> {
        let elf = ElfFile::open(path).ok()?;
        let mut functions = elf.symbols(|_| true);
        functions.retain(|symbol| symbol.kind == SymbolKind::Function);
        functions.sort_by_key(|symbol| symbol.file_offset);
        let build_id = elf.build_id();
        Some(FileSymbols { elf, functions, build_id })
    }

    fn function_at(&self, file_offset: u64) -> Option<(String, u64)> {
        if !self.elf.is_code(file_offset) {
            return None;
        }
        let after = self.functions.partition_point(|symbol| symbol.file_offset <= file_offset);
        let nearest = self.functions.get(after.checked_sub(1)?)?;
        // Aliases begin at the same place: prefer one that says its size, then the shortest name.
        let same = self.functions[..after]
            .iter()
            .rev()
            .take_while(|symbol| symbol.file_offset == nearest.file_offset);
        let chosen =
            same.min_by_key(|symbol| (symbol.size == 0, symbol.name.starts_with('_'), symbol.name.len()))?;
        let offset = file_offset - chosen.file_offset;
        // Code without a size (assembly) reaches to the next symbol.
        (chosen.size == 0 || offset < chosen.size).then(|| (chosen.name.clone(), offset))
    }
}

/// `START SIZE name`, hexadecimal, as just-in-time compilers write it for perf.
fn read_perf_map(pid: u32) -> Vec<JitSymbol> {
    let inside = format!("/proc/{pid}/root/tmp/perf-{pid}.map");
    let text =
        std::fs::read(&inside).or_else(|_| std::fs::read(format!("/tmp/perf-{pid}.map"))).unwrap_or_default();
    let mut symbols: Vec<JitSymbol> =
        String::from_utf8_lossy(&text).lines().filter_map(parse_perf_map_line).collect();
    symbols.sort_by_key(|symbol| symbol.start);
    symbols
}

fn parse_perf_map_line(line: &str) -> Option<JitSymbol> {
    let mut parts = line.splitn(3, ' ');
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    Some(JitSymbol {
        start: number(parts.next()?)?,
        size: number(parts.next()?)?,
        name: parts.next()?.trim().to_owned(),
    })
}

/// A C++ or Rust name as in its source; others as they are.
pub fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && let Ok(text) = symbol.demangle()
    {
        return text;
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[unsafe(no_mangle)]
    #[inline(never)]
    extern "C" fn lotse_symbol_for_the_user_symbol_test(n: u64) -> u64 {
        std::hint::black_box(n) * 3
    }

    #[test]
    fn an_address_of_this_process_has_its_function() {
        let mut maps = ProcessMaps::default();
        let pid = std::process::id();
        maps.remember(pid);
        let mut symbols = UserSymbols::default();
        let address = lotse_symbol_for_the_user_symbol_test as *const () as u64;
        let place = symbols.find(&maps, pid, address + 1).unwrap();
        assert_eq!(place.function, Some(("lotse_symbol_for_the_user_symbol_test".into(), 1)));
        assert_eq!(symbols.find(&maps, pid, 1), None);
        assert_eq!(lotse_symbol_for_the_user_symbol_test(2), 6);
    }

    #[test]
    fn names_are_demangled() {
        assert_eq!(demangled("_ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(demangled("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(demangled("main"), "main");
    }

    #[test]
    fn perf_maps_are_read() {
        let symbol = parse_perf_map_line("7f00 20 LazyCompile:~add file.js:1").unwrap();
        assert_eq!(
            (symbol.start, symbol.size, symbol.name.as_str()),
            (0x7f00, 0x20, "LazyCompile:~add file.js:1")
        );
        assert_eq!(parse_perf_map_line("zz 1 x"), None);
    }
}
