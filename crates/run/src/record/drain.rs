//! Fetching pages from the rings while events are recorded: woken when a ring is filled to
//! the wake mark or the flush interval is over, never once per event.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kernel::error::Refused;
use kernel::stop::{StopToken, own_tid, wait_readable};
use kernel::tracefs_ring::{CpuRing, MoveError, PagePipe};

use super::pages::{PageLayout, count};

/// Rings served by one thread. Moving a page costs well under a microsecond, so a thread keeps
/// up with many CPUs; its wake-ups are what would disturb.
const RINGS_PER_THREAD: usize = 16;

/// One CPU's ring with the file its pages go to.
#[derive(Debug)]
pub(super) struct DrainedRing {
    pub ring: CpuRing,
    file: File,
    offset: u64,
    /// Events that had left the ring when the file could take no more.
    pub unwritten: u64,
}

/// Why fetching had to end early.
#[derive(Debug)]
pub(super) enum DrainError {
    Ring(Refused),
    File { cpu: u32, source: io::Error },
}

impl DrainedRing {
    pub fn new(ring: CpuRing, file: File) -> Self {
        DrainedRing { ring, file, offset: 0, unwritten: 0 }
    }

    /// Moves all full pages.
    fn fetch_full(&mut self, pipe: &PagePipe, layout: PageLayout) -> Result<u64, DrainError> {
        match self.ring.move_full_pages(pipe, &self.file, &mut self.offset) {
            Ok(moved) => Ok(moved),
            Err(MoveError::Ring(refused)) => Err(DrainError::Ring(refused)),
            Err(MoveError::File { error, unwritten }) => {
                // The file may end within a page whose beginning was written: that page counts
                // as unwritten, and the file is cut back to whole pages.
                let partial = self.offset % layout.size as u64;
                let mut lost = vec![0u8; partial as usize];
                self.offset -= partial;
                let _ = self.file.read_exact_at(&mut lost, self.offset);
                lost.extend(unwritten);
                let _ = self.file.set_len(self.offset);
                self.count_unwritten(&lost, layout);
                Err(DrainError::File { cpu: self.ring.cpu(), source: error })
            }
        }
    }

    /// Copies up to `most` pages, the one being filled too. Answers the bytes stored.
    pub fn fetch_rest(
        &mut self,
        page: &mut [u8],
        most: usize,
        layout: PageLayout,
    ) -> Result<u64, DrainError> {
        let mut stored = 0;
        for _ in 0..most {
            if !self.ring.read_page(page).map_err(DrainError::Ring)? {
                break;
            }
            if let Err(source) = self.file.write_all_at(page, self.offset) {
                let _ = self.file.set_len(self.offset);
                self.count_unwritten(page, layout);
                return Err(DrainError::File { cpu: self.ring.cpu(), source });
            }
            self.offset += page.len() as u64;
            stored += page.len() as u64;
        }
        Ok(stored)
    }

    /// Empties the ring without storing, so that its events can be counted.
    pub fn discard_rest(&mut self, page: &mut [u8], layout: PageLayout) {
        while self.ring.read_page(page).unwrap_or(false) {
            self.count_unwritten(page, layout);
        }
    }

    fn count_unwritten(&mut self, pages: &[u8], layout: PageLayout) {
        for page in pages.chunks_exact(layout.size) {
            self.unwritten += count(page, layout, &[]).map_or(0, |found| found.events);
        }
    }
}

/// What the fetching threads have in common with the recording.
#[derive(Debug, Default)]
pub(super) struct DrainCounters {
    /// Bytes fetched so far.
    pub bytes: AtomicU64,
}

/// A thread that fetches pages from some of the rings.
#[derive(Debug)]
pub(super) struct Drainer {
    thread: JoinHandle<(Vec<DrainedRing>, Option<DrainError>)>,
    finish: StopToken,
    /// Its thread id.
    pub tid: u32,
}

/// Starts as many threads as the rings need. Each asks `failed` to stop when it has to end
/// early.
pub(super) fn start(
    rings: Vec<DrainedRing>,
    layout: PageLayout,
    flush_interval: Duration,
    counters: &Arc<DrainCounters>,
    failed: &StopToken,
) -> Result<Vec<Drainer>, Refused> {
    let mut drainers = Vec::new();
    let mut rings = rings.into_iter().peekable();
    while rings.peek().is_some() {
        let mine: Vec<DrainedRing> = rings.by_ref().take(RINGS_PER_THREAD).collect();
        let finish = StopToken::new()?;
        let pipe = PagePipe::new(1 << 20)?;
        let (tid_out, tid_in) = std::sync::mpsc::channel();
        let (counters, failed, told) = (Arc::clone(counters), failed.clone(), finish.clone());
        let thread = std::thread::Builder::new().name("lotse-drain".to_owned()).spawn(move || {
            let _ = tid_out.send(own_tid());
            let mut mine = mine;
            let error = drain(&mut mine, &pipe, layout, flush_interval, &counters, &told).err();
            if error.is_some() {
                failed.request();
                // Whoever hears it stops the tracer first; then the rings stand still.
                while told.requested().is_none() && wait_readable(&[told.as_fd()], None).is_ok() {}
                let mut page = vec![0u8; layout.size];
                mine.iter_mut().for_each(|ring| ring.discard_rest(&mut page, layout));
            }
            (mine, error)
        });
        let thread = thread.map_err(|e| Refused::new("start", "a thread", e))?;
        let tid = tid_in.recv().unwrap_or(0);
        drainers.push(Drainer { thread, finish, tid });
    }
    Ok(drainers)
}

impl Drainer {
    /// Has it fetch what is left (the rings no longer change) and end.
    pub fn finish(self) -> (Vec<DrainedRing>, Option<DrainError>) {
        self.finish.request();
        match self.thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn drain(
    rings: &mut [DrainedRing],
    pipe: &PagePipe,
    layout: PageLayout,
    flush_interval: Duration,
    counters: &DrainCounters,
    finish: &StopToken,
) -> Result<(), DrainError> {
    let mut page = vec![0u8; layout.size];
    let mut flushed = Instant::now();
    loop {
        let wait = flush_interval.saturating_sub(flushed.elapsed());
        let descriptors: Vec<_> =
            std::iter::once(finish.as_fd()).chain(rings.iter().map(|ring| ring.ring.as_fd())).collect();
        let ready = wait_readable(&descriptors, Some(wait)).map_err(DrainError::Ring)?;
        let finishing = finish.requested().is_some();
        let flushing = finishing || flushed.elapsed() >= flush_interval;
        let fetched = rings.iter_mut().zip(&ready[1..]).try_for_each(|(ring, &ready)| {
            let mut bytes = 0;
            if ready || flushing {
                bytes += ring.fetch_full(pipe, layout)?;
            }
            if flushing {
                // While events go on, one page: reading on would chase the writer in small bites.
                let most = if finishing { usize::MAX } else { 1 };
                bytes += ring.fetch_rest(&mut page, most, layout)?;
            }
            counters.bytes.fetch_add(bytes, Ordering::Relaxed);
            Ok(())
        });
        if flushing {
            flushed = Instant::now();
        }
        if fetched.is_err() || finishing {
            return fetched;
        }
    }
}
