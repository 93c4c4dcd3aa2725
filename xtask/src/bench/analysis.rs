//! How fast a scheduler trace is analysed, and in how much memory, against the peers that
//! read the same file; and how both grow with the trace.
//!
//! The load is two pipes, each between two processes on a CPU of its own, and eighty threads
//! that send messages on both: many switches in little time, and waits of all lengths.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::{Table, Unit, lotse, measure};
use crate::shell;

/// `perf sched latency` knows no `sched_waking`.
const EVENTS: &str = "sched:sched_switch,sched:sched_wakeup,sched:sched_wakeup_new";
/// Round trips of each pipe; together they make some 5 million events.
const LONG: u32 = 700_000;
/// A tenth of it.
const SHORT: u32 = LONG / 10;

pub fn run(table: &mut Table) -> Result<()> {
    let folder = shell::root().join("target/bench-analysis");
    std::fs::create_dir_all(&folder)?;
    let record = |name: &str, trips: u32, format: &str| -> Result<PathBuf> {
        let path = folder.join(name);
        let _ = std::fs::remove_file(&path);
        let mut command =
            lotse(&["record", "-q", "--force", "-a", "-e", EVENTS, "--file-format", format, "-o"]);
        shell::run(command.arg(&path).args(["--", "sh", "-c", &load(trips)?]))?;
        Ok(path)
    };
    let short = record("short.dat", SHORT, "v7-zstd")?;
    let long = record("long.dat", LONG, "v7-zstd")?;
    let plain = record("long-v6.dat", LONG, "v6")?;
    let theirs = folder.join("long.perf.data");
    shell::run(
        Command::new("perf")
            .args(["record", "-q", "-a", "-m", "16M", "-e", EVENTS, "-o"])
            .arg(&theirs)
            .args(["sh", "-c", &load(LONG)?]),
    )?;

    let report = |file: &Path| {
        let mut command = lotse(&["report", "--format", "json"]);
        command.arg(file);
        command
    };
    let peer = |program: &str, arguments: &[&str], file: &Path| {
        let mut command = Command::new(program);
        command.args(arguments).arg("-i").arg(file);
        command
    };
    let mut resident = [const { Vec::new() }; 7];
    let cpu = measure::in_turn::<7>(3, |who| {
        let mut command = match who {
            0 => report(&long),
            1 => report(&short),
            2 => report(&theirs),
            3 => peer("perf", &["sched", "latency"], &theirs),
            4 => peer("perf", &["script"], &theirs),
            5 => report(&plain),
            _ => peer("trace-cmd", &["report"], &plain),
        };
        let finished = measure::run_once(&mut command)?;
        resident[who].push(finished.usage.peak_resident as f64 / 1e6);
        Ok(finished.cpu().as_secs_f64() * 1e3)
    })?;

    let files = [&long, &short, &theirs, &theirs, &theirs, &plain, &plain];
    let mut per_event = [const { Vec::new() }; 7];
    for (who, file) in files.into_iter().enumerate() {
        // Per event, since the files hold different numbers of them.
        let events = super::events_in(file)?;
        if matches!(who, 0..=2 | 5) {
            println!("{}: {events} events", file.display());
        }
        per_event[who] = cpu[who].iter().map(|ms| ms * 1e6 / events).collect();
    }
    for (name, who) in [("trace.dat v7-zstd", 0), ("trace.dat v6", 5), ("perf.data", 2)] {
        let name = format!("CPU time per event, {name}");
        table.bound(&name, Unit::Nanoseconds, measure::median(&per_event[who]), 100.0);
    }
    // 10 M events/s against the 2.0 M and 0.3 M that the peers were measured at.
    for (name, who, with, goal) in [
        ("perf.data, against perf sched latency", 2, 3, 0.2),
        ("perf.data, against perf script", 2, 4, 0.03),
        ("trace.dat v6, against trace-cmd report", 5, 6, 0.03),
        ("CPU time per event, 10 × the events", 0, 1, 1.1),
    ] {
        table.compare(name, Unit::Nanoseconds, &per_event[who], &per_event[with], goal);
    }
    for (name, who) in [("trace.dat", 0), ("perf.data", 2)] {
        let name = format!("resident, {name}");
        table.bound(&name, Unit::Megabytes, measure::median(&resident[who]), 100.0);
    }
    table.compare("resident, 10 × the events", Unit::Megabytes, &resident[0], &resident[1], 1.5);
    Ok(())
}

/// The load as shell commands. Its last CPU is the first where there is only one.
fn load(trips: u32) -> Result<String> {
    let cpus = std::thread::available_parallelism().context("number of CPUs")?.get();
    let pipe = |cpu: usize| format!("taskset -c {cpu} perf bench sched pipe -l {trips} >/dev/null & ");
    let messages = trips / 400;
    Ok(format!(
        "{}{}perf bench sched messaging -t -g 2 -l {messages} >/dev/null & wait",
        pipe(0),
        pipe(cpus - 1)
    ))
}
