//! `struct perf_event_attr`: what was opened, and so how its records are laid out.

use trace::{ClockKind, Endian};

/// The part of `perf_event_attr` that decides how to read records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attribute {
    pub(super) kind: u32,
    pub(super) config: u64,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    pub(super) flags: u64,
    pub(super) clock_id: i32,
    /// Its name, from the file or made of type and config.
    pub(super) name: String,
    /// Numbers that its records carry.
    pub(super) ids: Vec<u64>,
}

/// Bits of `sample_type`.
pub(super) mod sample {
    pub(crate) const IP: u64 = 1 << 0;
    pub(crate) const TID: u64 = 1 << 1;
    pub(crate) const TIME: u64 = 1 << 2;
    pub(crate) const ADDR: u64 = 1 << 3;
    pub(crate) const READ: u64 = 1 << 4;
    pub(crate) const CALLCHAIN: u64 = 1 << 5;
    pub(crate) const ID: u64 = 1 << 6;
    pub(crate) const CPU: u64 = 1 << 7;
    pub(crate) const PERIOD: u64 = 1 << 8;
    pub(crate) const STREAM_ID: u64 = 1 << 9;
    pub(crate) const RAW: u64 = 1 << 10;
    pub(crate) const IDENTIFIER: u64 = 1 << 16;
}

/// Bits of `read_format`.
pub(super) mod read {
    pub(crate) const TOTAL_TIME_ENABLED: u64 = 1 << 0;
    pub(crate) const TOTAL_TIME_RUNNING: u64 = 1 << 1;
    pub(crate) const ID: u64 = 1 << 2;
    pub(crate) const GROUP: u64 = 1 << 3;
    pub(crate) const LOST: u64 = 1 << 4;
}

const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCKID: u64 = 1 << 25;

/// `PERF_TYPE_TRACEPOINT`.
const TRACEPOINT: u32 = 2;

/// Bytes of the first published layout; shorter ones are not believed.
pub(super) const SMALLEST: usize = 64;

impl Attribute {
    /// Reads an attribute; fields that an older producer did not have are 0.
    pub(super) fn parse(bytes: &[u8], endian: Endian) -> Option<Attribute> {
        if bytes.len() < SMALLEST {
            return None;
        }
        let number =
            |at: usize, size: usize| bytes.get(at..).and_then(|b| endian.unsigned(b, size)).unwrap_or(0);
        let size = number(4, 4) as usize;
        // 0 is the first layout; what lies behind `size` is not part of it.
        let size = if size == 0 { SMALLEST } else { size.min(bytes.len()) };
        let within = |at: usize, width: usize| if at + width <= size { number(at, width) } else { 0 };
        let flags = number(40, 8);
        // Bitfields begin at the other end on big-endian machines.
        let flags = if endian == Endian::Big { flags.reverse_bits() } else { flags };
        let mut attribute = Attribute {
            kind: number(0, 4) as u32,
            config: number(8, 8),
            sample_type: number(24, 8),
            read_format: number(32, 8),
            flags,
            clock_id: within(92, 4) as u32 as i32,
            name: String::new(),
            ids: Vec::new(),
        };
        attribute.name = attribute.made_up_name();
        Some(attribute)
    }

    pub(super) fn is_tracepoint(&self) -> bool {
        self.kind == TRACEPOINT
    }

    /// Whether records other than samples tell their time, thread and CPU at their end.
    pub(super) fn sample_id_all(&self) -> bool {
        self.flags & SAMPLE_ID_ALL != 0
    }

    pub(super) fn clock(&self) -> ClockKind {
        if self.flags & USE_CLOCKID == 0 {
            return ClockKind::Local;
        }
        match self.clock_id {
            0 => ClockKind::Real,
            1 => ClockKind::Mono,
            4 => ClockKind::MonoRaw,
            7 => ClockKind::Boot,
            11 => ClockKind::Tai,
            other => ClockKind::Other(format!("clock {other}")),
        }
    }

    fn made_up_name(&self) -> String {
        const HARDWARE: &[&str] = &[
            "cycles",
            "instructions",
            "cache-references",
            "cache-misses",
            "branches",
            "branch-misses",
            "bus-cycles",
            "stalled-cycles-frontend",
            "stalled-cycles-backend",
            "ref-cycles",
        ];
        const SOFTWARE: &[&str] = &[
            "cpu-clock",
            "task-clock",
            "page-faults",
            "context-switches",
            "cpu-migrations",
            "minor-faults",
            "major-faults",
            "alignment-faults",
            "emulation-faults",
            "dummy",
            "bpf-output",
            "cgroup-switches",
        ];
        let known = |names: &[&str]| {
            usize::try_from(self.config).ok().and_then(|at| names.get(at).map(|n| (*n).to_owned()))
        };
        let known = match self.kind {
            0 => known(HARDWARE),
            1 => known(SOFTWARE),
            2 => Some(format!("tracepoint {}", self.config)),
            4 => Some(format!("r{:x}", self.config)),
            5 => Some("breakpoint".to_owned()),
            _ => None,
        };
        known.unwrap_or_else(|| format!("type {} config {:#x}", self.kind, self.config))
    }
}

/// Where the fixed parts of an attribute's records lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    /// Offsets in a sample, from the start of the record; 0 where it has none.
    pub(super) id: u16,
    pub(super) ip: u16,
    pub(super) tid: u16,
    pub(super) time: u16,
    pub(super) cpu: u16,
    pub(super) period: u16,
    /// Where the parts of changing size begin.
    pub(super) variable: u16,
    /// In other records, counted from their end; 0 where there is none.
    pub(super) tail_id: u16,
    pub(super) tail_tid: u16,
    pub(super) tail_time: u16,
    pub(super) tail_cpu: u16,
    /// Bytes of that end.
    pub(super) tail: u16,
}

impl Layout {
    pub(super) fn new(attribute: &Attribute) -> Layout {
        let bits = attribute.sample_type;
        let mut layout =
            Layout { sample_type: bits, read_format: attribute.read_format, ..Layout::default() };
        let mut at = 8u16;
        let mut place = |bit: u64| {
            if bits & bit == 0 {
                return 0;
            }
            at += 8;
            at - 8
        };
        let identifier = place(sample::IDENTIFIER);
        layout.ip = place(sample::IP);
        layout.tid = place(sample::TID);
        layout.time = place(sample::TIME);
        place(sample::ADDR);
        let id = place(sample::ID);
        place(sample::STREAM_ID);
        layout.cpu = place(sample::CPU);
        layout.period = place(sample::PERIOD);
        layout.variable = at;
        layout.id = if identifier > 0 { identifier } else { id };
        if attribute.sample_id_all() {
            let mut from_end = 0u16;
            let mut place = |bit: u64| {
                if bits & bit == 0 {
                    return 0;
                }
                from_end += 8;
                from_end
            };
            let identifier = place(sample::IDENTIFIER);
            layout.tail_cpu = place(sample::CPU);
            place(sample::STREAM_ID);
            let id = place(sample::ID);
            layout.tail_time = place(sample::TIME);
            layout.tail_tid = place(sample::TID);
            layout.tail = from_end;
            layout.tail_id = if identifier > 0 { identifier } else { id };
        }
        layout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_follow_the_order_of_the_manual_page() {
        let attribute = Attribute {
            sample_type: sample::IDENTIFIER
                | sample::IP
                | sample::TID
                | sample::TIME
                | sample::CPU
                | sample::PERIOD
                | sample::RAW,
            flags: SAMPLE_ID_ALL,
            ..Attribute::default()
        };
        let layout = Layout::new(&attribute);
        assert_eq!(
            (layout.id, layout.ip, layout.tid, layout.time, layout.cpu, layout.period, layout.variable),
            (8, 16, 24, 32, 40, 48, 56)
        );
        assert_eq!(
            (layout.tail_id, layout.tail_cpu, layout.tail_time, layout.tail_tid, layout.tail),
            (8, 16, 24, 32, 32)
        );
        let without = Layout::new(&Attribute { flags: 0, ..attribute });
        assert_eq!((without.tail_time, without.tail), (0, 0));
    }

    #[test]
    fn big_endian_bitfields_are_turned_round() {
        let mut bytes = vec![0u8; 112];
        bytes[7] = 112;
        bytes[0x28] = 0x80; // the first bit of the bitfield on such a machine
        let attribute = Attribute::parse(&bytes, Endian::Big).unwrap();
        assert_eq!(attribute.flags, 1);
        assert_eq!(attribute.name, "cycles");
        assert!(Attribute::parse(&bytes[..63], Endian::Big).is_none());
    }
}
