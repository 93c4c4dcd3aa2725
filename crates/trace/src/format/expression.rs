//! The C expressions in `print fmt` → trees.

use super::{EventFormat, ctype::CType, token::Token};

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    Number {
        value: u64,
        unsigned: bool,
        long: bool,
    },
    Text(Vec<u8>),
    /// `REC->name`, by position in the format's fields.
    Field(usize),
    /// A name whose value the format does not tell (an enum constant that the kernel has
    /// not resolved).
    Unknown,
    Unary(Unary, Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Choose(Box<Expr>, Box<Expr>, Box<Expr>),
    Cast(CType, Box<Expr>),
    Index(Box<Expr>, Box<Expr>),
    SizeOf(CType),
    SizeOfField(usize),
    Call(Call, Vec<Expr>),
    /// `__print_flags` and `__print_symbolic`: value, delimiter, names.
    Names {
        flags: bool,
        value: Box<Expr>,
        delimiter: Vec<u8>,
        names: Vec<(u64, Vec<u8>)>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    Minus,
    Not,
    Complement,
    Deref,
    Address,
}

/// A function that print formats may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// The bytes of a dynamic (or other) field.
    Bytes,
    /// Their number.
    Length,
    Bitmask,
    Hex {
        separated: bool,
    },
    Array,
    DynamicArray,
    HexDump,
    Seconds,
    WithoutSeconds,
    /// What returns its (first) argument.
    Same,
    SwapBytes(u8),
    /// A time in jiffies whose length the trace does not tell.
    Unknown,
}

/// Functions by the names that kernels have given them. To add one, add its row (and,
/// for a new kind, its evaluation).
const CALLS: &[(&str, Call)] = &[
    ("__get_str", Call::Bytes),
    ("__get_rel_str", Call::Bytes),
    ("__get_dynamic_array", Call::Bytes),
    ("__get_rel_dynamic_array", Call::Bytes),
    ("__get_sockaddr", Call::Bytes),
    ("__get_rel_sockaddr", Call::Bytes),
    ("__get_sockaddr_rel", Call::Bytes),
    ("__get_dynamic_array_len", Call::Length),
    ("__get_rel_dynamic_array_len", Call::Length),
    ("__get_bitmask", Call::Bitmask),
    ("__get_rel_bitmask", Call::Bitmask),
    ("__get_cpumask", Call::Bitmask),
    ("__get_rel_cpumask", Call::Bitmask),
    ("__print_hex", Call::Hex { separated: true }),
    ("__print_hex_str", Call::Hex { separated: false }),
    ("__print_array", Call::Array),
    ("__print_dynamic_array", Call::DynamicArray),
    ("__print_hex_dump", Call::HexDump),
    ("__print_ns_to_secs", Call::Seconds),
    ("__print_ns_without_secs", Call::WithoutSeconds),
    ("__builtin_expect", Call::Same),
    ("likely", Call::Same),
    ("unlikely", Call::Same),
    ("cpu_to_node", Call::Unknown),
    ("__builtin_bswap16", Call::SwapBytes(2)),
    ("__builtin_bswap32", Call::SwapBytes(4)),
    ("__builtin_bswap64", Call::SwapBytes(8)),
    ("jiffies_to_msecs", Call::Unknown),
];

/// Deeper nesting than this is refused, so that the stack is not the limit.
const DEEPEST: u32 = 200;

/// More binary operators in one argument than this are refused, likewise: a chain
/// `a + b + …` is a tree as deep as it is long.
const MOST_OPERATORS: u32 = 500;

/// Parses the list of expressions separated by commas that follows a format text.
/// An argument that cannot be understood is `None`; the others stay.
/// `constant` gives the value of an expression without fields.
pub(super) fn arguments(
    tokens: &[Token<'_>],
    format: &EventFormat,
    constant: fn(&Expr) -> Option<u64>,
) -> Vec<Option<Expr>> {
    split_at_commas(tokens)
        .into_iter()
        .map(|tokens| {
            let mut parser = Parser { tokens, at: 0, format, constant, depth: 0, operators: 0 };
            parser.expression().filter(|_| parser.at == tokens.len())
        })
        .collect()
}

fn split_at_commas<'t, 'a>(tokens: &'t [Token<'a>]) -> Vec<&'t [Token<'a>]> {
    let mut parts = Vec::new();
    let mut depth = 0i64;
    let mut start = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Mark("(" | "[" | "{") => depth += 1,
            Token::Mark(")" | "]" | "}") => depth -= 1,
            Token::Mark(",") if depth <= 0 => {
                parts.push(&tokens[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if start < tokens.len() {
        parts.push(&tokens[start..]);
    }
    parts
}

struct Parser<'t, 'a> {
    tokens: &'t [Token<'a>],
    at: usize,
    format: &'t EventFormat,
    constant: fn(&Expr) -> Option<u64>,
    depth: u32,
    operators: u32,
}

/// Binary operators with how tightly they bind.
fn precedence(mark: &str) -> Option<u8> {
    Some(match mark {
        "*" | "/" | "%" => 10,
        "+" | "-" => 9,
        "<<" | ">>" => 8,
        "<" | ">" | "<=" | ">=" => 7,
        "==" | "!=" => 6,
        "&" => 5,
        "^" => 4,
        "|" => 3,
        "&&" => 2,
        "||" => 1,
        _ => return None,
    })
}

impl<'a> Parser<'_, 'a> {
    fn peek(&self) -> Option<&Token<'a>> {
        self.tokens.get(self.at)
    }

    fn take(&mut self, mark: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Mark(m)) if *m == mark);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self) -> Option<&'a str> {
        match self.peek()? {
            Token::Word(word) => {
                let word = *word;
                self.at += 1;
                Some(word)
            }
            _ => None,
        }
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth == DEEPEST {
            return None;
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn expression(&mut self) -> Option<Expr> {
        self.deeper(|p| {
            let condition = p.binary(1)?;
            if !p.take("?") {
                return Some(condition);
            }
            // GNU: `a ?: b` is `a ? a : b`.
            let then =
                if matches!(p.peek(), Some(Token::Mark(":"))) { condition.clone() } else { p.expression()? };
            if !p.take(":") {
                return None;
            }
            let otherwise = p.expression()?;
            Some(Expr::Choose(Box::new(condition), Box::new(then), Box::new(otherwise)))
        })
    }

    fn binary(&mut self, at_least: u8) -> Option<Expr> {
        let mut left = self.unary()?;
        while let Some(Token::Mark(mark)) = self.peek()
            && let Some(binds) = precedence(mark)
            && binds >= at_least
        {
            let mark = *mark;
            self.at += 1;
            self.operators += 1;
            if self.operators > MOST_OPERATORS {
                return None;
            }
            let right = self.deeper(|p| p.binary(binds + 1))?;
            left = Expr::Binary(mark, Box::new(left), Box::new(right));
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<Expr> {
        self.deeper(|p| {
            for (mark, unary) in [
                ("-", Unary::Minus),
                ("!", Unary::Not),
                ("~", Unary::Complement),
                ("*", Unary::Deref),
                ("&", Unary::Address),
            ] {
                if p.take(mark) {
                    return Some(Expr::Unary(unary, Box::new(p.unary()?)));
                }
            }
            if p.take("+") {
                return p.unary();
            }
            if let Some(c_type) = p.cast() {
                return Some(Expr::Cast(c_type, Box::new(p.unary()?)));
            }
            p.postfix()
        })
    }

    /// A type in brackets, if one is here and something to cast follows.
    fn cast(&mut self) -> Option<CType> {
        let start = self.at;
        let found = self.bracketed_type().filter(|_| {
            matches!(
                self.peek(),
                Some(
                    Token::Word(_)
                        | Token::Number { .. }
                        | Token::Text(_)
                        | Token::Mark("(" | "-" | "~" | "!" | "*" | "&")
                )
            )
        });
        if found.is_none() {
            self.at = start;
        }
        found
    }

    fn bracketed_type(&mut self) -> Option<CType> {
        if !self.take("(") {
            return None;
        }
        let mut words = Vec::new();
        while let Some(Token::Word(word)) = self.peek() {
            words.push(*word);
            self.at += 1;
        }
        let mut pointers = 0u8;
        while self.take("*") || matches!(self.peek(), Some(Token::Word("const"))) && self.word().is_some() {
            pointers = pointers.saturating_add(1);
        }
        if !self.take(")") || words.is_empty() || words[0] == "REC" {
            return None;
        }
        let known = words.iter().any(|word| CType::is_type_word(word));
        // `(name) (x)`: one unknown name is a type only where an operator cannot follow.
        let certain = known
            || pointers > 0
            || words.len() > 1
            || matches!(self.peek(), Some(Token::Word(_) | Token::Number { .. }));
        certain.then(|| CType::from_words(words, pointers))
    }

    fn postfix(&mut self) -> Option<Expr> {
        let mut value = self.primary()?;
        while self.take("[") {
            let index = self.expression()?;
            if !self.take("]") {
                return None;
            }
            value = Expr::Index(Box::new(value), Box::new(index));
        }
        Some(value)
    }

    fn primary(&mut self) -> Option<Expr> {
        match self.peek()?.clone() {
            Token::Number { value, unsigned, long } => {
                self.at += 1;
                Some(Expr::Number { value, unsigned, long })
            }
            Token::Text(mut text) => {
                self.at += 1;
                while let Some(Token::Text(more)) = self.peek() {
                    text.extend_from_slice(more);
                    self.at += 1;
                }
                Some(Expr::Text(text))
            }
            Token::Mark("(") => {
                self.at += 1;
                let inner = self.expression()?;
                self.take(")").then_some(inner)
            }
            Token::Word(word) => {
                self.at += 1;
                self.name(word)
            }
            Token::Mark(_) => None,
        }
    }

    fn name(&mut self, word: &str) -> Option<Expr> {
        let int = |value| Some(Expr::Number { value, unsigned: false, long: false });
        match word {
            "REC" => {
                if !self.take("->") {
                    return None;
                }
                let name = self.word()?;
                let field = self.field(name)?;
                // `REC->a.b`: the layout of a structure is not in the format.
                (!matches!(self.peek(), Some(Token::Mark("." | "->")))).then_some(Expr::Field(field))
            }
            "true" => int(1),
            "false" | "NULL" => int(0),
            "sizeof" => self.size_of(),
            "__print_flags" | "__print_flags_u64" => self.names(true),
            "__print_symbolic" | "__print_symbolic_u64" => self.names(false),
            _ if !matches!(self.peek(), Some(Token::Mark("("))) => Some(Expr::Unknown),
            _ => {
                let call = CALLS.iter().find(|(name, _)| *name == word)?.1;
                if !self.take("(") {
                    return None;
                }
                let arguments = match call {
                    Call::Bytes | Call::Length | Call::Bitmask => self.field_argument()?,
                    _ => self.call_arguments()?,
                };
                Some(Expr::Call(call, arguments))
            }
        }
    }

    fn field(&self, name: &str) -> Option<usize> {
        self.format.fields.iter().position(|field| field.name == name)
    }

    /// The bare field name that `__get_str(name)` and its kin take.
    fn field_argument(&mut self) -> Option<Vec<Expr>> {
        let name = self.word()?;
        let field = self.field(name)?;
        self.take(")").then(|| vec![Expr::Field(field)])
    }

    fn call_arguments(&mut self) -> Option<Vec<Expr>> {
        let mut arguments = Vec::new();
        if self.take(")") {
            return Some(arguments);
        }
        loop {
            arguments.push(self.expression()?);
            if self.take(")") {
                return Some(arguments);
            }
            if !self.take(",") {
                return None;
            }
        }
    }

    fn size_of(&mut self) -> Option<Expr> {
        let start = self.at;
        if let Some(c_type) = self.bracketed_type() {
            return Some(Expr::SizeOf(c_type));
        }
        self.at = start;
        match self.unary()? {
            Expr::Field(field) => Some(Expr::SizeOfField(field)),
            _ => None,
        }
    }

    /// `(value, ["delimiter",] { number, "name" }, …)`.
    fn names(&mut self, flags: bool) -> Option<Expr> {
        if !self.take("(") {
            return None;
        }
        let value = self.expression()?;
        let mut delimiter = Vec::new();
        if flags {
            if !self.take(",") {
                return None;
            }
            match self.expression()? {
                Expr::Text(text) => delimiter = text,
                Expr::Number { value: 0, .. } => {}
                _ => return None,
            }
        }
        let mut names = Vec::new();
        while self.take(",") {
            // A macro may leave nothing, or its list in braces of its own.
            if matches!(self.peek(), Some(Token::Mark(")"))) {
                break;
            }
            if !self.take("{") {
                return None;
            }
            if self.take("}") {
                continue;
            }
            let operators_before = self.operators;
            let number = self.expression()?;
            // Reduced to a number below, so its operators do not add up.
            self.operators = operators_before;
            if !self.take(",") {
                return None;
            }
            let name = self.expression()?;
            if !self.take("}") {
                return None;
            }
            // `{ 0, NULL }` ends a list in the kernel.
            let Expr::Text(text) = name else { continue };
            // Entries that are not constant (enum names a kernel did not resolve) are
            // left out: the others still name their values.
            if let Some(number) = (self.constant)(&number) {
                names.push((number, text));
            }
        }
        self.take(")").then(|| Expr::Names { flags, value: Box::new(value), delimiter, names })
    }
}

impl Expr {
    /// Calls `visit` with the position of every field that the value depends on.
    pub(super) fn fields(&self, visit: &mut dyn FnMut(usize)) {
        match self {
            Expr::Field(field) => visit(*field),
            Expr::Number { .. } | Expr::Text(_) | Expr::Unknown | Expr::SizeOf(_) | Expr::SizeOfField(_) => {}
            Expr::Unary(_, a) | Expr::Cast(_, a) | Expr::Names { value: a, .. } => a.fields(visit),
            Expr::Binary(_, a, b) | Expr::Index(a, b) => {
                a.fields(visit);
                b.fields(visit);
            }
            Expr::Choose(a, b, c) => {
                a.fields(visit);
                b.fields(visit);
                c.fields(visit);
            }
            Expr::Call(_, arguments) => arguments.iter().for_each(|argument| argument.fields(visit)),
        }
    }
}
