//! Functions and static probes of executables and libraries.

use super::*;
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
        let resolve = |path: &str, function: String, offset: u64, out: &mut Vec<Resolved>| {
            let signature = self.debug_signature(path, &function, point);
            let key =
                Some(format!("uprobe {at_return} {:?}", signature.as_ref().filter(|_| point.uses.args())));
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

    pub(super) fn debug_signature(&self, path: &str, function: &str, point: &Point<'_>) -> Option<Signature> {
        if !point.uses.args() || function.is_empty() {
            return None;
        }
        let arguments = self.environment.debug_arguments(path, function).ok()??;
        let parameters = arguments.into_iter().map(|argument| {
            let ty = crate::sema::layout::c_type(&argument.c_type, self.resolver).unwrap_or(Type::U64);
            (argument.name, in_user_space(ty))
        });
        Some(Signature { parameters: parameters.collect(), result: Type::U64 })
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
