//! Metadata text → types of packets, events and their fields.

use std::collections::{BTreeMap, HashMap};

use super::{
    token::{Token, TokenKind, tokens},
    types::Type,
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
pub(super) type Parsed<T> = Result<T, Wrong>;

/// Deeper nesting than this is refused.
const DEEPEST: u32 = 64;

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
pub(super) struct Scope {
    pub(super) types: HashMap<String, Type>,
    pub(super) structs: HashMap<String, Type>,
    pub(super) enums: HashMap<String, Type>,
    pub(super) variants: HashMap<String, Type>,
}

/// Reads tokens; types have their part in a file of their own.
pub(super) struct Parser<'a> {
    pub(super) tokens: &'a [Token],
    pub(super) at: usize,
    depth: u32,
    pub(super) metadata: Metadata,
    pub(super) scopes: Vec<Scope>,
}

/// The value of an attribute.
pub(super) enum Value {
    Number(i128),
    Words(String),
    Type(Type),
}

impl Parser<'_> {
    pub(super) fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |token| token.line)
    }

    pub(super) fn wrong<T>(&self, reason: impl Into<String>) -> Parsed<T> {
        Err((self.line(), reason.into()))
    }

    pub(super) fn peek(&self) -> Option<&TokenKind> {
        self.tokens.get(self.at).map(|token| &token.kind)
    }

    pub(super) fn is(&self, mark: &str) -> bool {
        matches!(self.peek(), Some(TokenKind::Mark(m)) if *m == mark)
    }

    pub(super) fn take(&mut self, mark: &str) -> bool {
        let found = self.is(mark);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, mark: &str) -> Parsed<()> {
        if self.take(mark) {
            return Ok(());
        }
        let found = self.peek().map_or_else(|| "the end".to_owned(), |kind| format!("{kind:?}"));
        self.wrong(format!("expected {mark:?}, found {found}"))
    }

    pub(super) fn word(&mut self) -> Option<String> {
        match self.peek() {
            Some(TokenKind::Word(word)) => {
                let word = word.clone();
                self.at += 1;
                Some(word)
            }
            _ => None,
        }
    }

    pub(super) fn is_word(&self, expected: &str) -> bool {
        matches!(self.peek(), Some(TokenKind::Word(word)) if word == expected)
    }

    pub(super) fn number(&mut self) -> Parsed<i128> {
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

    pub(super) fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
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

    pub(super) fn type_declaration(&mut self) -> Parsed<()> {
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

    pub(super) fn scope(&mut self) -> &mut Scope {
        if self.scopes.is_empty() {
            self.scopes.push(Scope::default());
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    /// `{ name = value; name := type; declarations }` behind a block's word.
    pub(super) fn attributes(&mut self) -> Parsed<Vec<(String, Value)>> {
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
