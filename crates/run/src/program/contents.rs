//! The contents of a program's maps, wherever they live: shared memory or a kernel map.

use std::cell::RefCell;
use std::collections::BTreeSet;

use kernel::ebpf::{Map, MappedArray};
use kernel::error::Refused;
use lang::layout::{Layout, Place};
use lang::schema::{MapId, MapValue, Schema, Storage};

/// Entries of one map, copied out.
#[derive(Debug, Default)]
pub struct Contents {
    /// Key (empty for a scalar) and the value of each CPU (one for maps that CPUs share).
    pub entries: Vec<(Vec<u8>, Vec<Vec<u8>>)>,
}

/// Maps without keys that `zero()` emptied: their values are nothing but zeros, and still print.
#[derive(Debug, Default)]
pub struct Zeroed(RefCell<BTreeSet<u32>>);

/// Access to the maps of a loaded program.
#[derive(Clone, Copy)]
pub struct Maps<'a> {
    /// What the maps hold.
    pub schema: &'a Schema,
    /// Where they are.
    pub layout: &'a Layout,
    /// Kernel maps.
    pub kernel: &'a [Map],
    /// The data array.
    pub data: Option<&'a MappedArray>,
    /// What `zero()` was called on.
    pub zeroed: &'a Zeroed,
    /// Possible CPUs.
    pub cpus: u32,
}

impl Maps<'_> {
    /// Reads a whole map. A map without key that no program has set has no entry.
    pub fn read(&self, id: MapId) -> Result<Contents, Refused> {
        let map = &self.schema.maps[id.0 as usize];
        let size = map.value.size() as usize;
        let values: Vec<Vec<u8>> = match (self.layout.place(id), self.data) {
            (Place::Map(index), _) => return self.entries(index, size, map.storage),
            (Place::Global { offset }, Some(data)) => {
                let set =
                    self.layout.is_set(self.schema, id).is_none_or(|word| data.load(word as usize) != 0);
                if !set {
                    return Ok(Contents::default());
                }
                vec![data.copy(offset as usize, size)]
            }
            (Place::PerCpu { offset }, Some(data)) => {
                (0..self.cpus).map(|cpu| data.copy(self.layout.on_cpu(cpu, offset), size)).collect()
            }
            _ => return Ok(Contents::default()),
        };
        // Aggregates tell by their contents: a CPU that saw a value has a word that is not zero.
        // A count has counted nothing before the first.
        let shown = map.value == MapValue::Count || self.zeroed.0.borrow().contains(&id.0);
        if map.storage.per_cpu() && !shown && values.iter().flatten().all(|byte| *byte == 0) {
            return Ok(Contents::default());
        }
        Ok(Contents { entries: vec![(vec![], values)] })
    }

    /// Reads one entry.
    pub fn read_entry(&self, id: MapId, key: &[u8]) -> Result<Contents, Refused> {
        let map = &self.schema.maps[id.0 as usize];
        let Place::Map(index) = self.layout.place(id) else { return self.read(id) };
        let Some(value) = self.kernel[index as usize].lookup(key)? else { return Ok(Contents::default()) };
        let values = split(&value, map.value.size() as usize, map.storage);
        Ok(Contents { entries: vec![(key.to_vec(), values)] })
    }

    /// Removes an entry and gives the values it had then, in one step; none if it was not there.
    pub fn take_entry(&self, id: MapId, key: &[u8]) -> Result<Option<Vec<Vec<u8>>>, Refused> {
        let map = &self.schema.maps[id.0 as usize];
        let Place::Map(index) = self.layout.place(id) else { return Ok(None) };
        let taken = self.kernel[index as usize].take(key)?;
        Ok(taken.map(|value| split(&value, map.value.size() as usize, map.storage)))
    }

    fn entries(&self, index: u32, size: usize, storage: Storage) -> Result<Contents, Refused> {
        let entries = self.kernel[index as usize].entries()?;
        let rows = entries.iter().map(|(key, value)| (key.to_vec(), split(value, size, storage)));
        Ok(Contents { entries: rows.collect() })
    }

    /// `clear(@m)`: no entry is left.
    pub fn clear(&self, id: MapId) -> Result<(), Refused> {
        match self.layout.place(id) {
            Place::Map(index) => self.kernel[index as usize].clear(),
            _ => {
                self.zeroed.0.borrow_mut().remove(&id.0);
                if let (Some(word), Some(data)) = (self.layout.is_set(self.schema, id), self.data) {
                    data.store(word as usize, 0);
                }
                self.fill_with_zeros(id)
            }
        }
    }

    /// `zero(@m)`: every entry's value becomes zero bytes.
    pub fn zero(&self, id: MapId) -> Result<(), Refused> {
        if !self.read(id)?.entries.is_empty() {
            self.zeroed.0.borrow_mut().insert(id.0);
        }
        self.fill_with_zeros(id)
    }

    fn fill_with_zeros(&self, id: MapId) -> Result<(), Refused> {
        let size = (self.schema.maps[id.0 as usize].value.size() as usize).next_multiple_of(8);
        match (self.layout.place(id), self.data) {
            (Place::Map(index), _) => {
                let map = &self.kernel[index as usize];
                let zeros = vec![0u8; map.value_bytes()];
                for (key, _) in map.entries()?.iter() {
                    map.update(key, &zeros, 0)?;
                }
            }
            (Place::Global { offset }, Some(data)) => data.zero(offset as usize, size),
            (Place::PerCpu { offset }, Some(data)) => {
                for cpu in 0..self.cpus {
                    data.zero(self.layout.on_cpu(cpu, offset), size);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A counter's sum over CPUs.
    pub fn counter(&self, index: usize) -> u64 {
        let Some(data) = self.data else { return 0 };
        (0..self.cpus).map(|cpu| data.load(self.layout.counter(cpu, index))).sum()
    }
}

fn split(value: &[u8], size: usize, storage: Storage) -> Vec<Vec<u8>> {
    if !storage.per_cpu() {
        return vec![value[..size.min(value.len())].to_vec()];
    }
    value.chunks_exact(size.next_multiple_of(8).max(8)).map(|chunk| chunk[..size].to_vec()).collect()
}
