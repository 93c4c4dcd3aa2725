//! One CPU's ring of an instance, read page by page without decoding, and its counters.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::directory::Directory;
use crate::error::{Refused, check};
use crate::stop::owned;
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

/// Why pages could not be moved from the ring to a file.
#[derive(Debug)]
pub enum MoveError {
    /// The ring could not be read.
    Ring(Refused),
    /// The file could not be written; these bytes had left the ring already and are handed
    /// over so that their events can be counted.
    File {
        /// What the file said.
        error: io::Error,
        /// Whole or partial pages that are in no file.
        unwritten: Vec<u8>,
    },
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

    /// Moves every full page to the end of `file` through `pipe`, without copying it to this
    /// process. Pages still being written stay. Answers with the bytes moved.
    pub fn move_full_pages(&self, pipe: &PagePipe, file: &File, offset: &mut u64) -> Result<u64, MoveError> {
        let mut moved = 0;
        loop {
            let flags = libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MOVE;
            // SAFETY: null offsets mean "the descriptors' own positions"; both are open.
            let got = check(unsafe {
                let none = std::ptr::null_mut();
                libc::splice(self.file.as_raw_fd(), none, pipe.write.as_raw_fd(), none, pipe.capacity, flags)
                    as _
            });
            let got = match got {
                Ok(0) => return Ok(moved),
                Ok(got) => got as u64,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(moved),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(MoveError::Ring(Refused::new("splice pages from", &self.name, e))),
            };
            pipe.drain_to(file, offset, got)?;
            moved += got;
        }
    }

    /// Copies one page, also one that is not full yet, into `page`, which has to be of the
    /// ring's page size. Answers false when the ring is empty.
    pub fn read_page(&self, page: &mut [u8]) -> Result<bool, Refused> {
        loop {
            match (&self.file).read(page) {
                Ok(0) => return Ok(false),
                // Less than a page does not happen; the remainder is cleared all the same.
                Ok(got) => {
                    page[got..].fill(0);
                    return Ok(true);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
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

/// The pipe that splicing needs between a ring and a file.
#[derive(Debug)]
pub struct PagePipe {
    read: OwnedFd,
    write: OwnedFd,
    capacity: usize,
}

impl PagePipe {
    /// A pipe for up to `capacity` bytes, or as many as the kernel grants (64 KiB at least).
    pub fn new(capacity: usize) -> Result<Self, Refused> {
        let mut fds = [0i32; 2];
        // SAFETY: `fds` has room for the two descriptors.
        check(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) }.into())
            .map_err(|e| Refused::new("make", "a pipe", e))?;
        let own = |fd: i32| owned(fd.into()).map_err(|e| Refused::new("make", "a pipe", e));
        let (read, write) = (own(fds[0])?, own(fds[1])?);
        // SAFETY: integer arguments only.
        let granted = unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETPIPE_SZ, capacity as libc::c_int) };
        let capacity = if granted > 0 { granted as usize } else { 65_536 };
        Ok(PagePipe { read, write, capacity })
    }

    fn drain_to(&self, file: &File, offset: &mut u64, mut bytes: u64) -> Result<(), MoveError> {
        while bytes > 0 {
            let mut at = *offset as libc::loff_t;
            // SAFETY: `at` is a valid offset to read and write; both descriptors are open.
            let put = check(unsafe {
                let none = std::ptr::null_mut();
                libc::splice(
                    self.read.as_raw_fd(),
                    none,
                    file.as_raw_fd(),
                    &mut at,
                    bytes as usize,
                    libc::SPLICE_F_MOVE,
                ) as _
            });
            let error = match put {
                Ok(put) if put > 0 => {
                    *offset += put as u64;
                    bytes -= put as u64;
                    continue;
                }
                Ok(_) => io::Error::from(io::ErrorKind::WriteZero),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => e,
            };
            return Err(MoveError::File { error, unwritten: self.take(bytes) });
        }
        Ok(())
    }

    /// Reads what is left in the pipe.
    fn take(&self, bytes: u64) -> Vec<u8> {
        let mut left = vec![0u8; bytes as usize];
        let mut filled = 0;
        while filled < left.len() {
            let rest = &mut left[filled..];
            // SAFETY: the pointer and the length describe `rest`.
            let got = unsafe { libc::read(self.read.as_raw_fd(), rest.as_mut_ptr().cast(), rest.len()) };
            if got <= 0 {
                break;
            }
            filled += got as usize;
        }
        left.truncate(filled);
        left
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
