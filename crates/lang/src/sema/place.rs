//! Places in memory: fields, indexes, pointers followed, arguments of probes.

use super::checker::{Checker, Key};
use super::convert::{aggregate_name, constant, is_unknown};
use super::expr::shorten;
use super::probes::{Args, in_user_space};
use super::types::{Found, settle};
use crate::diagnostic::{Code, Diagnostic};
use crate::hir::{Base, Expr, ExprKind, Index, Place};
use crate::schema::{MapId, MapValue};
use crate::source::Span;
use crate::syntax::ast;
use crate::syntax::print::print_expr;
use crate::types::{BitField, Space, Type};

/// A value, or a place that may be read, indexed or have its address taken.
#[derive(Clone, Debug)]
pub enum Value {
    /// A value.
    Expr(Expr),
    /// A place.
    Place(PlaceValue),
    /// `args` as a whole.
    Args(Span),
}

/// A place with its type.
#[derive(Clone, Debug)]
pub struct PlaceValue {
    /// Where.
    pub place: Place,
    /// What is there.
    pub ty: Type,
    /// Set for bit fields.
    pub bits: Option<BitField>,
    /// Where it is in the text.
    pub span: Span,
}

impl<'a> Checker<'a> {
    /// Reads a place; a value stays as it is.
    pub fn read(&mut self, value: Value) -> Expr {
        match value {
            Value::Expr(expr) => expr,
            Value::Args(span) => self.whole_args(span),
            Value::Place(place) => self.read_place(place),
        }
    }

    pub(super) fn read_place(&mut self, value: PlaceValue) -> Expr {
        let PlaceValue { place, ty, bits, span } = value;
        if ty == Type::Void {
            return self.error(
                Code::NotAPointer,
                span,
                "this has no type that could be read: cast the pointer first",
            );
        }
        if ty.size() == 0 && matches!(ty, Type::Record(_)) {
            let message = format!("{} is only declared in this kernel's types, not defined", self.show(&ty));
            return self.error(Code::UnknownType, span, message);
        }
        // A pointer read from somewhere points into the same space, unless its type says otherwise.
        let ty = match ty {
            Type::Pointer { to, space: Space::Kernel } => {
                let object = matches!(*to, Type::Record(_)) && place.indexes.is_empty();
                let iterator =
                    self.body.variant.is_some_and(|variant| matches!(variant.args, Args::Iterator(_)));
                let space = match place.space() {
                    Space::User => Space::User,
                    Space::Context if iterator && object => Space::Btf,
                    Space::Btf if object => Space::Btf,
                    _ => Space::Kernel,
                };
                let to = if space == Space::User { Box::new(in_user_space(*to)) } else { to };
                Type::Pointer { to, space }
            }
            other => other,
        };
        // A flexible array has no bytes to read: it stands for its address.
        if let Type::Array { element, count: 0 } = &ty {
            let space = place.space();
            let pointer = Type::Pointer { to: element.clone(), space };
            return self.make(ExprKind::AddressOf(place), pointer, span);
        }
        let span = self.at(span);
        Expr { kind: ExprKind::Read { place, bits }, ty, span }
    }

    /// The address of a place as a pointer to what is there; of an array, to its first element.
    pub fn address(&mut self, place: PlaceValue, element: bool) -> Expr {
        let space = place.place.space();
        let to = match &place.ty {
            Type::Array { element: of, .. } if element => (**of).clone(),
            other => other.clone(),
        };
        if place.bits.is_some() {
            return self.error(Code::BadAddress, place.span, "a bit field has no address");
        }
        let ty = Type::pointer(to, space);
        self.make(ExprKind::AddressOf(place.place), ty, place.span)
    }

    /// `&x`
    pub fn address_of_ast(&mut self, inner: &'a ast::Expr, span: Span) -> Expr {
        match &inner.kind {
            ast::ExprKind::Variable(name) => match self.variable(name, inner.span) {
                Ok(local) => {
                    self.take_address(local);
                    let ty = Type::pointer(settle(self.local_type(local).clone()), Space::Own);
                    self.make(ExprKind::AddressOfLocal(local), ty, span)
                }
                Err(Some(bound)) => self.in_frame(bound.frame, |this| this.address_of_ast(bound.expr, span)),
                Err(None) => self.expr(inner),
            },
            ast::ExprKind::Map { name, key } => {
                let Some((map, key)) = self.map_and_key(name, key.as_deref(), inner.span) else {
                    return self.unknown(span);
                };
                let Some(MapValue::Plain(ty)) = self.map_info(map).value.clone() else {
                    return self.unknown_map(map, inner.span);
                };
                let ty = Type::pointer(settle(ty), Space::Own);
                self.make(ExprKind::AddressOfMap { map, key: key.map(Box::new) }, ty, span)
            }
            ast::ExprKind::Name(name) if self.binding(name).is_some() => {
                let bound = self.binding(name).expect("just found");
                self.in_frame(bound.frame, |this| this.address_of_ast(bound.expr, span))
            }
            _ => match self.value(inner) {
                Value::Place(mut place) => {
                    place.span = span;
                    self.address(place, false)
                }
                Value::Expr(expr) if is_unknown(&expr) => expr,
                _ => {
                    let message = format!("{} is a value without an address", shorten(&print_expr(inner)));
                    self.error(Code::BadAddress, span, message)
                }
            },
        }
    }

    /// `*x`
    pub fn deref(&mut self, inner: &'a ast::Expr, span: Span) -> Value {
        let pointer = self.rvalue(inner);
        if is_unknown(&pointer) {
            return Value::Expr(pointer);
        }
        self.follow(pointer, span)
    }

    /// What a pointer points at.
    pub fn follow(&mut self, pointer: Expr, span: Span) -> Value {
        match &pointer.ty {
            Type::Pointer { to, .. } if **to != Type::Void => {
                let ty = (**to).clone();
                Value::Place(PlaceValue { place: pointer_place(pointer), ty, bits: None, span })
            }
            Type::Pointer { .. } => {
                let finding =
                    Diagnostic::error(Code::NotAPointer, self.at(span), "a void pointer cannot be followed");
                Value::Expr(self.report(finding.help("cast it to a pointer to what is there: *(uint64 *)p")))
            }
            // An integer is taken as the address of a 64-bit word, as kaddr() gives it.
            Type::Integer(_) => {
                let space = self.body.variant.map_or(Space::Kernel, |variant| variant.space);
                let to = Type::pointer(Type::U64, space);
                let pointer = self.cast_to(pointer, &to, span);
                Value::Place(PlaceValue { place: pointer_place(pointer), ty: Type::U64, bits: None, span })
            }
            ty => {
                let message = format!("a {} is no pointer, so it cannot be followed", self.show(ty));
                Value::Expr(self.error(Code::NotAPointer, span, message))
            }
        }
    }

    /// `x.name`, `x->name`
    pub fn field(&mut self, base: &'a ast::Expr, name: &'a ast::Text, span: Span) -> Value {
        let value = self.value(base);
        self.field_of(value, &name.text, name.span, span)
    }

    /// A field of a value or place.
    pub fn field_of(&mut self, value: Value, name: &str, name_span: Span, span: Span) -> Value {
        match value {
            Value::Args(_) => self.argument(name, name_span, span),
            Value::Place(place) => match &place.ty {
                Type::Record(record) => {
                    let record = record.id;
                    match self.resolver.field(record, name) {
                        Some(found) => Value::Place(place_field(place, found, span)),
                        None => Value::Expr(self.no_field(record, name, name_span)),
                    }
                }
                _ => {
                    let expr = self.read_place(place);
                    self.field_of(Value::Expr(expr), name, name_span, span)
                }
            },
            Value::Expr(expr) if is_unknown(&expr) => Value::Expr(expr),
            Value::Expr(expr) => self.field_of_expr(expr, name, name_span, span),
        }
    }

    fn field_of_expr(&mut self, expr: Expr, name: &str, name_span: Span, span: Span) -> Value {
        match expr.ty.clone() {
            Type::Pointer { to, .. } => match *to {
                Type::Record(_) => {
                    let place = PlaceValue { place: pointer_place(expr), ty: *to, bits: None, span };
                    self.field_of(Value::Place(place), name, name_span, span)
                }
                _ => {
                    let message = format!("a {} has no fields", self.show(&expr.ty));
                    Value::Expr(self.not_a_struct(message, name_span))
                }
            },
            Type::Record(record) => match self.resolver.field(record.id, name) {
                Some(found) => {
                    let place = Place { base: Base::Value(Box::new(expr)), offset: 0, indexes: Vec::new() };
                    let place = PlaceValue { place, ty: Type::Record(record), bits: None, span };
                    Value::Place(place_field(place, found, span))
                }
                None => Value::Expr(self.no_field(record.id, name, name_span)),
            },
            Type::Tuple(fields) => {
                let position = match name.parse::<usize>() {
                    Ok(position) => Some(position).filter(|position| *position < fields.len()),
                    Err(_) => fields.iter().position(|field| field.name.as_deref() == Some(name)),
                };
                let Some(position) = position else {
                    let message = if name.starts_with(|c: char| c.is_ascii_digit()) {
                        format!("this tuple has {} fields, counted from 0", fields.len())
                    } else {
                        format!("this {} has no field '{name}'", self.show(&expr.ty))
                    };
                    let names: Vec<&str> = fields.iter().filter_map(|field| field.name.as_deref()).collect();
                    let finding = Diagnostic::error(Code::UnknownField, self.at(name_span), message);
                    return Value::Expr(self.report(finding.suggest(name, names)));
                };
                // A field of a tuple just made is that expression.
                if let ExprKind::Tuple(values) = expr.kind {
                    return Value::Expr(values.into_iter().nth(position).expect("as many as fields"));
                }
                let field = &fields[position];
                let place = Place {
                    base: Base::Value(Box::new(expr)),
                    offset: i64::from(field.offset),
                    indexes: Vec::new(),
                };
                Value::Place(PlaceValue { place, ty: field.ty.clone(), bits: None, span })
            }
            ty => {
                let message = format!("a {} has no fields", self.show(&ty));
                Value::Expr(self.not_a_struct(message, name_span))
            }
        }
    }

    fn not_a_struct(&mut self, message: String, span: Span) -> Expr {
        let finding = Diagnostic::error(Code::NotAStruct, self.at(span), message);
        self.report(finding.help("cast it to a pointer to its struct first: ((struct x *)arg0)->field"))
    }

    fn no_field(&mut self, record: crate::types::RecordId, name: &str, span: Span) -> Expr {
        let names = self.resolver.field_names(record);
        let owner = self.resolver.record_name(record);
        let message = if names.is_empty() {
            format!("{owner} is only declared in this kernel's types, so it has no field '{name}'")
        } else {
            format!("{owner} has no field '{name}'")
        };
        let finding = Diagnostic::error(Code::UnknownField, self.at(span), message);
        let finding = match crate::diagnostic::did_you_mean(name, names.iter().map(String::as_str)) {
            Some(help) => finding.help(help),
            None if names.is_empty() => finding,
            None => {
                let more = if names.len() > 12 { ", …" } else { "" };
                finding.help(format!("it has {}{more}", names[..names.len().min(12)].join(", ")))
            }
        };
        self.report(finding)
    }

    /// `x[i]`
    pub fn index(&mut self, base: &'a ast::Expr, index: &'a ast::Expr, span: Span) -> Value {
        let value = self.value(base);
        let index = self.rvalue(index);
        if is_unknown(&index) {
            return Value::Expr(index);
        }
        if !index.ty.is_integral() {
            let message = format!("an index is an integer, and this is a {}", self.show(&index.ty));
            return Value::Expr(self.error(Code::BadIndex, index.span, message));
        }
        self.index_of(value, index, span)
    }

    pub fn index_of(&mut self, value: Value, index: Expr, span: Span) -> Value {
        let place = match value {
            Value::Args(at) => {
                return Value::Expr(self.error(Code::BadIndex, at, "args has fields, not elements"));
            }
            Value::Place(place) if matches!(place.ty, Type::Array { .. }) => place,
            Value::Place(place) => {
                let expr = self.read_place(place);
                return self.index_of(Value::Expr(expr), index, span);
            }
            Value::Expr(expr) if is_unknown(&expr) => return Value::Expr(expr),
            Value::Expr(expr) => match expr.ty.clone() {
                Type::Pointer { to, .. } => {
                    let ty = if *to == Type::Void { Type::unsigned(1) } else { *to };
                    PlaceValue {
                        place: pointer_place(expr),
                        ty: Type::Array { element: Box::new(ty), count: 0 },
                        bits: None,
                        span,
                    }
                }
                Type::Array { .. } => {
                    let ty = expr.ty.clone();
                    let place = Place { base: Base::Value(Box::new(expr)), offset: 0, indexes: Vec::new() };
                    PlaceValue { place, ty, bits: None, span }
                }
                Type::String(size) => {
                    let place = Place { base: Base::Value(Box::new(expr)), offset: 0, indexes: Vec::new() };
                    let ty = Type::Array { element: Box::new(Type::signed(1)), count: size };
                    PlaceValue { place, ty, bits: None, span }
                }
                Type::Tuple(_) => match constant(&index) {
                    Some(position) if position >= 0 => {
                        return self.field_of(Value::Expr(expr), &position.to_string(), index.span, span);
                    }
                    _ => {
                        let message = "fields of a tuple are numbered by constants";
                        return Value::Expr(self.error(Code::BadIndex, index.span, message));
                    }
                },
                Type::Integer(_) => match self.follow(expr, span) {
                    Value::Place(place) => PlaceValue {
                        ty: Type::Array { element: Box::new(place.ty.clone()), count: 0 },
                        ..place
                    },
                    other => return other,
                },
                ty => {
                    let message = format!("a {} has no elements", self.show(&ty));
                    return Value::Expr(self.error(Code::BadIndex, span, message));
                }
            },
        };
        let Type::Array { element, count } = place.ty.clone() else { return Value::Place(place) };
        let stride = element.size().max(1);
        let mut inner = place.place;
        match constant(&index) {
            Some(position) => {
                let pointer = count == 0;
                if !pointer && (position < 0 || position >= i128::from(count)) {
                    let message = format!("this array has {count} elements, counted from 0");
                    return Value::Expr(self.error(Code::BadIndex, index.span, message));
                }
                inner.offset += position as i64 * i64::from(stride);
            }
            None => {
                let index = self.widen(index);
                inner.indexes.push(Index { value: index, stride, count: (count > 0).then_some(count) });
                // An offset that is not constant is read as plain kernel memory.
                if let Base::Pointer(pointer) = &mut inner.base
                    && let Type::Pointer { space: space @ Space::Btf, .. } = &mut pointer.ty
                {
                    *space = Space::Kernel;
                }
            }
        }
        Value::Place(PlaceValue { place: inner, ty: *element, bits: None, span })
    }

    // Maps.

    /// A map and its key as used at a place; `None` when that is wrong and reported.
    pub fn map_and_key(
        &mut self,
        name: &'a str,
        key: Option<&'a ast::Expr>,
        span: Span,
    ) -> Option<(MapId, Option<Expr>)> {
        let frame = &self.body.frames[self.body.frame];
        if let Some(bound) = self.binding(name) {
            // The map that a macro was given.
            let ast::ExprKind::Map { name, key: own } = &bound.expr.kind else { return None };
            let key_frame = self.body.frame;
            return self.in_frame(bound.frame, |this| match (own, key) {
                (None, Some(key)) => {
                    let (map, _) = this.map_name(name, span)?;
                    let key = this.in_frame(key_frame, |this| this.rvalue(key));
                    this.checked_key(map, Some(key), span)
                }
                (own, _) => this.map_and_key(name, own.as_deref(), span),
            });
        }
        if !frame.open && frame.parent.is_none() {
            let owner = frame.name.unwrap_or("");
            let finding = Diagnostic::error(
                Code::BadMacro,
                self.at(span),
                format!("the macro {owner} uses {name}, which it was not given"),
            );
            self.report(finding.help(format!("hand the map in: macro {owner}({name}, …)")));
            return None;
        }
        let (map, _) = self.map_name(name, span)?;
        let key = key.map(|key| self.rvalue(key));
        self.checked_key(map, key, span)
    }

    fn map_name(&mut self, name: &'a str, span: Span) -> Option<(MapId, ())> {
        let map = self.map(name, span);
        self.map_info(map).used = true;
        Some((map, ()))
    }

    /// Joins a key into a map's key type and converts it.
    pub fn checked_key(
        &mut self,
        map: MapId,
        key: Option<Expr>,
        span: Span,
    ) -> Option<(MapId, Option<Expr>)> {
        let shape = match &key {
            None => Key::Scalar,
            Some(key) if is_unknown(key) => return None,
            Some(key) => {
                if matches!(key.ty, Type::Record(_)) {
                    let message = format!("a {} cannot be a key", self.show(&key.ty));
                    self.error(Code::BadKey, key.span, message);
                    return None;
                }
                Key::Of(key.ty.clone())
            }
        };
        if !self.join_key(map, &shape) {
            let info = self.map_info(map).clone();
            let have = match &info.key {
                Some(Key::Of(ty)) => format!("keys of type {}", self.show(ty)),
                _ => "no key".into(),
            };
            let used = match &key {
                Some(key) => format!("with a key of type {}", self.show(&key.ty)),
                None => "without a key".into(),
            };
            let message = format!("{} has {have} elsewhere and is used {used} here", info.name);
            let finding = Diagnostic::error(Code::BadKey, self.at(span), message);
            self.report(if info.span == span { finding } else { finding.note(info.span, "first used here") });
            return None;
        }
        let Some(key) = key else { return Some((map, None)) };
        let Some(Key::Of(ty)) = self.map_info(map).key.clone() else { return Some((map, Some(key))) };
        Some((map, Some(self.coerced(key, &ty))))
    }

    /// `@m`, `@m[k]` as a value.
    pub fn map_value(&mut self, name: &'a str, key: Option<&'a ast::Expr>, span: Span) -> Value {
        let Some((map, key)) = self.map_and_key(name, key, span) else {
            return Value::Expr(self.unknown(span));
        };
        Value::Expr(self.map_read(map, key, span))
    }

    /// Reads a map's entry.
    pub fn map_read(&mut self, map: MapId, key: Option<Expr>, span: Span) -> Expr {
        let key = key.map(Box::new);
        match self.map_info(map).value.clone() {
            None => self.unknown_map(map, span),
            Some(MapValue::Plain(Type::Void)) => self.unknown(span),
            Some(MapValue::Plain(ty)) => self.make(ExprKind::MapGet { map, key }, ty, span),
            Some(aggregate) => match aggregate_result(&aggregate) {
                Some(ty) => self.make(ExprKind::MapAggregate { map, key }, ty, span),
                None => {
                    let name = self.map_info(map).name.clone();
                    let message =
                        format!("{name} holds a {}, which has no single value", aggregate_name(&aggregate));
                    let finding = Diagnostic::error(Code::AggregateMisplaced, self.at(span), message);
                    self.report(finding.help(format!("print({name}) shows it")))
                }
            },
        }
    }

    /// Reports a map that nothing assigns.
    pub fn unknown_map(&mut self, map: MapId, span: Span) -> Expr {
        if self.incomplete {
            return self.unknown(span);
        }
        let name = self.map_info(map).name.clone();
        let names: Vec<String> =
            self.maps.iter().filter(|info| info.value.is_some()).map(|info| info.name.clone()).collect();
        let finding = Diagnostic::error(
            Code::UnknownMap,
            self.at(span),
            format!("{name} is never assigned in this program"),
        );
        self.report(finding.suggest(&name, names.iter().map(String::as_str)))
    }

    /// What a map holds, in words.
    pub fn map_value_name(&mut self, map: MapId) -> String {
        match self.map_info(map).value.clone() {
            None => "nothing".into(),
            Some(MapValue::Plain(ty)) => self.show(&ty),
            Some(aggregate) => aggregate_name(&aggregate).into(),
        }
    }

    /// A pointer to a value's first byte, for functions that read memory: of arrays to their
    /// elements, of strings to their bytes, a pointer as it is.
    pub fn pointer_to(&mut self, value: Value, span: Span) -> Expr {
        match value {
            Value::Place(place) if matches!(place.ty, Type::Array { .. } | Type::Record(_)) => {
                let element = matches!(place.ty, Type::Array { .. });
                self.address(PlaceValue { span, ..place }, element)
            }
            other => {
                let expr = self.read(other);
                match expr.ty.clone() {
                    Type::Array { element, .. } => self.own_address(expr, *element, span),
                    Type::String(_) => self.own_address(expr, Type::signed(1), span),
                    Type::Integer(_) => {
                        let space = self.body.variant.map_or(Space::Kernel, |variant| variant.space);
                        self.cast_to(expr, &Type::pointer(Type::Void, space), span)
                    }
                    _ => expr,
                }
            }
        }
    }

    fn own_address(&mut self, expr: Expr, element: Type, span: Span) -> Expr {
        let place = Place { base: Base::Value(Box::new(expr)), offset: 0, indexes: Vec::new() };
        self.make(ExprKind::AddressOf(place), Type::pointer(element, Space::Own), span)
    }
}

fn pointer_place(pointer: Expr) -> Place {
    // The address of a place, followed, is the place.
    match pointer.kind {
        ExprKind::AddressOf(place) => place,
        _ => Place { base: Base::Pointer(Box::new(pointer)), offset: 0, indexes: Vec::new() },
    }
}

fn place_field(place: PlaceValue, found: Found, span: Span) -> PlaceValue {
    let mut inner = place.place;
    inner.offset += i64::from(found.offset);
    PlaceValue { place: inner, ty: found.ty, bits: found.bits, span }
}

/// The integer an aggregate is read as.
pub fn aggregate_result(value: &MapValue) -> Option<Type> {
    let integer = |signed: bool| if signed { Type::I64 } else { Type::U64 };
    match value {
        MapValue::Count => Some(Type::I64),
        MapValue::Sum { signed }
        | MapValue::Min { signed }
        | MapValue::Max { signed }
        | MapValue::Avg { signed }
        | MapValue::Stats { signed } => Some(integer(*signed)),
        _ => None,
    }
}

impl Place {
    /// Whose memory the place is in.
    pub fn space(&self) -> Space {
        match &self.base {
            Base::Context => Space::Context,
            Base::Value(_) => Space::Own,
            Base::Pointer(pointer) => match &pointer.ty {
                Type::Pointer { space, .. } => *space,
                _ => Space::Kernel,
            },
        }
    }
}
