//! Which runs may be removed by the rule that their recipe states.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::folder;
use crate::recipe;
use crate::run_record::RunRecord;
use crate::wall_time::parse_rfc3339;

/// A run folder with its record.
#[derive(Clone, Debug)]
pub struct KeptRun {
    /// The folder.
    pub path: PathBuf,
    /// Its record.
    pub record: RunRecord,
    /// Bytes of all its files.
    pub bytes: u64,
}

/// Folders that cannot be read, each with the reason.
pub type Unreadable = Vec<(PathBuf, String)>;

/// All runs below a folder, oldest first, and the folders that could not be read as a run,
/// with the reason.
pub fn runs_below(parent: &Path) -> std::io::Result<(Vec<KeptRun>, Unreadable)> {
    let (mut runs, mut unreadable) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(parent)? {
        let path = entry?.path();
        if !folder::is_run_folder(&path) {
            continue;
        }
        match RunRecord::read(&path) {
            Ok(record) => runs.push(KeptRun { bytes: bytes_in(&path), path, record }),
            Err(error) => unreadable.push((path, error.to_string())),
        }
    }
    runs.sort_by(|a, b| (&a.record.started, &a.path).cmp(&(&b.record.started, &b.path)));
    Ok((runs, unreadable))
}

fn bytes_in(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// The runs that their recipes no longer keep, with the reason. Runs are to be sorted oldest
/// first. A run whose recipe or time cannot be read is kept.
pub fn expired(runs: &[KeptRun], now: SystemTime) -> Vec<(&KeptRun, String)> {
    let mut expired = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let Ok(recipe) = recipe::parse(&run.record.recipe.text) else { continue };
        let Some(started) = parse_rfc3339(&run.record.started) else { continue };
        let age = now.duration_since(started).unwrap_or_default();
        if let Some(limit) = recipe.keep.age.filter(|&limit| age > limit) {
            expired.push((run, format!("older than {}", recipe::format_duration(limit))));
            continue;
        }
        let newer =
            runs[index + 1..].iter().filter(|other| other.record.recipe.name == run.record.recipe.name);
        if let Some(limit) = recipe.keep.runs
            && newer.count() >= limit as usize
        {
            expired.push((run, format!("{limit} newer runs of {} exist", recipe.name)));
        }
    }
    expired
}

/// Removes a run folder: the files that a run has, and nothing else. A folder in which the
/// user has put something stays with it, and the answer is false.
pub fn remove(run: &KeptRun) -> std::io::Result<bool> {
    let ours = [folder::TRACE, folder::REPORT_HTML, folder::REPORT_JSON, crate::counters::FILE_NAME];
    for name in ours {
        match std::fs::remove_file(run.path.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    // Last, so that an interrupted removal is found again.
    std::fs::remove_file(run.path.join(crate::run_record::FILE_NAME))?;
    match std::fs::remove_dir(&run.path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => Ok(false),
        Err(error) => Err(error),
    }
}
