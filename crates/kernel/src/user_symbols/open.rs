//! The very file that a process has mapped, not another that has its name by now.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::elf::ElfFile;
use crate::process_maps::{Mapping, ProcessMaps, Root, VDSO};

/// Opens what is mapped; `held` is the file if it was opened before.
pub fn elf(maps: &ProcessMaps, pid: u32, mapping: &Mapping, held: Option<File>) -> Option<ElfFile> {
    if &*mapping.path == Path::new(VDSO) {
        return vdso();
    }
    let file = held.or_else(|| file(maps, pid, mapping))?;
    // Debug files are looked for in the process's own root, or in what is held of it.
    let living = PathBuf::from(format!("/proc/{pid}/root"));
    let root = match maps.root(pid) {
        Root::Own => PathBuf::from("/"),
        Root::Other(_) if living.exists() => living,
        Root::Other(held) => held.to_path_buf(),
    };
    ElfFile::from_file(file, &mapping.path, &root).ok()
}

/// The file: by the mapping itself while it is there and that is allowed, else by its name if that still
/// means the same file.
pub fn file(maps: &ProcessMaps, pid: u32, mapping: &Mapping) -> Option<File> {
    let (start, end) = (mapping.start, mapping.end);
    if let Ok(file) = File::open(format!("/proc/{pid}/map_files/{start:x}-{end:x}"))
        && file.metadata().is_ok_and(|metadata| metadata.is_file() && same_inode(&metadata, mapping))
    {
        return Some(file);
    }
    let relative = mapping.path.strip_prefix("/").ok()?;
    let root = match maps.root(pid) {
        Root::Own => None,
        Root::Other(root) => Some(root),
    };
    let held = root.as_ref().map(|root| root.join(relative));
    let own_view = [Some(PathBuf::from(format!("/proc/{pid}/root")).join(relative)), held];
    let in_own_view =
        own_view.into_iter().flatten().find_map(|path| open_if(&path, |file| is_mapped(file, mapping)));
    // Inode numbers mean the same file only on the same device, so that another view needs both.
    in_own_view.or_else(|| match root {
        None => open_if(&mapping.path, |file| is_mapped(file, mapping)),
        Some(_) => open_if(&mapping.path, |file| same_inode(file, mapping) && same_device(file, mapping)),
    })
}

fn open_if(path: &Path, right: impl Fn(&Metadata) -> bool) -> Option<File> {
    // Opening a named pipe or a device would wait or do things.
    std::fs::metadata(path).ok().filter(Metadata::is_file)?;
    let file = File::open(path).ok()?;
    file.metadata().is_ok_and(|metadata| right(&metadata)).then_some(file)
}

/// Overlay and Btrfs tell stat other numbers than mappings: two that both differ prove nothing; on the same
/// device another inode is another file.
fn is_mapped(file: &Metadata, mapping: &Mapping) -> bool {
    same_inode(file, mapping) || !same_device(file, mapping)
}

fn same_inode(file: &Metadata, mapping: &Mapping) -> bool {
    mapping.file.inode == 0 || file.ino() == mapping.file.inode
}

fn same_device(file: &Metadata, mapping: &Mapping) -> bool {
    (libc::major(file.dev()), libc::minor(file.dev())) == (mapping.file.major, mapping.file.minor)
}

/// The kernel's library, out of the tracer's own memory: every 64-bit process has the same.
fn vdso() -> Option<ElfFile> {
    let text = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = text.lines().find(|line| line.ends_with(VDSO))?;
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let mut bytes = vec![0u8; usize::try_from(end.checked_sub(start)?).ok().filter(|size| *size <= 1 << 20)?];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, start).ok()?;
    ElfFile::from_bytes(bytes, Path::new(VDSO)).ok()
}
