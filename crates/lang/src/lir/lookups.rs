//! Lookups of an entry that was looked up already. Such a lookup may be left out where, on every way from the
//! first to it, nothing changed which entries the map has and no variable of the key was assigned. What the
//! entry holds is still read each time.

use std::collections::HashMap;

use bpf::helpers::id;

use super::*;

/// A lookup whose key is known by number.
struct Site {
    map: u32,
    key: KeyId,
    found: V,
}

/// Sites, one bit each.
type Set = Vec<u64>;

fn has(set: &Set, site: usize) -> bool {
    set[site / 64] & (1 << (site % 64)) != 0
}

/// Looks up once what is looked up twice.
pub fn share_lookups(function: &mut Function) {
    let flow = Flow::of(function);
    let sites = sites(function, &flow);
    if sites.is_empty() {
        return;
    }
    let mut variables = vec![false; function.registers as usize];
    function.keys.iter().flatten().for_each(|v| variables[v.0 as usize] = true);
    let words = sites.len().div_ceil(64);
    // Sites whose result still stands, at the end of each block; all of them until a way there says otherwise.
    let mut at_end = vec![vec![u64::MAX; words]; function.blocks.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for id in &flow.order {
            let mut set = at_start(*id, &flow, &at_end, words);
            for instruction in &function.blocks[id.0 as usize].instructions {
                step(&instruction.op, function, &sites, &variables, &mut set);
            }
            changed |= at_end[id.0 as usize] != set;
            at_end[id.0 as usize] = set;
        }
    }
    for id in &flow.order {
        let mut set = at_start(*id, &flow, &at_end, words);
        for at in 0..function.blocks[id.0 as usize].instructions.len() {
            let op = function.blocks[id.0 as usize].instructions[at].op.clone();
            if let Some((map, key, dst)) = lookup(&op) {
                let same = |n: &usize| has(&set, *n) && sites[*n].map == map && sites[*n].key == key;
                let first = (0..sites.len()).find(same).map(|n| sites[n].found).filter(|v| *v != dst);
                if let Some(first) = first {
                    let op = &mut function.blocks[id.0 as usize].instructions[at].op;
                    *op = Op::Set { dst, value: first.into() };
                }
            }
            step(&op, function, &sites, &variables, &mut set);
        }
    }
}

/// Lookups of what is looked up more than once, into registers that nothing else sets.
fn sites(function: &Function, flow: &Flow) -> Vec<Site> {
    let mut definitions = vec![0_u32; function.registers as usize];
    let mut times: HashMap<(u32, KeyId), u32> = HashMap::new();
    let ops = || {
        let blocks = flow.order.iter().map(|id| &function.blocks[id.0 as usize]);
        blocks.flat_map(|block| &block.instructions).map(|instruction| &instruction.op)
    };
    for op in ops() {
        if let Some(v) = op.defines() {
            definitions[v.0 as usize] += 1;
        }
        if let Some((map, key, _)) = lookup(op) {
            *times.entry((map, key)).or_default() += 1;
        }
    }
    ops()
        .filter_map(lookup)
        .filter(|(map, key, dst)| times[&(*map, *key)] > 1 && definitions[dst.0 as usize] == 1)
        .map(|(map, key, found)| Site { map, key, found })
        .collect()
}

/// The map, key and result of a lookup with a numbered key.
fn lookup(op: &Op) -> Option<(u32, KeyId, V)> {
    match op {
        Op::Call { dst: Some(dst), key: Some(key), arguments, .. } => match arguments.first() {
            Some(Source::Map(map)) => Some((*map, *key, *dst)),
            _ => None,
        },
        _ => None,
    }
}

/// What stands on all ways into a block.
fn at_start(id: BlockId, flow: &Flow, at_end: &[Set], words: usize) -> Set {
    let mut set = vec![if id == BlockId(0) { 0 } else { u64::MAX }; words];
    for from in &flow.predecessors[id.0 as usize] {
        for (word, other) in set.iter_mut().zip(&at_end[from.0 as usize]) {
            *word &= other;
        }
    }
    set
}

fn step(op: &Op, function: &Function, sites: &[Site], variables: &[bool], set: &mut Set) {
    let mut drop = |gone: &dyn Fn(&Site) -> bool| {
        for (n, _) in sites.iter().enumerate().filter(|(_, site)| gone(site)) {
            set[n / 64] &= !(1 << (n % 64));
        }
    };
    if let Some(v) = op.defines().filter(|v| variables[v.0 as usize]) {
        drop(&|site| function.keys[site.key.0 as usize].contains(&v));
    }
    if let Op::Call { callee, arguments, .. } = op
        && *callee != Callee::Helper(id::MAP_LOOKUP_ELEM)
    {
        // A callback may do anything.
        let calls_back = arguments.iter().any(|argument| matches!(argument, Source::Function(_)));
        drop(&|site| calls_back || arguments.contains(&Source::Map(site.map)));
    }
    if let Some((_, _, dst)) = lookup(op)
        && let Some(n) = sites.iter().position(|site| site.found == dst)
    {
        set[n / 64] |= 1 << (n % 64);
    }
}
