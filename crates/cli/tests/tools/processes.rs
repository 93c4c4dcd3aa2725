//! Tools of the family `processes`.

use crate::needs_tracing;
use crate::shared::{Running, tool};

#[test]
fn execsnoop_shows_each_exec_of_a_command_with_its_words() {
    needs_tracing!();
    // Three programs in one process; no other process is shown.
    let script = "exec sh -c 'exec expr 1 + 1'";
    let answer = tool(&["execsnoop", "-c", &format!("sh -c \"{script}\"")]).done();
    let rows = answer.rows();
    let lines: Vec<&str> = rows.iter().map(|row| row["args"].as_str().unwrap()).collect();
    assert_eq!(lines, [&format!("sh -c {script}"), "sh -c exec expr 1 + 1", "expr 1 + 1"]);
    let comms: Vec<&str> = rows.iter().map(|row| row["comm"].as_str().unwrap()).collect();
    assert_eq!(comms, ["sh", "sh", "expr"]);
    assert!(rows.iter().all(|row| row["pid"] == rows[0]["pid"] && row["uid"] == 0), "{rows:?}");
}

#[test]
fn execsnoop_shows_everybody_unless_told_otherwise() {
    needs_tracing!();
    let mut running = Running::start(&["execsnoop"]);
    let me = std::process::id();
    let mut child = std::process::Command::new("true").arg("marked by the test").spawn().unwrap();
    let row = running.wait_for_row(|row| row["pid"] == child.id()).expect("the row of the child");
    child.wait().unwrap();
    assert_eq!((&row["ppid"], &row["args"]), (&me.into(), &"true marked by the test".into()));
    let answer = running.stop().done();
    assert_eq!(answer.rows_with(&[("pid", child.id().into())]).len(), 1);
}
