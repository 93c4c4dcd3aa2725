//! A trace in, plain results with provenance and losses out. Never prints; knows no
//! file format and no eBPF.
//!
//! Every result is a value that serialises: numbers with their unit in the name, the
//! intervals behind them counted as complete, cut or discarded, and what is missing
//! named with its reason. Modules from the lowest layer to the highest; each uses only
//! those above it.

pub mod distribution;
mod loglinear;
mod kept;
mod axis;
mod heat;
pub mod units;
pub mod sched;
pub mod crosscheck;
