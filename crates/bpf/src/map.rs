//! Map kinds and what a loader needs to create one.

use serde::{Deserialize, Serialize};

/// `enum bpf_map_type`, the part that tracing needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MapKind {
    /// Hash table.
    Hash,
    /// Fixed array of values indexed by u32.
    Array,
    /// Perf event descriptors by CPU.
    PerfEventArray,
    /// Hash table with one value per CPU.
    PerCpuHash,
    /// Array with one value per CPU.
    PerCpuArray,
    /// Stacks by id.
    StackTrace,
    /// Cgroup descriptors.
    CgroupArray,
    /// Hash table that drops the least recently used.
    LruHash,
    /// The same with one value per CPU.
    LruPerCpuHash,
    /// Map of array maps or others.
    ArrayOfMaps,
    /// Task-local storage.
    TaskStorage,
    /// The ring buffer of kernel 5.8.
    RingBuf,
    /// Arena (kernel 6.9).
    Arena,
}

impl MapKind {
    /// All of them.
    pub const ALL: [MapKind; 13] = [
        MapKind::Hash,
        MapKind::Array,
        MapKind::PerfEventArray,
        MapKind::PerCpuHash,
        MapKind::PerCpuArray,
        MapKind::StackTrace,
        MapKind::CgroupArray,
        MapKind::LruHash,
        MapKind::LruPerCpuHash,
        MapKind::ArrayOfMaps,
        MapKind::TaskStorage,
        MapKind::RingBuf,
        MapKind::Arena,
    ];

    /// The kernel's number.
    pub fn number(self) -> u32 {
        match self {
            MapKind::Hash => 1,
            MapKind::Array => 2,
            MapKind::PerfEventArray => 4,
            MapKind::PerCpuHash => 5,
            MapKind::PerCpuArray => 6,
            MapKind::StackTrace => 7,
            MapKind::CgroupArray => 8,
            MapKind::LruHash => 9,
            MapKind::LruPerCpuHash => 10,
            MapKind::ArrayOfMaps => 12,
            MapKind::RingBuf => 27,
            MapKind::TaskStorage => 29,
            MapKind::Arena => 33,
        }
    }

    /// As bpftool names it.
    pub fn name(self) -> &'static str {
        match self {
            MapKind::Hash => "hash",
            MapKind::Array => "array",
            MapKind::PerfEventArray => "perf_event_array",
            MapKind::PerCpuHash => "percpu_hash",
            MapKind::PerCpuArray => "percpu_array",
            MapKind::StackTrace => "stack_trace",
            MapKind::CgroupArray => "cgroup_array",
            MapKind::LruHash => "lru_hash",
            MapKind::LruPerCpuHash => "lru_percpu_hash",
            MapKind::ArrayOfMaps => "array_of_maps",
            MapKind::RingBuf => "ringbuf",
            MapKind::TaskStorage => "task_storage",
            MapKind::Arena => "arena",
        }
    }

    /// A lookup from user space returns one value per possible CPU, each padded to 8 bytes.
    pub fn per_cpu(self) -> bool {
        matches!(self, MapKind::PerCpuHash | MapKind::PerCpuArray | MapKind::LruPerCpuHash)
    }

    /// Elements come and go by key.
    pub fn hashed(self) -> bool {
        matches!(self, MapKind::Hash | MapKind::PerCpuHash | MapKind::LruHash | MapKind::LruPerCpuHash)
    }
}

/// Creation flags (`BPF_F_*`).
pub mod flags {
    /// Allocate elements when they are inserted: creation takes microseconds rather than milliseconds.
    /// Safe in tracing programs from 6.1 on.
    pub const NO_PREALLOC: u32 = 1;
    /// Read-only from the program's side.
    pub const RDONLY_PROG: u32 = 1 << 7;
    /// The array can be mapped into the tracer (`mmap`), which then reads it without system calls.
    pub const MMAPABLE: u32 = 1 << 10;
}

/// Flags of `bpf_map_update_elem`.
pub mod update {
    /// Insert or overwrite.
    pub const ANY: u64 = 0;
    /// Insert only; -EEXIST if there.
    pub const NOEXIST: u64 = 1;
    /// Overwrite only.
    pub const EXIST: u64 = 2;
}

/// What has to be created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapSpec {
    /// At most 15 bytes of `[A-Za-z0-9_.]` reach the kernel.
    pub name: String,
    /// Kind.
    pub kind: MapKind,
    /// Bytes of a key; 0 for ring buffers.
    pub key_size: u32,
    /// Bytes of a value (on one CPU).
    pub value_size: u32,
    /// Elements; bytes (a power of two, whole pages) for ring buffers. 0 means one per possible CPU.
    pub max_entries: u32,
    /// Creation [`flags`].
    pub flags: u32,
    /// Written to element 0 of an array before the program is loaded.
    pub initial: Option<Vec<u8>>,
    /// Freeze after writing `initial`, so that the verifier treats the contents as constants.
    pub frozen: bool,
}

impl MapSpec {
    /// An array of `count` zeroed values.
    pub fn array(name: &str, value_size: u32, count: u32) -> MapSpec {
        MapSpec {
            name: name.to_string(),
            kind: MapKind::Array,
            key_size: 4,
            value_size,
            max_entries: count,
            flags: 0,
            initial: None,
            frozen: false,
        }
    }
}
