//! Ring pages as the kernel hands them out, walked only as far as counting needs: how many
//! events, between which times, and what was lost before them.
//!
//! Layout: include/linux/ring_buffer.h and kernel/trace/ring_buffer.c; sizes come from
//! `events/header_page`.

use std::collections::HashSet;

use super::ledger::{CpuLedger, LossInterval, join_down_to};

/// Flags in the low 32 bits of a page's commit word.
const MISSED_EVENTS: u32 = 1 << 31;
const MISSED_STORED: u32 = 1 << 30;
/// An account holds at most this many intervals for each CPU.
const MOST_LOSSES: usize = 4096;

/// Where things are in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageLayout {
    /// Bytes of a whole page.
    pub size: usize,
    /// Where the events begin.
    pub data: usize,
}

impl PageLayout {
    /// Reads the text of `events/header_page`.
    pub fn parse(header_page: &str) -> Option<Self> {
        let line = header_page.lines().find(|line| line.contains(" data;"))?;
        let number =
            |key: &str| -> Option<usize> { line.split(key).nth(1)?.split(';').next()?.trim().parse().ok() };
        let (data, length) = (number("offset:")?, number("size:")?);
        // A timestamp and a commit word come first, and pages are sub-buffers of some KiB.
        let plausible = (12..=64).contains(&data) && (256..=1 << 20).contains(&length);
        plausible.then_some(PageLayout { size: data + length, data })
    }
}

/// What one page holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PageCount {
    pub events: u64,
    /// Bytes in use.
    pub bytes: u64,
    pub first_ns: u64,
    pub last_ns: u64,
    /// Events are missing before this page, this many if the kernel had room to say.
    pub missed: Option<Option<u64>>,
}

/// Counts a page's events; `current` is told the thread of each.
pub(super) fn count(
    page: &[u8],
    layout: PageLayout,
    mut current: impl FnMut(u32),
) -> Result<PageCount, String> {
    let word = |at: usize| -> Result<u32, String> {
        let bytes = page
            .get(at..at + 4)
            .ok_or_else(|| format!("an event at byte {at} of a page of {}", page.len()))?;
        Ok(u32::from_ne_bytes(bytes.try_into().expect("four bytes")))
    };
    let long = |at: usize| -> Result<u64, String> {
        let (low, high) = if cfg!(target_endian = "little") { (at, at + 4) } else { (at + 4, at) };
        Ok(u64::from(word(low)?) | u64::from(word(high)?) << 32)
    };
    let mut time = long(0)?;
    // The commit word is a long whose upper half is the sign of the flag bits.
    let commit = long(8)? as u32;
    let length = (commit & !(MISSED_EVENTS | MISSED_STORED)) as usize;
    let end = layout.data + length;
    if end > layout.size.min(page.len()) {
        return Err(format!("a page of {} bytes claims {length} bytes of events", layout.size));
    }
    let mut found = PageCount { bytes: length as u64, first_ns: time, last_ns: time, ..PageCount::default() };
    if commit & MISSED_EVENTS != 0 {
        let stored = (commit & MISSED_STORED != 0).then(|| long(end)).transpose()?;
        found.missed = Some(stored);
    }
    let mut at = layout.data;
    while at < end {
        let header = word(at)?;
        let (kind, delta) = split_header(header);
        let (payload, size) = match kind {
            // Padding to the end of the page, or an event that was discarded after writing.
            29 if delta == 0 => break,
            29 => {
                time += delta;
                at += 4 + word(at + 4)? as usize;
                continue;
            }
            30 => {
                time += delta + (u64::from(word(at + 4)?) << 27);
                at += 8;
                continue;
            }
            // An absolute time of 59 bits; the upper 5 are those of the page's own time.
            31 => {
                time = (time & (0x1f << 59)) | delta | (u64::from(word(at + 4)?) << 27);
                at += 8;
                continue;
            }
            0 => (at + 8, 4 + word(at + 4)? as usize),
            words => (at + 4, 4 + words as usize * 4),
        };
        time += delta;
        if size < 8 || at + size > end {
            return Err(format!("an event of {size} bytes at byte {at} of {end}"));
        }
        if found.events == 0 {
            found.first_ns = time;
        }
        found.events += 1;
        found.last_ns = time;
        // Every event begins with type, flags, preempt count and the thread's id at byte 4.
        if at + size >= payload + 8 {
            current(word(payload + 4)?);
        }
        at += size;
    }
    Ok(found)
}

fn split_header(header: u32) -> (u32, u64) {
    // Bit fields: the first one, five bits wide, is lowest on little-endian machines only.
    if cfg!(target_endian = "little") {
        (header & 0x1f, u64::from(header >> 5))
    } else {
        (header >> 27, u64::from(header & 0x07ff_ffff))
    }
}

/// True for a page that the kernel has probably finished: half of it is in use.
pub(super) fn well_filled(page: &[u8], layout: PageLayout) -> bool {
    let low = if cfg!(target_endian = "little") { 8 } else { 12 };
    let commit = u32::from_ne_bytes(page[low..low + 4].try_into().expect("four bytes"));
    (commit & !(MISSED_EVENTS | MISSED_STORED)) as usize >= (layout.size - layout.data) / 2
}

/// Makes a page tell of no missed events: the first one of a flight recording begins the file.
pub(super) fn forget_missed(page: &mut [u8]) {
    let low = if cfg!(target_endian = "little") { 8 } else { 12 };
    let commit = u32::from_ne_bytes(page[low..low + 4].try_into().expect("four bytes"));
    let cleared = commit & !(MISSED_EVENTS | MISSED_STORED);
    page[8..16].copy_from_slice(&u64::from(cleared).to_ne_bytes());
}

/// One CPU's account while its pages go by, in order.
#[derive(Debug)]
pub(super) struct PageAccount {
    layout: PageLayout,
    own_threads: Vec<u32>,
    pub cpu: CpuLedger,
    /// What is missing before the first page was discarded on purpose.
    pub window: bool,
    pub own: u64,
    /// Every thread that caused an event.
    pub threads: HashSet<u32>,
    // Where a loss before the next page begins.
    from_ns: u64,
}

impl PageAccount {
    pub fn new(cpu: u32, layout: PageLayout, own_threads: &[u32], started_ns: u64) -> Self {
        let cpu = CpuLedger { cpu, ..CpuLedger::default() };
        PageAccount {
            layout,
            own_threads: own_threads.to_vec(),
            cpu,
            window: false,
            own: 0,
            threads: HashSet::new(),
            from_ns: started_ns,
        }
    }

    /// Counts one page in.
    pub fn add(&mut self, page: &[u8]) -> Result<(), String> {
        // Events come in runs of the same thread: a set is asked once for a run.
        let mut run = None;
        let mut run_is_own = false;
        let (own_threads, threads) = (&self.own_threads, &mut self.threads);
        let mut own = 0;
        let found = count(page, self.layout, |tid| {
            if run != Some(tid) {
                run = Some(tid);
                run_is_own = own_threads.contains(&tid);
                threads.insert(tid);
            }
            own += u64::from(run_is_own);
        })?;
        if self.window && self.cpu.pages == 0 {
            self.cpu.discarded = found.missed.flatten().unwrap_or(0);
        } else if let Some(count) = found.missed {
            let to_ns = found.first_ns.max(self.from_ns);
            self.add_loss(LossInterval { from_ns: self.from_ns, to_ns, count, in_pages: true });
            self.cpu.lost.overwritten += count.unwrap_or(0);
        }
        if found.events > 0 {
            if self.cpu.recorded == 0 {
                self.cpu.first_ns = found.first_ns;
            }
            self.cpu.last_ns = found.last_ns;
            self.from_ns = found.last_ns;
        }
        self.cpu.recorded += found.events;
        self.own += own;
        self.cpu.pages += 1;
        self.cpu.bytes += found.bytes;
        Ok(())
    }

    fn add_loss(&mut self, loss: LossInterval) {
        self.cpu.losses.push(loss);
        if self.cpu.losses.len() > 2 * MOST_LOSSES {
            join_down_to(&mut self.cpu.losses, MOST_LOSSES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: PageLayout = PageLayout { size: 4096, data: 16 };

    fn page(time: u64, commit: u64, words: &[u32]) -> Vec<u8> {
        let mut page = Vec::new();
        page.extend(time.to_ne_bytes());
        page.extend(commit.to_ne_bytes());
        page.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        page.resize(4096, 0);
        page
    }

    fn header(kind: u32, delta: u32) -> u32 {
        kind | delta << 5
    }

    #[test]
    fn the_layout_is_read_from_the_kernels_text() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
                    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        assert_eq!(PageLayout::parse(text), Some(LAYOUT));
        assert_eq!(PageLayout::parse(""), None);
        assert_eq!(PageLayout::parse("\tfield: char data;\toffset:16;\tsize:99999999;"), None);
    }

    #[test]
    fn events_times_and_own_events_are_counted() {
        // Two events of two words, a time extend between them, a discarded one and padding.
        let words = [
            header(2, 5),
            7,
            42, // an event of thread 42 at 105
            header(30, 1),
            1, // + 1 + 2^27
            header(29, 3),
            8,
            0, // discarded: advances the time by 3 and is no event
            header(2, 0),
            7,
            43,
            header(29, 0),
        ];
        let bytes = words.len() as u64 * 4;
        let mut threads = Vec::new();
        let found = count(&page(100, bytes, &words), LAYOUT, |tid| threads.push(tid)).unwrap();
        assert_eq!((found.events, threads), (2, vec![42, 43]));
        assert_eq!((found.first_ns, found.last_ns), (105, 105 + 1 + (1 << 27) + 3));
        assert_eq!(found.missed, None);
    }

    #[test]
    fn missed_events_are_read_with_and_without_their_number() {
        let words = [header(1, 0), 7, 17, 0];
        let flags = u64::from(MISSED_EVENTS | MISSED_STORED) | 0xffff_ffff_0000_0000;
        let found = count(&page(1, flags | 8, &words), LAYOUT, |_| {}).unwrap();
        assert_eq!(found.missed, Some(Some(17)));
        let found = count(&page(1, u64::from(MISSED_EVENTS) | 8, &words), LAYOUT, |_| {}).unwrap();
        assert_eq!(found.missed, Some(None));
    }

    #[test]
    fn damaged_pages_are_refused() {
        let overlong = [header(28, 0), 0, 0];
        assert!(count(&page(1, 12, &overlong), LAYOUT, |_| {}).is_err());
        assert!(count(&page(1, 5000, &[]), LAYOUT, |_| {}).is_err());
        assert!(count(&[0; 10], LAYOUT, |_| {}).is_err());
        assert!(count(&page(1, 8, &[header(0, 0), 0]), LAYOUT, |_| {}).is_err());
    }

    #[test]
    fn a_loss_lies_between_the_last_event_before_and_the_first_after() {
        let mut account = PageAccount::new(3, LAYOUT, &[], 50);
        account.add(&page(100, 8, &[header(1, 0), 7])).unwrap();
        let flags = u64::from(MISSED_EVENTS | MISSED_STORED);
        account.add(&page(200, flags | 8, &[header(1, 9), 7, 4, 0])).unwrap();
        assert_eq!(
            account.cpu.losses,
            [LossInterval { from_ns: 100, to_ns: 209, count: Some(4), in_pages: true }]
        );
        assert_eq!((account.cpu.recorded, account.cpu.lost.overwritten), (2, 4));
    }
}
