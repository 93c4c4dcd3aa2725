//! Executables and libraries, as far as probes in them need it: segments, symbols, static probes. Read
//! piecewise with bounds, never mapped: a file may shrink while it is read.

mod file;
mod library;
mod symbols;
mod usdt;
#[cfg(test)]
mod tests;

pub use file::{ElfFile, NotElf};
pub use library::{find_libraries, library_cache};
pub use symbols::{ElfSymbol, SymbolKind};
pub use usdt::StaticProbe;
