//! How fast a scheduler trace is analysed, and in how much memory, against the peers that
//! read the same file; and how both grow with the trace.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use super::{Table, Unit, lotse, measure};
use crate::shell;

const EVENTS: &str = "sched:sched_switch,sched:sched_waking";
/// Round trips of the pipe load: each makes two wakings and two to four switches.
const SHORT: &str = "100000";
const LONG: &str = "1000000";

pub fn run(table: &mut Table) -> Result<()> {
    let folder = shell::root().join("target/bench-analysis");
    std::fs::create_dir_all(&folder)?;
    let short = ours(&folder, "short.dat", SHORT, "v7-zstd")?;
    let long = ours(&folder, "long.dat", LONG, "v7-zstd")?;
    let old = ours(&folder, "long-v6.dat", LONG, "v6")?;
    let theirs = folder.join("long.perf.data");
    shell::run(
        Command::new("perf")
            .args(["record", "-q", "-a", "-m", "16M", "-e", EVENTS, "-o"])
            .arg(&theirs)
            .args(["perf", "bench", "sched", "pipe", "-l", LONG]),
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
    let mut resident = [const { Vec::new() }; 6];
    let cpu = measure::in_turn::<6>(3, |who| {
        let mut command = match who {
            0 => report(&long),
            1 => report(&theirs),
            2 => peer("perf", &["sched", "latency"], &theirs),
            3 => peer("perf", &["script"], &theirs),
            4 => peer("trace-cmd", &["report"], &old),
            _ => report(&short),
        };
        let finished = measure::run_once(&mut command)?;
        resident[who].push(finished.usage.peak_resident as f64 / 1e6);
        Ok(finished.cpu().as_secs_f64() * 1e3)
    })?;

    let (long_events, perf_events, short_events) =
        (super::events_in(&long)?, super::events_in(&theirs)?, super::events_in(&short)?);
    println!(
        "{long_events} events in our recording, {perf_events} in perf's, {short_events} in the short one"
    );
    // Per event, since the files hold different numbers of them.
    let per_event =
        |who: usize, events: f64| -> Vec<f64> { cpu[who].iter().map(|ms| ms * 1e6 / events).collect() };
    let lotse_dat = per_event(0, long_events);
    table.bound("CPU time per event, trace.dat v7", Unit::Nanoseconds, measure::median(&lotse_dat), 100.0);
    let lotse_perf = per_event(1, perf_events);
    table.bound("CPU time per event, perf.data", Unit::Nanoseconds, measure::median(&lotse_perf), 100.0);
    // 10 M events/s against the 2.0 M and 0.3 M that the peers were measured at.
    table.compare(
        "perf.data, against perf sched latency",
        Unit::Nanoseconds,
        &lotse_perf,
        &per_event(2, perf_events),
        0.2,
    );
    table.compare(
        "perf.data, against perf script",
        Unit::Nanoseconds,
        &lotse_perf,
        &per_event(3, perf_events),
        0.03,
    );
    table.compare(
        "trace.dat, against trace-cmd report",
        Unit::Nanoseconds,
        &lotse_dat,
        &per_event(4, super::events_in(&old)?),
        0.03,
    );
    table.bound("resident, trace.dat", Unit::Megabytes, measure::median(&resident[0]), 100.0);
    table.bound("resident, perf.data", Unit::Megabytes, measure::median(&resident[1]), 100.0);
    table.compare(
        "CPU time per event, 10 × the events",
        Unit::Nanoseconds,
        &lotse_dat,
        &per_event(5, short_events),
        1.1,
    );
    table.compare("resident, 10 × the events", Unit::Megabytes, &resident[0], &resident[5], 1.5);
    Ok(())
}

/// Records the pipe load with lotse.
fn ours(folder: &Path, name: &str, trips: &str, format: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    let _ = std::fs::remove_file(&path);
    let mut command = lotse(&["record", "-q", "-a", "-e", EVENTS, "--file-format", format, "-o"]);
    shell::run(command.arg(&path).args(["--", "perf", "bench", "sched", "pipe", "-l", trips]))?;
    Ok(path)
}
