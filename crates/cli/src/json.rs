//! The head that every JSON output has, the same as in reports.

use serde::Serialize;

/// Who wrote it and what it is.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Head {
    /// Rises when a field changes its meaning or goes away.
    pub schema: u32,
    /// The version of lotse.
    pub version: &'static str,
    /// What it is: `doctor`, `events`, `info`, `runs`.
    pub kind: &'static str,
}

impl Head {
    /// The head of this kind of output, schema 1.
    pub fn new(kind: &'static str) -> Head {
        Head { schema: 1, version: env!("CARGO_PKG_VERSION"), kind }
    }
}
