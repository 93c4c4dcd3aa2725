//! Typed program → LIR. One file an idea: memory, reads, maps, aggregates, strings, records, loops.

pub mod analysis;

// One recursion in several files: one builder, each expression may hold any other.
mod aggregate;
mod builder;
mod compare;
mod expr;
mod image;
mod intrinsic;
mod loops;
mod map;
mod memory;
mod object;
mod read;
mod record;
mod statement;
mod strings;

#[cfg(test)]
mod tests;

#[cfg(test)]
mod random;
#[cfg(test)]
mod samples;

use std::cell::OnceCell;

use bpf::KernelFacts;
use bpf::facts::{Feature, Version};

use crate::emit::EmitError;
use crate::hir;
use crate::layout::Layout;
use crate::schema::{Counter, EmitId, EmittedRecord, Schema};
use crate::source::{Source, Span};

pub use image::{Compiled, compile};

/// What cannot be compiled for this kernel, with its place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LowerError {
    /// What is wrong, for the user.
    pub message: String,
    /// Where.
    pub span: Span,
}

/// Why there is no image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// Something this kernel has not got.
    #[error("{}", .0.first().map_or("", |first| &first.message))]
    Unsupported(Vec<LowerError>),
    /// The code does not fit the machine.
    #[error("{program}: {error}")]
    Emit {
        /// Which program.
        program: String,
        /// Why.
        error: EmitError,
    },
}

/// Map numbers that get their real index when all is lowered.
pub(crate) const CONSTANTS: u32 = u32::MAX - 1;
pub(crate) const SCRATCH: u32 = u32::MAX - 2;
pub(crate) const RATES: u32 = u32::MAX - 3;
/// Stands for the bytes of scratch memory of one CPU until all is lowered.
pub(crate) const SCRATCH_STRIDE: i64 = 0x5343_5241_5443_4821;
/// Index of the data map.
pub(crate) const DATA: u32 = 0;
/// Index of the ring.
pub(crate) const RING: u32 = 1;
/// First index of the maps of the text.
pub(crate) const FIRST_MAP: u32 = 2;

/// What all programs of a text share while they are lowered.
pub(crate) struct Shared<'p> {
    pub program: &'p hir::Program,
    pub schema: &'p Schema,
    pub facts: &'p dyn KernelFacts,
    pub layout: Layout,
    pub constants: Constants,
    /// Scratch bytes of one CPU given out so far.
    pub scratch: u32,
    /// Rate-limited places.
    pub rate_sites: u32,
    /// Reports of failures (`-k`), numbered after the schema's own records.
    pub reports: Vec<EmittedRecord>,
    pub errors: Vec<LowerError>,
    pub loops: bool,
    pub for_each: bool,
    pub percpu_lookup: bool,
    task_fields: OnceCell<Option<TaskFields>>,
}

/// Bytes from the start of `struct task_struct`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskFields {
    pub pid: i32,
    pub tgid: i32,
    /// Sixteen bytes, zeros behind the text; none where the kernel leaves remains of earlier names there.
    pub comm: Option<i32>,
}

impl<'p> Shared<'p> {
    pub fn new(program: &'p hir::Program, facts: &'p dyn KernelFacts) -> Shared<'p> {
        let schema = &program.schema;
        let layout = Layout::of(schema, facts.possible_cpus(), FIRST_MAP);
        Shared {
            program,
            schema,
            facts,
            layout,
            constants: Constants::default(),
            scratch: 0,
            rate_sites: 0,
            reports: Vec::new(),
            errors: Vec::new(),
            loops: facts.has(Feature::BpfLoop),
            for_each: facts.has(Feature::ForEachMapElem),
            percpu_lookup: facts.version() >= Version(5, 19, 0),
            task_fields: OnceCell::new(),
        }
    }

    pub fn task_fields(&self) -> Option<TaskFields> {
        *self.task_fields.get_or_init(|| {
            let btf = self.facts.btf()?;
            let task = btf.find_struct("task_struct")?;
            let of_size = |name: &str, size: u64| {
                let field = btf.field(task, name)?;
                (btf.size_of(field.type_id) == Some(size) && field.bit_offset.is_multiple_of(8))
                    .then_some((field.bit_offset / 8) as i32)
            };
            let padded = self.facts.version() >= Version(5, 17, 0);
            Some(TaskFields {
                pid: of_size("pid", 4)?,
                tgid: of_size("tgid", 4)?,
                comm: of_size("comm", 16).filter(|_| padded),
            })
        })
    }

    pub fn error(&mut self, span: Span, message: impl Into<String>) {
        let error = LowerError { message: message.into(), span };
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    /// The number of a report, the same for the same place and reason.
    pub fn report(&mut self, record: EmittedRecord) -> EmitId {
        let known = self.reports.iter().position(|have| *have == record);
        let at = known.unwrap_or_else(|| {
            self.reports.push(record);
            self.reports.len() - 1
        });
        EmitId((self.schema.records.len() + at) as u32)
    }

    pub fn counter(&self, counter: Counter) -> Option<u32> {
        self.schema.counters.iter().position(|have| *have == counter).map(|at| at as u32)
    }
}

/// Read-only bytes: zeros first, then strings.
#[derive(Debug, Default)]
pub(crate) struct Constants {
    zeros: u32,
    items: Vec<(Vec<u8>, u32)>,
    end: u32,
    used: bool,
}

/// Room for zeros in front of the constants; the largest object zeroed at once.
const ZEROS: u32 = 64 * 1024;

impl Constants {
    /// Offset of at least `size` zero bytes.
    pub fn zeros(&mut self, size: u32) -> u32 {
        self.used = true;
        self.zeros = self.zeros.max(size.next_multiple_of(8));
        0
    }

    /// Offset of these bytes, padded with zeros to `size`. Constants lie after [`ZEROS`] until the pool is
    /// finished.
    pub fn bytes(&mut self, bytes: &[u8], size: u32) -> u32 {
        self.used = true;
        let mut padded = bytes.to_vec();
        padded.resize((size as usize).max(bytes.len()), 0);
        if let Some((_, offset)) = self.items.iter().find(|(have, _)| *have == padded) {
            return *offset;
        }
        let offset = ZEROS + self.end;
        self.end += (padded.len() as u32).next_multiple_of(8);
        self.items.push((padded, offset));
        offset
    }

    /// The final place of an offset given out, and all bytes.
    fn finish(&self) -> Option<(impl Fn(u32) -> u32 + use<>, Vec<u8>)> {
        if !self.used {
            return None;
        }
        let zeros = self.zeros;
        let place = move |offset: u32| if offset >= ZEROS { offset - ZEROS + zeros } else { offset };
        let mut bytes = vec![0; (self.zeros + self.end).max(8) as usize];
        for (item, offset) in &self.items {
            let at = place(*offset) as usize;
            bytes[at..at + item.len()].copy_from_slice(item);
        }
        Some((place, bytes))
    }
}

/// Text positions for line information.
pub(crate) fn place_of(source: Option<&Source>, span: Span) -> Option<(u32, u32, String)> {
    let source = source?;
    if span == Span::NONE {
        return None;
    }
    let place = source.line_column(span.start);
    Some((place.line, place.column, source.line_text(span.start).0.to_string()))
}
