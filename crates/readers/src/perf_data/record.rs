//! Records of the data: their kinds, where times and CPUs are in them, and what they tell.

use trace::Endian;

use super::attribute::{Attribute, Layout, read, sample};

pub(super) const MMAP: u32 = 1;
pub(super) const LOST: u32 = 2;
pub(super) const COMM: u32 = 3;
pub(super) const EXIT: u32 = 4;
pub(super) const THROTTLE: u32 = 5;
pub(super) const UNTHROTTLE: u32 = 6;
pub(super) const FORK: u32 = 7;
pub(super) const SAMPLE: u32 = 9;
pub(super) const MMAP2: u32 = 10;
pub(super) const LOST_SAMPLES: u32 = 13;
pub(super) const SWITCH: u32 = 14;
pub(super) const SWITCH_CPU_WIDE: u32 = 15;
pub(super) const NAMESPACES: u32 = 16;
pub(super) const CGROUP: u32 = 19;
/// Records from here on are the recorder's, not the kernel's.
pub(super) const FIRST_OF_RECORDER: u32 = 64;
pub(super) const HEADER_ATTR: u32 = 64;
pub(super) const HEADER_TRACING_DATA: u32 = 66;
pub(super) const FINISHED_ROUND: u32 = 68;
pub(super) const AUXTRACE: u32 = 71;
pub(super) const HEADER_FEATURE: u32 = 80;
pub(super) const COMPRESSED: u32 = 81;
pub(super) const COMPRESSED2: u32 = 83;

/// Flags of a record's header.
pub(super) const COMM_EXEC: u16 = 1 << 13;
pub(super) const SWITCH_OUT: u16 = 1 << 13;
pub(super) const SWITCH_PREEMPTED: u16 = 1 << 14;
pub(super) const MMAP_BUILD_ID: u16 = 1 << 14;

/// Numbers in a record's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    swap: bool,
}

impl Numbers {
    pub(super) fn new(endian: Endian) -> Numbers {
        Numbers { swap: endian != Endian::NATIVE }
    }

    #[inline(always)]
    pub(super) fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self.swap {
            foreign(u64::from_ne_bytes(bytes).swap_bytes())
        } else {
            u64::from_ne_bytes(bytes)
        })
    }

    #[inline(always)]
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self.swap {
            foreign(u32::from_ne_bytes(bytes).swap_bytes())
        } else {
            u32::from_ne_bytes(bytes)
        })
    }

    #[inline(always)]
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self.swap {
            foreign(u16::from_ne_bytes(bytes).swap_bytes())
        } else {
            u16::from_ne_bytes(bytes)
        })
    }

    /// Type, flags and size.
    #[inline(always)]
    pub(super) fn header(self, bytes: &[u8], at: usize) -> Option<(u32, u16, u16)> {
        let bytes: &[u8; 8] = bytes.get(at..)?.first_chunk()?;
        Some((self.u32(bytes, 0)?, self.u16(bytes, 4)?, self.u16(bytes, 6)?))
    }
}

/// Makes the foreign byte order a branch not taken, instead of a choice made for every number.
#[cold]
fn foreign<T>(number: T) -> T {
    number
}

/// Which attribute, and so which layout, a record has.
#[derive(Debug)]
pub(super) struct Layouts {
    numbers: Numbers,
    layouts: Vec<Layout>,
    tracepoint: Vec<bool>,
    by_id: IdTable,
    /// All samples have their id, and all have their time, at the same place.
    same: Option<Layout>,
}

impl Layouts {
    pub(super) fn new(attributes: &[Attribute], endian: Endian) -> Layouts {
        let layouts: Vec<Layout> = attributes.iter().map(Layout::new).collect();
        let first = layouts.first().copied().unwrap_or_default();
        // Two events that differ in what they read still have their fixed part alike.
        let alike = |layout: &Layout| Layout { read_format: first.read_format, ..*layout } == first;
        Layouts {
            numbers: Numbers::new(endian),
            same: layouts.iter().all(alike).then_some(first),
            tracepoint: attributes.iter().map(Attribute::is_tracepoint).collect(),
            by_id: IdTable::new(attributes),
            layouts,
        }
    }

    /// Position of a sample's attribute.
    #[inline(always)]
    pub(super) fn attribute_of_sample(&self, record: &[u8]) -> Option<usize> {
        if self.layouts.len() == 1 {
            return Some(0);
        }
        let first = self.layouts.first()?;
        if first.id == 0 {
            return Some(0);
        }
        self.by_id.get(self.numbers.u64(record, first.id as usize)?)
    }

    #[inline(always)]
    pub(super) fn layout(&self, attribute: usize) -> &Layout {
        &self.layouts[attribute.min(self.layouts.len() - 1)]
    }

    #[inline(always)]
    pub(super) fn is_tracepoint(&self, attribute: usize) -> bool {
        self.tracepoint.get(attribute).copied().unwrap_or(false)
    }

    pub(super) fn attribute_of_id(&self, id: u64) -> Option<usize> {
        self.by_id.get(id)
    }

    /// The layout of a record that is not a sample.
    #[inline]
    pub(super) fn tail(&self, record: &[u8]) -> &Layout {
        let first = &self.layouts[0];
        if self.same.is_some() || first.tail_id == 0 {
            return first;
        }
        let id = record.len().checked_sub(first.tail_id as usize).and_then(|at| self.numbers.u64(record, at));
        id.and_then(|id| self.by_id.get(id)).map_or(first, |at| &self.layouts[at])
    }

    /// A record's time; `None` where it has none.
    #[inline(always)]
    pub(super) fn time(&self, kind: u32, record: &[u8]) -> Option<u64> {
        if kind == SAMPLE {
            let layout = match &self.same {
                Some(layout) => layout,
                None => &self.layouts[self.attribute_of_sample(record)?],
            };
            return if layout.time == 0 { None } else { self.numbers.u64(record, layout.time as usize) };
        }
        let layout = self.tail(record);
        // The records' own parts are at least as long as a header.
        let at = record
            .len()
            .checked_sub(layout.tail_time as usize)
            .filter(|&at| at >= 8 && layout.tail_time > 0)?;
        self.numbers.u64(record, at)
    }

    /// A sample's CPU; `None` of other records, and where it has none.
    #[inline(always)]
    pub(super) fn cpu_of_sample(&self, kind: u32, record: &[u8]) -> Option<u32> {
        let layout = self.same.as_ref().filter(|layout| kind == SAMPLE && layout.cpu != 0)?;
        self.numbers.u32(record, layout.cpu as usize)
    }

    /// A side record's CPU, by its tail.
    pub(super) fn tail_cpu(&self, record: &[u8]) -> Option<u32> {
        let layout = self.tail(record);
        let at = record
            .len()
            .checked_sub(layout.tail_cpu as usize)
            .filter(|&at| at >= 8 && layout.tail_cpu > 0)?;
        self.numbers.u32(record, at)
    }

    /// A side record's process and thread, by its tail.
    pub(super) fn tail_thread(&self, record: &[u8]) -> Option<(i32, i32)> {
        let layout = self.tail(record);
        let at = record
            .len()
            .checked_sub(layout.tail_tid as usize)
            .filter(|&at| at >= 8 && layout.tail_tid > 0)?;
        Some((self.numbers.u32(record, at)? as i32, self.numbers.u32(record, at + 4)? as i32))
    }

    /// A side record without its tail.
    pub(super) fn body<'a>(&self, record: &'a [u8]) -> &'a [u8] {
        let tail = self.tail(record).tail as usize;
        &record[..record.len().saturating_sub(tail).max(8).min(record.len())]
    }

    pub(super) fn numbers(&self) -> Numbers {
        self.numbers
    }
}

/// From the ids that records carry to attributes: a plain table when ids lie close
/// together, as those of one recording do.
#[derive(Debug)]
struct IdTable {
    first: u64,
    near: Vec<u16>,
    far: std::collections::HashMap<u64, u16>,
}

const NO_ATTRIBUTE: u16 = u16::MAX;

impl IdTable {
    fn new(attributes: &[Attribute]) -> IdTable {
        let pairs: Vec<(u64, u16)> = attributes
            .iter()
            .enumerate()
            .take(usize::from(NO_ATTRIBUTE))
            .flat_map(|(at, attribute)| attribute.ids.iter().map(move |&id| (id, at as u16)))
            .collect();
        let first = pairs.iter().map(|(id, _)| *id).min().unwrap_or(0);
        let last = pairs.iter().map(|(id, _)| *id).max().unwrap_or(0);
        let mut table = IdTable { first, near: Vec::new(), far: std::collections::HashMap::new() };
        if last - first < 16 * pairs.len() as u64 + 1024 {
            table.near = vec![NO_ATTRIBUTE; (last - first + 1) as usize];
            pairs.iter().for_each(|(id, at)| table.near[(id - first) as usize] = *at);
        } else {
            table.far = pairs.into_iter().collect();
        }
        table
    }

    #[inline(always)]
    fn get(&self, id: u64) -> Option<usize> {
        if self.far.is_empty() {
            let at = *self.near.get(usize::try_from(id.wrapping_sub(self.first)).ok()?)?;
            return (at != NO_ATTRIBUTE).then_some(usize::from(at));
        }
        self.far.get(&id).map(|&at| usize::from(at))
    }
}

/// The parts of a sample that change in size.
#[derive(Debug, Default)]
pub(super) struct Parts<'a> {
    pub(super) raw: Option<&'a [u8]>,
}

/// Walks the parts behind a sample's fixed ones, up to the raw data. The call chain goes
/// into `callchain`. `None` when a part reaches beyond the record.
#[inline]
pub(super) fn parts<'a>(
    layout: &Layout,
    numbers: Numbers,
    record: &'a [u8],
    callchain: &mut Vec<u64>,
) -> Option<Parts<'a>> {
    let mut at = layout.variable as usize;
    let bits = layout.sample_type;
    callchain.clear();
    if bits & sample::READ != 0 {
        let format = layout.read_format;
        let times = usize::from(format & read::TOTAL_TIME_ENABLED != 0)
            + usize::from(format & read::TOTAL_TIME_RUNNING != 0);
        let extra = usize::from(format & read::ID != 0) + usize::from(format & read::LOST != 0);
        let words = if format & read::GROUP != 0 {
            let count =
                usize::try_from(numbers.u64(record, at)?).ok().filter(|&count| count < record.len())?;
            1 + times + count * (1 + extra)
        } else {
            1 + times + extra
        };
        at += 8 * words;
    }
    if bits & sample::CALLCHAIN != 0 {
        let count = usize::try_from(numbers.u64(record, at)?).ok().filter(|&count| count < record.len())?;
        at += 8;
        let bytes = record.get(at..at + 8 * count)?;
        callchain.extend((0..count).filter_map(|entry| numbers.u64(bytes, 8 * entry)));
        at += 8 * count;
    }
    let mut parts = Parts::default();
    if bits & sample::RAW != 0 {
        let size = numbers.u32(record, at)? as usize;
        parts.raw = Some(record.get(at + 4..at + 4 + size)?);
    } else if at > record.len() {
        return None;
    }
    Some(parts)
}
