//! Explicit casts, and types as they are written.

use super::*;

impl<'a> Checker<'a> {
    // Casts.

    pub(super) fn cast_ast(&mut self, ty: &'a ast::TypeExpr, inner: &'a ast::Expr, span: Span) -> Value {
        // `(x)` before something may be a name in parentheses rather than a type.
        if let ast::TypeKind::Name(name) = &ty.kind {
            let aggregate = matches!(
                name.as_str(),
                "count_t"
                    | "sum_t"
                    | "min_t"
                    | "max_t"
                    | "avg_t"
                    | "stats_t"
                    | "usum_t"
                    | "umin_t"
                    | "umax_t"
                    | "uavg_t"
                    | "ustats_t"
            );
            if aggregate {
                return Value::Expr(self.error(
                    Code::BadCast,
                    ty.span,
                    format!("nothing can be cast to {name}"),
                ));
            }
        }
        // An array of a size that is the value's own.
        if let ast::TypeKind::Array(element, None) = &ty.kind {
            let value = self.rvalue(inner);
            let Some(element) = self.type_of(element) else { return Value::Expr(self.unknown(span)) };
            if is_unknown(&value) {
                return Value::Expr(value);
            }
            let size = value.ty.size();
            let each = element.size().max(1);
            if !size.is_multiple_of(each) {
                let message = format!("{} bytes are no whole number of {}", size, self.show(&element));
                return Value::Expr(self.error(Code::BadCast, span, message));
            }
            let to = Type::Array { element: Box::new(element), count: size / each };
            return Value::Expr(self.cast_to(value, &to, span));
        }
        let Some(to) = self.type_of(ty) else {
            self.expr(inner);
            return Value::Expr(self.unknown(span));
        };
        let value = self.value(inner);
        // Memory seen as another struct or array keeps its place.
        if let (Value::Place(place), Type::Record(_) | Type::Array { .. }) = (&value, &to)
            && matches!(place.ty, Type::Record(_) | Type::Array { .. })
            && to.size() <= place.ty.size()
        {
            let mut place = place.clone();
            place.ty = to;
            return Value::Place(place);
        }
        let value = self.read(value);
        if value.ty == Type::Void && !is_unknown(&value) {
            let message = format!("{} has no value", shorten(&print_expr(inner)));
            return Value::Expr(self.error(Code::ValueExpected, inner.span, message));
        }
        Value::Expr(self.cast_to(value, &to, span))
    }

    /// An explicit cast.
    pub fn cast_to(&mut self, value: Expr, to: &Type, span: Span) -> Expr {
        if is_unknown(&value) {
            return value;
        }
        let cast = |this: &Self, cast, value: Expr| {
            this.make(ExprKind::Cast(cast, Box::new(value)), to.clone(), span)
        };
        match (&value.ty, to) {
            (from, to) if from == to => Expr { span: self.at(span), ..value },
            (Type::Integer(_) | Type::Bool, Type::Integer(integer)) => match constant(&value) {
                Some(number) => self.int(wrap(number, *integer), to.clone(), span),
                None if value
                    .ty
                    .integer()
                    .is_some_and(|from| from.bytes == integer.bytes && from.signed == integer.signed) =>
                {
                    Expr { ty: to.clone(), span: self.at(span), ..value }
                }
                None => cast(self, Cast::Integer, value),
            },
            (Type::Integer(_) | Type::Pointer { .. }, Type::Bool) => {
                let truth = self.truth(value);
                Expr { span: self.at(span), ..truth }
            }
            (Type::Integer(_) | Type::Bool, Type::Pointer { to: pointee, .. }) => {
                let space = self.body.variant.map_or(Space::Kernel, |variant| variant.space);
                let ty = Type::Pointer { to: pointee.clone(), space };
                let value = self.widen(value);
                self.make(ExprKind::Cast(Cast::Integer, Box::new(value)), ty, span)
            }
            (Type::Pointer { to: from, space }, Type::Pointer { to: pointee, .. }) => {
                // What the verifier knows of the pointer holds for its own type only.
                let space = if *space == Space::Btf && from != pointee { Space::Kernel } else { *space };
                let ty = Type::Pointer { to: pointee.clone(), space };
                Expr { ty, span: self.at(span), ..value }
            }
            (Type::Pointer { .. } | Type::KernelSymbol, Type::Integer(_)) => cast(self, Cast::Integer, value),
            (Type::Array { element, .. }, Type::Integer(_))
                if element.is_integral() && value.ty.size() == to.size() =>
            {
                cast(self, Cast::Bytes, value)
            }
            (Type::Integer(_), Type::Array { element, .. }) if element.is_integral() => {
                // A literal has the size that is asked for.
                let size = to.size();
                let value = match size {
                    1 | 2 | 4 | 8 if is_literal(&value.ty) => {
                        self.coerced(value, &Type::unsigned(size as u8))
                    }
                    _ => value,
                };
                if value.ty.size() != size {
                    return self.bad_cast(&value, to, span, "they have different sizes");
                }
                cast(self, Cast::Bytes, value)
            }
            (Type::Array { element, .. }, Type::Array { element: other, .. })
                if element.is_integral() && other.is_integral() && value.ty.size() == to.size() =>
            {
                Expr { ty: to.clone(), span: self.at(span), ..value }
            }
            (Type::String(_), Type::Array { element, .. }) if element.size() == 1 => {
                self.bad_cast(&value, to, span, "strings are indexed directly: $s[0]")
            }
            (Type::Array { element, .. }, Type::String(_)) if **element == Type::signed(1) => {
                cast(self, Cast::Text, value)
            }
            (Type::String(_), Type::String(_)) | (Type::Buffer(_), Type::Buffer(_)) => {
                cast(self, Cast::Resize, value)
            }
            (Type::Tuple(_), Type::Tuple(_)) | (Type::Stack(_), Type::Stack(_)) => {
                let fallback = value.clone();
                match self.coerce(value, to) {
                    Some(value) => value,
                    None => self.bad_cast(&fallback, to, span, "their fields differ"),
                }
            }
            (Type::Integer(_) | Type::Pointer { .. }, Type::Record(_)) => {
                self.bad_cast(&value, to, span, "follow a pointer to it: *(struct x *)p")
            }
            _ => self.bad_cast(&value, to, span, "the types have nothing in common"),
        }
    }

    pub(super) fn bad_cast(&mut self, value: &Expr, to: &Type, span: Span, why: &str) -> Expr {
        let message = format!("a {} cannot be cast to {}", self.show(&value.ty), self.show(to));
        self.report(Diagnostic::error(Code::BadCast, self.at(span), message).help(why.to_string()))
    }

    /// A type as written.
    pub fn type_of(&mut self, ty: &'a ast::TypeExpr) -> Option<Type> {
        use ast::TypeKind as T;
        let found = match &ty.kind {
            T::Name(name) => match name.as_str() {
                "string" => Some(Type::String(self.config.max_strlen)),
                "buffer" => Some(Type::Buffer(self.config.max_strlen)),
                name => self.resolver.named(name).or_else(|| self.resolver.bare_record(name)),
            },
            T::Struct(name) => self
                .resolver
                .record(name, false)
                .or_else(|| self.resolver.record(name, true))
                .map(Type::Record),
            T::Union(name) => self.resolver.record(name, true).map(Type::Record),
            T::Enum(name) => self.resolver.enumeration(name),
            T::Pointer(to) => {
                let to = self.type_of(to)?;
                let space = self.body.variant.map_or(Space::Kernel, |variant| variant.space);
                Some(Type::pointer(to, space))
            }
            T::Array(element, length) => {
                let count = match length {
                    None => None,
                    Some(length) => {
                        let value = self.expr(length);
                        if is_unknown(&value) {
                            return None;
                        }
                        match constant(&value).and_then(|value| u32::try_from(value).ok()) {
                            Some(count) => Some(count),
                            None => {
                                self.error(Code::NeedsLiteral, length.span, "a length has to be a constant");
                                return None;
                            }
                        }
                    }
                };
                match (&element.kind, count) {
                    (T::Name(name), Some(count)) if name == "string" => Some(Type::String(count.max(1))),
                    (T::Name(name), Some(count)) if name == "buffer" => Some(Type::Buffer(count)),
                    (T::Name(name), Some(_)) if name == "inet" => Some(Type::Inet),
                    _ => {
                        let element = self.type_of(element)?;
                        Some(Type::Array { element: Box::new(element), count: count.unwrap_or(0) })
                    }
                }
            }
            T::Tuple(types) => {
                let types: Option<Vec<Type>> = types.iter().map(|ty| self.type_of(ty)).collect();
                Some(Type::tuple(types?))
            }
            T::Typeof(expr) => {
                let value = self.expr(expr);
                if is_unknown(&value) {
                    return None;
                }
                Some(settle(value.ty))
            }
            T::Same(ty) => return self.type_of(ty),
        };
        if found.is_none() {
            let name = print_type(ty);
            let message =
                if self.facts.btf().is_none() && matches!(ty.kind, T::Struct(_) | T::Union(_) | T::Enum(_)) {
                    format!("'{name}' is not declared in the program, and this kernel has no BTF")
                } else {
                    format!("'{name}' is not a type known here")
                };
            let finding = Diagnostic::error(Code::UnknownType, self.at(ty.span), message);
            let finding = match &ty.kind {
                T::Struct(wanted) | T::Union(wanted) if self.last => self.suggest_record(finding, wanted),
                T::Name(wanted) => finding.suggest(wanted, TYPE_NAMES.iter().copied()),
                _ => finding,
            };
            self.report(finding);
        }
        found
    }

    pub(super) fn suggest_record(&self, finding: Diagnostic, wanted: &str) -> Diagnostic {
        let kinds = bpf::btf::KindSet::STRUCT.or(bpf::btf::KindSet::UNION);
        match self.resolver.blob(0) {
            Some(btf) => finding.suggest(wanted, btf.names(kinds)),
            None => finding,
        }
    }
}

/// Names of types for "did you mean".
const TYPE_NAMES: &[&str] = &[
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "string",
    "buffer",
    "inet",
    "char",
    "int",
    "long",
    "short",
    "size_t",
    "macaddr_t",
    "timestamp",
    "void",
];
