//! Selections that hold for a whole program, whatever it says itself: they become the first part of every
//! probe's predicate, so that they are checked in the kernel before anything else. A program that calls
//! `selected()` knows better whom its events are about, and is left alone.

use lang::hir::{BinaryOp, Expr, ExprKind, Intrinsic, Program};
use lang::options::Selection;
use lang::schema::{Attach, ProgramKind};
use lang::source::Span;
use lang::types::Type;

/// Puts the selection before the predicate of every probe that the kernel triggers.
pub fn apply(selection: &Selection, program: &mut Program) {
    if program.schema.selects {
        return;
    }
    for probe in &mut program.probes {
        let described = &program.schema.programs[probe.program.0 as usize];
        // A timer interrupts whoever happens to run: what it does is the program's own affair.
        let timer = described.targets.iter().any(|target| matches!(target.attach, Attach::Interval(_)));
        if timer || matches!(described.kind, ProgramKind::Special | ProgramKind::Iterator) {
            continue;
        }
        let Some(filter) = predicate(selection) else { return };
        probe.predicate = Some(match probe.predicate.take() {
            Some(own) => both(filter, own),
            None => filter,
        });
    }
}

fn predicate(selection: &Selection) -> Option<Expr> {
    let in_cgroup = |id| expr(ExprKind::Intrinsic(Intrinsic::InCgroup { id }, vec![]), Type::Bool);
    let parts = [
        one_of(Intrinsic::Cpu, &selection.cpus),
        one_of(Intrinsic::Pid { initial: false }, &selection.pids),
        one_of(Intrinsic::Tid { initial: false }, &selection.tids),
        selection.cgroup.map(|cgroup| in_cgroup(cgroup.id)),
    ];
    parts.into_iter().flatten().reduce(both)
}

fn one_of(what: Intrinsic, numbers: &[u32]) -> Option<Expr> {
    let equals = |number: &u32| {
        let actual = expr(ExprKind::Intrinsic(what.clone(), vec![]), Type::U32);
        let wanted = expr(ExprKind::Int((*number).into()), Type::U32);
        expr(ExprKind::Binary(BinaryOp::Eq, Box::new(actual), Box::new(wanted)), Type::Bool)
    };
    numbers.iter().map(equals).reduce(|left, right| logical(false, left, right))
}

fn both(left: Expr, right: Expr) -> Expr {
    logical(true, left, right)
}

fn logical(and: bool, left: Expr, right: Expr) -> Expr {
    expr(ExprKind::Logical { and, left: Box::new(left), right: Box::new(right) }, Type::Bool)
}

fn expr(kind: ExprKind, ty: Type) -> Expr {
    Expr { kind, ty, span: Span::NONE }
}
