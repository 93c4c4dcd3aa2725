//! What a compile is given besides the text and the kernel's facts.

use crate::environment::{Environment, Nowhere};

/// Everything that can change what a program compiles to.
pub struct Options<'e> {
    /// The name messages give the program (`stdin` for `-e`).
    pub name: String,
    /// `$1`, `$2`, …
    pub positional: Vec<String>,
    /// `--name=value` and `--name` for `getopt`.
    pub named: Vec<(String, Option<String>)>,
    /// Settings that override the config block (from the environment), as `(name, value)`.
    pub settings: Vec<(String, String)>,
    /// Answers about files.
    pub environment: &'e dyn Environment,
    /// `--unsafe`: functions that change the system are allowed.
    pub unsafe_allowed: bool,
    /// `-p`: the process that is traced.
    pub pid: Option<u32>,
    /// Process of the command started with `-c`.
    pub child: Option<u32>,
    /// Whether tracepoints may be served by their raw arguments.
    pub serve_tracepoints: bool,
    /// Whether failing helpers are reported (`-k`).
    pub report_helper_errors: bool,
    /// Whether `test:` and `bench:` probes are kept.
    pub keep_tests: bool,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            name: "stdin".into(),
            positional: Vec::new(),
            named: Vec::new(),
            settings: Vec::new(),
            environment: &Nowhere,
            unsafe_allowed: false,
            pid: None,
            child: None,
            serve_tracepoints: true,
            report_helper_errors: false,
            keep_tests: false,
        }
    }
}
