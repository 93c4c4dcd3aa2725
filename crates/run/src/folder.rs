//! Run folders: made with names that sort by time, never written over, removed by rule only.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::run_record;
use crate::wall_time;

/// The trace in a run folder.
pub const TRACE: &str = "trace.dat";
/// The report for people.
pub const REPORT_HTML: &str = "report.html";
/// The report for programs.
pub const REPORT_JSON: &str = "report.json";

/// A folder for a run could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make the run folder {}: {source}; {advice}", path.display())]
pub struct FolderError {
    /// The folder.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: io::Error,
    /// What to do.
    pub advice: &'static str,
}

/// Makes a folder below `parent` named after the time and the recipe: `20261130T153838Z-sched`,
/// with `-2`, `-3`, … behind it where that exists.
pub fn create_below(parent: &Path, recipe: &str, now: SystemTime) -> Result<PathBuf, FolderError> {
    let refused = |path: &Path, source: io::Error| {
        let advice = advice(&source);
        FolderError { path: path.to_owned(), source, advice }
    };
    std::fs::create_dir_all(parent).map_err(|source| refused(parent, source))?;
    let stem = format!("{}-{recipe}", wall_time::compact(now));
    for number in 1..1000 {
        let name = if number == 1 { stem.clone() } else { format!("{stem}-{number}") };
        let path = parent.join(name);
        match std::fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(refused(&path, source)),
        }
    }
    Err(refused(&parent.join(stem), io::Error::from(io::ErrorKind::AlreadyExists)))
}

/// Makes exactly this folder, which must not exist or be empty. Tells whether it made it.
pub fn create_exactly(path: &Path) -> Result<bool, FolderError> {
    let refused = |source: io::Error, advice| FolderError { path: path.to_owned(), source, advice };
    match std::fs::create_dir_all(
        path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")),
    ) {
        Ok(()) => {}
        Err(source) => {
            let advice = advice(&source);
            return Err(refused(source, advice));
        }
    }
    match std::fs::create_dir(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let empty = std::fs::read_dir(path).map(|mut entries| entries.next().is_none());
            match empty {
                Ok(true) => Ok(false),
                Ok(false) => Err(refused(error, "runs are never written over: name another folder")),
                Err(source) => Err(refused(source, "name another folder")),
            }
        }
        Err(source) => {
            let advice = advice(&source);
            Err(refused(source, advice))
        }
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "name a folder you may write to with --output"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space, or name a folder on another disk with --output"
        }
        _ => "name another folder with --output",
    }
}

/// Whether a path is a run folder.
pub fn is_run_folder(path: &Path) -> bool {
    path.join(run_record::FILE_NAME).is_file()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn folders_sort_by_time_and_are_never_taken_twice() {
        let parent = std::env::temp_dir().join(format!("lotse-folders-{}", std::process::id()));
        let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        let first = create_below(&parent, "sched", UNIX_EPOCH + Duration::from_secs(86_400)).unwrap();
        let same = create_below(&parent, "sched", UNIX_EPOCH + Duration::from_secs(86_400)).unwrap();
        let later = create_below(&parent, "sched", UNIX_EPOCH + Duration::from_secs(90_000)).unwrap();
        let names = [name(first), name(same), name(later)];
        assert_eq!(names, ["19700102T000000Z-sched", "19700102T000000Z-sched-2", "19700102T010000Z-sched"]);
        assert!(names.is_sorted());
        let exact = parent.join("deep/er");
        assert!(create_exactly(&exact).unwrap());
        assert!(!create_exactly(&exact).unwrap());
        std::fs::write(exact.join("x"), "").unwrap();
        assert!(create_exactly(&exact).unwrap_err().to_string().contains("never written over"));
        std::fs::remove_dir_all(parent).unwrap();
    }
}
