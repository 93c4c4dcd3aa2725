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

#[cfg(test)]
mod tests;
