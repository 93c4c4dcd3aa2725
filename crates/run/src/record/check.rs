//! What can be known to be wrong with a recording before anything is measured or changed:
//! a mistake in the last option is told as early as one in the first.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use kernel::tracefs::Tracefs;

use super::error::RecordError;
use super::members::check_selection;
use super::spec::RecordSpec;
use super::trigger::Trigger;
use super::{command, events, setup};

/// Refuses a spec that cannot be recorded: an output that would be lost, a command, event,
/// trigger, filter of a trigger, CPU or selected task that does not exist. The events' own
/// filters are checked when they are set, which measuring does first of all.
pub fn check(spec: &RecordSpec) -> Result<(), RecordError> {
    check_selection(&spec.selection)?;
    program(spec)?;
    output(&spec.output, spec.overwrite)?;
    let tracefs = Tracefs::open()?;
    let available = tracefs.events()?;
    let cpus = setup::cpus(spec)?;
    events::choose(&available, &spec.events)?;
    if let Some(flight) = &spec.flight
        && !flight.events.is_empty()
    {
        // Its rings are closed and its instance is removed at once.
        drop(Trigger::arm(&tracefs, spec, &cpus, &flight.events)?);
    }
    Ok(())
}

/// The program of the spec's command.
pub(super) fn program(spec: &RecordSpec) -> Result<Option<PathBuf>, RecordError> {
    let Some(words) = &spec.command else { return Ok(None) };
    command::find(words.first().map_or(OsStr::new(""), |word| word.as_os_str())).map(Some)
}

/// Refuses an output that holds something already, or cannot hold a recording.
pub(super) fn output(path: &Path, overwrite: bool) -> Result<(), RecordError> {
    let Ok(there) = path.metadata() else { return Ok(()) };
    let refused = |kind: io::ErrorKind| Err(RecordError::output("write", path, io::Error::from(kind)));
    if there.is_dir() {
        return refused(io::ErrorKind::IsADirectory);
    }
    // The finished file takes the name of what is there, also of a device's.
    if !there.is_file() {
        return Err(RecordError::Spec(format!(
            "{} is no regular file, and a recording is no stream: its file is put together at the end; \
             name a file",
            path.display()
        )));
    }
    if there.len() > 0 && !overwrite {
        return Err(RecordError::OutputExists { path: path.to_owned(), bytes: there.len() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_not_written_over() {
        let folder = std::env::temp_dir().join(format!("lotse-check-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("a.dat");
        assert!(output(&file, false).is_ok(), "nothing is there");
        std::fs::write(&file, "").unwrap();
        assert!(output(&file, false).is_ok(), "mktemp made it");
        std::fs::write(&file, "recorded").unwrap();
        let said = output(&file, false).unwrap_err().to_string();
        assert!(said.contains("a.dat") && said.contains("--force"), "{said}");
        assert!(output(&file, true).is_ok());
        assert!(output(&folder, true).is_err(), "a folder");
        let said = output(Path::new("/dev/null"), true).unwrap_err().to_string();
        assert!(said.contains("no regular file"), "{said}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
