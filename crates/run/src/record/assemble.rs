//! From raw pages to a standard trace file with its account.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::Path;

use kernel::procfs::ThreadName;

use super::dat_pages::{Packing, copy_pages};
use super::dat_parts::{CpuExtent, DatFile, Trailer};
use super::dat6;
use super::dat7::Dat7;
use super::error::RecordError;
use super::ledger::{CpuLedger, LEDGER_VERSION, Ledger, LossInterval, join_down_to};
use super::pages::PageAccount;
use super::recording::Recorded;
use super::spec::LEVEL_BY_AMOUNT;

/// Writes the trace file, makes it the output and removes the folder. Answers the account and
/// the file's size. `cut` marks a recording whose recorder was killed.
pub(super) fn assemble(
    recorded: Recorded,
    output: &Path,
    kernel_symbols: bool,
    cut: bool,
) -> Result<(Ledger, u64), RecordError> {
    // The raw pages may fit on the disk and the file beside them not. Giving the pages up as
    // they are stored comes second, since it cannot be tried again; what a killed recorder left
    // stays until there is room.
    let written = match write_to_parts(&recorded, kernel_symbols, cut, recorded.disk_full) {
        Err(error) if error.is_full_disk() && !recorded.disk_full && !cut => {
            write_to_parts(&recorded, kernel_symbols, cut, true)
        }
        written => written,
    };
    let (ledger, size) = match written {
        Ok(written) => written,
        Err(WriteError::Record(error)) => return Err(error),
        Err(WriteError::Output(source)) => return Err(RecordError::output("write", output, source)),
    };
    recorded.parts.publish(output)?;
    Ok((ledger, size))
}

fn write_to_parts(
    recorded: &Recorded,
    kernel_symbols: bool,
    cut: bool,
    free_space: bool,
) -> Result<(Ledger, u64), WriteError> {
    write(recorded, recorded.parts.create_trace()?, kernel_symbols, cut, free_space)
}

enum WriteError {
    Record(RecordError),
    Output(io::Error),
}

impl WriteError {
    fn is_full_disk(&self) -> bool {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        let source = match self {
            WriteError::Output(source) | WriteError::Record(RecordError::Output { source, .. }) => source,
            WriteError::Record(_) => return false,
        };
        full.contains(&source.kind())
    }
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        WriteError::Output(error)
    }
}

impl From<RecordError> for WriteError {
    fn from(error: RecordError) -> Self {
        WriteError::Record(error)
    }
}

fn write(
    recorded: &Recorded,
    trace: File,
    kernel_symbols: bool,
    cut: bool,
    free_space: bool,
) -> Result<(Ledger, u64), WriteError> {
    let manifest = &recorded.manifest;
    let kernel_symbols = if kernel_symbols { Some(std::fs::read("/proc/kallsyms")?) } else { None };
    let page_size = recorded.layout.size as u32;
    if manifest.dat_version == 6 {
        // Options come before pages here, and the account is an option: count first.
        let mut nowhere = DatFile::new(File::create("/dev/null")?);
        let (_, accounts) = copy_all(recorded, Packing::Raw, cut, &mut nowhere, false)?;
        let (ledger, mut trailer) = conclude(recorded, accounts, cut)?;
        trailer.kernel_symbols = kernel_symbols;
        let size = dat6::write(DatFile::new(trace), page_size, &manifest.metadata, &trailer, |out| {
            let copied = copy_all(recorded, Packing::Raw, cut, out, free_space);
            copied.map(|(extents, _)| extents).map_err(flat)
        })?;
        return Ok((ledger, size));
    }
    let zstd_level = manifest.zstd_level.map(|level| match level {
        LEVEL_BY_AMOUNT => level_for(recorded),
        asked => asked,
    });
    let packing = zstd_level.map_or(Packing::Raw, Packing::Zstd);
    let out = DatFile::new(trace);
    let mut dat = Dat7::begin(out, page_size, zstd_level, &manifest.metadata, kernel_symbols.as_deref())?;
    let mut accounts = Vec::new();
    dat.pages(page_size, &manifest.metadata, &manifest.cpus, |out| {
        let (extents, counted) = copy_all(recorded, packing, cut, out, free_space).map_err(flat)?;
        accounts = counted;
        Ok(extents)
    })?;
    let (ledger, trailer) = conclude(recorded, accounts, cut)?;
    let size = dat.finish(&trailer)?;
    Ok((ledger, size))
}

/// Raw pages up to so many bytes for each core are packed well, about a second's work; more are
/// packed quickly. Level 8 leaves 13 to 26 % less than level 1 and takes three times as long;
/// levels between leave more, level 19 takes twenty to forty times as long for 3 to 9 %
/// (docs/recording.md).
const PACKED_WELL: u64 = 40 << 20;

fn level_for(recorded: &Recorded) -> i32 {
    let pages = recorded.manifest.cpus.iter().map(|&cpu| recorded.parts.pages_path(cpu));
    let bytes: u64 = pages.map(|path| path.metadata().map_or(0, |file| file.len())).sum();
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    if bytes <= PACKED_WELL * cores.min(8) { 8 } else { 1 }
}

/// The account, and all that is known once the pages have been counted.
fn conclude(
    recorded: &Recorded,
    accounts: Vec<PageAccount>,
    cut: bool,
) -> Result<(Ledger, Trailer), WriteError> {
    let mut threads = recorded.threads.clone();
    // The kernel remembers names of threads long gone: those of them that caused events.
    let known: HashSet<u32> = threads.iter().map(|thread| thread.tid).collect();
    let acted = |tid: u32| accounts.iter().any(|account| account.threads.contains(&tid));
    let gone = recorded.remembered.iter().filter(|thread| !known.contains(&thread.tid) && acted(thread.tid));
    threads.extend(gone.cloned());
    let (comms, tgids) = thread_texts(&threads);
    let ledger = ledger(recorded, accounts, cut);
    let json = ledger_json(&ledger)?;
    let trailer =
        Trailer { comms, tgids, cpu_stats: recorded.stats_texts.clone(), kernel_symbols: None, ledger: json };
    Ok((ledger, trailer))
}

fn flat(error: WriteError) -> io::Error {
    match error {
        WriteError::Output(error) => error,
        WriteError::Record(RecordError::Output { source, .. }) => source,
        WriteError::Record(error) => io::Error::other(error.to_string()),
    }
}

fn ledger_json(ledger: &Ledger) -> io::Result<Vec<u8>> {
    serde_json::to_vec(ledger).map_err(io::Error::from)
}

/// Copies every CPU's pages. With `free_space` the raw file gives back its blocks as they are
/// stored: on a full disk there is no other room for the result.
fn copy_all(
    recorded: &Recorded,
    packing: Packing,
    cut: bool,
    out: &mut DatFile,
    free_space: bool,
) -> Result<(Vec<CpuExtent>, Vec<PageAccount>), WriteError> {
    let manifest = &recorded.manifest;
    let (mut extents, mut accounts) = (Vec::new(), Vec::new());
    for &cpu in &manifest.cpus {
        let mut account = PageAccount::new(cpu, recorded.layout, &manifest.own_threads, manifest.started_ns);
        account.window = manifest.window;
        let raw = recorded.parts.open_pages(cpu)?;
        let mut on_stored = |raw: &File, stored: u64| {
            if free_space {
                // A file system that cannot punch holes leaves things as they are.
                let _ = kernel::files::punch_hole(raw, 0, stored);
            }
        };
        extents.push(copy_pages(&raw, &mut account, recorded.layout, packing, cut, out, &mut on_stored)?);
        accounts.push(account);
    }
    Ok((extents, accounts))
}

fn thread_texts(threads: &[ThreadName]) -> (String, String) {
    let (mut comms, mut tgids) = (String::new(), String::new());
    for thread in threads {
        // One line per thread: a name may hold anything, also a line break.
        let comm: String = thread.comm.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        comms.push_str(&format!("{} {comm}\n", thread.tid));
        if thread.pid != 0 {
            tgids.push_str(&format!("{} {}\n", thread.tid, thread.pid));
        }
    }
    (comms, tgids)
}

/// Puts the account together: what the pages hold beside what the kernel counted.
fn ledger(recorded: &Recorded, accounts: Vec<PageAccount>, cut: bool) -> Ledger {
    let manifest = &recorded.manifest;
    let own = accounts.iter().map(|account| account.own).sum();
    let cpus: Vec<CpuLedger> =
        accounts.into_iter().map(|account| cpu_ledger(recorded, account.cpu)).collect();
    let whole_from = cpus.iter().filter(|cpu| cpu.discarded > 0).map(|cpu| cpu.first_ns).max();
    let last_event = cpus.iter().map(|cpu| cpu.last_ns).max().unwrap_or(0).max(manifest.started_ns);
    Ledger {
        version: LEDGER_VERSION,
        cpus,
        filtered: recorded.filtered,
        own,
        own_threads: manifest.own_threads.clone(),
        cut,
        clock: manifest.metadata.clock.clone(),
        started_ns: manifest.started_ns,
        ended_ns: if cut { last_event } else { recorded.ended_ns },
        window_from_ns: manifest.window.then(|| whole_from.unwrap_or(manifest.started_ns)),
        triggered_ns: recorded.triggered_ns,
        realtime_offset_ns: manifest.realtime_offset_ns,
    }
}

fn cpu_ledger(recorded: &Recorded, mut cpu: CpuLedger) -> CpuLedger {
    let last_known = cpu.last_ns.max(recorded.manifest.started_ns);
    let at_end = |count: u64| LossInterval {
        from_ns: last_known,
        to_ns: recorded.ended_ns.max(last_known),
        count: Some(count),
        in_pages: false,
    };
    let mut elsewhere = Vec::new();
    if let Some(stats) = recorded.stats.get(&cpu.cpu) {
        cpu.read = Some(stats.read);
        cpu.lost.refused = stats.dropped;
        cpu.lost.nested = stats.commit_overrun;
        // The kernel's total is exact; a page tells its part of it only if it had room to.
        let mut untold = stats.overrun.saturating_sub(cpu.lost.overwritten + cpu.discarded);
        if recorded.manifest.window && cpu.discarded == 0 {
            // Its first page had no room for the number.
            cpu.discarded = std::mem::take(&mut untold);
        }
        cpu.lost.overwritten = stats.overrun.saturating_sub(cpu.discarded);
        let unknown: Vec<usize> = (0..cpu.losses.len()).filter(|&i| cpu.losses[i].count.is_none()).collect();
        match unknown.as_slice() {
            [only] => cpu.losses[*only].count = Some(untold),
            [] if untold > 0 => elsewhere.push(at_end(untold)),
            _ => {}
        }
    }
    if let Some(&unwritten) = recorded.unwritten.get(&cpu.cpu)
        && unwritten > 0
    {
        cpu.lost.unwritten = unwritten;
        elsewhere.push(at_end(unwritten));
    }
    elsewhere.extend(recorded.unmarked_losses.get(&cpu.cpu).into_iter().flatten());
    join_down_to(&mut cpu.losses, 4096);
    join_down_to(&mut elsewhere, 4096);
    cpu.losses.append(&mut elsewhere);
    cpu.losses.sort_by_key(|loss| (loss.from_ns, loss.to_ns));
    cpu
}
