//! Executables and libraries, as far as probes in them and names of their code need it: segments, symbols,
//! static probes. Read piecewise with bounds, never mapped: a file may shrink while it is read.

mod file;
mod library;
mod debug_file;
// One recursion in several files: symbols come from several tables, whose readers give symbols.
mod symbols;
mod go;
mod plt;
mod usdt;
#[cfg(test)]
mod tests;

pub use file::{EM_AARCH64, EM_X86_64, ElfFile, NotElf};
pub use library::{find_libraries, library_cache};
pub use symbols::{ElfSymbol, FoundSymbol, SymbolKind};
pub use usdt::StaticProbe;
