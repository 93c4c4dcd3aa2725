//! Attach points → programs: wildcards are expanded, arguments found, and attach points that
//! the same code serves are put together.

mod event;
mod kernel;
mod tracepoint;
mod user;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use bpf::KernelFacts;
use bpf::btf::{Kind, KindSet, TypeId};
use bpf::facts::Feature;
use trace::format::EventFormat;

use crate::config::{Config, MissingProbes};
use crate::diagnostic::{Code, Diagnostic, Findings};
use crate::environment::{Environment, ParameterPlace, Unanswered};
use crate::glob::{Pattern, has_wildcard};
use crate::hir::UsdtLocation;
use crate::schema::{Attach, Period, ProgramKind, Target};
use crate::sema::registers::Registers;
use crate::sema::types::Resolver;
use crate::sema::uses::{Macros, Uses, of_probe};
use crate::source::Span;
use crate::syntax::ast::{AttachPoint, Expr, Probe, Text};
use crate::syntax::lexer::parse_number;
use crate::types::{RecordRef, Space, Type};

/// Types of probe, by their long names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // the names are the language's
pub enum ProbeType {
    Begin,
    End,
    Signal,
    Test,
    Bench,
    Tracepoint,
    RawTracepoint,
    Fentry,
    Fexit,
    Kprobe,
    Kretprobe,
    Uprobe,
    Uretprobe,
    Usdt,
    Profile,
    Interval,
    Software,
    Hardware,
    Watchpoint,
    AsyncWatchpoint,
    Iter,
}

/// Names and short names, as programs write them.
pub const PROVIDERS: &[(&str, ProbeType)] = &[
    ("begin", ProbeType::Begin),
    ("BEGIN", ProbeType::Begin),
    ("end", ProbeType::End),
    ("END", ProbeType::End),
    ("self", ProbeType::Signal),
    ("test", ProbeType::Test),
    ("bench", ProbeType::Bench),
    ("tracepoint", ProbeType::Tracepoint),
    ("t", ProbeType::Tracepoint),
    ("rawtracepoint", ProbeType::RawTracepoint),
    ("rt", ProbeType::RawTracepoint),
    ("fentry", ProbeType::Fentry),
    ("kfunc", ProbeType::Fentry),
    ("f", ProbeType::Fentry),
    ("fexit", ProbeType::Fexit),
    ("kretfunc", ProbeType::Fexit),
    ("fr", ProbeType::Fexit),
    ("kprobe", ProbeType::Kprobe),
    ("k", ProbeType::Kprobe),
    ("kretprobe", ProbeType::Kretprobe),
    ("kr", ProbeType::Kretprobe),
    ("uprobe", ProbeType::Uprobe),
    ("u", ProbeType::Uprobe),
    ("uretprobe", ProbeType::Uretprobe),
    ("ur", ProbeType::Uretprobe),
    ("usdt", ProbeType::Usdt),
    ("U", ProbeType::Usdt),
    ("profile", ProbeType::Profile),
    ("p", ProbeType::Profile),
    ("interval", ProbeType::Interval),
    ("i", ProbeType::Interval),
    ("software", ProbeType::Software),
    ("s", ProbeType::Software),
    ("hardware", ProbeType::Hardware),
    ("h", ProbeType::Hardware),
    ("watchpoint", ProbeType::Watchpoint),
    ("w", ProbeType::Watchpoint),
    ("asyncwatchpoint", ProbeType::AsyncWatchpoint),
    ("aw", ProbeType::AsyncWatchpoint),
    ("iter", ProbeType::Iter),
    ("it", ProbeType::Iter),
];

impl ProbeType {
    /// The name that `probetype` prints.
    pub fn name(self) -> &'static str {
        match self {
            ProbeType::Begin | ProbeType::End | ProbeType::Signal => "special",
            _ => self.provider(),
        }
    }

    /// The long name.
    pub fn provider(self) -> &'static str {
        PROVIDERS.iter().find(|(_, have)| *have == self).map_or("", |(name, _)| name)
    }

    /// Whether the code runs in user space's context, so that bare addresses are the process's.
    pub fn is_user(self) -> bool {
        matches!(self, ProbeType::Uprobe | ProbeType::Uretprobe | ProbeType::Usdt)
    }

    /// Whether the context is `pt_regs`.
    pub fn has_registers(self) -> bool {
        use ProbeType::*;
        matches!(self, Kprobe | Kretprobe | Uprobe | Uretprobe | Usdt)
    }
}

/// Software events of perf: names, number, default period.
pub const SOFTWARE: &[(&str, u64, u64)] = &[
    ("cpu-clock", 0, 1_000_000),
    ("cpu", 0, 1_000_000),
    ("task-clock", 1, 1_000_000),
    ("page-faults", 2, 100),
    ("faults", 2, 100),
    ("context-switches", 3, 1000),
    ("cs", 3, 1000),
    ("cpu-migrations", 4, 1),
    ("minor-faults", 5, 100),
    ("major-faults", 6, 1),
    ("alignment-faults", 7, 1),
    ("emulation-faults", 8, 1),
    ("dummy", 9, 1),
    ("bpf-output", 10, 1),
];

/// Hardware events of perf: names, number, default period.
pub const HARDWARE: &[(&str, u64, u64)] = &[
    ("cpu-cycles", 0, 1_000_000),
    ("cycles", 0, 1_000_000),
    ("instructions", 1, 1_000_000),
    ("cache-references", 2, 1_000_000),
    ("cache-misses", 3, 1_000_000),
    ("branch-instructions", 4, 100_000),
    ("branches", 4, 100_000),
    ("branch-misses", 5, 100_000),
    ("bus-cycles", 6, 100_000),
    ("frontend-stalls", 7, 1_000_000),
    ("backend-stalls", 8, 1_000_000),
    ("ref-cycles", 9, 1_000_000),
];

/// Parameters and result of a function or raw tracepoint, from BTF.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// Parameters; one without a name has its number.
    pub parameters: Vec<(String, Type)>,
    /// Where each parameter is, if the debug information says so; else by the calling convention.
    pub places: Vec<ParameterPlace>,
    /// Type of the result.
    pub result: Type,
}

/// Expressions that compute a tracepoint's fields from raw arguments.
#[derive(Clone, Debug)]
pub struct Served {
    /// Field, expression, type the record has.
    pub fields: Vec<(String, Expr)>,
    /// Which system calls it is for, where it is for some.
    pub calls: Option<SystemCalls>,
}

/// The system calls whose tracepoints one raw tracepoint serves.
#[derive(Clone, Debug)]
pub struct SystemCalls {
    /// The number of the call that is made, over the raw arguments.
    pub number: Expr,
    /// Holds for callers that the tracepoints see; none: for all.
    pub seen: Option<Expr>,
    /// The calls' numbers, in the order of the targets.
    pub wanted: Vec<u32>,
}

/// Where a probe's arguments come from.
#[derive(Clone, Debug)]
pub enum Args {
    /// There are none, or they are not known.
    None,
    /// The fields of a tracepoint's record.
    Tracepoint(Rc<EventFormat>),
    /// A tracepoint's fields, computed from raw arguments.
    Served {
        /// How.
        served: Rc<Served>,
        /// The same program as it sees its raw arguments.
        view: Rc<Variant>,
        /// The tracepoint's own record.
        format: Rc<EventFormat>,
    },
    /// Slots of 8 bytes in the context; `typed`: the verifier knows the pointers.
    Raw {
        /// Names and types.
        signature: Rc<Signature>,
        /// `tp_btf`, `fentry`, `fexit`.
        typed: bool,
    },
    /// Registers, with names and types from BTF or debug information where there is some.
    Registers(Option<Rc<Signature>>),
    /// Locations from the note.
    Usdt(Rc<Vec<Option<UsdtLocation>>>),
    /// The iterator's context struct.
    Iterator(RecordRef),
}

/// A program to be: the probe it comes from, what it attaches to, what its code can see.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Index among the program's probes.
    pub probe: usize,
    /// Type of all its probes.
    pub probe_type: ProbeType,
    /// Kind of program.
    pub kind: ProgramKind,
    /// What it attaches to.
    pub targets: Vec<Target>,
    /// Names of the functions traced, in the order of targets, where known.
    pub functions: Vec<Option<String>>,
    /// Arguments.
    pub args: Args,
    /// Whether targets are told apart by their cookie.
    pub cookies: bool,
    /// Bare addresses are of this space.
    pub space: Space,
    /// What the program's text uses.
    pub uses: Uses,
    /// To attach instead, should the served form not check.
    pub fallback: Option<Box<Variant>>,
}

impl Variant {
    /// Serves the other's targets too; both have the same code.
    fn join(&mut self, other: Variant) {
        self.targets.extend(other.targets);
        self.functions.extend(other.functions);
        if let (Args::Served { served, .. }, Args::Served { served: more, .. }) =
            (&mut self.args, &other.args)
            && let (Some(calls), Some(more)) = (&mut Rc::make_mut(served).calls, &more.calls)
        {
            calls.wanted.extend(&more.wanted);
        }
        if let (Some(own), Some(other)) = (&mut self.fallback, other.fallback) {
            own.join(*other);
        }
    }
}

/// Everything expansion asks.
pub struct Expander<'a> {
    /// The kernel.
    pub facts: &'a dyn KernelFacts,
    /// Files.
    pub environment: &'a dyn Environment,
    /// Types.
    pub resolver: &'a Resolver<'a>,
    /// Settings.
    pub config: &'a Config,
    /// Findings go here.
    pub findings: &'a Findings,
    /// Process the user chose, for probes on "its" binary.
    pub pid: Option<u32>,
    /// Whether tracepoints may be served by raw arguments.
    pub serve: bool,
    /// Whether the program (or the user) says what a missing probe means. If not, a missing
    /// one of several attach points is a warning: many tools name one function by its names in
    /// several kernels.
    pub missing_is_error: bool,
    /// Features whose lack is reported already.
    pub warned: RefCell<BTreeSet<Feature>>,
    /// Probes on system call tracepoints in the whole program, `(enter, exit)`: with more than one of a kind,
    /// serving each by the one raw tracepoint would run each program for every system call.
    pub syscall_probes: (usize, usize),
}

struct Point<'a> {
    ast: &'a AttachPoint,
    probe_type: ProbeType,
    uses: &'a Uses,
    index: usize,
}

/// One attach point expanded to one target.
struct Resolved {
    variant: Variant,
    /// Equal keys can share a program; none: never shared.
    key: Option<String>,
}

impl<'a> Expander<'a> {
    /// Expands the attach points of all probes.
    pub fn expand(&self, probes: &[&Probe], macros: &Macros<'_>) -> Vec<Variant> {
        let mut out = Vec::new();
        let mut count = 0;
        for (index, probe) in probes.iter().enumerate() {
            let uses = of_probe(probe, macros);
            let mut resolved: Vec<Resolved> = Vec::new();
            let mut failed = Vec::new();
            for ast in &probe.attach_points {
                let Some(probe_type) = self.probe_type(ast) else { continue };
                let point = Point { ast, probe_type, uses: &uses, index };
                match self.point(&point) {
                    Ok(found) => resolved.extend(found),
                    Err(finding) => failed.push(*finding),
                }
            }
            for mut finding in failed {
                if finding.code == Code::NoSuchProbe && !resolved.is_empty() && !self.missing_is_error {
                    finding.severity = crate::diagnostic::Severity::Warning;
                    finding.message.push_str("; the other attach points are used");
                }
                self.findings.add(finding);
            }
            count += resolved.len();
            out.extend(group(resolved));
        }
        if count > self.config.max_probes as usize {
            let message = format!("{count} probes match, and max_probes is {}", self.config.max_probes);
            let span = probes.first().map_or(Span::NONE, |probe| probe.span);
            self.findings.add(
                Diagnostic::error(Code::TooManyProbes, span, message)
                    .help(format!("narrow the wildcard, or config = {{ max_probes = {count} }}")),
            );
        }
        let iterators = out.iter().filter(|variant| variant.kind == ProgramKind::Iterator).count();
        if iterators > 0 && out.len() > 1 {
            let span = out
                .iter()
                .find(|v| v.kind == ProgramKind::Iterator)
                .map_or(Span::NONE, |v| v.targets[0].span);
            self.findings.add(Diagnostic::error(
                Code::IteratorAlone,
                span,
                "an iterator probe cannot be mixed with other probes",
            ));
        }
        out
    }

    fn probe_type(&self, ast: &AttachPoint) -> Option<ProbeType> {
        let word = &ast.parts[0];
        let found = PROVIDERS.iter().find(|(name, _)| *name == word.text).map(|(_, found)| *found);
        if found.is_none() {
            let message = format!("there is no type of probe '{}'", word.text);
            let names = PROVIDERS.iter().map(|(name, _)| *name).filter(|name| name.len() > 2);
            self.findings.add(
                Diagnostic::error(Code::UnknownProbeType, word.span, message).suggest(&word.text, names),
            );
        }
        found
    }

    fn point(&self, point: &Point<'_>) -> Result<Vec<Resolved>, Box<Diagnostic>> {
        match point.probe_type {
            ProbeType::Begin | ProbeType::End => {
                self.parts(point, 1..=1, "begin and end have no further parts")?;
                let begin = point.probe_type == ProbeType::Begin;
                let attach = if begin { Attach::Begin } else { Attach::End };
                Ok(vec![self.special(point, point.probe_type.provider().into(), attach)])
            }
            ProbeType::Signal => {
                self.parts(point, 3..=3, "self:signal:SIGUSR1")?;
                let parts = &point.ast.parts;
                if parts[1].text != "signal" {
                    return Err(bad(
                        point,
                        parts[1].span,
                        "the event of 'self' is 'signal': self:signal:SIGUSR1",
                    ));
                }
                let name = &parts[2].text;
                if !matches!(name.as_str(), "SIGUSR1" | "SIGUSR2" | "SIGHUP") {
                    return Err(bad(
                        point,
                        parts[2].span,
                        "the tracer reacts to SIGUSR1, SIGUSR2 and SIGHUP",
                    ));
                }
                Ok(vec![self.special(point, format!("self:signal:{name}"), Attach::Signal(name.clone()))])
            }
            ProbeType::Test | ProbeType::Bench => {
                self.parts(point, 1..=2, "test:NAME, bench:NAME")?;
                let name = point.ast.parts.get(1).map_or(String::new(), |part| part.text.clone());
                let full = format!("{}:{name}", point.probe_type.provider());
                let test = point.probe_type == ProbeType::Test;
                let attach = if test { Attach::Test(name) } else { Attach::Bench(name) };
                Ok(vec![self.special(point, full, attach)])
            }
            ProbeType::Tracepoint => self.tracepoint(point),
            ProbeType::RawTracepoint => self.raw_tracepoint(point),
            ProbeType::Fentry | ProbeType::Fexit => self.trampoline(point),
            ProbeType::Kprobe | ProbeType::Kretprobe => self.kprobe(point),
            ProbeType::Uprobe | ProbeType::Uretprobe => self.uprobe(point),
            ProbeType::Usdt => self.usdt(point),
            ProbeType::Profile | ProbeType::Interval => self.timed(point),
            ProbeType::Software | ProbeType::Hardware => self.counted(point),
            ProbeType::Watchpoint | ProbeType::AsyncWatchpoint => self.watchpoint(point),
            ProbeType::Iter => self.iterator(point),
        }
    }

    fn parts(
        &self,
        point: &Point<'_>,
        count: std::ops::RangeInclusive<usize>,
        form: &str,
    ) -> Result<(), Box<Diagnostic>> {
        let parts = &point.ast.parts;
        let empty = parts.iter().skip(1).find(|part| part.text.is_empty());
        if count.contains(&parts.len()) && empty.is_none() {
            return Ok(());
        }
        let provider = point.probe_type.provider();
        let message = if let Some(empty) = empty {
            return Err(
                bad(point, empty.span, format!("a part of this {provider} probe is empty")).map_help(form)
            );
        } else if parts.len() > *count.end() {
            format!("this {provider} probe has too many parts")
        } else {
            format!("this {provider} probe lacks a part")
        };
        Err(bad(point, point.ast.span, message).map_help(form))
    }

    fn special(&self, point: &Point<'_>, name: String, attach: Attach) -> Resolved {
        self.resolved(point, ProgramKind::Special, name, attach, Args::None, None)
    }

    fn resolved(
        &self,
        point: &Point<'_>,
        kind: ProgramKind,
        name: String,
        attach: Attach,
        args: Args,
        key: Option<String>,
    ) -> Resolved {
        // Without a cookie, programs that print the probe's name are made for each probe.
        let needs_identity = point.uses.has("probe")
            || point.uses.has("func") && matches!(point.probe_type, ProbeType::Uprobe | ProbeType::Uretprobe);
        let cookie = match kind {
            ProgramKind::Kprobe | ProgramKind::Tracepoint | ProgramKind::PerfEvent => {
                self.facts.has(Feature::PerfCookie)
            }
            ProgramKind::RawTracepoint | ProgramKind::TracingRawTracepoint => {
                self.facts.has(Feature::RawTracepointCookie)
            }
            _ => false,
        };
        let key = if needs_identity && !cookie { None } else { key };
        let target = Target { name, attach, span: point.ast.span };
        let variant = Variant {
            probe: point.index,
            probe_type: point.probe_type,
            kind,
            targets: vec![target],
            functions: vec![None],
            args,
            cookies: needs_identity,
            space: if point.probe_type.is_user() { Space::User } else { Space::Kernel },
            uses: point.uses.clone(),
            fallback: None,
        };
        Resolved { variant, key }
    }

    fn missing(&self, point: &Point<'_>, finding: Diagnostic) -> Result<Vec<Resolved>, Box<Diagnostic>> {
        match self.config.missing_probes {
            MissingProbes::Error => Err(Box::new(finding)),
            MissingProbes::Warn => {
                let severity = crate::diagnostic::Severity::Warning;
                self.findings.add(Diagnostic { severity, ..finding });
                Ok(Vec::new())
            }
            MissingProbes::Ignore => {
                debug_assert_eq!(point.ast.span, finding.span.to(point.ast.span));
                Ok(Vec::new())
            }
        }
    }

    fn registers(&self) -> &'static Registers {
        Registers::of(self.facts.machine())
    }

    fn signature(&self, blob: usize, parameters: &[bpf::btf::Parameter<'_>], result: TypeId) -> Signature {
        let parameters = parameters.iter().enumerate().map(|(i, parameter)| {
            let name = if parameter.name.is_empty() { format!("arg{i}") } else { parameter.name.to_string() };
            (name, self.resolver.type_of_btf(blob, parameter.type_id))
        });
        let result = self.resolver.type_of_btf(blob, result);
        Signature { parameters: parameters.collect(), places: Vec::new(), result }
    }

    fn warn_unsupported(&self, point: &Point<'_>, feature: Feature, what: &str, instead: &str) {
        if !self.facts.has(feature) && self.warned.borrow_mut().insert(feature) {
            let message =
                format!("this kernel does not offer {what}, so probes of this type will not attach here");
            self.findings.add(
                Diagnostic::warning(Code::ProbeUnsupported, point.ast.span, message)
                    .help(format!("use {instead}; lotse doctor shows what works here")),
            );
        }
    }

    fn name_and_offset(&self, point: &Point<'_>, part: &Text) -> Result<(String, u64), Box<Diagnostic>> {
        let Some((name, offset)) = part.text.rsplit_once('+') else { return Ok((part.text.clone(), 0)) };
        match parse_number(offset) {
            Ok(offset) => Ok((name.into(), offset)),
            Err(_) => Err(bad(point, part.span, format!("the offset '{offset}' is not a number"))),
        }
    }

    fn ask<T>(&self, point: &Point<'_>, answer: Result<T, Unanswered>) -> Result<T, Box<Diagnostic>> {
        answer.map_err(|Unanswered(why)| Box::new(Diagnostic::error(Code::CannotAsk, point.ast.span, why)))
    }
}

/// Pointers of a type point into user memory.
pub fn in_user_space(ty: Type) -> Type {
    match ty {
        Type::Pointer { to, .. } => Type::Pointer { to: Box::new(in_user_space(*to)), space: Space::User },
        other => other,
    }
}

fn bad(point: &Point<'_>, span: Span, message: impl Into<String>) -> Box<Diagnostic> {
    debug_assert!(!point.ast.parts.is_empty());
    Box::new(Diagnostic::error(Code::BadProbe, span, message))
}

trait MapHelp {
    fn map_help(self, help: &str) -> Self;
}

impl MapHelp for Box<Diagnostic> {
    fn map_help(mut self, help: &str) -> Self {
        self.help = Some(format!("write {help}"));
        self
    }
}

/// Puts attach points with equal keys into one program, in the order of the first.
fn group(resolved: Vec<Resolved>) -> Vec<Variant> {
    let mut out: Vec<(Option<String>, Variant)> = Vec::new();
    for one in resolved {
        let same = |have: &&mut (Option<String>, Variant)| {
            one.key.is_some()
                && have.0 == one.key
                && have.1.kind == one.variant.kind
                && have.1.probe_type == one.variant.probe_type
        };
        match out.iter_mut().find(same) {
            Some((_, variant)) => variant.join(one.variant),
            None => out.push((one.key, one.variant)),
        }
    }
    let mut variants: Vec<Variant> = out.into_iter().map(|(_, variant)| variant).collect();
    for variant in &mut variants {
        variant.cookies &= variant.targets.len() > 1;
    }
    variants
}
