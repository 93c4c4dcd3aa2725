//! What a recorder leaves that is killed, at whatever moment, and what becomes of its command.

// A recorder that is run as a process of its own answers on stdout.
#![allow(clippy::print_stdout)]

mod recording;

use std::time::{Duration, Instant};

use kernel::tracefs::Tracefs;
use recording::{RECORDER, Scratch, beside_others, instances_of, spec_for, start_recorder, tracefs_or_skip};
use run::record::{
    RecordError, RecordSpec, finish_cut_recording, look_at_cut_recording, parts_folder, record,
};
use testkit::load::Load;

const LOAD: Load = Load { calls: 20_000, threads: 1, pause: 0 };

#[test]
fn the_load_makes_exactly_its_calls() {
    testkit::load::run_if_asked();
}

#[test]
fn a_recorder_to_be_killed() {
    let Ok(output) = std::env::var(RECORDER) else { return };
    let mut spec = RecordSpec::new(&["sched:sched_switch"], output);
    spec.rings.flush_interval = Duration::from_millis(50);
    let outcome = record(&spec, &mut |progress| println!("PROGRESS {} {}", progress.bytes, progress.events));
    println!("ENDED {:?}", outcome.map(|outcome| outcome.ended_by));
}

#[test]
fn after_a_kill_the_pages_are_readable_and_the_next_run_sweeps() {
    tracefs_or_skip!();
    let _shared = beside_others();
    let scratch = Scratch::new("kill");
    let output = scratch.file("t.dat");
    let (mut child, lines) = start_recorder("a_recorder_to_be_killed", &output, &[]);
    let enough = |line: &String| {
        let mut words = line.split(' ');
        words.next() == Some("PROGRESS")
            && words.next().and_then(|bytes| bytes.parse().ok()).unwrap_or(0) > 40_960u64
    };
    lines.into_iter().find(enough).expect("pages are fetched");
    // While it runs there is nothing to finish.
    let seen = look_at_cut_recording(&output).unwrap().unwrap();
    assert!(seen.still_running && seen.bytes > 40_960, "{seen:?}");
    assert!(matches!(finish_cut_recording(&output), Err(RecordError::BadParts { .. })));
    let pid = child.id();
    child.kill().unwrap();
    child.wait().unwrap();
    let left = instances_of(pid);
    assert_eq!(left.len(), 1, "SIGKILL leaves the instance");
    // But nothing runs on at the cost of others: the kernel stopped it and freed its rings.
    let root = Tracefs::open().unwrap();
    let tracing = root.root().read_text(&format!("instances/{}/tracing_on", left[0])).unwrap();
    assert_eq!(tracing.trim(), "0");
    let kb = root.root().read_text(&format!("instances/{}/per_cpu/cpu0/buffer_size_kb", left[0])).unwrap();
    assert!(kb.trim().parse::<u32>().unwrap() <= 16, "{kb}");

    let (file, ledger) = finish_cut_recording(&output).unwrap();
    assert_eq!(file, output);
    assert!(ledger.cut && ledger.recorded() > 0 && ledger.ended_ns > ledger.started_ns, "{ledger:?}");
    assert_eq!(scratch.names(), ["t.dat"]);
    if testkit::skip::has_program("trace-cmd") {
        let (report, _) = recording::trace_cmd_report(&file, &[]);
        let switches = report.lines().filter(|line| line.contains(" sched_switch: ")).count() as u64;
        assert_eq!(switches, ledger.recorded());
    }
    // The next recording removes what was left. Another test's recording may do it first.
    let mut spec = spec_for(&LOAD, "0,1", &scratch);
    spec.output = scratch.file("next.dat");
    let outcome = record(&spec, &mut |_| {}).unwrap();
    assert_eq!(instances_of(pid), Vec::<String>::new(), "swept: {:?}", outcome.swept);
}

#[test]
fn a_recorder_that_tells_its_phases() {
    let Ok(output) = std::env::var(RECORDER) else { return };
    let mut spec = RecordSpec::new(&["sched:*"], output);
    spec.duration = Some(Duration::from_millis(60));
    spec.rings.flush_interval = Duration::from_millis(10);
    let outcome = record(&spec, &mut |progress| println!("PHASE {:?}", progress.phase));
    println!("PHASE Ended {}", outcome.is_ok());
}

#[test]
fn whenever_it_is_killed_what_was_fetched_is_kept_and_the_next_recording_is_not_hindered() {
    tracefs_or_skip!();
    let _shared = beside_others();
    let mut seen = std::collections::BTreeMap::<&str, u32>::new();
    for phase in ["Preparing", "Recording", "Ending", "Writing"] {
        for delay_us in [0, 300, 1_000, 3_000, 10_000, 30_000] {
            let scratch = Scratch::new("moment");
            let output = scratch.file("t.dat");
            let (mut child, mut lines) = start_recorder("a_recorder_that_tells_its_phases", &output, &[]);
            let wanted = format!("PHASE {phase}");
            lines.find(|line| line.contains(&wanted)).expect("every phase is told");
            std::thread::sleep(Duration::from_micros(delay_us));
            child.kill().unwrap();
            child.wait().unwrap();
            let folder = parts_folder(&output);
            let left = match (output.exists(), folder.join("recording.json").exists()) {
                (true, _) => {
                    let mut source = readers::open_path(&output).unwrap();
                    let survey = readers::survey(source.as_mut());
                    assert_eq!((survey.error, source.info().cut.clone()), (None, None), "a file is whole");
                    "file"
                }
                (false, true) => {
                    let fetched = look_at_cut_recording(&output).unwrap().unwrap().bytes > 0;
                    let (file, ledger) = finish_cut_recording(&output).unwrap();
                    assert!(ledger.cut && (ledger.recorded() > 0 || !fetched), "{ledger:?}");
                    assert!(readers::open_path(&file).unwrap().info().cut.is_some());
                    "parts"
                }
                (false, false) => "nothing",
            };
            *seen.entry(left).or_default() += 1;
            let again = RecordSpec {
                overwrite: true,
                duration: Some(Duration::from_millis(10)),
                ..RecordSpec::new(&["sched:sched_switch"], &output)
            };
            record(&again, &mut |_| {}).unwrap_or_else(|error| panic!("{phase} + {delay_us} µs: {error}"));
            assert_eq!(scratch.names(), ["t.dat"]);
        }
    }
    assert!(seen.contains_key("parts") && seen.contains_key("file"), "{seen:?}");
}

#[test]
fn a_recorder_with_a_command() {
    let Ok(output) = std::env::var(RECORDER) else { return };
    let command = ["setpriv", "--pdeathsig", "KILL", "--", "sleep", "600"];
    let spec = RecordSpec {
        command: Some(command.iter().map(Into::into).collect()),
        ..RecordSpec::new(&["sched:sched_switch"], output)
    };
    let _ = record(&spec, &mut |progress| println!("COMMAND {}", progress.command_pid.unwrap_or(0)));
}

#[test]
fn a_command_that_asks_for_it_ends_with_its_recorder() {
    tracefs_or_skip!();
    if !testkit::skip::has_program("setpriv") {
        testkit::skipped!("setpriv (util-linux) is not installed");
    }
    let _shared = beside_others();
    let scratch = Scratch::new("deathsig");
    let (mut child, lines) = start_recorder("a_recorder_with_a_command", &scratch.file("t.dat"), &[]);
    let comm = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    // It asks before it becomes `sleep`.
    let pid = lines
        .filter_map(|line| line.strip_prefix("COMMAND ")?.trim().parse::<u32>().ok())
        .find(|&pid| pid != 0 && comm(pid).trim() == "sleep")
        .expect("the command runs");
    child.kill().unwrap();
    child.wait().unwrap();
    let begun = Instant::now();
    while comm(pid).trim() == "sleep" {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if state.contains(") Z ") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "process {pid} lives on");
        std::thread::sleep(Duration::from_millis(5));
    }
}
