//! Registers r0–r9 for virtual registers: most valuable first, each into the first machine register whose
//! occupied ranges it does not touch, hints before the rest. What finds none is spilled or made again at each
//! use, and the allocation starts over; spilled pieces are too short to fail twice.

use std::collections::{BTreeMap, HashMap};

use bpf::insn::Reg;

use super::ranges::{Cold, Range, Ranges, ranges};
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
pub fn assign(function: &mut Function, place: Cold) -> Assignment {
    let mut spilled = spill::Spilled::default();
    // Each round shortens what failed; the bound only guards against a bug here.
    for _ in 0..100 {
        let ranges = ranges(function, place);
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
    let groups = Groups::of(function, ranges);
    let length = |live: &[Range]| -> u32 { live.iter().map(|(start, end)| end - start).sum() };
    let mut queue: Vec<(bool, f32, V)> = (0..function.registers)
        .map(V)
        .filter(|v| groups.leader(*v) == *v && !groups.live[v.0 as usize].is_empty())
        .map(|v| {
            let members = &groups.members[v.0 as usize];
            let weight: f32 = members.iter().map(|member| ranges.weight[member.0 as usize]).sum();
            let piece = members.iter().any(|member| spilled.is_piece(*member));
            (piece, weight / length(&groups.live[v.0 as usize]).max(1) as f32, v)
        })
        .collect();
    queue.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(&b.2)));
    let mut register: Vec<Option<Reg>> = vec![None; function.registers as usize];
    let mut failed = Vec::new();
    for (_, _, leader) in queue {
        let members = &groups.members[leader.0 as usize];
        let mut place = |list: &[V], live: &[Range], register: &mut Vec<Option<Reg>>| {
            let hinted = list.iter().filter_map(|v| hints.get(v)).flatten().filter_map(|hint| match hint {
                Hint::Machine(reg) => Some(*reg),
                Hint::Same(other) => register[other.0 as usize].map(|reg| reg.0),
            });
            let choice = hinted.chain(ORDER).find(|reg| occupied[*reg as usize].free(live));
            if let Some(reg) = choice {
                occupied[reg as usize].take(live);
                list.iter().for_each(|v| register[v.0 as usize] = Some(Reg(reg)));
            }
            choice.is_some()
        };
        if place(members, &groups.live[leader.0 as usize], &mut register) {
            continue;
        }
        // Together they find no place; each for itself may.
        for v in members {
            if !place(&[*v], &ranges.live[v.0 as usize], &mut register) {
                failed.push(*v);
            }
        }
    }
    if failed.is_empty() { Ok(register) } else { Err(failed) }
}

/// Registers that want to be one: both sides of a copy, a result and its left operand. They are joined when
/// their lives do not touch.
struct Groups {
    parent: Vec<V>,
    live: Vec<Vec<Range>>,
    members: Vec<Vec<V>>,
}

impl Groups {
    fn of(function: &Function, ranges: &Ranges) -> Groups {
        let all = (0..function.registers).map(V);
        let mut groups = Groups {
            parent: all.clone().collect(),
            live: ranges.live.clone(),
            members: all.map(|v| vec![v]).collect(),
        };
        let mut pairs: Vec<(bool, V, V)> = Vec::new();
        for id in &ranges.order {
            let block = &function.blocks[id.0 as usize];
            for instruction in &block.instructions {
                let (a, b) = match &instruction.op {
                    Op::Set { dst, value: Source::Val(Val::V(src)) } => (*dst, *src),
                    Op::Binary { dst, left, .. } => (*dst, *left),
                    Op::Neg { dst, src } | Op::Extend { dst, src, .. } | Op::Swap { dst, src, .. } => {
                        (*dst, *src)
                    }
                    _ => continue,
                };
                pairs.push((block.cold, a, b));
            }
        }
        pairs.sort_by_key(|(cold, ..)| *cold);
        for (_, a, b) in pairs {
            groups.join(a, b);
        }
        groups
    }

    fn leader(&self, mut v: V) -> V {
        while self.parent[v.0 as usize] != v {
            v = self.parent[v.0 as usize];
        }
        v
    }

    fn join(&mut self, a: V, b: V) {
        let (a, b) = (self.leader(a), self.leader(b));
        if a == b || !disjoint(&self.live[a.0 as usize], &self.live[b.0 as usize]) {
            return;
        }
        let (large, small) = if self.members[a.0 as usize].len() >= self.members[b.0 as usize].len() {
            (a, b)
        } else {
            (b, a)
        };
        let moved = std::mem::take(&mut self.live[small.0 as usize]);
        let live = &mut self.live[large.0 as usize];
        live.extend(moved);
        live.sort_unstable();
        let members = std::mem::take(&mut self.members[small.0 as usize]);
        self.members[large.0 as usize].extend(members);
        self.parent[small.0 as usize] = large;
    }
}

fn disjoint(a: &[Range], b: &[Range]) -> bool {
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        if a[i].1 <= b[j].0 {
            i += 1;
        } else if b[j].1 <= a[i].0 {
            j += 1;
        } else {
            return false;
        }
    }
    true
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
