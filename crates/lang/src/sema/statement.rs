//! Statements, blocks and assignments.

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
    /// A block in a scope of its own; its value, if it has one, is only done for its effect.
    pub fn block(&mut self, block: &'a ast::Block) -> hir::Block {
        self.open_scope();
        let mut out = self.statements(&block.statements);
        if let Some(value) = &block.value {
            self.expr_statement(value, &mut out);
        }
        self.close_scope();
        out
    }

    fn statements(&mut self, statements: &'a [ast::Statement]) -> hir::Block {
        let mut out = Vec::new();
        let mut ended: Option<Span> = None;
        let dead = self.body.dead;
        for statement in statements {
            if let Some(by) = ended.take() {
                let finding = Diagnostic::warning(Code::Unreachable, self.at(statement.span), "this is never reached");
                self.findings.add(finding.note(by, "because of this"));
                self.body.dead = true;
            }
            self.statement(statement, &mut out);
            let ends = matches!(
                statement.kind,
                ast::StatementKind::Return(_) | ast::StatementKind::Break | ast::StatementKind::Continue
            );
            if ends {
                ended = Some(statement.span);
            }
        }
        self.body.dead = dead;
        out
    }

    fn push(&self, out: &mut hir::Block, kind: StatementKind, span: Span) {
        out.push(hir::Statement { kind, span: self.at(span) });
    }

    fn statement(&mut self, statement: &'a ast::Statement, out: &mut hir::Block) {
        use ast::StatementKind as S;
        let span = statement.span;
        match &statement.kind {
            S::Expr(expr) => self.expr_statement(expr, out),
            S::Discard(value) => {
                let value = self.expr(value);
                self.push_expr(value, out);
            }
            S::Assign { target, op, value } => self.assign(target, *op, value, span, out),
            S::Let { name, ty, value } => self.let_statement(name, ty.as_ref(), value.as_ref(), span, out),
            S::If(found) => self.if_statement(found, span, out),
            S::While { condition, body } => {
                let condition = self.condition(condition);
                self.body.loops += 1;
                let body = self.block(body);
                self.body.loops -= 1;
                self.push(out, StatementKind::While { condition, body }, span);
            }
            S::Unroll { count, body } => {
                let value = self.rvalue(count);
                let times = constant(&value);
                if times.is_none() && !is_unknown(&value) {
                    self.error(Code::NeedsLiteral, count.span, "the number of rounds has to be a constant");
                }
                let times = times.unwrap_or(1);
                if !(1..=100_000).contains(&times) {
                    self.error(Code::TooLarge, count.span, "unroll takes a number from 1 to 100000");
                }
                let body = self.block(body);
                self.push(out, StatementKind::Unroll { count: times.clamp(1, 100_000) as u32, body }, span);
            }
            S::For { variable, start, end: Some(end), body } => self.for_range(variable, start, end, body, span, out),
            S::For { variable, start, end: None, body } => self.for_map(variable, start, body, span, out),
            S::Break | S::Continue => {
                let is_break = matches!(statement.kind, S::Break);
                if self.body.loops == 0 {
                    let word = if is_break { "break" } else { "continue" };
                    self.error(Code::OutsideLoop, span, format!("{word} is not within a loop"));
                }
                self.push(out, if is_break { StatementKind::Break } else { StatementKind::Continue }, span);
            }
            S::Return(value) => self.return_statement(value.as_ref(), span, out),
            S::Block(block) => {
                let block = self.block(block);
                self.push(out, StatementKind::Block(block), span);
            }
        }
    }

    /// An expression for its effect; warns when it has none.
    fn expr_statement(&mut self, ast: &'a ast::Expr, out: &mut hir::Block) {
        let span = ast.span;
        match &ast.kind {
            ast::ExprKind::If(found) => return self.if_statement(found, span, out),
            ast::ExprKind::Block(block) => {
                let block = self.block(block);
                return self.push(out, StatementKind::Block(block), span);
            }
            // Sides that only do something may differ in type.
            ast::ExprKind::Ternary { condition, then: Some(then), otherwise } => {
                let condition = self.condition(condition);
                let mut first = Vec::new();
                self.expr_statement(then, &mut first);
                let mut second = Vec::new();
                self.expr_statement(otherwise, &mut second);
                let kind = StatementKind::If { condition, then: first, otherwise: second };
                return self.push(out, kind, span);
            }
            ast::ExprKind::Call { name, arguments } if name.text == "delete" && self.macros.get("delete").is_none() => {
                let value = builtins::delete_statement(self, arguments, span);
                return self.push_expr(value, out);
            }
            // A macro whose last expression is a value is called for what it does.
            ast::ExprKind::Call { name, .. } if self.is_macro(&name.text) => {
                let value = self.expr(ast);
                return self.push_expr(value, out);
            }
            ast::ExprKind::Name(name) if self.is_macro(name) => {
                let value = self.expr(ast);
                return self.push_expr(value, out);
            }
            _ => {}
        }
        let value = self.expr(ast);
        if has_no_effect(&value) && !is_unknown(&value) && value.ty != Type::Void {
            let text = shorten(&print_expr(ast));
            let finding = Diagnostic::warning(Code::UnusedValue, self.at(span), format!("the value of {text} is not used"));
            let finding = match &ast.kind {
                ast::ExprKind::Binary(BinaryOp::Eq, ..) => finding.help("did you mean to assign with '='?"),
                _ => finding.help("assign it, print() it, or write _ = … to drop it"),
            };
            if !self.body.dead {
                self.findings.add(finding);
            }
        }
        self.push_expr(value, out);
    }

    /// Adds an expression as a statement; one that only wraps statements adds those.
    pub fn push_expr(&self, value: Expr, out: &mut hir::Block) {
        match value.kind {
            ExprKind::Block { statements, value: None } => out.extend(statements),
            ExprKind::Zero | ExprKind::Int(_) | ExprKind::Str(_) | ExprKind::Local(_) => {}
            _ => {
                let span = value.span;
                out.push(hir::Statement { kind: StatementKind::Expr(value), span });
            }
        }
    }

    fn let_statement(
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

    fn set_local(&mut self, local: hir::LocalId, value: Expr, span: Span, out: &mut hir::Block) {
        if is_unknown(&value) {
            return;
        }
        let joined = self.join_local(local, &value);
        let ty = self.local_type(local).clone();
        let converted = if joined { self.fit(value.clone(), &ty) } else { None };
        let Some(value) = converted else {
            let have = self.body.locals[local.0 as usize].clone();
            let message = format!(
                "{} is a {} and cannot hold a {}",
                have.name,
                self.show(&ty),
                self.show(&value.ty)
            );
            let finding = Diagnostic::error(Code::TypeMismatch, self.at(span), message);
            self.report(finding.note(have.span, "its type comes from here"));
            return;
        };
        self.push(out, StatementKind::SetLocal { local, value }, span);
    }

    /// The value as that type; a constant has to fit.
    fn fit(&mut self, value: Expr, ty: &Type) -> Option<Expr> {
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
            (Type::Integer(a), Type::Integer(b)) if a.bytes > b.bytes && constant(&converted).is_none() && !is_literal(&from) => None,
            _ => Some(converted),
        }
    }

    fn assign(
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
            ast::ExprKind::Map { name, key } => self.assign_map(name, key.as_deref(), target.span, op, value, span, out),
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
                        let message = format!("a {} cannot be stored as {}", self.show(&value.ty), self.show(&ty));
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
    fn assign_bound(
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
                        let local = self.in_frame(bound.frame, |this| this.declare_local(name, bound.expr.span));
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

    fn local_expr(&self, local: hir::LocalId, span: Span) -> Expr {
        self.make(ExprKind::Local(local), self.local_type(local).clone(), span)
    }

    /// The value to assign: for a compound assignment the operator's result.
    fn operand(&mut self, have: Expr, op: Option<BinaryOp>, value: &'a ast::Expr, span: Span) -> Expr {
        let value = self.rvalue(value);
        match op {
            None => value,
            Some(_) if is_unknown(&value) || is_unknown(&have) => self.unknown(span),
            Some(op) => self.binary_of(op, have, value, span),
        }
    }

    fn assign_local(
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
    fn aggregate_call(&self, value: &'a ast::Expr) -> Option<&'a str> {
        match &value.kind {
            ast::ExprKind::Call { name, .. } if builtins::is_aggregate(&name.text) && !self.is_macro(&name.text) => {
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
    fn assign_map(
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
            let Some((aggregate, update)) = builtins::aggregate(self, &function.text, arguments, value.span) else {
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
                        let start = if value.ty.is_integral() { super::types::LITERAL } else { value.ty.clone() };
                        self.join_value(map, &MapValue::Plain(start), map_span);
                    }
                    Some(aggregate) => {
                        let message = format!("{} holds a {}, so '{}=' does not work on it", info.name, aggregate_name(aggregate), operator(op));
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

    fn value_mismatch(&mut self, map: crate::schema::MapId, new: &str, span: Span) {
        let have = self.map_value_name(map);
        let info = self.map_info(map).clone();
        let message = format!("{} holds a {have} and cannot take a {new}", info.name);
        let finding = Diagnostic::error(Code::TypeMismatch, self.at(span), message);
        self.report(finding.note(info.value_span, "its type comes from here"));
    }

    fn if_statement(&mut self, found: &'a ast::If, span: Span, out: &mut hir::Block) {
        let condition = self.condition(&found.condition);
        let known = constant(&condition);
        if found.comptime {
            match known {
                Some(value) => {
                    let chosen = if value != 0 { Some(&found.then) } else { found.otherwise.as_ref() };
                    if let Some(block) = chosen {
                        let block = self.block(block);
                        self.push(out, StatementKind::Block(block), span);
                    }
                }
                None if is_unknown(&condition) => {}
                None => {
                    let message = "this condition is not known at compile time";
                    self.error(Code::NeedsLiteral, found.condition.span, message);
                }
            }
            return;
        }
        let dead = self.body.dead;
        self.body.dead = dead || known == Some(0);
        let then = self.block(&found.then);
        self.body.dead = dead || known.is_some_and(|value| value != 0);
        let otherwise = found.otherwise.as_ref().map_or(Vec::new(), |block| self.block(block));
        self.body.dead = dead;
        self.push(out, StatementKind::If { condition, then, otherwise }, span);
    }

    /// `{ …; value }` as an expression.
    pub fn block_expr(&mut self, block: &'a ast::Block, span: Span) -> Expr {
        self.open_scope();
        let statements = self.statements(&block.statements);
        let value = block.value.as_ref().map(|value| {
            let value = self.expr(value);
            self.decay(value)
        });
        self.close_scope();
        match value {
            Some(value) if statements.is_empty() => value,
            Some(value) if is_unknown(&value) => value,
            // A last expression that only does something.
            Some(value) if value.ty == Type::Void => {
                let mut statements = statements;
                self.push_expr(value, &mut statements);
                self.make(ExprKind::Block { statements, value: None }, Type::Void, span)
            }
            Some(value) => {
                let ty = value.ty.clone();
                self.make(ExprKind::Block { statements, value: Some(Box::new(value)) }, ty, span)
            }
            None => self.make(ExprKind::Block { statements, value: None }, Type::Void, span),
        }
    }

    /// `if` as an expression.
    pub fn if_expr(&mut self, found: &'a ast::If, span: Span) -> Expr {
        let condition = self.condition(&found.condition);
        let known = constant(&condition);
        if found.comptime {
            return match known {
                Some(0) => match &found.otherwise {
                    Some(block) => self.block_expr(block, span),
                    None => self.make(ExprKind::Block { statements: Vec::new(), value: None }, Type::Void, span),
                },
                Some(_) => self.block_expr(&found.then, span),
                None if is_unknown(&condition) => condition,
                None => self.error(Code::NeedsLiteral, found.condition.span, "this condition is not known at compile time"),
            };
        }
        let dead = self.body.dead;
        self.body.dead = dead || known == Some(0);
        let then = self.block_expr(&found.then, span);
        self.body.dead = dead || known.is_some_and(|value| value != 0);
        let otherwise = match &found.otherwise {
            Some(block) => self.block_expr(block, span),
            None => self.make(ExprKind::Block { statements: Vec::new(), value: None }, Type::Void, span),
        };
        self.body.dead = dead;
        self.select(condition, then, otherwise, span)
    }

    fn loop_variable(&mut self, variable: &'a ast::Text) -> hir::LocalId {
        if let Some(have) = self.find_local(&variable.text) {
            let place = self.body.locals[have.0 as usize].span;
            let message = format!("{} is declared already, and a loop declares its own variable", variable.text);
            let finding = Diagnostic::error(Code::Shadowed, self.at(variable.span), message);
            self.report(finding.note(place, "here"));
        }
        self.declare_local(&variable.text, variable.span)
    }

    fn for_range(
        &mut self,
        variable: &'a ast::Text,
        start: &'a ast::Expr,
        end: &'a ast::Expr,
        body: &'a ast::Block,
        span: Span,
        out: &mut hir::Block,
    ) {
        let (start, end) = (self.rvalue(start), self.rvalue(end));
        for side in [&start, &end] {
            if !is_unknown(side) && !side.ty.is_integral() {
                let message = format!("a range goes over integers, and this is a {}", self.show(&side.ty));
                self.error(Code::NotIterable, side.span, message);
            }
        }
        self.open_scope();
        let local = self.loop_variable(variable);
        let signed = |expr: &Expr| match constant(expr) {
            Some(value) => value < 0,
            None => expr.ty.is_signed(),
        };
        let all_literal = is_literal(&start.ty) && is_literal(&end.ty);
        let ty = if signed(&start) || signed(&end) || all_literal { Type::I64 } else { Type::U64 };
        self.fix_local(local, ty.clone());
        self.body.loops += 1;
        let body = self.block(body);
        self.body.loops -= 1;
        self.close_scope();
        if is_unknown(&start) || is_unknown(&end) {
            return;
        }
        let (start, end) = (self.coerced(start, &ty), self.coerced(end, &ty));
        self.push(out, StatementKind::ForRange { local, start, end, body }, span);
    }

    fn for_map(
        &mut self,
        variable: &'a ast::Text,
        map_ast: &'a ast::Expr,
        body: &'a ast::Block,
        span: Span,
        out: &mut hir::Block,
    ) {
        let mut map_ast = map_ast;
        let mut frame = self.body.frame;
        while let ast::ExprKind::Name(name) | ast::ExprKind::Map { name, key: None } = &map_ast.kind
            && let Some(bound) = self.in_frame(frame, |this| this.binding(name))
        {
            (map_ast, frame) = (bound.expr, bound.frame);
        }
        let ast::ExprKind::Map { name, key: None } = &map_ast.kind else {
            let value = self.expr(map_ast);
            if !is_unknown(&value) {
                let finding =
                    Diagnostic::error(Code::NotIterable, self.at(map_ast.span), "this cannot be looped over");
                self.report(finding.help("for goes over a map, for ($kv : @m), or a range, for ($i : 0..10)"));
            }
            return;
        };
        let map = self.map(name, map_ast.span);
        self.map_info(map).used = true;
        let info = self.map_info(map).clone();
        let key = match &info.key {
            Some(super::checker::Key::Of(ty)) => Some(settle(ty.clone())),
            Some(super::checker::Key::Scalar) => {
                let finding = Diagnostic::error(
                    Code::NotIterable,
                    self.at(map_ast.span),
                    format!("{name} has no keys to loop over"),
                );
                self.report(finding.note(info.span, "it is used without a key here"));
                None
            }
            None => None,
        };
        let value = match &info.value {
            None => {
                self.unknown_map(map, map_ast.span);
                None
            }
            Some(MapValue::Plain(ty)) => Some(settle(ty.clone())),
            Some(aggregate) => match super::place::aggregate_result(aggregate) {
                Some(ty) => Some(ty),
                None => {
                    let message = format!("{name} holds a {}, which a loop cannot read", aggregate_name(aggregate));
                    self.error(Code::NotIterable, map_ast.span, message);
                    None
                }
            },
        };
        self.open_scope();
        let local = self.loop_variable(variable);
        if let (Some(key), Some(value)) = (&key, &value) {
            self.fix_local(local, Type::tuple([key.clone(), value.clone()]));
        }
        self.body.loops += 1;
        let body = self.block(body);
        self.body.loops -= 1;
        self.close_scope();
        self.push(out, StatementKind::ForMap { map, local, body }, span);
    }

    fn return_statement(&mut self, value: Option<&'a ast::Expr>, span: Span, out: &mut hir::Block) {
        let value = value.map(|value| self.rvalue(value));
        let kind = match (self.body.result.clone(), value) {
            (None, value) => {
                // A test's result is its return value; other probes return nothing.
                if let Some(value) = &value
                    && !value.ty.is_integral()
                    && !is_unknown(value)
                {
                    let message = format!("a probe returns nothing or an integer, not a {}", self.show(&value.ty));
                    self.error(Code::BadReturn, value.span, message);
                }
                let value = value.filter(|value| value.ty.is_integral()).map(|value| self.coerced(value, &Type::I64));
                StatementKind::Return(value)
            }
            (Some(Type::Void), None) => StatementKind::Return(None),
            (Some(ty), None) => {
                let message = format!("this fn returns a {}", self.show(&ty));
                self.error(Code::BadReturn, span, message);
                StatementKind::Return(None)
            }
            (Some(ty), Some(value)) if is_unknown(&value) => {
                let _ = ty;
                StatementKind::Return(None)
            }
            (Some(ty), Some(value)) => match self.coerce(value.clone(), &ty) {
                Some(value) if ty != Type::Void => StatementKind::Return(Some(value)),
                _ => {
                    let message = format!("this fn returns {}, not a {}", self.show(&ty), self.show(&value.ty));
                    self.error(Code::BadReturn, value.span, message);
                    StatementKind::Return(None)
                }
            },
        };
        self.push(out, kind, span);
    }
}

/// Whether dropping the value drops everything.
fn has_no_effect(value: &Expr) -> bool {
    match &value.kind {
        ExprKind::Int(_)
        | ExprKind::Str(_)
        | ExprKind::Bytes(_)
        | ExprKind::Zero
        | ExprKind::Local(_)
        | ExprKind::MapGet { .. }
        | ExprKind::MapAggregate { .. }
        | ExprKind::MapHas { .. }
        | ExprKind::MapLength(_)
        | ExprKind::StackLength(_)
        | ExprKind::Unary(..)
        | ExprKind::Binary(..)
        | ExprKind::Cast(..)
        | ExprKind::Read { .. }
        | ExprKind::ReadDataLoc { .. }
        | ExprKind::AddressOf(_)
        | ExprKind::AddressOfLocal(_)
        | ExprKind::Tuple(_)
        | ExprKind::UsdtArgument(_) => true,
        ExprKind::Intrinsic(intrinsic, _) => !matches!(
            intrinsic,
            hir::Intrinsic::Override | hir::Intrinsic::Signal { .. } | hir::Intrinsic::SkbOutput(_)
        ),
        _ => false,
    }
}
