//! What is wrong with a program: a stable code, a place, a sentence, and what to do.

mod codes;
mod render;

use std::cell::RefCell;

use crate::source::Span;
pub use codes::{CODES, Code, CodeRow};
pub use render::render;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The program compiles; it may not do what was meant.
    Warning,
    /// The program does not compile.
    Error,
}

/// One finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Which kind of finding, for `lotse explain`.
    pub code: Code,
    /// Error or warning.
    pub severity: Severity,
    /// One sentence without a full stop.
    pub message: String,
    /// The place it is about.
    pub span: Span,
    /// Other places with what they have to do with it.
    pub notes: Vec<(Span, String)>,
    /// What to do.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error.
    pub fn error(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            severity: Severity::Error,
            message: message.into(),
            span,
            notes: Vec::new(),
            help: None,
        }
    }

    /// A warning.
    pub fn warning(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// Adds what to do.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// Adds a `did you mean` unless there is nothing near.
    pub fn suggest<'a>(self, wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Diagnostic {
        match did_you_mean(wanted, candidates) {
            Some(help) => self.help(help),
            None => self,
        }
    }

    /// Adds another place.
    pub fn note(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.notes.push((span, text.into()));
        self
    }
}

/// "did you mean …?" with the nearest names, or nothing.
pub fn did_you_mean<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let near = bpf::btf::nearest(wanted, candidates, 3);
    let near: Vec<String> = near.iter().map(|name| format!("'{name}'")).collect();
    let (last, rest) = near.split_last()?;
    if rest.is_empty() {
        Some(format!("did you mean {last}?"))
    } else {
        Some(format!("did you mean {} or {last}?", rest.join(", ")))
    }
}

/// Findings so far. Collects through a shared reference, so that every pass can add to it.
#[derive(Debug, Default)]
pub struct Findings {
    list: RefCell<Vec<Diagnostic>>,
}

/// A program with hundreds of errors has one mistake made often: the rest is not kept.
const MOST_FINDINGS: usize = 200;

impl Findings {
    /// Adds a finding, once for each place and sentence.
    pub fn add(&self, diagnostic: Diagnostic) {
        let mut list = self.list.borrow_mut();
        if list.len() < MOST_FINDINGS && !list.contains(&diagnostic) {
            list.push(diagnostic);
        }
    }

    /// Whether there is an error among them.
    pub fn has_errors(&self) -> bool {
        self.list.borrow().iter().any(|finding| finding.severity == Severity::Error)
    }

    /// Whether there is one of this kind.
    pub fn has(&self, code: Code) -> bool {
        self.list.borrow().iter().any(|finding| finding.code == code)
    }

    /// Number of findings, to see whether a step added any.
    pub fn count(&self) -> usize {
        self.list.borrow().len()
    }

    /// Takes back what was added after `count` findings (a step that is tried again otherwise).
    pub fn truncate(&self, count: usize) {
        self.list.borrow_mut().truncate(count);
    }

    /// All of them in the order of the text.
    pub fn into_sorted(self) -> Vec<Diagnostic> {
        let mut list = self.list.into_inner();
        list.sort_by_key(|finding| (finding.span.start, finding.span.end));
        list
    }
}
