//! Where output goes and in which form.

use std::io::{self, Write};

use super::folded::{self, FoldedMap};
use super::shown::MapShown;
use super::value::Value;
use super::{json, map_text, metrics, text};

/// Text or JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// As bpftrace prints.
    #[default]
    Text,
    /// One object a line.
    Json,
    /// Maps as Prometheus text; what else is printed goes nowhere.
    Metrics,
    /// Maps of stacks as folded stacks; what else is printed goes nowhere.
    Folded,
}

/// When written bytes leave the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Buffering {
    /// After each batch of records, whole lines together.
    #[default]
    Line,
    /// When the buffer is full, and at the end.
    Full,
    /// After each record.
    None,
}

/// The output of a program.
pub struct Output<'a> {
    to: io::BufWriter<&'a mut dyn Write>,
    /// Text or JSON.
    pub form: Form,
    buffering: Buffering,
}

impl<'a> Output<'a> {
    /// Writes to `to`.
    pub fn new(to: &'a mut dyn Write, form: Form, buffering: Buffering) -> Output<'a> {
        Output { to: io::BufWriter::with_capacity(64 * 1024, to), form, buffering }
    }

    /// Text as it is; in JSON a message of that kind.
    pub fn message(&mut self, kind: &str, bytes: &[u8]) -> io::Result<()> {
        match self.form {
            Form::Text => self.to.write_all(bytes)?,
            Form::Json => json::message(&mut self.to, kind, &Value::Text(bytes.to_vec()))?,
            Form::Metrics | Form::Folded => {}
        }
        self.written()
    }

    /// A value on a line of its own.
    pub fn value(&mut self, value: &Value) -> io::Result<()> {
        match self.form {
            Form::Text => {
                self.to.write_all(&text::to_bytes(value))?;
                self.to.write_all(b"\n")?;
            }
            Form::Json => json::message(&mut self.to, "value", value)?,
            Form::Metrics | Form::Folded => {}
        }
        self.written()
    }

    /// A map; `monotone` if its numbers only grow.
    pub fn map(&mut self, map: &MapShown, monotone: bool) -> io::Result<()> {
        match self.form {
            Form::Text => map_text::map(&mut self.to, map)?,
            // bpftrace prints no object for a map that is empty.
            Form::Json if map.rows.is_empty() => {}
            Form::Json => json::map(&mut self.to, map)?,
            Form::Metrics => metrics::write(&mut self.to, map, monotone)?,
            Form::Folded => {}
        }
        self.written()
    }

    /// A map of stacks, folded.
    pub fn folded(&mut self, map: &FoldedMap) -> io::Result<()> {
        folded::write(&mut self.to, map)?;
        self.written()
    }

    /// How many probes were attached.
    pub fn attached(&mut self, probes: usize) -> io::Result<()> {
        match self.form {
            Form::Text if probes == 1 => writeln!(self.to, "Attached 1 probe")?,
            Form::Text => writeln!(self.to, "Attached {probes} probes")?,
            Form::Json => writeln!(
                self.to,
                r#"{{"type": "attached_probes", "count": {probes}, "data": {{"probes": {probes}}}}}"#
            )?,
            Form::Metrics | Form::Folded => {}
        }
        self.flush()
    }

    /// How many records the ring lost.
    pub fn lost(&mut self, events: u64) -> io::Result<()> {
        match self.form {
            Form::Text => writeln!(self.to, "Lost {events} events")?,
            Form::Json => writeln!(
                self.to,
                r#"{{"type": "lost_events", "count": {events}, "data": {{"events": {events}}}}}"#
            )?,
            Form::Metrics => writeln!(
                self.to,
                "# TYPE lotse_lost_records_total counter\nlotse_lost_records_total {events}"
            )?,
            Form::Folded => {}
        }
        self.written()
    }

    /// Text that only people read: nothing in JSON.
    pub fn decoration(&mut self, text: &str) -> io::Result<()> {
        if self.form == Form::Text {
            self.to.write_all(text.as_bytes())?;
        }
        self.written()
    }

    /// A batch of records has been printed.
    pub fn batch_done(&mut self) -> io::Result<()> {
        if self.buffering == Buffering::Line && !self.to.buffer().is_empty() { self.flush() } else { Ok(()) }
    }

    /// Everything leaves the process now.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    fn written(&mut self) -> io::Result<()> {
        if self.buffering == Buffering::None { self.flush() } else { Ok(()) }
    }
}
