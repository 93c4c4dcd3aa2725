//! What is known while compiling: sizes, offsets, properties of types, options, assertions.

use std::rc::Rc;

use super::super::checker::Checker;
use super::super::convert::{constant, is_unknown};
use super::super::place::Value;
use super::super::types::settle;
use super::{Builtin, Call, Check, Mode, row};
use crate::diagnostic::{Code, Diagnostic};
use crate::format::{Format, Piece};
use crate::hir::{BinaryOp, Expr, ExprKind};
use crate::schema::NamedOption;
use crate::syntax::ast::{self, Argument};
use crate::types::Type;

pub(super) const ROWS: &[Builtin] = &[
    row(
        &["sizeof"],
        "uint64 sizeof(TYPE)\nuint64 sizeof(EXPRESSION)",
        "Bytes of a type, or of an expression's type.",
        Mode::Comptime,
        (1, 1),
        Check::Value(sizeof),
    ),
    row(
        &["offsetof"],
        "uint64 offsetof(STRUCT, FIELD[.FIELD])",
        "Bytes from the start of a struct to a field.",
        Mode::Comptime,
        (2, 2),
        Check::Value(offsetof),
    ),
    row(
        &["container_of"],
        "STRUCT *container_of(pointer, STRUCT, FIELD)",
        "The struct whose field a pointer points to.",
        Mode::Comptime,
        (3, 3),
        Check::Value(container_of),
    ),
    row(
        &["typeinfo"],
        "(btf_id, base_ty, full_ty) typeinfo(TYPE)\n(btf_id, base_ty, full_ty) typeinfo(EXPRESSION)",
        "What a type is, as constants to compare.",
        Mode::Comptime,
        (1, 1),
        Check::Value(typeinfo),
    ),
    row(
        &["is_literal"],
        "bool is_literal(EXPRESSION)",
        "Whether an expression is a literal.",
        Mode::Comptime,
        (1, 1),
        Check::Value(is_kind),
    ),
    row(
        &["is_str"],
        "bool is_str(EXPRESSION)",
        "Whether an expression is a string.",
        Mode::Comptime,
        (1, 1),
        Check::Value(is_kind),
    ),
    row(
        &["assert_str"],
        "void assert_str(EXPRESSION)",
        "Stops the compilation unless the expression is a string.",
        Mode::Comptime,
        (1, 1),
        Check::Value(assert_str),
    ),
    row(
        &["is_ptr"],
        "bool is_ptr(EXPRESSION)",
        "Whether an expression is a pointer.",
        Mode::Comptime,
        (1, 1),
        Check::Value(is_kind),
    ),
    row(
        &["is_array"],
        "bool is_array(EXPRESSION)",
        "Whether an expression is an array.",
        Mode::Comptime,
        (1, 1),
        Check::Value(is_kind),
    ),
    row(
        &["is_integer"],
        "bool is_integer(EXPRESSION)",
        "Whether an expression is an integer.",
        Mode::Comptime,
        (1, 1),
        Check::Value(is_kind),
    ),
    row(
        &["is_unsigned_integer"],
        "bool is_unsigned_integer(EXPRESSION)",
        "Whether an expression is an unsigned integer.",
        Mode::Comptime,
        (1, 1),
        Check::Value(is_kind),
    ),
    row(
        &["kfunc_exist"],
        "bool kfunc_exist(const string name)",
        "Whether the kernel has that function in its BTF.",
        Mode::Comptime,
        (1, 1),
        Check::Value(kfunc_exist),
    ),
    row(
        &["kfunc_allowed"],
        "bool kfunc_allowed(const string name)",
        "Whether the kernel has that function and this probe may call it.",
        Mode::Comptime,
        (1, 1),
        Check::Value(kfunc_exist),
    ),
    row(
        &["getopt"],
        "T getopt(const string name [, T default [, const string description]])",
        "An option given after --: --name=value, or --name for a boolean.",
        Mode::Comptime,
        (1, 3),
        Check::Value(getopt),
    ),
    row(
        &["fail"],
        "void fail(const string format, ...)",
        "Stops the compilation with a message, unless it is never reached.",
        Mode::Comptime,
        (1, usize::MAX),
        Check::Value(fail),
    ),
    row(
        &["static_assert"],
        "void static_assert(bool condition, const string message)",
        "Stops the compilation unless the condition holds.",
        Mode::Comptime,
        (2, 2),
        Check::Value(static_assert),
    ),
    row(
        &["default_str_length"],
        "uint64 default_str_length()",
        "Room of a string whose length is not known: max_strlen.",
        Mode::Comptime,
        (0, 0),
        Check::Value(default_str_length),
    ),
];

/// The type an argument names or has; expressions are not evaluated.
fn type_argument<'a>(checker: &mut Checker<'a>, call: &Call<'a>, position: usize) -> Option<Type> {
    match call.arguments.get(position)? {
        Argument::Type(ty) => checker.type_of(ty),
        Argument::Expr(expr) => {
            // A bare word may be a typedef or a struct's name.
            if let ast::ExprKind::Name(name) = &expr.kind
                && checker.binding(name).is_none()
                && !checker.is_macro(name)
                && super::find(name).is_none()
            {
                let found = checker.resolver.named(name).or_else(|| checker.resolver.bare_record(name));
                if let Some(ty) = found {
                    return Some(ty);
                }
            }
            match checker.value(expr) {
                Value::Place(place) => Some(place.ty),
                value => {
                    let value = checker.read(value);
                    (!is_unknown(&value)).then(|| settle(value.ty))
                }
            }
        }
    }
}

fn sizeof<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let ty = type_argument(checker, call, 0)?;
    Some(checker.int(u64::from(ty.size()), Type::U64, call.span))
}

/// The fields of `a.b.c` in order.
fn path<'a>(expr: &'a ast::Expr, out: &mut Vec<&'a ast::Text>, first: &mut Option<&'a str>) -> bool {
    match &expr.kind {
        ast::ExprKind::Name(name) => {
            *first = Some(name);
            true
        }
        ast::ExprKind::Field { base, name } => {
            let ok = path(base, out, first);
            out.push(name);
            ok
        }
        _ => false,
    }
}

fn offset_in<'a>(checker: &mut Checker<'a>, call: &Call<'a>, ty: &Type, position: usize) -> Option<u64> {
    let expr = match call.arguments.get(position)? {
        Argument::Expr(expr) => expr,
        // A field may have the name of a type.
        Argument::Type(ty) => match &ty.kind {
            ast::TypeKind::Name(name) => {
                let Type::Record(record) = type_behind(ty_of(call, checker, 0)?) else { return None };
                return checker.resolver.field(record.id, name).map(|found| u64::from(found.offset));
            }
            _ => return checker.misused(call, ty.span, "a field's name is needed here"),
        },
    };
    let (mut fields, mut first) = (Vec::new(), None);
    if !path(expr, &mut fields, &mut first) {
        return checker.misused(call, expr.span, "a field's name is needed here");
    }
    let mut ty = type_behind(ty.clone());
    let mut offset = 0;
    let names = first.into_iter().chain(fields.iter().map(|name| name.text.as_str()));
    for name in names {
        let Type::Record(record) = ty else {
            let message = format!("a {} has no fields", checker.show(&ty));
            checker.error(Code::NotAStruct, expr.span, message);
            return None;
        };
        match checker.resolver.field(record.id, name) {
            Some(found) => {
                offset += u64::from(found.offset);
                ty = found.ty;
            }
            None => {
                let owner = checker.resolver.record_name(record.id);
                let names = checker.resolver.field_names(record.id);
                let finding = Diagnostic::error(
                    Code::UnknownField,
                    checker.at(expr.span),
                    format!("{owner} has no field '{name}'"),
                );
                checker.report(finding.suggest(name, names.iter().map(String::as_str)));
                return None;
            }
        }
    }
    Some(offset)
}

fn ty_of<'a>(call: &Call<'a>, checker: &mut Checker<'a>, position: usize) -> Option<Type> {
    type_argument(checker, call, position)
}

/// The struct a pointer points to; other types as they are.
fn type_behind(ty: Type) -> Type {
    match ty {
        Type::Pointer { to, .. } => *to,
        other => other,
    }
}

fn offsetof<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let ty = type_argument(checker, call, 0)?;
    let offset = offset_in(checker, call, &ty, 1)?;
    Some(checker.int(offset, Type::U64, call.span))
}

fn container_of<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let pointer = checker.argument_value(call, 0)?;
    let ty = type_argument(checker, call, 1)?;
    let offset = offset_in(checker, call, &ty, 2)?;
    let Type::Pointer { space, .. } = pointer.ty else {
        let message = format!("container_of() takes a pointer, not a {}", checker.show(&pointer.ty));
        return checker.misused(call, pointer.span, message);
    };
    let space = if space == crate::types::Space::Btf { crate::types::Space::Kernel } else { space };
    let to = Type::pointer(type_behind(ty), space);
    let back = checker.int(offset, Type::I64, call.span);
    let pointer = Expr { ty: to.clone(), ..pointer };
    Some(checker.make(ExprKind::Binary(BinaryOp::Sub, Box::new(pointer), Box::new(back)), to, call.span))
}

fn typeinfo<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let ty = type_argument(checker, call, 0)?;
    let full = checker.show(&ty);
    let base = match &ty {
        Type::Integer(integer) if integer.names.is_some() => "enum",
        Type::Integer(_) | Type::Bool => "int",
        Type::String(_) => "string",
        Type::Pointer { .. } => "pointer",
        Type::Array { .. } => "array",
        Type::Record(_) => "record",
        Type::Tuple(_) => "tuple",
        _ => "other",
    };
    let id = match &ty {
        Type::Record(record) => checker.resolver.btf_id(record.id).map_or(0, |(_, id)| id),
        _ => 0,
    };
    let values = vec![
        checker.int(u64::from(id), Type::U64, call.span),
        checker.string(base.as_bytes(), call.span),
        checker.string(full.as_bytes(), call.span),
    ];
    let names = ["btf_id", "base_ty", "full_ty"];
    let fields = names.iter().zip(&values).map(|(name, value)| (Some(Rc::from(*name)), value.ty.clone()));
    let ty = Type::named_tuple(fields);
    Some(checker.make(ExprKind::Tuple(values), ty, call.span))
}

fn is_kind<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    if call.row.names[0] == "is_literal" {
        let expr = checker.argument_ast(call, 0)?;
        let literal = matches!(
            expr.kind,
            ast::ExprKind::Int(_)
                | ast::ExprKind::Str(_)
                | ast::ExprKind::Bool(_)
                | ast::ExprKind::Positional(_)
        );
        return Some(checker.int(u64::from(literal), Type::Bool, call.span));
    }
    let ty = type_argument(checker, call, 0)?;
    let holds = match call.row.names[0] {
        "is_str" => matches!(ty, Type::String(_)),
        "is_ptr" => matches!(ty, Type::Pointer { .. }),
        "is_array" => matches!(ty, Type::Array { .. }),
        "is_integer" => ty.is_integral(),
        _ => ty.is_integral() && !ty.is_signed(),
    };
    Some(checker.int(u64::from(holds), Type::Bool, call.span))
}

fn assert_str<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let ty = type_argument(checker, call, 0)?;
    let characters = |ty: &Type| ty.integer().is_some_and(|integer| integer.bytes == 1);
    let like_text = match &ty {
        Type::String(_) => true,
        Type::Array { element: of, .. } | Type::Pointer { to: of, .. } => characters(of),
        _ => false,
    };
    if !like_text && !checker.body.dead {
        let message = format!("this has to be a string, and it is a {}", checker.show(&ty));
        checker.error(Code::StaticAssert, call.span, message);
        return None;
    }
    nothing(checker, call)
}

fn kfunc_exist<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let name = checker.argument_string(call, 0)?;
    let exists = checker.resolver.function_exists(&name);
    Some(checker.int(u64::from(exists), Type::Bool, call.span))
}

fn getopt<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let span = call.span;
    let name = checker.argument_string(call, 0)?;
    let default = if call.arguments.len() > 1 { Some(checker.argument_value(call, 1)?) } else { None };
    let description =
        if call.arguments.len() > 2 { checker.argument_string(call, 2)? } else { String::new() };
    let given =
        checker.options.named.iter().rev().find(|(have, _)| *have == name).map(|(_, value)| value.clone());
    let shown = match &default {
        None => "false".to_string(),
        Some(value) => match (&value.kind, constant(value)) {
            (ExprKind::Str(bytes), _) => String::from_utf8_lossy(bytes).into_owned(),
            (_, Some(number)) if value.ty == Type::Bool => (number != 0).to_string(),
            (_, Some(number)) => number.to_string(),
            _ => return checker.misused(call, value.span, "the default has to be a literal"),
        },
    };
    let option = NamedOption { name: name.clone(), default: shown, description };
    match checker.named_options.iter().find(|have| have.name == name) {
        Some(have) if have.default != option.default => {
            let message = format!("the option '{name}' is asked for with different defaults");
            checker.error(Code::Duplicate, span, message);
            return None;
        }
        Some(_) => {}
        None => checker.named_options.push(option),
    }
    let wrong = |checker: &mut Checker<'a>, value: &str, what: &str| {
        let message = format!("the option --{name}={value} has to be {what}");
        checker.error(Code::BadArguments, span, message);
        None
    };
    let boolean = |value: &str| match value.to_ascii_lowercase().as_str() {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    };
    match (default, given) {
        (None, None) => Some(checker.int(0, Type::Bool, span)),
        (Some(value), None) => Some(value),
        (None, Some(None)) => Some(checker.int(1, Type::Bool, span)),
        (None, Some(Some(value))) => match boolean(&value) {
            Some(found) => Some(checker.int(u64::from(found), Type::Bool, span)),
            None => wrong(checker, &value, "true or false"),
        },
        (Some(default), Some(value)) => match default.ty {
            Type::Bool => match value.as_deref().map_or(Some(true), boolean) {
                Some(found) => Some(checker.int(u64::from(found), Type::Bool, span)),
                None => wrong(checker, &value.unwrap_or_default(), "true or false"),
            },
            Type::String(_) => Some(checker.string(value.unwrap_or_default().as_bytes(), span)),
            _ => {
                let value = value.unwrap_or_default();
                match super::super::expr::parse_parameter(&value) {
                    Some(number) => Some(checker.int(number as u64, super::super::types::LITERAL, span)),
                    None => wrong(checker, &value, "a number"),
                }
            }
        },
    }
}

fn nothing(checker: &Checker<'_>, call: &Call<'_>) -> Option<Expr> {
    Some(checker.make(ExprKind::Block { statements: Vec::new(), value: None }, Type::Void, call.span))
}

fn fail<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let text = checker.argument_text(call, 0)?;
    let mut values = Vec::new();
    for position in 1..call.arguments.len() {
        let value = checker.argument_value(call, position)?;
        let shown = match (&value.kind, constant(&value)) {
            (ExprKind::Str(bytes), _) => bytes.clone(),
            (_, Some(number)) => number.to_string().into_bytes(),
            _ => {
                checker.error(
                    Code::NeedsLiteral,
                    value.span,
                    "fail() prints while compiling, so it needs literals",
                );
                return None;
            }
        };
        values.push(shown);
    }
    if checker.body.dead {
        return nothing(checker, call);
    }
    let mut values = values.into_iter();
    let mut message = Vec::new();
    match Format::parse(&text) {
        Ok(format) => {
            for piece in format.pieces {
                match piece {
                    Piece::Text(text) => message.extend(text),
                    Piece::Value(_) => message.extend(values.next().unwrap_or_default()),
                }
            }
        }
        Err(_) => message = text,
    }
    let message = String::from_utf8_lossy(&message).into_owned();
    checker.error(Code::StaticAssert, call.span, message);
    None
}

fn static_assert<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let condition = match &call.arguments[0] {
        Argument::Expr(expr) => checker.condition(expr),
        Argument::Type(_) => return checker.misused(call, call.span, "static_assert() takes a condition"),
    };
    if is_unknown(&condition) {
        return None;
    }
    let message = checker.argument_string(call, 1)?;
    match constant(&condition) {
        Some(0) if !checker.body.dead => {
            checker.error(Code::StaticAssert, call.span, message);
            None
        }
        Some(_) => nothing(checker, call),
        None => {
            checker.error(Code::NeedsLiteral, condition.span, "this condition is not known at compile time");
            None
        }
    }
}

fn default_str_length<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    Some(checker.int(u64::from(checker.config.max_strlen), Type::U64, call.span))
}
