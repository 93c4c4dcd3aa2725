//! Comparison of objects: strings up to their NUL, everything else byte for byte.

use bpf::insn::{AluOp, JumpOp, Size};

use super::builder::Builder;
use super::memory::Mem;
use super::object::ALWAYS_PADDED;
use crate::hir::{BinaryOp, Expr, ExprKind};
use crate::lir::{Base, BlockId, Val};
use crate::types::Type;

impl Builder<'_, '_> {
    /// `left op right` on objects.
    pub fn compare_objects(
        &mut self,
        op: BinaryOp,
        left: &Expr,
        right: &Expr,
        then: BlockId,
        otherwise: BlockId,
    ) {
        let (equal, differ) = match op {
            BinaryOp::Eq => (then, otherwise),
            BinaryOp::Ne => (otherwise, then),
            _ => {
                // Order of strings: by the first byte that differs.
                let sign = self.string_order(left, right, None);
                let op = super::expr::comparison(op, true);
                self.branch(op, sign, Val::Imm(0), then, otherwise);
                return;
            }
        };
        let strings = matches!((&left.ty, &right.ty), (Type::String(_), Type::String(_)));
        match (&left.kind, &right.kind) {
            (ExprKind::Str(text), _) if strings => self.equals_constant(right, &text.clone(), equal, differ),
            (_, ExprKind::Str(text)) if strings => self.equals_constant(left, &text.clone(), equal, differ),
            _ if strings => {
                if left.ty.size() <= ALWAYS_PADDED && left.ty == right.ty {
                    let (a, b) = (self.object(left), self.object(right));
                    self.same_bytes(a, b, left.ty.size(), differ);
                    self.goto(equal);
                } else {
                    let sign = self.string_order(left, right, None);
                    self.branch(JumpOp::Eq, sign, Val::Imm(0), equal, differ);
                }
            }
            _ => self.compare_memory_objects(left, right, equal, differ),
        }
    }

    fn compare_memory_objects(&mut self, left: &Expr, right: &Expr, equal: BlockId, differ: BlockId) {
        let (a, b) = (self.object(left), self.object(right));
        self.same_value(a, b, &left.ty, differ);
        self.goto(equal);
    }

    /// Goes on if two values of a type are equal. Strings within tuples count up to their NUL.
    fn same_value(&mut self, a: Mem, b: Mem, ty: &Type, differ: BlockId) {
        match ty {
            Type::Tuple(fields) => {
                for field in fields.clone().iter() {
                    self.same_value(a.plus(field.offset), b.plus(field.offset), &field.ty, differ);
                }
            }
            Type::String(size) if *size > ALWAYS_PADDED => {
                let sign = self.order_of(a, b, *size);
                let same = self.new_block();
                self.branch(JumpOp::Eq, sign, Val::Imm(0), same, differ);
                self.switch(same);
            }
            _ => self.same_bytes(a, b, ty.size(), differ),
        }
    }

    fn equals_constant(&mut self, expr: &Expr, text: &[u8], equal: BlockId, differ: BlockId) {
        let size = expr.ty.size();
        if text.len() as u32 >= size {
            // It cannot hold the text and its NUL.
            self.effect(expr);
            self.goto(differ);
            return;
        }
        let mem = self.object(expr);
        let mut wanted = text.to_vec();
        wanted.push(0);
        let mut at = 0;
        for (offset, word) in Self::words(wanted.len() as u32, &[mem.offset]) {
            let part = &wanted[offset as usize..(offset + word.bytes()) as usize];
            let value = part.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
            let have = self.load(word, mem.plus(offset));
            let same = self.new_block();
            self.branch(JumpOp::Ne, have.into(), Val::Imm(value as i64), differ, same);
            self.switch(same);
            at = offset + word.bytes();
        }
        debug_assert_eq!(at as usize, wanted.len());
        self.goto(equal);
    }

    /// Goes on if the bytes are the same, to `differ` otherwise.
    pub fn same_bytes(&mut self, a: Mem, b: Mem, size: u32, differ: BlockId) {
        for (at, word) in Self::words(size, &[a.offset, b.offset]) {
            let left = self.load(word, a.plus(at));
            let right = self.load(word, b.plus(at));
            let same = self.new_block();
            self.branch(JumpOp::Ne, left.into(), right.into(), differ, same);
            self.switch(same);
        }
    }

    /// Whether any byte of an object is not zero; of a string, the first.
    pub fn object_truth(&mut self, expr: &Expr, then: BlockId, otherwise: BlockId) {
        let mem = self.object(expr);
        if matches!(expr.ty, Type::String(_)) {
            let first = self.load(Size::B, mem);
            self.branch(JumpOp::Ne, first.into(), Val::Imm(0), then, otherwise);
            return;
        }
        for (at, word) in Self::words(expr.ty.size(), &[mem.offset]) {
            let value = self.load(word, mem.plus(at));
            let next = self.new_block();
            self.branch(JumpOp::Ne, value.into(), Val::Imm(0), then, next);
            self.switch(next);
        }
        self.goto(otherwise);
    }

    /// Negative, 0 or positive as the first differing byte of two C strings says, `most` bytes at most.
    pub fn string_order(&mut self, left: &Expr, right: &Expr, most: Option<u32>) -> Val {
        let size = |expr: &Expr| match &expr.ty {
            Type::String(size) | Type::Array { count: size, .. } => Some(*size),
            _ => None,
        };
        let max = self.shared.schema.config.max_strlen;
        let bound = match (size(left), size(right)) {
            (Some(a), Some(b)) => a.min(b),
            (Some(a), None) | (None, Some(a)) => a,
            (None, None) => max,
        };
        let count = most.unwrap_or(bound).min(bound.max(1));
        let a = self.comparable(left, count);
        let b = self.comparable(right, count);
        self.order_of(a, b, count)
    }

    /// A string in memory with at least `count` bytes that may be read.
    fn comparable(&mut self, expr: &Expr, count: u32) -> Mem {
        let long_enough = matches!(&expr.ty, Type::String(size) if *size >= count);
        if long_enough {
            return self.object(expr);
        }
        let copy = self.scratch(count);
        self.zero(copy, count);
        let (from, user) = self.pointer_or_object(expr);
        let helper = if user {
            bpf::helpers::id::PROBE_READ_USER_STR
        } else {
            bpf::helpers::id::PROBE_READ_KERNEL_STR
        };
        // One byte more for the NUL the helper always writes, so that `count` characters are compared.
        let wide = self.scratch(count + 1);
        self.zero(wide, count + 1);
        let to = self.address(wide);
        let room = match &expr.ty {
            Type::Array { count: own, .. } => (own + 1).min(count + 1),
            _ => count + 1,
        };
        self.call(helper, vec![to, Val::Imm(room.into()).into(), from]);
        wide
    }

    /// The order of two C strings in memory.
    fn order_of(&mut self, a: Mem, b: Mem, count: u32) -> Val {
        let result = self.set(Val::Imm(0));
        if count == 0 {
            return result.into();
        }
        let (a, b) = (self.pointer(a), self.pointer(b));
        self.counted(count, |builder, index, end| {
            let at = builder.binary(AluOp::Add, a.into(), index.into());
            let at = builder.in_register(at);
            let left = builder.load_from(Size::B, Base::V(at), 0, false);
            let at = builder.binary(AluOp::Add, b.into(), index.into());
            let at = builder.in_register(at);
            let right = builder.load_from(Size::B, Base::V(at), 0, false);
            let (differ, same, go_on) = (builder.new_block(), builder.new_block(), builder.new_block());
            builder.branch(JumpOp::Ne, left.into(), right.into(), differ, same);
            builder.switch(differ);
            let sign = builder.binary(AluOp::Sub, left.into(), right.into());
            builder.assign(result, sign);
            builder.goto(end);
            builder.switch(same);
            builder.branch(JumpOp::Eq, left.into(), Val::Imm(0), end, go_on);
            builder.switch(go_on);
        });
        self.launder(result.into())
    }

    /// The first bytes of two objects or pointers compared: 0 when they are equal.
    pub fn compare_memory(&mut self, left: &Expr, right: &Expr, count: u32) -> Val {
        let mut sides = Vec::new();
        for expr in [left, right] {
            let mem = if expr.ty.is_scalar() {
                let copy = self.scratch(count);
                let (from, user) = self.pointer_or_object(expr);
                let from = match from {
                    crate::lir::Source::Val(val) => val,
                    other => self.set(other).into(),
                };
                self.probe_read(copy, count, from, user);
                copy
            } else {
                self.object(expr)
            };
            sides.push(mem);
        }
        let result = self.set(Val::Imm(0));
        let (differ, end) = (self.new_block(), self.new_block());
        for at in 0..count {
            let a = self.load(Size::B, sides[0].plus(at));
            let b = self.load(Size::B, sides[1].plus(at));
            let sign = self.binary(AluOp::Sub, a.into(), b.into());
            self.assign(result, sign);
            let same = self.new_block();
            self.branch(JumpOp::Ne, result.into(), Val::Imm(0), differ, same);
            self.switch(same);
        }
        self.goto(end);
        self.switch(differ);
        self.goto_and_switch(end);
        result.into()
    }
}
