//! The types of the language and how each is laid out in maps and in streamed records.
//!
//! One definition serves the checker, the lowering and the printing: what the kernel
//! writes is read with the same sizes and offsets. Scalars have their natural size and
//! alignment (little-endian as the machine is), padding is zero.

use std::fmt;
use std::rc::Rc;

/// Index of a struct or union in [`TypeTable`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct RecordId(pub u32);

/// Index of an enum in [`TypeTable`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct EnumId(pub u32);

/// Whose memory a pointer points into, which decides how it is read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Space {
    /// Kernel memory: `probe_read_kernel`.
    Kernel,
    /// User memory: `probe_read_user`.
    User,
    /// A kernel pointer whose type the verifier knows as long as it stays in a register
    /// or a stack slot: a plain load (the kernel's fault table makes a bad address read 0).
    /// It may always be read as `Kernel` instead.
    Btf,
    /// The probe's context: plain loads at constant offsets only.
    Context,
    /// Memory of the program itself (a map value, scratch memory): plain loads.
    Own,
}

/// An integer of 1, 2, 4 or 8 bytes, perhaps with the names of an enum.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Integer {
    /// 1, 2, 4 or 8.
    pub bytes: u8,
    /// Whether the top bit is a sign.
    pub signed: bool,
    /// The enum whose names print for its values.
    pub names: Option<EnumId>,
}

/// Kernel or user call stack, how it prints and how deep it may be.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Stack {
    /// True for `ustack`, false for `kstack`.
    pub user: bool,
    /// How its frames print.
    pub mode: StackMode,
    /// Greatest number of frames kept.
    pub limit: u16,
}

/// How the frames of a stack print.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum StackMode {
    /// `symbol+offset`, one a line.
    #[default]
    Bpftrace,
    /// `address symbol+offset (module)`.
    Perf,
    /// The address alone.
    Raw,
    /// The build id and the offset in the file.
    BuildId,
}

/// One place in a tuple or named record value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TupleField {
    /// The name, in `(pid=…, comm=…)`; none in a plain tuple.
    pub name: Option<Rc<str>>,
    /// What it holds.
    pub ty: Type,
    /// Byte offset within the tuple.
    pub offset: u32,
}

/// A type, complete enough to lay a value out without any table (records carry their size).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Type {
    /// No value.
    Void,
    /// One byte, 0 or 1.
    Bool,
    /// 1, 2, 4 or 8 bytes.
    Integer(Integer),
    /// 8 bytes.
    Pointer {
        /// What is pointed at (`Void` for `void *`).
        to: Box<Type>,
        /// Whose memory it is in.
        space: Space,
    },
    /// That many bytes, zero-padded, with at least one NUL at the end. In a streamed
    /// record: a [text slot](crate::schema::TEXT_SLOT_BYTES).
    String(u32),
    /// `u32` length, then that many bytes of room. In a streamed record: a text slot.
    Buffer(u32),
    /// `u32` address family (2 or 10), then 16 bytes of address (IPv4 in the first 4).
    Inet,
    /// 6 bytes.
    MacAddress,
    /// `u64` address of kernel code or data.
    KernelSymbol,
    /// `u64` address, `u32` process, `u32` zero.
    UserSymbol,
    /// `u64` nanoseconds since boot, `u32` index into `Schema::time_formats`, `u32` clock ([`Clock`]).
    Timestamp,
    /// `u64` cgroup id, `u32` index into `Schema::strings` plus 1 of the filter (0: none), `u32` zero.
    CgroupPath,
    /// `i32` errno, printed as its message.
    ErrorText,
    /// `u32` system call number, printed as its name.
    SyscallName,
    /// `u32` process number, printed as the process's name.
    ProcessName,
    /// `u32` user id, printed as the user's name.
    UserName,
    /// `u64` hash of the frames, `u32` number of frames, `u32` process (0 for kernel stacks):
    /// the first twelve bytes are the key in the map of stacks.
    Stack(Stack),
    /// Elements one after the other.
    Array {
        /// Type of each.
        element: Box<Type>,
        /// How many.
        count: u32,
    },
    /// A struct or union by value, bytes as the kernel or C lays them out.
    Record(RecordRef),
    /// Fields at their offsets, aligned as in C, padding zero.
    Tuple(Rc<[TupleField]>),
}

/// A struct or union with what is needed to move its bytes; the fields are in the table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RecordRef {
    /// Index in the [`TypeTable`].
    pub id: RecordId,
    /// Bytes.
    pub size: u32,
    /// Alignment in bytes, a power of two.
    pub align: u32,
}

/// Clocks of `nsecs(…)` and of [`Type::Timestamp`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u32)]
pub enum Clock {
    /// Since boot with suspend, `CLOCK_BOOTTIME` (the default).
    #[default]
    Boot = 0,
    /// Since boot without suspend, `CLOCK_MONOTONIC`.
    Monotonic = 1,
    /// International atomic time, `CLOCK_TAI`.
    Tai = 2,
    /// Boot time plus the offset to TAI known at the start.
    SoftwareTai = 3,
}

/// Size of a [`Type::Inet`] in bytes.
pub const INET_BYTES: u32 = 20;

impl Type {
    /// An unsigned integer of that many bytes.
    pub fn unsigned(bytes: u8) -> Type {
        Type::Integer(Integer { bytes, signed: false, names: None })
    }

    /// A signed integer of that many bytes.
    pub fn signed(bytes: u8) -> Type {
        Type::Integer(Integer { bytes, signed: true, names: None })
    }

    /// `uint64`.
    pub const U64: Type = Type::Integer(Integer { bytes: 8, signed: false, names: None });
    /// `int64`.
    pub const I64: Type = Type::Integer(Integer { bytes: 8, signed: true, names: None });
    /// `uint32`.
    pub const U32: Type = Type::Integer(Integer { bytes: 4, signed: false, names: None });

    /// A pointer into that space.
    pub fn pointer(to: Type, space: Space) -> Type {
        Type::Pointer { to: Box::new(to), space }
    }

    /// A tuple of these types, laid out as C lays out a struct.
    pub fn tuple(types: impl IntoIterator<Item = Type>) -> Type {
        Type::named_tuple(types.into_iter().map(|ty| (None, ty)))
    }

    /// A tuple whose fields may have names.
    pub fn named_tuple(fields: impl IntoIterator<Item = (Option<Rc<str>>, Type)>) -> Type {
        let mut offset = 0u32;
        let fields: Vec<TupleField> = fields
            .into_iter()
            .map(|(name, ty)| {
                offset = offset.next_multiple_of(ty.align());
                let field = TupleField { name, offset, ty };
                offset += field.ty.size();
                field
            })
            .collect();
        Type::Tuple(fields.into())
    }

    /// Bytes a value takes in a map's key or value and in scratch memory.
    pub fn size(&self) -> u32 {
        match self {
            Type::Void => 0,
            Type::Bool => 1,
            Type::Integer(integer) => u32::from(integer.bytes),
            Type::Pointer { .. } | Type::KernelSymbol => 8,
            Type::String(size) => *size,
            Type::Buffer(room) => 4 + room,
            Type::Inet => INET_BYTES,
            Type::MacAddress => 6,
            Type::UserSymbol | Type::Timestamp | Type::CgroupPath | Type::Stack(_) => 16,
            Type::ErrorText | Type::SyscallName | Type::ProcessName | Type::UserName => 4,
            Type::Array { element, count } => element.size().saturating_mul(*count),
            Type::Record(record) => record.size,
            Type::Tuple(fields) => {
                let end = fields.last().map_or(0, |field| field.offset + field.ty.size());
                end.next_multiple_of(self.align())
            }
        }
    }

    /// Alignment in bytes, a power of two, at least 1.
    pub fn align(&self) -> u32 {
        match self {
            Type::Void | Type::Bool | Type::String(_) | Type::MacAddress => 1,
            Type::Integer(integer) => u32::from(integer.bytes).max(1),
            Type::Pointer { .. } | Type::KernelSymbol => 8,
            Type::Buffer(_) | Type::Inet => 4,
            Type::UserSymbol | Type::Timestamp | Type::CgroupPath | Type::Stack(_) => 8,
            Type::ErrorText | Type::SyscallName | Type::ProcessName | Type::UserName => 4,
            Type::Array { element, .. } => element.align(),
            Type::Record(record) => record.align.max(1),
            Type::Tuple(fields) => fields.iter().map(|field| field.ty.align()).max().unwrap_or(1),
        }
    }

    /// Whether values live in a register: booleans, integers, pointers, kernel symbols.
    pub fn is_scalar(&self) -> bool {
        matches!(
            self,
            Type::Bool
                | Type::Integer(_)
                | Type::Pointer { .. }
                | Type::KernelSymbol
                | Type::ErrorText
                | Type::SyscallName
                | Type::ProcessName
                | Type::UserName
        )
    }

    /// The integer, if it is one.
    pub fn integer(&self) -> Option<Integer> {
        match self {
            Type::Integer(integer) => Some(*integer),
            _ => None,
        }
    }

    /// Whether it is an integer or a boolean.
    pub fn is_integral(&self) -> bool {
        matches!(self, Type::Integer(_) | Type::Bool)
    }

    /// Whether comparisons and extensions of a scalar treat its top bit as a sign.
    pub fn is_signed(&self) -> bool {
        matches!(self, Type::Integer(Integer { signed: true, .. }) | Type::ErrorText)
    }
}

/// Part of a word that a bit field occupies, counted from the lowest bit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BitField {
    /// Bits to shift right after loading the `size`-byte word.
    pub shift: u8,
    /// Number of bits.
    pub bits: u8,
}

/// A member of a struct or union.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Name; empty for an anonymous struct or union, whose members count as its parent's.
    pub name: Rc<str>,
    /// Type; for a bit field the integer to load.
    pub ty: Type,
    /// Byte offset; for a bit field that of the integer to load.
    pub offset: u32,
    /// Set for bit fields.
    pub bits: Option<BitField>,
    /// Set for `__data_loc` strings and arrays of tracepoints: the field is a `u32` whose
    /// low half is the offset of the data (from the record, or from the end of the field when
    /// `relative`) and whose high half is its length.
    pub data_loc: Option<DataLoc>,
    /// `__user` in the tracepoint's format or the BTF type tag: pointer into user memory.
    pub user: bool,
}

/// How a tracepoint's dynamic array is found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DataLoc {
    /// `__rel_loc`: counted from the end of the field.
    pub relative: bool,
}

/// A struct or union: name, layout, members (loaded when first asked for).
#[derive(Clone, Debug)]
pub struct Record {
    /// Name without `struct`; empty when anonymous.
    pub name: Rc<str>,
    /// A union's members all begin at 0.
    pub union: bool,
    /// Bytes.
    pub size: u32,
    /// Alignment in bytes.
    pub align: u32,
    /// Members in order; empty until loaded.
    pub fields: Vec<Field>,
}

/// An enum and the names of its values.
#[derive(Clone, Debug)]
pub struct Enumeration {
    /// Name without `enum`; empty when anonymous.
    pub name: Rc<str>,
    /// Values in the order of declaration.
    pub values: Vec<(Rc<str>, i64)>,
}

/// Structs, unions and enums that types refer to by index.
#[derive(Clone, Debug, Default)]
pub struct TypeTable {
    /// Structs and unions.
    pub records: Vec<Record>,
    /// Enums.
    pub enums: Vec<Enumeration>,
}

impl TypeTable {
    /// The struct or union behind an index.
    pub fn record(&self, id: RecordId) -> &Record {
        &self.records[id.0 as usize]
    }

    /// The enum behind an index.
    pub fn enumeration(&self, id: EnumId) -> &Enumeration {
        &self.enums[id.0 as usize]
    }

    /// The name an enum gives a value.
    pub fn enum_name(&self, id: EnumId, value: i64) -> Option<&str> {
        let found = self.enumeration(id).values.iter().find(|(_, have)| *have == value);
        found.map(|(name, _)| &**name)
    }

    /// The type as programs write it: `struct task_struct *`, `uint32`, `(uint8,string[16])`.
    pub fn name(&self, ty: &Type) -> String {
        Named { table: self, ty }.to_string()
    }
}

struct Named<'a> {
    table: &'a TypeTable,
    ty: &'a Type,
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |ty| Named { table: self.table, ty };
        match self.ty {
            Type::Void => write!(f, "void"),
            Type::Bool => write!(f, "bool"),
            Type::Integer(Integer { names: Some(id), .. }) => {
                write!(f, "enum {}", self.table.enumeration(*id).name)
            }
            Type::Integer(Integer { bytes, signed, .. }) => {
                write!(f, "{}int{}", if *signed { "" } else { "u" }, u32::from(*bytes) * 8)
            }
            Type::Pointer { to, .. } => match &**to {
                Type::Pointer { .. } => write!(f, "{}*", name(to)),
                _ => write!(f, "{} *", name(to)),
            },
            Type::String(size) => write!(f, "string[{size}]"),
            Type::Buffer(size) => write!(f, "buffer[{size}]"),
            Type::Inet => write!(f, "inet"),
            Type::MacAddress => write!(f, "macaddr_t"),
            Type::KernelSymbol => write!(f, "ksym_t"),
            Type::UserSymbol => write!(f, "usym_t"),
            Type::Timestamp => write!(f, "timestamp"),
            Type::CgroupPath => write!(f, "cgroup_path_t"),
            Type::ErrorText => write!(f, "strerror_t"),
            Type::SyscallName => write!(f, "syscall_name_t"),
            Type::ProcessName => write!(f, "process_name_t"),
            Type::UserName => write!(f, "username_t"),
            Type::Stack(stack) => write!(f, "{}", if stack.user { "ustack_t" } else { "kstack_t" }),
            Type::Array { element, count } => write!(f, "{}[{count}]", name(element)),
            Type::Record(record) => {
                let record = self.table.record(record.id);
                let name = if record.name.is_empty() { "<anonymous>" } else { &record.name };
                write!(f, "{} {name}", if record.union { "union" } else { "struct" })
            }
            Type::Tuple(fields) => {
                write!(f, "(")?;
                for (i, field) in fields.iter().enumerate() {
                    write!(f, "{}", if i > 0 { "," } else { "" })?;
                    if let Some(label) = &field.name {
                        write!(f, "{label}=")?;
                    }
                    write!(f, "{}", name(&field.ty))?;
                }
                write!(f, ")")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_are_laid_out_as_c_structs() {
        let ty = Type::tuple([Type::unsigned(1), Type::U64, Type::String(3), Type::U32]);
        let Type::Tuple(fields) = &ty else { panic!("{ty:?}") };
        assert_eq!(fields.iter().map(|f| f.offset).collect::<Vec<_>>(), [0, 8, 16, 20]);
        assert_eq!((ty.size(), ty.align()), (24, 8));
    }

    #[test]
    fn types_print_as_programs_write_them() {
        let table = TypeTable::default();
        let pointer = Type::pointer(Type::pointer(Type::signed(1), Space::User), Space::User);
        assert_eq!(table.name(&pointer), "int8 **");
        assert_eq!(table.name(&Type::tuple([Type::U32, Type::String(16)])), "(uint32,string[16])");
    }
}
