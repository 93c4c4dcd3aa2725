//! Programs of others, as they are: the tools that bpftrace installs, one-liners as its users
//! write them, and every tracepoint that is served by its raw arguments, checked against this
//! kernel. Nothing is loaded.

// What is skipped is said on stdout, where the test runner's list finds it.
#![allow(clippy::print_stdout)]

use std::path::Path;

use bpf::KernelFacts;
use bpf::facts::Feature;
use kernel::facts::LiveFacts;
use lang::diagnostic::{Code, Severity};
use lang::front::front;
use lang::options::Options;
use lang::schema::ProgramKind;
use run::program::live_environment::LiveEnvironment;

fn options(environment: &LiveEnvironment) -> Options<'_> {
    Options { environment, unsafe_allowed: true, positional: vec!["1".into()], ..Options::default() }
}

/// What a program written for another kernel may run into here: a function, file or field that
/// this kernel does not have.
fn is_of_the_kernel(code: Code) -> bool {
    matches!(
        code,
        Code::NoSuchProbe | Code::ProbeUnsupported | Code::CannotAsk | Code::UnknownField | Code::UnknownType
    )
}

#[test]
fn the_tools_that_bpftrace_installs_are_understood() {
    let mut tools: Vec<_> = ["/usr/sbin", "/usr/share/bpftrace/tools"]
        .iter()
        .filter_map(|folder| Path::new(folder).read_dir().ok())
        .flat_map(|folder| folder.filter_map(|entry| Some(entry.ok()?.path())))
        .filter(|path| path.extension().is_some_and(|extension| extension == "bt"))
        .collect();
    tools.sort();
    if tools.is_empty() {
        testkit::skipped!("bpftrace's tools are not installed");
    }
    let facts = LiveFacts::new();
    if facts.btf().is_none() {
        testkit::skipped!("this kernel has no BTF");
    }
    let environment = LiveEnvironment::new(None);
    let (mut whole, mut wrong) = (0, Vec::new());
    for path in &tools {
        let Ok(text) = std::fs::read_to_string(path) else { continue };
        let front = front(&text, &options(&environment), &facts);
        whole += usize::from(front.hir.is_some());
        let ours = |finding: &&lang::diagnostic::Diagnostic| {
            finding.severity == Severity::Error && !is_of_the_kernel(finding.code)
        };
        if front.findings.iter().any(|finding| ours(&finding)) {
            wrong.push(format!("{}\n{}", path.display(), front.report()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Most of them find all they need on any kernel.
    assert!(whole * 2 > tools.len(), "{whole} of {}", tools.len());
}

/// As people write them, old and new spellings.
const ONE_LINERS: &[&str] = &[
    "tracepoint:syscalls:sys_enter_openat { printf(\"%s %s\\n\", comm, str(args->filename)); }",
    "tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }",
    "tracepoint:raw_syscalls:sys_enter { @[pid, comm] = count(); } interval:s:1 { print(@, 5); clear(@); }",
    "t:syscalls:sys_exit_read /args.ret > 0/ { @bytes = hist(args.ret); }",
    "tracepoint:syscalls:sys_exit_read /pid == $1/ { @ = lhist(args.ret, 0, 2000, 200); }",
    "tracepoint:syscalls:sys_enter_read { @start[tid] = nsecs; } tracepoint:syscalls:sys_exit_read /@start[tid]/ { @ns[comm] = hist(nsecs - @start[tid]); delete(@start[tid]); }",
    "tracepoint:sched:sched* { @[probe] = count(); } interval:s:5 { exit(); }",
    "profile:hz:99 { @[kstack] = count(); }",
    "profile:hz:49 /pid/ { @[ustack(perf, 5), comm] = count(); }",
    "tracepoint:sched:sched_switch { @[kstack] = count(); }",
    "tracepoint:block:block_rq_issue { @ = hist(args.bytes); }",
    "software:page-faults:1 { @[comm, pid] = count(); }",
    "BEGIN { printf(\"hello\\n\"); exit(); }",
    "begin { @i = 0; while (@i < 10) { @i++; } unroll(4) { print(@i); } }",
    "begin { for ($i : 0..ncpus) { print($i); } @m[1, 2] = 3; for ($kv : @m) { print($kv.0.1); } }",
    "interval:1s { time(\"%H:%M:%S \"); printf(\"%d\\n\", elapsed / 1e9); }",
    "rawtracepoint:sched_switch { @[args.next.comm, ((struct task_struct *)arg1)->pid] = count(); }",
    "iter:task { printf(\"%s:%d\\n\", ctx->task->comm, ctx.task.pid); }",
    "tracepoint:syscalls:sys_enter_execve { join(args.argv); system(\"echo %d\", pid); cat(\"/proc/%d/cmdline\", pid); }",
    "tracepoint:sched:sched_process_exit { print((pid=args.pid, name=args.comm, cg=cgroup_path(cgroup))); }",
    "tracepoint:skb:kfree_skb { @[ksym(args.location), args.protocol] = count(); }",
    "tracepoint:tcp:tcp_retransmit_skb { printf(\"%s:%d\\n\", ntop(args.daddr), args.dport); }",
    "begin { $t = curtask; print($t->group_leader->comm); printf(\"%s %s\\n\", usym(reg_ip()), strftime(\"%T\", nsecs)); } macro reg_ip() { 0 }",
    "struct pair { int a; int b; };\nuprobe:libc:malloc { $p = (struct pair *)arg0; @[$p->a] = sum($p->b); }",
    "kprobe:vfs_read { @size = stats(arg2); } kretprobe:vfs_read /(int32)retval < 0/ { @errors[strerror(-retval)] = count(); }",
];

#[test]
fn one_liners_in_old_and_new_spellings_check() {
    let facts = LiveFacts::new();
    if facts.btf().is_none() || facts.tracepoints().is_empty() {
        testkit::skipped!("this kernel has no BTF, or its tracepoints cannot be read");
    }
    let environment = LiveEnvironment::new(None);
    for text in ONE_LINERS {
        let front = front(text, &options(&environment), &facts);
        assert!(front.hir.is_some(), "{text}\n{}", front.report());
    }
}

/// Fields of tracepoints that have the same value in the raw arguments.
const SERVED: &[&str] = &[
    "sched:sched_switch prev_comm prev_pid prev_prio next_comm next_pid next_prio",
    "sched:sched_waking comm pid prio target_cpu",
    "sched:sched_wakeup_new comm pid prio target_cpu",
    "sched:sched_process_exit comm pid prio",
    "sched:sched_process_exec filename pid old_pid",
    "sched:sched_process_fork parent_pid child_pid",
    "sched:sched_migrate_task comm pid prio orig_cpu dest_cpu",
    "irq:softirq_entry vec",
    "raw_syscalls:sys_enter id",
    "raw_syscalls:sys_exit id ret",
    "block:block_rq_issue dev sector nr_sector bytes",
    "block:block_rq_complete dev sector nr_sector",
    "net:netif_receive_skb skbaddr len name",
    "skb:kfree_skb skbaddr location reason protocol",
    "syscalls:sys_enter_openat dfd filename flags mode",
    "syscalls:sys_exit_openat ret",
];

#[test]
fn tracepoints_are_served_by_raw_arguments_where_these_say_the_same() {
    let facts = LiveFacts::new();
    if !facts.has(Feature::TpBtf) || facts.tracepoints().is_empty() {
        testkit::skipped!("this kernel has no typed raw tracepoints, or its tracepoints cannot be read");
    }
    let environment = LiveEnvironment::new(None);
    let kind = |text: &str| {
        let front = front(text, &options(&environment), &facts);
        let Some(hir) = front.hir else { panic!("{text}\n{}", front.report()) };
        hir.schema.programs[0].kind
    };
    for row in SERVED {
        let (name, fields) = row.split_once(' ').unwrap();
        let fields: Vec<String> = fields.split(' ').map(|field| format!("args.{field}")).collect();
        let text = format!("tracepoint:{name} {{ print(({},)); }}", fields.join(", "));
        assert_eq!(kind(&text), ProgramKind::TracingRawTracepoint, "{row}");
    }
    // A field that is not known to be the same, and a stack that would show the attachment.
    assert_eq!(kind("tracepoint:sched:sched_switch { @ = args.prev_state; }"), ProgramKind::Tracepoint);
    assert_eq!(
        kind("tracepoint:sched:sched_switch { @[kstack, args.prev_pid] = count(); }"),
        ProgramKind::Tracepoint
    );
    // One program serves all calls of a probe.
    assert_eq!(
        kind("tracepoint:syscalls:sys_enter_* { @[probe] = count(); }"),
        ProgramKind::TracingRawTracepoint
    );
    // What happens once in a thread's life is not worth a look at every call.
    assert_eq!(
        kind("tracepoint:syscalls:sys_enter_exit,tracepoint:syscalls:sys_enter_exit_group { @ = count(); }"),
        ProgramKind::Tracepoint
    );
    // One raw tracepoint for several system calls would run every program for every call.
    assert_eq!(
        kind(
            "tracepoint:syscalls:sys_enter_read { @ = args.fd; } tracepoint:syscalls:sys_enter_write { @ = args.fd; }"
        ),
        ProgramKind::Tracepoint
    );
}

#[test]
fn raw_arguments_that_old_verifiers_refuse_are_read_without_types() {
    let environment = LiveEnvironment::new(None);
    for kernel in testkit::saved_facts::names() {
        let facts = testkit::saved_facts::load(&kernel);
        let front = front("rawtracepoint:kfree { print(args.ptr); }", &options(&environment), &facts);
        let Some(hir) = front.hir else { panic!("{}", front.report()) };
        // `const void *`, of which kernels up to 6.12 say that it is no struct.
        assert_eq!(hir.schema.programs[0].kind, ProgramKind::RawTracepoint);
    }
}
