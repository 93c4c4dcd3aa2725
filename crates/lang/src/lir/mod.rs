//! Code between the typed program and the machine: functions of basic blocks over unlimited virtual
//! registers. A temporary has one definition; a variable of the program may have several, so no φ is needed.
//! Everything the verifier wants to see (null checks, masks before run-time indexes) is explicit here.

mod lookups;

pub mod passes;
pub mod print;

mod flow;
mod liveness;

pub use flow::Flow;
pub use liveness::Liveness;

use bpf::insn::{AluOp, JumpOp, Size, Width};

use crate::source::Span;

/// A virtual register, 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct V(pub u32);

/// Index in [`Function::blocks`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct BlockId(pub u32);

/// Index in [`Function::stack`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct StackId(pub u32);

/// Index in [`Unit::functions`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// One program to load: function 0 is its entry, the others are callbacks.
#[derive(Clone, Debug, Default)]
pub struct Unit {
    /// Functions.
    pub functions: Vec<Function>,
}

/// A function.
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// Name for listings and the own BTF.
    pub name: String,
    /// Registers that hold r1, r2, … at entry.
    pub parameters: Vec<V>,
    /// Names of parameters, for the own BTF.
    pub parameter_names: Vec<&'static str>,
    /// Blocks; 0 is the entry.
    pub blocks: Vec<Block>,
    /// Objects on the stack.
    pub stack: Vec<StackObject>,
    /// How many virtual registers there are.
    pub registers: u32,
    /// By [`KeyId`]: the registers of variables that the key is made of.
    pub keys: Vec<Vec<V>>,
}

/// Names the bytes of a key within a function: while no register in [`Function::keys`] is assigned, equal ids
/// mean equal bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct KeyId(pub u32);

/// Bytes on the stack, 8-byte aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackObject {
    /// Bytes.
    pub size: u32,
}

/// Instructions that run one after the other.
#[derive(Clone, Debug)]
pub struct Block {
    /// All but the last.
    pub instructions: Vec<Instruction>,
    /// Where it goes on.
    pub terminator: Terminator,
    /// Source of the terminator.
    pub span: Span,
    /// Rarely run: placed after all others.
    pub cold: bool,
}

/// An operation and the source it came from.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// What is done.
    pub op: Op,
    /// Where it comes from.
    pub span: Span,
}

/// A register or a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Val {
    /// A register.
    V(V),
    /// A constant.
    Imm(i64),
}

impl From<V> for Val {
    fn from(v: V) -> Val {
        Val::V(v)
    }
}

/// Something that can be put into a register: an operand, or an address known when the program is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Register or constant.
    Val(Val),
    /// A map.
    Map(u32),
    /// An address in the one element of an array map.
    MapValue {
        /// Index of the map in the image.
        map: u32,
        /// Bytes from its start.
        offset: u32,
    },
    /// An address on the stack.
    Stack(StackId, i32),
    /// A callback.
    Function(FunctionId),
    /// A variable of the kernel by BTF id.
    Variable(u32),
}

impl From<V> for Source {
    fn from(v: V) -> Source {
        Source::Val(Val::V(v))
    }
}

impl From<Val> for Source {
    fn from(v: Val) -> Source {
        Source::Val(v)
    }
}

/// The base of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// An address in a register.
    V(V),
    /// An object on the stack.
    Stack(StackId),
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Callee {
    /// A helper by number.
    Helper(u32),
    /// A kernel function by BTF id in vmlinux.
    Kernel(u32),
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `dst = value`.
    Set {
        /// Result.
        dst: V,
        /// Value.
        value: Source,
    },
    /// `dst = left op right`.
    Binary {
        /// Operation, not `Mov`.
        op: AluOp,
        /// Operand width.
        width: Width,
        /// Result.
        dst: V,
        /// Left operand.
        left: V,
        /// Right operand.
        right: Val,
    },
    /// `dst = -src`.
    Neg {
        /// Result.
        dst: V,
        /// Operand.
        src: V,
    },
    /// The low bits of `src`, extended.
    Extend {
        /// Result.
        dst: V,
        /// Operand.
        src: V,
        /// 8, 16 or 32.
        bits: u8,
        /// By the sign rather than with zeros.
        signed: bool,
    },
    /// The low bits of `src` in the other byte order, zero extended.
    Swap {
        /// Result.
        dst: V,
        /// Operand.
        src: V,
        /// 16, 32 or 64.
        bits: u8,
    },
    /// `dst = *(size *)(base + offset)`.
    Load {
        /// Result.
        dst: V,
        /// Bytes.
        size: Size,
        /// Address.
        base: Base,
        /// Bytes after it.
        offset: i32,
        /// Nothing this program does changes it (the context, kernel memory): equal loads are one.
        stable: bool,
    },
    /// `*(size *)(base + offset) = value`.
    Store {
        /// Bytes.
        size: Size,
        /// Address.
        base: Base,
        /// Bytes after it.
        offset: i32,
        /// Value.
        value: Val,
    },
    /// `lock *(size *)(base + offset) += value`.
    AtomicAdd {
        /// 4 or 8 bytes.
        size: Size,
        /// Address.
        base: V,
        /// Bytes after it.
        offset: i32,
        /// Addend.
        value: V,
        /// Gets the old value.
        fetch: Option<V>,
    },
    /// A call.
    Call {
        /// Result.
        dst: Option<V>,
        /// What.
        callee: Callee,
        /// At most five.
        arguments: Vec<Source>,
        /// The same arguments give the same result while the program runs.
        pure: bool,
        /// The key looked up, if it is one whose bytes can be known again.
        key: Option<KeyId>,
    },
}

/// How a block ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Terminator {
    /// Unconditional.
    Goto(BlockId),
    /// `if left op right then … else …`.
    If {
        /// Comparison width.
        width: Width,
        /// Condition.
        op: JumpOp,
        /// Left operand.
        left: V,
        /// Right operand.
        right: Val,
        /// When it holds.
        then: BlockId,
        /// When not.
        otherwise: BlockId,
    },
    /// Leaves the function.
    Return(Val),
}

impl Op {
    /// The register defined, if any.
    pub fn defines(&self) -> Option<V> {
        match *self {
            Op::Set { dst, .. }
            | Op::Binary { dst, .. }
            | Op::Neg { dst, .. }
            | Op::Extend { dst, .. }
            | Op::Swap { dst, .. }
            | Op::Load { dst, .. } => Some(dst),
            Op::AtomicAdd { fetch, .. } => fetch,
            Op::Call { dst, .. } => dst,
            Op::Store { .. } => None,
        }
    }

    /// Sets the register defined.
    pub fn set_definition(&mut self, to: V) {
        match self {
            Op::Set { dst, .. }
            | Op::Binary { dst, .. }
            | Op::Neg { dst, .. }
            | Op::Extend { dst, .. }
            | Op::Swap { dst, .. }
            | Op::Load { dst, .. } => *dst = to,
            Op::AtomicAdd { fetch, .. } => *fetch = Some(to),
            Op::Call { dst, .. } => *dst = Some(to),
            Op::Store { .. } => {}
        }
    }

    /// Calls `f` for each register read.
    pub fn uses(&self, mut f: impl FnMut(V)) {
        // One walk serves reading and rewriting; the clone is of small plain data.
        let mut copy = self.clone();
        copy.uses_mut(|v| f(*v));
    }

    /// Calls `f` for each place that reads a register.
    pub fn uses_mut(&mut self, mut f: impl FnMut(&mut V)) {
        match self {
            Op::Set { value: Source::Val(Val::V(v)), .. } => f(v),
            Op::Set { .. } => {}
            Op::Binary { left, right, .. } => {
                f(left);
                if let Val::V(v) = right {
                    f(v);
                }
            }
            Op::Neg { src, .. } | Op::Extend { src, .. } | Op::Swap { src, .. } => f(src),
            Op::Load { base, .. } => {
                if let Base::V(v) = base {
                    f(v);
                }
            }
            Op::Store { base, value, .. } => {
                if let Base::V(v) = base {
                    f(v);
                }
                if let Val::V(v) = value {
                    f(v);
                }
            }
            Op::AtomicAdd { base, value, .. } => {
                f(base);
                f(value);
            }
            Op::Call { arguments, .. } => {
                for argument in arguments {
                    if let Source::Val(Val::V(v)) = argument {
                        f(v);
                    }
                }
            }
        }
    }

    /// Whether it may be dropped when nobody reads the result.
    pub fn removable(&self) -> bool {
        match self {
            Op::Store { .. } | Op::AtomicAdd { .. } => false,
            Op::Call { pure, .. } => *pure,
            _ => true,
        }
    }
}

impl Terminator {
    /// Blocks that may follow.
    pub fn successors(&self) -> impl Iterator<Item = BlockId> + use<> {
        let (a, b) = match *self {
            Terminator::Goto(to) => (Some(to), None),
            Terminator::If { then, otherwise, .. } => (Some(then), Some(otherwise)),
            Terminator::Return(_) => (None, None),
        };
        a.into_iter().chain(b)
    }

    /// Calls `f` for each place that names a block.
    pub fn successors_mut(&mut self, mut f: impl FnMut(&mut BlockId)) {
        match self {
            Terminator::Goto(to) => f(to),
            Terminator::If { then, otherwise, .. } => {
                f(then);
                f(otherwise);
            }
            Terminator::Return(_) => {}
        }
    }

    /// Calls `f` for each place that reads a register.
    pub fn uses_mut(&mut self, mut f: impl FnMut(&mut V)) {
        match self {
            Terminator::If { left, right, .. } => {
                f(left);
                if let Val::V(v) = right {
                    f(v);
                }
            }
            Terminator::Return(Val::V(v)) => f(v),
            Terminator::Goto(_) | Terminator::Return(_) => {}
        }
    }

    /// Calls `f` for each register read.
    pub fn uses(&self, mut f: impl FnMut(V)) {
        let mut copy = self.clone();
        copy.uses_mut(|v| f(*v));
    }
}

impl Function {
    /// A function whose entry block is empty.
    pub fn new(name: impl Into<String>) -> Function {
        let mut function = Function { name: name.into(), ..Function::default() };
        function.block();
        function
    }

    /// A fresh register.
    pub fn register(&mut self) -> V {
        self.registers += 1;
        V(self.registers - 1)
    }

    /// A fresh block that returns 0 until told otherwise.
    pub fn block(&mut self) -> BlockId {
        self.blocks.push(Block {
            instructions: Vec::new(),
            terminator: Terminator::Return(Val::Imm(0)),
            span: Span::NONE,
            cold: false,
        });
        BlockId(self.blocks.len() as u32 - 1)
    }

    /// A fresh object on the stack.
    pub fn object(&mut self, size: u32) -> StackId {
        self.stack.push(StackObject { size: size.next_multiple_of(8) });
        StackId(self.stack.len() as u32 - 1)
    }

    /// The block of an id.
    pub fn at(&mut self, block: BlockId) -> &mut Block {
        &mut self.blocks[block.0 as usize]
    }
}
