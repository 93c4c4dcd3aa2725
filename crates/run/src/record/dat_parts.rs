//! The pieces of a trace.dat that both versions share: what a file holds besides pages, and
//! a counting writer for them.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};

/// Everything in a trace file that is not a page of events.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Metadata {
    /// Text of `events/header_page`.
    pub header_page: String,
    /// Text of `events/header_event`.
    pub header_event: String,
    /// Format texts of the tracers' own records.
    pub ftrace_formats: Vec<String>,
    /// Format texts of the recorded events, by system.
    pub event_formats: Vec<(String, Vec<String>)>,
    /// Text of `printk_formats`.
    pub printk_formats: String,
    /// The instance's `trace_clock`: the chosen clock in brackets.
    pub trace_clock: String,
    /// The chosen clock.
    pub clock: String,
    /// System name, release and machine, as `uname -srm` prints them.
    pub uname: String,
    /// CPUs that can ever come online.
    pub cpu_count: u32,
    /// Tells this recording from every other.
    pub trace_id: u64,
}

/// What is known only at the end.
#[derive(Debug, Clone, Default)]
pub(super) struct Trailer {
    /// Lines "TID COMM".
    pub comms: String,
    /// Lines "TID PID".
    pub tgids: String,
    /// For each CPU "CPU: N" and the text of its `stats`.
    pub cpu_stats: Vec<String>,
    /// The account, as JSON.
    pub ledger: Vec<u8>,
    /// Text of /proc/kallsyms, if wanted.
    pub kernel_symbols: Option<Vec<u8>>,
}

/// Options of ours, far from the numbers that trace-cmd hands out. Readers that do not know
/// them skip them by their size.
pub mod own_option {
    /// The account of the recording: JSON of [`crate::record::Ledger`].
    pub const LEDGER: u16 = 0x4c01;
    /// Lines "TID PID": which process a thread belongs to.
    pub const THREAD_GROUPS: u16 = 0x4c02;
}

pub(super) mod option {
    pub const DONE: u16 = 0;
    pub const CPUSTAT: u16 = 2;
    pub const BUFFER: u16 = 3;
    pub const TRACECLOCK: u16 = 4;
    pub const UNAME: u16 = 5;
    pub const CPUCOUNT: u16 = 8;
    pub const VERSION: u16 = 9;
    pub const TRACEID: u16 = 11;
    pub const STRINGS: u16 = 15;
    pub const HEADER_INFO: u16 = 16;
    pub const FTRACE_EVENTS: u16 = 17;
    pub const EVENT_FORMATS: u16 = 18;
    pub const KALLSYMS: u16 = 19;
    pub const PRINTK: u16 = 20;
    pub const CMDLINES: u16 = 21;
}

/// Where one CPU's pages are in the file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CpuExtent {
    pub cpu: u32,
    pub offset: u64,
    pub size: u64,
}

/// A buffered file that knows its position.
#[derive(Debug)]
pub(super) struct DatFile {
    file: BufWriter<File>,
    position: u64,
}

impl DatFile {
    pub fn new(file: File) -> Self {
        DatFile { file: BufWriter::with_capacity(1 << 16, file), position: 0 }
    }

    pub fn position(&self) -> u64 {
        self.position
    }

    pub fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    /// Zero bytes up to the next multiple of `alignment`.
    pub fn align(&mut self, alignment: u64) -> io::Result<()> {
        let gap = self.position.next_multiple_of(alignment) - self.position;
        self.put(&vec![0; gap as usize])
    }

    /// Overwrites bytes written earlier.
    pub fn patch(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.write_all(bytes)?;
        self.file.seek(SeekFrom::Start(self.position))?;
        Ok(())
    }

    /// Writes out what is buffered; answers the file's size.
    pub fn finish(mut self) -> io::Result<u64> {
        self.file.flush()?;
        Ok(self.position)
    }
}

/// The first bytes of a file, up to what differs between versions.
pub(super) fn magic(version: &str, page_size: u32) -> Vec<u8> {
    let big_endian = u8::from(cfg!(target_endian = "big"));
    let mut bytes = b"\x17\x08\x44tracing".to_vec();
    bytes.extend(version.as_bytes());
    bytes.extend([0, big_endian, size_of::<usize>() as u8]);
    bytes.extend(page_size.to_ne_bytes());
    bytes
}

impl Metadata {
    /// Content of the section (v6: part) with the page and event headers.
    pub fn header_info(&self) -> Vec<u8> {
        let mut bytes = b"header_page\0".to_vec();
        put_sized(&mut bytes, self.header_page.as_bytes());
        bytes.extend(b"header_event\0");
        put_sized(&mut bytes, self.header_event.as_bytes());
        bytes
    }

    /// Content of the section with the tracers' own formats.
    pub fn ftrace_events(&self) -> Vec<u8> {
        let mut bytes = (self.ftrace_formats.len() as u32).to_ne_bytes().to_vec();
        for format in &self.ftrace_formats {
            put_sized(&mut bytes, format.as_bytes());
        }
        bytes
    }

    /// Content of the section with the recorded events' formats.
    pub fn events(&self) -> Vec<u8> {
        let mut bytes = (self.event_formats.len() as u32).to_ne_bytes().to_vec();
        for (system, formats) in &self.event_formats {
            bytes.extend(system.as_bytes());
            bytes.push(0);
            bytes.extend((formats.len() as u32).to_ne_bytes());
            for format in formats {
                put_sized(&mut bytes, format.as_bytes());
            }
        }
        bytes
    }

    /// The options that both versions carry and that are known from the start, in order.
    pub fn options(&self) -> Vec<(u16, Vec<u8>)> {
        vec![
            (option::TRACECLOCK, text(&self.trace_clock)),
            (option::UNAME, text(&self.uname)),
            (option::VERSION, text(concat!("lotse ", env!("CARGO_PKG_VERSION")))),
            (option::TRACEID, self.trace_id.to_ne_bytes().to_vec()),
            (option::CPUCOUNT, self.cpu_count.to_ne_bytes().to_vec()),
        ]
    }
}

impl Trailer {
    /// The options that both versions carry behind those of [`Metadata::options`].
    pub fn options(&self) -> Vec<(u16, Vec<u8>)> {
        let stats = self.cpu_stats.iter().map(|stats| (option::CPUSTAT, text(stats)));
        let own = [(own_option::LEDGER, self.ledger.clone()), (own_option::THREAD_GROUPS, text(&self.tgids))];
        stats.chain(own).collect()
    }
}

fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\0"].concat()
}

/// Content of a part with a 32-bit length before it.
pub(super) fn short_sized(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32).to_ne_bytes(), content].concat()
}

/// Content of a part with a 64-bit length before it.
pub(super) fn long_sized(content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(content.len() + 8);
    put_sized(&mut bytes, content);
    bytes
}

/// An option as it stands in the file.
pub(super) fn option_bytes(id: u16, content: &[u8]) -> Vec<u8> {
    [&id.to_ne_bytes()[..], &(content.len() as u32).to_ne_bytes(), content].concat()
}

fn put_sized(bytes: &mut Vec<u8>, content: &[u8]) {
    bytes.extend((content.len() as u64).to_ne_bytes());
    bytes.extend(content);
}
