//! What a compiled program will emit: maps with their layouts, streamed records with their
//! formats, the probes with what each attaches to, counters that account for losses.
//!
//! The printing side needs nothing else to turn bytes from the kernel into output.

use crate::format::Format;
use crate::source::Span;
use crate::types::{Type, TypeTable};

/// Index in [`Schema::maps`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct MapId(pub u32);

/// Index in [`Schema::records`]; the first word of each streamed record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct EmitId(pub u32);

/// Index in [`Schema::programs`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ProgramId(pub u32);

/// Everything needed to attach a program, read its maps and print its records.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// Maps of the program text, in order of first appearance.
    pub maps: Vec<Map>,
    /// Kinds of streamed record, one for each call in the text that emits one.
    pub records: Vec<EmittedRecord>,
    /// Programs, one for each piece of code to load.
    pub programs: Vec<Program>,
    /// `strftime` formats that timestamps refer to.
    pub time_formats: Vec<String>,
    /// Strings that run-time values refer to (cgroup filters).
    pub strings: Vec<String>,
    /// Structs and enums that types refer to.
    pub types: TypeTable,
    /// Settings from the `config` block, the environment and defaults, as they took effect.
    pub config: crate::config::Config,
    /// Losses to account for; index in this list = index in the counters' array.
    pub counters: Vec<Counter>,
    /// Highest number of frames of each stack depth in use, `(user, limit)`; one stack map each.
    pub stack_maps: Vec<StackMap>,
    /// Named options (`getopt`) the program asks for.
    pub options: Vec<NamedOption>,
    /// Whether the program calls `selected()`: whose events it sees is its own affair.
    pub selects: bool,
}

/// A map of stacks: key `u64` hash and `u32` depth (padded to 16 bytes), value `limit` × `u64`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StackMap {
    /// User or kernel frames.
    pub user: bool,
    /// Frames in a value.
    pub limit: u16,
}

/// An option asked for with `getopt`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedOption {
    /// The name, without dashes.
    pub name: String,
    /// The default as text (`false` for a flag).
    pub default: String,
    /// What the program says about it.
    pub description: String,
}

/// A map of the program text.
#[derive(Clone, PartialEq, Debug)]
pub struct Map {
    /// With its `@`.
    pub name: String,
    /// Type of the key; a tuple for several; none for a scalar map.
    pub key: Option<Type>,
    /// What each entry holds.
    pub value: MapValue,
    /// How it is stored in the kernel.
    pub storage: Storage,
    /// Greatest number of entries (1 for scalars).
    pub capacity: u32,
    /// Where the text first uses or declares it.
    pub span: Span,
}

/// How a map is stored in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Storage {
    /// One value shared by all CPUs.
    Scalar,
    /// One value for each CPU.
    PerCpuScalar,
    /// Hash table shared by all CPUs.
    Hash,
    /// The same, evicting the least recently used entry when full.
    LruHash,
    /// Hash table with a value for each CPU.
    PerCpuHash,
    /// The same, evicting the least recently used entry when full.
    PerCpuLruHash,
}

impl Storage {
    /// Whether each CPU has its own value.
    pub fn per_cpu(self) -> bool {
        matches!(self, Storage::PerCpuScalar | Storage::PerCpuHash | Storage::PerCpuLruHash)
    }

    /// Whether there is exactly one entry and no key.
    pub fn is_scalar(self) -> bool {
        matches!(self, Storage::Scalar | Storage::PerCpuScalar)
    }
}

/// What an entry of a map holds. Sizes and layouts are those of [`MapValue::size`].
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum MapValue {
    /// A value of that type.
    Plain(Type),
    /// `u64`.
    Count,
    /// `i64` (or `u64` when not signed).
    Sum {
        /// Whether addends are signed.
        signed: bool,
    },
    /// `i64`, then `u64` that is 0 until the first value: unset CPUs do not take part.
    Min {
        /// How values compare.
        signed: bool,
    },
    /// As `Min`.
    Max {
        /// How values compare.
        signed: bool,
    },
    /// `i64` total, `u64` count.
    Avg {
        /// Whether values are signed.
        signed: bool,
    },
    /// `i64` total, `u64` count.
    Stats {
        /// Whether values are signed.
        signed: bool,
    },
    /// `u64` for each bucket: see [`crate::aggregate`] for bucket bounds.
    Hist {
        /// 2^bits buckets for each power of two.
        bits: u8,
    },
    /// `u64` for each bucket: below `min`, then `(max-min)/step` buckets, then `max` and above.
    Lhist {
        /// Lower bound of the first inner bucket.
        min: i64,
        /// Upper bound of the last inner bucket.
        max: i64,
        /// Width of each inner bucket.
        step: i64,
    },
    /// Log-linear with stated error: as `Hist`, printed with percentiles.
    LogLinear {
        /// 2^bits buckets for each power of two: relative error at most 2^-bits.
        bits: u8,
    },
    /// `intervals` × { `u64` interval number plus 1 (0: unused), `i64` value, `i64` total, `u64` count or time }.
    TimeSeries {
        /// Nanoseconds of one interval.
        interval: u64,
        /// Number of intervals kept.
        intervals: u32,
        /// How values of one interval combine.
        combine: Combine,
        /// Whether values are signed.
        signed: bool,
    },
}

/// How `tseries` combines values that fall into the same interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Combine {
    /// The last one.
    Last,
    /// Average.
    Avg,
    /// Least.
    Min,
    /// Greatest.
    Max,
    /// Sum.
    Sum,
}

/// Bytes of one interval of a time series.
pub const TIME_SERIES_SLOT_BYTES: u32 = 32;

impl MapValue {
    /// Bytes of a value (on each CPU, for per-CPU storage).
    pub fn size(&self) -> u32 {
        match self {
            MapValue::Plain(ty) => ty.size(),
            MapValue::Count | MapValue::Sum { .. } => 8,
            MapValue::Min { .. } | MapValue::Max { .. } | MapValue::Avg { .. } | MapValue::Stats { .. } => 16,
            MapValue::Hist { bits } | MapValue::LogLinear { bits } => {
                crate::aggregate::hist_buckets(*bits) * 8
            }
            MapValue::Lhist { min, max, step } => crate::aggregate::lhist_buckets(*min, *max, *step) * 8,
            MapValue::TimeSeries { intervals, .. } => intervals * TIME_SERIES_SLOT_BYTES,
        }
    }

    /// Whether it is kept for each CPU and combined on reading.
    pub fn is_aggregate(&self) -> bool {
        !matches!(self, MapValue::Plain(_))
    }
}

/// A streamed record is a [`RECORD_HEADER_BYTES`] header, the fixed part with each argument
/// at its offset, then the bytes of strings and buffers.
///
/// Header: `u32` [`EmitId`], `u32` length of the whole record.
pub const RECORD_HEADER_BYTES: u32 = 8;

/// A string or buffer argument is 8 bytes in the fixed part: `u32` offset of its bytes from
/// the start of the record, `u32` length (a string without its NUL; see [`TEXT_CUT`]).
pub const TEXT_SLOT_BYTES: u32 = 8;

/// Set in a text slot's length when the text was longer than its room: the trailer is printed.
pub const TEXT_CUT: u32 = 1 << 31;

/// One kind of streamed record.
#[derive(Clone, PartialEq, Debug)]
pub struct EmittedRecord {
    /// What to do with it.
    pub kind: EmitKind,
    /// Arguments in order, each at its offset from the start of the record.
    pub arguments: Vec<Argument>,
    /// Bytes of header and fixed part.
    pub fixed_size: u32,
    /// Most bytes a whole record can take.
    pub max_size: u32,
    /// The call in the program text.
    pub span: Span,
}

/// An argument of a streamed record.
#[derive(Clone, PartialEq, Debug)]
pub struct Argument {
    /// Its type; strings and buffers are text slots.
    pub ty: Type,
    /// Bytes from the start of the record.
    pub offset: u32,
}

impl EmittedRecord {
    /// Lays out arguments of these types after the header.
    pub fn new(kind: EmitKind, types: Vec<Type>, span: Span) -> EmittedRecord {
        let mut offset = RECORD_HEADER_BYTES;
        let mut tail = 0u32;
        let mut arguments = Vec::with_capacity(types.len());
        for ty in types {
            let (size, align) = match &ty {
                Type::String(room) | Type::Buffer(room) => {
                    tail = tail.saturating_add(room.next_multiple_of(8));
                    (TEXT_SLOT_BYTES, 4)
                }
                other => (other.size(), other.align()),
            };
            offset = offset.next_multiple_of(align);
            arguments.push(Argument { ty, offset });
            offset = offset.saturating_add(size);
        }
        let fixed_size = offset.next_multiple_of(8);
        EmittedRecord { kind, arguments, fixed_size, max_size: fixed_size.saturating_add(tail), span }
    }
}

/// What to do with a streamed record.
#[derive(Clone, PartialEq, Debug)]
pub enum EmitKind {
    /// `printf`: format and print.
    Printf(Format),
    /// `errorf`: the same on stderr as an error with the call's place.
    Errorf(Format),
    /// `warnf`: the same as a warning.
    Warnf(Format),
    /// `print(value)`: argument 0, default format, a newline after it.
    Print,
    /// `print((name=value, …))`: the arguments are the fields of these names, so that texts take what they need.
    PrintRecord(Vec<String>),
    /// `print(@map[, top[, div]])`: argument 0 is top, argument 1 is div (`uint64`; 0 means all / undivided).
    PrintMap(MapId),
    /// `print(@map[key])` of an aggregate: the key is argument 0.
    PrintMapElement(MapId),
    /// `clear(@map)`.
    Clear(MapId),
    /// `zero(@map)`.
    Zero(MapId),
    /// `time(format)`.
    Time(String),
    /// `join(array, separator)`: the arguments are strings, in a text slot each; empty slots are not printed.
    Join(String),
    /// `cat(format, …)`.
    Cat(Format),
    /// `system(format, …)`.
    System(Format),
    /// `exit(code)`: argument 0 is the code (`int32`).
    Exit,
    /// `skboutput(path, skb, length, offset)`: packet bytes as one buffer, then `uint64` time.
    SkbOutput(String),
    /// `unwatch(address)`.
    Unwatch,
    /// A helper failed (with `-k`): argument 0 is the helper's number, 1 its result.
    HelperError,
    /// `delete` of a key that was not there, with its result discarded: a warning (with `-k`).
    MissingKey(MapId),
    /// A read of an entry that was not there (with `-k`).
    MissingEntry(MapId),
    /// A division by zero (with `-k`).
    DividedByZero,
    /// An `assert` that did not hold: argument 0 is its text.
    AssertFailed,
}

/// Something that was not recorded, or the total to set it against.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Counter {
    /// Times the program ran.
    Seen(ProgramId),
    /// Times its predicate was false.
    Filtered(ProgramId),
    /// Updates a map refused because it was full.
    MapFull(MapId),
    /// Updates of a map that failed for another reason.
    MapFailed(MapId),
    /// Records the ring had no room for.
    RingFull(EmitId),
    /// Stacks that could not be stored or walked.
    StackLost,
    /// Reads of memory that failed (a page not present, a bad address).
    ReadFailed,
    /// Divisions by zero, whose result is 1.
    DividedByZero,
}

/// A program to load, with what to attach it to.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// Unique name, made from its first probe (`tracepoint_sched_sched_switch_1`).
    pub name: String,
    /// Kind of program the kernel is told.
    pub kind: ProgramKind,
    /// What it attaches to; index = attach cookie when `cookies`.
    pub targets: Vec<Target>,
    /// Whether the code reads its attach cookie to know which target fired.
    pub cookies: bool,
    /// The probe in the text.
    pub span: Span,
    /// Whether it may sleep (`uprobe.s`), so that it can fault pages in.
    pub sleepable: bool,
}

/// Program types as the loader knows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ProgramKind {
    /// `begin`, `end`, `self:signal`, `test`, `bench`: run by the tracer itself (a raw tracepoint program under `BPF_PROG_RUN`).
    Special,
    /// Tracepoint with its format's record as context.
    Tracepoint,
    /// Raw tracepoint: context is an array of `u64`.
    RawTracepoint,
    /// Raw tracepoint with BTF (`tp_btf`): the same context with typed pointers.
    TracingRawTracepoint,
    /// `fentry`.
    Fentry,
    /// `fexit`.
    Fexit,
    /// kprobe, kretprobe, uprobe, uretprobe, usdt: context is `pt_regs`.
    Kprobe,
    /// profile, interval, software, hardware, watchpoint: context is `bpf_perf_event_data`.
    PerfEvent,
    /// BPF iterator.
    Iterator,
}

/// One thing a program attaches to.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    /// The expanded probe as `probe` prints it (`kprobe:vfs_read`).
    pub name: String,
    /// What to attach to.
    pub attach: Attach,
    /// The attach point in the text.
    pub span: Span,
}

/// What to attach to.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum Attach {
    /// Before all others.
    Begin,
    /// After all others are detached.
    End,
    /// When the tracer gets this signal (`SIGUSR1`).
    Signal(String),
    /// `test:name`.
    Test(String),
    /// `bench:name`.
    Bench(String),
    /// A tracepoint through perf.
    Tracepoint {
        /// `sched`.
        category: String,
        /// `sched_switch`.
        name: String,
    },
    /// A raw tracepoint, also for `tp_btf`.
    RawTracepoint {
        /// Module that has it, none for the kernel itself or where not said.
        module: Option<String>,
        /// `sched_switch`.
        name: String,
        /// BTF id of the type `btf_trace_…` (0 where there is none): what `tp_btf` attaches by.
        btf_id: u32,
    },
    /// A kernel function by kprobe.
    Kprobe {
        /// Module, where the text names one.
        module: Option<String>,
        /// Function; empty with an absolute address.
        function: String,
        /// Bytes from its start, or the absolute address when `function` is empty.
        offset: u64,
        /// kretprobe.
        at_return: bool,
    },
    /// A kernel function by BTF trampoline.
    Trampoline {
        /// Module that has it (`vmlinux` for the kernel).
        module: Option<String>,
        /// Function.
        function: String,
        /// Its BTF id.
        btf_id: u32,
    },
    /// A function of a loaded BPF program by trampoline.
    BpfTrampoline {
        /// Program id, where the text names one.
        program_id: Option<u32>,
        /// Function in that program.
        function: String,
    },
    /// A place in an executable or library.
    Uprobe {
        /// Path as the tracer opens it.
        path: String,
        /// Function, or empty.
        function: String,
        /// Offset in the file.
        offset: u64,
        /// uretprobe.
        at_return: bool,
    },
    /// A static user probe.
    Usdt {
        /// Path as the tracer opens it.
        path: String,
        /// Provider.
        provider: String,
        /// Name.
        name: String,
        /// Offset of the instruction in the file.
        offset: u64,
        /// Offset of the semaphore in the file, 0 for none.
        semaphore: u64,
    },
    /// Sampling on each CPU.
    Profile(Period),
    /// A timer on one CPU.
    Interval(Period),
    /// A software event of perf.
    Software {
        /// `PERF_COUNT_SW_…`.
        config: u64,
        /// Events for one hit.
        count: u64,
    },
    /// A hardware event of perf.
    Hardware {
        /// `PERF_TYPE_HARDWARE` or `PERF_TYPE_HW_CACHE`.
        perf_type: u32,
        /// `PERF_COUNT_HW_…`.
        config: u64,
        /// Events for one hit.
        count: u64,
    },
    /// A breakpoint on data or code.
    Watchpoint {
        /// Address to watch; with `function`: number of the argument that holds it.
        address: u64,
        /// Bytes: 1, 2, 4 or 8.
        length: u8,
        /// Bits of `HW_BREAKPOINT_R|W|X`.
        mode: u8,
        /// `watchpoint:function+argN`: the function whose argument is the address.
        function: Option<String>,
        /// `asyncwatchpoint`.
        asynchronous: bool,
    },
    /// A BPF iterator.
    Iterator {
        /// `task`, `task_file`, …
        kind: String,
        /// BTF id of `bpf_iter_…`.
        btf_id: u32,
        /// Where to pin it.
        pin: Option<String>,
    },
}

/// How often a timed probe fires.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Period {
    /// Times in a second.
    Hertz(u64),
    /// Nanoseconds between.
    Nanoseconds(u64),
}
