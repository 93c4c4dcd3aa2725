//! Tests that cannot run on a machine say so and are counted.

use std::{fs, io::Write, path::PathBuf, process::Command};

/// Notes that the calling test cannot run here and why. Use through [`crate::skipped!`].
///
/// The reason goes to stderr and, when the test run names a file in `LOTSE_SKIPPED`,
/// into that file, from which the run prints its count of skipped tests.
pub fn note(test: &str, reason: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
    if let Some(path) = std::env::var_os("LOTSE_SKIPPED")
        && let Ok(mut file) = fs::OpenOptions::new().create(true).append(true).open(path)
    {
        let _ = file.write_all(format!("{test}: {reason}\n").as_bytes());
    }
}

/// Counts the calling test as skipped, with its reason, and returns from it.
#[macro_export]
macro_rules! skipped {
    ($($reason:tt)*) => {{
        $crate::skip::note(module_path!(), &format!($($reason)*));
        return;
    }};
}

/// Whether a program is there to be run, such as a peer to compare with.
pub fn has_program(name: &str) -> bool {
    Command::new("sh").args(["-c", &format!("command -v {name}")]).output().is_ok_and(|o| o.status.success())
}

/// The folder of trace files made elsewhere: `LOTSE_TRACES`, or `shared/traces` beside
/// the checkout. `None` where it is not there.
pub fn foreign_traces() -> Option<PathBuf> {
    let folder = match std::env::var_os("LOTSE_TRACES") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces")),
    };
    folder.is_dir().then_some(folder)
}
