//! Which files a process has mapped where, kept after the process is gone.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Part of a file mapped as code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Offset in the file of the first address.
    pub offset: u64,
    /// The file, as the process itself names it, or `[vdso]`.
    pub path: Rc<Path>,
    /// The file itself, whatever has its name by now.
    pub file: FileIdentity,
}

/// A file as the kernel tells it of a mapping: device and inode number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Inode; 0 where not told.
    pub inode: u64,
}

/// The root directory of a process: its own view of all paths. Containers have others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// The tracer's own.
    Own,
    /// Another, held open: it outlives the process.
    Other(Rc<Path>),
}

/// Executable mappings of processes.
#[derive(Debug, Default)]
pub struct ProcessMaps {
    processes: HashMap<u32, Process>,
    /// Processes that have exited, the longest gone first.
    exited: VecDeque<u32>,
    roots: Roots,
    paths: HashMap<PathBuf, Rc<Path>>,
    seen: HashSet<FileIdentity>,
    fresh: Vec<(u32, Mapping)>,
}

#[derive(Clone, Debug, Default)]
struct Process {
    mappings: Rc<Vec<Mapping>>,
    root: Option<Root>,
    exited: bool,
}

/// Exited processes that are remembered; of older ones addresses have no names any more.
const MOST_EXITED: usize = 16_384;
/// Paths that are kept once for all processes.
const MOST_PATHS: usize = 65_536;

impl ProcessMaps {
    /// Reads what the processes that live now have mapped.
    pub fn of_all() -> ProcessMaps {
        let mut maps = ProcessMaps::default();
        maps.remember_all();
        maps
    }

    /// The same into what is known already.
    pub fn remember_all(&mut self) {
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                self.remember(pid);
            }
        }
    }

    /// Reads what a process has mapped now, if it lives; what is known stays if not.
    pub fn remember(&mut self, pid: u32) {
        let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/maps")) else { return };
        let mappings: Vec<Mapping> = text.lines().filter_map(|line| self.parse_line(line)).collect();
        if !mappings.is_empty() {
            let root = self.roots.of(pid);
            self.processes.insert(pid, Process { mappings: Rc::new(mappings), root, exited: false });
        }
    }

    /// A new mapping that the kernel told of. What it covers of older ones is theirs no more.
    pub fn add(&mut self, pid: u32, mapping: Mapping) {
        if mapping.file.inode != 0 && self.seen.insert(mapping.file) {
            self.fresh.push((pid, mapping.clone()));
            if self.seen.len() > MOST_PATHS {
                self.seen.clear();
            }
        }
        let known = self.processes.entry(pid).or_default();
        known.exited = false;
        let mappings = Rc::make_mut(&mut known.mappings);
        mappings.retain(|old| old.end <= mapping.start || old.start >= mapping.end);
        mappings.push(mapping);
    }

    /// What a process has mapped now into what is known of it, which stays where nothing new covers it.
    pub fn refresh(&mut self, pid: u32) {
        let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/maps")) else { return };
        for line in text.lines() {
            if let Some(mapping) = self.parse_line(line) {
                self.add(pid, mapping);
            }
        }
    }

    /// Mappings of files that no process was known to have mapped, since the last call: the process is
    /// probably still there.
    pub fn take_fresh(&mut self) -> Vec<(u32, Mapping)> {
        std::mem::take(&mut self.fresh)
    }

    /// A process began to run another program: its mappings are gone.
    pub fn forget(&mut self, pid: u32) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.mappings = Rc::default();
            // A container is entered before its program is run.
            if let Some(root) = self.roots.of(pid) {
                process.root = Some(root);
            }
        }
    }

    /// A new process has what its parent has.
    pub fn copy(&mut self, parent: u32, child: u32) {
        if parent != child
            && let Some(process) = self.processes.get(&parent).cloned()
        {
            self.processes.insert(child, Process { exited: false, ..process });
        }
    }

    /// A process is gone. It stays known until many more are.
    pub fn exit(&mut self, pid: u32) {
        let Some(process) = self.processes.get_mut(&pid).filter(|process| !process.exited) else { return };
        process.exited = true;
        self.exited.push_back(pid);
        if self.exited.len() > MOST_EXITED
            && let Some(oldest) = self.exited.pop_front()
            // Its number may be in use again.
            && self.processes.get(&oldest).is_some_and(|process| process.exited)
        {
            self.processes.remove(&oldest);
        }
    }

    /// Whether anything is known of a process.
    pub fn knows(&self, pid: u32) -> bool {
        self.processes.get(&pid).is_some_and(|process| !process.mappings.is_empty())
    }

    /// The mapping an address lies in.
    pub fn find(&self, pid: u32, address: u64) -> Option<&Mapping> {
        let mappings = &self.processes.get(&pid)?.mappings;
        mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))
    }

    /// Files that a process has mapped.
    pub fn paths(&self, pid: u32) -> Vec<PathBuf> {
        let mappings = self.processes.get(&pid).map(|process| process.mappings.clone()).unwrap_or_default();
        mappings.iter().map(|mapping| mapping.path.to_path_buf()).collect()
    }

    /// The root directory of a process.
    pub fn root(&self, pid: u32) -> Root {
        self.processes.get(&pid).and_then(|process| process.root.clone()).unwrap_or(Root::Own)
    }

    /// The same path once for all who have it mapped.
    pub fn shared(&mut self, path: &str) -> Rc<Path> {
        if let Some(known) = self.paths.get(Path::new(path)) {
            return known.clone();
        }
        let shared: Rc<Path> = Path::new(path).into();
        if self.paths.len() >= MOST_PATHS {
            self.paths.clear();
        }
        self.paths.insert(PathBuf::from(path), shared.clone());
        shared
    }

    /// `start-end perms offset dev inode path`, executable and of a file, or the kernel's own library.
    fn parse_line(&mut self, line: &str) -> Option<Mapping> {
        let mut rest = line;
        let mut word = || {
            let trimmed = rest.trim_start();
            let (word, after) = trimmed.split_once(' ').unwrap_or((trimmed, ""));
            rest = after;
            word
        };
        let (start, end) = word().split_once('-')?;
        let (permissions, offset, device, inode) = (word(), word(), word(), word());
        let path = rest.trim_start();
        if permissions.as_bytes().get(2) != Some(&b'x') || !is_file(path) {
            return None;
        }
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (major, minor) = device.split_once(':')?;
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        Some(Mapping {
            start: number(start)?,
            end: number(end)?,
            offset: number(offset)?,
            path: self.shared(path),
            file: FileIdentity {
                major: u32::from_str_radix(major, 16).ok()?,
                minor: u32::from_str_radix(minor, 16).ok()?,
                inode: inode.parse().ok()?,
            },
        })
    }
}

/// Whether a mapping's name is one of code that can be read.
pub(crate) fn is_file(name: &str) -> bool {
    name.starts_with('/') && !name.starts_with("//") || name == VDSO
}

/// The library that the kernel maps into every process.
pub(crate) const VDSO: &str = "[vdso]";

/// Root directories of other mount namespaces, each held open once.
#[derive(Debug, Default)]
struct Roots {
    own: Option<(u64, PathBuf)>,
    others: HashMap<(u64, PathBuf), Root>,
    held: Vec<std::fs::File>,
}

/// Containers whose root directories are held open.
const MOST_ROOTS: usize = 256;

impl Roots {
    /// None if the process is gone.
    fn of(&mut self, pid: u32) -> Option<Root> {
        let place = |pid: &str| {
            let namespace = std::fs::metadata(format!("/proc/{pid}/ns/mnt")).ok()?.ino();
            Some((namespace, std::fs::read_link(format!("/proc/{pid}/root")).ok()?))
        };
        if self.own.is_none() {
            self.own = place("self");
        }
        let key = place(&pid.to_string())?;
        if self.own.as_ref() == Some(&key) {
            return Some(Root::Own);
        }
        if let Some(known) = self.others.get(&key) {
            return Some(known.clone());
        }
        if self.held.len() >= MOST_ROOTS {
            self.others.clear();
            self.held.clear();
        }
        let file = std::fs::File::open(format!("/proc/{pid}/root")).ok()?;
        use std::os::fd::AsRawFd;
        let root = Root::Other(PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())).into());
        self.held.push(file);
        self.others.insert(key, root.clone());
        Some(root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_files_is_kept_with_blanks_in_paths() {
        let mut maps = ProcessMaps::default();
        let line = "7f0000001000-7f0000002000 r-xp 00001000 08:1a 42        /usr/lib/a b.so (deleted)";
        let expected = Mapping {
            start: 0x7f00_0000_1000,
            end: 0x7f00_0000_2000,
            offset: 0x1000,
            path: Path::new("/usr/lib/a b.so").into(),
            file: FileIdentity { major: 8, minor: 0x1a, inode: 42 },
        };
        assert_eq!(maps.parse_line(line), Some(expected));
        assert_eq!(maps.parse_line("7f0000001000-7f0000002000 rw-p 00001000 08:01 42 /usr/lib/a.so"), None);
        let vdso = maps.parse_line("7ffe0-7ffe1 r-xp 00000000 00:00 0                  [vdso]").unwrap();
        assert_eq!(&*vdso.path, Path::new("[vdso]"));
        assert_eq!(maps.parse_line("7ffe0-7ffe1 r-xp 00000000 00:00 0                  [heap]"), None);
    }

    #[test]
    fn mappings_outlive_their_process_and_give_way_to_new_ones() {
        let mut maps = ProcessMaps::default();
        let at = |start, path: &str| Mapping {
            start,
            end: start + 16,
            offset: 0,
            path: Path::new(path).into(),
            file: FileIdentity::default(),
        };
        maps.add(7, at(0x100, "/a"));
        maps.copy(7, 8);
        maps.add(7, at(0x108, "/b"));
        assert_eq!(&*maps.find(7, 0x10a).unwrap().path, Path::new("/b"));
        assert_eq!(maps.find(7, 0x101), None);
        assert_eq!(&*maps.find(8, 0x101).unwrap().path, Path::new("/a"));
        maps.exit(8);
        assert!(maps.knows(8), "an exited process is remembered");
        maps.forget(8);
        assert!(!maps.knows(8));
    }

    #[test]
    fn exited_processes_are_kept_up_to_a_bound() {
        let mut maps = ProcessMaps::default();
        let mapping = Mapping {
            start: 1,
            end: 2,
            offset: 0,
            path: Path::new("/a").into(),
            file: FileIdentity::default(),
        };
        maps.add(1, mapping);
        let many = 2 * MOST_EXITED as u32;
        for pid in 2..many {
            maps.copy(1, pid);
            maps.exit(pid);
        }
        assert!(maps.knows(1) && maps.knows(many - 1) && !maps.knows(2));
        assert!(maps.processes.len() <= MOST_EXITED + 1 && maps.exited.len() <= MOST_EXITED);
    }
}
