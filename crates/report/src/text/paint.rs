//! Colour, and when there is none.

use crate::document::Level;

/// How text is laid out.
#[derive(Clone, Copy, Debug)]
pub struct TextOptions {
    /// Columns of the terminal. `None` when the output is piped: nothing is shortened or
    /// left out then, and paragraphs wrap at 100.
    pub width: Option<usize>,
    /// Whether escape sequences for colour may be written.
    pub colour: bool,
    /// Whether tables show all rows rather than the first ones.
    pub all_rows: bool,
}

impl TextOptions {
    /// For output that a program reads.
    pub const PIPED: TextOptions = TextOptions { width: None, colour: false, all_rows: false };

    /// For stdout as the caller found it: whether it is a terminal, its columns if known,
    /// and whether `NO_COLOR` is set to anything but nothing.
    pub fn for_output(is_terminal: bool, columns: Option<usize>, no_colour: bool) -> TextOptions {
        if !is_terminal {
            return TextOptions::PIPED;
        }
        TextOptions { width: Some(columns.unwrap_or(80).max(40)), colour: !no_colour, all_rows: false }
    }

    /// Columns for paragraphs: lines longer than about 100 are hard to read.
    pub fn paragraph_width(&self) -> usize {
        self.width.unwrap_or(100).min(100)
    }

    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("\x1b[{}m{text}\x1b[0m", style.code())
        } else {
            text.to_owned()
        }
    }

    pub(crate) fn mark(&self, level: Level) -> String {
        self.paint(Style::of(level), level.mark())
    }
}

/// What a stretch of text is, for its colour. Only the sixteen colours that a user's
/// theme defines, so that it is readable on any background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Title,
    Head,
    Faint,
    Good,
    Warning,
    Bad,
    Remedy,
}

impl Style {
    pub(crate) fn of(level: Level) -> Style {
        match level {
            Level::Good => Style::Good,
            Level::Note => Style::Faint,
            Level::Warning => Style::Warning,
            Level::Bad => Style::Bad,
        }
    }

    fn code(self) -> &'static str {
        match self {
            Style::Title => "1",
            Style::Head => "4",
            Style::Faint => "2",
            Style::Good => "32",
            Style::Warning => "33",
            Style::Bad => "1;31",
            Style::Remedy => "36",
        }
    }
}
