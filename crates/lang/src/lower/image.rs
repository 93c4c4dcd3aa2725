//! From the typed program to the image: every program lowered, optimised, emitted; maps collected.

use bpf::btf::BtfWriter;
use bpf::image::{
    self, CodeSpan, Function as ImageFunction, Image, Line, Moment, PerfEventSpec, Rate, SystemMaps,
};
use bpf::map::{MapKind, MapSpec, flags};
use bpf::program::{AttachType, ProgramType};
use bpf::{KernelFacts, facts::Feature};

use super::builder::{Builder, Scope};
use super::{CONSTANTS, CompileError, FIRST_MAP, RATES, SCRATCH, SCRATCH_STRIDE, Shared, place_of};
use crate::emit::{Emitted, Machine, emit};
use crate::hir;
use crate::layout::Layout;
use crate::lir::passes::{drop_unused_functions, optimise};
use crate::lir::{Op, Source as LirSource, Terminator, Unit, Val};
use crate::schema::{Attach, Counter, EmittedRecord, Period, Program, ProgramKind, Schema, Storage};
use crate::source::{Source, Span};

/// A compiled program text.
#[derive(Debug)]
pub struct Compiled {
    /// What is loaded.
    pub image: Image,
    /// Where its maps are.
    pub layout: Layout,
    /// Records to put after those of the schema: reports of failures (`-k`).
    pub reports: Vec<EmittedRecord>,
    /// LIR of each program, for `--emit lir`.
    pub units: Vec<Unit>,
}

impl Compiled {
    /// Annotated assembly of all programs, for `--emit asm`.
    pub fn listing(&self, source: &Source) -> String {
        let mut out = String::new();
        for program in &self.image.programs {
            out.push_str(&format!("program {} ({})\n", program.name, program.kind.name()));
            let functions: Vec<(u32, String)> =
                program.functions.iter().map(|function| (function.slot, function.name.clone())).collect();
            let spans: Vec<(u32, Span)> =
                program.spans.iter().map(|s| (s.slot, Span { start: s.start, end: s.end })).collect();
            out.push_str(&crate::emit::listing::listing(&program.instructions, &functions, &spans, source));
        }
        out
    }

    /// LIR of all programs as text.
    pub fn lir(&self) -> String {
        let mut out = String::new();
        for (program, unit) in self.image.programs.iter().zip(&self.units) {
            out.push_str(&format!("program {}\n{unit}", program.name));
        }
        out
    }
}

/// Compiles a checked program for a kernel. `source` gives line information to programs with callbacks.
pub fn compile(
    program: &hir::Program,
    facts: &dyn KernelFacts,
    source: Option<&Source>,
) -> Result<Compiled, CompileError> {
    compile_with(program, facts, source, true)
}

/// The same, with or without the passes.
pub(super) fn compile_with(
    program: &hir::Program,
    facts: &dyn KernelFacts,
    source: Option<&Source>,
    optimised: bool,
) -> Result<Compiled, CompileError> {
    let mut shared = Shared::new(program, facts);
    let mut units = Vec::with_capacity(program.probes.len());
    for probe in &program.probes {
        units.push(lower_probe(&mut shared, probe));
    }
    if !shared.errors.is_empty() {
        return Err(CompileError::Unsupported(shared.errors));
    }
    let schema = &program.schema;
    let layout = shared.layout.clone();
    let reports = std::mem::take(&mut shared.reports);
    let mut maps = schema_maps(schema, &layout);
    let mut system = SystemMaps { data: Some(super::DATA), ring: Some(super::RING), ..SystemMaps::default() };
    system.stacks = layout.stacks.clone();
    let mut numbers = Numbers::default();
    let stride = shared.scratch.next_multiple_of(64).max(64);
    if shared.scratch > 0 {
        numbers.scratch = maps.len() as u32;
        system.scratch = Some(numbers.scratch);
        maps.push(MapSpec::array("scratch", stride.saturating_mul(layout.cpu_blocks), 1));
    }
    if shared.rate_sites > 0 {
        numbers.rates = maps.len() as u32;
        let bytes = shared.rate_sites * layout.cpu_blocks * super::intrinsic::RATE_BYTES;
        maps.push(MapSpec::array("rates", bytes, 1));
    }
    let constants = shared.constants.finish();
    if let Some((_, bytes)) = &constants {
        numbers.constants = maps.len() as u32;
        system.constants = Some(numbers.constants);
        let mut spec = MapSpec::array("constants", bytes.len() as u32, 1);
        spec.flags = flags::RDONLY_PROG;
        spec.initial = Some(bytes.clone());
        maps.push(spec);
    }
    let place = constants.map(|(place, _)| place);
    let machine = Machine { v4: facts.has(Feature::InstructionsV4) };
    let mut image = Image {
        license: if schema.config.license.is_empty() { "GPL".into() } else { schema.config.license.clone() },
        maps,
        system,
        ..Image::default()
    };
    let mut types = OwnTypes::default();
    for (unit, probe) in units.iter_mut().zip(&program.probes) {
        numbers.apply(unit, stride, &place);
        if optimised {
            optimise(unit);
        } else {
            drop_unused_functions(unit);
        }
        let description = &schema.programs[probe.program.0 as usize];
        let emitted = emit(unit, machine)
            .map_err(|error| CompileError::Emit { program: description.name.clone(), error })?;
        image.programs.push(image_program(
            description,
            probe.program.0,
            unit,
            emitted,
            facts,
            &mut types,
            source,
        ));
    }
    image.btf = types.finish();
    Ok(Compiled { image, layout, reports, units })
}

/// Final numbers of maps.
#[derive(Default)]
struct Numbers {
    scratch: u32,
    constants: u32,
    rates: u32,
}

impl Numbers {
    fn apply(&self, unit: &mut Unit, stride: u32, place: &Option<impl Fn(u32) -> u32>) {
        let fix = |source: &mut LirSource| {
            if let LirSource::MapValue { map, offset } = source {
                match *map {
                    SCRATCH => *map = self.scratch,
                    RATES => *map = self.rates,
                    CONSTANTS => {
                        *map = self.constants;
                        if let Some(place) = place {
                            *offset = place(*offset);
                        }
                    }
                    _ => {}
                }
            }
        };
        for instruction in
            unit.functions.iter_mut().flat_map(|f| &mut f.blocks).flat_map(|block| &mut block.instructions)
        {
            match &mut instruction.op {
                Op::Set { value, .. } => fix(value),
                Op::Call { arguments, .. } => arguments.iter_mut().for_each(fix),
                Op::Binary { right: right @ Val::Imm(SCRATCH_STRIDE), .. } => {
                    *right = Val::Imm(stride.into())
                }
                _ => {}
            }
        }
    }
}

fn lower_probe(shared: &mut Shared<'_>, probe: &hir::Probe) -> Unit {
    let description = &shared.schema.programs[probe.program.0 as usize];
    let tracepoint = match description.targets.first().map(|target| &target.attach) {
        Some(Attach::RawTracepoint { name, .. }) => name.clone(),
        _ => String::new(),
    };
    let (name, kind) = (description.name.clone(), description.kind);
    let scratch_base = shared.scratch;
    let mut builder = Builder {
        shared,
        unit: Unit::default(),
        frames: Vec::new(),
        scopes: Vec::new(),
        kind,
        tracepoint,
        span: Span::NONE,
        cold: false,
        // The first word tells callbacks' callers to leave.
        scratch_top: 8,
        scratch_most: 0,
        scratch_base,
        control: None,
        calls: Vec::new(),
    };
    builder.begin_function(name, &["context"], 0);
    let context = builder.function().parameters[0];
    builder.frame().context = Some(context);
    let facts = super::analysis::variables(&probe.body, 0, probe.predicate.as_ref());
    // Filters first: variables get their places and zeros after the predicate, unless it has some itself.
    let early = probe.predicate.as_ref().is_some_and(super::analysis::mentions_local);
    let mut facts = Some(facts);
    match facts.take_if(|_| early) {
        Some(facts) => builder.open_scope(&probe.body, facts, None),
        None => builder.scopes.push(Scope::empty()),
    }
    builder.skip_end_of_iteration();
    if let Some(own) = &probe.own {
        builder.leave_unless(own, None);
    }
    builder.bump(Counter::Seen(probe.program));
    if let Some(predicate) = &probe.predicate {
        builder.leave_unless(predicate, Some(Counter::Filtered(probe.program)));
    }
    if let Some(facts) = facts {
        builder.scopes.pop();
        builder.open_scope(&probe.body, facts, None);
    }
    builder.block(&probe.body.block);
    builder.end(Terminator::Return(Val::Imm(0)));
    let (unit, used) = (builder.unit, builder.scratch_most);
    let used = if builder.control.is_some() { used.max(8) } else { used };
    shared.scratch += used.next_multiple_of(8);
    unit
}

impl Builder<'_, '_> {
    /// Goes on where the condition holds; elsewhere counts that and ends the program.
    fn leave_unless(&mut self, condition: &hir::Expr, count: Option<Counter>) {
        self.span = condition.span;
        let (body, out) = (self.new_block(), self.cold_block());
        let mark = self.mark();
        self.condition(condition, body, out);
        self.release(mark);
        self.switch(out);
        if let Some(counter) = count {
            self.bump(counter);
        }
        self.end(Terminator::Return(Val::Imm(0)));
        self.switch(body);
        self.span = Span::NONE;
    }
}

fn schema_maps(schema: &Schema, layout: &Layout) -> Vec<MapSpec> {
    let data_size = layout.cpu_start + layout.cpu_stride.saturating_mul(layout.cpu_blocks);
    let mut data = MapSpec::array("data", data_size.max(8), 1);
    data.flags = flags::MMAPABLE;
    let ring = MapSpec {
        name: "ring".into(),
        kind: MapKind::RingBuf,
        key_size: 0,
        value_size: 0,
        max_entries: ring_bytes(schema),
        flags: 0,
        initial: None,
        frozen: false,
    };
    let mut maps = vec![data, ring];
    debug_assert_eq!(maps.len() as u32, FIRST_MAP);
    let hash = |name: &str, kind: MapKind, key: u32, value: u32, entries: u32| {
        let lru = matches!(kind, MapKind::LruHash | MapKind::LruPerCpuHash);
        MapSpec {
            name: name.trim_start_matches('@').to_string(),
            kind,
            key_size: key.max(1),
            value_size: value.max(1),
            max_entries: entries.max(1),
            // LRU maps are always preallocated.
            flags: if lru { 0 } else { flags::NO_PREALLOC },
            initial: None,
            frozen: false,
        }
    };
    for map in &schema.maps {
        let kind = match map.storage {
            Storage::Scalar | Storage::PerCpuScalar => continue,
            Storage::Hash => MapKind::Hash,
            Storage::LruHash => MapKind::LruHash,
            Storage::PerCpuHash => MapKind::PerCpuHash,
            Storage::PerCpuLruHash => MapKind::LruPerCpuHash,
        };
        let key = map.key.as_ref().map_or(1, |key| key.size());
        maps.push(hash(&map.name, kind, key, map.value.size(), map.capacity));
    }
    for stack in &schema.stack_maps {
        let name = if stack.user { "ustack" } else { "kstack" };
        maps.push(hash(name, MapKind::Hash, 16, u32::from(stack.limit.max(1)) * 8, STACKS));
    }
    maps
}

/// Distinct stacks kept of each kind; elements are allocated as they come.
const STACKS: u32 = 128 * 1024;

/// A power of two of whole pages: `perf_rb_pages`, for all CPUs together.
fn ring_bytes(schema: &Schema) -> u32 {
    const PAGE: u32 = 4096;
    schema.config.perf_rb_pages.clamp(1, 1 << 16).next_power_of_two().saturating_mul(PAGE)
}

/// BTF of callbacks.
#[derive(Default)]
struct OwnTypes {
    writer: BtfWriter,
    basic: Option<(u32, u32)>,
}

impl OwnTypes {
    /// `(int, void *)`.
    fn basic(&mut self) -> (u32, u32) {
        *self.basic.get_or_insert_with(|| {
            let int = self.writer.int("long", 8, true);
            (int, self.writer.pointer(0))
        })
    }

    fn function(&mut self, name: &str, parameters: &[&'static str]) -> u32 {
        let (int, pointer) = self.basic();
        let list: Vec<(&str, u32)> =
            parameters.iter().map(|name| (*name, if *name == "index" { int } else { pointer })).collect();
        let clean: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        self.writer.function(&clean, int, &list)
    }

    fn finish(self) -> Option<Vec<u8>> {
        self.basic.map(|_| self.writer.finish())
    }
}

fn image_program(
    description: &Program,
    probe: u32,
    unit: &Unit,
    emitted: Emitted,
    facts: &dyn KernelFacts,
    types: &mut OwnTypes,
    source: Option<&Source>,
) -> image::Program {
    let mut functions = Vec::new();
    let mut lines = Vec::new();
    if unit.functions.len() > 1 {
        for (function, slot) in unit.functions.iter().zip(&emitted.functions) {
            let type_id = types.function(&function.name, &function.parameter_names);
            functions.push(ImageFunction { slot: *slot, type_id, name: function.name.clone() });
        }
        lines = line_info(&emitted, types, source);
    }
    let (kind, expected_attach) = match description.kind {
        ProgramKind::Special | ProgramKind::RawTracepoint => (ProgramType::RawTracepoint, AttachType::None),
        ProgramKind::Tracepoint => (ProgramType::Tracepoint, AttachType::None),
        ProgramKind::TracingRawTracepoint => (ProgramType::Tracing, AttachType::TraceRawTp),
        ProgramKind::Fentry => (ProgramType::Tracing, AttachType::TraceFentry),
        ProgramKind::Fexit => (ProgramType::Tracing, AttachType::TraceFexit),
        ProgramKind::Iterator => (ProgramType::Tracing, AttachType::TraceIter),
        ProgramKind::PerfEvent => (ProgramType::PerfEvent, AttachType::None),
        ProgramKind::Kprobe => (ProgramType::Kprobe, AttachType::None),
    };
    let (attach, expected_attach, attach_btf_id, attach_module) = attach(description, expected_attach, facts);
    image::Program {
        name: description.name.clone(),
        kind,
        expected_attach,
        attach_btf_id,
        attach_module,
        // BPF_F_SLEEPABLE
        load_flags: if description.sleepable { 1 << 4 } else { 0 },
        attach,
        instructions: emitted.instructions,
        functions,
        lines,
        spans: emitted
            .spans
            .iter()
            .map(|(slot, span)| CodeSpan { slot: *slot, start: span.start, end: span.end })
            .collect(),
        probe,
    }
}

/// One line record at the start of each function and wherever the source line changes.
fn line_info(emitted: &Emitted, types: &mut OwnTypes, source: Option<&Source>) -> Vec<Line> {
    let mut wanted: Vec<(u32, Option<Span>)> = emitted.functions.iter().map(|slot| (*slot, None)).collect();
    wanted.extend(emitted.spans.iter().map(|(slot, span)| (*slot, Some(*span))));
    wanted.sort_by_key(|(slot, span)| (*slot, span.is_none()));
    wanted.dedup_by_key(|(slot, _)| *slot);
    let mut lines: Vec<Line> = Vec::new();
    let mut last = None;
    for (slot, span) in wanted {
        let place = span.and_then(|span| place_of(source, span));
        let (line, column, text) = place.or_else(|| last.clone()).unwrap_or((1, 1, String::new()));
        last = Some((line, column, text.clone()));
        let file_name = types.writer.string("program.bt");
        let text = types.writer.string(&text);
        lines.push(Line { slot, file_name, text, line, column });
    }
    lines
}

type Attached = (image::Attach, AttachType, Option<u32>, Option<String>);

fn attach(program: &Program, expected: AttachType, facts: &dyn KernelFacts) -> Attached {
    let plain = |attach| (attach, expected, None, None);
    let Some(first) = program.targets.first() else {
        return plain(image::Attach::TestRun(Moment::Begin));
    };
    let many = program.targets.len() > 1;
    match &first.attach {
        Attach::Begin => plain(image::Attach::TestRun(Moment::Begin)),
        Attach::End => plain(image::Attach::TestRun(Moment::End)),
        Attach::Signal(name) => plain(image::Attach::TestRun(Moment::Signal(name.clone()))),
        Attach::Test(name) => plain(image::Attach::TestRun(Moment::Test(name.clone()))),
        Attach::Bench(name) => plain(image::Attach::TestRun(Moment::Bench(name.clone()))),
        Attach::Tracepoint { .. } => plain(image::Attach::Tracepoint { targets: tracepoints(program) }),
        Attach::RawTracepoint { module, name, btf_id } => {
            if program.kind == ProgramKind::TracingRawTracepoint {
                let places = program.targets.len() as u32;
                let attach = image::Attach::TpBtf { name: name.clone(), places, cookie: 0 };
                (attach, expected, Some(*btf_id), module.clone().filter(|module| module != "vmlinux"))
            } else {
                plain(image::Attach::RawTracepoint { targets: tracepoints(program) })
            }
        }
        Attach::Kprobe { at_return, .. } => {
            let targets =
                program.targets.iter().enumerate().filter_map(|(at, target)| match &target.attach {
                    Attach::Kprobe { module, function, offset, .. } => Some(image::KernelTarget {
                        symbol: function.clone(),
                        module: module.clone(),
                        offset: if function.is_empty() { 0 } else { *offset },
                        address: function.is_empty().then_some(*offset),
                        cookie: at as u64,
                    }),
                    _ => None,
                });
            let multi = many && facts.has(Feature::KprobeMulti);
            let attach = image::Attach::Kprobe { on_return: *at_return, multi, targets: targets.collect() };
            (attach, if multi { AttachType::TraceKprobeMulti } else { expected }, None, None)
        }
        Attach::Trampoline { module, function, btf_id } => {
            let on_return = program.kind == ProgramKind::Fexit;
            let attach = image::Attach::Trampoline { function: function.clone(), on_return, cookie: 0 };
            (attach, expected, Some(*btf_id), module.clone().filter(|module| module != "vmlinux"))
        }
        Attach::BpfTrampoline { function, .. } => {
            let on_return = program.kind == ProgramKind::Fexit;
            plain(image::Attach::Trampoline { function: function.clone(), on_return, cookie: 0 })
        }
        Attach::Uprobe { path, at_return, .. } => user(program, path, *at_return, expected, facts),
        Attach::Usdt { path, .. } => user(program, path, false, expected, facts),
        Attach::Profile(period) => plain(image::Attach::PerfEvent(timer(*period, true))),
        Attach::Interval(period) => plain(image::Attach::PerfEvent(timer(*period, false))),
        Attach::Software { config, count } => plain(image::Attach::PerfEvent(PerfEventSpec {
            event_type: 1,
            config: *config,
            rate: Rate::Period((*count).max(1)),
            every_cpu: true,
        })),
        Attach::Hardware { perf_type, config, count } => plain(image::Attach::PerfEvent(PerfEventSpec {
            event_type: *perf_type,
            config: *config,
            rate: Rate::Period((*count).max(1)),
            every_cpu: true,
        })),
        Attach::Watchpoint { address, length, mode, .. } => {
            plain(image::Attach::Breakpoint { address: *address, length: *length, mode: *mode, pid: None })
        }
        Attach::Iterator { kind, btf_id, pin } => (
            image::Attach::Iterator { target: kind.clone(), pin: pin.clone() },
            expected,
            Some(*btf_id),
            None,
        ),
    }
}

fn tracepoints(program: &Program) -> Vec<image::TracepointTarget> {
    let targets = program.targets.iter().enumerate().filter_map(|(at, target)| {
        let (category, name) = match &target.attach {
            Attach::Tracepoint { category, name } => (category.clone(), name.clone()),
            Attach::RawTracepoint { name, .. } => (String::new(), name.clone()),
            _ => return None,
        };
        // Kernels without cookies take none but 0.
        let cookie = if program.cookies { at as u64 } else { 0 };
        Some(image::TracepointTarget { category, name, cookie })
    });
    targets.collect()
}

fn user(
    program: &Program,
    path: &str,
    on_return: bool,
    expected: AttachType,
    facts: &dyn KernelFacts,
) -> Attached {
    let targets: Vec<image::UserTarget> = program
        .targets
        .iter()
        .enumerate()
        .filter_map(|(at, target)| match &target.attach {
            Attach::Uprobe { function, offset, .. } => Some(image::UserTarget {
                symbol: function.clone(),
                file_offset: *offset,
                semaphore: 0,
                cookie: at as u64,
            }),
            Attach::Usdt { provider, name, offset, semaphore, .. } => Some(image::UserTarget {
                symbol: format!("{provider}:{name}"),
                file_offset: *offset,
                semaphore: *semaphore,
                cookie: at as u64,
            }),
            _ => None,
        })
        .collect();
    let multi = targets.len() > 1 && facts.has(Feature::UprobeMulti);
    let attach = image::Attach::Uprobe { on_return, multi, path: path.to_string(), pid: None, targets };
    (attach, if multi { AttachType::TraceUprobeMulti } else { expected }, None, None)
}

/// A timer by perf's software clock.
fn timer(period: Period, every_cpu: bool) -> PerfEventSpec {
    let rate = match period {
        // The CPU clock counts nanoseconds, so a frequency is a period too, without the kernel's adjusting.
        Period::Hertz(hertz) => Rate::Period(1_000_000_000 / hertz.clamp(1, 1_000_000_000)),
        Period::Nanoseconds(nanoseconds) => Rate::Period(nanoseconds.max(1)),
    };
    PerfEventSpec { event_type: 1, config: 0, rate, every_cpu }
}
