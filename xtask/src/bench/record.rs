//! What recording a tracepoint costs the traced program, how many bytes it takes, and
//! whether anything is lost at 400 000 events a second.
//!
//! Selecting a process has a row of its own: the kernel looks every event's thread up in the list
//! of those selected, which perf's per-task events do not need.

use std::{path::Path, process::Command};

use anyhow::{Context, Result};
use kernel::{
    tracefs::{EventName, Tracefs},
    tracefs_instance::Instance,
};

use super::{Table, Unit, lotse, measure};
use crate::shell;

const EVENT: &str = "syscalls:sys_enter_getppid";
const CALLS: u32 = 1_000_000;
const ROUNDS: usize = 7;
const PACE: u32 = 400_000;

pub fn run(table: &mut Table) -> Result<()> {
    let folder = shell::root().join("target/bench-record");
    std::fs::create_dir_all(&folder)?;
    let (ours, theirs) = (folder.join("lotse.dat"), folder.join("perf.data"));

    // 0: nothing, 1: lotse, 2: perf record, 3: an instance that nobody reads, which all record
    // everybody's events; 4: lotse, 5: perf record, of the command alone.
    let record = ["record", "-q", "--force", "-e", EVENT, "-o"];
    let figures = measure::in_turn::<6>(ROUNDS, |who| match who {
        0 => load(Command::new("taskset").args(["-c", "1"]), &[]),
        1 => load(lotse(&record).arg(&ours).args(["--all", "--"]), &[]),
        2 => load(Command::new("perf").args(["record", "-q", "-a", "-e", EVENT, "-o"]).arg(&theirs), &[]),
        3 => with_bare_instance(|| load(Command::new("taskset").args(["-c", "1"]), &[])),
        4 => load(lotse(&record).arg(folder.join("one.dat")).arg("--"), &[]),
        _ => load(
            Command::new("perf").args(["record", "-q", "-e", EVENT, "-o"]).arg(folder.join("one.perf.data")),
            &[],
        ),
    })?;
    let added =
        |who: usize| -> Vec<f64> { figures[who].iter().zip(&figures[0]).map(|(a, b)| a - b).collect() };
    table.compare("added per event, against perf record", Unit::Nanoseconds, &added(1), &added(2), 0.5);
    table.compare("added per event, against a bare instance", Unit::Nanoseconds, &added(1), &added(3), 1.02);
    let what = "added per event, one command, against perf record";
    table.compare(what, Unit::Nanoseconds, &added(4), &added(5), 0.5);

    let bytes =
        |path: &Path| Ok::<f64, anyhow::Error>(std::fs::metadata(path)?.len() as f64 / f64::from(CALLS));
    let (our_bytes, their_bytes) = (bytes(&ours)?, bytes(&theirs)?);
    table.compare(
        "file bytes per event, against perf record",
        Unit::Bytes,
        &[our_bytes],
        &[their_bytes],
        0.25,
    );
    table.bound("file bytes per event", Unit::Bytes, our_bytes, 5.0);

    scheduler_bytes(table, &folder)?;

    let paced = folder.join("paced.dat");
    load(lotse(&record).arg(&paced).arg("--"), &[&PACE.to_string()])?;
    let kept = super::events_in(&paced)?;
    table.bound(
        &format!("lost of {CALLS} events at {PACE} a second"),
        Unit::Count,
        f64::from(CALLS) - kept,
        0.0,
    );
    Ok(())
}

/// Bytes of what a scheduler analysis records: events of several kinds, many threads, times that
/// no two of them share. Hackbench's are the densest.
fn scheduler_bytes(table: &mut Table, folder: &Path) -> Result<()> {
    let loads: [(&str, &[&str]); 2] = [
        ("hackbench", &["hackbench", "-l", "400"]),
        ("sysbench threads", &["sysbench", "threads", "--threads=16", "--time=2", "run"]),
    ];
    for (name, words) in loads {
        let file = folder.join("sched.dat");
        let mut command = lotse(&["record", "-q", "--force", "-a", "-e", "sched:*", "-o"]);
        let output = command.arg(&file).arg("--").args(words).output()?;
        if output.status.code() == Some(2) {
            println!("{name} cannot be recorded: {}", String::from_utf8_lossy(&output.stderr).trim());
            continue;
        }
        let bytes = std::fs::metadata(&file)?.len() as f64 / super::events_in(&file)?;
        table.bound(&format!("file bytes per event, sched:* of {name}"), Unit::Bytes, bytes, 5.0);
    }
    Ok(())
}

/// Runs the load under `tracer` (which takes a command to run) and returns the load's own
/// nanoseconds per call.
fn load(tracer: &mut Command, pace: &[&str]) -> Result<f64> {
    let pinned = ["taskset", "-c", "1"];
    if tracer.get_program() != "taskset" {
        tracer.args(pinned);
    }
    let output = tracer
        .arg(std::env::current_exe()?)
        .args(["load-calls", &CALLS.to_string()])
        .args(pace)
        .output()
        .with_context(|| format!("cannot run {tracer:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().unwrap_or_default();
    line.trim().parse().with_context(|| {
        format!("{tracer:?} printed {text:?} and {:?}", String::from_utf8_lossy(&output.stderr))
    })
}

/// Runs `body` while an instance with default rings takes the event and nobody reads it.
fn with_bare_instance(body: impl FnOnce() -> Result<f64>) -> Result<f64> {
    let tracefs = Tracefs::open()?;
    let instance = Instance::create(&tracefs)?;
    instance.write("trace_clock", "mono")?;
    let event = EventName::parse(EVENT).context("an event name")?;
    instance.enable(&event, true)?;
    instance.set_tracing(true)?;
    let figure = body();
    instance.remove()?;
    figure
}
