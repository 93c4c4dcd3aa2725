//! Tools of the family `scheduler`.

use crate::needs_tracing;
use crate::shared::{counted, tool, tool_text};

/// Sleeps so many times; each ends with a wakeup and a wait for a CPU.
fn sleeper(times: u32) -> String {
    format!("perl -e 'select(undef, undef, undef, 0.002) for 1..{times}'")
}

#[test]
fn runqlat_counts_a_wait_for_each_wakeup() {
    needs_tracing!();
    let answer = tool(&["runqlat", "-c", &sleeper(50)]).done();
    let count = counted(answer.map("@usecs"));
    // Each sleep ends with one; a busy machine adds preemptions, exec a few waits.
    assert!((50..500).contains(&count), "{count}");
    assert_eq!(answer.percentiles("@usecs", None)["count"], count);
    assert!(answer.map("@_woken").is_null(), "a tool's memory is not printed");
}

#[test]
fn runqlat_tells_processes_apart() {
    needs_tracing!();
    let answer = tool(&["runqlat", "--by=comm", "-c", &sleeper(50)]).done();
    let names: Vec<&String> = answer.map("@usecs").as_object().unwrap().keys().collect();
    assert!(names.iter().any(|name| *name == "perl"), "{names:?}");
    assert!(counted(&answer.map("@usecs")["perl"]) >= 50);
}

#[test]
fn unknown_names_and_options_are_told_with_what_there_is() {
    let (status, out, err) = tool_text(&["runqlatt"]);
    assert_eq!((status, out.as_str()), (Some(2), ""));
    assert!(err.contains("did you mean runqlat"), "{err}");
    let (status, _, err) = tool_text(&["runqlat", "--bye", "comm"]);
    assert_eq!(status, Some(2));
    assert!(err.contains("'--by'"), "{err}");
    let (status, out, _) = tool_text(&["runqlat", "--help"]);
    assert_eq!(status, Some(0));
    assert!(out.contains("how long do threads wait") && out.contains("--by=VALUE"), "{out}");
}
