//! Assignments to variables and maps.

use super::builtins;
use super::checker::Checker;
use super::convert::{aggregate_name, constant, is_unknown};
use super::expr::shorten;
use super::types::{is_literal, settle};
use crate::diagnostic::{Code, Diagnostic};
use crate::hir::{self, BinaryOp, Expr, ExprKind, StatementKind};
use crate::schema::MapValue;
use crate::source::Span;
use crate::syntax::ast;
use crate::syntax::print::{operator, print_expr};
use crate::types::Type;

impl<'a> Checker<'a> {
    pub(super) fn let_statement(
        &mut self,
        name: &'a ast::Text,
        ty: Option<&'a ast::TypeExpr>,
        value: Option<&'a ast::Expr>,
        span: Span,
        out: &mut hir::Block,
    ) {
        if let Some(have) = self.find_local(&name.text) {
            let place = self.body.locals[have.0 as usize].span;
            let finding = Diagnostic::error(
                Code::Shadowed,
                self.at(name.span),
                format!("{} is declared already", name.text),
            );
            self.report(finding.note(place, "here"));
        }
        // The value is evaluated before the name is known: `let $x = $x` has no $x.
        let given = value.map(|value| self.rvalue(value));
        let local = self.declare_local(&name.text, name.span);
        if let Some(ty) = ty
            && let Some(declared) = self.type_of(ty)
        {
            // `string`, `int8[]`: the size comes from the value.
            let open = match (&declared, &ty.kind) {
                (Type::String(_) | Type::Buffer(_), ast::TypeKind::Name(_)) => value.is_some(),
                (Type::Array { count: 0, .. }, _) => true,
                _ => false,
            };
            if !open {
                self.fix_local(local, declared);
            }
        }
        if let Some(value) = given {
            self.set_local(local, value, span, out);
        }
    }

    pub(super) fn set_local(&mut self, local: hir::LocalId, value: Expr, span: Span, out: &mut hir::Block) {
        if is_unknown(&value) {
            return;
        }
        let joined = self.join_local(local, &value);
        let ty = self.local_type(local).clone();
        let converted = if joined { self.fit(value.clone(), &ty) } else { None };
        let Some(value) = converted else {
            let have = self.body.locals[local.0 as usize].clone();
            let message =
                format!("{} is a {} and cannot hold a {}", have.name, self.show(&ty), self.show(&value.ty));
            let finding = Diagnostic::error(Code::TypeMismatch, self.at(span), message);
            self.report(finding.note(have.span, "its type comes from here"));
            return;
        };
        self.push(out, StatementKind::SetLocal { local, value }, span);
    }

    /// The value as that type; a constant has to fit.
    pub(super) fn fit(&mut self, value: Expr, ty: &Type) -> Option<Expr> {
        if let (Some(number), Some(integer)) = (constant(&value), ty.integer()) {
            let bits = u32::from(integer.bytes) * 8;
            let (least, most) = if integer.signed {
                (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
            } else {
                // -1 for "all bits" is common enough for unsigned 64-bit values.
                (if bits == 64 { i128::from(i64::MIN) } else { 0 }, (1i128 << bits) - 1)
            };
            if !(least..=most).contains(&number) {
                let message = format!("{number} does not fit into {}", self.show(ty));
                self.warn(Code::ConstantOverflow, value.span, message);
            }
        }
        let from = value.ty.clone();
        let converted = self.coerce(value, ty)?;
        // A declared type does not take what would be cut.
        match (&from, &settle(ty.clone())) {
            (Type::Integer(a), Type::Integer(b))
                if a.bytes > b.bytes && constant(&converted).is_none() && !is_literal(&from) =>
            {
                None
            }
            _ => Some(converted),
        }
    }

    pub(super) fn assign(
        &mut self,
        target: &'a ast::Expr,
        op: Option<BinaryOp>,
        value: &'a ast::Expr,
        span: Span,
        out: &mut hir::Block,
    ) {
        match &target.kind {
            ast::ExprKind::Name(name) | ast::ExprKind::Variable(name)
                if self.find_local(name).is_none() && self.binding(name).is_some() =>
            {
                let bound = self.binding(name).expect("just found");
                let frame = self.body.frame;
                self.assign_bound(bound, op, value, frame, span, out);
            }
            ast::ExprKind::Variable(name) => self.assign_local(name, target.span, op, value, span, out),
            ast::ExprKind::Map { name, key } => {
                self.assign_map(name, key.as_deref(), target.span, op, value, span, out)
            }
            ast::ExprKind::Deref(inner) => {
                let pointer = self.rvalue(inner);
                if is_unknown(&pointer) {
                    return;
                }
                let place = match self.follow(pointer, target.span) {
                    super::place::Value::Place(place) => place,
                    _ => return,
                };
                if place.place.space() != crate::types::Space::Own {
                    let message = "only the program's own memory can be written: $variables and @maps";
                    self.error(Code::BadAssignment, target.span, message);
                    return;
                }
                let ty = place.ty.clone();
                let mut value = self.rvalue(value);
                if let Some(op) = op {
                    let have = self.read(super::place::Value::Place(place.clone()));
                    value = self.binary_of(op, have, value, span);
                }
                match self.coerce(value.clone(), &ty) {
                    Some(value) => self.push(out, StatementKind::Store { place: place.place, value }, span),
                    None => {
                        let message =
                            format!("a {} cannot be stored as {}", self.show(&value.ty), self.show(&ty));
                        self.error(Code::TypeMismatch, span, message);
                    }
                }
            }
            _ => {
                self.rvalue(value);
                let message = format!("{} cannot be assigned", shorten(&print_expr(target)));
                let finding = Diagnostic::error(Code::BadAssignment, self.at(target.span), message);
                self.report(finding.help("assignments go to $variables and @maps"));
            }
        }
    }

    /// Assigns what a macro's parameter stands for; the value is the macro's own.
    pub(super) fn assign_bound(
        &mut self,
        bound: super::checker::Binding<'a>,
        op: Option<BinaryOp>,
        value: &'a ast::Expr,
        value_frame: usize,
        span: Span,
        out: &mut hir::Block,
    ) {
        match &bound.expr.kind {
            ast::ExprKind::Variable(name) => {
                let local = self.in_frame(bound.frame, |this| this.find_local(name));
                match local {
                    Some(local) => {
                        let have = self.local_expr(local, bound.expr.span);
                        let value = self.operand(have, op, value, span);
                        self.set_local(local, value, span, out);
                    }
                    None => {
                        // The macro gives the caller's variable its first value.
                        let value = self.in_frame(value_frame, |this| this.rvalue(value));
                        let local =
                            self.in_frame(bound.frame, |this| this.declare_local(name, bound.expr.span));
                        self.set_local(local, value, span, out);
                    }
                }
            }
            _ => {
                let message = "this parameter stands for an expression, which cannot be assigned";
                let finding = Diagnostic::error(Code::BadMacro, self.at(span), message);
                self.report(finding.help("a parameter written $x is a variable that the macro may change"));
            }
        }
    }

    pub(super) fn local_expr(&self, local: hir::LocalId, span: Span) -> Expr {
        self.make(ExprKind::Local(local), self.local_type(local).clone(), span)
    }

    /// The value to assign: for a compound assignment the operator's result.
    pub(super) fn operand(
        &mut self,
        have: Expr,
        op: Option<BinaryOp>,
        value: &'a ast::Expr,
        span: Span,
    ) -> Expr {
        let value = self.rvalue(value);
        match op {
            None => value,
            Some(_) if is_unknown(&value) || is_unknown(&have) => self.unknown(span),
            Some(op) => self.binary_of(op, have, value, span),
        }
    }

    pub(super) fn assign_local(
        &mut self,
        name: &'a str,
        name_span: Span,
        op: Option<BinaryOp>,
        value: &'a ast::Expr,
        span: Span,
        out: &mut hir::Block,
    ) {
        if let Some(aggregate) = self.aggregate_call(value) {
            let message = format!("{aggregate}() is kept in a map, not in a variable");
            let finding = Diagnostic::error(Code::AggregateMisplaced, self.at(value.span), message);
            self.report(finding.help(format!("write @{} = {aggregate}(…)", name.trim_start_matches('$'))));
            return;
        }
        if op.is_some() && self.find_local(name).is_none() {
            let message = format!("{name} has no value yet that '{}=' could change", op.map_or("", operator));
            self.error(Code::UnknownVariable, name_span, message);
            return;
        }
        match self.find_local(name) {
            Some(local) => {
                let have = self.local_expr(local, name_span);
                if op.is_some() && matches!(have.ty, Type::Integer(_)) && !self.is_fixed(local) {
                    // What is added to needs the room of 64 bits.
                    let one = self.int(1, super::types::LITERAL, span);
                    self.join_local(local, &one);
                }
                let have = self.local_expr(local, name_span);
                let fixed = self.is_fixed(local);
                let ty = have.ty.clone();
                let mut value = self.operand(have, op, value, span);
                if op.is_some() && fixed && value.ty.is_integral() && ty.is_integral() {
                    value = self.cast_to(value, &ty, span);
                }
                self.set_local(local, value, span, out);
            }
            None => {
                let value = self.rvalue(value);
                let local = self.declare_assigned(name, name_span);
                self.set_local(local, value, span, out);
            }
        }
    }

    /// The aggregate an expression calls, if it does.
    pub(super) fn aggregate_call(&self, value: &'a ast::Expr) -> Option<&'a str> {
        match &value.kind {
            ast::ExprKind::Call { name, .. }
                if builtins::is_aggregate(&name.text) && !self.is_macro(&name.text) =>
            {
                Some(&name.text)
            }
            _ => None,
        }
    }

    /// Whether a macro of the program has that name.
    pub fn is_macro(&self, name: &str) -> bool {
        self.macros.contains_key(name)
    }

    #[allow(clippy::too_many_arguments)] // the parts of one statement
    pub(super) fn assign_map(
        &mut self,
        name: &'a str,
        key: Option<&'a ast::Expr>,
        map_span: Span,
        op: Option<BinaryOp>,
        value: &'a ast::Expr,
        span: Span,
        out: &mut hir::Block,
    ) {
        // `@a = @b` of aggregates and aggregates themselves are looked at before the value is evaluated.
        if let (None, ast::ExprKind::Call { name: function, arguments }) = (op, &value.kind)
            && self.aggregate_call(value).is_some()
        {
            let Some((map, key)) = self.map_and_key(name, key, map_span) else { return };
            let Some((aggregate, update)) = builtins::aggregate(self, &function.text, arguments, value.span)
            else {
                return;
            };
            if !self.join_value(map, &aggregate, map_span) {
                self.value_mismatch(map, aggregate_name(&aggregate), span);
                return;
            }
            self.push(out, StatementKind::Aggregate { map, key, update }, span);
            return;
        }
        // Maps are listed in the order of the text, the assigned one before those in its value.
        if self.body.frame == 0 {
            self.map(name, map_span);
        }
        let value_ast = value;
        let value = self.rvalue(value);
        let Some((map, key)) = self.map_and_key(name, key, map_span) else { return };
        if is_unknown(&value) {
            return;
        }
        let value = match op {
            None => value,
            Some(op) => {
                let info = self.map_info(map).clone();
                match &info.value {
                    Some(MapValue::Plain(_)) => {}
                    None => {
                        // `@x += 1` alone makes @x an integer (or leaves that to another assignment).
                        let start =
                            if value.ty.is_integral() { super::types::LITERAL } else { value.ty.clone() };
                        self.join_value(map, &MapValue::Plain(start), map_span);
                    }
                    Some(aggregate) => {
                        let message = format!(
                            "{} holds a {}, so '{}=' does not work on it",
                            info.name,
                            aggregate_name(aggregate),
                            operator(op)
                        );
                        self.error(Code::BadOperands, span, message);
                        return;
                    }
                }
                let have = self.map_read(map, key.clone(), map_span);
                self.binary_of(op, have, value, span)
            }
        };
        if is_unknown(&value) {
            return;
        }
        if matches!(value.ty, Type::Void) {
            let text = shorten(&print_expr(value_ast));
            self.error(Code::ValueExpected, span, format!("{text} has no value"));
            return;
        }
        if op.is_some() && value.ty.is_integral() {
            let one = MapValue::Plain(super::types::LITERAL);
            self.join_value(map, &one, map_span);
        }
        if !self.join_value(map, &MapValue::Plain(value.ty.clone()), map_span) {
            let shown = self.show(&value.ty);
            self.value_mismatch(map, &shown, span);
            return;
        }
        let Some(MapValue::Plain(ty)) = self.map_info(map).value.clone() else { return };
        match self.coerce(value.clone(), &ty) {
            Some(value) => {
                self.resolver.load(&ty);
                self.push(out, StatementKind::SetMap { map, key, value }, span);
            }
            None => {
                let shown = self.show(&value.ty);
                self.value_mismatch(map, &shown, span);
            }
        }
    }

    pub(super) fn value_mismatch(&mut self, map: crate::schema::MapId, new: &str, span: Span) {
        let have = self.map_value_name(map);
        let info = self.map_info(map).clone();
        let message = format!("{} holds a {have} and cannot take a {new}", info.name);
        let finding = Diagnostic::error(Code::TypeMismatch, self.at(span), message);
        self.report(finding.note(info.value_span, "its type comes from here"));
    }
}
