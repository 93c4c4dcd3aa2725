//! Where the maps of a program text ended up in kernel memory: what the printing side needs besides the
//! [`Schema`](crate::schema::Schema) to find their bytes.
//!
//! Small things share one mmapable array of one element, the *data* map (`image.system.data`). It begins with
//! zeros, constants and globals; then follows one block for each CPU, [`Layout::cpu_stride`] bytes apart.

use crate::schema::{MapId, Schema, Storage};

/// Where a map of the schema lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Bytes of the data map, the same for all CPUs; right after the value a `u64` that is 1 while the map has
    /// been set and not been deleted or cleared since.
    Global {
        /// Bytes from the start of the data map.
        offset: u32,
    },
    /// Bytes in each CPU's block of the data map.
    PerCpu {
        /// Bytes from the start of a block.
        offset: u32,
    },
    /// A kernel map of its own: index in `image.maps`.
    Map(u32),
}

/// Layout of a compiled program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Where each map of the schema is, by [`MapId`].
    pub places: Vec<Place>,
    /// Bytes of the data map before the first CPU's block.
    pub cpu_start: u32,
    /// Bytes from one CPU's block to the next.
    pub cpu_stride: u32,
    /// Blocks: possible CPUs, rounded up to a power of two (the last may stay unused).
    pub cpu_blocks: u32,
    /// Where the counters of `schema.counters` begin in each CPU's block, `u64` each.
    pub counters: u32,
    /// `u64` in the data map: `CLOCK_BOOTTIME` nanoseconds at the start, to be stored by the tracer before
    /// anything is attached.
    pub start_time: u32,
    /// Two `u64` in the data map: device and inode of the tracer's PID namespace, to be stored likewise.
    pub pid_namespace: u32,
    /// `u64` in the data map that ends all output when not 0: `exit()` sets it to 1.
    pub exiting: u32,
    /// Kernel map of each entry of `schema.stack_maps`: index in `image.maps`. Keys have 16 bytes: `u64` hash,
    /// `u32` frames, `u32` 0. Values are `limit` × `u64`.
    pub stacks: Vec<u32>,
}

impl Layout {
    /// Where a map is.
    pub fn place(&self, map: MapId) -> Place {
        self.places[map.0 as usize]
    }

    /// Offset in the data map of the word that says whether a global map is set.
    pub fn is_set(&self, schema: &Schema, map: MapId) -> Option<u32> {
        let size = schema.maps[map.0 as usize].value.size().next_multiple_of(8);
        match self.place(map) {
            Place::Global { offset } => Some(offset + size),
            _ => None,
        }
    }

    /// Offset in the data map of a byte of a CPU's block.
    pub fn on_cpu(&self, cpu: u32, offset: u32) -> usize {
        self.cpu_start as usize + cpu as usize * self.cpu_stride as usize + offset as usize
    }

    /// Offset in the data map of a counter of a CPU.
    pub fn counter(&self, cpu: u32, index: usize) -> usize {
        self.on_cpu(cpu, self.counters) + index * 8
    }

    /// Lays out what the schema declares, `cpus` possible CPUs; map indexes count from `first_map`.
    pub fn of(schema: &Schema, cpus: u32, first_map: u32) -> Layout {
        let mut layout = Layout { cpu_blocks: cpus.max(1).next_power_of_two(), ..Layout::default() };
        // The system's words come first, globals after them.
        (layout.start_time, layout.pid_namespace, layout.exiting) = (0, 8, 24);
        let mut global = 32_u32;
        let mut cpu = schema.counters.len() as u32 * 8;
        let mut next = first_map;
        for map in &schema.maps {
            let size = map.value.size().next_multiple_of(8);
            let place = match map.storage {
                Storage::Scalar => {
                    let offset = global;
                    global += size + 8;
                    Place::Global { offset }
                }
                Storage::PerCpuScalar => {
                    let offset = cpu;
                    cpu += size;
                    Place::PerCpu { offset }
                }
                _ => {
                    next += 1;
                    Place::Map(next - 1)
                }
            };
            layout.places.push(place);
        }
        layout.stacks = schema.stack_maps.iter().enumerate().map(|(at, _)| next + at as u32).collect();
        // Blocks of different CPUs never share a cache line.
        (layout.cpu_start, layout.cpu_stride) = (global.next_multiple_of(64), cpu.next_multiple_of(64));
        layout
    }
}
