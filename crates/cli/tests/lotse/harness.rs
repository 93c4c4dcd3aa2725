//! Runs the binary in a folder of its own and looks at what it leaves behind.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use kernel::tracefs::Tracefs;

/// A folder that goes when it is dropped, with lotse to run in it.
pub struct Place {
    folder: PathBuf,
}

/// What a run of lotse gave.
pub struct Output {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Place {
    pub fn new() -> Place {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("lotse-cli-{}-{number}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        Place { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Names in the folder, sorted.
    pub fn names(&self) -> Vec<String> {
        names_in(&self.folder)
    }

    /// lotse with these words, to be changed before it runs.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(words);
        self.prepare(&mut command);
        command
    }

    /// Sets folder and environment of a command that runs lotse.
    pub fn prepare(&self, command: &mut Command) {
        command.current_dir(&self.folder).stdin(Stdio::null());
        for name in ["NO_COLOR", "COLUMNS", "LOTSE_TRACES"] {
            command.env_remove(name);
        }
    }

    pub fn lotse(&self, words: &[&str]) -> Output {
        self.finish(&mut self.command(words))
    }

    /// Runs it to its end, and checks that no ring buffer of it is left in the kernel.
    pub fn finish(&self, command: &mut Command) -> Output {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let output = child.wait_with_output().unwrap();
        assert_eq!(instances_of(pid), [] as [String; 0], "left in the kernel by {command:?}");
        let text = |bytes| String::from_utf8(bytes).expect("lotse prints UTF-8");
        Output { status: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Output {
    /// Expects this status; shows everything when it is another.
    #[track_caller]
    pub fn expect(self, status: i32) -> Output {
        assert_eq!(self.status, Some(status), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Expects exit status 2, nothing on stdout, and an error that has all of these parts.
    #[track_caller]
    pub fn refused(self, parts: &[&str]) {
        let output = self.expect(2);
        assert_eq!(output.stdout, "", "an error prints no data");
        assert!(output.stderr.contains("error: "), "{}", output.stderr);
        for part in parts {
            assert!(output.stderr.contains(part), "no `{part}` in:\n{}", output.stderr);
        }
    }
}

pub fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_lotse"))
}

pub fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn instances_of(pid: u32) -> Vec<String> {
    let Ok(tracefs) = Tracefs::open() else { return Vec::new() };
    let names = tracefs.root().list("instances").unwrap_or_default();
    names.into_iter().filter(|name| name.starts_with(&format!("lotse-{pid}-"))).collect()
}

/// Why events cannot be recorded here; `None` when they can.
pub fn cannot_record() -> Option<&'static str> {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    REASON.get_or_init(|| Tracefs::open().err().map(|refused| refused.to_string())).as_deref()
}

/// Ends the test as skipped where events cannot be recorded.
#[macro_export]
macro_rules! needs_recording {
    () => {
        if let Some(reason) = $crate::harness::cannot_record() {
            testkit::skipped!("{reason}");
        }
    };
}

pub fn is_root() -> bool {
    kernel::facts_host::Rights::gather().effective_uid == 0
}

/// A JSON text's value.
#[track_caller]
pub fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in:\n{text}"))
}
