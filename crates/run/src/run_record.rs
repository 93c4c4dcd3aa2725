//! `run.json`: what a run was, so that it can be judged, repeated and attached to a ticket.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use kernel::facts_host::HostFacts;
use serde::{Deserialize, Serialize};

use crate::preflight::Preflight;
use crate::record::Ledger;

/// The name of the file in a run folder.
pub const FILE_NAME: &str = "run.json";
/// The layout written now.
pub const VERSION: u32 = 1;

/// Everything about one run but its events and results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Layout of this file; a newer one is refused.
    pub version: u32,
    /// The program that made the run.
    pub tool: Tool,
    /// The recipe, whole.
    pub recipe: RecipeText,
    /// What the user asked for besides.
    pub request: Request,
    /// The host when the run began.
    pub host: HostFacts,
    /// What was found and decided before recording.
    pub preflight: Preflight,
    /// When recording began, wall clock (RFC 3339, UTC).
    pub started: String,
    /// When it ended.
    pub ended: String,
    /// When recording began, on the trace's clock.
    pub started_ns: u64,
    /// When it ended, on the trace's clock.
    pub ended_ns: u64,
    /// Why it ended, in words.
    pub ended_by: String,
    /// The command's process.
    pub command_pid: Option<u32>,
    /// How the command ended; `None` without one, or when it was not waited for.
    pub command_status: Option<CommandStatus>,
    /// Whether the command's end ended the run, and not the other way round.
    #[serde(default)]
    pub command_ended_by_itself: bool,
    /// Members of the selected control group, at the beginning or the end.
    #[serde(default)]
    pub cgroup_threads: Vec<u32>,
    /// Events recorded, `system:name`.
    pub events: Vec<String>,
    /// The account of events.
    pub ledger: Ledger,
    /// What became of the recipe's thresholds.
    pub thresholds: Vec<ThresholdOutcome>,
    /// The run folder's other files.
    pub files: Vec<FileEntry>,
    /// What else a reader should know.
    pub notes: Vec<String>,
}

/// A program and its version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// `lotse`.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl Tool {
    /// This program.
    pub fn this() -> Tool {
        Tool { name: "lotse".into(), version: env!("CARGO_PKG_VERSION").into() }
    }
}

/// A recipe as it was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecipeText {
    /// Its name.
    pub name: String,
    /// The file it came from; `None` for a built-in one.
    pub file: Option<PathBuf>,
    /// The TOML text, which a repetition uses.
    pub text: String,
}

/// What the user asked for on the command line: with the recipe all that a repetition needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The command, word by word.
    pub command: Option<Vec<String>>,
    /// The folder it was started in.
    pub directory: Option<PathBuf>,
    /// Whom the question is about.
    pub selection: SelectionRequest,
    /// Whether only their events are recorded: cheaper, and who had the CPU meanwhile stays
    /// unknown.
    pub narrow: bool,
    /// Only these CPUs.
    pub cpus: Option<Vec<u32>>,
    /// Seconds, instead of the recipe's duration.
    pub duration_s: Option<f64>,
    /// Bytes for each CPU's ring, instead of the recipe's.
    pub ring_bytes_per_cpu: Option<u64>,
}

/// Whom a question is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SelectionRequest {
    /// Everybody.
    #[default]
    System,
    /// The command and its children.
    Command,
    /// These processes.
    Processes(Vec<u32>),
    /// These threads.
    Threads(Vec<u32>),
    /// The members of a control group.
    Cgroup(PathBuf),
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandStatus {
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl From<ExitStatus> for CommandStatus {
    fn from(status: ExitStatus) -> CommandStatus {
        CommandStatus { code: status.code(), signal: status.signal() }
    }
}

impl std::fmt::Display for CommandStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit status {code}"),
            (None, Some(signal)) => write!(f, "ended by signal {signal}"),
            (None, None) => f.write_str("ended"),
        }
    }
}

/// A threshold with what was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThresholdOutcome {
    /// The metric's name, such as `wait.p99`.
    pub metric: String,
    /// The limit as text: `at most 10ms`.
    pub limit: String,
    /// What was found, as text; `None` when the trace does not tell.
    pub found: Option<String>,
    /// Whether it holds; `None` when that could not be decided.
    pub holds: Option<bool>,
    /// What to do, in the recipe's words.
    pub then: Option<String>,
}

/// A file of the run folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its name in the folder.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// What is in it.
    pub what: String,
}

/// Why a `run.json` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunRecordError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is not what this program writes.
    #[error("{} is no run record: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A newer lotse wrote it.
    #[error("{} has version {found}, this lotse knows {VERSION}; use the lotse that made it, or a newer one", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
}

impl RunRecord {
    /// Reads the record of a run folder.
    pub fn read(folder: &Path) -> Result<RunRecord, RunRecordError> {
        let path = folder.join(FILE_NAME);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(source) => return Err(RunRecordError::Read { path, source }),
        };
        RunRecord::from_json(&text, &path)
    }

    /// Reads a record from its text; `path` is for messages.
    pub fn from_json(text: &str, path: &Path) -> Result<RunRecord, RunRecordError> {
        #[derive(Deserialize)]
        struct VersionAlone {
            version: u64,
        }
        let malformed =
            |e: serde_json::Error| RunRecordError::Malformed { path: path.to_owned(), reason: e.to_string() };
        let VersionAlone { version } = serde_json::from_str(text).map_err(malformed)?;
        if version > u64::from(VERSION) {
            return Err(RunRecordError::Newer { path: path.to_owned(), found: version });
        }
        serde_json::from_str(text).map_err(malformed)
    }

    /// The record as text, indented for people.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("a run record has only text keys and finite numbers");
        text.push('\n');
        text
    }

    /// Writes it into a run folder: whole or not at all.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        let temporary = folder.join(".run.json.new");
        std::fs::write(&temporary, self.to_json())?;
        std::fs::rename(&temporary, folder.join(FILE_NAME))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_or_foreign_record_is_refused_with_its_reason() {
        let refused =
            |text: &str| RunRecord::from_json(text, Path::new("x/run.json")).unwrap_err().to_string();
        assert!(refused("{\"version\": 99}").starts_with("x/run.json has version 99"));
        assert!(refused("{}").contains("missing field `version`"));
        assert!(refused("not json").contains("is no run record"));
        assert!(refused("{\"version\": 1}").contains("missing field `tool`"));
    }

    #[test]
    fn statuses_are_told_in_words() {
        assert_eq!(CommandStatus::from(ExitStatus::from_raw(7 << 8)).to_string(), "exit status 7");
        assert_eq!(CommandStatus::from(ExitStatus::from_raw(9)).to_string(), "ended by signal 9");
    }
}
