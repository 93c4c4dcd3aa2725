//! Probes: attach points are text of their own kind, read byte by byte.

use super::super::ast::*;
use super::super::lexer::{self, Token};
use super::{Parsed, Parser};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;

impl Parser<'_> {
    pub(super) fn probe(&mut self) -> Parsed<Probe> {
        let start = self.span;
        let mut attach_points = Vec::new();
        loop {
            attach_points.push(self.attach_point()?);
            if !self.eat(",") {
                break;
            }
        }
        let mut predicate = None;
        if self.eat("/") {
            self.in_predicate = true;
            let condition = self.expr();
            self.in_predicate = false;
            predicate = Some(condition?);
            if !self.eat("/") {
                return Err(self.expected("'/' to end the predicate"));
            }
        }
        if !self.is("{") {
            return Err(self.expected(if predicate.is_some() { "'{'" } else { "'{', '/' or ','" }));
        }
        let body = self.block()?;
        let span = start.to(self.last);
        Ok(Probe { attach_points, predicate, body, span })
    }

    /// Reads from the start of the word at hand to what ends an attach point, which becomes the word at hand.
    fn attach_point(&mut self) -> Parsed<AttachPoint> {
        if matches!(self.token, Token::End | Token::Sign("{" | "}" | "," | ";" | ")" | "(")) {
            return Err(self.expected("a probe"));
        }
        let text = self.text;
        let begin = (self.span.start - self.base) as usize;
        let mut reader = Reader { parts: vec![(String::new(), begin)], begin };
        let mut name = None;
        let mut at = begin;
        let mut brackets = 0u32;
        while let Some(c) = text[at..].chars().next() {
            let length = c.len_utf8();
            match c {
                '"' => {
                    let (token, span, finding) = lexer::next(text, at, self.base);
                    if let Some(finding) = finding {
                        self.findings.add(finding);
                    }
                    if let Token::Str(bytes) = token {
                        reader.push_str(&String::from_utf8_lossy(&bytes));
                    }
                    at = (span.end - self.base) as usize;
                    continue;
                }
                '$' if text[at + 1..].starts_with(|c: char| c.is_ascii_digit()) => {
                    let digits = text[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
                    let number: usize = text[at + 1..at + 1 + digits].parse().unwrap_or(0);
                    match number.checked_sub(1).and_then(|index| self.positional.get(index)) {
                        // A parameter may hold several parts, or the whole probe.
                        Some(value) => {
                            for (i, part) in value.split(':').enumerate() {
                                if i > 0 {
                                    reader.parts.push((String::new(), at));
                                }
                                reader.push_str(part);
                            }
                        }
                        None => {
                            let span =
                                Span::new(self.base as usize + at, self.base as usize + at + 1 + digits);
                            let message = format!("the probe needs parameter ${number}, which is not given");
                            self.findings.add(
                                Diagnostic::error(Code::BadProbe, span, message)
                                    .help("parameters follow the program on the command line"),
                            );
                        }
                    }
                    at += 1 + digits;
                    continue;
                }
                '\\' => {
                    // An escaped byte of a path.
                    at += 1;
                    if let Some(next) = text[at..].chars().next() {
                        reader.push(next);
                        at += next.len_utf8();
                    }
                    continue;
                }
                ':' => reader.parts.push((String::new(), at + 1)),
                '=' if reader.parts.len() == 1
                    && name.is_none()
                    && text.as_bytes().get(at + 1) != Some(&b'=') =>
                {
                    let (word, _) = reader.parts.remove(0);
                    name = Some(word);
                    reader.parts.push((String::new(), at + 1));
                }
                // C++ names have parameters and templates in them.
                '(' | '<' if reader.is_cpp() => {
                    brackets += 1;
                    reader.push(c);
                }
                ')' | '>' if brackets > 0 => {
                    brackets -= 1;
                    reader.push(c);
                }
                '/' if text[at..].starts_with("/*") && !reader.may_hold_slash() => break,
                '/' if reader.may_hold_slash() => reader.push(c),
                _ if brackets > 0 && c != '{' && c != '\n' => reader.push(c),
                '{' | '}' | ',' | '/' | ';' | '(' | ')' => break,
                _ if c.is_whitespace() => break,
                _ => reader.push(c),
            }
            at += length;
        }
        let span = Span::new(self.span.start as usize, self.base as usize + at);
        let part_span =
            |start: usize, end: usize| Span::new(self.base as usize + start, self.base as usize + end);
        let starts: Vec<usize> = reader.parts.iter().map(|(_, start)| *start).chain([at + 1]).collect();
        let parts = reader.parts.into_iter().zip(starts.windows(2));
        let parts = parts.map(|((text, start), pair)| Text {
            text,
            span: part_span(start, pair[1].saturating_sub(1).max(start)),
        });
        let parts: Vec<Text> = parts.collect();
        if at == begin || parts[0].text.is_empty() {
            return Err(self.expected("a probe"));
        }
        self.at = at;
        self.span = span;
        self.bump();
        Ok(AttachPoint { name, parts, span })
    }
}

struct Reader {
    /// Parts with the byte each begins at.
    parts: Vec<(String, usize)>,
    begin: usize,
}

impl Reader {
    fn push(&mut self, c: char) {
        self.push_str(c.encode_utf8(&mut [0; 4]));
    }

    fn push_str(&mut self, text: &str) {
        if let Some((part, _)) = self.parts.last_mut() {
            part.push_str(text);
        }
    }

    fn is_cpp(&self) -> bool {
        debug_assert!(self.parts.iter().all(|(_, start)| *start >= self.begin));
        self.parts.len() > 3 && self.parts[2].0 == "cpp"
    }

    /// Whether a `/` here belongs to a path rather than to a predicate.
    fn may_hold_slash(&self) -> bool {
        let part = self.parts.len() - 1;
        match self.parts[0].0.as_str() {
            "uprobe" | "u" | "uretprobe" | "ur" | "usdt" | "U" => {
                part == 1 || part >= 2 && self.parts[part].0.contains('@')
            }
            "iter" | "it" => part == 2 && (self.parts[2].0.is_empty() || self.parts[2].0.starts_with('/')),
            _ => false,
        }
    }
}
