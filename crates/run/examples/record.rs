//! The recorder alone, for measuring it beside its peers: `record OUTPUT EVENTS [OPTION…] [-- COMMAND…]`.
//! Prints one JSON object: the account in short, times, CPU time used.
//!
//! Options: `v6`, `v7`, `seconds=N`, `kb=N`, `wake=N`, `flush_ms=N`, `command` (only the command's events),
//! `level=N`, `refuse`, `pid=N`.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::ffi::OsString;
use std::time::{Duration, Instant};

use run::record::{FileFormat, Phase, RecordSpec, Selection, WhenFull, record};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(output), Some(events)) = (arguments.next(), arguments.next()) else {
        panic!("record OUTPUT EVENTS [OPTION…] [-- COMMAND…]");
    };
    let patterns: Vec<&str> = events.split(',').collect();
    let mut spec = RecordSpec { handle_signals: true, ..RecordSpec::new(&patterns, output) };
    for argument in arguments.by_ref() {
        let (name, value) = argument.split_once('=').unwrap_or((&argument, ""));
        let number = || value.parse::<u64>().expect("a number");
        match name {
            "--" => break,
            "v6" => spec.format = FileFormat::V6,
            "v7" => spec.format = FileFormat::V7,
            "level" => spec.format = FileFormat::V7Zstd(number() as i32),
            "seconds" => spec.duration = Some(Duration::from_secs(number())),
            "kb" => spec.rings.kb_per_cpu = number() as u32,
            "wake" => spec.rings.wake_percent = number() as u32,
            "flush_ms" => spec.rings.flush_interval = Duration::from_millis(number()),
            "refuse" => spec.rings.when_full = WhenFull::Refuse,
            "command" => spec.selection = Selection::Command,
            "pid" => spec.selection = Selection::Processes(vec![number() as u32]),
            other => panic!("no option {other}"),
        }
    }
    let command: Vec<OsString> = arguments.map(OsString::from).collect();
    spec.command = (!command.is_empty()).then_some(command);
    let begun = Instant::now();
    let (mut armed, mut recorded, mut drain_cpu) = (None, None, 0);
    let outcome = record(&spec, &mut |progress| match progress.phase {
        Phase::Recording => armed = armed.or(Some(begun.elapsed().saturating_sub(progress.elapsed))),
        Phase::Writing => {
            recorded = Some(begun.elapsed());
            drain_cpu = kernel::clock::process_cpu_ns();
        }
        Phase::Preparing | Phase::Ending => {}
    });
    match outcome {
        Ok(outcome) => {
            let ledger = &outcome.ledger;
            let raw: u64 = ledger.cpus.iter().map(|cpu| cpu.bytes).sum();
            let summary = serde_json::json!({
                "recorded": ledger.recorded(),
                "lost": ledger.lost(),
                "own": ledger.own,
                "disagreements": ledger.disagreements(),
                "file_bytes": outcome.file_bytes,
                "raw_bytes": raw,
                "arm_ms": armed.map(|t| t.as_secs_f64() * 1e3),
                "recording_ms": (ledger.ended_ns - ledger.started_ns) as f64 / 1e6,
                "write_ms": recorded.map(|t| (begun.elapsed() - t).as_secs_f64() * 1e3),
                "cpu_ms_until_written": drain_cpu as f64 / 1e6,
                "cpu_ms": kernel::clock::process_cpu_ns() as f64 / 1e6,
                "ended_by": format!("{:?}", outcome.ended_by),
                "status": outcome.command_status.and_then(|status| status.code()),
                "swept": outcome.swept,
                "notes": outcome.notes,
            });
            println!("{summary}");
        }
        Err(error) => {
            eprintln!("record: {error}");
            std::process::exit(2);
        }
    }
}
