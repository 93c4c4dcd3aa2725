//! A compiled program in, its output out: load, attach, drain, print, account for losses.

// From the lowest layer to the highest.
pub mod value;

pub mod decode;

pub mod shown;

mod gfp_flags;
mod series;
pub mod text;

pub mod json;
pub mod printf;

pub mod compiled;

pub mod contents;

pub mod output;

pub mod host_names;
pub mod losses;
mod packets;

pub mod records;

pub mod live_environment;

pub mod session;

pub use compiled::Compiled;
pub use session::{Finished, RunOptions, SessionError};

#[cfg(test)]
mod tests;
