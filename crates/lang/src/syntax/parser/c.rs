//! C declarations of the preamble.

use super::super::ast::*;
use super::super::lexer::Token;
use super::{Parsed, Parser};
use crate::diagnostic::Code;

impl Parser<'_> {
    pub(super) fn c_item(&mut self, items: &mut Vec<Item>) -> Parsed<()> {
        let result = self.c_item_inner(items);
        if result.is_err() {
            let help = "types of the kernel need no declaration where it has BTF";
            let message = "this C declaration cannot be read";
            self.findings.add(
                crate::diagnostic::Diagnostic::error(Code::BadCDeclaration, self.span, message).help(help),
            );
        }
        result
    }

    fn c_item_inner(&mut self, items: &mut Vec<Item>) -> Parsed<()> {
        if self.eat_word("typedef") {
            let base = self.c_base()?;
            let mut first = true;
            while first || self.eat(",") {
                first = false;
                let member = self.declarator(base.clone())?;
                match &member.name {
                    Some(name) => self.typedefs.insert(name.text.clone()),
                    None => return Err(self.expected("a name")),
                };
                items.push(Item::C(CDeclaration::Typedef { member }));
            }
            self.expect(";")?;
            return Ok(());
        }
        match self.c_base()? {
            CType::Record(record) => items.push(Item::C(CDeclaration::Record(*record))),
            CType::Enum(found) => items.push(Item::C(CDeclaration::Enum(*found))),
            // `struct x;`: declared, not defined.
            _ => {
                self.expect(";")?;
                return Ok(());
            }
        }
        self.eat(";");
        Ok(())
    }

    /// A type, perhaps defined in place, without stars.
    fn c_base(&mut self) -> Parsed<CType> {
        self.deeper(|parser| {
            parser.skip_qualifiers();
            let start = parser.span;
            let word = parser.word();
            if parser.token == Token::Name && matches!(word, "struct" | "union" | "enum") {
                let (next, _) = parser.peek();
                if next == Token::Sign("{") {
                    parser.bump();
                    return parser.c_definition(word, None, start);
                }
                let before = (parser.span.start, parser.last);
                parser.bump();
                let mut packed = false;
                if parser.is_word("__attribute__") {
                    parser.bump();
                    packed = parser.skip_parenthesis();
                }
                let name = parser.name("a name")?;
                if parser.is("{") {
                    let mut found = parser.c_definition(word, Some(name), start)?;
                    if let CType::Record(record) = &mut found {
                        record.packed |= packed;
                    }
                    return Ok(found);
                }
                parser.back_to(before.0, before.1);
            }
            Ok(CType::Named(parser.type_base()?))
        })
    }

    /// From the `{` on.
    fn c_definition(&mut self, word: &str, name: Option<Text>, start: crate::source::Span) -> Parsed<CType> {
        self.expect("{")?;
        if word == "enum" {
            let mut values = Vec::new();
            while !self.is("}") {
                let name = self.name("the name of a value")?;
                let value = if self.eat("=") { Some(self.expr()?) } else { None };
                values.push((name, value));
                if !self.eat(",") && !self.is("}") {
                    return Err(self.expected("',' or '}'"));
                }
            }
            self.bump();
            self.skip_qualifiers();
            let span = start.to(self.last);
            return Ok(CType::Enum(Box::new(CEnum { name, values, span })));
        }
        let mut members = Vec::new();
        while !self.is("}") {
            self.members(&mut members)?;
        }
        self.bump();
        let mut packed = false;
        while self.is_word("__attribute__") || self.is_word("__packed") {
            packed |= self.is_word("__packed");
            self.bump();
            if self.is("(") {
                packed |= self.skip_parenthesis();
            }
        }
        let span = start.to(self.last);
        Ok(CType::Record(Box::new(CRecord { name, union: word == "union", members, packed, span })))
    }

    /// One line of members: `int a, *b, c[4];`
    fn members(&mut self, members: &mut Vec<CMember>) -> Parsed<()> {
        let base = self.c_base()?;
        if self.eat(";") {
            members.push(CMember { name: None, ty: base, arrays: Vec::new(), bits: None });
            return Ok(());
        }
        loop {
            members.push(self.declarator(base.clone())?);
            if self.eat(",") {
                continue;
            }
            self.expect(";")?;
            return Ok(());
        }
    }

    /// `*name[4] : 3`, `(*name)(int)`
    fn declarator(&mut self, mut ty: CType) -> Parsed<CMember> {
        self.skip_qualifiers();
        while self.is("*") {
            let star = self.span;
            self.bump();
            self.skip_qualifiers();
            ty = match ty {
                CType::Named(to) => {
                    let span = to.span.to(star);
                    CType::Named(TypeExpr { kind: TypeKind::Pointer(Box::new(to)), span })
                }
                other => CType::PointerTo(Box::new(other)),
            };
        }
        let mut function = false;
        let name = if self.eat("(") {
            // A pointer to a function or array: kept as `void *`.
            while self.eat("*") {}
            self.skip_qualifiers();
            let name = self.name("a name")?;
            while self.is("[") {
                self.bump();
                self.expr()?;
                self.expect("]")?;
            }
            self.expect(")")?;
            function = true;
            if self.is("(") {
                self.skip_parenthesis();
            } else {
                while self.is("[") {
                    self.bump();
                    self.expr()?;
                    self.expect("]")?;
                }
            }
            Some(name)
        } else if self.token == Token::Name {
            Some(self.name("a name")?)
        } else if self.is(":") {
            None
        } else {
            return Err(self.expected("the name of a member"));
        };
        if function {
            let span = self.last;
            let void = TypeExpr { kind: TypeKind::Name("void".into()), span };
            ty = CType::Named(TypeExpr { kind: TypeKind::Pointer(Box::new(void)), span });
        }
        let mut arrays = Vec::new();
        while self.is("[") {
            self.bump();
            arrays.push(if self.is("]") { None } else { Some(self.expr()?) });
            self.expect("]")?;
        }
        let bits = if self.eat(":") { Some(self.expr()?) } else { None };
        self.skip_qualifiers();
        Ok(CMember { name, ty, arrays, bits })
    }
}
