//! CTF traces made elsewhere: the counts stated, babeltrace2's listing, and the cases of
//! babeltrace's own tests, to be read or refused.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use readers::{open_path, survey};
use testkit::{
    skip::{foreign_traces, has_program},
    skipped,
    synthetic::Random,
};
use trace::{Event, Item, TaskState, decode::Decoder};

#[test]
fn counts_are_those_stated() {
    let Some(traces) = foreign_traces() else { skipped!("no foreign trace files here") };
    for (name, total, switches, cpus) in [
        ("many-threads", 240_644, Some(28_325), 8),
        ("scp_dest", 85_729, None, 1),
        ("perf-taskset2", 1_500, Some(562), 1),
    ] {
        let mut source = open_path(&traces.join("ctf").join(name)).unwrap();
        let found = survey(&mut *source);
        let counted: u64 =
            found.events.iter().filter(|e| e.name.ends_with("sched_switch")).map(|e| e.count).sum();
        assert_eq!(
            (found.total, found.error, found.steps_back + found.out_of_order),
            (total, None, 0),
            "{name}"
        );
        assert_eq!(source.info().problems, Vec::<String>::new(), "{name}");
        assert_eq!(source.info().cpu_count, cpus, "{name}");
        assert!(switches.is_none_or(|switches| switches == counted), "{name}: {counted}");
    }
}

/// LTTng's events of forks tell the process as well as the thread, each 8000 threads of one here.
#[test]
fn what_is_forked_is_a_thread() {
    let Some(traces) = foreign_traces() else { skipped!("no foreign trace files here") };
    let mut source = open_path(&traces.join("ctf/many-threads")).unwrap();
    let mut decoder = Decoder::new(source.info());
    let mut children = std::collections::BTreeSet::new();
    source
        .stream(&mut |item: Item<'_>| {
            if let Item::Event { format, record, .. } = item
                && let Some(Event::SchedProcessFork(fork)) = decoder.decode(format, record)
            {
                children.insert(fork.child_tid);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(children.len(), 8003);
}

/// Small cases of babeltrace's tests: how many events babeltrace 2.0.4 reads of each.
#[test]
fn babeltraces_own_cases() {
    let Some(traces) = foreign_traces() else { skipped!("no foreign trace files here") };
    let folder = traces.join("ctf/babeltrace");
    for (name, expected) in [
        ("2packets", 2),
        ("array-align-elem", 1),
        ("barectf-event-before-packet", 2),
        ("crlf-metadata", 5),
        ("ev-disc-no-ts-begin-end", 3),
        ("lf-metadata", 5),
        ("lttng-crash", 400),
        ("lttng-event-after-packet", 2),
        ("lttng-tracefile-rotation", 12_305),
        ("meta-variant-no-underscore", 1),
        ("meta-variant-two-underscores", 1),
        ("multi-domains", 4_272),
        ("no-packet-context", 3),
        ("sequence", 10),
        ("session-rotation", 266),
        ("struct-array-align-elem", 1),
        ("succeed1", 7_809),
        ("trace-with-index", 4_000),
        ("wk-heartbeat-u", 20),
    ] {
        let mut source = open_path(&folder.join("succeed").join(name)).unwrap();
        let found = survey(&mut *source);
        assert_eq!((found.total, found.error), (expected, None), "{name}: {:?}", source.info().problems);
    }
    for (name, reason) in [
        ("fail1", "version 1 is understood"),
        ("integer-range", "is not a number"),
        ("invalid-packet-size", "a packet of 4096 bytes where 2533 are left"),
        ("invalid-sequence-length-field-class", "is no integer"),
        ("invalid-variant-selector-field-class", "is no enum"),
        ("lttng-modules-2.0-pre1", "a packet of metadata"),
        ("metadata-syntax-error", "line 3 of the metadata"),
    ] {
        let told = match open_path(&folder.join("fail").join(name)) {
            Err(error) => error.to_string(),
            Ok(mut source) => survey(&mut *source).error.unwrap_or_default(),
        };
        assert!(told.contains(reason), "{name}: {told:?}");
    }
    let mut source = open_path(&folder.join("fail/valid-events-then-invalid-events")).unwrap();
    assert_eq!(survey(&mut *source).total, 2);
    assert!(source.info().problems[0].contains("at byte 2: an event of the number 255"));
}

/// The same events with the same times, and the same threads at each switch.
#[test]
fn babeltrace2_lists_the_same_events() {
    let Some(traces) = foreign_traces() else { skipped!("no foreign trace files here") };
    if !has_program("babeltrace2") {
        skipped!("babeltrace2 is not installed");
    }
    let folder = traces.join("ctf/many-threads");
    let output =
        Command::new("babeltrace2").args(["--clock-cycles", "--no-delta"]).arg(&folder).output().unwrap();
    let mut theirs: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| {
            let (time, rest) = line[1..].split_once(']').unwrap();
            let (name, fields) = rest.trim().split_once(": {").unwrap();
            let name = name.rsplit(' ').next().unwrap();
            let field = |key: &str| {
                let from = fields.find(&format!(" {key} = ")).unwrap() + key.len() + 4;
                fields[from..].split([',', ' ']).next().unwrap().to_owned()
            };
            let switch = if name == "sched_switch" {
                format!(" {} {} {}", field("prev_tid"), field("next_tid"), field("prev_prio"))
            } else {
                String::new()
            };
            format!("{} {} {name}{switch}", time.trim_start_matches('0'), field("cpu_id"))
        })
        .collect();
    let mut source = open_path(&folder).unwrap();
    let info = source.info().clone();
    let mut decoder = Decoder::new(&info);
    let mut ours = Vec::new();
    let mut sleeping = 0;
    source
        .stream(&mut |item: Item<'_>| {
            if let Item::Event { at, format, record, .. } = item {
                let name = &info.formats[format.0 as usize].name;
                let switch = match decoder.decode(format, record) {
                    Some(Event::SchedSwitch(s)) => {
                        sleeping += u32::from(s.prev_state == TaskState::Sleeping);
                        format!(" {} {} {}", s.prev_tid.0, s.next_tid.0, s.prev_prio)
                    }
                    _ => String::new(),
                };
                ours.push(format!("{} {} {name}{switch}", at.time.0, at.cpu.0));
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    // Events of one time on several CPUs have no order of their own.
    ours.sort();
    theirs.sort();
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    assert_eq!((ours.len(), theirs.len()), (240_644, 240_644));
    assert!(sleeping > 1000, "{sleeping}");
}

/// The fuzz body: a folder of damaged files, whatever is in them.
fn read_whatever(folder: &Path) -> bool {
    let started = Instant::now();
    let read = match open_path(folder) {
        Ok(mut source) => survey(&mut *source).error.is_none(),
        Err(_) => false,
    };
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    read
}

#[test]
fn damaged_traces() {
    let Some(traces) = foreign_traces() else { skipped!("no foreign trace files here") };
    let folder = std::env::temp_dir().join(format!("lotse-ctf-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut random = Random(77);
    let seeds: Vec<PathBuf> = [
        "sequence",
        "lf-metadata",
        "meta-variant-one-underscore",
        "ev-disc-no-ts-begin-end",
        "array-align-elem",
    ]
    .iter()
    .map(|name| traces.join("ctf/babeltrace/succeed").join(name))
    .collect();
    let seconds = std::env::var("LOTSE_FUZZ_SECONDS").ok().and_then(|value| value.parse().ok()).unwrap_or(3);
    let until = Instant::now() + Duration::from_secs(seconds);
    let (mut rounds, mut read) = (0u64, 0u64);
    while Instant::now() < until {
        let seed = &seeds[random.below(seeds.len() as u64) as usize];
        for entry in std::fs::read_dir(seed).unwrap() {
            let path = entry.unwrap().path();
            if !path.is_file() {
                continue;
            }
            let mut bytes = std::fs::read(&path).unwrap();
            if random.below(2) == 0 {
                for _ in 0..1 + random.below(3) {
                    if bytes.is_empty() {
                        break;
                    }
                    let at = random.below(bytes.len() as u64) as usize;
                    match random.below(5) {
                        0 => bytes.truncate(at),
                        1 => bytes[at] = random.below(256) as u8,
                        2 => bytes[at] = b"0123456789{}[];<>=:"[random.below(19) as usize],
                        3 => drop(bytes.remove(at)),
                        _ => {
                            let copy = bytes[at..(at + 40).min(bytes.len())].to_vec();
                            bytes.splice(at..at, copy);
                        }
                    }
                }
            }
            std::fs::write(folder.join(path.file_name().unwrap()), bytes).unwrap();
        }
        rounds += 1;
        read += u64::from(read_whatever(&folder));
        for entry in std::fs::read_dir(&folder).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(rounds > 50 && read > 0 && read < rounds, "{read} of {rounds}");
}
