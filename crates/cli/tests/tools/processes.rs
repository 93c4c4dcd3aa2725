//! Tools of the family `processes`.

use std::process::Command;

use serde_json::{Value, json};

use crate::load::Folder;
use crate::shared::{Running, tool};
use crate::{load, needs_tracing};

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
    let mut child = Command::new("true").arg("marked by the test").spawn().unwrap();
    let row = running.wait_for_row(|row| row["pid"] == child.id()).expect("the row of the child");
    child.wait().unwrap();
    assert_eq!((&row["ppid"], &row["args"]), (&me.into(), &"true marked by the test".into()));
    let answer = running.stop().done();
    assert_eq!(answer.rows_with(&[("pid", child.id().into())]).len(), 1);
}

#[test]
fn exitsnoop_tells_code_signal_and_age_once_for_each_process() {
    needs_tracing!();
    let mut running = Running::start(&["exitsnoop"]);
    let run = |words: &[&str]| {
        let mut child = Command::new(words[0]).args(&words[1..]).spawn().unwrap();
        child.wait().unwrap();
        child.id()
    };
    let code = run(&["sh", "-c", "exit 3"]);
    let killed = run(&["sh", "-c", "kill -9 $$"]);
    let slept = run(&["sleep", "0.2"]);
    running.wait_for_row(|row| row["pid"] == slept);
    let answer = running.stop().done();
    let one = |pid: u32| match answer.rows_with(&[("pid", pid.into())]).as_slice() {
        [row] => (*row).clone(),
        rows => panic!("{rows:?}"),
    };
    let me = std::process::id();
    assert_eq!(
        (&one(code)["code"], &one(code)["signal"], &one(code)["ppid"]),
        (&json!(3), &json!(0), &json!(me))
    );
    assert_eq!((&one(killed)["code"], &one(killed)["signal"]), (&json!(0), &json!("SIGKILL")));
    assert_eq!(one(slept)["comm"], "sleep");
    assert!(one(slept)["age_ms"].as_u64().unwrap() >= 200, "{}", one(slept));
}

const THREADS: &str = "void *worker(void *p) { return 0; }";

#[test]
fn threads_are_shown_when_they_start_and_end() {
    needs_tracing!();
    let folder = Folder::new();
    let program = load!(
        &folder,
        THREADS,
        "TIMES(3) { pthread_t t; pthread_create(&t, 0, worker, 0); pthread_join(t, 0); }"
    );
    let answer = tool(&["exitsnoop", "-c", &program]).done();
    assert_eq!(answer.rows().len(), 1, "{:?}", answer.rows());
    let answer = tool(&["exitsnoop", "--threads", "-c", &program]).done();
    assert_eq!(answer.rows().len(), 4, "{:?}", answer.rows());
    let answer = tool(&["threadsnoop", "-c", &program]).done();
    let rows = answer.rows();
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert!(rows.iter().all(|row| row["tid"] != row["pid"] && row["by"] == row["pid"]), "{rows:?}");
    assert!(rows.iter().all(|row| row["start"] == "worker"), "{rows:?}");
}

#[test]
fn pidpersec_counts_processes_and_threads() {
    needs_tracing!();
    let folder = Folder::new();
    let program = load!(
        &folder,
        THREADS,
        "TIMES(20) { if (!fork()) _exit(0); wait(0); }
         TIMES(5) { pthread_t t; pthread_create(&t, 0, worker, 0); pthread_join(t, 0); }"
    );
    let answer = tool(&["pidpersec", "-c", &program]).done();
    let sum = |field: &str| answer.rows().iter().filter_map(|row| row[field].as_u64()).sum::<u64>();
    assert_eq!((sum("processes"), sum("threads"), sum("execs")), (20, 5, 1), "{:?}", answer.rows());
}

#[test]
fn killsnoop_tells_sender_target_and_result() {
    needs_tracing!();
    let folder = Folder::new();
    let program = load!(
        &folder,
        "kill(getpid(), 0);
         kill(0x3ffffffe, SIGTERM);
         pid_t child = fork(); if (!child) { pause(); _exit(0); }
         kill(child, SIGKILL); waitpid(child, 0, 0);
         signal(SIGUSR1, SIG_IGN); syscall(SYS_tgkill, getpid(), getpid(), SIGUSR1);"
    );
    let answer = tool(&["killsnoop", "-c", &program]).done();
    let rows = answer.rows();
    let told: Vec<_> =
        rows.iter().map(|row| (row["signal"].clone(), row["error"].clone(), row["tasks"].clone())).collect();
    let expected = [
        (json!(0), json!(0), json!(0)),
        (json!("SIGTERM"), json!("ESRCH"), json!(0)),
        (json!("SIGKILL"), json!(0), json!(1)),
        (json!("SIGUSR1"), json!(0), json!(0)),
    ];
    assert_eq!(told, expected);
    assert_eq!((&rows[1]["target"], &rows[2]["target_comm"]), (&json!(0x3fff_fffe), &json!("load")));
    let answer = tool(&["killsnoop", "--signal=KILL", "-c", &program]).done();
    assert_eq!(answer.rows().len(), 1);
}

#[test]
fn setuids_shows_ids_before_and_after() {
    needs_tracing!();
    let folder = Folder::new();
    let program = load!(
        &folder,
        "NEEDS(syscall(SYS_setresgid, 3, 4, 5) == 0); NEEDS(syscall(SYS_setresuid, 1, 2, 3) == 0);
         NEEDS(syscall(SYS_setuid, 77) == -1);"
    );
    let answer = tool(&["setuids", "-c", &program]).done();
    let fields =
        |row: &Value| ["call", "was", "real", "effective", "saved", "error"].map(|name| row[name].clone());
    let told: Vec<_> = answer.rows().iter().map(|row| fields(row)).collect();
    let expected = [
        [json!("setresgid"), json!(0), json!(3), json!(4), json!(5), json!(0)],
        [json!("setresuid"), json!(0), json!(1), json!(2), json!(3), json!(0)],
        [json!("setuid"), json!(2), json!(1), json!(2), json!(3), json!("EPERM")],
    ];
    assert_eq!(told, expected);
}

#[test]
fn capable_tells_what_is_granted_and_refused() {
    needs_tracing!();
    let folder = Folder::new();
    let program = load!(
        &folder,
        "TIMES(3) NEEDS(setpriority(PRIO_PROCESS, 0, -1 - i_) == 0);
         NEEDS(syscall(SYS_setresuid, 1, 1, 1) == 0);
         TIMES(4) NEEDS(sethostname(\"x\", 1) == -1);"
    );
    let answer = tool(&["capable", "-c", &program]);
    if answer.status == Some(2) && answer.stderr.contains("needs fentry or kprobes") {
        testkit::skipped!("this kernel tells no capability checks");
    }
    let answer = answer.done();
    let number =
        |cap: &str, refused: Value| answer.rows_with(&[("cap", cap.into()), ("refused", refused)]).len();
    assert_eq!(number("CAP_SYS_NICE", json!(0)), 3, "{:?}", answer.rows());
    assert_eq!(number("CAP_SETUID", json!(0)), 1, "{:?}", answer.rows());
    assert_eq!(number("CAP_SETUID", json!("EPERM")), 0);
    assert_eq!(number("CAP_SYS_ADMIN", json!("EPERM")), 4, "{:?}", answer.rows());
    let answer = tool(&["capable", "--unique", "--refused", "-c", &program]).done();
    assert_eq!(answer.rows_with(&[("cap", "CAP_SYS_ADMIN".into())]).len(), 1);
}
