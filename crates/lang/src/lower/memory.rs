//! Bytes of the program's own memory: addresses, loads, stores, copies, zeros.

use bpf::helpers::id;
use bpf::insn::{AluOp, Size};

use super::builder::Builder;
use super::{CONSTANTS, SCRATCH, SCRATCH_STRIDE};
use crate::lir::{Base, Op, Source, StackId, V, Val};
use crate::types::Type;

/// A place in the program's own memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mem {
    pub base: MemBase,
    pub offset: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemBase {
    Stack(StackId),
    /// From the unit's scratch base.
    Scratch,
    /// An address the verifier has seen checked.
    V(V),
    /// An address in the one element of an array map.
    Map(u32),
}

/// Copies up to this size are done word by word.
const INLINE_COPY: u32 = 64;

impl Mem {
    pub fn stack(id: StackId) -> Mem {
        Mem { base: MemBase::Stack(id), offset: 0 }
    }

    pub fn scratch(offset: u32) -> Mem {
        Mem { base: MemBase::Scratch, offset: offset as i32 }
    }

    pub fn at(v: V) -> Mem {
        Mem { base: MemBase::V(v), offset: 0 }
    }

    pub fn map(map: u32, offset: u32) -> Mem {
        Mem { base: MemBase::Map(map), offset: offset as i32 }
    }

    pub fn plus(self, offset: u32) -> Mem {
        Mem { offset: self.offset + offset as i32, ..self }
    }
}

impl Builder<'_, '_> {
    /// This CPU's scratch memory for this unit.
    fn scratch_address(&mut self) -> V {
        let cpu = self.cpu_block();
        let bytes = self.binary_stride(cpu);
        let start = self.set(Source::MapValue { map: SCRATCH, offset: self.scratch_base });
        match bytes {
            Val::Imm(0) => start,
            bytes => {
                let address = self.binary(AluOp::Add, start.into(), bytes);
                self.in_register(address)
            }
        }
    }

    fn binary_stride(&mut self, cpu: Val) -> Val {
        match cpu {
            Val::Imm(0) => Val::Imm(0),
            cpu => self.binary(AluOp::Mul, cpu, Val::Imm(SCRATCH_STRIDE)),
        }
    }

    /// The address as something to be passed to a helper.
    pub fn address(&mut self, mem: Mem) -> Source {
        match mem.base {
            MemBase::Stack(id) => Source::Stack(id, mem.offset),
            MemBase::Map(map) => Source::MapValue { map, offset: mem.offset as u32 },
            MemBase::Scratch => {
                let base = self.scratch_address();
                match self.add(base.into(), mem.offset.into()) {
                    Val::V(v) => v.into(),
                    imm => imm.into(),
                }
            }
            MemBase::V(v) => self.add(v.into(), mem.offset.into()).into(),
        }
    }

    /// The address in a register.
    pub fn pointer(&mut self, mem: Mem) -> V {
        match self.address(mem) {
            Source::Val(Val::V(v)) => v,
            other => self.set(other),
        }
    }

    /// Base and offset of an access.
    fn access(&mut self, mem: Mem) -> (Base, i32) {
        match mem.base {
            MemBase::Stack(id) => (Base::Stack(id), mem.offset),
            MemBase::Map(_) => (Base::V(self.pointer(mem)), 0),
            _ if i16::try_from(mem.offset).is_err() => (Base::V(self.pointer(mem)), 0),
            MemBase::Scratch => (Base::V(self.scratch_address()), mem.offset),
            MemBase::V(v) => (Base::V(v), mem.offset),
        }
    }

    pub fn load(&mut self, size: Size, mem: Mem) -> V {
        let (base, offset) = self.access(mem);
        self.load_from(size, base, offset, false)
    }

    pub fn store(&mut self, size: Size, mem: Mem, value: Val) {
        let (base, offset) = self.access(mem);
        self.op(Op::Store { size, base, offset, value });
    }

    /// A scalar of a type, extended to 64 bits as its sign wants.
    pub fn load_scalar(&mut self, ty: &Type, mem: Mem) -> Val {
        let size = Size::from_bytes(ty.size()).unwrap_or(Size::D);
        let v = self.load(size, mem);
        if ty.is_signed() { self.extend(v.into(), size.bytes() * 8, true) } else { v.into() }
    }

    pub fn store_scalar(&mut self, ty: &Type, mem: Mem, value: Val) {
        let size = Size::from_bytes(ty.size()).unwrap_or(Size::D);
        self.store(size, mem, value);
    }

    /// Words that cover `size` bytes, none larger than the alignment of all `offsets`.
    pub fn words(size: u32, offsets: &[i32]) -> Vec<(u32, Size)> {
        let align = |at: u32| {
            let all = offsets.iter().fold(0, |all, offset| all | offset.wrapping_add(at as i32));
            all.trailing_zeros()
        };
        let mut out = Vec::new();
        let mut at = 0;
        while at < size {
            let limit = (1_u32 << align(at).min(3)).min(1 << (size - at).ilog2());
            let size = Size::from_bytes(limit.min(8)).unwrap_or(Size::B);
            out.push((at, size));
            at += size.bytes();
        }
        out
    }

    /// Zeros.
    pub fn zero(&mut self, to: Mem, size: u32) {
        if size <= INLINE_COPY {
            for (at, word) in Self::words(size, &[to.offset]) {
                self.store(word, to.plus(at), Val::Imm(0));
            }
            return;
        }
        let offset = self.shared.constants.zeros(size);
        self.copy_by_helper(to, Source::MapValue { map: CONSTANTS, offset }, size);
    }

    /// Copies bytes between places that do not overlap.
    pub fn copy(&mut self, to: Mem, from: Mem, size: u32) {
        if to == from {
            return;
        }
        if size <= INLINE_COPY {
            let (base, offset) = self.access(from);
            let (to_base, to_offset) = self.access(to);
            for (at, word) in Self::words(size, &[to.offset, from.offset]) {
                let v = self.load_from(word, base, offset + at as i32, false);
                self.op(Op::Store {
                    size: word,
                    base: to_base,
                    offset: to_offset + at as i32,
                    value: v.into(),
                });
            }
            return;
        }
        let from = self.address(from);
        self.copy_by_helper(to, from, size);
    }

    /// The helper copies any memory of the kernel, and the program's own is that.
    pub fn copy_by_helper(&mut self, to: Mem, from: Source, size: u32) {
        let to = self.address(to);
        self.call(id::PROBE_READ_KERNEL, vec![to, Val::Imm(size.into()).into(), from]);
    }

    /// Constant bytes, the rest up to `size` zero.
    pub fn store_bytes(&mut self, to: Mem, bytes: &[u8], size: u32) {
        if size > INLINE_COPY {
            let offset = self.shared.constants.bytes(bytes, size);
            self.copy_by_helper(to, Source::MapValue { map: CONSTANTS, offset }, size);
            return;
        }
        let mut padded = bytes.to_vec();
        padded.resize(size as usize, 0);
        for (at, word) in Self::words(size, &[to.offset]) {
            let part = &padded[at as usize..(at + word.bytes()) as usize];
            let value = part.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte)) as i64;
            if word == Size::D && i32::try_from(value).is_err() {
                // Two stores of constants are shorter than a two-slot load and a store.
                self.store(Size::W, to.plus(at), Val::Imm(i64::from(value as i32)));
                self.store(Size::W, to.plus(at + 4), Val::Imm(i64::from((value >> 32) as i32)));
            } else {
                self.store(word, to.plus(at), Val::Imm(value));
            }
        }
    }

    /// This CPU's block of the data map.
    pub fn cpu_data(&mut self, offset: u32) -> Mem {
        let layout = &self.shared.layout;
        let (start, stride) = (layout.cpu_start, i64::from(layout.cpu_stride));
        match self.cpu_block() {
            Val::Imm(0) => Mem::map(super::DATA, start + offset),
            cpu => {
                let bytes = self.binary(AluOp::Mul, cpu, Val::Imm(stride));
                let start = self.set(Source::MapValue { map: super::DATA, offset: start });
                let address = self.binary(AluOp::Add, start.into(), bytes);
                Mem::at(self.in_register(address)).plus(offset)
            }
        }
    }
}
