//! Every system call and all unsafe code: facts, load, attach, rings, tracefs, perf events, /proc and /sys. Knows neither the language nor the event model.

// From the lowest layer to the highest; a module uses only those above it.
pub mod error;
pub mod clock;
pub mod local_time;
pub mod cpu;
pub mod terminal;
pub mod files;
pub mod directory;
pub mod procfs;
pub mod cgroup;
pub mod usage;
pub mod stop;
pub mod signal_counts;
pub mod process;
pub mod tracefs;
pub mod tracefs_instance;
pub mod tracefs_ring;
pub mod proc_counters;
pub mod task_exits;
pub mod facts_host;

pub mod ebpf;
pub mod perf_event;
pub mod mapped;
pub mod kallsyms;
mod syscall_table;
mod features;
pub mod facts;
pub mod elf;
pub mod debug_info;
pub mod process_maps;
pub mod mapping_events;
pub mod user_symbols;

pub mod attach;
pub mod load;
