//! Flight recordings: the newest events before a trigger and those after it, and the account
//! that tells what was left out on purpose.

mod recording;

use std::ops::ControlFlow;
use std::time::Duration;

use recording::{Scratch, beside_others, tracefs_or_skip};
use run::record::{EndedBy, EventSelection, Flight, Phase, RecordSpec, Selection, StopToken, record};
use testkit::load::Load;

const LOAD: Load = Load { calls: 200_000, threads: 1, pause: 0 };

#[test]
fn the_load_makes_exactly_its_calls() {
    if !testkit::load::run_if_asked() {
        assert_eq!(LOAD.total(), 200_000);
    }
}

#[test]
fn the_newest_events_are_kept_and_the_older_counted() {
    tracefs_or_skip!();
    let _shared = beside_others();
    let scratch = Scratch::new("flight");
    let mut spec = RecordSpec::new(&["syscalls:sys_enter_getppid"], scratch.file("t.dat"));
    spec.command = Some(LOAD.command("0"));
    spec.selection = Selection::Command;
    spec.rings.kb_per_cpu = 256;
    spec.flight = Some(Flight::default());
    // It is the end of the command that saves the window.
    let outcome = record(&spec, &mut |progress| assert_eq!(progress.lost, 0)).unwrap();
    let ledger = &outcome.ledger;
    assert_eq!(ledger.disagreements(), []);
    assert_eq!((ledger.lost(), ledger.happened()), (0, LOAD.total()), "{ledger:?}");
    assert!(ledger.discarded() > 100_000 && ledger.recorded() > 1_000, "{ledger:?}");
    assert_eq!(outcome.ended_by, EndedBy::Command);
    let cpu = ledger.cpus.iter().find(|cpu| cpu.discarded > 0).unwrap();
    assert_eq!(ledger.window_from_ns, Some(cpu.first_ns));
    // The file begins with the window; nothing in it says that something is missing.
    let survey = readers::survey(&mut *readers::open_path(&outcome.file).unwrap());
    assert_eq!((survey.total, survey.losses.counted, survey.losses.intervals), (ledger.recorded(), 0, 0));
}

#[test]
fn an_event_that_passes_its_filter_triggers() {
    tracefs_or_skip!();
    let _shared = beside_others();
    let scratch = Scratch::new("trigger");
    let mut spec = RecordSpec::new(&["syscalls:sys_enter_getppid"], scratch.file("t.dat"));
    // A shell that makes calls, sleeps a second, makes calls, then would go on for a minute.
    let load = Load { calls: 1_000, ..LOAD };
    let words: Vec<_> = load.command("0").iter().map(|word| word.to_str().unwrap().to_owned()).collect();
    let load = words.join(" ");
    let script = format!("{load} >/dev/null; sleep 1.5; {load} >/dev/null; sleep 60");
    spec.command = Some(["sh", "-c", &script].iter().map(|word| word.into()).collect());
    spec.selection = Selection::Command;
    let sleep = EventSelection::new("syscalls:sys_enter_clock_nanosleep");
    spec.flight = Some(Flight { after: Duration::from_millis(300), trigger: None, events: vec![sleep] });
    let outcome = record(&spec, &mut |_| {}).unwrap();
    assert_eq!(outcome.ended_by, EndedBy::Trigger);
    let triggered = outcome.ledger.triggered_ns.unwrap();
    assert!(outcome.ledger.ended_ns - triggered >= 300_000_000);
    // The calls before the trigger are there (a shell makes one of its own), the later ones did
    // not come.
    assert!((1_000..1_010).contains(&outcome.ledger.recorded()), "{:?}", outcome.ledger);
    let mut last = 0;
    let mut source = readers::open_path(&outcome.file).unwrap();
    source
        .stream(&mut |item: trace::Item<'_>| {
            if let trace::Item::Event { at, .. } = item {
                last = at.time.0;
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(last < triggered);
}

#[test]
fn a_token_triggers() {
    tracefs_or_skip!();
    let _shared = beside_others();
    let scratch = Scratch::new("token");
    let token = StopToken::new().unwrap();
    let mut spec = RecordSpec::new(&["sched:sched_switch"], scratch.file("t.dat"));
    spec.duration = Some(Duration::from_secs(60));
    spec.flight =
        Some(Flight { after: Duration::from_millis(50), trigger: Some(token.clone()), events: vec![] });
    let outcome = record(&spec, &mut |progress| {
        assert_eq!(progress.bytes, 0, "nothing is fetched before the trigger");
        if progress.phase == Phase::Recording {
            token.request();
        }
    })
    .unwrap();
    assert_eq!(outcome.ended_by, EndedBy::Trigger);
    assert!(outcome.ledger.recorded() > 0);
    assert_eq!(scratch.names(), ["t.dat"]);
}
