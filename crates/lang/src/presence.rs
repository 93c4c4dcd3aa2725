//! Whether the kernel at hand has what a program may choose by: `#if probe("…")`, `field("…", "…")`,
//! `kfunc("…")`. Answered from facts alone, so that a compile for another kernel chooses as that kernel would.

use bpf::KernelFacts;
use bpf::btf::{Btf, Kind, KindSet};
use bpf::facts::Feature;

use crate::environment::Environment;
use crate::glob::{Pattern, has_wildcard};

/// The kernel and files that are asked.
#[derive(Clone, Copy)]
pub struct Presence<'a> {
    /// The kernel.
    pub facts: &'a dyn KernelFacts,
    /// Files, for user-space probes.
    pub environment: &'a dyn Environment,
}

/// Names of the questions.
pub const QUESTIONS: [&str; 3] = ["probe", "field", "kfunc"];

impl Presence<'_> {
    /// Answers a question; an error says how it should have been asked.
    pub fn ask(&self, question: &str, arguments: &[String]) -> Result<bool, String> {
        match (question, arguments) {
            ("probe", [probe]) => self.probe(probe),
            ("probe", _) => Err("probe takes one text: probe(\"fentry:vfs_read\")".into()),
            ("field", [record, path]) => Ok(self.field(record, path)),
            ("field", _) => {
                Err("field takes a type and a path: field(\"struct request\", \"q.disk\")".into())
            }
            ("kfunc", [name]) => Ok(self.facts.has(Feature::Kfuncs) && self.function(name)),
            ("kfunc", _) => Err("kfunc takes one name: kfunc(\"bpf_strlen\")".into()),
            _ => Err(format!("there is no question {question}; there are {}", QUESTIONS.join(", "))),
        }
    }

    /// Whether a probe could be attached: it is there, and the kernel lets programs of its kind attach.
    fn probe(&self, probe: &str) -> Result<bool, String> {
        let (kind, rest) = probe.split_once(':').unwrap_or((probe, ""));
        let parts: Vec<&str> = rest.split(':').filter(|part| !part.is_empty()).collect();
        let name = parts.last().copied().unwrap_or("");
        if name.is_empty() && !matches!(kind, "begin" | "end" | "BEGIN" | "END") {
            return Err(format!("'{probe}' names no probe: what follows the colon is missing"));
        }
        let has = |feature| self.facts.has(feature);
        Ok(match kind {
            "begin" | "end" | "BEGIN" | "END" | "self" | "profile" | "p" | "interval" | "i" | "software"
            | "s" => true,
            "hardware" | "h" => has(Feature::HardwareEvents),
            "watchpoint" | "w" | "asyncwatchpoint" | "aw" => has(Feature::Breakpoints),
            "tracepoint" | "t" => matches_any(rest, self.facts.tracepoints()),
            "rawtracepoint" | "rt" => has(Feature::RawTracepoint) && self.raw_tracepoint(name),
            "fentry" | "kfunc" | "f" | "fexit" | "kretfunc" | "fr" => {
                has(Feature::Fentry) && self.function(name)
            }
            "kprobe" | "k" | "kretprobe" | "kr" => {
                has(Feature::Kprobes) && self.traceable(name.split('+').next().unwrap_or(name))
            }
            "iter" | "it" => {
                has(Feature::Iterators)
                    && self.function(&format!("bpf_iter_{}", parts.first().unwrap_or(&"")))
            }
            "uprobe" | "u" | "uretprobe" | "ur" => has(Feature::Uprobes) && self.user_function(&parts),
            "usdt" | "U" => has(Feature::Uprobes) && self.static_probe(&parts),
            _ => {
                let known = [
                    "tracepoint",
                    "rawtracepoint",
                    "fentry",
                    "fexit",
                    "kprobe",
                    "kretprobe",
                    "uprobe",
                    "usdt",
                ];
                let near = bpf::btf::nearest(kind, known, 1);
                return Err(match near.first() {
                    Some(near) => format!("there is no type of probe '{kind}'; did you mean {near}?"),
                    None => format!("there is no type of probe '{kind}'"),
                });
            }
        })
    }

    fn raw_tracepoint(&self, name: &str) -> bool {
        let has = |btf: &Btf| match has_wildcard(name) {
            true => {
                let pattern = Pattern::new(name);
                btf.tracepoint_names().any(|have| pattern.matches(have))
            }
            false => btf.tracepoint(name).is_some(),
        };
        self.facts.btf().is_some_and(has) || matches_any(&format!("*:{name}"), self.facts.tracepoints())
    }

    /// Whether BTF, the kernel's or a module's, has a function.
    fn function(&self, name: &str) -> bool {
        let has = |btf: &Btf| match has_wildcard(name) {
            true => {
                let pattern = Pattern::new(name);
                btf.names(KindSet::FUNCTION).any(|have| pattern.matches(have))
            }
            false => btf.find(name, KindSet::FUNCTION).is_some(),
        };
        let in_module = |module: &String| self.facts.module_btf(module).is_some_and(has);
        self.facts.btf().is_some_and(has) || self.facts.btf_modules().iter().any(in_module)
    }

    fn traceable(&self, name: &str) -> bool {
        let functions = self.facts.kernel_functions();
        if !has_wildcard(name) && functions.binary_search_by(|have| have.as_str().cmp(name)).is_ok() {
            return true;
        }
        let pattern = Pattern::new(name);
        let matches = |function: &String| {
            let bare = function.rsplit(':').next().unwrap_or(function);
            pattern.matches(bare)
        };
        functions.iter().any(matches)
    }

    fn user_function(&self, parts: &[&str]) -> bool {
        let [path, .., name] = parts else { return false };
        let pattern = Pattern::new(name.split('+').next().unwrap_or(name));
        let has = |path: &String| {
            self.environment.symbols(path, &pattern, false).is_ok_and(|symbols| !symbols.is_empty())
        };
        self.environment.binaries(path).is_ok_and(|paths| paths.iter().any(has))
    }

    fn static_probe(&self, parts: &[&str]) -> bool {
        let (path, provider, name) = match parts {
            [path, provider, name] => (path, *provider, name),
            [path, name] => (path, "*", name),
            _ => return false,
        };
        let (provider, name) = (Pattern::new(provider), Pattern::new(name));
        let has = |path: &String| {
            self.environment.usdt(path, &provider, &name).is_ok_and(|notes| !notes.is_empty())
        };
        self.environment.binaries(path).is_ok_and(|paths| paths.iter().any(has))
    }

    /// Whether a struct, union or typedef has a member, by a path that goes through members and pointers.
    fn field(&self, record: &str, path: &str) -> bool {
        let name = record.trim();
        let name = name.strip_prefix("struct ").or(name.strip_prefix("union ")).unwrap_or(name).trim();
        let in_blob = |btf: &Btf| {
            let Some(mut id) = btf.find_struct(name).or_else(|| btf.find_c_name(record.trim())) else {
                return false;
            };
            for member in path.split(['.', '-', '>']).map(str::trim).filter(|member| !member.is_empty()) {
                while let Some(Kind::Pointer(to) | Kind::Array { element: to, .. }) =
                    btf.resolve(id).map(|found| found.kind)
                {
                    id = to;
                }
                let Some(found) = btf.field(id, member) else { return false };
                id = found.type_id;
            }
            true
        };
        let in_module = |module: &String| self.facts.module_btf(module).is_some_and(in_blob);
        self.facts.btf().is_some_and(in_blob) || self.facts.btf_modules().iter().any(in_module)
    }
}

fn matches_any(pattern: &str, names: &[String]) -> bool {
    if !has_wildcard(pattern) {
        return names.binary_search_by(|have| have.as_str().cmp(pattern)).is_ok();
    }
    let pattern = Pattern::new(pattern);
    names.iter().any(|have| pattern.matches(have))
}

#[cfg(test)]
mod tests {
    use bpf::facts::SavedFacts;

    use super::*;
    use crate::environment::Nowhere;

    fn ask(facts: &SavedFacts, question: &str, texts: &[&str]) -> Result<bool, String> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        Presence { facts, environment: &Nowhere }.ask(question, &texts)
    }

    #[test]
    fn questions_asked_wrongly_say_how_to_ask() {
        let facts = SavedFacts::default();
        assert!(ask(&facts, "probe", &["fentri:x"]).unwrap_err().contains("did you mean fentry?"));
        assert!(ask(&facts, "probe", &["fentry:"]).unwrap_err().contains("missing"));
        assert!(ask(&facts, "field", &["struct x"]).unwrap_err().contains("q.disk"));
    }
}
