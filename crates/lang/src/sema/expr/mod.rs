//! Expressions: names, operators, casts.

mod casts;
mod operators;

use crate::diagnostic::{Code, Diagnostic};
use crate::hir::{BinaryOp, Cast, Expr, ExprKind, StepTarget, UnaryOp};
use crate::sema::builtins;
use crate::sema::checker::Checker;
use crate::sema::constants;
use crate::sema::convert::{constant, is_unknown, wrap};
use crate::sema::place::Value;
use crate::sema::types::{LITERAL, is_literal, settle};
use crate::source::Span;
use crate::syntax::ast;
use crate::syntax::print::{operator, print_expr, print_type};
use crate::types::{Integer, Space, Type};

impl<'a> Checker<'a> {
    /// An expression as a value; `char` arrays are still arrays.
    pub fn expr(&mut self, ast: &'a ast::Expr) -> Expr {
        let value = self.value(ast);
        self.read(value)
    }

    /// An expression whose value is used: void is an error, `char` arrays become strings.
    pub fn rvalue(&mut self, ast: &'a ast::Expr) -> Expr {
        let expr = self.expr(ast);
        if expr.ty == Type::Void && !is_unknown(&expr) {
            let message = format!("{} has no value", shorten(&print_expr(ast)));
            return self.error(Code::ValueExpected, ast.span, message);
        }
        self.decay(expr)
    }

    /// An expression as a condition.
    pub fn condition(&mut self, ast: &'a ast::Expr) -> Expr {
        let expr = self.expr(ast);
        self.truth(expr)
    }

    /// An expression as a value or a place in memory.
    pub fn value(&mut self, ast: &'a ast::Expr) -> Value {
        use ast::ExprKind as A;
        let span = ast.span;
        Value::Expr(match &ast.kind {
            A::Int(value) => {
                let ty = if *value > i64::MAX as u64 { Type::U64 } else { LITERAL };
                self.int(*value, ty, span)
            }
            A::Bool(value) => self.int(u64::from(*value), Type::Bool, span),
            A::Str(bytes) => self.string(bytes, span),
            A::Name(name) => return self.name_value(name, span),
            A::Variable(name) => match self.variable(name, span) {
                Ok(local) if *self.local_type(local) == Type::Void => self.never_assigned(local, span),
                Ok(local) => self.make(ExprKind::Local(local), self.local_type(local).clone(), span),
                Err(Some(bound)) => return self.in_frame(bound.frame, |this| this.value(bound.expr)),
                Err(None) => self.unknown_variable(name, span),
            },
            A::Map { name, key } => return self.map_value(name, key.as_deref(), span),
            A::Positional(number) => self.positional(*number, span),
            A::PositionalCount => self.int(self.options.positional.len() as u64, LITERAL, span),
            A::Call { name, arguments } => return self.call(name, arguments, span),
            A::Unary(op, inner) => self.unary(*op, inner, span),
            A::Deref(inner) => return self.deref(inner, span),
            A::AddressOf(inner) => self.address_of_ast(inner, span),
            A::Step { target, up, post } => self.step(target, *up, *post, span),
            A::Binary(op, left, right) => self.binary(*op, left, right, span),
            A::Logical(and, left, right) => {
                let left = self.condition(left);
                let right = self.condition(right);
                self.logical(*and, left, right, span)
            }
            A::Ternary { condition, then, otherwise } => {
                self.ternary(condition, then.as_deref(), otherwise, span)
            }
            A::Field { base, name } => return self.field(base, name, span),
            A::Index { base, index } => return self.index(base, index, span),
            A::Cast(ty, inner) => return self.cast_ast(ty, inner, span),
            A::Tuple(fields) => self.tuple(fields, span),
            A::Block(block) => self.block_expr(block, span),
            A::If(found) => self.if_expr(found, span),
            A::Comptime(inner) => {
                let value = self.expr(inner);
                if constant(&value).is_none()
                    && !is_unknown(&value)
                    && !matches!(value.kind, ExprKind::Str(_))
                {
                    return Value::Expr(self.error(
                        Code::NeedsLiteral,
                        span,
                        "this is not known at compile time",
                    ));
                }
                value
            }
            A::Error => self.unknown(span),
        })
    }

    /// A variable in reach; `Err` has what a macro's parameter of that name stands for, if it is one.
    pub fn variable(
        &mut self,
        name: &str,
        span: Span,
    ) -> Result<crate::hir::LocalId, Option<crate::sema::checker::Binding<'a>>> {
        let _ = span;
        match self.find_local(name) {
            Some(local) => Ok(local),
            None => Err(self.binding(name)),
        }
    }

    /// A variable whose type no assignment says, unless an error is the reason.
    fn never_assigned(&mut self, local: crate::hir::LocalId, span: Span) -> Expr {
        if !self.last || self.findings.has_errors() {
            return self.unknown(span);
        }
        let name = self.body.locals[local.0 as usize].name.clone();
        let message = format!("{name} is declared and never assigned, so it has no type");
        let finding = Diagnostic::error(Code::UnknownVariable, self.at(span), message);
        self.report(finding.help(format!("say its type: let {name} : uint64;")))
    }

    fn unknown_variable(&mut self, name: &str, span: Span) -> Expr {
        if self.hoist(name) {
            return self.unknown(span);
        }
        let finding = Diagnostic::error(
            Code::UnknownVariable,
            self.at(span),
            format!("{name} has no value here: it is not assigned in this block or one around it"),
        );
        let names = self.local_names();
        let finding = finding.suggest(name, names.iter().map(String::as_str));
        self.report(finding)
    }

    /// `$1` as a number where it is one, else as a string; 0 when it is not given.
    fn positional(&mut self, number: u32, span: Span) -> Expr {
        match self.options.positional.get(number as usize - 1) {
            None => self.int(0, LITERAL, span),
            Some(text) => match parse_parameter(text) {
                Some(value) => self.int(value as u64, LITERAL, span),
                None => self.string(text.as_bytes(), span),
            },
        }
    }

    /// The text of a parameter, if the expression is one.
    pub fn positional_text(&self, ast: &'a ast::Expr) -> Option<Vec<u8>> {
        match &ast.kind {
            ast::ExprKind::Positional(number) => {
                let text = self.options.positional.get(*number as usize - 1);
                Some(text.map_or(Vec::new(), |text| text.clone().into_bytes()))
            }
            ast::ExprKind::Name(name) | ast::ExprKind::Variable(name) => {
                let bound = self.binding(name)?;
                self.positional_text(bound.expr)
            }
            _ => None,
        }
    }

    fn name_value(&mut self, name: &'a str, span: Span) -> Value {
        if let Some(bound) = self.binding(name) {
            return self.in_frame(bound.frame, |this| this.value(bound.expr));
        }
        if self.macros.contains_key(name) {
            return Value::Expr(self.macro_call(name, &[], span));
        }
        if let Some(value) = builtins::named(self, name, span) {
            return value;
        }
        if let Some((value, ty)) = self.resolver.declared_constant(name) {
            return Value::Expr(self.int(value as u64, ty, span));
        }
        // Before the kernel's enums: a table is quicker to search than BTF.
        if let Some(value) = constants::find(name, self.facts) {
            return Value::Expr(self.int(value as u64, LITERAL, span));
        }
        if let Some((value, ty)) = self.resolver.constant(name) {
            return Value::Expr(self.int(value as u64, ty, span));
        }
        let finding =
            Diagnostic::error(Code::UnknownIdentifier, self.at(span), format!("unknown name '{name}'"));
        let mut names: Vec<&str> = builtins::names().collect();
        names.extend(self.macros.keys().copied());
        let variable = format!("${name}");
        let finding = if self.find_local(&variable).is_some() {
            finding.help(format!("did you mean the variable {variable}?"))
        } else {
            finding.suggest(name, names)
        };
        Value::Expr(self.report(finding))
    }

    fn unary(&mut self, op: UnaryOp, inner: &'a ast::Expr, span: Span) -> Expr {
        if op == UnaryOp::Not {
            let inner = self.condition(inner);
            if is_unknown(&inner) {
                return inner;
            }
            return match constant(&inner) {
                Some(value) => self.int(u64::from(value == 0), Type::Bool, span),
                None => self.make(ExprKind::Unary(op, Box::new(inner)), Type::Bool, span),
            };
        }
        let inner = self.rvalue(inner);
        if is_unknown(&inner) {
            return inner;
        }
        let address = op == UnaryOp::BitNot && matches!(inner.ty, Type::Pointer { .. });
        if !inner.ty.is_integral() && !address {
            let sign = if op == UnaryOp::Neg { "-" } else { "~" };
            let message = format!("{sign} needs an integer, and this is a {}", self.show(&inner.ty));
            return self.error(Code::NotAnInteger, span, message);
        }
        if let Some(value) = constant(&inner) {
            let literal = is_literal(&inner.ty);
            let value = if op == UnaryOp::Neg { -value } else { !value };
            let ty = if op == UnaryOp::Neg && inner.ty == Type::U64 { Type::I64 } else { inner.ty.clone() };
            let ty = if literal { LITERAL } else { ty };
            let integer = ty.integer().unwrap_or(Integer { bytes: 8, signed: true, names: None });
            return self.int(wrap(value, integer), ty, span);
        }
        let signed = op == UnaryOp::Neg || inner.ty.is_signed();
        let bytes = if op == UnaryOp::BitNot { inner.ty.size() as u8 } else { 8 };
        let ty = Type::Integer(Integer { bytes, signed, names: None });
        let inner = if matches!(inner.ty, Type::Pointer { .. }) { self.widen(inner) } else { inner };
        let inner = self.coerced(inner, &ty);
        self.make(ExprKind::Unary(op, Box::new(inner)), ty, span)
    }

    fn step(&mut self, target: &'a ast::Expr, up: bool, post: bool, span: Span) -> Expr {
        let unit = |ty: &Type| match ty {
            Type::Pointer { to, .. } => i64::from(to.size().max(1)),
            _ => 1,
        };
        let sign = if up { 1 } else { -1 };
        match &target.kind {
            ast::ExprKind::Variable(name) => {
                let local = match self.variable(name, target.span) {
                    Ok(local) => local,
                    Err(Some(bound)) => {
                        return self.in_frame(bound.frame, |this| this.step(bound.expr, up, post, span));
                    }
                    Err(None) => return self.unknown_variable(name, target.span),
                };
                let ty = self.local_type(local).clone();
                if ty == Type::Void {
                    return self.unknown(span);
                }
                if !matches!(ty, Type::Integer(_) | Type::Pointer { .. }) {
                    let message =
                        format!("{name} is a {}, and ++ and -- count integers and pointers", self.show(&ty));
                    return self.error(Code::NotAnInteger, span, message);
                }
                // What is counted up needs room to count.
                if matches!(ty, Type::Integer(_)) && !self.is_fixed(local) {
                    let one = self.int(1, LITERAL, span);
                    self.join_local(local, &one);
                }
                let ty = self.local_type(local).clone();
                let by = sign * unit(&ty);
                self.make(ExprKind::Step { target: StepTarget::Local(local), by, post }, ty, span)
            }
            ast::ExprKind::Map { name, key } => {
                let (map, key) = match self.map_and_key(name, key.as_deref(), target.span) {
                    Some(found) => found,
                    None => return self.unknown(span),
                };
                let name = self.map_info(map).name.clone();
                match self.map_info(map).value.clone() {
                    Some(crate::schema::MapValue::Plain(ty)) if matches!(ty, Type::Pointer { .. }) => {
                        let by = sign * unit(&ty);
                        let target = StepTarget::Map { map, key: key.map(Box::new) };
                        self.make(ExprKind::Step { target, by, post }, ty, span)
                    }
                    _ => {
                        let literal = crate::schema::MapValue::Plain(LITERAL);
                        if !self.join_value(map, &literal, target.span) {
                            let have = self.map_value_name(map);
                            let message = format!("{name} holds a {have}, and ++ and -- count integers");
                            return self.error(Code::NotAnInteger, span, message);
                        }
                        let ty = match &self.map_info(map).value {
                            Some(crate::schema::MapValue::Plain(ty)) => ty.clone(),
                            _ => LITERAL,
                        };
                        let target = StepTarget::Map { map, key: key.map(Box::new) };
                        self.make(ExprKind::Step { target, by: sign, post }, settle(ty), span)
                    }
                }
            }
            ast::ExprKind::Name(name) => match self.binding(name) {
                Some(bound) => self.in_frame(bound.frame, |this| this.step(bound.expr, up, post, span)),
                None => {
                    self.error(Code::BadAssignment, target.span, "++ and -- change a $variable or a @map")
                }
            },
            _ => self.error(Code::BadAssignment, target.span, "++ and -- change a $variable or a @map"),
        }
    }

    /// `&&` and `||`, with constants folded.
    pub fn logical(&self, and: bool, left: Expr, right: Expr, span: Span) -> Expr {
        if is_unknown(&left) || is_unknown(&right) {
            return self.unknown(span);
        }
        match constant(&left) {
            Some(value) if (value != 0) == and => right,
            Some(_) => left,
            None => self.make(
                ExprKind::Logical { and, left: Box::new(left), right: Box::new(right) },
                Type::Bool,
                span,
            ),
        }
    }

    fn ternary(
        &mut self,
        condition_ast: &'a ast::Expr,
        then: Option<&'a ast::Expr>,
        otherwise: &'a ast::Expr,
        span: Span,
    ) -> Expr {
        let Some(then) = then else {
            // `a ?: b`: the condition's own value when it holds.
            let value = self.rvalue(condition_ast);
            let condition = self.truth(value.clone());
            let otherwise = self.rvalue(otherwise);
            return self.select(condition, value, otherwise, span);
        };
        let condition = self.condition(condition_ast);
        let known = constant(&condition);
        let dead = self.body.dead;
        self.body.dead = dead || known == Some(0);
        let then = self.expr(then);
        let then = self.decay(then);
        self.body.dead = dead || known.is_some_and(|value| value != 0);
        let otherwise = self.expr(otherwise);
        let otherwise = self.decay(otherwise);
        self.body.dead = dead;
        self.select(condition, then, otherwise, span)
    }

    /// One of two values by a condition.
    pub fn select(&mut self, condition: Expr, then: Expr, otherwise: Expr, span: Span) -> Expr {
        if is_unknown(&condition) {
            return self.unknown(span);
        }
        // Types that one side only knows in a later pass.
        if is_unknown(&then) || is_unknown(&otherwise) {
            let known = if is_unknown(&then) { otherwise } else { then };
            return if self.last { self.unknown(span) } else { known };
        }
        let void = (then.ty == Type::Void) as u8 + (otherwise.ty == Type::Void) as u8;
        let joined = if void == 1 { None } else { crate::sema::convert::join(&then.ty, &otherwise.ty) };
        let Some(ty) = joined else {
            let message = format!(
                "the two sides have different types: {} and {}",
                self.show(&then.ty),
                self.show(&otherwise.ty)
            );
            return self.error(Code::TypeMismatch, span, message);
        };
        if let Some(value) = constant(&condition) {
            let chosen = if value != 0 { then } else { otherwise };
            let literal = is_literal(&ty);
            return if literal { chosen } else { self.coerced(chosen, &ty) };
        }
        let (then, otherwise) = (self.coerced(then, &ty), self.coerced(otherwise, &ty));
        let kind = ExprKind::Select {
            condition: Box::new(condition),
            then: Box::new(then),
            otherwise: Box::new(otherwise),
        };
        self.make(kind, ty, span)
    }

    fn tuple(&mut self, fields: &'a [(Option<ast::Text>, ast::Expr)], span: Span) -> Expr {
        let mut values = Vec::new();
        let mut types = Vec::new();
        let mut unknown = false;
        for (name, value) in fields {
            let value = self.rvalue(value);
            unknown |= is_unknown(&value);
            types.push((name.as_ref().map(|name| Self::field_name(&name.text)), value.ty.clone()));
            values.push(value);
        }
        if unknown {
            return self.unknown(span);
        }
        let ty = Type::named_tuple(types);
        self.make(ExprKind::Tuple(values), ty, span)
    }
}

/// A parameter's value when it is a number, decimal or hexadecimal, perhaps negative.
pub fn parse_parameter(text: &str) -> Option<i64> {
    let (digits, negative) = match text.strip_prefix('-') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let value = crate::syntax::lexer::parse_number(digits).ok()? as i64;
    Some(if negative { value.wrapping_neg() } else { value })
}

/// A program's text for a message, not too long.
pub fn shorten(text: &str) -> String {
    let flat: Vec<&str> = text.split_whitespace().collect();
    let flat = flat.join(" ");
    if flat.chars().count() <= 40 {
        return flat;
    }
    flat.chars().take(37).chain("...".chars()).collect()
}
