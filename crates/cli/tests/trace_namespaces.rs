//! Process numbers in a pid namespace: a trace inside of it sees the numbers that processes there have, and the
//! host's on request; a trace outside sees the host's.

// What is skipped is said on stdout, where the test runner's list finds it.
#![allow(clippy::print_stdout)]

use std::process::Command;

/// What a shell script prints in a pid namespace of its own, with `$LOTSE` the binary; none where there is none.
fn inside(script: &str) -> Option<String> {
    if kernel::facts::LiveFacts::new().tracefs().is_none() {
        testkit::skip::note("trace_namespaces", "tracing is not allowed here");
        return None;
    }
    let unshare = ["--pid", "--fork", "--mount-proc", "sh", "-c"];
    if !Command::new("unshare").args(unshare).arg("true").status().is_ok_and(|status| status.success()) {
        testkit::skip::note("trace_namespaces", "no pid namespace can be made here");
        return None;
    }
    let output = Command::new("unshare")
        .args(unshare)
        .arg(script)
        .env("LOTSE", env!("CARGO_BIN_EXE_lotse"))
        .output()
        .unwrap();
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    Some(text.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n"))
}

#[test]
fn a_trace_inside_sees_its_own_numbers_and_the_hosts_on_request() {
    let program = r#"begin { printf("%d %d %d %d\n", pid, tid, pid(init) > 1000 || pid(init) > pid, tid(init) == pid(init)); exit(); }"#;
    let Some(text) = inside(&format!("exec \"$LOTSE\" trace -q -e '{program}'")) else { return };
    assert_eq!(text, "1 1 1 1");
}

#[test]
fn the_command_of_a_trace_inside_has_its_number_there() {
    let program = "tracepoint:syscalls:sys_enter_write /pid == cpid && args.fd == 1/ { @[pid, tid, pid(init) == pid] = count(); }";
    let command = "dd if=/dev/zero of=/dev/null bs=1 count=7 status=none";
    let Some(text) = inside(&format!("exec \"$LOTSE\" trace -q -e '{program}' -c '{command}'")) else {
        return;
    };
    let (key, count) = text.split_once("]: ").unwrap_or_else(|| panic!("{text}"));
    assert_eq!(count, "7");
    let numbers: Vec<&str> = key.trim_start_matches("@[").split(", ").collect();
    // The tracer is 1; its command one of the next.
    assert!(numbers[0].parse::<u32>().is_ok_and(|pid| (2..10).contains(&pid)), "{text}");
    assert_eq!((numbers[0], numbers[2]), (numbers[1], "false"), "{text}");
}

/// `--pid` takes the number that a process has where the trace is.
#[test]
fn filters_take_the_numbers_of_the_namespace() {
    let script = r#"
        (sleep 1; exec dd if=/dev/zero of=/dev/null bs=1 count=9 status=none) & writer=$!
        "$LOTSE" trace -q -e 'tracepoint:syscalls:sys_enter_write /args.fd == 1/ { @[pid] = count(); }' --pid $writer -c "tail --pid=$writer -f /dev/null"
        echo "writer $writer""#;
    let Some(text) = inside(script) else { return };
    let writer =
        text.lines().find_map(|line| line.strip_prefix("writer ")).unwrap_or_else(|| panic!("{text}"));
    assert_eq!(text, format!("@[{writer}]: 9\nwriter {writer}"));
}

#[test]
fn a_trace_outside_sees_the_hosts_numbers() {
    let program = "tracepoint:syscalls:sys_enter_write /comm == \"dd\" && args.fd == 1/ { @[pid > 2] = count(); @ns[pid == pid(init)] = count(); }";
    if inside("true").is_none() {
        return;
    }
    let command = "unshare --pid --fork --mount-proc dd if=/dev/zero of=/dev/null bs=1 count=5 status=none";
    let output = Command::new(env!("CARGO_BIN_EXE_lotse"))
        .args(["trace", "-q", "-e", program, "-c", command])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, ["@[true]: 5", "@ns[true]: 5"], "{text}");
}

/// Stacks of a process in a namespace are named by its files there.
#[test]
fn user_stacks_inside_have_names() {
    let program =
        "tracepoint:syscalls:sys_enter_write /pid == cpid && args.fd == 1/ { @[ustack(1)] = count(); }";
    let command = "dd if=/dev/zero of=/dev/null bs=1 count=3 status=none";
    let Some(text) = inside(&format!("exec \"$LOTSE\" trace -q -e '{program}' -c '{command}'")) else {
        return;
    };
    assert!(text.contains("write+") && text.ends_with("]: 3"), "{text}");
}
