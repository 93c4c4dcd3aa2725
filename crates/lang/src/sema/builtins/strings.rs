//! Strings, buffers and bytes.

use super::super::checker::Checker;
use super::super::convert::constant;
use super::super::place::Value;
use super::super::types::settle;
use super::{Builtin, Call, Check, Mode, row};
use crate::diagnostic::Code;
use crate::hir::{Expr, ExprKind, Intrinsic};
use crate::syntax::ast;
use crate::types::Type;

pub(super) const ROWS: &[Builtin] = &[
    row(
        &["str"],
        "string str(char *data [, uint32 length])",
        "Reads a string that ends with NUL, at most length characters and at most max_strlen.",
        Mode::Inline,
        (1, 2),
        Check::Value(str_value),
    ),
    row(
        &["buf"],
        "buffer buf(void *data [, uint32 length])",
        "Reads that many bytes, at most max_strlen; an array's length is known.",
        Mode::Inline,
        (1, 2),
        Check::Value(buf),
    ),
    row(
        &["strlen"],
        "uint64 strlen(string s)",
        "Length of a string up to its NUL.",
        Mode::Inline,
        (1, 1),
        Check::Value(strlen),
    ),
    row(
        &["strcap"],
        "int64 strcap(string s)",
        "Room that a string or array has; the length of what a pointer points to.",
        Mode::Inline,
        (1, 1),
        Check::Value(strcap),
    ),
    row(
        &["strncmp"],
        "int64 strncmp(string a, string b, const int n)",
        "Compares the first n characters; 0 when they are equal.",
        Mode::Inline,
        (3, 3),
        Check::Value(strncmp),
    ),
    row(
        &["strcontains"],
        "bool strcontains(string haystack, string needle)",
        "Whether the first string has the second in it.",
        Mode::Inline,
        (2, 2),
        Check::Value(strcontains),
    ),
    row(
        &["strstr"],
        "int64 strstr(string haystack, string needle)",
        "Where the second string begins in the first; -1 if it is not there.",
        Mode::Inline,
        (2, 2),
        Check::Value(strstr),
    ),
    row(
        &["globmatch"],
        "bool globmatch(string s, const string pattern)",
        "Whether the whole string matches a pattern with *, ? and [ ].",
        Mode::Inline,
        (2, 2),
        Check::Value(globmatch),
    ),
    row(
        &["memcmp"],
        "int32 memcmp(left, right, const int count)",
        "Compares that many bytes; 0 when they are equal.",
        Mode::Inline,
        (3, 3),
        Check::Value(memcmp),
    ),
    row(
        &["bswap"],
        "uintN bswap(uintN n)",
        "The integer with its bytes in reverse order.",
        Mode::Inline,
        (1, 1),
        Check::Value(bswap),
    ),
    row(
        &["path"],
        "string path(struct path *path [, const int size])",
        "The path of a file; where the kernel allows it (fentry of some functions, iterators, tp_btf).",
        Mode::Inline,
        (1, 2),
        Check::Value(path),
    ),
    row(
        &["ntop"],
        "inet ntop([int family, ] address)",
        "An IPv4 or IPv6 address, to print; 4 bytes or an integer, or 16 bytes.",
        Mode::Inline,
        (1, 2),
        Check::Value(ntop),
    ),
    row(
        &["pton"],
        "char[4|16] pton(const string address)",
        "The bytes of an IPv4 or IPv6 address written as text.",
        Mode::Comptime,
        (1, 1),
        Check::Value(pton),
    ),
    row(
        &["macaddr"],
        "macaddr_t macaddr(char[6] address)",
        "A hardware address, to print.",
        Mode::Inline,
        (1, 1),
        Check::Value(macaddr),
    ),
    row(
        &["kptr"],
        "T *kptr(T *p)",
        "The pointer as one into kernel memory.",
        Mode::Comptime,
        (1, 1),
        Check::Value(kptr),
    ),
    row(
        &["uptr"],
        "T *uptr(T *p)",
        "The pointer as one into the process's memory.",
        Mode::Comptime,
        (1, 1),
        Check::Value(kptr),
    ),
];

/// The characters of `$1` plus an offset into it, which `str()` sees as a pointer.
fn parameter_text<'a>(checker: &mut Checker<'a>, expr: &'a ast::Expr) -> Option<Vec<u8>> {
    if let Some(text) = checker.positional_text(expr) {
        return Some(text);
    }
    let ast::ExprKind::Binary(crate::hir::BinaryOp::Add, base, offset) = &expr.kind else { return None };
    let text = checker.positional_text(base)?;
    let offset = checker.rvalue(offset);
    let offset = usize::try_from(constant(&offset)?).ok()?;
    match text.get(offset..) {
        Some(rest) => Some(rest.to_vec()),
        None => {
            let message = format!("the parameter has {} characters", text.len());
            checker.error(Code::BadIndex, expr.span, message);
            Some(Vec::new())
        }
    }
}

fn str_value<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let span = call.span;
    let most = checker.config.max_strlen;
    let mut room = most;
    let mut length = None;
    if call.arguments.len() > 1 {
        let value = checker.argument_integer(call, 1)?;
        match constant(&value) {
            Some(number) if number < 0 => {
                return checker.misused(call, value.span, "a length cannot be negative");
            }
            Some(number) => {
                if number >= i128::from(most) {
                    let message =
                        format!("max_strlen is {most}, so str() reads at most {} characters", most - 1);
                    checker.warn(Code::TooLarge, value.span, message);
                }
                room = (number + 1).min(i128::from(most)) as u32;
            }
            None => {
                let value = checker.widen(value);
                let value = checker.coerced(value, &Type::U64);
                // One more for the NUL.
                let one = checker.int(1, Type::U64, span);
                length = Some(checker.binary_of(crate::hir::BinaryOp::Add, value, one, span));
            }
        }
    }
    let written = checker.argument_ast(call, 0)?;
    if let Some(mut text) = parameter_text(checker, written) {
        text.truncate(room as usize - 1);
        return Some(checker.string(&text, span));
    }
    let value = checker.argument_place(call, 0)?;
    let (text, pointee) = match &value {
        Value::Expr(expr) => (matches!(expr.ty, Type::String(_)), expr.ty.clone()),
        Value::Place(place) => (false, place.ty.clone()),
        Value::Args(_) => (false, Type::Void),
    };
    if text {
        // A string already: cut if a length is given.
        let expr = checker.read(value);
        return match (&expr.ty, &length) {
            (Type::String(have), None) if room < *have => Some(checker.coerced(expr, &Type::String(room))),
            (_, None) => Some(expr),
            _ => {
                let pointer = checker.pointer_to(Value::Expr(expr), span);
                let mut arguments = vec![pointer];
                arguments.extend(length);
                Some(checker.make(ExprKind::Intrinsic(Intrinsic::Str, arguments), Type::String(room), span))
            }
        };
    }
    match &pointee {
        Type::Array { element, count } if element.size() == 1 && *count > 0 => room = room.min(count + 1),
        Type::Array { count: 0, .. } | Type::Pointer { .. } | Type::Integer(_) => {}
        ty => {
            let message = format!("str() reads from a pointer, and this is a {}", checker.show(ty));
            return checker.misused(call, call.arguments[0].span(), message);
        }
    }
    let pointer = checker.pointer_to(value, span);
    let mut arguments = vec![pointer];
    arguments.extend(length);
    Some(checker.make(ExprKind::Intrinsic(Intrinsic::Str, arguments), Type::String(room), span))
}

fn buf<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let span = call.span;
    let most = checker.config.max_strlen;
    let value = checker.argument_place(call, 0)?;
    let known = match &value {
        Value::Place(place) => match &place.ty {
            Type::Array { count, .. } if *count > 0 => Some(place.ty.size()),
            Type::Record(record) => Some(record.size),
            _ => None,
        },
        Value::Expr(expr) => match &expr.ty {
            Type::Array { .. } => Some(expr.ty.size()),
            Type::Buffer(_) => return Some(expr.clone()),
            Type::String(size) => Some(*size),
            _ => None,
        },
        Value::Args(_) => None,
    };
    let (room, length) = if call.arguments.len() > 1 {
        let value = checker.argument_integer(call, 1)?;
        match constant(&value) {
            Some(number) if number <= 0 => {
                return checker.misused(call, value.span, "a length has to be positive");
            }
            Some(number) => {
                if number > i128::from(most) {
                    let message = format!("max_strlen is {most}, so buf() reads at most {most} bytes");
                    checker.warn(Code::TooLarge, value.span, message);
                }
                let room = number.min(i128::from(most)) as u32;
                (room, checker.int(u64::from(room), Type::U32, span))
            }
            None => (most, checker.coerced(value, &Type::U32)),
        }
    } else {
        match known {
            Some(size) => {
                let room = size.min(most);
                (room, checker.int(u64::from(room), Type::U32, span))
            }
            None => return checker.misused(call, span, "buf() needs a length unless it reads an array"),
        }
    };
    let pointer = checker.pointer_to(value, span);
    if !matches!(pointer.ty, Type::Pointer { .. }) {
        let message = format!("buf() reads from a pointer, and this is a {}", checker.show(&pointer.ty));
        return checker.misused(call, pointer.span, message);
    }
    Some(checker.make(ExprKind::Intrinsic(Intrinsic::Buf, vec![pointer, length]), Type::Buffer(room), span))
}

/// An argument as a string: pointers to `char` are read.
pub(super) fn text_argument<'a>(checker: &mut Checker<'a>, call: &Call<'a>, position: usize) -> Option<Expr> {
    let written = checker.argument_ast(call, position)?;
    if let Some(text) = checker.positional_text(written) {
        return Some(checker.string(&text, written.span));
    }
    let value = checker.argument_value(call, position)?;
    match &value.ty {
        Type::String(_) => Some(value),
        Type::Pointer { to, .. } if to.size() == 1 => {
            let span = value.span;
            let ty = Type::String(checker.config.max_strlen);
            Some(checker.make(ExprKind::Intrinsic(Intrinsic::Str, vec![value]), ty, span))
        }
        ty => {
            let message = format!("{}() needs a string here, not a {}", call.name, checker.show(ty));
            checker.misused(call, value.span, message)
        }
    }
}

fn strlen<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let text = text_argument(checker, call, 0)?;
    if let ExprKind::Str(bytes) = &text.kind {
        let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        return Some(checker.int(length as u64, Type::U64, call.span));
    }
    Some(checker.make(ExprKind::Intrinsic(Intrinsic::StrLength, vec![text]), Type::U64, call.span))
}

fn strcap<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let value = checker.argument_place(call, 0)?;
    let ty = match &value {
        Value::Expr(expr) => expr.ty.clone(),
        Value::Place(place) => place.ty.clone(),
        Value::Args(_) => Type::Void,
    };
    match ty {
        Type::String(size) => Some(checker.int(u64::from(size), Type::I64, call.span)),
        Type::Array { count, .. } => Some(checker.int(u64::from(count), Type::I64, call.span)),
        _ => {
            let length = strlen(checker, call)?;
            Some(checker.coerced(length, &Type::I64))
        }
    }
}

fn strncmp<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let left = text_argument(checker, call, 0)?;
    let right = text_argument(checker, call, 1)?;
    let n = checker.argument_constant(call, 2)?;
    if !(0..=i128::from(u32::MAX)).contains(&n) {
        return checker.misused(call, call.span, "the number of characters cannot be negative");
    }
    let intrinsic = Intrinsic::CompareStrings { n: n as u32 };
    Some(checker.make(ExprKind::Intrinsic(intrinsic, vec![left, right]), Type::I64, call.span))
}

fn two_texts<'a>(checker: &mut Checker<'a>, call: &Call<'a>, intrinsic: Intrinsic, ty: Type) -> Option<Expr> {
    let left = text_argument(checker, call, 0)?;
    let right = text_argument(checker, call, 1)?;
    Some(checker.make(ExprKind::Intrinsic(intrinsic, vec![left, right]), ty, call.span))
}

fn strcontains<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    two_texts(checker, call, Intrinsic::StrContains, Type::Bool)
}

fn strstr<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    two_texts(checker, call, Intrinsic::StrFind, Type::I64)
}

fn globmatch<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let value = two_texts(checker, call, Intrinsic::GlobMatch, Type::Bool)?;
    if let ExprKind::Intrinsic(_, arguments) = &value.kind
        && !matches!(arguments[1].kind, ExprKind::Str(_))
    {
        checker.error(Code::NeedsLiteral, arguments[1].span, "the pattern has to be a string literal");
        return None;
    }
    Some(value)
}

fn memcmp<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let left = checker.argument_place(call, 0)?;
    let right = checker.argument_place(call, 1)?;
    let n = checker.argument_constant(call, 2)?;
    if !(1..=4096).contains(&n) {
        return checker.misused(call, call.span, "memcmp() compares 1 to 4096 bytes");
    }
    let left = checker.pointer_to(left, call.span);
    let right = checker.pointer_to(right, call.span);
    for side in [&left, &right] {
        if !matches!(side.ty, Type::Pointer { .. }) {
            let message = format!("memcmp() compares memory, and this is a {}", checker.show(&side.ty));
            return checker.misused(call, side.span, message);
        }
    }
    let intrinsic = Intrinsic::CompareMemory { n: n as u32 };
    Some(checker.make(ExprKind::Intrinsic(intrinsic, vec![left, right]), Type::signed(4), call.span))
}

fn bswap<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let value = checker.argument_integer(call, 0)?;
    let bytes = value.ty.size() as u8;
    let ty = Type::unsigned(bytes);
    if let Some(number) = constant(&value) {
        let swapped = (number as u64).swap_bytes() >> (64 - u32::from(bytes) * 8);
        return Some(checker.int(swapped, ty, call.span));
    }
    let value = checker.coerced(value, &ty);
    Some(checker.make(ExprKind::Intrinsic(Intrinsic::ByteSwap, vec![value]), ty, call.span))
}

fn path<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let mut room = checker.config.max_strlen;
    if call.arguments.len() > 1 {
        match checker.argument_constant(call, 1)? {
            size if (1..=i128::from(room)).contains(&size) => room = size as u32,
            _ => return checker.misused(call, call.span, "the size is between 1 and max_strlen"),
        }
    }
    let value = checker.argument_place(call, 0)?;
    // A struct path within another struct stands for its address.
    let pointer = checker.pointer_to(value, call.span);
    match &pointer.ty {
        Type::Pointer { to, .. } if matches!(**to, Type::Record(_)) => {}
        ty => {
            let message = format!("path() takes a struct path *, not a {}", checker.show(ty));
            return checker.misused(call, pointer.span, message);
        }
    }
    Some(checker.make(ExprKind::Intrinsic(Intrinsic::Path, vec![pointer]), Type::String(room), call.span))
}

fn ntop<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let family = call.arguments.len() == 2;
    let mut arguments = Vec::new();
    if family {
        arguments.push(checker.argument_as(call, 0, &Type::U32)?);
    }
    let position = usize::from(family);
    // Before it decays: an address may be an array of char.
    let value = checker.argument_place(call, position)?;
    let address = checker.read(value);
    let address = match &address.ty {
        Type::Integer(_) | Type::Bool => checker.coerced(address, &Type::U32),
        Type::Array { .. } if matches!(address.ty.size(), 4 | 16) => address,
        // A struct in6_addr, a struct in_addr.
        Type::Record(record) if matches!(record.size, 4 | 16) => address,
        ty => {
            let message = format!("ntop() takes an integer, 4 or 16 bytes, not a {}", checker.show(ty));
            return checker.misused(call, address.span, message);
        }
    };
    arguments.push(address);
    Some(checker.make(ExprKind::Intrinsic(Intrinsic::Inet { family }, arguments), Type::Inet, call.span))
}

fn pton<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let text = checker.argument_string(call, 0)?;
    let bytes = match text.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(address)) => address.octets().to_vec(),
        Ok(std::net::IpAddr::V6(address)) => address.octets().to_vec(),
        Err(_) => return checker.misused(call, call.span, format!("'{text}' is no IPv4 or IPv6 address")),
    };
    let ty = Type::Array { element: Box::new(Type::unsigned(1)), count: bytes.len() as u32 };
    Some(checker.make(ExprKind::Bytes(bytes), ty, call.span))
}

fn macaddr<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let value = checker.argument_place(call, 0)?;
    let ty = match &value {
        Value::Expr(expr) => expr.ty.clone(),
        Value::Place(place) => place.ty.clone(),
        Value::Args(_) => Type::Void,
    };
    match &ty {
        Type::Array { element, count } if element.size() == 1 && *count >= 6 || *count == 0 => {}
        Type::Pointer { .. } | Type::Integer(_) => {}
        ty => {
            let message = format!("macaddr() takes 6 bytes, not a {}", checker.show(ty));
            return checker.misused(call, call.arguments[0].span(), message);
        }
    }
    let pointer = checker.pointer_to(value, call.span);
    Some(checker.make(ExprKind::Intrinsic(Intrinsic::MacAddress, vec![pointer]), Type::MacAddress, call.span))
}

fn kptr<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<Expr> {
    let value = checker.argument_value(call, 0)?;
    let space = if call.name == "kptr" { crate::types::Space::Kernel } else { crate::types::Space::User };
    match settle(value.ty.clone()) {
        Type::Pointer { to, .. } => {
            let to = if space == crate::types::Space::User {
                Box::new(super::super::probes::in_user_space(*to))
            } else {
                to
            };
            Some(Expr { ty: Type::Pointer { to, space }, ..value })
        }
        Type::Integer(_) => {
            let value = checker.widen(value);
            let ty = Type::pointer(Type::U64, space);
            let span = value.span;
            Some(checker.make(ExprKind::Cast(crate::hir::Cast::Integer, Box::new(value)), ty, span))
        }
        ty => {
            let message = format!("{}() takes a pointer, not a {}", call.name, checker.show(&ty));
            checker.misused(call, value.span, message)
        }
    }
}
