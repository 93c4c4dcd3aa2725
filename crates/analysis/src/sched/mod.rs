//! Where threads run, wait for a CPU, and sleep: the scheduler analysis.
//!
//! A trace's switches and wakeups in, a [`SchedResult`] out. The definitions are those
//! of ARCHITECTURE.md, "Scheduler analysis".

pub mod options;
pub mod result;

pub use options::SchedOptions;
pub use result::SchedResult;
