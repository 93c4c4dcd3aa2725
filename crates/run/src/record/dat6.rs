//! trace.dat version 6: one part after the other, pages last (trace-cmd.dat.v6(5)).

use std::io;

use super::dat_parts::{
    CpuExtent, DatFile, Metadata, Trailer, long_sized, magic, option, option_bytes, short_sized,
};

/// Writes a whole version 6 file; `write_pages` puts the pages of every CPU from 0 to the
/// metadata's CPU count and says where. Answers the file's size. The trailer has to be known:
/// in this version options come before pages, so the caller counts pages in an earlier pass.
pub(super) fn write(
    mut out: DatFile,
    page_size: u32,
    metadata: &Metadata,
    trailer: &Trailer,
    write_pages: impl FnOnce(&mut DatFile) -> io::Result<Vec<CpuExtent>>,
) -> io::Result<u64> {
    out.put(&magic("6", page_size))?;
    out.put(&metadata.header_info())?;
    out.put(&metadata.ftrace_events())?;
    out.put(&metadata.events())?;
    out.put(&short_sized(trailer.kernel_symbols.as_deref().unwrap_or_default()))?;
    out.put(&short_sized(metadata.printk_formats.as_bytes()))?;
    out.put(&long_sized(trailer.comms.as_bytes()))?;
    out.put(&metadata.cpu_count.to_ne_bytes())?;
    out.put(b"options  \0")?;
    for (id, content) in metadata.options().into_iter().chain(trailer.options()) {
        out.put(&option_bytes(id, &content))?;
    }
    out.put(&option::DONE.to_ne_bytes())?;
    out.put(b"flyrecord\0")?;
    let table = out.position();
    let entries = metadata.cpu_count as usize;
    out.put(&vec![0; entries * 16])?;
    let extents = write_pages(&mut out)?;
    let mut bytes = Vec::with_capacity(entries * 16);
    for cpu in 0..metadata.cpu_count {
        let extent = extents.iter().find(|extent| extent.cpu == cpu).copied().unwrap_or_default();
        bytes.extend(extent.offset.to_ne_bytes());
        bytes.extend(extent.size.to_ne_bytes());
    }
    out.patch(table, &bytes)?;
    out.finish()
}
