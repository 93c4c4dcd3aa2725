//! Whose events are recorded, what ends a recording, and what is left behind: nothing.

// A recorder that is run as a process of its own answers on stdout.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod recording;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use recording::{
    RECORDER, Scratch, alone, beside_others, instances_of, own_instances, spec_for, start_recorder,
    tracefs_or_skip,
};
use run::record::{
    EndedBy, RecordError, RecordSpec, Selection, StopReason, StopToken, estimate_rates, parts_folder, record,
};
use testkit::load::Load;

const LOAD: Load = Load { calls: 20_000, threads: 1, pause: 0 };

#[test]
fn the_load_makes_exactly_its_calls() {
    if !testkit::load::run_if_asked() {
        assert_eq!(LOAD.total(), 20_000);
    }
}

#[test]
fn a_recorder_to_be_stopped_from_outside() {
    let Ok(output) = std::env::var(RECORDER) else { return };
    let mut spec = RecordSpec::new(&["sched:sched_switch"], output);
    spec.handle_signals = true;
    spec.rings.flush_interval = Duration::from_millis(50);
    let outcome = record(&spec, &mut |progress| println!("PROGRESS {} {}", progress.bytes, progress.events));
    match outcome {
        Ok(outcome) => println!("ENDED {:?} {}", outcome.ended_by, outcome.ledger.recorded()),
        Err(error) => println!("ERROR {error}"),
    }
}

#[test]
fn signals_end_a_recording_cleanly() {
    tracefs_or_skip!();
    for (name, number) in [("INT", 2), ("TERM", 15)] {
        let scratch = Scratch::new("signal");
        let output = scratch.file("t.dat");
        let (mut child, mut lines) = start_recorder("a_recorder_to_be_stopped_from_outside", &output, &[]);
        lines.by_ref().filter(|line| line.starts_with("PROGRESS")).nth(1).expect("it records");
        let pid = child.id();
        assert!(
            Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success()
        );
        let ended = lines.find(|line| line.contains("ENDED") || line.contains("ERROR")).unwrap();
        assert!(ended.contains(&format!("Stop(Signal({number}))")), "{ended}");
        assert!(child.wait().unwrap().success());
        assert_eq!(scratch.names(), ["t.dat"]);
        assert_eq!(instances_of(pid), Vec::<String>::new());
    }
}

#[test]
fn bad_wishes_are_refused_with_words_and_leave_nothing() {
    tracefs_or_skip!();
    let _alone = alone();
    let scratch = Scratch::new("bad");
    let file = scratch.file("t.dat");
    let switch = || RecordSpec {
        duration: Some(Duration::from_millis(10)),
        ..RecordSpec::new(&["sched:sched_switch"], &file)
    };
    let said = |spec: &RecordSpec| {
        let error = record(spec, &mut |_| {}).unwrap_err();
        assert_eq!(scratch.names(), Vec::<String>::new(), "{error}");
        assert_eq!(own_instances(), Vec::<String>::new(), "{error}");
        error.to_string()
    };
    assert_eq!(
        said(&RecordSpec::new(&["sched:sched_swich"], &file)),
        "no event matches 'sched:sched_swich'; did you mean sched:sched_switch?"
    );
    let mut spec = switch();
    spec.events[0].filter = Some("prev_pdi > 3".to_owned());
    let text = said(&spec);
    assert!(text.contains("Field not found") && text.contains("prev_pid"), "{text}");
    let spec = RecordSpec { command: Some(vec!["no-such-command-here".into()]), ..switch() };
    assert!(said(&spec).starts_with("there is no command 'no-such-command-here'"));
    let spec = RecordSpec { command: Some(vec!["/etc/passwd".into()]), ..switch() };
    assert!(said(&spec).contains("cannot run '/etc/passwd'"));
    let spec = RecordSpec { output: scratch.file("no/such/folder/t.dat"), ..switch() };
    let text = said(&spec);
    assert!(text.contains("make the folder") && text.contains("No such file"), "{text}");
    let spec = RecordSpec { output: "/proc/t.dat".into(), ..switch() };
    said(&spec);
    let spec = RecordSpec { selection: Selection::Processes(vec![4_000_000]), ..switch() };
    assert_eq!(said(&spec), "there is no process 4000000; it may have ended");
    let spec = RecordSpec { cpus: Some(vec![0, 999]), ..switch() };
    assert!(said(&spec).starts_with("CPU 999 is not online"));
    let spec = RecordSpec { clock: "sundial".to_owned(), ..switch() };
    assert!(said(&spec).contains("the clocks of this kernel are: [local] global"), "{}", said(&spec));
    let spec = RecordSpec { output: scratch.path.clone(), ..switch() };
    assert!(
        said(&spec).contains("Is a directory") || said(&spec).contains("is a directory"),
        "{}",
        said(&spec)
    );
    // A command that exists and is no program fails only once it runs.
    let fake = std::env::temp_dir().join(format!("lotse-fake-{}", std::process::id()));
    std::fs::write(&fake, "\x7fELF").unwrap();
    std::fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let spec = RecordSpec { command: Some(vec![fake.clone().into()]), ..switch() };
    let text = said(&spec);
    std::fs::remove_file(fake).unwrap();
    assert!(text.contains("Exec format error"), "{text}");
}

#[test]
fn without_rights_the_refusal_says_what_is_missing() {
    tracefs_or_skip!();
    // Busybox has a setpriv that cannot change the user.
    let can =
        Command::new("setpriv").args(["--reuid=65534", "--regid=65534", "--clear-groups", "true"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        testkit::skipped!("no setpriv that can change the user");
    }
    let scratch = Scratch::new("rights");
    std::fs::set_permissions(&scratch.path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    // Other users may not be able to reach the build's folder: a copy they can run.
    let copy = scratch.file("recorder");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"])
        .arg(&copy)
        .args(["--exact", "a_recorder_to_be_stopped_from_outside", "--nocapture", "--quiet"])
        .env(RECORDER, scratch.file("t.dat"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.contains("ERROR ")).unwrap_or_else(|| panic!("{output:?}"));
    assert!(line.contains("CAP_SYS_ADMIN") && line.contains("Operation not permitted"), "{line}");
    assert_eq!(scratch.names(), ["recorder"]);
}

#[test]
fn parts_of_another_recording_are_not_overwritten() {
    tracefs_or_skip!();
    let _shared = beside_others();
    let scratch = Scratch::new("parts");
    let spec = spec_for(&LOAD, "0", &scratch);
    let folder = parts_folder(&spec.output);
    std::fs::create_dir(&folder).unwrap();
    for name in ["recording.json", "somebody's"] {
        std::fs::write(folder.join(name), "").unwrap();
        assert!(matches!(record(&spec, &mut |_| {}), Err(RecordError::PartsExist { .. })), "{name}");
        std::fs::remove_file(folder.join(name)).unwrap();
    }
    assert_eq!(scratch.names(), ["trace.dat.parts"]);
    // What was killed before it had recorded anything is in nobody's way.
    for name in ["cpu0.pages", "threads", "recording.json.new"] {
        std::fs::write(folder.join(name), "").unwrap();
    }
    record(&spec, &mut |_| {}).unwrap();
    assert_eq!(scratch.names(), ["trace.dat"]);
}

#[test]
fn two_recordings_at_once_do_not_disturb_each_other() {
    tracefs_or_skip!();
    let _shared = beside_others();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let run = |calls: u64| {
            move || {
                let load = Load { calls, ..LOAD };
                let scratch = Scratch::new("two");
                record(&spec_for(&load, "0,1", &scratch), &mut |_| {}).unwrap()
            }
        };
        let both = [scope.spawn(run(50_000)), scope.spawn(run(70_000))];
        both.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().map(|o| o.ledger.recorded()).collect::<Vec<_>>(), [50_000, 70_000]);
    assert!(outcomes.iter().all(|o| o.ledger.lost() == 0 && o.ledger.disagreements().is_empty()));
}

#[test]
fn a_process_is_followed_to_its_end_with_its_children() {
    tracefs_or_skip!();
    let _shared = beside_others();
    let scratch = Scratch::new("pid");
    // A shell that waits for a line, then runs the load as its child: only fork following sees it.
    let words: Vec<_> = LOAD.command("0,1").iter().map(|word| word.to_str().unwrap().to_owned()).collect();
    let script = format!("read line; {} >/dev/null", words.join(" "));
    let mut shell = Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = shell.stdin.take();
    let spec = RecordSpec {
        selection: Selection::Processes(vec![shell.id()]),
        ..RecordSpec::new(&["syscalls:sys_enter_getppid"], scratch.file("t.dat"))
    };
    let reaper = std::thread::spawn(move || shell.wait().unwrap());
    let outcome = record(&spec, &mut |progress| {
        if progress.phase == run::record::Phase::Recording {
            drop(stdin.take());
        }
    })
    .unwrap();
    reaper.join().unwrap();
    assert_eq!(outcome.ended_by, EndedBy::Command, "it ends with the process");
    assert_eq!(outcome.ledger.happened(), LOAD.total());
}

#[test]
fn a_cgroups_members_are_followed_as_they_come() {
    tracefs_or_skip!();
    let _shared = beside_others();
    let hierarchies = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
    let mut untried = Vec::new();
    for root in hierarchies {
        let group = std::path::Path::new(root).join(format!("lotse-test-{}", std::process::id()));
        if std::fs::create_dir(&group).is_err() || !group.join("cgroup.procs").exists() {
            let _ = std::fs::remove_dir(&group);
            untried.push(root);
            continue;
        }
        let scratch = Scratch::new("cgroup");
        let stop = StopToken::new().unwrap();
        let spec = RecordSpec {
            selection: Selection::Cgroup(group.clone()),
            stop: Some(stop.clone()),
            ..RecordSpec::new(&["syscalls:sys_enter_getppid"], scratch.file("t.dat"))
        };
        let (armed, start) = std::sync::mpsc::channel();
        let procs = group.join("cgroup.procs");
        let worker = std::thread::spawn(move || {
            start.recv().unwrap();
            // Outside of the group: not recorded.
            LOAD.process("0,1").status().unwrap();
            let words: Vec<_> = LOAD.command("0,1").iter().map(|w| w.to_str().unwrap().to_owned()).collect();
            // Joins, gives the follower time for one look (50 ms), then makes its calls.
            let script = format!("echo $$ > {} && sleep 0.5 && exec {}", procs.display(), words.join(" "));
            Command::new("sh").args(["-c", &script]).stdout(Stdio::null()).status().unwrap();
            stop.request();
        });
        let outcome = record(&spec, &mut |progress| {
            if progress.phase == run::record::Phase::Recording {
                let _ = armed.send(());
            }
        })
        .unwrap();
        worker.join().unwrap();
        std::fs::remove_dir(&group).unwrap();
        assert_eq!(outcome.ended_by, EndedBy::Stop(StopReason::Asked));
        assert_eq!(outcome.ledger.happened(), LOAD.total(), "{root}");
    }
    if untried.len() == hierarchies.len() {
        testkit::skipped!("no cgroup can be made in any of {untried:?}");
    }
}

#[test]
fn only_the_cpus_asked_for_are_recorded() {
    tracefs_or_skip!();
    let _shared = beside_others();
    if kernel::cpu::online().unwrap().len() < 2 {
        testkit::skipped!("one CPU only");
    }
    for (cpu, expected) in [(0, LOAD.total()), (1, 0)] {
        let scratch = Scratch::new("cpu");
        let mut spec = spec_for(&LOAD, "0", &scratch);
        spec.cpus = Some(vec![cpu]);
        let outcome = record(&spec, &mut |_| {}).unwrap();
        assert_eq!(outcome.ledger.happened(), expected, "CPU {cpu}");
    }
}

#[test]
fn a_duration_ends_a_recording_and_its_command() {
    tracefs_or_skip!();
    let _shared = beside_others();
    let scratch = Scratch::new("duration");
    let mut spec = RecordSpec::new(&["sched:sched_switch"], scratch.file("t.dat"));
    spec.command = Some(["sleep", "60"].iter().map(|word| word.into()).collect());
    spec.duration = Some(Duration::from_millis(200));
    let begun = Instant::now();
    let outcome = record(&spec, &mut |_| {}).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(outcome.ended_by, EndedBy::Duration);
    assert!(!outcome.command_status.unwrap().success());
    assert!(outcome.ledger.recorded() > 0);
}

#[test]
fn a_panic_of_the_caller_leaves_nothing() {
    tracefs_or_skip!();
    let _alone = alone();
    let scratch = Scratch::new("panic");
    let spec = RecordSpec {
        duration: Some(Duration::from_secs(20)),
        ..RecordSpec::new(&["sched:sched_switch"], scratch.file("t.dat"))
    };
    let result = std::panic::catch_unwind(|| {
        record(&spec, &mut |progress| assert_ne!(progress.phase, run::record::Phase::Recording, "on purpose"))
    });
    assert!(result.is_err());
    assert_eq!(scratch.names(), Vec::<String>::new());
    assert_eq!(own_instances(), Vec::<String>::new());
}

#[test]
fn rates_are_measured_before_anything_is_recorded() {
    tracefs_or_skip!();
    let _shared = beside_others();
    let scratch = Scratch::new("rates");
    let mut load = Load { calls: 3_000_000, threads: 1, pause: 0 }.process("0").spawn().unwrap();
    let spec = RecordSpec {
        cpus: Some(vec![0]),
        ..RecordSpec::new(&["syscalls:sys_enter_getppid"], scratch.file("t.dat"))
    };
    let rates = estimate_rates(&spec, Duration::from_millis(200)).unwrap();
    load.kill().unwrap();
    load.wait().unwrap();
    let cpu = rates.cpus[0];
    assert!(cpu.events_per_second > 1_000.0, "{rates:?}");
    // Header, common fields and the number: 4 + 8 + 4 + alignment.
    assert!((12.0..=40.0).contains(&cpu.bytes_per_event.unwrap()), "{rates:?}");
    assert!(rates.needs(1 << 16).ring_kb_per_cpu >= 1024);
    assert_eq!(scratch.names(), Vec::<String>::new());
}

#[test]
fn switches_that_the_kernel_tells_no_ring_are_found_by_trying() {
    tracefs_or_skip!();
    let _alone = alone();
    let scratch = Scratch::new("hidden");
    let spec = RecordSpec::new(&["sched:*"], scratch.file("t.dat"));
    let cpus = kernel::cpu::online().unwrap();
    let found = run::record::try_switches(&spec).unwrap();
    assert!(!found.is_empty() && found.iter().all(|trial| cpus.contains(&trial.cpu)), "{found:?}");
    for trial in &found {
        assert!(trial.happened >= 40, "twenty sleeps are forty switches: {trial:?}");
        // The ring has at most a few more: the thread's beginning, its move, its end.
        assert!(trial.told <= trial.happened + 8, "{trial:?}");
        assert_eq!(trial.is_worth_saying(), trial.told * 10 < trial.happened * 9);
    }
    let without = RecordSpec::new(&["irq:*"], scratch.file("t.dat"));
    assert_eq!(run::record::try_switches(&without).unwrap(), []);
    assert_eq!(own_instances(), Vec::<String>::new());
    // What a ring has is counted there: on a machine that hides nothing, all of it.
    if found.iter().all(run::record::HiddenSwitches::is_worth_saying) {
        testkit::skipped!("this kernel hides switches on every CPU: {found:?}");
    }
}
