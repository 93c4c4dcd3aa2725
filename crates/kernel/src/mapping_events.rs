//! What processes map while they are traced, told by the kernel as it happens (perf's MMAP2, FORK, COMM and
//! EXIT records), so that symbols of a process that has exited can still be found.

use std::sync::atomic::Ordering;

use crate::ebpf::map::Memory;
use crate::ebpf::ring::page_size;
use crate::error::Refused;
use crate::perf_event::{PerfEvent, PerfEventAttr, Scope, event_type};
use crate::process_maps::{FileIdentity, Mapping, ProcessMaps, is_file};
use crate::{clock, cpu};
use std::os::fd::AsFd;

const SOFTWARE_DUMMY: u64 = 9;

const FLAG_MMAP: u64 = 1 << 8;
const FLAG_COMM: u64 = 1 << 9;
const FLAG_TASK: u64 = 1 << 13;
const FLAG_MMAP2: u64 = 1 << 23;
const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
const FLAG_COMM_EXEC: u64 = 1 << 24;
const FLAG_USE_CLOCK: u64 = 1 << 25;
const SAMPLE_TIME: u64 = 1 << 2;
const DATA_PAGES: usize = 64;
// struct perf_event_mmap_page.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;
const RECORD_LOST: u32 = 2;
const RECORD_COMM: u32 = 3;
const RECORD_EXIT: u32 = 4;
const RECORD_FORK: u32 = 7;
const RECORD_MMAP2: u32 = 10;
const MISC_COMM_EXEC: u16 = 1 << 13;
const PROT_EXEC: u32 = 4;

/// One ring per CPU of mapping records.
#[derive(Debug)]
pub struct MappingEvents {
    rings: Vec<(PerfEvent, Memory)>,
    /// Read but newer than what other rings were known to hold: a fork on one CPU comes before the exec on
    /// another, whichever ring is read first.
    pending: Vec<(u64, Vec<u8>)>,
}

impl MappingEvents {
    /// Listens on every CPU that is online.
    pub fn open() -> Result<MappingEvents, Refused> {
        let attribute = PerfEventAttr {
            event_type: event_type::SOFTWARE,
            config: SOFTWARE_DUMMY,
            sample_type: SAMPLE_TIME,
            flags: FLAG_MMAP
                | FLAG_COMM
                | FLAG_TASK
                | FLAG_SAMPLE_ID_ALL
                | FLAG_MMAP2
                | FLAG_COMM_EXEC
                | FLAG_USE_CLOCK,
            clockid: libc::CLOCK_MONOTONIC,
            ..PerfEventAttr::default()
        };
        let mut rings = Vec::new();
        for cpu in cpu::online()? {
            let object = format!("mapping events of CPU {cpu}");
            let event = PerfEvent::open(&attribute, Scope::cpu(cpu), &object)?;
            let memory = Memory::map(event.as_fd(), 0, (1 + DATA_PAGES) * page_size(), true)
                .map_err(|e| Refused::new("map", object, e))?;
            rings.push((event, memory));
        }
        Ok(MappingEvents { rings, pending: vec![] })
    }

    /// Takes over what had come when it was called.
    pub fn drain(&mut self, maps: &mut ProcessMaps) {
        let until = clock::monotonic_ns();
        let mut read = Vec::new();
        for (_, memory) in &self.rings {
            take_records(memory, &mut read);
        }
        let mut lost = false;
        for record in read {
            lost |= kind_of(&record) == RECORD_LOST;
            self.pending.push((time_of(&record), record));
        }
        self.pending.sort_by_key(|(time, _)| *time);
        let ready = self.pending.partition_point(|(time, _)| *time <= until);
        for (_, record) in self.pending.drain(..ready) {
            apply(&record, maps);
        }
        // What the kernel had no room to tell is asked, of those who still live.
        if lost {
            maps.remember_all();
        }
    }
}

fn kind_of(record: &[u8]) -> u32 {
    record.first_chunk::<4>().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

/// The time that ends every record.
fn time_of(record: &[u8]) -> u64 {
    record.last_chunk::<8>().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

fn take_records(memory: &Memory, into: &mut Vec<Vec<u8>>) {
    let (page, size) = (page_size(), (DATA_PAGES * page_size()) as u64);
    let head = memory.word(DATA_HEAD).load(Ordering::Acquire);
    let mut tail = memory.word(DATA_TAIL).load(Ordering::Relaxed);
    let word =
        |position: u64| memory.word(page + (position % size) as usize).load(Ordering::Relaxed).to_ne_bytes();
    while tail < head {
        let header = word(tail);
        let length = u64::from(u16::from_ne_bytes([header[6], header[7]]));
        // Records are multiples of 8 bytes; anything else is damage, and then nothing more can be read.
        if length < 8 || !length.is_multiple_of(8) || tail + length > head {
            tail = head;
            break;
        }
        into.push((0..length / 8).flat_map(|at| word(tail + at * 8)).collect());
        tail += length;
    }
    memory.word(DATA_TAIL).store(tail, Ordering::Release);
}

fn apply(record: &[u8], maps: &mut ProcessMaps) -> Option<()> {
    let u32_at = |at: usize| Some(u32::from_ne_bytes(record.get(at..at + 4)?.try_into().ok()?));
    let u64_at = |at: usize| Some(u64::from_ne_bytes(record.get(at..at + 8)?.try_into().ok()?));
    let misc = u16::from_ne_bytes(record.get(4..6)?.try_into().ok()?);
    match u32_at(0)? {
        RECORD_MMAP2 => {
            // pid, tid, addr, len, pgoff, 24 bytes of file identity, prot, flags, name.
            let (pid, start, length, offset) = (u32_at(8)?, u64_at(16)?, u64_at(24)?, u64_at(32)?);
            let name = record.get(72..)?;
            let name = &name[..name.iter().position(|byte| *byte == 0).unwrap_or(name.len())];
            let path = String::from_utf8_lossy(name);
            if u32_at(64)? & PROT_EXEC != 0 && is_file(&path) {
                let end = start.checked_add(length)?;
                let file = FileIdentity { major: u32_at(40)?, minor: u32_at(44)?, inode: u64_at(48)? };
                let path = maps.shared(&path);
                maps.add(pid, Mapping { start, end, offset, path, file });
            }
        }
        // pid, ppid, tid, ptid.
        RECORD_FORK => maps.copy(u32_at(12)?, u32_at(8)?),
        // The same layout; of the last thread only the process goes.
        RECORD_EXIT if u32_at(8)? == u32_at(16)? => maps.exit(u32_at(8)?),
        RECORD_COMM if misc & MISC_COMM_EXEC != 0 => maps.forget(u32_at(8)?),
        _ => {}
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_exited_is_remembered() {
        let mut events = match MappingEvents::open() {
            Ok(events) => events,
            Err(refused) => testkit::skipped!("{refused}"),
        };
        let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let mut maps = ProcessMaps::default();
        events.drain(&mut maps);
        assert!(maps.knows(pid));
    }
}
