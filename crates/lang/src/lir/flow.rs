//! Order, predecessors and dominators of blocks.

use super::{BlockId, Function};

/// The shape of a function's control flow.
#[derive(Debug)]
pub struct Flow {
    /// Reachable blocks, each after its dominators (reverse postorder).
    pub order: Vec<BlockId>,
    /// Position in `order`; none for unreachable blocks.
    pub position: Vec<Option<u32>>,
    /// Predecessors by block.
    pub predecessors: Vec<Vec<BlockId>>,
    /// Immediate dominator by block; the entry is its own.
    pub dominator: Vec<BlockId>,
}

impl Flow {
    /// Walks a function.
    pub fn of(function: &Function) -> Flow {
        let count = function.blocks.len();
        let mut order = Vec::with_capacity(count);
        let mut seen = vec![false; count];
        // Depth first without recursion: programs may have tens of thousands of blocks.
        let mut stack = vec![(BlockId(0), 0_usize)];
        seen[0] = true;
        while let Some((block, next)) = stack.last_mut() {
            let successor = function.blocks[block.0 as usize].terminator.successors().nth(*next);
            *next += 1;
            match successor {
                Some(to) => {
                    if !seen[to.0 as usize] {
                        seen[to.0 as usize] = true;
                        stack.push((to, 0));
                    }
                }
                None => {
                    order.push(*block);
                    stack.pop();
                }
            }
        }
        order.reverse();
        let mut position = vec![None; count];
        for (at, block) in order.iter().enumerate() {
            position[block.0 as usize] = Some(at as u32);
        }
        let mut predecessors = vec![Vec::new(); count];
        for block in &order {
            for to in function.blocks[block.0 as usize].terminator.successors() {
                predecessors[to.0 as usize].push(*block);
            }
        }
        let dominator = dominators(&order, &position, &predecessors);
        Flow { order, position, predecessors, dominator }
    }
}

/// Cooper, Harvey, Kennedy: "A Simple, Fast Dominance Algorithm".
fn dominators(order: &[BlockId], position: &[Option<u32>], predecessors: &[Vec<BlockId>]) -> Vec<BlockId> {
    let at = |block: BlockId| position[block.0 as usize].unwrap_or(u32::MAX);
    let mut dominator: Vec<Option<BlockId>> = vec![None; position.len()];
    dominator[0] = Some(BlockId(0));
    let mut changed = true;
    while changed {
        changed = false;
        for block in order.iter().skip(1) {
            let mut new: Option<BlockId> = None;
            for from in &predecessors[block.0 as usize] {
                if dominator[from.0 as usize].is_none() {
                    continue;
                }
                new = Some(match new {
                    None => *from,
                    Some(mut a) => {
                        let mut b = *from;
                        while a != b {
                            while at(a) > at(b) {
                                a = dominator[a.0 as usize].unwrap_or(BlockId(0));
                            }
                            while at(b) > at(a) {
                                b = dominator[b.0 as usize].unwrap_or(BlockId(0));
                            }
                        }
                        a
                    }
                });
            }
            if new.is_some() && dominator[block.0 as usize] != new {
                dominator[block.0 as usize] = new;
                changed = true;
            }
        }
    }
    dominator.into_iter().map(|found| found.unwrap_or(BlockId(0))).collect()
}
