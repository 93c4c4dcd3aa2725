//! One definition each.

use analysis::sched::{
    SchedOptions, SchedResult, analyse,
    options::AffinityFact,
    result::{BlockReason, HadCpu, Waker},
};
use testkit::scenario::Scenario;
use trace::{Cpu, Nanos, Tid, ident::ThreadKey};

use crate::describe::{check, check_result, describe, run};

#[test]
fn a_wait_begins_at_the_first_of_waking_and_wakeup() {
    check(
        "100 0 switch idle R -> a/10
         150 0 waking b/11 -> 1
         153 1 wakeup b/11 -> 1
         160 1 switch idle R -> b/11
         200 1 switch b/11 S -> idle
         300 0 switch a/10 S -> idle",
        "waits: 1 complete, 1 cut at start
         blocked: 0 complete, 1 cut at start, 2 cut at end
         a/10: span 200 run 200
         b/11: span 200 run 40 wakeup-wait 10 blocked 150 waits 1 longest 10 cross-wakeups 1 ?=50 S=100
         CPU 0: busy 200 idle 0
         CPU 1: busy 40 idle 160",
    );
}

#[test]
fn waits_of_some_cpus_alone_are_counted_and_budgets_stay_whole() {
    let text = "100 0 switch idle R -> a/10
         100 1 switch idle R -> b/11
         150 0 switch a/10 R -> c/12
         150 1 switch b/11 R -> d/13
         180 0 switch c/12 S -> a/10
         190 1 switch d/13 S -> b/11
         200 0 switch a/10 S -> idle
         200 1 switch b/11 S -> idle";
    let mut scenario = Scenario::parse(text);
    let all = analyse(&mut scenario, &SchedOptions::default());
    let options = SchedOptions { cpus: vec![Cpu(1)], ..SchedOptions::default() };
    let one = analyse(&mut scenario, &options);
    assert_eq!((all.wait.total.count, all.wait.total.sum_ns), (2, 70));
    assert_eq!((one.wait.total.count, one.wait.total.sum_ns), (1, 40));
    assert_eq!(one.cpus.iter().map(|cpu| cpu.cpu).collect::<Vec<_>>(), [Cpu(1)]);
    assert_eq!((one.timeline.lanes.len(), one.wait.by_cpu.len()), (1, 1));
    let waited_for: u64 = one.wait.meanwhile.iter().map(|holder| holder.others_waited_ns).sum();
    assert_eq!(waited_for, 40);
    let budget = |result: &SchedResult, tid: i32| {
        result.threads.iter().find(|thread| thread.key.tid == Tid(tid)).unwrap().budget.clone()
    };
    for tid in [10, 11] {
        assert_eq!(budget(&one, tid), budget(&all, tid));
    }
}

#[test]
fn listed_threads_may_be_asked_about_without_what_they_make() {
    let text = "100 0 switch idle R -> a/10
         110 0 fork a/10 -> b/11
         111 0 new b/11 -> 0
         120 0 switch a/10 S -> b/11
         130 0 switch b/11 S -> idle";
    for (only_listed, threads) in [(false, vec![10, 11]), (true, vec![10])] {
        let options = SchedOptions { threads: vec![Tid(10)], only_listed, ..SchedOptions::default() };
        let result = analyse(&mut Scenario::parse(text), &options);
        let mut counted: Vec<i32> = result.threads.iter().map(|thread| thread.key.tid.0).collect();
        counted.sort_unstable();
        assert_eq!(counted, threads);
    }
}

#[test]
fn wakeups_of_runnable_and_running_threads_start_nothing() {
    let result = run("100 0 switch idle R -> a/10
         110 1 waking a/10 -> 0
         111 1 wakeup a/10 -> 0
         120 0 switch a/10 R -> b/11
         130 1 waking a/10 -> 0
         131 1 wakeup a/10 -> 0
         140 0 switch b/11 S -> a/10
         160 0 switch a/10 S -> idle");
    let a = result.threads.iter().find(|t| t.key.tid == Tid(10)).unwrap();
    assert_eq!((a.wait.count, a.preemption_wait.time_ns, a.wakeup_wait.count), (1, 20, 0));
    assert_eq!((a.involuntary_switches, a.voluntary_switches, a.switched_in), (1, 1, 2));
    assert_eq!(result.clock_quality.effects_before_causes, 0);
}

#[test]
fn a_thread_woken_on_its_way_to_sleep_waits_from_the_wakeup_after_the_switch() {
    let result = run("100 0 switch idle R -> a/10
         110 1 waking a/10 -> 0
         112 0 switch a/10 D -> b/11
         115 1 wakeup a/10 -> 0
         140 0 switch b/11 R -> a/10
         160 0 switch a/10 S -> idle");
    let a = result.threads.iter().find(|t| t.key.tid == Tid(10)).unwrap();
    assert_eq!((a.wakeup_wait.count, a.wakeup_wait.time_ns, a.budget.blocked_ns), (1, 25, 3));
    assert_eq!(result.clock_quality.effects_before_causes, 0);
    assert_eq!(result.losses.switched_in_without_wakeup, 0);
}

#[test]
fn preempted_and_yielding_threads_wait_from_the_switch() {
    check(
        "0 0 switch a/10 R+ -> b/11
         30 0 switch b/11 R -> a/10
         50 0 switch a/10 D -> b/11
         90 0 switch b/11 S -> idle",
        "waits: 2 complete, 1 cut at start
         blocked: 0 complete, 2 cut at end
         a/10: span 90 run 20 preempted 30 blocked 40 waits 1 longest 30 D=40
         b/11: span 90 run 70 preempted 20 waits 1 longest 20
         CPU 0: busy 90 idle 0",
    );
}

#[test]
fn a_new_thread_waits_from_its_first_wakeup() {
    check(
        "0 0 switch idle R -> a/10
         10 0 fork a/10 -> a/20
         12 0 new a/20 -> 0
         20 0 switch a/10 S -> a/20
         50 0 exit a/20
         55 0 switch a/20 X -> idle
         90 0 tick",
        "waits: 1 complete, 1 cut at start
         blocked: 0 complete, 1 cut at end
         a/10: span 90 run 20 blocked 70
         a/20: span 45 run 35 wakeup-wait 8 unknown 2 waits 1 longest 8
         CPU 0: busy 55 idle 35",
    );
}

#[test]
fn a_number_used_again_is_another_thread_and_the_exited_one_stays() {
    let result = run("0 0 switch idle R -> a/10
         10 0 fork a/10 -> x/20
         12 0 new x/20 -> 0
         20 0 switch a/10 R -> x/20
         25 0 exit x/20
         30 0 switch x/20 Z -> a/10
         35 0 free x/20
         40 0 fork a/10 -> y/20
         41 0 new y/20 -> 0
         50 0 switch a/10 S -> y/20
         60 0 switch y/20 S -> idle");
    let keys: Vec<_> = result.threads.iter().filter(|t| t.key.tid == Tid(20)).collect();
    assert_eq!(keys.len(), 2, "{}", describe(&result));
    let first = keys.iter().find(|t| t.key.generation == 0).unwrap();
    let second = keys.iter().find(|t| t.key.generation == 1).unwrap();
    assert_eq!((first.name.as_str(), first.ended, first.budget.running_ns), ("x", true, 10));
    assert_eq!((second.name.as_str(), second.ended, second.budget.running_ns), ("y", false, 10));
    assert_eq!(second.parent, Some(ThreadKey { tid: Tid(10), generation: 0 }));
}

#[test]
fn a_thread_keeps_its_identity_when_its_name_changes_to_an_odd_one() {
    let result = run(r#"0 0 switch idle R -> a/10
         10 0 rename 10 a -> "a b] ==> c"
         20 0 switch "a b] ==> c"/10 S -> idle
         30 0 waking "a b] ==> c"/10 -> 0
         35 0 switch idle R -> "a b] ==> c"/10
         40 0 tick"#);
    assert_eq!(result.threads.len(), 1);
    assert_eq!(result.threads[0].name, "a b] ==> c");
    assert_eq!(result.threads[0].former_names, ["a"]);
    assert_eq!(result.threads[0].wait.sum_ns, 5);
}

#[test]
fn exec_by_another_thread_than_the_leader_keeps_the_runner() {
    let result = run("0 0 switch idle R -> l/10
         5 0 switch l/10 S -> w/11
         10 0 exec 10 from 11
         30 0 switch n/10 S -> idle
         40 0 tick");
    assert_eq!(result.losses.gaps, 0, "{}", describe(&result));
    let runner = result.threads.iter().find(|t| t.name == "n").unwrap();
    assert_eq!((runner.key.tid, runner.budget.running_ns), (Tid(10), 25));
}

#[test]
fn a_gap_without_a_loss_cuts_what_crosses_it() {
    // CPU 0 was last switched to h, yet b leaves it: h ran until nobody knows when.
    check(
        "0 0 switch idle R -> a/10
         10 1 waking b/11 -> 0
         20 0 switch a/10 S -> h/12
         60 0 switch b/11 S -> idle
         100 0 tick",
        "waits: 0 complete, 2 cut at start, 1 across gaps
         blocked: 0 complete, 1 cut at start, 2 cut at end
         gaps: 1
         a/10: span 100 run 20 blocked 80
         b/11: span 100 blocked 50 unknown 50 ?=10 S=40
         h/12: span 100 cut-wait 20 unknown 80
         CPU 0: busy 20 idle 40 unknown 40
         CPU 1: busy 0 idle 0 unknown 100",
    );
}

#[test]
fn an_event_that_names_another_current_thread_shows_the_gap_earlier() {
    let result = run("0 0 switch idle R -> a/10 by=0
         20 0 switch a/10 S -> h/12 by=10
         40 0 tick by=12
         50 0 tick by=11
         60 0 switch b/11 S -> idle by=11");
    let h = result.threads.iter().find(|t| t.key.tid == Tid(12)).unwrap();
    let b = result.threads.iter().find(|t| t.key.tid == Tid(11)).unwrap();
    assert_eq!((h.budget.running_ns, b.budget.running_ns, result.losses.gaps), (20, 10, 1));
}

#[test]
fn a_thread_woken_twice_ran_in_between() {
    // h's runs are hidden: it was woken at 10, ran, slept, and was woken again at 1000.
    let result = run("0 0 switch idle R -> a/10
         10 0 waking h/12 -> 0
         11 0 wakeup h/12 -> 0
         1000 0 waking h/12 -> 0
         1001 0 wakeup h/12 -> 0
         1010 0 switch a/10 R -> h/12");
    assert_eq!((result.wait.total.count, result.wait.total.sum_ns, result.losses.gaps), (1, 10, 1));
    assert_eq!(result.wait.intervals.discarded_by_gap, 1);
}

#[test]
fn numbers_from_a_pid_namespace_are_not_taken_for_gaps() {
    // perf in a container: current threads are numbered there as 1, 2, …
    let result = run("0 0 switch idle R -> a/10 by=0
         20 0 switch a/10 S -> b/11 by=1
         30 0 tick by=2
         40 0 switch b/11 S -> a/10 by=2
         50 0 tick by=1");
    assert_eq!(result.losses.gaps, 0, "{}", describe(&result));
}

#[test]
fn a_loss_makes_unknown_what_it_may_have_touched() {
    // Told when it begins. b waits for CPU 0, where events are lost from 30 to 70.
    let early = "0 0 switch idle R -> a/10
         0 1 switch idle R -> c/13
         10 1 waking b/11 -> 0
         30 0 tick
         30 - lost 0 30 70 9
         70 0 switch a/10 S -> b/11
         80 1 switch c/13 S -> idle
         90 0 switch b/11 S -> idle
         100 0 tick";
    check(
        early,
        "waits: 0 complete, 2 cut at start, 1 lost
         blocked: 0 complete, 1 cut at start, 3 cut at end
         a/10: span 100 run 30 blocked 30 unknown 40
         b/11: span 100 run 20 wakeup-wait 20 blocked 20 unknown 40 ?=10 S=10
         c/13: span 100 run 80 blocked 20
         CPU 0: busy 50 idle 10 unknown 40
         CPU 1: busy 80 idle 20",
    );
    // Told when it is over: the same.
    let late = early
        .replace("30 - lost 0 30 70 9\n", "")
        .replace("70 0 switch", "70 - lost 0 30 70 9\n 70 0 switch");
    assert_eq!(describe(&run(&late)), describe(&run(early)));
    let result = run(early);
    assert_eq!((result.losses.events, result.losses.intervals.len(), result.cpus[0].lost), (9, 1, 9));
    assert!(
        result.findings[0].text.starts_with("9 events were lost in 1 place. 1 wait that"),
        "{:?}",
        result.findings
    );
}

#[test]
fn a_wait_within_a_loss_on_a_cpu_the_thread_uses_is_in_doubt() {
    // b used CPU 1 before. While CPU 1 loses events, it could have run there in between.
    let result = run("0 1 switch idle R -> b/11
         10 1 switch b/11 S -> idle
         20 - lost 1 20 60 ?
         30 0 waking b/11 -> 0
         40 0 switch idle R -> b/11
         50 0 switch b/11 S -> idle
         60 1 tick
         70 0 waking b/11 -> 0
         80 0 switch idle R -> b/11
         90 0 tick");
    assert_eq!(result.wait.intervals.discarded_by_loss, 1, "{}", describe(&result));
    assert_eq!((result.wait.intervals.complete, result.losses.uncounted), (1, 1));
}

#[test]
fn a_switch_seen_before_its_waking_is_an_effect_before_its_cause() {
    check(
        "0 0 switch idle R -> a/10
         10 0 switch a/10 S -> idle
         50 0 switch idle R -> a/10
         51 1 waking a/10 -> 0
         60 0 switch a/10 S -> idle
         70 0 tick",
        "waits: 0 complete, 1 cut at start
         blocked: 0 complete, 1 cut at end, 1 across gaps
         switched in without wakeup: 1
         effects before causes: 1
         a/10: span 70 run 20 blocked 10 unknown 40
         CPU 0: busy 20 idle 50
         CPU 1: busy 0 idle 0 unknown 70",
    );
}

#[test]
fn a_wakeup_seen_after_the_run_it_led_to_starts_no_wait() {
    let result = run("0 0 switch idle R -> a/10
         10 0 switch a/10 S -> idle
         20 1 waking a/10 -> 0
         30 0 switch idle R -> a/10
         40 0 switch a/10 S -> idle
         41 0 wakeup a/10 -> 0
         80 1 waking a/10 -> 0
         81 0 wakeup a/10 -> 0
         90 0 switch idle R -> a/10");
    let waits = &result.threads[0].wait;
    assert_eq!((waits.count, waits.sum_ns, result.clock_quality.effects_before_causes), (2, 20, 1));
}

#[test]
fn a_clock_that_steps_back_makes_no_negative_times() {
    let result = run("1000 0 switch idle R -> a/10
         1010 0 switch a/10 R -> b/11
         1050 0 tick
         1020 0 switch b/11 S -> a/10
         1080 0 switch a/10 S -> idle");
    assert_eq!((result.clock_quality.backward_steps, result.clock_quality.max_backward_ns), (1, 30));
    for thread in &result.threads {
        assert!(thread.budget.running_ns + thread.budget.waiting_ns() <= 110, "{}", describe(&result));
    }
}

#[test]
fn time_beside_an_idle_cpu_counts_only_where_the_thread_may_go() {
    let text = "0 0 switch idle R -> a/10
         0 1 switch idle R -> b/11
         10 1 switch b/11 S -> idle
         20 1 waking b/11 -> 0
         21 0 wakeup b/11 -> 0
         90 0 switch a/10 S -> b/11
         100 0 tick";
    let options = SchedOptions { idle_floor_ns: 0, ..SchedOptions::default() };
    let result = analyse(&mut Scenario::parse(text), &options);
    let b = result.threads.iter().find(|t| t.key.tid == Tid(11)).unwrap();
    // Until 21 it is meant for CPU 0 as well; CPU 1 is idle all the time.
    assert_eq!((b.idle_beside.waits, b.idle_beside.time_ns), (1, 70), "{}", describe(&result));
    // Told that it may use CPU 0 only, its wait is nobody's fault.
    let affinity = vec![AffinityFact { tid: Tid(11), cpus: vec![Cpu(0)] }];
    let bound = analyse(&mut Scenario::parse(text), &SchedOptions { affinity, ..options });
    assert_eq!(bound.idle_beside.waits, 0);
}

#[test]
fn a_thread_that_waits_for_an_idle_cpu_was_held_back() {
    let text = "0 0 switch idle R -> a/10
         10000000 0 switch a/10 R -> idle
         90000000 0 switch idle R -> a/10
         95000000 0 switch a/10 R -> b/11
         99000000 0 switch b/11 S -> a/10";
    let result = run(text);
    let a = result.threads.iter().find(|t| t.key.tid == Tid(10)).unwrap();
    assert_eq!((a.held_back.waits, a.held_back.time_ns, a.preemption_wait.count), (1, 80_000_000, 2));
    assert!(result.findings.iter().any(|f| f.id == "held_back"), "{:?}", result.findings);
}

#[test]
fn interrupts_are_taken_off_the_thread_they_hit() {
    check(
        "0 0 switch idle R -> a/10
         10 0 soft+
         14 0 irq+
         16 0 irq-
         20 0 soft-
         30 0 irq+
         33 0 irq-
         50 0 switch a/10 S -> ksoftirqd/0/14/120",
        "waits: 0 complete, 2 cut at start
         blocked: 0 complete, 1 cut at end
         a/10: span 50 run 37 irq 5 softirq 8
         ksoftirqd/0/14: span 50 cut-wait 50
         CPU 0: busy 50 idle 0",
    );
}

#[test]
fn softirqs_in_their_own_thread_are_its_work() {
    let result = run(r#"0 0 switch idle R -> "ksoftirqd/0"/14/120
         10 0 soft+
         40 0 soft-
         50 0 switch "ksoftirqd/0"/14/120 S -> idle"#);
    assert_eq!((result.threads[0].budget.running_ns, result.threads[0].budget.stolen_by_softirq_ns), (50, 0));
}

#[test]
fn the_system_call_tells_why_a_thread_blocks() {
    let result = run("0 0 switch idle R -> a/10
         5 0 enter 202
         10 0 switch a/10 S -> b/11
         20 0 waking a/10 -> 0
         30 0 switch b/11 R -> a/10
         31 0 exit-call 202
         32 0 enter 0
         40 0 switch a/10 D -> idle
         45 0 waking a/10 -> 0
         50 0 switch idle R -> a/10
         51 0 exit-call 0
         52 0 fault
         60 0 switch a/10 D -> idle
         70 0 tick");
    let a = result.threads.iter().find(|t| t.key.tid == Tid(10)).unwrap();
    assert_eq!(
        a.budget.blocked_by_reason,
        [(BlockReason::Futex, 10), (BlockReason::BlockIo, 5), (BlockReason::PageFault, 10)]
    );
    let [pair, other] = &result.off_cpu.wakers[..] else { panic!("{:?}", result.off_cpu.wakers) };
    assert_eq!(pair.waker, Waker::Thread(ThreadKey { tid: Tid(11), generation: 0 }));
    assert_eq!((pair.blocked.count, pair.blocked.time_ns, pair.woken.tid), (1, 10, Tid(10)));
    assert_eq!((other.waker, other.blocked.time_ns), (Waker::Interrupt, 5));
}

#[test]
fn a_long_wait_tells_who_ran_meanwhile() {
    let result = run("0 0 switch idle R -> a/10
         10 0 waking w/12 -> 0
         40 0 switch a/10 R -> b/11
         60 0 switch b/11 R -> a/10
         100 0 switch a/10 S -> w/12");
    let wait = &result.long_waits[0];
    assert_eq!(
        (wait.name.as_str(), wait.wait_ns, wait.start, wait.meanwhile_covers_ns),
        ("w", 90, Nanos(10), 90)
    );
    let who: Vec<_> = wait.meanwhile.iter().map(|m| (m.name.as_str(), m.time_ns, m.runs)).collect();
    assert_eq!(who, [("a", 70, 2), ("b", 20, 1)]);
}

#[test]
fn who_had_the_cpu_while_others_waited_adds_up_to_the_waiting() {
    let trace = "100 0 switch idle R -> a/10
         110 0 waking b/11 -> 0
         120 0 switch a/10 R -> c/12
         150 0 switch c/12 S -> b/11
         155 0 switch b/11 S -> idle
         165 0 switch idle R -> a/10
         170 0 switch a/10 S -> idle";
    let meanwhile = |result: &SchedResult| {
        let line = |h: &HadCpu| format!("{:?} {} {}", h.who, h.threads, h.others_waited_ns);
        result.wait.meanwhile.iter().map(line).collect::<Vec<_>>()
    };
    // a waits 120..165, b 110..150; c was never seen to become runnable.
    let all = run(trace);
    assert_eq!(
        meanwhile(&all),
        ["Counted(\"c\") 1 60", "Counted(\"a\") 1 10", "Idle 0 10", "Counted(\"b\") 1 5"].map(String::from)
    );
    assert_eq!(all.wait.total.sum_ns, 85);
    // Asked about b alone, only its waiting counts.
    let options = SchedOptions { threads: vec![Tid(11)], ..SchedOptions::default() };
    let only = analyse(&mut Scenario::parse(trace), &options);
    assert_eq!(meanwhile(&only), ["NotCounted(\"c\") 1 30", "NotCounted(\"a\") 1 10"].map(String::from));
}

#[test]
fn the_timeline_adds_up_to_the_totals() {
    let mut text = String::from("0 0 switch idle R -> a/10\n");
    for i in 0..5000u64 {
        let t = i * 4000;
        text += &format!("{} 0 switch a/10 R -> b/11\n{} 0 switch b/11 R -> a/10\n", t + 1000, t + 3000);
    }
    let result = run(&text);
    let lane = &result.timeline.lanes[0];
    assert!(lane.busy_ns.len() <= 240 && lane.busy_ns.len() >= 120, "{} columns", lane.busy_ns.len());
    assert_eq!(lane.busy_ns.iter().sum::<u64>(), result.cpus[0].busy_ns);
    let waiting: u64 = lane.waiting_ns.iter().sum();
    // b has waited since before the trace, which the timeline cannot know.
    let waits: u64 =
        result.threads.iter().map(|t| t.budget.wakeup_wait_ns + t.budget.preemption_wait_ns).sum();
    assert_eq!(waiting, waits);
    assert!(lane.max_waiting.iter().all(|m| *m == 1));
    let heat = &result.wait.heat;
    assert_eq!(heat.columns.iter().flatten().map(|c| u64::from(*c)).sum::<u64>(), result.wait.total.count);
}

#[test]
fn a_window_counts_only_what_is_in_it() {
    let text = "0 0 switch idle R -> a/10
         100 0 switch a/10 R -> b/11
         200 0 switch b/11 R -> a/10
         300 0 switch a/10 R -> b/11
         400 0 switch b/11 R -> a/10
         500 0 switch a/10 R -> b/11";
    let options = SchedOptions { from: Some(Nanos(150)), to: Some(Nanos(450)), ..SchedOptions::default() };
    let result = analyse(&mut Scenario::parse(text), &options);
    check_result(
        &result,
        "waits: 2 complete, 1 cut at start, 1 cut at end
         blocked: 0 complete
         a/10: span 250 run 100 preempted 150 waits 1 longest 100
         b/11: span 250 run 150 preempted 100 waits 1 longest 100
         CPU 0: busy 250 idle 0",
    );
}

#[test]
fn only_the_chosen_threads_and_their_children_are_counted() {
    let text = "0 0 switch idle R -> a/10
         10 0 fork a/10 -> a/20
         12 0 new a/20 -> 0
         20 0 switch a/10 R -> a/20
         30 0 switch a/20 R -> b/11
         40 0 switch b/11 R -> a/10
         50 0 tick";
    let options = SchedOptions { threads: vec![Tid(10)], ..SchedOptions::default() };
    let result = analyse(&mut Scenario::parse(text), &options);
    let mut tids: Vec<_> = result.threads.iter().map(|t| t.key.tid.0).collect();
    tids.sort();
    assert_eq!((tids, result.wait.total.count), (vec![10, 20], 2));
}

#[test]
fn waits_still_open_at_the_end_are_listed_with_their_age() {
    let result = run("0 0 switch idle R -> a/10
         10 0 waking b/11 -> 0
         5000000 0 tick");
    assert_eq!((result.open_waits[0].age_ns, result.wait.intervals.cut_at_end), (4_999_990, 1));
    assert!(result.findings.iter().any(|f| f.id == "open_waits"));
}

#[test]
fn a_trace_without_switches_says_so() {
    let result = run("0 0 tick\n10 0 tick");
    assert_eq!(result.findings[0].id, "no_switches");
    assert!(result.provenance.missing.iter().any(|m| m.what == "sched:sched_switch"));
    let empty = run("");
    assert_eq!((empty.provenance.span, empty.wait.total.quantiles), (None, None));
}

#[test]
fn impossible_numbers_are_counted_and_harmless() {
    let result = run("0 0 switch idle R -> a/10
         1 4000000000 tick
         2 0 waking b/-5 -> 0
         3 0 waking c/2000000000 -> 4000000
         4 0 waking d/12 -> 900000
         5 0 switch a/10 S -> z/99999999
         9 0 switch d/12 S -> idle");
    assert!(result.provenance.short_records >= 4, "{}", result.provenance.short_records);
    assert_eq!(result.cpus.len(), 1);
}

#[test]
fn without_wakeups_in_the_trace_waits_after_sleep_are_not_made_up() {
    let steps = testkit::scenario::steps(
        "0 0 switch a/10 S -> b/11
         50 0 switch b/11 R -> a/10
         90 0 switch a/10 S -> b/11",
    );
    let result = analyse(&mut Scenario::new(&steps, Some(&["sched_switch"])), &SchedOptions::default());
    check_result(
        &result,
        "waits: 1 complete
         blocked: 0 complete, 1 cut at end, 1 across gaps
         a/10: span 90 run 40 unknown 50
         b/11: span 90 run 50 preempted 40 waits 1 longest 40
         CPU 0: busy 90 idle 0",
    );
    assert_eq!(result.losses.switched_in_without_wakeup, 0);
}

#[test]
fn a_result_survives_json() {
    let result = run("0 0 switch idle R -> a/10\n 10 0 switch a/10 R -> b/11\n20 0 switch b/11 S -> a/10");
    let json = serde_json::to_string(&result).unwrap();
    let back: SchedResult = serde_json::from_str(&json).unwrap();
    assert_eq!(back, result);
}
