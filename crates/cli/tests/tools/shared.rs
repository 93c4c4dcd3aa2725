//! Runs tools of the built binary and reads what they print as JSON.

// Each family uses what it needs.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long anything may take on a busy machine before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The binary under test.
pub fn binary() -> PathBuf {
    // In a guest of the kernel matrix it lies beside the tests.
    let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join("lotse")));
    beside.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_lotse")))
}

/// What a tool printed.
#[derive(Debug, Default)]
pub struct Answer {
    /// Its exit status.
    pub status: Option<i32>,
    /// The objects of its JSON output, in order.
    pub lines: Vec<Value>,
    /// What it said beside.
    pub stderr: String,
}

impl Answer {
    /// The `data` of all rows: events and lines of tables.
    pub fn rows(&self) -> Vec<&Value> {
        self.of_type("row").map(|line| &line["data"]).collect()
    }

    /// The rows in which these fields have these values.
    pub fn rows_with(&self, fields: &[(&str, Value)]) -> Vec<&Value> {
        let has = |row: &&Value| fields.iter().all(|(name, value)| row[*name] == *value);
        self.rows().into_iter().filter(has).collect()
    }

    /// The last contents of a map that is not joined in a table (by its name with the `@`): an object by key,
    /// buckets, or a value. Null where it was not printed.
    pub fn map(&self, name: &str) -> &Value {
        self.maps(name).last().copied().unwrap_or(&Value::Null)
    }

    /// All contents of a map that were printed, one for each interval in which it had any.
    pub fn maps(&self, name: &str) -> Vec<&Value> {
        self.lines.iter().filter_map(|line| line["data"].get(name)).collect()
    }

    /// Count and percentiles of a histogram; with `key`, of that entry.
    pub fn percentiles(&self, name: &str, key: Option<&str>) -> &Value {
        let found = self.lines.iter().rev().find_map(|line| line["percentiles"].get(name));
        let found = found.unwrap_or(&Value::Null);
        key.map_or(found, |key| &found[key])
    }

    /// Objects of a type, whole.
    pub fn of_type<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.lines.iter().filter(move |line| line["type"] == kind)
    }

    /// Expects that it ended well.
    #[track_caller]
    pub fn done(self) -> Answer {
        assert_eq!(self.status, Some(0), "stderr:\n{}\nlines: {:#?}", self.stderr, self.lines);
        self
    }
}

/// Values counted in a histogram's buckets.
pub fn counted(buckets: &Value) -> u64 {
    let buckets = buckets.as_array().map(Vec::as_slice).unwrap_or_default();
    buckets.iter().filter_map(|bucket| bucket["count"].as_u64()).sum()
}

/// Values counted in those buckets that lie wholly in `from..=to`.
pub fn counted_within(buckets: &Value, from: i64, to: i64) -> u64 {
    let buckets = buckets.as_array().map(Vec::as_slice).unwrap_or_default();
    let within = buckets.iter().filter(|bucket| {
        bucket["min"].as_i64().is_some_and(|min| min >= from)
            && bucket["max"].as_i64().is_some_and(|max| max <= to)
    });
    within.filter_map(|bucket| bucket["count"].as_u64()).sum()
}

/// Runs `lotse tool` with `-f json` to its end (give it `-c`, `-d` or a count).
pub fn tool(words: &[&str]) -> Answer {
    Running::start(words).finish()
}

/// Runs `lotse tool` as it prints for people: status, stdout, stderr.
pub fn tool_text(words: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(binary()).arg("tool").args(words).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A tool that runs beside the test.
pub struct Running {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    lines: Vec<Value>,
}

impl Running {
    /// Starts a tool and waits until its probes are attached: what happens from now on it sees.
    #[track_caller]
    pub fn start(words: &[&str]) -> Running {
        let mut child = Command::new(binary())
            .arg("tool")
            .args(words)
            .args(["-f", "json"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut running = Running { child, stdout, lines: Vec::new() };
        while let Some(line) = running.next_line() {
            if line["type"] == "attached_probes" {
                break;
            }
        }
        running
    }

    /// The process of lotse.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next object; none at the end of the output.
    pub fn next_line(&mut self) -> Option<Value> {
        let mut text = String::new();
        match self.stdout.read_line(&mut text) {
            Ok(0) | Err(_) => None,
            Ok(_) => {
                let line: Value = serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text}"));
                self.lines.push(line.clone());
                Some(line)
            }
        }
    }

    /// Reads on until a row satisfies `wanted`; none if the tool ends before.
    pub fn wait_for_row(&mut self, wanted: impl Fn(&Value) -> bool) -> Option<Value> {
        while let Some(line) = self.next_line() {
            if line["type"] == "row" && wanted(&line["data"]) {
                return Some(line["data"].clone());
            }
        }
        None
    }

    /// Asks it to end, as Ctrl-C does, and gives what it printed.
    pub fn stop(self) -> Answer {
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").args(["-INT", &pid]).status();
        self.finish()
    }

    /// Waits for its end and gives what it printed.
    pub fn finish(mut self) -> Answer {
        while self.next_line().is_some() {}
        let mut stderr = String::new();
        if let Some(mut pipe) = self.child.stderr.take() {
            let _ = pipe.read_to_string(&mut stderr);
        }
        let status = self.child.wait().unwrap().code();
        Answer { status, lines: std::mem::take(&mut self.lines), stderr }
    }
}

/// Waits until something holds; panics when it never does.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Why nothing can be traced here; `None` when it can.
pub fn cannot_trace() -> Option<&'static str> {
    let facts = kernel::facts::LiveFacts::new();
    match facts.tracefs().is_some() && bpf::KernelFacts::has(&facts, bpf::facts::Feature::TpBtf) {
        true => None,
        false => Some("tracing is not allowed here, or the kernel has no typed raw tracepoints"),
    }
}

/// Ends the test as skipped where nothing can be traced.
#[macro_export]
macro_rules! needs_tracing {
    () => {
        if let Some(reason) = $crate::shared::cannot_trace() {
            testkit::skipped!("{reason}");
        }
    };
}
