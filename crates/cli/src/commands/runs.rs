//! `lotse runs`: the run folders that are kept, and which may go.

use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::Context;
use clap::{Args, Subcommand};
use report::table::{Column, Table, Unit, Value};
use run::recipe::format_bytes;
use run::retention::{KeptRun, expired, remove, runs_below};
use serde::Serialize;

use crate::console::Console;
use crate::exit::Outcome;
use crate::json::Head;

#[derive(Debug, Args)]
pub struct Runs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The kept runs, oldest first
    List {
        /// Where runs are kept
        #[arg(default_value = super::run::RUNS)]
        folder: PathBuf,
        /// As JSON, schema 1
        #[arg(long)]
        json: bool,
    },
    /// Remove runs that their recipes no longer keep
    Prune {
        /// Where runs are kept
        #[arg(default_value = super::run::RUNS)]
        folder: PathBuf,
        /// Only say which
        #[arg(long)]
        dry_run: bool,
    },
}

impl Runs {
    pub fn run(&self, console: &mut Console) -> anyhow::Result<Outcome> {
        let (What::List { folder, .. } | What::Prune { folder, .. }) = &self.what;
        let (runs, unreadable) = runs_below(folder)
            .with_context(|| format!("cannot read the folder of runs {}; name another", folder.display()))?;
        for (path, reason) in unreadable {
            console.warn(&format!("{} is left alone: {reason}", path.display()));
        }
        match self.what {
            What::List { json: true, .. } => list_json(&runs, console),
            What::List { .. } => list(&runs, console),
            What::Prune { dry_run, .. } => prune(&runs, dry_run, console),
        }
    }
}

fn list(runs: &[KeptRun], console: &mut Console) -> anyhow::Result<Outcome> {
    let mut table = Table::new(
        "runs",
        "run",
        vec![
            Column::new("folder", "folder", Unit::Text).essential(),
            Column::new("command", "command", Unit::Text),
            Column::new("duration", "took", Unit::Nanos),
            Column::new("events", "events", Unit::Count),
            Column::new("lost", "lost", Unit::Count),
            Column::new("holds", "thresholds", Unit::Text),
            Column::new("size", "size", Unit::Bytes),
        ],
    );
    for run in runs {
        let record = &run.record;
        let command = match &record.request.command {
            Some(words) => Value::text(words.join(" ")),
            None => Value::text("the whole system"),
        };
        table.push(vec![
            Value::text(run.path.display().to_string()),
            command,
            Value::Nanos(record.ended_ns.saturating_sub(record.started_ns)),
            Value::Count(record.ledger.recorded()),
            Value::Count(record.ledger.lost()),
            Value::text(held(run)),
            Value::Bytes(run.bytes),
        ]);
    }
    let mut options = console.text_options();
    options.all_rows = true;
    let text = report::text::table(&table, &options);
    console.out().write_all(text.as_bytes())?;
    Ok(Outcome::Done)
}

fn held(run: &KeptRun) -> &'static str {
    let thresholds = &run.record.thresholds;
    match thresholds.iter().any(|threshold| threshold.holds == Some(false)) {
        _ if thresholds.is_empty() => "none",
        true => "broken",
        false => "hold",
    }
}

#[derive(Serialize)]
struct Json<'a> {
    lotse: Head,
    runs: Vec<JsonRun<'a>>,
}

#[derive(Serialize)]
struct JsonRun<'a> {
    folder: &'a std::path::Path,
    recipe: &'a str,
    command: Option<&'a [String]>,
    started: &'a str,
    duration_ns: u64,
    events: u64,
    lost: u64,
    thresholds: &'a [run::run_record::ThresholdOutcome],
    bytes: u64,
}

fn list_json(runs: &[KeptRun], console: &mut Console) -> anyhow::Result<Outcome> {
    let row = |run: &KeptRun| run.record.ended_ns.saturating_sub(run.record.started_ns);
    let runs = runs.iter().map(|run| JsonRun {
        folder: &run.path,
        recipe: &run.record.recipe.name,
        command: run.record.request.command.as_deref(),
        started: &run.record.started,
        duration_ns: row(run),
        events: run.record.ledger.recorded(),
        lost: run.record.ledger.lost(),
        thresholds: &run.record.thresholds,
        bytes: run.bytes,
    });
    serde_json::to_writer_pretty(console.out(), &Json { lotse: Head::new("runs"), runs: runs.collect() })?;
    writeln!(console.out())?;
    Ok(Outcome::Done)
}

fn prune(runs: &[KeptRun], dry_run: bool, console: &mut Console) -> anyhow::Result<Outcome> {
    let expired = expired(runs, SystemTime::now());
    let bytes: u64 = expired.iter().map(|(run, _)| run.bytes).sum();
    for (run, reason) in &expired {
        let path = run.path.display();
        if dry_run {
            writeln!(console.out(), "would remove {path}: {reason}")?;
        } else if remove(run).with_context(|| format!("cannot remove {path}"))? {
            writeln!(console.out(), "removed {path}: {reason}")?;
        } else {
            console.warn(&format!("{path} holds files that are not the run's: they are left there"));
        }
    }
    let verb = if dry_run { "would be freed" } else { "freed" };
    console.say(&format!("{} of {} runs, {} {verb}", expired.len(), runs.len(), format_bytes(bytes)));
    Ok(Outcome::Done)
}
