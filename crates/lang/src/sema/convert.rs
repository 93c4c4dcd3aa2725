//! Which types go together, and the casts that make them one.

use super::checker::Checker;
use super::types::{LITERAL, is_literal, settle};
use crate::hir::{Cast, Expr, ExprKind};
use crate::schema::MapValue;
use crate::types::{Integer, Space, TupleField, Type};

/// The type that values of both can be stored in, if there is one.
pub fn join(left: &Type, right: &Type) -> Option<Type> {
    if left == right {
        return Some(left.clone());
    }
    Some(match (left, right) {
        (Type::Void, other) | (other, Type::Void) => other.clone(),
        (Type::Integer(_), Type::Integer(_)) => join_integers(left, right)?,
        (Type::Bool, other @ Type::Integer(_)) | (other @ Type::Integer(_), Type::Bool) => {
            settle(other.clone())
        }
        (Type::String(a), Type::String(b)) => Type::String(*a.max(b)),
        (Type::Buffer(a), Type::Buffer(b)) => Type::Buffer(*a.max(b)),
        (Type::String(a), Type::Array { element, count })
        | (Type::Array { element, count }, Type::String(a))
            if **element == Type::signed(1) =>
        {
            Type::String((count + 1).max(*a))
        }
        (Type::Pointer { to: a, space: s }, Type::Pointer { to: b, space: t }) => {
            let to = if **a == Type::Void {
                b.clone()
            } else if **b == Type::Void || a == b {
                a.clone()
            } else {
                Box::new(
                    join(a, b)
                        .filter(|_| matches!((&**a, &**b), (Type::Pointer { .. }, Type::Pointer { .. })))?,
                )
            };
            Type::Pointer { to, space: join_spaces(*s, *t)? }
        }
        // A literal 0 is the null pointer.
        (pointer @ Type::Pointer { .. }, other) | (other, pointer @ Type::Pointer { .. })
            if is_literal(other) =>
        {
            pointer.clone()
        }
        (Type::Stack(a), Type::Stack(b)) if a.user == b.user => {
            Type::Stack(crate::types::Stack { limit: a.limit.max(b.limit), ..*a })
        }
        (Type::Tuple(a), Type::Tuple(b)) if a.len() == b.len() => {
            let mut fields = Vec::new();
            // Records go together by their names, in the order of the first.
            if let Some(order) = by_name(a, b) {
                for (a, at) in a.iter().zip(order) {
                    fields.push((a.name.clone(), join(&a.ty, &b[at].ty)?));
                }
                return Some(Type::named_tuple(fields));
            }
            for (a, b) in a.iter().zip(b.iter()) {
                if a.name != b.name && a.name.is_some() && b.name.is_some() {
                    return None;
                }
                fields.push((a.name.clone().or_else(|| b.name.clone()), join(&a.ty, &b.ty)?));
            }
            Type::named_tuple(fields)
        }
        _ => return None,
    })
}

/// Where each field of the first is in the second, when all have names and the names are the same.
fn by_name(a: &[TupleField], b: &[TupleField]) -> Option<Vec<usize>> {
    if a.len() != b.len() {
        return None;
    }
    let place = |field: &TupleField| {
        field.name.as_ref()?;
        b.iter().position(|other| other.name == field.name)
    };
    a.iter().map(place).collect()
}

fn join_spaces(left: Space, right: Space) -> Option<Space> {
    match (left, right) {
        (a, b) if a == b => Some(a),
        (Space::Kernel | Space::Btf, Space::Kernel | Space::Btf) => Some(Space::Kernel),
        _ => None,
    }
}

fn join_integers(left: &Type, right: &Type) -> Option<Type> {
    let (a, b) = (left.integer()?, right.integer()?);
    match (is_literal(left), is_literal(right)) {
        (true, true) => return Some(LITERAL),
        // A literal may be any 64-bit value, and variables that begin as one are counted up.
        (true, false) => return Some(Type::Integer(Integer { bytes: 8, signed: b.signed, names: None })),
        (false, true) => return Some(Type::Integer(Integer { bytes: 8, signed: a.signed, names: None })),
        _ => {}
    }
    let names = a.names.filter(|names| b.names == Some(*names));
    if a.signed == b.signed {
        return Some(Type::Integer(Integer { bytes: a.bytes.max(b.bytes), signed: a.signed, names }));
    }
    let (signed, unsigned) = if a.signed { (a, b) } else { (b, a) };
    if unsigned.bytes < signed.bytes {
        return Some(Type::Integer(Integer { bytes: signed.bytes, signed: true, names }));
    }
    // A wider signed type holds both; 64 bits have none.
    (unsigned.bytes < 8).then(|| Type::Integer(Integer { bytes: unsigned.bytes * 2, signed: true, names }))
}

/// Aggregates of one kind go together; their signs join.
pub fn join_aggregates(left: &MapValue, right: &MapValue) -> Option<MapValue> {
    use MapValue::*;
    Some(match (left, right) {
        (Sum { signed: a }, Sum { signed: b }) => Sum { signed: *a || *b },
        (Min { signed: a }, Min { signed: b }) => Min { signed: *a || *b },
        (Max { signed: a }, Max { signed: b }) => Max { signed: *a || *b },
        (Avg { signed: a }, Avg { signed: b }) => Avg { signed: *a || *b },
        (Stats { signed: a }, Stats { signed: b }) => Stats { signed: *a || *b },
        (a, b) if a == b => a.clone(),
        (
            TimeSeries { interval: i, intervals: n, combine: c, signed: a },
            TimeSeries { interval: j, intervals: m, combine: d, signed: b },
        ) if i == j && n == m && c == d => {
            TimeSeries { interval: *i, intervals: *n, combine: *c, signed: *a || *b }
        }
        _ => return None,
    })
}

/// The name of an aggregate's type.
pub fn aggregate_name(value: &MapValue) -> &'static str {
    match value {
        MapValue::Plain(_) => "value",
        MapValue::Count => "count_t",
        MapValue::Sum { .. } => "sum_t",
        MapValue::Min { .. } => "min_t",
        MapValue::Max { .. } => "max_t",
        MapValue::Avg { .. } => "avg_t",
        MapValue::Stats { .. } => "stats_t",
        MapValue::Hist { .. } => "hist_t",
        MapValue::Lhist { .. } => "lhist_t",
        MapValue::LogLinear { .. } => "llhist_t",
        MapValue::TimeSeries { .. } => "tseries_t",
    }
}

/// Whether an expression stands for an error or something not known yet.
pub fn is_unknown(expr: &Expr) -> bool {
    expr.ty == Type::Void && matches!(expr.kind, ExprKind::Zero)
}

/// The value of a constant integer or boolean.
pub fn constant(expr: &Expr) -> Option<i128> {
    match &expr.kind {
        ExprKind::Int(value) if expr.ty.is_integral() => {
            Some(if expr.ty.is_signed() { i128::from(*value as i64) } else { i128::from(*value) })
        }
        _ => None,
    }
}

/// The bits a constant has in a type, cut and extended by its sign.
pub fn wrap(value: i128, integer: Integer) -> u64 {
    let bits = u32::from(integer.bytes) * 8;
    let value = value as u64;
    if bits >= 64 {
        return value;
    }
    let cut = value & ((1 << bits) - 1);
    if integer.signed && cut >> (bits - 1) != 0 { cut | (u64::MAX << bits) } else { cut }
}

impl<'a> Checker<'a> {
    /// Arrays of `char` in memory become strings where a value is wanted; bytes made by a cast stay bytes.
    pub fn decay(&self, expr: Expr) -> Expr {
        match &expr.ty {
            Type::Array { element, count }
                if **element == Type::signed(1)
                    && *count > 0
                    && matches!(expr.kind, ExprKind::Read { .. }) =>
            {
                let ty = Type::String(text_size(&expr, *count));
                let span = expr.span;
                Expr { kind: ExprKind::Cast(Cast::Text, Box::new(expr)), ty, span }
            }
            _ => expr,
        }
    }

    /// The value as that type, if it can be without being asked for with a cast.
    pub fn coerce(&self, expr: Expr, to: &Type) -> Option<Expr> {
        let to = settle(to.clone());
        if expr.ty == to || is_unknown(&expr) || to == Type::Void {
            return Some(expr);
        }
        let span = expr.span;
        let cast = |cast, expr: Expr| {
            Some(Expr { kind: ExprKind::Cast(cast, Box::new(expr)), ty: to.clone(), span })
        };
        match (&expr.ty, &to) {
            (Type::Integer(_) | Type::Bool, Type::Integer(integer)) => {
                if let Some(value) = constant(&expr) {
                    return Some(Expr { kind: ExprKind::Int(wrap(value, *integer)), ty: to, span });
                }
                match expr.ty.integer() {
                    Some(from) if from.bytes == integer.bytes && from.signed == integer.signed => {
                        Some(Expr { ty: to, ..expr })
                    }
                    _ => cast(Cast::Integer, expr),
                }
            }
            (Type::Integer(_), Type::Bool) => match constant(&expr) {
                Some(value) => Some(Expr { kind: ExprKind::Int(u64::from(value != 0)), ty: to, span }),
                None => cast(Cast::Truth, expr),
            },
            (Type::Pointer { .. }, Type::Pointer { .. }) => Some(Expr { ty: to, ..expr }),
            (Type::Integer(_), Type::Pointer { .. }) if constant(&expr) == Some(0) => {
                Some(Expr { ty: to, ..expr })
            }
            (Type::String(from), Type::String(room)) => match &expr.kind {
                ExprKind::Str(_) if from <= room => Some(Expr { ty: to, ..expr }),
                _ => cast(Cast::Resize, expr),
            },
            (Type::Buffer(_), Type::Buffer(_)) => cast(Cast::Resize, expr),
            (Type::Array { element, .. }, Type::String(_)) if **element == Type::signed(1) => {
                cast(Cast::Text, expr)
            }
            (Type::Stack(a), Type::Stack(b)) if a.user == b.user => Some(Expr { ty: to, ..expr }),
            (Type::Tuple(from), Type::Tuple(fields)) if from.len() == fields.len() => {
                let order = by_name(fields, from);
                let moved =
                    order.as_ref().is_some_and(|order| order.iter().enumerate().any(|(i, at)| i != *at));
                let ExprKind::Tuple(mut values) = expr.kind else {
                    return if moved { None } else { cast(Cast::Fields, expr) };
                };
                if let Some(order) = order.filter(|_| moved) {
                    values = order.into_iter().map(|at| values[at].clone()).collect();
                }
                let mut converted = Vec::new();
                for (value, field) in values.into_iter().zip(fields.iter()) {
                    converted.push(self.coerce(value, &field.ty)?);
                }
                Some(Expr { kind: ExprKind::Tuple(converted), ty: to, span })
            }
            _ => None,
        }
    }

    /// As [`Checker::coerce`], for values that are known to fit.
    pub fn coerced(&self, expr: Expr, to: &Type) -> Expr {
        let fallback = expr.clone();
        self.coerce(expr, to).unwrap_or(fallback)
    }

    /// The value as a boolean, for conditions.
    pub fn truth(&self, expr: Expr) -> Expr {
        let expr = self.decay(expr);
        let span = expr.span;
        if is_unknown(&expr) || expr.ty == Type::Bool {
            return expr;
        }
        if let Some(value) = constant(&expr) {
            return self.int(u64::from(value != 0), Type::Bool, span);
        }
        match &expr.ty {
            Type::Void => self.error(
                crate::diagnostic::Code::BadCondition,
                span,
                "this has no value, so it cannot be a condition",
            ),
            Type::Stack(_) | Type::Record(_) => {
                let message = format!("a {} cannot be a condition", self.show(&expr.ty));
                self.error(crate::diagnostic::Code::BadCondition, span, message)
            }
            _ => Expr { kind: ExprKind::Cast(Cast::Truth, Box::new(expr)), ty: Type::Bool, span },
        }
    }

    /// The value as a 64-bit integer of its own sign.
    pub fn widen(&self, expr: Expr) -> Expr {
        let ty = match &expr.ty {
            Type::Integer(integer) if integer.signed => Type::I64,
            Type::Integer(_) | Type::Bool | Type::Pointer { .. } | Type::KernelSymbol => Type::U64,
            _ => return expr,
        };
        if matches!(expr.ty, Type::Pointer { .. } | Type::KernelSymbol) {
            let span = expr.span;
            return Expr { kind: ExprKind::Cast(Cast::Integer, Box::new(expr)), ty, span };
        }
        self.coerced(expr, &ty)
    }
}

/// Room for the text of a `char` array. All bytes may be text, without a NUL; names of tasks
/// always end with one, and keeping their size makes keys of `comm` and of such a field agree.
fn text_size(expr: &Expr, count: u32) -> u32 {
    debug_assert!(matches!(expr.kind, ExprKind::Read { .. }));
    if count == 16 { 16 } else { count + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_join_to_what_holds_both() {
        let cases = [
            (Type::unsigned(1), Type::unsigned(4), Some(Type::unsigned(4))),
            (Type::unsigned(4), Type::signed(4), Some(Type::I64)),
            (Type::unsigned(1), Type::signed(4), Some(Type::signed(4))),
            (Type::U64, Type::signed(1), None),
            (Type::U64, LITERAL, Some(Type::U64)),
            (Type::unsigned(2), LITERAL, Some(Type::U64)),
            (LITERAL, LITERAL, Some(LITERAL)),
            (Type::Bool, Type::U32, Some(Type::U32)),
        ];
        for (a, b, expected) in cases {
            assert_eq!(join(&a, &b), expected, "{a:?} {b:?}");
            assert_eq!(join(&b, &a), expected, "{b:?} {a:?}");
        }
    }

    #[test]
    fn other_types_join_within_their_kind() {
        assert_eq!(join(&Type::String(4), &Type::String(16)), Some(Type::String(16)));
        assert_eq!(join(&Type::String(4), &Type::U64), None);
        let a = Type::tuple([Type::unsigned(1), Type::String(2)]);
        let b = Type::tuple([Type::unsigned(4), Type::String(1)]);
        assert_eq!(join(&a, &b), Some(Type::tuple([Type::unsigned(4), Type::String(2)])));
        let kernel = Type::pointer(Type::U64, Space::Kernel);
        assert_eq!(join(&kernel, &Type::pointer(Type::U64, Space::Btf)), Some(kernel.clone()));
        assert_eq!(join(&kernel, &Type::pointer(Type::U64, Space::User)), None);
        assert_eq!(join(&kernel, &LITERAL), Some(kernel));
    }

    #[test]
    fn constants_wrap_by_their_type() {
        assert_eq!(wrap(-1, Integer { bytes: 1, signed: false, names: None }), 255);
        assert_eq!(wrap(255, Integer { bytes: 1, signed: true, names: None }), u64::MAX);
        assert_eq!(wrap(-1, Integer { bytes: 8, signed: false, names: None }), u64::MAX);
    }
}
