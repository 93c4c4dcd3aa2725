//! Prints what trace files hold: `cargo run --release -p readers --example survey FILE…`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::{path::Path, process::ExitCode};

fn main() -> ExitCode {
    let mut failed = false;
    for name in std::env::args().skip(1) {
        match readers::open_path(Path::new(&name)) {
            Ok(mut source) => {
                let survey = readers::survey(&mut *source);
                let info = source.info();
                println!(
                    "{name}: {} by {:?}, kernel {:?} {:?}, clock {}, {} CPUs, cut {:?}",
                    info.file_format,
                    info.producer,
                    info.kernel_release,
                    info.machine,
                    info.clock,
                    info.cpu_count,
                    info.cut
                );
                for event in &survey.events {
                    println!("  {:>9} {}", event.count, event.name);
                }
                println!(
                    "  total {} side {:?} losses {:?}",
                    survey.total, survey.side_records, survey.losses
                );
                for cpu in &survey.cpus {
                    println!("  {cpu:?}");
                }
                println!(
                    "  back {} ({}) late {} error {:?}",
                    survey.steps_back, survey.largest_step_back, survey.out_of_order, survey.error
                );
                for (key, value) in &info.facts {
                    println!("  {key}: {}", value.chars().take(200).collect::<String>());
                }
                for problem in &info.problems {
                    println!("  problem: {problem}");
                }
            }
            Err(error) => {
                eprintln!("{error}");
                failed = true;
            }
        }
    }
    if failed { ExitCode::from(2) } else { ExitCode::SUCCESS }
}
