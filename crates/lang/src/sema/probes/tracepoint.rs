//! Tracepoints: by their record, by their raw arguments, or served by these.

use super::*;
use crate::sema::served;

impl Expander<'_> {
    pub(super) fn tracepoint(&self, point: &Point<'_>) -> Result<Vec<Resolved>, Box<Diagnostic>> {
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
            let finding =
                Diagnostic::error(Code::NoSuchProbe, point.ast.span, message).suggest(&full, candidates);
            return self.missing(point, finding);
        }
        Ok(out)
    }

    pub(super) fn one_tracepoint(
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
                let used = format
                    .fields
                    .iter()
                    .filter(|f| point.uses.whole_args || point.uses.fields.contains(&f.name));
                let layout =
                    used.map(|f| format!("{} {} {}+{} {:?}", f.name, f.type_name, f.offset, f.size, f.shape));
                format!("tracepoint {} {}", category == "syscalls", layout.collect::<Vec<_>>().join(","))
            }
        };
        let probe_name = format!("tracepoint:{full}");
        let args = format.clone().map_or(Args::None, Args::Tracepoint);
        let attach = Attach::Tracepoint { category: category.clone(), name: name.clone() };
        let shared = Some(key.clone());
        let mut plain =
            self.resolved(point, ProgramKind::Tracepoint, probe_name.clone(), attach, args, shared);
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
                if how.calls.is_some() {
                    // One program serves all calls whose fields are in the same registers, and tells them apart
                    // by their number.
                    served.variant.cookies = false;
                    served.key =
                        Some(format!("{key}, {:?}: {:?}", served.variant.targets[0].attach, how.fields));
                }
                served.variant.args = Args::Served { served: Rc::new(how), view, format };
                served.variant.space = plain.variant.space;
                served.variant.fallback = Some(Box::new(plain.variant));
                served
            }
        }
    }

    /// How a tracepoint is served by its raw arguments, if all that the program uses can be had so.
    pub(super) fn serve(
        &self,
        point: &Point<'_>,
        category: &str,
        name: &str,
        format: Option<Rc<EventFormat>>,
    ) -> Option<(Attach, Served, Signature, Rc<EventFormat>)> {
        let uses = point.uses;
        if !self.serve
            || !self.facts.has(Feature::TpBtf)
            || uses.whole_args
            || uses.has("kstack")
            || uses.has("ctx")
        {
            return None;
        }
        let wild = point.ast.parts.iter().any(|part| Pattern::new(&part.text).is_wild());
        if category == "syscalls" && ONCE_A_THREAD.contains(&name) && !wild {
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
        let calls = match &syscall {
            Some(syscall) => Some(syscall.calls(self.facts)?),
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
        Some((attach, Served { fields, calls }, signature, format))
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
        // The tracepoint has the name of the function behind the call.
        let alias = FUNCTIONS.iter().find(|(function, _)| *function == call).map(|(_, call)| *call);
        let call = alias.unwrap_or(call);
        let number =
            self.facts.syscalls().iter().find(|(_, have)| *have == call).map(|(number, _)| *number)?;
        Some(Syscall { enter, number, raw, name: call })
    }

    pub(super) fn raw_tracepoint(&self, point: &Point<'_>) -> Result<Vec<Resolved>, Box<Diagnostic>> {
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
            let exists =
                found.is_some() || self.facts.tracepoints().iter().any(|full| full.ends_with(&suffix));
            if !exists {
                continue;
            }
            let middle = module.as_deref().map_or(String::new(), |module| format!("{module}:"));
            let probe_name = format!("rawtracepoint:{middle}{name}");
            let readable = found.as_ref().is_none_or(|(blob, found)| {
                !uses_arguments(point.uses)
                    || found.parameters.iter().all(|parameter| self.readable(*blob, parameter.type_id))
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
                (
                    ProgramKind::RawTracepoint,
                    Some(format!("raw {}", if point.uses.args() { &shape } else { "" })),
                )
            };
            out.push(self.resolved(point, kind, probe_name, attach, args, key));
        }
        if out.is_empty() {
            let message = format!("there is no raw tracepoint {name}");
            let btf = blob.and_then(|blob| self.resolver.blob(blob));
            let known: Vec<&str> = match &btf {
                Some(btf) => btf.tracepoint_names().collect(),
                None => {
                    self.facts.tracepoints().iter().filter_map(|full| Some(full.split_once(':')?.1)).collect()
                }
            };
            let finding = Diagnostic::error(Code::NoSuchProbe, point.ast.span, message).suggest(name, known);
            return self.missing(point, finding);
        }
        Ok(out)
    }

    /// Whether the verifier lets a typed program read an argument of this type: numbers, and
    /// pointers to structs, numbers and void (`btf_ctx_access` of kernel/bpf/btf.c).
    pub(super) fn readable(&self, blob: usize, id: TypeId) -> bool {
        let Some(btf) = self.resolver.blob(blob) else { return false };
        match btf.resolve(id).map(|ty| ty.kind) {
            Some(Kind::Pointer(to)) => match btf.resolve(to).map(|ty| ty.kind) {
                // Kernels as old as 6.12 know void, and take `const void` for a struct that they do not know.
                Some(Kind::Void) => btf.get(to).is_some_and(|ty| matches!(ty.kind, Kind::Void)),
                to => matches!(
                    to,
                    Some(Kind::Int { .. } | Kind::Struct { .. } | Kind::Union { .. } | Kind::Forward { .. })
                ),
            },
            Some(Kind::Int { .. } | Kind::Enum { .. }) => true,
            _ => false,
        }
    }
}

/// What a thread calls once at most: a raw program, which runs for every system call, costs more than
/// a perf event there.
const ONCE_A_THREAD: &[&str] = &["sys_enter_exit", "sys_enter_exit_group"];

/// Functions (`SYSCALL_DEFINE`) of x86-64 whose system call has another name.
const FUNCTIONS: &[(&str, &str)] = &[
    ("newstat", "stat"),
    ("newfstat", "fstat"),
    ("newlstat", "lstat"),
    ("newuname", "uname"),
    ("sendfile64", "sendfile"),
    ("umount", "umount2"),
];

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
        let own: Vec<&str> = format
            .fields
            .iter()
            .filter(|f| !f.common && f.name != "__syscall_nr")
            .map(|f| f.name.as_str())
            .collect();
        let position = own.iter().position(|name| *name == field)?;
        // Newer kernels append the text of string arguments, which is no argument of the call.
        let offset = registers.syscall_arguments.get(position)?;
        let (name, _) = registers.names.iter().find(|(_, have)| have == offset)?;
        Some(format!("args.regs.{name}"))
    }

    /// How the event tells that it is of this call, made by a 64-bit caller: the tracepoint does not see 32-bit
    /// ones.
    fn calls(&self, facts: &dyn KernelFacts) -> Option<SystemCalls> {
        let number = if self.enter { "args.id" } else { "args.regs.orig_ax" };
        let seen = match facts.config("CONFIG_IA32_EMULATION") {
            None if facts.config("CONFIG_X86_64").is_some() => None,
            // TS_COMPAT of arch/x86/include/asm/thread_info.h
            _ => Some(parse_expression("(curtask.thread_info.status & 2) == 0")?),
        };
        Some(SystemCalls { number: parse_expression(number)?, seen, wanted: vec![self.number] })
    }
}

/// An expression of the tables, its places taken out: they would point into the program's text.
fn parse_expression(text: &str) -> Option<Expr> {
    let findings = Findings::default();
    let whole = format!("begin {{ $x = {text}; }}");
    let preprocessed = crate::syntax::preprocess::preprocess(
        &whole,
        0,
        &[],
        &crate::syntax::preprocess::nothing_known,
        &findings,
    );
    let ast = crate::syntax::parser::parse(&whole, 0, &preprocessed, &[], &findings);
    let mut items = ast.items;
    let Some(crate::syntax::ast::Item::Probe(probe)) = items.pop() else { return None };
    let statement = probe.body.statements.into_iter().next()?;
    match statement.kind {
        crate::syntax::ast::StatementKind::Assign { value, .. } if !findings.has_errors() => Some(value),
        _ => None,
    }
}

/// Whether arguments are read, by name or number.
fn uses_arguments(uses: &Uses) -> bool {
    uses.args() || uses.arg_count() > 0
}
