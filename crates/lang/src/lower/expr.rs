//! Scalar expressions: a value in a register, extended to 64 bits by the sign of its type.

use bpf::insn::{AluOp, JumpOp, Width};

use super::analysis::has_effects;
use super::builder::{Builder, Home};
use crate::hir::{BinaryOp, Cast, Expr, ExprKind, LocalId, StepTarget, UnaryOp};
use crate::lir::{BlockId, Op, Source, V, Val};
use crate::schema::{Counter, EmitKind};
use crate::types::{Space, Type};

impl Builder<'_, '_> {
    /// The value of a scalar expression; 0 for an expression without a value.
    pub fn scalar(&mut self, expr: &Expr) -> Val {
        let outer = std::mem::replace(&mut self.span, expr.span);
        let value = self.scalar_inner(expr);
        self.span = outer;
        value
    }

    fn scalar_inner(&mut self, expr: &Expr) -> Val {
        match &expr.kind {
            ExprKind::Int(value) => {
                self.extend(Val::Imm(*value as i64), expr.ty.size() * 8, expr.ty.is_signed())
            }
            ExprKind::Zero => Val::Imm(0),
            ExprKind::Local(local) => self.local_value(*local),
            ExprKind::MapGet { map, key } => self.map_get(*map, key.as_deref(), &expr.ty),
            ExprKind::MapAggregate { map, key } => self.map_aggregate(*map, key.as_deref()),
            ExprKind::MapHas { map, key } => {
                let pointer = self.map_lookup(*map, key);
                self.condition_value(|b, then, otherwise| {
                    b.branch(JumpOp::Ne, pointer.into(), Val::Imm(0), then, otherwise);
                })
            }
            ExprKind::MapFind { map, key, into } => self.map_find(*map, key, *into),
            ExprKind::MapDelete { map, key, missing } => self.map_delete(*map, key.as_deref(), *missing),
            ExprKind::MapLength(map) => self.map_length(*map),
            ExprKind::StackLength(inner) => {
                let mem = self.object(inner);
                self.load(bpf::insn::Size::W, mem.plus(8)).into()
            }
            ExprKind::Unary(UnaryOp::Neg, inner) => {
                let value = self.scalar(inner);
                let src = self.in_register(value);
                let dst = self.register();
                self.op(Op::Neg { dst, src });
                self.canonical(dst.into(), &expr.ty)
            }
            ExprKind::Unary(UnaryOp::BitNot, inner) => {
                let value = self.scalar(inner);
                let value = self.binary(AluOp::Xor, value, Val::Imm(-1));
                self.canonical(value, &expr.ty)
            }
            ExprKind::Unary(UnaryOp::Not, inner) => {
                let value = self.scalar(inner);
                self.binary(AluOp::Xor, value, Val::Imm(1))
            }
            ExprKind::Binary(op, ..) if op.is_comparison() => {
                self.condition_value(|b, then, otherwise| b.condition(expr, then, otherwise))
            }
            ExprKind::Logical { .. } => {
                self.condition_value(|b, then, otherwise| b.condition(expr, then, otherwise))
            }
            ExprKind::Binary(op, left, right) => self.arithmetic(*op, left, right, &expr.ty),
            ExprKind::Select { condition, then, otherwise } => {
                let result = self.register();
                let (yes, no, end) = (self.new_block(), self.new_block(), self.new_block());
                self.condition(condition, yes, no);
                for (block, value) in [(yes, then), (no, otherwise)] {
                    self.switch(block);
                    if expr.ty == Type::Void {
                        self.effect(value);
                    } else {
                        let value = self.scalar(value);
                        self.assign(result, value);
                    }
                    self.goto(end);
                }
                self.switch(end);
                if expr.ty == Type::Void { Val::Imm(0) } else { result.into() }
            }
            ExprKind::Block { statements, value } => {
                self.block_in_expression(statements);
                match value {
                    Some(value) if expr.ty == Type::Void => {
                        self.effect(value);
                        Val::Imm(0)
                    }
                    Some(value) => self.scalar(value),
                    None => Val::Imm(0),
                }
            }
            ExprKind::Cast(cast, inner) => self.cast(*cast, inner, expr),
            ExprKind::Read { place, bits } => self.read_scalar(place, *bits, &expr.ty),
            ExprKind::ReadDataLoc { place, loc } => self.data_address(place, *loc),
            ExprKind::AddressOf(place) => self.address_of(place),
            ExprKind::AddressOfLocal(local) => match self.home(*local) {
                Home::Memory(mem) => self.pointer(mem).into(),
                Home::Register(_) => Val::Imm(0),
            },
            ExprKind::AddressOfMap { map, key } => self.address_of_map(*map, key.as_deref()),
            ExprKind::Step { target, by, post } => self.step(target, *by, *post, &expr.ty),
            ExprKind::Intrinsic(intrinsic, arguments) => self.intrinsic(intrinsic, arguments, expr),
            ExprKind::Call(function, arguments) => self.call_function(*function, arguments, None),
            ExprKind::UsdtArgument(locations) => self.usdt_argument(locations, &expr.ty),
            ExprKind::Str(_) | ExprKind::Bytes(_) | ExprKind::Tuple(_) => {
                // An object where a scalar is wanted: its address.
                let mem = self.object(expr);
                self.pointer(mem).into()
            }
        }
    }

    /// Evaluates for the effect only.
    pub fn effect(&mut self, expr: &Expr) {
        if expr.ty.is_scalar() || expr.ty == Type::Void {
            self.scalar(expr);
        } else if has_effects(expr) {
            self.object(expr);
        }
    }

    /// A value that stays what it is while `after` is evaluated.
    pub fn scalar_before(&mut self, expr: &Expr, after: &Expr) -> Val {
        let value = self.scalar(expr);
        if matches!(value, Val::V(_)) && has_effects(after) { self.set(value).into() } else { value }
    }

    fn local_value(&mut self, local: LocalId) -> Val {
        match self.home(local) {
            Home::Register(v) => v.into(),
            Home::Memory(mem) => {
                let ty = self.scope().variables[local.0 as usize].ty.clone();
                self.load_scalar(&ty, mem)
            }
        }
    }

    /// Stores a scalar into a variable.
    pub fn set_local(&mut self, local: LocalId, value: Val) {
        match self.home(local) {
            Home::Register(v) => self.assign(v, value),
            Home::Memory(mem) => {
                let ty = self.scope().variables[local.0 as usize].ty.clone();
                self.store_scalar(&ty, mem, value);
            }
        }
    }

    /// 1 or 0 for a condition.
    pub fn condition_value(&mut self, condition: impl FnOnce(&mut Self, BlockId, BlockId)) -> Val {
        let result = self.register();
        let (yes, no, end) = (self.new_block(), self.new_block(), self.new_block());
        condition(self, yes, no);
        self.switch(yes);
        self.assign(result, Val::Imm(1));
        self.goto(end);
        self.switch(no);
        self.assign(result, Val::Imm(0));
        self.goto(end);
        self.switch(end);
        result.into()
    }

    /// Jumps to one of two blocks.
    pub fn condition(&mut self, expr: &Expr, then: BlockId, otherwise: BlockId) {
        let outer = std::mem::replace(&mut self.span, expr.span);
        match &expr.kind {
            ExprKind::Logical { and, left, right } => {
                let second = self.new_block();
                if *and {
                    self.condition(left, second, otherwise);
                } else {
                    self.condition(left, then, second);
                }
                self.switch(second);
                self.condition(right, then, otherwise);
            }
            ExprKind::Unary(UnaryOp::Not, inner) => self.condition(inner, otherwise, then),
            ExprKind::Binary(op, left, right) if op.is_comparison() => {
                if left.ty.is_scalar() {
                    let a = self.scalar_before(left, right);
                    let b = self.scalar(right);
                    let op = comparison(*op, left.ty.is_signed());
                    self.branch(op, a, b, then, otherwise);
                } else {
                    self.compare_objects(*op, left, right, then, otherwise);
                }
            }
            ExprKind::Cast(Cast::Truth, inner) if inner.ty.is_scalar() => {
                let value = self.scalar(inner);
                self.branch(JumpOp::Ne, value, Val::Imm(0), then, otherwise);
            }
            ExprKind::MapHas { map, key } => {
                let pointer = self.map_lookup(*map, key);
                self.branch(JumpOp::Ne, pointer.into(), Val::Imm(0), then, otherwise);
            }
            _ => {
                let value = self.scalar(expr);
                match value {
                    Val::Imm(imm) => self.goto(if imm != 0 { then } else { otherwise }),
                    value => self.branch(JumpOp::Ne, value, Val::Imm(0), then, otherwise),
                }
            }
        }
        self.span = outer;
    }

    /// Cuts a 64-bit result to its type.
    pub fn canonical(&mut self, value: Val, ty: &Type) -> Val {
        match ty {
            Type::Bool => self.binary(AluOp::And, value, Val::Imm(1)),
            _ => self.extend(value, ty.size().max(1) * 8, ty.is_signed()),
        }
    }

    fn arithmetic(&mut self, op: BinaryOp, left: &Expr, right: &Expr, ty: &Type) -> Val {
        let a = self.scalar_before(left, right);
        let b = self.scalar(right);
        self.compute(op, a, b, ty)
    }

    /// Arithmetic in a type.
    pub fn compute(&mut self, op: BinaryOp, a: Val, b: Val, ty: &Type) -> Val {
        let signed = ty.is_signed();
        let bits = i64::from(ty.size().max(1)) * 8;
        // 32-bit instructions cut and zero-extend for free.
        let width = if bits == 32 && !signed { Width::W32 } else { Width::W64 };
        let b = match (op, b) {
            (BinaryOp::Shl | BinaryOp::Shr, Val::Imm(by)) => Val::Imm(by & (bits - 1)),
            _ => b,
        };
        if matches!(op, BinaryOp::Div | BinaryOp::Mod) && !matches!(b, Val::Imm(imm) if imm != 0) {
            return self.divide(op, a, b, ty, width);
        }
        let alu = match op {
            BinaryOp::Add => AluOp::Add,
            BinaryOp::Sub => AluOp::Sub,
            BinaryOp::Mul => AluOp::Mul,
            BinaryOp::Div if signed => AluOp::SignedDiv,
            BinaryOp::Mod if signed => AluOp::SignedMod,
            BinaryOp::Div => AluOp::Div,
            BinaryOp::Mod => AluOp::Mod,
            BinaryOp::And => AluOp::And,
            BinaryOp::Or => AluOp::Or,
            BinaryOp::Xor => AluOp::Xor,
            BinaryOp::Shl => AluOp::Lsh,
            BinaryOp::Shr if signed => AluOp::Arsh,
            BinaryOp::Shr => AluOp::Rsh,
            _ => return Val::Imm(0),
        };
        let result = self.binary_wide(alu, width, a, b);
        let exact =
            matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shr | BinaryOp::Mod)
                || op == BinaryOp::Div && !signed;
        if width == Width::W32 || exact { result } else { self.canonical(result, ty) }
    }

    /// Division and remainder by what may be zero: the result is then 1, as in bpftrace, and counted.
    fn divide(&mut self, op: BinaryOp, a: Val, b: Val, ty: &Type, width: Width) -> Val {
        let alu = match (op, ty.is_signed()) {
            (BinaryOp::Div, true) => AluOp::SignedDiv,
            (BinaryOp::Div, false) => AluOp::Div,
            (_, true) => AluOp::SignedMod,
            (_, false) => AluOp::Mod,
        };
        let (a, b) = (self.in_register(a), self.in_register(b));
        let result = self.register();
        let (sound, by_zero, end) = (self.new_block(), self.cold_block(), self.new_block());
        self.branch(JumpOp::Ne, b.into(), Val::Imm(0), sound, by_zero);
        self.switch(sound);
        let value = self.binary_wide(alu, width, a.into(), b.into());
        // The least number by -1 has no result in its type; it wraps to itself.
        let value = if width == Width::W32 { value } else { self.canonical(value, ty) };
        self.assign(result, value);
        self.goto(end);
        self.switch(by_zero);
        self.bump(Counter::DividedByZero);
        self.report_failure(EmitKind::DividedByZero, &[]);
        self.assign(result, Val::Imm(1));
        self.goto(end);
        self.switch(end);
        result.into()
    }

    fn cast(&mut self, cast: Cast, inner: &Expr, expr: &Expr) -> Val {
        match cast {
            Cast::Integer => {
                let value = self.scalar(inner);
                let to_number = !matches!(expr.ty, Type::Pointer { .. });
                let pointer =
                    matches!(inner.ty, Type::Pointer { space: Space::Btf | Space::Context | Space::Own, .. });
                let value = if to_number && pointer { self.launder(value) } else { value };
                self.convert(value, &inner.ty, &expr.ty)
            }
            Cast::Truth => self.condition_value(|b, then, otherwise| {
                if inner.ty.is_scalar() {
                    let value = b.scalar(inner);
                    b.branch(JumpOp::Ne, value, Val::Imm(0), then, otherwise);
                } else {
                    b.object_truth(inner, then, otherwise);
                }
            }),
            Cast::Bytes => {
                let mem = self.object(inner);
                self.load_scalar(&expr.ty, mem)
            }
            Cast::Resize | Cast::Fields | Cast::Text => {
                let mem = self.object(expr);
                self.pointer(mem).into()
            }
        }
    }

    /// An integer of one type as another.
    pub fn convert(&mut self, value: Val, from: &Type, to: &Type) -> Val {
        let (from_size, to_size) = (from.size(), to.size());
        let fits = match (from.is_signed(), to.is_signed()) {
            (false, true) => from_size < to_size,
            (true, false) => to_size >= 8,
            _ => from_size <= to_size,
        };
        if *to == Type::Bool && *from != Type::Bool {
            return self.condition_value(|b, then, otherwise| {
                b.branch(JumpOp::Ne, value, Val::Imm(0), then, otherwise);
            });
        }
        if fits || to_size >= 8 { value } else { self.extend(value, to_size * 8, to.is_signed()) }
    }

    /// A pointer the verifier knows as a plain number: through memory it does not follow.
    pub fn launder(&mut self, value: Val) -> Val {
        if matches!(value, Val::Imm(_)) {
            return value;
        }
        let memory = self.scratch(8);
        self.store(bpf::insn::Size::D, memory, value);
        self.load(bpf::insn::Size::D, memory).into()
    }

    fn step(&mut self, target: &StepTarget, by: i64, post: bool, ty: &Type) -> Val {
        match target {
            StepTarget::Local(local) => {
                let before = self.local_value(*local);
                let before = if post { self.set(before).into() } else { before };
                let after = self.add(before, by);
                let after = self.canonical(after, ty);
                self.set_local(*local, after);
                if post { before } else { after }
            }
            StepTarget::Map { map, key } => self.map_step(*map, key.as_deref(), by, post, ty),
        }
    }

    /// A two-armed value: `value` when a pointer is not null, otherwise 0.
    pub fn unless_null(&mut self, pointer: V, value: impl FnOnce(&mut Self) -> Val) -> Val {
        let result = self.register();
        let (there, gone, end) = (self.new_block(), self.new_block(), self.new_block());
        self.branch(JumpOp::Ne, pointer.into(), Val::Imm(0), there, gone);
        self.switch(there);
        let found = value(self);
        self.assign(result, found);
        self.goto(end);
        self.switch(gone);
        self.assign(result, Source::Val(Val::Imm(0)));
        self.goto(end);
        self.switch(end);
        result.into()
    }
}

/// The jump condition of a comparison.
pub(super) fn comparison(op: BinaryOp, signed: bool) -> JumpOp {
    match (op, signed) {
        (BinaryOp::Eq, _) => JumpOp::Eq,
        (BinaryOp::Ne, _) => JumpOp::Ne,
        (BinaryOp::Lt, false) => JumpOp::Lt,
        (BinaryOp::Le, false) => JumpOp::Le,
        (BinaryOp::Gt, false) => JumpOp::Gt,
        (BinaryOp::Ge, false) => JumpOp::Ge,
        (BinaryOp::Lt, true) => JumpOp::SignedLt,
        (BinaryOp::Le, true) => JumpOp::SignedLe,
        (BinaryOp::Gt, true) => JumpOp::SignedGt,
        (BinaryOp::Ge, true) => JumpOp::SignedGe,
        _ => JumpOp::Ne,
    }
}
