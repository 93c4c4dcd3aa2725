//! Where threads run, wait for a CPU, and sleep: the scheduler analysis.
//!
//! A trace's switches and wakeups in, a [`SchedResult`] out. [`analyse`] reads a whole
//! trace; [`SchedAnalysis`] is fed as events come. The definitions are those of
//! ARCHITECTURE.md, "Scheduler analysis".

pub mod options;
pub mod result;

mod reason;
mod threads;
mod cpus;
mod beside;
mod budget;
mod folded;
mod wakers;
mod machine;
mod groups;
mod long;
mod summary;
mod values;
mod refine;
mod had_cpu;
mod findings;
mod assemble;
mod analyse;

pub use analyse::{SchedAnalysis, analyse};
pub use options::SchedOptions;
pub use result::SchedResult;
