//! Why a recording could not be made.

use std::io;
use std::path::{Path, PathBuf};

use kernel::error::Refused;

/// A recording that could not be made or finished. Nothing of it is left behind, except where
/// the text says so.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The kernel refused something.
    #[error(transparent)]
    Kernel(#[from] Refused),
    /// No event matches a pattern.
    #[error("no event matches '{pattern}'{}", instead_of(pattern, nearest))]
    UnknownEvent {
        /// The pattern as it was given.
        pattern: String,
        /// Events of similar names.
        nearest: Vec<String>,
    },
    /// The kernel does not take a filter.
    #[error("the filter '{filter}' of {event} is not accepted:\n{}\nthe fields of {event} are: {}{}", kernel_says.trim_end(), fields.join(", "), of_all(*others))]
    BadFilter {
        /// The event.
        event: String,
        /// The filter as it was given.
        filter: String,
        /// The kernel's own words.
        kernel_says: String,
        /// What can be filtered on.
        fields: Vec<String>,
        /// How many other events have the same filter.
        others: usize,
    },
    /// The command does not exist.
    #[error("there is no command '{command}' (searched in {searched}); check the spelling or give its path")]
    CommandNotFound {
        /// The command as it was given.
        command: String,
        /// Where it was looked for.
        searched: String,
    },
    /// The command exists but cannot be run.
    #[error("cannot run '{command}': {source}")]
    CommandNotRunnable {
        /// The command's path.
        command: String,
        /// The errno of the attempt.
        #[source]
        source: io::Error,
    },
    /// A selected process or thread does not exist.
    #[error("there is no {kind} {id}; it may have ended")]
    NoSuchTask {
        /// "process" or "thread".
        kind: &'static str,
        /// Its number.
        id: u32,
    },
    /// Threads were selected where their numbers are not those of the events.
    #[error(
        "{what} cannot be told apart here: this is a pid namespace (a container), and the kernel's events carry the \
         process ids of the host; run lotse on the host, or in a container with its ids (docker run --pid=host), or \
         ask about the whole machine: {instead}"
    )]
    PidNamespace {
        /// Whose events were asked for.
        what: &'static str,
        /// What can be asked instead.
        instead: &'static str,
    },
    /// A selected cgroup cannot be read.
    #[error("cannot read the members of cgroup {}: {source}; give its directory, such as /sys/fs/cgroup/system.slice", path.display())]
    Cgroup {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A selected CPU is not online.
    #[error("CPU {cpu} is not online (online: {online})")]
    CpuOffline {
        /// The CPU.
        cpu: u32,
        /// Those that are.
        online: String,
    },
    /// A file of the recording could not be written.
    #[error("cannot {operation} {}: {source}; {}", path.display(), output_advice(source, path))]
    Output {
        /// What was tried.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The output exists and holds something.
    #[error("{} exists already ({}); name another file with -o, or have it written over with --force", path.display(), crate::recipe::format_bytes(*bytes))]
    OutputExists {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// Parts of another recording to the same file are there.
    #[error("{} holds a recording that was cut off or still runs; finish it with `lotse info`, remove it, or record to another file", path.display())]
    PartsExist {
        /// The folder.
        path: PathBuf,
    },
    /// The parts of a cut recording cannot be read.
    #[error("{} is no recording of lotse that could be finished: {reason}", path.display())]
    BadParts {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// What was asked for contradicts itself.
    #[error("{0}")]
    Spec(String),
}

impl RecordError {
    pub(super) fn output(operation: &'static str, path: &Path, source: io::Error) -> Self {
        RecordError::Output { operation, path: path.to_owned(), source }
    }
}

fn of_all(others: usize) -> String {
    match others {
        0 => String::new(),
        _ => format!(
            "\nthe filter is for {others} other events too: name those events alone whose fields it needs (in a recipe, \
             each event can have a filter of its own)"
        ),
    }
}

/// Kinds of probes that programs attach to and no ring buffer holds.
const PROGRAM_PROBES: [&str; 12] = [
    "kprobe",
    "kretprobe",
    "uprobe",
    "uretprobe",
    "usdt",
    "fentry",
    "fexit",
    "rawtracepoint",
    "profile",
    "interval",
    "software",
    "hardware",
];

fn instead_of(pattern: &str, nearest: &[String]) -> String {
    match (pattern.split_once(':'), nearest) {
        (Some((kind, _)), _) if PROGRAM_PROBES.contains(&kind) => {
            format!(
                "; only tracepoints are recorded: `lotse trace -e '{pattern} {{ … }}'` attaches a program to it"
            )
        }
        (Some((system, "")), _) => format!("; '{system}:*' means all events of {system}"),
        (_, []) => "; `lotse list` shows what there is".to_owned(),
        (_, names) => format!("; did you mean {}?", names.join(" or ")),
    }
}

fn output_advice(source: &io::Error, path: &Path) -> String {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the disk is full: free some space, record elsewhere, record less (filters, fewer events) or shorter".to_owned()
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "choose a folder you may write to".to_owned(),
        io::ErrorKind::NotFound => {
            format!("make the folder {} first", path.parent().unwrap_or(Path::new(".")).display())
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => "choose another file name".to_owned(),
        _ => "choose another place to record to".to_owned(),
    }
}
