//! Passes over LIR as a table: name, reason, function. They run in the order of [`PASSES`].

use std::collections::HashMap;

use bpf::insn::{AluOp, JumpOp, Size, Width};

use super::lookups::share_lookups;
use super::*;

/// A transformation of one function.
pub struct Pass {
    /// Short name, for `--emit` and tests.
    pub name: &'static str,
    /// Why it is there, and why at this place.
    pub reason: &'static str,
    /// The transformation.
    pub run: fn(&mut Function),
}

/// All passes in order.
pub const PASSES: &[Pass] = &[
    Pass {
        name: "lookups",
        reason: "a map's entry that is used twice, as in /@s[tid]/ { … @s[tid] … }, is looked up once; variables \
                 have the registers that keys were noted with only before anything moves",
        run: share_lookups,
    },
    Pass {
        name: "dead",
        reason: "variables are zeroed where they begin; where every path assigns them first, that store is dead \
                 and the variable has one definition, which the next pass wants",
        run: remove_dead,
    },
    Pass {
        name: "constants",
        reason: "constants, copies, addresses and extensions move into the operations that use them",
        run: fold_constants,
    },
    Pass {
        name: "branches",
        reason: "conditions decided by constants and jumps to jumps vanish; straight lines become one block",
        run: simplify_branches,
    },
    Pass {
        name: "common",
        reason: "a field, `pid` or `cpu` that is read twice is read once; after folding, equal reads look equal",
        run: share_common,
    },
    Pass { name: "constants", reason: "sharing leaves copies behind", run: fold_constants },
    Pass {
        name: "threads",
        reason: "a value that one path sets to a constant (0 for a missing entry) decides the next test on that path",
        run: thread_constants,
    },
    Pass {
        name: "targets",
        reason: "a result that is only copied into a variable is computed there",
        run: compute_in_place,
    },
    Pass { name: "dead", reason: "folding leaves definitions without readers behind", run: remove_dead },
    Pass { name: "branches", reason: "removed code leaves empty blocks behind", run: simplify_branches },
];

/// Runs all passes on all functions.
pub fn optimise(unit: &mut Unit) {
    for function in &mut unit.functions {
        for pass in PASSES {
            (pass.run)(function);
        }
    }
    drop_unused_functions(unit);
}

/// Callbacks that only unreachable code names: the verifier wants every function to be called.
pub fn drop_unused_functions(unit: &mut Unit) {
    let mut used = vec![false; unit.functions.len()];
    let mut pending = vec![0];
    while let Some(at) = pending.pop() {
        if std::mem::replace(&mut used[at], true) {
            continue;
        }
        let function = &unit.functions[at];
        for id in &Flow::of(function).order {
            for instruction in &function.blocks[id.0 as usize].instructions {
                each_function(&mut instruction.op.clone(), |id| pending.push(id.0 as usize));
            }
        }
    }
    let mut number = 0;
    let numbers: Vec<u32> = used
        .iter()
        .map(|used| {
            number += u32::from(*used);
            number.saturating_sub(1)
        })
        .collect();
    let mut keep = used.iter();
    unit.functions.retain(|_| *keep.next().unwrap_or(&false));
    for instruction in
        unit.functions.iter_mut().flat_map(|f| &mut f.blocks).flat_map(|block| &mut block.instructions)
    {
        each_function(&mut instruction.op, |id| id.0 = numbers[id.0 as usize]);
    }
}

fn each_function(op: &mut Op, mut f: impl FnMut(&mut FunctionId)) {
    match op {
        Op::Set { value: Source::Function(id), .. } => f(id),
        Op::Call { arguments, .. } => {
            for argument in arguments {
                if let Source::Function(id) = argument {
                    f(id);
                }
            }
        }
        _ => {}
    }
}

/// Number of definitions by register; parameters count as one.
fn definitions(function: &Function, flow: &Flow) -> Vec<u32> {
    let mut count = vec![0; function.registers as usize];
    for v in &function.parameters {
        count[v.0 as usize] += 1;
    }
    for id in &flow.order {
        for instruction in &function.blocks[id.0 as usize].instructions {
            if let Some(v) = instruction.op.defines() {
                count[v.0 as usize] += 1;
            }
        }
    }
    count
}

/// Drops operations whose result nobody reads, and what only they read.
pub fn remove_dead(function: &mut Function) {
    while remove_dead_once(function) {}
}

fn remove_dead_once(function: &mut Function) -> bool {
    let mut removed = false;
    let flow = Flow::of(function);
    let liveness = Liveness::of(function, &flow);
    let mut live = vec![false; function.registers as usize];
    for id in &flow.order {
        let at = id.0 as usize;
        let ends: Vec<V> = liveness.at_end(at).collect();
        ends.iter().for_each(|v| live[v.0 as usize] = true);
        let block = &mut function.blocks[at];
        let mut touched: Vec<V> = Vec::new();
        block.terminator.uses(|v| {
            live[v.0 as usize] = true;
            touched.push(v);
        });
        let mut kept = Vec::with_capacity(block.instructions.len());
        for mut instruction in std::mem::take(&mut block.instructions).into_iter().rev() {
            let defined = instruction.op.defines();
            if let Some(v) = defined
                && !live[v.0 as usize]
            {
                if instruction.op.removable() {
                    removed = true;
                    continue;
                }
                match &mut instruction.op {
                    Op::Call { dst, .. } => *dst = None,
                    Op::AtomicAdd { fetch, .. } => *fetch = None,
                    _ => {}
                }
            }
            if let Some(v) = defined {
                live[v.0 as usize] = false;
            }
            instruction.op.uses(|v| {
                live[v.0 as usize] = true;
                touched.push(v);
            });
            kept.push(instruction);
        }
        kept.reverse();
        block.instructions = kept;
        // The marks are per block.
        touched.into_iter().chain(ends).for_each(|v| live[v.0 as usize] = false);
    }
    removed
}

/// What is known of registers with one definition.
struct Known {
    /// Equal to this source.
    value: HashMap<V, Source>,
    /// The defining operation.
    by: HashMap<V, Op>,
    single: Vec<bool>,
}

impl Known {
    fn source(&self, v: V) -> Source {
        let mut found = Source::from(v);
        for _ in 0..16 {
            match found {
                Source::Val(Val::V(v)) => match self.value.get(&v) {
                    Some(next) => found = *next,
                    None => break,
                },
                _ => break,
            }
        }
        found
    }

    fn val(&self, v: V) -> Val {
        match self.source(v) {
            Source::Val(val) => val,
            _ => self.register(v),
        }
    }

    /// Through copies, but not to addresses.
    fn register(&self, v: V) -> Val {
        let mut v = v;
        while let Some(Source::Val(Val::V(next))) = self.value.get(&v) {
            v = *next;
        }
        Val::V(v)
    }

    /// Upper bound of the significant bits, if the value is known to be zero extended.
    fn bits(&self, v: V) -> u32 {
        match self.by.get(&v) {
            Some(Op::Load { size, .. }) => size.bytes() * 8,
            Some(Op::Extend { bits, signed: false, .. }) => u32::from(*bits),
            Some(Op::Swap { bits, .. }) => u32::from(*bits),
            Some(Op::Binary { op: AluOp::And, right: Val::Imm(mask), .. }) if *mask >= 0 => {
                64 - mask.leading_zeros()
            }
            Some(Op::Binary { op: AluOp::Rsh, width: Width::W64, right: Val::Imm(by), .. })
                if (0..64).contains(by) =>
            {
                64 - *by as u32
            }
            Some(Op::Binary { width: Width::W32, .. }) => 32,
            _ => 64,
        }
    }
}

/// Folds constants, copies, addresses and needless extensions.
pub fn fold_constants(function: &mut Function) {
    let flow = Flow::of(function);
    let single: Vec<bool> = definitions(function, &flow).into_iter().map(|count| count <= 1).collect();
    let mut known = Known { value: HashMap::new(), by: HashMap::new(), single };
    for id in &flow.order {
        let block = &mut function.blocks[id.0 as usize];
        for instruction in &mut block.instructions {
            propagate(&mut instruction.op, &known);
            fold(&mut instruction.op, &known);
            let Some(v) = instruction.op.defines() else { continue };
            if !known.single[v.0 as usize] {
                continue;
            }
            if let Op::Set { value, .. } = &instruction.op {
                let stable = match value {
                    Source::Val(Val::V(from)) => known.single[from.0 as usize],
                    _ => true,
                };
                if stable {
                    known.value.insert(v, *value);
                }
            }
            known.by.insert(v, instruction.op.clone());
        }
        fold_terminator(&mut block.terminator, &known);
    }
}

fn propagate(op: &mut Op, known: &Known) {
    match op {
        Op::Set { value, .. } => {
            if let Source::Val(Val::V(v)) = *value {
                *value = known.source(v);
            }
        }
        Op::Call { arguments, .. } => {
            for argument in arguments {
                if let Source::Val(Val::V(v)) = *argument {
                    *argument = known.source(v);
                }
            }
        }
        Op::Binary { left, right, .. } => {
            if let Val::V(v) = known.register(*left) {
                *left = v;
            }
            if let Val::V(v) = *right {
                *right = known.val(v);
            }
        }
        Op::Load { base, offset, .. } => fold_base(base, offset, known),
        Op::Store { base, offset, value, size } => {
            fold_base(base, offset, known);
            if let Val::V(v) = *value {
                *value = known.val(v);
            }
            // A store takes the low bytes only.
            if let Val::V(v) = *value
                && let Some(Op::Extend { src, bits, .. }) = known.by.get(&v)
                && u32::from(*bits) >= size.bytes() * 8
                && known.single[src.0 as usize]
            {
                *value = Val::V(*src);
            }
        }
        Op::AtomicAdd { base, value, .. } => {
            for v in [base, value] {
                if let Val::V(to) = known.register(*v) {
                    *v = to;
                }
            }
        }
        Op::Neg { src, .. } | Op::Extend { src, .. } | Op::Swap { src, .. } => {
            if let Val::V(v) = known.register(*src) {
                *src = v;
            }
        }
    }
}

/// `[v + o]` where `v` is on the stack, or is another register plus a constant.
fn fold_base(base: &mut Base, offset: &mut i32, known: &Known) {
    let Base::V(v) = *base else { return };
    match known.source(v) {
        Source::Stack(id, at) => {
            *base = Base::Stack(id);
            *offset += at;
        }
        Source::Val(Val::V(v)) => {
            *base = Base::V(v);
            if let Some(Op::Binary { op: AluOp::Add, width: Width::W64, left, right: Val::Imm(by), .. }) =
                known.by.get(&v)
                && known.single[left.0 as usize]
                && let Ok(sum) = i16::try_from(i64::from(*offset) + by)
            {
                *base = Base::V(*left);
                *offset = sum.into();
            }
        }
        _ => {}
    }
}

fn constant(v: V, known: &Known) -> Option<i64> {
    match known.val(v) {
        Val::Imm(imm) => Some(imm),
        Val::V(_) => None,
    }
}

fn fold(op: &mut Op, known: &Known) {
    let folded = match *op {
        Op::Neg { dst, src } => constant(src, known).map(|imm| set(dst, imm.wrapping_neg())),
        Op::Extend { dst, src, bits, signed } => match constant(src, known) {
            Some(imm) => Some(set(dst, extend(imm, bits, signed))),
            None if !signed && known.bits(src) <= u32::from(bits) => Some(copy(dst, src)),
            None if signed && known.bits(src) < u32::from(bits) => Some(copy(dst, src)),
            None => None,
        },
        Op::Swap { dst, src, bits } => constant(src, known)
            .map(|imm| set(dst, (imm as u64).swap_bytes().wrapping_shr(64 - u32::from(bits)) as i64)),
        Op::Binary { op: alu, width, dst, left, right } => fold_binary(alu, width, dst, left, right, known),
        _ => None,
    };
    if let Some(folded) = folded {
        *op = folded;
        propagate(op, known);
    }
}

fn set(dst: V, imm: i64) -> Op {
    Op::Set { dst, value: Source::Val(Val::Imm(imm)) }
}

fn copy(dst: V, src: V) -> Op {
    Op::Set { dst, value: src.into() }
}

fn extend(imm: i64, bits: u8, signed: bool) -> i64 {
    let shift = 64 - u32::from(bits);
    if signed { imm << shift >> shift } else { ((imm as u64) << shift >> shift) as i64 }
}

/// What the machine computes, for operations without a 64-bit constant form too.
pub fn compute(op: AluOp, width: Width, left: i64, right: i64) -> i64 {
    if width == Width::W32 {
        let (a, b) = (left as u32, right as u32);
        let result = match op {
            AluOp::Add => a.wrapping_add(b),
            AluOp::Sub => a.wrapping_sub(b),
            AluOp::Mul => a.wrapping_mul(b),
            AluOp::Div => a.checked_div(b).unwrap_or(0),
            AluOp::Or => a | b,
            AluOp::And => a & b,
            AluOp::Lsh => a << (b & 31),
            AluOp::Rsh => a >> (b & 31),
            AluOp::Mod => a.checked_rem(b).unwrap_or(a),
            AluOp::Xor => a ^ b,
            AluOp::Mov => b,
            AluOp::Arsh => (a as i32 >> (b & 31)) as u32,
            AluOp::SignedDiv => {
                if b == 0 {
                    0
                } else {
                    (a as i32).wrapping_div(b as i32) as u32
                }
            }
            AluOp::SignedMod => {
                if b == 0 {
                    a
                } else {
                    (a as i32).wrapping_rem(b as i32) as u32
                }
            }
        };
        return i64::from(result);
    }
    let (a, b) = (left as u64, right as u64);
    (match op {
        AluOp::Add => a.wrapping_add(b),
        AluOp::Sub => a.wrapping_sub(b),
        AluOp::Mul => a.wrapping_mul(b),
        AluOp::Div => a.checked_div(b).unwrap_or(0),
        AluOp::Or => a | b,
        AluOp::And => a & b,
        AluOp::Lsh => a << (b & 63),
        AluOp::Rsh => a >> (b & 63),
        AluOp::Mod => a.checked_rem(b).unwrap_or(a),
        AluOp::Xor => a ^ b,
        AluOp::Mov => b,
        AluOp::Arsh => (left >> (b & 63)) as u64,
        AluOp::SignedDiv => {
            if b == 0 {
                0
            } else {
                left.wrapping_div(right) as u64
            }
        }
        AluOp::SignedMod => {
            if b == 0 {
                a
            } else {
                left.wrapping_rem(right) as u64
            }
        }
    }) as i64
}

fn fold_binary(op: AluOp, width: Width, dst: V, left: V, right: Val, known: &Known) -> Option<Op> {
    let commutative = matches!(op, AluOp::Add | AluOp::Mul | AluOp::And | AluOp::Or | AluOp::Xor);
    let constant_left = constant(left, known);
    if let (Some(a), Val::Imm(b)) = (constant_left, right) {
        return Some(set(dst, compute(op, width, a, b)));
    }
    if let (Some(a), Val::V(b), true) = (constant_left, right, commutative) {
        let swapped = Op::Binary { op, width, dst, left: b, right: Val::Imm(a) };
        return fold_binary(op, width, dst, b, Val::Imm(a), known).or(Some(swapped));
    }
    let Val::Imm(b) = right else { return None };
    match op {
        AluOp::Div | AluOp::SignedDiv if b == 0 => return Some(set(dst, 0)),
        AluOp::Mod | AluOp::SignedMod if b == 0 && width == Width::W64 => return Some(copy(dst, left)),
        _ => {}
    }
    let wide = width == Width::W64;
    // Narrow operations also cut the upper half, so an identity is not a copy there.
    match op {
        AluOp::Add | AluOp::Sub | AluOp::Or | AluOp::Xor | AluOp::Lsh | AluOp::Rsh | AluOp::Arsh
            if b == 0 && wide =>
        {
            Some(copy(dst, left))
        }
        AluOp::Mul | AluOp::Div if b == 1 && wide => Some(copy(dst, left)),
        AluOp::And if b == -1 && wide => Some(copy(dst, left)),
        AluOp::Mul | AluOp::And if b == 0 => Some(set(dst, 0)),
        AluOp::And if b > 0 && (b + 1) & b == 0 && known.bits(left) <= 64 - b.leading_zeros() => {
            Some(copy(dst, left))
        }
        AluOp::And if b == 0xffff_ffff => Some(Op::Extend { dst, src: left, bits: 32, signed: false }),
        AluOp::Mul if b > 1 && b & (b - 1) == 0 => {
            Some(Op::Binary { op: AluOp::Lsh, width, dst, left, right: Val::Imm(b.trailing_zeros().into()) })
        }
        AluOp::Div if b > 1 && b & (b - 1) == 0 => {
            Some(Op::Binary { op: AluOp::Rsh, width, dst, left, right: Val::Imm(b.trailing_zeros().into()) })
        }
        AluOp::Mod if b > 0 && b & (b - 1) == 0 => {
            Some(Op::Binary { op: AluOp::And, width, dst, left, right: Val::Imm(b - 1) })
        }
        AluOp::Sub if b != i64::MIN && wide => fold_binary(AluOp::Add, width, dst, left, Val::Imm(-b), known)
            .or(Some(Op::Binary { op: AluOp::Add, width, dst, left, right: Val::Imm(-b) })),
        AluOp::Add if wide => match known.by.get(&left) {
            Some(Op::Binary {
                op: AluOp::Add, width: Width::W64, left: inner, right: Val::Imm(a), ..
            }) if known.single[inner.0 as usize] => {
                Some(Op::Binary { op, width, dst, left: *inner, right: Val::Imm(a.wrapping_add(b)) })
            }
            _ => None,
        },
        _ => None,
    }
}

fn fold_terminator(terminator: &mut Terminator, known: &Known) {
    match terminator {
        Terminator::Return(Val::V(v)) => *terminator = Terminator::Return(known.val(*v)),
        Terminator::If { width, op, left, right, then, otherwise } => {
            if let Val::V(v) = *right {
                *right = known.val(v);
            }
            let (then, otherwise) = (*then, *otherwise);
            if then == otherwise {
                *terminator = Terminator::Goto(then);
                return;
            }
            match (known.source(*left), *right) {
                (Source::Val(Val::Imm(a)), Val::Imm(b)) => {
                    let narrow = |v: i64| if *width == Width::W32 { i64::from(v as i32) } else { v };
                    let (a, b) = match (*width, op.swapped() == *op || is_signed(*op)) {
                        (Width::W32, false) => (i64::from(a as u32), i64::from(b as u32)),
                        _ => (narrow(a), narrow(b)),
                    };
                    let taken = if op.holds(a as u64, b as u64) { then } else { otherwise };
                    *terminator = Terminator::Goto(taken);
                }
                // An address known at load time is never null.
                (
                    Source::Map(_) | Source::MapValue { .. } | Source::Stack(..) | Source::Function(_),
                    Val::Imm(0),
                ) => match op {
                    JumpOp::Eq => *terminator = Terminator::Goto(otherwise),
                    JumpOp::Ne => *terminator = Terminator::Goto(then),
                    _ => {}
                },
                (Source::Val(Val::Imm(a)), Val::V(b)) => {
                    *terminator = Terminator::If {
                        width: *width,
                        op: op.swapped(),
                        left: b,
                        right: Val::Imm(a),
                        then,
                        otherwise,
                    };
                }
                (Source::Val(Val::V(v)), _) => *left = v,
                _ => {}
            }
        }
        _ => {}
    }
}

fn is_signed(op: JumpOp) -> bool {
    matches!(op, JumpOp::SignedGt | JumpOp::SignedGe | JumpOp::SignedLt | JumpOp::SignedLe)
}

/// Threads jumps through empty blocks and joins blocks with their only successor.
pub fn simplify_branches(function: &mut Function) {
    let target = |function: &Function, mut to: BlockId| {
        for _ in 0..function.blocks.len() {
            let block = &function.blocks[to.0 as usize];
            match block.terminator {
                Terminator::Goto(next) if block.instructions.is_empty() && next != to => to = next,
                _ => break,
            }
        }
        to
    };
    let flow = Flow::of(function);
    for id in &flow.order {
        let mut terminator = function.blocks[id.0 as usize].terminator.clone();
        terminator.successors_mut(|to| *to = target(function, *to));
        if let Terminator::Goto(to) = terminator {
            let next = &function.blocks[to.0 as usize];
            if next.instructions.is_empty() && matches!(next.terminator, Terminator::Return(Val::Imm(_))) {
                terminator = next.terminator.clone();
            }
        }
        if let Terminator::If { then, otherwise, .. } = terminator
            && then == otherwise
        {
            terminator = Terminator::Goto(then);
        }
        function.blocks[id.0 as usize].terminator = terminator;
    }
    let flow = Flow::of(function);
    let mut merged = vec![false; function.blocks.len()];
    for id in &flow.order {
        if merged[id.0 as usize] {
            continue;
        }
        while let Terminator::Goto(to) = function.blocks[id.0 as usize].terminator {
            let other = to.0 as usize;
            if to == *id || other == 0 || flow.predecessors[other].len() != 1 || merged[other] {
                break;
            }
            merged[other] = true;
            let mut taken = std::mem::take(&mut function.blocks[other].instructions);
            let (terminator, span) = (function.blocks[other].terminator.clone(), function.blocks[other].span);
            function.blocks[other].terminator = Terminator::Return(Val::Imm(0));
            let block = &mut function.blocks[id.0 as usize];
            block.instructions.append(&mut taken);
            (block.terminator, block.span) = (terminator, span);
        }
    }
}

/// Replaces a computation by the result of an equal one that dominates it.
pub fn share_common(function: &mut Function) {
    let flow = Flow::of(function);
    let single: Vec<bool> = definitions(function, &flow).into_iter().map(|count| count <= 1).collect();
    let mut children = vec![Vec::new(); function.blocks.len()];
    for id in flow.order.iter().skip(1) {
        children[flow.dominator[id.0 as usize].0 as usize].push(*id);
    }
    let mut table: HashMap<Op, V> = HashMap::new();
    // Equal operands make equal operations: what was shared goes by its first name.
    let mut same: HashMap<V, V> = HashMap::new();
    enum Step {
        Enter(BlockId),
        Leave(Vec<(Op, Option<V>)>),
    }
    let mut steps = vec![Step::Enter(BlockId(0))];
    while let Some(step) = steps.pop() {
        let id = match step {
            Step::Enter(id) => id,
            Step::Leave(undo) => {
                for (key, before) in undo.into_iter().rev() {
                    match before {
                        Some(v) => table.insert(key, v),
                        None => table.remove(&key),
                    };
                }
                continue;
            }
        };
        let mut undo = Vec::new();
        for instruction in &mut function.blocks[id.0 as usize].instructions {
            let Some(dst) = instruction.op.defines() else { continue };
            if !sharable(&instruction.op) || !single[dst.0 as usize] {
                continue;
            }
            let mut fixed = true;
            instruction.op.uses_mut(|v| {
                if let Some(first) = same.get(v) {
                    *v = *first;
                }
                fixed &= single[v.0 as usize];
            });
            if !fixed {
                continue;
            }
            let mut key = instruction.op.clone();
            key.set_definition(V(u32::MAX));
            match table.get(&key) {
                Some(before) => {
                    same.insert(dst, *before);
                    instruction.op = copy(dst, *before);
                }
                None => {
                    undo.push((key.clone(), table.insert(key, dst)));
                }
            }
        }
        steps.push(Step::Leave(undo));
        steps.extend(children[id.0 as usize].iter().map(|child| Step::Enter(*child)));
    }
}

/// A block that only copies and tests a register against a constant is decided where the register was just set
/// to a constant: that path goes to the right target at once.
pub fn thread_constants(function: &mut Function) {
    let flow = Flow::of(function);
    for id in &flow.order {
        let Terminator::Goto(to) = function.blocks[id.0 as usize].terminator else { continue };
        let next = &function.blocks[to.0 as usize];
        let Terminator::If { width: Width::W64, op, left, right: Val::Imm(right), then, otherwise } =
            next.terminator
        else {
            continue;
        };
        let copies = |op: &Op| matches!(op, Op::Set { value: Source::Val(Val::V(_)), .. });
        if to == *id || next.instructions.len() > 2 || !next.instructions.iter().all(|i| copies(&i.op)) {
            continue;
        }
        // What the tested register is a copy of.
        let mut tested = left;
        for instruction in next.instructions.iter().rev() {
            if let Op::Set { dst, value: Source::Val(Val::V(src)) } = instruction.op
                && dst == tested
            {
                tested = src;
            }
        }
        let block = &function.blocks[id.0 as usize];
        let last = block.instructions.iter().rev().find(|i| i.op.defines() == Some(tested));
        let Some(Op::Set { value: Source::Val(Val::Imm(left)), .. }) = last.map(|i| &i.op) else { continue };
        let target = if op.holds(*left as u64, right as u64) { then } else { otherwise };
        let moved = next.instructions.clone();
        let block = &mut function.blocks[id.0 as usize];
        block.instructions.extend(moved);
        block.terminator = Terminator::Goto(target);
    }
}

/// `t = a op b; x = t` becomes `x = a op b` where nobody else reads `t` and `x` is not touched in between.
pub fn compute_in_place(function: &mut Function) {
    let mut reads = vec![0_u32; function.registers as usize];
    let mut writes = vec![0_u32; function.registers as usize];
    for block in &function.blocks {
        for instruction in &block.instructions {
            instruction.op.uses(|v| reads[v.0 as usize] += 1);
            if let Some(v) = instruction.op.defines() {
                writes[v.0 as usize] += 1;
            }
        }
        block.terminator.uses(|v| reads[v.0 as usize] += 1);
    }
    for v in &function.parameters {
        writes[v.0 as usize] += 2;
    }
    /// Distances beyond this are not worth the search.
    const REACH: usize = 12;
    for block in &mut function.blocks {
        let mut at = 0;
        while at < block.instructions.len() {
            let Op::Set { dst, value: Source::Val(Val::V(temporary)) } = block.instructions[at].op else {
                at += 1;
                continue;
            };
            let once =
                reads[temporary.0 as usize] == 1 && writes[temporary.0 as usize] == 1 && temporary != dst;
            let mut found = None;
            for before in (at.saturating_sub(REACH)..at).rev().filter(|_| once) {
                let op = &block.instructions[before].op;
                if op.defines() == Some(temporary) {
                    found = Some(before);
                    break;
                }
                let mut touched = op.defines() == Some(dst);
                op.uses(|v| touched |= v == dst);
                if touched {
                    break;
                }
            }
            match found {
                Some(before) => {
                    block.instructions[before].op.set_definition(dst);
                    block.instructions.remove(at);
                }
                None => at += 1,
            }
        }
    }
}

fn sharable(op: &Op) -> bool {
    match op {
        Op::Load { stable, .. } => *stable,
        Op::Call { pure, .. } => *pure,
        Op::Binary { .. } | Op::Neg { .. } | Op::Extend { .. } | Op::Swap { .. } => true,
        // An address is two slots to make again, and the base of other things that can be shared.
        Op::Set { value: Source::MapValue { .. }, .. } => true,
        // A constant is as cheap to make again as to keep.
        Op::Set { .. } | Op::Store { .. } | Op::AtomicAdd { .. } => false,
    }
}

/// Sizes of loads are at most a register.
const _: () = assert!(Size::D as u8 == 3);
