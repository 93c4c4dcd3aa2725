//! The front end in one go: text → checked program, each stage printable.

use std::collections::BTreeSet;

use bpf::KernelFacts;

use crate::diagnostic::{Code, Diagnostic, Findings, Severity, render};
use crate::environment::Unanswered;
use crate::hir;
use crate::options::Options;
use crate::presence::Presence;
use crate::sema;
use crate::source::{Source, Span};
use crate::syntax::ast::{Ast, Item};
use crate::syntax::parser::parse;
use crate::syntax::preprocess::preprocess;

/// What the front end made of a text.
#[derive(Debug)]
pub struct Front {
    /// The text with what it imports, for places and marking.
    pub source: Source,
    /// The program as understood, also with errors.
    pub ast: Ast,
    /// The `#` lines of the parts that were kept because of what this kernel has or lacks.
    pub choices: Vec<Span>,
    /// The typed program; none with errors.
    pub hir: Option<hir::Program>,
    /// Findings in the order of the text.
    pub findings: Vec<Diagnostic>,
}

impl Front {
    /// Whether there are errors.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }

    /// All findings as text.
    pub fn report(&self) -> String {
        self.findings.iter().map(|finding| render(finding, &self.source)).collect()
    }

    /// The program as text that reads back the same.
    pub fn ast_text(&self) -> String {
        crate::syntax::print::print(&self.ast)
    }

    /// The typed program as text.
    pub fn hir_text(&self) -> String {
        self.hir.as_ref().map_or(String::new(), hir::print::print)
    }
}

/// Reads and checks a program.
pub fn front(text: &str, options: &Options<'_>, facts: &dyn KernelFacts) -> Front {
    let findings = Findings::default();
    let (source, ast, choices) = read(text, options, facts, &findings);
    if findings.has(Code::ErrorDirective) {
        // As in C: what the rest of the text would say is beside the point.
        let mut findings = findings.into_sorted();
        findings.retain(|finding| finding.code == Code::ErrorDirective);
        return Front { source, ast, choices, hir: None, findings };
    }
    let hir = if findings.has_errors() && ast.items.is_empty() {
        None
    } else {
        // Types are checked in spite of errors in the text: what could be read is looked at too.
        sema::check(&ast, facts, options, &findings)
    };
    let hir = if findings.has_errors() { None } else { hir };
    Front { source, ast, choices, hir, findings: findings.into_sorted() }
}

/// Reads a program and what it imports; with the `#` lines of the parts that were kept because of what this
/// kernel has or lacks.
pub fn read(
    text: &str,
    options: &Options<'_>,
    facts: &dyn KernelFacts,
    findings: &Findings,
) -> (Source, Ast, Vec<Span>) {
    let version = facts.version();
    let code = (i64::from(version.0) << 16) + (i64::from(version.1) << 8) + i64::from(version.2.min(255));
    let mut predefined = vec![("LINUX_VERSION_CODE", code), ("__BPFTRACE__", 1), ("__linux__", 1)];
    if facts.btf().is_some() {
        predefined.push(("BPFTRACE_HAVE_BTF", 1));
    }
    predefined.push(match facts.machine() {
        "aarch64" => ("__aarch64__", 1),
        _ => ("__x86_64__", 1),
    });
    let presence = Presence { facts, environment: options.environment };
    let ask = |question: &str, arguments: &[String]| presence.ask(question, arguments);
    let mut choices = Vec::new();
    let mut source = Source::new(&options.name, text);
    let mut ast = Ast::default();
    let mut seen = BTreeSet::new();
    let mut todo = vec![(0u32, text.to_string())];
    while let Some((base, text)) = todo.pop() {
        let mut preprocessed = preprocess(&text, base, &predefined, &ask, findings);
        choices.append(&mut preprocessed.choices);
        let part = parse(&text, base, &preprocessed, &options.positional, findings);
        let mut imported = Vec::new();
        for item in part.items {
            match item {
                Item::Import(path) => {
                    if let Some(found) = import(&path.text, path.span, options, &mut seen, findings) {
                        let base = source.append(&path.text, &found);
                        todo.push((base, found));
                    }
                }
                other => imported.push(other),
            }
        }
        ast.items.extend(imported);
    }
    (source, ast, choices)
}

/// Files that a program may import, all together.
const MOST_IMPORTS: usize = 64;

fn import(
    path: &str,
    span: Span,
    options: &Options<'_>,
    seen: &mut BTreeSet<String>,
    findings: &Findings,
) -> Option<String> {
    // The standard library of bpftrace is built in here.
    if path.starts_with("stdlib/") || !seen.insert(path.to_string()) {
        return None;
    }
    if seen.len() > MOST_IMPORTS {
        findings.add(Diagnostic::error(
            Code::TooDeep,
            span,
            format!("more than {MOST_IMPORTS} files are imported"),
        ));
        return None;
    }
    match options.environment.import(path) {
        Ok(text) => Some(text),
        Err(Unanswered(why)) => {
            let message = format!("'{path}' cannot be imported: {why}");
            findings.add(Diagnostic::error(Code::BadImport, span, message));
            None
        }
    }
}
