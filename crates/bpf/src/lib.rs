//! eBPF as plain data: instructions, assembler and disassembler, helper and map tables, BTF, images,
//! kernel facts, and an interpreter for tests.
//!
//! Bytes, texts and tables in; plain values out. No I/O, no unsafe, no knowledge of the language that
//! produced a program or of the loader that will hand it to a kernel.

pub mod insn;
pub mod encode;
pub mod program;
pub mod map;
pub mod btf;
pub mod image;
pub mod facts;
pub mod helpers;
pub mod text;
pub mod interp;

pub use facts::KernelFacts;
pub use image::{Image, Program};
pub use insn::{Instruction, Reg};
pub use map::{MapKind, MapSpec};
pub use program::ProgramType;
