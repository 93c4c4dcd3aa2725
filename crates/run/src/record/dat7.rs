//! trace.dat version 7: sections that are found through options (trace-cmd.dat.v7(5)).
//! The sections come first, then the pages, the threads' names (which are known only when the
//! pages have been counted), all options, and the sections' names.

use std::io;

use super::dat_parts::{
    CpuExtent, DatFile, Metadata, Trailer, long_sized, magic, option, option_bytes, short_sized,
};

/// A version 7 file being written.
#[derive(Debug)]
pub(super) struct Dat7 {
    out: DatFile,
    zstd_level: Option<i32>,
    // Where the offset of the options is to be put.
    options_at: u64,
    options: Vec<(u16, Vec<u8>)>,
    names: Vec<u8>,
}

const COMPRESSED: u16 = 1;

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
        let options_at = out.position();
        out.put(&0u64.to_ne_bytes())?;
        let mut dat = Dat7 { out, zstd_level, options_at, options: Vec::new(), names: Vec::new() };
        dat.section(option::HEADER_INFO, "headers", &metadata.header_info())?;
        dat.section(option::FTRACE_EVENTS, "ftrace events", &metadata.ftrace_events())?;
        dat.section(option::EVENT_FORMATS, "events format", &metadata.events())?;
        if let Some(symbols) = kernel_symbols {
            dat.section(option::KALLSYMS, "kallsyms", &short_sized(symbols))?;
        }
        dat.section(option::PRINTK, "printk", &short_sized(metadata.printk_formats.as_bytes()))?;
        Ok(dat)
    }

    /// Writes the section of pages; `write_pages` puts each CPU's pages and says where.
    pub fn pages(
        &mut self,
        page_size: u32,
        clock: &str,
        write_pages: impl FnOnce(&mut DatFile) -> io::Result<Vec<CpuExtent>>,
    ) -> io::Result<()> {
        let start = self.out.position();
        let flags = if self.zstd_level.is_some() { COMPRESSED } else { 0 };
        self.section_header(option::BUFFER, "buffer flyrecord", flags, 0)?;
        let content = self.out.position();
        let extents = write_pages(&mut self.out)?;
        let size = self.out.position() - content;
        self.out.patch(start + 8, &size.to_ne_bytes())?;
        // Named "" as the top-level buffer is: readers put other names before every event.
        let mut buffer = start.to_ne_bytes().to_vec();
        buffer.push(0);
        buffer.extend(clock.as_bytes());
        buffer.push(0);
        buffer.extend(page_size.to_ne_bytes());
        buffer.extend((extents.len() as u32).to_ne_bytes());
        for extent in &extents {
            buffer.extend(extent.cpu.to_ne_bytes());
            buffer.extend(extent.offset.to_ne_bytes());
            buffer.extend(extent.size.to_ne_bytes());
        }
        self.options.push((option::BUFFER, buffer));
        Ok(())
    }

    /// Writes the threads' names, the options and the sections' names; answers the file's size.
    pub fn finish(mut self, metadata: &Metadata, trailer: &Trailer) -> io::Result<u64> {
        self.section(option::CMDLINES, "command lines", &long_sized(trailer.comms.as_bytes()))?;
        // Readers need the general options (clock, CPU count) before those of the buffer.
        let mut options = metadata.options(trailer);
        options.append(&mut self.options);
        options.push((option::DONE, 0u64.to_ne_bytes().to_vec()));
        let bytes: Vec<u8> = options.iter().flat_map(|(id, content)| option_bytes(*id, content)).collect();
        let at = self.out.position();
        self.section_header(option::DONE, "options", 0, bytes.len() as u64)?;
        self.out.put(&bytes)?;
        self.out.patch(self.options_at, &at.to_ne_bytes())?;
        let name = self.name("strings");
        let names = std::mem::take(&mut self.names);
        let stored = self.stored(&names)?;
        self.put_header(option::STRINGS, self.flags(), name, stored.len() as u64)?;
        self.out.put(&stored)?;
        self.out.finish()
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
