//! A recipe in, a run folder out: preflight, compile, load, record, drain, account, store. Parses no arguments and draws nothing.

mod quantity;
pub mod metric;
pub mod recipe;
pub mod program;
pub mod tool;
pub mod record;
pub mod preflight;
pub mod wall_time;
pub mod run_record;
pub mod folder;
pub mod counters;
pub mod session;
mod whose;
pub mod answer;
pub mod retention;
