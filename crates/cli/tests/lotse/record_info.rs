//! Raw recordings and what is said about files.

use crate::harness::{Place, json};
use crate::needs_recording;

#[test]
fn a_command_is_recorded_and_the_file_tells_what_is_in_it() {
    needs_recording!();
    let place = Place::new();
    let output = place
        .lotse(&[
            "record",
            "-e",
            "sched:sched_switch,sched:sched_process_*",
            "-o",
            "a.dat",
            "--",
            "sh",
            "-c",
            "true; exit 3",
        ])
        .expect(0);
    assert!(output.stderr.contains("measured "), "{}", output.stderr);
    assert!(output.stderr.contains("rings of "), "{}", output.stderr);
    assert!(output.stderr.contains("the command failed: exit status 3"), "{}", output.stderr);
    assert_eq!(output.stdout, "", "the command printed nothing, and neither does lotse");
    assert_eq!(place.names(), ["a.dat"]);

    let value = json(&place.lotse(&["info", "a.dat", "--json"]).expect(0).stdout);
    let events = value["survey"]["events"].as_array().unwrap();
    let exit =
        events.iter().find(|event| event["name"] == "sched:sched_process_exit").expect("the shell exits");
    assert!(exit["count"].as_u64().unwrap() >= 1);
    let text = place.lotse(&["info", "a.dat"]).expect(0).stdout;
    assert!(
        text.contains("trace.dat v7") && text.contains("sched:sched_switch") && text.contains("mono"),
        "{text}"
    );
}

#[test]
fn the_trace_is_what_trace_cmd_reads() {
    needs_recording!();
    if !testkit::skip::has_program("trace-cmd") {
        testkit::skipped!("trace-cmd is not installed");
    }
    let place = Place::new();
    place.lotse(&["record", "-e", "sched:*", "-o", "a.dat", "-q", "--", "sleep", "0.05"]).expect(0);
    let value = json(&place.lotse(&["info", "a.dat", "--json"]).expect(0).stdout);
    let report = std::process::Command::new("trace-cmd")
        .args(["report", "-i"])
        .arg(place.path("a.dat"))
        .output()
        .unwrap();
    let lines =
        String::from_utf8_lossy(&report.stdout).lines().filter(|line| line.contains(": ")).count() as u64;
    assert_eq!(value["survey"]["total"].as_u64().unwrap(), lines);
}

#[test]
fn quiet_says_nothing_and_filters_filter() {
    needs_recording!();
    let place = Place::new();
    let words = [
        "record",
        "-q",
        "-e",
        "sched:sched_waking",
        "--filter",
        "prio < -1",
        "--duration",
        "200ms",
        "-o",
        "f.dat",
    ];
    let output = place.lotse(&words).expect(0);
    assert_eq!(output.stderr, "");
    let value = json(&place.lotse(&["info", "f.dat", "--json"]).expect(0).stdout);
    assert_eq!(value["survey"]["total"], 0, "no priority is below -1");
}

#[test]
fn one_cpu_alone_is_recorded() {
    needs_recording!();
    let place = Place::new();
    place
        .lotse(&[
            "record",
            "-q",
            "-e",
            "sched:sched_switch",
            "--cpu",
            "0",
            "--duration",
            "200ms",
            "-o",
            "c.dat",
        ])
        .expect(0);
    let value = json(&place.lotse(&["info", "c.dat", "--json"]).expect(0).stdout);
    let cpus: Vec<u64> =
        value["survey"]["cpus"].as_array().unwrap().iter().map(|cpu| cpu["cpu"].as_u64().unwrap()).collect();
    assert!(cpus.iter().all(|&cpu| cpu == 0), "{cpus:?}");
}

#[test]
fn files_of_others_are_described() {
    let Some(folder) = testkit::skip::foreign_traces() else {
        testkit::skipped!("no folder of trace files made elsewhere");
    };
    let file = folder.join("own/mix.v7.dat");
    let output = Place::new().lotse(&["info", file.to_str().unwrap(), "--json"]).expect(0);
    assert_eq!(json(&output.stdout)["survey"]["total"], 330_627);
}

#[test]
fn what_a_killed_recorder_left_is_made_readable() {
    needs_recording!();
    let place = Place::new();
    let words = ["record", "-q", "-e", "sched:*", "--ring", "1MiB", "-o", "k.dat"];
    let mut child = place.command(&words).spawn().unwrap();
    let pages = |place: &Place| -> u64 {
        let folder = place.path("k.dat.parts");
        let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
        entries
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|kind| kind == "pages"))
            .filter_map(|entry| entry.metadata().ok())
            .map(|m| m.len())
            .sum()
    };
    // Pages reach the disk at least once a second.
    for _ in 0..4000 {
        if pages(&place) > 100_000 {
            break;
        }
        let _ = std::process::Command::new("true").status();
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    place.lotse(&["info", "k.dat"]).refused(&["still being recorded"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let output = place.lotse(&["info", "k.dat"]).expect(1);
    assert!(output.stderr.contains("the recorder was killed"), "{}", output.stderr);
    assert!(output.stdout.contains("cut"), "{}", output.stdout);
    assert_eq!(place.names(), ["k.dat"]);
    // The next recording removes what the dead one left in the kernel.
    let next = place.lotse(&["record", "-e", "sched:sched_switch", "-o", "n.dat", "--", "true"]).expect(0);
    let swept = next.stderr.contains(&format!("lotse-{}-", child.id()));
    let gone = !kernel::tracefs::Tracefs::open()
        .unwrap()
        .root()
        .list("instances")
        .unwrap()
        .iter()
        .any(|name| name.starts_with(&format!("lotse-{}-", child.id())));
    assert!(swept || gone, "{}", next.stderr);
    assert!(gone);
}

#[test]
fn a_flight_recording_is_saved_when_its_trigger_comes() {
    needs_recording!();
    let place = Place::new();
    let name = format!("lotse{}", std::process::id() % 100_000);
    let filter = format!("comm == \"{name}\"");
    let words = [
        "record",
        "-e",
        "sched:sched_switch,sched:sched_process_*",
        "--flight",
        "--trigger",
        "sched:sched_process_exit",
        "--trigger-filter",
        &filter,
        "--after",
        "50ms",
        "--duration",
        "20s",
        "-o",
        "f.dat",
    ];
    let mut child = place.command(&words).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let begun = std::time::Instant::now();
    // Threads of that name end until one of them has triggered it.
    while child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed().as_secs() < 19, "it was triggered");
        let ended = std::thread::Builder::new().name(name.clone()).spawn(|| {}).unwrap();
        ended.join().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let value = json(&place.lotse(&["info", "f.dat", "--json"]).expect(0).stdout);
    let events = value["survey"]["events"].as_array().unwrap();
    assert!(events.iter().any(|event| event["name"] == "sched:sched_process_exit"), "{events:?}");
}

#[test]
fn what_filters_refuse_is_counted_when_asked() {
    needs_recording!();
    let place = Place::new();
    let words = [
        "record",
        "--verbose",
        "-e",
        "sched:sched_process_exit",
        "--filter",
        "prio < -1",
        "--count-filtered",
        "-a",
        "-o",
        "c.dat",
        "--",
        "sh",
        "-c",
        "(true); (true); (true)",
    ];
    let output = place.lotse(&words).expect(0);
    let line =
        output.stderr.lines().find(|line| line.contains("events were filtered out")).expect("the count");
    let count: u64 = line.split_whitespace().find_map(|word| word.replace(',', "").parse().ok()).unwrap();
    assert!(count >= 4, "{line}");
}
