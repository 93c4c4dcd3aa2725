//! Loops. `unroll` repeats code; `while`, `for` over a range and `for` over a map become callbacks of
//! `bpf_loop` and `bpf_for_each_map_elem`, which the verifier walks once whatever the number of turns.
//!
//! A callback gets the probe's context through a word on its caller's stack. Variables that both sides mention
//! live in scratch memory, which the verifier does not follow.

use bpf::helpers::id;
use bpf::insn::{AluOp, JumpOp, Size};

use super::builder::{Builder, Home, LoopKind};
use super::memory::Mem;
use super::object::Pad;
use crate::hir::{Block, Expr, LocalId};
use crate::lir::{Base, FunctionId, Op, Source, Terminator, V, Val};
use crate::schema::{MapId, MapValue};
use crate::types::Type;

/// The most turns `bpf_loop` accepts.
const MAX_TURNS: i64 = 1 << 23;
/// Copies of an unrolled body up to this many; more become a counted loop.
const MAX_COPIES: u32 = 128;

impl Builder<'_, '_> {
    pub fn unroll(&mut self, count: u32, body: &Block) {
        if count > MAX_COPIES {
            let leave = self.new_block();
            self.counted(count, |b, _, _| {
                let next = b.new_block();
                b.frame().loops.push(LoopKind::Blocks { leave, next });
                b.block(body);
                b.frame().loops.pop();
                b.goto_and_switch(next);
            });
            self.goto_and_switch(leave);
            return;
        }
        let leave = self.new_block();
        let regions = self.scope().regions;
        for _ in 0..count {
            // Each copy meets the same inner loops.
            self.scope().regions = regions;
            let next = self.new_block();
            self.frame().loops.push(LoopKind::Blocks { leave, next });
            self.block(body);
            self.frame().loops.pop();
            self.goto_and_switch(next);
        }
        self.goto_and_switch(leave);
    }

    /// An iterator is called once more at its end, with a null object after the `meta` pointer.
    pub fn skip_end_of_iteration(&mut self) {
        if self.kind != crate::schema::ProgramKind::Iterator {
            return;
        }
        let context = self.context();
        let object = self.load_from(Size::D, Base::V(context), 8, true);
        let (end, go_on) = (self.cold_block(), self.new_block());
        self.branch(JumpOp::Eq, object.into(), Val::Imm(0), end, go_on);
        self.switch(end);
        self.end(Terminator::Return(Val::Imm(0)));
        self.switch(go_on);
    }

    /// A word on the stack that hands the context to a callback.
    fn bridge(&mut self) -> Source {
        let object = self.stack_object(8);
        match self.frame().context {
            Some(context) => {
                self.op(Op::Store {
                    size: Size::D,
                    base: Base::Stack(object),
                    offset: 0,
                    value: context.into(),
                });
            }
            None => {
                self.op(Op::Store { size: Size::D, base: Base::Stack(object), offset: 0, value: Val::Imm(0) })
            }
        }
        Source::Stack(object, 0)
    }

    fn reset_control(&mut self) {
        let control = self.control_word();
        self.store(Size::D, control, Val::Imm(0));
    }

    /// Begins a callback and gives its function; `context` is the parameter with the bridge.
    fn begin_callback(
        &mut self,
        what: &str,
        parameters: &[&'static str],
        bridge: usize,
    ) -> (FunctionId, Vec<V>) {
        let region = self.scope().regions.enter();
        let name = format!("{what}_{}", self.unit.functions.len());
        let id = self.begin_function(name, parameters, region);
        let list = self.function().parameters.clone();
        let context = self.load_from(Size::D, Base::V(list[bridge]), 0, true);
        self.frame().context = Some(context);
        self.frame().loops.push(LoopKind::Callback);
        self.open_region(region);
        (id, list)
    }

    fn end_callback(&mut self) {
        self.end(Terminator::Return(Val::Imm(0)));
        self.end_function();
    }

    fn no_loops(&mut self) -> bool {
        if !self.shared.loops {
            self.unsupported("loops need bpf_loop (Linux 5.17)");
        }
        !self.shared.loops
    }

    pub fn while_loop(&mut self, condition: &Expr, body: &Block) {
        if self.no_loops() {
            return;
        }
        let bridge = self.bridge();
        self.reset_control();
        let (function, _) = self.begin_callback("while", &["index", "context"], 1);
        let (inner, done) = (self.new_block(), self.new_block());
        self.condition(condition, inner, done);
        self.switch(done);
        self.end(Terminator::Return(Val::Imm(1)));
        self.switch(inner);
        self.block(body);
        self.end_callback();
        self.call(
            id::LOOP,
            vec![Val::Imm(MAX_TURNS).into(), Source::Function(function), bridge, Val::Imm(0).into()],
        );
        self.after_callback();
    }

    pub fn for_range(&mut self, local: LocalId, start: &Expr, end: &Expr, body: &Block) {
        if self.no_loops() {
            return;
        }
        let ty = self.scope().variables[local.0 as usize].ty.clone();
        let first = self.scalar_before(start, end);
        let last = self.scalar(end);
        let less = if ty.is_signed() { JumpOp::SignedLt } else { JumpOp::Lt };
        let turns = if let (Val::Imm(a), Val::Imm(b)) = (first, last) {
            Val::Imm(if less.holds(a as u64, b as u64) { b.wrapping_sub(a) } else { 0 })
        } else {
            let count = self.set(Val::Imm(0));
            let (some, go) = (self.new_block(), self.new_block());
            self.branch(less, first, last, some, go);
            self.switch(some);
            let turns = self.binary(AluOp::Sub, last, first);
            self.assign(count, turns);
            self.goto_and_switch(go);
            // A count that the verifier knows to be 0 makes it forget the callback and then stumble over it.
            self.launder(count.into())
        };
        let turns = self.at_most(turns, MAX_TURNS as u32);
        if turns == Val::Imm(0) {
            // The regions of the loops inside are still counted, by lowering them into nothing.
            let here = self.frame().block;
            let nowhere = self.new_block();
            self.switch(nowhere);
            self.range_body(local, first, Val::Imm(1), &ty, body);
            self.switch(here);
            return;
        }
        self.range_body(local, first, turns, &ty, body);
    }

    fn range_body(&mut self, local: LocalId, first: Val, turns: Val, ty: &Type, body: &Block) {
        let start_word = self.scratch(8);
        self.store(Size::D, start_word, first);
        let bridge = self.bridge();
        self.reset_control();
        let (function, parameters) = self.begin_callback("for", &["index", "context"], 1);
        let first = self.load(Size::D, start_word);
        let value = self.binary(AluOp::Add, first.into(), parameters[0].into());
        let value = self.canonical(value, ty);
        self.set_local(local, value);
        self.block(body);
        self.end_callback();
        self.call(id::LOOP, vec![turns.into(), Source::Function(function), bridge, Val::Imm(0).into()]);
        self.after_callback();
    }

    pub fn for_map(&mut self, map: MapId, local: LocalId, body: &Block) {
        if !self.shared.for_each {
            self.unsupported("loops over maps need bpf_for_each_map_elem (Linux 5.13)");
            return;
        }
        let Some(index) = self.kernel_map(map) else { return };
        let description = self.shared.schema.maps[map.0 as usize].clone();
        let ty = self.scope().variables[local.0 as usize].ty.clone();
        let bridge = self.bridge();
        self.reset_control();
        let (function, parameters) = self.begin_callback("each", &["map", "key", "value", "context"], 3);
        let (key, value) = (Mem::at(parameters[1]), Mem::at(parameters[2]));
        if let (Home::Memory(to), Type::Tuple(fields)) = (self.home(local), &ty) {
            self.zero_gaps(fields, ty.size(), to);
            let key_type = fields[0].ty.clone();
            self.copy_object(to.plus(fields[0].offset), key, &key_type, Pad::Zero, true);
            let field = &fields[1];
            match &description.value {
                MapValue::Plain(plain) => {
                    self.copy_object(to.plus(field.offset), value, plain, Pad::Any, false);
                }
                aggregate => {
                    let key = self.pointer(key);
                    let sum = self.aggregate_of_key(map, aggregate, key.into());
                    self.store_scalar(&field.ty, to.plus(field.offset), sum);
                }
            }
        }
        self.block(body);
        self.end_callback();
        self.call(
            id::FOR_EACH_MAP_ELEM,
            vec![Source::Map(index), Source::Function(function), bridge, Val::Imm(0).into()],
        );
        self.after_callback();
    }

    /// `len(@m)`.
    pub fn map_length(&mut self, map: MapId) -> Val {
        let Some(index) = self.kernel_map(map) else { return Val::Imm(1) };
        if !self.shared.for_each {
            self.unsupported("len() of a map needs bpf_for_each_map_elem (Linux 5.13)");
            return Val::Imm(0);
        }
        let name = format!("count_{}", self.unit.functions.len());
        let region = self.frame().region;
        let function = self.begin_function(name, &["map", "key", "value", "context"], region);
        self.end(Terminator::Return(Val::Imm(0)));
        self.end_function();
        let nothing = Val::Imm(0);
        let counted = self.call(
            id::FOR_EACH_MAP_ELEM,
            vec![Source::Map(index), Source::Function(function), nothing.into(), nothing.into()],
        );
        counted.into()
    }
}
