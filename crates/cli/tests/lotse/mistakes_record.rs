//! Mistakes in `record`, `run` and `trace`, as somebody makes them who is new to them: each is
//! told before anything is measured, with what to do instead.

use crate::harness::Place;
use crate::needs_recording;

/// Refused for these reasons, without a word about measuring.
#[track_caller]
fn at_once(place: &Place, words: &[&str], parts: &[&str]) {
    let output = place.lotse(words).expect(2);
    assert!(!output.stderr.contains("measured"), "{}", output.stderr);
    for part in parts {
        assert!(output.stderr.contains(part), "no `{part}` in:\n{}", output.stderr);
    }
    assert_eq!(output.stdout, "");
}

#[test]
fn a_recording_is_not_written_over_unless_asked() {
    needs_recording!();
    let place = Place::new();
    let words = ["record", "-q", "-e", "sched:sched_switch", "-o", "a.dat", "--", "true"];
    place.write("a.dat", "precious");
    at_once(&place, &words, &["a.dat exists already", "-o", "--force"]);
    assert_eq!(std::fs::read_to_string(place.path("a.dat")).unwrap(), "precious");
    let forced = ["record", "-q", "--force", "-e", "sched:sched_switch", "-o", "a.dat", "--", "true"];
    place.lotse(&forced).expect(0);
    place.lotse(&["info", "a.dat"]).expect(0);
    // As mktemp leaves it.
    place.write("a.dat", "");
    place.lotse(&words).expect(0);
    // A device would become a file.
    let device = ["record", "-e", "sched:sched_switch", "--force", "-o", "/dev/null", "--", "true"];
    at_once(&place, &device, &["/dev/null is no regular file"]);
}

#[test]
fn triggers_are_checked_before_anything_begins() {
    needs_recording!();
    let place = Place::new();
    let flight = |trigger: &[&str], parts: &[&str]| {
        let words =
            [&["record", "-e", "sched:sched_switch", "--flight", "--duration", "1s"], trigger].concat();
        at_once(&place, &words, parts);
    };
    flight(&["--trigger", "sched:sched_wakin"], &["no event matches", "sched:sched_waking"]);
    let filter = ["--trigger", "sched:sched_waking", "--trigger-filter", "comn == \"x\""];
    flight(&filter, &["Field not found", "comm, pid"]);
    assert_eq!(place.names(), [] as [&str; 0]);
}

#[test]
fn events_that_are_meant_otherwise_are_explained() {
    needs_recording!();
    let place = Place::new();
    let refused =
        |event: &str, parts: &[&str]| at_once(&place, &["record", "-e", event, "--", "true"], parts);
    refused("sched:", &["'sched:*' means all events of sched"]);
    refused("kprobe:vfs_read", &["only tracepoints are recorded", "lotse trace -e 'kprobe:vfs_read"]);
    let words = ["record", "-e", "sched:*", "--filter", "prev_pid == 1", "--", "true"];
    place.lotse(&words).refused(&["Field not found", "other events too"]);
}

#[test]
fn commands_are_found_before_anything_is_measured() {
    needs_recording!();
    let place = Place::new();
    for before in [&["record", "-e", "sched:sched_switch"][..], &["run", "sched"]] {
        let refused =
            |command: &str, parts: &[&str]| at_once(&place, &[before, &["--", command]].concat(), parts);
        refused("no-such-command", &["no command 'no-such-command'"]);
        refused("/tmp", &["'/tmp' is a folder"]);
        refused("", &["an empty name"]);
        // And without `--`.
        at_once(&place, &[before, &["make"]].concat(), &["a command to run goes behind `--`", "-- make"]);
    }
    assert_eq!(place.names(), [] as [&str; 0]);
}

#[test]
fn values_of_the_wrong_kind_say_which_is_right() {
    let place = Place::new();
    for command in [&["record", "-e", "x"][..], &["run", "sched"]] {
        at_once(&place, &[command, &["--duration", "-5s"]].concat(), &["not negative"]);
        at_once(&place, &[command, &["--pid", "postgres"]].concat(), &["`postgres` is no number", "pgrep"]);
    }
}

#[test]
fn a_program_where_a_recipe_or_script_belongs_is_recognised() {
    let place = Place::new();
    std::fs::copy("/bin/true", place.path("prog")).unwrap();
    place.write("bench.sh", "#!/bin/sh\necho hi\n");
    std::fs::create_dir(place.path("folder")).unwrap();
    for program in ["./prog", "./bench.sh"] {
        at_once(
            &place,
            &["run", program],
            &["is a program and no recipe", &format!("run sched -- {program}")],
        );
    }
    at_once(&place, &["trace", "prog"], &["an executable and no script", "-c prog"]);
    at_once(&place, &["trace", "nofile.bt"], &["there is no file nofile.bt", "-e 'PROGRAM'"]);
    at_once(&place, &["trace", "begin { exit() }"], &["goes behind -e"]);
    at_once(&place, &["trace", "folder"], &["is a folder"]);
}

#[test]
fn a_folder_of_runs_names_its_newest() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("runs/one")).unwrap();
    place.write("runs/one/run.json", "{}");
    place.lotse(&["report", "runs"]).refused(&["the newest run in it is runs/one"]);
}
