//! What the compiler hands to a loader: maps to create, programs to load, where to attach them. Plain
//! data; every name in it is resolved (BTF ids, offsets, addresses), nothing is looked up at load time.

use crate::encode::{MapReferences, encode};
use crate::insn::Instruction;
use crate::map::MapSpec;
use crate::program::{AttachType, ProgramType};

/// A compiled program text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Image {
    /// `license` of every program; helpers marked GPL-only need "GPL".
    pub license: String,
    /// Maps, in the order of the indexes that instructions use.
    pub maps: Vec<MapSpec>,
    /// Which maps serve the tool itself.
    pub system: SystemMaps,
    /// Programs, in the order of their definition in the text.
    pub programs: Vec<Program>,
    /// Own BTF for subprograms, to be loaded before the programs that have `functions`.
    pub btf: Option<Vec<u8>>,
    /// Modules whose BTF descriptors follow the maps in `fd_array`, for module kfuncs: a call's
    /// `module` number is `maps.len() + position` here.
    pub modules: Vec<String>,
}

/// Indexes of maps that no user named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemMaps {
    /// The ring buffer of all streamed records.
    pub ring: Option<u32>,
    /// One mmapable array element: globals first, then one block per possible CPU.
    pub data: Option<u32>,
    /// Per-CPU array of strings, big keys and records under construction.
    pub scratch: Option<u32>,
    /// Read-only constants: long strings, lookup tables.
    pub constants: Option<u32>,
    /// Stack ids to frames.
    pub stacks: Vec<u32>,
}

/// One program to load.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// For messages and, shortened to 15 bytes, for the kernel.
    pub name: String,
    /// `prog_type`.
    pub kind: ProgramType,
    /// `expected_attach_type`.
    pub expected_attach: AttachType,
    /// `attach_btf_id` of tp_btf, fentry, fexit and iterators.
    pub attach_btf_id: Option<u32>,
    /// The module whose BTF holds `attach_btf_id`; vmlinux if none.
    pub attach_module: Option<String>,
    /// `BPF_F_SLEEPABLE` and others.
    pub load_flags: u32,
    /// Where it runs.
    pub attach: Attach,
    /// Code; function 0 is the program, the others are its subprograms and callbacks.
    pub instructions: Vec<Instruction>,
    /// Functions by first slot, ascending. Empty when there is only the program itself.
    pub functions: Vec<Function>,
    /// `bpf_line_info` for the own BTF; empty without it.
    pub lines: Vec<Line>,
    /// Source of each instruction: (first slot, byte range of the program text), ascending by slot.
    pub spans: Vec<CodeSpan>,
    /// Index of the probe in the program text, counted from 0.
    pub probe: u32,
}

impl Program {
    /// The load call's `insns`.
    pub fn encode(&self, maps: MapReferences<'_>) -> Vec<u8> {
        encode(&self.instructions, maps)
    }

    /// The source range that the instruction at `slot` came from.
    pub fn span_at(&self, slot: u32) -> Option<CodeSpan> {
        let after = self.spans.partition_point(|span| span.slot <= slot);
        self.spans.get(after.checked_sub(1)?).copied()
    }

    /// `bpf_func_info` records (8 bytes each).
    pub fn function_info(&self) -> Vec<u8> {
        self.functions.iter().flat_map(|f| [f.slot, f.type_id]).flat_map(u32::to_le_bytes).collect()
    }

    /// `bpf_line_info` records (16 bytes each).
    pub fn line_info(&self) -> Vec<u8> {
        self.lines
            .iter()
            .flat_map(|l| [l.slot, l.file_name, l.text, l.line << 10 | l.column.min(1023)])
            .flat_map(u32::to_le_bytes)
            .collect()
    }
}

/// A function within a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// First slot.
    pub slot: u32,
    /// Its `FUNC` in the own BTF.
    pub type_id: u32,
    /// Name, as in the own BTF.
    pub name: String,
}

/// A line record; offsets point into the own BTF's strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// First slot.
    pub slot: u32,
    /// String offset of the file name.
    pub file_name: u32,
    /// String offset of the line's text.
    pub text: u32,
    /// From 1.
    pub line: u32,
    /// From 1.
    pub column: u32,
}

/// Bytes `start..end` of the program text produced the instructions from `slot` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeSpan {
    /// First slot.
    pub slot: u32,
    /// First byte.
    pub start: u32,
    /// Byte after the last.
    pub end: u32,
}

/// Where a program runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Attach {
    /// Once, by `BPF_PROG_TEST_RUN`, when `begin` (before all others), `end` (after all others) or a
    /// signal says so.
    TestRun(Moment),
    /// Typed raw tracepoint; the program carries the BTF id.
    TpBtf {
        /// Tracepoint name without category.
        name: String,
        /// Probes of the text that it stands for.
        places: u32,
        /// `bpf_get_attach_cookie` (kernel 6.10 for tp_btf).
        cookie: u64,
    },
    /// Untyped raw tracepoints.
    RawTracepoint {
        /// Places; without categories.
        targets: Vec<TracepointTarget>,
    },
    /// Tracepoints through perf; the loader reads their ids.
    Tracepoint {
        /// Places.
        targets: Vec<TracepointTarget>,
    },
    /// Function entry or return by breakpoint.
    Kprobe {
        /// At return rather than entry.
        on_return: bool,
        /// One link for all (`BPF_TRACE_KPROBE_MULTI`).
        multi: bool,
        /// Places.
        targets: Vec<KernelTarget>,
    },
    /// Function entry or return by trampoline; the program carries the BTF id.
    Trampoline {
        /// For messages.
        function: String,
        /// fexit rather than fentry.
        on_return: bool,
        /// `bpf_get_attach_cookie`.
        cookie: u64,
    },
    /// User-space function entry or return, or USDT.
    Uprobe {
        /// At return rather than entry.
        on_return: bool,
        /// One link for all (`BPF_TRACE_UPROBE_MULTI`, kernel 6.6).
        multi: bool,
        /// Binary or library, as this process reaches it.
        path: String,
        /// Only this process.
        pid: Option<u32>,
        /// Places.
        targets: Vec<UserTarget>,
    },
    /// A perf event on every CPU (or one CPU for intervals).
    PerfEvent(PerfEventSpec),
    /// A hardware breakpoint on data or code.
    Breakpoint {
        /// Address in the traced process, or of the kernel.
        address: u64,
        /// 1, 2, 4 or 8 bytes.
        length: u8,
        /// `r`, `w`, `x` as bits 1, 2, 4 (`HW_BREAKPOINT_*`).
        mode: u8,
        /// Only this process.
        pid: Option<u32>,
    },
    /// An iterator, run once and read to its end.
    Iterator {
        /// `task`, `task_file`, `task_vma`, …
        target: String,
        /// Pin here rather than run.
        pin: Option<String>,
    },
}

/// When a program that nothing in the kernel triggers is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before anything is attached.
    Begin,
    /// After everything is detached.
    End,
    /// When the tracer receives this signal.
    Signal(String),
    /// A test named so.
    Test(String),
    /// A benchmark named so.
    Bench(String),
}

/// One tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracepointTarget {
    /// For example `sched`; empty for raw tracepoints.
    pub category: String,
    /// For example `sched_switch`.
    pub name: String,
    /// `bpf_get_attach_cookie` (kernel 5.15; 6.10 for raw tracepoints).
    pub cookie: u64,
}

/// One place in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelTarget {
    /// Function symbol; empty if only the address is known.
    pub symbol: String,
    /// Restrict to this module.
    pub module: Option<String>,
    /// Bytes after the symbol.
    pub offset: u64,
    /// Absolute address, where the symbol does not do.
    pub address: Option<u64>,
    /// `bpf_get_attach_cookie`.
    pub cookie: u64,
}

/// One place in a user-space file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserTarget {
    /// For messages and the `probe` builtin.
    pub symbol: String,
    /// Offset in the file.
    pub file_offset: u64,
    /// Offset of the USDT semaphore in the file, 0 if none.
    pub semaphore: u64,
    /// `bpf_get_attach_cookie`.
    pub cookie: u64,
}

/// `perf_event_attr`, the part that programs are attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfEventSpec {
    /// `PERF_TYPE_*`: 0 hardware, 1 software, 3 cache, 4 raw.
    pub event_type: u32,
    /// `config`.
    pub config: u64,
    /// How often.
    pub rate: Rate,
    /// On every online CPU rather than the one that the loader picks.
    pub every_cpu: bool,
}

/// How often a perf event fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Every so many counts (nanoseconds for clocks).
    Period(u64),
    /// So many times a second, adjusted by the kernel.
    Frequency(u64),
}
