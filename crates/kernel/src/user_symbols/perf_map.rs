//! What just-in-time compilers write for perf: `/tmp/perf-PID.map`, lines of `START SIZE name`.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::process_maps::Root;

/// A map larger than this is read up to here.
const LARGEST: u64 = 256 << 20;
/// A map that has not got an address is looked at again after this time.
const PATIENCE: Duration = Duration::from_millis(100);

/// The map of one process; empty if there is none.
#[derive(Default)]
pub struct PerfMap {
    symbols: Vec<JitSymbol>,
    /// Length and time of the file when it was read.
    version: Option<(u64, i64, i64)>,
    looked: Option<Instant>,
    /// Held open: the process may be gone when its names are asked for.
    file: Option<File>,
}

#[derive(Debug, PartialEq, Eq)]
struct JitSymbol {
    start: u64,
    size: u64,
    name: Rc<str>,
}

impl PerfMap {
    /// The function at an address, and the distance from its start. The compiler may have written more since
    /// the last look.
    pub fn find(&mut self, root: &Root, pid: u32, address: u64) -> Option<(Rc<str>, u64)> {
        if let Some(found) = self.known(address) {
            return Some(found);
        }
        if self.looked.is_some_and(|looked| looked.elapsed() < PATIENCE) {
            return None;
        }
        self.looked = Some(Instant::now());
        self.read(root, pid).and_then(|()| self.known(address))
    }

    fn known(&self, address: u64) -> Option<(Rc<str>, u64)> {
        let after = self.symbols.partition_point(|symbol| symbol.start <= address);
        // Memory is used again: of symbols at one place the last written counts.
        let symbol = self.symbols.get(after.checked_sub(1)?)?;
        let offset = address - symbol.start;
        (offset < symbol.size).then(|| (symbol.name.clone(), offset))
    }

    /// None if nothing is new.
    fn read(&mut self, root: &Root, pid: u32) -> Option<()> {
        if self.file.is_none() {
            self.file = paths(root, pid).iter().find_map(|path| File::open(path).ok());
        }
        let file = self.file.as_ref()?;
        let metadata = file.metadata().ok().filter(|metadata| metadata.is_file())?;
        let version = (metadata.len(), metadata.mtime(), metadata.mtime_nsec());
        if self.version.replace(version) == Some(version) {
            return None;
        }
        let mut text = Vec::new();
        let mut from_start = file;
        std::io::Seek::rewind(&mut from_start).ok()?;
        from_start.take(LARGEST).read_to_end(&mut text).ok()?;
        self.symbols = String::from_utf8_lossy(&text).lines().filter_map(parse_line).collect();
        self.symbols.sort_by_key(|symbol| symbol.start);
        Some(())
    }
}

/// A process in a container writes under the number that it has there, into its own /tmp.
fn paths(root: &Root, pid: u32) -> Vec<PathBuf> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let inner = numbers.and_then(|numbers| numbers.split_whitespace().last()?.parse().ok()).unwrap_or(pid);
    let name = format!("tmp/perf-{inner}.map");
    let mut paths = vec![PathBuf::from(format!("/proc/{pid}/root")).join(&name)];
    match root {
        Root::Own => paths.push(Path::new("/").join(&name)),
        Root::Other(root) => paths.push(root.join(&name)),
    }
    paths
}

fn parse_line(line: &str) -> Option<JitSymbol> {
    let mut parts = line.splitn(3, ' ');
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    Some(JitSymbol {
        start: number(parts.next()?)?,
        size: number(parts.next()?)?,
        name: parts.next()?.trim().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perf_maps_are_read_and_read_again_when_they_grow() {
        let pid = std::process::id();
        let path = PathBuf::from(format!("/tmp/perf-{pid}.map"));
        std::fs::write(&path, "7f00 20 LazyCompile:~add file.js:1\nnonsense\n7f00 20 again\n").unwrap();
        let mut map = PerfMap::default();
        let mut find = |address| map.find(&Root::Own, pid, address).map(|(name, at)| (name.to_string(), at));
        assert_eq!(find(0x7f05), Some(("again".into(), 5)));
        assert_eq!(find(0x8000), None);
        std::fs::write(&path, "7f00 20 again\n0x8000 10 later\n").unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while find(0x8000).is_none() {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(20));
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(find(0x8001), Some(("later".into(), 1)), "kept when the file is gone");
    }

    #[test]
    fn lines_have_hexadecimal_numbers() {
        let symbol = parse_line("7f00 20 LazyCompile:~add file.js:1").unwrap();
        assert_eq!((symbol.start, symbol.size, &*symbol.name), (0x7f00, 0x20, "LazyCompile:~add file.js:1"));
        assert_eq!(parse_line("zz 1 x"), None);
    }
}
