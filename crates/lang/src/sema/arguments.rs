//! Arguments of probes: of tracepoints by their record, of functions by registers or BTF.

use super::checker::Checker;
use super::convert::is_unknown;
use super::place::{PlaceValue, Value};
use super::probes::{Args, ProbeType, in_user_space};
use crate::diagnostic::{Code, Diagnostic};
use crate::environment::ParameterPlace;
use crate::hir::{Base, Expr, ExprKind, Intrinsic, Place};
use crate::source::Span;
use crate::syntax::ast;
use crate::types::{DataLoc, Integer, Space, Type};
use trace::format::{EventFormat, FieldShape};

impl<'a> Checker<'a> {
    // Arguments.

    pub(super) fn no_args(&mut self, span: Span) -> Expr {
        let Some(variant) = self.body.variant else {
            return self.error(
                Code::NotInThisProbe,
                span,
                "args is known in probes only: hand values to the fn",
            );
        };
        let provider = variant.probe_type.provider();
        let finding = Diagnostic::error(
            Code::NotInThisProbe,
            self.at(span),
            format!("the arguments of this {provider} probe are not known by name"),
        );
        let finding = match variant.probe_type {
            ProbeType::Kprobe => finding.help("use arg0, arg1, …, or fentry"),
            ProbeType::Uprobe | ProbeType::Usdt => {
                finding.help("use arg0, arg1, …; names need debug information in the binary")
            }
            ProbeType::Kretprobe | ProbeType::Uretprobe => {
                finding.help("keep them in a map at function entry")
            }
            ProbeType::Iter => finding.help("use ctx"),
            ProbeType::Tracepoint => {
                finding.help("the tracepoint's format could not be read: see lotse doctor")
            }
            _ => finding,
        };
        self.report(finding)
    }

    /// `args`
    pub fn args_value(&mut self, span: Span) -> Value {
        match self.body.variant.map(|variant| &variant.args) {
            None | Some(Args::None | Args::Usdt(_) | Args::Registers(None) | Args::Iterator(_)) => {
                Value::Expr(self.no_args(span))
            }
            _ => Value::Args(span),
        }
    }

    /// `args.name`
    pub(super) fn argument(&mut self, name: &str, name_span: Span, span: Span) -> Value {
        let Some(variant) = self.body.variant else { return Value::Expr(self.no_args(span)) };
        // The kernel keeps the first 8 bytes of the record, which hold them, for itself.
        if name.starts_with("common_") && matches!(variant.args, Args::Tracepoint(_) | Args::Served { .. }) {
            let message = format!("the kernel does not let programs read {name} of tracepoints");
            let finding = Diagnostic::error(Code::UnknownField, self.at(name_span), message);
            return Value::Expr(
                self.report(finding.help("pid, tid, probe and cpu tell what the common fields do")),
            );
        }
        match &variant.args {
            Args::Tracepoint(format) => self.tracepoint_field(format, name, name_span, span),
            Args::Raw { signature, typed } => {
                let found = signature.parameters.iter().position(|(have, _)| have == name);
                let Some(position) = found else {
                    let names: Vec<&str> =
                        signature.parameters.iter().map(|(name, _)| name.as_str()).collect();
                    return Value::Expr(self.no_argument(name, name_span, &names));
                };
                self.slot(position, &signature.parameters[position].1.clone(), *typed, span)
            }
            Args::Registers(Some(signature)) => {
                let found = signature.parameters.iter().position(|(have, _)| have == name);
                let Some(position) = found else {
                    let names: Vec<&str> =
                        signature.parameters.iter().map(|(name, _)| name.as_str()).collect();
                    return Value::Expr(self.no_argument(name, name_span, &names));
                };
                if matches!(variant.probe_type, ProbeType::Kretprobe | ProbeType::Uretprobe) {
                    return Value::Expr(self.no_args(span));
                }
                let ty = signature.parameters[position].1.clone();
                let raw = match signature.places.get(position) {
                    None => self.register_argument(position, span),
                    Some(place) => match self.placed_argument(name, place, name_span) {
                        Ok(raw) => raw,
                        Err(wrong) => return Value::Expr(wrong),
                    },
                };
                Value::Expr(self.cast_to(raw, &ty, span))
            }
            Args::Served { served, view, format } => {
                let found = served.fields.iter().find(|(have, _)| have == name);
                let Some((_, expr)) = found else {
                    return self.tracepoint_field(format, name, name_span, span);
                };
                // The expression is over the raw arguments; it lives as long as the variant does.
                let expr: &'a ast::Expr = expr;
                let value = self.over_raw(view, span, |this| this.rvalue(expr));
                let declared = format.field(name).map(|field| self.field_type(field, variant.space));
                match declared {
                    Some(Some(ty)) if ty.is_scalar() && value.ty.is_scalar() => {
                        Value::Expr(self.cast_to(value, &ty, span))
                    }
                    _ => Value::Expr(value),
                }
            }
            _ => Value::Expr(self.no_args(span)),
        }
    }

    /// Runs a step with `args` being the raw arguments of a served tracepoint.
    pub fn over_raw<T>(
        &mut self,
        view: &'a super::probes::Variant,
        span: Span,
        step: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let outer_place = self.body.place.replace(self.at(span));
        let outer = self.body.variant.replace(view);
        let result = step(self);
        self.body.variant = outer;
        self.body.place = outer_place;
        result
    }

    pub(super) fn no_argument(&mut self, name: &str, span: Span, names: &[&str]) -> Expr {
        let probe = self
            .body
            .variant
            .and_then(|variant| variant.targets.first())
            .map_or(String::new(), |t| t.name.clone());
        let finding =
            Diagnostic::error(Code::UnknownField, self.at(span), format!("{probe} has no argument '{name}'"));
        let finding = match crate::diagnostic::did_you_mean(name, names.iter().copied()) {
            Some(help) => finding.help(help),
            None if names.is_empty() => finding.help("it has none"),
            None => finding.help(format!("it has {}", names.join(", "))),
        };
        self.report(finding)
    }

    /// An 8-byte slot of the context, as a value of that type.
    pub fn slot(&mut self, position: usize, ty: &Type, typed: bool, span: Span) -> Value {
        let ty = match ty {
            Type::Pointer { to, space: Space::Kernel } if typed && matches!(**to, Type::Record(_)) => {
                Type::Pointer { to: to.clone(), space: Space::Btf }
            }
            Type::Record(_) | Type::Array { .. } => {
                let message =
                    format!("this argument is a {} by value, which cannot be read here", self.show(ty));
                return Value::Expr(self.error(Code::NotInThisProbe, span, message));
            }
            Type::Void => Type::U64,
            other => other.clone(),
        };
        let place = Place { base: Base::Context, offset: position as i64 * 8, indexes: Vec::new() };
        let span = self.at(span);
        Value::Expr(Expr { kind: ExprKind::Read { place, bits: None }, ty, span })
    }

    /// `argN` by the calling convention, `uint64`.
    pub fn register_argument(&mut self, position: usize, span: Span) -> Expr {
        let registers = super::registers::Registers::of(self.facts.machine());
        let user = self.body.variant.is_some_and(|variant| variant.probe_type.is_user());
        let intrinsic = match registers.arguments.get(position) {
            Some(offset) => Intrinsic::Register { offset: *offset },
            None => {
                let beyond = (position - registers.arguments.len()) as u32;
                Intrinsic::StackArgument {
                    offset: registers.stack_arguments + beyond * 8,
                    sp_offset: registers.stack,
                    user,
                }
            }
        };
        self.make(ExprKind::Intrinsic(intrinsic, Vec::new()), Type::U64, span)
    }

    /// An argument where the debug information has it, `uint64`.
    fn placed_argument(&mut self, name: &str, place: &ParameterPlace, span: Span) -> Result<Expr, Expr> {
        let registers = super::registers::Registers::of(self.facts.machine());
        let why = match place {
            ParameterPlace::Register(register) => match registers.find(register) {
                Some((offset, _)) => {
                    let intrinsic = Intrinsic::Register { offset };
                    return Ok(self.make(ExprKind::Intrinsic(intrinsic, Vec::new()), Type::U64, span));
                }
                None => format!("in the register {register}, which probes do not see"),
            },
            ParameterPlace::Stack(offset) => {
                let (offset, sp_offset) = (*offset, registers.stack);
                let intrinsic = Intrinsic::StackArgument { offset, sp_offset, user: true };
                return Ok(self.make(ExprKind::Intrinsic(intrinsic, Vec::new()), Type::U64, span));
            }
            ParameterPlace::Constant(value) => return Ok(self.int(*value as u64, Type::U64, span)),
            ParameterPlace::Unreadable(why) => why.clone(),
        };
        Err(self.error(Code::NotInThisProbe, span, format!("the argument {name} cannot be read: {why}")))
    }

    /// The type of a tracepoint's field as it is read.
    pub(super) fn field_type(&self, field: &trace::format::Field, space: Space) -> Option<Type> {
        let user_tag = field.type_name.contains("((user))") || field.type_name.contains("__user");
        let to_space = |ty| if user_tag || space == Space::User { in_user_space(ty) } else { ty };
        let named = super::layout::c_type(&field.type_name, self.resolver);
        let by_size = |size: u32| match size {
            1 | 2 | 4 | 8 => {
                Some(Type::Integer(Integer { bytes: size as u8, signed: field.signed, names: None }))
            }
            _ => None,
        };
        match field.shape {
            FieldShape::Scalar => match named {
                // System calls' arguments have 8 bytes each whatever their type: the low bytes are the value.
                Some(ty) if ty.is_scalar() && ty.size() <= field.size => Some(to_space(ty)),
                Some(ty @ Type::Record(_)) if ty.size() == field.size => Some(ty),
                _ => by_size(field.size)
                    .or(Some(Type::Array { element: Box::new(Type::unsigned(1)), count: field.size })),
            },
            FieldShape::Array { length } => {
                let each = field.size.checked_div(length).unwrap_or(1);
                let element = named.filter(|ty| ty.size() == each).map(to_space).or_else(|| by_size(each))?;
                Some(Type::Array { element: Box::new(element), count: length })
            }
            FieldShape::DataLoc | FieldShape::RelLoc if field.is_text() => {
                Some(Type::String(self.config.max_strlen))
            }
            FieldShape::DataLoc | FieldShape::RelLoc => {
                let element = named.filter(|ty| ty.size() > 0).unwrap_or(Type::unsigned(1));
                Some(Type::pointer(element, Space::Context))
            }
        }
    }

    pub(super) fn tracepoint_field(
        &mut self,
        format: &EventFormat,
        name: &str,
        name_span: Span,
        span: Span,
    ) -> Value {
        let Some(field) = format.field(name) else {
            let names: Vec<&str> =
                format.fields.iter().filter(|f| !f.common).map(|f| f.name.as_str()).collect();
            return Value::Expr(self.no_argument(name, name_span, &names));
        };
        let space = self.body.variant.map_or(Space::Kernel, |variant| variant.space);
        let Some(ty) = self.field_type(field, space) else {
            let message = format!("the field {name} has a type ({}) that cannot be read", field.type_name);
            return Value::Expr(self.error(Code::UnknownType, name_span, message));
        };
        let place = Place { base: Base::Context, offset: i64::from(field.offset), indexes: Vec::new() };
        match field.shape {
            FieldShape::DataLoc | FieldShape::RelLoc => {
                let loc = DataLoc { relative: field.shape == FieldShape::RelLoc };
                Value::Expr(self.make(ExprKind::ReadDataLoc { place, loc }, ty, span))
            }
            _ => Value::Place(PlaceValue { place, ty, bits: None, span }),
        }
    }

    /// `args` as a value: a record of all arguments, to be printed.
    pub(super) fn whole_args(&mut self, span: Span) -> Expr {
        let Some(variant) = self.body.variant else { return self.no_args(span) };
        let names: Vec<String> = match &variant.args {
            Args::Tracepoint(format) | Args::Served { format, .. } => {
                format.fields.iter().filter(|f| !f.common).map(|f| f.name.clone()).collect()
            }
            Args::Raw { signature, .. } | Args::Registers(Some(signature)) => {
                signature.parameters.iter().map(|(name, _)| name.clone()).collect()
            }
            _ => return self.no_args(span),
        };
        let mut values = Vec::new();
        let mut types = Vec::new();
        for name in names {
            let value = self.argument(&name, span, span);
            let value = self.read(value);
            let value = self.decay(value);
            if is_unknown(&value) {
                return value;
            }
            types.push((Some(Self::field_name(&name)), value.ty.clone()));
            values.push(value);
        }
        let ty = Type::named_tuple(types);
        self.make(ExprKind::Tuple(values), ty, span)
    }
}
