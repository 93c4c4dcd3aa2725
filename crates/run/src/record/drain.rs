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
use kernel::tracefs_ring::CpuRing;

use super::pages::{PageLayout, count, well_filled};

/// Rings served by one thread. Copying a page costs about a microsecond, so a thread keeps
/// up with many CPUs; its wake-ups are what would disturb.
const RINGS_PER_THREAD: usize = 16;

/// Pages read before they are written to the file together.
const PAGES_IN_BATCH: usize = 64;

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

/// How much is fetched at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// Until the page that is being filled has been copied: going on would chase the writer in
    /// small bites.
    Caught,
    /// Until nothing is left; for rings that no longer change.
    Empty,
}

impl DrainedRing {
    pub fn new(ring: CpuRing, file: File) -> Self {
        DrainedRing { ring, file, offset: 0, unwritten: 0 }
    }

    /// Copies pages to the file, by way of `batch`. Answers the bytes stored.
    ///
    /// Reading costs 0.5 µs a page where splicing costs 2: read(2) hands the page it has read
    /// back to the ring, splice(2) makes the kernel allocate and clear a new one each time.
    pub fn fetch(&mut self, batch: &mut [u8], until: Until, layout: PageLayout) -> Result<u64, DrainError> {
        let mut stored = 0;
        let mut more = true;
        while more {
            let mut filled = 0;
            for page in batch.chunks_exact_mut(layout.size) {
                more = self.ring.read_page(page).map_err(DrainError::Ring)?;
                if !more {
                    break;
                }
                filled += layout.size;
                if until == Until::Caught && !well_filled(page, layout) {
                    more = false;
                    break;
                }
            }
            self.store(&batch[..filled], layout)?;
            stored += filled as u64;
        }
        Ok(stored)
    }

    fn store(&mut self, pages: &[u8], layout: PageLayout) -> Result<(), DrainError> {
        let mut put = 0;
        while put < pages.len() {
            let source = match self.file.write_at(&pages[put..], self.offset + put as u64) {
                Ok(0) => io::Error::from(io::ErrorKind::WriteZero),
                Ok(bytes) => {
                    put += bytes;
                    continue;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => e,
            };
            // A page of which only the beginning was written counts as unwritten.
            let whole = put / layout.size * layout.size;
            self.offset += whole as u64;
            let _ = self.file.set_len(self.offset);
            self.count_unwritten(&pages[whole..], layout);
            return Err(DrainError::File { cpu: self.ring.cpu(), source });
        }
        self.offset += pages.len() as u64;
        Ok(())
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
        let (tid_out, tid_in) = std::sync::mpsc::channel();
        let (counters, failed, told) = (Arc::clone(counters), failed.clone(), finish.clone());
        let thread = std::thread::Builder::new().name("lotse-drain".to_owned()).spawn(move || {
            let _ = tid_out.send(own_tid());
            let mut mine = mine;
            let error = drain(&mut mine, layout, flush_interval, &counters, &told).err();
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
    layout: PageLayout,
    flush_interval: Duration,
    counters: &DrainCounters,
    finish: &StopToken,
) -> Result<(), DrainError> {
    let mut batch = vec![0u8; PAGES_IN_BATCH * layout.size];
    let mut flushed = Instant::now();
    loop {
        let wait = flush_interval.saturating_sub(flushed.elapsed());
        let descriptors: Vec<_> =
            std::iter::once(finish.as_fd()).chain(rings.iter().map(|ring| ring.ring.as_fd())).collect();
        let ready = wait_readable(&descriptors, Some(wait)).map_err(DrainError::Ring)?;
        let finishing = finish.requested().is_some();
        let flushing = finishing || flushed.elapsed() >= flush_interval;
        let until = if finishing { Until::Empty } else { Until::Caught };
        let fetched = rings.iter_mut().zip(&ready[1..]).try_for_each(|(ring, &ready)| {
            if ready || flushing {
                let bytes = ring.fetch(&mut batch, until, layout)?;
                counters.bytes.fetch_add(bytes, Ordering::Relaxed);
            }
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
