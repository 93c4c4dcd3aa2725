//! Where output goes and in which form.

use std::io::{self, Write};

use super::columns::{self, Column};
use super::folded::{self, FoldedMap};
use super::shown::{MapShown, ShownKind};
use super::table::{Table, TableSpec};
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

/// How a tool of the shelf prints, where that is not as bpftrace prints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolStyle {
    /// Its name, for metrics.
    pub name: String,
    /// What its columns mean, for metrics.
    pub columns: Vec<(String, String)>,
    /// Maps that are joined.
    pub tables: Vec<TableSpec>,
    /// Lines kept of a table, entries of other maps with keys; 0: all.
    pub top: u64,
}

impl ToolStyle {
    fn naming(&self, map: &str) -> metrics::Naming {
        let table = self.tables.iter().find(|spec| spec.values.iter().any(|value| value.map == map));
        let head = table.and_then(|spec| spec.values.iter().find(|value| value.map == map));
        let named = |column: &str| {
            let names = column.split(',').map(str::trim);
            let map = map.trim_start_matches('@');
            names
                .into_iter()
                .any(|name| name == map || head.is_some_and(|value| value.head.eq_ignore_ascii_case(name)))
        };
        let help = self.columns.iter().find(|(column, _)| named(column)).map_or("", |(_, meaning)| meaning);
        let labels =
            table.map_or(vec![], |spec| spec.keys.iter().map(|key| key.to_ascii_lowercase()).collect());
        metrics::Naming::of_tool(&self.name, map, help, labels)
    }
}

/// A failure of a helper of the kernel, with its place in the program.
#[derive(Clone, Copy, Debug)]
pub struct HelperError<'a> {
    /// What happened.
    pub reason: &'a str,
    /// The helper's name.
    pub helper: &'a str,
    /// What it returned.
    pub result: i32,
    /// Name of the program's text.
    pub file: &'a str,
    /// Line in it, from 1.
    pub line: u32,
    /// Column in the line, from 1.
    pub column: u32,
}

/// The output of a program.
pub struct Output<'a> {
    to: io::BufWriter<&'a mut dyn Write>,
    /// Text or JSON.
    pub form: Form,
    buffering: Buffering,
    /// Set for a tool: records are rows, maps are tables.
    tool: Option<ToolStyle>,
    /// The heads that were written last.
    heads: Vec<Column>,
}

impl<'a> Output<'a> {
    /// Writes to `to`.
    pub fn new(to: &'a mut dyn Write, form: Form, buffering: Buffering) -> Output<'a> {
        let to = io::BufWriter::with_capacity(64 * 1024, to);
        Output { to, form, buffering, tool: None, heads: Vec::new() }
    }

    /// Prints as a tool does.
    pub fn for_tool(self, style: Option<ToolStyle>) -> Output<'a> {
        Output { tool: style, ..self }
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

    /// The heads of rows, before the first of them; written again only when others were written since.
    pub fn heads(&mut self, columns: Vec<Column>) -> io::Result<()> {
        if self.form != Form::Text || self.tool.is_none() || self.heads == columns {
            return Ok(());
        }
        self.heads = columns;
        columns::write_heads(&mut self.to, &self.heads)?;
        self.written()
    }

    /// Named values: a row under its heads in a tool, a record on a line of its own elsewhere. `columns` are
    /// asked for when these heads have not been written yet.
    pub fn record(&mut self, columns: impl FnOnce() -> Vec<Column>, record: Value) -> io::Result<()> {
        if self.tool.is_none() {
            return self.value(&record);
        }
        let Value::Record(mut fields) = record else { return self.value(&record) };
        for (_, value) in &mut fields {
            if let Value::Bytes(bytes) = value {
                *value = Value::Text(words(bytes));
            }
        }
        match self.form {
            Form::Json => json::row(&mut self.to, &fields)?,
            Form::Metrics | Form::Folded => {}
            Form::Text => {
                let written = self.heads.len() == fields.len()
                    && self
                        .heads
                        .iter()
                        .zip(&fields)
                        .all(|(column, (name, _))| column.head.eq_ignore_ascii_case(name));
                if !written {
                    self.heads(columns())?;
                }
                let cells: Vec<String> = fields.iter().map(|(_, value)| columns::cell(value)).collect();
                let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
                columns::write_line(&mut self.to, &self.heads, &cells)?;
            }
        }
        self.written()
    }

    /// The end of an interval of that length, before its maps.
    pub fn interval(&mut self, length: std::time::Duration) -> io::Result<()> {
        let now = kernel::clock::realtime_ns();
        match self.form {
            Form::Text => {
                self.to.write_all(kernel::local_time::formatted("\n%H:%M:%S\n", now).as_bytes())?;
            }
            Form::Json => {
                let time = kernel::local_time::formatted("%Y-%m-%dT%H:%M:%S", now);
                let (millis, seconds) = (now / 1_000_000 % 1000, length.as_secs_f64());
                writeln!(
                    self.to,
                    r#"{{"type": "interval", "data": {{"end": "{time}.{millis:03}", "seconds": {seconds:.6}}}}}"#
                )?;
            }
            Form::Metrics | Form::Folded => {}
        }
        self.heads.clear();
        self.written()
    }

    /// All maps of a tool, joined where they are to be; `monotone` tells whether a map's numbers only grow.
    pub fn tool_maps(&mut self, maps: &[(MapShown, bool)]) -> io::Result<()> {
        let style = self.tool.clone().unwrap_or_default();
        if self.form == Form::Metrics {
            for (map, monotone) in maps {
                metrics::write_as(&mut self.to, map, *monotone, &style.naming(&map.name))?;
            }
            return self.written();
        }
        let mut joined: Vec<&str> = Vec::new();
        for spec in &style.tables {
            let parts: Vec<&MapShown> = maps
                .iter()
                .map(|(map, _)| map)
                .filter(|map| spec.values.iter().any(|value| value.map == map.name))
                .collect();
            joined.extend(parts.iter().map(|map| map.name.as_str()));
            self.table(&Table::join(spec, &parts, style.top))?;
        }
        for (map, monotone) in maps.iter().filter(|(map, _)| !joined.contains(&map.name.as_str())) {
            let tabular = !map.scalar
                && matches!(map.kind, ShownKind::Map)
                && !map.rows.iter().any(|(key, _)| key.as_ref().is_some_and(Value::has_stack));
            if self.form == Form::Text && tabular {
                self.table(&Table::join(&TableSpec::of_map(map), &[map], style.top))?;
            } else {
                let top = usize::try_from(style.top).unwrap_or(usize::MAX);
                if top > 0 && map.rows.len() > top {
                    // The greatest come last.
                    let rows = map.rows[map.rows.len() - top..].to_vec();
                    self.map(&MapShown { rows, ..map.clone() }, *monotone)?;
                } else {
                    self.map(map, *monotone)?;
                }
            }
        }
        Ok(())
    }

    fn table(&mut self, table: &Table) -> io::Result<()> {
        match self.form {
            Form::Text => table.write(&mut self.to)?,
            Form::Json => table.write_json(&mut self.to)?,
            Form::Metrics | Form::Folded => {}
        }
        self.heads.clear();
        self.written()
    }

    /// A map; `monotone` if its numbers only grow.
    pub fn map(&mut self, map: &MapShown, monotone: bool) -> io::Result<()> {
        match self.form {
            Form::Text if self.tool.is_some() => map_text::tool_map(&mut self.to, map)?,
            Form::Text => map_text::map(&mut self.to, map)?,
            // bpftrace prints no object for a map that is empty.
            Form::Json if map.rows.is_empty() => {}
            Form::Json if self.tool.is_some() => json::tool_map(&mut self.to, map)?,
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
            Form::Text if self.tool.is_some() => {}
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

    /// A helper of the kernel failed.
    pub fn helper_error(&mut self, error: &HelperError<'_>) -> io::Result<()> {
        let text = |text: &str| {
            let mut bytes = Vec::new();
            json::put(&mut bytes, &Value::Text(text.as_bytes().to_vec()));
            bytes
        };
        let (reason, helper, file) = (text(error.reason), text(error.helper), text(error.file));
        self.to.write_all(br#"{"type": "helper_error", "msg": "#)?;
        self.to.write_all(&reason)?;
        self.to.write_all(br#", "helper": "#)?;
        self.to.write_all(&helper)?;
        write!(self.to, r#", "retcode": {}, "filename": "#, error.result)?;
        self.to.write_all(&file)?;
        writeln!(self.to, r#", "line": {}, "col": {}}}"#, error.line, error.column)?;
        self.written()
    }

    /// How many records the ring lost.
    pub fn lost(&mut self, events: u64) -> io::Result<()> {
        match self.form {
            // What a tool lost is told on stderr, with what would mend it.
            Form::Text if self.tool.is_some() => {}
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
        if self.form == Form::Text && self.tool.is_none() {
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

/// A buffer in a row is text: the NULs between the words of a command line are blanks.
fn words(bytes: &[u8]) -> Vec<u8> {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    bytes[..end].iter().map(|byte| if *byte == 0 { b' ' } else { *byte }).collect()
}
