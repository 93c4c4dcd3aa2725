//! perf.data files made elsewhere: the counts that their makers and perf state, and perf's
//! own listing, line by line.

use std::{
    collections::BTreeMap,
    io::Read,
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use readers::{MemoryInput, Survey, open, open_path, survey};
use testkit::{
    skip::{foreign_traces, has_program},
    skipped,
};
use trace::{
    Event, Item, Source,
    decode::Decoder,
    format::{NoLookup, Printer},
    stream::TaskChange,
};

fn surveyed(source: &mut dyn Source) -> Survey {
    let found = survey(source);
    assert_eq!(
        (found.error.as_deref(), &source.info().problems),
        (None, &Vec::new()),
        "{}",
        source.info().file_format
    );
    assert_eq!(found.steps_back + found.out_of_order, 0);
    found
}

fn side(survey: &Survey, kind: &str) -> u64 {
    survey.side_records.iter().find(|record| record.name == kind).map_or(0, |record| record.count)
}

fn unpacked(path: &Path) -> Box<dyn Source> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).unwrap();
    zstd::stream::read::Decoder::new(file).unwrap().read_to_end(&mut bytes).unwrap();
    open(Arc::new(MemoryInput::new(path.display().to_string(), bytes))).unwrap()
}

/// Samples, and records about maps, comms, forks, exits, as `perf report --stats` (6.1)
/// counts them, or as the table beside the files says.
#[test]
fn counts_are_those_stated() {
    let Some(traces) = foreign_traces() else { skipped!("no foreign trace files here") };
    for (name, samples, [maps, comms, forks, exits]) in [
        ("perf.data.armv7-3.4", 3893, [1454, 200, 1, 6]),
        ("perf.data.callgraph-3.8", 1768, [1793, 229, 2, 6]),
        ("perf.data.ctx_switch_namespaces-4.14", 2, [31, 3, 0, 1]),
        ("perf.data.forkexit-3.8", 10335, [3877, 488, 254, 510]),
        ("perf.data.lost_samples-4.4", 191, [45, 3, 0, 1]),
        ("perf.data.piped.header_features-4.16", 2, [32, 2, 0, 1]),
        ("perf.data.raw-3.4", 441, [1645, 225, 2, 4]),
        ("perf.data.singleprocess-3.8", 13, [100, 2, 0, 4]),
        ("perf.data.systemwide.1-3.4", 2967, [1591, 197, 1, 4]),
        ("perf.data.throttle-3.8", 14980, [1653, 230, 2, 4]),
        ("hotspot-PerfFormatLost.perf.data", 34, [367, 3, 8, 1]),
        ("sleep.compressed.data", 8, [49, 2, 0, 1]),
    ] {
        let mut source = open_path(&traces.join("perfdata").join(name)).unwrap();
        let found = surveyed(&mut *source);
        let sides = ["map", "comm", "fork", "exit"].map(|kind| side(&found, kind));
        assert_eq!((found.total, sides), (samples, [maps, comms, forks, exits]), "{name}");
        match name {
            "perf.data.ctx_switch_namespaces-4.14" => {
                assert_eq!((side(&found, "switch"), side(&found, "namespaces")), (2, 1));
            }
            "perf.data.throttle-3.8" => {
                assert_eq!((side(&found, "throttle"), side(&found, "unthrottle")), (68, 64))
            }
            "perf.data.lost_samples-4.4" => {
                assert_eq!((found.losses.intervals, found.losses.counted), (2, 2))
            }
            _ => assert_eq!(found.losses.intervals, 0, "{name}"),
        }
    }
}

#[test]
fn counts_by_event_are_those_of_perf() {
    let Some(traces) = foreign_traces() else { skipped!("no foreign trace files here") };
    let mut source = unpacked(&traces.join("own/mix.perf.data.zst"));
    let found = surveyed(&mut *source);
    let oracle = std::fs::read_to_string(traces.join("own/oracle/mix.counts.txt")).unwrap();
    let oracle: BTreeMap<String, u64> = oracle
        .lines()
        .filter_map(|line| line.trim().split_once(' '))
        .map(|(count, name)| (name.trim().trim_end_matches(':').to_owned(), count.parse().unwrap()))
        .collect();
    assert_eq!(found.events.iter().map(|e| (e.name.clone(), e.count)).collect::<BTreeMap<_, _>>(), oracle);
    assert_eq!((found.total, found.losses.intervals), (1_111_073, 0));
}

/// LOST_SAMPLES counts once more what LOST has told, and what was lost at the end.
#[test]
fn losses_are_counted_once() {
    let Some(traces) = foreign_traces() else { skipped!("no foreign trace files here") };
    let mut source = unpacked(&traces.join("own/lossy.perf.data.zst"));
    let found = surveyed(&mut *source);
    assert_eq!((found.total, found.losses.counted), (351_319, 48_681));
    assert_eq!((found.total + found.losses.counted, found.losses.uncounted), (400_000, 0));
    assert!(found.losses.list.iter().all(|loss| loss.cpu.is_some() && loss.from <= loss.to));
    assert!(found.losses.intervals > 30, "most losses have their place: {}", found.losses.intervals);
}

/// LOST records stand behind the loss, mostly a round later.
#[test]
fn losses_are_told_where_they_begin() {
    let Some(traces) = foreign_traces() else { skipped!("no foreign trace files here") };
    let mut source = unpacked(&traces.join("own/lossy.perf.data.zst"));
    let mut latest = trace::Nanos(0);
    let (mut in_time, mut late) = (0, Vec::new());
    source
        .stream(&mut |item: Item<'_>| {
            match item {
                Item::Event { at, .. } | Item::Sample { at, .. } => latest = latest.max(at.time),
                // Totals that are told last have no other place.
                Item::Lost(loss) if latest <= loss.from => in_time += 1,
                Item::Lost(loss) => late.push((loss, latest)),
                Item::Task { .. } => {}
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    let at_the_end = late.iter().filter(|(loss, _)| loss.to == latest).count();
    assert!(in_time > 30 && late.len() == at_the_end, "{in_time} in time, late: {late:?}");
}

#[test]
fn a_sample_without_size_is_refused() {
    let Some(traces) = foreign_traces() else { skipped!("no foreign trace files here") };
    let mut source =
        open_path(&traces.join("perfdata/perf.data.piped.corrupted.zero_size_sample-3.2")).unwrap();
    let error = survey(&mut *source).error.unwrap();
    assert!(
        error.ends_with("at byte 49104: a record of type 9 with a size of 0 bytes, less than its header"),
        "{error}"
    );
}

/// The maker of this file decoded it too: every field of every switch, with wall times.
#[test]
fn tracepoint_payloads_have_their_values() {
    let Some(traces) = foreign_traces() else { skipped!("no foreign trace files here") };
    let mut source = open_path(&traces.join("perfdata/ms-tracepoints.perf.data")).unwrap();
    let found = surveyed(&mut *source);
    let count = |name: &str| found.events.iter().find(|e| e.name == name).map(|e| e.count);
    assert_eq!(
        (count("sched:sched_switch"), count("user_events:TestProviderC_L5K0")),
        (Some(285), Some(109))
    );
    assert_eq!(found.total, 539);

    // "clock 1: 12782502283276 is 1711586712588060000 since 1970"
    let to_wall = 1_711_586_712_588_060_000u64 - 12_782_502_283_276;
    let mut ours = Vec::new();
    let mut decoder = Decoder::new(source.info());
    source
        .stream(&mut |item: Item<'_>| {
            if let Item::Event { at, format, record, .. } = item
                && let Some(Event::SchedSwitch(s)) = decoder.decode(format, record)
            {
                ours.push(format!(
                    "{} {} {:?} {} {} {} {:?} {} {}",
                    (at.time.0 + to_wall) % 60_000_000_000,
                    at.cpu.0,
                    s.prev_comm,
                    s.prev_tid.0,
                    s.prev_prio,
                    s.prev_state,
                    s.next_comm,
                    s.next_tid.0,
                    s.next_prio
                ));
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    let json = std::fs::read(traces.join("perfdata/perf.data.linux.json")).unwrap();
    let mut theirs: Vec<String> = String::from_utf8_lossy(&json)
        .lines()
        .filter_map(|line| {
            serde_json::from_str::<serde_json::Value>(line.trim().trim_end_matches([',', ']', ' '])).ok()
        })
        .filter(|event| event["n"] == "sched:sched_switch")
        .map(|event| {
            let hex = |key: &str| i32::from_str_radix(&event[key].as_str().unwrap()[2..], 16).unwrap();
            let time = event["meta"]["time"].as_str().unwrap();
            let (_, seconds) = time.trim_end_matches('Z').rsplit_once(':').unwrap();
            let (seconds, nanos) = seconds.split_once('.').unwrap();
            let time = seconds.parse::<u64>().unwrap() * 1_000_000_000 + nanos.parse::<u64>().unwrap();
            let states = [(0, "R"), (1, "S"), (2, "D"), (16, "X"), (32, "Z"), (128, "I"), (256, "R+")];
            let raw = event["prev_state"].as_u64().unwrap();
            let state = states.iter().find(|(value, _)| *value == raw).unwrap().1;
            format!(
                "{time} {} {} {} {} {} {} {} {}",
                event["meta"]["cpu"],
                event["prev_comm"],
                hex("prev_pid"),
                event["prev_prio"],
                state,
                event["next_comm"],
                hex("next_pid"),
                event["next_prio"]
            )
        })
        .collect();
    theirs.sort();
    ours.sort();
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    assert_eq!((ours.len(), theirs.len()), (285, 285));
}

/// `perf script` and this reader tell the same events with the same text, CPU by CPU.
/// (Between CPUs perf 6.1 tells 14 events of this file out of order.)
#[test]
fn perf_script_lists_the_same_events() {
    let Some(traces) = foreign_traces() else { skipped!("no foreign trace files here") };
    if !has_program("perf") {
        skipped!("perf is not installed");
    }
    let path = std::env::temp_dir().join(format!("lotse-readers-{}.perf.data", std::process::id()));
    let packed = std::fs::File::open(traces.join("own/mix.perf.data.zst")).unwrap();
    let mut out = std::fs::File::create(&path).unwrap();
    std::io::copy(&mut zstd::stream::read::Decoder::new(packed).unwrap(), &mut out).unwrap();
    let output = Command::new("perf")
        .args(["script", "--ns", "-F", "tid,cpu,time,event,trace", "-i"])
        .arg(&path)
        .output();
    let mut source = open_path(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let output = output.unwrap();
    let script = String::from_utf8_lossy(&output.stdout);
    let mut theirs: BTreeMap<u32, Vec<(String, String, String)>> = BTreeMap::new();
    for line in script.lines() {
        let (head, rest) = line.split_once("]").unwrap();
        let (tid, cpu) = head.trim().split_once(" [").unwrap();
        let (time, rest) = rest.trim().split_once(": ").unwrap();
        // The event's name ends with a colon and a space; it holds one itself.
        let rest = rest.trim_start();
        let (event, text) =
            rest.split_once(": ").or(rest.split_once(":\n")).unwrap_or((rest.trim_end_matches(':'), ""));
        theirs.entry(cpu.parse().unwrap()).or_default().push((
            format!("{} {time}", tid.trim()),
            event.to_owned(),
            text.trim().to_owned(),
        ));
    }
    let info = source.info().clone();
    let printers: Vec<Printer> =
        info.formats.iter().map(|f| f.printer(info.endian, info.long_size)).collect();
    let mut at_cpu: BTreeMap<u32, usize> = BTreeMap::new();
    let (mut events, mut texts, mut ours) = (0u64, 0u64, Vec::new());
    source
        .stream(&mut |item: Item<'_>| {
            let Item::Event { at, format, record, .. } = item else { return ControlFlow::Continue(()) };
            let next = at_cpu.entry(at.cpu.0).or_default();
            let (place, event, text) = &theirs[&at.cpu.0][*next];
            *next += 1;
            let format = format.0 as usize;
            let shown = (format!("{} {}", at.tid.unwrap().0, at.time), info.formats[format].full_name());
            assert_eq!((&shown.0, &shown.1), (place, event), "event {next} of cpu {}", at.cpu.0);
            events += 1;
            // libtraceevent has texts of its own for these.
            if !event.starts_with("sched:sched_switch") && !event.starts_with("sched:sched_w") {
                ours.clear();
                printers[format].print(record, &NoLookup, &mut ours);
                let ours = String::from_utf8_lossy(&ours);
                if !text.contains("location=") {
                    assert_eq!(ours.trim(), text, "{event}");
                    texts += 1;
                }
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((events, theirs.values().map(Vec::len).sum::<usize>()), (1_111_073, 1_111_073));
    assert!(texts > 1_000_000, "{texts}");
}

#[test]
fn processes_are_told_before_their_samples() {
    let Some(traces) = foreign_traces() else { skipped!("no foreign trace files here") };
    let mut source = open_path(&traces.join("perfdata/sleep.compressed.data")).unwrap();
    let mut comms = Vec::new();
    source
        .stream(&mut |item: Item<'_>| {
            if let Item::Task { change: TaskChange::Comm { comm, exec, .. }, .. } = item {
                comms.push((comm.to_string(), exec));
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(comms, [("perf-exec".to_owned(), false), ("sleep".to_owned(), true)]);
}

/// Recordings of this machine's own perf, with what its options put into files.
#[test]
fn what_perf_records_here_is_counted_as_perf_counts_it() {
    if !has_program("perf") {
        skipped!("perf is not installed");
    }
    let path = std::env::temp_dir().join(format!("lotse-readers-own-{}.perf.data", std::process::id()));
    let load = "i=0; while [ $i -lt 30 ]; do /bin/true; i=$((i+1)); done";
    for options in [
        &["-e", "cpu-clock", "-g"][..],
        &["-e", "cpu-clock,page-faults", "-z"],
        &["-e", "cpu-clock", "--switch-events", "--namespaces"],
        &["-e", "task-clock", "-k", "mono", "-g", "-z"],
    ] {
        // perf keeps what is there under another name.
        let _ = std::fs::remove_file(&path);
        let run = Command::new("perf")
            .args(["record", "-q", "-o"])
            .arg(&path)
            .args(options)
            .args(["--", "sh", "-c", load])
            .output()
            .unwrap();
        if !run.status.success() {
            skipped!("perf cannot record here: {}", String::from_utf8_lossy(&run.stderr).trim());
        }
        let stats = Command::new("perf").args(["report", "--stats", "-i"]).arg(&path).output().unwrap();
        let stats = String::from_utf8_lossy(&stats.stdout).into_owned();
        let theirs = |kind: &str| -> u64 {
            let line = stats.lines().find(|line| line.trim_start().starts_with(&format!("{kind} events:")));
            line.map_or(0, |line| line.split_whitespace().nth(2).unwrap().parse().unwrap())
        };
        let found = surveyed(&mut *open_path(&path).unwrap());
        let ours = ["comm", "fork", "exit", "switch", "namespaces", "map"].map(|kind| side(&found, kind));
        let expected = ["COMM", "FORK", "EXIT", "SWITCH", "NAMESPACES"].map(theirs);
        assert_eq!(ours[..5], expected, "{options:?}");
        assert_eq!(
            (found.total, ours[5]),
            (theirs("SAMPLE"), theirs("MMAP") + theirs("MMAP2")),
            "{options:?}"
        );
        assert!(ours[1] >= 30, "{options:?}: {ours:?}");
    }
    std::fs::remove_file(&path).unwrap();
}

/// A perf.data of everything that happens here in a moment; `None` where perf cannot.
fn recorded_here(folder: &Path, name: &str, words: &[&str]) -> Option<PathBuf> {
    let file = folder.join(name);
    let made = Command::new("perf").args(["record", "-q", "-o"]).arg(&file).args(words).output().ok()?;
    made.status.success().then_some(file)
}

#[test]
fn values_that_samples_carry_are_said_to_be_skipped() {
    let folder = own_folder("values");
    let words = ["-e", "{sched:sched_switch,cpu-clock}:S", "-c", "1", "-a", "sleep", "0.1"];
    let Some(file) = recorded_here(&folder, "perf.data", &words) else {
        skipped!("perf cannot record here");
    };
    let mut source = open_path(&file).unwrap();
    let found = surveyed(&mut *source);
    let facts = &source.info().facts;
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(found.total > 0 && source.info().problems.is_empty(), "{:?}", source.info().problems);
    let said = facts.iter().find(|(key, _)| key == "counter values").expect("it is said");
    assert!(said.1.contains("sched:sched_switch") && said.1.contains("skipped"), "{said:?}");
}

#[test]
fn a_folder_of_one_file_for_each_thread_is_refused_with_what_to_do_and_read_once_joined() {
    let folder = own_folder("threads");
    let words = ["--threads", "-e", "sched:sched_switch", "-a", "sleep", "0.1"];
    let Some(made) = recorded_here(&folder, "apart", &words).filter(|made| made.join("data.0").exists())
    else {
        std::fs::remove_dir_all(&folder).unwrap();
        skipped!("perf records no folders here");
    };
    for path in [made.clone(), made.join("data")] {
        let Err(error) = open_path(&path) else { panic!("{} is opened", path.display()) };
        assert!(error.reason.contains("perf inject -i") && error.reason.contains("data.0"), "{error}");
    }
    assert!(readers::is_trace_folder(&made));
    let joined = folder.join("joined");
    let inject =
        Command::new("perf").arg("inject").arg("-i").arg(&made).arg("-o").arg(&joined).output().unwrap();
    let total = inject.status.success().then(|| surveyed(&mut *open_path(&joined).unwrap()).total);
    let script = Command::new("perf").args(["script", "-i"]).arg(&made).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    if let Some(total) = total {
        assert_eq!(total, String::from_utf8_lossy(&script.stdout).lines().count() as u64);
    }
}

fn own_folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("lotse-perf-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
