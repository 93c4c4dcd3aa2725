//! The machine and the current task: time, ids, CPU, cgroup.

use super::super::checker::Checker;
use super::super::convert::constant;
use super::super::place::Value;
use super::{Builtin, Call, Check, Mode, row};
use crate::diagnostic::{Code, Diagnostic};
use crate::hir::{Expr, ExprKind, Intrinsic};
use crate::types::{Clock, Space, Type};

pub(super) const ROWS: &[Builtin] = &[
    row(
        &["pid", "__builtin_pid"],
        "uint32 pid([curr_ns|init])",
        "Process id of the current thread, as the tracer's PID namespace sees it (init: as the host does).",
        Mode::Inline,
        (0, 1),
        Check::Value(pid),
    ),
    row(
        &["tid", "__builtin_tid"],
        "uint32 tid([curr_ns|init])",
        "Id of the current thread, as pid.",
        Mode::Inline,
        (0, 1),
        Check::Value(pid),
    ),
    row(
        &["uid", "__builtin_uid"],
        "uint32 uid",
        "User id of the current thread.",
        Mode::Inline,
        (0, 0),
        Check::Value(uid),
    ),
    row(
        &["gid", "__builtin_gid"],
        "uint32 gid",
        "Group id of the current thread.",
        Mode::Inline,
        (0, 0),
        Check::Value(gid),
    ),
    row(
        &["comm", "__builtin_comm"],
        "string comm\nprocess_name_t comm(uint32 pid)",
        "Name of the current thread, up to 15 bytes; or of the process with that number, looked up when it prints.",
        Mode::Inline,
        (0, 1),
        Check::Value(comm),
    ),
    row(
        &["pcomm"],
        "string pcomm([struct task_struct *task])",
        "Name of the current (or the given) thread's process.",
        Mode::Inline,
        (0, 1),
        Check::Value(pcomm),
    ),
    row(
        &["ppid"],
        "uint32 ppid([struct task_struct *task])",
        "Process id of the parent of the current (or the given) process.",
        Mode::Inline,
        (0, 1),
        Check::Value(ppid),
    ),
    row(
        &["curtask", "__builtin_curtask"],
        "struct task_struct *curtask",
        "The current thread's task_struct.",
        Mode::Inline,
        (0, 0),
        Check::Value(curtask),
    ),
    row(
        &["nsecs", "__builtin_nsecs"],
        "uint64 nsecs([boot|monotonic|tai|sw_tai])",
        "Nanoseconds since boot, or of the clock named.",
        Mode::Inline,
        (0, 1),
        Check::Value(nsecs),
    ),
    row(
        &["elapsed", "__builtin_elapsed"],
        "uint64 elapsed",
        "Nanoseconds since the program began.",
        Mode::Inline,
        (0, 0),
        Check::Value(elapsed),
    ),
    row(
        &["cpu", "__builtin_cpu"],
        "uint32 cpu",
        "Number of the CPU that the probe runs on.",
        Mode::Inline,
        (0, 0),
        Check::Value(cpu),
    ),
    row(
        &["ncpus", "__builtin_ncpus"],
        "uint32 ncpus",
        "Number of possible CPUs.",
        Mode::Comptime,
        (0, 0),
        Check::Value(ncpus),
    ),
    row(
        &["numaid", "__builtin_numaid"],
        "uint32 numaid",
        "NUMA node of the CPU that the probe runs on.",
        Mode::Inline,
        (0, 0),
        Check::Value(numaid),
    ),
    row(
        &["cgroup", "__builtin_cgroup"],
        "uint64 cgroup",
        "Id of the current thread's cgroup (v2).",
        Mode::Inline,
        (0, 0),
        Check::Value(cgroup),
    ),
    row(
        &["rand", "__builtin_rand"],
        "uint32 rand",
        "A pseudo random number.",
        Mode::Inline,
        (0, 0),
        Check::Value(rand),
    ),
    row(
        &["jiffies", "__builtin_jiffies"],
        "uint64 jiffies",
        "The kernel's count of ticks.",
        Mode::Inline,
        (0, 0),
        Check::Value(jiffies),
    ),
    row(
        &["usermode", "__builtin_usermode"],
        "uint8 usermode",
        "1 when the interrupted code was in user mode.",
        Mode::Inline,
        (0, 0),
        Check::Value(usermode),
    ),
    row(
        &["username", "__builtin_username"],
        "string username",
        "Name of the current user.",
        Mode::Async,
        (0, 0),
        Check::Value(username),
    ),
    row(
        &["cpid", "__builtin_cpid"],
        "uint32 cpid",
        "Process id of the command started with -c; 0 without one.",
        Mode::Comptime,
        (0, 0),
        Check::Value(cpid),
    ),
    row(
        &["has_cpid"],
        "bool has_cpid",
        "Whether a command was started with -c.",
        Mode::Comptime,
        (0, 0),
        Check::Value(has_cpid),
    ),
    row(
        &["in_cgroup"],
        "bool in_cgroup(const string path)",
        "Whether the current thread is in that cgroup or one below it.",
        Mode::Inline,
        (1, 1),
        Check::Value(in_cgroup),
    ),
    row(
        &["sample"],
        "bool sample(const int n)",
        "True for one call in n on average: /sample(100)/ looks at one event in a hundred.",
        Mode::Inline,
        (1, 1),
        Check::Value(sample),
    ),
    row(
        &["ratelimit"],
        "bool ratelimit(const int times, const int time)",
        "True at most that many times in each span of time, on each CPU: /ratelimit(10, 1s)/.",
        Mode::Inline,
        (1, 2),
        Check::Value(ratelimit),
    ),
];

fn intrinsic(checker: &Checker<'_>, call: &Call<'_>, intrinsic: Intrinsic, ty: Type) -> Option<Expr> {
    Some(checker.make(ExprKind::Intrinsic(intrinsic, Vec::new()), ty, call.span))
}

fn pid<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let initial = match call.arguments.first() {
        None => false,
        Some(argument) => match checker.argument_word(call, 0) {
            Some("init") => true,
            Some("curr_ns") => false,
            _ => return checker.misused(call, argument.span(), "the namespace is curr_ns or init"),
        },
    };
    let which =
        if call.row.names[0] == "pid" { Intrinsic::Pid { initial } } else { Intrinsic::Tid { initial } };
    intrinsic(checker, call, which, Type::U32)
}

fn uid<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    intrinsic(checker, call, Intrinsic::Uid, Type::U32)
}

fn gid<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    intrinsic(checker, call, Intrinsic::Gid, Type::U32)
}

fn comm<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    if !call.arguments.is_empty() {
        let pid = checker.argument_as(call, 0, &Type::U32)?;
        let name = ExprKind::Intrinsic(Intrinsic::ProcessName, vec![pid]);
        return Some(checker.make(name, Type::ProcessName, call.span));
    }
    intrinsic(checker, call, Intrinsic::Comm, Type::String(16))
}

/// The task given as argument, or the current one.
fn task<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    if call.arguments.is_empty() {
        return curtask(checker, call);
    }
    let value = checker.argument_value(call, 0)?;
    let Some(record) = checker.resolver.record("task_struct", false) else { return no_task(checker, call) };
    let wanted = Type::pointer(Type::Record(record), Space::Kernel);
    match &value.ty {
        Type::Pointer { to, .. } if **to == Type::Record(record) => Some(value),
        Type::Integer(_) => Some(checker.cast_to(value, &wanted, call.span)),
        ty => {
            let message = format!("{}() takes a struct task_struct *, not a {}", call.name, checker.show(ty));
            checker.misused(call, value.span, message)
        }
    }
}

fn no_task<'a, T>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<T> {
    let finding = Diagnostic::error(
        Code::UnknownType,
        checker.at(call.span),
        "struct task_struct is not known: this kernel has no BTF",
    );
    checker.report(finding.help("declare the struct in the program"));
    None
}

fn fields<'a>(checker: &mut Checker<'a>, call: &Call<'a>, path: &[&str]) -> Option<Expr> {
    let mut value = Value::Expr(task(checker, call)?);
    for name in path {
        value = checker.field_of(value, name, call.span, call.span);
    }
    let value = checker.read(value);
    Some(checker.decay(value))
}

fn pcomm<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    fields(checker, call, &["group_leader", "comm"])
}

fn ppid<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let value = fields(checker, call, &["real_parent", "tgid"])?;
    Some(checker.cast_to(value, &Type::U32, call.span))
}

fn curtask<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let to = checker.resolver.record("task_struct", false).map_or(Type::Void, Type::Record);
    // The typed helper came with 5.11; before, and for perf events and kprobes, the lowering may
    // read it as plain kernel memory.
    intrinsic(checker, call, Intrinsic::CurrentTask, Type::pointer(to, Space::Btf))
}

fn nsecs<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let clock = match call.arguments.first() {
        None => Clock::Boot,
        Some(argument) => match checker.argument_word(call, 0) {
            Some("boot") => Clock::Boot,
            Some("monotonic") => Clock::Monotonic,
            Some("tai") => Clock::Tai,
            Some("sw_tai") => Clock::SoftwareTai,
            _ => {
                return checker.misused(call, argument.span(), "the clock is boot, monotonic, tai or sw_tai");
            }
        },
    };
    intrinsic(checker, call, Intrinsic::Nsecs(clock), Type::U64)
}

fn elapsed<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    intrinsic(checker, call, Intrinsic::Elapsed, Type::U64)
}

fn cpu<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    intrinsic(checker, call, Intrinsic::Cpu, Type::U32)
}

fn ncpus<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    Some(checker.int(u64::from(checker.facts.possible_cpus()), Type::U32, call.span))
}

fn numaid<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    intrinsic(checker, call, Intrinsic::NumaNode, Type::U32)
}

fn cgroup<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    intrinsic(checker, call, Intrinsic::CgroupId, Type::U64)
}

fn rand<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    intrinsic(checker, call, Intrinsic::Random, Type::U32)
}

fn jiffies<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    intrinsic(checker, call, Intrinsic::Jiffies, Type::U64)
}

fn usermode<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    intrinsic(checker, call, Intrinsic::UserMode, Type::unsigned(1))
}

fn username<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    intrinsic(checker, call, Intrinsic::UserName, Type::UserName)
}

fn cpid<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    if checker.options.child.is_none() {
        checker.warn(Code::NotInThisProbe, call.span, "cpid is 0: no command was started with -c");
    }
    Some(checker.int(u64::from(checker.options.child.unwrap_or(0)), Type::U32, call.span))
}

fn has_cpid<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    Some(checker.int(u64::from(checker.options.child.is_some()), Type::Bool, call.span))
}

fn in_cgroup<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let path = checker.argument_string(call, 0)?;
    let id = super::symbols::cgroup_id(checker, call, &path)?;
    intrinsic(checker, call, Intrinsic::InCgroup { id }, Type::Bool)
}

fn sample<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    match checker.argument_constant(call, 0)? {
        1 => Some(checker.int(1, Type::Bool, call.span)),
        n if (2..=1 << 31).contains(&n) => {
            intrinsic(checker, call, Intrinsic::Sample { one_in: n as u32 }, Type::Bool)
        }
        _ => checker.misused(call, call.span, "sample() takes a number from 1 to 2^31"),
    }
}

fn ratelimit<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let count = checker.argument_constant(call, 0)?;
    let per = if call.arguments.len() > 1 { checker.argument_constant(call, 1)? } else { 1_000_000_000 };
    let (Ok(count), Ok(per)) = (u64::try_from(count), u64::try_from(per)) else {
        return checker.misused(call, call.span, "ratelimit() takes positive numbers");
    };
    if count == 0 || per == 0 {
        return checker.misused(call, call.span, "ratelimit() takes positive numbers");
    }
    let site = checker.rate_sites;
    checker.rate_sites += 1;
    let value = intrinsic(checker, call, Intrinsic::RateLimit { count, per, site }, Type::Bool)?;
    debug_assert!(constant(&value).is_none());
    Some(value)
}
