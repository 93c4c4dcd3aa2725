//! trace.dat version 7: sections that are found through options (trace-cmd.dat.v7(5)).
//! What is known before the pages stands before them, with options that say where the pages are:
//! of a file that was copied in part, all pages that came along can be read. Behind the pages
//! follow the threads' names (which are known only when the pages have been counted), the
//! account in a second part of the options, and the sections' names.

use std::io;

use super::dat_parts::{
    CpuExtent, DatFile, Metadata, Trailer, long_sized, magic, option, option_bytes, short_sized,
};

/// A version 7 file being written.
#[derive(Debug)]
pub(super) struct Dat7 {
    out: DatFile,
    zstd_level: Option<i32>,
    // Where the offset of the next options is to be put.
    next_options_at: u64,
    // Options that are not yet written.
    options: Vec<(u16, Vec<u8>)>,
    names: Vec<u8>,
}

const COMPRESSED: u16 = 1;
/// The number and length of an option that is a position.
const DONE_BYTES: u64 = 2 + 4;

impl Dat7 {
    /// Writes what is known before the pages.
    pub fn begin(
        mut out: DatFile,
        page_size: u32,
        zstd_level: Option<i32>,
        metadata: &Metadata,
        kernel_symbols: Option<&[u8]>,
    ) -> io::Result<Self> {
        out.put(&magic("7", page_size))?;
        match zstd_level {
            Some(_) => out.put(format!("zstd\0{}\0", zstd::zstd_safe::version_string()).as_bytes())?,
            None => out.put(b"none\0\0")?,
        }
        let next_options_at = out.position();
        out.put(&0u64.to_ne_bytes())?;
        let mut dat = Dat7 { out, zstd_level, next_options_at, options: Vec::new(), names: Vec::new() };
        dat.section(option::HEADER_INFO, "headers", &metadata.header_info())?;
        dat.section(option::FTRACE_EVENTS, "ftrace events", &metadata.ftrace_events())?;
        dat.section(option::EVENT_FORMATS, "events format", &metadata.events())?;
        if let Some(symbols) = kernel_symbols {
            dat.section(option::KALLSYMS, "kallsyms", &short_sized(symbols))?;
        }
        dat.section(option::PRINTK, "printk", &short_sized(metadata.printk_formats.as_bytes()))?;
        Ok(dat)
    }

    /// Writes the options that are known, and the section of pages; `write_pages` puts the pages
    /// of each of the CPUs and says where.
    pub fn pages(
        &mut self,
        page_size: u32,
        metadata: &Metadata,
        cpus: &[u32],
        write_pages: impl FnOnce(&mut DatFile) -> io::Result<Vec<CpuExtent>>,
    ) -> io::Result<()> {
        // Readers need the general options (clock, CPU count) before those of the buffer.
        let mut options = metadata.options();
        options.append(&mut self.options);
        let nowhere: Vec<CpuExtent> =
            cpus.iter().map(|&cpu| CpuExtent { cpu, ..CpuExtent::default() }).collect();
        let buffer = buffer_option(0, &metadata.clock, page_size, &nowhere);
        let buffer_bytes = buffer.len() as u64;
        options.push((option::BUFFER, buffer));
        self.put_options(&options)?;
        let buffer_at = self.next_options_at - DONE_BYTES - buffer_bytes;
        let start = self.out.position();
        let flags = if self.zstd_level.is_some() { COMPRESSED } else { 0 };
        self.section_header(option::BUFFER, "buffer flyrecord", flags, 0)?;
        let content = self.out.position();
        let extents = write_pages(&mut self.out)?;
        let size = self.out.position() - content;
        self.out.patch(start + 8, &size.to_ne_bytes())?;
        self.out.patch(buffer_at, &buffer_option(start, &metadata.clock, page_size, &extents))
    }

    /// Writes the threads' names, the rest of the options and the sections' names; answers the
    /// file's size.
    pub fn finish(mut self, trailer: &Trailer) -> io::Result<u64> {
        self.section(option::CMDLINES, "command lines", &long_sized(trailer.comms.as_bytes()))?;
        let mut options = trailer.options();
        options.append(&mut self.options);
        self.put_options(&options)?;
        let name = self.name("strings");
        let names = std::mem::take(&mut self.names);
        let stored = self.stored(&names)?;
        self.put_header(option::STRINGS, self.flags(), name, stored.len() as u64)?;
        self.out.put(&stored)?;
        self.out.finish()
    }

    /// Writes options and links them to those before.
    fn put_options(&mut self, options: &[(u16, Vec<u8>)]) -> io::Result<()> {
        let done = (option::DONE, 0u64.to_ne_bytes().to_vec());
        let all = options.iter().chain([&done]);
        let bytes: Vec<u8> = all.flat_map(|(id, content)| option_bytes(*id, content)).collect();
        let at = self.out.position();
        self.section_header(option::DONE, "options", 0, bytes.len() as u64)?;
        self.out.put(&bytes)?;
        self.out.patch(self.next_options_at, &at.to_ne_bytes())?;
        self.next_options_at = self.out.position() - 8;
        Ok(())
    }

    fn section(&mut self, id: u16, name: &str, content: &[u8]) -> io::Result<()> {
        let at = self.out.position();
        let stored = self.stored(content)?;
        self.section_header(id, name, self.flags(), stored.len() as u64)?;
        self.out.put(&stored)?;
        self.options.push((id, at.to_ne_bytes().to_vec()));
        Ok(())
    }

    fn flags(&self) -> u16 {
        if self.zstd_level.is_some() { COMPRESSED } else { 0 }
    }

    fn stored(&self, content: &[u8]) -> io::Result<Vec<u8>> {
        let Some(level) = self.zstd_level else { return Ok(content.to_vec()) };
        let packed = zstd::bulk::compress(content, level)?;
        let sizes = [(packed.len() as u32).to_ne_bytes(), (content.len() as u32).to_ne_bytes()].concat();
        Ok([sizes, packed].concat())
    }

    fn section_header(&mut self, id: u16, name: &str, flags: u16, size: u64) -> io::Result<()> {
        let name = self.name(name);
        self.put_header(id, flags, name, size)
    }

    fn put_header(&mut self, id: u16, flags: u16, name: u32, size: u64) -> io::Result<()> {
        self.out.put(&id.to_ne_bytes())?;
        self.out.put(&flags.to_ne_bytes())?;
        self.out.put(&name.to_ne_bytes())?;
        self.out.put(&size.to_ne_bytes())
    }

    /// Notes a section's name; answers its place among the names.
    fn name(&mut self, name: &str) -> u32 {
        let at = self.names.len() as u32;
        self.names.extend(name.as_bytes());
        self.names.push(0);
        at
    }
}

/// What says where the pages of each CPU are. Named "" as the top-level buffer is: readers put
/// other names before every event.
fn buffer_option(section: u64, clock: &str, page_size: u32, extents: &[CpuExtent]) -> Vec<u8> {
    let mut buffer = section.to_ne_bytes().to_vec();
    buffer.push(0);
    buffer.extend(clock.as_bytes());
    buffer.push(0);
    buffer.extend(page_size.to_ne_bytes());
    buffer.extend((extents.len() as u32).to_ne_bytes());
    for extent in extents {
        buffer.extend(extent.cpu.to_ne_bytes());
        buffer.extend(extent.offset.to_ne_bytes());
        buffer.extend(extent.size.to_ne_bytes());
    }
    buffer
}
