//! Which files a process has mapped where, kept after the process is gone.

use std::collections::HashMap;
use std::path::PathBuf;

/// Part of a file mapped as code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Offset in the file of the first address.
    pub offset: u64,
    /// The file, as the process itself names it; `[vdso]` and the like are none.
    pub path: PathBuf,
}

/// Executable mappings of processes.
#[derive(Debug, Default)]
pub struct ProcessMaps {
    processes: HashMap<u32, Vec<Mapping>>,
}

impl ProcessMaps {
    /// Reads what the processes that live now have mapped.
    pub fn of_all() -> ProcessMaps {
        let mut maps = ProcessMaps::default();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                maps.remember(pid);
            }
        }
        maps
    }

    /// Reads what a process has mapped now, if it lives; what is known stays if not.
    pub fn remember(&mut self, pid: u32) {
        let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/maps")) else { return };
        let mappings: Vec<Mapping> = text.lines().filter_map(parse_line).collect();
        if !mappings.is_empty() {
            self.processes.insert(pid, mappings);
        }
    }

    /// A new mapping that the kernel told of. What it covers of older ones is theirs no more.
    pub fn add(&mut self, pid: u32, mapping: Mapping) {
        let known = self.processes.entry(pid).or_default();
        known.retain(|old| old.end <= mapping.start || old.start >= mapping.end);
        known.push(mapping);
    }

    /// A process began to run another program: its mappings are gone.
    pub fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    /// A new process has what its parent has.
    pub fn copy(&mut self, parent: u32, child: u32) {
        if parent != child
            && let Some(mappings) = self.processes.get(&parent).cloned()
        {
            self.processes.insert(child, mappings);
        }
    }

    /// Whether anything is known of a process.
    pub fn knows(&self, pid: u32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// The mapping an address lies in.
    pub fn find(&self, pid: u32, address: u64) -> Option<&Mapping> {
        self.processes.get(&pid)?.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))
    }
}

/// `start-end perms offset dev inode path`, executable and of a file.
fn parse_line(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let mut word = || {
        let trimmed = rest.trim_start();
        let (word, after) = trimmed.split_once(' ').unwrap_or((trimmed, ""));
        rest = after;
        word
    };
    let (start, end) = word().split_once('-')?;
    let (permissions, offset) = (word(), word());
    word();
    word();
    let path = rest.trim_start();
    if permissions.as_bytes().get(2) != Some(&b'x') || !path.starts_with('/') {
        return None;
    }
    let number = |text| u64::from_str_radix(text, 16).ok();
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    Some(Mapping {
        start: number(start)?,
        end: number(end)?,
        offset: number(offset)?,
        path: PathBuf::from(path),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_files_is_kept_with_blanks_in_paths() {
        let line = "7f0000001000-7f0000002000 r-xp 00001000 08:01 42        /usr/lib/a b.so (deleted)";
        let expected = Mapping {
            start: 0x7f00_0000_1000,
            end: 0x7f00_0000_2000,
            offset: 0x1000,
            path: PathBuf::from("/usr/lib/a b.so"),
        };
        assert_eq!(parse_line(line), Some(expected));
        assert_eq!(parse_line("7f0000001000-7f0000002000 rw-p 00001000 08:01 42 /usr/lib/a.so"), None);
        assert_eq!(parse_line("7ffe0-7ffe1 r-xp 00000000 00:00 0                  [vdso]"), None);
    }

    #[test]
    fn mappings_outlive_their_process_and_give_way_to_new_ones() {
        let mut maps = ProcessMaps::default();
        let at = |start, path: &str| Mapping { start, end: start + 16, offset: 0, path: path.into() };
        maps.add(7, at(0x100, "/a"));
        maps.copy(7, 8);
        maps.add(7, at(0x108, "/b"));
        assert_eq!(maps.find(7, 0x10a).unwrap().path, PathBuf::from("/b"));
        assert_eq!(maps.find(7, 0x101), None);
        assert_eq!(maps.find(8, 0x101).unwrap().path, PathBuf::from("/a"));
        maps.forget(8);
        assert!(!maps.knows(8));
    }
}
