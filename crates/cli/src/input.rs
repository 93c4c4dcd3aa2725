//! The trace that an argument means: a file, a run folder's, a folder that is a trace (CTF), or
//! a file to be made of what a killed recorder left.

use std::path::{Path, PathBuf};

use anyhow::bail;
use run::folder;
use run::record::{finish_cut_recording, look_at_cut_recording};

use crate::console::Console;

/// Finds the trace file. A recording whose recorder was killed is finished first: its pages
/// become the file they were meant to be.
pub fn trace_file(argument: &Path, console: &Console) -> anyhow::Result<PathBuf> {
    if argument.is_file() {
        return Ok(argument.to_owned());
    }
    let in_folder = argument.join(folder::TRACE);
    let meant = if argument.is_dir() && !argument.join("recording.json").is_file() {
        in_folder
    } else {
        argument.to_owned()
    };
    if meant.is_file() {
        return Ok(meant);
    }
    let Some(cut) = look_at_cut_recording(&meant)? else {
        if argument.is_dir() && !readers::is_trace_folder(argument) {
            bail!(
                "{} is a folder without a {}: no run; {}",
                argument.display(),
                folder::TRACE,
                instead_of(argument)
            );
        }
        // Opening it says what is wrong.
        return Ok(argument.to_owned());
    };
    if cut.still_running {
        bail!(
            "{} is still being recorded ({} so far); end that recording first: Ctrl-C, or its --duration",
            cut.output.display(),
            run::recipe::format_bytes(cut.bytes)
        );
    }
    let (file, ledger) = finish_cut_recording(&meant)?;
    console.warn(&format!(
        "the recorder was killed; {} events that had reached the disk are now {}",
        report::number::count(ledger.recorded()),
        file.display()
    ));
    Ok(file)
}

/// What could be meant by a folder that is no run: the newest run in it.
fn instead_of(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let runs = entries.map(|entry| entry.path()).filter(|path| folder::is_run_folder(path));
    let age = |path: &PathBuf| path.metadata().and_then(|file| file.modified()).ok();
    match runs.max_by_key(age) {
        Some(newest) => format!("the newest run in it is {}", newest.display()),
        None => "name a trace file".to_owned(),
    }
}
