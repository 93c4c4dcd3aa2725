//! Functions on maps.

use super::super::checker::{Checker, Key};
use super::super::convert::{aggregate_name, is_unknown};
use super::super::types::settle;
use super::{Builtin, Call, Check, Mode, row};
use crate::diagnostic::{Code, Diagnostic};
use crate::hir::{Expr, ExprKind, Intrinsic};
use crate::schema::{EmitKind, MapId, MapValue};
use crate::source::Span;
use crate::syntax::ast::{self, Argument};
use crate::types::Type;

pub(super) const ROWS: &[Builtin] = &[
    row(
        &["delete"],
        "bool delete(@map, key)\nbool delete(@map)\nbool delete(@map[key])",
        "Removes an entry; a map without keys is set to zero. Whether there was such an entry.",
        Mode::Inline,
        (1, 2),
        Check::Value(delete),
    ),
    row(
        &["has_key"],
        "bool has_key(@map, key)",
        "Whether the map has that key.",
        Mode::Inline,
        (2, 2),
        Check::Value(has_key),
    ),
    row(
        &["find"],
        "bool find(@map, key, $value)",
        "Whether the map has that key; if so, $value is set to its value.",
        Mode::Inline,
        (3, 3),
        Check::Value(find),
    ),
    row(
        &["len"],
        "uint64 len(@map)\nuint64 len(kstack|ustack)",
        "Number of entries of a map, or of frames of a stack.",
        Mode::Inline,
        (1, 1),
        Check::Value(len),
    ),
    row(
        &["clear"],
        "void clear(@map)",
        "Removes all entries of a map.",
        Mode::Async,
        (1, 1),
        Check::Value(clear),
    ),
    row(
        &["zero"],
        "void zero(@map)",
        "Sets all values of a map to zero.",
        Mode::Async,
        (1, 1),
        Check::Value(clear),
    ),
];

/// A map given without a key.
fn whole_map<'a>(checker: &mut Checker<'a>, call: &Call<'a>, position: usize) -> Option<(MapId, Span)> {
    let (name, key, span) = checker.argument_map(call, position)?;
    if let Some(key) = key {
        return checker.misused(call, key.span, format!("{}() takes the map without a key here", call.name));
    }
    let map = named_map(checker, name, span)?;
    Some((map, span))
}

/// The map a name stands for; inside macros, the one that was given.
pub(super) fn named_map<'a>(checker: &mut Checker<'a>, name: &'a str, span: Span) -> Option<MapId> {
    let mut name = name;
    let mut frame = checker.body.frame;
    while let Some(bound) = checker.in_frame(frame, |this| this.binding(name)) {
        let ast::ExprKind::Map { name: inner, .. } = &bound.expr.kind else { return None };
        (name, frame) = (inner, bound.frame);
    }
    let map = checker.map(name, span);
    checker.map_info(map).used = true;
    Some(map)
}

fn keyed<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<(MapId, Expr)> {
    let (map, span) = whole_map(checker, call, 0)?;
    if checker.map_info(map).key == Some(Key::Scalar) {
        let info = checker.map_info(map).clone();
        let message = format!("{} has no keys", info.name);
        let finding = Diagnostic::error(Code::BadKey, checker.at(span), message);
        checker.report(finding.note(info.span, "it is used without a key here"));
        return None;
    }
    let key = checker.argument_value(call, 1)?;
    let (map, key) = checker.checked_key(map, Some(key), call.span)?;
    key.map(|key| (map, key))
}

fn delete<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    delete_expr(checker, call, false)
}

/// `delete(…)` whose result is dropped: a key that is not there is reported.
pub fn delete_statement<'a>(checker: &mut Checker<'a>, arguments: &'a [Argument], span: Span) -> Expr {
    let Some(row) = super::find("delete") else { return checker.unknown(span) };
    let call = Call { name: "delete", arguments, span, row };
    if !super::check_call(checker, &call) {
        return checker.unknown(span);
    }
    delete_expr(checker, &call, true).unwrap_or_else(|| checker.unknown(span))
}

fn delete_expr<'a>(checker: &mut Checker<'a>, call: &Call<'a>, dropped: bool) -> Option<Expr> {
    let (map, key) = if call.arguments.len() == 2 {
        let (map, key) = keyed(checker, call)?;
        (map, Some(key))
    } else {
        let (name, key, span) = checker.argument_map(call, 0)?;
        match key {
            Some(_) => checker.map_and_key(name, key, span)?,
            None => {
                let map = named_map(checker, name, span)?;
                if let Some(Key::Of(_)) = checker.map_info(map).key {
                    return checker.misused(
                        call,
                        span,
                        format!("{name} has keys: say which, or use clear({name})"),
                    );
                }
                checker.checked_key(map, None, span)?
            }
        }
    };
    // bpftrace warns at run time when a dropped delete misses: only with -k here, as the
    // pair of a lookup and a delete is the usual way to end a measurement.
    let missing = (dropped && checker.options.report_helper_errors && key.is_some())
        .then(|| checker.record(EmitKind::MissingKey(map), Vec::new(), call.span));
    let key = key.map(Box::new);
    Some(checker.make(ExprKind::MapDelete { map, key, missing }, Type::Bool, call.span))
}

fn has_key<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let (map, key) = keyed(checker, call)?;
    Some(checker.make(ExprKind::MapHas { map, key: Box::new(key) }, Type::Bool, call.span))
}

fn find<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let (map, key) = keyed(checker, call)?;
    let target = checker.argument_ast(call, 2)?;
    let ast::ExprKind::Variable(name) = &target.kind else {
        return checker.misused(call, target.span, "find() sets a $variable");
    };
    let ty = match checker.map_info(map).value.clone() {
        None => {
            checker.unknown_map(map, call.span);
            return None;
        }
        Some(MapValue::Plain(ty)) => settle(ty),
        Some(aggregate) => {
            let message =
                format!("find() reads plain values, and this map holds a {}", aggregate_name(&aggregate));
            return checker.misused(call, call.span, message);
        }
    };
    let local = match checker.find_local(name) {
        Some(local) => local,
        None => checker.declare_local(name, target.span),
    };
    let sample =
        checker.make(ExprKind::MapGet { map, key: Some(Box::new(key.clone())) }, ty.clone(), target.span);
    if !checker.join_local(local, &sample) || checker.last && settle(checker.local_type(local).clone()) != ty
    {
        let have = checker.local_type(local).clone();
        let message =
            format!("{name} is a {} and the map holds a {}", checker.show(&have), checker.show(&ty));
        checker.error(Code::TypeMismatch, target.span, message);
        return None;
    }
    Some(checker.make(ExprKind::MapFind { map, key: Box::new(key), into: local }, Type::Bool, call.span))
}

fn len<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let expr = checker.argument_ast(call, 0)?;
    if let ast::ExprKind::Map { name, key: None } = &expr.kind {
        let map = named_map(checker, name, expr.span)?;
        let stack = matches!(checker.map_info(map).value, Some(MapValue::Plain(Type::Stack(_))));
        if !(stack && checker.map_info(map).key == Some(Key::Scalar)) {
            if checker.map_info(map).value.is_none() {
                checker.unknown_map(map, expr.span);
                return None;
            }
            return Some(checker.make(ExprKind::MapLength(map), Type::U64, call.span));
        }
    }
    let value = checker.argument_value(call, 0)?;
    match &value.ty {
        Type::Stack(_) => Some(checker.make(ExprKind::StackLength(Box::new(value)), Type::U64, call.span)),
        Type::String(_) => {
            Some(checker.make(ExprKind::Intrinsic(Intrinsic::StrLength, vec![value]), Type::U64, call.span))
        }
        ty => {
            let message = format!("len() takes a map or a stack, not a {}", checker.show(ty));
            checker.misused(call, value.span, message)
        }
    }
}

fn clear<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let (map, span) = whole_map(checker, call, 0)?;
    if checker.map_info(map).value.is_none() {
        let unknown = checker.unknown_map(map, span);
        debug_assert!(is_unknown(&unknown));
        return None;
    }
    let kind = if call.name == "clear" { EmitKind::Clear(map) } else { EmitKind::Zero(map) };
    Some(checker.emit(kind, Vec::new(), call.span))
}
