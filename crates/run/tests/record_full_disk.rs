//! A disk that is full keeps what was recorded: whether the pages fill it, or others do while
//! the file is put together.

// A recorder that is run as a process of its own answers on stdout.
#![allow(clippy::print_stdout)]

mod recording;

use std::io::Write;
use std::process::{Command, Stdio};

use recording::{RECORDER, Scratch, instances_of, tracefs_or_skip};
use run::record::{FileFormat, Phase, RecordSpec, record};
use testkit::load::Load;

#[test]
fn the_load_makes_exactly_its_calls() {
    testkit::load::run_if_asked();
}

const FORMAT: &str = "LOTSE_TEST_FORMAT";

/// What a test of this program prints that is run with a small file system in `scratch`.
fn on_a_small_disk(scratch: &Scratch, size: &str, test: &str, format: &str) -> String {
    // The small file system is seen by the recorder alone and goes with it.
    let script =
        format!("mount -t tmpfs -o size={size} tmpfs {0} && exec \"$0\" \"$@\"", scratch.path.display());
    let recorder = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--quiet"])
        .env(RECORDER, scratch.file("t.dat"))
        .env(FORMAT, format)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = recorder.id();
    let printed = recorder.wait_with_output().unwrap();
    assert_eq!(instances_of(pid), Vec::<String>::new());
    assert_eq!(scratch.names(), Vec::<String>::new());
    let text = String::from_utf8_lossy(&printed.stdout);
    let line = text.lines().find(|line| line.contains("FULL ")).unwrap_or_else(|| panic!("{text}"));
    line.to_owned()
}

#[test]
fn a_full_disk_keeps_what_was_recorded() {
    tracefs_or_skip!();
    let line = on_a_small_disk(&Scratch::new("full"), "600k", "a_recorder_to_a_full_disk", "");
    assert!(line.contains("FULL DiskFull exact"), "{line}");
}

#[test]
fn a_recorder_to_a_full_disk() {
    let Ok(output) = std::env::var(RECORDER) else { return };
    let spec = RecordSpec {
        command: Some(Load { calls: 400_000, threads: 2, pause: 0 }.command("0,1")),
        ..RecordSpec::new(&["syscalls:*_getppid", "sched:*"], &output)
    };
    match record(&spec, &mut |_| {}) {
        Ok(outcome) => {
            let unwritten: u64 = outcome.ledger.cpus.iter().map(|cpu| cpu.lost.unwritten).sum();
            let exact =
                outcome.ledger.disagreements().is_empty() && unwritten > 0 && outcome.ledger.recorded() > 0;
            let left = std::fs::read_dir(spec.output.parent().unwrap()).unwrap().count();
            println!(
                "FULL {:?} {} left={left} {:?}",
                outcome.ended_by,
                if exact { "exact" } else { "inexact" },
                outcome.ledger
            );
        }
        Err(error) => println!("FULL error {error}"),
    }
}

#[test]
fn a_disk_that_others_fill_meanwhile_takes_the_file_in_the_pages_place() {
    tracefs_or_skip!();
    for format in ["zstd", "v7", "v6"] {
        let scratch = Scratch::new("others");
        let line = on_a_small_disk(&scratch, "12m", "a_recorder_whose_disk_others_fill", format);
        assert!(line.contains("FULL Command whole"), "{format}: {line}");
    }
}

#[test]
fn a_recorder_whose_disk_others_fill() {
    let Ok(output) = std::env::var(RECORDER) else { return };
    let format = match std::env::var(FORMAT).as_deref() {
        Ok("v6") => FileFormat::V6,
        Ok("v7") => FileFormat::V7,
        _ => FileFormat::default(),
    };
    let spec = RecordSpec {
        // 200,000 events of some 20 bytes: more than is reserved.
        command: Some(Load { calls: 100_000, threads: 2, pause: 0 }.command("0,1")),
        format,
        ..RecordSpec::new(&["syscalls:sys_enter_getppid"], &output)
    };
    let fill = |phase: Phase| {
        if phase == Phase::Writing {
            let mut filler = std::fs::File::create(spec.output.with_extension("filler")).unwrap();
            while filler.write_all(&[1; 512]).is_ok() {}
        }
    };
    match record(&spec, &mut |progress| fill(progress.phase)) {
        Ok(outcome) => {
            let survey = readers::survey(&mut *readers::open_path(&outcome.file).unwrap());
            let whole = survey.total == outcome.ledger.recorded() && survey.total >= 200_000;
            println!("FULL {:?} {}", outcome.ended_by, if whole { "whole" } else { "not whole" });
        }
        Err(error) => println!("FULL error {error}"),
    }
}
