//! One eBPF instruction as a value. Jump and call distances count 8-byte slots from the next
//! instruction, as the kernel counts them (`ld_imm64` occupies two slots).

/// A machine register, r0 to r10.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(pub u8);

/// Return value of calls and of the program.
pub const R0: Reg = Reg(0);
/// First argument; the context at program entry.
pub const R1: Reg = Reg(1);
/// Second argument.
pub const R2: Reg = Reg(2);
/// Third argument.
pub const R3: Reg = Reg(3);
/// Fourth argument.
pub const R4: Reg = Reg(4);
/// Fifth argument.
pub const R5: Reg = Reg(5);
/// Preserved across calls.
pub const R6: Reg = Reg(6);
/// Preserved across calls.
pub const R7: Reg = Reg(7);
/// Preserved across calls.
pub const R8: Reg = Reg(8);
/// Preserved across calls.
pub const R9: Reg = Reg(9);
/// The frame pointer, read only.
pub const R10: Reg = Reg(10);

/// The width of an ALU or jump instruction. A 32-bit ALU result is zero extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// The low half: `w3`.
    W32,
    /// The whole register: `r3`.
    W64,
}

/// The size of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Size {
    /// One byte.
    B,
    /// Two bytes.
    H,
    /// Four bytes.
    W,
    /// Eight bytes.
    D,
}

impl Size {
    /// In bytes.
    pub fn bytes(self) -> u32 {
        match self {
            Size::B => 1,
            Size::H => 2,
            Size::W => 4,
            Size::D => 8,
        }
    }

    /// The access of exactly `bytes` bytes, where one instruction can do it.
    pub fn from_bytes(bytes: u32) -> Option<Size> {
        match bytes {
            1 => Some(Size::B),
            2 => Some(Size::H),
            4 => Some(Size::W),
            8 => Some(Size::D),
            _ => None,
        }
    }
}

/// Two-operand arithmetic, `dst = dst op src`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AluOp {
    /// `+=`
    Add,
    /// `-=`
    Sub,
    /// `*=`
    Mul,
    /// `/=`, unsigned; a zero divisor gives 0.
    Div,
    /// `|=`
    Or,
    /// `&=`
    And,
    /// `<<=`
    Lsh,
    /// `>>=`, filling with zeros.
    Rsh,
    /// `%=`, unsigned; a zero divisor leaves the dividend.
    Mod,
    /// `^=`
    Xor,
    /// `=`
    Mov,
    /// `s>>=`, filling with the sign.
    Arsh,
    /// `s/=` (instruction set v4, kernel 6.6).
    SignedDiv,
    /// `s%=` (instruction set v4, kernel 6.6).
    SignedMod,
}

/// The condition of a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JumpOp {
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `&`: any common bit.
    Set,
    /// `s>`
    SignedGt,
    /// `s>=`
    SignedGe,
    /// `s<`
    SignedLt,
    /// `s<=`
    SignedLe,
}

impl JumpOp {
    /// The condition that holds exactly when this one does not; `Set` has none.
    pub fn inverse(self) -> Option<JumpOp> {
        Some(match self {
            JumpOp::Eq => JumpOp::Ne,
            JumpOp::Ne => JumpOp::Eq,
            JumpOp::Gt => JumpOp::Le,
            JumpOp::Ge => JumpOp::Lt,
            JumpOp::Lt => JumpOp::Ge,
            JumpOp::Le => JumpOp::Gt,
            JumpOp::SignedGt => JumpOp::SignedLe,
            JumpOp::SignedGe => JumpOp::SignedLt,
            JumpOp::SignedLt => JumpOp::SignedGe,
            JumpOp::SignedLe => JumpOp::SignedGt,
            JumpOp::Set => return None,
        })
    }

    /// The condition that holds for swapped operands.
    pub fn swapped(self) -> JumpOp {
        match self {
            JumpOp::Gt => JumpOp::Lt,
            JumpOp::Ge => JumpOp::Le,
            JumpOp::Lt => JumpOp::Gt,
            JumpOp::Le => JumpOp::Ge,
            JumpOp::SignedGt => JumpOp::SignedLt,
            JumpOp::SignedGe => JumpOp::SignedLe,
            JumpOp::SignedLt => JumpOp::SignedGt,
            JumpOp::SignedLe => JumpOp::SignedGe,
            same => same,
        }
    }

    /// What the processor would decide for 64-bit operands.
    pub fn holds(self, left: u64, right: u64) -> bool {
        let (signed_left, signed_right) = (left as i64, right as i64);
        match self {
            JumpOp::Eq => left == right,
            JumpOp::Ne => left != right,
            JumpOp::Gt => left > right,
            JumpOp::Ge => left >= right,
            JumpOp::Lt => left < right,
            JumpOp::Le => left <= right,
            JumpOp::Set => left & right != 0,
            JumpOp::SignedGt => signed_left > signed_right,
            JumpOp::SignedGe => signed_left >= signed_right,
            JumpOp::SignedLt => signed_left < signed_right,
            JumpOp::SignedLe => signed_left <= signed_right,
        }
    }
}

/// The right-hand operand of arithmetic and conditions. Immediates are sign extended to 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// A 32-bit constant.
    Imm(i32),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Operand {
        Operand::Reg(reg)
    }
}

impl From<i32> for Operand {
    fn from(imm: i32) -> Operand {
        Operand::Imm(imm)
    }
}

/// A read-modify-write of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomicOp {
    /// `+=`
    Add,
    /// `|=`
    Or,
    /// `&=`
    And,
    /// `^=`
    Xor,
    /// Exchange; always fetches.
    Exchange,
    /// Compare r0 and exchange; the old value goes to r0.
    CompareExchange,
}

/// Conversion of byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// To little endian: truncates here.
    Little,
    /// To big endian.
    Big,
    /// Unconditional swap (v4, kernel 6.6).
    Swap,
}

/// What a 16-byte `ld_imm64` loads. Maps are named by their index in [`Image::maps`](crate::Image).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Imm64 {
    /// A plain constant.
    Value(u64),
    /// The map itself, as helpers take it.
    Map(u32),
    /// The address inside the single value of an array map.
    MapValue {
        /// Index of the map in the image.
        map: u32,
        /// Bytes from the start of element 0.
        offset: u32,
    },
    /// A kernel variable by the BTF id of its `VAR`.
    Variable(u32),
    /// A static subprogram, as callback of `bpf_loop` and friends; slots from the second half of this load.
    Function(i32),
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// `dst op= src`.
    Alu {
        /// Operand width.
        width: Width,
        /// Operation.
        op: AluOp,
        /// Left operand and result.
        dst: Reg,
        /// Right operand.
        src: Operand,
    },
    /// `dst = -dst`.
    Neg {
        /// Operand width.
        width: Width,
        /// Operand and result.
        dst: Reg,
    },
    /// `dst = (s8|s16|s32) src` (v4, kernel 6.6).
    MovSigned {
        /// Result width.
        width: Width,
        /// Result.
        dst: Reg,
        /// Source register.
        src: Reg,
        /// 8, 16 or 32 source bits.
        bits: u8,
    },
    /// `dst = be32 dst` and so on.
    Endian {
        /// Which conversion.
        order: ByteOrder,
        /// Operand and result.
        dst: Reg,
        /// 16, 32 or 64 bits.
        bits: u8,
    },
    /// `dst = *(size *)(base + offset)`, zero extended unless `signed` (v4, kernel 6.6).
    Load {
        /// Bytes read.
        size: Size,
        /// Sign extend.
        signed: bool,
        /// Result.
        dst: Reg,
        /// Address register.
        base: Reg,
        /// Byte distance.
        offset: i16,
    },
    /// `*(size *)(base + offset) = src`.
    Store {
        /// Bytes written.
        size: Size,
        /// Address register.
        base: Reg,
        /// Byte distance.
        offset: i16,
        /// A register, or a sign-extended constant.
        src: Operand,
    },
    /// An atomic read-modify-write of 4 or 8 bytes.
    Atomic {
        /// `W` or `D`.
        size: Size,
        /// Operation.
        op: AtomicOp,
        /// Return the old value in `src` (in r0 for compare-exchange).
        fetch: bool,
        /// Address register.
        base: Reg,
        /// Byte distance.
        offset: i16,
        /// Operand.
        src: Reg,
    },
    /// The two-slot load of a constant or address.
    LoadImm64 {
        /// Result.
        dst: Reg,
        /// What is loaded.
        value: Imm64,
    },
    /// `goto`.
    Jump {
        /// Slots from the next instruction.
        offset: i16,
    },
    /// `if left op right goto`.
    JumpIf {
        /// Comparison width.
        width: Width,
        /// Condition.
        op: JumpOp,
        /// Left operand.
        left: Reg,
        /// Right operand.
        right: Operand,
        /// Slots from the next instruction.
        offset: i16,
    },
    /// `gotol` with a 32-bit distance (v4, kernel 6.6).
    JumpLong {
        /// Slots from the next instruction.
        offset: i32,
    },
    /// Call of a helper by its number.
    Call {
        /// `BPF_FUNC_*` number.
        helper: u32,
    },
    /// Call of a subprogram.
    CallLocal {
        /// Slots from the next instruction.
        offset: i32,
    },
    /// Call of a kernel function by the BTF id of its `FUNC`.
    CallKernel {
        /// BTF id in vmlinux or in the module.
        btf_id: u32,
        /// Index in the load's `fd_array` of the module's BTF; 0 is vmlinux.
        module: i16,
    },
    /// Return r0.
    Exit,
}

impl Instruction {
    /// 8-byte slots occupied: 2 for `LoadImm64`, otherwise 1.
    pub fn slots(&self) -> u32 {
        match self {
            Instruction::LoadImm64 { .. } => 2,
            _ => 1,
        }
    }

    /// `dst = src`, 64 bits.
    pub fn mov(dst: Reg, src: impl Into<Operand>) -> Instruction {
        Instruction::alu(AluOp::Mov, dst, src)
    }

    /// 64-bit arithmetic.
    pub fn alu(op: AluOp, dst: Reg, src: impl Into<Operand>) -> Instruction {
        Instruction::Alu { width: Width::W64, op, dst, src: src.into() }
    }

    /// Zero-extending load.
    pub fn load(size: Size, dst: Reg, base: Reg, offset: i16) -> Instruction {
        Instruction::Load { size, signed: false, dst, base, offset }
    }

    /// Store of a register or constant.
    pub fn store(size: Size, base: Reg, offset: i16, src: impl Into<Operand>) -> Instruction {
        Instruction::Store { size, base, offset, src: src.into() }
    }

    /// Load of the map itself.
    pub fn map(dst: Reg, map: u32) -> Instruction {
        Instruction::LoadImm64 { dst, value: Imm64::Map(map) }
    }
}

/// Total slots of a sequence.
pub fn slot_count(program: &[Instruction]) -> u32 {
    program.iter().map(Instruction::slots).sum()
}
