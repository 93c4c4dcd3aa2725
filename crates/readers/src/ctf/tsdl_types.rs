//! Type specifiers of the metadata language: integers, enums, structures, …

use std::{collections::HashMap, sync::Arc};

use super::{
    token::TokenKind,
    tsdl::{Parsed, Parser, Scope, Value},
    types::{Int, Struct, Type},
};

/// Elements of arrays that are believed.
const LONGEST_ARRAY: u64 = 1 << 24;

impl Parser<'_> {
    pub(super) fn type_specifier(&mut self) -> Parsed<Type> {
        self.deeper(|p| p.type_specifier_inner())
    }

    fn type_specifier_inner(&mut self) -> Parsed<Type> {
        while self.is_word("const") {
            self.at += 1;
        }
        match self.peek() {
            Some(TokenKind::Word(word)) => match word.as_str() {
                "integer" => self.integer(),
                "floating_point" => self.float(),
                "string" => {
                    if matches!(self.tokens.get(self.at + 1).map(|t| &t.kind), Some(TokenKind::Mark("{"))) {
                        self.attributes()?;
                    } else {
                        self.at += 1;
                    }
                    Ok(Type::Text)
                }
                "struct" => self.structure(),
                "variant" => self.variant(),
                "enum" => self.enumeration(),
                _ => self.named(),
            },
            _ => self.wrong("expected a type"),
        }
    }

    /// A name given by typealias or typedef, of one or more words.
    fn named(&mut self) -> Parsed<Type> {
        let start = self.at;
        let mut words = Vec::new();
        let mut best = None;
        while let Some(word) = self.word() {
            words.push(word);
            while self.take("*") {
                words.push("*".to_owned());
            }
            if let Some(found) = self.find(&words.join(" "), |scope| &scope.types) {
                best = Some((self.at, found));
            }
        }
        match best {
            Some((at, found)) => {
                self.at = at;
                Ok(found)
            }
            None => {
                self.at = start;
                self.wrong(format!("the type {:?} is not declared", words.join(" ")))
            }
        }
    }

    fn find(&self, name: &str, table: impl Fn(&Scope) -> &HashMap<String, Type>) -> Option<Type> {
        self.scopes.iter().rev().find_map(|scope| table(scope).get(name)).cloned()
    }

    fn byte_order(&self, words: &str) -> Parsed<bool> {
        match words {
            "native" => Ok(self.metadata.big),
            "be" | "network" => Ok(true),
            "le" => Ok(false),
            other => self.wrong(format!("the byte order {other:?}")),
        }
    }

    fn bits(&self, number: i128, what: &str, most: i128) -> Parsed<u32> {
        if (1..=most).contains(&number) {
            return Ok(number as u32);
        }
        self.wrong(format!("a {what} of {number} bits"))
    }

    fn align(&self, number: i128) -> Parsed<u32> {
        match u32::try_from(number) {
            Ok(align) if align.is_power_of_two() && align <= 1 << 20 => Ok(align),
            _ => self.wrong(format!("an alignment of {number} bits")),
        }
    }

    fn integer(&mut self) -> Parsed<Type> {
        let mut int =
            Int { size: 0, align: 0, signed: false, big: self.metadata.big, text: false, clock: false };
        for (name, value) in self.attributes()? {
            match (name.as_str(), value) {
                ("size", Value::Number(size)) => int.size = self.bits(size, "integer", 64)?,
                ("align", Value::Number(align)) => int.align = self.align(align)?,
                ("signed", Value::Number(signed)) => int.signed = signed != 0,
                ("signed", Value::Words(signed)) => int.signed = matches!(signed.as_str(), "true" | "TRUE"),
                ("byte_order", Value::Words(order)) => int.big = self.byte_order(&order)?,
                ("encoding", Value::Words(encoding)) => {
                    int.text =
                        matches!(encoding.as_str(), "UTF8" | "utf8" | "UTF-8" | "utf-8" | "ASCII" | "ascii")
                }
                ("map", Value::Words(_)) => int.clock = true,
                _ => {}
            }
        }
        if int.size == 0 {
            return self.wrong("an integer without size");
        }
        if int.align == 0 {
            int.align = if int.size.is_multiple_of(8) { 8 } else { 1 };
        }
        Ok(Type::Int(int))
    }

    fn float(&mut self) -> Parsed<Type> {
        let (mut exponent, mut mantissa, mut align, mut big) = (0, 0, 0, self.metadata.big);
        for (name, value) in self.attributes()? {
            match (name.as_str(), value) {
                ("exp_dig", Value::Number(digits)) => exponent = digits,
                ("mant_dig", Value::Number(digits)) => mantissa = digits,
                ("align", Value::Number(number)) => align = self.align(number)?,
                ("byte_order", Value::Words(order)) => big = self.byte_order(&order)?,
                _ => {}
            }
        }
        let size = self.bits(exponent.saturating_add(mantissa), "floating point number", 64)?;
        if size != 32 && size != 64 {
            return self.wrong(format!("a floating point number of {size} bits; 32 and 64 are understood"));
        }
        Ok(Type::Float { size, align: if align == 0 { 8 } else { align }, big })
    }

    fn structure(&mut self) -> Parsed<Type> {
        self.at += 1;
        let name = self.word();
        if !self.is("{") {
            let Some(name) = name else { return self.wrong("a struct without name and fields") };
            let Some(found) = self.find(&name, |scope| &scope.structs) else {
                return self.wrong(format!("struct {name} is not declared"));
            };
            return Ok(found);
        }
        let fields = self.fields()?;
        let mut align = fields.iter().map(|(_, t)| t.align()).max().unwrap_or(1);
        if self.is_word("align") {
            self.at += 1;
            self.expect("(")?;
            let number = self.number()?;
            align = align.max(self.align(number)?);
            self.expect(")")?;
        }
        let made = Type::Struct(Arc::new(Struct { fields, align }));
        if let Some(name) = name {
            self.scope().structs.insert(name, made.clone());
        }
        Ok(made)
    }

    /// `{ type name; … }`
    fn fields(&mut self) -> Parsed<Vec<(String, Type)>> {
        self.expect("{")?;
        self.scopes.push(Scope::default());
        let mut fields = Vec::new();
        while !self.take("}") {
            if self.take(";") {
                continue;
            }
            if self.is_word("typealias") || self.is_word("typedef") {
                self.type_declaration()?;
                continue;
            }
            let base = self.type_specifier()?;
            if self.take(";") {
                continue; // a type declared in between
            }
            loop {
                let field = self.declarator(base.clone())?;
                self.check_reference(&field.1, &fields)?;
                fields.push(field);
                if !self.take(",") {
                    break;
                }
            }
            self.expect(";")?;
        }
        self.scopes.pop();
        Ok(fields)
    }

    /// A length has to be an integer and a tag an enum, where they are fields of the same
    /// structure (others are looked up while reading).
    fn check_reference(&self, kind: &Type, before: &[(String, Type)]) -> Parsed<()> {
        let found = |name: &str| before.iter().rev().find(|(known, _)| known == name).map(|(_, kind)| kind);
        match kind {
            Type::Sequence { length, .. } => match found(length) {
                None | Some(Type::Int(_) | Type::Enum { .. }) => Ok(()),
                Some(_) => self.wrong(format!("the length {length:?} is no integer")),
            },
            Type::Variant { tag, .. } => match found(tag) {
                None | Some(Type::Enum { .. }) => Ok(()),
                Some(_) => self.wrong(format!("the tag {tag:?} is no enum")),
            },
            _ => Ok(()),
        }
    }

    /// `name`, `name[3]`, `name[other_field]`.
    pub(super) fn declarator(&mut self, base: Type) -> Parsed<(String, Type)> {
        let Some(name) = self.word() else { return self.wrong("expected a field's name") };
        let mut lengths = Vec::new();
        while self.take("[") {
            lengths.push(match self.peek() {
                Some(TokenKind::Number(_)) => Ok(self.number()?),
                _ => Err(self.path()?),
            });
            self.expect("]")?;
        }
        let mut declared = base;
        for length in lengths.into_iter().rev() {
            let element = Arc::new(declared);
            declared = match length {
                Ok(number) => match u64::try_from(number) {
                    Ok(length) if length <= LONGEST_ARRAY => Type::Array { element, length },
                    _ => return self.wrong(format!("an array of {number} elements")),
                },
                Err(length) => Type::Sequence { element, length },
            };
        }
        Ok((name, declared))
    }

    /// `a.b.c`: the last part, by which earlier fields are found.
    fn path(&mut self) -> Parsed<String> {
        let mut last = self.word().ok_or((self.line(), "expected a field's name".to_owned()))?;
        while self.take(".") || self.take("->") {
            last = self.word().ok_or((self.line(), "expected a field's name".to_owned()))?;
        }
        Ok(last)
    }

    fn variant(&mut self) -> Parsed<Type> {
        self.at += 1;
        let name = self.word();
        let tag = if self.take("<") {
            let tag = self.path()?;
            self.expect(">")?;
            Some(tag)
        } else {
            None
        };
        let options = if self.is("{") {
            let options = Arc::new(self.fields()?);
            if let Some(name) = name {
                let made = Type::Variant { tag: String::new(), options: Arc::clone(&options) };
                self.scope().variants.insert(name, made);
            }
            options
        } else {
            let name = name.unwrap_or_default();
            match self.find(&name, |scope| &scope.variants) {
                Some(Type::Variant { options, .. }) => options,
                _ => return self.wrong(format!("variant {name:?} is not declared")),
            }
        };
        Ok(Type::Variant { tag: tag.unwrap_or_default(), options })
    }

    fn enumeration(&mut self) -> Parsed<Type> {
        self.at += 1;
        let name = self.word();
        let base = if self.take(":") { Some(self.type_specifier()?) } else { None };
        if !self.is("{") {
            let name = name.unwrap_or_default();
            return match self.find(&name, |scope| &scope.enums) {
                Some(found) => Ok(found),
                None => self.wrong(format!("enum {name:?} is not declared")),
            };
        }
        let int = match base.or_else(|| self.find("int", |scope| &scope.types)) {
            Some(Type::Int(int)) => int,
            _ => return self.wrong("an enum without integer type"),
        };
        self.expect("{")?;
        let mut labels = Vec::new();
        let mut next = 0i128;
        while !self.take("}") {
            let label = match self.peek() {
                Some(TokenKind::Text(text)) => {
                    let text = text.clone();
                    self.at += 1;
                    text
                }
                _ => self.word().ok_or((self.line(), "expected an enum's label".to_owned()))?,
            };
            let (mut low, mut high) = (next, next);
            if self.take("=") {
                low = self.number()?;
                high = if self.take("...") { self.number()? } else { low };
            }
            labels.push((label, low, high));
            next = high.saturating_add(1);
            if !self.take(",") && !self.is("}") {
                return self.wrong("expected a comma between an enum's labels");
            }
        }
        let made = Type::Enum { int, labels: Arc::new(labels) };
        if let Some(name) = name {
            self.scope().enums.insert(name, made.clone());
        }
        Ok(made)
    }
}
