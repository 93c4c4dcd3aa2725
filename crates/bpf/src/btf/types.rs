//! One type as a view of its bytes.

use super::{Btf, TypeId};

pub(super) const INT: u8 = 1;
pub(super) const PTR: u8 = 2;
pub(super) const ARRAY: u8 = 3;
pub(super) const STRUCT: u8 = 4;
pub(super) const UNION: u8 = 5;
pub(super) const ENUM: u8 = 6;
pub(super) const FWD: u8 = 7;
pub(super) const TYPEDEF: u8 = 8;
pub(super) const VOLATILE: u8 = 9;
pub(super) const CONST: u8 = 10;
pub(super) const RESTRICT: u8 = 11;
pub(super) const FUNC: u8 = 12;
pub(super) const FUNC_PROTO: u8 = 13;
pub(super) const VAR: u8 = 14;
pub(super) const DATASEC: u8 = 15;
pub(super) const FLOAT: u8 = 16;
pub(super) const DECL_TAG: u8 = 17;
pub(super) const TYPE_TAG: u8 = 18;
pub(super) const ENUM64: u8 = 19;

/// Bytes after the 12-byte head, by kind and vlen; none for an unknown kind.
pub(super) fn extra_bytes(kind: u8, vlen: u32) -> Option<usize> {
    let vlen = vlen as usize;
    Some(match kind {
        INT | VAR | DECL_TAG => 4,
        PTR | FWD | TYPEDEF | VOLATILE | CONST | RESTRICT | FUNC | FLOAT | TYPE_TAG => 0,
        ARRAY => 12,
        STRUCT | UNION | DATASEC | ENUM64 => vlen * 12,
        ENUM | FUNC_PROTO => vlen * 8,
        _ => return None,
    })
}

/// A type and its name ("" if anonymous).
#[derive(Clone, Copy, Debug)]
pub struct Type<'b> {
    /// Its number.
    pub id: TypeId,
    /// Its name.
    pub name: &'b str,
    /// What it is.
    pub kind: Kind<'b>,
}

/// What a type is.
#[derive(Clone, Copy, Debug)]
pub enum Kind<'b> {
    /// `void`, or an incomplete type.
    Void,
    /// An integer.
    Int {
        /// Bytes.
        size: u32,
        /// Value bits, at most 8 × size.
        bits: u8,
        /// Signed.
        signed: bool,
        /// `bool`.
        boolean: bool,
        /// Marked as a character.
        character: bool,
    },
    /// A pointer.
    Pointer(TypeId),
    /// An array.
    Array {
        /// Type of one element.
        element: TypeId,
        /// Elements; 0 for a flexible array.
        count: u32,
    },
    /// A struct.
    Struct {
        /// Bytes.
        size: u32,
        /// Members.
        members: Members<'b>,
    },
    /// A union.
    Union {
        /// Bytes.
        size: u32,
        /// Members.
        members: Members<'b>,
    },
    /// An enum of up to 64 bits.
    Enum {
        /// Bytes.
        size: u32,
        /// Values are signed.
        signed: bool,
        /// Names and values.
        values: Enumerators<'b>,
    },
    /// Declared, not defined.
    Forward {
        /// `union` rather than `struct`.
        union: bool,
    },
    /// Another name for a type.
    Typedef(TypeId),
    /// `const`
    Const(TypeId),
    /// `volatile`
    Volatile(TypeId),
    /// `restrict`
    Restrict(TypeId),
    /// `__attribute__((btf_type_tag(name)))`, such as `user`, `rcu`, `percpu`.
    TypeTag(TypeId),
    /// A function.
    Function {
        /// Its `FUNC_PROTO`.
        prototype: TypeId,
    },
    /// A function type.
    Prototype {
        /// Return type.
        result: TypeId,
        /// Parameters.
        parameters: Parameters<'b>,
    },
    /// A variable.
    Variable(TypeId),
    /// A section of variables.
    Section,
    /// A floating-point number.
    Float {
        /// Bytes.
        size: u32,
    },
    /// An attribute of a declaration.
    DeclTag,
}

/// A set of kinds to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindSet(u32);

impl KindSet {
    /// Any kind.
    pub const ANY: KindSet = KindSet(u32::MAX);
    /// `struct`.
    pub const STRUCT: KindSet = KindSet(1 << STRUCT);
    /// `union`.
    pub const UNION: KindSet = KindSet(1 << UNION);
    /// `enum`, both widths.
    pub const ENUM: KindSet = KindSet(1 << ENUM | 1 << ENUM64);
    /// `typedef`.
    pub const TYPEDEF: KindSet = KindSet(1 << TYPEDEF);
    /// Integers.
    pub const INT: KindSet = KindSet(1 << INT);
    /// Functions.
    pub const FUNCTION: KindSet = KindSet(1 << FUNC);
    /// Variables.
    pub const VARIABLE: KindSet = KindSet(1 << VAR);
    /// Whatever can be the type of a value.
    pub const VALUE: KindSet =
        KindSet(1 << INT | 1 << STRUCT | 1 << UNION | 1 << ENUM | 1 << ENUM64 | 1 << TYPEDEF | 1 << FLOAT);

    /// Either.
    pub const fn or(self, other: KindSet) -> KindSet {
        KindSet(self.0 | other.0)
    }

    pub(super) fn has(self, kind: u8) -> bool {
        self.0 >> kind & 1 != 0
    }
}

/// A member of a struct or union.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'b> {
    /// "" if anonymous.
    pub name: &'b str,
    /// Its type.
    pub type_id: TypeId,
    /// Bits from the start of the struct.
    pub bit_offset: u32,
    /// Width of a bit field; 0 for an ordinary member.
    pub bit_size: u32,
}

/// A name and value of an enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enumerator<'b> {
    /// Name.
    pub name: &'b str,
    /// Value; of an unsigned 64-bit enum, its bits.
    pub value: i64,
}

/// A parameter of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter<'b> {
    /// "" if BTF has none.
    pub name: &'b str,
    /// Its type.
    pub type_id: TypeId,
}

macro_rules! records {
    ($name:ident, $item:ident, $size:expr, $doc:expr) => {
        #[doc = $doc]
        #[derive(Clone, Copy)]
        pub struct $name<'b> {
            btf: &'b Btf,
            bytes: &'b [u8],
            /// Bit fields in members, signed values in enums.
            flag: bool,
            /// 64-bit enum values.
            wide: bool,
        }

        impl std::fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_list().entries(*self).finish()
            }
        }

        impl $name<'_> {
            /// How many are left.
            pub fn count_left(&self) -> usize {
                self.bytes.len() / if self.wide { $size + 4 } else { $size }
            }
        }

        impl<'b> Iterator for $name<'b> {
            type Item = $item<'b>;

            fn next(&mut self) -> Option<$item<'b>> {
                let size = if self.wide { $size + 4 } else { $size };
                let (head, rest) = self.bytes.split_at_checked(size)?;
                self.bytes = rest;
                let word = |at: usize| {
                    u32::from_le_bytes([head[at * 4], head[at * 4 + 1], head[at * 4 + 2], head[at * 4 + 3]])
                };
                Some(self.item(word))
            }
        }
    };
}

records!(Members, Member, 12, "Members in order of declaration.");
records!(Enumerators, Enumerator, 8, "Enumerators in order of declaration.");
records!(Parameters, Parameter, 8, "Parameters in order.");

impl<'b> Members<'b> {
    fn item(&self, word: impl Fn(usize) -> u32) -> Member<'b> {
        let offset = word(2);
        let (bit_offset, bit_size) = if self.flag { (offset & 0xff_ffff, offset >> 24) } else { (offset, 0) };
        Member { name: self.btf.string(word(0)), type_id: word(1), bit_offset, bit_size }
    }
}

impl<'b> Enumerators<'b> {
    fn item(&self, word: impl Fn(usize) -> u32) -> Enumerator<'b> {
        let low = word(1);
        let value = match (self.wide, self.flag) {
            (true, _) => (u64::from(low) | u64::from(word(2)) << 32) as i64,
            (false, true) => i64::from(low as i32),
            (false, false) => i64::from(low),
        };
        Enumerator { name: self.btf.string(word(0)), value }
    }

    /// Name offsets, for a search that compares integers.
    pub(super) fn find_by_offset(mut self, wanted: u32) -> Option<Enumerator<'b>> {
        let size = if self.wide { 12 } else { 8 };
        while self.bytes.len() >= size {
            let name = u32::from_le_bytes([self.bytes[0], self.bytes[1], self.bytes[2], self.bytes[3]]);
            if name == wanted {
                return self.next();
            }
            self.bytes = &self.bytes[size..];
        }
        None
    }
}

impl<'b> Parameters<'b> {
    fn item(&self, word: impl Fn(usize) -> u32) -> Parameter<'b> {
        debug_assert!(!self.flag);
        Parameter { name: self.btf.string(word(0)), type_id: word(1) }
    }
}

/// Reads the type that starts at the first of `bytes`.
pub(super) fn read<'b>(btf: &'b Btf, id: TypeId, bytes: &'b [u8]) -> Option<Type<'b>> {
    let (head, rest) = bytes.split_at_checked(12)?;
    let word = |bytes: &[u8], at: usize| {
        u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    };
    let info = word(head, 4);
    let size = word(head, 8);
    let (kind, vlen, flag) = ((info >> 24 & 0x1f) as u8, info & 0xffff, info >> 31 != 0);
    let extra = rest.get(..extra_bytes(kind, vlen)?)?;
    let members = Members { btf, bytes: extra, flag, wide: false };
    let kind = match kind {
        INT => {
            let data = word(extra, 0);
            let encoding = data >> 24 & 15;
            Kind::Int {
                size,
                bits: (data & 0xff) as u8,
                signed: encoding & 1 != 0,
                character: encoding & 2 != 0,
                boolean: encoding & 4 != 0,
            }
        }
        PTR => Kind::Pointer(size),
        ARRAY => Kind::Array { element: word(extra, 0), count: word(extra, 8) },
        STRUCT => Kind::Struct { size, members },
        UNION => Kind::Union { size, members },
        ENUM => {
            Kind::Enum { size, signed: flag, values: Enumerators { btf, bytes: extra, flag, wide: false } }
        }
        ENUM64 => {
            Kind::Enum { size, signed: flag, values: Enumerators { btf, bytes: extra, flag, wide: true } }
        }
        FWD => Kind::Forward { union: flag },
        TYPEDEF => Kind::Typedef(size),
        VOLATILE => Kind::Volatile(size),
        CONST => Kind::Const(size),
        RESTRICT => Kind::Restrict(size),
        TYPE_TAG => Kind::TypeTag(size),
        FUNC => Kind::Function { prototype: size },
        FUNC_PROTO => Kind::Prototype {
            result: size,
            parameters: Parameters { btf, bytes: extra, flag: false, wide: false },
        },
        VAR => Kind::Variable(size),
        DATASEC => Kind::Section,
        FLOAT => Kind::Float { size },
        DECL_TAG => Kind::DeclTag,
        _ => return None,
    };
    Some(Type { id, name: btf.string(word(head, 0)), kind })
}
