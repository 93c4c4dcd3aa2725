//! Recursive descent over the words of a program. An error is reported where it is met; the
//! statement or item it is in is skipped, and reading goes on.

mod c;
mod expr;
mod item;
mod probe;
mod statement;
mod types;

use std::collections::BTreeSet;

use super::ast::{Ast, Item, Text};
use super::lexer::{self, Token};
use super::preprocess::{Define, Preprocessed};
use crate::diagnostic::{Code, Diagnostic, Findings};
use crate::source::Span;

/// The error is reported already; the caller finds a place to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reported;

pub(super) type Parsed<T> = Result<T, Reported>;

/// Deeper nesting is refused, so that hostile texts cannot exhaust the stack.
const DEEPEST: u32 = 120;

/// Reads one file. `raw` is its text, `base` the byte of the source where it begins,
/// `positional` the parameters that probes may use (`interval:s:$1`).
pub fn parse(
    raw: &str,
    base: u32,
    preprocessed: &Preprocessed,
    positional: &[String],
    findings: &Findings,
) -> Ast {
    let mut parser = Parser {
        text: &preprocessed.text,
        raw,
        base,
        at: 0,
        token: Token::End,
        span: Span::new(base as usize, base as usize),
        last: Span::new(base as usize, base as usize),
        defines: preprocessed,
        expanding: Vec::new(),
        called: BTreeSet::new(),
        typedefs: BTreeSet::new(),
        positional,
        findings,
        in_predicate: false,
        depth: 0,
    };
    parser.bump();
    let mut ast = Ast::default();
    while parser.token != Token::End {
        let before = parser.span.start;
        if parser.item(&mut ast.items).is_err() {
            parser.skip_item(before);
        }
    }
    parser.function_defines(&mut ast.items);
    ast
}

struct Parser<'a> {
    /// Text without `#` lines, or a part of `raw` while a `#define` is read.
    text: &'a str,
    raw: &'a str,
    base: u32,
    /// Where the next word is looked for.
    at: usize,
    token: Token,
    span: Span,
    /// Place of the word before.
    last: Span,
    defines: &'a Preprocessed,
    /// `#define`s being read, against endless recursion.
    expanding: Vec<String>,
    /// `#define`s with parameters that were called.
    called: BTreeSet<String>,
    /// Names that typedefs of the preamble gave.
    typedefs: BTreeSet<String>,
    positional: &'a [String],
    findings: &'a Findings,
    in_predicate: bool,
    depth: u32,
}

impl<'a> Parser<'a> {
    fn bump(&mut self) {
        self.last = self.span;
        let (token, span, finding) = lexer::next(self.text, self.at, self.base);
        self.at = (span.end - self.base) as usize;
        self.token = token;
        self.span = span;
        if let Some(finding) = finding {
            self.findings.add(finding);
        }
    }

    /// Goes back to a place taken from `span.start`.
    fn back_to(&mut self, start: u32, last: Span) {
        self.at = (start - self.base) as usize;
        self.bump();
        self.last = last;
    }

    /// The text of the word at hand.
    fn word(&self) -> &'a str {
        self.text
            .get((self.span.start - self.base) as usize..(self.span.end - self.base) as usize)
            .unwrap_or("")
    }

    /// The word after the one at hand.
    fn peek(&self) -> (Token, &'a str) {
        let (token, span, _) = lexer::next(self.text, self.at, self.base);
        let text = self.text.get((span.start - self.base) as usize..(span.end - self.base) as usize);
        (token, text.unwrap_or(""))
    }

    fn is(&self, sign: &str) -> bool {
        matches!(&self.token, Token::Sign(have) if *have == sign)
    }

    fn is_word(&self, word: &str) -> bool {
        self.token == Token::Name && self.word() == word
    }

    fn eat(&mut self, sign: &str) -> bool {
        let found = self.is(sign);
        if found {
            self.bump();
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.bump();
        }
        found
    }

    fn expect(&mut self, sign: &str) -> Parsed<Span> {
        if self.is(sign) {
            let span = self.span;
            self.bump();
            return Ok(span);
        }
        Err(self.expected(&format!("'{sign}'")))
    }

    fn name(&mut self, what: &str) -> Parsed<Text> {
        if self.token != Token::Name {
            return Err(self.expected(what));
        }
        let text = Text { text: self.word().into(), span: self.span };
        self.bump();
        Ok(text)
    }

    /// Reports that something else should stand here.
    fn expected(&self, what: &str) -> Reported {
        // A malformed word is reported by the lexer already.
        if self.token != Token::Bad {
            let found = match &self.token {
                Token::End => "the end of the program".to_string(),
                _ => format!("'{}'", self.word()),
            };
            let message = format!("expected {what}, found {found}");
            self.findings.add(Diagnostic::error(Code::UnexpectedToken, self.span, message));
        }
        Reported
    }

    fn wrong(&self, code: Code, span: Span, message: impl Into<String>) -> Reported {
        self.findings.add(Diagnostic::error(code, span, message));
        Reported
    }

    /// Runs a step one level deeper.
    fn deeper<T>(&mut self, step: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEEPEST {
            return Err(self.wrong(Code::TooDeep, self.span, "this is nested too deeply"));
        }
        self.depth += 1;
        let result = step(self);
        self.depth -= 1;
        result
    }

    /// Tries a step that may fail without a finding; goes back if it does.
    fn attempt<T>(&mut self, step: impl FnOnce(&mut Self) -> Parsed<T>) -> Option<T> {
        let (start, last, findings) = (self.span.start, self.last, self.findings.count());
        match step(self) {
            Ok(value) => Some(value),
            Err(Reported) => {
                self.findings.truncate(findings);
                self.back_to(start, last);
                None
            }
        }
    }

    /// After an error: past the `}` that ends the item, or to the next word that can begin one.
    fn skip_item(&mut self, began: u32) {
        let mut depth = 0usize;
        loop {
            match &self.token {
                Token::End => return,
                Token::Sign("{") => depth += 1,
                Token::Sign("}") => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        self.bump();
                        return;
                    }
                }
                Token::Sign(";") if depth == 0 => {
                    self.bump();
                    return;
                }
                _ => {}
            }
            debug_assert!(self.span.start >= began);
            self.bump();
        }
    }

    /// `#define NAME(parameters) body` that were called become macros.
    fn function_defines(&mut self, items: &mut Vec<Item>) {
        let mut done = BTreeSet::new();
        loop {
            let todo: Vec<String> = self.called.difference(&done).cloned().collect();
            if todo.is_empty() {
                return;
            }
            for name in todo {
                let define = self.defines.defines[&name].clone();
                done.insert(name);
                if let Ok(found) = self.define_macro(&define) {
                    items.push(Item::Macro(found));
                }
            }
        }
    }

    /// Reads the body of a `#define` with another step.
    fn within_define<T>(&mut self, define: &Define, step: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        let end = (define.body.end - self.base) as usize;
        let saved = (self.text, self.at, self.token.clone(), self.span, self.last, self.in_predicate);
        self.text = &self.raw[..end];
        self.at = (define.body.start - self.base) as usize;
        self.in_predicate = false;
        self.expanding.push(define.name.text.clone());
        self.bump();
        let result = self.deeper(step).and_then(|value| match self.token {
            Token::End => Ok(value),
            _ => Err(self.expected("the end of this #define")),
        });
        self.expanding.pop();
        (self.text, self.at, self.token, self.span, self.last, self.in_predicate) = saved;
        result
    }
}

#[cfg(test)]
mod tests;
