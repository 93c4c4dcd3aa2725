//! Attach points → programs: wildcards are expanded, arguments found, and attach points that
//! the same code serves are put together.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use bpf::KernelFacts;
use bpf::btf::{Kind, KindSet, TypeId};
use bpf::facts::Feature;
use trace::format::EventFormat;

use super::registers::Registers;
use super::served;
use super::types::Resolver;
use super::uses::{Macros, Uses, of_probe};
use super::usdt;
use crate::config::{Config, MissingProbes};
use crate::diagnostic::{Code, Diagnostic, Findings};
use crate::environment::{Environment, Unanswered};
use crate::glob::{Pattern, has_wildcard};
use crate::hir::UsdtLocation;
use crate::schema::{Attach, Period, ProgramKind, Target};
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
    /// Type of the result.
    pub result: Type,
}

/// Expressions that compute a tracepoint's fields from raw arguments.
#[derive(Debug)]
pub struct Served {
    /// Field, expression, type the record has.
    pub fields: Vec<(String, Expr)>,
    /// Holds only for the events of this tracepoint.
    pub filter: Option<Expr>,
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
    /// System call tracepoints of the whole program, `(enter, exit)`: with more than one of a kind, serving
    /// each by the one raw tracepoint would run each program for every system call.
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
            let span = out.iter().find(|v| v.kind == ProgramKind::Iterator).map_or(Span::NONE, |v| v.targets[0].span);
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
            self.findings
                .add(Diagnostic::error(Code::UnknownProbeType, word.span, message).suggest(&word.text, names));
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
                    return Err(bad(point, parts[1].span, "the event of 'self' is 'signal': self:signal:SIGUSR1"));
                }
                let name = &parts[2].text;
                if !matches!(name.as_str(), "SIGUSR1" | "SIGUSR2" | "SIGHUP") {
                    return Err(bad(point, parts[2].span, "the tracer reacts to SIGUSR1, SIGUSR2 and SIGHUP"));
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
            return Err(bad(point, empty.span, format!("a part of this {provider} probe is empty")).map_help(form));
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
            ProgramKind::Kprobe | ProgramKind::Tracepoint | ProgramKind::PerfEvent => self.facts.has(Feature::PerfCookie),
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

    fn tracepoint(&self, point: &Point<'_>) -> Result<Vec<Resolved>, Box<Diagnostic>> {
        self.parts(point, 3..=3, "tracepoint:CATEGORY:NAME")?;
        let (category, name) = (&point.ast.parts[1].text, &point.ast.parts[2].text);
        let names: Vec<(String, String)> = if has_wildcard(category) || has_wildcard(name) {
            let (category, name) = (Pattern::new(category), Pattern::new(name));
            let split = self.facts.tracepoints().iter().filter_map(|full| full.split_once(':'));
            split
                .filter(|(c, n)| category.matches(c) && name.matches(n))
                .map(|(c, n)| (c.to_string(), n.to_string()))
                .collect()
        } else {
            vec![(category.clone(), name.clone())]
        };
        let mut out = Vec::new();
        for (category, name) in names {
            let full = format!("{category}:{name}");
            let known = self.facts.tracepoints().binary_search(&full).is_ok();
            let mut format = None;
            if point.uses.args() || !known {
                format = self.facts.tracepoint_format(&category, &name);
            }
            if format.is_none() && !known {
                continue;
            }
            let format = match format {
                None => None,
                Some(text) => match EventFormat::parse(&category, &text) {
                    Ok(format) => Some(Rc::new(format)),
                    Err(why) => {
                        let message = format!("the format of tracepoint {full} cannot be read: {why}");
                        return Err(Box::new(Diagnostic::error(Code::CannotAsk, point.ast.span, message)));
                    }
                },
            };
            out.push(self.one_tracepoint(point, category, name, format));
        }
        if out.is_empty() {
            let full = format!("{category}:{name}");
            let message = format!("there is no tracepoint {full}");
            let candidates = self.facts.tracepoints().iter().map(String::as_str);
            let finding = Diagnostic::error(Code::NoSuchProbe, point.ast.span, message).suggest(&full, candidates);
            return self.missing(point, finding);
        }
        Ok(out)
    }

    fn one_tracepoint(
        &self,
        point: &Point<'_>,
        category: String,
        name: String,
        format: Option<Rc<EventFormat>>,
    ) -> Resolved {
        let full = format!("{category}:{name}");
        let key = match &format {
            None => "tracepoint".to_string(),
            // Records that agree in the fields used can share the code.
            Some(format) => {
                let used = format.fields.iter().filter(|f| point.uses.whole_args || point.uses.fields.contains(&f.name));
                let layout = used.map(|f| format!("{} {} {}+{} {:?}", f.name, f.type_name, f.offset, f.size, f.shape));
                format!("tracepoint {} {}", category == "syscalls", layout.collect::<Vec<_>>().join(","))
            }
        };
        let probe_name = format!("tracepoint:{full}");
        let args = format.clone().map_or(Args::None, Args::Tracepoint);
        let attach = Attach::Tracepoint { category: category.clone(), name: name.clone() };
        let mut plain = self.resolved(point, ProgramKind::Tracepoint, probe_name.clone(), attach, args, Some(key));
        if category == "syscalls" {
            plain.variant.space = Space::User;
        }
        match self.serve(point, &category, &name, format) {
            None => plain,
            Some((attach, how, signature, format)) => {
                let kind = ProgramKind::TracingRawTracepoint;
                let raw = Args::Raw { signature: Rc::new(signature), typed: true };
                let mut served = self.resolved(point, kind, probe_name, attach, raw, None);
                let view = Rc::new(served.variant.clone());
                served.variant.args = Args::Served { served: Rc::new(how), view, format };
                served.variant.space = plain.variant.space;
                served.variant.fallback = Some(Box::new(plain.variant));
                served
            }
        }
    }

    /// How a tracepoint is served by its raw arguments, if all that the program uses can be had so.
    fn serve(
        &self,
        point: &Point<'_>,
        category: &str,
        name: &str,
        format: Option<Rc<EventFormat>>,
    ) -> Option<(Attach, Served, Signature, Rc<EventFormat>)> {
        let uses = point.uses;
        if !self.serve || !self.facts.has(Feature::TpBtf) || uses.whole_args || uses.has("kstack") || uses.has("ctx") {
            return None;
        }
        let btf = self.resolver.blob(0)?;
        let syscall = if category == "syscalls" { Some(self.syscall(name)?) } else { None };
        let raw_name = match &syscall {
            Some(syscall) => syscall.raw,
            None => name,
        };
        let mut fields = Vec::new();
        let row = served::find(&format!("{category}:{name}"));
        for field in &uses.fields {
            let text = match &syscall {
                Some(syscall) => syscall.field(field, format.as_deref()?, self.registers())?,
                None => row?.fields.iter().find(|(have, _)| have == field)?.1.to_string(),
            };
            fields.push((field.clone(), parse_expression(&text)?));
        }
        let filter = match &syscall {
            Some(syscall) => Some(parse_expression(&syscall.filter(self.facts))?),
            None => None,
        };
        let raw = btf.tracepoint(raw_name)?;
        let signature = self.signature(0, &raw.parameters, 0);
        let attach = Attach::RawTracepoint { module: None, name: raw_name.into(), btf_id: raw.id };
        // A record is needed only for the types of its fields; without fields in use there is none to match.
        let format = match (format, uses.fields.is_empty()) {
            (Some(format), _) => format,
            (None, true) => Rc::new(EventFormat {
                system: category.into(),
                name: name.into(),
                id: 0,
                fields: Vec::new(),
                print_fmt: String::new(),
            }),
            (None, false) => return None,
        };
        Some((attach, Served { fields, filter }, signature, format))
    }

    fn syscall<'n>(&self, name: &'n str) -> Option<Syscall<'n>> {
        let (enter, call, raw) = match name.strip_prefix("sys_enter_") {
            Some(call) => (true, call, "sys_enter"),
            None => (false, name.strip_prefix("sys_exit_")?, "sys_exit"),
        };
        let many = if enter { self.syscall_probes.0 } else { self.syscall_probes.1 };
        // The argument registers and the test for 32-bit callers are x86's.
        if many > 1 || self.facts.machine() != "x86_64" {
            return None;
        }
        let number = self.facts.syscalls().iter().find(|(_, have)| *have == call).map(|(number, _)| *number)?;
        Some(Syscall { enter, number, raw, name: call })
    }

    fn registers(&self) -> &'static Registers {
        Registers::of(self.facts.machine())
    }

    fn signature(&self, blob: usize, parameters: &[bpf::btf::Parameter<'_>], result: TypeId) -> Signature {
        let parameters = parameters.iter().enumerate().map(|(i, parameter)| {
            let name = if parameter.name.is_empty() { format!("arg{i}") } else { parameter.name.to_string() };
            (name, self.resolver.type_of_btf(blob, parameter.type_id))
        });
        Signature { parameters: parameters.collect(), result: self.resolver.type_of_btf(blob, result) }
    }

    fn raw_tracepoint(&self, point: &Point<'_>) -> Result<Vec<Resolved>, Box<Diagnostic>> {
        self.parts(point, 2..=3, "rawtracepoint[:MODULE]:NAME")?;
        let parts = &point.ast.parts;
        let name = &parts[parts.len() - 1].text;
        let module = (parts.len() == 3).then(|| parts[1].text.clone()).filter(|module| module != "*");
        let blob = match module.as_deref() {
            None | Some("vmlinux") => Some(0).filter(|_| self.resolver.blobs() > 0),
            Some(module) => self.resolver.add_module(module),
        };
        let pattern = Pattern::new(name);
        let mut names: Vec<String> = Vec::new();
        if pattern.is_wild() {
            if let Some(btf) = blob.and_then(|blob| self.resolver.blob(blob)) {
                names.extend(btf.tracepoint_names().filter(|have| pattern.matches(have)).map(String::from));
            }
            names.sort();
            names.dedup();
        } else {
            names.push(name.clone());
        }
        let module = module.filter(|module| module != "vmlinux");
        let mut out = Vec::new();
        for name in names {
            let btf = blob.and_then(|blob| self.resolver.blob(blob));
            let found = btf.as_ref().and_then(|btf| Some((blob?, btf.tracepoint(&name)?)));
            let suffix = format!(":{name}");
            let exists = found.is_some() || self.facts.tracepoints().iter().any(|full| full.ends_with(&suffix));
            if !exists {
                continue;
            }
            let middle = module.as_deref().map_or(String::new(), |module| format!("{module}:"));
            let probe_name = format!("rawtracepoint:{middle}{name}");
            let readable = found.as_ref().is_none_or(|(blob, found)| {
                !uses_arguments(point.uses) || found.parameters.iter().all(|parameter| self.readable(*blob, parameter.type_id))
            });
            let typed = self.facts.has(Feature::TpBtf) && found.is_some() && readable;
            let (btf_id, args, shape) = match found {
                None => (0, Args::None, String::new()),
                Some((blob, found)) => {
                    let signature = Rc::new(self.signature(blob, &found.parameters, 0));
                    let shape = format!("{:?}", signature.parameters);
                    (found.id, Args::Raw { signature, typed }, shape)
                }
            };
            let attach = Attach::RawTracepoint { module: module.clone(), name, btf_id };
            let (kind, key) = if typed {
                // Each program is loaded for one raw tracepoint's types.
                (ProgramKind::TracingRawTracepoint, None)
            } else {
                (ProgramKind::RawTracepoint, Some(format!("raw {}", if point.uses.args() { &shape } else { "" })))
            };
            out.push(self.resolved(point, kind, probe_name, attach, args, key));
        }
        if out.is_empty() {
            let message = format!("there is no raw tracepoint {name}");
            let btf = blob.and_then(|blob| self.resolver.blob(blob));
            let known: Vec<&str> = match &btf {
                Some(btf) => btf.tracepoint_names().collect(),
                None => self.facts.tracepoints().iter().filter_map(|full| Some(full.split_once(':')?.1)).collect(),
            };
            let finding = Diagnostic::error(Code::NoSuchProbe, point.ast.span, message).suggest(name, known);
            return self.missing(point, finding);
        }
        Ok(out)
    }

    /// Whether the verifier lets a typed program read an argument of this type: numbers, and
    /// pointers to structs, numbers and void (`btf_ctx_access` of kernel/bpf/btf.c).
    fn readable(&self, blob: usize, id: TypeId) -> bool {
        let Some(btf) = self.resolver.blob(blob) else { return false };
        match btf.resolve(id).map(|ty| ty.kind) {
            Some(Kind::Pointer(to)) => matches!(
                btf.resolve(to).map(|ty| ty.kind),
                Some(Kind::Void | Kind::Int { .. } | Kind::Struct { .. } | Kind::Union { .. } | Kind::Forward { .. })
            ),
            Some(Kind::Int { .. } | Kind::Enum { .. }) => true,
            _ => false,
        }
    }

    fn trampoline(&self, point: &Point<'_>) -> Result<Vec<Resolved>, Box<Diagnostic>> {
        let parts = &point.ast.parts;
        let provider = point.probe_type.provider();
        let kind = if point.probe_type == ProbeType::Fentry { ProgramKind::Fentry } else { ProgramKind::Fexit };
        if parts.len() > 2 && parts[1].text == "bpf" {
            return self.bpf_trampoline(point, kind);
        }
        self.parts(point, 2..=3, "fentry[:MODULE]:FUNCTION")?;
        let name = &parts[parts.len() - 1].text;
        let module = (parts.len() == 3).then(|| parts[1].text.clone());
        if self.facts.btf().is_none() {
            let message = format!("{provider} needs the kernel's BTF, which this kernel does not have");
            return Err(Box::new(
                Diagnostic::error(Code::ProbeUnsupported, point.ast.span, message).help("use kprobe and kretprobe"),
            ));
        }
        self.warn_unsupported(point, Feature::Fentry, "function trampolines", "kprobe, kretprobe or a tracepoint");
        let blobs: Vec<usize> = match module.as_deref() {
            Some("vmlinux") => vec![0],
            Some("*") => (0..self.resolver.blobs()).collect(),
            Some(module) => self.resolver.add_module(module).into_iter().collect(),
            None => {
                // A function of a module is found without naming the module, after the kernel's own.
                let own = self.resolver.blob(0).is_some_and(|btf| btf.find(name, KindSet::FUNCTION).is_some());
                if !own && !has_wildcard(name) {
                    let modules = self.facts.btf_modules();
                    let has = |module: &&String| {
                        let btf = self.facts.module_btf(module);
                        btf.is_some_and(|btf| btf.find(name, KindSet::FUNCTION).is_some_and(|id| id >= btf.type_start()))
                    };
                    match modules.iter().find(has) {
                        Some(module) => self.resolver.add_module(module).into_iter().collect(),
                        None => vec![0],
                    }
                } else {
                    vec![0]
                }
            }
        };
        let pattern = Pattern::new(name);
        let mut out = Vec::new();
        for blob in blobs {
            let Some(btf) = self.resolver.blob(blob) else { continue };
            let names: Vec<&str> = if pattern.is_wild() {
                btf.names(KindSet::FUNCTION).filter(|have| pattern.matches(have)).collect()
            } else {
                vec![name]
            };
            for name in names {
                let Some(found) = btf.function(name) else { continue };
                let signature = Rc::new(self.signature(blob, &found.parameters, found.result));
                let module_name = self.resolver.module_name(blob);
                let middle = module.as_ref().map_or(String::new(), |_| format!("{module_name}:"));
                let attach =
                    Attach::Trampoline { module: Some(module_name), function: name.into(), btf_id: found.id };
                let args = Args::Raw { signature, typed: true };
                let mut resolved = self.resolved(point, kind, format!("{provider}:{middle}{name}"), attach, args, None);
                resolved.variant.functions = vec![Some(name.to_string())];
                out.push(resolved);
            }
        }
        if out.is_empty() {
            let message = format!("there is no function {name} in the kernel's BTF");
            let candidates = self.facts.kernel_functions().iter().map(String::as_str);
            let finding = Diagnostic::error(Code::NoSuchProbe, point.ast.span, message).suggest(name, candidates);
            return self.missing(point, finding);
        }
        Ok(out)
    }

    fn bpf_trampoline(&self, point: &Point<'_>, kind: ProgramKind) -> Result<Vec<Resolved>, Box<Diagnostic>> {
        self.parts(point, 3..=4, "fentry:bpf[:PROGRAM_ID]:FUNCTION")?;
        let parts = &point.ast.parts;
        let id = if parts.len() == 4 {
            match parts[2].text.parse::<u32>() {
                Ok(id) => Some(id),
                Err(_) => return Err(bad(point, parts[2].span, "the id of a BPF program is a number")),
            }
        } else {
            None
        };
        let name = &parts[parts.len() - 1].text;
        let found = self.ask(point, self.environment.bpf_functions(id, &Pattern::new(name)))?;
        if found.is_empty() {
            let message = format!("no loaded BPF program has a function {name}");
            return self.missing(point, Diagnostic::error(Code::NoSuchProbe, point.ast.span, message));
        }
        let provider = point.probe_type.provider();
        let out = found.into_iter().map(|(id, function)| {
            let attach = Attach::BpfTrampoline { program_id: Some(id), function: function.clone() };
            let mut resolved =
                self.resolved(point, kind, format!("{provider}:bpf:{id}:{function}"), attach, Args::None, None);
            resolved.variant.functions = vec![Some(function)];
            resolved
        });
        Ok(out.collect())
    }

    fn warn_unsupported(&self, point: &Point<'_>, feature: Feature, what: &str, instead: &str) {
        if !self.facts.has(feature) && self.warned.borrow_mut().insert(feature) {
            let message = format!("this kernel does not offer {what}, so probes of this type will not attach here");
            self.findings.add(
                Diagnostic::warning(Code::ProbeUnsupported, point.ast.span, message)
                    .help(format!("use {instead}; lotse doctor shows what works here")),
            );
        }
    }

    fn kprobe(&self, point: &Point<'_>) -> Result<Vec<Resolved>, Box<Diagnostic>> {
        let at_return = point.probe_type == ProbeType::Kretprobe;
        let form = if at_return { "kretprobe[:MODULE]:FUNCTION" } else { "kprobe[:MODULE]:FUNCTION[+OFFSET]" };
        self.parts(point, 2..=3, form)?;
        self.warn_unsupported(point, Feature::Kprobes, "kprobes", "a tracepoint or rawtracepoint");
        let parts = &point.ast.parts;
        let module = (parts.len() == 3).then(|| parts[1].text.clone());
        if let Some(module) = module.as_deref().filter(|module| !has_wildcard(module) && *module != "vmlinux") {
            self.resolver.add_module(module);
        }
        let (name, offset) = self.name_and_offset(point, &parts[parts.len() - 1])?;
        let key = |signature: &Option<Rc<Signature>>| {
            let needed = (point.uses.args() || at_return && point.uses.has("retval")).then_some(signature);
            Some(format!("kprobe {at_return} {needed:?}"))
        };
        if let Ok(address) = parse_number(&name)
            && name.starts_with(|c: char| c.is_ascii_digit())
        {
            let attach = Attach::Kprobe { module, function: String::new(), offset: address + offset, at_return };
            let probe_name = format!("{}:{}", point.probe_type.provider(), parts[parts.len() - 1].text);
            let args = Args::Registers(None);
            return Ok(vec![self.resolved(point, ProgramKind::Kprobe, probe_name, attach, args, key(&None))]);
        }
        let names = self.functions(module.as_deref(), &name);
        if offset > 0 && (names.len() > 1 || at_return) {
            let message = if at_return { "a return probe cannot have an offset" } else { "an offset needs one function" };
            return Err(bad(point, point.ast.span, message));
        }
        let mut out = Vec::new();
        for (found_module, function) in names {
            let signature = self.function_signature(&function).map(Rc::new);
            let shown = module.as_ref().and(found_module.as_ref());
            let middle = shown.map_or(String::new(), |module| format!("{module}:"));
            let plus = if offset > 0 { format!("+{offset}") } else { String::new() };
            let probe_name = format!("{}:{middle}{function}{plus}", point.probe_type.provider());
            let attach = Attach::Kprobe { module: found_module, function: function.clone(), offset, at_return };
            let key = key(&signature);
            let args = Args::Registers(signature.filter(|_| offset == 0));
            let mut resolved = self.resolved(point, ProgramKind::Kprobe, probe_name, attach, args, key);
            resolved.variant.functions = vec![Some(function)];
            out.push(resolved);
        }
        if out.is_empty() {
            let message = format!("there is no kernel function {name} that can be probed");
            let candidates = self.facts.kernel_functions().iter().map(String::as_str);
            let finding = Diagnostic::error(Code::NoSuchProbe, point.ast.span, message).suggest(&name, candidates);
            return self.missing(point, finding);
        }
        Ok(out)
    }

    /// Kernel functions by name or wildcard, with their module.
    fn functions(&self, module: Option<&str>, name: &str) -> Vec<(Option<String>, String)> {
        let split = |full: &str| match full.split_once(':') {
            Some((module, name)) => (Some(module.to_string()), name.to_string()),
            None => (None, full.to_string()),
        };
        let known = self.facts.kernel_functions();
        let (name_pattern, module_pattern) = (Pattern::new(name), module.map(Pattern::new));
        let fits = |found: &(Option<String>, String)| {
            name_pattern.matches(&found.1)
                && module_pattern.as_ref().is_none_or(|pattern| match &found.0 {
                    Some(module) => pattern.matches(module),
                    None => pattern.matches("vmlinux") || pattern.matches("kernel"),
                })
        };
        if name_pattern.is_wild() {
            return known.iter().map(|full| split(full)).filter(fits).collect();
        }
        let exact = match module {
            None | Some("vmlinux" | "kernel") => name.to_string(),
            Some(module) => format!("{module}:{name}"),
        };
        let found = known.binary_search(&exact).ok().map(|at| &known[at]);
        let found = found.or_else(|| known.iter().find(|full| fits(&split(full))));
        if let Some(full) = found {
            return vec![split(full)];
        }
        // The list may be incomplete; BTF and kallsyms know more names.
        let elsewhere = self.resolver.function_exists(name) || self.facts.kernel_symbol(name).is_some();
        if elsewhere || known.is_empty() {
            return vec![(module.map(String::from).filter(|module| module != "vmlinux"), name.into())];
        }
        Vec::new()
    }

    fn function_signature(&self, name: &str) -> Option<Signature> {
        (0..self.resolver.blobs()).find_map(|blob| {
            let btf = self.resolver.blob(blob)?;
            let found = btf.function(name)?;
            Some(self.signature(blob, &found.parameters, found.result))
        })
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

    fn binaries(&self, point: &Point<'_>, part: &Text) -> Result<Vec<String>, Box<Diagnostic>> {
        let found = self.ask(point, self.environment.binaries(&part.text))?;
        if found.is_empty() {
            let message = format!("there is no file or library '{}'", part.text);
            return Err(Box::new(
                Diagnostic::error(Code::NoSuchProbe, part.span, message)
                    .help("give a path, a command in PATH, or a library's name such as libc"),
            ));
        }
        Ok(found)
    }

    fn uprobe(&self, point: &Point<'_>) -> Result<Vec<Resolved>, Box<Diagnostic>> {
        let provider = point.probe_type.provider();
        let at_return = point.probe_type == ProbeType::Uretprobe;
        self.parts(point, 3..=4, &format!("{provider}:FILE:FUNCTION[+OFFSET]"))?;
        let parts = &point.ast.parts;
        let cpp = parts.len() == 4 && parts[2].text == "cpp";
        if parts.len() == 4 && !cpp {
            return Err(bad(point, parts[2].span, "between file and function only 'cpp' may stand"));
        }
        let last = &parts[parts.len() - 1];
        let mut out = Vec::new();
        let resolve = |path: &str, function: String, offset: u64, out: &mut Vec<Resolved>| {
            let signature = self.debug_signature(path, &function, point);
            let key = Some(format!("uprobe {at_return} {:?}", signature.as_ref().filter(|_| point.uses.args())));
            let probe_name = format!("{provider}:{path}:{}", if function.is_empty() { &last.text } else { &function });
            let attach = Attach::Uprobe { path: path.into(), function: function.clone(), offset, at_return };
            let args = Args::Registers(signature.map(Rc::new));
            let mut resolved = self.resolved(point, ProgramKind::Kprobe, probe_name, attach, args, key);
            resolved.variant.functions = vec![(!function.is_empty()).then_some(function)];
            out.push(resolved);
        };
        if let Some((binary, file)) = parts[1].text.rsplit_once('@') {
            let line: u32 = match last.text.parse() {
                Ok(line) => line,
                Err(_) => return Err(bad(point, last.span, "after FILE@SOURCE comes a line number")),
            };
            let binary = Text { text: binary.into(), span: parts[1].span };
            for path in self.binaries(point, &binary)? {
                for offset in self.ask(point, self.environment.source_line(&path, file, line))? {
                    resolve(&path, String::new(), offset, &mut out);
                }
            }
            if out.is_empty() {
                let message = format!("no code of {file}:{line} is in {}", binary.text);
                return self.missing(point, Diagnostic::error(Code::NoSuchProbe, point.ast.span, message));
            }
            return Ok(out);
        }
        let (name, offset) = if cpp { (last.text.clone(), 0) } else { self.name_and_offset(point, last)? };
        let mut nearest = None;
        for path in self.binaries(point, &parts[1])? {
            if let Ok(address) = parse_number(&name)
                && name.starts_with(|c: char| c.is_ascii_digit())
            {
                match self.ask(point, self.environment.address_to_offset(&path, address + offset))? {
                    Some(at) => resolve(&path, String::new(), at, &mut out),
                    None => {
                        let message = format!("{address:#x} is not within code of {path}");
                        return Err(bad(point, last.span, message));
                    }
                }
                continue;
            }
            let pattern = Pattern::new(&name);
            let found = self.ask(point, self.environment.symbols(&path, &pattern, cpp))?;
            if found.is_empty() && !pattern.is_wild() {
                let all = self.environment.symbols(&path, &Pattern::new("*"), cpp).unwrap_or_default();
                let names = all.iter().map(|one| one.name.as_str());
                nearest = nearest.or_else(|| crate::diagnostic::did_you_mean(&name, names));
            }
            for symbol in found {
                if offset > 0 && symbol.size > 0 && offset >= symbol.size {
                    let message = format!("{name} has {} bytes, so +{offset} is outside of it", symbol.size);
                    return Err(bad(point, last.span, message));
                }
                let shown = if cpp { symbol.demangled.unwrap_or(symbol.name) } else { symbol.name };
                resolve(&path, shown, symbol.file_offset + offset, &mut out);
            }
        }
        if out.is_empty() {
            let message = format!("there is no function {name} in {}", parts[1].text);
            let mut finding = Diagnostic::error(Code::NoSuchProbe, point.ast.span, message);
            finding.help = nearest;
            return self.missing(point, finding);
        }
        Ok(out)
    }

    fn debug_signature(&self, path: &str, function: &str, point: &Point<'_>) -> Option<Signature> {
        if !point.uses.args() || function.is_empty() {
            return None;
        }
        let arguments = self.environment.debug_arguments(path, function).ok()??;
        let parameters = arguments.into_iter().map(|argument| {
            let ty = super::layout::c_type(&argument.c_type, self.resolver).unwrap_or(Type::U64);
            (argument.name, in_user_space(ty))
        });
        Some(Signature { parameters: parameters.collect(), result: Type::U64 })
    }

    fn usdt(&self, point: &Point<'_>) -> Result<Vec<Resolved>, Box<Diagnostic>> {
        self.parts(point, 3..=4, "usdt:FILE[:PROVIDER]:NAME")?;
        let parts = &point.ast.parts;
        let provider = Pattern::new(if parts.len() == 4 { &parts[2].text } else { "*" });
        let name = Pattern::new(&parts[parts.len() - 1].text);
        let mut out = Vec::new();
        for path in self.binaries(point, &parts[1])? {
            for note in self.ask(point, self.environment.usdt(&path, &provider, &name))? {
                let locations = usdt::arguments(&note.arguments, self.registers());
                let used: Vec<_> = locations.iter().take(point.uses.arg_count()).collect();
                let key = format!("usdt {used:?}");
                let probe_name = format!("usdt:{path}:{}:{}", note.provider, note.name);
                let attach = Attach::Usdt {
                    path: path.clone(),
                    provider: note.provider,
                    name: note.name,
                    offset: note.file_offset,
                    semaphore: note.semaphore_offset,
                };
                let args = Args::Usdt(Rc::new(locations));
                out.push(self.resolved(point, ProgramKind::Kprobe, probe_name, attach, args, Some(key)));
            }
        }
        if out.is_empty() {
            let shown: Vec<&str> = parts[2..].iter().map(|part| part.text.as_str()).collect();
            let message = format!("there is no static probe {} in {}", shown.join(":"), parts[1].text);
            return self.missing(point, Diagnostic::error(Code::NoSuchProbe, point.ast.span, message));
        }
        Ok(out)
    }

    fn timed(&self, point: &Point<'_>) -> Result<Vec<Resolved>, Box<Diagnostic>> {
        let provider = point.probe_type.provider();
        self.parts(point, 2..=3, &format!("{provider}:hz:99, {provider}:s:1, {provider}:1s"))?;
        let parts = &point.ast.parts;
        let last = &parts[parts.len() - 1];
        let Ok(number) = parse_number(&last.text) else {
            return Err(bad(point, last.span, format!("'{}' is not a number", last.text)));
        };
        if number == 0 {
            return Err(bad(point, last.span, "the period cannot be 0"));
        }
        let nanoseconds = |unit: u64| number.checked_mul(unit).map(Period::Nanoseconds);
        let period = if parts.len() == 2 {
            Some(Period::Nanoseconds(number))
        } else {
            match parts[1].text.as_str() {
                "hz" => Some(Period::Hertz(number)),
                "s" => nanoseconds(1_000_000_000),
                "ms" => nanoseconds(1_000_000),
                "us" => nanoseconds(1_000),
                "ns" => nanoseconds(1),
                unit => {
                    let message = format!("'{unit}' is not a unit of time");
                    return Err(bad(point, parts[1].span, message).map_help("units are hz, s, ms, us"));
                }
            }
        };
        let Some(period) = period else { return Err(bad(point, last.span, "this period is too long")) };
        let name: Vec<&str> = parts.iter().skip(1).map(|part| part.text.as_str()).collect();
        let name = format!("{provider}:{}", name.join(":"));
        let profile = point.probe_type == ProbeType::Profile;
        let attach = if profile { Attach::Profile(period) } else { Attach::Interval(period) };
        Ok(vec![self.resolved(point, ProgramKind::PerfEvent, name, attach, Args::None, None)])
    }

    fn counted(&self, point: &Point<'_>) -> Result<Vec<Resolved>, Box<Diagnostic>> {
        let provider = point.probe_type.provider();
        let mut parts: Vec<&Text> = point.ast.parts.iter().collect();
        if parts.len() == 3 && parts[2].text.is_empty() {
            parts.pop();
        } else {
            self.parts(point, 2..=3, &format!("{provider}:EVENT[:COUNT]"))?;
        }
        let hardware = point.probe_type == ProbeType::Hardware;
        let table = if hardware { HARDWARE } else { SOFTWARE };
        let event = &parts[1];
        let Some((name, config, usual)) = table.iter().find(|(name, ..)| *name == event.text) else {
            let message = format!("there is no {provider} event '{}'", event.text);
            let names = table.iter().map(|(name, ..)| *name);
            let finding = Diagnostic::error(Code::NoSuchProbe, event.span, message);
            let listed = names.clone().collect::<Vec<_>>().join(", ");
            let finding = match crate::diagnostic::did_you_mean(&event.text, names) {
                Some(help) => finding.help(help),
                None => finding.help(format!("events are {listed}")),
            };
            return Err(Box::new(finding));
        };
        if hardware {
            self.warn_unsupported(point, Feature::HardwareEvents, "hardware counters", "software:cpu-clock or profile");
        }
        let count = match parts.get(2) {
            None => *usual,
            Some(part) => match parse_number(&part.text) {
                Ok(count) if count > 0 => count,
                _ => return Err(bad(point, part.span, format!("'{}' is not a count", part.text))),
            },
        };
        let attach = if hardware {
            Attach::Hardware { perf_type: 0, config: *config, count }
        } else {
            Attach::Software { config: *config, count }
        };
        let probe_name = format!("{provider}:{name}:{count}");
        Ok(vec![self.resolved(point, ProgramKind::PerfEvent, probe_name, attach, Args::None, Some("counted".into()))])
    }

    fn watchpoint(&self, point: &Point<'_>) -> Result<Vec<Resolved>, Box<Diagnostic>> {
        self.parts(point, 4..=4, "watchpoint:ADDRESS:LENGTH:rwx")?;
        let parts = &point.ast.parts;
        let place = &parts[1];
        let (address, function) = match parse_number(&place.text) {
            Ok(address) => (address, None),
            Err(_) => match place.text.rsplit_once("+arg") {
                Some((function, number)) => match number.parse() {
                    Ok(number) => (number, Some(function.to_string())),
                    Err(_) => return Err(bad(point, place.span, "after '+arg' comes the number of the argument")),
                },
                None => return Err(bad(point, place.span, format!("'{}' is not an address", place.text))),
            },
        };
        let length = match parts[2].text.as_str() {
            "1" => 1,
            "2" => 2,
            "4" => 4,
            "8" => 8,
            _ => return Err(bad(point, parts[2].span, "a watchpoint is 1, 2, 4 or 8 bytes long")),
        };
        if function.is_none() && !address.is_multiple_of(u64::from(length)) {
            return Err(bad(point, place.span, format!("the address is not aligned to {length} bytes")));
        }
        let mut mode = 0u8;
        for letter in parts[3].text.chars() {
            let bit = match letter {
                'r' => 1,
                'w' => 2,
                'x' => 4,
                _ => return Err(bad(point, parts[3].span, "the mode is made of r, w and x")),
            };
            if mode & bit != 0 {
                return Err(bad(point, parts[3].span, "a letter of the mode is there twice"));
            }
            mode |= bit;
        }
        if mode == 0 || mode & 4 != 0 && mode != 4 {
            return Err(bad(point, parts[3].span, "the mode is r, w, rw or x"));
        }
        let asynchronous = point.probe_type == ProbeType::AsyncWatchpoint;
        let probe_name =
            format!("{}:{}:{}:{}", point.probe_type.provider(), place.text, parts[2].text, parts[3].text);
        let attach = Attach::Watchpoint { address, length, mode, function, asynchronous };
        let mut resolved = self.resolved(point, ProgramKind::PerfEvent, probe_name, attach, Args::None, None);
        if self.pid.is_some() {
            resolved.variant.space = Space::User;
        }
        Ok(vec![resolved])
    }

    fn iterator(&self, point: &Point<'_>) -> Result<Vec<Resolved>, Box<Diagnostic>> {
        self.parts(point, 2..=3, "iter:KIND[:PIN]")?;
        let kind = &point.ast.parts[1];
        let target = format!("bpf_iter_{}", kind.text);
        let found = self.resolver.blob(0).and_then(|btf| btf.find(&target, KindSet::FUNCTION));
        let record = self.resolver.record(&format!("bpf_iter__{}", kind.text), false);
        let (Some(btf_id), Some(record)) = (found, record) else {
            let message = format!("this kernel has no iterator '{}'", kind.text);
            let btf = self.resolver.blob(0);
            let names: Vec<&str> = match &btf {
                Some(btf) => {
                    btf.names(KindSet::STRUCT).filter_map(|name| name.strip_prefix("bpf_iter__")).collect()
                }
                None => Vec::new(),
            };
            return Err(Box::new(Diagnostic::error(Code::NoSuchProbe, kind.span, message).suggest(&kind.text, names)));
        };
        let pin = point.ast.parts.get(2).map(|part| part.text.clone());
        let name = format!("iter:{}", kind.text);
        let attach = Attach::Iterator { kind: kind.text.clone(), btf_id, pin };
        Ok(vec![self.resolved(point, ProgramKind::Iterator, name, attach, Args::Iterator(record), None)])
    }
}

/// Whether arguments are read, by name or number.
fn uses_arguments(uses: &Uses) -> bool {
    uses.args() || uses.arg_count() > 0
}

/// Pointers of a type point into user memory.
pub fn in_user_space(ty: Type) -> Type {
    match ty {
        Type::Pointer { to, .. } => Type::Pointer { to: Box::new(in_user_space(*to)), space: Space::User },
        other => other,
    }
}

struct Syscall<'a> {
    enter: bool,
    number: u32,
    raw: &'static str,
    name: &'a str,
}

impl Syscall<'_> {
    /// A field of the record over the raw arguments `(regs, id)` or `(regs, ret)`.
    fn field(&self, field: &str, format: &EventFormat, registers: &Registers) -> Option<String> {
        debug_assert!(!self.name.is_empty());
        if field == "__syscall_nr" {
            return Some(if self.enter { "args.id".into() } else { "args.regs.orig_ax".into() });
        }
        if !self.enter {
            return (field == "ret").then(|| "args.ret".into());
        }
        let own: Vec<&str> =
            format.fields.iter().filter(|f| !f.common && f.name != "__syscall_nr").map(|f| f.name.as_str()).collect();
        let position = own.iter().position(|name| *name == field)?;
        // Newer kernels append the text of string arguments, which is no argument of the call.
        let offset = registers.syscall_arguments.get(position)?;
        let (name, _) = registers.names.iter().find(|(_, have)| have == offset)?;
        Some(format!("args.regs.{name}"))
    }

    /// Whether the event is of this call, made by a 64-bit caller: the tracepoint does not see 32-bit ones.
    fn filter(&self, facts: &dyn KernelFacts) -> String {
        let number = if self.enter { "args.id" } else { "args.regs.orig_ax" };
        let own = format!("{number} == {}", self.number);
        match facts.config("CONFIG_IA32_EMULATION") {
            None if facts.config("CONFIG_X86_64").is_some() => own,
            // TS_COMPAT of arch/x86/include/asm/thread_info.h
            _ => format!("{own} && (curtask.thread_info.status & 2) == 0"),
        }
    }
}

/// An expression of the tables, its places taken out: they would point into the program's text.
fn parse_expression(text: &str) -> Option<Expr> {
    let findings = Findings::default();
    let whole = format!("begin {{ $x = {text}; }}");
    let preprocessed = crate::syntax::preprocess::preprocess(&whole, 0, &[], &findings);
    let ast = crate::syntax::parser::parse(&whole, 0, &preprocessed, &[], &findings);
    let mut items = ast.items;
    let Some(crate::syntax::ast::Item::Probe(probe)) = items.pop() else { return None };
    let statement = probe.body.statements.into_iter().next()?;
    match statement.kind {
        crate::syntax::ast::StatementKind::Assign { value, .. } if !findings.has_errors() => Some(value),
        _ => None,
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
            one.key.is_some() && have.0 == one.key && have.1.kind == one.variant.kind && have.1.probe_type == one.variant.probe_type
        };
        match out.iter_mut().find(same) {
            Some((_, variant)) => {
                variant.targets.extend(one.variant.targets);
                variant.functions.extend(one.variant.functions);
            }
            None => out.push((one.key, one.variant)),
        }
    }
    let mut variants: Vec<Variant> = out.into_iter().map(|(_, variant)| variant).collect();
    for variant in &mut variants {
        variant.cookies &= variant.targets.len() > 1;
    }
    variants
}
