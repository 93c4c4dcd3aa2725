//! Workloads whose truth is known, and the peers to compare with. Ships nothing.

pub mod skip;

pub mod saved_facts;
pub mod load;
pub mod scenario;
pub mod synthetic;
