//! Which registers are live between blocks. Most registers live within one block; only the others take part
//! in the data-flow sets, so that large programs stay cheap.

use super::{Flow, Function, V};

/// Registers live at the end of each block.
#[derive(Debug)]
pub struct Liveness {
    /// Dense number of registers that cross blocks.
    number: Vec<Option<u32>>,
    /// The registers by dense number.
    global: Vec<V>,
    /// Live at the end, by block: a bit for each dense number.
    out: Vec<Vec<u64>>,
}

impl Liveness {
    /// Solves the data-flow equations for the reachable blocks.
    pub fn of(function: &Function, flow: &Flow) -> Liveness {
        let (number, global) = crossing(function, flow);
        let words = global.len().div_ceil(64);
        let blocks = function.blocks.len();
        let mut used = vec![vec![0_u64; words]; blocks];
        let mut defined = vec![vec![0_u64; words]; blocks];
        for id in &flow.order {
            let at = id.0 as usize;
            let (used, defined) = (&mut used[at], &mut defined[at]);
            let mut read = |v: V, defined: &[u64]| {
                if let Some(n) = number[v.0 as usize]
                    && !bit(defined, n)
                {
                    set(used, n);
                }
            };
            for instruction in &function.blocks[at].instructions {
                instruction.op.uses(|v| read(v, defined));
                if let Some(n) = instruction.op.defines().and_then(|v| number[v.0 as usize]) {
                    set(defined, n);
                }
            }
            function.blocks[at].terminator.uses(|v| read(v, defined));
        }
        let mut out = vec![vec![0_u64; words]; blocks];
        let mut changed = words > 0;
        while changed {
            changed = false;
            for id in flow.order.iter().rev() {
                let at = id.0 as usize;
                let mut own = std::mem::take(&mut out[at]);
                for to in function.blocks[at].terminator.successors() {
                    let to = to.0 as usize;
                    // A block that is its own successor finds its set taken: what it had is in `own`.
                    let after: &[u64] = if to == at { &[] } else { &out[to] };
                    changed |= merge(&mut own, &used[to], &defined[to], after);
                }
                out[at] = own;
            }
        }
        Liveness { number, global, out }
    }

    /// Whether a register is live when a block ends.
    pub fn live_out(&self, block: usize, v: V) -> bool {
        self.number[v.0 as usize].is_some_and(|n| bit(&self.out[block], n))
    }

    /// All registers live when a block ends.
    pub fn at_end(&self, block: usize) -> impl Iterator<Item = V> + '_ {
        self.out[block].iter().enumerate().flat_map(move |(word, bits)| {
            let mut bits = *bits;
            std::iter::from_fn(move || {
                let at = (bits != 0).then(|| bits.trailing_zeros())?;
                bits &= bits - 1;
                Some(self.global[word * 64 + at as usize])
            })
        })
    }
}

/// Adds what is live at a successor's start: what it uses, and what is live at its end and not defined in it.
fn merge(own: &mut [u64], used: &[u64], defined: &[u64], after: &[u64]) -> bool {
    let mut changed = false;
    let after = after.iter().copied().chain(std::iter::repeat(0));
    for (((own, used), defined), after) in own.iter_mut().zip(used).zip(defined).zip(after) {
        let merged = *own | used | after & !defined;
        changed |= merged != *own;
        *own = merged;
    }
    changed
}

fn bit(bits: &[u64], n: u32) -> bool {
    bits[n as usize / 64] >> (n % 64) & 1 != 0
}

fn set(bits: &mut [u64], n: u32) {
    bits[n as usize / 64] |= 1 << (n % 64);
}

/// Registers mentioned in more than one block, numbered densely.
fn crossing(function: &Function, flow: &Flow) -> (Vec<Option<u32>>, Vec<V>) {
    const NOWHERE: u32 = u32::MAX;
    const MANY: u32 = u32::MAX - 1;
    let mut home = vec![NOWHERE; function.registers as usize];
    let mut mention = |v: V, block: u32| {
        let home = &mut home[v.0 as usize];
        *home = if *home == NOWHERE || *home == block { block } else { MANY };
    };
    for v in &function.parameters {
        mention(*v, 0);
    }
    for id in &flow.order {
        let block = &function.blocks[id.0 as usize];
        for instruction in &block.instructions {
            instruction.op.uses(|v| mention(v, id.0));
            if let Some(v) = instruction.op.defines() {
                mention(v, id.0);
            }
        }
        block.terminator.uses(|v| mention(v, id.0));
    }
    // A register of a block that is its own successor may live around the loop.
    for id in &flow.order {
        let block = &function.blocks[id.0 as usize];
        if block.terminator.successors().any(|to| to == *id) {
            for instruction in &block.instructions {
                instruction.op.uses(|v| home[v.0 as usize] = MANY);
            }
            block.terminator.uses(|v| home[v.0 as usize] = MANY);
        }
    }
    let mut global = Vec::new();
    let number = home
        .iter()
        .enumerate()
        .map(|(v, home)| {
            (*home == MANY).then(|| {
                global.push(V(v as u32));
                global.len() as u32 - 1
            })
        })
        .collect();
    (number, global)
}
