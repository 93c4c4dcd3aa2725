//! C declarations of the preamble → layouts, by the rules of the System V ABI.

use std::rc::Rc;

use super::types::{Resolver, placed};
use crate::diagnostic::{Code, Diagnostic, Findings};
use crate::syntax::ast::*;
use crate::types::{Enumeration, Field, Integer, Record, RecordId, RecordRef, Space, Type};

/// Declares what the preamble declares.
pub fn declare(ast: &Ast, resolver: &Resolver<'_>, findings: &Findings) {
    let mut layout = Layout { resolver, findings };
    for item in &ast.items {
        if let Item::C(declaration) = item {
            match declaration {
                CDeclaration::Record(record) => {
                    layout.record(record);
                }
                CDeclaration::Enum(found) => {
                    layout.enumeration(found);
                }
                CDeclaration::Typedef { member } => {
                    if let Some((ty, _)) = layout.member_type(member)
                        && let Some(name) = &member.name
                    {
                        resolver.declared.borrow_mut().typedefs.insert(name.text.clone(), ty);
                    }
                }
            }
        }
    }
}

/// A C type given as text (from a tracepoint's format or debug information).
pub fn c_type(text: &str, resolver: &Resolver<'_>) -> Option<Type> {
    let mut words = text.trim();
    let mut stars = 0;
    let cleaned;
    if words.contains("__attribute__") {
        // `struct foo __attribute__((user)) *`
        let start = words.find("__attribute__")?;
        let end = start + words[start..].find("))").map_or(words.len() - start, |at| at + 2);
        cleaned = format!("{}{}", &words[..start], &words[end.min(words.len())..]);
        words = cleaned.trim();
    }
    if words.contains('(') {
        return Some(Type::pointer(Type::Void, Space::Kernel));
    }
    while let Some(rest) = words.strip_suffix('*') {
        stars += 1;
        words = rest.trim_end();
    }
    let words: Vec<&str> = words
        .split_whitespace()
        .filter(|word| !matches!(*word, "const" | "volatile" | "restrict" | "__user"))
        .collect();
    let mut ty = match words.as_slice() {
        ["struct", name] => Type::Record(resolver.record(name, false)?),
        ["union", name] => Type::Record(resolver.record(name, true)?),
        ["enum", name] => resolver.enumeration(name)?,
        words => resolver.named(&c_words(words))?,
    };
    for _ in 0..stars {
        ty = Type::pointer(ty, Space::Kernel);
    }
    Some(ty)
}

/// `long long unsigned int` and the like in the one spelling that types are found by.
fn c_words(words: &[&str]) -> String {
    let has = |word| words.contains(&word);
    if words.len() < 2 && !has("unsigned") && !has("signed") {
        return words.join(" ");
    }
    let base = if has("char") {
        "char"
    } else if has("short") {
        "short"
    } else if has("long") {
        "long"
    } else if has("int") || words.len() == 1 {
        "int"
    } else {
        return words.join(" ");
    };
    match (has("unsigned"), has("signed") && base == "char") {
        (true, _) => format!("unsigned {base}"),
        (_, true) => "signed char".into(),
        _ => base.into(),
    }
}

/// Gives pointers to a struct within itself its size, which was not known when they were read.
fn complete(ty: &mut Type, known: RecordRef) {
    match ty {
        Type::Pointer { to, .. } => complete(to, known),
        Type::Array { element, .. } => complete(element, known),
        Type::Record(record) if record.id == known.id => *record = known,
        _ => {}
    }
}

struct Layout<'a, 'b> {
    resolver: &'a Resolver<'b>,
    findings: &'a Findings,
}

impl Layout<'_, '_> {
    fn wrong(&self, span: crate::source::Span, message: impl Into<String>) {
        self.findings.add(Diagnostic::error(Code::BadCDeclaration, span, message));
    }

    fn record(&mut self, record: &CRecord) -> Type {
        let name = record.name.as_ref().map_or("", |name| &name.text);
        // Its own members may point to it.
        let empty = Record { name: name.into(), union: record.union, size: 0, align: 1, fields: Vec::new() };
        let id = self.resolver.add_record(empty).id;
        if let Some(name) = &record.name
            && self.resolver.declared.borrow_mut().records.insert(name.text.clone(), id).is_some()
        {
            let message = format!("'{}' is defined twice", name.text);
            self.findings.add(Diagnostic::error(Code::Duplicate, name.span, message));
        }
        let (mut fields, size, align) = self.fields(record, id);
        for field in &mut fields {
            complete(&mut field.ty, RecordRef { id, size, align });
        }
        let laid_out = Record { name: name.into(), union: record.union, size, align, fields };
        self.resolver.set_record(id, laid_out);
        Type::Record(self.resolver.record_ref(id))
    }

    fn fields(&mut self, record: &CRecord, own: RecordId) -> (Vec<Field>, u32, u32) {
        let mut fields = Vec::new();
        // All in bits; a struct of 256 MiB is as large as it gets.
        let (mut at, mut largest, mut align) = (0u64, 0u64, 1u32);
        for member in &record.members {
            let Some((ty, width)) = self.member_type(member) else { continue };
            if matches!(&ty, Type::Record(inner) if inner.id == own) || ty == Type::Void {
                let span = member.name.as_ref().map_or(record.span, |name| name.span);
                self.wrong(span, "this member's type is not complete here");
                continue;
            }
            let natural = if record.packed { 1 } else { ty.align() };
            let name: Rc<str> = member.name.as_ref().map_or("", |name| name.text.as_str()).into();
            let unit = u64::from(ty.size()) * 8;
            let start = if record.union { 0 } else { at };
            let (start, bits) = match width {
                Some(0) => {
                    at = at.next_multiple_of(u64::from(ty.align()) * 8);
                    continue;
                }
                // A bit field does not cross a boundary of its own type, unless packed.
                Some(width) => {
                    let width = u64::from(width);
                    let crosses = start / unit.max(1) != (start + width - 1) / unit.max(1);
                    let start = if crosses && !record.packed { start.next_multiple_of(unit) } else { start };
                    (start, width)
                }
                None => (start.next_multiple_of(u64::from(natural) * 8), 0),
            };
            let end = start + if bits > 0 { bits } else { unit };
            if end > 1 << 31 {
                self.wrong(record.span, "this struct is larger than 256 MiB");
                break;
            }
            let found = placed(ty, start as u32, bits as u32);
            at = end;
            largest = largest.max(end);
            align = align.max(natural);
            if name.is_empty() && bits > 0 {
                continue;
            }
            let (ty, offset, bits) = (found.ty, found.offset, found.bits);
            fields.push(Field { name, ty, offset, bits, data_loc: None, user: false });
        }
        let size = largest.div_ceil(8).next_multiple_of(u64::from(align));
        (fields, size as u32, align)
    }

    /// The type of a member with its arrays, and its width if it is a bit field.
    fn member_type(&mut self, member: &CMember) -> Option<(Type, Option<u8>)> {
        let mut ty = self.c_type(&member.ty)?;
        for length in member.arrays.iter().rev() {
            let count = match length {
                None => 0,
                Some(expr) => match self.constant(expr) {
                    Some(count) if (0..=1 << 28).contains(&count) => count as u32,
                    _ => {
                        self.wrong(expr.span, "an array's length has to be a constant");
                        return None;
                    }
                },
            };
            ty = Type::Array { element: Box::new(ty), count };
        }
        let bits = match &member.bits {
            None => None,
            Some(expr) => match (self.constant(expr), &ty) {
                (Some(bits), Type::Integer(_) | Type::Bool)
                    if bits >= 0 && bits <= i64::from(ty.size()) * 8 =>
                {
                    Some(bits as u8)
                }
                _ => {
                    self.wrong(expr.span, "a bit field's width has to be a constant within its integer type");
                    return None;
                }
            },
        };
        Some((ty, bits))
    }

    fn c_type(&mut self, ty: &CType) -> Option<Type> {
        match ty {
            CType::Named(ty) => self.named(ty),
            CType::Record(record) => Some(self.record(record)),
            CType::Enum(found) => Some(self.enumeration(found)),
            CType::PointerTo(to) => Some(Type::pointer(self.c_type(to)?, Space::Kernel)),
        }
    }

    fn named(&mut self, ty: &TypeExpr) -> Option<Type> {
        let found = match &ty.kind {
            TypeKind::Name(name) => self.resolver.named(name),
            TypeKind::Struct(name) => self.resolver.record(name, false).map(Type::Record),
            TypeKind::Union(name) => self.resolver.record(name, true).map(Type::Record),
            TypeKind::Enum(name) => self.resolver.enumeration(name),
            TypeKind::Pointer(to) => {
                // A pointer needs nothing of what it points to.
                let inner = match &to.kind {
                    TypeKind::Struct(name) => {
                        self.resolver.record(name, false).map_or(Type::Void, Type::Record)
                    }
                    TypeKind::Union(name) => {
                        self.resolver.record(name, true).map_or(Type::Void, Type::Record)
                    }
                    _ => self.named(to)?,
                };
                Some(Type::pointer(inner, Space::Kernel))
            }
            _ => None,
        };
        if found.is_none() {
            let name = crate::syntax::print::print_type(ty);
            let message = format!("'{name}' is not a type known here");
            self.findings.add(Diagnostic::error(Code::UnknownType, ty.span, message));
        }
        found
    }

    fn enumeration(&mut self, found: &CEnum) -> Type {
        let mut values = Vec::new();
        let mut next = 0i64;
        for (name, value) in &found.values {
            if let Some(expr) = value {
                match self.constant_with(expr, &values) {
                    Some(value) => next = value,
                    None => self.wrong(expr.span, "the value of an enumerator has to be a constant"),
                }
            }
            values.push((Rc::<str>::from(name.text.as_str()), next));
            next = next.wrapping_add(1);
        }
        let signed = values.iter().any(|(_, value)| *value < 0);
        let wide =
            values.iter().any(|(_, value)| *value > i64::from(u32::MAX) || *value < i64::from(i32::MIN));
        let integer = Integer { bytes: if wide { 8 } else { 4 }, signed, names: None };
        let name = found.name.as_ref().map_or("", |name| name.text.as_str());
        let id = self.resolver.add_enum(Enumeration { name: name.into(), values: values.clone() });
        let mut declared = self.resolver.declared.borrow_mut();
        if !name.is_empty() {
            declared.enums.insert(name.into(), (id, integer));
        }
        for (name, value) in values {
            declared.constants.insert(name.to_string(), (value, id, integer));
        }
        Type::Integer(Integer { names: Some(id), ..integer })
    }

    fn constant(&self, expr: &Expr) -> Option<i64> {
        self.constant_with(expr, &[])
    }

    /// A constant expression of integers, enumerators and `sizeof`.
    fn constant_with(&self, expr: &Expr, names: &[(Rc<str>, i64)]) -> Option<i64> {
        use crate::hir::{BinaryOp, UnaryOp};
        Some(match &expr.kind {
            ExprKind::Int(value) => *value as i64,
            ExprKind::Name(name) => match names.iter().find(|(have, _)| **have == **name) {
                Some((_, value)) => *value,
                None => self.resolver.constant(name)?.0,
            },
            ExprKind::Unary(UnaryOp::Neg, inner) => self.constant_with(inner, names)?.wrapping_neg(),
            ExprKind::Unary(UnaryOp::BitNot, inner) => !self.constant_with(inner, names)?,
            ExprKind::Cast(_, inner) => self.constant_with(inner, names)?,
            ExprKind::Binary(op, left, right) => {
                let (left, right) = (self.constant_with(left, names)?, self.constant_with(right, names)?);
                match op {
                    BinaryOp::Add => left.wrapping_add(right),
                    BinaryOp::Sub => left.wrapping_sub(right),
                    BinaryOp::Mul => left.wrapping_mul(right),
                    BinaryOp::Div => left.checked_div(right)?,
                    BinaryOp::Mod => left.checked_rem(right)?,
                    BinaryOp::And => left & right,
                    BinaryOp::Or => left | right,
                    BinaryOp::Xor => left ^ right,
                    BinaryOp::Shl => left.checked_shl(u32::try_from(right).ok()?)?,
                    BinaryOp::Shr => left.checked_shr(u32::try_from(right).ok()?)?,
                    _ => return None,
                }
            }
            ExprKind::Call { name, arguments } if name.text == "sizeof" => match arguments.as_slice() {
                [Argument::Type(ty)] => match &ty.kind {
                    TypeKind::Name(name) => i64::from(self.resolver.named(name)?.size()),
                    TypeKind::Struct(name) => i64::from(self.resolver.record(name, false)?.size),
                    TypeKind::Pointer(_) => 8,
                    _ => return None,
                },
                _ => return None,
            },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parser::parse;
    use crate::syntax::preprocess::{nothing_known, preprocess};

    fn laid_out(text: &str, name: &str) -> String {
        let findings = Findings::default();
        let preprocessed = preprocess(text, 0, &[], &nothing_known, &findings);
        let ast = parse(text, 0, &preprocessed, &[], &findings);
        let facts = bpf::facts::SavedFacts::default();
        let resolver = Resolver::new(&facts);
        declare(&ast, &resolver, &findings);
        let found: Vec<String> = findings.into_sorted().iter().map(|one| one.message.clone()).collect();
        if !found.is_empty() {
            return found.join("; ");
        }
        let Some(record) = resolver.record(name, false) else { return "none".into() };
        let fields = resolver.field_names(record.id).into_iter().map(|field| {
            let found = resolver.field(record.id, &field).expect("it was listed");
            let bits = found.bits.map_or(String::new(), |bits| format!(":{}+{}", bits.shift, bits.bits));
            format!("{field}@{}{bits}", found.offset)
        });
        format!("{} {} {}", record.size, record.align, fields.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn layouts_are_those_of_the_c_compiler() {
        let check = |members: &str, expected: &str| {
            assert_eq!(laid_out(&format!("struct s {{ {members} }};"), "s"), expected, "{members}");
        };
        check("char a; int b; char c;", "12 4 a@0 b@4 c@8");
        check("char a; long b; short c[3];", "24 8 a@0 b@8 c@16");
        check("int a : 3; int b : 7; int c : 24; char d;", "8 4 a@0:0+3 b@0:3+7 c@4:0+24 d@7");
        check("union { int x; char y[7]; }; struct { short z; } w;", "12 4 x@0 y@0 w@8");
        check("void *p; struct s *next; enum { A = 4, B } e; char z[B];", "32 8 p@0 next@8 e@16 z@20");
    }

    #[test]
    fn packed_and_wrong_ones() {
        assert_eq!(laid_out("struct s { char a; int b; } __attribute__((packed));", "s"), "5 1 a@0 b@1");
        assert_eq!(laid_out("struct s { struct s x; };", "s"), "this member's type is not complete here");
        assert_eq!(laid_out("struct s { int a; }; struct s { int b; };", "s"), "'s' is defined twice");
        assert_eq!(laid_out("struct s { nothing a; };", "s"), "'nothing' is not a type known here");
        assert_eq!(
            laid_out("typedef unsigned char u; struct s { u a[2]; u b : 9; };", "s"),
            "a bit field's width has to be a constant within its integer type"
        );
    }
}
