//! One-liners with the binary itself, on whatever kernel this is: here, and on the kernels of the matrix
//! (`cargo xtask vm`), where kprobes and trampolines work. Each counts a load of known size.

use std::process::Command;

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
    let output = Command::new(binary())
        .args(["trace", "-q", "-e", program, "-c", LOAD])
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
    match maps_of(program, options) {
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
