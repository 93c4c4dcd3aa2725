//! One-liners with the binary itself, on whatever kernel this is: here, and on the kernels of the matrix
//! (`cargo xtask vm`), where kprobes and trampolines work. Each counts a load of known size.

// What is skipped is said on stdout, where the test runner's list finds it.
#![allow(clippy::print_stdout)]

#[path = "trace_on_kernels/small_program.rs"]
mod small_program;

use std::process::Command;

use small_program::SmallProgram;

/// 300 writes of one byte to /dev/null by a process of its own name.
const LOAD: &str = "dd if=/dev/zero of=/dev/null bs=1 count=300";

fn binary() -> String {
    let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join("lotse")));
    match beside.filter(|path| path.exists()) {
        Some(path) => path.to_string_lossy().into_owned(),
        None => env!("CARGO_BIN_EXE_lotse").to_owned(),
    }
}

/// The maps that a program prints after the load ran.
fn maps_of(program: &str, options: &[&str]) -> Result<String, String> {
    maps_after(LOAD, program, options)
}

fn maps_after(load: &str, program: &str, options: &[&str]) -> Result<String, String> {
    let output = Command::new(binary())
        .args(["trace", "-q", "-e", program, "-c", load])
        .args(options)
        .output()
        .map_err(|error| error.to_string())?;
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(talk)
    }
}

fn has(feature: bpf::facts::Feature) -> bool {
    use bpf::KernelFacts;
    let facts = kernel::facts::LiveFacts::new();
    if facts.tracefs().is_none() || !facts.has(feature) {
        testkit::skip::note("trace_on_kernels", &format!("{} has no {feature:?}", facts.release()));
        return false;
    }
    true
}

#[track_caller]
fn check(program: &str, options: &[&str], expected: &str) {
    check_after(LOAD, program, options, expected);
}

#[track_caller]
fn check_after(load: &str, program: &str, options: &[&str], expected: &str) {
    match maps_after(load, program, options) {
        Ok(printed) => assert_eq!(printed, expected, "{program} {options:?}"),
        Err(talk) => panic!("{program} {options:?}: {talk}"),
    }
}

#[test]
fn tracepoints_count_exactly_served_either_way() {
    if !has(bpf::facts::Feature::Tracefs) {
        return;
    }
    for options in [&[][..], &["--plain-tracepoints"]] {
        let program = "tracepoint:syscalls:sys_enter_write /pid == cpid && args.fd == 1/ { @ = count(); }";
        check(program, options, "@: 300");
        let program = "tracepoint:syscalls:sys_enter_write /pid == cpid && args.fd == 1/ { @in[tid] = 1; } \
                       tracepoint:raw_syscalls:sys_exit /@in[tid]/ { @[args.ret] = count(); delete(@in, tid); }";
        check(program, options, "@[1]: 300");
    }
}

#[test]
fn one_probe_attaches_to_all_its_tracepoints() {
    if !has(bpf::facts::Feature::Tracefs) {
        return;
    }
    let program = "tracepoint:syscalls:sys_enter_getcpu,tracepoint:syscalls:sys_enter_write,tracepoint:syscalls:sys_enter_read \
                   /pid == cpid && args.__syscall_nr != __NR_read/ { @[probe] = count(); }";
    let printed = maps_of(program, &[]).unwrap_or_else(|talk| panic!("{talk}"));
    let writes = printed.rsplit(": ").next().and_then(|count| count.parse::<u64>().ok());
    assert!(printed.starts_with("@[tracepoint:syscalls:sys_enter_write]: "), "{printed}");
    assert!(writes.is_some_and(|writes| writes >= 300), "{printed}");
    let program = "software:context-switches:1,software:page-faults:1 /pid == cpid/ { @[probe] = count(); }";
    let printed = maps_of(program, &[]).unwrap_or_else(|talk| panic!("{talk}"));
    assert!(printed.contains("page-faults"), "{printed}");
}

#[test]
fn kprobes_count_exactly() {
    if has(bpf::facts::Feature::Kprobes) {
        check("kprobe:vfs_write /pid == cpid && arg2 == 1/ { @ = count(); }", &[], "@: 300");
        check("kretprobe:vfs_write /pid == cpid && retval == 1/ { @ = count(); }", &[], "@: 300");
    }
}

#[test]
fn trampolines_count_exactly() {
    if has(bpf::facts::Feature::Fentry) {
        check("fentry:vfs_write /pid == cpid && args.count == 1/ { @ = count(); }", &[], "@: 300");
        check("fexit:vfs_write /pid == cpid && retval == 1/ { @ = sum(args.count); }", &[], "@: 300");
    }
}

/// What a return probe prints, and not only what it counts.
#[test]
fn return_probes_print() {
    let lines = |program: &str| {
        let printed = maps_of(program, &[]).unwrap_or_else(|talk| panic!("{program}: {talk}"));
        let lines: Vec<&str> = printed.lines().collect();
        assert!(lines.len() == 300 && lines.iter().all(|line| *line == "dd got 1"), "{program}: {printed}");
    };
    if has(bpf::facts::Feature::Kprobes) {
        lines("kretprobe:vfs_write /pid == cpid && retval == 1/ { printf(\"%s got %d\\n\", comm, retval); }");
    }
    if has(bpf::facts::Feature::Fentry) {
        lines("kretfunc:vfs_write /pid == cpid && retval == 1/ { printf(\"%s got %d\\n\", comm, retval); }");
    }
}

/// One name is one key, whatever the kernel left behind its NUL.
#[test]
fn names_are_one_key_each() {
    if !has(bpf::facts::Feature::Tracefs) {
        return;
    }
    let program = "tracepoint:raw_syscalls:sys_enter { @long[comm, args.id] = count(); @[comm] = count(); $x = (comm, 1); @pair[$x.0] = count(); }";
    let printed = maps_of(program, &[]).unwrap_or_else(|talk| panic!("{talk}"));
    let mut keys: Vec<&str> = printed.lines().filter_map(|line| Some(line.split_once("]: ")?.0)).collect();
    let all = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), all, "{printed}");
}

#[test]
fn kprobes_in_the_middle_of_a_function_count_exactly() {
    if !has(bpf::facts::Feature::Kprobes) {
        return;
    }
    check(
        "kprobe:vfs_write+0 /pid == cpid && arg2 == 1/ { @[probe] = count(); }",
        &[],
        "@[kprobe:vfs_write]: 300",
    );
    // The second instruction is 4 bytes into the function where it begins with endbr64, 5 where with the
    // tracer's nop. At the other there is none.
    let program =
        |offset: u32| format!("kprobe:vfs_write+{offset} /pid == cpid && arg2 == 1/ {{ @ = count(); }}");
    let results = [maps_of(&program(4), &[]), maps_of(&program(5), &[])];
    assert!(results.iter().any(|result| result.as_deref() == Ok("@: 300")), "{results:?}");
    for refused in results.iter().filter_map(|result| result.as_ref().err()) {
        assert!(refused.contains("in the middle of an instruction"), "{refused}");
    }
}

#[test]
fn kernel_wildcards_attach_to_all_that_match() {
    if has(bpf::facts::Feature::Kprobes) {
        check(
            "kprobe:vfs_writ* /pid == cpid && arg2 == 1/ { @[probe, func] = count(); }",
            &[],
            "@[kprobe:vfs_write, vfs_write]: 300",
        );
        check(
            "kretprobe:vfs_wri* /pid == cpid && retval == 1/ { @[probe, func] = count(); }",
            &[],
            "@[kretprobe:vfs_write, vfs_write]: 300",
        );
        check(
            "kprobe:vmlinu*:vfs_write, kprobe:vmlinux:vfs_writev /pid == cpid && arg2 == 1/ { @ = count(); }",
            &[],
            "@: 300",
        );
        let output = Command::new(binary())
            .args([
                "trace",
                "-v",
                "-e",
                "kprobe:vfs_* /pid == cpid/ { @ = count(); } kretprobe:vfs_* /pid == cpid/ { @r = count(); }",
                "-c",
                LOAD,
            ])
            .output()
            .unwrap();
        let (out, talk) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let number = |name: &str| -> u64 {
            let value = out.lines().find_map(|line| line.strip_prefix(name)?.parse().ok());
            value.unwrap_or_else(|| panic!("{out}{talk}"))
        };
        // Some are entered and never left: they are tail calls.
        assert!(number("@: ") >= 600 && number("@r: ") >= 600, "{out}{talk}");
        let kernel = kernel::facts::LiveFacts::new();
        if bpf::KernelFacts::has(&kernel, bpf::facts::Feature::KprobeMulti) {
            assert!(talk.contains("kprobe:vfs_read: one kprobe_multi link for all"), "{talk}");
        }
    }
    if has(bpf::facts::Feature::Fentry) {
        check(
            "fentry:vfs_writ* /pid == cpid/ { @[probe, func] = count(); }",
            &[],
            "@[fentry:vfs_write, vfs_write]: 301",
        );
        check(
            "fexit:vmlinux:vfs_writ* /pid == cpid && retval == 1/ { @[probe, func] = count(); }",
            &[],
            "@[fexit:vmlinux:vfs_write, vfs_write]: 300",
        );
    }
}

/// The module `dummy` makes a network device that does nothing; reading its counters calls into it once.
#[test]
fn functions_of_modules_are_found() {
    const COUNTER: &str = "/sys/class/net/dummy0/statistics/rx_bytes";
    if !std::path::Path::new(COUNTER).exists() {
        testkit::skipped!("the module dummy, with its device, is not loaded");
    }
    let load = format!("cat {COUNTER}");
    let check =
        |program: &str, expected: &str| check_after(&load, program, &[], &format!("0\n\n\n{expected}"));
    if has(bpf::facts::Feature::Kprobes) {
        check(
            "kprobe:dummy:dummy_get_stats64 { @[probe, func, comm] = count(); }",
            "@[kprobe:dummy:dummy_get_stats64, dummy_get_stats64, cat]: 1",
        );
        check(
            "kprobe:dummy_get_stats64 { @ = count(); } kretprobe:dummy:dummy_get_stats64 { @r = count(); }",
            "@: 1\n@r: 1",
        );
        check("kprobe:dummy:* { @[func] = count(); }", "@[dummy_get_stats64]: 1");
        check(
            "kprobe:dummy:dummy_get_stats64 { @[((struct net_device *)arg0).name] = count(); }",
            "@[dummy0]: 1",
        );
    }
    if has(bpf::facts::Feature::Fentry) {
        check(
            "fentry:dummy:dummy_get_stats64 { @[probe, args.dev.name] = count(); }",
            "@[fentry:dummy:dummy_get_stats64, dummy0]: 1",
        );
        check(
            "fexit:dummy_get_stats64 { @[func, str(args.dev.name)] = count(); }",
            "@[dummy_get_stats64, dummy0]: 1",
        );
        // What ran once when the module was loaded is in its types and cannot be traced any more.
        check("fentry:dummy:dummy_* { @[func] = count(); }", "@[dummy_get_stats64]: 1");
    }
}

#[test]
fn user_probes_count_exactly() {
    if !has(bpf::facts::Feature::Uprobes) {
        return;
    }
    let program = SmallProgram::new("user_probes");
    let path = program.path();
    let check = |text: &str, expected: &str| check_after(&path, &text.replace("BIN", &path), &[], expected);
    check("uprobe:BIN:work_a { @ = count(); @sum = sum(arg0); }", "@: 50\n@sum: 1275");
    check("uretprobe:BIN:work_a { @[func] = sum(retval); }", "@[work_a]: 1325");
    check("uprobe:BIN:work_a+1 { @ = sum(reg(\"di\")); }", "@: 1275");
    check("uprobe:BIN:0x400120 { @ = count(); }", "@: 50");
    check("uprobe:BIN:work_* { @[func] = count(); }", "@[work_a]: 50\n@[work_b]: 50");
    check("uretprobe:BIN:work_* { @[func] = sum(retval); }", "@[work_a]: 1325\n@[work_b]: 1375");
    check("usdt:BIN:small:tick { @ = count(); @sum = sum(arg0); }", "@: 50\n@sum: 1275");
    check(
        "usdt:BIN:tick { @[probe] = count(); }",
        "@[usdt:BIN:small:tick]: 50".replace("BIN", &path).as_str(),
    );
    check("usdt:BIN:sm*:t* { @ = max(arg0); }", "@: 50");
}

#[test]
fn watchpoints_count_exactly() {
    if !has(bpf::facts::Feature::Breakpoints) {
        return;
    }
    let program = SmallProgram::new("watchpoints");
    let path = program.path();
    check_after(&path, "watchpoint:0x600000:4:w { @ = count(); }", &[], "@: 50");
    check_after(&path, "w:0x400120:8:x { @ = count(); }", &[], "@: 50");
    // The first hit takes the watchpoint away; some come before that is done.
    let printed = maps_after(&path, "watchpoint:0x600000:4:w { @++; unwatch(0x600000); }", &[]);
    let hits: u32 =
        printed.as_deref().ok().and_then(|text| text.strip_prefix("@: ")?.parse().ok()).unwrap_or(0);
    assert!((1..=50).contains(&hits), "{printed:?}");
}

#[test]
fn timers_events_and_iterators_fire() {
    if !has(bpf::facts::Feature::Tracefs) {
        return;
    }
    let number = |program: &str, load: &str, parameter: &str| -> u64 {
        let printed =
            maps_after(load, program, &[parameter]).unwrap_or_else(|talk| panic!("{program}: {talk}"));
        let value = printed.lines().find_map(|line| line.strip_prefix("@: ")?.parse().ok());
        value.unwrap_or_else(|| panic!("{program}: {printed}"))
    };
    let busy = "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'";
    assert!(number("profile:hz:199 { @ = count(); }", busy, "") > 0);
    assert!(number("software:cpu-clock:1000000 { @ = count(); }", busy, "") > 0);
    assert!(number("software:page-faults:1 { @ = count(); }", LOAD, "") > 10);
    assert!(number("interval:ms:5 { @ = count(); }", "sleep 1", "") > 10);
    if has(bpf::facts::Feature::Iterators) {
        let own = std::process::id().to_string();
        assert!(number("iter:task /ctx.task.tgid == $1/ { @ = count(); }", "true", &own) >= 1);
        assert!(
            number("iter:task_file /ctx.task.tgid == $1 && ctx.fd <= 2/ { @ = count(); }", "true", &own) >= 3
        );
        assert!(number("iter:task_vma /ctx.task.tgid == $1/ { @ = count(); }", "true", &own) > 3);
    }
    let raw = "rawtracepoint:sys_enter /pid == cpid && args.id == 1 && args.regs.di == 1/ { @ = count(); }";
    check(raw, &[], "@: 300");
}

#[test]
fn latencies_are_taken_between_two_probes() {
    if !has(bpf::facts::Feature::Tracefs) {
        return;
    }
    let program = "tracepoint:syscalls:sys_enter_write /pid == cpid && args.fd == 1/ { @start[tid] = nsecs; } \
                   tracepoint:syscalls:sys_exit_write /@start[tid] && args.ret == 1/ { @n = count(); @ns = hist(nsecs - @start[tid]); delete(@start, tid); }";
    let printed = maps_of(program, &[]).unwrap_or_else(|talk| panic!("{talk}"));
    assert!(printed.starts_with("@n: 300\n@ns:\n["), "{printed}");
}

#[test]
fn maps_strings_stacks_and_loops_pass_the_verifier() {
    if !has(bpf::facts::Feature::Tracefs) {
        return;
    }
    for program in [
        "BEGIN { @a[1, \"x\"] = (1, \"y\"); for ($kv : @a) { print($kv); } exit(); }",
        "BEGIN { $s = 0; for ($i : 0..50) { $s += $i; } printf(\"%d\\n\", $s); exit(); }",
        "BEGIN { $i = 0; while ($i < 100) { $i++; } @ = $i; exit(); }",
        "tracepoint:sched:sched_switch { @[kstack(5)] = count(); @c[args.prev_comm, args.next_pid] = count(); }",
        "tracepoint:syscalls:sys_enter_write { @[ustack(3), comm] = hist(args.count); @l = lhist(args.count, 0, 100, 10); }",
        "tracepoint:syscalls:sys_enter_openat { printf(\"%s %s %d\\n\", comm, str(args.filename), strlen(comm)); }",
        "profile:hz:50 { @[cpu] = count(); } interval:ms:10 { @i++; } software:page-faults:1 { @f = count(); }",
        "BEGIN { printf(\"%s %s\\n\", ntop(1), strftime(\"%H\", nsecs)); print(kstack(2)); print(cgroup); exit(); }",
    ] {
        if let Err(talk) = maps_of(program, &[]) {
            panic!("{program}: {talk}");
        }
    }
}

/// The one-liners of bpftrace's tutorial, in its order; the first is in `trace_functions.rs`.
#[test]
fn the_tutorials_one_liners_work() {
    if !has(bpf::facts::Feature::Tracefs) {
        return;
    }
    let run = |program: &str, load: &str, options: &[&str]| -> String {
        maps_after(load, program, options).unwrap_or_else(|talk| panic!("{program}: {talk}"))
    };
    let hello = Command::new(binary())
        .args(["trace", "-e", "BEGIN { printf(\"hello world\\n\"); }"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&hello.stdout).trim_end(), "Attached 1 probe\nhello world");
    let opened = run(
        "tracepoint:syscalls:sys_enter_openat { printf(\"%s %s\\n\", comm, str(args.filename)); }",
        "cat /etc/passwd",
        &[],
    );
    assert!(opened.lines().any(|line| line == "cat /etc/passwd"), "{opened}");
    let counted = run("tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }", LOAD, &[]);
    assert!(
        counted.lines().any(|line| line
            .strip_prefix("@[dd]: ")
            .is_some_and(|n| n.parse::<u32>().is_ok_and(|n| n >= 600))),
        "{counted}"
    );
    let bytes =
        run("tracepoint:syscalls:sys_exit_read /pid == cpid/ { @bytes = hist(args.ret); }", LOAD, &[]);
    let ones = bytes
        .lines()
        .find_map(|line| line.strip_prefix("[1] ")?.split('|').next()?.trim().parse::<u32>().ok());
    assert!(
        bytes.starts_with("@bytes:\n[") && ones.is_some_and(|ones| (300..310).contains(&ones)),
        "{bytes}"
    );
    if has(bpf::facts::Feature::Kprobes) {
        let bytes =
            run("kretprobe:vfs_read /pid == cpid/ { @bytes = lhist(retval, 0, 2000, 200); }", LOAD, &[]);
        assert!(bytes.contains("[0, 200)             30"), "{bytes}");
        let times = run(
            "kprobe:vfs_read { @start[tid] = nsecs; } kretprobe:vfs_read /@start[tid]/ { @ns[comm] = hist(nsecs - @start[tid]); delete(@start[tid]); }",
            LOAD,
            &[],
        );
        assert!(times.contains("@ns[dd]:\n["), "{times}");
        let path = "#ifndef BPFTRACE_HAVE_BTF\n#include <linux/path.h>\n#include <linux/dcache.h>\n#endif\n\nkprobe:vfs_open\n{\n\tprintf(\"open path: %s\\n\", str(((struct path *)arg0)->dentry->d_name.name));\n}";
        let opened = run(path, "cat /etc/passwd", &[]);
        assert!(opened.lines().any(|line| line == "open path: passwd"), "{opened}");
    }
    let events =
        run("tracepoint:sched:sched* { @[probe] = count(); } interval:s:5 { exit(); }", "sleep 0", &[]);
    assert!(
        events.contains("@[tracepoint:sched:sched_process_exec]: ") && events.contains("sched_switch"),
        "{events}"
    );
    let busy = "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'";
    run("profile:hz:99 { @[kstack] = count(); }", busy, &[]);
    let switches = run("tracepoint:sched:sched_switch { @[kstack] = count(); }", "sleep 0", &[]);
    assert!(switches.contains("schedule"), "{switches}");
    run("tracepoint:block:block_rq_issue { @ = hist(args.bytes); }", LOAD, &[]);
}
