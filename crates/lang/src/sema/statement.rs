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
use crate::syntax::print::print_expr;
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
                let finding =
                    Diagnostic::warning(Code::Unreachable, self.at(statement.span), "this is never reached");
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

    pub(super) fn push(&self, out: &mut hir::Block, kind: StatementKind, span: Span) {
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
            S::For { variable, start, end: Some(end), body } => {
                self.for_range(variable, start, end, body, span, out)
            }
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
            ast::ExprKind::Call { name, arguments }
                if name.text == "delete" && self.macros.get("delete").is_none() =>
            {
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
            let finding = Diagnostic::warning(
                Code::UnusedValue,
                self.at(span),
                format!("the value of {text} is not used"),
            );
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
                    None => {
                        self.make(ExprKind::Block { statements: Vec::new(), value: None }, Type::Void, span)
                    }
                },
                Some(_) => self.block_expr(&found.then, span),
                None if is_unknown(&condition) => condition,
                None => self.error(
                    Code::NeedsLiteral,
                    found.condition.span,
                    "this condition is not known at compile time",
                ),
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
            let message =
                format!("{} is declared already, and a loop declares its own variable", variable.text);
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
                self.report(
                    finding.help("for goes over a map, for ($kv : @m), or a range, for ($i : 0..10)"),
                );
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
                    let message =
                        format!("{name} holds a {}, which a loop cannot read", aggregate_name(aggregate));
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
                    let message =
                        format!("a probe returns nothing or an integer, not a {}", self.show(&value.ty));
                    self.error(Code::BadReturn, value.span, message);
                }
                let value =
                    value.filter(|value| value.ty.is_integral()).map(|value| self.coerced(value, &Type::I64));
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
                    let message =
                        format!("this fn returns {}, not a {}", self.show(&ty), self.show(&value.ty));
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
