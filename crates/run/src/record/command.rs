//! Finding the command of a recording, and ending it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use kernel::process::{ProgramMissing, RunningCommand, find_program};
use kernel::stop::{StopReason, StopToken, wait_readable};

use super::error::RecordError;

/// How long a command may take to end after each stronger request.
const PATIENCE: Duration = Duration::from_secs(2);
const INTERRUPT: i32 = 2;
const KILL: i32 = 9;
const TERMINATE: i32 = 15;

/// Finds the program of a command.
pub(super) fn find(program: &OsStr) -> Result<PathBuf, RecordError> {
    let command = program.to_string_lossy().into_owned();
    if command.is_empty() {
        return Err(RecordError::Spec("the command has an empty name; write it after `--`".to_owned()));
    }
    if command.contains('/') && Path::new(program).is_dir() {
        return Err(RecordError::Spec(format!(
            "'{command}' is a folder and no command; give the program in it"
        )));
    }
    find_program(program).map_err(|missing| match missing {
        ProgramMissing::NotFound { searched } => RecordError::CommandNotFound { command, searched },
        ProgramMissing::NotExecutable(path) => RecordError::CommandNotRunnable {
            command: path.display().to_string(),
            source: io::Error::from(io::ErrorKind::PermissionDenied),
        },
    })
}

/// Ends a command that still runs.
pub(super) fn end(command: &mut RunningCommand) -> Result<ExitStatus, RecordError> {
    for signal in [TERMINATE, KILL] {
        if let Some(status) = command.ended()? {
            return Ok(status);
        }
        command.signal(signal);
        wait_readable(&[command.as_fd()], Some(PATIENCE))?;
    }
    Ok(command.wait()?)
}

/// Asks the command to end and waits for it, so that its end is recorded. The terminal has
/// sent its Ctrl-C to the command already. A second request to stop ends the patience.
pub(super) fn end_on_request(
    command: &mut RunningCommand,
    reason: StopReason,
    stop: &StopToken,
) -> Result<(), RecordError> {
    let steps: &[Option<i32>] = match reason {
        StopReason::Signal(INTERRUPT) => &[None, Some(TERMINATE), Some(KILL)],
        _ => &[Some(TERMINATE), Some(KILL)],
    };
    for signal in steps {
        if let Some(signal) = signal {
            command.signal(*signal);
        }
        let deadline = Instant::now() + PATIENCE;
        while command.ended()?.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || stop.take_requests() > 0 {
                break;
            }
            wait_readable(&[command.as_fd(), stop.as_fd()], Some(left))?;
        }
        if command.ended()?.is_some() {
            break;
        }
    }
    Ok(())
}
