//! One page of the kernel's ring buffer (`kernel/trace/ring_buffer.c`): a header with the
//! time of its first event, then events with the time since the one before.

use trace::{Endian, EventFormat};

/// Where things are in a page, from the kernel's `events/header_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageLayout {
    commit_offset: usize,
    commit_size: usize,
    data_offset: usize,
    pub(crate) endian: Endian,
}

impl PageLayout {
    /// The layout of 64-bit kernels, and the usual one where nothing is said.
    pub(crate) fn usual(endian: Endian, long_size: u8) -> PageLayout {
        let commit_size = if long_size == 4 { 4 } else { 8 };
        PageLayout { commit_offset: 8, commit_size, data_offset: 8 + commit_size, endian }
    }

    /// From the text of `header_page`.
    pub(crate) fn parse(text: &str, endian: Endian) -> Result<PageLayout, String> {
        let format = EventFormat::parse("ftrace", &format!("name: header_page\nID: 0\n{text}"))
            .map_err(|error| error.to_string())?;
        let field = |name: &str| format.field(name).ok_or_else(|| format!("header_page has no field {name}"));
        let commit = field("commit")?;
        let data = field("data")?;
        if !matches!(commit.size, 4 | 8)
            || commit.offset < 8
            || data.offset < commit.offset + commit.size
            || data.offset > 64
        {
            return Err(format!(
                "header_page puts commit ({} bytes) at {} and data at {}",
                commit.size, commit.offset, data.offset
            ));
        }
        Ok(PageLayout {
            commit_offset: commit.offset as usize,
            commit_size: commit.size as usize,
            data_offset: data.offset as usize,
            endian,
        })
    }

    /// Bytes of the kernel's `long`.
    pub(crate) fn long_size(&self) -> u8 {
        self.commit_size as u8
    }

    /// Reads a page's header. `page` may be shorter than a page where the file is cut.
    pub(crate) fn header(&self, page: &[u8]) -> Option<PageHeader> {
        if page.len() < self.data_offset {
            return None;
        }
        let time = self.endian.unsigned(page, 8)?;
        let commit = self.endian.unsigned(&page[self.commit_offset..], self.commit_size)?;
        let claimed = (commit & COMMIT_MASK) as usize;
        let end = (self.data_offset + claimed).min(page.len());
        let lost = (commit & MISSED_EVENTS != 0).then(|| {
            // The count lies behind the events when there was room for it.
            let count = (commit & MISSED_STORED != 0)
                .then(|| self.endian.unsigned(page.get(self.data_offset + claimed..)?, self.commit_size))
                .flatten();
            count.filter(|&count| count > 0)
        });
        Some(PageHeader {
            time,
            start: self.data_offset,
            end,
            cut: self.data_offset + claimed > page.len(),
            lost,
        })
    }
}

const MISSED_EVENTS: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
const COMMIT_MASK: u64 = (1 << 27) - 1;

/// What a page's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageHeader {
    pub(crate) time: u64,
    /// First byte of events.
    pub(crate) start: usize,
    /// Byte behind the last event.
    pub(crate) end: usize,
    /// Events are said to go on behind the page's (or the file's) end.
    pub(crate) cut: bool,
    /// Events were lost before this page; how many, if known.
    pub(crate) lost: Option<Option<u64>>,
}

/// What lies at a position among events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A record from `start` to `end`; the next event follows it.
    Record { time: u64, start: usize, end: usize },
    /// Nothing to report; go on at `next`.
    Skip { time: u64, next: usize },
    /// The rest of the page is empty.
    End,
    /// The bytes make no sense.
    Bad(&'static str),
}

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// The record at `at` whose length is in its first word, as that of nearly all is: the time
/// since the event before, and where it ends. `None`: [`step`] tells what is there.
#[inline(always)]
pub(crate) fn short_record(page: &[u8], at: usize, end: usize, endian: Endian) -> Option<(u64, usize)> {
    let head = *page.get(at..end)?.first_chunk()?;
    let (kind, delta) = match endian {
        Endian::Little => (u32::from_le_bytes(head) & 31, u32::from_le_bytes(head) >> 5),
        Endian::Big => (u32::from_be_bytes(head) >> 27, u32::from_be_bytes(head) & ((1 << 27) - 1)),
    };
    let record_end = at + 4 + 4 * kind as usize;
    (kind.wrapping_sub(1) < 28 && record_end <= end).then_some((u64::from(delta), record_end))
}

/// Reads the event at `at` (events end at `end`); `time` is that of the event before.
#[inline]
pub(crate) fn step(page: &[u8], at: usize, end: usize, time: u64, endian: Endian) -> Step {
    let word = |at: usize| -> Option<u32> {
        let bytes = *page.get(at..)?.first_chunk()?;
        Some(match endian {
            Endian::Little => u32::from_le_bytes(bytes),
            Endian::Big => u32::from_be_bytes(bytes),
        })
    };
    if at + 4 > end {
        return Step::End;
    }
    let Some(head) = word(at) else { return Step::End };
    let (kind, delta) = match endian {
        Endian::Little => (head & 31, u64::from(head >> 5)),
        Endian::Big => (head >> 27, u64::from(head & ((1 << 27) - 1))),
    };
    if kind.wrapping_sub(1) < 28 {
        return match short_record(page, at, end, endian) {
            Some((delta, record_end)) => {
                Step::Record { time: time.wrapping_add(delta), start: at + 4, end: record_end }
            }
            None => Step::Bad("a record reaches beyond the page's events"),
        };
    }
    if at + 8 > end {
        // Padding that fills the page needs no second word.
        return if kind == PADDING && delta == 0 {
            Step::End
        } else {
            Step::Bad("an event's length is cut off")
        };
    }
    let Some(second) = word(at + 4) else { return Step::End };
    match kind {
        0 => {
            let record_end = at + 4 + second as usize;
            if second < 4 || record_end > end {
                return Step::Bad("a record reaches beyond the page's events");
            }
            Step::Record { time: time.wrapping_add(delta), start: at + 8, end: record_end }
        }
        PADDING if delta == 0 => Step::End,
        PADDING => {
            let next = at + 4 + second as usize;
            if next > end {
                return Step::Bad("a discarded event reaches beyond the page's events");
            }
            Step::Skip { time: time.wrapping_add(delta), next: next.next_multiple_of(4) }
        }
        TIME_EXTEND => {
            Step::Skip { time: time.wrapping_add(delta).wrapping_add(u64::from(second) << 27), next: at + 8 }
        }
        TIME_STAMP => Step::Skip { time: absolute(delta | u64::from(second) << 27, time), next: at + 8 },
        _ => Step::Bad("an event of no known kind"),
    }
}

/// An absolute stamp carries the lower 59 bits; the upper ones are those of the time before,
/// unless the lower ones have wrapped since (`rb_fix_abs_ts`).
fn absolute(stamp: u64, before: u64) -> u64 {
    const UPPER: u64 = 0xf8 << 56;
    let upper = before & UPPER;
    if upper == 0 {
        return stamp;
    }
    let time = stamp | upper;
    if time < before { time.wrapping_add(1 << 59) } else { time }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_from_header_page_text() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                    \tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n\
                    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
                    \tfield: char data;\toffset:12;\tsize:4084;\tsigned:0;\n";
        assert_eq!(PageLayout::parse(text, Endian::Big), Ok(PageLayout::usual(Endian::Big, 4)));
        assert!(PageLayout::parse("", Endian::Big).is_err());
    }

    fn steps(words: &[u32]) -> Vec<Step> {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let (mut at, mut time) = (0, 1000);
        let mut found = Vec::new();
        loop {
            let step = step(&bytes, at, bytes.len(), time, Endian::Little);
            found.push(step);
            match step {
                Step::Record { time: t, end, .. } => (at, time) = (end, t),
                Step::Skip { time: t, next } => (at, time) = (next, t),
                _ => return found,
            }
        }
    }

    #[test]
    fn every_kind_of_event() {
        assert_eq!(
            steps(&[
                5 << 5 | 2,
                0xaa,
                0xbb, // 8 bytes, 5 later
                7 << 5,
                8,
                0xcc, // length in the second word: 4 bytes
                3 << 5 | 29,
                8,
                0, // discarded, 3 units of time
                2 << 5 | 30,
                1, // 1 << 27 + 2 later
                9 << 5 | 31,
                4, // absolute
                1 << 5 | 1,
                0xdd,
                29, // rest is padding
            ]),
            [
                Step::Record { time: 1005, start: 4, end: 12 },
                Step::Record { time: 1012, start: 20, end: 24 },
                Step::Skip { time: 1015, next: 36 },
                Step::Skip { time: 1017 + (1 << 27), next: 44 },
                Step::Skip { time: 9 + (4 << 27), next: 52 },
                Step::Record { time: 10 + (4 << 27), start: 56, end: 60 },
                Step::End,
            ]
        );
        assert_eq!(steps(&[28]), [Step::Bad("a record reaches beyond the page's events")]);
        assert_eq!(steps(&[0, 3]), [Step::Bad("a record reaches beyond the page's events")]);
        assert_eq!(steps(&[30]), [Step::Bad("an event's length is cut off")]);
    }

    #[test]
    fn absolute_stamps_keep_the_upper_bits() {
        assert_eq!(absolute(5, 4), 5);
        assert_eq!(absolute(5, 1 << 59 | 4), 1 << 59 | 5);
        assert_eq!(absolute(5, 1 << 59 | 6), 1 << 60 | 5, "the lower bits have wrapped");
    }

    #[test]
    fn headers_tell_losses_and_cuts() {
        let layout = PageLayout::usual(Endian::Little, 8);
        let page = |commit: u64, length: usize| {
            let mut page = 77u64.to_le_bytes().to_vec();
            page.extend_from_slice(&commit.to_le_bytes());
            page.resize(length, 0);
            if length >= 40 {
                page[32..40].copy_from_slice(&9u64.to_le_bytes());
            }
            layout.header(&page)
        };
        assert_eq!(page(16, 10), None);
        assert_eq!(page(16, 64), Some(PageHeader { time: 77, start: 16, end: 32, cut: false, lost: None }));
        assert_eq!(page(16 | MISSED_EVENTS, 64).unwrap().lost, Some(None));
        assert_eq!(page(16 | MISSED_EVENTS | MISSED_STORED, 64).unwrap().lost, Some(Some(9)));
        assert_eq!(
            page(16 | MISSED_EVENTS | MISSED_STORED, 32).unwrap().lost,
            Some(None),
            "no room for the count"
        );
        let beyond = page(1000, 64).unwrap();
        assert!(beyond.cut && beyond.end == 64);
    }
}
