//! What is to be recorded, said by the caller; nothing here touches the system.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel::stop::StopToken;

/// A recording as it is asked for. Start from [`RecordSpec::new`] and change what differs.
#[derive(Debug, Clone)]
pub struct RecordSpec {
    /// Which events, with their filters. At least one.
    pub events: Vec<EventSelection>,
    /// Whose events.
    pub selection: Selection,
    /// Only events on these CPUs; `None` for all.
    pub cpus: Option<Vec<u32>>,
    /// A command to start once the tracer is armed; recording ends when it ends.
    pub command: Option<Vec<OsString>>,
    /// Recording ends after this time at the latest.
    pub duration: Option<Duration>,
    /// The trace file to write. While recording, `OUTPUT.parts/` stands beside it.
    pub output: PathBuf,
    /// Write over an output that exists and is not empty; otherwise it is refused.
    pub overwrite: bool,
    /// Which trace.dat is written.
    pub format: FileFormat,
    /// The rings.
    pub rings: Rings,
    /// The trace clock: "mono" unless there is a reason.
    pub clock: String,
    /// Store the kernel's symbol table in the file (costs 60–80 ms and about 1 MB).
    pub kernel_symbols: bool,
    /// What becomes of the events that the recorder's own threads cause.
    pub own_events: OwnEvents,
    /// Have a second, tiny instance without filters count what happened, so that the ledger
    /// can say how much the filters refused. Doubles the cost of every event.
    pub count_filtered: bool,
    /// Keep the newest events in the rings and write them only when something triggers it.
    pub flight: Option<Flight>,
    /// Ends the recording from outside; signals are routed to it with `handle_signals`.
    pub stop: Option<StopToken>,
    /// Let SIGINT, SIGTERM, SIGHUP and SIGQUIT end the recording cleanly.
    pub handle_signals: bool,
}

impl RecordSpec {
    /// A recording of these events ("sched:*", "irq:irq_handler_entry") system-wide, with the
    /// defaults, until it is told to stop.
    pub fn new(events: &[&str], output: impl Into<PathBuf>) -> Self {
        RecordSpec {
            events: events.iter().map(|pattern| EventSelection::new(*pattern)).collect(),
            selection: Selection::Everything,
            cpus: None,
            command: None,
            duration: None,
            output: output.into(),
            overwrite: false,
            format: FileFormat::default(),
            rings: Rings::default(),
            clock: "mono".to_owned(),
            kernel_symbols: false,
            own_events: OwnEvents::Count,
            count_filtered: false,
            flight: None,
            stop: None,
            handle_signals: false,
        }
    }

    /// The folder that holds the recording until the trace file is complete.
    pub fn parts_folder(&self) -> PathBuf {
        parts_folder(&self.output)
    }
}

/// The folder that a recording to `output` uses until its file is complete.
pub fn parts_folder(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".parts");
    PathBuf::from(name)
}

/// Events by pattern, with an optional filter for each event that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventSelection {
    /// "system:name", each with `*` and `?` as wildcards; "system" alone means "system:*".
    pub pattern: String,
    /// A filter in the kernel's language: `prev_prio < 100 && next_comm ~ "kworker*"`.
    pub filter: Option<String>,
}

impl EventSelection {
    /// All events that match, unfiltered.
    pub fn new(pattern: impl Into<String>) -> Self {
        EventSelection { pattern: pattern.into(), filter: None }
    }

    /// The same events, filtered.
    pub fn filtered(mut self, filter: impl Into<String>) -> Self {
        self.filter = Some(filter.into());
        self
    }
}

/// Whose events are recorded. Children forked later belong to their parents' selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// Everybody's.
    Everything,
    /// These processes with all their threads.
    Processes(Vec<u32>),
    /// These threads alone (and what they fork).
    Threads(Vec<u32>),
    /// The members of a cgroup (its directory), followed as they come. Who leaves the group
    /// stays selected: the kernel's filter cannot forget one thread without a gap.
    Cgroup(PathBuf),
    /// The command and what it forks.
    Command,
}

/// Which trace.dat is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// Version 7 with zstd at this level (1–19), or at the one that suits the amount
    /// ([`LEVEL_BY_AMOUNT`]); trace-cmd since 3.0 opens it.
    V7Zstd(i32),
    /// Version 7 without compression.
    V7,
    /// Version 6, which every trace-cmd and KernelShark opens.
    V6,
}

impl Default for FileFormat {
    fn default() -> Self {
        FileFormat::V7Zstd(LEVEL_BY_AMOUNT)
    }
}

/// A zstd level that is chosen when the pages are there: few are packed well, many quickly.
pub const LEVEL_BY_AMOUNT: i32 = 0;

/// The kernel's ring buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rings {
    /// Size for each CPU in KiB.
    pub kb_per_cpu: u32,
    /// What happens when one is full.
    pub when_full: WhenFull,
    /// The recorder is woken when a ring is this full, in percent; 0 for never: pages are then
    /// fetched at the flush interval alone.
    pub wake_percent: u32,
    /// Pages are fetched at least this often, also pages that are not full: what a killed
    /// recorder loses is at most this old.
    pub flush_interval: Duration,
}

impl Default for Rings {
    fn default() -> Self {
        Rings {
            kb_per_cpu: 8192,
            when_full: WhenFull::Overwrite,
            wake_percent: 40,
            flush_interval: Duration::from_secs(1),
        }
    }
}

/// A flight recording: the rings overwrite themselves, nothing is fetched or written until a
/// trigger; then what the rings hold is saved, and what happens for a while after it. How long
/// before the trigger the window reaches is what the ring size buys. A killed flight recorder
/// leaves nothing.
#[derive(Debug, Clone, Default)]
pub struct Flight {
    /// Recording goes on for this long after the trigger.
    pub after: Duration,
    /// Triggers when asked to stop: a threshold crossed, a program's probe. Ending the recording
    /// by its own stop token, a signal, its duration or its command saves the window too.
    pub trigger: Option<StopToken>,
    /// Triggers at the first of these events that passes its filter, such as
    /// `sched:sched_stat_wait` with `delay > 10000000`. Noticed within a millisecond or so.
    pub events: Vec<EventSelection>,
}

/// What becomes of the events that the recorder's own threads cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnEvents {
    /// They are recorded and the account says how many they are, and by which threads. The
    /// default: the recorder makes some ten system calls a second (a few hundred at 400 000
    /// events a second), and a scheduler trace without it would have holes.
    Count,
    /// The kernel refuses them, which costs every event about 8 ns more. Also what happens where
    /// threads are selected and the recorder is none of them.
    Refuse,
}

/// What a full ring does with the next event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// The oldest page gives way. The default, because every page then carries how many events
    /// were overwritten before it: losses are exact in number *and* place, and the end of the
    /// recording, which the user saw last, is always there.
    Overwrite,
    /// New events are refused. The kernel counts them but does not say where they are missing:
    /// losses are known to the flush interval only. For boots and other beginnings that matter
    /// more than the end.
    Refuse,
}
