//! The pages of one CPU, decoded one record at a time, ahead of what has been told.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use trace::{Cpu, SourceError};

use super::ring_page::{PageLayout, Step, short_record, step};
use crate::{
    input::{Input, read_into, wrong},
    unpack::Unpacker,
};

/// Where one CPU's pages lie in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuExtent {
    pub(crate) cpu: Cpu,
    pub(crate) offset: u64,
    /// Bytes in the file, cut to what is there.
    pub(crate) size: u64,
    /// Chunks of zstd instead of plain pages.
    pub(crate) packed: bool,
    /// Position in the trace's list of buffers.
    pub(crate) buffer: u32,
    /// Position in the trace's list of files.
    pub(crate) file: u32,
}

/// A loss told by a page's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageLoss {
    /// Time of the record before, if there is one.
    pub(crate) from: Option<u64>,
    pub(crate) count: Option<u64>,
}

/// Damage found while reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) offset: u64,
    pub(crate) reason: String,
}

/// One CPU's records in turn.
pub(crate) struct CpuCursor {
    pub(crate) cpu: Cpu,
    input: Arc<dyn Input>,
    layout: PageLayout,
    page_size: usize,
    /// File positions of what is not yet read.
    next: u64,
    end: u64,
    /// Chunks not yet read, where packed.
    chunks: Option<u32>,
    packed: Vec<u8>,
    /// One for all CPUs.
    unpacker: Rc<RefCell<Unpacker>>,
    /// Plain pages, and where in the file (for packed ones: the chunk) they are from.
    block: Vec<u8>,
    block_at: u64,
    block_size: usize,
    /// The current page within the block.
    page: usize,
    page_end: usize,
    page_is_cut: bool,
    /// The next event, and the end of events.
    at: usize,
    events_end: usize,
    time: u64,
    /// The record told last by `advance`.
    pub(crate) record_time: u64,
    record_start: usize,
    record_end: usize,
    lost: Option<PageLoss>,
    /// Damage seen and not yet fetched.
    pub(crate) damage: Vec<Damage>,
}

impl CpuCursor {
    /// A cursor before the first record. `block_bytes` is how much is read at once.
    pub(crate) fn new(
        input: Arc<dyn Input>,
        extent: CpuExtent,
        layout: PageLayout,
        page_size: usize,
        block_bytes: usize,
        unpacker: &Rc<RefCell<Unpacker>>,
    ) -> Result<CpuCursor, SourceError> {
        let mut next = extent.offset;
        let mut chunks = None;
        if extent.packed && extent.size > 0 {
            let mut count = [0; 4];
            read_into(&*input, next, &mut count, "the number of packed chunks")?;
            chunks = Some(layout.endian.unsigned(&count, 4).unwrap_or(0) as u32);
            next += 4;
        }
        Ok(CpuCursor {
            cpu: extent.cpu,
            layout,
            page_size,
            next,
            // trace-cmd does not count the four bytes of the number of chunks in the size;
            // the chunks say themselves where they end.
            end: if chunks.is_some() { input.size() } else { extent.offset + extent.size },
            chunks,
            packed: Vec::new(),
            unpacker: Rc::clone(unpacker),
            block: Vec::new(),
            block_at: next,
            block_size: (block_bytes / page_size).max(1) * page_size,
            page: 0,
            page_end: 0,
            page_is_cut: false,
            at: 0,
            events_end: 0,
            time: 0,
            record_time: 0,
            record_start: 0,
            record_end: 0,
            lost: None,
            damage: Vec::new(),
            input,
        })
    }

    /// Leaves out all pages but the last; of packed ones, all chunks but the last.
    fn skip_to_last_pages(&mut self) -> Result<(), SourceError> {
        let Some(chunks) = self.chunks else {
            let left = self.end.saturating_sub(self.next);
            self.next += left.saturating_sub(1) / self.page_size as u64 * self.page_size as u64;
            return Ok(());
        };
        for _ in 1..chunks {
            self.next += 8 + self.chunk_sizes()?.0;
        }
        self.chunks = Some(chunks.min(1));
        Ok(())
    }

    /// Time of the CPU's first record and of its last, without reading what is between.
    pub(crate) fn span(mut self) -> Option<(u64, u64)> {
        let start = (self.next, self.chunks);
        if !self.advance().ok()? {
            return None;
        }
        let first = self.record_time;
        (self.next, self.chunks) = start;
        self.block.clear();
        (self.page_end, self.at, self.events_end) = (0, 0, 0);
        self.skip_to_last_pages().ok()?;
        while self.advance().ok()? {}
        Some((first, self.record_time))
    }

    /// The record found by the last `advance`.
    #[inline]
    pub(crate) fn record(&self) -> &[u8] {
        self.block.get(self.record_start..self.record_end).unwrap_or(&[])
    }

    /// The loss before that record, told once.
    #[inline]
    pub(crate) fn take_loss(&mut self) -> Option<PageLoss> {
        self.lost.take()
    }

    /// Whether losses were told behind which no record came.
    pub(crate) fn loss_at_end(&mut self) -> Option<PageLoss> {
        self.lost.take()
    }

    /// Time of the last record, if there was one.
    pub(crate) fn last_record(&self) -> Option<u64> {
        (self.record_end > 0).then_some(self.record_time)
    }

    /// Goes to the next record; `false` at the end.
    #[inline(always)]
    pub(crate) fn advance(&mut self) -> Result<bool, SourceError> {
        match short_record(&self.block, self.at, self.events_end, self.layout.endian) {
            Some((delta, end)) => {
                self.record_start = self.at + 4;
                self.found(self.time.wrapping_add(delta), end);
                Ok(true)
            }
            None => self.advance_slowly(),
        }
    }

    #[inline(always)]
    fn found(&mut self, time: u64, end: usize) {
        self.time = time;
        self.at = end;
        self.record_time = time;
        self.record_end = end;
    }

    fn advance_slowly(&mut self) -> Result<bool, SourceError> {
        loop {
            match step(&self.block, self.at, self.events_end, self.time, self.layout.endian) {
                Step::Record { time, start, end } => {
                    self.record_start = start;
                    self.found(time, end);
                    return Ok(true);
                }
                Step::Skip { time, next } => {
                    self.time = time;
                    self.at = next;
                }
                Step::End => {
                    if !self.next_page()? {
                        return Ok(false);
                    }
                }
                Step::Bad(reason) => {
                    // Of a page that is cut its last record is, and that has been told.
                    if !self.page_is_cut {
                        self.damaged(self.at - self.page, reason.to_owned());
                    }
                    self.at = self.events_end;
                    // What follows on this page is missing.
                    self.add_loss(None);
                }
            }
        }
    }

    fn damaged(&mut self, in_page: usize, reason: String) {
        let offset = match self.chunks {
            None => self.block_at + (self.page + in_page) as u64,
            Some(_) => self.block_at,
        };
        let reason = match self.chunks {
            None => reason,
            Some(_) => {
                format!("{reason} (byte {in_page} of page {} of this chunk)", self.page / self.page_size)
            }
        };
        self.damage.push(Damage { offset, reason });
    }

    fn add_loss(&mut self, count: Option<u64>) {
        let before = self.lost.take();
        self.lost = Some(PageLoss {
            from: before.map_or(self.last_record(), |loss| loss.from),
            count: match before {
                None => count,
                Some(before) => before.count.zip(count).map(|(a, b)| a.saturating_add(b)),
            },
        });
    }

    #[cold]
    fn next_page(&mut self) -> Result<bool, SourceError> {
        loop {
            self.page = self.page_end;
            if self.page >= self.block.len() {
                if !self.next_block()? {
                    // Nothing more: leave everything at its end.
                    self.at = 0;
                    self.events_end = 0;
                    return Ok(false);
                }
                self.page = 0;
            }
            self.page_end = (self.page + self.page_size).min(self.block.len());
            let page = &self.block[self.page..self.page_end];
            let Some(header) = self.layout.header(page) else {
                self.damaged(0, format!("a page of {} bytes, less than its header", page.len()));
                continue;
            };
            self.time = header.time;
            self.at = self.page + header.start;
            self.events_end = self.page + header.end;
            self.page_is_cut = header.cut;
            if header.cut {
                self.damaged(0, "a page says its events reach beyond it".to_owned());
            }
            if let Some(count) = header.lost {
                self.add_loss(count);
            }
            return Ok(true);
        }
    }

    fn next_block(&mut self) -> Result<bool, SourceError> {
        self.page = 0;
        self.page_end = 0;
        match self.chunks {
            None => {
                let size = (self.end.saturating_sub(self.next)).min(self.block_size as u64) as usize;
                if size == 0 {
                    self.block.clear();
                    return Ok(false);
                }
                self.block.resize(size, 0);
                self.block_at = self.next;
                read_into(&*self.input, self.next, &mut self.block, "a page")?;
                self.next += size as u64;
                Ok(true)
            }
            Some(0) => {
                self.block.clear();
                Ok(false)
            }
            Some(count) => {
                self.chunks = Some(count - 1);
                self.next_chunk()?;
                Ok(true)
            }
        }
    }

    fn next_chunk(&mut self) -> Result<(), SourceError> {
        self.block_at = self.next;
        let (packed, unpacked) = self.chunk_sizes()?;
        self.packed.resize(packed as usize, 0);
        read_into(&*self.input, self.next + 8, &mut self.packed, "a packed chunk")?;
        let unpacker = &mut *self.unpacker.borrow_mut();
        unpacker
            .unpack(&self.packed, unpacked, &mut self.block)
            .map_err(|reason| wrong(&*self.input, self.next, reason))?;
        self.next += 8 + packed;
        Ok(())
    }

    /// Packed and unpacked bytes of the next chunk.
    fn chunk_sizes(&self) -> Result<(u64, u64), SourceError> {
        let mut sizes = [0; 8];
        let left = self.end.saturating_sub(self.next);
        if left < 8 {
            return Err(wrong(&*self.input, self.next, "packed pages end before their last chunk"));
        }
        read_into(&*self.input, self.next, &mut sizes, "a packed chunk")?;
        let packed = self.layout.endian.unsigned(&sizes, 4).unwrap_or(0);
        let unpacked = self.layout.endian.unsigned(&sizes[4..], 4).unwrap_or(0);
        if packed > left - 8 {
            return Err(wrong(
                &*self.input,
                self.next,
                format!("a chunk of {packed} bytes where {} are left", left - 8),
            ));
        }
        Ok((packed, unpacked))
    }
}
