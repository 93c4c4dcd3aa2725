//! An interpreter of the instruction set for tests of compiled programs. It keeps the kernel's rules:
//! no read of uninitialised registers or stack, no access outside of memory the program owns, arguments of
//! helpers checked for their size. A broken rule is an error that names the slot, never a panic.

mod memory;
mod step;
mod helpers;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::image::Image;
use crate::insn::Instruction;
use crate::map::{MapKind, MapSpec};

pub use memory::Memory;

/// Instructions after which a run is taken for endless.
const MAX_STEPS: u64 = 10_000_000;

/// Why a run ended early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("slot {slot}: {what}")]
pub struct Fault {
    /// Slot of the instruction.
    pub slot: u32,
    /// What it did wrong.
    pub what: String,
}

/// What helpers answer, and the memory outside of the program.
#[derive(Clone, Debug)]
pub struct World {
    /// `bpf_get_smp_processor_id`.
    pub cpu: u32,
    /// Process id.
    pub tgid: u32,
    /// Thread id.
    pub pid: u32,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Name of the thread, zero padded.
    pub comm: [u8; 16],
    /// All clocks; each reading adds `tick`.
    pub nanoseconds: u64,
    /// Added after each reading of a clock.
    pub tick: u64,
    /// `bpf_get_prandom_u32`; each reading adds one.
    pub random: u32,
    /// `bpf_get_current_cgroup_id`.
    pub cgroup: u64,
    /// `bpf_get_attach_cookie`.
    pub cookie: u64,
    /// `bpf_get_current_task`.
    pub task: u64,
    /// `bpf_get_numa_node_id`.
    pub numa_node: u32,
    /// `bpf_get_func_ip`.
    pub function_address: u64,
    /// Kernel frames, innermost first.
    pub kernel_stack: Vec<u64>,
    /// User frames, innermost first.
    pub user_stack: Vec<u64>,
    /// Kernel and user memory by start address. Kernel addresses have the top bit set.
    pub memory: BTreeMap<u64, Vec<u8>>,
}

impl Default for World {
    fn default() -> World {
        let mut comm = [0; 16];
        comm[..4].copy_from_slice(b"test");
        World {
            cpu: 0,
            tgid: 100,
            pid: 101,
            uid: 1000,
            gid: 1001,
            comm,
            nanoseconds: 1_000_000_000,
            tick: 0,
            random: 0,
            cgroup: 1,
            cookie: 0,
            task: 0xffff_8880_0000_1000,
            numa_node: 0,
            function_address: 0xffff_ffff_8100_0000,
            kernel_stack: Vec::new(),
            user_stack: Vec::new(),
            memory: BTreeMap::new(),
        }
    }
}

impl World {
    /// Bytes at an address, if all of them are there.
    pub fn read(&self, address: u64, size: u64) -> Option<&[u8]> {
        let (start, bytes) = self.memory.range(..=address).next_back()?;
        let from = usize::try_from(address - start).ok()?;
        bytes.get(from..from.checked_add(usize::try_from(size).ok()?)?)
    }

    /// Places bytes, to be found by `probe_read` and by loads through kernel pointers.
    pub fn place(&mut self, address: u64, bytes: impl Into<Vec<u8>>) -> &mut World {
        self.memory.insert(address, bytes.into());
        self
    }
}

/// What a run did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// r0.
    pub result: u64,
    /// Instructions executed, callbacks included.
    pub steps: u64,
    /// Helper calls.
    pub calls: u64,
}

/// Maps with their contents, a world, and the records that programs wrote to ring buffers.
#[derive(Debug)]
pub struct Machine {
    /// Answers of helpers.
    pub world: World,
    /// Records of all ring buffers in order.
    pub records: Vec<Vec<u8>>,
    /// Signals sent, `(number, to the thread)`.
    pub signals: Vec<(u32, bool)>,
    maps: Vec<LiveMap>,
    memory: Memory,
    cpus: u32,
    ring_used: u64,
    steps: u64,
    calls: u64,
}

#[derive(Debug)]
struct LiveMap {
    spec: MapSpec,
    /// Arrays: one region for each CPU (or one).
    arrays: Vec<u32>,
    /// Hashes: for each key, one region for each CPU (or one).
    entries: BTreeMap<Vec<u8>, Vec<u32>>,
}

impl Machine {
    /// A machine with the maps of an image and so many CPUs.
    pub fn new(image: &Image, cpus: u32) -> Machine {
        Machine::with_maps(&image.maps, cpus)
    }

    /// A machine with these maps.
    pub fn with_maps(specs: &[MapSpec], cpus: u32) -> Machine {
        let mut memory = Memory::default();
        let cpus = cpus.max(1);
        let maps = specs
            .iter()
            .map(|spec| {
                let copies = match spec.kind {
                    MapKind::Array => 1,
                    MapKind::PerCpuArray => cpus,
                    _ => 0,
                };
                let size = (spec.value_size as usize).saturating_mul(spec.max_entries.max(1) as usize);
                let arrays = (0..copies)
                    .map(|_| {
                        let region = memory.add(size, true);
                        if let Some(initial) = &spec.initial {
                            memory.fill(region, initial);
                        }
                        region
                    })
                    .collect();
                LiveMap { spec: spec.clone(), arrays, entries: BTreeMap::new() }
            })
            .collect();
        Machine {
            world: World::default(),
            records: Vec::new(),
            signals: Vec::new(),
            maps,
            memory,
            cpus,
            ring_used: 0,
            steps: 0,
            calls: 0,
        }
    }

    /// Runs a program on a context, whose bytes it may read and write.
    pub fn run(&mut self, program: &[Instruction], context: &mut Vec<u8>) -> Result<Ran, Fault> {
        let region = self.memory.add(context.len(), true);
        self.memory.fill(region, context);
        let code = step::Code::new(program);
        (self.steps, self.calls) = (0, 0);
        let result = self.call(&code, 0, [self.memory.address(region), 0, 0, 0, 0], 1, 0);
        *context = self.memory.bytes(region).to_vec();
        self.memory.remove(region);
        Ok(Ran { result: result?, steps: self.steps, calls: self.calls })
    }

    /// The value of an array element (on a CPU), or of a key in a hash.
    pub fn value(&self, map: u32, key: &[u8], cpu: u32) -> Option<&[u8]> {
        let live = self.maps.get(map as usize)?;
        if live.spec.kind.hashed() {
            let regions = live.entries.get(key)?;
            return Some(self.memory.bytes(*regions.get(cpu as usize).or(regions.first())?));
        }
        let region = *live.arrays.get(cpu as usize).or(live.arrays.first())?;
        let index = u32::from_le_bytes(key.try_into().ok()?) as usize;
        let size = live.spec.value_size as usize;
        self.memory.bytes(region).get(index * size..(index + 1) * size)
    }

    /// Writes element 0 of an array on every CPU, as a loader would.
    pub fn set_array(&mut self, map: u32, offset: usize, bytes: &[u8]) {
        for region in self.maps[map as usize].arrays.clone() {
            self.memory.write_at(region, offset, bytes);
        }
    }

    /// All keys of a hash, sorted as bytes.
    pub fn keys(&self, map: u32) -> Vec<Vec<u8>> {
        self.maps.get(map as usize).map_or_else(Vec::new, |live| live.entries.keys().cloned().collect())
    }

    /// Takes the records written so far; the ring is empty afterwards.
    pub fn drain(&mut self) -> Vec<Vec<u8>> {
        self.ring_used = 0;
        std::mem::take(&mut self.records)
    }
}
