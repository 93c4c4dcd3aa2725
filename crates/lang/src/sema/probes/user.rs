//! Functions and static probes of executables and libraries.

use super::*;
use crate::environment::Symbol;
use crate::sema::usdt;

impl Expander<'_> {
    pub(super) fn binaries(&self, point: &Point<'_>, part: &Text) -> Result<Vec<String>, Box<Diagnostic>> {
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

    pub(super) fn uprobe(&self, point: &Point<'_>) -> Result<Vec<Resolved>, Box<Diagnostic>> {
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
        let resolve = |path: &str,
                       function: String,
                       offset: u64,
                       signature: Option<Signature>,
                       out: &mut Vec<Resolved>| {
            let key = Some(format!("uprobe {at_return} {signature:?}"));
            let probe_name =
                format!("{provider}:{path}:{}", if function.is_empty() { &last.text } else { &function });
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
                self.take_types(&path, point);
                for offset in self.ask(point, self.environment.source_line(&path, file, line))? {
                    resolve(&path, String::new(), offset, None, &mut out);
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
        let mut inlined = None;
        for path in self.binaries(point, &parts[1])? {
            self.take_types(&path, point);
            if let Ok(address) = parse_number(&name)
                && name.starts_with(|c: char| c.is_ascii_digit())
            {
                match self.ask(point, self.environment.address_to_offset(&path, address + offset))? {
                    Some(at) => resolve(&path, String::new(), at, None, &mut out),
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
                inlined = inlined.or(self.environment.inlined(&path, &name).unwrap_or(None));
                let names = all.iter().map(|one| one.name.as_str());
                nearest = nearest.or_else(|| crate::diagnostic::did_you_mean(&name, names));
            }
            for symbol in found {
                if offset > 0 && symbol.size > 0 && offset >= symbol.size {
                    let message = format!("{name} has {} bytes, so +{offset} is outside of it", symbol.size);
                    return Err(bad(point, last.span, message));
                }
                let signature = match offset {
                    0 => self.debug_signature(&path, &symbol, point)?,
                    _ if point.uses.args() => {
                        let message = "arguments are known by name at a function's entry only";
                        return Err(Box::new(
                            Diagnostic::error(Code::NotInThisProbe, last.span, message)
                                .help("use reg(\"ax\") and the like, or the function without an offset"),
                        ));
                    }
                    _ => None,
                };
                let shown = if cpp { symbol.demangled.unwrap_or(symbol.name) } else { symbol.name };
                resolve(&path, shown, symbol.file_offset + offset, signature, &mut out);
            }
        }
        if out.is_empty() {
            let message = format!("there is no function {name} in {}", parts[1].text);
            let mut finding = Diagnostic::error(Code::NoSuchProbe, point.ast.span, message);
            finding.help = match inlined {
                None => nearest,
                Some(places) => {
                    let what = match places {
                        0 => "it was inlined and folded away".to_owned(),
                        1 => "it was inlined at one place and has no code of its own".to_owned(),
                        _ => format!("it was inlined at {places} places and has no code of its own"),
                    };
                    Some(format!("{what}: probe its caller, or a source line, FILE@SOURCE:LINE"))
                }
            };
            return self.missing(point, finding);
        }
        Ok(out)
    }

    /// What debug information says of a function, if the program uses it.
    fn debug_signature(
        &self,
        path: &str,
        symbol: &Symbol,
        point: &Point<'_>,
    ) -> Result<Option<Signature>, Box<Diagnostic>> {
        let wants_result = point.probe_type == ProbeType::Uretprobe && point.uses.has("retval");
        if !point.uses.args() && !wants_result {
            return Ok(None);
        }
        let found = match self.environment.debug_function(path, symbol) {
            Ok(Some(found)) => found,
            // Without it the result is a plain number.
            Ok(None) | Err(_) if !point.uses.args() => return Ok(None),
            Ok(None) => {
                let message = format!("the debug information of {path} does not describe {}", symbol.name);
                return Err(self.no_names(point, message));
            }
            Err(Unanswered(why)) => return Err(self.no_names(point, why)),
        };
        let blob = self.resolver.add_types(path, found.types);
        let type_of = |id| in_user_space(self.resolver.type_of_btf(blob, id));
        let result = match found.result {
            0 => Type::U64,
            id => type_of(id),
        };
        let places = found.parameters.iter().map(|parameter| parameter.place.clone()).collect();
        let parameters = found
            .parameters
            .into_iter()
            .map(|parameter| (parameter.name, type_of(parameter.type_id)))
            .collect();
        Ok(Some(Signature { parameters, places, result }))
    }

    fn no_names(&self, point: &Point<'_>, why: String) -> Box<Diagnostic> {
        let message = format!("arguments are not known by name here: {why}");
        let help = "arg0, arg1, … are the registers of the calling convention";
        Box::new(Diagnostic::error(Code::NotInThisProbe, point.ast.span, message).help(help))
    }

    /// Types that the program names and that nobody else knows: the executable's own.
    fn take_types(&self, path: &str, point: &Point<'_>) {
        // Types that need a length are found where they are used.
        let own = ["string", "buffer", "inet"];
        for name in point.uses.types.iter().filter(|name| !own.contains(&name.as_str())) {
            let known = self.resolver.record(name, false).is_some()
                || self.resolver.record(name, true).is_some()
                || self.resolver.enumeration(name).is_some()
                || self.resolver.named(name).is_some();
            if !known && let Ok(Some(types)) = self.environment.debug_type(path, name) {
                self.resolver.add_types(path, types);
            }
        }
    }

    pub(super) fn usdt(&self, point: &Point<'_>) -> Result<Vec<Resolved>, Box<Diagnostic>> {
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
}
