//! The text of LIR, for `--emit lir` and for tests.

use std::fmt::{self, Write};

use bpf::insn::{AluOp, JumpOp, Size, Width};

use super::*;

impl fmt::Display for V {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}", self.0)
    }
}

impl fmt::Display for Val {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Val::V(v) => write!(f, "{v}"),
            Val::Imm(imm) => write!(f, "{imm}"),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Val(val) => write!(f, "{val}"),
            Source::Map(map) => write!(f, "map {map}"),
            Source::MapValue { map, offset } => write!(f, "map {map} + {offset}"),
            Source::Stack(id, offset) => write!(f, "stack{} + {offset}", id.0),
            Source::Function(id) => write!(f, "function {}", id.0),
            Source::Variable(id) => write!(f, "variable {id}"),
        }
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Base::V(v) => write!(f, "{v}"),
            Base::Stack(id) => write!(f, "stack{}", id.0),
        }
    }
}

fn size(size: Size) -> &'static str {
    match size {
        Size::B => "u8",
        Size::H => "u16",
        Size::W => "u32",
        Size::D => "u64",
    }
}

fn operator(op: AluOp) -> &'static str {
    match op {
        AluOp::Add => "+",
        AluOp::Sub => "-",
        AluOp::Mul => "*",
        AluOp::Div => "/",
        AluOp::Or => "|",
        AluOp::And => "&",
        AluOp::Lsh => "<<",
        AluOp::Rsh => ">>",
        AluOp::Mod => "%",
        AluOp::Xor => "^",
        AluOp::Mov => "mov",
        AluOp::Arsh => "s>>",
        AluOp::SignedDiv => "s/",
        AluOp::SignedMod => "s%",
    }
}

fn condition(op: JumpOp) -> &'static str {
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

fn narrow(width: Width) -> &'static str {
    if width == Width::W32 { " (32)" } else { "" }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Set { dst, value } => write!(f, "{dst} = {value}"),
            Op::Binary { op, width, dst, left, right } => {
                write!(f, "{dst} = {left} {} {right}{}", operator(*op), narrow(*width))
            }
            Op::Neg { dst, src } => write!(f, "{dst} = -{src}"),
            Op::Extend { dst, src, bits, signed } => {
                write!(f, "{dst} = {}{bits} {src}", if *signed { "s" } else { "u" })
            }
            Op::Swap { dst, src, bits } => write!(f, "{dst} = swap{bits} {src}"),
            Op::Load { dst, size: s, base, offset, stable } => {
                write!(f, "{dst} = {}{} [{base} {offset:+}]", if *stable { "stable " } else { "" }, size(*s))
            }
            Op::Store { size: s, base, offset, value } => {
                write!(f, "{} [{base} {offset:+}] = {value}", size(*s))
            }
            Op::AtomicAdd { size: s, base, offset, value, fetch } => {
                if let Some(fetch) = fetch {
                    write!(f, "{fetch} = ")?;
                }
                write!(f, "lock {} [{base} {offset:+}] += {value}", size(*s))
            }
            Op::Call { dst, callee, arguments, pure, key } => {
                if let Some(dst) = dst {
                    write!(f, "{dst} = ")?;
                }
                if *pure {
                    write!(f, "pure ")?;
                }
                if let Some(KeyId(key)) = key {
                    write!(f, "key{key} ")?;
                }
                match callee {
                    Callee::Helper(id) => match bpf::helpers::by_id(*id) {
                        Some(helper) => write!(f, "{}", helper.name)?,
                        None => write!(f, "helper#{id}")?,
                    },
                    Callee::Kernel(id) => write!(f, "kernel#{id}")?,
                }
                write!(f, "(")?;
                for (at, argument) in arguments.iter().enumerate() {
                    write!(f, "{}{argument}", if at > 0 { ", " } else { "" })?;
                }
                write!(f, ")")
            }
        }
    }
}

impl fmt::Display for Terminator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Terminator::Goto(to) => write!(f, "goto {to}"),
            Terminator::If { width, op, left, right, then, otherwise } => {
                write!(
                    f,
                    "if {left} {} {right}{} goto {then} else {otherwise}",
                    condition(*op),
                    narrow(*width)
                )
            }
            Terminator::Return(val) => write!(f, "return {val}"),
        }
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters: Vec<String> = self.parameters.iter().map(V::to_string).collect();
        writeln!(f, "function {}({})", self.name, parameters.join(", "))?;
        for (at, object) in self.stack.iter().enumerate() {
            writeln!(f, "  stack{at}: {} bytes", object.size)?;
        }
        for (at, block) in self.blocks.iter().enumerate() {
            writeln!(f, "b{at}:{}", if block.cold { " ; cold" } else { "" })?;
            for instruction in &block.instructions {
                writeln!(f, "  {}", instruction.op)?;
            }
            writeln!(f, "  {}", block.terminator)?;
        }
        Ok(())
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for function in &self.functions {
            write!(text, "{function}")?;
        }
        f.write_str(&text)
    }
}
