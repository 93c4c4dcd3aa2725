//! trace.dat files made elsewhere: the counts their makers and trace-cmd state, and
//! trace-cmd's own report, line by line.

use std::{collections::BTreeMap, ops::ControlFlow, path::Path, process::Command};

use readers::{open_path, survey};
use testkit::{
    skip::{foreign_traces, has_program},
    skipped,
};
use trace::{Event, Item, TaskState, decode::Decoder, format::Printer};

fn counts(path: &Path) -> BTreeMap<String, u64> {
    let mut source = open_path(path).unwrap();
    let survey = survey(&mut *source);
    assert_eq!(survey.error, None, "{}", path.display());
    assert_eq!(source.info().problems, Vec::<String>::new(), "{}", path.display());
    assert_eq!(survey.steps_back + survey.out_of_order, 0, "{}", path.display());
    survey
        .events
        .into_iter()
        .map(|event| (event.name.rsplit(':').next().unwrap().to_owned(), event.count))
        .collect()
}

#[test]
fn counts_are_those_stated() {
    let Some(traces) = foreign_traces() else { skipped!("no foreign trace files here") };
    let trappy = counts(&traces.join("tracedat/trappy-raw_trace.dat"));
    assert_eq!(trappy["sched_switch"], 755);
    let lisa = counts(&traces.join("tracedat/lisa-rtapp-trace.dat"));
    let expected = [("bprint", 6242), ("cpu_frequency", 12), ("print", 14), ("sched_switch", 1552)];
    assert_eq!(lisa, expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect());

    let oracle = std::fs::read_to_string(traces.join("own/oracle/mix.ftrace.counts.txt")).unwrap();
    let oracle: BTreeMap<String, u64> = oracle
        .lines()
        .filter_map(|line| line.trim().split_once(' '))
        .map(|(count, name)| (name.trim().to_owned(), count.parse().unwrap()))
        .collect();
    assert_eq!(counts(&traces.join("own/mix.v7.dat")), oracle);
}

#[test]
fn prev_state_is_decoded_in_all_files() {
    let Some(traces) = foreign_traces() else { skipped!("no foreign trace files here") };
    for name in ["tracedat/trappy-raw_trace.dat", "tracedat/lisa-rtapp-trace.dat", "own/mix.v7.dat"] {
        let mut source = open_path(&traces.join(name)).unwrap();
        let mut decoder = Decoder::new(source.info());
        let mut states: BTreeMap<TaskState, u64> = BTreeMap::new();
        source
            .stream(&mut |item: Item<'_>| {
                if let Item::Event { format, record, .. } = item
                    && let Some(Event::SchedSwitch(switch)) = decoder.decode(format, record)
                {
                    *states.entry(switch.prev_state).or_default() += 1;
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        assert!(states.contains_key(&TaskState::Sleeping), "{name}: {states:?}");
        assert!(!states.contains_key(&TaskState::Unknown), "{name}: {states:?}");
        assert_eq!((decoder.short_records, decoder.unbound.len()), (0, 0), "{name}");
    }
}

/// `trace-cmd report` and this reader give the same events in the same order with the
/// same text.
#[test]
fn trace_cmd_reports_the_same_events_in_the_same_order() {
    let Some(traces) = foreign_traces() else { skipped!("no foreign trace files here") };
    if !has_program("trace-cmd") {
        skipped!("trace-cmd is not installed");
    }
    for name in ["tracedat/trappy-raw_trace.dat", "tracedat/lisa-rtapp-trace.dat", "own/mix.v7.dat"] {
        let path = traces.join(name);
        let output =
            Command::new("trace-cmd").args(["report", "-N", "-t", "-i"]).arg(&path).output().unwrap();
        let report = String::from_utf8_lossy(&output.stdout);
        let mut lines = report.lines().filter_map(parse_report_line);
        let mut source = open_path(&path).unwrap();
        let info = source.info().clone();
        let printers: Vec<Printer> =
            info.formats.iter().map(|f| f.printer(info.endian, info.long_size)).collect();
        let mut told = Vec::new();
        source
            .stream(&mut |item: Item<'_>| {
                if let Item::Event { at, format, record, .. } = item {
                    let format = format.0 as usize;
                    told.push((at, format, record.to_vec()));
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        for (number, (at, format, record)) in told.iter().enumerate() {
            let (cpu, time, event, text) =
                lines.next().unwrap_or_else(|| panic!("{name}: trace-cmd ends at {number}"));
            let mut ours = Vec::new();
            printers[*format].print(record, source.names(), &mut ours);
            // A text with line breaks is compared up to the first.
            let ours = String::from_utf8_lossy(&ours).lines().next().unwrap_or("").trim_end().to_owned();
            let shown = format!("{} {} {}", at.cpu.0, at.time, info.formats[*format].name);
            assert_eq!(shown, format!("{cpu} {time} {event}"), "{name}: event {number}: {ours:?} {text:?}");
            assert_eq!(ours, text.trim_end(), "{name}: event {number} {event}");
        }
        assert_eq!(lines.next(), None, "{name}");
    }
}

/// `[INSTANCE:] COMM-PID [CPU] TIME: EVENT: TEXT` → CPU, time, event, text.
fn parse_report_line(line: &str) -> Option<(u32, &str, &str, &str)> {
    // A name can hold brackets: the CPU is in the last "[ddd]" before a time.
    for (at, _) in line.match_indices('[') {
        let Some((cpu, rest)) = line[at + 1..].split_once(']') else { continue };
        let Ok(cpu) = cpu.parse() else { continue };
        let Some((time, rest)) = rest.trim_start().split_once(": ") else { continue };
        if !time.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            continue;
        }
        let (event, text) = rest.split_once(':')?;
        return Some((cpu, time, event.trim(), text.trim_start()));
    }
    None
}
