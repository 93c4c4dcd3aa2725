//! Own BTF for subprograms: integers, pointers, prototypes and functions only, which every kernel that lotse
//! supports knows (5.8 and before).

use super::TypeId;
use super::types::{FUNC, FUNC_PROTO, INT, PTR};

/// Collects types and strings.
#[derive(Clone, Debug)]
pub struct BtfWriter {
    types: Vec<u8>,
    strings: Vec<u8>,
    next: TypeId,
}

impl Default for BtfWriter {
    fn default() -> BtfWriter {
        BtfWriter { types: Vec::new(), strings: vec![0], next: 1 }
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
        let mut needle = vec![0];
        needle.extend(text.bytes().filter(|byte| *byte != 0));
        needle.push(0);
        if let Some(at) = memchr::memmem::find(&self.strings, &needle) {
            return at as u32 + 1;
        }
        let at = self.strings.len() as u32;
        self.strings.extend(&needle[1..]);
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
