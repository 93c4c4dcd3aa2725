//! Version 7: sections, found through options (`trace-cmd.dat.v7(5)`).

use std::collections::HashSet;

use trace::{ClockKind, Cpu, SourceError};

use super::{
    facts::{self, option},
    head::{Buffer, HeadReader, MOST_CPUS, Section, check_page_size},
};
use crate::{input::wrong, scan::Scan};

/// Sections are numbered as the options that tell of them.
const LAST_KNOWN_SECTION: u16 = 64;

impl HeadReader<'_> {
    pub(super) fn version_7(&mut self, scan: &mut Scan<'_>) -> Result<(), SourceError> {
        let algorithm = scan.text(64, "the compression's name")?;
        let version = scan.text(64, "the compression's version")?;
        if algorithm != "none" {
            self.fact("compression", format!("{algorithm} {version}"));
        }
        let first = scan.u64("the position of the options")?;
        let sections_at = scan.at;
        if first < sections_at || first >= self.input.size() {
            let size = self.input.size();
            let why = match first {
                0 => "the recorder was stopped before it had written".to_owned(),
                _ => format!("the file ends at byte {size}, and at byte {first} would begin"),
            };
            return Err(wrong(
                self.input,
                sections_at - 8,
                format!(
                    "{why} the options, without which nothing tells where the events of each CPU are and how they \
                     are laid out; copy the file again, or have trace-cmd put together what it left beside it \
                     (trace-cmd restore FILE.cpu0 …)"
                ),
            ));
        }
        let mut next = first;
        let mut seen = HashSet::new();
        while next != 0 {
            if !seen.insert(next) || seen.len() > 4096 {
                let error = wrong(self.input, next, "option sections refer to each other in a circle");
                self.problem(&error);
                break;
            }
            match self.options_7(next, &algorithm) {
                Ok(following) => next = following,
                // What the first section says is needed; later ones may be lost.
                Err(error) if seen.len() == 1 => return Err(error),
                Err(error) => {
                    self.problem(&error);
                    self.head.info.cut.get_or_insert(format!("options cannot be read: {}", error.reason));
                    break;
                }
            }
        }
        self.look_at_the_end();
        let clock = self.clock.clone();
        let clock = self.head.buffers.first().map(|b| b.clock.clone()).or(clock).unwrap_or(ClockKind::Local);
        self.head.info.clock = clock;
        Ok(())
    }

    /// Notices an end that is missing: behind what the options tell of stand whole sections only.
    fn look_at_the_end(&mut self) {
        let size = self.input.size();
        let extents = self.head.extents.iter().map(|extent| extent.offset.saturating_add(extent.size));
        let mut at = extents.chain([self.furthest.get()]).max().unwrap_or(0);
        let mut names = false;
        while at < size && !names {
            let Ok((id, section)) = self.section(at, "zstd") else {
                return self.cut(format!("the file ends at byte {size}, within the head of a section"));
            };
            // What is no section is somebody's addition.
            if id > LAST_KNOWN_SECTION {
                return;
            }
            names = id == option::STRINGS;
            at = section.offset.saturating_add(section.size);
        }
        if at > size {
            self.cut(format!("the file ends at byte {size}, its last section was to reach to byte {at}"));
        } else if !names && self.head.info.producer.is_some() {
            self.cut(format!("the file ends at byte {size}, before the names of its sections"));
        }
    }

    fn cut(&mut self, reason: String) {
        self.head.info.cut = Some(match self.head.info.cut.take() {
            Some(known) => format!("{known}; {reason}"),
            None => reason,
        });
    }

    /// Where the content of the section at `offset` is, and its number.
    fn section(&self, offset: u64, algorithm: &str) -> Result<(u16, Section), SourceError> {
        let mut scan = Scan::new(self.input, self.head.layout.endian, offset, u64::MAX);
        let id = scan.u16("a section's number")?;
        let flags = scan.u16("a section's flags")?;
        scan.u32("a section's description")?;
        let size = scan.u64("a section's size")?;
        let packed = flags & 1 != 0;
        if packed && algorithm != "zstd" {
            let reason = format!(
                "a section is packed with {algorithm:?}; only zstd is understood (`trace-cmd convert` can repack the file)"
            );
            return Err(scan.error(reason));
        }
        self.furthest.set(self.furthest.get().max(scan.at.saturating_add(size)));
        Ok((id, Section { offset: scan.at, size, packed }))
    }

    fn content(&self, offset: u64, expected: u16, algorithm: &str) -> Result<Scan<'_>, SourceError> {
        let (id, section) = self.section(offset, algorithm)?;
        if id != expected {
            return Err(wrong(self.input, offset, format!("section {id} where {expected} was announced")));
        }
        let bytes = section.content(self.input, self.head.layout.endian)?;
        Ok(Scan::unpacked(self.input, self.head.layout.endian, bytes, offset))
    }

    fn options_7(&mut self, offset: u64, algorithm: &str) -> Result<u64, SourceError> {
        let (bytes, endian) = {
            let mut scan = self.content(offset, option::DONE, algorithm)?;
            let left = scan.left();
            (scan.bytes(left, "options")?, scan.endian)
        };
        let input = self.input;
        let mut scan = Scan::unpacked(input, endian, bytes, offset);
        loop {
            let id = scan.u16("an option's number")?;
            let size = scan.u32("an option's size")?;
            let data = scan.bytes(u64::from(size), "an option")?;
            if id == option::DONE {
                let mut scan = Scan::unpacked(input, endian, data, offset);
                return if scan.left() >= 8 { scan.u64("the next options' position") } else { Ok(0) };
            }
            if let Err(error) = self.option_7(id, &data, offset, algorithm) {
                self.problem(&error);
            }
        }
    }

    fn option_7(&mut self, id: u16, data: &[u8], at: u64, algorithm: &str) -> Result<(), SourceError> {
        let input = self.input;
        let endian = self.head.layout.endian;
        let mut inner = Scan::unpacked(input, endian, data.to_vec(), at);
        match id {
            option::HEADER_INFO
            | option::FTRACE_EVENTS
            | option::EVENT_FORMATS
            | option::PRINTK
            | option::CMDLINES
            | option::KALLSYMS => {
                let offset = inner.u64("a section's position")?;
                if id == option::KALLSYMS {
                    let (_, section) = self.section(offset, algorithm)?;
                    self.head.symbols = Some(section);
                    return Ok(());
                }
                let bytes = {
                    let mut scan = self.content(offset, id, algorithm)?;
                    let left = scan.left();
                    scan.bytes(left, "a section")?
                };
                let mut scan = Scan::unpacked(input, endian, bytes, offset);
                match id {
                    option::HEADER_INFO => self.header_info(&mut scan),
                    option::FTRACE_EVENTS => self.ftrace_events(&mut scan),
                    option::EVENT_FORMATS => self.events(&mut scan),
                    option::PRINTK => self.printk(&mut scan),
                    _ => self.command_lines(&mut scan),
                }
            }
            option::BUFFER => self.buffer_7(&mut inner, algorithm),
            option::BUFFER_TEXT => Err(inner.error("a buffer of latency text is left out")),
            _ => {
                self.option(id, data.to_vec(), at);
                Ok(())
            }
        }
    }

    fn buffer_7(&mut self, scan: &mut Scan<'_>, algorithm: &str) -> Result<(), SourceError> {
        let offset = scan.u64("a buffer's position")?;
        let name = scan.text(4096, "a buffer's name")?;
        let clock = scan.text(256, "a buffer's clock")?;
        let page_size = scan.u32("a buffer's page size")?;
        let cpus = scan.u32("a buffer's CPUs")?;
        check_page_size(scan, page_size)?;
        let (_, section) = self.section(offset, algorithm)?;
        if cpus > 0 && !self.head.extents.is_empty() && page_size as usize != self.head.page_size {
            return Err(scan.error(format!(
                "buffer {name:?} has pages of {page_size} bytes, others of {}",
                self.head.page_size
            )));
        }
        if cpus > 0 {
            self.head.page_size = page_size as usize;
        }
        let buffer = self.head.buffers.len() as u32;
        self.head.buffers.push(Buffer { name, clock: facts::chosen_clock(&clock) });
        for _ in 0..cpus {
            let cpu = scan.u32("a CPU's number")?;
            let offset = scan.u64("a CPU's position")?;
            let size = scan.u64("a CPU's size")?;
            if cpu >= MOST_CPUS {
                return Err(scan.error(format!("CPU {cpu}")));
            }
            self.extent(Cpu(cpu), offset, size, section.packed, buffer);
        }
        Ok(())
    }
}
