//! Names of the kernel's numbers, and numbers of their names: errnos, signals, system calls.

use super::super::checker::Checker;
use super::super::constants;
use super::super::convert::constant;
use super::super::types::LITERAL;
use super::{Builtin, Call, Check, Mode, row};
use crate::diagnostic::{Code, Diagnostic};
use crate::hir::{Expr, ExprKind, Intrinsic};
use crate::types::{EnumId, Integer, Type};

pub(super) const ROWS: &[Builtin] = &[
    row(
        &["strerror"],
        "strerror_t strerror(int error)",
        "The message of an errno, to print.",
        Mode::Async,
        (1, 1),
        Check::Value(strerror),
    ),
    row(
        &["errno_name"],
        "errno_t errno_name(int error)",
        "The name of an errno (ENOENT), to print; also of the kernel's own (ERESTARTSYS).",
        Mode::Inline,
        (1, 1),
        Check::Value(errno_name),
    ),
    row(
        &["errno_number"],
        "int errno_number(const string name)",
        "The number of an errno by its name; 0 for an empty name.",
        Mode::Comptime,
        (1, 1),
        Check::Value(errno_number),
    ),
    row(
        &["signal_name"],
        "signal_t signal_name(int number)",
        "The name of a signal (SIGTERM), to print.",
        Mode::Inline,
        (1, 1),
        Check::Value(signal_name),
    ),
    row(
        &["signal_number"],
        "int signal_number(const string name)",
        "The number of a signal by its name, with or without SIG; 0 for an empty name.",
        Mode::Comptime,
        (1, 1),
        Check::Value(signal_number),
    ),
    row(
        &["syscall_name"],
        "string syscall_name(int number)",
        "The name of a system call, to print; with 0x20000000 added, that of a 32-bit program's.",
        Mode::Async,
        (1, 1),
        Check::Value(syscall_name),
    ),
    row(
        &["syscall_number"],
        "int syscall_number(const string name)",
        "The number of a system call by its name; -1 for an empty name.",
        Mode::Comptime,
        (1, 1),
        Check::Value(syscall_number),
    ),
];

fn strerror<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let value = checker.argument_as(call, 0, &Type::signed(4))?;
    Some(checker.make(ExprKind::Intrinsic(Intrinsic::ErrorText, vec![value]), Type::ErrorText, call.span))
}

/// The argument as an integer that prints by the names of an enum.
fn named<'a>(checker: &mut Checker<'a>, call: &Call<'a>, names: EnumId) -> Option<Expr> {
    let value = checker.argument_as(call, 0, &Type::signed(4))?;
    let ty = Type::Integer(Integer { bytes: 4, signed: true, names: Some(names) });
    Some(Expr { ty, ..value })
}

fn errno_name<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let names = checker.resolver.names_of("errno", constants::errnos);
    named(checker, call, names)
}

fn signal_name<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let names = checker.resolver.names_of("signal", constants::signals);
    named(checker, call, names)
}

/// The number of a name in the argument, or `empty` where that is empty.
fn number<'a>(
    checker: &mut Checker<'a>,
    call: &Call<'a>,
    (what, empty): (&str, i64),
    names: impl Fn(&Checker<'a>) -> Vec<(String, i64)>,
) -> Option<Expr> {
    let name = checker.argument_string(call, 0)?;
    if name.is_empty() {
        return Some(checker.int(empty as u64, LITERAL, call.span));
    }
    let names = names(checker);
    if let Some((_, number)) = names.iter().find(|(have, _)| *have == name) {
        return Some(checker.int(*number as u64, LITERAL, call.span));
    }
    let finding =
        Diagnostic::error(Code::BadArguments, checker.at(call.span), format!("there is no {what} '{name}'"));
    checker.report(finding.suggest(&name, names.iter().map(|(have, _)| have.as_str())));
    None
}

fn errno_number<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    number(checker, call, ("errno", 0), |_| owned(constants::errnos()))
}

fn signal_number<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    number(checker, call, ("signal", 0), |_| {
        let mut names = owned(constants::signals());
        let short = names.iter().filter_map(|(name, n)| Some((name.strip_prefix("SIG")?.to_owned(), *n)));
        let short: Vec<_> = short.collect();
        names.extend(short);
        names
    })
}

fn syscall_number<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    number(checker, call, ("system call", -1), |checker| {
        checker.facts.syscalls().iter().map(|(number, name)| (name.clone(), i64::from(*number))).collect()
    })
}

fn owned(names: Vec<(std::rc::Rc<str>, i64)>) -> Vec<(String, i64)> {
    names.into_iter().map(|(name, number)| (name.to_string(), number)).collect()
}

fn syscall_name<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let value = checker.argument_integer(call, 0)?;
    if let Some(number) = constant(&value) {
        let name =
            u32::try_from(number).ok().and_then(|number| checker.facts.syscalls().get(&number)).cloned();
        if let Some(name) = name {
            return Some(checker.string(name.as_bytes(), call.span));
        }
    }
    let value = checker.coerced(value, &Type::signed(4));
    Some(checker.make(ExprKind::Intrinsic(Intrinsic::SyscallName, vec![value]), Type::SyscallName, call.span))
}
