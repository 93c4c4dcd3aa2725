//! Types as written in casts, declarations and `sizeof`.

use super::super::ast::*;
use super::super::lexer::Token;
use super::{Parsed, Parser};

/// Words that C's own types are made of.
const C_WORDS: &[&str] =
    &["unsigned", "signed", "char", "short", "int", "long", "void", "_Bool", "float", "double", "__int128"];

/// Words that say nothing here.
const QUALIFIERS: &[&str] = &[
    "const",
    "volatile",
    "restrict",
    "__restrict",
    "__user",
    "__kernel",
    "__rcu",
    "__percpu",
    "register",
    "extern",
    "static",
];

/// Names that are types wherever a type may stand.
pub(super) const TYPE_NAMES: &[&str] = &[
    "bool",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "string",
    "buffer",
    "inet",
    "timestamp",
    "macaddr_t",
    "cgroup_path_t",
    "strerror_t",
    "ksym_t",
    "usym_t",
    "kstack_t",
    "ustack_t",
    "username_t",
    "count_t",
    "sum_t",
    "min_t",
    "max_t",
    "avg_t",
    "stats_t",
    "hist_t",
    "lhist_t",
    "tseries_t",
    "usum_t",
    "umin_t",
    "umax_t",
    "uavg_t",
    "ustats_t",
    "u8",
    "u16",
    "u32",
    "u64",
    "s8",
    "s16",
    "s32",
    "s64",
    "__u8",
    "__u16",
    "__u32",
    "__u64",
    "__s8",
    "__s16",
    "__s32",
    "__s64",
    "__be16",
    "__be32",
    "__be64",
    "__le16",
    "__le32",
    "__le64",
    "uint8_t",
    "uint16_t",
    "uint32_t",
    "uint64_t",
    "int8_t",
    "int16_t",
    "int32_t",
    "int64_t",
    "size_t",
    "ssize_t",
    "pid_t",
    "uid_t",
    "gid_t",
    "dev_t",
    "loff_t",
    "off_t",
    "sector_t",
    "uintptr_t",
    "intptr_t",
    "ulong",
    "uint",
    "ushort",
    "umode_t",
    "gfp_t",
    "time_t",
    "ino_t",
    "mode_t",
    "key_t",
    "clockid_t",
    "socklen_t",
];

impl Parser<'_> {
    /// Whether the word at hand begins a type without doubt.
    pub(super) fn at_type(&self) -> bool {
        if self.is("(") {
            // A tuple type, as in `sizeof((uint8, string))`: the first word in it decides.
            return false;
        }
        if self.token != Token::Name {
            return false;
        }
        let word = self.word();
        matches!(word, "struct" | "union" | "enum")
            || word == "typeof" && self.peek().0 == Token::Sign("(")
            || C_WORDS.contains(&word)
            || QUALIFIERS.contains(&word)
            || self.typedefs.contains(word)
            || TYPE_NAMES.contains(&word) && self.peek().0 != Token::Sign("(")
    }

    pub(super) fn skip_qualifiers(&mut self) {
        while self.token == Token::Name {
            if QUALIFIERS.contains(&self.word()) {
                self.bump();
            } else if self.word() == "__attribute__" || self.word() == "__attribute" {
                self.bump();
                self.skip_parenthesis();
            } else {
                return;
            }
        }
    }

    /// Past a balanced `( … )`; answers whether `packed` was in it.
    pub(super) fn skip_parenthesis(&mut self) -> bool {
        let mut depth = 0usize;
        let mut packed = false;
        loop {
            match &self.token {
                Token::Sign("(") => depth += 1,
                Token::Sign(")") => depth = depth.saturating_sub(1),
                Token::Name => packed |= matches!(self.word(), "packed" | "__packed__"),
                Token::End | Token::Sign("{" | "}") => return packed,
                _ => {}
            }
            self.bump();
            if depth == 0 {
                return packed;
            }
        }
    }

    pub(super) fn type_expr(&mut self) -> Parsed<TypeExpr> {
        self.deeper(|parser| {
            let base = parser.type_base()?;
            parser.type_suffix(base)
        })
    }

    /// A type without `*` and `[…]`.
    pub(super) fn type_base(&mut self) -> Parsed<TypeExpr> {
        self.skip_qualifiers();
        let start = self.span;
        if self.eat("(") {
            let mut types = Vec::new();
            while !self.is(")") {
                types.push(self.type_expr()?);
                if !self.eat(",") && !self.is(")") {
                    return Err(self.expected("',' or ')'"));
                }
            }
            let span = start.to(self.span);
            self.bump();
            return Ok(TypeExpr { kind: TypeKind::Tuple(types), span });
        }
        if self.token != Token::Name {
            return Err(self.expected("a type"));
        }
        let word = self.word();
        let kind = match word {
            "struct" | "union" | "enum" => {
                self.bump();
                let name = self.name(&format!("the name of the {word}"))?.text;
                match word {
                    "struct" => TypeKind::Struct(name),
                    "union" => TypeKind::Union(name),
                    _ => TypeKind::Enum(name),
                }
            }
            "typeof" if self.peek().0 == Token::Sign("(") => {
                self.bump();
                self.bump();
                let same = if self.at_type() { Some(self.type_expr()?) } else { None };
                let kind = match same {
                    Some(ty) => TypeKind::Same(Box::new(ty)),
                    None => TypeKind::Typeof(Box::new(self.expr()?)),
                };
                self.expect(")")?;
                kind
            }
            _ if C_WORDS.contains(&word) => TypeKind::Name(self.c_words()),
            _ => {
                self.bump();
                TypeKind::Name(word.into())
            }
        };
        let ty = TypeExpr { kind, span: start.to(self.last) };
        self.skip_qualifiers();
        Ok(ty)
    }

    pub(super) fn type_suffix(&mut self, mut ty: TypeExpr) -> Parsed<TypeExpr> {
        loop {
            if self.is("*") {
                let span = ty.span.to(self.span);
                self.bump();
                self.skip_qualifiers();
                ty = TypeExpr { kind: TypeKind::Pointer(Box::new(ty)), span };
            } else if self.is("[") {
                self.bump();
                let length = if self.is("]") { None } else { Some(Box::new(self.expr()?)) };
                let end = self.expect("]")?;
                let span = ty.span.to(end);
                ty = TypeExpr { kind: TypeKind::Array(Box::new(ty), length), span };
            } else {
                return Ok(ty);
            }
        }
    }

    /// `unsigned long long int` and the like as one name.
    fn c_words(&mut self) -> String {
        let (mut unsigned, mut longs, mut base) = (false, 0, None);
        let mut signed = false;
        while self.token == Token::Name {
            match self.word() {
                "unsigned" => unsigned = true,
                "signed" => signed = true,
                "long" => longs += 1,
                "int" => base = base.or(Some("int")),
                word if C_WORDS.contains(&word) => base = Some(word),
                word if QUALIFIERS.contains(&word) => {}
                _ => break,
            }
            self.bump();
        }
        let base = match (base, longs) {
            (Some("double"), _) => "double",
            (Some(word @ ("char" | "short" | "void" | "_Bool" | "float" | "__int128")), _) => word,
            (_, 0) => "int",
            (_, _) => "long",
        };
        match (base, unsigned, signed) {
            ("char", false, false) => "char".into(),
            ("char", false, true) => "signed char".into(),
            (_, true, _) => format!("unsigned {base}"),
            _ => base.into(),
        }
    }
}
