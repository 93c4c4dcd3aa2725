//! Text of instructions, readable like bpftool's, and back. `parse(format(x)) == x` for every instruction.
//!
//! Deviations from bpftool: maps are named by their index in the image (`map[2]`, `map[2][0]+8`), and
//! helpers by name alone.

use std::fmt;

use crate::encode::{ALU_OPS, ATOMIC_OPS, JUMP_OPS};
use crate::helpers;
use crate::insn::*;

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

struct InWidth(Reg, Width);

impl fmt::Display for InWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.1 == Width::W64 { 'r' } else { 'w' }, (self.0).0)
    }
}

fn alu_symbol(op: AluOp) -> &'static str {
    match op {
        AluOp::Add => "+=",
        AluOp::Sub => "-=",
        AluOp::Mul => "*=",
        AluOp::Div => "/=",
        AluOp::Or => "|=",
        AluOp::And => "&=",
        AluOp::Lsh => "<<=",
        AluOp::Rsh => ">>=",
        AluOp::Mod => "%=",
        AluOp::Xor => "^=",
        AluOp::Mov => "=",
        AluOp::Arsh => "s>>=",
        AluOp::SignedDiv => "s/=",
        AluOp::SignedMod => "s%=",
    }
}

fn jump_symbol(op: JumpOp) -> &'static str {
    match op {
        JumpOp::Eq => "==",
        JumpOp::Ne => "!=",
        JumpOp::Gt => ">",
        JumpOp::Ge => ">=",
        JumpOp::Lt => "<",
        JumpOp::Le => "<=",
        JumpOp::Set => "&",
        JumpOp::SignedGt => "s>",
        JumpOp::SignedGe => "s>=",
        JumpOp::SignedLt => "s<",
        JumpOp::SignedLe => "s<=",
    }
}

fn atomic_word(op: AtomicOp) -> &'static str {
    match op {
        AtomicOp::Add => "add",
        AtomicOp::Or => "or",
        AtomicOp::And => "and",
        AtomicOp::Xor => "xor",
        AtomicOp::Exchange => "xchg",
        AtomicOp::CompareExchange => "cmpxchg",
    }
}

fn size_word(size: Size, signed: bool) -> &'static str {
    match (size, signed) {
        (Size::B, false) => "u8",
        (Size::H, false) => "u16",
        (Size::W, false) => "u32",
        (Size::D, false) => "u64",
        (Size::B, true) => "s8",
        (Size::H, true) => "s16",
        (Size::W, true) => "s32",
        (Size::D, true) => "s64",
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Instruction::Alu { width, op, dst, src } => {
                write!(f, "{} {} ", InWidth(dst, width), alu_symbol(op))?;
                match src {
                    Operand::Reg(reg) => write!(f, "{}", InWidth(reg, width)),
                    Operand::Imm(imm) => write!(f, "{imm}"),
                }
            }
            Instruction::Neg { width, dst } => {
                let dst = InWidth(dst, width);
                write!(f, "{dst} = -{dst}")
            }
            Instruction::MovSigned { width, dst, src, bits } => {
                write!(f, "{} = (s{bits}){}", InWidth(dst, width), InWidth(src, width))
            }
            Instruction::Endian { order, dst, bits } => {
                let word = match order {
                    ByteOrder::Little => "le",
                    ByteOrder::Big => "be",
                    ByteOrder::Swap => "bswap",
                };
                write!(f, "{dst} = {word}{bits} {dst}")
            }
            Instruction::Load { size, signed, dst, base, offset } => {
                write!(f, "{dst} = *({} *)({base} {offset:+})", size_word(size, signed))
            }
            Instruction::Store { size, base, offset, src } => {
                write!(f, "*({} *)({base} {offset:+}) = ", size_word(size, false))?;
                match src {
                    Operand::Reg(reg) => write!(f, "{reg}"),
                    Operand::Imm(imm) => write!(f, "{imm}"),
                }
            }
            Instruction::Atomic { size, op, fetch, base, offset, src } => {
                let word = atomic_word(op);
                let fetch = if fetch && !matches!(op, AtomicOp::Exchange | AtomicOp::CompareExchange) {
                    "fetch_"
                } else {
                    ""
                };
                write!(f, "lock {fetch}{word} *({} *)({base} {offset:+}), {src}", size_word(size, false))
            }
            Instruction::LoadImm64 { dst, value } => match value {
                Imm64::Value(value) => write!(f, "{dst} = {value:#x} ll"),
                Imm64::Map(map) => write!(f, "{dst} = map[{map}]"),
                Imm64::MapValue { map, offset } => write!(f, "{dst} = map[{map}][0]+{offset}"),
                Imm64::Variable(id) => write!(f, "{dst} = btf[{id}]"),
                Imm64::Function(offset) => write!(f, "{dst} = func pc{offset:+}"),
            },
            Instruction::Jump { offset } => write!(f, "goto pc{offset:+}"),
            Instruction::JumpLong { offset } => write!(f, "gotol pc{offset:+}"),
            Instruction::JumpIf { width, op, left, right, offset } => {
                write!(f, "if {} {} ", InWidth(left, width), jump_symbol(op))?;
                match right {
                    Operand::Reg(reg) => write!(f, "{}", InWidth(reg, width))?,
                    Operand::Imm(imm) => write!(f, "{imm}")?,
                }
                write!(f, " goto pc{offset:+}")
            }
            Instruction::Call { helper } => match helpers::by_id(helper) {
                Some(known) => write!(f, "call bpf_{}", known.name),
                None => write!(f, "call helper#{helper}"),
            },
            Instruction::CallLocal { offset } => write!(f, "call pc{offset:+}"),
            Instruction::CallKernel { btf_id, module } => write!(f, "call kernel[{btf_id}:{module}]"),
            Instruction::Exit => write!(f, "exit"),
        }
    }
}

/// A whole program, one instruction a line with its slot in front.
pub fn listing(program: &[Instruction]) -> String {
    use fmt::Write;
    let mut out = String::new();
    let mut slot = 0;
    for instruction in program {
        let _ = writeln!(out, "{slot:4}: {instruction}");
        slot += instruction.slots();
    }
    out
}

/// Why a line is not an instruction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: not an instruction: {text:?}")]
pub struct ParseError {
    /// From 1.
    pub line: usize,
    /// The line without slot number and comment.
    pub text: String,
}

/// Reads a listing: slot numbers in front, empty lines and comments after `;` are skipped.
pub fn parse(text: &str) -> Result<Vec<Instruction>, ParseError> {
    let mut out = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split(';').next().unwrap_or("").trim();
        let line = match line.split_once(':') {
            Some((slot, rest)) if slot.trim().parse::<u32>().is_ok() => rest.trim(),
            _ => line,
        };
        if line.is_empty() {
            continue;
        }
        out.push(parse_line(line).ok_or_else(|| ParseError { line: at + 1, text: line.to_string() })?);
    }
    Ok(out)
}

fn parse_line(line: &str) -> Option<Instruction> {
    if line == "exit" {
        return Some(Instruction::Exit);
    }
    if let Some(rest) = line.strip_prefix("goto ") {
        return Some(Instruction::Jump { offset: distance(rest)?.try_into().ok()? });
    }
    if let Some(rest) = line.strip_prefix("gotol ") {
        return Some(Instruction::JumpLong { offset: distance(rest)? });
    }
    if let Some(rest) = line.strip_prefix("call ") {
        return parse_call(rest.trim());
    }
    if let Some(rest) = line.strip_prefix("if ") {
        let (condition, target) = rest.split_once(" goto ")?;
        let mut words = condition.split_whitespace();
        let (width, left) = register(words.next()?)?;
        let symbol = words.next()?;
        let op = JUMP_OPS.into_iter().find(|op| jump_symbol(*op) == symbol)?;
        let right = operand(words.next()?, width)?;
        return Some(Instruction::JumpIf {
            width,
            op,
            left,
            right,
            offset: distance(target)?.try_into().ok()?,
        });
    }
    if let Some(rest) = line.strip_prefix("lock ") {
        return parse_atomic(rest);
    }
    if line.starts_with("*(") {
        let (place, value) = line.split_once(" = ")?;
        let (size, _, base, offset) = memory(place)?;
        return Some(Instruction::Store { size, base, offset, src: operand(value.trim(), Width::W64)? });
    }
    let mut words = line.splitn(3, ' ');
    let (width, dst) = register(words.next()?)?;
    let symbol = words.next()?;
    let rest = words.next()?.trim();
    if symbol == "=" {
        return parse_assignment(width, dst, rest);
    }
    let op = ALU_OPS.into_iter().find(|op| alu_symbol(*op) == symbol)?;
    Some(Instruction::Alu { width, op, dst, src: operand(rest, width)? })
}

fn parse_call(rest: &str) -> Option<Instruction> {
    if let Some(number) = rest.strip_prefix("helper#") {
        return Some(Instruction::Call { helper: number.parse().ok()? });
    }
    if let Some(inner) = rest.strip_prefix("kernel[") {
        let (id, module) = inner.strip_suffix(']')?.split_once(':')?;
        return Some(Instruction::CallKernel { btf_id: id.parse().ok()?, module: module.parse().ok()? });
    }
    if rest.starts_with("pc") {
        return Some(Instruction::CallLocal { offset: distance(rest)? });
    }
    Some(Instruction::Call { helper: helpers::by_name(rest)?.id })
}

fn parse_atomic(rest: &str) -> Option<Instruction> {
    let (word, rest) = rest.split_once(' ')?;
    let (fetching, word) = match word.strip_prefix("fetch_") {
        Some(word) => (true, word),
        None => (false, word),
    };
    let op = ATOMIC_OPS.into_iter().find(|op| atomic_word(*op) == word)?;
    let (place, src) = rest.split_once(", ")?;
    let (size, _, base, offset) = memory(place)?;
    let fetch = fetching || matches!(op, AtomicOp::Exchange | AtomicOp::CompareExchange);
    Some(Instruction::Atomic { size, op, fetch, base, offset, src: register(src)?.1 })
}

fn parse_assignment(width: Width, dst: Reg, rest: &str) -> Option<Instruction> {
    if let Some(value) = rest.strip_suffix(" ll") {
        let value = match value.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok()?,
            None => value.parse().ok()?,
        };
        return Some(Instruction::LoadImm64 { dst, value: Imm64::Value(value) });
    }
    if let Some(inner) = rest.strip_prefix("map[") {
        let (map, tail) = inner.split_once(']')?;
        let map = map.parse().ok()?;
        let value = match tail.strip_prefix("[0]+") {
            Some(offset) => Imm64::MapValue { map, offset: offset.parse().ok()? },
            None if tail.is_empty() => Imm64::Map(map),
            None => return None,
        };
        return Some(Instruction::LoadImm64 { dst, value });
    }
    if let Some(inner) = rest.strip_prefix("btf[") {
        let id = inner.strip_suffix(']')?.parse().ok()?;
        return Some(Instruction::LoadImm64 { dst, value: Imm64::Variable(id) });
    }
    if let Some(target) = rest.strip_prefix("func ") {
        return Some(Instruction::LoadImm64 { dst, value: Imm64::Function(distance(target)?) });
    }
    if rest.starts_with("*(") {
        let (size, signed, base, offset) = memory(rest)?;
        return Some(Instruction::Load { size, signed, dst, base, offset });
    }
    if let Some(inner) = rest.strip_prefix("(s") {
        let (bits, src) = inner.split_once(')')?;
        return Some(Instruction::MovSigned { width, dst, src: register(src)?.1, bits: bits.parse().ok()? });
    }
    if let Some(negated) = rest.strip_prefix('-').filter(|r| r.starts_with(['r', 'w'])) {
        return (register(negated)? == (width, dst)).then_some(Instruction::Neg { width, dst });
    }
    for (word, order) in [("le", ByteOrder::Little), ("be", ByteOrder::Big), ("bswap", ByteOrder::Swap)] {
        if let Some(tail) = rest.strip_prefix(word) {
            let (bits, _) = tail.split_once(' ')?;
            return Some(Instruction::Endian { order, dst, bits: bits.parse().ok()? });
        }
    }
    Some(Instruction::Alu { width, op: AluOp::Mov, dst, src: operand(rest, width)? })
}

fn register(word: &str) -> Option<(Width, Reg)> {
    let (width, number) = match word.split_at_checked(1)? {
        ("r", number) => (Width::W64, number),
        ("w", number) => (Width::W32, number),
        _ => return None,
    };
    let number: u8 = number.parse().ok()?;
    (number <= 10).then_some((width, Reg(number)))
}

fn operand(word: &str, width: Width) -> Option<Operand> {
    match register(word) {
        Some((found, reg)) => (found == width).then_some(Operand::Reg(reg)),
        None => match word.strip_prefix("0x") {
            Some(hex) => Some(Operand::Imm(u32::from_str_radix(hex, 16).ok()? as i32)),
            None => Some(Operand::Imm(word.parse().ok()?)),
        },
    }
}

fn distance(word: &str) -> Option<i32> {
    word.trim().strip_prefix("pc")?.parse().ok()
}

/// `*(u32 *)(r10 -4)`
fn memory(text: &str) -> Option<(Size, bool, Reg, i16)> {
    let inner = text.trim().strip_prefix("*(")?;
    let (word, rest) = inner.split_once(" *)(")?;
    let (size, signed) = [Size::B, Size::H, Size::W, Size::D]
        .into_iter()
        .flat_map(|size| [(size, false), (size, true)])
        .find(|(size, signed)| size_word(*size, *signed) == word)?;
    let (base, offset) = rest.strip_suffix(')')?.split_once(' ')?;
    Some((size, signed, register(base)?.1, offset.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::{MapReferences, decode, encode};

    /// Every shape of instruction with several operands.
    fn samples() -> Vec<Instruction> {
        let mut out = Vec::new();
        for width in [Width::W32, Width::W64] {
            for op in ALU_OPS {
                for src in [Operand::Reg(R3), Operand::Imm(-7)] {
                    out.push(Instruction::Alu { width, op, dst: R6, src });
                }
            }
            for op in JUMP_OPS {
                for right in [Operand::Reg(R3), Operand::Imm(i32::MIN)] {
                    out.push(Instruction::JumpIf { width, op, left: R1, right, offset: -3 });
                }
            }
            out.push(Instruction::Neg { width, dst: R2 });
            out.extend([8, 16].map(|bits| Instruction::MovSigned { width, dst: R2, src: R9, bits }));
        }
        out.push(Instruction::MovSigned { width: Width::W64, dst: R2, src: R9, bits: 32 });
        for order in [ByteOrder::Little, ByteOrder::Big, ByteOrder::Swap] {
            out.extend([16, 32, 64].map(|bits| Instruction::Endian { order, dst: R4, bits }));
        }
        for size in [Size::B, Size::H, Size::W, Size::D] {
            out.push(Instruction::load(size, R1, R10, -512));
            out.push(Instruction::store(size, R10, -8, R1));
            out.push(Instruction::store(size, R1, 32767, 5));
        }
        out.extend([Size::B, Size::H, Size::W].map(|size| Instruction::Load {
            size,
            signed: true,
            dst: R1,
            base: R2,
            offset: 0,
        }));
        for size in [Size::W, Size::D] {
            for op in ATOMIC_OPS {
                let always = matches!(op, AtomicOp::Exchange | AtomicOp::CompareExchange);
                out.push(Instruction::Atomic { size, op, fetch: true, base: R1, offset: 8, src: R2 });
                out.push(Instruction::Atomic { size, op, fetch: always, base: R1, offset: 8, src: R2 });
            }
        }
        out.extend(
            [
                Imm64::Value(0xfedc_ba98_7654_3210),
                Imm64::Map(3),
                Imm64::MapValue { map: 2, offset: 40 },
                Imm64::Variable(17),
                Imm64::Function(12),
            ]
            .map(|value| Instruction::LoadImm64 { dst: R7, value }),
        );
        out.push(Instruction::Jump { offset: 5 });
        out.push(Instruction::JumpLong { offset: -70_000 });
        out.push(Instruction::Call { helper: 1 });
        out.push(Instruction::Call { helper: 5000 });
        out.push(Instruction::CallLocal { offset: 9 });
        out.push(Instruction::CallKernel { btf_id: 1234, module: 2 });
        out.push(Instruction::Exit);
        out
    }

    #[test]
    fn text_and_slots_round_trip() {
        let samples = samples();
        for sample in &samples {
            assert_eq!(parse(&sample.to_string()).as_deref(), Ok(&[*sample][..]), "{sample}");
        }
        let bytes = encode(&samples, MapReferences::Indexes);
        assert_eq!(decode(&bytes).unwrap(), samples);
        assert_eq!(parse(&listing(&samples)).unwrap(), samples);
    }

    #[test]
    fn slots_are_what_the_kernel_documents() {
        let program =
            parse("r0 = 1\nr1 = map[0] ; a map\nif w1 s> 2 goto pc+1\n*(u32 *)(r10 -4) = r1\nexit").unwrap();
        let bytes = encode(&program, MapReferences::Descriptors(&[9]));
        assert_eq!(bytes[..8], [0xb7, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(bytes[8..24], [0x18, 0x11, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[24..32], [0x66, 1, 1, 0, 2, 0, 0, 0]);
        assert_eq!(bytes[32..40], [0x63, 0x1a, 0xfc, 0xff, 0, 0, 0, 0]);
        assert_eq!(bytes[40..], [0x95, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn bad_text_and_bytes_are_errors() {
        assert_eq!(parse("r0 = 1\nr11 = 2").unwrap_err(), ParseError { line: 2, text: "r11 = 2".into() });
        for bad in ["", "r0", "r1 = r2 r3", "call bpf_nothing", "if r1 goto pc+1", "*(u9 *)(r1 +0) = 1"] {
            assert!(parse(bad).map_or(true, |found| found.is_empty()), "{bad}");
        }
        assert!(decode(&[0x18; 8]).is_err() && decode(&[0; 7]).is_err() && decode(&[0xff; 8]).is_err());
    }
}
