//! The shelf: each tool against something that happened a known number of times, with known sizes or durations.
//! One module for each family, and what they share.

mod shared;

mod load;

mod engine;

mod applications;
mod block;
mod files;
mod interrupts;
mod locks;
mod memory;
mod network;
mod processes;
mod scheduler;
mod syscalls;

mod on_kernels;
