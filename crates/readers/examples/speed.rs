//! How fast traces are read: decode, merge, typed events. `speed FILE…` prints, for the
//! best of five passes over each file, million events per second of CPU time, and what the
//! process held in memory at most.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::{ops::ControlFlow, path::Path, process::ExitCode};

use trace::{Event, Item, decode::Decoder};

fn main() -> ExitCode {
    for name in std::env::args().skip(1) {
        let mut source = match readers::open_path(Path::new(&name)) {
            Ok(source) => source,
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::from(2);
            }
        };
        let mut best = f64::MAX;
        let (mut events, mut sum) = (0u64, 0u64);
        for _ in 0..5 {
            let mut decoder = Decoder::new(source.info());
            (events, sum) = (0, 0);
            let start = cpu_seconds();
            let result = source.stream(&mut |item: Item<'_>| {
                if let Item::Event { at, format, record, .. } = item {
                    events += 1;
                    sum = sum.wrapping_add(at.time.0);
                    match decoder.decode(format, record) {
                        Some(Event::SchedSwitch(switch)) => sum = sum.wrapping_add(switch.next_tid.0 as u64),
                        Some(Event::SchedWaking(waking)) => sum = sum.wrapping_add(waking.tid.0 as u64),
                        _ => {}
                    }
                }
                ControlFlow::Continue(())
            });
            best = best.min(cpu_seconds() - start);
            if let Err(error) = result {
                eprintln!("{error}");
                return ExitCode::from(2);
            }
        }
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let held = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("?").trim();
        println!("{name}: {events} events, {:.1} M/s, {held} held (sum {sum:x})", events as f64 / best / 1e6);
    }
    ExitCode::SUCCESS
}

/// CPU time of this process so far: other work on the machine does not count.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|nanos| nanos.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e9
}
