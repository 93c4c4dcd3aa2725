//! One instruction after the other.

use super::memory::Memory;
use super::{Fault, MAX_STEPS, Machine};
use crate::insn::*;

/// Instructions with their slots.
pub(super) struct Code<'p> {
    instructions: &'p [Instruction],
    /// Slot of each instruction.
    slots: Vec<u32>,
    /// Instruction at each slot; none for second halves.
    at_slot: Vec<Option<usize>>,
}

impl<'p> Code<'p> {
    pub(super) fn new(instructions: &'p [Instruction]) -> Code<'p> {
        let mut slots = Vec::with_capacity(instructions.len());
        let mut at_slot = Vec::with_capacity(instructions.len());
        for (at, instruction) in instructions.iter().enumerate() {
            slots.push(at_slot.len() as u32);
            at_slot.push(Some(at));
            at_slot.extend((1..instruction.slots()).map(|_| None));
        }
        Code { instructions, slots, at_slot }
    }
}

/// Tags of values that are not addresses.
pub(super) const MAP_TAG: u64 = 0x0200_0000_0000_0000;
pub(super) const FUNCTION_TAG: u64 = 0x0300_0000_0000_0000;

const MAX_FRAMES: u32 = 8;

/// Registers of one frame.
struct Frame {
    values: [u64; 11],
    set: u16,
}

impl Frame {
    fn get(&self, reg: Reg) -> Result<u64, String> {
        if self.set >> reg.0 & 1 == 0 {
            Err(format!("{reg} is not initialised"))
        } else {
            Ok(self.values[reg.0 as usize])
        }
    }

    fn put(&mut self, reg: Reg, value: u64) -> Result<(), String> {
        if reg.0 > 9 {
            return Err(format!("{reg} cannot be written"));
        }
        self.values[reg.0 as usize] = value;
        self.set |= 1 << reg.0;
        Ok(())
    }

    fn operand(&self, operand: Operand) -> Result<u64, String> {
        match operand {
            Operand::Reg(reg) => self.get(reg),
            Operand::Imm(imm) => Ok(imm as i64 as u64),
        }
    }
}

enum Next {
    Go,
    Skip(i64),
    Return,
}

impl Machine {
    /// Runs the function at `slot` with the first `count` arguments.
    pub(super) fn call(
        &mut self,
        code: &Code<'_>,
        slot: u32,
        arguments: [u64; 5],
        count: u32,
        depth: u32,
    ) -> Result<u64, Fault> {
        if depth >= MAX_FRAMES {
            return Err(Fault { slot, what: "more than 8 nested calls".into() });
        }
        let stack = self.memory.add(512, false);
        let mut frame = Frame { values: [0; 11], set: 1 << 10 };
        frame.values[10] = self.memory.address(stack) + 512;
        for (at, value) in arguments.into_iter().enumerate().take(count as usize) {
            frame.values[at + 1] = value;
            frame.set |= 2 << at;
        }
        let result = self.run_frame(code, slot, &mut frame, depth);
        self.memory.remove(stack);
        result
    }

    fn run_frame(&mut self, code: &Code<'_>, slot: u32, frame: &mut Frame, depth: u32) -> Result<u64, Fault> {
        let mut at = code.at_slot.get(slot as usize).copied().flatten();
        let mut last = slot;
        loop {
            let Some(here) = at.filter(|here| *here < code.instructions.len()) else {
                return Err(Fault { slot: last, what: "control leaves the program".into() });
            };
            let slot = code.slots[here];
            let fault = |what: String| Fault { slot, what };
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return Err(fault(format!("still running after {MAX_STEPS} instructions")));
            }
            let instruction = &code.instructions[here];
            last = slot;
            at = match self.step(code, slot, instruction, frame, depth)? {
                Next::Go => Some(here + 1),
                Next::Return => return frame.get(R0).map_err(fault),
                Next::Skip(distance) => {
                    let target = i64::from(slot) + i64::from(instruction.slots()) + distance;
                    usize::try_from(target)
                        .ok()
                        .and_then(|target| code.at_slot.get(target).copied().flatten())
                }
            };
        }
    }

    fn step(
        &mut self,
        code: &Code<'_>,
        slot: u32,
        instruction: &Instruction,
        frame: &mut Frame,
        depth: u32,
    ) -> Result<Next, Fault> {
        let fault = |what: String| Fault { slot, what };
        match *instruction {
            Instruction::Exit => return Ok(Next::Return),
            Instruction::Jump { offset } => return Ok(Next::Skip(offset.into())),
            Instruction::JumpLong { offset } => return Ok(Next::Skip(offset.into())),
            Instruction::Call { helper } => {
                self.calls += 1;
                let mut arguments = [None; 5];
                for (at, argument) in arguments.iter_mut().enumerate() {
                    *argument = frame.get(Reg(at as u8 + 1)).ok();
                }
                let result = self.helper(code, slot, helper, arguments, depth)?;
                frame.set &= !0b11_1110;
                frame.put(R0, result).map_err(fault)?;
            }
            Instruction::CallLocal { offset } => {
                let target = i64::from(slot) + 1 + i64::from(offset);
                let target = u32::try_from(target).map_err(|_| fault("call out of the program".into()))?;
                let mut arguments = [0; 5];
                arguments.copy_from_slice(&frame.values[1..6]);
                let count = (frame.set >> 1 & 31).trailing_ones();
                let result = self.call(code, target, arguments, count, depth + 1)?;
                frame.set &= !0b11_1110;
                frame.put(R0, result).map_err(fault)?;
            }
            Instruction::LoadImm64 { dst, value: Imm64::Function(offset) } => {
                let target = i64::from(slot) + 1 + i64::from(offset);
                frame.put(dst, FUNCTION_TAG + target as u64).map_err(fault)?;
            }
            ref plain => {
                if let Some(distance) = self.plain(plain, frame).map_err(fault)? {
                    return Ok(Next::Skip(distance));
                }
            }
        }
        Ok(Next::Go)
    }

    /// Everything but calls and exits; answers the distance of a taken jump.
    fn plain(&mut self, instruction: &Instruction, frame: &mut Frame) -> Result<Option<i64>, String> {
        match *instruction {
            Instruction::Alu { width, op, dst, src } => {
                let right = frame.operand(src)?;
                let left = if op == AluOp::Mov { 0 } else { frame.get(dst)? };
                frame.put(dst, arithmetic(width, op, left, right)?)?;
            }
            Instruction::Neg { width, dst } => {
                let value = frame.get(dst)?.wrapping_neg();
                frame.put(dst, if width == Width::W32 { value & 0xffff_ffff } else { value })?;
            }
            Instruction::MovSigned { width, dst, src, bits } => {
                let shift = 64 - u32::from(bits);
                let value = ((frame.get(src)? << shift) as i64 >> shift) as u64;
                frame.put(dst, if width == Width::W32 { value & 0xffff_ffff } else { value })?;
            }
            Instruction::Endian { order, dst, bits } => {
                let value = frame.get(dst)?;
                let value = match (order, bits) {
                    (ByteOrder::Little, 16) => value & 0xffff,
                    (ByteOrder::Little, 32) => value & 0xffff_ffff,
                    (ByteOrder::Little, _) => value,
                    (_, 16) => u64::from((value as u16).swap_bytes()),
                    (_, 32) => u64::from((value as u32).swap_bytes()),
                    _ => value.swap_bytes(),
                };
                frame.put(dst, value)?;
            }
            Instruction::Load { size, signed, dst, base, offset } => {
                let address = frame.get(base)?.wrapping_add_signed(offset.into());
                let value = self.load(address, size)?;
                let shift = 64 - size.bytes() * 8;
                let value = if signed { ((value << shift) as i64 >> shift) as u64 } else { value };
                frame.put(dst, value)?;
            }
            Instruction::Store { size, base, offset, src } => {
                let address = frame.get(base)?.wrapping_add_signed(offset.into());
                let value = frame.operand(src)?.to_le_bytes();
                self.memory.write(address, &value[..size.bytes() as usize])?;
            }
            Instruction::Atomic { size, op, fetch, base, offset, src } => {
                let address = frame.get(base)?.wrapping_add_signed(offset.into());
                if address % u64::from(size.bytes()) != 0 {
                    return Err(format!("atomic at the unaligned address {address:#x}"));
                }
                let old = self.load(address, size)?;
                let operand = frame.get(src)?;
                let new = match op {
                    AtomicOp::Add => old.wrapping_add(operand),
                    AtomicOp::Or => old | operand,
                    AtomicOp::And => old & operand,
                    AtomicOp::Xor => old ^ operand,
                    AtomicOp::Exchange => operand,
                    AtomicOp::CompareExchange if frame.get(R0)? == old => operand,
                    AtomicOp::CompareExchange => old,
                };
                self.memory.write(address, &new.to_le_bytes()[..size.bytes() as usize])?;
                if op == AtomicOp::CompareExchange {
                    frame.put(R0, old)?;
                } else if fetch || op == AtomicOp::Exchange {
                    frame.put(src, old)?;
                }
            }
            Instruction::LoadImm64 { dst, value } => {
                let value = match value {
                    Imm64::Value(value) => value,
                    Imm64::Map(map) => MAP_TAG + u64::from(map),
                    Imm64::MapValue { map, offset } => {
                        let live = self.maps.get(map as usize).ok_or("no such map")?;
                        let region = *live.arrays.first().ok_or("no direct addresses in this kind of map")?;
                        if live.spec.kind.per_cpu()
                            || live.spec.max_entries != 1
                            || offset >= live.spec.value_size
                        {
                            return Err("direct addresses need an array of one element".into());
                        }
                        self.memory.address(region) + u64::from(offset)
                    }
                    Imm64::Variable(id) => return Err(format!("no kernel variable {id} here")),
                    Imm64::Function(_) => return Err("handled before".into()),
                };
                frame.put(dst, value)?;
            }
            Instruction::JumpIf { width, op, left, right, offset } => {
                let (mut left, mut right) = (frame.get(left)?, frame.operand(right)?);
                if width == Width::W32 {
                    let signed = matches!(
                        op,
                        JumpOp::SignedGt | JumpOp::SignedGe | JumpOp::SignedLt | JumpOp::SignedLe
                    );
                    let narrow = |value: u64| {
                        if signed { i64::from(value as i32) as u64 } else { u64::from(value as u32) }
                    };
                    (left, right) = (narrow(left), narrow(right));
                }
                return Ok(op.holds(left, right).then_some(offset.into()));
            }
            Instruction::CallKernel { btf_id, .. } => {
                return Err(format!("no kernel function {btf_id} here"));
            }
            Instruction::Exit
            | Instruction::Jump { .. }
            | Instruction::JumpLong { .. }
            | Instruction::Call { .. }
            | Instruction::CallLocal { .. } => {}
        }
        Ok(None)
    }

    /// A load: own memory strictly; kernel addresses as the kernel's fault table does, 0 where nothing is.
    fn load(&self, address: u64, size: Size) -> Result<u64, String> {
        let count = u64::from(size.bytes());
        let mut word = [0; 8];
        if Memory::owns(address) {
            word[..count as usize].copy_from_slice(self.memory.read(address, count)?);
        } else if address >> 63 != 0 {
            if let Some(bytes) = self.world.read(address, count) {
                word[..count as usize].copy_from_slice(bytes);
            }
        } else {
            return Err(format!("load through {address:#x}, which is no pointer"));
        }
        Ok(u64::from_le_bytes(word))
    }
}

fn arithmetic(width: Width, op: AluOp, left: u64, right: u64) -> Result<u64, String> {
    if width == Width::W32 {
        let (left, right) = (left as u32, right as u32);
        return Ok(u64::from(match op {
            AluOp::Add => left.wrapping_add(right),
            AluOp::Sub => left.wrapping_sub(right),
            AluOp::Mul => left.wrapping_mul(right),
            AluOp::Div => left.checked_div(right).unwrap_or(0),
            AluOp::Or => left | right,
            AluOp::And => left & right,
            AluOp::Lsh => left << (right & 31),
            AluOp::Rsh => left >> (right & 31),
            AluOp::Mod => left.checked_rem(right).unwrap_or(left),
            AluOp::Xor => left ^ right,
            AluOp::Mov => right,
            AluOp::Arsh => (left as i32 >> (right & 31)) as u32,
            AluOp::SignedDiv if right == 0 => 0,
            AluOp::SignedMod if right == 0 => left,
            AluOp::SignedDiv => (left as i32).wrapping_div(right as i32) as u32,
            AluOp::SignedMod => (left as i32).wrapping_rem(right as i32) as u32,
        }));
    }
    Ok(match op {
        AluOp::Add => left.wrapping_add(right),
        AluOp::Sub => left.wrapping_sub(right),
        AluOp::Mul => left.wrapping_mul(right),
        AluOp::Div => left.checked_div(right).unwrap_or(0),
        AluOp::Or => left | right,
        AluOp::And => left & right,
        AluOp::Lsh => left << (right & 63),
        AluOp::Rsh => left >> (right & 63),
        AluOp::Mod => left.checked_rem(right).unwrap_or(left),
        AluOp::Xor => left ^ right,
        AluOp::Mov => right,
        AluOp::Arsh => (left as i64 >> (right & 63)) as u64,
        AluOp::SignedDiv if right == 0 => 0,
        AluOp::SignedMod if right == 0 => left,
        AluOp::SignedDiv => (left as i64).wrapping_div(right as i64) as u64,
        AluOp::SignedMod => (left as i64).wrapping_rem(right as i64) as u64,
    })
}
