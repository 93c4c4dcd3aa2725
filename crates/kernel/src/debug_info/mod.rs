//! DWARF of a traced program, read when a probe asks for it: a function's parameters with where they are at
//! its entry, types as BTF, the code of a source line, where a function was inlined.

mod dwarf;
mod types;
mod places;
mod lines;

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::path::Path;

use bpf::btf::{Btf, TypeId};
use gimli::{DwarfSections, EndianSlice, LittleEndian};

use crate::elf::{ElfFile, NotElf};
use dwarf::{Entry, Units};

pub use lines::NoLine;
pub use places::Place;

/// A function as the debug information has it.
#[derive(Clone, Debug)]
pub struct Function {
    /// The types that `parameters` and `result` number.
    pub types: Btf,
    /// In the order of the source.
    pub parameters: Vec<Parameter>,
    /// The result's type; 0 for none.
    pub result: TypeId,
    /// Whether the result is in the register of integers.
    pub result_in_register: bool,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name; `argN` if it has none.
    pub name: String,
    /// Its type in the function's types.
    pub type_id: TypeId,
    /// Where it is when the function is entered.
    pub place: Place,
}

/// Why there is no debug information.
#[derive(Debug, thiserror::Error)]
pub enum NoDebugInfo {
    /// The file cannot be used.
    #[error(transparent)]
    NotElf(#[from] NotElf),
    /// Neither the file nor a separate one has any.
    #[error("{0} has no debug information: build it with -g, or install its debug symbols")]
    None(String),
    /// It is there but not read.
    #[error("the debug information of {path} cannot be read: {why}")]
    Unusable {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
}

/// The debug information of one file.
pub struct DebugInfo {
    sections: DwarfSections<Vec<u8>>,
    machine: u16,
    names: OnceCell<Names>,
    /// Where functions begin, once several were asked for.
    functions: OnceCell<HashMap<u64, Entry>>,
    asked: Cell<u32>,
}

/// From so many functions on all are listed; for one or two, units that cannot have it are not read.
const FEW: u32 = 8;

/// Where names are defined: unit and offset of the entry.
#[derive(Default)]
struct Names {
    types: HashMap<String, Entry>,
    /// How often a function was inlined.
    inlined: HashMap<String, u32>,
}

/// Bytes of a section.
type Bytes<'a> = EndianSlice<'a, LittleEndian>;

impl DebugInfo {
    /// Reads the sections of a file, or of its separate debug file.
    pub fn open(path: &Path) -> Result<DebugInfo, NoDebugInfo> {
        let elf = ElfFile::open(path)?;
        let has = |elf: &ElfFile| elf.section_by_name(".debug_info").is_some_and(|bytes| !bytes.is_empty());
        let machine = elf.machine();
        let file = if has(&elf) { Some(elf) } else { elf.debug_file().filter(has) };
        let file = file.ok_or_else(|| NoDebugInfo::None(path.display().to_string()))?;
        let load = |id: gimli::SectionId| -> Result<Vec<u8>, std::convert::Infallible> {
            Ok(file.section_by_name(id.name()).unwrap_or_default())
        };
        let Ok(sections) = DwarfSections::load(load);
        let info = DebugInfo {
            sections,
            machine,
            names: OnceCell::new(),
            functions: OnceCell::new(),
            asked: Cell::new(0),
        };
        info.with(|_| Some(())).map_err(|error| NoDebugInfo::Unusable {
            path: path.display().to_string(),
            why: error.to_string(),
        })?;
        Ok(info)
    }

    fn with<T>(&self, step: impl FnOnce(&Units<'_>) -> Option<T>) -> Result<Option<T>, gimli::Error> {
        let dwarf = self.sections.borrow(|section| EndianSlice::new(section, LittleEndian));
        let units = Units::read(&dwarf)?;
        Ok(step(&units))
    }

    /// The function whose code begins at an address.
    pub fn function_at(&self, address: u64) -> Option<Function> {
        self.with(|units| {
            self.asked.set(self.asked.get().saturating_add(1));
            let entry = match self.asked.get() {
                ..FEW => units.function_at(address)?,
                _ => *self.functions.get_or_init(|| units.functions()).get(&address)?,
            };
            let definition = |name: &str| self.names(units).types.get(name).copied();
            let mut types = types::Types::new(units, &definition);
            let (parameters, result, result_in_register) =
                places::parameters(units, entry, address, self.machine, &mut types)?;
            let types = Btf::new(types.finish()).ok()?;
            Some(Function { types, parameters, result, result_in_register })
        })
        .ok()?
    }

    /// A struct, union, enum or typedef by name, with all that it needs.
    pub fn type_named(&self, name: &str) -> Option<Btf> {
        self.with(|units| {
            let entry = *self.names(units).types.get(name)?;
            let definition = |name: &str| self.names(units).types.get(name).copied();
            let mut types = types::Types::new(units, &definition);
            types.of(entry);
            Btf::new(types.finish()).ok()
        })
        .ok()?
    }

    /// At how many places the code of a function was inlined; none if it was not inlined at all. Where it was
    /// folded away, nothing is left.
    pub fn inlined(&self, function: &str) -> Option<u32> {
        let found = self.with(|units| self.names(units).inlined.get(function).copied());
        found.ok().flatten()
    }

    /// Addresses of a source line's code; each begins a run of instructions of that line.
    pub fn line(&self, file: &str, line: u32) -> Result<Vec<u64>, NoLine> {
        self.with(|units| Some(lines::addresses(units, file, line)))
            .ok()
            .flatten()
            .unwrap_or_else(|| Err(NoLine::NoFile { file: file.to_owned(), near: vec![] }))
    }

    fn names(&self, units: &Units<'_>) -> &Names {
        self.names.get_or_init(|| {
            let mut names = Names::default();
            units.each_named(&mut |name, entry| {
                names.types.entry(name).or_insert(entry);
            });
            names.inlined = units.inlined();
            names
        })
    }
}

#[cfg(test)]
mod tests;
