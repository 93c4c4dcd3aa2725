//! Expressions, by precedence.

use super::super::ast::*;
use super::super::lexer::{self, Token};
use super::{Parsed, Parser};
use crate::diagnostic::Code;
use crate::operator::{BinaryOp, UnaryOp};

enum Operator {
    Binary(BinaryOp),
    Logical(bool),
}

/// Operators with their rank; a higher rank binds tighter. All are left-associative.
const OPERATORS: &[(&str, u8, Operator)] = &[
    ("||", 1, Operator::Logical(false)),
    ("&&", 2, Operator::Logical(true)),
    ("|", 3, Operator::Binary(BinaryOp::Or)),
    ("^", 4, Operator::Binary(BinaryOp::Xor)),
    ("&", 5, Operator::Binary(BinaryOp::And)),
    ("==", 6, Operator::Binary(BinaryOp::Eq)),
    ("!=", 6, Operator::Binary(BinaryOp::Ne)),
    ("<", 7, Operator::Binary(BinaryOp::Lt)),
    ("<=", 7, Operator::Binary(BinaryOp::Le)),
    (">", 7, Operator::Binary(BinaryOp::Gt)),
    (">=", 7, Operator::Binary(BinaryOp::Ge)),
    ("<<", 8, Operator::Binary(BinaryOp::Shl)),
    (">>", 8, Operator::Binary(BinaryOp::Shr)),
    ("+", 9, Operator::Binary(BinaryOp::Add)),
    ("-", 9, Operator::Binary(BinaryOp::Sub)),
    ("*", 10, Operator::Binary(BinaryOp::Mul)),
    ("/", 10, Operator::Binary(BinaryOp::Div)),
    ("%", 10, Operator::Binary(BinaryOp::Mod)),
];

/// Functions whose arguments may be types.
const TYPE_FUNCTIONS: &[&str] = &["sizeof", "offsetof", "container_of", "typeof", "typeinfo"];

/// Operators in a row without parentheses; each is a level of the tree, which later passes walk recursively.
const LONGEST_CHAIN: u32 = 400;

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Parsed<Expr> {
        self.deeper(Self::ternary)
    }

    fn ternary(&mut self) -> Parsed<Expr> {
        let condition = self.binary(0)?;
        if !self.eat("?") {
            return Ok(condition);
        }
        let then = if self.is(":") { None } else { Some(Box::new(self.expr()?)) };
        self.expect(":")?;
        let otherwise = Box::new(self.deeper(Self::ternary)?);
        let span = condition.span.to(otherwise.span);
        Ok(Expr { kind: ExprKind::Ternary { condition: Box::new(condition), then, otherwise }, span })
    }

    fn binary(&mut self, least: u8) -> Parsed<Expr> {
        let mut left = self.unary()?;
        let mut chain = 0;
        loop {
            let Token::Sign(sign) = self.token else { return Ok(left) };
            let Some((_, rank, operator)) = OPERATORS.iter().find(|(have, ..)| *have == sign) else {
                return Ok(left);
            };
            if *rank <= least || sign == "/" && self.in_predicate && self.ends_predicate() {
                return Ok(left);
            }
            chain += 1;
            if chain > LONGEST_CHAIN {
                return Err(self.wrong(Code::TooDeep, self.span, "this expression is too long"));
            }
            self.bump();
            let right = self.deeper(|parser| parser.binary(*rank))?;
            let span = left.span.to(right.span);
            let (left_side, right_side) = (Box::new(left), Box::new(right));
            let kind = match operator {
                Operator::Binary(op) => ExprKind::Binary(*op, left_side, right_side),
                Operator::Logical(and) => ExprKind::Logical(*and, left_side, right_side),
            };
            left = Expr { kind, span };
        }
    }

    /// Whether the `/` at hand is followed by the action's `{`.
    fn ends_predicate(&self) -> bool {
        lexer::skip_blank(self.text, self.at).is_ok_and(|at| self.text[at..].starts_with('{'))
    }

    pub(super) fn unary(&mut self) -> Parsed<Expr> {
        self.deeper(Self::unary_inner)
    }

    fn unary_inner(&mut self) -> Parsed<Expr> {
        let start = self.span;
        let Token::Sign(sign) = self.token else {
            if self.is_word("comptime") && !matches!(self.peek().0, Token::Sign(")" | "," | ";" | "}")) {
                self.bump();
                let inner = self.unary()?;
                let span = start.to(inner.span);
                return Ok(Expr { kind: ExprKind::Comptime(Box::new(inner)), span });
            }
            return self.postfix();
        };
        let wrap: fn(Box<Expr>) -> ExprKind = match sign {
            "!" => |inner| ExprKind::Unary(UnaryOp::Not, inner),
            "~" => |inner| ExprKind::Unary(UnaryOp::BitNot, inner),
            "-" => |inner| ExprKind::Unary(UnaryOp::Neg, inner),
            "*" => ExprKind::Deref,
            "&" => ExprKind::AddressOf,
            "++" => |target| ExprKind::Step { target, up: true, post: false },
            "--" => |target| ExprKind::Step { target, up: false, post: false },
            "(" => {
                if let Some(ty) = self.attempt(Self::cast_type) {
                    let inner = self.unary()?;
                    let span = start.to(inner.span);
                    return Ok(Expr { kind: ExprKind::Cast(ty, Box::new(inner)), span });
                }
                return self.postfix();
            }
            _ => return self.postfix(),
        };
        self.bump();
        let inner = self.unary()?;
        let span = start.to(inner.span);
        Ok(Expr { kind: wrap(Box::new(inner)), span })
    }

    /// `(type)` when it is followed by something to cast.
    fn cast_type(&mut self) -> Parsed<TypeExpr> {
        self.expect("(")?;
        let known = self.at_type();
        let name_only = self.token == Token::Name && self.peek().0 == Token::Sign(")");
        let pointer = self.token == Token::Name && self.peek().0 == Token::Sign("*");
        if !(known || name_only || pointer) {
            return Err(super::Reported);
        }
        let ty = self.type_expr()?;
        self.expect(")")?;
        let operand = match &self.token {
            Token::Name => !matches!(self.word(), "else"),
            Token::Variable | Token::Map | Token::Positional(_) | Token::PositionalCount => true,
            Token::Int(_) | Token::Str(_) => true,
            Token::Sign("(" | "!" | "~") => true,
            Token::Sign("{") => known,
            Token::Sign("-" | "*" | "&" | "+" | "++" | "--") => known || pointer,
            _ => false,
        };
        if operand { Ok(ty) } else { Err(super::Reported) }
    }

    fn postfix(&mut self) -> Parsed<Expr> {
        let mut base = self.primary()?;
        let mut chain = 0;
        loop {
            chain += 1;
            if chain > LONGEST_CHAIN {
                return Err(self.wrong(Code::TooDeep, self.span, "this expression is too long"));
            }
            if self.is(".") || self.is("->") {
                self.bump();
                let name = match &self.token {
                    Token::Name | Token::Int(_) => Text { text: self.word().into(), span: self.span },
                    _ => return Err(self.expected("the name of a field")),
                };
                let span = base.span.to(self.span);
                self.bump();
                base = Expr { kind: ExprKind::Field { base: Box::new(base), name }, span };
            } else if self.is("[") {
                self.bump();
                let outer = std::mem::replace(&mut self.in_predicate, false);
                let index = self.index_list();
                self.in_predicate = outer;
                let index = index?;
                let end = self.expect("]")?;
                let span = base.span.to(end);
                base = match base.kind {
                    ExprKind::Map { name, key: None } => {
                        Expr { kind: ExprKind::Map { name, key: Some(Box::new(index)) }, span }
                    }
                    _ => {
                        Expr { kind: ExprKind::Index { base: Box::new(base), index: Box::new(index) }, span }
                    }
                };
            } else if self.is("++") || self.is("--") {
                let up = self.is("++");
                let span = base.span.to(self.span);
                self.bump();
                base = Expr { kind: ExprKind::Step { target: Box::new(base), up, post: true }, span };
            } else {
                return Ok(base);
            }
        }
    }

    /// `a` or `a, b`: several keys are a tuple.
    fn index_list(&mut self) -> Parsed<Expr> {
        let first = self.expr()?;
        if !self.is(",") {
            return Ok(first);
        }
        let mut span = first.span;
        let mut fields = vec![(None, first)];
        while self.eat(",") {
            let next = self.expr()?;
            span = span.to(next.span);
            fields.push((None, next));
        }
        Ok(Expr { kind: ExprKind::Tuple(fields), span })
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let span = self.span;
        let text = self.word();
        let kind = match &self.token {
            Token::Int(value) => ExprKind::Int(*value),
            Token::Str(bytes) => ExprKind::Str(bytes.clone()),
            Token::Variable => ExprKind::Variable(text.into()),
            Token::Map => ExprKind::Map { name: text.into(), key: None },
            Token::Positional(n) => ExprKind::Positional(*n),
            Token::PositionalCount => ExprKind::PositionalCount,
            Token::Name => return self.name_expr(),
            Token::Sign("(") => return self.parenthesis(),
            Token::Sign("{") => {
                let block = self.block()?;
                return Ok(Expr { span: block.span, kind: ExprKind::Block(block) });
            }
            Token::Bad => {
                self.bump();
                return Err(super::Reported);
            }
            _ => return Err(self.expected("an expression")),
        };
        self.bump();
        Ok(Expr { kind, span })
    }

    fn name_expr(&mut self) -> Parsed<Expr> {
        let name = Text { text: self.word().into(), span: self.span };
        match name.text.as_str() {
            "true" | "false" => {
                self.bump();
                return Ok(Expr { kind: ExprKind::Bool(name.text == "true"), span: name.span });
            }
            "if" => {
                let found = self.if_inner()?;
                return Ok(Expr { kind: ExprKind::If(found), span: name.span.to(self.last) });
            }
            "let" | "while" | "for" | "return" | "break" | "continue" | "else" => {
                return Err(self.expected("an expression"));
            }
            _ => {}
        }
        let call = self.peek().0 == Token::Sign("(");
        if let Some(define) = self.defines.defines.get(&name.text)
            && !self.expanding.contains(&name.text)
        {
            if define.parameters.is_some() {
                if call {
                    self.called.insert(name.text.clone());
                }
            } else {
                if define.body.start >= define.body.end {
                    let message = format!("'{}' is defined as nothing, so it has no value", name.text);
                    return Err(self.wrong(Code::BadDirective, name.span, message));
                }
                let value = self.within_define(define, |parser| parser.expr())?;
                self.bump();
                return Ok(Expr { kind: value.kind, span: name.span });
            }
        }
        self.bump();
        if !call {
            return Ok(Expr { span: name.span, kind: ExprKind::Name(name.text) });
        }
        self.bump();
        let outer = std::mem::replace(&mut self.in_predicate, false);
        let arguments = self.arguments(TYPE_FUNCTIONS.contains(&name.text.as_str()));
        self.in_predicate = outer;
        let arguments = arguments?;
        let span = name.span.to(self.last);
        Ok(Expr { kind: ExprKind::Call { name, arguments }, span })
    }

    /// Arguments and the `)` after them.
    fn arguments(&mut self, types: bool) -> Parsed<Vec<Argument>> {
        let mut arguments = Vec::new();
        while !self.is(")") {
            let ty = if types && self.at_type() { self.attempt(Self::argument_type) } else { None };
            arguments.push(match ty {
                Some(ty) => Argument::Type(ty),
                None => Argument::Expr(self.expr()?),
            });
            if !self.eat(",") && !self.is(")") {
                return Err(self.expected("',' or ')'"));
            }
        }
        self.bump();
        Ok(arguments)
    }

    fn argument_type(&mut self) -> Parsed<TypeExpr> {
        let ty = self.type_expr()?;
        if self.is(",") || self.is(")") { Ok(ty) } else { Err(super::Reported) }
    }

    /// `(x)`, `()`, `(x,)`, `(x, y)`, `(a=x, b=y)`
    fn parenthesis(&mut self) -> Parsed<Expr> {
        let start = self.span;
        self.bump();
        let outer = std::mem::replace(&mut self.in_predicate, false);
        let fields = self.tuple_fields();
        self.in_predicate = outer;
        let (mut fields, tuple) = fields?;
        let span = start.to(self.last);
        match fields.pop() {
            Some((None, only)) if !tuple && fields.is_empty() => Ok(Expr { kind: only.kind, span }),
            last => {
                fields.extend(last);
                Ok(Expr { kind: ExprKind::Tuple(fields), span })
            }
        }
    }

    #[allow(clippy::type_complexity)] // the fields, and whether a comma makes it a tuple
    fn tuple_fields(&mut self) -> Parsed<(Vec<(Option<Text>, Expr)>, bool)> {
        let mut fields = Vec::new();
        let mut tuple = self.is(")");
        while !self.is(")") {
            let mut name = None;
            if self.token == Token::Name && self.peek().0 == Token::Sign("=") {
                name = Some(Text { text: self.word().into(), span: self.span });
                self.bump();
                self.bump();
                tuple = true;
            }
            fields.push((name, self.expr()?));
            if self.eat(",") {
                tuple = true;
            } else if !self.is(")") {
                return Err(self.expected("',' or ')'"));
            }
        }
        self.bump();
        let named = fields.iter().filter(|(name, _)| name.is_some()).count();
        if named != 0 && named != fields.len() {
            let span = fields[0].1.span;
            return Err(self.wrong(
                Code::UnexpectedToken,
                span,
                "either all fields of a record have names, or none",
            ));
        }
        Ok((fields, tuple))
    }
}
