//! LIR in, machine instructions out: constants made to fit, registers assigned, blocks laid out.

pub mod listing;
mod ranges;
mod legal;
mod spill;
mod assign;
mod code;

#[cfg(test)]
mod tests;

use bpf::insn::Instruction;

use ranges::Cold;

use crate::lir::{Function, Unit};
use crate::source::Span;

/// What the machine at hand allows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Machine {
    /// Instruction set v4 (kernel 6.6): sign extension, signed division, byte swap, long jumps.
    pub v4: bool,
}

/// Machine code of a unit.
#[derive(Clone, Debug, Default)]
pub struct Emitted {
    /// All functions, one after the other.
    pub instructions: Vec<Instruction>,
    /// First slot of each function, in the unit's order.
    pub functions: Vec<u32>,
    /// Source by first slot, ascending.
    pub spans: Vec<(u32, Span)>,
    /// Bytes of stack of the deepest call chain.
    pub stack: u32,
}

/// Why code cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// The kernel allows 512 bytes over all frames.
    #[error("{function} needs {bytes} bytes of stack, {limit} are allowed")]
    Stack {
        /// Which function.
        function: String,
        /// Bytes needed.
        bytes: u32,
        /// Bytes allowed.
        limit: u32,
    },
    /// A jump farther than 32767 slots on a kernel without long jumps.
    #[error("{function} is too long for this kernel's jumps: {slots} instructions")]
    Distance {
        /// Which function.
        function: String,
        /// Its length in slots.
        slots: u32,
    },
}

/// Bytes that the kernel allows all frames of a call chain together.
pub const STACK_LIMIT: u32 = 512;

/// Translates a unit that passes have been over.
pub fn emit(unit: &Unit, machine: Machine) -> Result<Emitted, EmitError> {
    let mut parts = Vec::with_capacity(unit.functions.len());
    for function in &unit.functions {
        let mut legal = function.clone();
        legal::legalise(&mut legal, machine);
        let part = match generate(legal.clone(), machine, Cold::Last) {
            Err(EmitError::Distance { .. }) => generate(legal, machine, Cold::Near)?,
            other => other?,
        };
        parts.push(part);
    }
    code::link(unit, parts)
}

fn generate(mut function: Function, machine: Machine, place: Cold) -> Result<code::Part, EmitError> {
    let assignment = assign::assign(&mut function, place);
    code::generate(&function, &assignment, machine)
}
