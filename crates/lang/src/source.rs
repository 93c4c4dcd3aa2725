//! Program text, positions in it, and the places diagnostics point at.

use std::fmt;

/// A half-open range of bytes in one program text. `Span::NONE` is the absence of a place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The place of what has no text of its own (a type taken from the kernel, say).
    pub const NONE: Span = Span { start: u32::MAX, end: u32::MAX };

    /// A span from byte `start` to before byte `end`; positions over 4 GiB saturate.
    pub fn new(start: usize, end: usize) -> Span {
        let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX - 1);
        Span { start: clamp(start), end: clamp(end) }
    }

    /// The smallest span that covers both.
    pub fn to(self, other: Span) -> Span {
        if self == Span::NONE {
            return other;
        }
        if other == Span::NONE {
            return self;
        }
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Span::NONE { write!(f, "-") } else { write!(f, "{}..{}", self.start, self.end) }
    }
}

/// A place as people read it; both numbers begin at 1, the column counts characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct LineColumn {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

/// One program text with its name (`stdin` for `-e`, as bpftrace says) and line starts.
///
/// Imported files are appended to the same text, so that one `Span` is enough everywhere;
/// `parts` says which file a byte belongs to.
#[derive(Clone, Debug)]
pub struct Source {
    text: String,
    line_starts: Vec<u32>,
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
struct Part {
    name: String,
    start: u32,
    first_line: u32,
}

impl Source {
    /// A text with the name that messages give it.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Source {
        let mut source = Source { text: String::new(), line_starts: Vec::new(), parts: Vec::new() };
        source.append(name, &text.into());
        source
    }

    /// Adds an imported file after what is there; answers the byte where it begins.
    pub fn append(&mut self, name: impl Into<String>, text: &str) -> u32 {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        let start = Span::new(self.text.len(), self.text.len()).start;
        self.parts.push(Part { name: name.into(), start, first_line: self.line_starts.len() as u32 });
        self.line_starts.push(start);
        for (i, byte) in text.bytes().enumerate() {
            if byte == b'\n' && i + 1 < text.len() {
                self.line_starts.push(Span::new(start as usize + i + 1, 0).start);
            }
        }
        self.text.push_str(text);
        start
    }

    /// The whole text, imported files after the first.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text a span covers; empty for `Span::NONE` or a span that is not within the text.
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.start as usize..span.end as usize).unwrap_or("")
    }

    fn part(&self, position: u32) -> &Part {
        let index = self.parts.partition_point(|part| part.start <= position);
        &self.parts[index.saturating_sub(1)]
    }

    /// The name of the file that holds this byte.
    pub fn name(&self, position: u32) -> &str {
        &self.part(position).name
    }

    /// Line and column of a byte within its file.
    pub fn line_column(&self, position: u32) -> LineColumn {
        let position = position.min(self.text.len() as u32);
        let line = self.line_starts.partition_point(|start| *start <= position).saturating_sub(1);
        let start = self.line_starts[line] as usize;
        let column = self.text.get(start..position as usize).map_or(0, |text| text.chars().count());
        let line = line as u32 - self.part(position).first_line.min(line as u32);
        LineColumn { line: line + 1, column: column as u32 + 1 }
    }

    /// The line of text (without its end) that holds this byte, and the byte it begins at.
    pub fn line_text(&self, position: u32) -> (&str, u32) {
        let position = position.min(self.text.len() as u32);
        let line = self.line_starts.partition_point(|start| *start <= position).saturating_sub(1);
        let start = self.line_starts[line] as usize;
        let rest = &self.text[start..];
        (rest.split('\n').next().unwrap_or("").trim_end_matches('\r'), start as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_in_characters() {
        let source = Source::new("stdin", "a\nbü = c\n");
        assert_eq!(source.line_column(0), LineColumn { line: 1, column: 1 });
        assert_eq!(source.line_column(2), LineColumn { line: 2, column: 1 });
        assert_eq!(source.line_column(5), LineColumn { line: 2, column: 3 });
        assert_eq!(source.line_text(5).0, "bü = c");
    }

    #[test]
    fn an_imported_file_has_its_own_name_and_lines() {
        let mut source = Source::new("main.bt", "one\ntwo");
        let start = source.append("lib.bt", "three\nfour\n");
        assert_eq!(source.name(0), "main.bt");
        assert_eq!(source.name(start), "lib.bt");
        assert_eq!(source.line_column(start), LineColumn { line: 1, column: 1 });
        assert_eq!(source.line_column(start + 6), LineColumn { line: 2, column: 1 });
        assert_eq!(source.line_text(start + 6).0, "four");
    }
}
