//! The account of a recording, held against loads that know their own size.

mod recording;

use recording::{Scratch, spec_for, tracefs_or_skip};
use run::record::{EventSelection, Filtered, RecordOutcome, RecordSpec, Selection, WhenFull, record};
use std::time::Duration;
use testkit::load::Load;

const ONE: Load = Load { calls: 200_000, threads: 1, pause: 0 };
const TWO: Load = Load { calls: 100_000, threads: 2, pause: 0 };

#[test]
fn the_load_makes_exactly_its_calls() {
    // Run again as a load when asked; on its own it only checks its arithmetic.
    if !testkit::load::run_if_asked() {
        assert_eq!(TWO.total(), 200_000);
    }
}

fn run(spec: &RecordSpec) -> RecordOutcome {
    let outcome = record(spec, &mut |_| {}).unwrap();
    assert!(outcome.command_status.unwrap().success(), "{:?}", outcome.command_status);
    outcome
}

fn assert_exact(outcome: &RecordOutcome, load: &Load) {
    let ledger = &outcome.ledger;
    assert_eq!(ledger.disagreements(), [], "{ledger:#?}");
    assert_eq!(ledger.happened(), load.total(), "{ledger:#?}");
    for cpu in &ledger.cpus {
        let told: u64 = cpu.losses.iter().map(|loss| loss.count.unwrap_or(0)).sum();
        let all_told = cpu.losses.iter().all(|loss| loss.count.is_some());
        assert!(!all_told || told == cpu.lost.total(), "intervals tell {told} of {:?}", cpu.lost);
        for loss in &cpu.losses {
            assert!(loss.from_ns <= loss.to_ns && loss.from_ns >= ledger.started_ns, "{loss:?} {ledger:?}");
        }
    }
}

#[test]
fn ample_rings_hold_every_call_on_one_cpu_and_on_two() {
    tracefs_or_skip!();
    for (load, cpus) in [(ONE, "0"), (TWO, "0,1")] {
        let scratch = Scratch::new("ample");
        let outcome = run(&spec_for(&load, cpus, &scratch));
        assert_exact(&outcome, &load);
        assert_eq!(outcome.ledger.lost(), 0);
        assert_eq!(outcome.ledger.filtered, Filtered::NotCounted);
    }
}

#[test]
fn rings_too_small_lose_exactly_what_they_say() {
    tracefs_or_skip!();
    for (load, cpus) in [(ONE, "0"), (TWO, "0,1")] {
        for when_full in [WhenFull::Overwrite, WhenFull::Refuse] {
            let scratch = Scratch::new("small");
            let mut spec = spec_for(&load, cpus, &scratch);
            spec.rings.kb_per_cpu = 64;
            spec.rings.when_full = when_full;
            // Nobody fetches in time: losses last to the very end.
            spec.rings.wake_percent = 0;
            spec.rings.flush_interval = Duration::from_secs(60);
            let outcome = run(&spec);
            assert_exact(&outcome, &load);
            assert!(outcome.ledger.lost() > 0, "{:#?}", outcome.ledger);
            let refused: u64 = outcome.ledger.cpus.iter().map(|cpu| cpu.lost.refused).sum();
            assert_eq!(refused > 0, when_full == WhenFull::Refuse, "{:#?}", outcome.ledger);
            // A reader of the file finds the same account in it.
            let survey = readers::survey(&mut *readers::open_path(&outcome.file).unwrap());
            assert_eq!(
                (survey.total, survey.losses.counted),
                (outcome.ledger.recorded(), outcome.ledger.lost())
            );
            assert_eq!((survey.losses.uncounted, survey.error), (0, None));
        }
    }
}

#[test]
fn losses_in_many_places_add_up() {
    tracefs_or_skip!();
    // The second event's size leaves room on a page for the number of events missed, the first's
    // does not: both kinds of page have to be accounted for.
    for events in [&["syscalls:sys_enter_getppid"][..], &["syscalls:sys_exit_getppid"][..]] {
        let load = Load { calls: 400_000, ..ONE };
        let scratch = Scratch::new("places");
        let mut spec = spec_for(&load, "0", &scratch);
        spec.events = events.iter().map(|event| EventSelection::new(*event)).collect();
        spec.rings.kb_per_cpu = 64;
        spec.rings.wake_percent = 0;
        spec.rings.flush_interval = Duration::from_millis(10);
        let outcome = run(&spec);
        assert_exact(&outcome, &load);
        let losses: Vec<_> = outcome.ledger.cpus.iter().flat_map(|cpu| &cpu.losses).collect();
        assert!(losses.len() > 1, "{:#?}", outcome.ledger);
        assert!(losses.is_sorted_by_key(|loss| loss.from_ns));
        let survey = readers::survey(&mut *readers::open_path(&outcome.file).unwrap());
        assert_eq!(survey.total, outcome.ledger.recorded());
        assert_eq!(survey.losses.intervals, losses.len() as u64);
        assert!(survey.losses.counted <= outcome.ledger.lost());
    }
}

#[test]
fn what_filters_refuse_can_be_counted() {
    tracefs_or_skip!();
    let scratch = Scratch::new("filtered");
    let mut spec = spec_for(&ONE, "0", &scratch);
    spec.count_filtered = true;
    // Nobody else's calls: the load's own second half is not selected by the field filter.
    spec.selection = Selection::Everything;
    spec.events[0].filter = Some("common_pid == 1".to_owned());
    let outcome = run(&spec);
    let Filtered::Counted(filtered) = outcome.ledger.filtered else {
        panic!("{:?}", outcome.ledger.filtered)
    };
    // Others on this machine may call getppid too, never less than the load alone.
    assert!(filtered >= ONE.total(), "{filtered}");
    assert_eq!(outcome.ledger.disagreements(), []);
}
