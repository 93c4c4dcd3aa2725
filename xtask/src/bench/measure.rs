//! Whole commands, run in turn, compared pair by pair.
//!
//! The machine's speed drifts, so a single time means little. Each round runs every
//! contestant once, in alternating order; what is quoted is the median over the rounds
//! of the ratio within a round.

use std::{
    collections::BTreeSet,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use kernel::ebpf::types::{ProgramFacts, loaded_programs};
use kernel::usage::{Usage, wait_with_usage};

/// One finished run of a command.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// From start to exit.
    pub wall: Duration,
    /// What the kernel accounted to it.
    pub usage: Usage,
}

impl Finished {
    /// User and system time together.
    pub fn cpu(&self) -> Duration {
        self.usage.user + self.usage.system
    }
}

/// The programs that a process holds, as the kernel tells of them now: others may load some at the same time.
pub fn programs_of(pid: u32) -> Vec<ProgramFacts> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let texts = entries.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    let id = |text: String| text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok());
    let own: BTreeSet<u32> = texts.filter_map(id).collect();
    loaded_programs().into_iter().map(|(_, facts)| facts).filter(|facts| own.contains(&facts.id)).collect()
}

/// Runs a command to its end without its output; a failure is an error with stderr's tail.
pub fn run_once(command: &mut Command) -> Result<Finished> {
    let line = format!("{command:?}");
    let errors = tempfile()?;
    let begin = Instant::now();
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors.try_clone()?)
        .spawn()
        .with_context(|| format!("cannot start {line}"))?;
    let (status, usage) = wait_with_usage(&child)?;
    let wall = begin.elapsed();
    if !status.success() {
        bail!("{line} ended with {status}: {}", tail(errors));
    }
    Ok(Finished { wall, usage })
}

fn tempfile() -> Result<std::fs::File> {
    let path = std::env::temp_dir().join(format!("lotse-bench-{}", std::process::id()));
    let file = std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

fn tail(mut file: std::fs::File) -> String {
    use std::io::{Read, Seek};
    let mut text = String::new();
    let _ = file.rewind().and_then(|()| file.read_to_string(&mut text));
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" / ")
}

/// Runs every contestant once a round, in alternating order, after one warm-up round.
/// Returns the figures by contestant, each with one value a round.
pub fn in_turn<const N: usize>(
    rounds: usize,
    mut run: impl FnMut(usize) -> Result<f64>,
) -> Result<[Vec<f64>; N]> {
    let mut figures: [Vec<f64>; N] = std::array::from_fn(|_| Vec::with_capacity(rounds));
    for round in 0..=rounds {
        let mut order: Vec<usize> = (0..N).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for contestant in order {
            let figure = run(contestant)?;
            if round > 0 {
                figures[contestant].push(figure);
            }
        }
    }
    Ok(figures)
}

/// The middle value; the mean of the two middle ones for an even count.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// Median of the ratios within each round.
pub fn ratio(ours: &[f64], theirs: &[f64]) -> f64 {
    median(&ours.iter().zip(theirs).map(|(a, b)| a / b).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The machine was twice as slow in the second round; the ratio does not see it.
        assert_eq!(ratio(&[1.0, 2.0, 1.0], &[4.0, 8.0, 4.0]), 0.25);
        assert_eq!(median(&[3.0, 1.0, 2.0, 10.0]), 2.5);
    }

    #[test]
    fn each_contestant_runs_once_a_round_in_alternating_order() {
        let mut order = Vec::new();
        let figures = in_turn::<2>(2, |who| {
            order.push(who);
            Ok(who as f64)
        })
        .unwrap();
        assert_eq!(order, [0, 1, 1, 0, 0, 1]);
        assert_eq!(figures, [vec![0.0, 0.0], vec![1.0, 1.0]]);
    }
}
