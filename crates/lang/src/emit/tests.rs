use bpf::helpers::id;
use bpf::insn::{AluOp, JumpOp, Size, Width};
use bpf::interp::Machine as Interpreter;

use super::*;
use crate::lir::passes::optimise;
use crate::lir::{Base, Callee, Function, Instruction as Lir, Op, Source, Terminator, V, Val};

fn push(function: &mut Function, op: Op) {
    let last = function.blocks.len() - 1;
    function.blocks[last].instructions.push(Lir { op, span: Span::NONE });
}

fn run(function: Function, machine: Machine, optimised: bool) -> (u64, Vec<Instruction>) {
    let mut unit = Unit { functions: vec![function] };
    if optimised {
        optimise(&mut unit);
    }
    let emitted = emit(&unit, machine).unwrap();
    let mut interpreter = Interpreter::with_maps(&[], 1);
    let ran = interpreter.run(&emitted.instructions, &mut vec![3; 64]);
    let ran =
        ran.unwrap_or_else(|fault| panic!("{fault}\n{}\n{unit}", bpf::text::listing(&emitted.instructions)));
    (ran.result, emitted.instructions)
}

/// Many values alive at once across calls: spills have to come back right.
#[test]
fn more_values_than_registers() {
    for optimised in [false, true] {
        let mut function = Function::new("many");
        let mut values = Vec::new();
        for i in 0..40 {
            let v = function.register();
            push(
                &mut function,
                Op::Call {
                    dst: Some(v),
                    callee: Callee::Helper(id::GET_PRANDOM_U32),
                    arguments: vec![],
                    pure: false,
                    key: None,
                },
            );
            let w = function.register();
            push(
                &mut function,
                Op::Binary { op: AluOp::Mul, width: Width::W64, dst: w, left: v, right: Val::Imm(i) },
            );
            values.push(w);
        }
        let mut sum = values[0];
        for v in &values[1..] {
            let next = function.register();
            push(
                &mut function,
                Op::Binary { op: AluOp::Add, width: Width::W64, dst: next, left: sum, right: Val::V(*v) },
            );
            sum = next;
        }
        function.blocks[0].terminator = Terminator::Return(Val::V(sum));
        let (result, code) = run(function, Machine::default(), optimised);
        assert_eq!(result, (0..40).map(|i| i * i).sum::<u64>());
        assert!(code.len() < 250, "{}", code.len());
    }
}

/// `dst = left - right` with every pair of equal registers, and divisions of every sign.
#[test]
fn operands_and_signs() {
    for v4 in [false, true] {
        for (a, b) in [(7, 2), (-7, 2), (7, -2), (-7, -2), (i64::MIN, -1), (5, 0), (-5, 0), (1 << 40, 3)] {
            for op in [AluOp::SignedDiv, AluOp::SignedMod, AluOp::Sub, AluOp::Arsh, AluOp::Xor] {
                for constant in [false, true] {
                    let mut function = Function::new("signs");
                    let (x, y) = (function.register(), function.register());
                    // Loads are opaque to the passes.
                    let slot = function.object(16);
                    for (at, value) in [(0, a), (8, b)] {
                        push(
                            &mut function,
                            Op::Store {
                                size: Size::D,
                                base: Base::Stack(slot),
                                offset: at,
                                value: Val::Imm(value),
                            },
                        );
                    }
                    push(
                        &mut function,
                        Op::Load { dst: x, size: Size::D, base: Base::Stack(slot), offset: 0, stable: false },
                    );
                    push(
                        &mut function,
                        Op::Load { dst: y, size: Size::D, base: Base::Stack(slot), offset: 8, stable: false },
                    );
                    let right = if constant { Val::Imm(b) } else { Val::V(y) };
                    push(&mut function, Op::Binary { op, width: Width::W64, dst: y, left: x, right });
                    let last = function.blocks.len() - 1;
                    function.blocks[last].terminator = Terminator::Return(Val::V(y));
                    let (result, _) = run(function, Machine { v4 }, true);
                    let expected = crate::lir::passes::compute(op, Width::W64, a, b);
                    assert_eq!(result as i64, expected, "{a} {op:?} {b} v4={v4} constant={constant}");
                }
            }
        }
    }
}

/// Arguments that have to change places.
#[test]
fn arguments_in_cycles() {
    let mut function = Function::new("swap");
    let (a, b) = (function.register(), function.register());
    let slot = function.object(32);
    for at in 0..4 {
        push(
            &mut function,
            Op::Store { size: Size::D, base: Base::Stack(slot), offset: at * 8, value: Val::Imm(at.into()) },
        );
    }
    push(&mut function, Op::Set { dst: a, value: Source::Stack(slot, 0) });
    push(&mut function, Op::Set { dst: b, value: Val::Imm(8).into() });
    for arguments in
        [[a.into(), b.into(), Source::Stack(slot, 16)], [Source::Stack(slot, 0), b.into(), a.into()]]
    {
        push(
            &mut function,
            Op::Call {
                dst: None,
                callee: Callee::Helper(id::PROBE_READ_KERNEL),
                arguments: arguments.to_vec(),
                pure: false,
                key: None,
            },
        );
    }
    let out = function.register();
    push(
        &mut function,
        Op::Load { dst: out, size: Size::D, base: Base::Stack(slot), offset: 0, stable: false },
    );
    function.blocks[0].terminator = Terminator::Return(Val::V(out));
    assert_eq!(run(function, Machine::default(), false).0, 2);
}

#[test]
fn folding_leaves_the_least() {
    let mut function = Function::new("fold");
    let context = function.register();
    function.parameters.push(context);
    let (p, x, y, z) = (function.register(), function.register(), function.register(), function.register());
    push(
        &mut function,
        Op::Binary { op: AluOp::Add, width: Width::W64, dst: p, left: context, right: Val::Imm(8) },
    );
    push(&mut function, Op::Load { dst: x, size: Size::W, base: Base::V(p), offset: 4, stable: true });
    push(&mut function, Op::Extend { dst: y, src: x, bits: 32, signed: false });
    push(
        &mut function,
        Op::Binary { op: AluOp::Mul, width: Width::W64, dst: z, left: y, right: Val::Imm(1) },
    );
    function.blocks[0].terminator = Terminator::Return(Val::V(z));
    let (result, code) = run(function, Machine::default(), true);
    assert_eq!(result, 0x0303_0303);
    assert_eq!(bpf::text::listing(&code), "   0: r0 = *(u32 *)(r1 +12)\n   1: exit\n");
}

#[test]
fn both_ways_of_a_branch() {
    for (value, expected) in [(3, 30), (4, 40)] {
        let mut function = Function::new("branch");
        let context = function.register();
        function.parameters.push(context);
        let (x, result) = (function.register(), V(2));
        function.registers = 3;
        push(
            &mut function,
            Op::Load { dst: x, size: Size::B, base: Base::V(context), offset: 0, stable: true },
        );
        let (then, otherwise, end) = (function.block(), function.block(), function.block());
        function.blocks[0].terminator = Terminator::If {
            width: Width::W64,
            op: JumpOp::Eq,
            left: x,
            right: Val::Imm(value),
            then,
            otherwise,
        };
        for (block, imm) in [(then, 30), (otherwise, 40)] {
            let op = Op::Set { dst: result, value: Val::Imm(imm).into() };
            function.at(block).instructions.push(Lir { op, span: Span::NONE });
            function.at(block).terminator = Terminator::Goto(end);
        }
        function.at(end).terminator = Terminator::Return(Val::V(result));
        assert_eq!(run(function, Machine::default(), true).0, expected);
    }
}
