//! Traces too long to keep each duration, and with too many threads to keep each row.

use std::ops::ControlFlow;

use analysis::sched::{SchedAnalysis, SchedOptions, analyse};
use testkit::scenario::{Scenario, Step, What, Who};
use trace::{Item, Source, TaskState};

/// Threads that take turns on one CPU, with waits from nanoseconds to seconds.
fn turns(count: u64) -> Vec<Step> {
    let mut now = 1_000;
    let mut steps = Vec::new();
    let mut state = 7u64;
    let mut running = 0;
    let mut push = |time, what| steps.push(Step { time, cpu: 0, by: None, what });
    for i in 0..count {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let next = 10 + (state >> 33) as i32 % 40;
        if next == running {
            continue;
        }
        push(now, What::Waking(Who::number(next), 0));
        // Skewed: mostly short, some very long, many the same.
        let wait = match i % 5 {
            0 => 5_000,
            1 => 1_000_000 + state % 1000,
            _ => 1u64 << (state >> 50).wrapping_rem(31),
        };
        now += wait + (state >> 40) % 97;
        let what = if i % 3 == 0 { TaskState::Preempted } else { TaskState::Sleeping };
        push(now, What::Switch(Who::number(running), what, Who::number(next)));
        running = next;
    }
    steps
}

#[test]
fn percentiles_stay_exact_when_durations_do_not_fit() {
    let steps = turns(60_000);
    let mut scenario = Scenario::new(&steps, None);
    let ample = analyse(&mut scenario, &SchedOptions::default());
    assert_eq!(ample.provenance.passes, 1);
    assert!(ample.wait.total.count > 40_000);
    let tight = SchedOptions { value_bytes: 4096, ..SchedOptions::default() };
    let mut narrow = analyse(&mut scenario, &tight);
    assert!(narrow.provenance.passes >= 2, "{} passes", narrow.provenance.passes);
    assert_eq!(narrow.wait.total.quantiles.unwrap().error_ns, 0);
    narrow.provenance.passes = 1;
    let json = |r| serde_json::to_string_pretty(r).unwrap();
    let (narrow, ample) = (json(&narrow), json(&ample));
    for (n, a) in narrow.lines().zip(ample.lines()) {
        assert_eq!(n, a);
    }
}

#[test]
fn buckets_too_full_to_keep_are_narrowed_until_they_are_exact() {
    // 300 000 waits of nearly the same length: more than are kept of one bucket.
    let mut steps = Vec::new();
    let mut now = 0;
    for i in 0..300_000u64 {
        let (prev, next) = ((i % 2) as i32 + 10, ((i + 1) % 2) as i32 + 10);
        now += 1_000_000 + (i * 7919) % 5000;
        steps.push(Step {
            time: now,
            cpu: 0,
            by: None,
            what: What::Switch(Who::number(prev), TaskState::Preempted, Who::number(next)),
        });
    }
    let mut scenario = Scenario::new(&steps, None);
    let exact = analyse(&mut scenario, &SchedOptions::default());
    let tight = SchedOptions { value_bytes: 4096, ..SchedOptions::default() };
    let narrow = analyse(&mut scenario, &tight);
    assert!(narrow.provenance.passes >= 3, "{} passes", narrow.provenance.passes);
    assert_eq!(narrow.wait.total.quantiles, exact.wait.total.quantiles);
    assert_eq!(narrow.threads[0].wait, exact.threads[0].wait);
}

#[test]
fn a_trace_told_once_gives_percentiles_within_the_stated_error() {
    let steps = turns(60_000);
    let mut scenario = Scenario::new(&steps, None);
    let exact = analyse(&mut scenario, &SchedOptions::default());
    let tight = SchedOptions { value_bytes: 4096, ..SchedOptions::default() };
    let mut live = SchedAnalysis::new(scenario.info(), &tight);
    scenario
        .stream(&mut |item: Item<'_>| {
            let _ = trace::Sink::item(&mut live, item);
            ControlFlow::Continue(())
        })
        .unwrap();
    let live = live.finish();
    let pairs = live.threads.iter().map(|t| &t.wait).zip(exact.threads.iter().map(|t| &t.wait));
    for (rough, exact) in pairs.chain([(&live.wait.total, &exact.wait.total)]) {
        let (Some(rough), Some(exact)) = (rough.quantiles, exact.quantiles) else { continue };
        assert_eq!((rough.min_ns, rough.max_ns), (exact.min_ns, exact.max_ns));
        for (r, e) in [
            (rough.p50_ns, exact.p50_ns),
            (rough.p90_ns, exact.p90_ns),
            (rough.p99_ns, exact.p99_ns),
            (rough.p999_ns, exact.p999_ns),
        ] {
            assert!(r >= e && r - e <= rough.error_ns, "{r} for {e}, error {}", rough.error_ns);
        }
    }
    assert!(live.wait.total.quantiles.unwrap().error_ns > 0);
}

#[test]
fn exited_threads_beyond_the_limit_are_summed_not_dropped() {
    let mut steps = Vec::new();
    let mut now = 0;
    let mut push = |time, what| steps.push(Step { time, cpu: 0, by: None, what });
    let parent = || Who::number(5);
    push(0, What::Switch(Who::number(0), TaskState::Runnable, parent()));
    for i in 0..3000 {
        // Numbers are used again after 500.
        let child = || Who { name: format!("c{i}"), tid: 100 + i % 500, prio: 120 };
        push(now + 1, What::Fork(parent(), child()));
        push(now + 2, What::New(child(), 0));
        push(now + 10 + i as u64, What::Switch(parent(), TaskState::Preempted, child()));
        push(now + 30 + i as u64, What::Exit(child()));
        push(now + 40 + i as u64, What::Switch(child(), TaskState::Dead, parent()));
        push(now + 41 + i as u64, What::Free(child()));
        now += 50 + i as u64;
    }
    let mut scenario = Scenario::new(&steps, None);
    let all = analyse(&mut scenario, &SchedOptions::default());
    assert_eq!((all.threads.len(), all.folded_threads.is_none()), (3001, true));
    for value_bytes in [1 << 20, 4096] {
        let few = SchedOptions { max_threads: 100, value_bytes, ..SchedOptions::default() };
        let folded = analyse(&mut scenario, &few);
        let sum = folded.folded_threads.as_ref().expect("some are summed");
        assert!(folded.threads.len() <= 200, "{} rows", folded.threads.len());
        assert_eq!(folded.threads.len() as u64 + sum.threads, 3001);
        let total: u64 = folded.threads.iter().map(|t| t.wait.sum_ns).sum::<u64>() + sum.wait.time_ns;
        assert_eq!(total, all.threads.iter().map(|t| t.wait.sum_ns).sum::<u64>());
        let running = |r: &analysis::sched::SchedResult| {
            r.threads.iter().map(|t| t.budget.running_ns).sum::<u64>()
                + r.folded_threads.as_ref().map_or(0, |f| f.budget.running_ns)
        };
        assert_eq!(running(&folded), running(&all));
        assert_eq!(folded.wait.total, all.wait.total);
        assert_eq!(folded.long_waits, all.long_waits);
        // Who waited longest keeps its row, and its percentiles.
        let worst = all.threads.iter().max_by_key(|t| t.wait.sum_ns).unwrap();
        let same = folded.threads.iter().find(|t| t.key == worst.key).unwrap();
        assert_eq!((&same.wait, &same.budget, &same.name), (&worst.wait, &worst.budget, &worst.name));
    }
}
