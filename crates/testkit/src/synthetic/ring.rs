//! Pages of the kernel's ring buffer, filled one after another.

use super::Machine;

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;

/// Fills pages with records of one CPU.
pub(super) struct Pages {
    machine: Machine,
    page: Vec<u8>,
    last: u64,
    /// Events were lost before the page that is being filled; how many, if it is told.
    missed: Option<Option<u64>>,
}

impl Pages {
    pub(super) fn new(machine: Machine) -> Pages {
        Pages { machine, page: Vec::with_capacity(PAGE), last: 0, missed: None }
    }

    fn header(&self) -> usize {
        8 + usize::from(self.machine.long_size)
    }

    /// Adds a record; a page that has become full goes to `out`.
    pub(super) fn add(&mut self, time: u64, record: &[u8], out: &mut Vec<u8>) {
        let length = record.len().next_multiple_of(4);
        // Room for the count of lost events stays free, as in the kernel's way of telling.
        let room = PAGE - usize::from(self.machine.long_size);
        if !self.page.is_empty() && self.page.len() + 8 + 8 + length > room {
            self.finish(out);
        }
        if self.page.is_empty() {
            self.machine.u64(&mut self.page, time);
            self.page.resize(self.header(), 0);
            self.last = time;
        }
        let mut delta = time - self.last;
        self.last = time;
        if delta >= 1 << 27 {
            self.head(30, delta & ((1 << 27) - 1));
            self.machine.u32(&mut self.page, (delta >> 27) as u32);
            delta = 0;
        }
        if length <= 112 {
            self.head(length as u64 / 4, delta);
        } else {
            self.head(0, delta);
            self.machine.u32(&mut self.page, length as u32 + 4);
        }
        self.page.extend_from_slice(record);
        self.page.resize(self.page.len() + length - record.len(), 0);
    }

    fn head(&mut self, kind: u64, delta: u64) {
        let word = if self.machine.big_endian { kind << 27 | delta } else { delta << 5 | kind };
        self.machine.u32(&mut self.page, word as u32);
    }

    /// Ends the page; the next one says that `count` events were lost before it.
    pub(super) fn lose(&mut self, count: Option<u64>, out: &mut Vec<u8>) {
        self.finish(out);
        self.missed = Some(count);
    }

    /// Ends the page.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        if self.page.is_empty() {
            return;
        }
        let mut commit = (self.page.len() - self.header()) as u64;
        if let Some(count) = self.missed.take() {
            commit |= 1 << 31;
            if let Some(count) = count {
                commit |= 1 << 30;
                self.machine.long(&mut self.page, count);
            }
        }
        let mut bytes = Vec::new();
        self.machine.long(&mut bytes, commit);
        self.page[8..8 + bytes.len()].copy_from_slice(&bytes);
        self.page.resize(PAGE, 0);
        out.extend_from_slice(&self.page);
        self.page.clear();
    }
}
