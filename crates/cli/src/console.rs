//! Where a command prints: stdout for data, stderr for talk.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use report::TextOptions;

use crate::global::{ColorChoice, Global};

/// How much is said on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Talk {
    /// Warnings and errors.
    Quiet,
    /// What a person waits for.
    Normal,
    /// Everything.
    Verbose,
}

/// Stdout, whose errors say that it was stdout. Their kind is kept: a reader that went away is told apart by it.
struct Data(Stdout);

impl Write for Data {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(of_stdout)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(of_stdout)
    }
}

fn of_stdout(error: io::Error) -> io::Error {
    match error.kind() {
        // Tried again by the caller.
        io::ErrorKind::Interrupted => error,
        kind => io::Error::new(
            kind,
            format!("cannot write to stdout: {error}; free some space there, or send it elsewhere"),
        ),
    }
}

/// The two streams and how they are to be used.
pub struct Console {
    out: BufWriter<Data>,
    talk: Talk,
    text: TextOptions,
    colour_stderr: bool,
}

impl Console {
    /// For this process's streams.
    pub fn new(global: &Global) -> Console {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let wanted = |terminal: bool| match global.color {
            ColorChoice::Auto => terminal && !no_colour,
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        };
        let terminal = io::stdout().is_terminal();
        let mut text = TextOptions::for_output(terminal, kernel::terminal::columns(), no_colour);
        text.colour = wanted(terminal);
        let talk = match (global.quiet, global.verbose) {
            (true, _) => Talk::Quiet,
            (_, true) => Talk::Verbose,
            _ => Talk::Normal,
        };
        Console {
            out: BufWriter::with_capacity(64 << 10, Data(io::stdout())),
            talk,
            text,
            colour_stderr: wanted(io::stderr().is_terminal()),
        }
    }

    /// Stdout, for data. Buffered: flushed when the command ends.
    pub fn out(&mut self) -> &mut dyn Write {
        &mut self.out
    }

    /// Hands everything printed to whoever reads stdout.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// How text on stdout is laid out.
    pub fn text_options(&self) -> TextOptions {
        self.text
    }

    /// How much is said on stderr.
    pub fn talk(&self) -> Talk {
        self.talk
    }

    /// Whether stderr is a terminal on which a line may be drawn over.
    pub fn can_redraw(&self) -> bool {
        self.talk > Talk::Quiet && io::stderr().is_terminal()
    }

    /// A line for a person who waits.
    pub fn say(&self, text: &str) {
        if self.talk > Talk::Quiet {
            self.line("", text);
        }
    }

    /// A line for a person who wants to know all.
    pub fn detail(&self, text: &str) {
        if self.talk == Talk::Verbose {
            self.line("", text);
        }
    }

    /// Something to be careful about.
    pub fn warn(&self, text: &str) {
        self.line("33", &format!("warning: {text}"));
    }

    /// Why something could not be done.
    pub fn error(&self, text: &str) {
        self.line("1;31", &format!("error: {text}"));
    }

    fn line(&self, colour: &str, text: &str) {
        let mut stderr = io::stderr().lock();
        // A reader of stderr who went away is no reason to stop.
        let _ = match (self.colour_stderr && !colour.is_empty(), text.split_once(": ")) {
            (true, Some((head, rest))) => writeln!(stderr, "lotse: \x1b[{colour}m{head}:\x1b[0m {rest}"),
            _ => writeln!(stderr, "lotse: {text}"),
        };
    }
}
