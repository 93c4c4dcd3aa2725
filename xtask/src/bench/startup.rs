//! How long a one-liner takes from Enter to gone, and how much memory.

use std::fmt::Write;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Table, Unit, lotse, measure};

const EIGHT_TRACEPOINTS: &str = "
    tracepoint:syscalls:sys_enter_statfs, tracepoint:syscalls:sys_enter_statx,
    tracepoint:syscalls:sys_enter_newstat, tracepoint:syscalls:sys_enter_newlstat { @start[tid] = nsecs; }
    tracepoint:syscalls:sys_exit_statfs, tracepoint:syscalls:sys_exit_statx,
    tracepoint:syscalls:sys_exit_newstat, tracepoint:syscalls:sys_exit_newlstat
    /@start[tid]/ { @ns[comm] = hist(nsecs - @start[tid]); delete(@start[tid]); }
    BEGIN { exit(); }";

pub fn run(table: &mut Table) -> Result<()> {
    for (what, program, rounds) in
        [("BEGIN { exit(); }", "BEGIN { exit(); }", 15), ("eight tracepoints", EIGHT_TRACEPOINTS, 7)]
    {
        let mut resident = [Vec::new(), Vec::new()];
        let wall = measure::in_turn::<2>(rounds, |who| {
            let mut command = match who {
                0 => lotse(&["trace", "-e", program]),
                _ => {
                    let mut peer = Command::new("bpftrace");
                    peer.args(["-e", program]);
                    peer
                }
            };
            let finished = measure::run_once(&mut command)?;
            resident[who].push(finished.usage.peak_resident as f64 / 1e6);
            Ok(finished.wall.as_secs_f64() * 1e3)
        })?;
        table.compare(
            &format!("{what}: wall, against bpftrace"),
            Unit::Milliseconds,
            &wall[0],
            &wall[1],
            0.05,
        );
        table.bound(
            &format!("{what}: peak resident memory"),
            Unit::Megabytes,
            measure::median(&resident[0]),
            10.0,
        );
    }
    compile_time(table)
}

/// A text of 2 000 lines, as many probes and as one: read, checked, compiled and printed as assembly.
fn compile_time(table: &mut Table) -> Result<()> {
    for (what, lines_a_probe) in [("in 36 probes", 56), ("in one probe", 2000)] {
        let text = long_program(2000, lines_a_probe)?;
        let mut command = lotse(&["trace", "--emit", "asm", "-e", &text]);
        let times = (0..5).map(|_| {
            let usage = measure::run_once(&mut command)?;
            Ok(usage.wall.as_secs_f64() * 1e3)
        });
        let times = times.collect::<Result<Vec<f64>>>().context("the long program")?;
        table.bound(
            &format!("2 000 lines {what}: compiled, wall"),
            Unit::Milliseconds,
            measure::median(&times),
            1000.0,
        );
    }
    Ok(())
}

/// Statements of the everyday kinds: arithmetic, branches, maps with keys of several types, aggregates.
fn long_program(lines: usize, lines_a_probe: usize) -> Result<String> {
    let mut text = String::new();
    for first in (0..lines).step_by(lines_a_probe) {
        writeln!(text, "interval:s:{} {{", 1000 + first)?;
        for n in (first..(first + lines_a_probe).min(lines)).step_by(8) {
            writeln!(
                text,
                "  $a = nsecs / {};\n  $b = $a * {} + pid;\n  if ($b % {} > {}) {{\n    @count[$b % 64, comm] = count();\n    \
                 @sum_{first} = sum($a);\n  }}\n  @last[tid, {}] = $b;\n  @ = hist($a - $b);",
                n + 1,
                n + 3,
                n % 7 + 2,
                n % 5,
                n % 3
            )?;
        }
        text.push_str("}\n");
    }
    Ok(text)
}
