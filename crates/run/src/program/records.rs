//! Streamed records to output, each kind one arm.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use kernel::error::Refused;
use lang::schema::{Argument, EmitKind, EmittedRecord, MapId, MapValue, RECORD_HEADER_BYTES};

use super::columns::Column;
use super::compiled::Compiled;
use super::contents::Maps;
use super::decode::{Decoder, Names, slot, unsigned};
use super::folded::{self, FoldedMap, FrameNames};
use super::host_names::wall_clock_offset;
use super::intervals::Intervals;
use super::output::{Form, HelperError, Output};
use super::packets::Packets;
use super::printf::formatted;
use super::shown::{self, MapShown, RawEntry, ShowOptions, Shown};
use super::value::Value;

/// What a record asked for beyond printing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Go on.
    Nothing,
    /// End, with this exit status.
    Exit(i32),
}

/// Why a record could not be handled.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The output is gone or full.
    #[error("cannot write output: {0}")]
    Output(#[from] io::Error),
    /// A map could not be read or changed.
    #[error(transparent)]
    Kernel(#[from] Refused),
}

/// Everything that printing needs.
pub struct Printer<'a, 'o> {
    /// The program.
    pub compiled: &'a Compiled,
    /// Its maps.
    pub maps: Maps<'a>,
    /// Names for numbers.
    pub names: &'a dyn Names,
    /// Functions of stacks.
    pub frames: &'a dyn FrameNames,
    /// Where to.
    pub output: Output<'o>,
    /// For messages, one line each or several.
    pub talk: &'a mut dyn Write,
    /// Packet files of `skboutput`.
    pub packets: Packets,
    /// Addresses whose watchpoints are to be taken away.
    pub unwatched: Vec<u64>,
    /// Errors that the program told of (`errorf`, `assert`).
    pub errors: u64,
    /// Whether warnings are left out.
    pub no_warnings: bool,
}

impl Printer<'_, '_> {
    fn decoder(&self) -> Decoder<'_> {
        let schema = &self.compiled.schema;
        Decoder {
            types: &schema.types,
            names: self.names,
            time_formats: &schema.time_formats,
            strings: &schema.strings,
            trailer: &schema.config.str_trunc_trailer,
        }
    }

    /// Handles one record of the ring.
    pub fn record(&mut self, record: &[u8]) -> Result<Asked, RecordError> {
        let id = unsigned(record, 0, 4) as usize;
        if record.len() < RECORD_HEADER_BYTES as usize {
            return Ok(Asked::Nothing);
        }
        let compiled = self.compiled;
        let Some(emitted) = compiled.schema.records.get(id) else { return Ok(Asked::Nothing) };
        let number = |at: usize| argument_number(emitted, at, record);
        match &emitted.kind {
            EmitKind::Printf(format) => {
                let text = formatted(format, &self.arguments(emitted, record));
                self.output.message("printf", &text)?;
            }
            EmitKind::Errorf(format) => {
                let text = formatted(format, &self.arguments(emitted, record));
                self.say(emitted, "ERROR", &text)?;
            }
            EmitKind::Warnf(format) => {
                let text = formatted(format, &self.arguments(emitted, record));
                self.say(emitted, "WARNING", &text)?;
            }
            EmitKind::Print => {
                for value in self.arguments(emitted, record) {
                    self.output.value(&value)?;
                }
            }
            EmitKind::PrintRecord(names) => {
                let values = self.arguments(emitted, record);
                let record = Value::Record(names.iter().cloned().zip(values).collect());
                self.output.record(|| columns(names, emitted), record)?;
            }
            EmitKind::PrintMap(map) => {
                let options = ShowOptions { top: number(0), divisor: number(1), ..ShowOptions::default() };
                self.map(*map, options)?;
            }
            EmitKind::PrintMapElement(map) => {
                let key = emitted.arguments.first().map_or(vec![], |argument| key_bytes(argument, record));
                let shown =
                    self.shown(*map, &self.maps.read_entry(*map, &key)?.entries, ShowOptions::default());
                self.element(shown)?;
            }
            EmitKind::Clear(map) => self.maps.clear(*map)?,
            EmitKind::Zero(map) => self.maps.zero(*map)?,
            EmitKind::Time(format) => {
                let text = kernel::local_time::formatted(format, kernel::clock::realtime_ns());
                self.output.message("time", text.as_bytes())?;
            }
            EmitKind::Join(separator) => {
                let mut words: Vec<Vec<u8>> = Vec::new();
                for value in self.arguments(emitted, record) {
                    match value {
                        Value::Text(word) if !word.is_empty() => words.push(word),
                        _ => {}
                    }
                }
                let mut line = words.join(separator.as_bytes());
                // In JSON the line is the datum; in text it ends with a newline.
                if self.output.form == Form::Text {
                    line.push(b'\n');
                }
                self.output.message("join", &line)?;
            }
            EmitKind::Cat(format) => {
                let path = formatted(format, &self.arguments(emitted, record));
                self.cat(emitted, &String::from_utf8_lossy(&path))?;
            }
            EmitKind::System(format) => {
                let command = formatted(format, &self.arguments(emitted, record));
                self.system(emitted, &String::from_utf8_lossy(&command))?;
            }
            EmitKind::Exit => return Ok(Asked::Exit(number(0) as i32)),
            EmitKind::SkbOutput(path) => {
                let bytes =
                    emitted.arguments.first().map_or(&[][..], |at| slot(record, at.offset as usize).0);
                let boot = number(1);
                let wall = boot.wrapping_add_signed(wall_clock_offset(lang::types::Clock::Boot));
                if let Err(error) = self.packets.write(path, wall, bytes) {
                    self.say(emitted, "WARNING", format!("cannot write {path}: {error}").as_bytes())?;
                }
            }
            EmitKind::Unwatch => self.unwatched.push(number(0)),
            EmitKind::HelperError => {
                let helper = bpf::helpers::by_id(number(0) as u32).map_or("helper", |helper| helper.name);
                let result = number(1) as i32;
                let reason = self.names.errno(-result);
                let text = format!("Failed to {helper}: {reason} ({result})");
                self.helper_error(emitted, &text, &reason, helper, result)?;
            }
            EmitKind::MissingKey(_) => {
                let reason = "Can't delete map element because it does not exist.";
                let text = format!("{reason}\nAdditional Info - helper: map_delete_elem, retcode: -2");
                self.helper_error(emitted, &text, reason, "map_delete_elem", -2)?;
            }
            EmitKind::MissingEntry(_) => {
                let reason = "Can't lookup map element because it does not exist.";
                let text = format!("{reason}\nAdditional Info - helper: map_lookup_elem, retcode: 0");
                self.helper_error(emitted, &text, reason, "map_lookup_elem", 0)?;
            }
            EmitKind::DividedByZero => {
                let text = b"Divide or modulo by 0 detected. 1 is being used as the result.";
                self.say(emitted, "WARNING", text)?;
            }
            EmitKind::AssertFailed => {
                let mut text = b"assert failed: ".to_vec();
                for value in self.arguments(emitted, record) {
                    text.extend(super::text::to_bytes(&value));
                }
                self.say(emitted, "ERROR", &text)?;
                return Ok(Asked::Exit(1));
            }
        }
        Ok(Asked::Nothing)
    }

    fn arguments(&self, emitted: &EmittedRecord, record: &[u8]) -> Vec<Value> {
        let decoder = self.decoder();
        emitted.arguments.iter().map(|at| decoder.argument(&at.ty, at.offset, record)).collect()
    }

    /// Writes the heads of a tool's rows, so that who waits for the first sees what it will be; whether there are
    /// any.
    pub fn heads(&mut self) -> Result<bool, RecordError> {
        let first = self.compiled.schema.records.iter().find_map(|emitted| match &emitted.kind {
            EmitKind::PrintRecord(names) => Some(columns(names, emitted)),
            _ => None,
        });
        let Some(columns) = first else { return Ok(false) };
        self.output.heads(columns)?;
        self.output.flush()?;
        Ok(true)
    }

    /// Prints a map.
    pub fn map(&mut self, id: MapId, options: ShowOptions) -> Result<(), RecordError> {
        if self.output.form == Form::Folded {
            if folded::is_of_stacks(&self.compiled.schema.maps[id.0 as usize]) {
                let folded = self.folded(id)?;
                self.output.folded(&folded)?;
            }
            return Ok(());
        }
        let contents = self.maps.read(id)?;
        let shown = self.shown(id, &contents.entries, options);
        Ok(self.output.map(&shown, self.is_monotone(id))?)
    }

    /// Prints the maps of a tool, by name, without these; those whose names begin with `_` are its memory. With
    /// `intervals`, what came since the last time.
    pub fn tool_maps(
        &mut self,
        without: &[MapId],
        mut intervals: Option<&mut Intervals>,
    ) -> Result<(), RecordError> {
        let mut order: Vec<usize> = (0..self.compiled.schema.maps.len()).collect();
        order.retain(|index| {
            !self.compiled.schema.maps[*index].name.starts_with("@_")
                && !without.contains(&MapId(*index as u32))
        });
        order.sort_by_key(|index| &self.compiled.schema.maps[*index].name);
        let order = order.into_iter().map(|index| MapId(index as u32));
        if self.output.form == Form::Folded {
            return order.into_iter().try_for_each(|id| self.map(id, ShowOptions::default()));
        }
        let mut maps = Vec::new();
        for id in order {
            let contents = match &mut intervals {
                Some(intervals) => intervals.since(self.maps, id)?,
                None => self.maps.read(id)?,
            };
            let shown = self.shown(id, &contents.entries, ShowOptions::default());
            maps.push((shown, self.is_monotone(id)));
        }
        Ok(self.output.tool_maps(&maps)?)
    }

    fn is_monotone(&self, id: MapId) -> bool {
        let value = &self.compiled.schema.maps[id.0 as usize].value;
        matches!(value, MapValue::Count | MapValue::Sum { signed: false })
    }

    /// A map of stacks, folded.
    pub fn folded(&self, id: MapId) -> Result<FoldedMap, Refused> {
        let contents = self.maps.read(id)?;
        let map = &self.compiled.schema.maps[id.0 as usize];
        Ok(folded::fold(map, &contents.entries, self.decoder(), self.frames))
    }

    /// A map's entries combined and sorted.
    pub fn shown(&self, id: MapId, entries: &[(Vec<u8>, Vec<Vec<u8>>)], options: ShowOptions) -> MapShown {
        let map = &self.compiled.schema.maps[id.0 as usize];
        let raw: Vec<RawEntry<'_>> = entries
            .iter()
            .map(|(key, values)| RawEntry { key, values: values.iter().map(Vec::as_slice).collect() })
            .collect();
        // Intervals of time series are counted on the boot clock.
        let offset = wall_clock_offset(lang::types::Clock::Boot);
        let options = ShowOptions { wall_clock_offset: offset, ..options };
        shown::map(&map.name, map.key.as_ref(), &map.value, &raw, self.decoder(), options)
    }

    /// `print(@m[key])`: the value alone.
    fn element(&mut self, map: MapShown) -> io::Result<()> {
        match map.rows.into_iter().next() {
            Some((_, Shown::Value(value))) => self.output.value(&value),
            Some((key, shown)) => self.output.map(
                &MapShown { name: map.name, scalar: key.is_none(), kind: map.kind, rows: vec![(key, shown)] },
                false,
            ),
            None => self.output.value(&Value::Unsigned(0)),
        }
    }

    fn cat(&mut self, emitted: &EmittedRecord, path: &str) -> Result<(), RecordError> {
        let most = u64::from(self.compiled.schema.config.max_cat_bytes);
        let read = || -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            io::Read::read_to_end(&mut io::Read::take(std::fs::File::open(path)?, most), &mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => self.output.message("cat", &bytes)?,
            Err(error) => {
                let text = format!("cannot read {path}: {error}");
                self.say(emitted, "WARNING", text.as_bytes())?;
            }
        }
        Ok(())
    }

    fn system(&mut self, emitted: &EmittedRecord, command: &str) -> Result<(), RecordError> {
        // What was printed before comes before what the command prints.
        self.output.flush()?;
        let ran = Command::new("/bin/sh")
            .args(["-c", command])
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output();
        match ran {
            Ok(ran) => self.output.message("syscall", &ran.stdout)?,
            Err(error) => {
                let text = format!("cannot run '{command}': {error}");
                self.say(emitted, "WARNING", text.as_bytes())?;
            }
        }
        Ok(())
    }

    /// A failure that `-k` asked for: a warning in text, an object of its own in JSON.
    fn helper_error(
        &mut self,
        emitted: &EmittedRecord,
        text: &str,
        reason: &str,
        helper: &str,
        result: i32,
    ) -> io::Result<()> {
        if self.output.form != Form::Json {
            return self.say(emitted, "WARNING", text.as_bytes());
        }
        let source = &self.compiled.source;
        let at = source.line_column(emitted.span.start);
        self.output.helper_error(&HelperError {
            reason,
            helper,
            result,
            file: source.name(emitted.span.start),
            line: at.line,
            column: at.column,
        })
    }

    fn say(&mut self, emitted: &EmittedRecord, severity: &str, text: &[u8]) -> io::Result<()> {
        if self.no_warnings && severity == "WARNING" {
            return Ok(());
        }
        self.errors += u64::from(severity == "ERROR");
        self.output.flush()?;
        let place = self.compiled.range(emitted.span);
        write!(
            self.talk,
            "{place}: {severity}: {}\n{}",
            String::from_utf8_lossy(text),
            self.compiled.quoted(emitted.span)
        )
    }
}

fn columns(names: &[String], emitted: &EmittedRecord) -> Vec<Column> {
    names.iter().zip(&emitted.arguments).map(|(name, at)| Column::of_type(name, &at.ty)).collect()
}

fn argument_number(emitted: &EmittedRecord, index: usize, record: &[u8]) -> u64 {
    emitted.arguments.get(index).map_or(0, |argument| {
        unsigned(record, argument.offset as usize, (argument.ty.size() as usize).min(8))
    })
}

/// The key of `print(@m[key])` as it stands in the map: a text in a record is a slot, in a key it is
/// padded to its type's size.
fn key_bytes(argument: &Argument, record: &[u8]) -> Vec<u8> {
    let at = argument.offset as usize;
    let size = argument.ty.size() as usize;
    let mut key = match &argument.ty {
        lang::types::Type::String(_) => slot(record, at).0.to_vec(),
        lang::types::Type::Buffer(_) => {
            let bytes = slot(record, at).0;
            [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
        }
        _ => record.get(at..at + size).unwrap_or(&[]).to_vec(),
    };
    key.resize(size, 0);
    key
}
