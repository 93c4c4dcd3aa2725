//! Functions and values the language has of itself: one row each.
//!
//! A row names the function, says how it is called and what it does, and holds the function
//! that checks a call and makes the typed expression. Adding one is adding a row (and, if the
//! machine has to learn something new, an [`crate::hir::Intrinsic`]).

mod strings;
mod symbols;
mod aggregates;
mod comptime;
mod machine;
mod maps;
mod numbers;
mod output;
mod probe;
mod selected;

use super::checker::Checker;
use super::convert::{constant, is_unknown};
use super::place::Value;
use crate::diagnostic::{Code, Diagnostic};
use crate::hir::{Expr, Update};
use crate::schema::MapValue;
use crate::source::Span;
use crate::syntax::ast::{self, Argument};
use crate::types::Type;

pub use maps::delete_statement;

/// When and where a function does its work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// In the kernel, at once.
    Inline,
    /// In the tracer, some time later.
    Async,
    /// While compiling.
    Comptime,
    /// Kept in a map.
    Aggregate,
}

/// A builtin function or value.
pub struct Builtin {
    /// Its names, the usual one first.
    pub names: &'static [&'static str],
    /// How it is called, with its result, one form a line.
    pub signature: &'static str,
    /// What it does, in a sentence or two.
    pub doc: &'static str,
    /// When it is done.
    pub mode: Mode,
    /// Least and most arguments.
    pub count: (usize, usize),
    /// Whether it changes what is traced, so that `--unsafe` is needed.
    pub needs_unsafe: bool,
    check: Check,
}

/// What a row does with a call.
#[derive(Clone, Copy)]
pub enum Check {
    /// Makes a value; `None`: it is reported.
    Value(for<'a> fn(&mut Checker<'a>, &Call<'a>) -> Option<Expr>),
    /// Makes a value or a place.
    Place(for<'a> fn(&mut Checker<'a>, &Call<'a>) -> Option<Value>),
    /// Makes an update of a map.
    Update(for<'a> fn(&mut Checker<'a>, &Call<'a>) -> Option<(MapValue, Update)>),
}

/// A call of a builtin.
pub struct Call<'a> {
    /// The name it was called by.
    pub name: &'a str,
    /// Arguments; none for a bare word.
    pub arguments: &'a [Argument],
    /// The call.
    pub span: Span,
    /// The row.
    pub row: &'static Builtin,
}

/// A row with usual properties, for the tables.
const fn row(
    names: &'static [&'static str],
    signature: &'static str,
    doc: &'static str,
    mode: Mode,
    count: (usize, usize),
    check: Check,
) -> Builtin {
    Builtin { names, signature, doc, mode, count, needs_unsafe: false, check }
}

/// A row that needs `--unsafe`.
const fn unsafe_row(
    names: &'static [&'static str],
    signature: &'static str,
    doc: &'static str,
    mode: Mode,
    count: (usize, usize),
    check: Check,
) -> Builtin {
    Builtin { names, signature, doc, mode, count, needs_unsafe: true, check }
}

/// Every builtin, in groups.
const GROUPS: &[&[Builtin]] = &[
    probe::ROWS,
    machine::ROWS,
    selected::ROWS,
    strings::ROWS,
    symbols::ROWS,
    numbers::ROWS,
    maps::ROWS,
    aggregates::ROWS,
    output::ROWS,
    comptime::ROWS,
];

/// Every builtin.
pub fn rows() -> impl Iterator<Item = &'static Builtin> {
    GROUPS.iter().flat_map(|group| group.iter())
}

/// The row of a name.
pub fn find(name: &str) -> Option<&'static Builtin> {
    rows().find(|row| row.names.contains(&name))
}

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    rows().flat_map(|row| row.names.iter().copied())
}

/// Whether a name is an aggregate (`count`, `hist`, …).
pub fn is_aggregate(name: &str) -> bool {
    find(name).is_some_and(|row| row.mode == Mode::Aggregate)
}

/// A bare word that is a builtin. `None`: it is none.
pub fn named<'a>(checker: &mut Checker<'a>, name: &'a str, span: Span) -> Option<Value> {
    if let Some(number) = argument_number(name) {
        return Some(Value::Expr(probe::numbered_argument(checker, number, span)));
    }
    call(checker, name, &[], span)
}

/// `arg3` → 3.
fn argument_number(name: &str) -> Option<usize> {
    let digits = name.strip_prefix("arg")?;
    let number: usize = digits.parse().ok()?;
    (number < 64 && number.to_string() == digits).then_some(number)
}

/// A call of a builtin. `None`: there is none of that name.
pub fn call<'a>(
    checker: &mut Checker<'a>,
    name: &'a str,
    arguments: &'a [Argument],
    span: Span,
) -> Option<Value> {
    let row = find(name)?;
    let call = Call { name, arguments, span, row };
    if !check_call(checker, &call) {
        return Some(Value::Expr(checker.unknown(span)));
    }
    let result = match row.check {
        Check::Value(check) => check(checker, &call).map(Value::Expr),
        Check::Place(check) => check(checker, &call),
        Check::Update(_) => {
            let finding = Diagnostic::error(
                Code::AggregateMisplaced,
                checker.at(span),
                format!("{name}() has no value of its own: it is kept in a map"),
            );
            let finding = finding.help(format!("assign it: @x = {name}(…)"));
            Some(Value::Expr(checker.report(finding)))
        }
    };
    Some(result.unwrap_or_else(|| Value::Expr(checker.unknown(span))))
}

/// An aggregate that is assigned to a map.
pub fn aggregate<'a>(
    checker: &mut Checker<'a>,
    name: &'a str,
    arguments: &'a [Argument],
    span: Span,
) -> Option<(MapValue, Update)> {
    let row = find(name)?;
    let call = Call { name, arguments, span, row };
    if !check_call(checker, &call) {
        return None;
    }
    match row.check {
        Check::Update(check) => check(checker, &call),
        _ => None,
    }
}

fn check_call(checker: &mut Checker<'_>, call: &Call<'_>) -> bool {
    let row = call.row;
    let given = call.arguments.len();
    if given < row.count.0 || given > row.count.1 {
        let what = match row.count {
            (0, 0) => "no arguments".into(),
            (least, most) if least == most && least == 1 => "1 argument".into(),
            (least, most) if least == most => format!("{least} arguments"),
            (least, usize::MAX) => format!("at least {least} arguments"),
            (least, most) => format!("{least} to {most} arguments"),
        };
        let message = format!("{}() takes {what}, and {given} are given", call.name);
        let finding = Diagnostic::error(Code::BadArguments, checker.at(call.span), message);
        checker.report(finding.help(usage(row)));
        return false;
    }
    if row.needs_unsafe && !checker.options.unsafe_allowed {
        let message = format!("{}() changes the system it runs on, so it needs --unsafe", call.name);
        checker.error(Code::NeedsUnsafe, call.span, message);
        return false;
    }
    true
}

fn usage(row: &Builtin) -> String {
    let forms: Vec<&str> = row.signature.lines().map(str::trim).collect();
    format!("it is {}", forms.join(" or "))
}

// What rows ask for.

impl<'a> Checker<'a> {
    /// Reports a call that does not fit its function.
    fn misused<T>(&mut self, call: &Call<'a>, span: Span, message: impl Into<String>) -> Option<T> {
        let finding = Diagnostic::error(Code::BadArguments, self.at(span), message);
        self.report(finding.help(usage(call.row)));
        None
    }

    /// An argument as written.
    fn argument_ast(&mut self, call: &Call<'a>, position: usize) -> Option<&'a ast::Expr> {
        match call.arguments.get(position)? {
            Argument::Expr(expr) => Some(self.bound(expr)),
            Argument::Type(ty) => {
                self.misused(call, ty.span, format!("{}() takes a value here, not a type", call.name))
            }
        }
    }

    /// What a macro's parameter stands for, followed to the end; other expressions as they are.
    /// Only for looking at: names in it belong to other frames.
    fn bound(&self, expr: &'a ast::Expr) -> &'a ast::Expr {
        let mut expr = expr;
        let mut frame = self.body.frame;
        for _ in 0..64 {
            let (ast::ExprKind::Name(name) | ast::ExprKind::Variable(name)) = &expr.kind else { break };
            let Some(bound) = self.body.frames[frame].bindings.get(name.as_str()) else { break };
            (expr, frame) = (bound.expr, bound.frame);
        }
        expr
    }

    /// An argument as a value; unknown ones end the check of the call.
    fn argument_value(&mut self, call: &Call<'a>, position: usize) -> Option<Expr> {
        match call.arguments.get(position)? {
            Argument::Expr(expr) => {
                let value = self.rvalue(expr);
                (!is_unknown(&value)).then_some(value)
            }
            Argument::Type(ty) => {
                self.misused(call, ty.span, format!("{}() takes a value here, not a type", call.name))
            }
        }
    }

    /// An argument as a place or value.
    fn argument_place(&mut self, call: &Call<'a>, position: usize) -> Option<Value> {
        match call.arguments.get(position)? {
            Argument::Expr(expr) => match self.value(expr) {
                Value::Expr(value) if is_unknown(&value) => None,
                value => Some(value),
            },
            Argument::Type(ty) => {
                self.misused(call, ty.span, format!("{}() takes a value here, not a type", call.name))
            }
        }
    }

    /// An argument as an integer.
    fn argument_integer(&mut self, call: &Call<'a>, position: usize) -> Option<Expr> {
        let value = self.argument_value(call, position)?;
        if value.ty.is_integral() {
            return Some(value);
        }
        let message = format!("{}() needs an integer here, not a {}", call.name, self.show(&value.ty));
        self.misused(call, value.span, message)
    }

    /// An argument as a number known at compile time.
    fn argument_constant(&mut self, call: &Call<'a>, position: usize) -> Option<i128> {
        let value = self.argument_integer(call, position)?;
        if let Some(number) = constant(&value) {
            return Some(number);
        }
        let message = format!("{}() needs a constant here", call.name);
        self.error(Code::NeedsLiteral, value.span, message);
        None
    }

    /// An argument as a string known at compile time.
    fn argument_text(&mut self, call: &Call<'a>, position: usize) -> Option<Vec<u8>> {
        let expr = self.argument_ast(call, position)?;
        if let Some(text) = self.positional_text(expr) {
            return Some(text);
        }
        let value = self.argument_value(call, position)?;
        match value.kind {
            crate::hir::ExprKind::Str(bytes) => Some(bytes),
            _ => {
                let message = format!("{}() needs a string literal here", call.name);
                self.error(Code::NeedsLiteral, value.span, message);
                None
            }
        }
    }

    /// The same as UTF-8.
    fn argument_string(&mut self, call: &Call<'a>, position: usize) -> Option<String> {
        self.argument_text(call, position).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// An argument that is a word, as in `kstack(perf)`.
    fn argument_word(&mut self, call: &Call<'a>, position: usize) -> Option<&'a str> {
        match call.arguments.get(position)? {
            Argument::Expr(expr) => match &self.bound(expr).kind {
                ast::ExprKind::Name(name) => Some(name),
                _ => None,
            },
            Argument::Type(_) => None,
        }
    }

    /// An argument that is a map, perhaps with a key.
    #[allow(clippy::type_complexity)] // a map's name and its key as written
    fn argument_map(
        &mut self,
        call: &Call<'a>,
        position: usize,
    ) -> Option<(&'a str, Option<&'a ast::Expr>, Span)> {
        let expr = self.argument_ast(call, position)?;
        match &expr.kind {
            ast::ExprKind::Map { name, key } => Some((name, key.as_deref(), expr.span)),
            _ => self.misused(call, expr.span, format!("{}() needs a map here", call.name)),
        }
    }

    /// A value of that type from an argument.
    fn argument_as(&mut self, call: &Call<'a>, position: usize, ty: &Type) -> Option<Expr> {
        let value = self.argument_integer(call, position)?;
        Some(self.coerced(value, ty))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_rows_are_explained() {
        let mut all: Vec<&str> = names().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        for row in rows() {
            assert!(row.doc.len() > 10 && row.doc.ends_with('.'), "{}", row.names[0]);
            assert!(row.signature.contains(row.names[0]), "{}", row.names[0]);
            assert!(row.count.0 <= row.count.1, "{}", row.names[0]);
        }
    }

    #[test]
    fn numbered_arguments_are_spelt_exactly() {
        assert_eq!(argument_number("arg0"), Some(0));
        assert_eq!(argument_number("arg12"), Some(12));
        assert_eq!(argument_number("arg01"), None);
        assert_eq!(argument_number("args"), None);
    }
}
