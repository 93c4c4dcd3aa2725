//! Metadata text → types of packets, events and their fields.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::{
    token::{Token, TokenKind, tokens},
    types::{Int, Struct, Type},
};

/// What the metadata of a trace say.
#[derive(Clone, Debug, Default)]
pub(super) struct Metadata {
    pub(super) packet_header: Option<Type>,
    pub(super) big: bool,
    pub(super) environment: Vec<(String, String)>,
    pub(super) clock: Option<Clock>,
    pub(super) streams: BTreeMap<u64, Stream>,
    pub(super) events: Vec<EventClass>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Clock {
    pub(super) name: String,
    pub(super) frequency: u64,
    pub(super) offset_seconds: i128,
    pub(super) offset: i128,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    pub(super) packet_context: Option<Type>,
    pub(super) event_header: Option<Type>,
    pub(super) event_context: Option<Type>,
}

#[derive(Clone, Debug)]
pub(super) struct EventClass {
    pub(super) name: String,
    pub(super) id: u64,
    pub(super) stream: u64,
    pub(super) context: Option<Type>,
    pub(super) fields: Option<Type>,
}

/// Where metadata are wrong: line and reason.
pub(super) type Wrong = (u32, String);
type Parsed<T> = Result<T, Wrong>;

/// Deeper nesting than this is refused.
const DEEPEST: u32 = 64;

/// Elements of arrays that are believed.
const LONGEST_ARRAY: u64 = 1 << 24;

pub(super) fn parse(text: &str) -> Parsed<Metadata> {
    let tokens = tokens(text)?;
    let mut parser = Parser {
        tokens: &tokens,
        at: 0,
        depth: 0,
        metadata: Metadata::default(),
        scopes: vec![Scope::default()],
    };
    // The byte order decides the meaning of types that come before the `trace` block.
    parser.metadata.big = tokens.windows(3).any(|w| {
        matches!(&w[0].kind, TokenKind::Word(word) if word == "byte_order")
            && matches!(&w[2].kind, TokenKind::Word(word) if word == "be" || word == "network")
            && parser_is_trace_level(&tokens, &w[0])
    });
    while parser.at < tokens.len() {
        parser.declaration()?;
    }
    if parser.metadata.streams.is_empty() {
        parser.metadata.streams.insert(0, Stream::default());
    }
    Ok(parser.metadata)
}

/// Whether `token` stands directly in the `trace { … }` block.
fn parser_is_trace_level(tokens: &[Token], token: &Token) -> bool {
    let mut depth = 0;
    let mut in_trace = false;
    for (at, t) in tokens.iter().enumerate() {
        match &t.kind {
            TokenKind::Mark("{") => {
                let before = at.checked_sub(1).map(|at| &tokens[at].kind);
                in_trace = if depth == 0 {
                    matches!(before, Some(TokenKind::Word(w)) if w == "trace")
                } else {
                    in_trace
                };
                depth += 1;
            }
            TokenKind::Mark("}") => depth -= 1,
            _ if std::ptr::eq(t, token) => return depth == 1 && in_trace,
            _ => {}
        }
    }
    false
}

#[derive(Default)]
struct Scope {
    types: HashMap<String, Type>,
    structs: HashMap<String, Type>,
    enums: HashMap<String, Type>,
    variants: HashMap<String, Type>,
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: u32,
    metadata: Metadata,
    scopes: Vec<Scope>,
}

/// The value of an attribute.
enum Value {
    Number(i128),
    Words(String),
    Type(Type),
}

impl Parser<'_> {
    fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |token| token.line)
    }

    fn wrong<T>(&self, reason: impl Into<String>) -> Parsed<T> {
        Err((self.line(), reason.into()))
    }

    fn peek(&self) -> Option<&TokenKind> {
        self.tokens.get(self.at).map(|token| &token.kind)
    }

    fn is(&self, mark: &str) -> bool {
        matches!(self.peek(), Some(TokenKind::Mark(m)) if *m == mark)
    }

    fn take(&mut self, mark: &str) -> bool {
        let found = self.is(mark);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, mark: &str) -> Parsed<()> {
        if self.take(mark) {
            return Ok(());
        }
        let found = self.peek().map_or_else(|| "the end".to_owned(), |kind| format!("{kind:?}"));
        self.wrong(format!("expected {mark:?}, found {found}"))
    }

    fn word(&mut self) -> Option<String> {
        match self.peek() {
            Some(TokenKind::Word(word)) => {
                let word = word.clone();
                self.at += 1;
                Some(word)
            }
            _ => None,
        }
    }

    fn is_word(&self, expected: &str) -> bool {
        matches!(self.peek(), Some(TokenKind::Word(word)) if word == expected)
    }

    fn number(&mut self) -> Parsed<i128> {
        let negative = self.take("-");
        self.take("+");
        match self.peek() {
            Some(TokenKind::Number(number)) => {
                let number = *number;
                self.at += 1;
                Ok(if negative { -number } else { number })
            }
            _ => self.wrong("expected a number"),
        }
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == DEEPEST {
            return self.wrong("types are nested too deeply");
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    // ----- blocks -----

    fn declaration(&mut self) -> Parsed<()> {
        if self.take(";") {
            return Ok(());
        }
        let block = matches!(self.tokens.get(self.at + 1).map(|t| &t.kind), Some(TokenKind::Mark("{")));
        let word = match self.peek() {
            Some(TokenKind::Word(word)) => word.clone(),
            _ => return self.wrong("expected a declaration"),
        };
        match word.as_str() {
            "trace" if block => self.trace(),
            "env" if block => self.environment(),
            "clock" if block => self.clock(),
            "stream" if block => self.stream(),
            "event" if block => self.event(),
            "callsite" if block => self.attributes().map(|_| ()),
            _ => self.type_declaration(),
        }
    }

    fn type_declaration(&mut self) -> Parsed<()> {
        if self.is_word("typealias") {
            self.at += 1;
            let aliased = self.type_specifier()?;
            self.expect(":=")?;
            let mut words = Vec::new();
            while !self.is(";") {
                match self.peek() {
                    Some(TokenKind::Word(word)) => words.push(word.clone()),
                    Some(TokenKind::Mark("*")) => words.push("*".to_owned()),
                    _ => return self.wrong("expected a type's new name"),
                }
                self.at += 1;
            }
            self.expect(";")?;
            self.scope().types.insert(words.join(" "), aliased);
        } else if self.is_word("typedef") {
            self.at += 1;
            let base = self.type_specifier()?;
            loop {
                let (name, declared) = self.declarator(base.clone())?;
                self.scope().types.insert(name, declared);
                if !self.take(",") {
                    break;
                }
            }
            self.expect(";")?;
        } else {
            // `struct name { … };`: the type is kept by its name.
            self.type_specifier()?;
            self.expect(";")?;
        }
        Ok(())
    }

    fn scope(&mut self) -> &mut Scope {
        if self.scopes.is_empty() {
            self.scopes.push(Scope::default());
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    /// `{ name = value; name := type; declarations }` behind a block's word.
    fn attributes(&mut self) -> Parsed<Vec<(String, Value)>> {
        self.at += 1;
        self.expect("{")?;
        self.scopes.push(Scope::default());
        let mut found = Vec::new();
        while !self.take("}") {
            if self.take(";") {
                continue;
            }
            if ["typealias", "typedef"].iter().any(|word| self.is_word(word)) || self.is_type_definition() {
                self.type_declaration()?;
                continue;
            }
            let mut name = match self.peek() {
                Some(TokenKind::Text(text)) => {
                    let text = text.clone();
                    self.at += 1;
                    text
                }
                _ => self.word().ok_or((self.line(), "expected a name".to_owned()))?,
            };
            while self.take(".") {
                let Some(part) = self.word() else { return self.wrong("expected a name behind the dot") };
                name = format!("{name}.{part}");
            }
            if self.take(":=") {
                let value = self.type_specifier()?;
                found.push((name, Value::Type(value)));
            } else {
                self.expect("=")?;
                found.push((name, self.value()?));
            }
            self.expect(";")?;
        }
        self.scopes.pop();
        self.take(";");
        Ok(found)
    }

    /// `struct name {`, `enum name …`, `variant name …` as a declaration of its own.
    fn is_type_definition(&self) -> bool {
        ["struct", "enum", "variant"].iter().any(|word| self.is_word(word))
    }

    fn value(&mut self) -> Parsed<Value> {
        match self.peek() {
            Some(TokenKind::Number(_) | TokenKind::Mark("-" | "+")) => Ok(Value::Number(self.number()?)),
            Some(TokenKind::Text(text)) => {
                let text = text.clone();
                self.at += 1;
                Ok(Value::Words(text))
            }
            _ => {
                let mut words = self.word().ok_or((self.line(), "expected a value".to_owned()))?;
                while self.take(".") {
                    let Some(part) = self.word() else { return self.wrong("expected a name behind the dot") };
                    words = format!("{words}.{part}");
                }
                Ok(Value::Words(words))
            }
        }
    }

    fn trace(&mut self) -> Parsed<()> {
        for (name, value) in self.attributes()? {
            match (name.as_str(), value) {
                ("packet.header", Value::Type(header)) => self.metadata.packet_header = Some(header),
                ("major", Value::Number(major)) if major != 1 => {
                    return self.wrong(format!("metadata of CTF {major}; version 1 is understood"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn environment(&mut self) -> Parsed<()> {
        for (name, value) in self.attributes()? {
            let text = match value {
                Value::Number(number) => number.to_string(),
                Value::Words(words) => words,
                Value::Type(_) => continue,
            };
            self.metadata.environment.push((name, text));
        }
        Ok(())
    }

    fn clock(&mut self) -> Parsed<()> {
        let mut clock = Clock { name: String::new(), frequency: 1_000_000_000, offset_seconds: 0, offset: 0 };
        for (name, value) in self.attributes()? {
            match (name.as_str(), value) {
                ("name", Value::Words(name)) => clock.name = name,
                ("freq", Value::Number(frequency)) => clock.frequency = u64::try_from(frequency).unwrap_or(0),
                ("offset_s", Value::Number(seconds)) => clock.offset_seconds = seconds,
                ("offset", Value::Number(offset)) => clock.offset = offset,
                _ => {}
            }
        }
        if clock.frequency == 0 {
            return self.wrong("a clock without frequency");
        }
        self.metadata.clock.get_or_insert(clock);
        Ok(())
    }

    fn stream(&mut self) -> Parsed<()> {
        let mut id = 0;
        let mut stream = Stream::default();
        for (name, value) in self.attributes()? {
            match (name.as_str(), value) {
                ("id", Value::Number(number)) => id = u64::try_from(number).unwrap_or(u64::MAX),
                ("packet.context", Value::Type(t)) => stream.packet_context = Some(t),
                ("event.header", Value::Type(t)) => stream.event_header = Some(t),
                ("event.context", Value::Type(t)) => stream.event_context = Some(t),
                _ => {}
            }
        }
        if self.metadata.streams.insert(id, stream).is_some() {
            return self.wrong(format!("stream {id} is described twice"));
        }
        Ok(())
    }

    fn event(&mut self) -> Parsed<()> {
        let mut class = EventClass { name: String::new(), id: 0, stream: 0, context: None, fields: None };
        for (name, value) in self.attributes()? {
            match (name.as_str(), value) {
                ("name", Value::Words(name)) => class.name = name,
                ("id", Value::Number(number)) => class.id = u64::try_from(number).unwrap_or(u64::MAX),
                ("stream_id", Value::Number(number)) => {
                    class.stream = u64::try_from(number).unwrap_or(u64::MAX)
                }
                ("context", Value::Type(t)) => class.context = Some(t),
                ("fields", Value::Type(t)) => class.fields = Some(t),
                _ => {}
            }
        }
        self.metadata.events.push(class);
        Ok(())
    }

    // ----- types -----

    fn type_specifier(&mut self) -> Parsed<Type> {
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
    fn declarator(&mut self, base: Type) -> Parsed<(String, Type)> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_streams_and_events() {
        let metadata = parse(
            r#"/* CTF 1.8 */
            typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
            typealias integer { size = 32; align = 8; signed = 1; byte_order = be; } := unsigned long;
            trace { major = 1; minor = 8; byte_order = le; packet.header := struct { uint8_t uuid[16]; }; };
            env { hostname = "x"; n = -3; };
            clock { name = monotonic; freq = 1000; offset_s = 5; };
            struct header { enum : uint8_t { compact = 0 ... 30, extended = 31 } id; variant <id> { struct { uint8_t t; } compact; struct { unsigned long t; } extended; } v; } align(8);
            stream { id = 3; event.header := struct header; };
            event { name = "a:b"; id = 7; stream_id = 3; fields := struct { uint8_t _n; string s; uint8_t many[_n]; }; };"#,
        )
        .unwrap();
        assert_eq!(
            metadata.environment,
            [("hostname".to_owned(), "x".to_owned()), ("n".to_owned(), "-3".to_owned())]
        );
        assert_eq!(metadata.clock.unwrap().offset_seconds, 5);
        assert!(metadata.streams[&3].event_header.is_some());
        let event = &metadata.events[0];
        assert_eq!((event.name.as_str(), event.id, event.stream), ("a:b", 7, 3));
        let Some(Type::Struct(fields)) = &event.fields else { panic!("{event:?}") };
        assert!(matches!(&fields.fields[2].1, Type::Sequence { length, .. } if length == "_n"));
    }

    #[test]
    fn errors_tell_the_line() {
        for (text, expected) in [
            ("trace {\n  major = ;\n};", (2, "expected a value")),
            ("\n\nfoo bar;", (3, "the type \"foo bar\" is not declared")),
            ("typealias integer { size = 65; } := x;", (1, "a integer of 65 bits")),
            ("/* open", (1, "a comment does not end")),
            ("trace { major = 2; };", (1, "metadata of CTF 2; version 1 is understood")),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!((error.0, error.1.as_str()), expected, "{text}");
        }
        assert!(parse(&"struct { struct {".repeat(5000)).is_err());
    }
}
