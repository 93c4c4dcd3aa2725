//! Bad use: each message says what failed, why, and what to do; nothing is left behind.

use std::process::Command;

use crate::harness::{Place, binary, is_root};
use crate::needs_recording;

#[test]
fn unknown_events_and_wrong_filters_are_refused_with_what_there_is() {
    needs_recording!();
    let place = Place::new();
    place.lotse(&["record", "-e", "sched:sched_swich", "--", "true"]).refused(&[
        "sched:sched_swich",
        "did you mean",
        "sched:sched_switch",
    ]);
    let words = ["record", "-e", "sched:sched_switch", "--filter", "no_such_field == 1", "--", "true"];
    place.lotse(&words).refused(&["no_such_field", "prev_pid"]);
    assert_eq!(place.names(), [] as [&str; 0]);
}

#[test]
fn commands_that_cannot_be_run_are_refused() {
    needs_recording!();
    let place = Place::new();
    place.lotse(&["record", "-e", "sched:sched_switch", "--", "no-such-command-here"]).refused(
        &["no-such-command-here", "PATH"].map(|part| if part == "PATH" { "searched" } else { part }),
    );
    place.lotse(&["run", "sched", "--", "./no-such-command"]).refused(&["./no-such-command"]);
    place.write("not-executable", "true");
    place.lotse(&["run", "sched", "--", "./not-executable"]).refused(&["not-executable"]);
    assert_eq!(place.names(), ["not-executable"], "no run folder, no trace");
}

#[test]
fn recipes_with_mistakes_are_refused_with_their_lines() {
    let place = Place::new();
    place.write(
        "bad.toml",
        "version = 1\nname = \"x\"\nquestion = \"?\"\nevnts = []\nanalyses = [\"shed\"]\n",
    );
    place.lotse(&["run", "bad.toml"]).refused(&[
        "bad.toml:4: unknown key `evnts`; did you mean `events`?",
        "bad.toml:5: `shed` is no value for `analyses`; did you mean `sched`?",
    ]);
    place
        .lotse(&["run", "shed"])
        .refused(&["there is no recipe, file or folder `shed`", "did you mean sched?"]);
    std::fs::create_dir(place.path("empty")).unwrap();
    place.lotse(&["run", "empty"]).refused(&["without a run.json", "name a recipe"]);
    std::fs::create_dir(place.path("newer")).unwrap();
    place.write("newer/run.json", "{\"version\": 9}");
    place.lotse(&["run", "newer"]).refused(&["version 9", "a newer one"]);
    place.lotse(&["report", "newer"]).refused(&["version 9"]);
}

#[test]
fn folders_that_cannot_be_used_are_refused() {
    needs_recording!();
    let place = Place::new();
    place
        .lotse(&["record", "-e", "sched:sched_switch", "-o", "no/such/x.dat", "--", "true"])
        .refused(&["no/such", "make it first"]);
    place.write("file", "");
    place.lotse(&["run", "sched", "--output", "file/x", "--", "true"]).refused(&["file", "--output"]);
    std::fs::create_dir(place.path("full")).unwrap();
    place.write("full/mine", "precious");
    place.lotse(&["run", "sched", "--output", "full", "--", "true"]).refused(&["never written over"]);
    assert_eq!(std::fs::read_to_string(place.path("full/mine")).unwrap(), "precious");
    assert_eq!(place.names(), ["file", "full"]);
}

#[test]
fn a_full_disk_is_told_before_it_is_filled() {
    needs_recording!();
    let place = Place::new();
    std::fs::create_dir(place.path("small")).unwrap();
    let script = "mount -t tmpfs -o size=1m none small && exec \"$0\" run sched --output small/run -- true";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).arg(binary());
    place.prepare(&mut command);
    let output = place.finish(&mut command);
    if output.stderr.contains("unshare") || output.stderr.contains("mount:") {
        testkit::skipped!("a file system of its own cannot be mounted: {}", output.stderr.trim());
    }
    output.refused(&["are free in", "free some space"]);
}

#[test]
fn without_rights_it_says_what_is_missing() {
    if !is_root() || !testkit::skip::has_program("setpriv") {
        testkit::skipped!("dropping rights needs root and setpriv");
    }
    let place = Place::new();
    // Where an ordinary user can reach it.
    let copy = place.path("lotse");
    std::fs::copy(binary(), &copy).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(place.path("."), open).unwrap();
    let as_nobody = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]).arg(&copy).args(words);
        place.prepare(&mut command);
        place.finish(&mut command)
    };
    as_nobody(&["run", "sched", "--", "true"]).refused(&["tracefs", "CAP_SYS_ADMIN", "root"]);
    as_nobody(&["record", "-e", "sched:*", "--", "true"]).refused(&["tracefs", "root"]);
    assert_eq!(place.names(), ["lotse"]);
    let doctor = as_nobody(&["doctor"]);
    assert_eq!(doctor.status, Some(1), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("cannot work here until this is mended: tracefs"), "{}", doctor.stdout);
    let list = as_nobody(&["list", "software:*"]).expect(0);
    assert!(list.stderr.contains("tracepoints cannot be listed"), "{}", list.stderr);
}

#[test]
fn files_that_are_no_traces_are_refused() {
    let place = Place::new();
    place.write("text", "hello");
    place.write("empty", "");
    place.lotse(&["report", "text"]).refused(&["text", "not a trace"]);
    place.lotse(&["info", "empty"]).refused(&["empty"]);
    place.lotse(&["report", "missing.dat"]).refused(&["missing.dat: there is no such file"]);
    // Opening a named pipe would wait for somebody who writes.
    let made = Command::new("mkfifo").arg(place.path("pipe")).status().expect("mkfifo, of coreutils");
    assert!(made.success());
    for command in ["info", "report"] {
        place.lotse(&[command, "pipe"]).refused(&["pipe: not a regular file", "saved first"]);
    }
    place.lotse(&["report", "text", "--from", "2s", "--to", "1s"]).refused(&["--from is not before --to"]);
}

#[test]
fn output_that_cannot_be_written_is_told_with_its_place() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("/dev/full, of every Linux");
    let output = Command::new(binary()).args(["man"]).stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot write to stdout: No space left"), "{said}");
}

#[test]
fn a_report_is_not_written_over_the_trace_it_is_made_from() {
    let place = Place::new();
    std::fs::create_dir(place.path("folder")).unwrap();
    for (input, output) in
        [("a.dat", "./a.dat"), ("folder", "folder/trace.dat"), ("folder", "folder/run.json")]
    {
        let file = output.trim_start_matches("./");
        place.write(file, "recorded");
        place.lotse(&["report", input, "-o", output]).refused(&[output, "would be lost", "name another"]);
        assert_eq!(std::fs::read_to_string(place.path(file)).unwrap(), "recorded");
    }
}

#[test]
fn a_cut_file_is_told_as_cut() {
    needs_recording!();
    let place = Place::new();
    place.lotse(&["record", "-q", "-e", "sched:*", "-a", "-o", "a.dat", "--", "sleep", "0.1"]).expect(0);
    place.lotse(&["report", "a.dat", "--from", "1h"]).refused(&["a.dat ends", "before --from"]);
    let whole = std::fs::read(place.path("a.dat")).unwrap();
    for share in [1, 3, 5, 7] {
        std::fs::write(place.path("cut.dat"), &whole[..whole.len() * share / 8]).unwrap();
        let output = place.lotse(&["info", "cut.dat"]);
        assert!(matches!(output.status, Some(1 | 2)), "{share}/8: {}{}", output.stdout, output.stderr);
        let said = format!("{}{}", output.stdout, output.stderr);
        assert!(said.contains("cut.dat"), "{said}");
    }
}

#[test]
fn selections_that_do_not_exist_are_refused() {
    needs_recording!();
    let place = Place::new();
    place
        .lotse(&["record", "-e", "sched:sched_switch", "--pid", "4194000", "--duration", "1s"])
        .refused(&["no process 4194000"]);
    place.lotse(&["run", "sched", "--cpu", "9999", "--duration", "1s"]).refused(&["CPU 9999", "online"]);
    place
        .lotse(&["run", "sched", "--cgroup", "/no/such/group", "--duration", "1s"])
        .refused(&["no control group", "systemd-cgls"]);
    assert_eq!(place.names(), [] as [&str; 0]);
}

#[test]
fn what_cannot_fit_is_refused_before_it_begins() {
    needs_recording!();
    let place = Place::new();
    let recipe = "version = 1\nname = \"small\"\nquestion = \"Why?\"\nanalyses = [\"sched\"]\n\
                  events = [\"sched:*\", \"irq:*\", \"timer:*\"]\n[record]\nduration = \"300d\"\nmax_disk = \"1MiB\"\n";
    place.write("small.toml", recipe);
    place.lotse(&["run", "small.toml"]).refused(&[
        "at the measured",
        "the limit is lower (1 MiB)",
        "--duration",
    ]);
    let words = ["record", "-e", "sched:sched_switch", "--ring", "4GiB", "--cpu", "0", "--", "true"];
    let memory = kernel::facts_host::HostFacts::gather().memory_bytes.unwrap_or(0);
    if memory < 8 << 30 {
        place.lotse(&words).refused(&["more than half", "--ring"]);
    }
    assert_eq!(place.names(), ["small.toml"]);
}

#[test]
fn runs_about_processes_that_do_not_exist_are_refused_before_they_begin() {
    needs_recording!();
    let place = Place::new();
    place.lotse(&["run", "sched", "--pid", "4194000"]).refused(&["no process 4194000"]);
    place.lotse(&["run", "sched", "--tid", "4194000"]).refused(&["no thread 4194000"]);
    assert_eq!(place.names(), [] as [&str; 0], "no run folder");
}

#[test]
fn threads_are_not_selected_where_their_numbers_are_not_the_events() {
    needs_recording!();
    let place = Place::new();
    let inside = |words: &[&str]| {
        Command::new("unshare")
            .args(["--pid", "--fork", "--mount-proc"])
            .arg(binary())
            .args(words)
            .current_dir(place.path("."))
            .output()
    };
    let Ok(output) = inside(&["record", "-e", "sched:sched_switch", "-o", "x.dat", "--", "true"]) else {
        testkit::skipped!("unshare (util-linux) is not installed");
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.starts_with("unshare:") {
        testkit::skipped!("no pid namespaces here: {said}");
    }
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("pid namespace") && said.contains("--pid=host"), "{said}");
    let output = inside(&["run", "sched", "--", "true"]).unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(place.names(), [] as [&str; 0], "no run folder, no trace");
    let output =
        inside(&["record", "-a", "-e", "sched:sched_switch", "-o", "all.dat", "--", "true"]).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}
