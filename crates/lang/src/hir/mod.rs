//! The typed program: names, scopes, macros, probes and layouts are resolved, casts are
//! explicit. Lowering needs no knowledge of the language beyond this file, [`crate::types`]
//! and [`crate::schema`].
//!
//! Values: scalars (booleans, integers, pointers) live in registers; everything else is an
//! object in memory of `ty.size()` bytes. An expression of an object type denotes bytes that
//! exist while the enclosing statement runs.

pub use crate::operator::{BinaryOp, UnaryOp};

use crate::schema::{EmitId, MapId, ProgramId, Schema};
use crate::source::Span;
use crate::types::{BitField, Clock, DataLoc, Type};

pub mod print;

/// Index in [`Body::locals`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct LocalId(pub u32);

/// Index in [`Program::functions`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// A checked program. `bodies[i]` is the code of `schema.programs[i]`.
#[derive(Clone, Debug)]
pub struct Program {
    /// Code of each program of the schema.
    pub probes: Vec<Probe>,
    /// Subprograms (`fn`).
    pub functions: Vec<Function>,
    /// Maps, records, attach targets, types.
    pub schema: Schema,
}

/// The code of one program.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Which entry of `schema.programs` this is (kind, targets, names).
    pub program: ProgramId,
    /// Holds only for the probe's own events, a boolean; none: all are. A tracepoint served by one that several
    /// share has it. Other events are not the probe's: they are not counted either.
    pub own: Option<Expr>,
    /// `/predicate/`, a boolean; none: always. Evaluated before anything in the body.
    pub predicate: Option<Expr>,
    /// What is done.
    pub body: Body,
}

/// A subprogram.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Parameters: the first locals of the body.
    pub parameters: u32,
    /// Type of what it returns (`Void`: nothing).
    pub result: Type,
    /// Its code.
    pub body: Body,
    /// Its place in the text.
    pub span: Span,
}

/// Statements with the variables they use.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// Scratch variables, each in one scope, all names resolved.
    pub locals: Vec<Local>,
    /// What is done.
    pub block: Block,
}

/// A scratch variable. Reads before the first assignment give zero bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Local {
    /// With its `$`; several locals may share a name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Whether `&$x` is taken: it has to live in memory.
    pub address_taken: bool,
    /// Where it is first named.
    pub span: Span,
}

/// Statements in order.
pub type Block = Vec<Statement>;

/// A statement and where it is in the text.
#[derive(Clone, Debug)]
pub struct Statement {
    /// What is done.
    pub kind: StatementKind,
    /// Where it is.
    pub span: Span,
}

/// What a statement does.
#[derive(Clone, Debug)]
pub enum StatementKind {
    /// Evaluates for the effect; the value is dropped.
    Expr(Expr),
    /// `$x = value`; the types are the same.
    SetLocal {
        /// Variable.
        local: LocalId,
        /// Value of the variable's type.
        value: Expr,
    },
    /// `@m[key] = value`; the types are those of the map.
    SetMap {
        /// Map with a plain value.
        map: MapId,
        /// Key of the map's key type; none for a scalar map.
        key: Option<Expr>,
        /// Value of the map's value type.
        value: Expr,
    },
    /// `@m[key] = count()` and the like.
    Aggregate {
        /// Map whose value is the matching aggregate.
        map: MapId,
        /// Key, none for a scalar map.
        key: Option<Expr>,
        /// What to add.
        update: Update,
    },
    /// Writes through a pointer into the program's own memory (`*&$x = 1`) or the context.
    Store {
        /// Where.
        place: Place,
        /// What; its type decides the width.
        value: Expr,
    },
    /// Streams a record with these values in the argument places of its kind.
    Emit {
        /// Which record.
        record: EmitId,
        /// Values, of the types the schema's arguments have.
        values: Vec<Expr>,
    },
    /// `exit()`: streams its record, then ends the program at once.
    Exit {
        /// The record, of kind `Exit`.
        record: EmitId,
        /// `int32`.
        code: Expr,
    },
    /// `join(array, separator)`: reads up to `most` strings from an array of `char *`, ending at the first null.
    Join {
        /// The record: `most` strings.
        record: EmitId,
        /// Address of the array; its space and its elements' space are in its type.
        array: Expr,
        /// Most strings read.
        most: u32,
    },
    /// `if`; the condition is a boolean.
    If {
        /// Condition.
        condition: Expr,
        /// Done when true.
        then: Block,
        /// Done when false.
        otherwise: Block,
    },
    /// `while`; bounded by the verifier's view of it, or by `bpf_loop`/iterators at the lowering's choice.
    While {
        /// Condition, a boolean.
        condition: Expr,
        /// Body.
        body: Block,
    },
    /// `unroll (n)`.
    Unroll {
        /// Times, at least 1.
        count: u32,
        /// Body.
        body: Block,
    },
    /// `for ($kv : @m)`. Entries in any order; each is a tuple `(key, value)`.
    ForMap {
        /// Map with a key. An aggregate's value is cast to an integer per entry.
        map: MapId,
        /// The loop variable: a tuple of the key and the value (aggregates: see `Type` of the local's second field).
        local: LocalId,
        /// Body.
        body: Block,
    },
    /// `for ($i : start..end)`: bounds evaluated once, `end` not included.
    ForRange {
        /// The loop variable, an integer.
        local: LocalId,
        /// First value, of the variable's type.
        start: Expr,
        /// One past the last, of the variable's type.
        end: Expr,
        /// Body.
        body: Block,
    },
    /// Leaves the innermost loop.
    Break,
    /// Goes on with the innermost loop.
    Continue,
    /// Ends the program or subprogram.
    Return(Option<Expr>),
    /// Statements in braces.
    Block(Block),
}

/// What an aggregate does with a new value.
#[derive(Clone, Debug)]
pub enum Update {
    /// One more.
    Count,
    /// Adds the value (64 bit).
    Sum(Expr),
    /// Keeps the least (64 bit).
    Min(Expr),
    /// Keeps the greatest (64 bit).
    Max(Expr),
    /// Adds to total and count (64 bit).
    Avg(Expr),
    /// Adds to total and count (64 bit).
    Stats(Expr),
    /// Counts in the bucket of [`crate::aggregate::hist_bucket`]; negative by the type's sign.
    Hist(Expr),
    /// Counts in the bucket of [`crate::aggregate::lhist_bucket`] (`int64`).
    Lhist(Expr),
    /// As `Hist`.
    LogLinear(Expr),
    /// Combines into the current interval.
    TimeSeries(Expr),
}

/// An expression with its type and where it is in the text.
#[derive(Clone, Debug)]
pub struct Expr {
    /// What is computed.
    pub kind: ExprKind,
    /// Type of the value.
    pub ty: Type,
    /// Where it is.
    pub span: Span,
}

/// What an expression computes.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// A constant scalar; the low `ty.size()` bytes count, sign-extended for signed types.
    Int(u64),
    /// A string constant of `ty` = `String(n)`, without its NUL; shorter than `n`.
    Str(Vec<u8>),
    /// Constant bytes of an array or object type (`pton`).
    Bytes(Vec<u8>),
    /// All bytes zero (the empty value of a type).
    Zero,
    /// A scratch variable.
    Local(LocalId),
    /// `@m[key]` of a plain map; zero bytes when there is no such entry.
    MapGet {
        /// Map.
        map: MapId,
        /// Key, none for a scalar map.
        key: Option<Box<Expr>>,
    },
    /// `@m[key]` of an aggregate over all CPUs, as a 64-bit integer.
    MapAggregate {
        /// Map.
        map: MapId,
        /// Key, none for a scalar map.
        key: Option<Box<Expr>>,
    },
    /// Whether the map has the key.
    MapHas {
        /// Map.
        map: MapId,
        /// Key.
        key: Box<Expr>,
    },
    /// `find(@m, key, $x)`: whether the map has the key; if so the variable is set to its value.
    MapFind {
        /// Map.
        map: MapId,
        /// Key.
        key: Box<Expr>,
        /// Variable of the value's type.
        into: LocalId,
    },
    /// `delete(@m, key)`: whether there was such an entry. `missing` is streamed when not.
    MapDelete {
        /// Map.
        map: MapId,
        /// Key; none for a scalar map, which is set to zero bytes.
        key: Option<Box<Expr>>,
        /// Record of kind `MissingKey`, when the result is not used.
        missing: Option<EmitId>,
    },
    /// `len(@m)`: number of entries.
    MapLength(MapId),
    /// `len(kstack)`: number of frames of a stack value.
    StackLength(Box<Expr>),
    /// `-x`, `~x` (same type), `!x` (boolean from boolean).
    Unary(UnaryOp, Box<Expr>),
    /// Arithmetic: both sides and the result have one integer type. Pointer `+`/`-` are scaled
    /// already: the left side is the pointer, the right an `int64`/`uint64` of bytes.
    /// Comparison: both sides have one type, the result is a boolean; scalars, strings
    /// (up to the first NUL or the end), arrays, tuples and other objects (bytes). Shift: the
    /// right side may have another integer type.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `&&`, `||` on booleans; the right side only when needed.
    Logical {
        /// True for `&&`.
        and: bool,
        /// First side.
        left: Box<Expr>,
        /// Second side.
        right: Box<Expr>,
    },
    /// `c ? a : b`, `if` as an expression; both sides have the expression's type (maybe `Void`).
    Select {
        /// Condition, a boolean.
        condition: Box<Expr>,
        /// When true.
        then: Box<Expr>,
        /// When false.
        otherwise: Box<Expr>,
    },
    /// `{ statements; value }`.
    Block {
        /// Done first.
        statements: Block,
        /// Then this is the value; none: `Void`.
        value: Option<Box<Expr>>,
    },
    /// A change of type; see [`Cast`].
    Cast(Cast, Box<Expr>),
    /// Reads a value of the expression's type from memory.
    Read {
        /// Where.
        place: Place,
        /// Set for bit fields: load an integer of the type's size, shift, mask, extend the sign.
        bits: Option<BitField>,
    },
    /// Reads the dynamic string or array of a tracepoint (`__data_loc`): `place` is the `u32`
    /// field in the context. The value is a string of the expression's type, or, for a pointer
    /// type, the address of the data in the context.
    ReadDataLoc {
        /// The field.
        place: Place,
        /// How the offset counts.
        loc: DataLoc,
    },
    /// The address of a place, as a pointer.
    AddressOf(Place),
    /// The address of a scratch variable (`&$x`).
    AddressOfLocal(LocalId),
    /// The address of a map's value (`&@m`, `&@m[k]`), null when there is none.
    AddressOfMap {
        /// Map.
        map: MapId,
        /// Key, none for a scalar map.
        key: Option<Box<Expr>>,
    },
    /// A tuple of the expression's type, one value for each field.
    Tuple(Vec<Expr>),
    /// `x++` and the like on a variable; the value before or after as an integer or pointer.
    Step {
        /// What is changed.
        target: StepTarget,
        /// What is added: 1 or -1, times the size of what a pointer points at.
        by: i64,
        /// Whether the value is the one before the change.
        post: bool,
    },
    /// A function of the machine: see [`Intrinsic`]. Constant parameters are inside it.
    Intrinsic(Intrinsic, Vec<Expr>),
    /// A subprogram.
    Call(FunctionId, Vec<Expr>),
    /// A location of a static probe's argument; one for each target, in their order when they differ.
    UsdtArgument(Vec<UsdtLocation>),
}

/// What `++` and `--` change.
#[derive(Clone, Debug)]
pub enum StepTarget {
    /// A scratch variable.
    Local(LocalId),
    /// A map's value; 0 when there is no entry.
    Map {
        /// Map.
        map: MapId,
        /// Key, none for a scalar map.
        key: Option<Box<Expr>>,
    },
}

/// A place in memory: a base, a constant offset, indexes known at run time only.
#[derive(Clone, Debug)]
pub struct Place {
    /// Where it begins.
    pub base: Base,
    /// Bytes after the base.
    pub offset: i64,
    /// Run-time indexes, each added times its stride.
    pub indexes: Vec<Index>,
}

/// A run-time index into an array.
#[derive(Clone, Debug)]
pub struct Index {
    /// The index, an integer.
    pub value: Expr,
    /// Bytes of an element.
    pub stride: u32,
    /// Number of elements, where the type says it; reads beyond give zero.
    pub count: Option<u32>,
}

/// What a place is relative to.
#[derive(Clone, Debug)]
pub enum Base {
    /// The probe's context.
    Context,
    /// The memory a pointer points at; its type says in which space.
    Pointer(Box<Expr>),
    /// An object (tuple, struct, array, string) in the program's own memory.
    Value(Box<Expr>),
}

/// Changes of type; from the operand's type to the expression's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cast {
    /// Integer, boolean or pointer to an integer or pointer: cut or extended by the *source's* sign.
    Integer,
    /// Scalar to boolean: not zero. String to boolean: not empty. Other objects: any byte not zero.
    Truth,
    /// String to a string of another size: cut or zero-padded.
    Resize,
    /// Array of integers to an integer of the same size, and back: the same bytes.
    Bytes,
    /// Tuple to a tuple with the same number of fields, each field cast (`Integer`, `Resize`, nested).
    Fields,
    /// Array of `char` to a string: up to the first NUL, zero-padded, so that bytes after the NUL do not make keys differ.
    Text,
}

/// Functions of the machine. Arguments are in the call's list, in the order given here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Intrinsic {
    /// Process id; `initial`: as the host sees it, else in the tracer's namespace. `uint32`.
    Pid {
        /// Host view.
        initial: bool,
    },
    /// Thread id, as `Pid`.
    Tid {
        /// Host view.
        initial: bool,
    },
    /// `uint64`… user id of the current thread, `uint32`.
    Uid,
    /// Group id, `uint32`.
    Gid,
    /// Name of the current thread, `String(16)`.
    Comm,
    /// Current `task_struct`, a `Btf` pointer where the kernel gives one.
    CurrentTask,
    /// `uint64` nanoseconds.
    Nsecs(Clock),
    /// `uint64` nanoseconds since the tracer began (it stores its start in the program's data).
    Elapsed,
    /// `uint32`.
    Cpu,
    /// `uint32` number of possible CPUs; a constant where known.
    CpuCount,
    /// `uint32`.
    NumaNode,
    /// `uint64` cgroup v2 id.
    CgroupId,
    /// `uint32` pseudo random number.
    Random,
    /// `uint64`.
    Jiffies,
    /// `uint8`: 1 when the interrupted code was in user mode.
    UserMode,
    /// A kernel or user stack of the expression's type.
    Stack,
    /// A string of the expression's type from an address [pointer (its space counts), `uint64` most bytes with the NUL if given].
    Str,
    /// A buffer of the expression's type [pointer, `uint32` length].
    Buf,
    /// A C string compared: [string or pointer, string or pointer], first `n` bytes; 0 when equal. `int64`.
    CompareStrings {
        /// Most bytes compared.
        n: u32,
    },
    /// Whether the first string has the second in it: [string, string]. `bool`.
    StrContains,
    /// Place of the second string in the first, -1 if not there: [string, string]. `int64`.
    StrFind,
    /// Length of a string: [string]. `uint64`.
    StrLength,
    /// Whether a string matches a constant pattern: [string, string]. `bool`.
    GlobMatch,
    /// The first `n` bytes of two objects or pointers compared: [pointer, pointer]. `int32`.
    CompareMemory {
        /// Bytes compared.
        n: u32,
    },
    /// Bytes reversed: [integer]. Same type.
    ByteSwap,
    /// An address: [integer or 4/16-byte array], family from the size, or given: [family, address]. `Inet`.
    Inet {
        /// Whether the first argument is the family.
        family: bool,
    },
    /// A hardware address: [pointer or 6-byte array]. `MacAddress`.
    MacAddress,
    /// [address]. `KernelSymbol`.
    KernelSymbol,
    /// [address]; adds the process. `UserSymbol`.
    UserSymbol,
    /// Timestamp to print: [nanoseconds]; format and clock are constants.
    Timestamp {
        /// Index in `Schema::time_formats`.
        format: u32,
        /// Clock the number is of.
        clock: Clock,
    },
    /// [cgroup id]; the filter is an index in `Schema::strings` plus 1, 0 for none.
    CgroupPath {
        /// See above.
        filter: u32,
    },
    /// Register by its offset in `pt_regs`, `uint64`. The context is `pt_regs` (or begins with it).
    Register {
        /// Bytes.
        offset: u32,
    },
    /// Argument beyond the registers' from the stack: `u64` at `stack pointer + offset`.
    StackArgument {
        /// Bytes above the stack pointer (register at `sp_offset` in `pt_regs`).
        offset: u32,
        /// Offset of the stack pointer in `pt_regs`.
        sp_offset: u32,
        /// Read from user memory.
        user: bool,
    },
    /// `override(code)`: [`uint64`]. `Void`.
    Override,
    /// `signal(n)` to the process or thread: [`uint32`]. `Void`.
    Signal {
        /// To the thread alone.
        thread: bool,
    },
    /// Address of this CPU's or another CPU's copy of a per-CPU kernel variable, by BTF: [] or [cpu]. Pointer.
    PerCpuAddress {
        /// BTF id of the variable.
        btf_id: u32,
        /// Its name, for messages.
        name: String,
    },
    /// Path of a `struct path *`: [pointer]. String of the expression's type.
    Path,
    /// Cookie of a socket: [pointer to `struct sock`]. `uint64`.
    SocketCookie,
    /// `skboutput(path, skb, length, offset)`: [skb, length, offset]; streams the record. `uint32`.
    SkbOutput(EmitId),
    /// Text of an errno: [`int32`]. `ErrorText`.
    ErrorText,
    /// Name of a system call: [`int32`]. `SyscallName`.
    SyscallName,
    /// Name of the process with a number: [`uint32`]. `ProcessName`.
    ProcessName,
    /// Name of the current user. `UserName`.
    UserName,
    /// Index of the target that fired: the attach cookie. `uint32`.
    TargetIndex,
    /// Position of a number in a list without repetitions, the list's length if it is not there: [`uint64`], at
    /// most the greatest of the list (a greater one gives any position, or the length). `uint32`.
    PlaceAmong {
        /// The list, small numbers.
        numbers: Vec<u32>,
    },
    /// Address of the traced function (`bpf_get_func_ip`), `uint64`.
    FunctionAddress,
    /// `retval` of fexit where the context does not end at a known place: `bpf_get_func_ret`.
    FunctionResult,
    /// True for one call in `n` on average: `sample(n)`. `bool`.
    Sample {
        /// n.
        one_in: u32,
    },
    /// True at most `count` times in each `nanoseconds`: `ratelimit(count, time)`; state of its own per CPU. `bool`.
    RateLimit {
        /// Times.
        count: u64,
        /// Nanoseconds.
        per: u64,
        /// Which call it is: 0, 1, 2 … over the whole program.
        site: u32,
    },
    /// Whether the current task is in the cgroup (or below it) with that id: `in_cgroup(path)`.
    InCgroup {
        /// cgroup v2 id.
        id: u64,
    },
    /// The string chosen by an index out of constant strings (probe names): [index]. String.
    Choose(Vec<Vec<u8>>),
}

/// Where a static probe's argument is, from its note.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct UsdtLocation {
    /// Bytes of the argument: 1, 2, 4 or 8.
    pub bytes: u8,
    /// Whether it is signed.
    pub signed: bool,
    /// Where it is.
    pub kind: UsdtKind,
}

/// See [`UsdtLocation`].
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum UsdtKind {
    /// `$5`
    Constant(i64),
    /// `%rax`: offset in `pt_regs`.
    Register {
        /// Bytes.
        offset: u32,
    },
    /// `-16(%rbp,%rax,8)`: user memory at base + displacement + index * scale.
    Memory {
        /// Offset of the base register in `pt_regs`, if there is one.
        base: Option<u32>,
        /// Added.
        displacement: i64,
        /// Index register's offset in `pt_regs` and scale.
        index: Option<(u32, u8)>,
    },
}
