//! Symbols, stacks, cgroups, times and other values that are looked up when they print.

use bpf::btf::{Kind, KindSet};

use super::super::checker::Checker;
use super::{Builtin, Call, Check, Mode, row};
use crate::diagnostic::{Code, Diagnostic};
use crate::environment::Unanswered;
use crate::hir::{Expr, ExprKind, Intrinsic};
use crate::schema::{Attach, EmitKind};
use crate::types::{Clock, Space, Stack, Type};

pub(super) const ROWS: &[Builtin] = &[
    row(
        &["kstack", "__builtin_kstack"],
        "kstack_t kstack([bpftrace|perf|raw|build_id] [,] [const int limit])",
        "The kernel's call stack, at most limit frames (127).",
        Mode::Inline,
        (0, 2),
        Check::Value(stack),
    ),
    row(
        &["ustack", "__builtin_ustack"],
        "ustack_t ustack([bpftrace|perf|raw|build_id] [,] [const int limit])",
        "The process's call stack, at most limit frames (127).",
        Mode::Inline,
        (0, 2),
        Check::Value(stack),
    ),
    row(
        &["ksym"],
        "ksym_t ksym(uint64 address)",
        "The kernel function at an address, to print.",
        Mode::Async,
        (1, 1),
        Check::Value(ksym),
    ),
    row(
        &["usym"],
        "usym_t usym(uint64 address)",
        "The process's function at an address, to print.",
        Mode::Async,
        (1, 1),
        Check::Value(usym),
    ),
    row(
        &["kaddr"],
        "uint64 *kaddr(const string symbol)",
        "Address of a kernel symbol.",
        Mode::Comptime,
        (1, 1),
        Check::Value(kaddr),
    ),
    row(
        &["percpu_kaddr"],
        "T *percpu_kaddr(const string symbol [, int cpu])",
        "Address of this (or another) CPU's copy of a per-CPU kernel variable; null for a CPU that is not there.",
        Mode::Inline,
        (1, 2),
        Check::Value(percpu_kaddr),
    ),
    row(
        &["uaddr"],
        "T *uaddr(const string symbol)",
        "Address of a data symbol of the traced binary.",
        Mode::Comptime,
        (1, 1),
        Check::Value(uaddr),
    ),
    row(
        &["cgroupid"],
        "uint64 cgroupid(const string path)",
        "Id of the cgroup (v2) at a path.",
        Mode::Comptime,
        (1, 1),
        Check::Value(cgroupid),
    ),
    row(
        &["cgroup_path"],
        "cgroup_path_t cgroup_path(uint64 id [, const string filter])",
        "Path of the cgroup with that id, to print.",
        Mode::Async,
        (1, 2),
        Check::Value(cgroup_path),
    ),
    row(
        &["strftime"],
        "timestamp strftime(const string format, uint64 nsecs)",
        "A time of day from nanoseconds since boot, to print; %f is microseconds.",
        Mode::Async,
        (2, 2),
        Check::Value(strftime),
    ),
    row(
        &["socket_cookie"],
        "uint64 socket_cookie(struct sock *sk)",
        "The kernel's lasting number of a socket.",
        Mode::Inline,
        (1, 1),
        Check::Value(socket_cookie),
    ),
    row(
        &["skboutput"],
        "uint32 skboutput(const string file, struct sk_buff *skb, uint64 length, uint64 offset)",
        "Writes a packet's bytes to a pcap file; 0 on success.",
        Mode::Async,
        (4, 4),
        Check::Value(skboutput),
    ),
];

/// Frames kept when no limit is given: what the kernel walks by default.
const USUAL_FRAMES: u16 = 127;

fn stack<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let mut found =
        Stack { user: call.row.names[0] == "ustack", mode: checker.config.stack_mode, limit: USUAL_FRAMES };
    for position in 0..call.arguments.len() {
        if let Some(word) = checker.argument_word(call, position)
            && let Some((_, mode)) = crate::config::STACK_MODES.iter().find(|(name, _)| *name == word)
        {
            found.mode = *mode;
            continue;
        }
        match checker.argument_constant(call, position)? {
            limit if (1..=127).contains(&limit) => found.limit = limit as u16,
            _ => {
                return checker.misused(call, call.arguments[position].span(), "a stack has 1 to 127 frames");
            }
        }
    }
    Some(checker.make(ExprKind::Intrinsic(Intrinsic::Stack, Vec::new()), Type::Stack(found), call.span))
}

fn address<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let value = checker.argument_value(call, 0)?;
    if value.ty.is_integral() || matches!(value.ty, Type::Pointer { .. } | Type::KernelSymbol) {
        let value = checker.widen(value);
        return Some(checker.coerced(value, &Type::U64));
    }
    let message = format!("{}() takes an address, not a {}", call.name, checker.show(&value.ty));
    checker.misused(call, value.span, message)
}

fn ksym<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let value = address(checker, call)?;
    Some(checker.make(
        ExprKind::Intrinsic(Intrinsic::KernelSymbol, vec![value]),
        Type::KernelSymbol,
        call.span,
    ))
}

fn usym<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let value = address(checker, call)?;
    Some(checker.make(ExprKind::Intrinsic(Intrinsic::UserSymbol, vec![value]), Type::UserSymbol, call.span))
}

fn kaddr<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let name = checker.argument_string(call, 0)?;
    match checker.facts.kernel_symbol(&name).filter(|address| *address != 0) {
        Some(address) => Some(checker.int(address, Type::U64, call.span)),
        None => {
            let finding = Diagnostic::error(
                Code::CannotAsk,
                checker.at(call.span),
                format!("the address of kernel symbol '{name}' is not known"),
            );
            checker.report(finding.help(
                "/proc/kallsyms has it if it exists, kernel.kptr_restrict allows it and, for data, CONFIG_KALLSYMS_ALL is set",
            ));
            None
        }
    }
}

fn percpu_kaddr<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let name = checker.argument_string(call, 0)?;
    let mut arguments = Vec::new();
    if call.arguments.len() > 1 {
        arguments.push(checker.argument_as(call, 1, &Type::U32)?);
    }
    let found = checker.resolver.blob(0).and_then(|btf| {
        let id = btf.find(&name, KindSet::VARIABLE)?;
        match btf.get(id)?.kind {
            Kind::Variable(ty) => Some((id, ty)),
            _ => None,
        }
    });
    let Some((btf_id, ty)) = found else {
        let message = format!("the kernel's BTF has no per-CPU variable '{name}'");
        checker.error(Code::CannotAsk, call.span, message);
        return None;
    };
    let ty = checker.resolver.type_of_btf(0, ty);
    let intrinsic = Intrinsic::PerCpuAddress { btf_id, name };
    Some(checker.make(ExprKind::Intrinsic(intrinsic, arguments), Type::pointer(ty, Space::Kernel), call.span))
}

fn uaddr<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let name = checker.argument_string(call, 0)?;
    let path = checker.body.variant.and_then(|variant| match &variant.targets[0].attach {
        Attach::Uprobe { path, .. } | Attach::Usdt { path, .. } => Some(path.clone()),
        _ => None,
    });
    let Some(path) = path else {
        checker.error(Code::NotInThisProbe, call.span, "uaddr() works in uprobe, uretprobe and usdt only");
        return None;
    };
    match checker.options.environment.data_symbol(&path, &name) {
        Ok(Some(symbol)) => {
            let bytes = match symbol.size {
                1 | 2 | 4 | 8 => symbol.size as u8,
                _ => 8,
            };
            let ty = Type::pointer(Type::unsigned(bytes), Space::User);
            Some(checker.int(symbol.address, ty, call.span))
        }
        Ok(None) => {
            checker.error(Code::CannotAsk, call.span, format!("{path} has no symbol '{name}'"));
            None
        }
        Err(Unanswered(why)) => {
            checker.error(Code::CannotAsk, call.span, why);
            None
        }
    }
}

/// The id of a cgroup, by the file system.
pub(super) fn cgroup_id<'a>(checker: &mut Checker<'a>, call: &Call<'a>, path: &str) -> Option<u64> {
    match checker.options.environment.cgroup_id(path) {
        Ok(Some(id)) => Some(id),
        Ok(None) => {
            checker.error(Code::CannotAsk, call.span, format!("there is no cgroup at '{path}'"));
            None
        }
        Err(Unanswered(why)) => {
            checker.error(Code::CannotAsk, call.span, why);
            None
        }
    }
}

fn cgroupid<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let path = checker.argument_string(call, 0)?;
    let id = cgroup_id(checker, call, &path)?;
    Some(checker.int(id, Type::U64, call.span))
}

fn cgroup_path<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let id = checker.argument_as(call, 0, &Type::U64)?;
    let mut filter = 0;
    if call.arguments.len() > 1 {
        let text = checker.argument_string(call, 1)?;
        filter = Checker::intern(&mut checker.strings, &text) + 1;
    }
    let intrinsic = Intrinsic::CgroupPath { filter };
    Some(checker.make(ExprKind::Intrinsic(intrinsic, vec![id]), Type::CgroupPath, call.span))
}

fn strftime<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let format = checker.argument_string(call, 0)?;
    let value = checker.argument_as(call, 1, &Type::U64)?;
    let clock = match &value.kind {
        ExprKind::Intrinsic(Intrinsic::Nsecs(clock), _) => *clock,
        _ => Clock::Boot,
    };
    let format = Checker::intern(&mut checker.time_formats, &format);
    let intrinsic = Intrinsic::Timestamp { format, clock };
    Some(checker.make(ExprKind::Intrinsic(intrinsic, vec![value]), Type::Timestamp, call.span))
}

fn record_pointer<'a>(
    checker: &mut Checker<'a>,
    call: &Call<'a>,
    position: usize,
    name: &str,
) -> Option<Expr> {
    let value = checker.argument_value(call, position)?;
    match &value.ty {
        Type::Pointer { to, .. } if matches!(**to, Type::Record(_)) => Some(value),
        ty => {
            let message = format!("{}() takes a struct {name} *, not a {}", call.name, checker.show(ty));
            checker.misused(call, value.span, message)
        }
    }
}

fn socket_cookie<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let value = record_pointer(checker, call, 0, "sock")?;
    Some(checker.make(ExprKind::Intrinsic(Intrinsic::SocketCookie, vec![value]), Type::U64, call.span))
}

fn skboutput<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let path = checker.argument_string(call, 0)?;
    let skb = record_pointer(checker, call, 1, "sk_buff")?;
    let length = checker.argument_as(call, 2, &Type::U64)?;
    let offset = checker.argument_as(call, 3, &Type::U64)?;
    let types = vec![Type::Buffer(checker.config.max_strlen), Type::U64];
    let record = checker.record(EmitKind::SkbOutput(path), types, call.span);
    let intrinsic = Intrinsic::SkbOutput(record);
    Some(checker.make(ExprKind::Intrinsic(intrinsic, vec![skb, length, offset]), Type::U32, call.span))
}
