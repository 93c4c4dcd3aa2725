//! Registers r0–r9 for virtual registers: most valuable first, each into the first machine register whose
//! occupied ranges it does not touch, hints before the rest. What finds none is spilled or made again at each
//! use, and the allocation starts over; spilled pieces are too short to fail twice.

use std::collections::{BTreeMap, HashMap};

use bpf::insn::Reg;

use super::ranges::{Range, Ranges, ranges};
use super::spill;
use crate::lir::{BlockId, Function, Op, Source, Terminator, V, Val};

/// The result of allocation.
#[derive(Debug)]
pub struct Assignment {
    /// Machine register of each virtual one that is live anywhere.
    pub register: Vec<Option<Reg>>,
    /// Order of blocks.
    pub order: Vec<BlockId>,
    /// Bytes below r10 of each stack object (its lowest byte is at `r10 - offset`).
    pub offset: Vec<u32>,
    /// Bytes of stack.
    pub frame: u32,
}

/// Ranges taken in one machine register: start → end.
#[derive(Clone, Debug, Default)]
struct Occupied(BTreeMap<u32, u32>);

impl Occupied {
    fn free(&self, ranges: &[Range]) -> bool {
        ranges.iter().all(|(start, end)| {
            self.0.range(..end).next_back().is_none_or(|(_, taken_end)| taken_end <= start)
        })
    }

    fn take(&mut self, ranges: &[Range]) {
        self.0.extend(ranges.iter().copied());
    }
}

/// Caller-saved registers are clobbered by calls.
const CLOBBERED: usize = 6;
/// Where to look first when nothing hints: argument registers, then r0, then those that survive calls.
const ORDER: [u8; 10] = [1, 2, 3, 4, 5, 0, 6, 7, 8, 9];

#[derive(Clone, Copy, Debug)]
enum Hint {
    Machine(u8),
    Same(V),
}

/// Assigns registers, changing the function where it has to spill.
pub fn assign(function: &mut Function) -> Assignment {
    let mut spilled = spill::Spilled::default();
    // Each round shortens what failed; the bound only guards against a bug here.
    for _ in 0..100 {
        let ranges = ranges(function);
        match try_assign(function, &ranges, &spilled) {
            Ok(register) => {
                let (offset, frame) = spill::frame(function, &ranges, &spilled);
                return Assignment { register, order: ranges.order, offset, frame };
            }
            Err(failed) => spilled.spill(function, &failed),
        }
    }
    unreachable!("register allocation of {} does not end", function.name)
}

fn try_assign(
    function: &Function,
    ranges: &Ranges,
    spilled: &spill::Spilled,
) -> Result<Vec<Option<Reg>>, Vec<V>> {
    let hints = hints(function);
    let mut occupied: Vec<Occupied> = vec![Occupied::default(); 10];
    let clobbers: Vec<Range> = ranges.calls.iter().map(|i| (i * 4 + 1, i * 4 + 2)).collect();
    for taken in &mut occupied[..CLOBBERED] {
        taken.take(&clobbers);
    }
    let length = |v: V| -> u32 { ranges.live[v.0 as usize].iter().map(|(start, end)| end - start).sum() };
    let mut queue: Vec<(bool, f32, V)> = (0..function.registers)
        .map(V)
        .filter(|v| !ranges.live[v.0 as usize].is_empty())
        .map(|v| (spilled.is_piece(v), ranges.weight[v.0 as usize] / length(v).max(1) as f32, v))
        .collect();
    queue.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(&b.2)));
    let mut register: Vec<Option<Reg>> = vec![None; function.registers as usize];
    let mut failed = Vec::new();
    for (_, _, v) in queue {
        let live = &ranges.live[v.0 as usize];
        let hinted = hints.get(&v).into_iter().flatten().filter_map(|hint| match hint {
            Hint::Machine(reg) => Some(*reg),
            Hint::Same(other) => register[other.0 as usize].map(|reg| reg.0),
        });
        let choice = hinted.chain(ORDER).find(|reg| occupied[*reg as usize].free(live));
        match choice {
            Some(reg) => {
                occupied[reg as usize].take(live);
                register[v.0 as usize] = Some(Reg(reg));
            }
            None => failed.push(v),
        }
    }
    if failed.is_empty() { Ok(register) } else { Err(failed) }
}

/// Registers that would save a move.
fn hints(function: &Function) -> HashMap<V, Vec<Hint>> {
    let mut out: HashMap<V, Vec<Hint>> = HashMap::new();
    let mut add = |v: V, hint: Hint| out.entry(v).or_default().push(hint);
    for (at, v) in function.parameters.iter().enumerate() {
        add(*v, Hint::Machine(at as u8 + 1));
    }
    for block in &function.blocks {
        for instruction in &block.instructions {
            let (a, b) = match &instruction.op {
                Op::Set { dst, value: Source::Val(Val::V(src)) } => (*dst, *src),
                Op::Binary { dst, left, .. } => (*dst, *left),
                Op::Neg { dst, src } | Op::Extend { dst, src, .. } | Op::Swap { dst, src, .. } => {
                    (*dst, *src)
                }
                Op::AtomicAdd { fetch: Some(dst), value, .. } => (*dst, *value),
                Op::Call { dst, arguments, .. } => {
                    if let Some(dst) = dst {
                        add(*dst, Hint::Machine(0));
                    }
                    for (at, argument) in arguments.iter().enumerate() {
                        if let Source::Val(Val::V(v)) = argument {
                            add(*v, Hint::Machine(at as u8 + 1));
                        }
                    }
                    continue;
                }
                _ => continue,
            };
            add(a, Hint::Same(b));
            add(b, Hint::Same(a));
        }
        if let Terminator::Return(Val::V(v)) = block.terminator {
            add(v, Hint::Machine(0));
        }
    }
    out
}
