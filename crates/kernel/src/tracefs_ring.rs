//! One CPU's ring of an instance, read page by page without decoding, and its counters.

use std::fs::File;
use std::io::{self, IoSliceMut, Read};
use std::os::fd::{AsFd, BorrowedFd};

use crate::directory::Directory;
use crate::error::Refused;
use crate::tracefs_instance::Instance;

/// The reading end of one CPU's ring. Reads never wait.
#[derive(Debug)]
pub struct CpuRing {
    cpu: u32,
    file: File,
    name: String,
}

/// What the kernel counted for one CPU's ring since the instance was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RingStats {
    /// Events in the ring that are neither read nor overwritten.
    pub entries: u64,
    /// Events overwritten by newer ones before they were read.
    pub overrun: u64,
    /// Events lost because interrupts filled the whole ring while one event was being written.
    pub commit_overrun: u64,
    /// Bytes of the unread events.
    pub bytes: u64,
    /// Events refused because the ring was full (rings that do not overwrite).
    pub dropped: u64,
    /// Events that were read.
    pub read: u64,
}

impl RingStats {
    /// Everything that reached this ring: read, still there, or lost.
    pub fn written(&self) -> u64 {
        self.entries + self.read + self.lost()
    }

    /// Everything lost, whatever the way.
    pub fn lost(&self) -> u64 {
        self.overrun + self.commit_overrun + self.dropped
    }

    /// Reads the text of a `stats` file. Counters a kernel does not print stay 0.
    pub fn parse(text: &str) -> Self {
        let mut stats = RingStats::default();
        for line in text.lines() {
            let Some((name, value)) = line.split_once(':') else { continue };
            let Ok(value) = value.trim().parse() else { continue };
            match name.trim() {
                "entries" => stats.entries = value,
                "overrun" => stats.overrun = value,
                "commit overrun" => stats.commit_overrun = value,
                "bytes" => stats.bytes = value,
                "dropped events" => stats.dropped = value,
                "read events" => stats.read = value,
                _ => {}
            }
        }
        stats
    }
}

impl Instance {
    /// The counters of one CPU's ring, with the text they came in.
    pub fn stats(&self, cpu: u32) -> Result<(RingStats, String), Refused> {
        stats_in(self.directory(), cpu)
    }
}

fn stats_in(directory: &Directory, cpu: u32) -> Result<(RingStats, String), Refused> {
    let text = directory.read_text(&format!("per_cpu/cpu{cpu}/stats"))?;
    Ok((RingStats::parse(&text), text))
}

impl CpuRing {
    /// Opens one CPU's ring of an instance.
    pub fn open(instance: &Instance, cpu: u32) -> Result<Self, Refused> {
        let path = format!("per_cpu/cpu{cpu}/trace_pipe_raw");
        let file = instance.directory().open_file(&path, true)?;
        Ok(CpuRing { cpu, file, name: instance.directory().name_of(&path) })
    }

    /// The CPU whose events these are.
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Copies pages, also one that is not full yet, into `pages`, which holds a whole number of
    /// pages of the ring's size. Answers how many there were: fewer than asked for when the
    /// ring is empty. One system call, however many pages.
    pub fn read_pages(&self, pages: &mut [u8], page_size: usize) -> Result<usize, Refused> {
        let mut parts: Vec<IoSliceMut<'_>> = pages.chunks_exact_mut(page_size).map(IoSliceMut::new).collect();
        loop {
            match (&self.file).read_vectored(&mut parts) {
                // The kernel answers each part with a page or not at all.
                Ok(got) => return Ok(got / page_size),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(Refused::new("read", &self.name, e)),
            }
        }
    }
}

impl AsFd for CpuRing {
    /// Readable once the ring is as full as the instance's `buffer_percent` says.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_of_a_stats_file_is_read() {
        let text = "entries: 55\noverrun: 3\ncommit overrun: 1\nbytes: 3740\noldest event ts:   626.444750\n\
                    now ts:   626.952355\ndropped events: 2\nread events: 9\n";
        let stats = RingStats::parse(text);
        let expected =
            RingStats { entries: 55, overrun: 3, commit_overrun: 1, bytes: 3740, dropped: 2, read: 9 };
        assert_eq!(stats, expected);
        assert_eq!((stats.lost(), stats.written()), (6, 70));
    }
}
