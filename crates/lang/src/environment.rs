//! What the compiler asks of the file system and of loaded programs, as a trait: the compiler
//! itself opens nothing, and a test answers from a table. The kernel's own facts come from
//! [`bpf::KernelFacts`].

use bpf::btf::{Btf, TypeId};

/// Why a question could not be answered, in words for the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unanswered(pub String);

/// A function in an executable or library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbol {
    /// Name in the symbol table.
    pub name: String,
    /// Demangled name, where it differs.
    pub demangled: Option<String>,
    /// Address the file gives it.
    pub address: u64,
    /// Offset of its first byte in the file, by the segment that holds it.
    pub file_offset: u64,
    /// Bytes; 0 where not known.
    pub size: u64,
}

/// A static probe in an executable or library, from its `.note.stapsdt`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsdtNote {
    /// Provider.
    pub provider: String,
    /// Name.
    pub name: String,
    /// Offset of the instruction in the file.
    pub file_offset: u64,
    /// Offset of the semaphore in the file, 0 for none.
    pub semaphore_offset: u64,
    /// Argument descriptions as they are in the note (`-4@%eax 8@-16(%rbp)`).
    pub arguments: String,
}

/// A function in an executable, from its debug information.
#[derive(Clone, Debug)]
pub struct DebugFunction {
    /// The types that the numbers below mean.
    pub types: Btf,
    /// In the order of the source.
    pub parameters: Vec<DebugParameter>,
    /// Type of the result; 0 for none, or one that is not in the register of results.
    pub result: TypeId,
}

/// A parameter of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DebugParameter {
    /// Name.
    pub name: String,
    /// Type.
    pub type_id: TypeId,
    /// Where it is when the function is entered.
    pub place: ParameterPlace,
}

/// Where a parameter is when its function is entered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ParameterPlace {
    /// In a register, by its name.
    Register(String),
    /// So many bytes above the stack pointer.
    Stack(u32),
    /// Always this value.
    Constant(i64),
    /// Nowhere that a program can read: why.
    Unreadable(String),
}

/// Names matched by a pattern with `*`, `?` and `[…]`.
pub use crate::glob::Pattern;

/// Answers about the machine. Every method has a default that says "not known here", so that
/// a test implements what it needs; the command line implements all.
pub trait Environment {
    /// The file a program names: a path, a command in `PATH`, a library (`libc`, `libssl.so.3`).
    /// With a wildcard in it, all that match.
    fn binaries(&self, name: &str) -> Result<Vec<String>, Unanswered> {
        let _ = name;
        unanswered("files")
    }

    /// Functions of an executable or library that match; with `cpp`, by demangled name.
    fn symbols(&self, path: &str, pattern: &Pattern, cpp: bool) -> Result<Vec<Symbol>, Unanswered> {
        let _ = (path, pattern, cpp);
        unanswered("symbols of files")
    }

    /// A data symbol: address and size.
    fn data_symbol(&self, path: &str, name: &str) -> Result<Option<Symbol>, Unanswered> {
        let _ = (path, name);
        unanswered("symbols of files")
    }

    /// File offset of an address, if it lies in an executable segment.
    fn address_to_offset(&self, path: &str, address: u64) -> Result<Option<u64>, Unanswered> {
        let _ = (path, address);
        unanswered("segments of files")
    }

    /// File offsets of the code of a source line.
    fn source_line(&self, path: &str, file: &str, line: u32) -> Result<Vec<u64>, Unanswered> {
        let _ = (path, file, line);
        unanswered("debug information of files")
    }

    /// Static probes that match.
    fn usdt(&self, path: &str, provider: &Pattern, name: &Pattern) -> Result<Vec<UsdtNote>, Unanswered> {
        let _ = (path, provider, name);
        unanswered("static probes of files")
    }

    /// Parameters and result of a function by debug information; `None` where it does not describe the
    /// function, an error where there is none.
    fn debug_function(&self, path: &str, function: &Symbol) -> Result<Option<DebugFunction>, Unanswered> {
        let _ = (path, function);
        unanswered("debug information of files")
    }

    /// A struct, union, enum or typedef of an executable with all that it needs, by debug information.
    fn debug_type(&self, path: &str, name: &str) -> Result<Option<Btf>, Unanswered> {
        let _ = (path, name);
        Ok(None)
    }

    /// At how many places the code of a function was inlined, by debug information; `None` for a function
    /// that was not, 0 where it was folded away.
    fn inlined(&self, path: &str, function: &str) -> Result<Option<u32>, Unanswered> {
        let _ = (path, function);
        Ok(None)
    }

    /// Functions of loaded BPF programs that match, as `(program id, function)`.
    fn bpf_functions(
        &self,
        program: Option<u32>,
        pattern: &Pattern,
    ) -> Result<Vec<(u32, String)>, Unanswered> {
        let _ = (program, pattern);
        unanswered("loaded BPF programs")
    }

    /// Id of the cgroup at a path.
    fn cgroup_id(&self, path: &str) -> Result<Option<u64>, Unanswered> {
        let _ = path;
        unanswered("cgroups")
    }

    /// Text of a file that the program imports.
    fn import(&self, path: &str) -> Result<String, Unanswered> {
        let _ = path;
        unanswered("imported files")
    }
}

fn unanswered<T>(what: &str) -> Result<T, Unanswered> {
    Err(Unanswered(format!("{what}: not known here")))
}

/// An environment that knows nothing: programs that ask for nothing outside compile in it.
pub struct Nowhere;

impl Environment for Nowhere {}
