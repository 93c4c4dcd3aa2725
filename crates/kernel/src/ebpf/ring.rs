//! The BPF ring buffer's consumer (kernel/bpf/ringbuf.c): one consumer page that is ours to write, then
//! the producer page and the data, mapped twice in a row so that no record wraps.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use super::map::{Map, Memory};
use crate::error::Refused;

const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const RECORD_HEADER: usize = 8;

/// A ring buffer that this process reads.
#[derive(Debug)]
pub struct Ring {
    consumer: Memory,
    producer: Memory,
    page: usize,
    size: u64,
}

impl Ring {
    /// Maps a ring buffer map.
    pub fn open(map: &Map) -> Result<Ring, Refused> {
        let size = map.spec().max_entries as usize;
        let page = page_size();
        let refused = |e| Refused::new("map", format!("ring buffer {}", map.spec().name), e);
        let consumer = Memory::map(map.as_fd(), 0, page, true).map_err(refused)?;
        let producer = Memory::map(map.as_fd(), page, page + 2 * size, false).map_err(refused)?;
        Ok(Ring { consumer, producer, page, size: size as u64 })
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
    /// Returns the number of records.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8]) -> bool) -> usize {
        let mut position = self.consumer.word(0).load(Ordering::Relaxed);
        let produced = self.producer.word(0).load(Ordering::Acquire);
        let mut records = 0;
        while position < produced {
            let at = self.page + (position & (self.size - 1)) as usize;
            let header = self.producer.word(at).load(Ordering::Acquire) as u32;
            if header & BUSY != 0 {
                break;
            }
            let length = (header & !(BUSY | DISCARDED)) as usize;
            let mut go_on = true;
            if header & DISCARDED == 0 {
                records += 1;
                // SAFETY: the record is committed and lies before the producer position; the kernel does
                // not write there until the consumer position has moved past it, which is below.
                go_on = take(unsafe { self.producer.bytes(at + RECORD_HEADER, length) });
            }
            position += (length + RECORD_HEADER).next_multiple_of(8) as u64;
            self.consumer.word(0).store(position, Ordering::Release);
            if !go_on {
                break;
            }
        }
        records
    }
}

/// Bytes of a page of memory.
pub fn page_size() -> usize {
    // SAFETY: no memory is touched.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}
