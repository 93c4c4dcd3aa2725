//! A result as a short text to compare with.

use std::fmt::Write;

use analysis::sched::{SchedOptions, SchedResult, analyse, result::Intervals};
use testkit::scenario::Scenario;

pub fn run(text: &str) -> SchedResult {
    analyse(&mut Scenario::parse(text), &SchedOptions::default())
}

/// Analyses a trace and compares its description line by line.
#[track_caller]
pub fn check(text: &str, expected: &str) {
    check_result(&run(text), expected);
}

#[track_caller]
pub fn check_result(result: &SchedResult, expected: &str) {
    let lines = |text: &str| {
        text.lines()
            .map(str::trim)
            .filter(|l| !l.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>()
            .join("\n")
    };
    let found = describe(result);
    assert!(lines(&found) == lines(expected), "found:\n{found}\nexpected:\n{}", lines(expected));
}

fn intervals(i: &Intervals) -> String {
    let mut text = format!("{} complete", i.complete);
    for (count, name) in [
        (i.cut_at_start, "cut at start"),
        (i.cut_at_end, "cut at end"),
        (i.discarded_by_loss, "lost"),
        (i.discarded_by_gap, "across gaps"),
        (i.discarded_by_clock, "against the clock"),
    ] {
        if count > 0 {
            write!(text, ", {count} {name}").unwrap();
        }
    }
    text
}

/// Numbers that are 0 are left out.
pub fn describe(result: &SchedResult) -> String {
    let mut text = String::new();
    writeln!(text, "waits: {}", intervals(&result.wait.intervals)).unwrap();
    writeln!(text, "blocked: {}", intervals(&result.off_cpu.intervals)).unwrap();
    let (losses, clock) = (&result.losses, &result.clock_quality);
    for (count, name) in [
        (losses.gaps, "gaps"),
        (losses.switched_in_without_wakeup, "switched in without wakeup"),
        (clock.backward_steps, "backward steps"),
        (clock.effects_before_causes, "effects before causes"),
    ] {
        if count > 0 {
            writeln!(text, "{name}: {count}").unwrap();
        }
    }
    let mut threads: Vec<_> = result.threads.iter().collect();
    threads.sort_by_key(|t| t.key);
    for thread in threads {
        let generation =
            if thread.key.generation > 0 { format!("+{}", thread.key.generation) } else { String::new() };
        write!(text, "{}/{}{generation}: span {}", thread.name, thread.key.tid.0, thread.budget.span_ns)
            .unwrap();
        let budget = &thread.budget;
        for (ns, name) in [
            (budget.running_ns, "run"),
            (budget.wakeup_wait_ns, "wakeup-wait"),
            (budget.preemption_wait_ns, "preempted"),
            (budget.cut_wait_ns, "cut-wait"),
            (budget.blocked_ns, "blocked"),
            (budget.stolen_by_irq_ns, "irq"),
            (budget.stolen_by_softirq_ns, "softirq"),
            (budget.remainder_ns, "unknown"),
            (thread.wait.count, "waits"),
            (thread.wait.quantiles.map_or(0, |q| q.max_ns), "longest"),
            (thread.migrations.migrations, "moves"),
            (thread.migrations.cross_cpu_wakeups, "cross-wakeups"),
            (thread.idle_beside.time_ns, "beside-idle"),
            (thread.held_back.time_ns, "held-back"),
        ] {
            if ns > 0 {
                write!(text, " {name} {ns}").unwrap();
            }
        }
        for (state, ns) in &budget.blocked_by_state {
            if budget.blocked_by_state.len() > 1 || state.letters() != "S" {
                write!(text, " {state}={ns}").unwrap();
            }
        }
        text.push('\n');
    }
    for cpu in &result.cpus {
        write!(text, "CPU {}: busy {} idle {}", cpu.cpu.0, cpu.busy_ns, cpu.idle_ns).unwrap();
        if cpu.unknown_ns > 0 {
            write!(text, " unknown {}", cpu.unknown_ns).unwrap();
        }
        text.push('\n');
    }
    text
}
