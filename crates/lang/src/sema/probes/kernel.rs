//! Functions and iterators of the kernel.

use super::*;

impl Expander<'_> {
    pub(super) fn trampoline(&self, point: &Point<'_>) -> Result<Vec<Resolved>, Box<Diagnostic>> {
        let parts = &point.ast.parts;
        let provider = point.probe_type.provider();
        let kind =
            if point.probe_type == ProbeType::Fentry { ProgramKind::Fentry } else { ProgramKind::Fexit };
        if parts.len() > 2 && parts[1].text == "bpf" {
            return self.bpf_trampoline(point, kind);
        }
        self.parts(point, 2..=3, "fentry[:MODULE]:FUNCTION")?;
        let name = &parts[parts.len() - 1].text;
        let module = (parts.len() == 3).then(|| parts[1].text.clone());
        if self.facts.btf().is_none() {
            let message = format!("{provider} needs the kernel's BTF, which this kernel does not have");
            return Err(Box::new(
                Diagnostic::error(Code::ProbeUnsupported, point.ast.span, message)
                    .help("use kprobe and kretprobe"),
            ));
        }
        self.warn_unsupported(
            point,
            Feature::Fentry,
            "function trampolines",
            "kprobe, kretprobe or a tracepoint",
        );
        let blobs: Vec<usize> = match module.as_deref() {
            Some("vmlinux") => vec![0],
            Some("*") => (0..self.resolver.blobs()).collect(),
            Some(module) => self.resolver.add_module(module).into_iter().collect(),
            None => {
                // A function of a module is found without naming the module, after the kernel's own.
                let own =
                    self.resolver.blob(0).is_some_and(|btf| btf.find(name, KindSet::FUNCTION).is_some());
                if !own && !has_wildcard(name) {
                    let modules = self.facts.btf_modules();
                    let has = |module: &&String| {
                        let btf = self.facts.module_btf(module);
                        btf.is_some_and(|btf| {
                            btf.find(name, KindSet::FUNCTION).is_some_and(|id| id >= btf.type_start())
                        })
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
                // BTF also knows functions that are gone after boot, inlined or not for tracing.
                let module = (blob != 0).then(|| self.resolver.module_name(blob));
                btf.names(KindSet::FUNCTION)
                    .filter(|have| pattern.matches(have) && self.can_be_probed(module.as_deref(), have))
                    .collect()
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
                let mut resolved =
                    self.resolved(point, kind, format!("{provider}:{middle}{name}"), attach, args, None);
                resolved.variant.functions = vec![Some(name.to_string())];
                out.push(resolved);
            }
        }
        if out.is_empty() {
            let message = format!("there is no function {name} in the kernel's BTF");
            let candidates = self.facts.kernel_functions().iter().map(String::as_str);
            let finding =
                Diagnostic::error(Code::NoSuchProbe, point.ast.span, message).suggest(name, candidates);
            return self.missing(point, finding);
        }
        Ok(out)
    }

    /// Whether the kernel lists a function among those that can be probed; any, where it lists none.
    fn can_be_probed(&self, module: Option<&str>, function: &str) -> bool {
        let known = self.facts.kernel_functions();
        let listed = |name: &str| known.binary_search_by(|have| have.as_str().cmp(name)).is_ok();
        match module {
            _ if known.is_empty() => true,
            None => listed(function),
            Some(module) => listed(&format!("{module}:{function}")),
        }
    }

    pub(super) fn bpf_trampoline(
        &self,
        point: &Point<'_>,
        kind: ProgramKind,
    ) -> Result<Vec<Resolved>, Box<Diagnostic>> {
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
            let mut resolved = self.resolved(
                point,
                kind,
                format!("{provider}:bpf:{id}:{function}"),
                attach,
                Args::None,
                None,
            );
            resolved.variant.functions = vec![Some(function)];
            resolved
        });
        Ok(out.collect())
    }

    pub(super) fn kprobe(&self, point: &Point<'_>) -> Result<Vec<Resolved>, Box<Diagnostic>> {
        let at_return = point.probe_type == ProbeType::Kretprobe;
        let form =
            if at_return { "kretprobe[:MODULE]:FUNCTION" } else { "kprobe[:MODULE]:FUNCTION[+OFFSET]" };
        self.parts(point, 2..=3, form)?;
        self.warn_unsupported(point, Feature::Kprobes, "kprobes", "a tracepoint or rawtracepoint");
        let parts = &point.ast.parts;
        let module = (parts.len() == 3).then(|| parts[1].text.clone());
        if let Some(module) = module.as_deref().filter(|module| !has_wildcard(module) && *module != "vmlinux")
        {
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
            let attach =
                Attach::Kprobe { module, function: String::new(), offset: address + offset, at_return };
            let probe_name = format!("{}:{}", point.probe_type.provider(), parts[parts.len() - 1].text);
            let args = Args::Registers(None);
            return Ok(vec![self.resolved(point, ProgramKind::Kprobe, probe_name, attach, args, key(&None))]);
        }
        let names = self.functions(module.as_deref(), &name);
        if offset > 0 && (names.len() > 1 || at_return) {
            let message = if at_return {
                "a return probe cannot have an offset"
            } else {
                "an offset needs one function"
            };
            return Err(bad(point, point.ast.span, message));
        }
        let mut out = Vec::new();
        for (found_module, function) in names {
            let signature = self.function_signature(&function).map(Rc::new);
            let shown = module.as_ref().and(found_module.as_ref());
            let middle = shown.map_or(String::new(), |module| format!("{module}:"));
            let plus = if offset > 0 { format!("+{offset}") } else { String::new() };
            let probe_name = format!("{}:{middle}{function}{plus}", point.probe_type.provider());
            let attach =
                Attach::Kprobe { module: found_module, function: function.clone(), offset, at_return };
            let key = key(&signature);
            let args = Args::Registers(signature.filter(|_| offset == 0));
            let mut resolved = self.resolved(point, ProgramKind::Kprobe, probe_name, attach, args, key);
            resolved.variant.functions = vec![Some(function)];
            out.push(resolved);
        }
        if out.is_empty() {
            let message = format!("there is no kernel function {name} that can be probed");
            let candidates = self.facts.kernel_functions().iter().map(String::as_str);
            let finding =
                Diagnostic::error(Code::NoSuchProbe, point.ast.span, message).suggest(&name, candidates);
            return self.missing(point, finding);
        }
        Ok(out)
    }

    /// Kernel functions by name or wildcard, with their module.
    pub(super) fn functions(&self, module: Option<&str>, name: &str) -> Vec<(Option<String>, String)> {
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

    pub(super) fn function_signature(&self, name: &str) -> Option<Signature> {
        (0..self.resolver.blobs()).find_map(|blob| {
            let btf = self.resolver.blob(blob)?;
            let found = btf.function(name)?;
            Some(self.signature(blob, &found.parameters, found.result))
        })
    }

    pub(super) fn iterator(&self, point: &Point<'_>) -> Result<Vec<Resolved>, Box<Diagnostic>> {
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
            return Err(Box::new(
                Diagnostic::error(Code::NoSuchProbe, kind.span, message).suggest(&kind.text, names),
            ));
        };
        let pin = point.ast.parts.get(2).map(|part| part.text.clone());
        let name = format!("iter:{}", kind.text);
        let attach = Attach::Iterator { kind: kind.text.clone(), btf_id, pin };
        Ok(vec![self.resolved(point, ProgramKind::Iterator, name, attach, Args::Iterator(record), None)])
    }
}
