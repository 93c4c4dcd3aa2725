//! Questions that a compiler asks of types: by name, through typedefs, into members.

use super::types::{self, Enumerator, Kind, KindSet, Parameter, Type};
use super::{Btf, TypeId};

/// Typedef and anonymous-member chains longer than this are damage, not types.
const MAX_DEPTH: u32 = 32;

/// Where a member lies within the struct it was asked of, anonymous members passed through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldAt {
    /// Its type.
    pub type_id: TypeId,
    /// Bits from the start of the outer struct.
    pub bit_offset: u32,
    /// Width of a bit field; 0 for an ordinary member.
    pub bit_size: u32,
}

/// Parameters and result of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature<'b> {
    /// The `FUNC`'s or typedef's id.
    pub id: TypeId,
    /// Parameters in order.
    pub parameters: Vec<Parameter<'b>>,
    /// Return type.
    pub result: TypeId,
}

impl Btf {
    /// The string offset of a name. Names in BTF are deduplicated, so there is at most one (in base or own).
    fn name_offset(&self, name: &str) -> Option<u32> {
        if name.is_empty() {
            return None;
        }
        if let Some(base) = &self.inner.base
            && let Some(offset) = base.name_offset(name)
        {
            return Some(offset);
        }
        let bytes = self.string_bytes();
        let mut needle = Vec::with_capacity(name.len() + 2);
        needle.push(0);
        needle.extend(name.as_bytes());
        needle.push(0);
        if self.inner.base.is_some() && bytes.starts_with(&needle[1..]) {
            return Some(self.inner.first_string);
        }
        memchr::memmem::find(bytes, &needle).map(|at| self.inner.first_string + at as u32 + 1)
    }

    /// All ids of a name and these kinds, ascending. The base's types are searched first.
    pub fn find_all(&self, name: &str, kinds: KindSet) -> Vec<TypeId> {
        let mut out = Vec::new();
        if let Some(offset) = self.name_offset(name) {
            self.collect(offset, kinds, &mut out, false);
        }
        out
    }

    fn collect(&self, offset: u32, kinds: KindSet, out: &mut Vec<TypeId>, first_only: bool) {
        if let Some(base) = &self.inner.base {
            base.collect(offset, kinds, out, first_only);
        }
        let index = self.index();
        for (at, _) in index.name.iter().enumerate().filter(|(_, name)| **name == offset) {
            if first_only && !out.is_empty() {
                return;
            }
            if kinds.has(self.kind_of(at)) {
                out.push(self.inner.first_id + at as u32);
            }
        }
    }

    fn kind_of(&self, number: usize) -> u8 {
        let kind = self.position(number).and_then(|at| self.type_bytes().get(at + 7));
        kind.map_or(0, |byte| byte & 0x1f)
    }

    /// The first type of a name and these kinds.
    pub fn find(&self, name: &str, kinds: KindSet) -> Option<TypeId> {
        let mut out = Vec::new();
        self.collect(self.name_offset(name)?, kinds, &mut out, true);
        out.first().copied()
    }

    /// `struct NAME`.
    pub fn find_struct(&self, name: &str) -> Option<TypeId> {
        self.find(name, KindSet::STRUCT)
    }

    /// A type as C spells it: `struct task_struct`, `union x`, `enum y`, `u32`, `unsigned int`.
    pub fn find_c_name(&self, name: &str) -> Option<TypeId> {
        let name = name.trim();
        for (prefix, kinds) in
            [("struct ", KindSet::STRUCT), ("union ", KindSet::UNION), ("enum ", KindSet::ENUM)]
        {
            if let Some(rest) = name.strip_prefix(prefix) {
                return self.find(rest.trim(), kinds);
            }
        }
        self.find(name, KindSet::INT.or(KindSet::TYPEDEF)).or_else(|| self.find(name, KindSet::VALUE))
    }

    /// Past `const`, `volatile`, `restrict` and type tags; typedefs are kept.
    pub fn skip_qualifiers(&self, id: TypeId) -> Option<Type<'_>> {
        self.skip(id, false)
    }

    /// Past qualifiers and typedefs: the type that decides layout.
    pub fn resolve(&self, id: TypeId) -> Option<Type<'_>> {
        self.skip(id, true)
    }

    fn skip(&self, mut id: TypeId, typedefs: bool) -> Option<Type<'_>> {
        for _ in 0..MAX_DEPTH {
            let found = self.get(id)?;
            id = match found.kind {
                Kind::Const(to) | Kind::Volatile(to) | Kind::Restrict(to) | Kind::TypeTag(to) => to,
                Kind::Typedef(to) if typedefs => to,
                _ => return Some(found),
            };
        }
        None
    }

    /// Whether a pointer or what it points to is tagged so (`user`, `percpu`, `rcu`).
    pub fn has_tag(&self, mut id: TypeId, tag: &str) -> bool {
        for _ in 0..MAX_DEPTH {
            let Some(found) = self.get(id) else { return false };
            id = match found.kind {
                Kind::TypeTag(_) if found.name == tag => return true,
                Kind::Const(to)
                | Kind::Volatile(to)
                | Kind::Restrict(to)
                | Kind::TypeTag(to)
                | Kind::Typedef(to) => to,
                Kind::Pointer(to) => to,
                _ => return false,
            };
        }
        false
    }

    /// Bytes of a value; none for `void`, functions and forward declarations. A flexible array has 0.
    pub fn size_of(&self, id: TypeId) -> Option<u64> {
        let mut id = id;
        let mut times = 1_u64;
        for _ in 0..MAX_DEPTH {
            let found = self.resolve(id)?;
            let size = match found.kind {
                Kind::Int { size, .. }
                | Kind::Struct { size, .. }
                | Kind::Union { size, .. }
                | Kind::Enum { size, .. }
                | Kind::Float { size } => u64::from(size),
                Kind::Pointer(_) => 8,
                Kind::Array { element, count } => {
                    times = times.checked_mul(u64::from(count))?;
                    id = element;
                    continue;
                }
                _ => return None,
            };
            return size.checked_mul(times);
        }
        None
    }

    /// A member by name, also inside anonymous structs and unions. `id` may be a typedef.
    pub fn field(&self, id: TypeId, name: &str) -> Option<FieldAt> {
        self.field_within(id, name, 0, MAX_DEPTH)
    }

    fn field_within(&self, id: TypeId, name: &str, base: u32, depth: u32) -> Option<FieldAt> {
        let (Kind::Struct { members, .. } | Kind::Union { members, .. }) = self.resolve(id)?.kind else {
            return None;
        };
        let depth = depth.checked_sub(1)?;
        for member in members {
            let bit_offset = base.checked_add(member.bit_offset)?;
            if member.name == name {
                return Some(FieldAt { type_id: member.type_id, bit_offset, bit_size: member.bit_size });
            }
            if member.name.is_empty()
                && let Some(found) = self.field_within(member.type_id, name, bit_offset, depth)
            {
                return Some(found);
            }
        }
        None
    }

    /// Names of all members that [`Btf::field`] finds.
    pub fn field_names(&self, id: TypeId) -> Vec<&str> {
        let mut out = Vec::new();
        self.names_within(id, &mut out, MAX_DEPTH);
        out
    }

    fn names_within<'b>(&'b self, id: TypeId, out: &mut Vec<&'b str>, depth: u32) {
        let Some(Type { kind: Kind::Struct { members, .. } | Kind::Union { members, .. }, .. }) =
            self.resolve(id)
        else {
            return;
        };
        for member in members {
            if !member.name.is_empty() {
                out.push(member.name);
            } else if depth > 0 {
                self.names_within(member.type_id, out, depth - 1);
            }
        }
    }

    /// The value of an enumerator and the enum it belongs to.
    pub fn enumerator(&self, name: &str) -> Option<(TypeId, i64)> {
        let offset = self.name_offset(name)?;
        self.enumerator_at(offset)
    }

    fn enumerator_at(&self, offset: u32) -> Option<(TypeId, i64)> {
        if let Some(found) = self.inner.base.as_ref().and_then(|base| base.enumerator_at(offset)) {
            return Some(found);
        }
        self.index().enums.iter().find_map(|id| {
            let Kind::Enum { values, .. } = self.get(*id)?.kind else { return None };
            values.find_by_offset(offset).map(|found| (*id, found.value))
        })
    }

    /// The enumerators of an enum type.
    pub fn enumerators(&self, id: TypeId) -> Vec<Enumerator<'_>> {
        match self.resolve(id).map(|found| found.kind) {
            Some(Kind::Enum { values, .. }) => values.collect(),
            _ => Vec::new(),
        }
    }

    /// A function's signature.
    pub fn function(&self, name: &str) -> Option<Signature<'_>> {
        let id = self.find(name, KindSet::FUNCTION)?;
        self.signature(id)
    }

    /// The signature of a `FUNC`, a prototype, or a (typedef of a) pointer to one.
    pub fn signature(&self, id: TypeId) -> Option<Signature<'_>> {
        let mut at = id;
        for _ in 0..MAX_DEPTH {
            match self.resolve(at)?.kind {
                Kind::Function { prototype } => at = prototype,
                Kind::Pointer(to) => at = to,
                Kind::Prototype { result, parameters } => {
                    return Some(Signature { id, parameters: parameters.collect(), result });
                }
                _ => return None,
            }
        }
        None
    }

    /// Arguments of a raw tracepoint, without the leading `void *__data`. The id is that of the typedef
    /// `btf_trace_NAME`, which a tp_btf program is attached to. Argument names stand only in the function
    /// `__traceiter_NAME`; without it they are empty.
    pub fn tracepoint(&self, name: &str) -> Option<Signature<'_>> {
        let id = self.find(&format!("btf_trace_{name}"), KindSet::TYPEDEF)?;
        let named = self.function(&format!("__traceiter_{name}"));
        let mut signature = match named {
            Some(named) => named,
            None => self.signature(id)?,
        };
        if signature.parameters.is_empty() {
            return None;
        }
        signature.parameters.remove(0);
        signature.id = id;
        Some(signature)
    }

    /// All names of these kinds, in type order, own types only.
    pub fn names(&self, kinds: KindSet) -> impl Iterator<Item = &str> {
        let names = self.index().name.iter().enumerate();
        names
            .filter(move |(number, name)| **name != 0 && kinds.has(self.kind_of(*number)))
            .map(|(_, name)| self.string(*name))
    }

    /// Names of raw tracepoints that BTF knows, own types only.
    pub fn tracepoint_names(&self) -> impl Iterator<Item = &str> {
        self.names(KindSet::TYPEDEF).filter_map(|name| name.strip_prefix("btf_trace_"))
    }

    /// A member by byte offset, as deep as possible: `("sched_entity.vruntime", type)`-like paths for
    /// messages of the verifier.
    pub fn path_at(&self, id: TypeId, byte: u32) -> Option<String> {
        let mut path = String::new();
        let (mut id, mut rest) = (id, byte);
        for _ in 0..MAX_DEPTH {
            match self.resolve(id)?.kind {
                Kind::Struct { members, .. } | Kind::Union { members, .. } => {
                    let found = members.filter(|member| member.bit_offset / 8 <= rest).last()?;
                    if !found.name.is_empty() {
                        if !path.is_empty() {
                            path.push('.');
                        }
                        path.push_str(found.name);
                    }
                    rest -= found.bit_offset / 8;
                    id = found.type_id;
                }
                Kind::Array { element, .. } => {
                    let size = self.size_of(element).filter(|size| *size > 0)? as u32;
                    path.push_str(&format!("[{}]", rest / size));
                    rest %= size;
                    id = element;
                }
                _ => break,
            }
        }
        Some(path)
    }
}

/// Kinds are compared by number in the columns.
const _: () = assert!(types::ENUM64 < 32);
