//! What stands outside of probes.

use super::super::ast::*;
use super::super::lexer::Token;
use super::super::preprocess::Define;
use super::{Parsed, Parser};
use crate::config::Value;
use crate::diagnostic::Code;

impl Parser<'_> {
    pub(super) fn item(&mut self, items: &mut Vec<Item>) -> Parsed<()> {
        if self.eat(";") {
            return Ok(());
        }
        let (next, next_text) = self.peek();
        if self.token == Token::Name {
            match self.word() {
                "struct" | "union" | "enum" if next == Token::Name || next == Token::Sign("{") => {
                    return self.c_item(items);
                }
                "typedef" if next == Token::Name => return self.c_item(items),
                "config" if next == Token::Sign("=") => return self.config(items),
                "let" if next == Token::Map => return self.map_declaration(items),
                "macro" if next == Token::Name => {
                    items.push(Item::Macro(self.macro_item()?));
                    return Ok(());
                }
                "fn" | "subprog" if next == Token::Name => {
                    items.push(Item::Function(self.function()?));
                    return Ok(());
                }
                "import" if matches!(next, Token::Str(_)) => {
                    self.bump();
                    if let Token::Str(bytes) = &self.token {
                        let text = String::from_utf8_lossy(bytes).into_owned();
                        items.push(Item::Import(Text { text, span: self.span }));
                    }
                    self.bump();
                    self.eat(";");
                    return Ok(());
                }
                // A statement at the top level: say so, rather than that it is no probe.
                "if" | "for" | "while" | "printf" | "print" | "return" | "unroll" if next_text == "(" => {
                    let message = format!("'{}' has to be inside a probe's braces", self.word());
                    return Err(self.wrong(Code::StrayItem, self.span, message));
                }
                _ => {}
            }
        }
        match self.token {
            Token::Map | Token::Variable => {
                let message = format!("'{}' has to be inside a probe's braces", self.word());
                Err(self.wrong(Code::StrayItem, self.span, message))
            }
            _ => {
                items.push(Item::Probe(self.probe()?));
                Ok(())
            }
        }
    }

    fn config(&mut self, items: &mut Vec<Item>) -> Parsed<()> {
        self.bump();
        self.bump();
        self.expect("{")?;
        while !self.is("}") {
            let name = self.name("the name of a setting")?;
            self.expect("=")?;
            let negative = self.eat("-");
            let value = match &self.token {
                Token::Int(n) => Value::Number(*n),
                Token::Str(bytes) => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
                Token::Name => match self.word() {
                    "true" => Value::Number(1),
                    "false" => Value::Number(0),
                    word => Value::Text(word.into()),
                },
                _ => return Err(self.expected("a number, a string or a word")),
            };
            let value = match value {
                Value::Number(n) if negative => Value::Text(format!("-{n}")),
                value => value,
            };
            let span = name.span.to(self.span);
            self.bump();
            items.push(Item::Setting(Setting { name, value, span }));
            if !self.eat(";") && !self.eat(",") && !self.is("}") {
                return Err(self.expected("';' or '}'"));
            }
        }
        self.bump();
        Ok(())
    }

    fn map_declaration(&mut self, items: &mut Vec<Item>) -> Parsed<()> {
        let start = self.span;
        self.bump();
        let name = Text { text: self.word().into(), span: self.span };
        self.bump();
        self.expect("=")?;
        let kind = self.name("hash, lruhash, percpuhash or percpulruhash")?;
        self.expect("(")?;
        let entries = if self.is(")") { None } else { Some(self.expr()?) };
        let end = self.expect(")")?;
        if !self.eat(";") {
            return Err(self.expected("';'"));
        }
        items.push(Item::Map(MapDeclaration { name, kind, entries, span: start.to(end) }));
        Ok(())
    }

    fn macro_item(&mut self) -> Parsed<Macro> {
        self.bump();
        let name = self.name("the name of the macro")?;
        self.expect("(")?;
        let mut parameters = Vec::new();
        while !self.is(")") {
            if !matches!(self.token, Token::Name | Token::Variable | Token::Map) {
                return Err(self.expected("a parameter: a name, a $variable or a @map"));
            }
            parameters.push(Text { text: self.word().into(), span: self.span });
            self.bump();
            if !self.eat(",") && !self.is(")") {
                return Err(self.expected("',' or ')'"));
            }
        }
        self.bump();
        let body = self.block()?;
        Ok(Macro { name, parameters, body, unhygienic: false })
    }

    pub(super) fn define_macro(&mut self, define: &Define) -> Parsed<Macro> {
        let value = self.within_define(define, |parser| parser.expr())?;
        let span = value.span;
        Ok(Macro {
            name: define.name.clone(),
            parameters: define.parameters.clone().unwrap_or_default(),
            body: Block { statements: Vec::new(), value: Some(Box::new(value)), span },
            unhygienic: true,
        })
    }

    fn function(&mut self) -> Parsed<Function> {
        let start = self.span;
        self.bump();
        let name = self.name("the name of the function")?;
        self.expect("(")?;
        let mut parameters = Vec::new();
        while !self.is(")") {
            if self.token != Token::Variable {
                return Err(self.expected("a parameter: $name : type"));
            }
            let parameter = Text { text: self.word().into(), span: self.span };
            self.bump();
            self.expect(":")?;
            parameters.push((parameter, self.type_expr()?));
            if !self.eat(",") && !self.is(")") {
                return Err(self.expected("',' or ')'"));
            }
        }
        let close = self.span;
        self.bump();
        let result = if self.eat(":") || self.eat("->") {
            self.type_expr()?
        } else {
            TypeExpr { kind: TypeKind::Name("void".into()), span: close }
        };
        let body = self.block()?;
        let span = start.to(self.last);
        Ok(Function { name, parameters, result, body, span })
    }
}
