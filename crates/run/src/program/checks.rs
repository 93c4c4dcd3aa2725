//! `test:` and `bench:` probes: run by the tracer, judged and timed.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use bpf::KernelFacts;
use bpf::image::{Attach, Moment};
use kernel::ebpf::LoadedProgram;
use kernel::ebpf::statistics::RunStatistics;
use kernel::facts::LiveFacts;

use super::compiled::Compiled;
use super::contents::{Maps, Zeroed};
use super::host_names::HostNames;
use super::output::{Buffering, Form, Output};
use super::packets::Packets;
use super::records::{Asked, Printer};
use super::session::{SessionError, load};

/// What became of a `test:` probe.
#[derive(Debug)]
pub struct TestOutcome {
    /// Its name.
    pub name: String,
    /// Why it failed; none if it passed.
    pub failure: Option<String>,
    /// What it printed, errors included.
    pub output: Vec<u8>,
}

/// How long a benchmark runs, at least.
const BENCH_TIME: Duration = Duration::from_millis(200);
/// Runs between two looks at the clock.
const BENCH_BATCH: u32 = 100;

/// Runs each `test:` probe once, in the order of the text. It fails by returning something else than 0, by an
/// error (`errorf`, `assert`) or by an exit code.
pub fn tests(compiled: &Compiled, facts: &LiveFacts) -> Result<Vec<TestOutcome>, SessionError> {
    let mut loaded = load(compiled, facts, false)?;
    let mut ring = loaded.ring.take();
    let zeroed = Zeroed::default();
    let maps = Maps {
        schema: &compiled.schema,
        layout: &compiled.layout,
        kernel: &loaded.maps,
        data: loaded.data.as_ref(),
        zeroed: &zeroed,
        cpus: facts.possible_cpus(),
    };
    let stacks = compiled.layout.stacks.iter().map(|index| &loaded.maps[*index as usize]).collect();
    let names = HostNames::new(facts, &compiled.schema, stacks);
    let mut outcomes = Vec::new();
    for (moment, program) in moments(compiled, &loaded.programs) {
        let (name, judged) = match moment {
            Moment::Begin => ("", false),
            Moment::Test(name) => (name.as_str(), true),
            _ => continue,
        };
        let (mut output, mut talk) = (Vec::new(), Vec::new());
        let (returned, exit_code, errors) = {
            let mut printer = Printer {
                compiled,
                maps,
                names: &names,
                frames: &names,
                output: Output::new(&mut output, Form::Text, Buffering::Full),
                talk: &mut talk,
                packets: Packets::default(),
                unwatched: Vec::new(),
                errors: 0,
                no_warnings: false,
            };
            let returned = program.run(&mut [], None)?;
            let mut exit_code = Ok(None);
            if let Some(ring) = &mut ring {
                ring.drain(|record| match printer.record(record) {
                    Ok(Asked::Exit(code)) => {
                        exit_code = Ok(Some(code));
                        true
                    }
                    Ok(Asked::Nothing) => true,
                    Err(error) => {
                        exit_code = Err(error);
                        false
                    }
                })?;
            }
            printer.output.flush()?;
            (returned, exit_code?, printer.errors)
        };
        if !judged {
            continue;
        }
        let failure = match (returned, exit_code, errors) {
            (0, None | Some(0), 0) => None,
            (0, None | Some(0), _) => Some("it told of an error".to_owned()),
            (0, Some(code), _) => Some(format!("it called exit({code})")),
            (returned, _, _) => Some(format!("it returned {}", returned as i32)),
        };
        output.extend(talk);
        outcomes.push(TestOutcome { name: name.to_owned(), failure, output });
    }
    Ok(outcomes)
}

/// Nanoseconds of a run of each `bench:` probe, as the kernel measures them, by name.
pub fn benches(compiled: &Compiled, facts: &LiveFacts) -> Result<Vec<(String, u64)>, SessionError> {
    let mut loaded = load(compiled, facts, false)?;
    let mut ring = loaded.ring.take();
    let _statistics = RunStatistics::enable()?;
    let mut measured = Vec::new();
    for (moment, program) in moments(compiled, &loaded.programs) {
        let name = match moment {
            Moment::Begin => {
                program.run(&mut [], None)?;
                continue;
            }
            Moment::Bench(name) => name,
            _ => continue,
        };
        let before = program.facts()?;
        let start = Instant::now();
        while start.elapsed() < BENCH_TIME {
            for _ in 0..BENCH_BATCH {
                program.run(&mut [], None)?;
            }
            // What it prints is not looked at; a full ring would be measured instead of the code.
            if let Some(ring) = &mut ring {
                ring.drain(|_| true)?;
            }
        }
        let after = program.facts()?;
        let runs = (after.run_count - before.run_count).max(1);
        measured.push((name.clone(), (after.run_ns - before.run_ns) / runs));
    }
    measured.sort();
    Ok(measured)
}

/// The table that bpftrace prints, or its JSON.
pub fn write_benches(out: &mut dyn Write, measured: &[(String, u64)], json: bool) -> io::Result<()> {
    if json {
        let rows = measured.iter().map(|(name, nanoseconds)| format!("\"{name}\": {nanoseconds}"));
        let rows = rows.collect::<Vec<_>>().join(", ");
        return writeln!(out, "{{\"type\": \"benchmark_results\", \"data\": {{{rows}}}}}");
    }
    let heads = ("BENCHMARK", "NANOSECONDS");
    let first = measured.iter().map(|(name, _)| name.len()).chain([heads.0.len()]).max().unwrap_or(0);
    let line = format!("+{}+{}+", "-".repeat(first + 2), "-".repeat(heads.1.len() + 2));
    writeln!(out, "{line}\n| {:<first$} | {} |\n{line}", heads.0, heads.1)?;
    for (name, nanoseconds) in measured {
        writeln!(out, "| {name:<first$} | {nanoseconds:<width$} |", width = heads.1.len())?;
    }
    writeln!(out, "{line}")
}

fn moments<'a>(
    compiled: &'a Compiled,
    programs: &'a [LoadedProgram],
) -> impl Iterator<Item = (&'a Moment, &'a LoadedProgram)> {
    compiled.image.programs.iter().zip(programs).filter_map(|(program, loaded)| match &program.attach {
        Attach::TestRun(moment) => Some((moment, loaded)),
        _ => None,
    })
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn benchmarks_are_a_table_or_an_object() {
        let measured = [("count".to_owned(), 40), ("my_long_loop".to_owned(), 124)];
        let mut text = Vec::new();
        write_benches(&mut text, &measured, false).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "+--------------+-------------+\n| BENCHMARK    | NANOSECONDS |\n+--------------+-------------+\n\
             | count        | 40          |\n| my_long_loop | 124         |\n+--------------+-------------+\n"
        );
        let mut json = Vec::new();
        write_benches(&mut json, &measured[..1], true).unwrap();
        assert_eq!(json, b"{\"type\": \"benchmark_results\", \"data\": {\"count\": 40}}\n");
    }
}
