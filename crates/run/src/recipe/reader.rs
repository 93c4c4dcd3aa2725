//! Reading TOML tables strictly: what is not asked for is a problem, and every problem of a
//! text is told, not just the first.

use std::fmt;
use std::ops::Range;

use bpf::btf::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One thing that is wrong in a recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub message: String,
    /// What to write instead; empty when the message says it.
    pub help: String,
}

/// All that is wrong in a recipe, by line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            write!(f, "{newline}line {}: {}", problem.line, problem.message)?;
            if !problem.help.is_empty() {
                write!(f, "; {}", problem.help)?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// The text under reading and the problems found so far.
pub(super) struct Context<'t> {
    text: &'t str,
    problems: Vec<Problem>,
}

impl<'t> Context<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Context { text, problems: Vec::new() }
    }

    pub(super) fn problem(
        &mut self,
        span: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        self.problems.push(Problem { line, message: message.into(), help: help.into() });
    }

    pub(super) fn finish<T>(mut self, value: Option<T>) -> Result<T, Problems> {
        match value {
            Some(value) if self.problems.is_empty() => Ok(value),
            _ => {
                self.problems.sort_by_key(|problem| problem.line);
                Err(Problems(self.problems))
            }
        }
    }
}

/// A table being read: keys are taken out one by one, what is left at the end is unknown.
pub(super) struct Table<'a, 'i> {
    name: String,
    span: Range<usize>,
    entries: Vec<(&'a Spanned<std::borrow::Cow<'i, str>>, &'a Spanned<DeValue<'i>>)>,
    asked: Vec<&'static str>,
}

impl<'a, 'i> Table<'a, 'i> {
    /// `name` is how messages call it, such as `[record]`; empty for the whole text.
    pub(super) fn new(name: impl Into<String>, span: Range<usize>, table: &'a DeTable<'i>) -> Self {
        Table { name: name.into(), span, entries: table.iter().collect(), asked: Vec::new() }
    }

    /// The value of a key, if it is there.
    pub(super) fn take(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'i>>> {
        self.asked.push(key);
        let position = self.entries.iter().position(|(name, _)| name.get_ref() == key)?;
        Some(self.entries.swap_remove(position).1)
    }

    /// The value of a key that has to be there.
    pub(super) fn need(
        &mut self,
        context: &mut Context,
        key: &'static str,
        example: &str,
    ) -> Option<&'a Spanned<DeValue<'i>>> {
        let found = self.take(key);
        if found.is_none() {
            context.problem(
                self.span.clone(),
                format!("`{key}` is missing{}", self.place()),
                format!("write {example}"),
            );
        }
        found
    }

    /// Tells of every key that was not asked for.
    pub(super) fn end(self, context: &mut Context) {
        let place = self.place();
        for (key, _) in &self.entries {
            let near = nearest(key.get_ref(), self.asked.iter().copied(), 1);
            let help = match near.first() {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("known here: {}", self.asked.join(", ")),
            };
            context.problem(key.span(), format!("unknown key `{}`{place}", key.get_ref()), help);
        }
    }

    fn place(&self) -> String {
        if self.name.is_empty() { String::new() } else { format!(" in {}", self.name) }
    }
}

/// What a value is, in TOML's words.
pub(super) fn kind(value: &DeValue) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// A value that has to be text.
pub(super) fn string<'a>(context: &mut Context, key: &str, value: &'a Spanned<DeValue>) -> Option<&'a str> {
    match value.get_ref() {
        DeValue::String(text) => Some(text),
        other => {
            context.problem(value.span(), format!("`{key}` is {}", kind(other)), "write text in quotes");
            None
        }
    }
}

/// A text that has to be one of a few.
pub(super) fn choice<T: Copy>(
    context: &mut Context,
    key: &str,
    value: &Spanned<DeValue>,
    allowed: &[(&'static str, T)],
) -> Option<T> {
    let text = string(context, key, value)?;
    let found = allowed.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    if found.is_none() {
        let names: Vec<&str> = allowed.iter().map(|(name, _)| *name).collect();
        let near = nearest(text, names.iter().copied(), 1);
        let help = match near.first() {
            Some(name) => format!("did you mean `{name}`? (allowed: {})", names.join(", ")),
            None => format!("allowed: {}", names.join(", ")),
        };
        context.problem(value.span(), format!("`{text}` is no value for `{key}`"), help);
    }
    found
}

/// A text that a function understands.
pub(super) fn understood<T>(
    context: &mut Context,
    key: &str,
    value: &Spanned<DeValue>,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Option<T> {
    let text = match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        // `duration = 10` is the mistake to expect: let the reader say that a unit is missing.
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        other => {
            context.problem(value.span(), format!("`{key}` is {}", kind(other)), "write text in quotes");
            return None;
        }
    };
    match read(&text) {
        Ok(value) => Some(value),
        Err(reason) => {
            context.problem(value.span(), format!("`{key}`: {reason}"), "");
            None
        }
    }
}

/// The elements of a list; one value alone is a problem.
pub(super) fn list<'a, 'i>(
    context: &mut Context,
    key: &str,
    value: &'a Spanned<DeValue<'i>>,
) -> Option<&'a [Spanned<DeValue<'i>>]> {
    match value.get_ref() {
        DeValue::Array(array) => Some(array),
        other => {
            context.problem(
                value.span(),
                format!("`{key}` is {}", kind(other)),
                "write a list: [\"…\", \"…\"]",
            );
            None
        }
    }
}
