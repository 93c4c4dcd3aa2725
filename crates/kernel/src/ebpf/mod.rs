//! bpf(2): maps, programs, links, rings. Descriptors only, nothing is pinned, so that the kernel takes
//! everything away when this process ends, however it ends.

// From the lowest layer to the highest.
mod call;

pub mod rights;
pub mod map;

pub mod ring;

pub mod types;

pub mod program;

pub mod link;

pub mod statistics;

pub use link::Link;
pub use map::{Map, MappedArray};
pub use program::{LoadRefused, LoadedProgram};
pub use ring::Ring;
