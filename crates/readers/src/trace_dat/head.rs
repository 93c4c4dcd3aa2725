//! Everything in a trace.dat before (or, in version 7, between) the pages.

use std::{cell::Cell, collections::HashSet};

use trace::{ClockKind, Cpu, Endian, EventFormat, SourceError, TraceInfo, info::KnownTask};

use super::{
    cpu_data::CpuExtent,
    facts::{self, Account, CycleScale, RingCounters, option},
    ring_page::PageLayout,
};
use crate::{
    input::{Input, read_exactly, wrong},
    scan::Scan,
    unpack::Unpacker,
};

/// What was learnt before reading pages.
pub(super) struct Head {
    pub(super) info: TraceInfo,
    pub(super) layout: PageLayout,
    pub(super) page_size: usize,
    pub(super) buffers: Vec<Buffer>,
    pub(super) extents: Vec<CpuExtent>,
    /// Text of `printk_formats`.
    pub(super) printk: String,
    /// Where kallsyms is.
    pub(super) symbols: Option<Section>,
    /// Counters by buffer name.
    pub(super) counters: Vec<(String, RingCounters)>,
    pub(super) account: Option<Account>,
    pub(super) scale: Option<CycleScale>,
    /// Nanoseconds to add to all times.
    pub(super) time_offset: i64,
}

impl Head {
    pub(super) fn new(info: TraceInfo, layout: PageLayout, page_size: usize) -> Head {
        Head {
            info,
            layout,
            page_size,
            buffers: Vec::new(),
            extents: Vec::new(),
            printk: String::new(),
            symbols: None,
            counters: Vec::new(),
            account: None,
            scale: None,
            time_offset: 0,
        }
    }
}

/// One ring: the top one, or that of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Buffer {
    /// Empty for the top one.
    pub(super) name: String,
    pub(super) clock: ClockKind,
}

/// A piece of the file, packed or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) packed: bool,
}

impl Section {
    /// Its content, unpacked.
    pub(super) fn content(&self, input: &dyn Input, endian: Endian) -> Result<Vec<u8>, SourceError> {
        let bytes = read_exactly(input, self.offset, self.size, "a section")?;
        if !self.packed {
            return Ok(bytes);
        }
        let too_short = || wrong(input, self.offset, "a packed section without its two sizes");
        let packed = endian.unsigned(&bytes, 4).ok_or_else(too_short)?;
        let unpacked = bytes.get(4..).and_then(|b| endian.unsigned(b, 4)).ok_or_else(too_short)?;
        let content = bytes.get(8..).and_then(|b| b.get(..packed as usize)).ok_or_else(|| {
            wrong(input, self.offset, format!("a packed section of {packed} bytes in one of {}", self.size))
        })?;
        let mut out = Vec::new();
        Unpacker::default()
            .unpack(content, unpacked, &mut out)
            .map_err(|reason| wrong(input, self.offset, reason))?;
        Ok(out)
    }
}

const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// Whether the file begins as a trace.dat does.
pub(crate) fn is_trace_dat(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

/// More CPUs than this are not believed.
pub(super) const MOST_CPUS: u32 = 1 << 16;

pub(super) fn read(input: &dyn Input) -> Result<Head, SourceError> {
    let mut scan = Scan::new(input, Endian::Little, 0, u64::MAX);
    scan.expect(MAGIC, "the magic number")?;
    let version = scan.text(16, "the version")?;
    scan.endian = match scan.u8("the byte order")? {
        0 => Endian::Little,
        1 => Endian::Big,
        other => return Err(scan.error(format!("byte order {other}, known are 0 (little) and 1 (big)"))),
    };
    let long_size = scan.u8("the size of long")?;
    if long_size != 4 && long_size != 8 {
        return Err(scan.error(format!("a long of {long_size} bytes")));
    }
    let page_size = scan.u32("the page size")?;
    check_page_size(&scan, page_size)?;
    let mut info = TraceInfo::new(format!("trace.dat v{version}"));
    info.endian = scan.endian;
    info.long_size = long_size;
    let layout = PageLayout::usual(scan.endian, long_size);
    let mut reader = HeadReader::new(input, Head::new(info, layout, page_size as usize));
    match version.as_str() {
        "6" => reader.version_6(&mut scan)?,
        "7" => reader.version_7(&mut scan)?,
        other => {
            return Err(
                scan.error(format!("trace.dat of version {other:?}; versions 6 and 7 are understood"))
            );
        }
    }
    Ok(reader.finish())
}

/// What the TRACING_DATA of a perf.data holds: the first parts of a version 6 file.
pub(crate) struct TracingData {
    pub(crate) info: TraceInfo,
    pub(crate) printk: String,
}

/// Reads TRACING_DATA. What is damaged is left out and listed in `info.problems`.
pub(crate) fn read_tracing_data(input: &dyn Input, start: u64, end: u64) -> Result<TracingData, SourceError> {
    let mut scan = Scan::new(input, Endian::Little, start, end);
    scan.expect(MAGIC, "the magic number of tracing data")?;
    let version = scan.text(16, "the version of tracing data")?;
    scan.endian = if scan.u8("the byte order")? == 1 { Endian::Big } else { Endian::Little };
    let long_size = scan.u8("the size of long")?;
    scan.u32("the page size")?;
    let mut info = TraceInfo::new("tracing data");
    (info.endian, info.long_size) = (scan.endian, long_size);
    let head = Head::new(info, PageLayout::usual(scan.endian, long_size), 4096);
    let mut reader = HeadReader::new(input, head);
    let mut read = || {
        reader.header_info(&mut scan)?;
        reader.ftrace_events(&mut scan)?;
        reader.events(&mut scan)?;
        let size = scan.u32("the size of kallsyms")?;
        scan.skip(u64::from(size), "kallsyms")?;
        reader.printk(&mut scan)?;
        if version != "0.5" { reader.command_lines(&mut scan) } else { Ok(()) }
    };
    if let Err(error) = read() {
        reader.problem(&error);
    }
    Ok(TracingData { info: reader.head.info, printk: reader.head.printk })
}

pub(super) fn check_page_size(scan: &Scan<'_>, page_size: u32) -> Result<(), SourceError> {
    if (256..=1 << 26).contains(&page_size) {
        return Ok(());
    }
    Err(scan.error(format!("ring pages of {page_size} bytes")))
}

/// Fills in a [`Head`]; each version has its part in a file of its own.
pub(super) struct HeadReader<'a> {
    pub(super) input: &'a dyn Input,
    pub(super) head: Head,
    /// Name of the buffer that CPUSTAT options are about.
    stats_of: String,
    /// Buffers of version 6: position and name.
    pub(super) later: Vec<(u64, String)>,
    tgids: Option<String>,
    pub(super) clock: Option<ClockKind>,
    /// Where the last section of version 7 ends of those seen.
    pub(super) furthest: Cell<u64>,
}

impl<'a> HeadReader<'a> {
    fn new(input: &'a dyn Input, head: Head) -> HeadReader<'a> {
        HeadReader {
            input,
            head,
            stats_of: String::new(),
            later: Vec::new(),
            tgids: None,
            clock: None,
            furthest: Cell::new(0),
        }
    }

    pub(super) fn problem(&mut self, error: &SourceError) {
        self.head.info.problems.push(format!("at byte {}: {}", error.offset, error.reason));
    }

    pub(super) fn fact(&mut self, key: &str, value: impl Into<String>) {
        self.head.info.facts.push((key.to_owned(), value.into()));
    }

    fn finish(self) -> Head {
        let mut head = self.head;
        if let Some(tgids) = &self.tgids {
            facts::saved_tgids(tgids, &mut head.info.tasks);
        }
        let recorded: HashSet<u32> = head.extents.iter().filter(|e| e.size > 0).map(|e| e.cpu.0).collect();
        let mut cpus: Vec<Cpu> = head.extents.iter().map(|extent| extent.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        head.info.cpu_count = head.info.cpu_count.max(cpus.last().map_or(0, |cpu| cpu.0 + 1));
        if recorded.len() < head.info.cpu_count as usize {
            head.info.recorded_cpus = Some(cpus);
        }
        for (name, counters) in &head.counters {
            if counters.overrun > 0 || counters.dropped > 0 {
                let of = if name.is_empty() { String::new() } else { format!(" of {name}") };
                let text = format!("{} overwritten, {} refused", counters.overrun, counters.dropped);
                head.info.facts.push((format!("ring counters{of}, cpu {}", counters.cpu), text));
            }
        }
        head
    }

    // ----- parts that both versions have -----

    pub(super) fn extent(&mut self, cpu: Cpu, offset: u64, size: u64, packed: bool, buffer: u32) {
        let there = self.input.size().saturating_sub(offset).min(size);
        if there < size && self.head.info.cut.is_none() {
            self.head.info.cut = Some(format!(
                "the file ends at byte {}; the pages of CPU {} were to reach to byte {}",
                self.input.size(),
                cpu.0,
                offset.saturating_add(size)
            ));
        }
        self.head.extents.push(CpuExtent { cpu, offset, size: there, packed, buffer, file: 0 });
    }

    pub(super) fn header_info(&mut self, scan: &mut Scan<'_>) -> Result<(), SourceError> {
        scan.expect(b"header_page\0", "the page header's description")?;
        let size = scan.u64("the size of header_page")?;
        let at = scan.file_offset();
        let text = scan.bytes(size, "header_page")?;
        // Old kernels have no such file: 0 bytes, and the usual layout.
        if size > 0 {
            match PageLayout::parse(&String::from_utf8_lossy(&text), scan.endian) {
                Ok(layout) => self.head.layout = layout,
                Err(reason) => return Err(wrong(self.input, at, reason)),
            }
        }
        scan.expect(b"header_event\0", "the event header's description")?;
        let size = scan.u64("the size of header_event")?;
        let text = scan.bytes(size, "header_event")?;
        let text = String::from_utf8_lossy(&text);
        let known = text.contains("type_len") && text.contains("time_delta");
        if !text.is_empty() && !known {
            return Err(scan.error(
                "events have a header of another kind than type_len and time_delta (a kernel before 2.6.31)",
            ));
        }
        Ok(())
    }

    pub(super) fn format(&mut self, scan: &mut Scan<'_>, system: &str) -> Result<(), SourceError> {
        let size = scan.u64("the size of a format")?;
        let at = scan.file_offset();
        let text = scan.bytes(size, "a format")?;
        match EventFormat::parse(system, &String::from_utf8_lossy(&text)) {
            Ok(format) => self.head.info.formats.push(format),
            Err(error) => self.problem(&wrong(self.input, at, error.to_string())),
        }
        Ok(())
    }

    pub(super) fn ftrace_events(&mut self, scan: &mut Scan<'_>) -> Result<(), SourceError> {
        for _ in 0..scan.u32("the number of ftrace formats")? {
            self.format(scan, "ftrace")?;
        }
        Ok(())
    }

    pub(super) fn events(&mut self, scan: &mut Scan<'_>) -> Result<(), SourceError> {
        for _ in 0..scan.u32("the number of event systems")? {
            let system = scan.text(4096, "a system's name")?;
            for _ in 0..scan.u32("the number of a system's events")? {
                self.format(scan, &system)?;
            }
        }
        Ok(())
    }

    pub(super) fn printk(&mut self, scan: &mut Scan<'_>) -> Result<(), SourceError> {
        let size = u64::from(scan.u32("the size of printk_formats")?);
        let text = scan.bytes(size, "printk_formats")?;
        self.head.printk = String::from_utf8_lossy(&text).into_owned();
        Ok(())
    }

    pub(super) fn command_lines(&mut self, scan: &mut Scan<'_>) -> Result<(), SourceError> {
        let size = scan.u64("the size of saved_cmdlines")?;
        let text = scan.bytes(size, "saved_cmdlines")?;
        let tasks: &mut Vec<KnownTask> = &mut self.head.info.tasks;
        facts::saved_cmdlines(&String::from_utf8_lossy(&text), tasks);
        Ok(())
    }

    /// An option that both versions have.
    pub(super) fn option(&mut self, id: u16, data: Vec<u8>, at: u64) {
        let text = || {
            let end = data.iter().position(|&b| b == 0).unwrap_or(data.len());
            String::from_utf8_lossy(&data[..end]).into_owned()
        };
        let endian = self.head.layout.endian;
        let number = |from: usize, size: usize| data.get(from..).and_then(|b| endian.unsigned(b, size));
        match id {
            option::CPUSTAT => {
                let text = text();
                if let Some(name) = text.trim().strip_prefix("Buffer:") {
                    self.stats_of = name.trim().to_owned();
                } else if let Some(counters) = facts::ring_counters(&text) {
                    self.head.counters.push((self.stats_of.clone(), counters));
                }
            }
            option::TRACECLOCK => {
                if !data.is_empty() {
                    self.clock = Some(facts::chosen_clock(&text()));
                }
            }
            option::UNAME => {
                facts::uname(&text(), &mut self.head.info);
                self.fact("uname", text());
            }
            option::VERSION => {
                let version = text();
                let own = version.starts_with("lotse");
                self.head.info.producer = Some(if own { version } else { format!("trace-cmd {version}") });
            }
            option::CPUCOUNT => {
                if let Some(count) = number(0, 4).filter(|&count| count <= u64::from(MOST_CPUS)) {
                    self.head.info.cpu_count = count as u32;
                }
            }
            option::OFFSET => {
                let text = text();
                match text.trim().parse() {
                    Ok(offset) => self.head.time_offset = offset,
                    Err(_) => self.problem(&wrong(
                        self.input,
                        at,
                        format!("the time offset {text:?} is not a number"),
                    )),
                }
                self.fact("time offset", text);
            }
            option::TSC2NSEC => {
                if let (Some(multiplier), Some(shift), Some(offset)) =
                    (number(0, 4), number(4, 4), number(8, 8))
                {
                    self.head.scale = CycleScale::new(multiplier as u32, shift as u32, offset);
                    self.fact("cycles to nanoseconds", format!("× {multiplier} >> {shift} + {offset}"));
                }
            }
            option::TRACEID => {
                if let Some(id) = number(0, 8) {
                    self.fact("trace id", format!("{id:#x}"));
                }
            }
            option::DATE => self.fact("date", text()),
            option::HOOK => self.fact("hook", text()),
            option::PROCMAPS => self.fact("process maps", text()),
            option::TIME_SHIFT => {
                // The peer's id, flags, CPUs; per CPU corrections, which are not applied.
                if let (Some(peer), Some(cpus)) = (number(0, 8), number(12, 4)) {
                    let first = number(16, 4).unwrap_or(0);
                    self.fact(
                        "time shift",
                        format!(
                            "to trace {peer:#x}, {cpus} CPUs, {first} corrections on the first; not applied"
                        ),
                    );
                }
            }
            option::GUEST => {
                let name = text();
                let from = name.len() + 1;
                if let (Some(id), Some(cpus)) = (number(from, 8), number(from + 8, 4)) {
                    let tasks: Vec<String> = (0..cpus.min(1024) as usize)
                        .filter_map(|at| {
                            Some(format!(
                                "{}:{}",
                                number(from + 12 + 8 * at, 4)?,
                                number(from + 16 + 8 * at, 4)?
                            ))
                        })
                        .collect();
                    self.fact("guest", format!("{name}, trace {id:#x}, cpu:tid {}", tasks.join(" ")));
                }
            }
            option::SAVED_TGIDS | option::THREAD_GROUPS => self.tgids = Some(text()),
            option::LEDGER => match facts::account(&data) {
                Ok(account) => {
                    if account.cut {
                        self.head.info.cut.get_or_insert_with(|| {
                            "the recorder was killed; what came after the last page is missing".to_owned()
                        });
                    }
                    self.head.account = Some(account);
                }
                Err(reason) => self.problem(&wrong(self.input, at, reason)),
            },
            option::STRINGS => {}
            _ => self.fact(&format!("option {id}"), format!("{} bytes", data.len())),
        }
    }
}
