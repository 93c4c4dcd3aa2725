//! Text of ftrace, trace-cmd and perf: the counts stated, and the same events as the
//! binary files of the same runs.

use std::{io::Read, ops::ControlFlow, sync::Arc};

use readers::{MemoryInput, open, open_path, survey};
use testkit::{skip::foreign_traces, skipped};
use trace::{Event, Item, Source, decode::Decoder, strings::StringId};

#[test]
fn counts_are_those_stated() {
    let Some(traces) = foreign_traces() else { skipped!("no foreign trace files here") };
    let mut source = open_path(&traces.join("ftrace/lisa-trace.txt")).unwrap();
    let found = survey(&mut *source);
    let switches = found.events.iter().find(|event| event.name == "sched:sched_switch").unwrap();
    assert_eq!((switches.count, &found.error), (1856, &None));
    assert_eq!((source.info().cpu_count, found.steps_back), (6, 0));
}

/// Typed events as text, times cut to microseconds, strings resolved.
fn events(source: &mut dyn Source) -> Vec<(u64, u32, i32, String)> {
    let mut decoder = Decoder::new(source.info());
    let mut all = Vec::new();
    source
        .stream(&mut |item: Item<'_>| {
            if let Item::Event { at, format, record, .. } = item
                && let Some(event) = decoder.decode(format, record)
            {
                let string = |id: StringId| String::from_utf8_lossy(decoder.strings.get(id)).into_owned();
                let shown = match event {
                    Event::SchedProcessExec(e) => {
                        format!("exec {} {} {}", string(e.filename), e.tid.0, e.old_tid.0)
                    }
                    Event::IrqHandlerEntry(e) => format!("irq {} {}", e.irq, string(e.name)),
                    other => format!("{other:?}"),
                };
                all.push((at.time.0, at.cpu.0, at.tid.unwrap().0, shown));
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(source.info().problems, Vec::<String>::new());
    all
}

/// The text is that of the same ring as the trace.dat, read by other means.
#[test]
fn text_and_trace_dat_of_one_run_tell_the_same() {
    let Some(traces) = foreign_traces() else { skipped!("no foreign trace files here") };
    let mut text = Vec::new();
    let packed = std::fs::File::open(traces.join("own/mix.ftrace.txt.zst")).unwrap();
    zstd::stream::read::Decoder::new(packed).unwrap().read_to_end(&mut text).unwrap();
    let mut from_text = open(Arc::new(MemoryInput::new("mix.ftrace.txt", text))).unwrap();
    assert_eq!(survey(&mut *from_text).total, 330_627);
    let from_text = events(&mut *from_text);
    let from_ring = events(&mut *open_path(&traces.join("own/mix.v7.dat")).unwrap());
    assert_eq!(from_text.len(), from_ring.len());
    for (text, ring) in from_text.iter().zip(&from_ring) {
        // The kernel rounds to the nearest microsecond.
        let same_time = text.0.abs_diff(ring.0) <= 500;
        assert!(same_time && (text.1, text.2, &text.3) == (ring.1, ring.2, &ring.3), "{text:?}\n{ring:?}");
    }
}

#[test]
fn losses_in_text_have_their_place() {
    let text = "# tracer: nop\n\
        a-1 [000] .... 1.000001: softirq_entry: vec=1 [action=TIMER]\n\
        a-1 [001] .... 1.000002: softirq_entry: vec=1 [action=TIMER]\n\
        CPU:0 [LOST 12 EVENTS]\n\
        a-1 [001] .... 1.000003: softirq_entry: vec=1 [action=TIMER]\n\
        a-1 [000] .... 1.000004: softirq_entry: vec=1 [action=TIMER]\n\
        CPU:1 [LOST 3 EVENTS]\n";
    let mut source = open(Arc::new(MemoryInput::new("text", text.as_bytes()))).unwrap();
    let found = survey(&mut *source);
    let losses: Vec<_> =
        found.losses.list.iter().map(|l| (l.cpu.unwrap().0, l.from.0, l.to.0, l.count)).collect();
    assert_eq!(
        losses,
        [(0, 1_000_001_000, 1_000_004_000, Some(12)), (1, 1_000_003_000, 1_000_004_000, Some(3))]
    );
    assert_eq!(found.total, 4);
}
