//! Operations the machine has not got become ones it has: constants that do not fit 32 bits go through a
//! register, sign extension and signed division are spelled out before instruction set v4.

use bpf::insn::{AluOp, JumpOp, Size, Width};

use super::Machine;
use super::ranges::commutative;
use crate::lir::{BlockId, Function, Instruction, Op, Source, Terminator, V, Val};
use crate::source::Span;

/// Rewrites a function in place.
pub fn legalise(function: &mut Function, machine: Machine) {
    let count = function.blocks.len();
    for at in 0..count {
        let mut current = BlockId(at as u32);
        let old = std::mem::take(&mut function.blocks[at].instructions);
        let terminator =
            std::mem::replace(&mut function.blocks[at].terminator, Terminator::Return(Val::Imm(0)));
        let (span, cold) = (function.blocks[at].span, function.blocks[at].cold);
        for mut instruction in old {
            let here = instruction.span;
            match &mut instruction.op {
                Op::Binary { op, dst, left, right, width } => {
                    fit(function, current, right, *width, here);
                    // `a = b - a`: the move of `b` would destroy the right operand.
                    if *right == Val::V(*dst) && dst != left && !commutative(*op) {
                        let copy = function.register();
                        let op = Op::Set { dst: copy, value: (*right).into() };
                        function.at(current).instructions.push(Instruction { op, span: here });
                        *right = Val::V(copy);
                    }
                }
                Op::Store { value, size, .. } => {
                    if let Val::Imm(imm) = value
                        && *size != Size::D
                    {
                        // Only the low bytes are stored; their sign is of no matter.
                        let shift = 64 - size.bytes() * 8;
                        *imm = *imm << shift >> shift;
                    }
                    fit(function, current, value, Width::W64, here);
                }
                _ => {}
            }
            if let Op::Binary { op, width, dst, left, right: Val::Imm(imm) } = instruction.op {
                let bits = if width == Width::W64 { 64 } else { 32 };
                // The verifier refuses constants that have no meaning; what they mean is what a register does.
                let value = match (op, imm) {
                    (AluOp::Div | AluOp::SignedDiv, 0) => Some(Source::Val(Val::Imm(0))),
                    (AluOp::Mod | AluOp::SignedMod, 0) => Some(left.into()),
                    _ => None,
                };
                instruction.op = match (op, value) {
                    (_, Some(value)) => Op::Set { dst, value },
                    (AluOp::Lsh | AluOp::Rsh | AluOp::Arsh, _) => {
                        Op::Binary { op, width, dst, left, right: Val::Imm(imm & (bits - 1)) }
                    }
                    _ => instruction.op,
                };
            }
            // Before 6.12 the least number divided by -1 traps on x86, so an unknown divisor is never left to
            // the machine's signed division.
            let safe = |right: Val| machine.v4 && matches!(right, Val::Imm(imm) if imm != -1);
            if let Op::Binary { op: op @ (AluOp::SignedDiv | AluOp::SignedMod), dst, left, right, width } =
                instruction.op
                && !safe(right)
            {
                current = signed_division(function, current, op, dst, left, right, width, here, cold);
                continue;
            }
            function.at(current).instructions.push(instruction);
        }
        let mut terminator = terminator;
        if let Terminator::If { right, width, .. } = &mut terminator {
            fit(function, current, right, *width, span);
        }
        let block = function.at(current);
        (block.terminator, block.span, block.cold) = (terminator, span, cold);
    }
}

/// A constant that does not fit a sign-extended 32-bit field moves into a register.
fn fit(function: &mut Function, block: BlockId, val: &mut Val, width: Width, span: Span) {
    let Val::Imm(imm) = *val else { return };
    if width == Width::W32 {
        *val = Val::Imm(i64::from(imm as i32));
        return;
    }
    if i32::try_from(imm).is_err() {
        let dst = function.register();
        function
            .at(block)
            .instructions
            .push(Instruction { op: Op::Set { dst, value: Source::Val(Val::Imm(imm)) }, span });
        *val = Val::V(dst);
    }
}

/// Signed division by unsigned division of magnitudes. The result's sign is that of both operands'
/// difference; the remainder's is the dividend's.
#[expect(clippy::too_many_arguments, reason = "the operands of one operation")]
fn signed_division(
    function: &mut Function,
    mut block: BlockId,
    op: AluOp,
    dst: V,
    left: V,
    right: Val,
    width: Width,
    span: Span,
    cold: bool,
) -> BlockId {
    let push = |function: &mut Function, block: BlockId, op: Op| {
        function.at(block).instructions.push(Instruction { op, span });
    };
    let a = function.register();
    push(function, block, Op::Set { dst: a, value: left.into() });
    let b = function.register();
    push(function, block, Op::Set { dst: b, value: right.into() });
    let sign = function.register();
    match (op, right) {
        (AluOp::SignedDiv, Val::V(right)) => {
            push(
                function,
                block,
                Op::Binary { op: AluOp::Xor, width: Width::W64, dst: sign, left, right: right.into() },
            );
        }
        (AluOp::SignedDiv, Val::Imm(imm)) if imm < 0 => {
            push(
                function,
                block,
                Op::Binary { op: AluOp::Xor, width: Width::W64, dst: sign, left, right: Val::Imm(-1) },
            );
        }
        _ => push(function, block, Op::Set { dst: sign, value: left.into() }),
    }
    for v in [a, b] {
        if v == b && matches!(right, Val::Imm(imm) if imm >= 0) {
            continue;
        }
        block = negate_if_negative(function, block, v, v, span, cold);
    }
    let plain = if op == AluOp::SignedDiv { AluOp::Div } else { AluOp::Mod };
    let result = function.register();
    push(function, block, Op::Binary { op: plain, width, dst: result, left: a, right: b.into() });
    block = negate_if_negative(function, block, sign, result, span, cold);
    push(function, block, Op::Set { dst, value: result.into() });
    block
}

/// `if test < 0 { v = -v }`; answers the block where it goes on.
fn negate_if_negative(
    function: &mut Function,
    block: BlockId,
    test: V,
    v: V,
    span: Span,
    cold: bool,
) -> BlockId {
    let (negative, next) = (function.block(), function.block());
    let entry = function.at(block);
    entry.terminator = Terminator::If {
        width: Width::W64,
        op: JumpOp::SignedLt,
        left: test,
        right: Val::Imm(0),
        then: negative,
        otherwise: next,
    };
    entry.span = span;
    let inner = function.at(negative);
    inner.instructions.push(Instruction { op: Op::Neg { dst: v, src: v }, span });
    (inner.terminator, inner.cold) = (Terminator::Goto(next), cold);
    function.at(next).cold = cold;
    next
}
