//! Maps whose keys hold stacks, as folded stacks: frames from the root to the leaf and a weight. Other
//! parts of a key (a command's name, a pid) come first, as roots; then user frames, then kernel frames,
//! whatever their order in the key: the kernel was entered from the program.

use std::collections::BTreeMap;
use std::io::{self, Write};

use lang::schema::{Map, MapId, MapValue, Schema};
use lang::types::{Stack, Type};

use super::decode::{Decoder, Names, signed, unsigned};
use super::text;

/// A map of stacks, folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoldedMap {
    /// The map's name, with its `@`.
    pub name: String,
    /// What its numbers are.
    pub weight: Weight,
    /// Each stack once, with its weight.
    pub stacks: Vec<(Vec<String>, u64)>,
    /// Entries left out because their number is negative.
    pub negative: u64,
}

/// What the numbers of a map of stacks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// How often: `count()`, and the number of values of histograms.
    Count,
    /// A total of what the program adds up.
    Sum,
}

/// What folding asks of the machine.
pub trait FrameNames: Names {
    /// Functions of a stack without offsets, from the root to the leaf, by its key in the map of stacks.
    fn functions(&self, stack: Stack, hash: u64, frames: u32, pid: u32) -> Vec<String>;
}

/// The maps that can be folded: a stack in the key, a number as value.
pub fn maps_of_stacks(schema: &Schema) -> Vec<MapId> {
    let wanted = schema.maps.iter().enumerate().filter(|(_, map)| is_of_stacks(map));
    wanted.map(|(index, _)| MapId(index as u32)).collect()
}

/// Whether a map can be folded.
pub fn is_of_stacks(map: &Map) -> bool {
    map.key.as_ref().is_some_and(holds_stack) && weight_of(&map.value).is_some()
}

fn holds_stack(ty: &Type) -> bool {
    match ty {
        Type::Stack(_) => true,
        Type::Tuple(fields) => fields.iter().any(|field| holds_stack(&field.ty)),
        _ => false,
    }
}

fn weight_of(value: &MapValue) -> Option<Weight> {
    match value {
        MapValue::Count | MapValue::Hist { .. } | MapValue::Lhist { .. } | MapValue::LogLinear { .. } => {
            Some(Weight::Count)
        }
        MapValue::Sum { .. } | MapValue::Avg { .. } | MapValue::Stats { .. } => Some(Weight::Sum),
        MapValue::Plain(Type::Integer(_)) => Some(Weight::Sum),
        _ => None,
    }
}

/// Folds a map's entries: the key's bytes and the value of each CPU.
pub fn fold(
    map: &Map,
    entries: &[(Vec<u8>, Vec<Vec<u8>>)],
    decoder: Decoder<'_>,
    names: &dyn FrameNames,
) -> FoldedMap {
    let mut stacks: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    let mut negative = 0;
    for (key, values) in entries {
        let Some(ty) = &map.key else { continue };
        let Ok(weight) = u64::try_from(number(&map.value, values)) else {
            negative += 1;
            continue;
        };
        let mut parts = Parts::default();
        parts.take(ty, key, decoder, names);
        let frames = parts.into_frames();
        let sum = stacks.entry(frames).or_default();
        *sum = sum.saturating_add(weight);
    }
    FoldedMap {
        name: map.name.clone(),
        weight: weight_of(&map.value).unwrap_or(Weight::Sum),
        stacks: stacks.into_iter().collect(),
        negative,
    }
}

fn number(value: &MapValue, cpus: &[Vec<u8>]) -> i128 {
    let word = |bytes: &[u8], at: usize| unsigned(bytes, at * 8, 8);
    match value {
        MapValue::Plain(Type::Integer(integer)) => {
            let (bytes, size) = (cpus.first().map_or(&[][..], Vec::as_slice), usize::from(integer.bytes));
            if integer.signed { signed(bytes, 0, size).into() } else { unsigned(bytes, 0, size).into() }
        }
        MapValue::Hist { .. } | MapValue::Lhist { .. } | MapValue::LogLinear { .. } => {
            let buckets =
                |bytes: &Vec<u8>| (0..bytes.len() / 8).map(|at| i128::from(word(bytes, at))).sum::<i128>();
            cpus.iter().map(buckets).sum()
        }
        MapValue::Count | MapValue::Sum { signed: false } => {
            cpus.iter().map(|bytes| i128::from(word(bytes, 0))).sum()
        }
        _ => i128::from(cpus.iter().map(|bytes| word(bytes, 0)).fold(0, u64::wrapping_add) as i64),
    }
}

#[derive(Default)]
struct Parts {
    roots: Vec<String>,
    user: Vec<String>,
    kernel: Vec<String>,
}

impl Parts {
    fn take(&mut self, ty: &Type, bytes: &[u8], decoder: Decoder<'_>, names: &dyn FrameNames) {
        match ty {
            Type::Stack(stack) => {
                let word = |at| unsigned(bytes, at, 4) as u32;
                let frames = names.functions(*stack, unsigned(bytes, 0, 8), word(8), word(12));
                let into = if stack.user { &mut self.user } else { &mut self.kernel };
                into.extend(frames);
            }
            Type::Tuple(fields) => {
                for field in fields.iter() {
                    let at = field.offset as usize;
                    let end = (at + field.ty.size() as usize).min(bytes.len());
                    self.take(&field.ty, bytes.get(at..end).unwrap_or(&[]), decoder, names);
                }
            }
            other => {
                let text = text::key_bytes(&decoder.value(other, bytes));
                self.roots.push(String::from_utf8_lossy(&text).trim().to_owned());
            }
        }
    }

    fn into_frames(mut self) -> Vec<String> {
        self.kernel.iter_mut().for_each(|frame| frame.push_str("_[k]"));
        let none = self.user.is_empty() && self.kernel.is_empty();
        let mut frames = self.roots;
        frames.append(&mut self.user);
        frames.append(&mut self.kernel);
        if none {
            frames.push("[no stack]".into());
        }
        // A semicolon ends a frame, and a line break a stack.
        for frame in &mut frames {
            if frame.contains([';', '\n', '\r']) {
                *frame = frame.replace(';', ":").replace(['\n', '\r'], " ");
            }
        }
        frames
    }
}

/// `root;caller;leaf 42`, one line a stack.
pub fn write(out: &mut dyn Write, map: &FoldedMap) -> io::Result<()> {
    for (frames, weight) in map.stacks.iter().filter(|(_, weight)| *weight > 0) {
        writeln!(out, "{} {weight}", frames.join(";"))?;
    }
    Ok(())
}
