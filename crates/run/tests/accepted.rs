//! What the checker accepts the verifier accepts: programs with every kind of access, and
//! random ones, are loaded into this kernel and not attached. A refusal is a fault of ours.

// What is skipped is said on stdout, where the test runner's list finds it.
#![allow(clippy::print_stdout)]

use bpf::KernelFacts;
use bpf::facts::Feature;
use kernel::facts::LiveFacts;
use lang::generate::{Shape, program};
use lang::options::Options;
use run::program::compile::compile;
use run::program::live_environment::LiveEnvironment;
use run::program::session;

/// `Err`: the kernel (or the compiler) says no, with the whole reason.
fn load(text: &str, facts: &LiveFacts) -> Result<(), String> {
    let environment = LiveEnvironment::new(None);
    let options = Options { environment: &environment, unsafe_allowed: true, ..Options::default() };
    let outcome = compile(text, &options, facts, None);
    let compiled = outcome.compiled.ok_or(outcome.report)?;
    session::load(&compiled, facts, false).map(drop).map_err(|why| why.to_string())
}

fn able() -> Option<LiveFacts> {
    let facts = LiveFacts::new();
    if !facts.has(Feature::TpBtf) || facts.tracepoints().is_empty() {
        testkit::skip::note(
            module_path!(),
            "this kernel has no typed raw tracepoints, or its tracepoints cannot be read",
        );
        return None;
    }
    if let Err(why) = load("begin { }", &facts) {
        testkit::skip::note(module_path!(), &format!("no program can be loaded here: {why}"));
        return None;
    }
    Some(facts)
}

const PROGRAMS: &[&str] = &[
    "iter:task_file { printf(\"%s:%d %d:%s\\n\", ctx.task.comm, ctx.task.pid, ctx.fd, path(ctx.file.f_path)); }",
    "iter:task_vma { printf(\"%s %d %lx-%lx\\n\", comm, pid, ctx.vma.vm_start, ctx.vma.vm_end); }",
    "rawtracepoint:workqueue_execute_end { print((arg0, arg1)); }",
    "rawtracepoint:sched_switch { $t = args.prev; if ($t.pid > 0) { $t = args.next; } @[$t.comm] = count(); }",
    "rawtracepoint:sched_switch { $m = args.prev.mm; if ($m != 0) { @[$m.owner.comm] = count(); } }",
    "rawtracepoint:tcp_retransmit_skb { @[ntop(args.sk.__sk_common.skc_daddr), args.sk.__sk_common.skc_dport] = count(); }",
    "tracepoint:sched:sched_switch { @[curtask.real_parent.comm, curtask.cred.uid.val, curtask.nsproxy.pid_ns_for_children.level] = count(); }",
    "rawtracepoint:sched_process_exec { @[str(args.bprm.filename), args.p.comm] = count(); print(*args.p.cred); }",
    "tracepoint:sock:inet_sock_set_state { @[args.family, args.protocol, args.newstate, ntop(args.daddr), ntop(args.daddr_v6)] = count(); }",
    "tracepoint:kmem:kmalloc { @[args.call_site, args.bytes_alloc] = count(); printf(\"%gr\\n\", args.gfp_flags); }",
    "tracepoint:writeback:writeback_start { @[args.name, args.reason] = count(); }",
    "tracepoint:sched:* { @[probe] = count(); }",
    "profile:hz:99 { @[kstack(perf), ustack, comm] = count(); @c[cpu] = count(); }",
    "tracepoint:raw_syscalls:sys_enter { @[args.args[0]] = count(); $i = args.id % 6; @b[args.args[$i]] = count(); }",
    "tracepoint:syscalls:sys_enter_execve { join(args.argv); }",
    "struct foo { int a; char b[10]; }; uprobe:libc:malloc { $f = (struct foo *)arg0; printf(\"%d %s %r\\n\", $f->a, $f->b, buf($f->b, 4)); $g = *$f; @[$g.b] = $g.a; print($g); }",
    "fn f($p : struct task_struct *, $n : uint32) : uint64 { return $p->pid + $n; } rawtracepoint:sched_switch { @ = f(args.prev, 3); }",
    "tracepoint:sched:sched_wakeup /sample(10) && ratelimit(5, 1s)/ { @[args.comm] = llhist(nsecs); }",
    "rawtracepoint:sys_enter { @[args.id, ((struct pt_regs *)args.regs)->di, args.regs.si] = count(); }",
    "software:cpu-clock:1000000 { @[reg(\"ip\")] = count(); @u = usermode; }",
    "begin { $s = str(\"abc\"); $t = (1, $s, (uint8)3, (2, comm)); @[$t] = $t; for ($kv : @) { print($kv.0.3.1); print($kv.1 == $kv.0); } }",
    "tracepoint:block:block_rq_issue { @q[args.dev] = count(); @s[args.rwbs, args.comm] = hist(args.bytes); } tracepoint:block:block_rq_complete /@q[args.dev]/ { @e[args.error] = count(); }",
    "rawtracepoint:net_dev_queue { @[args.skb.dev.name, args.skb.len] = count(); @p = (uint16)args.skb.protocol; }",
    "rawtracepoint:kfree_skb { @[args.reason, ksym(args.location)] = count(); if (args.reason > SKB_DROP_REASON_NOT_SPECIFIED) { printf(\"%s\\n\", args.reason); } }",
    "begin { $i = 0; while (1) { $i++; if ($i > 100) { break; } @ = sum($i); } for ($a : 0..5) { for ($b : 0..5) { if ($b == $a) { continue; } @m[$a, $b] = $a * $b; } } }",
];

#[test]
fn programs_with_every_kind_of_access_load() {
    let Some(facts) = able() else { return };
    let refused: Vec<String> = PROGRAMS
        .iter()
        .filter_map(|text| load(text, &facts).err().map(|why| format!("{text}\n{why}")))
        .collect();
    assert!(refused.is_empty(), "{}", refused.join("\n\n"));
}

#[test]
fn random_well_typed_programs_load() {
    let Some(facts) = able() else { return };
    let mut refused = Vec::new();
    for seed in 1000..1000 + testkit::longer(60) {
        let probe = if seed % 2 == 0 { "begin" } else { "tracepoint:raw_syscalls:sys_enter" };
        let text = program(seed, &Shape { probe: probe.into(), ..Shape::default() });
        if let Err(why) = load(&text, &facts) {
            refused.push(format!("seed {seed}\n{text}\n{why}"));
        }
    }
    assert!(refused.is_empty(), "{} refused\n{}", refused.len(), refused[0]);
}

/// Every `one_in`-th of a list in an ordinary run, the whole list in a long one.
fn share<T>(all: Vec<T>, one_in: usize) -> Vec<T> {
    let step = if testkit::longer(1) > 1 { 1 } else { one_in };
    all.into_iter().step_by(step).collect()
}

fn refusals(texts: Vec<String>, facts: &LiveFacts) {
    let refused: Vec<String> =
        texts.iter().filter_map(|text| load(text, facts).err().map(|why| format!("{text}\n{why}"))).collect();
    assert!(refused.is_empty(), "{} of {} refused\n{}", refused.len(), texts.len(), refused.join("\n\n"));
}

#[test]
fn raw_tracepoints_load_with_all_their_arguments_read() {
    let Some(facts) = able() else { return };
    let Some(btf) = facts.btf() else { return };
    let texts = btf.tracepoint_names().map(|name| {
        let count = btf.tracepoint(name).map_or(0, |signature| signature.parameters.len());
        let arguments: Vec<String> = (0..count).map(|at| format!("arg{at}")).collect();
        let read = if count == 0 { "probe".into() } else { arguments.join(", ") };
        format!("rawtracepoint:{name} {{ print(({read}, 1)); @[cpu] = count(); }}")
    });
    refusals(share(texts.collect(), 16), &facts);
}

#[test]
fn tracepoints_load_with_all_their_fields_read() {
    let Some(facts) = able() else { return };
    let mut texts = Vec::new();
    for name in share(facts.tracepoints().to_vec(), 24) {
        let Some((category, event)) = name.split_once(':') else { continue };
        let Some(format) = facts.tracepoint_format(category, event) else { continue };
        let fields: Vec<String> = fields_of(&format).iter().map(|field| format!("args.{field}")).collect();
        // A tuple of everything, and each as a key.
        let fields = if fields.is_empty() { vec!["probe".to_owned()] } else { fields };
        texts.push(format!("tracepoint:{name} {{ print(({}, 1)); }}", fields.join(", ")));
    }
    refusals(texts, &facts);
}

/// Names of the fields that are the event's own.
fn fields_of(format: &str) -> Vec<&str> {
    let declarations =
        format.lines().filter_map(|line| line.trim().strip_prefix("field:")?.split(';').next());
    let names = declarations.filter_map(|declared| {
        let name = declared.split_whitespace().next_back()?.split('[').next()?;
        let name = name.trim_start_matches('*');
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        (plain && !name.starts_with("common_") && !name.starts_with(|c: char| c.is_ascii_digit()))
            .then_some(name)
    });
    names.collect()
}
