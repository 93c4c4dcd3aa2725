//! What the kernel refused, told so that a user can act on it.

use std::io;

/// A system call (or a write to a control file) that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {object}: {source}{}{advice}", if advice.is_empty() { "" } else { "; " })]
pub struct Refused {
    /// What was tried, as a verb: "open", "write 1 to".
    pub operation: String,
    /// What it was tried on: a path, a process, an event.
    pub object: String,
    /// The errno.
    #[source]
    pub source: io::Error,
    /// What to try next; empty when nothing is known to help.
    pub advice: String,
}

impl Refused {
    /// A refusal with nothing to advise yet.
    pub fn new(operation: impl Into<String>, object: impl Into<String>, source: io::Error) -> Self {
        Refused { operation: operation.into(), object: object.into(), source, advice: String::new() }
    }

    /// The refusal of the system call that has just returned.
    pub fn last(operation: impl Into<String>, object: impl Into<String>) -> Self {
        Refused::new(operation, object, io::Error::last_os_error())
    }

    /// The same refusal with a sentence on what to try.
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    /// The errno as a number, 0 when the error did not come from the kernel.
    pub fn errno(&self) -> i32 {
        self.source.raw_os_error().unwrap_or(0)
    }
}

/// Turns the −1 of a system call into the errno it left.
pub(crate) fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
