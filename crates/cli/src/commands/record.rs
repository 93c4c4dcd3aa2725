//! `lotse record`: raw events to a trace file, nothing else.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, ValueEnum};
use report::number;
use run::preflight::{self, Demands};
use run::record::{EndedBy, EventSelection, FileFormat, Flight, RecordOutcome, RecordSpec, Selection, WhenFull, record};
use run::run_record::{CommandStatus, SelectionRequest};

use crate::console::Console;
use crate::exit::Outcome;
use crate::progress::ProgressLine;
use crate::selection::{SelectionOptions, for_recording};
use crate::{said, values};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lotse record -e 'sched:*,irq:*' --duration 10s -o busy.dat
  lotse record -e sched:sched_switch --filter 'prev_prio < 100' -- make -j8
  lotse record -e 'block:*' --pid 4711 -o io.dat
  lotse record -e 'sched:*' --flight --trigger signal:signal_deliver --trigger-filter 'sig == 11'

The file is a trace.dat, which trace-cmd, KernelShark and `lotse report` open.")]
pub struct Record {
    /// Events: system:name, with * and ?, separated by commas; may be repeated
    #[arg(short, long = "event", value_name = "EVENTS", required = true, value_delimiter = ',')]
    events: Vec<String>,
    /// Filter, in the kernel's language, that every event has to pass; a recipe can have one for each event
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,
    #[command(flatten)]
    selection: SelectionOptions,
    /// The trace file
    #[arg(short, long, value_name = "FILE", default_value = "trace.dat")]
    output: PathBuf,
    /// Write over FILE if it exists
    #[arg(long)]
    force: bool,
    /// Stop after this time: 500ms, 10s, 2m
    #[arg(short, long, value_name = "TIME", value_parser = values::duration)]
    duration: Option<Duration>,
    /// Bytes of ring for each CPU, instead of what the measured rate needs: 64MiB
    #[arg(long, value_name = "SIZE", value_parser = values::ring)]
    ring: Option<u64>,
    /// What a full ring does with events
    #[arg(long, value_name = "WHAT", default_value = "overwrite")]
    when_full: WhenFullOption,
    /// The trace clock, as ftrace names it
    #[arg(long, value_name = "CLOCK", default_value = "mono")]
    clock: String,
    /// The version of trace.dat
    #[arg(long = "file-format", value_name = "FORMAT", default_value = "v7-zstd")]
    format: FormatOption,
    /// The most that the recording may take on disk
    #[arg(long, value_name = "SIZE", value_parser = values::bytes)]
    max_disk: Option<u64>,
    /// Flight recorder: the newest events stay in the rings and are saved when a trigger comes, at
    /// Ctrl-C, or when the command ends
    #[arg(long)]
    flight: bool,
    /// What triggers a flight recording: an event, system:name
    #[arg(long, value_name = "EVENT", requires = "flight")]
    trigger: Option<String>,
    /// Only when this holds for the triggering event, in the kernel's filter language
    #[arg(long, value_name = "FILTER", requires = "trigger")]
    trigger_filter: Option<String>,
    /// A flight recording goes on for so long after its trigger
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "flight", value_parser = values::duration)]
    after: Duration,
    /// Count what the filters refuse too, at twice the cost of each event
    #[arg(long)]
    count_filtered: bool,
    /// Events of the whole system, also when a command is given
    #[arg(short = 'a', long, conflicts_with_all = ["pid", "tid", "cgroup"])]
    all: bool,
    /// A command to run; recording ends when it ends
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WhenFullOption {
    /// Let the oldest give way: losses have their place
    Overwrite,
    /// Refuse the newest: the beginning is kept
    Refuse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatOption {
    /// Version 7, compressed
    V7Zstd,
    /// Version 7
    V7,
    /// Version 6, which every trace-cmd opens
    V6,
}

impl Record {
    pub fn run(&self, console: &mut Console) -> anyhow::Result<Outcome> {
        let mut spec = self.spec()?;
        let folder = match self.output.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        if !folder.is_dir() {
            bail!("there is no folder {}; make it first, or name another with -o", folder.display());
        }
        let demands = Demands { ring_bytes_per_cpu: self.ring, max_disk_bytes: self.max_disk };
        let preflight = preflight::preflight(&mut spec, demands, &folder)?;
        said::preflight(&preflight, console);
        if self.flight {
            said::flight(&preflight, console);
        }
        let mut line = ProgressLine::new(console, self.duration);
        let outcome = record(&spec, &mut |progress| line.show(progress))?;
        line.end();
        say_outcome(&outcome, console);
        let exact = outcome.ledger.lost() == 0 && outcome.ledger.disagreements().is_empty();
        Ok(if exact && outcome.ended_by != EndedBy::DiskFull { Outcome::Done } else { Outcome::DoesNotHold })
    }

    fn spec(&self) -> anyhow::Result<RecordSpec> {
        let mut spec = RecordSpec::new(&[], &self.output);
        for pattern in &self.events {
            let pattern = pattern.trim().trim_start_matches("tracepoint:");
            if pattern.is_empty() {
                bail!("an empty name among the events; write -e 'sched:*,irq:*'");
            }
            let mut selection = EventSelection::new(pattern);
            selection.filter = self.filter.clone();
            spec.events.push(selection);
        }
        spec.selection = match (self.selection.request()?, self.command.is_empty(), self.all) {
            (Some(request), ..) => for_recording(&request),
            (None, false, false) => for_recording(&SelectionRequest::Command),
            (None, ..) => Selection::Everything,
        };
        spec.overwrite = self.force;
        spec.cpus = self.selection.cpus();
        spec.command = (!self.command.is_empty()).then(|| self.command.clone());
        spec.duration = self.duration;
        spec.clock = self.clock.clone();
        spec.rings.when_full = match self.when_full {
            WhenFullOption::Overwrite => WhenFull::Overwrite,
            WhenFullOption::Refuse => WhenFull::Refuse,
        };
        spec.format = match self.format {
            FormatOption::V7Zstd => FileFormat::default(),
            FormatOption::V7 => FileFormat::V7,
            FormatOption::V6 => FileFormat::V6,
        };
        spec.handle_signals = true;
        spec.count_filtered = self.count_filtered;
        spec.flight = self.flight.then(|| {
            let trigger = self.trigger.as_deref().map(|pattern| {
                let mut selection = EventSelection::new(pattern.trim_start_matches("tracepoint:"));
                selection.filter = self.trigger_filter.clone();
                selection
            });
            Flight { after: self.after, trigger: None, events: trigger.into_iter().collect() }
        });
        Ok(spec)
    }
}

fn say_outcome(outcome: &RecordOutcome, console: &Console) {
    said::recording(outcome, console);
    let ledger = &outcome.ledger;
    console.say(&format!(
        "{}: {}, {} events in {}",
        outcome.file.display(),
        number::bytes(outcome.file_bytes),
        number::count(ledger.recorded()),
        number::time(ledger.ended_ns.saturating_sub(ledger.started_ns)),
    ));
    if let Some(status) = outcome.command_status
        && !status.success()
        && outcome.ended_by == EndedBy::Command
    {
        console.warn(&format!("the command failed: {}", CommandStatus::from(status)));
    }
    console.say(&format!("lotse report {} shows what is in it", outcome.file.display()));
}
