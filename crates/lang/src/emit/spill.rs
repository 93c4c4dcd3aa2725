//! Registers that found no place live on the stack, or are made again at each use when they are constants or
//! addresses. Also the layout of the stack frame.

use std::collections::{HashMap, HashSet};

use bpf::insn::Size;

use super::ranges::{Range, Ranges};
use crate::lir::{Base, Flow, Function, Instruction, Op, Source, StackId, V, Val};

/// What has been spilled so far.
#[derive(Debug, Default)]
pub struct Spilled {
    /// Short pieces around each use and definition, which must get a register.
    pieces: HashSet<V>,
    /// Stack objects that hold spilled registers: only loaded and stored whole, never addressed.
    slots: HashSet<StackId>,
}

/// How a register that has no machine register comes back.
#[derive(Clone, Copy)]
enum Home {
    Slot(StackId),
    Again(Source),
}

impl Spilled {
    /// Whether a register is the piece of one that was spilled.
    pub fn is_piece(&self, v: V) -> bool {
        self.pieces.contains(&v)
    }

    /// Moves these registers out of machine registers.
    pub fn spill(&mut self, function: &mut Function, failed: &[V]) {
        // A piece that finds no place is crowded out by longer lives, which were queued later; spilling the
        // others of the round makes room.
        let mut home: HashMap<V, Home> = HashMap::new();
        let wanted: HashSet<V> = failed.iter().copied().filter(|v| !self.pieces.contains(v)).collect();
        let constants = constants(function, &wanted);
        for v in &wanted {
            let place = match constants.get(v) {
                Some(source) => Home::Again(*source),
                None => {
                    let slot = function.object(8);
                    self.slots.insert(slot);
                    Home::Slot(slot)
                }
            };
            home.insert(*v, place);
        }
        let mut registers = function.registers;
        let mut fresh = |pieces: &mut HashSet<V>| {
            registers += 1;
            pieces.insert(V(registers - 1));
            V(registers - 1)
        };
        let load = |dst: V, home: Home| match home {
            Home::Slot(slot) => {
                Op::Load { dst, size: Size::D, base: Base::Stack(slot), offset: 0, stable: false }
            }
            Home::Again(source) => Op::Set { dst, value: source },
        };
        for block in &mut function.blocks {
            let old = std::mem::take(&mut block.instructions);
            let mut new = Vec::with_capacity(old.len() + 8);
            for mut instruction in old {
                let span = instruction.span;
                let mut local: HashMap<V, V> = HashMap::new();
                instruction.op.uses_mut(|v| {
                    if let Some(home) = home.get(v) {
                        *v = *local.entry(*v).or_insert_with(|| {
                            let piece = fresh(&mut self.pieces);
                            new.push(Instruction { op: load(piece, *home), span });
                            piece
                        });
                    }
                });
                let defined = instruction.op.defines();
                match defined.and_then(|v| home.get(&v)) {
                    Some(Home::Slot(slot)) => {
                        let piece = fresh(&mut self.pieces);
                        instruction.op.set_definition(piece);
                        new.push(instruction);
                        let op = Op::Store {
                            size: Size::D,
                            base: Base::Stack(*slot),
                            offset: 0,
                            value: Val::V(piece),
                        };
                        new.push(Instruction { op, span });
                    }
                    Some(Home::Again(_)) => {}
                    None => new.push(instruction),
                }
            }
            let span = block.span;
            let mut local: HashMap<V, V> = HashMap::new();
            block.terminator.uses_mut(|v| {
                if let Some(home) = home.get(v) {
                    *v = *local.entry(*v).or_insert_with(|| {
                        let piece = fresh(&mut self.pieces);
                        new.push(Instruction { op: load(piece, *home), span });
                        piece
                    });
                }
            });
            block.instructions = new;
        }
        let mut stores = Vec::new();
        for v in &mut function.parameters {
            if let Some(Home::Slot(slot)) = home.get(v) {
                *v = fresh(&mut self.pieces);
                let op = Op::Store { size: Size::D, base: Base::Stack(*slot), offset: 0, value: Val::V(*v) };
                stores.push(Instruction { op, span: function.blocks[0].span });
            }
        }
        function.blocks[0].instructions.splice(0..0, stores);
        function.registers = registers;
    }
}

/// Registers whose only definition is a constant or an address.
fn constants(function: &Function, wanted: &HashSet<V>) -> HashMap<V, Source> {
    let mut count: HashMap<V, u32> = HashMap::new();
    let mut found = HashMap::new();
    for instruction in function.blocks.iter().flat_map(|block| &block.instructions) {
        let Some(v) = instruction.op.defines().filter(|v| wanted.contains(v)) else { continue };
        *count.entry(v).or_default() += 1;
        match instruction.op {
            Op::Set { value: Source::Val(Val::V(_)), .. } => {}
            Op::Set { value, .. } => {
                found.insert(v, value);
            }
            _ => {}
        }
    }
    found.retain(|v, _| count.get(v) == Some(&1) && !function.parameters.contains(v));
    found
}

/// Offsets below r10 of all objects, and the frame's size. Spill slots with disjoint lives share bytes.
pub fn frame(function: &Function, ranges: &Ranges, spilled: &Spilled) -> (Vec<u32>, u32) {
    let mut offset = vec![0; function.stack.len()];
    let mut used = vec![false; function.stack.len()];
    let mut life: HashMap<StackId, Range> = HashMap::new();
    let mut index = 0;
    let mut mention = |id: StackId, index: u32, used: &mut Vec<bool>| {
        used[id.0 as usize] = true;
        let life = life.entry(id).or_insert((index, index));
        life.1 = index;
    };
    // Not the order of emission, in which rarely run blocks jump back: here what runs later comes later.
    for id in &Flow::of(function).order {
        let block = &function.blocks[id.0 as usize];
        for instruction in &block.instructions {
            match &instruction.op {
                Op::Load { base: Base::Stack(id), .. } | Op::Store { base: Base::Stack(id), .. } => {
                    mention(*id, index, &mut used);
                }
                Op::Set { value: Source::Stack(id, _), .. } => mention(*id, index, &mut used),
                Op::Call { arguments, .. } => {
                    for argument in arguments {
                        if let Source::Stack(id, _) = argument {
                            mention(*id, index, &mut used);
                        }
                    }
                }
                _ => {}
            }
            index += 1;
        }
        index += 1;
    }
    let mut depth = 0;
    for (at, object) in function.stack.iter().enumerate() {
        if used[at] && !spilled.slots.contains(&StackId(at as u32)) {
            depth += object.size.max(8);
            offset[at] = depth;
        }
    }
    // Cells below: free from the index given.
    let mut cells: Vec<u32> = Vec::new();
    let mut slots: Vec<(Range, StackId)> =
        spilled.slots.iter().filter_map(|id| life.get(id).map(|range| (*range, *id))).collect();
    slots.sort_unstable();
    for ((start, end), id) in slots {
        // With loops a slot may be read before the place where it is written.
        let cell = (!ranges.loops).then(|| cells.iter().position(|free| *free < start)).flatten();
        let cell = cell.unwrap_or_else(|| {
            cells.push(0);
            cells.len() - 1
        });
        cells[cell] = end;
        offset[id.0 as usize] = depth + (cell as u32 + 1) * 8;
    }
    (offset, depth + cells.len() as u32 * 8)
}
