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
use kernel::process::set_own_nice;
use kernel::stop::{StopToken, own_tid, wait_readable};
use kernel::tracefs_ring::CpuRing;

use super::pages::{PageLayout, count, well_filled};

/// Rings served by one thread. Copying a page costs about a microsecond, so a thread keeps
/// up with many CPUs; its wake-ups are what would disturb.
const RINGS_PER_THREAD: usize = 16;

/// Pages read, and written to the file, at most with one system call.
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
    /// small bites. Batches begin with one page and double, so that few are small.
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
    /// Copied, not spliced: splice(2) makes the kernel allocate and clear a page for each one it
    /// takes out, which cost three times the CPU time of copying; readv(2) hands the page it has
    /// copied back to the ring.
    pub fn fetch(&mut self, batch: &mut [u8], until: Until, layout: PageLayout) -> Result<u64, DrainError> {
        let most = batch.len() / layout.size;
        let mut wanted = if until == Until::Empty { most } else { 1 };
        let mut stored = 0;
        loop {
            let batch = &mut batch[..wanted * layout.size];
            let got = self.ring.read_pages(batch, layout.size).map_err(DrainError::Ring)?;
            let pages = &batch[..got * layout.size];
            self.store(pages, layout)?;
            stored += pages.len() as u64;
            let caught = until == Until::Caught
                && !pages.chunks_exact(layout.size).all(|page| well_filled(page, layout));
            if got < wanted || caught {
                return Ok(stored);
            }
            wanted = (wanted * 2).min(most);
        }
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
    pub fn discard_rest(&mut self, batch: &mut [u8], layout: PageLayout) {
        loop {
            let got = self.ring.read_pages(batch, layout.size).unwrap_or(0);
            self.count_unwritten(&batch[..got * layout.size], layout);
            if got * layout.size < batch.len() {
                return;
            }
        }
    }

    fn count_unwritten(&mut self, pages: &[u8], layout: PageLayout) {
        for page in pages.chunks_exact(layout.size) {
            self.unwritten += count(page, layout, |_| {}).map_or(0, |found| found.events);
        }
    }
}

/// When pages are fetched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// At least this often.
    pub flush_interval: Duration,
    /// Also when a ring is filled to the instance's wake mark.
    pub wake_when_filled: bool,
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
    pace: Pace,
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
            // Among a hundred runnable threads its turn would come too late; what it does then
            // is short. Without the right to it the rings have to be larger, no more.
            set_own_nice(-20);
            let _ = tid_out.send(own_tid());
            let mut mine = mine;
            let error = drain(&mut mine, layout, pace, &counters, &told).err();
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
    pace: Pace,
    counters: &DrainCounters,
    finish: &StopToken,
) -> Result<(), DrainError> {
    let mut batch = vec![0u8; PAGES_IN_BATCH * layout.size];
    let mut flushed = Instant::now();
    loop {
        let wait = pace.flush_interval.saturating_sub(flushed.elapsed());
        let mut descriptors = vec![finish.as_fd()];
        if pace.wake_when_filled {
            descriptors.extend(rings.iter().map(|ring| ring.ring.as_fd()));
        }
        let mut ready = wait_readable(&descriptors, Some(wait)).map_err(DrainError::Ring)?;
        ready.resize(1 + rings.len(), false);
        let finishing = finish.requested().is_some();
        let flushing = finishing || flushed.elapsed() >= pace.flush_interval;
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
