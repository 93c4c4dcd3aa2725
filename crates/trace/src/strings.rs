//! Strings seen often, kept once.

use std::collections::HashMap;

/// A string of a [`Strings`] table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StringId(pub u32);

/// An interning table; id 0 is the empty string. Bytes, since kernel strings need
/// not be UTF-8.
#[derive(Clone, Debug)]
pub struct Strings {
    ids: HashMap<Box<[u8]>, StringId>,
    bytes: Vec<Box<[u8]>>,
}

impl Default for Strings {
    fn default() -> Self {
        let empty: Box<[u8]> = Box::default();
        Strings { ids: HashMap::from([(empty.clone(), StringId(0))]), bytes: vec![empty] }
    }
}

impl Strings {
    /// The id of `bytes`, added if new.
    pub fn intern(&mut self, bytes: &[u8]) -> StringId {
        if let Some(&id) = self.ids.get(bytes) {
            return id;
        }
        let id = StringId(self.bytes.len() as u32);
        self.bytes.push(bytes.into());
        self.ids.insert(bytes.into(), id);
        id
    }

    /// The bytes of `id`; empty for an id of another table.
    pub fn get(&self, id: StringId) -> &[u8] {
        self.bytes.get(id.0 as usize).map_or(b"", |b| b)
    }
}
