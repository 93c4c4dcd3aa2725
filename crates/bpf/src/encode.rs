//! Instructions to and from the kernel's 8-byte slots (little endian, as on every host lotse runs on).

use crate::insn::*;

/// How map references are written.
#[derive(Clone, Copy, Debug)]
pub enum MapReferences<'a> {
    /// As indexes into the load's `fd_array` (`BPF_PSEUDO_MAP_IDX`, kernel 5.14).
    Indexes,
    /// As file descriptors, `fds[map]`.
    Descriptors(&'a [i32]),
}

const LD: u8 = 0;
const LDX: u8 = 1;
const ST: u8 = 2;
const STX: u8 = 3;
const ALU: u8 = 4;
const JMP: u8 = 5;
const JMP32: u8 = 6;
const ALU64: u8 = 7;
const SRC_REG: u8 = 0x08;
const MODE_IMM: u8 = 0x00;
const MODE_MEM: u8 = 0x60;
const MODE_MEM_SIGNED: u8 = 0x80;
const MODE_ATOMIC: u8 = 0xc0;
const OP_NEG: u8 = 0x80;
const OP_END: u8 = 0xd0;
const FETCH: i32 = 1;

#[derive(Clone, Copy, Debug)]
struct Slot {
    code: u8,
    dst: u8,
    src: u8,
    offset: i16,
    imm: i32,
}

impl Slot {
    fn bytes(self) -> [u8; 8] {
        let [o0, o1] = self.offset.to_le_bytes();
        let [i0, i1, i2, i3] = self.imm.to_le_bytes();
        [self.code, self.dst | self.src << 4, o0, o1, i0, i1, i2, i3]
    }

    fn parse(bytes: [u8; 8]) -> Slot {
        let [code, regs, o0, o1, i0, i1, i2, i3] = bytes;
        Slot {
            code,
            dst: regs & 15,
            src: regs >> 4,
            offset: i16::from_le_bytes([o0, o1]),
            imm: i32::from_le_bytes([i0, i1, i2, i3]),
        }
    }
}

fn size_bits(size: Size) -> u8 {
    match size {
        Size::W => 0x00,
        Size::H => 0x08,
        Size::B => 0x10,
        Size::D => 0x18,
    }
}

fn size_of_bits(code: u8) -> Size {
    match code & 0x18 {
        0x00 => Size::W,
        0x08 => Size::H,
        0x10 => Size::B,
        _ => Size::D,
    }
}

fn alu_bits(op: AluOp) -> (u8, i16) {
    match op {
        AluOp::Add => (0x00, 0),
        AluOp::Sub => (0x10, 0),
        AluOp::Mul => (0x20, 0),
        AluOp::Div => (0x30, 0),
        AluOp::Or => (0x40, 0),
        AluOp::And => (0x50, 0),
        AluOp::Lsh => (0x60, 0),
        AluOp::Rsh => (0x70, 0),
        AluOp::Mod => (0x90, 0),
        AluOp::Xor => (0xa0, 0),
        AluOp::Mov => (0xb0, 0),
        AluOp::Arsh => (0xc0, 0),
        AluOp::SignedDiv => (0x30, 1),
        AluOp::SignedMod => (0x90, 1),
    }
}

fn jump_bits(op: JumpOp) -> u8 {
    match op {
        JumpOp::Eq => 0x10,
        JumpOp::Gt => 0x20,
        JumpOp::Ge => 0x30,
        JumpOp::Set => 0x40,
        JumpOp::Ne => 0x50,
        JumpOp::SignedGt => 0x60,
        JumpOp::SignedGe => 0x70,
        JumpOp::Lt => 0xa0,
        JumpOp::Le => 0xb0,
        JumpOp::SignedLt => 0xc0,
        JumpOp::SignedLe => 0xd0,
    }
}

fn atomic_bits(op: AtomicOp) -> i32 {
    match op {
        AtomicOp::Add => 0x00,
        AtomicOp::Or => 0x40,
        AtomicOp::And => 0x50,
        AtomicOp::Xor => 0xa0,
        AtomicOp::Exchange => 0xe0,
        AtomicOp::CompareExchange => 0xf0,
    }
}

/// The slots of a whole program, 8 bytes each.
pub fn encode(program: &[Instruction], maps: MapReferences<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(program.len() * 8 + 64);
    for instruction in program {
        encode_one(instruction, maps, &mut out);
    }
    out
}

fn encode_one(instruction: &Instruction, maps: MapReferences<'_>, out: &mut Vec<u8>) {
    let plain = |code, dst: Reg, src: Operand, offset, extra: i32| match src {
        Operand::Reg(reg) => Slot { code: code | SRC_REG, dst: dst.0, src: reg.0, offset, imm: extra },
        Operand::Imm(imm) => Slot { code, dst: dst.0, src: 0, offset, imm },
    };
    let slot = match *instruction {
        Instruction::Alu { width, op, dst, src } => {
            let (bits, offset) = alu_bits(op);
            plain(alu_class(width) | bits, dst, src, offset, 0)
        }
        Instruction::Neg { width, dst } => {
            Slot { code: alu_class(width) | OP_NEG, dst: dst.0, src: 0, offset: 0, imm: 0 }
        }
        Instruction::MovSigned { width, dst, src, bits } => {
            plain(alu_class(width) | 0xb0, dst, src.into(), i16::from(bits), 0)
        }
        Instruction::Endian { order, dst, bits } => {
            let code = match order {
                ByteOrder::Little => ALU | OP_END,
                ByteOrder::Big => ALU | OP_END | SRC_REG,
                ByteOrder::Swap => ALU64 | OP_END,
            };
            Slot { code, dst: dst.0, src: 0, offset: 0, imm: i32::from(bits) }
        }
        Instruction::Load { size, signed, dst, base, offset } => {
            let mode = if signed { MODE_MEM_SIGNED } else { MODE_MEM };
            Slot { code: LDX | mode | size_bits(size), dst: dst.0, src: base.0, offset, imm: 0 }
        }
        Instruction::Store { size, base, offset, src } => match src {
            Operand::Reg(reg) => {
                Slot { code: STX | MODE_MEM | size_bits(size), dst: base.0, src: reg.0, offset, imm: 0 }
            }
            Operand::Imm(imm) => {
                Slot { code: ST | MODE_MEM | size_bits(size), dst: base.0, src: 0, offset, imm }
            }
        },
        Instruction::Atomic { size, op, fetch, base, offset, src } => {
            let always = matches!(op, AtomicOp::Exchange | AtomicOp::CompareExchange);
            let imm = atomic_bits(op) | if fetch || always { FETCH } else { 0 };
            Slot { code: STX | MODE_ATOMIC | size_bits(size), dst: base.0, src: src.0, offset, imm }
        }
        Instruction::LoadImm64 { dst, value } => {
            let (src, low, high) = match (value, maps) {
                (Imm64::Value(value), _) => (0, value as u32, (value >> 32) as u32),
                (Imm64::Map(map), MapReferences::Indexes) => (5, map, 0),
                (Imm64::Map(map), MapReferences::Descriptors(fds)) => (1, descriptor(fds, map), 0),
                (Imm64::MapValue { map, offset }, MapReferences::Indexes) => (6, map, offset),
                (Imm64::MapValue { map, offset }, MapReferences::Descriptors(fds)) => {
                    (2, descriptor(fds, map), offset)
                }
                (Imm64::Variable(id), _) => (3, id, 0),
                (Imm64::Function(offset), _) => (4, offset as u32, 0),
            };
            let code = LD | MODE_IMM | size_bits(Size::D);
            out.extend(Slot { code, dst: dst.0, src, offset: 0, imm: low as i32 }.bytes());
            Slot { code: 0, dst: 0, src: 0, offset: 0, imm: high as i32 }
        }
        Instruction::Jump { offset } => Slot { code: JMP, dst: 0, src: 0, offset, imm: 0 },
        Instruction::JumpIf { width, op, left, right, offset } => {
            let class = if width == Width::W64 { JMP } else { JMP32 };
            plain(class | jump_bits(op), left, right, offset, 0)
        }
        Instruction::JumpLong { offset } => Slot { code: JMP32, dst: 0, src: 0, offset: 0, imm: offset },
        Instruction::Call { helper } => {
            Slot { code: JMP | 0x80, dst: 0, src: 0, offset: 0, imm: helper as i32 }
        }
        Instruction::CallLocal { offset } => {
            Slot { code: JMP | 0x80, dst: 0, src: 1, offset: 0, imm: offset }
        }
        Instruction::CallKernel { btf_id, module } => {
            Slot { code: JMP | 0x80, dst: 0, src: 2, offset: module, imm: btf_id as i32 }
        }
        Instruction::Exit => Slot { code: JMP | 0x90, dst: 0, src: 0, offset: 0, imm: 0 },
    };
    out.extend(slot.bytes());
}

fn descriptor(fds: &[i32], map: u32) -> u32 {
    fds.get(map as usize).copied().unwrap_or(-1) as u32
}

fn alu_class(width: Width) -> u8 {
    if width == Width::W64 { ALU64 } else { ALU }
}

/// Why bytes are not a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The length is no multiple of 8, or a two-slot instruction is cut.
    #[error("slot {slot}: the program ends inside an instruction")]
    Truncated {
        /// Index of the slot.
        slot: usize,
    },
    /// No such instruction.
    #[error("slot {slot}: opcode {code:#04x} (source {src}) is not known")]
    Unknown {
        /// Index of the slot.
        slot: usize,
        /// The opcode byte.
        code: u8,
        /// The source register field.
        src: u8,
    },
}

/// Reads slots back. Descriptors of map references are returned as map indexes.
pub fn decode(bytes: &[u8]) -> Result<Vec<Instruction>, DecodeError> {
    let (slots, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(DecodeError::Truncated { slot: slots.len() });
    }
    let mut out = Vec::with_capacity(slots.len());
    let mut at = 0;
    while at < slots.len() {
        let slot = Slot::parse(slots[at]);
        let instruction = if slot.code == (LD | MODE_IMM | 0x18) {
            let next = slots.get(at + 1).ok_or(DecodeError::Truncated { slot: at })?;
            wide(slot, Slot::parse(*next))
        } else {
            single(slot)
        };
        let instruction =
            instruction.ok_or(DecodeError::Unknown { slot: at, code: slot.code, src: slot.src })?;
        at += instruction.slots() as usize;
        out.push(instruction);
    }
    Ok(out)
}

fn wide(first: Slot, second: Slot) -> Option<Instruction> {
    let low = first.imm as u32;
    let value = match first.src {
        0 => Imm64::Value(u64::from(low) | u64::from(second.imm as u32) << 32),
        1 | 5 => Imm64::Map(low),
        2 | 6 => Imm64::MapValue { map: low, offset: second.imm as u32 },
        3 => Imm64::Variable(low),
        4 => Imm64::Function(first.imm),
        _ => return None,
    };
    (second.code == 0 && first.dst <= 10).then_some(Instruction::LoadImm64 { dst: Reg(first.dst), value })
}

fn single(slot: Slot) -> Option<Instruction> {
    let Slot { code, offset, imm, .. } = slot;
    if slot.dst > 10 || slot.src > 10 {
        return None;
    }
    let (dst, src) = (Reg(slot.dst), Reg(slot.src));
    let operand = if code & SRC_REG != 0 { Operand::Reg(src) } else { Operand::Imm(imm) };
    match code & 7 {
        ALU | ALU64 => {
            let width = if code & 7 == ALU64 { Width::W64 } else { Width::W32 };
            match code & 0xf0 {
                OP_NEG => Some(Instruction::Neg { width, dst }),
                OP_END => {
                    let order = match (width, code & SRC_REG != 0) {
                        (Width::W32, false) => ByteOrder::Little,
                        (Width::W32, true) => ByteOrder::Big,
                        (Width::W64, _) => ByteOrder::Swap,
                    };
                    matches!(imm, 16 | 32 | 64).then_some(Instruction::Endian { order, dst, bits: imm as u8 })
                }
                0xb0 if offset != 0 => matches!(offset, 8 | 16 | 32).then_some(Instruction::MovSigned {
                    width,
                    dst,
                    src,
                    bits: offset as u8,
                }),
                bits => {
                    let op = ALU_OPS.into_iter().find(|op| alu_bits(*op) == (bits, offset))?;
                    Some(Instruction::Alu { width, op, dst, src: operand })
                }
            }
        }
        LDX => {
            let signed = match code & 0xe0 {
                MODE_MEM => false,
                MODE_MEM_SIGNED => true,
                _ => return None,
            };
            Some(Instruction::Load { size: size_of_bits(code), signed, dst, base: src, offset })
        }
        ST if code & 0xe0 == MODE_MEM => {
            Some(Instruction::Store { size: size_of_bits(code), base: dst, offset, src: Operand::Imm(imm) })
        }
        STX if code & 0xe0 == MODE_MEM => {
            Some(Instruction::Store { size: size_of_bits(code), base: dst, offset, src: Operand::Reg(src) })
        }
        STX if code & 0xe0 == MODE_ATOMIC => {
            let op = ATOMIC_OPS.into_iter().find(|op| atomic_bits(*op) == imm & !FETCH)?;
            let fetch = imm & FETCH != 0;
            Some(Instruction::Atomic { size: size_of_bits(code), op, fetch, base: dst, offset, src })
        }
        JMP | JMP32 => {
            let width = if code & 7 == JMP { Width::W64 } else { Width::W32 };
            match (code & 0xf0, width) {
                (0x00, Width::W64) => Some(Instruction::Jump { offset }),
                (0x00, Width::W32) => Some(Instruction::JumpLong { offset: imm }),
                (0x80, Width::W64) => match slot.src {
                    0 => Some(Instruction::Call { helper: imm as u32 }),
                    1 => Some(Instruction::CallLocal { offset: imm }),
                    2 => Some(Instruction::CallKernel { btf_id: imm as u32, module: offset }),
                    _ => None,
                },
                (0x90, Width::W64) => Some(Instruction::Exit),
                (bits, width) => {
                    let op = JUMP_OPS.into_iter().find(|op| jump_bits(*op) == bits)?;
                    Some(Instruction::JumpIf { width, op, left: dst, right: operand, offset })
                }
            }
        }
        _ => None,
    }
}

pub(crate) const ALU_OPS: [AluOp; 14] = [
    AluOp::Add,
    AluOp::Sub,
    AluOp::Mul,
    AluOp::Div,
    AluOp::Or,
    AluOp::And,
    AluOp::Lsh,
    AluOp::Rsh,
    AluOp::Mod,
    AluOp::Xor,
    AluOp::Mov,
    AluOp::Arsh,
    AluOp::SignedDiv,
    AluOp::SignedMod,
];

pub(crate) const JUMP_OPS: [JumpOp; 11] = [
    JumpOp::Eq,
    JumpOp::Ne,
    JumpOp::Gt,
    JumpOp::Ge,
    JumpOp::Lt,
    JumpOp::Le,
    JumpOp::Set,
    JumpOp::SignedGt,
    JumpOp::SignedGe,
    JumpOp::SignedLt,
    JumpOp::SignedLe,
];

pub(crate) const ATOMIC_OPS: [AtomicOp; 6] = [
    AtomicOp::Add,
    AtomicOp::Or,
    AtomicOp::And,
    AtomicOp::Xor,
    AtomicOp::Exchange,
    AtomicOp::CompareExchange,
];
