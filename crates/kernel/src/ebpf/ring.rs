//! The BPF ring buffer's consumer (kernel/bpf/ringbuf.c): one consumer page that is ours to write, then
//! the producer page and the data, which the kernel lays out twice in a row so that no record wraps. Of the data
//! only a window is mapped, where records are: the kernel fills in all pages of a mapping at once, and twice the
//! ring would be most of a small program's memory.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use super::map::{Map, Memory};
use crate::error::Refused;

const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const RECORD_HEADER: usize = 8;
/// Bytes of data mapped at a time; more for a record that is longer.
const WINDOW: usize = 256 * 1024;

/// A ring buffer that this process reads.
#[derive(Debug)]
pub struct Ring {
    map: OwnedFd,
    name: String,
    consumer: Memory,
    producer: Memory,
    window: Option<Window>,
    page: usize,
    size: u64,
}

/// A part of the data.
#[derive(Debug)]
struct Window {
    /// Bytes from the start of the data.
    start: usize,
    memory: Memory,
}

impl Ring {
    /// Maps a ring buffer map.
    pub fn open(map: &Map) -> Result<Ring, Refused> {
        let size = u64::from(map.spec().max_entries);
        let name = map.spec().name.clone();
        let page = page_size();
        let consumer = Memory::map(map.as_fd(), 0, page, true).map_err(|e| refused(&name, e))?;
        let producer = Memory::map(map.as_fd(), page, page, false).map_err(|e| refused(&name, e))?;
        let map = map.as_fd().try_clone_to_owned().map_err(|e| refused(&name, e))?;
        Ok(Ring { map, name, consumer, producer, window: None, page, size })
    }

    /// Bytes waiting, of records that may not be complete yet.
    pub fn waiting(&self) -> u64 {
        let produced = self.producer.word(0).load(Ordering::Acquire);
        produced.saturating_sub(self.consumer.word(0).load(Ordering::Relaxed))
    }

    /// Capacity in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Hands over complete records in order until the ring is empty, `take` says stop (false), or as many
    /// bytes as the ring holds have been read, so that a fast producer cannot keep the caller here.
    /// Returns the number of records; an error if the data cannot be mapped.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8]) -> bool) -> Result<usize, Refused> {
        let mut position = self.consumer.word(0).load(Ordering::Relaxed);
        let produced = self.producer.word(0).load(Ordering::Acquire);
        let mut records = 0;
        while position < produced {
            let at = (position & (self.size - 1)) as usize;
            let window = self.reach(at, RECORD_HEADER)?;
            let header = window.memory.word(at - window.start).load(Ordering::Acquire) as u32;
            if header & BUSY != 0 {
                break;
            }
            let length = (header & !(BUSY | DISCARDED)) as usize;
            let mut go_on = true;
            if header & DISCARDED == 0 {
                records += 1;
                let window = self.reach(at, RECORD_HEADER + length)?;
                // SAFETY: the record is committed and lies before the producer position; the kernel does
                // not write there until the consumer position has moved past it, which is below.
                go_on = take(unsafe { window.memory.bytes(at - window.start + RECORD_HEADER, length) });
            }
            position += (length + RECORD_HEADER).next_multiple_of(8) as u64;
            self.consumer.word(0).store(position, Ordering::Release);
            if !go_on {
                break;
            }
        }
        Ok(records)
    }

    /// A window that has these bytes of the data.
    fn reach(&mut self, at: usize, length: usize) -> Result<&Window, Refused> {
        let has = |window: &Window| window.start <= at && at + length <= window.start + window.memory.len();
        let window = match self.window.take().filter(has) {
            Some(window) => window,
            None => {
                let start = at / self.page * self.page;
                let wanted = WINDOW.max((at + length - start).next_multiple_of(self.page));
                let length = wanted.min(2 * self.size as usize - start);
                let memory = Memory::map(self.map.as_fd(), 2 * self.page + start, length, false);
                Window { start, memory: memory.map_err(|e| refused(&self.name, e))? }
            }
        };
        Ok(self.window.insert(window))
    }
}

fn refused(ring: &str, error: std::io::Error) -> Refused {
    Refused::new("map", format!("ring buffer {ring}"), error)
}

/// Bytes of a page of memory.
pub fn page_size() -> usize {
    // SAFETY: no memory is touched.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}
