//! Expressions: names, operators, casts.

use super::builtins;
use super::checker::Checker;
use super::constants;
use super::convert::{constant, is_unknown, wrap};
use super::place::Value;
use super::types::{LITERAL, is_literal, settle};
use crate::diagnostic::{Code, Diagnostic};
use crate::hir::{BinaryOp, Cast, Expr, ExprKind, StepTarget, UnaryOp};
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
            A::Ternary { condition, then, otherwise } => self.ternary(condition, then.as_deref(), otherwise, span),
            A::Field { base, name } => return self.field(base, name, span),
            A::Index { base, index } => return self.index(base, index, span),
            A::Cast(ty, inner) => return self.cast_ast(ty, inner, span),
            A::Tuple(fields) => self.tuple(fields, span),
            A::Block(block) => self.block_expr(block, span),
            A::If(found) => self.if_expr(found, span),
            A::Comptime(inner) => {
                let value = self.expr(inner);
                if constant(&value).is_none() && !is_unknown(&value) && !matches!(value.kind, ExprKind::Str(_)) {
                    return Value::Expr(self.error(Code::NeedsLiteral, span, "this is not known at compile time"));
                }
                value
            }
            A::Error => self.unknown(span),
        })
    }

    /// A variable in reach; `Err` has what a macro's parameter of that name stands for, if it is one.
    pub fn variable(&mut self, name: &str, span: Span) -> Result<crate::hir::LocalId, Option<super::checker::Binding<'a>>> {
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
        let finding = Diagnostic::error(Code::UnknownIdentifier, self.at(span), format!("unknown name '{name}'"));
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
                    Err(Some(bound)) => return self.in_frame(bound.frame, |this| this.step(bound.expr, up, post, span)),
                    Err(None) => return self.unknown_variable(name, target.span),
                };
                let ty = self.local_type(local).clone();
                if ty == Type::Void {
                    return self.unknown(span);
                }
                if !matches!(ty, Type::Integer(_) | Type::Pointer { .. }) {
                    let message = format!("{name} is a {}, and ++ and -- count integers and pointers", self.show(&ty));
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
                None => self.error(Code::BadAssignment, target.span, "++ and -- change a $variable or a @map"),
            },
            _ => self.error(Code::BadAssignment, target.span, "++ and -- change a $variable or a @map"),
        }
    }

    fn binary(&mut self, op: BinaryOp, left_ast: &'a ast::Expr, right_ast: &'a ast::Expr, span: Span) -> Expr {
        let mut left = self.rvalue(left_ast);
        let mut right = self.rvalue(right_ast);
        // A parameter that looks like a number is a string where it meets one.
        if matches!(left.ty, Type::String(_))
            && let Some(text) = self.positional_text(right_ast)
        {
            right = self.string(&text, right_ast.span);
        } else if matches!(right.ty, Type::String(_))
            && let Some(text) = self.positional_text(left_ast)
        {
            left = self.string(&text, left_ast.span);
        }
        self.binary_of(op, left, right, span)
    }

    /// An operator on two values.
    pub fn binary_of(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        if is_unknown(&left) || is_unknown(&right) {
            return self.unknown(span);
        }
        if op.is_comparison() {
            return self.compare(op, left, right, span);
        }
        if matches!(left.ty, Type::Pointer { .. }) || matches!(right.ty, Type::Pointer { .. }) {
            return self.pointer_arithmetic(op, left, right, span);
        }
        let integral = |ty: &Type| ty.is_integral() || *ty == Type::KernelSymbol;
        if !integral(&left.ty) || !integral(&right.ty) {
            return self.bad_operands(op, &left, &right, span);
        }
        let foldable = |ty: &Type| is_literal(ty) || ty.integer().is_some_and(|integer| integer.names.is_some());
        if let (Some(a), Some(b)) = (constant(&left), constant(&right))
            && foldable(&left.ty)
            && foldable(&right.ty)
        {
            return self.fold(op, a, b, span);
        }
        if matches!(op, BinaryOp::Div | BinaryOp::Mod) && constant(&right) == Some(0) {
            return self.error(Code::DivisionByZero, right.span, "this divides by zero");
        }
        let side_signed = |expr: &Expr| match constant(expr) {
            Some(value) if is_literal(&expr.ty) => value < 0,
            _ => expr.ty.is_signed() && !is_literal(&expr.ty),
        };
        let (left_signed, right_signed) = (side_signed(&left), side_signed(&right));
        // Variables that only ever had literals go along with the other side.
        let all_literal = is_literal(&left.ty) && is_literal(&right.ty);
        let shift = matches!(op, BinaryOp::Shl | BinaryOp::Shr);
        let signed = if shift { left_signed || is_literal(&left.ty) } else { left_signed || right_signed || all_literal };
        if matches!(op, BinaryOp::Div | BinaryOp::Mod) && left_signed != right_signed && !all_literal {
            let unsigned = if left_signed { &right } else { &left };
            if unsigned.ty == Type::U64 && constant(unsigned).is_none() && !is_literal(&unsigned.ty) {
                let message = format!("'{}' on a signed and an unsigned 64-bit value is done as signed", operator(op));
                self.warn(Code::SignMix, span, message);
            }
        }
        let ty = Type::Integer(Integer { bytes: 8, signed, names: None });
        let left = self.coerced(left, &ty);
        let right = if shift { self.widen(right) } else { self.coerced(right, &ty) };
        let ty = if all_literal && signed { LITERAL } else { ty };
        self.make(ExprKind::Binary(op, Box::new(left), Box::new(right)), ty, span)
    }

    fn fold(&mut self, op: BinaryOp, a: i128, b: i128, span: Span) -> Expr {
        let shift = |by: i128| u32::try_from(by).ok().filter(|by| *by < 64);
        let value = match op {
            BinaryOp::Add => Some(a + b),
            BinaryOp::Sub => Some(a - b),
            BinaryOp::Mul => a.checked_mul(b),
            BinaryOp::Div | BinaryOp::Mod if b == 0 => {
                return self.error(Code::DivisionByZero, span, "this divides by zero");
            }
            BinaryOp::Div => Some(a / b),
            BinaryOp::Mod => Some(a % b),
            BinaryOp::And => Some(a & b),
            BinaryOp::Or => Some(a | b),
            BinaryOp::Xor => Some(a ^ b),
            BinaryOp::Shl => shift(b).map(|by| i128::from((a as i64) << by)),
            BinaryOp::Shr => shift(b).map(|by| a >> by),
            _ => None,
        };
        match value {
            Some(value) if i64::try_from(value).is_ok() => self.int(value as u64, LITERAL, span),
            Some(value) if u64::try_from(value).is_ok() => self.int(value as u64, Type::U64, span),
            _ => self.error(Code::ConstantOverflow, span, "this constant has more than 64 bits"),
        }
    }

    fn bad_operands(&mut self, op: BinaryOp, left: &Expr, right: &Expr, span: Span) -> Expr {
        let sign = operator(op);
        let (a, b) = (self.show(&left.ty), self.show(&right.ty));
        let finding = Diagnostic::error(
            Code::BadOperands,
            self.at(span),
            format!("'{sign}' does not work on a {a} and a {b}"),
        );
        let string = matches!(left.ty, Type::String(_)) || matches!(right.ty, Type::String(_));
        let finding = match (string, op) {
            (true, BinaryOp::Add) => finding.help("strings are put together by printf(\"%s%s\", …)"),
            (true, _) if op.is_comparison() => finding.help("strings compare with == and != to strings only"),
            _ => finding,
        };
        self.report(finding)
    }

    fn pointer_arithmetic(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        // Masks and shifts of addresses are sums on integers.
        if !matches!(op, BinaryOp::Add | BinaryOp::Sub) {
            if matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr | BinaryOp::Mod | BinaryOp::Div | BinaryOp::Mul) {
                let (left, right) = (self.widen(left), self.widen(right));
                return self.binary_of(op, left, right, span);
            }
            return self.bad_operands(op, &left, &right, span);
        }
        match (&left.ty, &right.ty) {
            (Type::Pointer { .. }, Type::Pointer { .. }) if op == BinaryOp::Sub => {
                let (left, right) = (self.widen(left), self.widen(right));
                let ty = Type::I64;
                let (left, right) = (self.coerced(left, &ty), self.coerced(right, &ty));
                self.make(ExprKind::Binary(op, Box::new(left), Box::new(right)), ty, span)
            }
            (Type::Pointer { to, space }, other) if other.is_integral() => {
                let stride = u64::from(to.size().max(1));
                // The verifier's knowledge ends where an offset is not constant.
                let space = if *space == Space::Btf { Space::Kernel } else { *space };
                let ty = Type::Pointer { to: to.clone(), space };
                let bytes = self.widen(right);
                let bytes = self.scaled(bytes, stride, span);
                self.make(ExprKind::Binary(op, Box::new(left), Box::new(bytes)), ty, span)
            }
            (other, Type::Pointer { .. }) if other.is_integral() && op == BinaryOp::Add => {
                self.pointer_arithmetic(op, right, left, span)
            }
            _ => self.bad_operands(op, &left, &right, span),
        }
    }

    fn scaled(&mut self, value: Expr, stride: u64, span: Span) -> Expr {
        if stride == 1 {
            let ty = settle(value.ty.clone());
            return self.coerced(value, &ty);
        }
        if let Some(constant) = constant(&value) {
            return self.int((constant as u64).wrapping_mul(stride), Type::I64, span);
        }
        let ty = settle(value.ty.clone());
        let factor = self.int(stride, ty.clone(), span);
        let value = self.coerced(value, &ty);
        self.make(ExprKind::Binary(BinaryOp::Mul, Box::new(value), Box::new(factor)), ty, span)
    }

    fn compare(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        let equality = matches!(op, BinaryOp::Eq | BinaryOp::Ne);
        let scalar = |ty: &Type| ty.is_integral() || matches!(ty, Type::Pointer { .. } | Type::KernelSymbol);
        let of = |this: &Self, ty: &Type, left: Expr, right: Expr| {
            let (left, right) = (this.coerced(left, ty), this.coerced(right, ty));
            this.make(ExprKind::Binary(op, Box::new(left), Box::new(right)), Type::Bool, span)
        };
        if scalar(&left.ty) && scalar(&right.ty) {
            return self.compare_scalars(op, left, right, span);
        }
        if !equality {
            return self.bad_operands(op, &left, &right, span);
        }
        if let (ExprKind::Str(a), ExprKind::Str(b)) = (&left.kind, &right.kind) {
            return self.int(u64::from((a == b) == (op == BinaryOp::Eq)), Type::Bool, span);
        }
        if let (ExprKind::Tuple(a), ExprKind::Tuple(b)) = (&left.kind, &right.kind)
            && a.len() == b.len()
        {
            // typeinfo() of two things: constants all the way down.
            let same = |(a, b): (&Expr, &Expr)| match (&a.kind, &b.kind) {
                (ExprKind::Str(a), ExprKind::Str(b)) => Some(a == b),
                _ => Some(constant(a)? == constant(b)?),
            };
            let all: Option<Vec<bool>> = a.iter().zip(b).map(same).collect();
            if let Some(all) = all {
                let equal = all.into_iter().all(|same| same);
                return self.int(u64::from(equal == (op == BinaryOp::Eq)), Type::Bool, span);
            }
        }
        match super::convert::join(&left.ty, &right.ty) {
            Some(ty @ (Type::String(_) | Type::Buffer(_) | Type::Tuple(_))) => of(self, &ty, left, right),
            Some(ty) if left.ty == right.ty && !matches!(ty, Type::Void | Type::Record(_)) => of(self, &ty, left, right),
            _ => self.bad_operands(op, &left, &right, span),
        }
    }

    fn compare_scalars(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        if let (Some(a), Some(b)) = (constant(&left), constant(&right)) {
            let holds = match op {
                BinaryOp::Eq => a == b,
                BinaryOp::Ne => a != b,
                BinaryOp::Lt => a < b,
                BinaryOp::Le => a <= b,
                BinaryOp::Gt => a > b,
                _ => a >= b,
            };
            return self.int(u64::from(holds), Type::Bool, span);
        }
        let make = |this: &Self, ty: &Type, left: Expr, right: Expr| {
            let (left, right) = (this.coerced(left, ty), this.coerced(right, ty));
            this.make(ExprKind::Binary(op, Box::new(left), Box::new(right)), Type::Bool, span)
        };
        if let (Type::Bool, Type::Bool) = (&left.ty, &right.ty) {
            return make(self, &Type::Bool, left, right);
        }
        if left.ty == right.ty && left.ty.integer().is_some_and(|integer| integer.bytes == 8 || integer.bytes == 4) {
            let ty = settle(left.ty.clone());
            return make(self, &ty, left, right);
        }
        let (left, right) = (self.widen(left), self.widen(right));
        let unsigned64 = |expr: &Expr| expr.ty == Type::U64;
        // A 64-bit unsigned side against a constant: 0 and negative numbers mean that the
        // program thinks of it as signed (`retval < 0`, `arg0 == -1`).
        let signed_meant = |expr: &Expr| constant(expr).is_some_and(|value| value < 0 || value == 0 && !matches!(op, BinaryOp::Eq | BinaryOp::Ne));
        let ty = match (unsigned64(&left), unsigned64(&right)) {
            (true, true) => Type::U64,
            (true, false) | (false, true) => {
                let other = if unsigned64(&left) { &right } else { &left };
                if signed_meant(other) {
                    Type::I64
                } else if is_literal(&other.ty) || constant(other).is_some() {
                    Type::U64
                } else {
                    self.warn_signs(&left, &right, op, span);
                    Type::I64
                }
            }
            (false, false) => Type::I64,
        };
        make(self, &ty, left, right)
    }

    fn warn_signs(&self, left: &Expr, right: &Expr, op: BinaryOp, span: Span) {
        // Values that were extended from fewer bits cannot be negative as 64-bit numbers.
        let extended = |expr: &Expr| matches!(&expr.kind, ExprKind::Cast(Cast::Integer, inner) if inner.ty.size() < 8 && !inner.ty.is_signed());
        if !extended(left) && !extended(right) {
            let message = format!("'{}' compares a signed with an unsigned 64-bit value, as signed", operator(op));
            self.warn(Code::SignMix, span, message);
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
        let joined = if void == 1 { None } else { super::convert::join(&then.ty, &otherwise.ty) };
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

    // Casts.

    fn cast_ast(&mut self, ty: &'a ast::TypeExpr, inner: &'a ast::Expr, span: Span) -> Value {
        // `(x)` before something may be a name in parentheses rather than a type.
        if let ast::TypeKind::Name(name) = &ty.kind {
            let aggregate = matches!(
                name.as_str(),
                "count_t" | "sum_t" | "min_t" | "max_t" | "avg_t" | "stats_t" | "usum_t" | "umin_t" | "umax_t" | "uavg_t" | "ustats_t"
            );
            if aggregate {
                return Value::Expr(self.error(Code::BadCast, ty.span, format!("nothing can be cast to {name}")));
            }
        }
        // An array of a size that is the value's own.
        if let ast::TypeKind::Array(element, None) = &ty.kind {
            let value = self.rvalue(inner);
            let Some(element) = self.type_of(element) else { return Value::Expr(self.unknown(span)) };
            if is_unknown(&value) {
                return Value::Expr(value);
            }
            let size = value.ty.size();
            let each = element.size().max(1);
            if !size.is_multiple_of(each) {
                let message = format!("{} bytes are no whole number of {}", size, self.show(&element));
                return Value::Expr(self.error(Code::BadCast, span, message));
            }
            let to = Type::Array { element: Box::new(element), count: size / each };
            return Value::Expr(self.cast_to(value, &to, span));
        }
        let Some(to) = self.type_of(ty) else {
            self.expr(inner);
            return Value::Expr(self.unknown(span));
        };
        let value = self.value(inner);
        // Memory seen as another struct or array keeps its place.
        if let (Value::Place(place), Type::Record(_) | Type::Array { .. }) = (&value, &to)
            && matches!(place.ty, Type::Record(_) | Type::Array { .. })
            && to.size() <= place.ty.size()
        {
            let mut place = place.clone();
            place.ty = to;
            return Value::Place(place);
        }
        let value = self.read(value);
        if value.ty == Type::Void && !is_unknown(&value) {
            let message = format!("{} has no value", shorten(&print_expr(inner)));
            return Value::Expr(self.error(Code::ValueExpected, inner.span, message));
        }
        Value::Expr(self.cast_to(value, &to, span))
    }

    /// An explicit cast.
    pub fn cast_to(&mut self, value: Expr, to: &Type, span: Span) -> Expr {
        if is_unknown(&value) {
            return value;
        }
        let cast = |this: &Self, cast, value: Expr| this.make(ExprKind::Cast(cast, Box::new(value)), to.clone(), span);
        match (&value.ty, to) {
            (from, to) if from == to => Expr { span: self.at(span), ..value },
            (Type::Integer(_) | Type::Bool, Type::Integer(integer)) => match constant(&value) {
                Some(number) => self.int(wrap(number, *integer), to.clone(), span),
                None if value.ty.integer().is_some_and(|from| from.bytes == integer.bytes && from.signed == integer.signed) => {
                    Expr { ty: to.clone(), span: self.at(span), ..value }
                }
                None => cast(self, Cast::Integer, value),
            },
            (Type::Integer(_) | Type::Pointer { .. }, Type::Bool) => {
                let truth = self.truth(value);
                Expr { span: self.at(span), ..truth }
            }
            (Type::Integer(_) | Type::Bool, Type::Pointer { to: pointee, .. }) => {
                let space = self.body.variant.map_or(Space::Kernel, |variant| variant.space);
                let ty = Type::Pointer { to: pointee.clone(), space };
                let value = self.widen(value);
                self.make(ExprKind::Cast(Cast::Integer, Box::new(value)), ty, span)
            }
            (Type::Pointer { to: from, space }, Type::Pointer { to: pointee, .. }) => {
                // What the verifier knows of the pointer holds for its own type only.
                let space = if *space == Space::Btf && from != pointee { Space::Kernel } else { *space };
                let ty = Type::Pointer { to: pointee.clone(), space };
                Expr { ty, span: self.at(span), ..value }
            }
            (Type::Pointer { .. } | Type::KernelSymbol, Type::Integer(_)) => cast(self, Cast::Integer, value),
            (Type::Array { element, .. }, Type::Integer(_)) if element.is_integral() && value.ty.size() == to.size() => {
                cast(self, Cast::Bytes, value)
            }
            (Type::Integer(_), Type::Array { element, .. }) if element.is_integral() => {
                // A literal has the size that is asked for.
                let size = to.size();
                let value = match size {
                    1 | 2 | 4 | 8 if is_literal(&value.ty) => self.coerced(value, &Type::unsigned(size as u8)),
                    _ => value,
                };
                if value.ty.size() != size {
                    return self.bad_cast(&value, to, span, "they have different sizes");
                }
                cast(self, Cast::Bytes, value)
            }
            (Type::Array { element, .. }, Type::Array { element: other, .. })
                if element.is_integral() && other.is_integral() && value.ty.size() == to.size() =>
            {
                Expr { ty: to.clone(), span: self.at(span), ..value }
            }
            (Type::String(_), Type::Array { element, .. }) if element.size() == 1 => {
                self.bad_cast(&value, to, span, "strings are indexed directly: $s[0]")
            }
            (Type::Array { element, .. }, Type::String(_)) if **element == Type::signed(1) => cast(self, Cast::Text, value),
            (Type::String(_), Type::String(_)) | (Type::Buffer(_), Type::Buffer(_)) => cast(self, Cast::Resize, value),
            (Type::Tuple(_), Type::Tuple(_)) | (Type::Stack(_), Type::Stack(_)) => {
                let fallback = value.clone();
                match self.coerce(value, to) {
                    Some(value) => value,
                    None => self.bad_cast(&fallback, to, span, "their fields differ"),
                }
            }
            (Type::Integer(_) | Type::Pointer { .. }, Type::Record(_)) => {
                self.bad_cast(&value, to, span, "follow a pointer to it: *(struct x *)p")
            }
            _ => self.bad_cast(&value, to, span, "the types have nothing in common"),
        }
    }

    fn bad_cast(&mut self, value: &Expr, to: &Type, span: Span, why: &str) -> Expr {
        let message = format!("a {} cannot be cast to {}", self.show(&value.ty), self.show(to));
        self.report(Diagnostic::error(Code::BadCast, self.at(span), message).help(why.to_string()))
    }

    /// A type as written.
    pub fn type_of(&mut self, ty: &'a ast::TypeExpr) -> Option<Type> {
        use ast::TypeKind as T;
        let found = match &ty.kind {
            T::Name(name) => match name.as_str() {
                "string" => Some(Type::String(self.config.max_strlen)),
                "buffer" => Some(Type::Buffer(self.config.max_strlen)),
                name => self.resolver.named(name).or_else(|| self.resolver.bare_record(name)),
            },
            T::Struct(name) => self.resolver.record(name, false).or_else(|| self.resolver.record(name, true)).map(Type::Record),
            T::Union(name) => self.resolver.record(name, true).map(Type::Record),
            T::Enum(name) => self.resolver.enumeration(name),
            T::Pointer(to) => {
                let to = self.type_of(to)?;
                let space = self.body.variant.map_or(Space::Kernel, |variant| variant.space);
                Some(Type::pointer(to, space))
            }
            T::Array(element, length) => {
                let count = match length {
                    None => None,
                    Some(length) => {
                        let value = self.expr(length);
                        if is_unknown(&value) {
                            return None;
                        }
                        match constant(&value).and_then(|value| u32::try_from(value).ok()) {
                            Some(count) => Some(count),
                            None => {
                                self.error(Code::NeedsLiteral, length.span, "a length has to be a constant");
                                return None;
                            }
                        }
                    }
                };
                match (&element.kind, count) {
                    (T::Name(name), Some(count)) if name == "string" => Some(Type::String(count.max(1))),
                    (T::Name(name), Some(count)) if name == "buffer" => Some(Type::Buffer(count)),
                    (T::Name(name), Some(_)) if name == "inet" => Some(Type::Inet),
                    _ => {
                        let element = self.type_of(element)?;
                        Some(Type::Array { element: Box::new(element), count: count.unwrap_or(0) })
                    }
                }
            }
            T::Tuple(types) => {
                let types: Option<Vec<Type>> = types.iter().map(|ty| self.type_of(ty)).collect();
                Some(Type::tuple(types?))
            }
            T::Typeof(expr) => {
                let value = self.expr(expr);
                if is_unknown(&value) {
                    return None;
                }
                Some(settle(value.ty))
            }
            T::Same(ty) => return self.type_of(ty),
        };
        if found.is_none() {
            let name = print_type(ty);
            let message = if self.facts.btf().is_none() && matches!(ty.kind, T::Struct(_) | T::Union(_) | T::Enum(_)) {
                format!("'{name}' is not declared in the program, and this kernel has no BTF")
            } else {
                format!("'{name}' is not a type known here")
            };
            let finding = Diagnostic::error(Code::UnknownType, self.at(ty.span), message);
            let finding = match &ty.kind {
                T::Struct(wanted) | T::Union(wanted) if self.last => self.suggest_record(finding, wanted),
                T::Name(wanted) => finding.suggest(wanted, TYPE_NAMES.iter().copied()),
                _ => finding,
            };
            self.report(finding);
        }
        found
    }

    fn suggest_record(&self, finding: Diagnostic, wanted: &str) -> Diagnostic {
        let kinds = bpf::btf::KindSet::STRUCT.or(bpf::btf::KindSet::UNION);
        match self.resolver.blob(0) {
            Some(btf) => finding.suggest(wanted, btf.names(kinds)),
            None => finding,
        }
    }
}

/// Names of types for "did you mean".
const TYPE_NAMES: &[&str] = &[
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "string", "buffer", "inet", "char",
    "int", "long", "short", "size_t", "macaddr_t", "timestamp", "void",
];

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
