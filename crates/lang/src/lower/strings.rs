//! Strings: reading, measuring, searching.

use bpf::helpers::id;
use bpf::insn::{AluOp, JumpOp, Size};

use super::builder::Builder;
use super::memory::Mem;
use super::object::{ALWAYS_PADDED, Pad};
use crate::glob::{self, Element};
use crate::hir::{Expr, ExprKind};
use crate::lir::{Base, Source, V, Val};
use crate::types::Type;

impl Builder<'_, '_> {
    /// Reads a string into `size` bytes; answers what the helper returned: bytes with the NUL, or an error.
    pub fn read_string(&mut self, to: Mem, size: u32, from: Val, user: bool, pad: Pad) -> V {
        self.read_string_from(to, size, from.into(), user, pad)
    }

    /// The same from any source of an address.
    pub fn read_string_from(&mut self, to: Mem, size: u32, from: Source, user: bool, pad: Pad) -> V {
        if pad == Pad::Zero || size <= ALWAYS_PADDED {
            self.zero(to, size);
        }
        let helper = if user { id::PROBE_READ_USER_STR } else { id::PROBE_READ_KERNEL_STR };
        let to = self.address(to);
        let result = self.call(helper, vec![to, Val::Imm(size.into()).into(), from]);
        if user {
            self.count_failed_read(helper, result);
        }
        result
    }

    /// `str(pointer, most)`.
    pub fn store_str(&mut self, arguments: &[Expr], size: u32, to: Mem, pad: Pad) {
        let (from, user) = self.pointer_or_object(&arguments[0]);
        match arguments.get(1) {
            None => {
                self.read_string_from(to, size, from, user, pad);
            }
            Some(Expr { kind: ExprKind::Int(most), .. }) => {
                let most = (*most).min(size.into()) as u32;
                self.limited_string(to, size, from, user, Val::Imm(most.into()));
            }
            Some(most) => {
                let most = self.scalar(most);
                self.limited_string(to, size, from, user, most);
            }
        }
    }

    /// At most `most` bytes with the NUL.
    fn limited_string(&mut self, to: Mem, size: u32, from: Source, user: bool, most: Val) {
        self.zero(to, size);
        let most = self.at_most(most, size);
        let helper = if user { id::PROBE_READ_USER_STR } else { id::PROBE_READ_KERNEL_STR };
        let to = self.address(to);
        self.call(helper, vec![to, most.into(), from]);
    }

    /// The smaller of an unsigned value and a constant, in a way the verifier sees.
    pub fn at_most(&mut self, value: Val, most: u32) -> Val {
        if let Val::Imm(imm) = value {
            return Val::Imm((imm as u64).min(most.into()) as i64);
        }
        let bounded = self.set(value);
        let (cut, end) = (self.new_block(), self.new_block());
        self.branch(JumpOp::Gt, bounded.into(), Val::Imm(most.into()), cut, end);
        self.switch(cut);
        self.assign(bounded, Val::Imm(most.into()));
        self.goto_and_switch(end);
        bounded.into()
    }

    /// `buf(pointer, length)`: a length, then the bytes.
    pub fn store_buffer(&mut self, arguments: &[Expr], room: u32, to: Mem, pad: Pad) {
        if pad == Pad::Zero {
            self.zero(to, 4 + room);
        }
        let (from, user) = self.pointer_or_object(&arguments[0]);
        let length = match arguments.get(1) {
            Some(length) => self.scalar(length),
            None => Val::Imm(room.into()),
        };
        let length = self.at_most(length, room);
        self.store(Size::W, to, length);
        let helper = if user { id::PROBE_READ_USER } else { id::PROBE_READ_KERNEL };
        let place = self.address(to.plus(4));
        let result = self.call(helper, vec![place, length.into(), from]);
        self.count_failed_read(helper, result);
    }

    /// Length of a string without its NUL.
    pub fn string_length(&mut self, expr: &Expr) -> Val {
        if let ExprKind::Str(bytes) = &expr.kind {
            return Val::Imm(bytes.len() as i64);
        }
        let size = expr.ty.size();
        let copy = self.scratch(size);
        let (from, user) = self.pointer_or_object(expr);
        let result = self.read_string_from(copy, size, from, user, Pad::Any);
        // An error has no length; otherwise the NUL is not counted.
        let length = self.set(Val::Imm(0));
        let (good, end) = (self.new_block(), self.new_block());
        self.branch(JumpOp::SignedGt, result.into(), Val::Imm(0), good, end);
        self.switch(good);
        let without = self.add(result.into(), -1);
        self.assign(length, without);
        self.goto_and_switch(end);
        length.into()
    }

    /// A copy of a string in scratch memory with zeros up to `size + extra`, so that words may be read beyond
    /// its end.
    fn padded_copy(&mut self, expr: &Expr, extra: u32) -> (Mem, u32) {
        let size = match &expr.ty {
            Type::String(size) => *size,
            _ => self.shared.schema.config.max_strlen,
        };
        let copy = self.scratch(size + extra);
        self.zero(copy, size + extra);
        if let ExprKind::Str(bytes) = &expr.kind {
            self.store_bytes(copy, bytes, size);
        } else {
            let (from, user) = self.pointer_or_object(expr);
            self.read_string_from(copy, size, from, user, Pad::Any);
        }
        (copy, size)
    }

    /// A loop over `0..count` that the verifier walks: `body` gets the index and the block that leaves.
    pub fn counted(&mut self, count: u32, body: impl FnOnce(&mut Self, V, crate::lir::BlockId)) {
        let index = self.set(Val::Imm(0));
        let (head, inner, next, end) =
            (self.new_block(), self.new_block(), self.new_block(), self.new_block());
        self.goto_and_switch(head);
        self.branch(JumpOp::Ge, index.into(), Val::Imm(count.into()), end, inner);
        self.switch(inner);
        body(self, index, end);
        self.goto_and_switch(next);
        let more = self.add(index.into(), 1);
        self.assign(index, more);
        self.goto(head);
        self.switch(end);
    }

    /// Place of the first occurrence of `needle` in `hay`, -1 if there is none.
    pub fn string_find(&mut self, hay: &Expr, needle: &Expr) -> Val {
        let ExprKind::Str(wanted) = &needle.kind else {
            return self.find_any(hay, needle);
        };
        let wanted = wanted.clone();
        if wanted.is_empty() {
            return Val::Imm(0);
        }
        let (copy, size) = self.padded_copy(hay, wanted.len() as u32 + 8);
        let found = self.set(Val::Imm(-1));
        let base = self.pointer(copy);
        self.counted(size, |b, index, end| {
            let at = b.binary(AluOp::Add, base.into(), index.into());
            let at = b.in_register(at);
            let differ = b.new_block();
            b.compare_words(at, &wanted, differ);
            b.assign(found, index);
            b.goto(end);
            b.switch(differ);
            // Nothing can begin after the end of the text.
            let first = b.load_from(Size::B, Base::V(at), 0, false);
            let go_on = b.new_block();
            b.branch(JumpOp::Eq, first.into(), Val::Imm(0), end, go_on);
            b.switch(go_on);
        });
        // Each turn leaves the loop with its own number; as one unknown number what follows is walked once.
        self.launder(found.into())
    }

    /// Goes on if the bytes at an address are these, to `differ` otherwise.
    pub fn compare_words(&mut self, at: V, wanted: &[u8], differ: crate::lir::BlockId) {
        let mut offset = 0;
        for word in [8, 4, 2, 1] {
            while wanted.len() - offset >= word {
                let part = &wanted[offset..offset + word];
                let value = part.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
                let size = Size::from_bytes(word as u32).unwrap_or(Size::B);
                let have = self.load_from(size, Base::V(at), offset as i32, false);
                let same = self.new_block();
                self.branch(JumpOp::Ne, have.into(), Val::Imm(value as i64), differ, same);
                self.switch(same);
                offset += word;
            }
        }
    }

    /// Search for a text known at run time only: at each place, byte by byte.
    fn find_any(&mut self, hay: &Expr, needle: &Expr) -> Val {
        let (hay_copy, hay_size) = self.padded_copy(hay, 8);
        let (needle_copy, needle_size) = self.padded_copy(needle, 8);
        // The verifier walks the product of both loops; these bounds keep it within its budget.
        let (hay_most, needle_most) = (hay_size.min(256), needle_size.min(64));
        let found = self.set(Val::Imm(-1));
        let (hay_base, needle_base) = (self.pointer(hay_copy), self.pointer(needle_copy));
        self.counted(hay_most, |b, start, end| {
            let differ = b.new_block();
            let matched = b.new_block();
            let from = b.binary(AluOp::Add, hay_base.into(), start.into());
            b.counted(needle_most, |b, index, _| {
                let place = b.binary(AluOp::Add, needle_base.into(), index.into());
                let place = b.in_register(place);
                let want = b.load_from(Size::B, Base::V(place), 0, false);
                let more = b.new_block();
                b.branch(JumpOp::Eq, want.into(), Val::Imm(0), matched, more);
                b.switch(more);
                let sum = b.binary(AluOp::Add, start.into(), index.into());
                let inside = b.new_block();
                b.branch(JumpOp::Ge, sum, Val::Imm(hay_size.into()), differ, inside);
                b.switch(inside);
                let place = b.binary(AluOp::Add, hay_base.into(), sum);
                let place = b.in_register(place);
                let have = b.load_from(Size::B, Base::V(place), 0, false);
                let same = b.new_block();
                b.branch(JumpOp::Ne, have.into(), want.into(), differ, same);
                b.switch(same);
            });
            b.goto_and_switch(matched);
            b.assign(found, start);
            b.goto(end);
            b.switch(differ);
            let from = b.in_register(from);
            let first = b.load_from(Size::B, Base::V(from), 0, false);
            let go_on = b.new_block();
            b.branch(JumpOp::Eq, first.into(), Val::Imm(0), end, go_on);
            b.switch(go_on);
        });
        self.launder(found.into())
    }

    /// Whether a string matches a constant pattern with `*` and `?`.
    pub fn glob_match(&mut self, text: &Expr, pattern: &Expr) -> Val {
        let ExprKind::Str(pattern) = &pattern.kind else {
            self.unsupported("the pattern has to be a constant string");
            return Val::Imm(0);
        };
        // Parts between stars: the first is anchored at the start, the last at the end.
        let parts = glob::parts(pattern);
        let longest = parts.iter().map(Vec::len).max().unwrap_or(0) as u32;
        let (copy, size) = self.padded_copy(text, longest + 8);
        let base = self.pointer(copy);
        let result = self.set(Val::Imm(0));
        let (fail, end) = (self.new_block(), self.new_block());
        let position = self.set(Val::Imm(0));
        for (at, part) in parts.iter().enumerate() {
            let first = at == 0;
            let last = at + 1 == parts.len();
            let mut wanted = part.clone();
            if last {
                wanted.push(Element::Byte(0));
            }
            if first {
                self.match_part(base, &wanted, fail);
                self.assign(position, Val::Imm(part.len() as i64));
                continue;
            }
            if last && part.is_empty() {
                break;
            }
            let matched = self.new_block();
            let start = position;
            let hit = self.set(Val::Imm(0));
            self.counted(size, |b, index, _| {
                let (try_here, next) = (b.new_block(), b.new_block());
                b.branch(JumpOp::Lt, index.into(), start.into(), next, try_here);
                b.switch(try_here);
                let place = b.binary(AluOp::Add, base.into(), index.into());
                let place = b.in_register(place);
                let differ = b.new_block();
                b.match_part(place, &wanted, differ);
                b.assign(hit, index);
                b.goto(matched);
                b.switch(differ);
                let byte = b.load_from(Size::B, Base::V(place), 0, false);
                b.branch(JumpOp::Eq, byte.into(), Val::Imm(0), fail, next);
                b.switch(next);
            });
            self.goto(fail);
            self.switch(matched);
            let hit = self.launder(hit.into());
            let after = self.add(hit, part.len() as i64);
            self.assign(position, after);
        }
        self.assign(result, Val::Imm(1));
        self.goto(end);
        self.switch(fail);
        self.goto_and_switch(end);
        result.into()
    }

    /// Goes on where the bytes are those wanted, to `differ` where one is not or the text ends.
    fn match_part(&mut self, at: V, wanted: &[Element], differ: crate::lir::BlockId) {
        for (offset, element) in wanted.iter().enumerate() {
            let have = self.load_from(Size::B, Base::V(at), offset as i32, false);
            let same = self.new_block();
            match element {
                Element::Any => self.branch(JumpOp::Eq, have.into(), Val::Imm(0), differ, same),
                Element::Byte(byte) => {
                    self.branch(JumpOp::Ne, have.into(), Val::Imm((*byte).into()), differ, same);
                }
                Element::Class { negated, ranges } => {
                    let inside = self.new_block();
                    self.branch(JumpOp::Eq, have.into(), Val::Imm(0), differ, inside);
                    self.switch(inside);
                    let (found, missing) = if *negated { (differ, same) } else { (same, differ) };
                    for (low, high) in ranges {
                        let (at_least, next) = (self.new_block(), self.new_block());
                        self.branch(JumpOp::Ge, have.into(), Val::Imm((*low).into()), at_least, next);
                        self.switch(at_least);
                        self.branch(JumpOp::Le, have.into(), Val::Imm((*high).into()), found, next);
                        self.switch(next);
                    }
                    self.goto(missing);
                }
            }
            self.switch(same);
        }
    }
}
