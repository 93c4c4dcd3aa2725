//! Objects: values in memory rather than in a register.

use bpf::insn::Size;

use super::builder::{Builder, Home};
use super::memory::Mem;
use super::{CONSTANTS, DATA};
use crate::hir::{Cast, Expr, ExprKind};
use crate::layout::Place;
use crate::lir::Val;
use crate::types::{TupleField, Type};

/// Whether the bytes after a string's NUL have to be zero, as in keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pad {
    Zero,
    Any,
}

/// Strings up to this size are kept zero-padded wherever they are.
pub(super) const ALWAYS_PADDED: u32 = 64;

impl Builder<'_, '_> {
    /// The bytes of an object, in place where it is in memory already. They stay until the statement ends.
    pub fn object(&mut self, expr: &Expr) -> Mem {
        let outer = std::mem::replace(&mut self.span, expr.span);
        let mem = match &expr.kind {
            ExprKind::Local(local) => match self.home(*local) {
                Home::Memory(mem) => Some(mem),
                Home::Register(_) => None,
            },
            ExprKind::Str(bytes) | ExprKind::Bytes(bytes) => {
                let offset = self.shared.constants.bytes(bytes, expr.ty.size());
                Some(Mem::map(CONSTANTS, offset))
            }
            ExprKind::Zero => {
                let offset = self.shared.constants.zeros(expr.ty.size());
                Some(Mem::map(CONSTANTS, offset))
            }
            ExprKind::MapGet { map, key: None } => match self.shared.layout.place(*map) {
                Place::Global { offset } => Some(Mem::map(DATA, offset)),
                Place::PerCpu { offset } => Some(self.cpu_data(offset)),
                Place::Map(_) => None,
            },
            ExprKind::MapGet { map, key: Some(key) } => {
                // An entry that is not there reads as zeros.
                let pointer = self.map_lookup(*map, key);
                self.report_missing(*map, pointer);
                let found = self.register();
                self.assign(found, pointer);
                let (gone, end) = (self.new_block(), self.new_block());
                self.branch(bpf::insn::JumpOp::Eq, pointer.into(), Val::Imm(0), gone, end);
                self.switch(gone);
                let offset = self.shared.constants.zeros(expr.ty.size());
                self.assign(found, crate::lir::Source::MapValue { map: CONSTANTS, offset });
                self.goto_and_switch(end);
                Some(Mem::at(found))
            }
            ExprKind::Read { place, bits: None } => self.object_in_place(place),
            _ => None,
        };
        let mem = mem.unwrap_or_else(|| {
            let size = expr.ty.size().max(1);
            let to = if expr.ty.is_scalar() { self.temporary(8) } else { self.temporary(size) };
            self.store_value(expr, to, Pad::Any);
            to
        });
        self.span = outer;
        mem
    }

    /// Whether the bytes of an object expression are padded where [`Builder::object`] finds them.
    pub fn padded_in_place(expr: &Expr) -> bool {
        match &expr.ty {
            Type::String(size) => {
                let constant = matches!(expr.kind, ExprKind::Str(_) | ExprKind::Zero);
                *size <= ALWAYS_PADDED || constant
            }
            Type::Tuple(fields) => fields.iter().all(|field| match &field.ty {
                Type::String(size) => *size <= ALWAYS_PADDED,
                Type::Tuple(_) => false,
                _ => true,
            }),
            Type::Buffer(_) => false,
            _ => true,
        }
    }

    /// Writes the value of any expression to memory, all `ty.size()` bytes of it.
    pub fn store_value(&mut self, expr: &Expr, to: Mem, pad: Pad) {
        let outer = std::mem::replace(&mut self.span, expr.span);
        if expr.ty.is_scalar() {
            let value = self.scalar(expr);
            self.store_scalar(&expr.ty, to, value);
        } else {
            self.store_object(expr, to, pad);
        }
        self.span = outer;
    }

    fn store_object(&mut self, expr: &Expr, to: Mem, pad: Pad) {
        let size = expr.ty.size();
        match &expr.kind {
            ExprKind::Str(bytes) | ExprKind::Bytes(bytes) => self.store_bytes(to, bytes, size),
            ExprKind::Zero => self.zero(to, size),
            ExprKind::Tuple(values) => {
                let Type::Tuple(fields) = &expr.ty else { return };
                self.store_tuple(values, fields, size, to, pad);
            }
            ExprKind::Select { condition, then, otherwise } => {
                let (yes, no, end) = (self.new_block(), self.new_block(), self.new_block());
                self.condition(condition, yes, no);
                for (block, value) in [(yes, then), (no, otherwise)] {
                    self.switch(block);
                    self.store_value(value, to, pad);
                    self.goto(end);
                }
                self.switch(end);
            }
            ExprKind::Block { statements, value } => {
                self.block_in_expression(statements);
                if let Some(value) = value {
                    self.store_value(value, to, pad);
                }
            }
            ExprKind::Cast(cast, inner) => self.store_cast(*cast, inner, &expr.ty, to, pad),
            ExprKind::Read { place, .. } => match self.object_in_place(place) {
                Some(from) => self.copy_object(to, from, &expr.ty, pad, false),
                None => self.read_object(place, &expr.ty, to),
            },
            ExprKind::ReadDataLoc { place, loc } => self.data_string(place, *loc, size, to, pad),
            ExprKind::Intrinsic(intrinsic, arguments) => {
                self.store_intrinsic(intrinsic, arguments, expr, to, pad);
            }
            ExprKind::Call(function, arguments) => {
                self.call_function(*function, arguments, Some(to));
            }
            _ => {
                let padded = Self::padded_in_place(expr);
                let from = self.object(expr);
                self.copy_object(to, from, &expr.ty, pad, padded);
            }
        }
    }

    /// Copies an object; strings up to their NUL where nothing needs the rest.
    pub fn copy_object(&mut self, to: Mem, from: Mem, ty: &Type, pad: Pad, padded: bool) {
        match ty {
            Type::String(size) if *size > ALWAYS_PADDED => {
                let address = self.address(from);
                if pad == Pad::Zero && padded {
                    self.copy(to, from, *size);
                } else {
                    self.read_string_from(to, *size, address, false, pad);
                }
            }
            Type::Tuple(fields) if pad == Pad::Zero && !padded => {
                self.zero_gaps(fields, ty.size(), to);
                for field in fields.iter() {
                    let (to, from) = (to.plus(field.offset), from.plus(field.offset));
                    self.copy_object(to, from, &field.ty, pad, false);
                }
            }
            _ => self.copy(to, from, ty.size()),
        }
    }

    fn store_tuple(&mut self, values: &[Expr], fields: &[TupleField], size: u32, to: Mem, pad: Pad) {
        for (at, (value, field)) in values.iter().zip(fields).enumerate() {
            let next = fields.get(at + 1).map_or(size, |next| next.offset);
            let place = to.plus(field.offset);
            // One wide store covers an unsigned scalar and the gap after it.
            let wide = value.ty.is_scalar() && !value.ty.is_signed() && value.ty.size() < 8;
            if wide && field.offset % 8 == 0 && next - field.offset == 8 && to.offset % 8 == 0 {
                let value = self.scalar(value);
                self.store(Size::D, place, value);
                continue;
            }
            self.store_value(value, place, pad);
            let end = field.offset + value.ty.size();
            self.zero_between(to, end, next);
        }
    }

    fn zero_between(&mut self, to: Mem, from: u32, end: u32) {
        if end > from {
            self.zero(to.plus(from), end - from);
        }
    }

    /// Zeros between the fields of a tuple.
    pub fn zero_gaps(&mut self, fields: &[TupleField], size: u32, to: Mem) {
        for (at, field) in fields.iter().enumerate() {
            let next = fields.get(at + 1).map_or(size, |next| next.offset);
            self.zero_between(to, field.offset + field.ty.size(), next);
        }
    }

    fn store_cast(&mut self, cast: Cast, inner: &Expr, ty: &Type, to: Mem, pad: Pad) {
        let size = ty.size();
        match cast {
            Cast::Resize => self.store_resized(inner, size, to, pad),
            Cast::Text => {
                // An array of characters: up to its NUL or its end.
                let room = inner.ty.size();
                let from = self.object(inner);
                self.zero(to, size);
                let from = self.address(from);
                // The helper reads up to a NUL and writes one; an array without NUL keeps all its characters
                // where the string has room for them.
                let most = if size > room { room + 1 } else { size };
                if size > room {
                    let copy = self.temporary(room + 1);
                    let place = self.address(copy);
                    self.call(
                        bpf::helpers::id::PROBE_READ_KERNEL,
                        vec![place, Val::Imm(room.into()).into(), from],
                    );
                    self.store(Size::B, copy.plus(room), Val::Imm(0));
                    let from = self.address(copy);
                    self.read_string_from(to, most, from, false, Pad::Any);
                } else {
                    self.read_string_from(to, most, from, false, Pad::Any);
                }
            }
            Cast::Fields => {
                let (Type::Tuple(from_fields), Type::Tuple(to_fields)) = (&inner.ty, ty) else {
                    let from = self.object(inner);
                    self.copy(to, from, size);
                    return;
                };
                let (from_fields, to_fields) = (from_fields.clone(), to_fields.clone());
                let from = self.object(inner);
                self.cast_fields(from, &from_fields, to, &to_fields, size, pad);
            }
            Cast::Bytes | Cast::Integer | Cast::Truth => {
                if inner.ty.is_scalar() {
                    let value = self.scalar(inner);
                    match Size::from_bytes(size) {
                        Some(word) => self.store(word, to, value),
                        None => self.zero(to, size),
                    }
                } else {
                    let from = self.object(inner);
                    self.copy(to, from, size.min(inner.ty.size()));
                }
            }
        }
    }

    fn cast_fields(
        &mut self,
        from: Mem,
        from_fields: &[TupleField],
        to: Mem,
        to_fields: &[TupleField],
        size: u32,
        pad: Pad,
    ) {
        self.zero_gaps(to_fields, size, to);
        for (source, target) in from_fields.iter().zip(to_fields) {
            let (from, to) = (from.plus(source.offset), to.plus(target.offset));
            match (&source.ty, &target.ty) {
                (Type::Tuple(a), Type::Tuple(b)) => self.cast_fields(from, a, to, b, target.ty.size(), pad),
                (Type::String(_), Type::String(size)) => {
                    self.resize_string(from, source.ty.size(), *size, to, pad)
                }
                (a, b) if a.is_scalar() && b.is_scalar() => {
                    let value = self.load_scalar(a, from);
                    let value = self.convert(value, a, b);
                    self.store_scalar(b, to, value);
                }
                (a, b) => {
                    let common = a.size().min(b.size());
                    self.copy(to, from, common);
                    self.zero_between(to, common, b.size());
                }
            }
        }
    }

    /// A string cut or padded to another size.
    fn store_resized(&mut self, inner: &Expr, size: u32, to: Mem, pad: Pad) {
        match &inner.kind {
            ExprKind::Str(bytes) => {
                let kept = bytes.len().min(size.saturating_sub(1) as usize);
                self.store_bytes(to, &bytes[..kept], size);
            }
            _ if inner.ty.size() <= size => {
                // Written in place, then padded.
                let own = inner.ty.size();
                self.store_value(inner, to, pad);
                if pad == Pad::Zero || size <= ALWAYS_PADDED {
                    self.zero_between(to, own, size);
                }
            }
            _ => {
                let from = self.object(inner);
                self.resize_string(from, inner.ty.size(), size, to, pad);
            }
        }
    }

    fn resize_string(&mut self, from: Mem, from_size: u32, size: u32, to: Mem, pad: Pad) {
        if from_size <= ALWAYS_PADDED && size <= ALWAYS_PADDED {
            let common = from_size.min(size);
            self.copy(to, from, common);
            self.zero_between(to, common, size);
            if size < from_size {
                self.store(Size::B, to.plus(size - 1), Val::Imm(0));
            }
            return;
        }
        let from = self.address(from);
        self.read_string_from(to, size, from, false, pad);
    }
}
