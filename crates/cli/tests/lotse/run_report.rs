//! Whole runs: from a question to an answer, and back to it.

use std::process::Stdio;
use std::time::Duration;

use run::run_record::RunRecord;

use crate::harness::{Output, Place, json, names_in};
use crate::needs_recording;

const BUSY: &str = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";

/// The only run folder below `lotse-runs`.
#[track_caller]
fn only_run(place: &Place) -> std::path::PathBuf {
    let runs = place.path("lotse-runs");
    let names = names_in(&runs);
    assert_eq!(names.len(), 1, "{names:?}");
    runs.join(&names[0])
}

/// A run may end with 1 where others load the machine: a cross-check that differs is a
/// result, not a failure.
#[track_caller]
fn done(output: Output) -> Output {
    assert!(matches!(output.status, Some(0 | 1)), "{}", output.stderr);
    output
}

#[test]
fn a_run_keeps_everything_in_one_folder() {
    needs_recording!();
    let place = Place::new();
    let output = done(place.lotse(&["run", "sched", "--", "sh", "-c", &format!("{BUSY}; exit 7")]));
    assert!(output.stdout.starts_with("Where threads wait for the CPU\n"), "{}", output.stdout);
    assert!(output.stdout.contains("exit status 7"), "{}", output.stdout);
    let folder = only_run(&place);
    assert_eq!(names_in(&folder), ["counters.json", "report.html", "report.json", "run.json", "trace.dat"]);

    let record = RunRecord::read(&folder).unwrap();
    assert_eq!(record.command_status.unwrap().code, Some(7));
    assert_eq!(record.recipe.name, "sched");
    assert_eq!(record.ledger.lost(), 0);
    assert!(record.ledger.disagreements().is_empty());
    assert!(record.ledger.recorded() > 10);
    assert_eq!(record.host.kernel, kernel::facts_host::KernelIdentity::gather());
    assert!(record.preflight.measured.is_some());
    assert!(record.started <= record.ended && record.started.ends_with('Z'));
    for file in &record.files {
        assert_eq!(std::fs::metadata(folder.join(&file.name)).unwrap().len(), file.bytes, "{}", file.name);
    }
    assert_eq!(record.thresholds[0].metric, "lost.events");
    assert_eq!(record.thresholds[0].holds, Some(true));

    let report = json(&std::fs::read_to_string(folder.join("report.json")).unwrap());
    assert_eq!(report["lotse"]["kind"], "sched");
    let html = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(html.contains("<html") && !html.contains("src=\"http"), "self-contained");
}

#[test]
fn a_run_can_be_repeated_unchanged() {
    needs_recording!();
    let place = Place::new();
    done(place.lotse(&["run", "sched", "-q", "--ring", "2MiB", "--output", "first", "--", "sh", "-c", BUSY]));
    done(place.lotse(&["run", "first", "-q", "--output", "second"]));
    let [first, second] = ["first", "second"].map(|name| RunRecord::read(&place.path(name)).unwrap());
    assert_eq!(first.request, second.request);
    assert_eq!(first.recipe, second.recipe);
    assert_eq!(first.events, second.events);
    assert_eq!(second.preflight.ring_bytes_per_cpu, 2 << 20);
}

#[test]
fn a_report_is_made_again_from_the_folder_alone() {
    needs_recording!();
    let place = Place::new();
    let first = done(place.lotse(&["run", "sched", "-q", "--output", "r", "--", "sh", "-c", BUSY]));
    let again = done(place.lotse(&["report", "r"]));
    assert_eq!(again.status, first.status);
    assert_eq!(again.stdout, first.stdout);
    done(place.lotse(&["report", "r", "-o", "again.html"]));
    assert!(std::fs::read_to_string(place.path("again.html")).unwrap().contains("<html"));
    let markdown = done(place.lotse(&["report", "r", "--format", "markdown"])).stdout;
    assert!(markdown.starts_with("## "), "{markdown}");
    let value =
        json(&done(place.lotse(&["report", "r", "--format", "json", "--from", "1ms", "--to", "3s"])).stdout);
    assert_eq!(value["lotse"]["kind"], "sched");
}

#[test]
fn a_recipe_of_the_users_own_decides_by_its_thresholds() {
    needs_recording!();
    let place = Place::new();
    let recipe = |limit: &str| {
        format!(
            "version = 1\nname = \"mine\"\nquestion = \"Is it quick?\"\nanalyses = [\"sched\"]\n\
             events = [\"sched:sched_switch\", \"sched:sched_wak*\", {{ match = \"sched:no_such_event\", required = false }}]\n\
             [[thresholds]]\nmetric = \"wait.max\"\n{limit}\nthen = \"look at the quota\"\n"
        )
    };
    place.write("strict.toml", &recipe("at_most = \"1ns\""));
    let output = place.lotse(&["run", "strict.toml", "--", "sh", "-c", BUSY]).expect(1);
    assert!(output.stderr.contains("threshold does not hold: wait.max is "), "{}", output.stderr);
    assert!(output.stderr.contains("this kernel has no sched:no_such_event"), "{}", output.stderr);
    assert!(
        output.stdout.contains("Is it quick?") || output.stdout.contains("look at the quota"),
        "{}",
        output.stdout
    );
    let record = RunRecord::read(&only_run(&place)).unwrap();
    assert_eq!(record.thresholds[0].holds, Some(false));
    assert_eq!(record.preflight.left_out, ["sched:no_such_event"]);
}

#[test]
fn ctrl_c_ends_a_run_early_and_it_still_reports() {
    needs_recording!();
    let place = Place::new();
    let mut command = place.command(&["run", "sched", "--duration", "1m"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    // Interrupt it once its trace is under way.
    let started = wait_for(|| {
        let runs = std::fs::read_dir(place.path("lotse-runs")).ok()?;
        runs.flatten().find(|run| run.path().join("trace.dat.parts").exists())
    });
    assert!(started, "recording began");
    std::thread::sleep(Duration::from_millis(300));
    assert!(std::process::Command::new("kill").args(["-INT", &pid.to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stderr).contains("ended early"));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("Where threads wait"));
    let record = RunRecord::read(&only_run(&place)).unwrap();
    assert_eq!(record.ended_by, "signal 2");
}

fn wait_for<T>(mut found: impl FnMut() -> Option<T>) -> bool {
    for _ in 0..2000 {
        if found().is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn runs_are_listed_and_pruned_by_their_rule() {
    needs_recording!();
    let place = Place::new();
    let recipe = "version = 1\nname = \"brief\"\nquestion = \"Why?\"\nanalyses = [\"sched\"]\n\
                  events = [\"sched:sched_switch\"]\n[keep]\nruns = 1\n";
    place.write("brief.toml", recipe);
    for _ in 0..2 {
        done(place.lotse(&["run", "brief.toml", "-q", "--", "true"]));
    }
    let runs = names_in(&place.path("lotse-runs"));
    assert_eq!(runs.len(), 2);
    let value = json(&place.lotse(&["runs", "list", "--json"]).expect(0).stdout);
    assert_eq!(value["runs"].as_array().unwrap().len(), 2);
    let dry = place.lotse(&["runs", "prune", "--dry-run"]).expect(0).stdout;
    assert_eq!(dry, format!("would remove lotse-runs/{}: 1 newer runs of brief exist\n", runs[0]));
    assert_eq!(names_in(&place.path("lotse-runs")).len(), 2, "a dry run removes nothing");
    place.lotse(&["runs", "prune"]).expect(0);
    assert_eq!(names_in(&place.path("lotse-runs")), [runs[1].clone()]);
}

#[test]
fn a_selected_process_is_asked_about() {
    needs_recording!();
    let place = Place::new();
    let mut busy = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let pid = busy.id().to_string();
    let output = place.lotse(&[
        "run",
        "sched",
        "--duration",
        "400ms",
        "--pid",
        &pid,
        "--output",
        "p",
        "--format",
        "json",
    ]);
    busy.kill().unwrap();
    busy.wait().unwrap();
    let report = json(&done(output).stdout);
    let text = report.to_string();
    assert!(text.contains(&format!("\"tid\":{pid}")) || text.contains(&format!("\"tid\": {pid}")), "{text}");
    let record = RunRecord::read(&place.path("p")).unwrap();
    assert!(!record.request.narrow);
}

#[test]
fn foreign_files_are_analysed() {
    let Some(folder) = testkit::skip::foreign_traces() else {
        testkit::skipped!("no folder of trace files made elsewhere");
    };
    let place = Place::new();
    let file = folder.join("own/mix.v7.dat");
    let output = done(place.lotse(&["report", file.to_str().unwrap()]));
    assert!(output.stdout.contains("330,627 recorded"), "{}", output.stdout);
    place
        .lotse(&["report", folder.join("README.md").to_str().unwrap()])
        .refused(&["README.md", "not a trace"]);
}

#[test]
fn files_of_perf_are_read_and_both_commands_count_alike() {
    needs_recording!();
    if !testkit::skip::has_program("perf") {
        testkit::skipped!("perf is not installed");
    }
    let place = Place::new();
    let mut perf = std::process::Command::new("perf");
    perf.args(["record", "-q", "-a", "-e", "sched:*", "-o", "p.data", "--", "sleep", "0.2"]);
    place.prepare(&mut perf);
    let output = perf.output().unwrap();
    if !output.status.success() {
        testkit::skipped!("perf cannot record here: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let info = json(&place.lotse(&["info", "p.data", "--json"]).expect(0).stdout);
    let report = json(&done(place.lotse(&["report", "p.data", "--format", "json"])).stdout);
    assert!(info["survey"]["total"].as_u64().unwrap() > 0);
    assert_eq!(report["ledger"]["recorded"], info["survey"]["total"], "{}", report["ledger"]);
}

#[test]
fn a_signal_before_recording_leaves_nothing() {
    needs_recording!();
    let place = Place::new();
    // At several moments: some hit the trial, some the recording.
    for wait_ms in [5, 40, 90, 150] {
        let mut command = place.command(&["record", "-e", "sched:*", "-o", "x.dat", "--duration", "300ms"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        std::thread::sleep(Duration::from_millis(wait_ms));
        std::process::Command::new("kill").args(["-INT", &pid.to_string()]).status().unwrap();
        let output = child.wait_with_output().unwrap();
        let tracefs = kernel::tracefs::Tracefs::open().unwrap();
        let left = tracefs.root().list("instances").unwrap();
        assert!(
            !left.iter().any(|name| name.starts_with(&format!("lotse-{pid}-"))),
            "after {wait_ms} ms: {left:?}"
        );
        assert!(!place.path("x.dat.parts").exists(), "after {wait_ms} ms");
        // Killed by the signal before anything was set up, refused in the trial, or kept.
        assert!(matches!(output.status.code(), None | Some(0..=2)), "{:?}", output.status);
        let _ = std::fs::remove_file(place.path("x.dat"));
    }
}

#[test]
fn a_contradiction_of_the_kernels_counters_is_a_failure() {
    needs_recording!();
    let place = Place::new();
    done(place.lotse(&["run", "sched", "-q", "--output", "r", "--", "sh", "-c", BUSY]));
    let path = place.path("r/counters.json");
    let mut counters = json(&std::fs::read_to_string(&path).unwrap());
    let switches = counters["context_switches"].as_u64().unwrap();
    // Fewer than the trace has: no loss and no filter can explain that.
    counters["context_switches"] = (switches / 2).into();
    counters["context_switch_slack"] = 0.into();
    std::fs::write(&path, counters.to_string()).unwrap();
    let output = place.lotse(&["report", "r"]).expect(1);
    assert!(output.stderr.contains("differ for no reason known"), "{}", output.stderr);
    assert!(output.stdout.contains("context switches of the whole machine"), "{}", output.stdout);
}

#[test]
fn everybody_can_be_asked_about_while_a_command_runs() {
    needs_recording!();
    let place = Place::new();
    let rows = |words: &[&str]| {
        let report = json(&done(place.lotse(words)).stdout);
        report["data"]["threads"]["rows"].as_array().unwrap().len()
    };
    let command = ["--format", "json", "--", "sleep", "0.3"];
    let alone = rows(&[&["run", "sched", "-q"][..], &command].concat());
    let all = rows(&[&["run", "sched", "-q", "--all"][..], &command].concat());
    assert!(alone <= 2 && all > alone, "{alone} {all}");
}

/// Two processes on two CPUs: `server` [10] with a thread [11], `client` [20], which starts [21].
const TWO_PROCESSES: &str = "\
# tracer: nop
          <idle>-0     (-----) [000] d..2.   100.000100: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=server next_pid=10 next_prio=120
          <idle>-0     (-----) [001] d..2.   100.000110: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=client next_pid=20 next_prio=120
          server-10    (   10) [000] d..2.   100.000200: sched_switch: prev_comm=server prev_pid=10 prev_prio=120 prev_state=R ==> next_comm=worker/1 next_pid=11 next_prio=120
          client-20    (   20) [001] d..2.   100.000210: sched_process_fork: comm=client pid=20 child_comm=client child_pid=21
          client-20    (   20) [001] d..2.   100.000220: sched_switch: prev_comm=client prev_pid=20 prev_prio=120 prev_state=R ==> next_comm=child next_pid=21 next_prio=120
        worker/1-11    (   10) [000] d..2.   100.000300: sched_switch: prev_comm=worker/1 prev_pid=11 prev_prio=120 prev_state=R ==> next_comm=server next_pid=10 next_prio=120
           child-21    (   21) [001] d..2.   100.000340: sched_switch: prev_comm=child prev_pid=21 prev_prio=120 prev_state=R ==> next_comm=client next_pid=20 next_prio=120
          server-10    (   10) [000] d..2.   100.000400: sched_switch: prev_comm=server prev_pid=10 prev_prio=120 prev_state=S ==> next_comm=worker/1 next_pid=11 next_prio=120
          client-20    (   20) [001] d..2.   100.000410: sched_switch: prev_comm=client prev_pid=20 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
        worker/1-11    (   10) [000] d..2.   100.000500: sched_switch: prev_comm=worker/1 prev_pid=11 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
";

#[test]
fn a_report_is_narrowed_by_process_thread_name_and_cpu() {
    let place = Place::new();
    place.write("two.txt", TWO_PROCESSES);
    let threads = |options: &[&str]| {
        let words = [&["report", "two.txt", "--format", "json"], options].concat();
        let report = json(&done(place.lotse(&words)).stdout);
        let rows = report["data"]["threads"]["rows"].as_array().unwrap().clone();
        let mut tids: Vec<u64> = rows.iter().map(|row| row["tid"].as_u64().unwrap()).collect();
        tids.sort_unstable();
        (tids, rows.iter().map(|row| row["waits"].as_u64().unwrap()).sum::<u64>())
    };
    let everybody = threads(&[]);
    assert_eq!(everybody.0, [10, 11, 20, 21]);
    for (options, expected) in [
        (&["--pid", "10"][..], &[10, 11][..]),
        (&["--tid", "10"], &[10]),
        // With what they start.
        (&["--tid", "20"], &[20, 21]),
        (&["--pid", "20"], &[20, 21]),
        (&["--comm", "client"], &[20, 21]),
        (&["--comm", "c*d"], &[21]),
        (&["--comm", "worker/?,serv*"], &[10, 11]),
        (&["--cpu", "1"], &[20, 21]),
        (&["--cpu", "0", "--comm", "*er*"], &[10, 11]),
        (&["--pid", "10", "--comm", "worker*"], &[11]),
        (&["--pid", "10,20", "--cpu", "0-1"], &[10, 11, 20, 21]),
    ] {
        assert_eq!(threads(options).0, expected, "{options:?}");
    }
    assert_eq!(threads(&["--cpu", "0-1"]), everybody);
    place.lotse(&["report", "two.txt", "--pid", "10", "--cpu", "1"]).refused(&["two.txt", "no thread fits"]);
    place.lotse(&["report", "two.txt", "--comm", "nobody"]).refused(&["no thread fits", "4 threads"]);
}
