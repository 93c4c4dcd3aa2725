//! Types of the kernel and its modules, read in place.
//!
//! The bytes are mapped or shared and never copied. Opening checks the header only. The first lookup walks
//! the type section once and keeps the offset of each type's name, and where every eighth type starts; a lookup
//! by name is then one search in the string section (names are deduplicated, so equal names have equal
//! offsets) and one scan of integers.

mod nearest;
mod types;
mod lookup;
mod pretty;
mod writer;

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

pub use lookup::{FieldAt, Signature};
pub use nearest::nearest;
pub use types::{Enumerator, Enumerators, Kind, KindSet, Member, Members, Parameter, Parameters, Type};
pub use writer::{BtfMember, BtfWriter};

/// A type's number; 0 is `void`.
pub type TypeId = u32;

/// Why bytes are not BTF.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BtfError {
    /// Not BTF, or for a machine of the other byte order.
    #[error("not little-endian BTF: the magic number is {0:#06x}")]
    Magic(u16),
    /// A section reaches beyond the end.
    #[error("the {0} section reaches beyond the end of the BTF bytes")]
    Truncated(&'static str),
}

/// One BTF blob, possibly on top of another. Cloning shares everything.
#[derive(Clone)]
pub struct Btf {
    inner: Arc<Inner>,
}

struct Inner {
    bytes: Box<dyn AsRef<[u8]> + Send + Sync>,
    types: std::ops::Range<usize>,
    strings: std::ops::Range<usize>,
    base: Option<Btf>,
    first_id: TypeId,
    first_string: u32,
    index: OnceLock<Index>,
}

/// Columns by type id (minus `first_id`).
struct Index {
    /// Byte position within the type section of every [`STRIDE`]th type; the others are found by walking.
    position: Vec<u32>,
    /// Offset of the name, counted over base and own strings.
    name: Vec<u32>,
    /// Ids of enums, for lookups of enumerators.
    enums: Vec<TypeId>,
}

impl std::fmt::Debug for Btf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Btf")
            .field("bytes", &self.inner.bytes.as_ref().as_ref().len())
            .field("split", &self.inner.base.is_some())
            .finish()
    }
}

const HEADER: usize = 24;
/// Types from one kept position to the next: memory against a walk over a few headers.
const STRIDE: usize = 8;

impl Btf {
    /// Types that stand alone: vmlinux, or one's own.
    pub fn new(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Result<Btf, BtfError> {
        Btf::open(Box::new(bytes), None)
    }

    /// Types of a module, on top of the kernel's.
    pub fn split(bytes: impl AsRef<[u8]> + Send + Sync + 'static, base: &Btf) -> Result<Btf, BtfError> {
        Btf::open(Box::new(bytes), Some(base.clone()))
    }

    fn open(bytes: Box<dyn AsRef<[u8]> + Send + Sync>, base: Option<Btf>) -> Result<Btf, BtfError> {
        let raw: &[u8] = (*bytes).as_ref();
        let header: &[u8; HEADER] = raw.first_chunk().ok_or(BtfError::Truncated("header"))?;
        let magic = u16::from_le_bytes([header[0], header[1]]);
        if magic != 0xeb9f {
            return Err(BtfError::Magic(magic));
        }
        let word = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]) as usize
        };
        let (start, type_at, type_len, string_at, string_len) =
            (word(4), word(8), word(12), word(16), word(20));
        let range = |at: usize, len: usize, what| {
            let from = start.checked_add(at).ok_or(BtfError::Truncated(what))?;
            let to = from.checked_add(len).ok_or(BtfError::Truncated(what))?;
            if to > raw.len() { Err(BtfError::Truncated(what)) } else { Ok(from..to) }
        };
        let types = range(type_at, type_len, "type")?;
        let strings = range(string_at, string_len, "string")?;
        let (first_id, first_string) = match &base {
            Some(base) => (base.type_end(), base.inner.first_string + base.inner.strings.len() as u32),
            None => (1, 0),
        };
        let inner = Inner { types, strings, base, first_id, first_string, index: OnceLock::new(), bytes };
        Ok(Btf { inner: Arc::new(inner) })
    }

    /// The raw bytes, as the kernel gave them.
    pub fn bytes(&self) -> &[u8] {
        (*self.inner.bytes).as_ref()
    }

    /// One more than the highest type id.
    pub fn type_end(&self) -> TypeId {
        self.inner.first_id + self.index().name.len() as u32
    }

    /// The lowest type id that is not the base's.
    pub fn type_start(&self) -> TypeId {
        self.inner.first_id
    }

    fn type_bytes(&self) -> &[u8] {
        &self.bytes()[self.inner.types.clone()]
    }

    fn string_bytes(&self) -> &[u8] {
        &self.bytes()[self.inner.strings.clone()]
    }

    /// The string at an offset; empty where there is none.
    fn string(&self, offset: u32) -> &str {
        if offset < self.inner.first_string {
            return self.inner.base.as_ref().map_or("", |base| base.string(offset));
        }
        let bytes = self.string_bytes().get((offset - self.inner.first_string) as usize..).unwrap_or(&[]);
        let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
        std::str::from_utf8(&bytes[..end]).unwrap_or("")
    }

    fn index(&self) -> &Index {
        self.inner.index.get_or_init(|| {
            let bytes = self.type_bytes();
            // vmlinux has about 25 bytes a type.
            let mut index = Index {
                position: Vec::with_capacity(bytes.len() / (22 * STRIDE) + 1),
                name: Vec::with_capacity(bytes.len() / 22),
                enums: Vec::new(),
            };
            let mut at = 0;
            while let Some(head) = bytes.get(at..).and_then(|rest| rest.first_chunk::<12>()) {
                let name = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
                let info = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
                let kind = (info >> 24 & 0x1f) as u8;
                let Some(extra) = types::extra_bytes(kind, info & 0xffff) else { break };
                if matches!(kind, types::ENUM | types::ENUM64) {
                    index.enums.push(self.inner.first_id + index.name.len() as u32);
                }
                if index.name.len().is_multiple_of(STRIDE) {
                    index.position.push(at as u32);
                }
                index.name.push(name);
                at += 12 + extra;
            }
            index
        })
    }

    /// Where a type starts in the type section, by its number among this blob's own.
    fn position(&self, number: usize) -> Option<usize> {
        if number >= self.index().name.len() {
            return None;
        }
        let mut at = *self.index().position.get(number / STRIDE)? as usize;
        let bytes = self.type_bytes();
        for _ in 0..number % STRIDE {
            let info = u32::from_le_bytes(*bytes.get(at + 4..)?.first_chunk()?);
            at += 12 + types::extra_bytes((info >> 24 & 0x1f) as u8, info & 0xffff)?;
        }
        Some(at)
    }

    /// The type with this id; none beyond the end or where bytes are damaged.
    pub fn get(&self, id: TypeId) -> Option<Type<'_>> {
        if id == 0 {
            return Some(Type { id, name: "void", kind: Kind::Void });
        }
        if id < self.inner.first_id {
            return self.inner.base.as_ref()?.get(id);
        }
        let at = self.position((id - self.inner.first_id) as usize)?;
        types::read(self, id, &self.type_bytes()[at..])
    }
}
