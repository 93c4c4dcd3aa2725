//! `selected`: whether an event is about someone the user asked for with `--pid`, `--tid`, `--cgroup`, `--cpu`.

use super::super::checker::Checker;
use super::super::convert::is_unknown;
use super::super::place::Value;
use super::{Builtin, Call, Check, Mode, row};
use crate::hir::{BinaryOp, Expr, ExprKind, Intrinsic};
use crate::source::Span;
use crate::types::{Space, Type};

pub(super) const ROWS: &[Builtin] = &[row(
    &["selected"],
    "bool selected([struct task_struct *task])",
    "Whether the current (or the given) thread is one that --pid, --tid, --cgroup and --cpu ask for; a program that calls it anywhere filters by itself.",
    Mode::Inline,
    (0, 1),
    Check::Value(selected),
)];

fn selected<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    checker.selects = true;
    let span = call.span;
    let task = match call.arguments.is_empty() {
        true => None,
        false => {
            let task = checker.argument_value(call, 0)?;
            // Reading one field tells whether it is a task, also where nothing is selected.
            if is_unknown(&member(checker, &task, &["tgid"], span)) {
                return None;
            }
            // No thread is nobody's: it passes only where everything does.
            if is_null(&task) {
                let everything = checker.options.selection.is_empty();
                return Some(checker.int(everything.into(), Type::Bool, span));
            }
            Some(task)
        }
    };
    let selection = &checker.options.selection;
    let parts = match task {
        None => vec![
            one_of(checker, machine(checker, Intrinsic::Cpu, span), &selection.cpus, span),
            one_of(checker, machine(checker, Intrinsic::Pid { initial: false }, span), &selection.pids, span),
            one_of(checker, machine(checker, Intrinsic::Tid { initial: false }, span), &selection.tids, span),
            selection.cgroup.map(|cgroup| {
                checker.make(
                    ExprKind::Intrinsic(Intrinsic::InCgroup { id: cgroup.id }, vec![]),
                    Type::Bool,
                    span,
                )
            }),
        ],
        Some(task) => {
            let mut parts = Vec::new();
            for (path, numbers) in [
                // The run queue that it is on, which is where it will run or runs.
                (&["thread_info", "cpu"][..], &selection.cpus),
                (&["tgid"], &selection.pids),
                (&["pid"], &selection.tids),
            ] {
                if !numbers.is_empty() {
                    let number = member(checker, &task, path, span);
                    parts.push(one_of(checker, number, numbers, span));
                }
            }
            if let Some(cgroup) = selection.cgroup {
                parts.push(Some(below(checker, &task, cgroup, span)));
            }
            parts
        }
    };
    let everything = checker.int(1, Type::Bool, span);
    Some(
        parts
            .into_iter()
            .flatten()
            .reduce(|left, right| logical(checker, true, left, right))
            .unwrap_or(everything),
    )
}

fn is_null(task: &Expr) -> bool {
    match &task.kind {
        ExprKind::Int(value) => *value == 0,
        ExprKind::Cast(_, inner) => is_null(inner),
        _ => false,
    }
}

fn machine(checker: &Checker<'_>, what: Intrinsic, span: Span) -> Expr {
    checker.make(ExprKind::Intrinsic(what, vec![]), Type::U32, span)
}

/// A member of a struct that the pointer points to, and of those it points to.
fn member(checker: &mut Checker<'_>, base: &Expr, path: &[&str], span: Span) -> Expr {
    let mut value = Value::Expr(base.clone());
    for name in path {
        value = checker.field_of(value, name, span, span);
    }
    checker.read(value)
}

fn one_of(checker: &Checker<'_>, actual: Expr, numbers: &[u32], span: Span) -> Option<Expr> {
    let actual = checker.coerced(actual, &Type::U32);
    let equals = |number: &u32| {
        let wanted = checker.int((*number).into(), Type::U32, span);
        compared(checker, BinaryOp::Eq, actual.clone(), wanted)
    };
    numbers.iter().map(equals).reduce(|left, right| logical(checker, false, left, right))
}

/// Whether the task's cgroup is this one or below it. A cgroup knows its ancestors by level (since 6.1 as
/// pointers); there are none beyond its own. Their array lies behind the struct that BTF describes, where the
/// verifier lets no plain load go.
fn below(checker: &mut Checker<'_>, task: &Expr, wanted: crate::options::SelectedCgroup, span: Span) -> Expr {
    let group = member(checker, task, &["cgroups", "dfl_cgrp"], span);
    let level = member(checker, &group, &["level"], span);
    let level = checker.coerced(level, &Type::I64);
    let least = checker.int(wanted.level.into(), Type::I64, span);
    let deep_enough = compared(checker, BinaryOp::Ge, level, least);
    let group = match group.ty.clone() {
        Type::Pointer { to, .. } => Expr { ty: Type::Pointer { to, space: Space::Kernel }, ..group },
        _ => group,
    };
    let ancestors = checker.field_of(Value::Expr(group), "ancestors", span, span);
    let at = checker.int(wanted.level.into(), Type::U32, span);
    let ancestor = checker.index_of(ancestors, at, span);
    let node = checker.field_of(ancestor, "kn", span, span);
    let id = checker.field_of(node, "id", span, span);
    let id = checker.read(id);
    let id = checker.coerced(id, &Type::U64);
    let same = compared(checker, BinaryOp::Eq, id, checker.int(wanted.id, Type::U64, span));
    logical(checker, true, deep_enough, same)
}

fn compared(checker: &Checker<'_>, operator: BinaryOp, left: Expr, right: Expr) -> Expr {
    let span = left.span;
    checker.make(ExprKind::Binary(operator, Box::new(left), Box::new(right)), Type::Bool, span)
}

fn logical(checker: &Checker<'_>, and: bool, left: Expr, right: Expr) -> Expr {
    let span = left.span;
    checker.make(ExprKind::Logical { and, left: Box::new(left), right: Box::new(right) }, Type::Bool, span)
}
