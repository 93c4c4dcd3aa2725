//! Programs with the output that they must have, where bpftrace 0.17 has another or has not got the
//! function; losses, exits, errors.

use std::process::{Command, Output, Stdio};

fn trace(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lotse")).arg("trace").args(arguments).output().unwrap()
}

/// What a program prints, without the blank lines before the maps.
#[track_caller]
fn printed(arguments: &[&str]) -> String {
    let output = trace(&[&["-q"], arguments].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some(), "{stderr}");
    let text = String::from_utf8(output.stdout).unwrap();
    let text = text.replace("\n\n\n", "\n");
    assert!(!text.is_empty() || !stderr.is_empty());
    format!("{}{stderr}", text.trim_start_matches('\n'))
}

fn cannot_trace() -> bool {
    if kernel::facts::LiveFacts::new().tracefs().is_some() {
        return false;
    }
    testkit::skip::note("trace_language", "tracing is not allowed here");
    true
}

#[test]
fn numbers_have_the_right_signs_and_widths() {
    if cannot_trace() {
        return;
    }
    let program =
        r#"BEGIN { printf("%d %u %d %%\n", (int32)-1, (uint8)255, (uint64)18446744073709551615); exit(); }"#;
    assert_eq!(printed(&["-e", program]), "-1 255 18446744073709551615 %\n");
    let program = "BEGIN { @min = min(-5); @max = max(-5); @avg = avg(-6); @avg = avg(-8); exit(); }";
    assert_eq!(printed(&["-e", program]), "@avg: -7\n@max: -5\n@min: -5\n");
    let program = "BEGIN { @ = hist(10737418240); exit(); }";
    assert!(printed(&["-e", program]).starts_with("@:\n[8G, 16G)              1 |@"));
}

#[test]
fn the_exit_code_is_the_programs() {
    if cannot_trace() {
        return;
    }
    assert_eq!(trace(&["-e", "BEGIN { exit(7); }"]).status.code(), Some(7));
    assert_eq!(trace(&["-e", "BEGIN { exit(); }"]).status.code(), Some(0));
    assert_eq!(trace(&["-e", "BEGIN { nothing("]).status.code(), Some(2));
    assert_eq!(trace(&["-e", "tracepoint:no:such { }"]).status.code(), Some(2));
}

#[test]
fn a_full_map_says_what_it_refused_and_how_to_mend_it() {
    if cannot_trace() {
        return;
    }
    let program = "config = { max_map_keys = 10 } BEGIN { for ($i : 0..100) { @m[$i] = $i; } exit(); }";
    let output = trace(&["-q", "-e", program]);
    let (out, talk) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(out.lines().filter(|line| line.starts_with("@m[")).count(), 10, "{out}");
    assert!(talk.contains("90 updates of @m (stdin:1:"), "{talk}");
    assert!(talk.contains("max_map_keys"), "{talk}");
}

#[test]
fn a_full_ring_counts_every_record_it_lost() {
    if cannot_trace() {
        return;
    }
    // One page of ring, and nobody reads before BEGIN is over.
    let program =
        r#"config = { perf_rb_pages = 1 } BEGIN { for ($i : 0..1000) { printf("%d\n", $i); } exit(); }"#;
    let output = trace(&["-e", program, "--duration", "100ms"]);
    let (out, talk) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let printed = out.lines().filter(|line| line.parse::<u32>().is_ok()).count() as u64;
    let lost: u64 = out
        .lines()
        .find_map(|line| line.strip_prefix("Lost ")?.strip_suffix(" events")?.parse().ok())
        .unwrap_or_else(|| panic!("{out}{talk}"));
    // The exit record may be among the lost.
    assert!(printed > 0 && (printed + lost == 1000 || printed + lost == 1001), "{printed} + {lost}");
    assert!(talk.contains("perf_rb_pages"), "{talk}");
}

#[test]
fn strings_up_to_the_limit_come_whole_and_longer_ones_with_a_trailer() {
    if cannot_trace() {
        return;
    }
    let long = "x".repeat(600);
    assert_eq!(
        printed(&["-e", r#"BEGIN { printf("%s %s\n", str($1), str($1)); exit(); }"#, &long]),
        format!("{long} {long}\n")
    );
    let program = r#"config = { max_strlen = 8 } tracepoint:syscalls:sys_enter_openat /pid == cpid && comm == "cat"/ { printf("%s\n", str(args.filename)); }"#;
    let cut = printed(&["-e", program, "-c", "cat /etc/hostname"]);
    // The loader's own strings may not be in memory yet; the argument of the command is.
    let of_argument = |line: &str| line.starts_with("/etc/h") && line.ends_with("..") && line.len() <= 10;
    assert!(cut.lines().any(of_argument), "{cut}");
}

#[test]
fn a_commands_own_events_are_counted_exactly() {
    if cannot_trace() {
        return;
    }
    let command = "dd if=/dev/zero of=/dev/null bs=1 count=500 status=none";
    for options in [&[][..], &["--plain-tracepoints"][..]] {
        let program = r#"tracepoint:syscalls:sys_enter_write /comm == "dd" && args.fd == 1/ { @writes = count(); @bytes = sum(args.count); }"#;
        let arguments = [&["-e", program, "-c", command][..], options].concat();
        assert_eq!(printed(&arguments), "@bytes: 500\n@writes: 500\n", "{options:?}");
    }
}

#[test]
fn every_tracepoint_of_a_probe_is_attached() {
    if cannot_trace() {
        return;
    }
    let command = "dd if=/dev/zero of=/dev/null bs=1 count=50 status=none";
    for options in [&[][..], &["--plain-tracepoints"][..]] {
        let program = r#"
            tracepoint:syscalls:sys_exit_write, tracepoint:syscalls:sys_enter_write,
            tracepoint:syscalls:sys_enter_dup3, tracepoint:syscalls:sys_enter_dup2 /pid == cpid/ { @[probe] = count(); }
            rawtracepoint:sys_exit, rawtracepoint:sys_enter /pid == cpid/ { @raw[probe] = count(); }"#;
        let text = printed(&[&["-e", program, "-c", command][..], options].concat());
        for call in ["sys_enter_write]: 50\n", "sys_exit_write]: 50\n", "sys_enter_dup2]: 2\n"] {
            assert!(text.contains(&format!("@[tracepoint:syscalls:{call}")), "{options:?}: {text}");
        }
        assert!(text.contains("@raw[rawtracepoint:sys_enter]: "), "{text}");
        assert!(text.contains("@raw[rawtracepoint:sys_exit]: "), "{text}");
    }
}

#[test]
fn only_a_probes_own_events_are_counted_as_seen() {
    if cannot_trace() {
        return;
    }
    // Served by the raw tracepoint that all system calls share; dd's 40 000 other calls are not its events.
    let program = r#"tracepoint:syscalls:sys_enter_dup2 /pid == cpid/ { @ = count(); }"#;
    let command = "dd if=/dev/zero of=/dev/null bs=1 count=20000 status=none";
    let output = trace(&["-v", "-e", program, "-c", command]);
    let account = String::from_utf8_lossy(&output.stderr);
    let line = account.lines().find(|line| line.contains(": seen ")).unwrap();
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [seen, kept, filtered] = numbers[..] else { panic!("{line}") };
    assert!(kept == 2 && seen == kept + filtered && seen < 20_000, "{line}");
}

#[test]
fn process_ids_are_those_of_the_tracers_namespace() {
    if cannot_trace() {
        return;
    }
    let unshare = |words: &[&str]| {
        Command::new("unshare").args(["--pid", "--fork", "--mount-proc"]).args(words).output()
    };
    if !unshare(&["true"]).is_ok_and(|output| output.status.success()) {
        testkit::skipped!("no PID namespace can be made here");
    }
    let program = r#"tracepoint:syscalls:sys_enter_dup2 /pid == cpid/ { @[pid, tid] = count(); }"#;
    let command = "dd if=/dev/zero of=/dev/null bs=1 count=1 status=none";
    let trace = [env!("CARGO_BIN_EXE_lotse"), "trace", "-q", "-e", program, "-c", command];
    let output = unshare(&trace).unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // The tracer is process 1 there, and its command the next.
    assert!(text.contains("@[2, 2]: 2"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn filters_hold_for_every_probe() {
    if cannot_trace() {
        return;
    }
    let own = std::process::id().to_string();
    let program = "tracepoint:raw_syscalls:sys_enter { @[pid] = count(); } interval:ms:200 { exit(); }";
    let text = printed(&["-e", program, "--pid", &own]);
    let others =
        text.lines().filter(|line| line.starts_with("@[") && !line.starts_with(&format!("@[{own}]")));
    assert_eq!(others.count(), 0, "{text}");
}

#[test]
fn a_command_line_ends_with_ctrl_c_and_prints_its_maps() {
    if cannot_trace() {
        return;
    }
    let child = Command::new(env!("CARGO_BIN_EXE_lotse"))
        .args(["trace", "-e", "interval:ms:5 { @ticks++; }"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_attached(child.id());
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.lines().any(|line| line.starts_with("@ticks: ")), "{text}");
}

#[test]
fn nothing_stays_attached_after_sigkill() {
    if cannot_trace() {
        return;
    }
    if !testkit::skip::has_program("bpftool") {
        testkit::skipped!("bpftool, the independent check, is not installed");
    }
    let name = "lotse_kill_test";
    let program =
        format!("tracepoint:raw_syscalls:sys_enter {{ @{name} = count(); @{name}2[pid] = count(); }}");
    let mut child = Command::new(env!("CARGO_BIN_EXE_lotse"))
        .args(["trace", "-e", &program])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id();
    wait_for_attached(pid);
    assert!(kernel_has_map(name));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until_map_is_gone(name);
}

/// Maps live as long as the programs that use them, and those as long as they are attached.
fn kernel_has_map(name: &str) -> bool {
    let output = Command::new("bpftool").args(["map", "show"]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).contains(name)
}

fn wait_until_map_is_gone(name: &str) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while kernel_has_map(name) {
        assert!(std::time::Instant::now() < end, "map {name} is still there");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn what_is_detached_behind_the_prompt_goes_even_if_killed() {
    if cannot_trace() {
        return;
    }
    if !testkit::skip::has_program("bpftool") {
        testkit::skipped!("bpftool, the independent check, is not installed");
    }
    for killed in [false, true] {
        let name = format!("lotse_end_{killed}");
        // Each perf tracepoint takes tens of milliseconds to detach.
        let points: Vec<String> =
            ["statfs", "ustat", "acct", "sync", "chroot", "swapon", "swapoff", "reboot"]
                .map(|call| format!("tracepoint:syscalls:sys_enter_{call}"))
                .into();
        let program = format!("{} {{ @{name}[pid] = count(); }} BEGIN {{ exit(); }}", points.join(", "));
        // All that has its output has let go of it: `printed` waits for the end of the pipe.
        let text = printed(&["--plain-tracepoints", "-e", &program]);
        assert!(!text.contains("lost"), "{text}");
        for process in std::fs::read_dir("/proc").unwrap().flatten().filter(|_| killed) {
            let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            if String::from_utf8_lossy(&line).contains(&name) {
                let pid = process.file_name();
                let _ = Command::new("kill").arg("-KILL").arg(&pid).status();
            }
        }
        wait_until_map_is_gone(&name);
    }
}

/// Waits until the process holds a link or a perf event besides its maps: then it is attached.
fn wait_for_attached(pid: u32) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let links = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        let attached = links.filter(|link| {
            let link = link.to_string_lossy();
            link.contains("bpf_link") || link.contains("perf_event") || link.contains("bpf-link")
        });
        if attached.count() > 0 {
            return;
        }
        assert!(std::time::Instant::now() < end, "nothing was attached");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn symbols_of_a_process_that_has_exited_are_found() {
    if cannot_trace() {
        return;
    }
    // The process is gone when the map is printed.
    let program = r#"tracepoint:syscalls:sys_enter_write /comm == "dd"/ { @[ustack(1)] = count(); }"#;
    let text = printed(&["-e", program, "-c", "dd if=/dev/zero of=/dev/null bs=1 count=3 status=none"]);
    assert!(text.contains("write+") && text.contains("]: 3"), "{text}");
}

#[test]
fn named_probes_of_a_library_fire() {
    if cannot_trace() {
        return;
    }
    let text = printed(&[
        "-e",
        "uprobe:libc:write { @ = count(); }",
        "-c",
        "dd if=/dev/zero of=/dev/null bs=1 count=5 status=none",
    ]);
    assert_eq!(text, "@: 5\n");
}
