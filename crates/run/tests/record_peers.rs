//! The recordings as trace-cmd sees them.

mod recording;

use std::ops::ControlFlow;

use recording::{Scratch, trace_cmd_report, tracefs_or_skip};
use run::record::{FileFormat, RecordSpec, record};
use testkit::load::Load;
use testkit::skip::has_program;

const LOAD: Load = Load { calls: 30_000, threads: 2, pause: 0 };

#[test]
fn the_load_makes_exactly_its_calls() {
    if !testkit::load::run_if_asked() {
        assert_eq!(LOAD.total(), 60_000);
    }
}

#[test]
fn trace_cmd_opens_every_format_and_counts_the_same() {
    tracefs_or_skip!();
    if !has_program("trace-cmd") {
        testkit::skipped!("trace-cmd is not installed");
    }
    for format in [FileFormat::V7Zstd(3), FileFormat::V7, FileFormat::V6] {
        let scratch = Scratch::new("peer");
        let mut spec = RecordSpec {
            format,
            ..RecordSpec::new(
                &["syscalls:sys_enter_getppid", "sched:sched_switch"],
                scratch.file("trace.dat"),
            )
        };
        spec.command = Some(LOAD.command("0,1"));
        let outcome = record(&spec, &mut |_| {}).unwrap();
        let (report, warnings) = trace_cmd_report(&outcome.file, &["-q"]);
        assert_eq!(warnings.trim(), "", "{format:?}");
        let lines = |what: &str| report.lines().filter(|line| line.contains(what)).count() as u64;
        // Others may call getppid meanwhile, so the whole file is compared with its account.
        assert_eq!(
            lines(" sys_enter_getppid: ") + lines(" sched_switch: "),
            outcome.ledger.recorded(),
            "{format:?}"
        );
        assert!(lines(" sys_enter_getppid: ") >= LOAD.total());
        assert_eq!(scratch.names(), ["trace.dat"]);
    }
}

/// One event as both sides tell it: time, CPU, thread, name, fields.
type Told = (u64, i64, i64, String, String);

#[test]
fn trace_cmd_tells_the_same_events_with_the_same_fields_in_the_same_order() {
    tracefs_or_skip!();
    if !has_program("trace-cmd") {
        testkit::skipped!("trace-cmd is not installed");
    }
    for format in [FileFormat::V7Zstd(1), FileFormat::V6] {
        let scratch = Scratch::new("fields");
        let events =
            ["sched:sched_switch", "sched:sched_waking", "sched:sched_wakeup*", "sched:sched_process_*"];
        let mut spec = RecordSpec { format, ..RecordSpec::new(&events, scratch.file("trace.dat")) };
        let script = "for i in 1 2 3 4 5 6 7 8 9 10; do (sleep 0.01; true) & done; wait";
        spec.command = Some(["sh", "-c", script].iter().map(|word| word.into()).collect());
        let outcome = record(&spec, &mut |_| {}).unwrap();
        let (report, _) = trace_cmd_report(&outcome.file, &["-R", "-t"]);
        let mut theirs: Vec<Told> = report.lines().filter_map(told_by_trace_cmd).collect();
        let mut ours = told_by_us(&outcome.file);
        assert_eq!(ours.len() as u64, outcome.ledger.recorded());
        // Events of two CPUs at the same nanosecond have no order.
        let key = |told: &Told| (told.0, told.1);
        assert!(ours.is_sorted_by_key(|told| told.0) && theirs.is_sorted_by_key(|told| told.0));
        ours.sort_by_key(key);
        theirs.sort_by_key(key);
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs, "{format:?}");
        }
        assert_eq!(ours.len(), theirs.len(), "{format:?}");
        assert!(ours.len() > 100, "{}", ours.len());
    }
}

/// `   comm-TID  [CPU]  SECONDS.NANOSECONDS: name:   field=value …`
fn told_by_trace_cmd(line: &str) -> Option<Told> {
    let (who, rest) = line.split_once(" [")?;
    let (cpu, rest) = rest.split_once(']')?;
    let (time, rest) = rest.split_once(": ")?;
    let (name, fields) = rest.split_once(':')?;
    let (seconds, nanoseconds) = time.trim().split_once('.')?;
    let time = seconds.parse::<u64>().ok()? * 1_000_000_000 + nanoseconds.parse::<u64>().ok()?;
    let tid = who.trim().rsplit('-').next()?.parse().ok()?;
    let name = name.rsplit(' ').next()?;
    // It prints `target_cpu` as the print format does, with leading zeros.
    let fields = fields.trim().replace("target_cpu=00", "target_cpu=");
    Some((time, cpu.parse().ok()?, tid, name.to_owned(), fields))
}

fn told_by_us(file: &std::path::Path) -> Vec<Told> {
    let mut source = readers::open_path(file).unwrap();
    let formats = source.info().formats.clone();
    let endian = source.info().endian;
    let mut told = Vec::new();
    source
        .stream(&mut |item: trace::Item<'_>| {
            let trace::Item::Event { at, format, record, .. } = item else {
                return ControlFlow::Continue(());
            };
            let format = &formats[format.0 as usize];
            let shown = |field: &trace::format::Field| {
                let bytes = trace::format::BytesPlan::new(field, endian);
                let value = if field.is_text() {
                    String::from_utf8_lossy(bytes.text(record).unwrap()).into_owned()
                } else {
                    let raw = endian.unsigned(&record[field.offset as usize..], field.size as usize).unwrap();
                    let unused = 64 - 8 * field.size;
                    if field.signed {
                        ((raw << unused) as i64 >> unused).to_string()
                    } else {
                        raw.to_string()
                    }
                };
                format!("{}={value}", field.name)
            };
            let fields: Vec<String> = format.fields.iter().filter(|field| !field.common).map(shown).collect();
            let tid = at.tid.map_or(-1, |tid| i64::from(tid.0));
            told.push((at.time.0, i64::from(at.cpu.0), tid, format.name.clone(), fields.join(" ")));
            ControlFlow::Continue(())
        })
        .unwrap();
    told
}
