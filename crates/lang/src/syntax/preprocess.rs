//! The C preprocessor's part: `#` lines are carried out and replaced by blanks, so that
//! every other byte keeps its place.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::ast::Text;
use crate::diagnostic::{Code, Diagnostic, Findings};
use crate::presence::QUESTIONS;
use crate::source::Span;

/// What `#define` gave a name.
#[derive(Clone, Debug)]
pub struct Define {
    /// The name.
    pub name: Text,
    /// Parameters; none for `#define NAME`.
    pub parameters: Option<Vec<Text>>,
    /// Place of the body in the text.
    pub body: Span,
}

/// Text without `#` lines and skipped parts, and the definitions.
#[derive(Clone, Debug)]
pub struct Preprocessed {
    /// As long as the text that came in.
    pub text: String,
    /// By name.
    pub defines: BTreeMap<String, Define>,
    /// Parts kept because of what the kernel has or lacks: the `#` line of each.
    pub choices: Vec<Span>,
}

/// Answers what `#if` asks about the kernel: `probe("…")`, `field("…", "…")`, `kfunc("…")`. An error is a
/// question that was asked wrongly.
pub type Ask<'a> = dyn Fn(&str, &[String]) -> Result<bool, String> + 'a;

/// For texts that have no kernel to ask.
pub fn nothing_known(question: &str, _: &[String]) -> Result<bool, String> {
    Err(format!("{question} is not known here"))
}

/// Numbers that names have before the program defines any (`BPFTRACE_HAVE_BTF`, `LINUX_VERSION_CODE`).
pub type Predefined = [(&'static str, i64)];

const DIRECTIVES: &[&str] = &[
    "include", "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "error", "warning",
    "pragma", "line",
];

struct Conditional {
    span: Span,
    /// Whether the part at hand is kept.
    active: bool,
    /// Whether some part was kept already.
    taken: bool,
    /// Whether a condition so far asked about the kernel.
    asked: bool,
}

/// Carries out the `#` lines of a text that begins at byte `base` of the source.
pub fn preprocess(
    text: &str,
    base: u32,
    predefined: &Predefined,
    ask: &Ask<'_>,
    findings: &Findings,
) -> Preprocessed {
    let mut out = text.as_bytes().to_vec();
    let mut state = State {
        text,
        base,
        predefined,
        ask,
        findings,
        defines: BTreeMap::new(),
        asked: Cell::new(false),
        choices: Vec::new(),
    };
    let mut conditionals: Vec<Conditional> = Vec::new();
    let mut in_comment = false;
    let mut at = 0;
    while at < text.len() {
        let end = logical_line_end(text, at, in_comment);
        let line = &text[at..end];
        let trimmed = line.trim_start();
        let start = at + (line.len() - trimmed.len());
        let directive = if in_comment { None } else { directive(trimmed) };
        let active = conditionals.iter().all(|c| c.active);
        if at == 0 && trimmed.starts_with("#!") {
            blank(&mut out[at..end]);
        } else if let Some((word, rest)) = directive {
            blank(&mut out[at..end]);
            let rest_at = start + (trimmed.len() - rest.len());
            let span = state.span(start, start + trimmed.trim_end().len());
            state.directive(word, rest_at, end, span, active, &mut conditionals);
        } else if !active {
            blank(&mut out[at..end]);
        } else {
            in_comment = comment_state(line, in_comment);
        }
        at = end;
    }
    for open in conditionals {
        findings.add(Diagnostic::error(Code::BadDirective, open.span, "this #if has no #endif"));
    }
    // Whole characters were replaced by as many blanks as they have bytes.
    Preprocessed {
        text: String::from_utf8(out).unwrap_or_default(),
        defines: state.defines,
        choices: state.choices,
    }
}

fn blank(bytes: &mut [u8]) {
    for byte in bytes {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

/// The end of the line that begins at `at`, with its line break; for `#` lines continued by `\`.
fn logical_line_end(text: &str, at: usize, in_comment: bool) -> usize {
    let continued = !in_comment && text[at..].trim_start_matches([' ', '\t']).starts_with('#');
    let mut end = at;
    loop {
        match text[end..].find('\n') {
            None => return text.len(),
            Some(length) => {
                let line = text[end..end + length].trim_end_matches('\r');
                end += length + 1;
                if !(continued && line.ends_with('\\')) {
                    return end;
                }
            }
        }
    }
}

fn directive(line: &str) -> Option<(&'static str, &str)> {
    let rest = line.strip_prefix('#')?.trim_start_matches([' ', '\t']);
    let length = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    let word = DIRECTIVES.iter().find(|word| **word == &rest[..length])?;
    Some((word, &rest[length..]))
}

/// Whether a block comment is open after this line.
fn comment_state(line: &str, mut in_comment: bool) -> bool {
    let bytes = line.as_bytes();
    let mut i = 0;
    let mut in_string = false;
    while i < bytes.len() {
        let pair = (bytes[i], bytes.get(i + 1).copied().unwrap_or(0));
        if in_comment {
            if pair == (b'*', b'/') {
                in_comment = false;
                i += 1;
            }
        } else if in_string {
            match pair.0 {
                b'\\' => i += 1,
                b'"' | b'\n' => in_string = false,
                _ => {}
            }
        } else {
            match pair {
                (b'/', b'/') => return false,
                (b'/', b'*') => {
                    in_comment = true;
                    i += 1;
                }
                (b'"', _) => in_string = true,
                _ => {}
            }
        }
        i += 1;
    }
    in_comment
}

struct State<'a> {
    text: &'a str,
    base: u32,
    predefined: &'a Predefined,
    ask: &'a Ask<'a>,
    findings: &'a Findings,
    defines: BTreeMap<String, Define>,
    /// Whether the condition at hand asked about the kernel.
    asked: Cell<bool>,
    choices: Vec<Span>,
}

impl State<'_> {
    fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.base as usize + start, self.base as usize + end)
    }

    fn wrong(&self, span: Span, message: impl Into<String>) {
        self.findings.add(Diagnostic::error(Code::BadDirective, span, message));
    }

    fn directive(
        &mut self,
        word: &str,
        at: usize,
        end: usize,
        span: Span,
        active: bool,
        conditionals: &mut Vec<Conditional>,
    ) {
        let rest = strip_comment(&self.text[at..end]);
        match word {
            "ifdef" | "ifndef" | "if" => {
                let holds = match word {
                    "ifdef" => self.is_defined(rest.trim()),
                    "ifndef" => !self.is_defined(rest.trim()),
                    _ => active && self.condition(rest, span),
                };
                let asked = self.asked.take();
                if holds && asked {
                    self.choices.push(span);
                }
                conditionals.push(Conditional { span, active: holds, taken: holds, asked });
            }
            "elif" | "else" => {
                let outer = conditionals.iter().rev().skip(1).all(|c| c.active);
                let taken = conditionals.last().is_some_and(|last| last.taken);
                let holds = word == "else" || (outer && !taken && self.condition(rest, span));
                match conditionals.last_mut() {
                    Some(last) => {
                        last.asked |= self.asked.take();
                        last.active = holds && !last.taken;
                        last.taken |= last.active;
                        if last.active && last.asked && outer {
                            self.choices.push(span);
                        }
                    }
                    None => self.wrong(span, format!("#{word} without #if")),
                }
            }
            "endif" if conditionals.pop().is_some() => {}
            "endif" => self.wrong(span, "#endif without #if"),
            _ if !active => {}
            "define" => self.define(at, end, span),
            "undef" => {
                self.defines.remove(rest.trim());
            }
            "error" => {
                let text = rest.trim();
                let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
                self.findings.add(Diagnostic::error(
                    Code::ErrorDirective,
                    span,
                    quoted.map_or_else(|| format!("#error {text}"), str::to_owned),
                ));
            }
            "warning" => {
                let message = format!("#warning{}", rest.trim_end());
                self.findings.add(Diagnostic::warning(Code::BadDirective, span, message));
            }
            _ => {}
        }
    }

    fn define(&mut self, at: usize, end: usize, span: Span) {
        let rest = &self.text[at..end];
        let start = at + (rest.len() - rest.trim_start().len());
        let rest = rest.trim_start();
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        if length == 0 {
            return self.wrong(span, "#define needs a name");
        }
        let name = Text { text: rest[..length].into(), span: self.span(start, start + length) };
        let mut body = start + length;
        let mut parameters = None;
        if rest[length..].starts_with('(') {
            let Some(close) = rest[length..].find(')') else {
                return self.wrong(span, "the parameters of this #define do not end");
            };
            let list = &rest[length + 1..length + close];
            let mut names = Vec::new();
            for part in list.split(',').map(str::trim).filter(|part| !part.is_empty()) {
                if !part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                    return self.wrong(span, format!("'{part}' cannot be a parameter of a #define"));
                }
                names.push(Text { text: part.into(), span: name.span });
            }
            parameters = Some(names);
            body += close + 1;
        }
        let text = strip_comment(&self.text[body..end]);
        let body = self.span(body, body + text.trim_end().len());
        self.defines.insert(name.text.clone(), Define { name, parameters, body });
    }

    fn is_defined(&self, name: &str) -> bool {
        self.defines.contains_key(name) || self.predefined.iter().any(|(have, _)| *have == name)
    }

    fn condition(&self, text: &str, span: Span) -> bool {
        let mut reader = Condition { state: self, rest: text, depth: 0, wrong: None };
        match reader.binary(0) {
            Some(value) if reader.rest.trim().is_empty() => value != 0,
            _ => {
                let why = reader.wrong.unwrap_or_else(|| "this condition cannot be read".to_owned());
                self.wrong(span, why);
                false
            }
        }
    }

    fn value(&self, name: &str, depth: u32) -> i64 {
        if let Some((_, value)) = self.predefined.iter().find(|(have, _)| *have == name) {
            return *value;
        }
        let Some(define) = self.defines.get(name).filter(|_| depth < 16) else { return 0 };
        let body = (define.body.start - self.base) as usize..(define.body.end - self.base) as usize;
        let mut reader =
            Condition { state: self, rest: self.text.get(body).unwrap_or(""), depth: depth + 1, wrong: None };
        reader.binary(0).unwrap_or(0)
    }
}

/// The text before a `//` or `/*` comment.
fn strip_comment(text: &str) -> &str {
    let mut in_string = false;
    let bytes = text.as_bytes();
    for i in 0..bytes.len() {
        match bytes[i] {
            b'"' if i == 0 || bytes[i - 1] != b'\\' => in_string = !in_string,
            b'/' if !in_string && matches!(bytes.get(i + 1), Some(b'/' | b'*')) => return &text[..i],
            _ => {}
        }
    }
    text
}

/// `#if` expressions: integers, names, `defined`, questions about the kernel, C operators.
struct Condition<'a> {
    state: &'a State<'a>,
    rest: &'a str,
    depth: u32,
    /// Why it cannot be read, where more can be said than that.
    wrong: Option<String>,
}

const OPERATORS: &[(&str, u8)] = &[
    ("||", 1),
    ("&&", 2),
    ("==", 3),
    ("!=", 3),
    ("<=", 4),
    (">=", 4),
    ("<<", 5),
    (">>", 5),
    ("<", 4),
    (">", 4),
    ("+", 6),
    ("-", 6),
    ("*", 7),
];

impl<'a> Condition<'a> {
    fn eat(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start_matches([' ', '\t', '\\', '\n', '\r']);
        let found = rest.strip_prefix(token);
        self.rest = found.unwrap_or(rest);
        found.is_some()
    }

    fn binary(&mut self, least: u8) -> Option<i64> {
        self.depth += 1;
        if self.depth > 64 {
            return None;
        }
        let mut left = self.unary()?;
        'next: loop {
            self.eat("");
            for (operator, rank) in OPERATORS {
                if *rank > least && self.rest.starts_with(operator) {
                    self.eat(operator);
                    let right = self.binary(*rank)?;
                    left = match *operator {
                        "||" => i64::from(left != 0 || right != 0),
                        "&&" => i64::from(left != 0 && right != 0),
                        "==" => i64::from(left == right),
                        "!=" => i64::from(left != right),
                        "<=" => i64::from(left <= right),
                        ">=" => i64::from(left >= right),
                        "<" => i64::from(left < right),
                        ">" => i64::from(left > right),
                        "<<" => left.checked_shl(u32::try_from(right).ok()?)?,
                        ">>" => left.checked_shr(u32::try_from(right).ok()?)?,
                        "+" => left.wrapping_add(right),
                        "-" => left.wrapping_sub(right),
                        _ => left.wrapping_mul(right),
                    };
                    continue 'next;
                }
            }
            self.depth -= 1;
            return Some(left);
        }
    }

    fn unary(&mut self) -> Option<i64> {
        self.depth += 1;
        if self.depth > 64 {
            return None;
        }
        let value = if self.eat("!") {
            i64::from(self.unary()? == 0)
        } else if self.eat("-") {
            self.unary()?.wrapping_neg()
        } else if self.eat("(") {
            let value = self.binary(0)?;
            self.eat(")").then_some(value)?
        } else {
            self.primary()?
        };
        self.depth -= 1;
        Some(value)
    }

    fn word(&mut self) -> &'a str {
        self.eat("");
        let length =
            self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(length);
        self.rest = rest;
        word
    }

    /// `("…", "…")` after a question's name.
    fn texts(&mut self) -> Option<Vec<String>> {
        let mut texts = Vec::new();
        let mut before = "(";
        loop {
            self.eat(before).then_some(())?;
            self.eat("");
            let text = self.rest.strip_prefix('"')?;
            let end = text.find('"')?;
            texts.push(text[..end].to_owned());
            self.rest = &text[end + 1..];
            if self.eat(")") {
                return Some(texts);
            }
            before = ",";
        }
    }

    fn primary(&mut self) -> Option<i64> {
        let word = self.word();
        if QUESTIONS.contains(&word) && self.rest.trim_start().starts_with('(') {
            let texts = self.texts()?;
            self.state.asked.set(true);
            return match (self.state.ask)(word, &texts) {
                Ok(holds) => Some(i64::from(holds)),
                Err(why) => {
                    self.wrong = Some(why);
                    None
                }
            };
        }
        if word == "defined" {
            let parenthesis = self.eat("(");
            let name = self.word();
            if parenthesis && !self.eat(")") {
                return None;
            }
            return Some(i64::from(self.state.is_defined(name)));
        }
        if word == "KERNEL_VERSION" && self.eat("(") {
            let mut code = 0;
            for last in [",", ",", ")"] {
                code = (code << 8) + self.binary(0)?;
                self.eat(last).then_some(())?;
            }
            return Some(code);
        }
        match word.chars().next()? {
            '0'..='9' => {
                let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
                match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
                    Some(hex) => i64::from_str_radix(hex, 16).ok(),
                    None => digits.parse().ok(),
                }
            }
            _ => Some(self.state.value(word, self.depth)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: &str) -> (String, usize) {
        let findings = Findings::default();
        let out = preprocess(
            text,
            0,
            &[("BPFTRACE_HAVE_BTF", 1), ("LINUX_VERSION_CODE", 0x061200)],
            &nothing_known,
            &findings,
        );
        assert_eq!(out.text.len(), text.len());
        let words: Vec<&str> = out.text.split_whitespace().collect();
        (words.join(" "), findings.into_sorted().len())
    }

    #[test]
    fn conditional_parts_are_kept_or_blanked() {
        assert_eq!(kept("#ifndef BPFTRACE_HAVE_BTF\na\n#else\nb\n#endif\nc"), ("b c".into(), 0));
        assert_eq!(
            kept("#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 1, 0) && !defined(X)\na\n#endif"),
            ("a".into(), 0)
        );
        assert_eq!(
            kept("#define X 2\n#if X == 1\na\n#elif X * 2 == 4\nb\n#else\nc\n#endif"),
            ("b".into(), 0)
        );
        assert_eq!(kept("#ifdef X\n#ifdef Y\na\n#else\nb\n#endif\n#endif\nc"), ("c".into(), 0));
        assert_eq!(kept("#if 1\na"), ("a".into(), 1));
        assert_eq!(kept("#endif\n#if (\n#endif"), (String::new(), 2));
    }

    #[test]
    fn comments_and_other_hashes_are_left_alone() {
        assert_eq!(kept("/*\n#define X\n*/ $#"), ("/* #define X */ $#".into(), 0));
        assert_eq!(kept("#!/usr/bin/env bpftrace\nbegin"), ("begin".into(), 0));
        assert_eq!(kept("a \"/*\" \n#include <x>\nb"), ("a \"/*\" b".into(), 0));
    }

    #[test]
    fn definitions_have_bodies_and_parameters() {
        let text = "#define A 1 // one\n#define ADD(a, b) ((a) + \\\n (b))\n#define E\n";
        let findings = Findings::default();
        let out = preprocess(text, 0, &[], &nothing_known, &findings);
        let body = |name: &str| {
            let span = out.defines[name].body;
            text[span.start as usize..span.end as usize].trim().to_string()
        };
        assert_eq!(body("A"), "1");
        assert_eq!(body("ADD"), "((a) + \\\n (b))");
        assert_eq!(body("E"), "");
        assert_eq!(out.defines["ADD"].parameters.as_ref().map(Vec::len), Some(2));
    }

    #[test]
    fn parts_are_chosen_by_what_the_kernel_has() {
        let text = "#if probe(\"fentry:f\")\na\n#elif !field(\"struct s\", \"x.y\") && (kfunc(\"k\") || 0)\nb\n#else\nc\n#endif\n#if 1\nd\n#endif\n";
        let chosen = |has: &[&str]| {
            let findings = Findings::default();
            let ask = |question: &str, texts: &[String]| {
                Ok(has.contains(&format!("{question} {}", texts.join(" ")).as_str()))
            };
            let out = preprocess(text, 0, &[], &ask, &findings);
            assert!(findings.into_sorted().is_empty());
            let words: Vec<&str> = out.text.split_whitespace().collect();
            let lines: Vec<&str> =
                out.choices.iter().map(|span| &text[span.start as usize..span.end as usize]).collect();
            format!("{}: {}", words.join(" "), lines.join(", "))
        };
        assert_eq!(chosen(&["probe fentry:f", "kfunc k"]), "a d: #if probe(\"fentry:f\")");
        assert!(chosen(&["kfunc k"]).starts_with("b d: #elif !field"));
        assert_eq!(chosen(&["kfunc k", "field struct s x.y"]), "c d: #else");
    }

    #[test]
    fn questions_asked_wrongly_are_told() {
        let findings = Findings::default();
        let ask = |_: &str, _: &[String]| Err("ask otherwise".to_owned());
        preprocess(
            "#if probe(\"x\")\n#endif\n#if probe(x)\n#endif\n#error \"nothing here\"\n",
            0,
            &[],
            &ask,
            &findings,
        );
        let found: Vec<String> = findings.into_sorted().into_iter().map(|finding| finding.message).collect();
        assert_eq!(found, ["ask otherwise", "this condition cannot be read", "nothing here"]);
    }
}
