//! `cargo xtask bench [NAME …]`: the budgets of the design, as ratios against the peer in
//! one interleaved run.
//!
//! A benchmark is one row of [`BENCHMARKS`]. Each prints lines of: what, our median, the
//! peer's median, the ratio, the goal, and whether it holds. A peer that is not installed
//! is said, not guessed.

mod measure;
mod startup;
mod record;
mod analysis;
mod tools;
pub mod events;

use std::{path::Path, process::Command};

use anyhow::{Context, Result, bail};

use crate::shell;

struct Benchmark {
    name: &'static str,
    what: &'static str,
    run: fn(&mut Table) -> Result<()>,
}

const BENCHMARKS: &[Benchmark] = &[
    Benchmark {
        name: "startup",
        what: "Enter → attached → gone, for one-liners, against bpftrace",
        run: startup::run,
    },
    Benchmark {
        name: "events",
        what: "added time per event of aggregating programs, against bpftrace and C",
        run: events::run,
    },
    Benchmark {
        name: "record",
        what: "added time and bytes per recorded event, against perf record and a bare instance",
        run: record::run,
    },
    Benchmark {
        name: "tools",
        what: "the shelf: first output, memory and cost of an event, against libbpf-tools, BCC and bpftrace",
        run: tools::run,
    },
    Benchmark {
        name: "analysis",
        what: "a scheduler trace of millions of events, against perf and trace-cmd",
        run: analysis::run,
    },
];

/// Builds the release binary and runs the named benchmarks, or all.
pub fn run(names: &[String]) -> Result<()> {
    if let Some(unknown) = names.iter().find(|name| BENCHMARKS.iter().all(|b| b.name != name.as_str())) {
        let known: Vec<&str> = BENCHMARKS.iter().map(|b| b.name).collect();
        bail!("no benchmark `{unknown}`; there are: {}", known.join(", "));
    }
    shell::run(&mut shell::command("cargo", &["build", "--release", "--workspace", "--bins"]))?;
    let mut table = Table::default();
    for benchmark in BENCHMARKS {
        if names.is_empty() || names.iter().any(|name| name == benchmark.name) {
            println!("\n{}: {}", benchmark.name, benchmark.what);
            println!("{:<46} {:>12} {:>12} {:>8} {:>8}", "", "lotse", "peer", "ratio", "goal");
            (benchmark.run)(&mut table)?;
        }
    }
    println!("\n{} of {} goals held", table.held, table.judged);
    Ok(())
}

/// Prints result lines and counts the goals that held.
#[derive(Default)]
pub(crate) struct Table {
    judged: usize,
    held: usize,
}

impl Table {
    /// A line that compares with a peer: medians of `ours` and `theirs`, median of the
    /// ratios within rounds, and the largest ratio allowed.
    fn compare(&mut self, what: &str, unit: Unit, ours: &[f64], theirs: &[f64], goal: f64) {
        let ratio = measure::ratio(ours, theirs);
        self.judge(ratio <= goal);
        println!(
            "{what:<46} {:>12} {:>12} {ratio:>8.3} {:>8} {}",
            unit.show(measure::median(ours)),
            unit.show(measure::median(theirs)),
            format!("≤ {goal}"),
            verdict(ratio <= goal)
        );
    }

    /// A line that holds a figure of ours against an absolute bound.
    fn bound(&mut self, what: &str, unit: Unit, ours: f64, at_most: f64) {
        self.judge(ours <= at_most);
        println!(
            "{what:<46} {:>12} {:>12} {:>8} {:>8} {}",
            unit.show(ours),
            "",
            "",
            format!("≤ {}", unit.show(at_most)),
            verdict(ours <= at_most)
        );
    }

    fn judge(&mut self, holds: bool) {
        self.judged += 1;
        self.held += usize::from(holds);
    }
}

fn verdict(holds: bool) -> &'static str {
    if holds { "holds" } else { "DOES NOT HOLD" }
}

/// How a figure is shown.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Nanoseconds,
    Bytes,
    Count,
    Milliseconds,
    Megabytes,
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Unit::Nanoseconds => format!("{value:.1} ns"),
            Unit::Bytes => format!("{value:.1} B"),
            Unit::Count => format!("{value:.0}"),
            Unit::Milliseconds => format!("{value:.2} ms"),
            Unit::Megabytes => format!("{value:.1} MB"),
        }
    }
}

/// The release binary that users get.
fn lotse(arguments: &[&str]) -> Command {
    let mut command = Command::new(shell::release_binary("lotse"));
    command.args(arguments);
    command
}

/// All events in a trace file, by `lotse info`.
fn events_in(file: &Path) -> Result<f64> {
    let output = lotse(&["info", "--json"]).arg(file).output()?;
    let info: serde_json::Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("lotse info of {} is not JSON", file.display()))?;
    let events = info["survey"]["events"].as_array().context("lotse info tells no events")?;
    Ok(events.iter().filter_map(|event| event["count"].as_f64()).sum())
}
