//! What a compile is given besides the text and the kernel's facts.

use crate::environment::{Environment, Nowhere};

/// Whose events a program is to see. Empty lists let everything pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only these processes, as numbered in the tracer's pid namespace.
    pub pids: Vec<u32>,
    /// Only these threads.
    pub tids: Vec<u32>,
    /// Only on these CPUs.
    pub cpus: Vec<u32>,
    /// Only in this cgroup and below it.
    pub cgroup: Option<SelectedCgroup>,
}

/// A cgroup of the v2 hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectedCgroup {
    /// Its id: the inode of its directory.
    pub id: u64,
    /// How far it is below the root, which is 0.
    pub level: u32,
}

impl Selection {
    /// Whether everything passes.
    pub fn is_empty(&self) -> bool {
        *self == Selection::default()
    }
}

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
    /// What `selected()` tests.
    pub selection: Selection,
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
            selection: Selection::default(),
            keep_tests: false,
        }
    }
}
