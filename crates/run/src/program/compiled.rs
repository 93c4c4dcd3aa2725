//! What the compiler hands over: code, what it emits, where its maps are, and the text for messages.

use bpf::Image;
use lang::layout::Layout;
use lang::schema::Schema;
use lang::source::{Source, Span};

/// A program ready to be loaded.
#[derive(Debug)]
pub struct Compiled {
    /// Maps and programs.
    pub image: Image,
    /// What is printed how.
    pub schema: Schema,
    /// Where maps are.
    pub layout: Layout,
    /// The text.
    pub source: Source,
}

impl Compiled {
    /// `name:line:column` of a place in the text.
    pub fn place(&self, span: Span) -> String {
        if span == Span::NONE {
            return self.source.name(0).to_owned();
        }
        let at = self.source.line_column(span.start);
        format!("{}:{}:{}", self.source.name(span.start), at.line, at.column)
    }

    /// `name:line:column-end` of a place in the text, as messages about a whole expression say it.
    pub fn range(&self, span: Span) -> String {
        let place = self.place(span);
        if span == Span::NONE {
            return place;
        }
        let (start, end) = (self.source.line_column(span.start), self.source.line_column(span.end));
        if start.line == end.line && end.column > start.column {
            format!("{place}-{}", end.column)
        } else {
            place
        }
    }

    /// The line of the text that a place is in, and a mark below it.
    pub fn quoted(&self, span: Span) -> String {
        if span == Span::NONE {
            return String::new();
        }
        let (line, _) = self.source.line_text(span.start);
        let column = self.source.line_column(span.start).column.max(1) as usize;
        let line = line.trim_end();
        let room = line.chars().count().saturating_sub(column - 1);
        let length = (span.end.saturating_sub(span.start).max(1) as usize).min(room.max(1));
        format!("{line}\n{}{}\n", " ".repeat(column - 1), "~".repeat(length))
    }
}
