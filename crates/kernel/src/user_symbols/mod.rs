//! Names for user-space addresses: the symbol tables of executables and libraries, the perf maps of
//! just-in-time compilers. Offsets are those of the symbol tables, which also hold for functions that the
//! compiler split.

mod demangle;
mod table;
mod perf_map;
mod open;

pub use demangle::demangled;

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::process_maps::{FileIdentity, Mapping, ProcessMaps};
use perf_map::PerfMap;
use table::FileSymbols;

/// Where an address lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserPlace {
    /// Function, demangled if asked for, and the distance from its start; none if no symbol covers the address.
    pub function: Option<(Rc<str>, u64)>,
    /// The file.
    pub path: Rc<Path>,
    /// Offset in the file.
    pub file_offset: u64,
    /// The file's build id; empty without one.
    pub build_id: Rc<[u8]>,
}

/// Symbols of files, read when first needed and kept.
#[derive(Default)]
pub struct UserSymbols {
    files: HashMap<Key, Option<Rc<FileSymbols>>>,
    /// Files opened while a process that has them mapped was there: the names may mean others later.
    held: HashMap<Key, File>,
    jit: HashMap<u32, PerfMap>,
    bytes: usize,
    /// Show C++ and Rust names as in their source.
    pub demangle: bool,
}

/// The file itself; the path for those without an inode, and where inodes of two file systems meet.
type Key = (FileIdentity, Rc<Path>);

/// Files held open for later.
const MOST_HELD: usize = 256;
/// Bytes of symbols that are kept; beyond, all are dropped and read again as needed.
const MOST_BYTES: usize = 512 << 20;
/// Processes whose perf maps are kept.
const MOST_PERF_MAPS: usize = 256;

impl UserSymbols {
    /// Where an address of a process lies. None if no mapping is known there.
    pub fn find(&mut self, maps: &ProcessMaps, pid: u32, address: u64) -> Option<UserPlace> {
        let Some(mapping) = maps.find(pid, address) else { return self.find_jit(maps, pid, address) };
        let file_offset = address - mapping.start + mapping.offset;
        let file = self.file(maps, pid, mapping);
        let function = file.as_ref().and_then(|file| file.function_at(file_offset, self.demangle));
        let build_id = file.map_or_else(Rc::default, |file| file.build_id.clone());
        Some(UserPlace { function, path: mapping.path.clone(), file_offset, build_id })
    }

    /// Opens a file that a process has just mapped, so that it is there when its symbols are asked for, even
    /// if process, name and container are gone by then.
    pub fn hold(&mut self, maps: &ProcessMaps, pid: u32, mapping: &Mapping) {
        let key = (mapping.file, mapping.path.clone());
        if self.held.len() < MOST_HELD
            && !self.held.contains_key(&key)
            && !self.files.contains_key(&key)
            && let Some(file) = open::file(maps, pid, mapping)
        {
            self.held.insert(key, file);
        }
    }

    fn file(&mut self, maps: &ProcessMaps, pid: u32, mapping: &Mapping) -> Option<Rc<FileSymbols>> {
        let key = (mapping.file, mapping.path.clone());
        if let Some(known) = self.files.get(&key) {
            return known.clone();
        }
        let held = self.held.remove(&key);
        let elf = open::elf(maps, pid, mapping, held);
        let read = elf.map(|elf| Rc::new(FileSymbols::read(&elf)));
        self.bytes += read.as_ref().map_or(0, |file| file.bytes());
        if self.bytes > MOST_BYTES {
            self.files.clear();
            self.bytes = read.as_ref().map_or(0, |file| file.bytes());
        }
        self.files.insert(key, read.clone());
        read
    }

    fn find_jit(&mut self, maps: &ProcessMaps, pid: u32, address: u64) -> Option<UserPlace> {
        if self.jit.len() >= MOST_PERF_MAPS && !self.jit.contains_key(&pid) {
            self.jit.clear();
        }
        let map = self.jit.entry(pid).or_default();
        let (name, offset) = map.find(&maps.root(pid), pid, address)?;
        Some(UserPlace {
            function: Some((name, offset)),
            path: PathBuf::from(format!("/tmp/perf-{pid}.map")).into(),
            file_offset: 0,
            build_id: Rc::default(),
        })
    }
}

#[cfg(test)]
mod tests;
