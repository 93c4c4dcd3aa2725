//! Files made up by `testkit`, of every byte order, size of long, version and packing,
//! give back exactly the events they were made of.

use std::{io::Cursor, ops::ControlFlow, sync::Arc};

use readers::{MemoryInput, open, open_path, survey};
use testkit::synthetic::{
    Happened, Machine, Schedule, Shape, What, comm, perf_data, priority,
    trace_dat::{self, Extras, Losses, Version},
};
use trace::{ClockKind, Comm, Event, Item, Loss, Source, decode::Decoder};

/// Streams `source` and compares with `expected`; answers the losses.
fn check(source: &mut dyn Source, expected: impl Iterator<Item = Happened>, what: &str) -> Vec<Loss> {
    assert_eq!(source.info().problems, Vec::<String>::new(), "{what}");
    let mut decoder = Decoder::new(source.info());
    assert_eq!(decoder.unbound, [], "{what}");
    let mut expected = expected;
    let mut losses = Vec::new();
    let mut number = 0;
    source
        .stream(&mut |item: Item<'_>| {
            match item {
                Item::Event { at, format, record, .. } => {
                    let event = decoder.decode(format, record).expect("a typed event");
                    let truth = expected.next().expect("no more events than were made");
                    let (time, cpu, tid) = (at.time.0, at.cpu.0, at.tid.map(|tid| tid.0));
                    assert_eq!(
                        (time, cpu, tid),
                        (truth.time, truth.cpu, Some(truth.current)),
                        "{what}: event {number}"
                    );
                    assert!(same(&event, truth.what), "{what}: event {number}: {event:?} {truth:?}");
                    number += 1;
                }
                Item::Lost(loss) => losses.push(loss),
                other => panic!("{what}: {other:?}"),
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(expected.next(), None, "{what}: ends after {number}");
    assert_eq!(source.info().problems, Vec::<String>::new(), "{what}");
    losses
}

fn same(event: &Event, truth: What) -> bool {
    match (event, truth) {
        (Event::SchedSwitch(s), What::Switch { prev, state, next }) => {
            let letters = ["R", "S", "D"][state as usize];
            (s.prev_tid.0, s.next_tid.0, s.prev_state.letters()) == (prev, next, letters)
                && (s.prev_comm, s.next_comm) == (Comm::from_array(comm(prev)), Comm::from_array(comm(next)))
                && (s.prev_prio, s.next_prio) == (priority(prev), priority(next))
        }
        (Event::SchedWaking(w), What::Waking { tid, target }) => (w.tid.0, w.target_cpu.0) == (tid, target),
        (Event::SchedWakeup(w), What::Wakeup { tid, target }) => (w.tid.0, w.target_cpu.0) == (tid, target),
        _ => false,
    }
}

fn trace_dat_bytes(shape: Shape, machine: Machine, version: Version, losses: Option<Losses>) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    trace_dat::write(&mut out, shape, machine, version, losses).unwrap();
    out.into_inner()
}

fn opened(bytes: Vec<u8>) -> Box<dyn Source> {
    open(Arc::new(MemoryInput::new("made up", bytes))).unwrap()
}

#[test]
fn trace_dat_of_all_kinds() {
    let shape = Shape::new(60_000, 3);
    for machine in Machine::ALL {
        for version in [Version::Six, Version::Seven, Version::SevenZstd] {
            let what = format!("{machine:?} {version:?}");
            let mut source = opened(trace_dat_bytes(shape, machine, version, None));
            let losses = check(&mut *source, Schedule::new(shape), &what);
            assert_eq!(losses, [], "{what}");
            // Again, from the beginning.
            check(&mut *source, Schedule::new(shape), &what);
            let info = source.info();
            assert_eq!(
                (&info.clock, info.cpu_count, info.long_size),
                (&ClockKind::Mono, 3, machine.long_size),
                "{what}"
            );
            assert_eq!(info.kernel_release.as_deref(), Some("6.1.0-test"), "{what}");
            assert_eq!(info.tasks.len(), 40, "{what}");
            assert!(info.tasks.iter().any(|task| task.comm == Comm::new(b"a b] ==> c")), "{what}");
        }
    }
}

#[test]
fn losses_have_count_and_place() {
    let shape = Shape::new(20_000, 2);
    for machine in Machine::ALL {
        for told in [true, false] {
            let losses = Losses { every: 700, count: 9, told };
            let what = format!("{machine:?} {told}");
            let mut source = opened(trace_dat_bytes(shape, machine, Version::Seven, Some(losses)));
            let found = check(&mut *source, Schedule::new(shape), &what);
            let by_cpu = |cpu: u32| Schedule::new(shape).filter(move |event| event.cpu == cpu);
            let mut expected = Vec::new();
            for cpu in 0..2 {
                let times: Vec<u64> = by_cpu(cpu).map(|event| event.time).collect();
                // What is lost behind the last event no page tells.
                for at in (700..times.len()).step_by(700) {
                    expected.push((times[at], cpu, times[at - 1]));
                }
            }
            expected.sort_unstable();
            let shown: Vec<_> = found.iter().map(|l| (l.to.0, l.cpu.unwrap().0, l.from.0)).collect();
            assert_eq!(shown, expected, "{what}");
            assert!(found.iter().all(|loss| loss.count == told.then_some(9)), "{what}");
            assert!(found.len() > 20);
        }
    }
}

/// Nothing tells where they would have been, but it was not outside of what was recorded.
#[test]
fn events_that_a_full_ring_refused_lie_within_the_trace() {
    let shape = Shape::new(20_000, 3);
    for version in [Version::Six, Version::Seven, Version::SevenZstd] {
        let extras = Extras { refused: Some((1, 77)), ..Extras::default() };
        let mut out = Cursor::new(Vec::new());
        trace_dat::write_with(&mut out, shape, Machine::ALL[0], version, None, extras).unwrap();
        let mut source = opened(out.into_inner());
        let first = Schedule::new(shape).find(|event| event.cpu == 1).unwrap().time;
        let last = Schedule::new(shape).map(|event| event.time).max().unwrap();
        let (from, to) = (trace::Nanos(first), trace::Nanos(last));
        let expected = Loss { cpu: Some(trace::Cpu(1)), from, to, count: Some(77) };
        assert_eq!(source.info().losses, [expected], "{version:?}");
        check(&mut *source, Schedule::new(shape), &format!("{version:?}"));
    }
}

#[test]
fn perf_data_of_all_kinds() {
    let shape = Shape::new(60_000, 3);
    for machine in Machine::ALL {
        for style in [
            perf_data::Style::USUAL,
            perf_data::Style { round: 7, ..perf_data::Style::USUAL },
            perf_data::Style { round: 0, ..perf_data::Style::USUAL },
            perf_data::Style { packed: true, ..perf_data::Style::USUAL },
            perf_data::Style { pipe: true, ..perf_data::Style::USUAL },
            perf_data::Style { pipe: true, packed: true, round: 3000 },
        ] {
            let what = format!("{machine:?} {style:?}");
            let mut out = Cursor::new(Vec::new());
            perf_data::write(&mut out, shape, machine, style).unwrap();
            let mut source = opened(out.into_inner());
            assert_eq!(check(&mut *source, Schedule::new(shape), &what), [], "{what}");
            check(&mut *source, Schedule::new(shape), &what);
            assert_eq!(source.info().clock, ClockKind::Mono, "{what}");
        }
    }
}

/// More data than blocks are held for: blocks are dropped and read again.
#[test]
fn a_large_perf_data_without_rounds_is_still_in_order() {
    let shape = Shape::new(600_000, 4);
    let mut out = Cursor::new(Vec::new());
    perf_data::write(
        &mut out,
        shape,
        Machine::USUAL,
        perf_data::Style { round: 0, ..perf_data::Style::USUAL },
    )
    .unwrap();
    let bytes = out.into_inner();
    assert!(bytes.len() > 40 << 20, "{}", bytes.len());
    check(&mut *opened(bytes), Schedule::new(shape), "no rounds");
}

#[test]
fn a_survey_counts_what_is_there() {
    let shape = Shape::new(30_000, 2);
    let mut source = opened(trace_dat_bytes(shape, Machine::USUAL, Version::Seven, None));
    let found = survey(&mut *source);
    let switches =
        Schedule::new(shape).filter(|event| matches!(event.what, What::Switch { .. })).count() as u64;
    let counted =
        found.events.iter().find(|event| event.name == "sched:sched_switch").map(|event| event.count);
    assert_eq!((found.total, counted), (30_000, Some(switches)));
    let times: Vec<u64> = Schedule::new(shape).map(|event| event.time).collect();
    assert_eq!((found.first.unwrap().0, found.last.unwrap().0), (times[0], times[29_999]));
    assert_eq!(found.cpus.iter().map(|cpu| cpu.count).sum::<u64>(), 30_000);
}

#[test]
fn what_a_killed_recorder_left_is_read_as_far_as_it_goes() {
    let shape = Shape::new(20_000, 2);
    let output = std::env::temp_dir().join(format!("lotse-parts-{}.dat", std::process::id()));
    let folder = output.with_extension("dat.parts");
    trace_dat::write_parts(&folder, shape).unwrap();
    // By the folder, and by the file that it was to become.
    for path in [&folder, &output] {
        let mut source = open_path(path).unwrap();
        let cut = source.info().cut.clone().unwrap();
        assert!(cut.contains("killed"), "{cut}");
        let found = survey(&mut *source);
        assert_eq!(found.error, None);
        assert!((19_700..20_000).contains(&found.total), "{}", found.total);
        let info = source.info();
        assert_eq!((info.clock.clone(), info.tasks.len(), info.cpu_count), (ClockKind::Mono, 2, 2));
        assert_eq!(info.problems.len(), 2, "the last page of each CPU: {:?}", info.problems);
    }
    std::fs::remove_dir_all(&folder).unwrap();
    let error = open_path(&output).err().unwrap().to_string();
    assert!(error.contains("there is no such file"), "{error}");
}

/// Rings of several instances are merged when they have one clock; a time offset is added.
#[test]
fn instances_are_merged_and_offsets_added() {
    let top = Shape::new(3_000, 2);
    let other = Shape { seed: 9, ..Shape::new(2_000, 2) };
    for machine in Machine::ALL {
        for version in [Version::Six, Version::Seven, Version::SevenZstd] {
            let what = format!("{machine:?} {version:?}");
            let made = |clock: &'static str, time_offset: i64| {
                let extras = Extras { instance: Some(("inner", other, clock)), time_offset, refused: None };
                let mut out = Cursor::new(Vec::new());
                trace_dat::write_with(&mut out, top, machine, version, None, extras).unwrap();
                opened(out.into_inner())
            };
            let mut both: Vec<Happened> = Schedule::new(top).chain(Schedule::new(other)).collect();
            both.iter_mut().for_each(|event| event.time -= 5_000);
            both.sort_by_key(|event| event.time);
            both.dedup_by_key(|event| event.time);
            let mut source = made("mono", -5_000);
            let found = survey(&mut *source);
            assert_eq!((found.total, found.out_of_order, found.steps_back), (5_000, 0, 0), "{what}");
            assert_eq!(found.first.unwrap().0, both[0].time, "{what}");
            let buffers: Vec<_> = source.info().facts.iter().filter(|(key, _)| key == "buffer").collect();
            assert_eq!(buffers.len(), 2, "{what}: {buffers:?}");
            // Version 6 has one clock for all.
            if version != Version::Six {
                let mut source = made("boot", 0);
                assert_eq!(survey(&mut *source).total, 3_000, "{what}");
                let problems = source.info().problems.join(" ");
                assert!(
                    problems.contains("buffer inner is left out: its clock is boot"),
                    "{what}: {problems}"
                );
            }
        }
    }
}
