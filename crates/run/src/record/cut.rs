//! Making a trace file of what a killed recorder left.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::assemble::assemble;
use super::error::RecordError;
use super::ledger::{Filtered, Ledger};
use super::pages::PageLayout;
use super::parts::Parts;
use super::recording::Recorded;
use super::spec::parts_folder;

/// What a recording that is not complete looks like from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutRecording {
    /// The folder.
    pub folder: PathBuf,
    /// The file it was to become.
    pub output: PathBuf,
    /// Its recorder still runs: there is nothing to finish yet.
    pub still_running: bool,
    /// Bytes of pages there.
    pub bytes: u64,
    /// When it began, "mono" and as nanoseconds since 1970.
    pub started_ns: u64,
    /// From "mono" to the wall clock.
    pub realtime_offset_ns: i64,
    /// The events it records, "system:name".
    pub events: Vec<String>,
}

/// Looks at an incomplete recording, given its folder or the file it was to become. `None` if
/// there is none.
pub fn look_at_cut_recording(path: &Path) -> Result<Option<CutRecording>, RecordError> {
    let Some((folder, output)) = folder_and_output(path) else { return Ok(None) };
    let manifest = Parts::read_manifest(&folder)?;
    let parts = Parts::adopt(&folder);
    let size = |&cpu: &u32| std::fs::metadata(parts.pages_path(cpu)).map_or(0, |meta| meta.len());
    Ok(Some(CutRecording {
        bytes: manifest.cpus.iter().map(size).sum(),
        still_running: manifest.owner_lives(),
        started_ns: manifest.started_ns,
        realtime_offset_ns: manifest.realtime_offset_ns,
        events: manifest.events,
        folder,
        output,
    }))
}

/// Makes the trace file of a recording that was killed, given its folder or the file it was to
/// become. The account is marked as cut: its end is the last event that had been fetched, and
/// what was lost after it is not known. Answers the file and its account.
pub fn finish_cut_recording(path: &Path) -> Result<(PathBuf, Ledger), RecordError> {
    let bad = |folder: &Path, reason: &str| RecordError::BadParts {
        path: folder.to_owned(),
        reason: reason.to_owned(),
    };
    let (folder, output) = folder_and_output(path).ok_or_else(|| bad(path, "there is no folder of parts"))?;
    let manifest = Parts::read_manifest(&folder)?;
    if manifest.owner_lives() {
        return Err(bad(&folder, "its recorder still runs; stop that first"));
    }
    if output.exists() {
        return Err(bad(&folder, &format!("{} exists already; move it away first", output.display())));
    }
    let layout = PageLayout::parse(&manifest.metadata.header_page)
        .filter(|layout| layout.size == manifest.page_size as usize)
        .ok_or_else(|| bad(&folder, "its page header is not understood"))?;
    let parts = Parts::adopt(&folder);
    let filtered = if manifest.filters { Filtered::NotCounted } else { Filtered::Nothing };
    let recorded = Recorded {
        threads: parts.read_threads(),
        triggered_ns: None,
        remembered: Vec::new(),
        parts,
        instances: Vec::new(),
        ended_ns: manifest.started_ns,
        manifest,
        layout,
        stats: BTreeMap::new(),
        stats_texts: Vec::new(),
        unwritten: BTreeMap::new(),
        unmarked_losses: BTreeMap::new(),
        filtered,
        disk_full: false,
        swept: Vec::new(),
        notes: Vec::new(),
    };
    let (ledger, _) = assemble(recorded, &output, false, true)?;
    Ok((output, ledger))
}

fn folder_and_output(path: &Path) -> Option<(PathBuf, PathBuf)> {
    if path.join("recording.json").is_file() {
        let name = path.to_str()?.trim_end_matches('/');
        let output = name.strip_suffix(".parts").map_or_else(|| format!("{name}.dat"), str::to_owned);
        return Some((path.to_owned(), PathBuf::from(output)));
    }
    let folder = parts_folder(path);
    folder.join("recording.json").is_file().then(|| (folder, path.to_owned()))
}
