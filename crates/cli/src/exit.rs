//! Exit statuses: 0 done; 1 done, and a threshold or a check did not hold; 2 could not be
//! done. A reader that went away (`lotse list | head`) is no failure.

use std::ffi::OsStr;
use std::io;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::console::Console;

/// How a command ended that could be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// And all is well.
    Done,
    /// And a threshold or check did not hold, which has been said.
    DoesNotHold,
    /// And this is the status, given by a program's `exit(code)` or because what was to be said has been.
    Status(u8),
}

/// The status of a command.
pub fn code(outcome: anyhow::Result<Outcome>, console: &mut Console) -> ExitCode {
    let outcome = outcome.and_then(|outcome| {
        console.flush()?;
        Ok(outcome)
    });
    match outcome {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::DoesNotHold) => ExitCode::from(1),
        Ok(Outcome::Status(status)) => ExitCode::from(status),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // What was printed before the failure is still wanted.
            let _ = console.flush();
            console.error(&message(&error));
            ExitCode::from(2)
        }
    }
}

/// The status of a command line that is not understood, or asks for help or the version.
pub fn usage(mut error: clap::Error) -> ExitCode {
    if let Some(tip) = tip(&error, std::env::args_os().nth(1).as_deref()) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS }
}

/// What to do about a word that is not understood, where that is not to write it behind `--`.
fn tip(error: &clap::Error, subcommand: Option<&OsStr>) -> Option<String> {
    let ContextValue::String(word) = error.get(ContextKind::InvalidArg)? else { return None };
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    if let Some(rest) = word.strip_prefix('-') {
        let number = rest.starts_with(|c: char| c.is_ascii_digit());
        return number.then(|| "times, sizes and numbers are not negative here".to_owned());
    }
    let subcommand = subcommand?.to_str().filter(|name| ["run", "record"].contains(name))?;
    Some(format!("a command to run goes behind `--`: lotse {subcommand} … -- {word} …"))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let kind = match (cause.downcast_ref::<io::Error>(), cause.downcast_ref::<serde_json::Error>()) {
            (Some(error), _) => Some(error.kind()),
            (_, Some(error)) => error.io_error_kind(),
            _ => None,
        };
        kind == Some(io::ErrorKind::BrokenPipe)
    })
}

/// The error with its causes, each said once: libraries often repeat theirs in their text.
fn message(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_said_once() {
        let inner = io::Error::other("no such thing");
        let error = anyhow::Error::new(inner).context("cannot do it: no such thing; try that");
        assert_eq!(message(&error), "cannot do it: no such thing; try that");
        let error = anyhow::anyhow!("deep").context("shallow");
        assert_eq!(message(&error), "shallow: deep");
    }
}
