//! Functions and variables by name: out of the full and the dynamic symbol table, Go's own function table,
//! the small table that distributions leave in stripped files, and separate debug files.

use std::collections::HashSet;

use super::file::{ElfFile, c_string, u16_at, u32_at, u64_at};

/// What a symbol names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolKind {
    /// Code.
    Function,
    /// A variable.
    Data,
}

/// A defined symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElfSymbol {
    /// As in the table, without version.
    pub name: String,
    /// Kind.
    pub kind: SymbolKind,
    /// Address that the file gives it.
    pub address: u64,
    /// Bytes; 0 where not said.
    pub size: u64,
    /// Offset of its first byte in the file.
    pub file_offset: u64,
}

/// A symbol as it is met in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundSymbol<'a> {
    /// As in the table, without version.
    pub name: &'a str,
    /// Kind.
    pub kind: SymbolKind,
    /// Address that the file gives it.
    pub address: u64,
    /// Bytes; 0 where not said.
    pub size: u64,
    /// Offset of its first byte in the file that runs.
    pub file_offset: u64,
}

const SYMBOL: usize = 24;
const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;

impl ElfFile {
    /// Symbols whose name `wanted` accepts, sorted by address, each name and address once.
    pub fn symbols(&self, mut wanted: impl FnMut(&str) -> bool) -> Vec<ElfSymbol> {
        let mut found = Vec::new();
        self.each_symbol(&mut |symbol| {
            if wanted(symbol.name) {
                let FoundSymbol { name, kind, address, size, file_offset } = symbol;
                found.push(ElfSymbol { name: name.to_owned(), kind, address, size, file_offset });
            }
        });
        let mut seen = HashSet::new();
        found.retain(|symbol| seen.insert((symbol.name.clone(), symbol.address)));
        found.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
        found
    }

    /// Every symbol, from every table there is; some more than once.
    pub fn each_symbol(&self, each: &mut dyn FnMut(FoundSymbol<'_>)) {
        self.table_symbols(self, each);
        let has_full_table = self.sections.iter().any(|section| section.kind == SHT_SYMTAB);
        if has_full_table {
            return;
        }
        self.go_functions(each);
        if let Some(small) = self.mini_debug_file() {
            small.table_symbols(self, each);
        }
        if let Some(debug) = self.debug_file() {
            // Addresses are the same in both; offsets are those of the file that runs.
            debug.table_symbols(self, each);
        }
    }

    fn table_symbols(&self, running: &ElfFile, each: &mut dyn FnMut(FoundSymbol<'_>)) {
        for table in self.sections.iter().filter(|section| matches!(section.kind, SHT_SYMTAB | SHT_DYNSYM)) {
            let names =
                self.sections.get(table.link as usize).and_then(|section| self.section_bytes(section));
            let (Some(names), Some(rows)) = (names, self.section_bytes(table)) else { continue };
            for row in rows.chunks_exact(SYMBOL) {
                let kind = match row[4] & 15 {
                    // Functions, and those that are chosen when the program starts (IFUNC).
                    2 | 10 => SymbolKind::Function,
                    1 => SymbolKind::Data,
                    _ => continue,
                };
                let (section, address, size) = (u16_at(row, 6), u64_at(row, 8), u64_at(row, 16));
                if section == 0 || address == 0 {
                    continue;
                }
                let Ok(name) = std::str::from_utf8(c_string(&names, u32_at(row, 0) as usize)) else {
                    continue;
                };
                let name = name.split('@').next().unwrap_or(name);
                if name.is_empty() {
                    continue;
                }
                let file_offset = match kind {
                    SymbolKind::Function => running.code_offset_of(address),
                    // Variables that begin as zero are in no file.
                    SymbolKind::Data => Some(running.offset_of(address).unwrap_or(0)),
                };
                let Some(file_offset) = file_offset else { continue };
                each(FoundSymbol { name, kind, address, size, file_offset });
            }
        }
    }

    /// Names of dynamic symbols by their index, for relocations.
    pub(super) fn dynamic_names(&self) -> Vec<String> {
        let Some(table) = self.sections.iter().find(|section| section.kind == SHT_DYNSYM) else {
            return vec![];
        };
        let names = self.sections.get(table.link as usize).and_then(|section| self.section_bytes(section));
        let (Some(names), Some(rows)) = (names, self.section_bytes(table)) else { return vec![] };
        let name =
            |row: &[u8]| String::from_utf8_lossy(c_string(&names, u32_at(row, 0) as usize)).into_owned();
        rows.chunks_exact(SYMBOL).map(name).collect()
    }
}
