//! Where a stripped file's symbols and debug information went: a file by build id, a file that the
//! stripped one names, a small table inside it.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::file::{ElfFile, c_string, u32_at};

/// A small table grows to this at most.
const LARGEST_MINI_DEBUG: u64 = 64 << 20;
/// Files that are named are checked whole; larger ones are not.
const LARGEST_CHECKED: u64 = 1 << 30;

impl ElfFile {
    /// The separate debug file: by build id, else by `.gnu_debuglink`; looked for below the root directory
    /// of the process that runs the file, then below the tracer's own.
    pub fn debug_file(&self) -> Option<ElfFile> {
        self.by_build_id().or_else(|| self.by_name())
    }

    fn by_build_id(&self) -> Option<ElfFile> {
        let id = self.build_id()?;
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let (first, rest) = hex.split_at_checked(2)?;
        let name = format!("usr/lib/debug/.build-id/{first}/{rest}.debug");
        // Paths go by way of the root, and links in it that begin with / would lead out of it again: the
        // build id tells whether it is the right file.
        self.roots().find_map(|root| {
            ElfFile::open(root.join(&name)).ok().filter(|file| file.build_id().as_deref() == Some(&id[..]))
        })
    }

    /// `name NUL padding crc32`, beside the file, in `.debug` there, or below /usr/lib/debug.
    fn by_name(&self) -> Option<ElfFile> {
        let link = self.section_by_name(".gnu_debuglink")?;
        let name = std::str::from_utf8(c_string(&link, 0)).ok().filter(|name| !name.contains('/'))?;
        let crc_at = (name.len() + 1).next_multiple_of(4);
        let wanted = u32_at(link.get(crc_at..crc_at + 4)?, 0);
        let directory = self.path().parent()?.strip_prefix("/").ok()?;
        let places = [
            directory.join(name),
            directory.join(".debug").join(name),
            Path::new("usr/lib/debug").join(directory).join(name),
        ];
        let candidates = self.roots().flat_map(|root| places.iter().map(move |place| root.join(place)));
        candidates.into_iter().find_map(|path| {
            let size = std::fs::metadata(&path).ok().filter(|file| file.is_file())?.len();
            let right = size <= LARGEST_CHECKED && crc32_of(&path) == Some(wanted);
            right.then(|| ElfFile::open(&path).ok()).flatten()
        })
    }

    fn roots(&self) -> impl Iterator<Item = PathBuf> + use<> {
        let own = PathBuf::from("/");
        let other = (self.root != own).then(|| self.root.clone());
        other.into_iter().chain([own])
    }

    /// The symbols that Fedora and others leave in stripped files, compressed (`.gnu_debugdata`).
    pub(super) fn mini_debug_file(&self) -> Option<ElfFile> {
        let packed = self.section_by_name(".gnu_debugdata")?;
        let mut bytes = Vec::new();
        let reader = lzma_rust2::XzReader::new(packed.as_slice(), false);
        reader.take(LARGEST_MINI_DEBUG).read_to_end(&mut bytes).ok()?;
        ElfFile::from_bytes(bytes, self.path()).ok()
    }
}

/// CRC-32 as zip has it, of a whole file.
fn crc32_of(path: &Path) -> Option<u32> {
    let table: Vec<u32> = (0..256u32)
        .map(|byte| {
            (0..8).fold(byte, |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 })
        })
        .collect();
    let mut file = std::fs::File::open(path).ok()?;
    let mut buffer = vec![0u8; 64 << 10];
    let mut crc = u32::MAX;
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(!crc),
            read => {
                for byte in &buffer[..read] {
                    crc = (crc >> 8) ^ table[((crc ^ u32::from(*byte)) & 0xff) as usize];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_zip() {
        let path = std::env::temp_dir().join(format!("lotse-crc-{}", std::process::id()));
        std::fs::write(&path, b"123456789").unwrap();
        assert_eq!(crc32_of(&path), Some(0xcbf4_3926));
        std::fs::remove_file(&path).unwrap();
    }
}
