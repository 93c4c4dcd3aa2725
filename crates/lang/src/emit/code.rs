//! Instructions for one function with its registers assigned, and the functions of a unit put together.

use std::collections::BTreeSet;

use bpf::insn::*;

use super::assign::Assignment;
use super::ranges::commutative;
use super::{EmitError, Emitted, Machine, STACK_LIMIT};
use crate::lir::{
    Base, BlockId, Callee, Function, FunctionId, Op, Source, StackId, Terminator, Unit, V, Val,
};
use crate::source::Span;

/// Code of one function; jumps are resolved, references to other functions are not.
#[derive(Debug, Default)]
pub struct Part {
    instructions: Vec<Instruction>,
    spans: Vec<(u32, Span)>,
    /// Instruction indexes of `func` loads and the function meant.
    callbacks: Vec<(usize, FunctionId)>,
    frame: u32,
    name: String,
}

struct Generator<'f> {
    function: &'f Function,
    assignment: &'f Assignment,
    machine: Machine,
    part: Part,
    slot: u32,
    jumps: Vec<PendingJump>,
    /// Blocks whose condition jumps farther than 16 bits reach.
    far: &'f BTreeSet<BlockId>,
    block: BlockId,
    block_slot: Vec<u32>,
    span: Span,
}

/// A jump to be resolved.
struct PendingJump {
    /// Index of the instruction.
    index: usize,
    slot: u32,
    from: BlockId,
    to: BlockId,
}

/// Generates one function.
pub fn generate(function: &Function, assignment: &Assignment, machine: Machine) -> Result<Part, EmitError> {
    // Long jumps make the code longer, so that others may become long too; each round adds some.
    let mut far = BTreeSet::new();
    loop {
        let (part, more) = attempt(function, assignment, machine, &far)?;
        if more.is_empty() {
            return Ok(part);
        }
        far.extend(more);
    }
}

/// The function with these conditions jumping far, and those that ought to as well.
fn attempt(
    function: &Function,
    assignment: &Assignment,
    machine: Machine,
    far: &BTreeSet<BlockId>,
) -> Result<(Part, Vec<BlockId>), EmitError> {
    let part = Part { frame: assignment.frame, name: function.name.clone(), ..Part::default() };
    let block_slot = vec![0; function.blocks.len()];
    let mut generator = Generator {
        function,
        assignment,
        machine,
        part,
        slot: 0,
        jumps: Vec::new(),
        far,
        block: BlockId(0),
        block_slot,
        span: Span::NONE,
    };
    generator.entry();
    for (at, id) in assignment.order.iter().enumerate() {
        let next = assignment.order.get(at + 1).copied();
        let block = &function.blocks[id.0 as usize];
        generator.block_slot[id.0 as usize] = generator.slot;
        generator.block = *id;
        for instruction in &block.instructions {
            generator.span = instruction.span;
            generator.op(&instruction.op);
        }
        generator.span = block.span;
        generator.terminator(&block.terminator, next);
    }
    let more = generator.resolve()?;
    Ok((generator.part, more))
}

/// Puts functions one after the other and checks the stack of each chain (callbacks run on top of function 0).
pub fn link(unit: &Unit, parts: Vec<Part>) -> Result<Emitted, EmitError> {
    let mut out = Emitted::default();
    let mut slots = Vec::with_capacity(parts.len());
    let mut total = 0;
    for part in &parts {
        slots.push(total);
        total += slot_count(&part.instructions);
    }
    out.stack = stack_of(&parts, 0);
    if out.stack > STACK_LIMIT {
        let deepest = parts.iter().max_by_key(|part| part.frame).map_or("", |part| &part.name);
        return Err(EmitError::Stack { function: deepest.to_string(), bytes: out.stack, limit: STACK_LIMIT });
    }
    debug_assert_eq!(unit.functions.len(), parts.len());
    for (number, part) in parts.into_iter().enumerate() {
        let base = slots[number];
        let mut callbacks = part.callbacks.into_iter().peekable();
        let mut slot = base;
        for (at, mut instruction) in part.instructions.into_iter().enumerate() {
            if let Some((_, target)) = callbacks.next_if(|(index, _)| *index == at)
                && let Instruction::LoadImm64 { value: Imm64::Function(offset), .. } = &mut instruction
            {
                // The kernel counts from the instruction after the first slot of the load.
                *offset = slots[target.0 as usize] as i32 - slot as i32 - 1;
            }
            slot += instruction.slots();
            out.instructions.push(instruction);
        }
        out.spans.extend(part.spans.into_iter().map(|(slot, span)| (slot + base, span)));
    }
    out.functions = slots;
    Ok(out)
}

/// Frames are rounded up to 32 bytes by the verifier.
fn stack_of(parts: &[Part], at: usize) -> u32 {
    let own = parts[at].frame.max(1).next_multiple_of(32);
    let below = parts[at].callbacks.iter().map(|(_, target)| target.0 as usize).filter(|target| *target > at);
    own + below.map(|target| stack_of(parts, target)).max().unwrap_or(0)
}

impl Generator<'_> {
    fn push(&mut self, instruction: Instruction) {
        if self.part.spans.last().is_none_or(|(_, span)| *span != self.span) && self.span != Span::NONE {
            self.part.spans.push((self.slot, self.span));
        }
        self.slot += instruction.slots();
        self.part.instructions.push(instruction);
    }

    fn reg(&self, v: V) -> Reg {
        // A register that is never live has no place; r0 is as good as any.
        self.assignment.register[v.0 as usize].unwrap_or(R0)
    }

    fn operand(&self, val: Val) -> Operand {
        match val {
            Val::V(v) => Operand::Reg(self.reg(v)),
            Val::Imm(imm) => Operand::Imm(imm as i32),
        }
    }

    fn base(&self, base: Base, offset: i32) -> (Reg, i16) {
        match base {
            Base::V(v) => (self.reg(v), offset as i16),
            Base::Stack(id) => (R10, (offset - self.below(id)) as i16),
        }
    }

    fn below(&self, id: StackId) -> i32 {
        self.assignment.offset[id.0 as usize] as i32
    }

    fn copy(&mut self, dst: Reg, src: Reg) {
        if dst != src {
            self.push(Instruction::mov(dst, src));
        }
    }

    fn entry(&mut self) {
        let moves: Vec<(Reg, Reg)> = self
            .function
            .parameters
            .iter()
            .enumerate()
            .filter_map(|(at, v)| Some((self.assignment.register[v.0 as usize]?, Reg(at as u8 + 1))))
            .collect();
        self.parallel(moves);
    }

    /// Moves that happen at once, `(to, from)`; r0 is free unless it is a source.
    fn parallel(&mut self, mut moves: Vec<(Reg, Reg)>) {
        moves.retain(|(to, from)| to != from);
        while !moves.is_empty() {
            let ready = moves.iter().position(|(to, _)| moves.iter().all(|(_, from)| from != to));
            match ready {
                Some(at) => {
                    let (to, from) = moves.swap_remove(at);
                    self.push(Instruction::mov(to, from));
                }
                None => {
                    // Only cycles are left, and r0 is no destination, so it is in none of them.
                    let (_, from) = moves[0];
                    self.push(Instruction::mov(R0, from));
                    for (_, source) in &mut moves {
                        if *source == from {
                            *source = R0;
                        }
                    }
                }
            }
        }
    }

    fn op(&mut self, op: &Op) {
        match *op {
            Op::Set { dst, value } => {
                let dst = self.reg(dst);
                self.source(dst, value);
            }
            Op::Binary { op, width, dst, left, right } => self.binary(op, width, dst, left, right),
            Op::Neg { dst, src } => {
                let (dst, src) = (self.reg(dst), self.reg(src));
                self.copy(dst, src);
                self.push(Instruction::Neg { width: Width::W64, dst });
            }
            Op::Extend { dst, src, bits, signed } => self.extend(dst, src, bits, signed),
            Op::Swap { dst, src, bits } => {
                let (dst, src) = (self.reg(dst), self.reg(src));
                self.copy(dst, src);
                self.push(Instruction::Endian { order: ByteOrder::Big, dst, bits });
            }
            Op::Load { dst, size, base, offset, .. } => {
                let (base, offset) = self.base(base, offset);
                let dst = self.reg(dst);
                self.push(Instruction::load(size, dst, base, offset));
            }
            Op::Store { size, base, offset, value } => {
                let (base, offset) = self.base(base, offset);
                let src = self.operand(value);
                self.push(Instruction::store(size, base, offset, src));
            }
            Op::AtomicAdd { size, base, offset, value, fetch } => {
                let (base, value) = (self.reg(base), self.reg(value));
                let src = match fetch {
                    Some(fetch) => {
                        let fetch = self.reg(fetch);
                        self.copy(fetch, value);
                        fetch
                    }
                    None => value,
                };
                let fetch = fetch.is_some();
                self.push(Instruction::Atomic {
                    size,
                    op: AtomicOp::Add,
                    fetch,
                    base,
                    offset: offset as i16,
                    src,
                });
            }
            Op::Call { dst, callee, ref arguments, .. } => self.call(dst, callee, arguments),
        }
    }

    fn source(&mut self, dst: Reg, value: Source) {
        match value {
            Source::Val(Val::V(v)) => {
                let src = self.reg(v);
                self.copy(dst, src);
            }
            Source::Val(Val::Imm(imm)) => match (i32::try_from(imm), u32::try_from(imm)) {
                (Ok(imm), _) => self.push(Instruction::mov(dst, imm)),
                (_, Ok(imm)) => self.push(Instruction::Alu {
                    width: Width::W32,
                    op: AluOp::Mov,
                    dst,
                    src: Operand::Imm(imm as i32),
                }),
                _ => self.push(Instruction::LoadImm64 { dst, value: Imm64::Value(imm as u64) }),
            },
            Source::Map(map) => self.push(Instruction::map(dst, map)),
            Source::MapValue { map, offset } => {
                self.push(Instruction::LoadImm64 { dst, value: Imm64::MapValue { map, offset } });
            }
            Source::Stack(id, offset) => {
                self.push(Instruction::mov(dst, R10));
                self.push(Instruction::alu(AluOp::Add, dst, offset - self.below(id)));
            }
            Source::Function(id) => {
                self.part.callbacks.push((self.part.instructions.len(), id));
                self.push(Instruction::LoadImm64 { dst, value: Imm64::Function(0) });
            }
            Source::Variable(id) => self.push(Instruction::LoadImm64 { dst, value: Imm64::Variable(id) }),
        }
    }

    fn binary(&mut self, op: AluOp, width: Width, dst: V, left: V, right: Val) {
        let (dst, left) = (self.reg(dst), self.reg(left));
        let (left, right) = match self.operand(right) {
            // `a = b + a` without a move.
            Operand::Reg(other) if other == dst && left != dst && commutative(op) => {
                (other, Operand::Reg(left))
            }
            other => (left, other),
        };
        if left != dst {
            self.push(Instruction::Alu { width, op: AluOp::Mov, dst, src: left.into() });
        }
        self.push(Instruction::Alu { width, op, dst, src: right });
    }

    fn extend(&mut self, dst: V, src: V, bits: u8, signed: bool) {
        let (dst, src) = (self.reg(dst), self.reg(src));
        match (bits, signed) {
            (32, false) => {
                self.push(Instruction::Alu { width: Width::W32, op: AluOp::Mov, dst, src: src.into() });
            }
            (_, false) => {
                self.copy(dst, src);
                let mask = (1_i32 << bits) - 1;
                self.push(Instruction::alu(AluOp::And, dst, mask));
            }
            (_, true) if self.machine.v4 => {
                self.push(Instruction::MovSigned { width: Width::W64, dst, src, bits });
            }
            (_, true) => {
                self.copy(dst, src);
                let shift = 64 - i32::from(bits);
                self.push(Instruction::alu(AluOp::Lsh, dst, shift));
                self.push(Instruction::alu(AluOp::Arsh, dst, shift));
            }
        }
    }

    fn call(&mut self, dst: Option<V>, callee: Callee, arguments: &[Source]) {
        let mut moves = Vec::new();
        for (at, argument) in arguments.iter().enumerate() {
            if let Source::Val(Val::V(v)) = argument {
                moves.push((Reg(at as u8 + 1), self.reg(*v)));
            }
        }
        self.parallel(moves);
        for (at, argument) in arguments.iter().enumerate() {
            if !matches!(argument, Source::Val(Val::V(_))) {
                self.source(Reg(at as u8 + 1), *argument);
            }
        }
        self.push(match callee {
            Callee::Helper(helper) => Instruction::Call { helper },
            Callee::Kernel(btf_id) => Instruction::CallKernel { btf_id, module: 0 },
        });
        if let Some(dst) = dst {
            let dst = self.reg(dst);
            self.copy(dst, R0);
        }
    }

    fn jump(&mut self, to: BlockId) {
        self.pending(to);
        self.push(Instruction::Jump { offset: 0 });
    }

    fn pending(&mut self, to: BlockId) {
        let index = self.part.instructions.len();
        self.jumps.push(PendingJump { index, slot: self.slot, from: self.block, to });
    }

    fn terminator(&mut self, terminator: &Terminator, next: Option<BlockId>) {
        match *terminator {
            Terminator::Goto(to) => {
                if next != Some(to) {
                    self.jump(to);
                }
            }
            Terminator::Return(val) => {
                match val {
                    Val::V(v) => {
                        let src = self.reg(v);
                        self.copy(R0, src);
                    }
                    imm => self.source(R0, imm.into()),
                }
                self.push(Instruction::Exit);
            }
            Terminator::If { width, op, left, right, then, otherwise } => {
                let (op, then, otherwise) = match op.inverse() {
                    Some(inverse) if next == Some(then) => (inverse, otherwise, then),
                    _ => (op, then, otherwise),
                };
                let (left, right) = (self.reg(left), self.operand(right));
                if self.far.contains(&self.block) {
                    self.push(Instruction::JumpIf { width, op, left, right, offset: 1 });
                    self.push(Instruction::Jump { offset: 1 });
                    self.jump(then);
                } else {
                    self.pending(then);
                    self.push(Instruction::JumpIf { width, op, left, right, offset: 0 });
                }
                if next != Some(otherwise) {
                    self.jump(otherwise);
                }
            }
        }
    }

    /// Fills in the distances. Returns the blocks whose condition would have to jump too far.
    fn resolve(&mut self) -> Result<Vec<BlockId>, EmitError> {
        let mut far = Vec::new();
        for PendingJump { index, slot, from, to } in std::mem::take(&mut self.jumps) {
            let distance = i64::from(self.block_slot[to.0 as usize]) - i64::from(slot) - 1;
            match (&mut self.part.instructions[index], i16::try_from(distance)) {
                (Instruction::Jump { offset } | Instruction::JumpIf { offset, .. }, Ok(short)) => {
                    *offset = short
                }
                (jump @ Instruction::Jump { .. }, Err(_)) if self.machine.v4 => {
                    *jump = Instruction::JumpLong { offset: distance as i32 };
                }
                (Instruction::JumpIf { .. }, Err(_)) if self.machine.v4 => far.push(from),
                _ => {
                    let function = self.part.name.clone();
                    return Err(EmitError::Distance { function, slots: self.slot });
                }
            }
        }
        Ok(far)
    }
}
