//! Moving one CPU's pages from their raw file into the trace file: counted on the way, and
//! compressed in chunks on all cores where that is asked for.

use std::fs::File;
use std::io::{self, Read};
use std::thread;

use super::dat_parts::{CpuExtent, DatFile};
use super::pages::{PageAccount, PageLayout, forget_missed};

/// Pages in a chunk. trace-cmd writes 10; longer chunks compress better, and a reader that
/// wants one page has to inflate a whole chunk: 256 KiB takes well under a millisecond.
const PAGES_IN_CHUNK: usize = 64;

/// How pages are stored.
#[derive(Debug, Clone, Copy)]
pub(super) enum Packing {
    /// As they are.
    Raw,
    /// Version 7's chunks, zstd at this level.
    Zstd(i32),
}

/// Called with the number of raw bytes that are in the trace file, from the start of the raw
/// file on.
pub(super) type OnStored<'a> = &'a mut dyn FnMut(&File, u64);

/// Appends all whole pages of `raw` to `out`, counting them into `account`. A page that is
/// damaged or cut off ends the copy when `cut` is set and is an error otherwise.
pub(super) fn copy_pages(
    raw: &File,
    account: &mut PageAccount,
    layout: PageLayout,
    packing: Packing,
    cut: bool,
    out: &mut DatFile,
    on_stored: OnStored<'_>,
) -> io::Result<CpuExtent> {
    let threads = thread::available_parallelism().map_or(1, |n| n.get().min(8));
    let chunk_bytes = PAGES_IN_CHUNK * layout.size;
    let mut buffer = vec![0u8; chunk_bytes * threads];
    let mut stored = 0u64;
    let mut chunks = 0u32;
    out.align(layout.size as u64)?;
    let offset = out.position();
    if matches!(packing, Packing::Zstd(_)) {
        out.put(&0u32.to_ne_bytes())?;
    }
    loop {
        let got = read_up_to(raw, &mut buffer)?;
        let whole = got / layout.size * layout.size;
        if whole < got && !cut {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("a page of CPU {} is incomplete", account.cpu.cpu),
            ));
        }
        let good = count_pages(&buffer[..whole], layout, account, cut)?;
        if account.window && stored == 0 && good > 0 {
            forget_missed(&mut buffer[..layout.size]);
        }
        match packing {
            Packing::Raw => out.put(&buffer[..good])?,
            Packing::Zstd(level) => {
                for packed in compress(&buffer[..good], chunk_bytes, level)? {
                    out.put(&(packed.bytes.len() as u32).to_ne_bytes())?;
                    out.put(&(packed.unpacked as u32).to_ne_bytes())?;
                    out.put(&packed.bytes)?;
                    chunks += 1;
                }
            }
        }
        stored += good as u64;
        on_stored(raw, stored);
        if good < buffer.len() {
            break;
        }
    }
    let mut size = out.position() - offset;
    match packing {
        Packing::Zstd(_) if chunks > 0 => out.patch(offset, &chunks.to_ne_bytes())?,
        // A CPU without events has no chunks and no count of them either.
        Packing::Zstd(_) => size = 0,
        Packing::Raw => {}
    }
    Ok(CpuExtent { cpu: account.cpu.cpu, offset, size })
}

/// Counts pages; answers how many bytes of them are good.
fn count_pages(pages: &[u8], layout: PageLayout, account: &mut PageAccount, cut: bool) -> io::Result<usize> {
    for (number, page) in pages.chunks_exact(layout.size).enumerate() {
        // The page cache may hold a hole where a killed recorder's last write was to be.
        let hole = page[..layout.data].iter().all(|&byte| byte == 0);
        let counted = if hole { Err("a page without a time".to_owned()) } else { account.add(page) };
        match counted {
            Ok(()) => {}
            Err(_) if cut => return Ok(number * layout.size),
            Err(reason) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("CPU {}: {reason}", account.cpu.cpu),
                ));
            }
        }
    }
    Ok(pages.len())
}

struct Packed {
    bytes: Vec<u8>,
    unpacked: usize,
}

fn compress(pages: &[u8], chunk_bytes: usize, level: i32) -> io::Result<Vec<Packed>> {
    let pack = |chunk: &[u8]| -> io::Result<Packed> {
        Ok(Packed { bytes: zstd::bulk::compress(chunk, level)?, unpacked: chunk.len() })
    };
    let mut chunks = pages.chunks(chunk_bytes);
    if pages.len() <= chunk_bytes {
        return chunks.next().map(pack).into_iter().collect();
    }
    thread::scope(|scope| {
        let workers: Vec<_> = chunks.map(|chunk| scope.spawn(move || pack(chunk))).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, io::Result<Packed>>| match worker.join() {
            Ok(packed) => packed,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        workers.into_iter().map(join).collect()
    })
}

fn read_up_to(mut file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}
