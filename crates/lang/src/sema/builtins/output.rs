//! Output: what the tracer prints, runs or ends.

use super::super::checker::{Checker, Key};
use super::super::convert::{constant, is_unknown};
use super::{Builtin, Call, Check, Mode, row, unsafe_row};
use crate::diagnostic::{Code, Diagnostic};
use crate::format::{Conversion, Format};
use crate::hir::{Expr, ExprKind, StatementKind};
use crate::schema::{EmitKind, MapValue};
use crate::syntax::ast::{self, Argument};
use crate::types::{Space, Type};

pub(super) const ROWS: &[Builtin] = &[
    row(
        &["printf"],
        "void printf(const string format, ...)",
        "Prints by a format.",
        Mode::Async,
        (1, usize::MAX),
        Check::Value(printf),
    ),
    row(
        &["errorf"],
        "void errorf(const string format, ...)",
        "Prints an error with the place in the program.",
        Mode::Async,
        (1, usize::MAX),
        Check::Value(printf),
    ),
    row(
        &["warnf"],
        "void warnf(const string format, ...)",
        "Prints a warning with the place in the program.",
        Mode::Async,
        (1, usize::MAX),
        Check::Value(printf),
    ),
    row(
        &["cat"],
        "void cat(const string format, ...)",
        "Prints the file whose name the format gives.",
        Mode::Async,
        (1, usize::MAX),
        Check::Value(printf),
    ),
    unsafe_row(
        &["system"],
        "void system(const string format, ...)",
        "Runs a shell command and prints its output.",
        Mode::Async,
        (1, usize::MAX),
        Check::Value(printf),
    ),
    row(
        &["print"],
        "void print(value)\nvoid print(@map [, const int top [, const int div]])",
        "Prints a value, or a map: its top entries, values divided by div.",
        Mode::Async,
        (1, 3),
        Check::Value(print),
    ),
    row(
        &["time"],
        "void time([const string format])",
        "Prints the time of day, by strftime(3)'s format.",
        Mode::Async,
        (0, 1),
        Check::Value(time),
    ),
    row(
        &["join"],
        "void join(char **array [, const string separator])",
        "Prints the strings of an array that ends with a null pointer.",
        Mode::Async,
        (1, 2),
        Check::Value(join),
    ),
    row(
        &["exit"],
        "void exit([int code])",
        "Ends the program; end probes run and maps print.",
        Mode::Async,
        (0, 1),
        Check::Value(exit),
    ),
    row(
        &["assert"],
        "void assert(bool condition, const string message)",
        "Ends the program with an error unless the condition holds.",
        Mode::Async,
        (2, 2),
        Check::Value(assert),
    ),
    row(
        &["unwatch"],
        "void unwatch(void *address)",
        "Removes a watchpoint.",
        Mode::Async,
        (1, 1),
        Check::Value(unwatch),
    ),
];

fn printf<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let text = checker.argument_text(call, 0)?;
    let format_span = call.arguments[0].span();
    let format = match Format::parse(&text) {
        Ok(format) => format,
        Err((_, why)) => {
            let finding = Diagnostic::error(Code::BadFormat, checker.at(format_span), why);
            checker.report(finding.help("a percent sign is written %%"));
            return None;
        }
    };
    let specs: Vec<_> = format.specs().copied().collect();
    let given = call.arguments.len() - 1;
    let mut values = Vec::new();
    let mut failed = false;
    for (position, argument) in call.arguments.iter().enumerate().skip(1) {
        let wants_text = specs.get(position - 1).is_some_and(|spec| spec.conversion == Conversion::String);
        let value = match argument {
            // A parameter is a string where one is printed.
            Argument::Expr(expr) if wants_text && checker.positional_text(expr).is_some() => {
                let text = checker.positional_text(expr).expect("just looked");
                Some(checker.string(&text, expr.span))
            }
            _ => checker.argument_value(call, position),
        };
        match value {
            Some(value) => values.push(value),
            None => failed = true,
        }
    }
    if specs.len() != given {
        let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let message = format!(
            "the format has {} and {} {} given",
            plural(specs.len(), "conversion"),
            plural(given, "argument"),
            if given == 1 { "is" } else { "are" }
        );
        checker.error(Code::BadFormat, call.span, message);
        return None;
    }
    if failed {
        return None;
    }
    let mut checked = Vec::new();
    for (spec, value) in specs.iter().zip(values) {
        checked.push(convert_argument(checker, spec.conversion, value)?);
    }
    let kind = match call.name {
        "errorf" => EmitKind::Errorf(format),
        "warnf" => EmitKind::Warnf(format),
        "cat" => EmitKind::Cat(format),
        "system" => EmitKind::System(format),
        _ => EmitKind::Printf(format),
    };
    Some(checker.emit(kind, checked, call.span))
}

/// A value that fits its conversion.
fn convert_argument(checker: &mut Checker<'_>, conversion: Conversion, value: Expr) -> Option<Expr> {
    use Conversion as C;
    let numeric =
        value.ty.is_scalar() && !matches!(value.ty, Type::SyscallName | Type::ProcessName | Type::UserName);
    let fits = match conversion {
        C::Signed
        | C::Unsigned
        | C::Hex
        | C::HexUpper
        | C::Octal
        | C::Character
        | C::Pointer
        | C::GfpFlags => numeric,
        C::String => match &value.ty {
            Type::Integer(integer) => integer.names.is_some() && !super::super::types::is_literal(&value.ty),
            Type::Pointer { .. } | Type::Void => false,
            _ => true,
        },
        C::Bytes | C::BytesEscaped | C::BytesHex => matches!(value.ty, Type::Buffer(_) | Type::String(_)),
    };
    if fits {
        checker.resolver.load(&value.ty);
        return Some(value);
    }
    let shown = checker.show(&value.ty);
    let (message, help) = match (conversion, &value.ty) {
        (C::String, Type::Pointer { to, .. }) if to.size() == 1 => (
            format!("%s prints strings, and this is a {shown}"),
            "str() reads the string it points to".to_string(),
        ),
        (C::String, _) => {
            (format!("%s prints strings, and this is a {shown}"), "integers print with %d, %u or %x".into())
        }
        (C::Bytes | C::BytesEscaped | C::BytesHex, _) => {
            (format!("%r prints buffers, and this is a {shown}"), "buf() reads bytes".into())
        }
        _ => (
            format!("this conversion prints integers, and this is a {shown}"),
            format!("a {shown} prints with %s"),
        ),
    };
    let finding = Diagnostic::error(Code::BadFormat, value.span, message);
    checker.report(finding.help(help));
    None
}

fn print<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let span = call.span;
    let expr = checker.argument_ast(call, 0)?;
    if let ast::ExprKind::Map { name, key } = &expr.kind {
        let map = super::maps::named_map(checker, name, expr.span)?;
        match (key, checker.map_info(map).value.clone()) {
            (_, None) => {
                checker.unknown_map(map, expr.span);
                return None;
            }
            (None, Some(_)) => {
                let mut numbers = Vec::new();
                for position in 1..3 {
                    let number = if position < call.arguments.len() {
                        if checker.map_info(map).key == Some(Key::Scalar) && position == 1 {
                            let message = format!("{name} has no keys, so it has no top entries");
                            checker.warn(Code::BadArguments, call.arguments[1].span(), message);
                        }
                        match checker.argument_constant(call, position)? {
                            number if (0..=i128::from(u32::MAX)).contains(&number) => number as u64,
                            _ => {
                                return checker.misused(
                                    call,
                                    call.arguments[position].span(),
                                    "top and div are not negative",
                                );
                            }
                        }
                    } else {
                        0
                    };
                    numbers.push(checker.int(number, Type::U64, span));
                }
                return Some(checker.emit(EmitKind::PrintMap(map), numbers, span));
            }
            (Some(key), Some(value)) if value.is_aggregate() => {
                let (map, key) = checker.map_and_key(name, Some(key), expr.span)?;
                if call.arguments.len() > 1 {
                    return checker.misused(call, span, "an entry of a map has no top entries");
                }
                let key = key?;
                return Some(checker.emit(EmitKind::PrintMapElement(map), vec![key], span));
            }
            (Some(_), Some(MapValue::Plain(_) | _)) => {}
        }
    }
    if call.arguments.len() > 1 {
        return checker.misused(call, span, "top and div are for maps");
    }
    let value = checker.argument_value(call, 0)?;
    if let (Type::Tuple(fields), ExprKind::Tuple(_)) = (&value.ty, &value.kind)
        && let Some(names) = fields.iter().map(|field| field.name.as_deref()).collect::<Option<Vec<_>>>()
    {
        let kind = EmitKind::PrintRecord(names.into_iter().map(str::to_owned).collect());
        let ExprKind::Tuple(values) = value.kind else { return None };
        return Some(checker.emit(kind, values, span));
    }
    Some(checker.emit(EmitKind::Print, vec![value], span))
}

fn time<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let format =
        if call.arguments.is_empty() { "%H:%M:%S\n".into() } else { checker.argument_string(call, 0)? };
    Some(checker.emit(EmitKind::Time(format), Vec::new(), call.span))
}

/// Strings that `join` reads: bpftrace's limit.
const JOIN_MOST: u32 = 16;

fn join<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let separator = if call.arguments.len() > 1 { checker.argument_string(call, 1)? } else { " ".into() };
    let value = checker.argument_place(call, 0)?;
    let array = checker.pointer_to(value, call.span);
    let array = match &array.ty {
        Type::Pointer { to, space } => match &**to {
            Type::Pointer { .. } => array,
            // `void *`, or an integer: an array of pointers in that space.
            _ => {
                let inner = Type::pointer(Type::signed(1), *space);
                let ty = Type::pointer(inner, *space);
                Expr { ty, ..array }
            }
        },
        ty => {
            let message = format!("join() takes an array of strings (char **), not a {}", checker.show(ty));
            return checker.misused(call, array.span, message);
        }
    };
    debug_assert!(
        matches!(&array.ty, Type::Pointer { space, .. } if *space != Space::Own || call.arguments.len() < 3)
    );
    let each = Type::String(checker.config.max_strlen);
    let record = checker.record(EmitKind::Join(separator), vec![each; JOIN_MOST as usize], call.span);
    Some(checker.effect(StatementKind::Join { record, array, most: JOIN_MOST }, call.span))
}

fn exit<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let code = if call.arguments.is_empty() {
        checker.int(0, Type::signed(4), call.span)
    } else {
        checker.argument_as(call, 0, &Type::signed(4))?
    };
    let record = checker.record(EmitKind::Exit, vec![Type::signed(4)], call.span);
    Some(checker.effect(StatementKind::Exit { record, code }, call.span))
}

fn assert<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let span = call.span;
    let condition = match &call.arguments[0] {
        Argument::Expr(expr) => checker.condition(expr),
        Argument::Type(_) => return checker.misused(call, span, "assert() takes a condition"),
    };
    if is_unknown(&condition) {
        return None;
    }
    let message = super::strings::text_argument(checker, call, 1)?;
    if constant(&condition).is_some_and(|value| value != 0) {
        return Some(checker.make(ExprKind::Block { statements: Vec::new(), value: None }, Type::Void, span));
    }
    let place = checker.at(span);
    let failed = checker.emit(EmitKind::AssertFailed, vec![message], span);
    let record = checker.record(EmitKind::Exit, vec![Type::signed(4)], span);
    let code = checker.int(1, Type::signed(4), span);
    let mut otherwise = Vec::new();
    checker.push_expr(failed, &mut otherwise);
    otherwise.push(crate::hir::Statement { kind: StatementKind::Exit { record, code }, span: place });
    Some(checker.effect(StatementKind::If { condition, then: Vec::new(), otherwise }, span))
}

fn unwatch<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let value = checker.argument_value(call, 0)?;
    let value = checker.widen(value);
    let value = checker.coerced(value, &Type::U64);
    Some(checker.emit(EmitKind::Unwatch, vec![value], call.span))
}
