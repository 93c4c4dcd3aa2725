//! How long a one-liner takes from Enter to gone, and how much memory.

use std::process::Command;

use anyhow::Result;

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
    Ok(())
}
