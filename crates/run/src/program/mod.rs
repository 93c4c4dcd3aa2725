//! A compiled program in, its output out: load, attach, drain, print, account for losses.

// From the lowest layer to the highest.
pub mod value;

pub mod decode;

pub mod shown;

mod gfp_flags;
mod ia32;
pub mod text;

mod series;

pub mod columns;
pub mod map_text;

pub mod folded;
pub mod json;
pub mod table;
pub mod metrics;
pub mod printf;

pub mod compiled;

pub mod contents;
pub mod intervals;

pub mod output;

pub mod host_names;
pub mod losses;
mod packets;

pub mod records;

pub mod filters;
pub mod live_environment;
mod refusal;

pub mod compile;

pub mod session;

pub mod checks;
pub mod dry_run;
pub mod rates;

pub use compiled::Compiled;
pub use folded::FoldedMap;
pub use live_environment::LiveEnvironment;
pub use refusal::explained;
pub use session::{Finished, RunOptions, SessionError};

#[cfg(test)]
mod tests;
