//! Live ranges over the linear order of blocks. Position `4i` is where instruction `i` reads, `4i+1` where a
//! call clobbers, `4i+2` where it writes.

use crate::lir::{BlockId, Flow, Function, Liveness, Op, V, Val};
use bpf::insn::AluOp;

/// Half-open.
pub type Range = (u32, u32);

/// Everything allocation asks of a function.
#[derive(Debug)]
pub struct Ranges {
    /// Blocks in the order they are emitted.
    pub order: Vec<BlockId>,
    /// Live ranges by register, ascending.
    pub live: Vec<Vec<Range>>,
    /// Positions of calls, as instruction numbers.
    pub calls: Vec<u32>,
    /// Estimated executions of all mentions, by register.
    pub weight: Vec<f32>,
    /// Whether some jump goes back.
    pub loops: bool,
}

/// Where rarely run blocks go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cold {
    /// After all others: the usual path runs straight on.
    Last,
    /// Beside the blocks that lead there: jumps stay short in very long functions.
    Near,
}

/// Blocks in reverse postorder, rarely run ones where they are wanted.
pub fn layout(function: &Function, flow: &Flow, place: Cold) -> Vec<BlockId> {
    if place == Cold::Near {
        return flow.order.clone();
    }
    let cold = |id: &BlockId| function.blocks[id.0 as usize].cold;
    let hot = flow.order.iter().filter(|id| !cold(id));
    hot.chain(flow.order.iter().filter(|id| cold(id))).copied().collect()
}

/// Computes live ranges.
pub fn ranges(function: &Function, place: Cold) -> Ranges {
    let flow = Flow::of(function);
    let liveness = Liveness::of(function, &flow);
    let order = layout(function, &flow, place);
    let count = function.registers as usize;
    let mut out = Ranges {
        order,
        live: vec![Vec::new(); count],
        calls: Vec::new(),
        weight: vec![0.0; count],
        loops: false,
    };
    let mut place = vec![u32::MAX; function.blocks.len()];
    let mut index = 0;
    for id in &out.order {
        place[id.0 as usize] = index;
        index += function.blocks[id.0 as usize].instructions.len() as u32 + 1;
    }
    let mut open: Vec<u32> = vec![0; count];
    let mut opened: Vec<V> = Vec::new();
    for id in &out.order {
        let at = id.0 as usize;
        let block = &function.blocks[at];
        let start = place[at];
        let end = start + block.instructions.len() as u32 + 1;
        out.loops |=
            block.terminator.successors().any(|to| flow.position[to.0 as usize] <= flow.position[at]);
        let frequency = if block.cold { 0.05 } else { 1.0 };
        opened.clear();
        let mut begin = |v: V, position: u32, open: &mut Vec<u32>, opened: &mut Vec<V>, weight: f32| {
            out.weight[v.0 as usize] += weight;
            if open[v.0 as usize] < position {
                if open[v.0 as usize] == 0 {
                    opened.push(v);
                }
                open[v.0 as usize] = position;
            }
        };
        for v in liveness.at_end(at) {
            begin(v, end * 4, &mut open, &mut opened, 0.0);
        }
        block.terminator.uses(|v| begin(v, (end - 1) * 4 + 1, &mut open, &mut opened, frequency));
        for (offset, instruction) in block.instructions.iter().enumerate().rev() {
            let i = start + offset as u32;
            let op = &instruction.op;
            if let Some(v) = op.defines() {
                let until = open[v.0 as usize].max(i * 4 + 3);
                out.live[v.0 as usize].push((i * 4 + 2, until));
                open[v.0 as usize] = 0;
                out.weight[v.0 as usize] += frequency;
            }
            let mut begin = |v: V, position: u32| {
                out.weight[v.0 as usize] += frequency;
                if open[v.0 as usize] < position {
                    opened.push(v);
                    open[v.0 as usize] = position;
                }
            };
            if let Op::Call { .. } = op {
                out.calls.push(i);
            }
            op.uses(|v| begin(v, i * 4 + 1));
            // The result is written before these are read for the last time.
            match op {
                Op::Binary { op, right: Val::V(v), .. } if !commutative(*op) => begin(*v, i * 4 + 3),
                Op::AtomicAdd { base, fetch: Some(_), .. } => begin(*base, i * 4 + 3),
                _ => {}
            }
        }
        for v in opened.drain(..) {
            let until = std::mem::replace(&mut open[v.0 as usize], 0);
            if until > 0 {
                out.live[v.0 as usize].push((start * 4, until));
            }
        }
    }
    out.live.iter_mut().for_each(|ranges| ranges.sort_unstable());
    out.calls.sort_unstable();
    out
}

/// Whether operands may be exchanged.
pub fn commutative(op: AluOp) -> bool {
    matches!(op, AluOp::Add | AluOp::Mul | AluOp::And | AluOp::Or | AluOp::Xor)
}
