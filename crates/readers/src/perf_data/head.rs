//! Everything in a perf.data that is not a record of the data: the header, attributes,
//! feature sections; in pipe mode the records that stand for them.

use trace::{ClockKind, Endian, SourceError, TraceInfo};

use super::{
    attribute::{Attribute, SMALLEST},
    record,
};
use crate::{
    input::{Input, wrong},
    scan::Scan,
    trace_dat::{TracingData, read_tracing_data},
};

/// What was learnt before reading data.
pub(super) struct Head {
    pub(super) info: TraceInfo,
    pub(super) attributes: Vec<Attribute>,
    /// Where records begin and end.
    pub(super) data: (u64, u64),
    pub(super) printk: String,
    /// Bytes that one compressed record unpacks to at most.
    pub(super) unpacked_at_most: u64,
}

const MAGIC_LITTLE: &[u8] = b"PERFILE2";
const MAGIC_BIG: &[u8] = b"2ELIFREP";

/// Whether the file begins as a perf.data does.
pub(crate) fn is_perf_data(start: &[u8]) -> bool {
    start.starts_with(MAGIC_LITTLE) || start.starts_with(MAGIC_BIG) || start.starts_with(b"PERFFILE")
}

/// More attributes than this are not believed.
const MOST_ATTRIBUTES: u64 = 1 << 16;

/// How many bytes of a pipe's records are searched for what describes it.
const PIPE_SEARCH: u64 = 64 << 20;

mod feature {
    pub(super) const TRACING_DATA: u32 = 1;
    pub(super) const HOSTNAME: u32 = 3;
    pub(super) const OSRELEASE: u32 = 4;
    pub(super) const VERSION: u32 = 5;
    pub(super) const ARCH: u32 = 6;
    pub(super) const NRCPUS: u32 = 7;
    pub(super) const CPUDESC: u32 = 8;
    pub(super) const CPUID: u32 = 9;
    pub(super) const TOTAL_MEM: u32 = 10;
    pub(super) const CMDLINE: u32 = 11;
    pub(super) const EVENT_DESC: u32 = 12;
    pub(super) const SAMPLE_TIME: u32 = 21;
    pub(super) const CLOCKID: u32 = 23;
    pub(super) const DIR_FORMAT: u32 = 24;
    pub(super) const COMPRESSED: u32 = 27;
    pub(super) const CLOCK_DATA: u32 = 29;
    pub(super) const COUNT: u32 = 256;
}

pub(super) fn read(input: &dyn Input) -> Result<Head, SourceError> {
    let mut scan = Scan::new(input, Endian::Little, 0, u64::MAX);
    let magic = scan.bytes(8, "the magic number")?;
    let endian = match magic.as_slice() {
        MAGIC_LITTLE => Endian::Little,
        MAGIC_BIG => Endian::Big,
        _ => {
            return Err(wrong(
                input,
                0,
                "a perf.data of version 1 (before Linux 2.6.34), which is not understood",
            ));
        }
    };
    scan.endian = endian;
    let size = scan.u64("the header's size")?;
    let mut info = TraceInfo::new("perf.data");
    info.endian = endian;
    let head = Head {
        info,
        attributes: Vec::new(),
        data: (size, input.size()),
        printk: String::new(),
        unpacked_at_most: 1 << 20,
    };
    let mut reader = HeadReader { input, endian, head };
    match size {
        16 => reader.pipe(16)?,
        104.. if size < 1 << 20 => reader.file(&mut scan)?,
        other => {
            return Err(wrong(input, 8, format!("a header of {other} bytes; 16 (pipe) or 104 are usual")));
        }
    }
    Ok(reader.finish())
}

struct HeadReader<'a> {
    input: &'a dyn Input,
    endian: Endian,
    head: Head,
}

impl HeadReader<'_> {
    fn problem(&mut self, error: &SourceError) {
        self.head.info.problems.push(format!("at byte {}: {}", error.offset, error.reason));
    }

    fn fact(&mut self, key: &str, value: impl Into<String>) {
        self.head.info.facts.push((key.to_owned(), value.into()));
    }

    fn finish(self) -> Head {
        let mut head = self.head;
        let clock = head.attributes.iter().map(Attribute::clock).next().unwrap_or(ClockKind::Local);
        if head.attributes.iter().any(|attribute| attribute.clock() != clock) {
            head.info
                .problems
                .push("events use different clocks; their order is not to be trusted".to_owned());
        }
        head.info.clock = clock;
        for attribute in &mut head.attributes {
            if attribute.is_tracepoint()
                && let Some(format) = head.info.formats.iter().find(|f| u64::from(f.id) == attribute.config)
            {
                attribute.name = format.full_name();
            }
        }
        head.info.sampled = head.attributes.iter().map(|attribute| attribute.name.clone()).collect();
        head
    }

    // ----- file mode -----

    fn file(&mut self, scan: &mut Scan<'_>) -> Result<(), SourceError> {
        self.head.info.file_format = "perf.data (file mode)".to_owned();
        let entry_size = scan.u64("the size of attributes")?;
        let attributes = (scan.u64("the attributes' position")?, scan.u64("the attributes' size")?);
        let data = (scan.u64("the data's position")?, scan.u64("the data's size")?);
        scan.skip(16, "the old list of events")?;
        let features_at = scan.at;
        let bits: Vec<u64> =
            (0..feature::COUNT / 64).map(|_| scan.u64("feature bits")).collect::<Result<_, _>>()?;
        self.attribute_table(entry_size, attributes)?;

        let size = self.input.size();
        if data.0 > size {
            return Err(wrong(
                self.input,
                features_at,
                format!("data are to begin at byte {} of {size}", data.0),
            ));
        }
        let end = data.0.saturating_add(data.1);
        self.head.data = (data.0, end.min(size));
        if data.1 == 0 && size > data.0 {
            // The size is written at the end of recording.
            self.head.data.1 = size;
            self.head.info.cut =
                Some("the recorder was stopped before it had written the file's header; records are read to the file's end".to_owned());
            return Ok(());
        }
        if end > size {
            self.head.info.cut =
                Some(format!("the file ends at byte {size}; data were to reach to byte {end}"));
            return Ok(());
        }
        let mut table = Scan::new(self.input, self.endian, end, u64::MAX);
        for number in (0..feature::COUNT).filter(|n| bits[(n / 64) as usize] >> (n % 64) & 1 != 0) {
            let place =
                table.u64("a feature's position").and_then(|at| Ok((at, table.u64("a feature's size")?)));
            let (at, length) = match place {
                Ok(place) => place,
                Err(error) => {
                    self.problem(&error);
                    break;
                }
            };
            if let Err(error) = self.feature(number, at, at.saturating_add(length)) {
                self.problem(&error);
            }
        }
        Ok(())
    }

    fn attribute_table(&mut self, entry_size: u64, (at, size): (u64, u64)) -> Result<(), SourceError> {
        // An attribute and the place of its ids.
        if entry_size < SMALLEST as u64 + 16 || entry_size > 4096 {
            return Err(wrong(self.input, 16, format!("attributes of {entry_size} bytes")));
        }
        let count = size / entry_size;
        if count > MOST_ATTRIBUTES {
            return Err(wrong(self.input, 32, format!("{count} attributes")));
        }
        let mut scan = Scan::new(self.input, self.endian, at, at.saturating_add(size));
        for _ in 0..count {
            let bytes = scan.bytes(entry_size - 16, "an attribute")?;
            let ids = (scan.u64("ids' position")?, scan.u64("ids' size")?);
            let Some(mut attribute) = Attribute::parse(&bytes, self.endian) else { continue };
            let mut scan = Scan::new(self.input, self.endian, ids.0, ids.0.saturating_add(ids.1));
            let bytes = scan.bytes(ids.1, "an attribute's ids")?;
            attribute.ids = bytes.chunks_exact(8).filter_map(|id| self.endian.unsigned(id, 8)).collect();
            self.head.attributes.push(attribute);
        }
        if self.head.attributes.is_empty() {
            return Err(wrong(self.input, at, "the file describes no event"));
        }
        Ok(())
    }

    // ----- pipe mode -----

    /// Reads the records before the first sample.
    fn pipe(&mut self, start: u64) -> Result<(), SourceError> {
        self.head.info.file_format = "perf.data (pipe mode)".to_owned();
        let mut scan = Scan::new(self.input, self.endian, start, start + PIPE_SEARCH);
        while scan.left() >= 8 {
            let at = scan.at;
            let kind = scan.u32("a record's type")?;
            scan.u16("a record's flags")?;
            let size = u64::from(scan.u16("a record's size")?);
            if size < 8 || size > scan.left() + 8 {
                // Told while streaming.
                break;
            }
            let end = at + size;
            match kind {
                record::SAMPLE | record::COMPRESSED | record::COMPRESSED2 => break,
                record::HEADER_ATTR => self.pipe_attribute(&mut scan, end)?,
                record::HEADER_FEATURE if size >= 16 => {
                    let number = scan.u64("a feature's number")?;
                    if let Err(error) = self.feature(u32::try_from(number).unwrap_or(u32::MAX), scan.at, end)
                    {
                        self.problem(&error);
                    }
                }
                record::HEADER_TRACING_DATA if size >= 12 => {
                    let length = u64::from(scan.u32("the size of tracing data")?);
                    self.tracing_data(end, end + length);
                    scan.at = end + length.next_multiple_of(8);
                    continue;
                }
                record::AUXTRACE if size >= 16 => {
                    let length = scan.u64("the size of auxiliary data")?;
                    scan.at = end.saturating_add(length);
                    continue;
                }
                _ => {}
            }
            scan.at = end;
        }
        if self.head.attributes.is_empty() {
            return Err(wrong(self.input, start, "no event is described before the first sample"));
        }
        Ok(())
    }

    fn pipe_attribute(&mut self, scan: &mut Scan<'_>, end: u64) -> Result<(), SourceError> {
        let bytes = scan.bytes(end - scan.at, "an attribute")?;
        let size = bytes.get(4..).and_then(|b| self.endian.unsigned(b, 4)).unwrap_or(0) as usize;
        let size = if size == 0 { SMALLEST } else { size };
        let (Some(mut attribute), Some(ids)) = (Attribute::parse(&bytes, self.endian), bytes.get(size..))
        else {
            return Err(wrong(self.input, end - bytes.len() as u64, "an attribute that is cut off"));
        };
        attribute.ids = ids.chunks_exact(8).filter_map(|id| self.endian.unsigned(id, 8)).collect();
        if self.head.attributes.len() as u64 >= MOST_ATTRIBUTES {
            return Err(wrong(self.input, end, "too many attributes"));
        }
        self.head.attributes.push(attribute);
        Ok(())
    }

    // ----- features, of both modes -----

    fn tracing_data(&mut self, start: u64, end: u64) {
        match read_tracing_data(self.input, start, end) {
            Ok(TracingData { info, printk }) => {
                self.head.info.formats = info.formats;
                self.head.info.long_size = info.long_size;
                self.head.info.problems.extend(info.problems);
                self.head.info.tasks.extend(info.tasks);
                self.head.printk = printk;
            }
            Err(error) => self.problem(&error),
        }
    }

    fn feature(&mut self, number: u32, start: u64, end: u64) -> Result<(), SourceError> {
        if number == feature::TRACING_DATA {
            self.tracing_data(start, end);
            return Ok(());
        }
        let mut scan = Scan::new(self.input, self.endian, start, end);
        let scan = &mut scan;
        match number {
            feature::HOSTNAME => self.head.info.host_name = Some(string(scan)?),
            feature::OSRELEASE => self.head.info.kernel_release = Some(string(scan)?),
            feature::VERSION => self.head.info.producer = Some(format!("perf {}", string(scan)?)),
            feature::ARCH => self.head.info.machine = Some(string(scan)?),
            feature::NRCPUS => {
                self.head.info.cpu_count = scan.u32("the number of CPUs")?;
                let online = scan.u32("the number of CPUs online")?;
                if online != self.head.info.cpu_count {
                    self.fact("cpus online", online.to_string());
                }
            }
            feature::CPUDESC => {
                let text = string(scan)?;
                self.fact("cpu", text);
            }
            feature::CPUID => {
                let text = string(scan)?;
                self.fact("cpu id", text);
            }
            feature::TOTAL_MEM => {
                let kilobytes = scan.u64("the memory")?;
                self.fact("memory, kB", kilobytes.to_string());
            }
            feature::CMDLINE => {
                let mut words = Vec::new();
                for _ in 0..scan.u32("the number of words")? {
                    words.push(string(scan)?);
                }
                self.fact("command line", words.join(" "));
            }
            feature::EVENT_DESC => self.event_description(scan)?,
            feature::SAMPLE_TIME => {
                let (first, last) = (scan.u64("the first time")?, scan.u64("the last time")?);
                self.fact("sample times, ns", format!("{first}–{last}"));
            }
            feature::CLOCKID => {
                let resolution = scan.u64("the clock's resolution")?;
                self.fact("clock resolution, ns", resolution.to_string());
            }
            feature::CLOCK_DATA => {
                scan.u32("a version")?;
                let clock = scan.u32("a clock")?;
                let (wall, time) = (scan.u64("the wall clock")?, scan.u64("the trace's clock")?);
                self.fact("clock reference, ns", format!("clock {clock}: {time} is {wall} since 1970"));
            }
            feature::DIR_FORMAT => self.fact("layout", "a file of a folder"),
            feature::COMPRESSED => {
                scan.u32("a version")?;
                let kind = scan.u32("the compression")?;
                let (_level, _ratio) = (scan.u32("its level")?, scan.u32("its ratio")?);
                let length = scan.u32("the length of a ring")?;
                if kind != 1 {
                    return Err(scan
                        .error(format!("records are compressed by method {kind}; 1 (zstd) is understood")));
                }
                self.head.unpacked_at_most = u64::from(length).clamp(1 << 20, 64 << 20);
            }
            _ => {}
        }
        Ok(())
    }

    /// Names of the events, each with its attribute and ids.
    fn event_description(&mut self, scan: &mut Scan<'_>) -> Result<(), SourceError> {
        let count = scan.u32("the number of events")?;
        let size = u64::from(scan.u32("the size of attributes")?);
        for at in 0..count as usize {
            let attribute = scan.bytes(size, "an attribute")?;
            let ids = scan.u32("the number of ids")?;
            let name = string(scan)?;
            let ids = scan.bytes(u64::from(ids) * 8, "an event's ids")?;
            let ids: Vec<u64> = ids.chunks_exact(8).filter_map(|id| self.endian.unsigned(id, 8)).collect();
            match self.head.attributes.get_mut(at) {
                Some(known) => {
                    known.name = name;
                    if known.ids.is_empty() {
                        known.ids = ids;
                    }
                }
                // In pipe mode attributes may come later or not at all.
                None if at as u64 <= MOST_ATTRIBUTES => {
                    if let Some(mut attribute) = Attribute::parse(&attribute, self.endian) {
                        (attribute.name, attribute.ids) = (name, ids);
                        self.head.attributes.push(attribute);
                    }
                }
                None => break,
            }
        }
        Ok(())
    }
}

/// A text with its padded length before it.
fn string(scan: &mut Scan<'_>) -> Result<String, SourceError> {
    let length = scan.u32("a text's length")?;
    let bytes = scan.bytes(u64::from(length), "a text")?;
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
}
