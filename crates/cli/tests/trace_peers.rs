//! The same programs through lotse and through Debian's bpftrace: the same output. Where bpftrace 0.17
//! is known to be wrong, the program is not here but in `trace_language.rs`, with the right answer.

use std::process::{Command, Output};

/// Programs whose output depends on nothing but themselves.
const PROGRAMS: &[&str] = &[
    r#"BEGIN { printf("hello world\n"); exit(); }"#,
    r#"BEGIN { printf("%d %5d|%-5d|%05d %x %X %llx %c\n", 1, 42, 42, 42, 255, 255, 4096, 65); exit(); }"#,
    r#"BEGIN { printf("%-10s|%10s|%.2s|\n", "ab", "cd", "efgh"); exit(); }"#,
    r#"BEGIN { printf("%hhd %hx\n", 300, 0x12345); exit(); }"#,
    r#"BEGIN { @x = 5; @y = -7; @s = "text"; @m[1] = 10; @m[2] = 5; @m[3] = 7; exit(); }"#,
    r#"BEGIN { @["b", 1] = 2; @["a", 9] = 1; @["a", 1] = 3; exit(); }"#,
    r#"BEGIN { @a[3] = 1; @a[1] = 9; @a[2] = 5; print(@a); print(@a, 2); clear(@a); exit(); }"#,
    r#"BEGIN { @m[1] = 100; @m[2] = 300; @m[3] = 200; print(@m, 2, 10); clear(@m); exit(); }"#,
    r#"BEGIN { @ = hist(0); @ = hist(1); @ = hist(2); @ = hist(3); @ = hist(1023); @ = hist(1024); @ = hist(-5); exit(); }"#,
    r#"BEGIN { @[1] = hist(4); @[2] = hist(17); @[2] = hist(18); exit(); }"#,
    r#"BEGIN { @ = lhist(5, 0, 100, 10); @ = lhist(-1, 0, 100, 10); @ = lhist(100, 0, 100, 10); exit(); }"#,
    r#"BEGIN { @ = lhist(5000, 0, 10000, 1000); @ = lhist(15000, 0, 10000, 1000); exit(); }"#,
    r#"BEGIN { @ = lhist(3000, 0, 8192, 1024); exit(); }"#,
    r#"BEGIN { @c = count(); @s = sum(5); @s = sum(6); @mi = min(3); @mi = min(9); @ma = max(7); @ma = max(2); @av = avg(3); @av = avg(6); @st = stats(10); @st = stats(25); exit(); }"#,
    r#"BEGIN { @["x"] = stats(10); @["y"] = stats(2); @["y"] = stats(4); exit(); }"#,
    r#"BEGIN { @ = count(); @ = count(); print(@); zero(@); @[1] = 1; exit(); }"#,
    r#"BEGIN { $i = 0; while ($i < 5) { printf("%d ", $i); $i++; } printf("\n"); exit(); }"#,
    r#"BEGIN { $i = 0; while ($i < 10) { if ($i == 3) { $i++; continue; } if ($i == 6) { break; } printf("%d ", $i); $i++; } exit(); }"#,
    r#"BEGIN { unroll(3) { printf("u"); } printf("\n"); exit(); }"#,
    r#"BEGIN { printf("%s\n", 5 > 3 ? "yes" : "no"); if (1 && 0) { printf("and\n"); } else { printf("else\n"); } exit(); }"#,
    r#"BEGIN { printf("%d %d %d %d %d\n", 7 / 2, 7 % 3, 1 << 5, 0xff & 0x0f, 6 ^ 3); exit(); }"#,
    r#"BEGIN { $a = (1, "two", (3, 4)); printf("%d %s\n", $a.0, $a.1); print($a); exit(); }"#,
    r#"BEGIN { print(5); print("s"); print((1, 2)); exit(); }"#,
    r#"BEGIN { printf("%d %d\n", strncmp("abcd", "abxx", 2), strncmp("abcd", "abxx", 3) != 0); exit(); }"#,
    r#"BEGIN { printf("%s %s\n", ntop(0x0100007f), ntop(10, pton("::1"))); exit(); }"#,
    r#"BEGIN { printf("%r|%r\n", buf("ab\x01c", 4), buf("hello", 3)); exit(); }"#,
    r#"BEGIN { @[1] = 1; @[2] = 2; delete(@[1]); exit(); }"#,
    r#"BEGIN { @x = 1; @x += 5; @x *= 3; @x -= 1; @x++; @x <<= 2; exit(); }"#,
    r#"struct Pair { int a; char b[4]; }; BEGIN { printf("%d %d\n", sizeof(struct Pair), sizeof(uint64)); exit(); }"#,
    r#"#define N 7
BEGIN { printf("%d\n", N); exit(); }"#,
    r#"enum colours { RED = 3, GREEN }; BEGIN { printf("%d %d\n", RED, GREEN); exit(); }"#,
    r#"BEGIN { printf("%d\n", (int8)200); printf("%d\n", (uint8)300); exit(); }"#,
    r#"BEGIN { printf("%s\n", str($1)); printf("%d %d\n", $2, $#); exit(); }"#,
    r#"BEGIN { exit(); } END { printf("end\n"); }"#,
    r#"BEGIN { @a = 1; @b = 2; delete(@a); clear(@b); exit(); }"#,
    r#"interval:ms:100 { @i++; if (@i >= 3) { exit(); } }"#,
    r#"BEGIN { cat("/proc/sys/kernel/ostype"); exit(); }"#,
    r#"BEGIN { printf("%s\n", "a\tb\"c\\"); exit(); }"#,
    r#"BEGIN { $x = (uint32)-1; printf("%u\n", $x); exit(); }"#,
    r#"BEGIN { @n["a"] = -3; @n["b"] = 2; @n["c"] = -10; exit(); }"#,
];

/// Both are given these positional arguments.
const ARGUMENTS: [&str; 2] = ["first", "42"];

fn lotse(json: bool, program: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lotse"));
    command.args(["trace", "-q", "-e", program, "-f", if json { "json" } else { "text" }]);
    command.args(ARGUMENTS).output().unwrap()
}

fn bpftrace(json: bool, program: &str) -> Output {
    let mut command = Command::new("bpftrace");
    command.args(["-q", "-f", if json { "json" } else { "text" }, "-e", program]);
    command.args(ARGUMENTS).output().unwrap()
}

/// Without what only tells of the run, and without blanks at the ends of lines and blank lines: 0.17 puts
/// them elsewhere than later versions.
fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let kept = text.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.contains("Attach"));
    kept.filter(|line| !line.contains("attached_probes")).map(str::to_owned).collect()
}

/// Programs on tracepoints, with a load whose every call is known: a name of [`LOADS`].
const ON_LOADS: &[(&str, &str)] = &[
    ("writes", "t:syscalls:sys_enter_write /pid == cpid/ { @ = count(); }"),
    (
        "writes",
        "t:syscalls:sys_enter_write /pid == cpid && args->fd == 1/ { @[comm, args->fd] = sum(args->count); }",
    ),
    (
        "writes",
        "t:syscalls:sys_exit_read /comm == \"dd\" && args->ret == 1/ { @ = hist(args->ret); @l = lhist(args->ret, 0, 4, 1); }",
    ),
    (
        "writes",
        "t:syscalls:sys_exit_write /pid == cpid/ { @s = stats(args->ret); @a = avg(args->ret); @mi = min(args->ret); @ma = max(args->ret); }",
    ),
    ("writes", "t:syscalls:sys_enter_close /comm == \"dd\"/ { @[args->fd] = count(); }"),
    ("writes", "t:syscalls:sys_enter_mmap /pid == cpid/ { @[args->prot, args->flags] = count(); }"),
    ("writes", "t:syscalls:sys_exit_write /pid == cpid/ { @[probe, args->ret] = count(); }"),
    ("writes", "t:syscalls:sys_enter_read,t:syscalls:sys_enter_write /pid == cpid/ { @[probe] = count(); }"),
    (
        "writes",
        "t:syscalls:sys_enter_write /pid == cpid/ { @in[tid] = args->count; } t:syscalls:sys_exit_write /@in[tid]/ { @same[@in[tid] == args->ret ? 1 : 0] = count(); delete(@in[tid]); }",
    ),
    ("writes", "t:raw_syscalls:sys_enter /pid == cpid && args->id == 1/ { @[args->id] = count(); }"),
    ("writes", "t:raw_syscalls:sys_exit /pid == cpid && args->id == 1/ { @[args->ret] = count(); }"),
    (
        "writes",
        "t:sched:sched_process_exec /pid == cpid/ { printf(\"%s %s %d\\n\", comm, str(args->filename), args->pid == args->old_pid); }",
    ),
    ("writes", "t:sched:sched_process_exit /pid == cpid/ { @[comm, args->comm, args->prio] = count(); }"),
    (
        "writes",
        "t:syscalls:sys_enter_write /pid == cpid/ { @n++; if (@n == 3) { printf(\"%d %d %s %d\\n\", args->fd, args->count, probe, uid); } }",
    ),
    ("writes", "t:syscalls:sys_enter_lseek,t:syscalls:sys_enter_dup2 /pid == cpid/ { @[probe] = count(); }"),
    (
        "writes",
        "t:syscalls:sys_exit_write /pid == cpid/ { @[args->ret] = count(); } interval:ms:50 { @i = 1; } END { clear(@i); printf(\"over\\n\"); }",
    ),
    (
        "reads",
        "t:syscalls:sys_enter_openat /pid == cpid && str(args->filename) == \"/etc/hostname\"/ { printf(\"%s %d %d\\n\", str(args->filename), args->flags, args->mode); }",
    ),
    ("reads", "t:syscalls:sys_enter_openat /pid == cpid/ { @[args->flags, args->mode] = count(); }"),
    ("reads", "t:syscalls:sys_exit_openat /pid == cpid && args->ret < 0/ { @[args->ret] = count(); }"),
    (
        "forks",
        "t:sched:sched_process_fork /args->parent_pid == cpid/ { @[str(args->parent_comm), str(args->child_comm)] = count(); }",
    ),
    ("forks", "t:sched:sched_process_exec /comm == \"true\"/ { @[comm, str(args->filename)] = count(); }"),
    ("forks", "t:task:task_newtask /pid == cpid/ { @[args->clone_flags, args->comm] = count(); }"),
    ("forks", "t:syscalls:sys_exit_wait4 /pid == cpid/ { @[args->ret > 0 ? 1 : 0] = count(); }"),
    (
        "sleeps",
        "t:syscalls:sys_enter_clock_nanosleep /pid == cpid/ { printf(\"%d %d\\n\", args->which_clock, args->flags); }",
    ),
    ("sleeps", "t:syscalls:sys_exit_clock_nanosleep /pid == cpid/ { printf(\"%d\\n\", args->ret); }"),
    (
        "signals",
        "t:signal:signal_generate /pid == cpid && args->sig == 10/ { @[args->sig, args->code, args->comm, args->result] = count(); }",
    ),
    (
        "signals",
        "t:signal:signal_deliver /pid == cpid && args->sig == 10/ { @[args->sig, args->errno] = count(); }",
    ),
    ("datagrams", "t:net:net_dev_queue /pid == cpid/ { @[str(args->name), args->len] = count(); }"),
    (
        "datagrams",
        "t:syscalls:sys_enter_connect /pid == cpid && args->addrlen == 16/ { @[args->addrlen] = count(); }",
    ),
    (
        "datagrams",
        "t:syscalls:sys_enter_socket /pid == cpid/ { @[args->family, args->type, args->protocol] = count(); }",
    ),
    (
        "refused",
        "t:sock:inet_sock_set_state /pid == cpid/ { @[args->oldstate, args->newstate, args->protocol, args->family, args->dport] = count(); }",
    ),
    (
        "direct",
        "t:block:block_rq_issue /comm == \"dd\" && args->bytes == 4096/ { @[args->bytes, args->nr_sector] = count(); }",
    ),
    ("direct", "t:block:block_rq_issue /comm == \"dd\"/ { @ = hist(args->bytes); }"),
];

/// Name, and the script that a shell runs.
const LOADS: &[(&str, &str)] = &[
    ("writes", "exec dd if=/dev/zero of=/dev/null bs=1 count=20 status=none"),
    ("reads", "exec cat /etc/hostname"),
    ("forks", "/bin/true; /bin/true; /bin/true; :"),
    ("sleeps", "exec sleep 0.01"),
    ("signals", "trap : USR1; kill -USR1 $$; kill -USR1 $$; :"),
    ("datagrams", "exec bash -c 'echo one > /dev/udp/127.0.0.1/9'"),
    ("refused", "exec bash -c 'echo one > /dev/tcp/127.0.0.1/9' 2>/dev/null"),
    ("direct", "exec dd if=/dev/zero of=\"$0.data\" bs=4096 count=8 oflag=direct conv=notrunc status=none"),
];

#[test]
fn tracepoints_on_a_known_load_say_what_bpftrace_says() {
    if !testkit::skip::has_program("bpftrace") {
        testkit::skipped!("bpftrace is not installed");
    }
    if kernel::facts::LiveFacts::new().tracefs().is_none() {
        testkit::skipped!("tracing is not allowed here");
    }
    let folder = std::env::temp_dir().join(format!("lotse-peer-loads-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut commands = std::collections::BTreeMap::new();
    for (name, script) in LOADS {
        let path = folder.join(name);
        std::fs::write(&path, format!("{script}\n")).unwrap();
        let command = format!("/bin/sh {}", path.display());
        // Once for what only a first run does: pages read, blocks given to files.
        let _ = Command::new("sh").arg(&path).output();
        commands.insert(*name, command);
    }
    let run = |program: &str, command: &str, own: bool| -> Output {
        let mut process = if own {
            let mut process = Command::new(env!("CARGO_BIN_EXE_lotse"));
            process.arg("trace");
            process
        } else {
            Command::new("bpftrace")
        };
        process.args(["-q", "-e", program, "-c", command]).output().unwrap()
    };
    let mut different = Vec::new();
    for (load, program) in ON_LOADS {
        let command = &commands[load];
        let (own, peer) = (run(program, command, true), run(program, command, false));
        let (mut own_lines, mut peer_lines) = (lines(&own), lines(&peer));
        // Among entries of equal value bpftrace has no order.
        own_lines.sort();
        peer_lines.sort();
        if own_lines != peer_lines || own_lines.is_empty() {
            different.push(format!(
                "{load}: {program}\n  lotse:    {own_lines:?}{}\n  bpftrace: {peer_lines:?}{}",
                String::from_utf8_lossy(&own.stderr),
                String::from_utf8_lossy(&peer.stderr),
            ));
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(
        different.is_empty(),
        "{} of {} differ:\n{}",
        different.len(),
        ON_LOADS.len(),
        different.join("\n")
    );
}

fn compare(json: bool) {
    if !testkit::skip::has_program("bpftrace") {
        testkit::skipped!("bpftrace is not installed");
    }
    if kernel::facts::LiveFacts::new().tracefs().is_none() {
        testkit::skipped!("tracing is not allowed here");
    }
    let mut different = Vec::new();
    for program in PROGRAMS {
        let (own, peer) = (lotse(json, program), bpftrace(json, program));
        if lines(&own) != lines(&peer) {
            different.push(format!(
                "{program}\n  lotse:    {:?}{}\n  bpftrace: {:?}{}",
                lines(&own),
                String::from_utf8_lossy(&own.stderr),
                lines(&peer),
                String::from_utf8_lossy(&peer.stderr),
            ));
        }
    }
    assert!(
        different.is_empty(),
        "{} of {} differ:\n{}",
        different.len(),
        PROGRAMS.len(),
        different.join("\n")
    );
}

#[test]
fn text_is_that_of_bpftrace() {
    compare(false);
}

#[test]
fn json_is_that_of_bpftrace() {
    compare(true);
}
