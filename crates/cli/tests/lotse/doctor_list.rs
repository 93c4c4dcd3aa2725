//! What the host lets one trace, and what there is to trace.

use crate::harness::{Place, json};
use crate::needs_recording;

#[test]
fn doctor_says_what_each_finding_means_and_what_mends_it() {
    let output = Place::new().lotse(&["doctor"]);
    assert!(matches!(output.status, Some(0 | 1)), "{}", output.stderr);
    for what in
        ["tracefs", "BTF", "perf_event_paranoid", "kptr_restrict", "lockdown", "clock", "hardware counters"]
    {
        assert!(output.stdout.contains(what), "{what} in:\n{}", output.stdout);
    }
}

#[test]
fn doctor_in_json_has_facts_and_findings_that_agree_with_its_status() {
    let output = Place::new().lotse(&["doctor", "--json"]);
    let value = json(&output.stdout);
    assert_eq!(value["lotse"]["schema"], 1);
    assert_eq!(value["host"]["kernel"]["release"], kernel::facts_host::KernelIdentity::gather().release);
    let findings = value["findings"].as_array().unwrap();
    assert!(findings.len() >= 20);
    let mut bad = false;
    for finding in findings {
        let level = finding["level"].as_str().unwrap();
        bad |= level == "failed";
        let mended = finding["remedy"].is_string() || !matches!(level, "failed" | "warning");
        assert!(mended, "a {level} needs a remedy: {finding}");
    }
    assert_eq!(output.status, Some(i32::from(bad)));
}

#[test]
fn the_whole_list_comes_fast_and_plain() {
    needs_recording!();
    let place = Place::new();
    // CPU time, since the wall clock also counts whatever else runs here.
    #[expect(clippy::zombie_processes, reason = "waited for with its usage")]
    let child = place.command(&["list"]).stdout(std::process::Stdio::null()).spawn().unwrap();
    let (status, usage) = kernel::usage::wait_with_usage(&child).unwrap();
    assert!(status.success());
    let used = usage.user + usage.system;
    assert!(used.as_millis() < 100, "{used:?}");
    let list = place.lotse(&["list"]).expect(0).stdout;
    assert!(list.lines().any(|line| line == "tracepoint:sched:sched_switch"));
    assert!(list.lines().any(|line| line == "software:cpu-clock"));
    assert!(list.lines().all(|line| !line.contains(' ')));
}

#[test]
fn fields_are_those_of_the_kernels_format_file() {
    needs_recording!();
    let place = Place::new();
    let text = place.lotse(&["list", "sched:sched_switch", "-v"]).expect(0).stdout;
    assert!(text.starts_with("tracepoint:sched:sched_switch\n"), "{text}");
    let value = json(&place.lotse(&["list", "sched:sched_switch", "--json"]).expect(0).stdout);
    let event = &value["events"][0];
    let tracefs = kernel::tracefs::Tracefs::open().unwrap();
    let name = kernel::tracefs::EventName::parse("sched:sched_switch").unwrap();
    let format = tracefs.format(&name).unwrap();
    for field in event["fields"].as_array().unwrap() {
        let number = |key: &str| field[key].as_u64().unwrap();
        let signed = u8::from(field["signed"].as_bool().unwrap());
        let expected = format!(
            "field:{} {};\toffset:{};\tsize:{};\tsigned:{signed};",
            field["type"].as_str().unwrap(),
            field["name"].as_str().unwrap(),
            number("offset"),
            number("size")
        );
        assert!(format.contains(&expected), "{expected} in {format}");
    }
}

#[test]
fn raw_tracepoints_have_their_arguments() {
    if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        testkit::skipped!("this kernel has no BTF");
    }
    let text = Place::new().lotse(&["list", "rawtracepoint:sched_switch", "-v"]).expect(0).stdout;
    assert!(text.contains("    struct task_struct *next;\n"), "{text}");
}

#[test]
fn nothing_found_comes_with_what_may_be_meant() {
    needs_recording!();
    let place = Place::new();
    place.lotse(&["list", "sched:sched_swich"]).refused(&[
        "no event matches",
        "did you mean",
        "sched:sched_switch",
    ]);
    place
        .lotse(&["list", "qqqqqqqqqq"])
        .refused(&["no event matches `qqqqqqqqqq`", "`lotse list` shows all"]);
}

#[test]
fn tools_are_listed_with_their_questions() {
    let place = Place::new();
    let all = place.lotse(&["list", "tools"]).expect(0).stdout;
    assert!(all.lines().any(|line| line.starts_with("runqlat ") && line.ends_with('?')), "{all}");
    let some = json(&place.lotse(&["list", "tools", "run*", "--json"]).expect(0).stdout);
    let names: Vec<&str> =
        some["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"runqlat") && names.iter().all(|name| name.starts_with("run")), "{names:?}");
    assert_eq!(some["tools"][0]["family"], "scheduler");
    place.lotse(&["list", "tools", "nothing*"]).refused(&["no tool matches"]);
    place.lotse(&["list", "sched:*", "more"]).refused(&["one pattern at a time"]);
}
