//! Statements and blocks.

use super::super::ast::*;
use super::super::lexer::Token;
use super::{Parsed, Parser, Reported};
use crate::diagnostic::Code;
use crate::operator::BinaryOp;

const ASSIGNMENTS: &[(&str, Option<BinaryOp>)] = &[
    ("=", None),
    ("+=", Some(BinaryOp::Add)),
    ("-=", Some(BinaryOp::Sub)),
    ("*=", Some(BinaryOp::Mul)),
    ("/=", Some(BinaryOp::Div)),
    ("%=", Some(BinaryOp::Mod)),
    ("&=", Some(BinaryOp::And)),
    ("|=", Some(BinaryOp::Or)),
    ("^=", Some(BinaryOp::Xor)),
    ("<<=", Some(BinaryOp::Shl)),
    (">>=", Some(BinaryOp::Shr)),
];

/// A statement, or the expression at the end of a block that may be its value.
enum Step {
    Statement(Statement),
    Value(Expr),
}

impl Parser<'_> {
    pub(super) fn block(&mut self) -> Parsed<Block> {
        let outer = std::mem::replace(&mut self.in_predicate, false);
        let block = self.deeper(Self::block_inner);
        self.in_predicate = outer;
        block
    }

    fn block_inner(&mut self) -> Parsed<Block> {
        let start = self.expect("{")?;
        let mut statements = Vec::new();
        let mut value = None;
        loop {
            if self.eat(";") {
                continue;
            }
            if self.is("}") {
                break;
            }
            if self.token == Token::End {
                return Err(self.wrong(Code::UnexpectedToken, start, "this '{' has no matching '}'"));
            }
            match self.step() {
                Ok(Step::Statement(statement)) => statements.push(statement),
                Ok(Step::Value(expr)) => {
                    if self.is("}") {
                        value = Some(Box::new(expr));
                        break;
                    }
                    let span = expr.span;
                    statements.push(Statement { kind: StatementKind::Expr(expr), span });
                    self.end_statement();
                }
                Err(Reported) => self.skip_statement(),
            }
        }
        let span = start.to(self.span);
        self.bump();
        Ok(Block { statements, value, span })
    }

    /// The `;` after a statement, which may be left out before `}`.
    fn end_statement(&mut self) {
        if !self.eat(";") && !self.is("}") {
            let reported = self.expected("';' or '}'");
            // On a new line the next statement can be read all the same.
            let between =
                self.last.end.saturating_sub(self.base) as usize..(self.span.start - self.base) as usize;
            if !self.text.get(between).unwrap_or("").contains('\n') {
                let _ = reported;
                self.skip_statement();
            }
        }
    }

    /// After an error: past the next `;`, or to the `}` that ends this block.
    fn skip_statement(&mut self) {
        let mut depth = 0usize;
        loop {
            match &self.token {
                Token::End => return,
                Token::Sign("{") => depth += 1,
                Token::Sign("}") if depth == 0 => return,
                Token::Sign("}") => {
                    depth -= 1;
                    if depth == 0 {
                        self.bump();
                        return;
                    }
                }
                Token::Sign(";") if depth == 0 => {
                    self.bump();
                    return;
                }
                _ => {}
            }
            self.bump();
        }
    }

    fn step(&mut self) -> Parsed<Step> {
        let start = self.span;
        let done = |parser: &mut Self, kind: StatementKind| {
            let span = start.to(parser.last);
            parser.end_statement();
            Ok(Step::Statement(Statement { kind, span }))
        };
        if self.is("{") {
            let block = self.block()?;
            let span = block.span;
            if block.value.is_some() && self.is("}") {
                return Ok(Step::Value(Expr { kind: ExprKind::Block(block), span }));
            }
            return Ok(Step::Statement(Statement { kind: StatementKind::Block(block), span }));
        }
        if self.token == Token::Name {
            let next = self.peek().0;
            match self.word() {
                "let" => {
                    self.bump();
                    return self.let_statement(start);
                }
                "if" => {
                    let found = self.if_inner()?;
                    let span = start.to(self.last);
                    // `if` with values at the end of a block is the block's value.
                    if self.is("}") && has_value(&found) {
                        return Ok(Step::Value(Expr { kind: ExprKind::If(found), span }));
                    }
                    return Ok(Step::Statement(Statement { kind: StatementKind::If(found), span }));
                }
                "while" => {
                    self.bump();
                    let condition = self.expr()?;
                    let body = self.block()?;
                    let kind = StatementKind::While { condition, body };
                    return Ok(Step::Statement(Statement { kind, span: start.to(self.last) }));
                }
                "unroll"
                    if next == Token::Sign("(") || matches!(next, Token::Int(_) | Token::Positional(_)) =>
                {
                    self.bump();
                    let count = self.expr()?;
                    let body = self.block()?;
                    let kind = StatementKind::Unroll { count, body };
                    return Ok(Step::Statement(Statement { kind, span: start.to(self.last) }));
                }
                "for" => return self.for_statement(),
                "break" => {
                    self.bump();
                    return done(self, StatementKind::Break);
                }
                "continue" => {
                    self.bump();
                    return done(self, StatementKind::Continue);
                }
                "return" => {
                    self.bump();
                    let value = if self.is(";") || self.is("}") { None } else { Some(self.expr()?) };
                    return done(self, StatementKind::Return(value));
                }
                "_" if next == Token::Sign("=") => {
                    self.bump();
                    self.bump();
                    let value = self.expr()?;
                    return done(self, StatementKind::Discard(value));
                }
                _ => {}
            }
        }
        let target = self.expr()?;
        if let Some((sign, op)) = ASSIGNMENTS.iter().find(|(sign, _)| self.is(sign)) {
            self.bump();
            let value = self.expr()?;
            if self.is("=") {
                return Err(self.expected(&format!("one '{sign}' in a statement")));
            }
            return done(self, StatementKind::Assign { target, op: *op, value });
        }
        if self.is("}") {
            return Ok(Step::Value(target));
        }
        done(self, StatementKind::Expr(target))
    }

    fn let_statement(&mut self, start: crate::source::Span) -> Parsed<Step> {
        if self.token != Token::Variable {
            let what = if self.token == Token::Map {
                "a $variable: maps are declared outside of probes"
            } else {
                "a $variable"
            };
            return Err(self.expected(what));
        }
        let name = Text { text: self.word().into(), span: self.span };
        self.bump();
        let ty = if self.eat(":") { Some(self.type_expr()?) } else { None };
        let value = if self.eat("=") { Some(self.expr()?) } else { None };
        let span = start.to(self.last);
        self.end_statement();
        Ok(Step::Statement(Statement { kind: StatementKind::Let { name, ty, value }, span }))
    }

    /// Also of `else if`, which is a block with one statement or value.
    pub(super) fn if_inner(&mut self) -> Parsed<If> {
        self.deeper(|parser| {
            parser.bump();
            let comptime = parser.eat_word("comptime");
            let condition = Box::new(parser.expr()?);
            let then = parser.block()?;
            let mut otherwise = None;
            if parser.eat_word("else") {
                if parser.is_word("if") {
                    let start = parser.span;
                    let nested = parser.if_inner()?;
                    let span = start.to(parser.last);
                    let block = if has_value(&nested) {
                        let value = Some(Box::new(Expr { kind: ExprKind::If(nested), span }));
                        Block { statements: Vec::new(), value, span }
                    } else {
                        let statement = Statement { kind: StatementKind::If(nested), span };
                        Block { statements: vec![statement], value: None, span }
                    };
                    otherwise = Some(block);
                } else {
                    otherwise = Some(parser.block()?);
                }
            }
            Ok(If { condition, comptime, then, otherwise })
        })
    }

    fn for_statement(&mut self) -> Parsed<Step> {
        let begin = self.span;
        self.bump();
        let parenthesis = self.eat("(");
        if self.token != Token::Variable {
            return Err(self.expected("a $variable"));
        }
        let variable = Text { text: self.word().into(), span: self.span };
        self.bump();
        self.expect(":")?;
        let start = self.expr()?;
        let end = if self.eat("..") { Some(self.expr()?) } else { None };
        if parenthesis {
            self.expect(")")?;
        }
        let body = self.block()?;
        let kind = StatementKind::For { variable, start, end, body };
        Ok(Step::Statement(Statement { kind, span: begin.to(self.last) }))
    }
}

fn has_value(found: &If) -> bool {
    found.then.value.is_some() && found.otherwise.as_ref().is_some_and(|block| block.value.is_some())
}
