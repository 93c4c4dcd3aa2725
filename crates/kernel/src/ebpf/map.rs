//! Maps: create, read whole, change, share memory with.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use bpf::map::{MapKind, MapSpec, flags};

use super::call::*;
use crate::error::Refused;

const MAP_UPDATE: u32 = 2;
const MAP_DELETE: u32 = 3;
const MAP_GET_NEXT_KEY: u32 = 4;
const MAP_LOOKUP_AND_DELETE: u32 = 21;
const MAP_FREEZE: u32 = 22;
const DELETE_BATCH: u32 = 27;

/// A map that this process created.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    spec: MapSpec,
    possible_cpus: u32,
}

/// Keys and values of a map, copied out. Values of per-CPU maps hold one value per possible CPU, each
/// padded to 8 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// Bytes of one key.
    pub key_size: usize,
    /// Bytes of one entry's value, of all CPUs.
    pub value_size: usize,
    /// Keys, one after the other.
    pub keys: Vec<u8>,
    /// Values, one after the other.
    pub values: Vec<u8>,
}

impl Entries {
    /// Each key with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.keys.chunks_exact(self.key_size.max(1)).zip(self.values.chunks_exact(self.value_size.max(1)))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.keys.len() / self.key_size.max(1)
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

impl Map {
    /// Creates the map; `max_entries` 0 means one for each possible CPU. Writes and freezes what the spec
    /// says.
    pub fn create(spec: &MapSpec, possible_cpus: u32) -> Result<Map, Refused> {
        let max_entries = if spec.max_entries == 0 { possible_cpus } else { spec.max_entries };
        let mut attribute = MapCreate {
            map_type: spec.kind.number(),
            key_size: spec.key_size,
            value_size: spec.value_size,
            max_entries,
            map_flags: spec.flags,
            map_name: object_name(spec.name.trim_start_matches('@')),
            ..MapCreate::default()
        };
        let fd = with_memlock(|| bpf_fd(&mut attribute)).map_err(|e| create_refused(spec, e))?;
        let map = Map { fd, spec: MapSpec { max_entries, ..spec.clone() }, possible_cpus };
        if let Some(initial) = &spec.initial {
            map.update(&0u32.to_ne_bytes(), initial, 0)?;
        }
        if spec.frozen {
            let mut attribute = map.element(&[], 0, 0);
            bpf_command(MAP_FREEZE, &mut attribute).map_err(|e| map.refused("freeze", e))?;
        }
        Ok(map)
    }

    /// What it was created from.
    pub fn spec(&self) -> &MapSpec {
        &self.spec
    }

    /// Bytes that a lookup answers: for per-CPU maps, of all CPUs.
    pub fn value_bytes(&self) -> usize {
        if self.spec.kind.per_cpu() {
            (self.spec.value_size as usize).next_multiple_of(8) * self.possible_cpus as usize
        } else {
            self.spec.value_size as usize
        }
    }

    /// The value of a key, if it has one.
    pub fn lookup(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Refused> {
        let mut value = vec![0u8; self.value_bytes()];
        let mut attribute = self.element(key, address_of_mut(&mut value), 0);
        match bpf(&mut attribute) {
            Ok(_) => Ok(Some(value)),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(e) => Err(self.refused("read from", e)),
        }
    }

    /// Inserts or overwrites; `value` has [`Map::value_bytes`] bytes.
    pub fn update(&self, key: &[u8], value: &[u8], flags: u64) -> Result<(), Refused> {
        if value.len() != self.value_bytes() {
            return Err(self.refused("write to", io::Error::from_raw_os_error(libc::EINVAL)));
        }
        let mut attribute = self.element(key, address_of(value), flags);
        bpf_command(MAP_UPDATE, &mut attribute).map(drop).map_err(|e| self.refused("write to", e))
    }

    /// Removes a key; false if it was not there.
    pub fn delete(&self, key: &[u8]) -> Result<bool, Refused> {
        let mut attribute = self.element(key, 0, 0);
        match bpf_command(MAP_DELETE, &mut attribute) {
            Ok(_) => Ok(true),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            Err(e) => Err(self.refused("delete from", e)),
        }
    }

    /// Removes a key of a hash map and gives the value it had then, in one step.
    pub fn take(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Refused> {
        let mut value = vec![0u8; self.value_bytes()];
        let mut attribute = self.element(key, address_of_mut(&mut value), 0);
        match bpf_command(MAP_LOOKUP_AND_DELETE, &mut attribute) {
            Ok(_) => Ok(Some(value)),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(e) => Err(self.refused("take from", e)),
        }
    }

    /// All entries of a hash map, in batches where the kernel has them. Entries that programs insert or
    /// delete meanwhile may or may not be among them; none is given twice.
    pub fn entries(&self) -> Result<Entries, Refused> {
        match self.entries_in_batches() {
            Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP | 524)) => {
                self.entries_one_by_one()
            }
            other => other.map_err(|e| self.refused("read from", e)),
        }
    }

    /// Removes every entry of a hash map.
    pub fn clear(&self) -> Result<(), Refused> {
        let entries = self.entries()?;
        if entries.is_empty() {
            return Ok(());
        }
        let mut attribute = MapBatch {
            keys: address_of(&entries.keys),
            count: entries.len() as u32,
            map_fd: self.raw(),
            ..MapBatch::default()
        };
        // Stops with ENOENT at a key that a program removed meanwhile: then go on one by one.
        if bpf_command(DELETE_BATCH, &mut attribute).is_ok() {
            return Ok(());
        }
        for (key, _) in entries.iter() {
            self.delete(key)?;
        }
        Ok(())
    }

    /// Shares the memory of an array made with `BPF_F_MMAPABLE`.
    pub fn share(&self) -> Result<MappedArray, Refused> {
        debug_assert!(self.spec.kind == MapKind::Array && self.spec.flags & flags::MMAPABLE != 0);
        let stride = (self.spec.value_size as usize).next_multiple_of(8);
        let length = stride * self.spec.max_entries as usize;
        let memory = Memory::map(self.fd.as_fd(), 0, length, true).map_err(|e| self.refused("map", e))?;
        Ok(MappedArray { memory })
    }

    fn entries_in_batches(&self) -> io::Result<Entries> {
        let (key_size, value_size) = (self.spec.key_size as usize, self.value_bytes());
        let mut entries = Entries { key_size, value_size, ..Entries::default() };
        // The kernel hands out whole buckets: room for fewer than a bucket's entries is ENOSPC.
        let mut room =
            512.max(64 * 1024 / (key_size + value_size).max(1)).min(self.spec.max_entries as usize + 64);
        // The position is a u32 for hash maps, a key for others; keys may be longer than 4 bytes.
        let mut position = vec![0u8; key_size.max(8)];
        let mut next = position.clone();
        let mut first = true;
        loop {
            let have = entries.keys.len() / key_size.max(1);
            entries.keys.resize((have + room) * key_size, 0);
            entries.values.resize((have + room) * value_size, 0);
            let mut attribute = MapBatch {
                in_batch: if first { 0 } else { address_of(&position) },
                out_batch: address_of_mut(&mut next),
                keys: address_of_mut(&mut entries.keys[have * key_size..]),
                values: address_of_mut(&mut entries.values[have * value_size..]),
                count: room as u32,
                map_fd: self.raw(),
                ..MapBatch::default()
            };
            let outcome = bpf(&mut attribute);
            let got = match &outcome {
                Ok(_) => attribute.count as usize,
                Err(e) if e.raw_os_error() == Some(libc::ENOENT) => attribute.count as usize,
                Err(_) => 0,
            };
            entries.keys.truncate((have + got) * key_size);
            entries.values.truncate((have + got) * value_size);
            match outcome {
                Ok(_) => {
                    first = false;
                    std::mem::swap(&mut position, &mut next);
                }
                Err(e) => match e.raw_os_error() {
                    Some(libc::ENOENT) => return Ok(entries),
                    Some(libc::ENOSPC) if room < 1 << 22 => room *= 2,
                    Some(libc::EINTR | libc::EAGAIN) => {}
                    _ => return Err(e),
                },
            }
        }
    }

    fn entries_one_by_one(&self) -> Result<Entries, Refused> {
        let (key_size, value_size) = (self.spec.key_size as usize, self.value_bytes());
        let mut entries = Entries { key_size, value_size, ..Entries::default() };
        let mut key: Option<Vec<u8>> = None;
        // A key that vanishes makes the kernel start over: bounded, so that a busy map cannot hold us.
        for _ in 0..2 * self.spec.max_entries as usize + 16 {
            let mut next = vec![0u8; key_size];
            let mut attribute =
                self.element(key.as_deref().unwrap_or_default(), address_of_mut(&mut next), 0);
            match bpf_command(MAP_GET_NEXT_KEY, &mut attribute) {
                Ok(_) => {}
                Err(e) if e.raw_os_error() == Some(libc::ENOENT) => break,
                Err(e) => return Err(self.refused("read from", e)),
            }
            if let Some(value) = self.lookup(&next)? {
                entries.keys.extend_from_slice(&next);
                entries.values.extend_from_slice(&value);
            }
            key = Some(next);
        }
        Ok(entries)
    }

    fn element(&self, key: &[u8], value: u64, flags: u64) -> MapElement {
        MapElement { map_fd: self.raw(), key: address_of(key), value, flags, ..MapElement::default() }
    }

    fn raw(&self) -> u32 {
        self.fd.as_raw_fd() as u32
    }

    fn refused(&self, operation: &str, error: io::Error) -> Refused {
        Refused::new(operation, format!("map {}", self.spec.name), error)
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Runs a call that kernels before 5.11 charge to RLIMIT_MEMLOCK; the limit is lifted only if refused.
pub(super) fn with_memlock<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    match call() {
        Err(e) if e.raw_os_error() == Some(libc::EPERM) => {
            let unlimited = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: `unlimited` is a valid rlimit to read.
            if unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &unlimited) } == 0 { call() } else { Err(e) }
        }
        other => other,
    }
}

fn create_refused(spec: &MapSpec, error: io::Error) -> Refused {
    let advice = match error.raw_os_error() {
        Some(libc::EPERM) => super::rights::rights_advice(),
        Some(libc::ENOMEM | libc::E2BIG) => {
            "the map is too large: lower its number of entries (max_map_keys, or let @name = hash(N))".into()
        }
        Some(libc::EINVAL) => format!("this kernel may not know maps of kind {}", spec.kind.name()),
        _ => String::new(),
    };
    let size = format!("{} × ({} + {} bytes)", spec.max_entries, spec.key_size, spec.value_size);
    Refused::new("create", format!("map {} ({}, {size})", spec.name, spec.kind.name()), error).advise(advice)
}

/// Shared memory, unmapped on drop.
#[derive(Debug)]
pub(crate) struct Memory {
    start: NonNull<c_void>,
    length: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; access is through atomics and raw copies.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps `length` bytes of a descriptor from `offset` on.
    pub(crate) fn map(
        fd: BorrowedFd<'_>,
        offset: usize,
        length: usize,
        writable: bool,
    ) -> io::Result<Memory> {
        let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        Memory::map_as(fd, offset, length, protection, libc::MAP_SHARED)
    }

    /// Maps a file for reading only.
    pub(crate) fn map_private(fd: BorrowedFd<'_>, length: usize) -> io::Result<Memory> {
        Memory::map_as(fd, 0, length, libc::PROT_READ, libc::MAP_PRIVATE)
    }

    fn map_as(
        fd: BorrowedFd<'_>,
        offset: usize,
        length: usize,
        protection: i32,
        kind: i32,
    ) -> io::Result<Memory> {
        // SAFETY: a new mapping at an address of the kernel's choice; nothing of ours is overlaid.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), length, protection, kind, fd.as_raw_fd(), offset as libc::off_t)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start).ok_or_else(|| io::Error::from_raw_os_error(libc::EFAULT))?;
        Ok(Memory { start, length })
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// The 8-byte word at a byte offset that is a multiple of 8.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.length, "offset {offset} of {}", self.length);
        // SAFETY: in bounds and aligned (checked above); the memory lives as long as `self`; others write
        // to it at any time, which an atomic allows.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().cast::<u8>().add(offset).cast()) }
    }

    /// Bytes of the mapping.
    ///
    /// # Safety
    /// Nothing may write to the range while the slice lives.
    pub(crate) unsafe fn bytes(&self, offset: usize, length: usize) -> &[u8] {
        assert!(offset <= self.length && length <= self.length - offset);
        // SAFETY: in bounds (checked above); the caller promises that nobody writes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast::<u8>().add(offset), length) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `Memory::map` with this length and is unmapped once.
        unsafe { libc::munmap(self.start.as_ptr(), self.length) };
    }
}

/// An array map's memory, read and written without system calls.
#[derive(Debug)]
pub struct MappedArray {
    memory: Memory,
}

impl MappedArray {
    /// Bytes shared.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether nothing is shared.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The word at a byte offset that is a multiple of 8.
    pub fn load(&self, offset: usize) -> u64 {
        self.memory.word(offset).load(Ordering::Relaxed)
    }

    /// Writes the word at a byte offset that is a multiple of 8.
    pub fn store(&self, offset: usize, value: u64) {
        self.memory.word(offset).store(value, Ordering::Relaxed);
    }

    /// Copies bytes out; each aligned 8-byte word is read whole.
    pub fn copy(&self, offset: usize, length: usize) -> Vec<u8> {
        let first = offset / 8 * 8;
        let mut bytes = Vec::with_capacity(length + 16);
        for at in (first..offset + length).step_by(8) {
            bytes.extend_from_slice(&self.load(at).to_ne_bytes());
        }
        bytes.drain(..offset - first);
        bytes.truncate(length);
        bytes
    }

    /// Zeroes whole words; `offset` and `length` are multiples of 8.
    pub fn zero(&self, offset: usize, length: usize) {
        for at in (offset..offset + length).step_by(8) {
            self.store(at, 0);
        }
    }
}
