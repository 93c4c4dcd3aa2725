//! BTF made here: for subprograms that are loaded (integers, pointers, prototypes and functions, which every
//! kernel that lotse supports knows), and for types of traced programs, which no kernel sees.

use std::collections::HashMap;

use super::TypeId;
use super::types::{ARRAY, ENUM, ENUM64, FLOAT, FUNC, FUNC_PROTO, FWD, INT, PTR, STRUCT, TYPEDEF, UNION};

/// A member of a struct or union.
#[derive(Clone, Copy, Debug)]
pub struct BtfMember<'a> {
    /// Its name; none for an anonymous struct or union, whose members count as the outer's.
    pub name: &'a str,
    /// Its type.
    pub type_id: TypeId,
    /// Bits from the start.
    pub bit_offset: u32,
    /// Width of a bit field; 0 for others.
    pub bits: u32,
}

/// A kind's bit that changes its meaning: bit fields in structs, signed enums, unions declared only.
const FLAG: u8 = 0x80;

/// Collects types and strings.
#[derive(Clone, Debug)]
pub struct BtfWriter {
    types: Vec<u8>,
    strings: Vec<u8>,
    /// Where each string stands.
    known: HashMap<String, u32>,
    next: TypeId,
}

impl Default for BtfWriter {
    fn default() -> BtfWriter {
        BtfWriter { types: Vec::new(), strings: vec![0], known: HashMap::new(), next: 1 }
    }
}

impl BtfWriter {
    /// Nothing yet.
    pub fn new() -> BtfWriter {
        BtfWriter::default()
    }

    /// The offset of a string, added unless empty.
    pub fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        if let Some(at) = self.known.get(text) {
            return *at;
        }
        let at = self.strings.len() as u32;
        self.strings.extend(text.bytes().filter(|byte| *byte != 0));
        self.strings.push(0);
        self.known.insert(text.to_owned(), at);
        at
    }

    fn push(&mut self, name: u32, kind: u8, vlen: u32, size: u32, extra: &[u32]) -> TypeId {
        for word in [name, u32::from(kind) << 24 | vlen, size].iter().chain(extra) {
            self.types.extend(word.to_le_bytes());
        }
        self.next += 1;
        self.next - 1
    }

    /// An integer of `size` bytes.
    pub fn int(&mut self, name: &str, size: u32, signed: bool) -> TypeId {
        let name = self.string(name);
        self.push(name, INT, 0, size, &[(u32::from(signed) << 24) | (size * 8)])
    }

    /// A pointer; to `void` for id 0.
    pub fn pointer(&mut self, to: TypeId) -> TypeId {
        self.push(0, PTR, 0, to, &[])
    }

    /// A truth value.
    pub fn boolean(&mut self, name: &str, size: u32) -> TypeId {
        const BOOL: u32 = 4;
        let name = self.string(name);
        self.push(name, INT, 0, size, &[(BOOL << 24) | (size * 8)])
    }

    /// A floating-point number.
    pub fn float(&mut self, name: &str, size: u32) -> TypeId {
        let name = self.string(name);
        self.push(name, FLOAT, 0, size, &[])
    }

    /// `count` elements; `index` is an integer type.
    pub fn array(&mut self, element: TypeId, index: TypeId, count: u32) -> TypeId {
        self.push(0, ARRAY, 0, 0, &[element, index, count])
    }

    /// Another name.
    pub fn typedef(&mut self, name: &str, to: TypeId) -> TypeId {
        let name = self.string(name);
        self.push(name, TYPEDEF, 0, to, &[])
    }

    /// A struct or union that is declared only.
    pub fn forward(&mut self, name: &str, union: bool) -> TypeId {
        let name = self.string(name);
        self.push(name, FWD | (if union { FLAG } else { 0 }), 0, 0, &[])
    }

    /// A struct or union. Members beyond the first 65 535, and those that a bit field puts beyond 2 MiB, are
    /// left out: the format has no room.
    pub fn record(&mut self, name: &str, union: bool, size: u32, members: &[BtfMember<'_>]) -> TypeId {
        let with_bits = members.iter().any(|member| member.bits > 0);
        let fits = |member: &&BtfMember<'_>| !with_bits || member.bit_offset < 1 << 24 && member.bits < 256;
        let mut words = Vec::with_capacity(members.len() * 3);
        for member in members.iter().filter(fits).take(usize::from(u16::MAX)) {
            let offset = if with_bits { (member.bits << 24) | member.bit_offset } else { member.bit_offset };
            words.extend([self.string(member.name), member.type_id, offset]);
        }
        let kind = (if union { UNION } else { STRUCT }) | (if with_bits { FLAG } else { 0 });
        let name = self.string(name);
        self.push(name, kind, (words.len() / 3) as u32, size, &words)
    }

    /// An enum. It is signed if one of its values is.
    pub fn enumeration(&mut self, name: &str, size: u32, values: &[(&str, i64)]) -> TypeId {
        let signed = if values.iter().any(|(_, value)| *value < 0) { FLAG } else { 0 };
        let mut words = Vec::with_capacity(values.len() * 3);
        for (name, value) in values.iter().take(usize::from(u16::MAX)) {
            words.extend([self.string(name), *value as u32]);
            if size > 4 {
                words.push((*value >> 32) as u32);
            }
        }
        let (kind, each) = if size > 4 { (ENUM64, 3) } else { (ENUM, 2) };
        let name = self.string(name);
        self.push(name, kind | signed, (words.len() / each) as u32, size, &words)
    }

    /// A static function; parameters need names.
    pub fn function(&mut self, name: &str, result: TypeId, parameters: &[(&str, TypeId)]) -> TypeId {
        let words: Vec<u32> = parameters.iter().flat_map(|(name, id)| [self.string(name), *id]).collect();
        let prototype = self.push(0, FUNC_PROTO, parameters.len() as u32, result, &words);
        let name = self.string(name);
        // The vlen of a FUNC is its linkage: 0 is static, which callbacks have to be.
        self.push(name, FUNC, 0, prototype, &[])
    }

    /// The blob that `BPF_BTF_LOAD` takes.
    pub fn finish(self) -> Vec<u8> {
        let mut out = vec![0x9f, 0xeb, 1, 0];
        let types = self.types.len() as u32;
        for word in [24, 0, types, types, self.strings.len() as u32] {
            out.extend(u32::to_le_bytes(word));
        }
        out.extend(self.types);
        out.extend(self.strings);
        out
    }
}
