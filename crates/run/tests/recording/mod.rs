//! What the recorder's tests share.
#![allow(dead_code, unused_macros, unused_imports)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use kernel::tracefs::Tracefs;
use kernel::tracefs_instance::owner_of;
use run::record::{RecordSpec, Selection};
use testkit::load::Load;

/// Returns from the test, counted as skipped, where tracing is not possible.
macro_rules! tracefs_or_skip {
    () => {
        if let Err(refusal) = kernel::tracefs::Tracefs::open() {
            testkit::skipped!("{refusal}");
        }
    };
}
pub(crate) use tracefs_or_skip;

// Tests of one program run side by side; those that look for left-over instances run alone.
static TURNS: std::sync::RwLock<()> = std::sync::RwLock::new(());

/// Held by a test that records while others do.
pub fn beside_others() -> impl Drop {
    TURNS.read().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Held by a test during which no other of this program records.
pub fn alone() -> impl Drop {
    TURNS.write().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A folder that goes with the test.
pub struct Scratch {
    pub path: PathBuf,
}

impl Scratch {
    pub fn new(name: &str) -> Self {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("lotse-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch { path }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The names in it, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(&self.path)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Records the calls of a load that is run as the recording's command.
pub fn spec_for(load: &Load, cpus: &str, scratch: &Scratch) -> RecordSpec {
    let mut spec = RecordSpec::new(&["syscalls:sys_enter_getppid"], scratch.file("trace.dat"));
    spec.command = Some(load.command(cpus));
    spec.selection = Selection::Command;
    spec
}

/// The instances of this process, of which none may be left after a recording.
pub fn own_instances() -> Vec<String> {
    let names = Tracefs::open().unwrap().root().list("instances").unwrap();
    let own = |name: &String| owner_of(name).is_some_and(|(owner, _)| owner.pid == std::process::id());
    names.into_iter().filter(own).collect()
}

/// The names of all instances there are.
pub fn instances() -> BTreeSet<String> {
    Tracefs::open().unwrap().root().list("instances").unwrap().into_iter().collect()
}

/// The instances of a process.
pub fn instances_of(pid: u32) -> Vec<String> {
    let prefix = format!("lotse-{pid}-");
    instances().into_iter().filter(|name| name.starts_with(&prefix)).collect()
}

/// Run again with this set, a test of this program is a recorder of its own.
pub const RECORDER: &str = "LOTSE_TEST_RECORDER";

/// Runs a test of this program as a recorder to `output`, behind the words of `wrapper`.
pub fn start_recorder(
    test: &str,
    output: &Path,
    wrapper: &[&str],
) -> (Child, impl Iterator<Item = String> + use<>) {
    let own = std::env::current_exe().unwrap();
    let mut command = match wrapper {
        [] => Command::new(own),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(own);
            command
        }
    };
    command.args(["--exact", test, "--nocapture", "--quiet"]);
    let mut child = command.env(RECORDER, output).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    (child, lines)
}

/// What `trace-cmd report` prints about a file, its warnings beside it.
pub fn trace_cmd_report(file: &Path, options: &[&str]) -> (String, String) {
    let output = Command::new("trace-cmd").arg("report").args(options).arg("-i").arg(file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(output.stdout), text(output.stderr))
}
