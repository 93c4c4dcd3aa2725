//! The probe that fired: its arguments, result, name and context.

use super::super::checker::Checker;
use super::super::convert::constant;
use super::super::place::Value;
use super::super::probes::{Args, ProbeType};
use super::super::registers::Registers;
use super::{Builtin, Call, Check, Mode, row, unsafe_row};
use crate::diagnostic::{Code, Diagnostic};
use crate::hir::{Base, Expr, ExprKind, Intrinsic, Place, UsdtKind};
use crate::schema::ProgramKind;
use crate::source::Span;
use crate::types::{Space, Type};

pub(super) const ROWS: &[Builtin] = &[
    row(
        &["args"],
        "struct args",
        "The arguments of the probe by name, args.NAME, where they are known.",
        Mode::Inline,
        (0, 0),
        Check::Place(args),
    ),
    row(
        &["retval"],
        "uint64 retval",
        "What the traced function returned; of the function's own type in fexit and where BTF says it.",
        Mode::Inline,
        (0, 0),
        Check::Value(retval),
    ),
    row(
        &["ctx", "__builtin_ctx"],
        "void *ctx",
        "The context of the BPF program; iterators have their objects in it.",
        Mode::Inline,
        (0, 0),
        Check::Value(ctx),
    ),
    row(
        &["probe", "__builtin_probe"],
        "string probe",
        "Name of the probe that fired, wildcards expanded.",
        Mode::Inline,
        (0, 0),
        Check::Value(probe),
    ),
    row(
        &["probetype", "__builtin_probetype"],
        "string probetype",
        "Type of the probe that fired.",
        Mode::Inline,
        (0, 0),
        Check::Value(probetype),
    ),
    row(
        &["func", "__builtin_func"],
        "string func",
        "Name of the traced function.",
        Mode::Inline,
        (0, 0),
        Check::Value(func),
    ),
    row(
        &["reg"],
        "uint64 reg(const string name)",
        "A register of the traced code, by its name in pt_regs (ip, sp, ax, …).",
        Mode::Inline,
        (1, 1),
        Check::Value(reg),
    ),
    unsafe_row(
        &["override", "override_return"],
        "void override(uint64 result)",
        "Returns this from the traced function, which is not run; kprobes on functions marked for it.",
        Mode::Inline,
        (1, 1),
        Check::Value(override_result),
    ),
    unsafe_row(
        &["signal"],
        "void signal(const string name)\nvoid signal(uint32 number)",
        "Sends a signal to the current process.",
        Mode::Inline,
        (1, 1),
        Check::Value(signal),
    ),
    unsafe_row(
        &["signal_thread"],
        "void signal_thread(const string name)\nvoid signal_thread(uint32 number)",
        "Sends a signal to the current thread.",
        Mode::Inline,
        (1, 1),
        Check::Value(signal),
    ),
];

fn args<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Value> {
    Some(checker.args_value(call.span))
}

fn not_here<'a, T>(checker: &mut Checker<'a>, span: Span, message: String, help: &str) -> Option<T> {
    let finding = Diagnostic::error(Code::NotInThisProbe, checker.at(span), message);
    checker.report(finding.help(help.to_string()));
    None
}

/// The word with `a` or `an` before it.
fn with_article(word: &str) -> String {
    let article = if word.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {word}")
}

/// `arg0`, `arg1`, …
pub(super) fn numbered_argument(checker: &mut Checker<'_>, number: usize, span: Span) -> Expr {
    let Some(variant) = checker.body.variant else {
        return checker.error(Code::NotInThisProbe, span, format!("arg{number} is known in probes only"));
    };
    match &variant.args {
        Args::Raw { signature, typed } => match signature.parameters.get(number) {
            // The raw slot: a pointer as an integer, whatever its type, as argN is everywhere.
            Some((_, ty)) => {
                let _ = typed;
                let signed = ty.is_signed();
                let ty = if ty.is_integral() { ty.clone() } else { Type::U64 };
                match checker.slot(number, &ty, false, span) {
                    Value::Expr(value) if signed => checker.coerced(value, &Type::I64),
                    Value::Expr(value) if value.ty.is_integral() => checker.coerced(value, &Type::U64),
                    other => checker.read(other),
                }
            }
            None => {
                let message =
                    format!("{} has {} arguments", variant.targets[0].name, signature.parameters.len());
                checker.error(Code::NotInThisProbe, span, message)
            }
        },
        Args::None if variant.kind == ProgramKind::RawTracepoint => {
            match checker.slot(number, &Type::U64, false, span) {
                Value::Expr(value) => value,
                other => checker.read(other),
            }
        }
        Args::Registers(_) if !matches!(variant.probe_type, ProbeType::Kretprobe | ProbeType::Uretprobe) => {
            checker.register_argument(number, span)
        }
        Args::Usdt(locations) => match locations.get(number) {
            Some(Some(location)) => {
                let ty = if location.signed { Type::I64 } else { Type::U64 };
                match &location.kind {
                    UsdtKind::Constant(value) => checker.int(*value as u64, ty, span),
                    _ => checker.make(ExprKind::UsdtArgument(vec![location.clone()]), ty, span),
                }
            }
            Some(None) => {
                let message = format!("arg{number} of this static probe is in a place that cannot be read");
                checker.error(Code::NotInThisProbe, span, message)
            }
            None => {
                let message = format!("{} has {} arguments", variant.targets[0].name, locations.len());
                checker.error(Code::NotInThisProbe, span, message)
            }
        },
        _ => {
            let provider = variant.probe_type.provider();
            let help = match variant.probe_type {
                ProbeType::Kretprobe | ProbeType::Uretprobe => {
                    "keep it in a map at function entry: @arg[tid] = arg0"
                }
                ProbeType::Tracepoint => "use args.NAME",
                _ => "kprobe, uprobe, usdt and rawtracepoint have numbered arguments",
            };
            let finding = Diagnostic::error(
                Code::NotInThisProbe,
                checker.at(span),
                format!("there is no arg{number} in {} probe", with_article(provider)),
            );
            checker.report(finding.help(help))
        }
    }
}

fn retval<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let span = call.span;
    let variant = checker.body.variant;
    match variant.map(|variant| (variant.probe_type, &variant.args)) {
        Some((ProbeType::Fexit, Args::Raw { signature, .. })) => {
            let ty = signature.result.clone();
            if ty == Type::Void {
                return not_here(checker, span, "this function returns nothing".into(), "");
            }
            let value = checker.slot(signature.parameters.len(), &ty, true, span);
            Some(checker.read(value))
        }
        Some((ProbeType::Fexit, _)) => {
            Some(checker.make(ExprKind::Intrinsic(Intrinsic::FunctionResult, Vec::new()), Type::U64, span))
        }
        Some((ProbeType::Kretprobe | ProbeType::Uretprobe, args)) => {
            let offset = Registers::of(checker.facts.machine()).result;
            let raw = checker.make(
                ExprKind::Intrinsic(Intrinsic::Register { offset }, Vec::new()),
                Type::U64,
                span,
            );
            // A function that returns an int leaves the upper half of the register undefined.
            match args {
                Args::Registers(Some(signature))
                    if signature.result.is_integral() && signature.result.size() < 8
                        || matches!(signature.result, Type::Pointer { .. }) =>
                {
                    let ty = signature.result.clone();
                    Some(checker.cast_to(raw, &ty, span))
                }
                _ => Some(raw),
            }
        }
        other => {
            let provider = other.map_or("this", |(kind, _)| kind.provider());
            let message = format!("there is no return value in {} probe", with_article(provider));
            not_here(checker, span, message, "return values are known in kretprobe, fexit and uretprobe")
        }
    }
}

fn ctx<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let Some(variant) = checker.body.variant else {
        return not_here(checker, call.span, "ctx is known in probes only".into(), "");
    };
    let to = match (&variant.args, variant.kind) {
        (Args::Iterator(record), _) => Type::Record(*record),
        (_, ProgramKind::Kprobe) => {
            checker.resolver.record("pt_regs", false).map_or(Type::Void, Type::Record)
        }
        (_, ProgramKind::PerfEvent) => {
            checker.resolver.record("bpf_perf_event_data", false).map_or(Type::Void, Type::Record)
        }
        _ => Type::Void,
    };
    let place = Place { base: Base::Context, offset: 0, indexes: Vec::new() };
    Some(checker.make(ExprKind::AddressOf(place), Type::pointer(to, Space::Context), call.span))
}

fn choose<'a>(checker: &mut Checker<'a>, names: Vec<Vec<u8>>, span: Span) -> Expr {
    let longest = names.iter().map(Vec::len).max().unwrap_or(0) as u32 + 1;
    if names.windows(2).all(|pair| pair[0] == pair[1]) {
        return checker.string(names.first().map_or(b"", |name| name), span);
    }
    let index = match checker.body.variant.map(|variant| &variant.args) {
        Some(Args::Served { served, view, .. }) if let Some(calls) = &served.calls => {
            checker.call_place(calls, view, span)
        }
        _ => checker.make(ExprKind::Intrinsic(Intrinsic::TargetIndex, Vec::new()), Type::U32, span),
    };
    checker.make(ExprKind::Intrinsic(Intrinsic::Choose(names), vec![index]), Type::String(longest), span)
}

fn probe<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let Some(variant) = checker.body.variant else {
        return not_here(checker, call.span, "the probe's name is known in probes only".into(), "");
    };
    let names = variant.targets.iter().map(|target| target.name.clone().into_bytes()).collect();
    Some(choose(checker, names, call.span))
}

fn probetype<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let name = checker.body.variant.map_or("", |variant| variant.probe_type.name());
    Some(checker.string(name.as_bytes(), call.span))
}

fn func<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let span = call.span;
    let Some(variant) = checker.body.variant else {
        return not_here(checker, span, "the function's name is known in probes only".into(), "");
    };
    let known: Option<Vec<Vec<u8>>> =
        variant.functions.iter().map(|name| name.clone().map(String::into_bytes)).collect();
    match (variant.probe_type, known) {
        (ProbeType::Kprobe | ProbeType::Kretprobe, known) => match known {
            Some(names) if names.len() == 1 => Some(choose(checker, names, span)),
            _ => Some(checker.make(
                ExprKind::Intrinsic(Intrinsic::FunctionAddress, Vec::new()),
                Type::KernelSymbol,
                span,
            )),
        },
        (ProbeType::Fentry | ProbeType::Fexit, Some(names)) => Some(choose(checker, names, span)),
        (ProbeType::Uprobe | ProbeType::Uretprobe, Some(names)) => Some(choose(checker, names, span)),
        (ProbeType::Uprobe | ProbeType::Uretprobe | ProbeType::Usdt, _) => {
            let offset = Registers::of(checker.facts.machine()).find("ip").map_or(0, |(offset, _)| offset);
            let ip = checker.make(
                ExprKind::Intrinsic(Intrinsic::Register { offset }, Vec::new()),
                Type::U64,
                span,
            );
            Some(checker.make(ExprKind::Intrinsic(Intrinsic::UserSymbol, vec![ip]), Type::UserSymbol, span))
        }
        (kind, _) => {
            let message = format!("{} probe traces no function", with_article(kind.provider()));
            not_here(checker, span, message, "use probe for its name")
        }
    }
}

fn reg<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let name = checker.argument_string(call, 0)?;
    let registers = Registers::of(checker.facts.machine());
    let has = checker
        .body
        .variant
        .is_some_and(|variant| variant.probe_type.has_registers() || variant.kind == ProgramKind::PerfEvent);
    if !has {
        let message = "registers are known in kprobes, uprobes and samples only".to_string();
        return not_here(checker, call.span, message, "tracepoints have args");
    }
    match registers.names.iter().find(|(have, _)| *have == name) {
        Some((_, offset)) => {
            let register = Intrinsic::Register { offset: *offset };
            Some(checker.make(ExprKind::Intrinsic(register, Vec::new()), Type::U64, call.span))
        }
        None => {
            let finding = Diagnostic::error(
                Code::BadArguments,
                checker.at(call.span),
                format!("there is no register '{name}'"),
            );
            let names: Vec<&str> = registers.names.iter().map(|(name, _)| *name).collect();
            checker.report(finding.help(format!("registers are {}", names.join(", "))));
            None
        }
    }
}

fn override_result<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    if checker.body.variant.is_some_and(|variant| variant.probe_type != ProbeType::Kprobe) {
        return not_here(checker, call.span, "override() works in kprobes only".into(), "");
    }
    let value = checker.argument_as(call, 0, &Type::U64)?;
    Some(checker.make(ExprKind::Intrinsic(Intrinsic::Override, vec![value]), Type::Void, call.span))
}

fn signal<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let value = checker.argument_value(call, 0)?;
    let number = match &value.kind {
        ExprKind::Str(name) => {
            let name = String::from_utf8_lossy(name).into_owned();
            match super::super::constants::signal(&name) {
                Some(number) => checker.int(u64::from(number), Type::U32, value.span),
                None => return checker.misused(call, value.span, format!("there is no signal '{name}'")),
            }
        }
        _ if value.ty.is_integral() => {
            if constant(&value).is_some_and(|number| !(1..=64).contains(&number)) {
                return checker.misused(call, value.span, "signals are numbered from 1 to 64");
            }
            checker.coerced(value, &Type::U32)
        }
        _ => return checker.misused(call, value.span, "a signal is a name or a number"),
    };
    let intrinsic = Intrinsic::Signal { thread: call.name == "signal_thread" };
    Some(checker.make(ExprKind::Intrinsic(intrinsic, vec![number]), Type::Void, call.span))
}
