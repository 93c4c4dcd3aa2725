//! Events against the kernel's counters.

use analysis::{
    crosscheck::{Circumstances, Counter, Quantity, Subject, Verdict, crosscheck},
    sched::SchedResult,
};
use trace::Tid;

use crate::describe::run;

const CLEAN: &str = "0 0 switch idle R -> a/10
     100 0 switch a/10 R -> b/11
     200 0 switch b/11 S -> a/10
     300 0 switch a/10 S -> idle
     1000 0 tick";

fn counter(subject: Subject, quantity: Quantity, value: u64) -> Counter {
    Counter { subject, quantity, value, source: "test".into(), slack: 0 }
}

#[track_caller]
fn verdict(result: &SchedResult, counter: Counter, filters: &[&str]) -> (Verdict, String) {
    let filters = filters.iter().map(|f| (*f).to_owned()).collect();
    let check = crosscheck(result, &[counter], &Circumstances { filters, tolerance: 0.01 });
    assert_eq!(check.agree + check.differ + check.not_comparable, 1);
    assert_eq!(check.holds(), check.differ == 0);
    (check.rows[0].verdict, check.rows[0].reason.clone())
}

#[test]
fn what_agrees_agrees_within_tolerance_and_slack() {
    let result = run(CLEAN);
    let a = Subject::Thread(Tid(10));
    for (subject, quantity, value) in [
        (Subject::System, Quantity::Switches, 4),
        (a, Quantity::Switches, 2),
        (a, Quantity::VoluntarySwitches, 1),
        (a, Quantity::InvoluntarySwitches, 1),
        (a, Quantity::RunTime, 200),
        (a, Quantity::RunTime, 202),
        (a, Quantity::WaitTime, 100),
        (Subject::System, Quantity::RunTime, 300),
    ] {
        let (found, reason) = verdict(&result, counter(subject, quantity, value), &[]);
        assert_eq!((found, reason.as_str()), (Verdict::Agrees, ""), "{subject:?} {quantity:?}");
    }
    let loose = Counter { slack: 50, ..counter(a, Quantity::RunTime, 245) };
    assert_eq!(verdict(&result, loose, &[]).0, Verdict::Agrees);
}

#[test]
fn reasons_are_sought_in_filters_then_losses_then_the_clock() {
    let result = run(CLEAN);
    let more = counter(Subject::Thread(Tid(10)), Quantity::RunTime, 900);
    let less = counter(Subject::Thread(Tid(10)), Quantity::RunTime, 20);
    assert_eq!(verdict(&result, more.clone(), &["pid 10"]).0, Verdict::DiffersByFilter);
    // A filter keeps events out; it does not make more of them.
    assert_eq!(verdict(&result, less, &["pid 10"]).0, Verdict::Unexplained);
    assert_eq!(verdict(&result, more.clone(), &[]).0, Verdict::Unexplained);

    let lossy = run(&format!("{CLEAN}\n1000 0 lost 0 500 1000 7"));
    let (found, reason) = verdict(&lossy, more.clone(), &[]);
    assert_eq!(found, Verdict::DiffersByLoss);
    assert!(reason.contains("7 events"), "{reason}");
    // Seven lost events do not explain a thousand missing switches.
    let many = counter(Subject::System, Quantity::Switches, 1004);
    assert_eq!(verdict(&lossy, many, &[]).0, Verdict::Unexplained);
    let few = counter(Subject::System, Quantity::Switches, 10);
    assert_eq!(verdict(&lossy, few, &[]).0, Verdict::DiffersByLoss);

    let stepping = run("500 0 switch idle R -> a/10\n 400 0 tick\n 600 0 switch a/10 S -> idle");
    assert_eq!(verdict(&stepping, more.clone(), &[]).0, Verdict::DiffersByClock);
    // The clock does not change how often something happened.
    let count = counter(Subject::Thread(Tid(10)), Quantity::Switches, 40);
    assert_eq!(verdict(&stepping, count, &[]).0, Verdict::Unexplained);
}

#[test]
fn a_handover_stamped_elsewhere_moves_time_between_running_and_waiting_and_makes_none() {
    let result = run(CLEAN);
    let a = Subject::Thread(Tid(10));
    let verdicts = |run: u64, wait: u64| -> Vec<Verdict> {
        let counters = [counter(a, Quantity::RunTime, run), counter(a, Quantity::WaitTime, wait)];
        let check = crosscheck(&result, &counters, &Circumstances { filters: Vec::new(), tolerance: 0.01 });
        check.rows.iter().map(|row| row.verdict).collect()
    };
    // 200 ran and 100 waited by the events.
    assert_eq!(verdicts(240, 60), [Verdict::DiffersByClock; 2]);
    assert_eq!(verdicts(240, 100), [Verdict::Unexplained, Verdict::Agrees]);
    assert_eq!(verdicts(240, 140), [Verdict::Unexplained; 2]);
}

#[test]
fn what_the_events_do_not_tell_is_not_compared() {
    let result = run(CLEAN);
    let absent = counter(Subject::Thread(Tid(99)), Quantity::Switches, 5);
    let (found, reason) = verdict(&result, absent, &[]);
    assert_eq!((found, reason.as_str()), (Verdict::NotComparable, "no event in the trace names it"));
    let by_system = counter(Subject::System, Quantity::VoluntarySwitches, 5);
    assert_eq!(verdict(&result, by_system, &[]).0, Verdict::NotComparable);
}
