//! CTF 1.8, as LTTng, perf (`perf data convert --to-ctf`), babeltrace and barectf write it
//! (<https://diamon.org/ctf/v1.8.3/>).
//!
//! In: a folder with `metadata` and stream files. Out: events of all streams merged by
//! time; their fields as records of formats made up here. Times are those of the trace's
//! clock, its offset from 1970 is a fact. Memory: one packet per stream.

mod token;
mod types;
mod tsdl;
mod tsdl_types;
mod bits;
mod class;
mod packet;

use std::{
    collections::HashMap,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use trace::{
    At, ClockKind, Item, Loss, Nanos, Sink, Source, SourceError, Tid, TraceInfo, stream::FormatIndex,
};

use self::{
    class::Slot,
    packet::Cursor,
    tsdl::{Clock, Metadata},
};
use crate::{
    input::{FileInput, Input, read_exactly, wrong},
    merge::MergeHeap,
};

/// An opened CTF trace: a folder, or all folders of a session (domains, rotated chunks).
pub struct CtfTrace {
    info: TraceInfo,
    problems_at_open: usize,
    parts: Vec<Part>,
    /// Each stream's file and its part.
    files: Vec<(usize, Arc<dyn Input>)>,
}

/// One folder with its metadata.
struct Part {
    metadata: Metadata,
    classes: Classes,
    /// Position of its first class in the trace's formats.
    first_format: u32,
}

/// What is derived from event classes.
struct Classes {
    /// By stream and event number: position in the metadata's events.
    by_id: HashMap<(u64, u64), usize>,
    slots: Vec<Vec<Slot>>,
}

/// Metadata longer than this are not believed.
const LONGEST_METADATA: u64 = 64 << 20;

/// Event classes that are understood at most.
const MOST_CLASSES: usize = u16::MAX as usize;

/// Problems that are kept.
const MOST_PROBLEMS: usize = 100;

/// The folders with `metadata` in or below `folder`, the kernel's first.
pub(crate) fn find(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    search(folder, 0, &mut found);
    found.sort_by_key(|path| !path.ends_with("kernel"));
    found
}

fn search(folder: &Path, depth: u32, found: &mut Vec<PathBuf>) {
    if folder.join("metadata").is_file() {
        found.push(folder.to_owned());
        return;
    }
    if depth == 6 || found.len() > 64 {
        return;
    }
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut folders: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders.iter().for_each(|inner| search(inner, depth + 1, found));
}

impl CtfTrace {
    /// Opens the trace that lies in `folders`.
    pub fn open(folders: &[PathBuf]) -> Result<CtfTrace, SourceError> {
        let mut trace = CtfTrace {
            info: TraceInfo::new("CTF 1.8"),
            problems_at_open: 0,
            parts: Vec::new(),
            files: Vec::new(),
        };
        for folder in folders {
            trace.add(folder)?;
        }
        // Which CPUs there are only the packets tell: look at each stream's first.
        for (part, file) in &trace.files {
            let mut cursor = Cursor::new(Arc::clone(file));
            let part = &trace.parts[*part];
            if cursor.advance(&part.metadata, &part.classes).is_ok() {
                trace.info.cpu_count = trace.info.cpu_count.max(cursor.cpu.0.min(1 << 16) + 1);
            }
        }
        trace.problems_at_open = trace.info.problems.len();
        Ok(trace)
    }

    fn add(&mut self, folder: &Path) -> Result<(), SourceError> {
        let input = FileInput::open(&folder.join("metadata"))?;
        let text = metadata_text(&input)?;
        let metadata = tsdl::parse(&text)
            .map_err(|(line, reason)| wrong(&input, 0, format!("line {line} of the metadata: {reason}")))?;
        let info = &mut self.info;
        let first_format = info.formats.len() as u32;
        if info.formats.len() + metadata.events.len() > MOST_CLASSES {
            return Err(wrong(&input, 0, format!("{} kinds of events", metadata.events.len())));
        }
        let mut classes = Classes { by_id: HashMap::new(), slots: Vec::new() };
        let mut formats = Vec::new();
        for (at, event) in metadata.events.iter().enumerate() {
            let (slots, format) = class::layout(event, first_format as u16 + at as u16);
            classes.slots.push(slots);
            formats.push(format);
            if classes.by_id.insert((event.stream, event.id), at).is_some() {
                let reason = format!("event {} of stream {} is described twice", event.id, event.stream);
                return Err(wrong(&input, 0, reason));
            }
        }
        if self.parts.is_empty() {
            describe(&metadata, info);
        } else if clock_base(&self.parts[0].metadata) != clock_base(&metadata) {
            info.problems
                .push(format!("{} is left out: it has another clock than the first part", input.name()));
            return Ok(());
        }
        info.formats.append(&mut formats);
        for path in stream_files(folder).map_err(|error| wrong(&input, 0, error.to_string()))? {
            self.files.push((self.parts.len(), Arc::new(FileInput::open(&path)?)));
        }
        self.parts.push(Part { metadata, classes, first_format });
        Ok(())
    }
}

fn stream_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_file() && name != "metadata" && !name.starts_with('.') {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The metadata's text, out of its packets where it is packed in such.
fn metadata_text(input: &dyn Input) -> Result<String, SourceError> {
    if input.size() > LONGEST_METADATA {
        return Err(wrong(input, 0, format!("metadata of {} bytes", input.size())));
    }
    let bytes = read_exactly(input, 0, input.size(), "metadata")?;
    let text = match bytes.first_chunk::<4>() {
        Some([0x57, 0x1d, 0xd1, 0x75]) => unpacked(input, &bytes, u32::from_le_bytes)?,
        Some([0x75, 0xd1, 0x1d, 0x57]) => unpacked(input, &bytes, u32::from_be_bytes)?,
        _ => bytes,
    };
    if text.first() == Some(&0x1e) || text.starts_with(b"[") || text.starts_with(b"{") {
        return Err(wrong(
            input,
            0,
            "metadata of CTF 2 (JSON), which is not read; record as CTF 1.8 (`lttng create --trace-format=ctf-1.8`)",
        ));
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Bytes of a metadata packet's header.
const PACKET_HEADER: usize = 37;

fn unpacked(input: &dyn Input, bytes: &[u8], number: fn([u8; 4]) -> u32) -> Result<Vec<u8>, SourceError> {
    let mut text = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let field = |from: usize| rest.get(from..).and_then(|b| b.first_chunk()).map(|b| number(*b));
        let (Some(0x75d1_1d57), Some(content), Some(packet)) = (field(0), field(24), field(28)) else {
            return Err(wrong(input, at as u64, "a packet of metadata without its magic number"));
        };
        let (content, packet) = (content as usize / 8, packet as usize / 8);
        let Some(part) = rest.get(PACKET_HEADER..content).filter(|_| packet >= content) else {
            return Err(wrong(
                input,
                at as u64,
                format!("a packet of metadata of {packet} bytes with {content} of content"),
            ));
        };
        text.extend_from_slice(part);
        at += packet.max(PACKET_HEADER);
    }
    Ok(text)
}

fn describe(metadata: &Metadata, info: &mut TraceInfo) {
    for (key, value) in &metadata.environment {
        match key.as_str() {
            "hostname" => info.host_name = Some(value.clone()),
            "kernel_release" | "release" => info.kernel_release = Some(value.clone()),
            "machine" => info.machine = Some(value.clone()),
            "tracer_name" => info.producer = Some(value.clone()),
            _ => info.facts.push((key.clone(), value.clone())),
        }
    }
    info.clock = match &metadata.clock {
        Some(clock) if clock.name == "monotonic" => ClockKind::Mono,
        Some(clock) => ClockKind::Other(clock.name.clone()),
        None => ClockKind::Other("none".to_owned()),
    };
    if let Some(clock) = &metadata.clock {
        let offset =
            clock.offset_seconds * 1_000_000_000 + clock.offset * 1_000_000_000 / i128::from(clock.frequency);
        info.facts.push(("clock to unix time, ns".to_owned(), offset.to_string()));
    }
}

/// What has to be alike for times to compare; the offset from 1970 is measured anew for
/// each part and does not matter.
fn clock_base(metadata: &Metadata) -> Option<(&str, u64)> {
    metadata.clock.as_ref().map(|clock| (clock.name.as_str(), clock.frequency))
}

fn nanos(clock: Option<&Clock>, value: u64) -> Nanos {
    match clock {
        Some(clock) if clock.frequency != 1_000_000_000 => {
            Nanos((u128::from(value) * 1_000_000_000 / u128::from(clock.frequency)) as u64)
        }
        _ => Nanos(value),
    }
}

impl Source for CtfTrace {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn stream(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError> {
        self.info.problems.truncate(self.problems_at_open);
        let mut cursors: Vec<(&Part, Cursor)> = self
            .files
            .iter()
            .map(|(part, file)| (&self.parts[*part], Cursor::new(Arc::clone(file))))
            .collect();
        let mut heap = MergeHeap::new();
        let mut failed = None;
        for (at, (part, cursor)) in cursors.iter_mut().enumerate() {
            match cursor.advance(&part.metadata, &part.classes) {
                Ok(true) => heap.push((cursor.time, at as u32)),
                Ok(false) => {}
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        let clock = self.parts.first().and_then(|part| part.metadata.clock.as_ref());
        let start = heap.top().map_or(0, |(time, _)| time);
        let mut flow = ControlFlow::Continue(());
        while let Some((_, at)) = heap.top() {
            let (part, cursor) = &mut cursors[at as usize];
            flow = tell(part, cursor, clock, start, sink);
            if flow.is_break() {
                break;
            }
            match cursor.advance(&part.metadata, &part.classes) {
                Ok(true) => heap.replace_top((cursor.time, at)),
                Ok(false) => drop(heap.pop()),
                Err(error) => {
                    failed.get_or_insert(error);
                    heap.pop();
                }
            }
        }
        let mut problems = Vec::new();
        for (_, cursor) in &mut cursors {
            if flow.is_continue() {
                flow = tell_loss(cursor, clock, start, sink);
            }
            problems
                .extend(cursor.damage.iter().map(|(offset, reason)| format!("at byte {offset}: {reason}")));
        }
        problems.truncate(MOST_PROBLEMS);
        self.info.problems.extend(problems);
        match (flow, failed) {
            (ControlFlow::Continue(()), Some(error)) => Err(error),
            _ => Ok(()),
        }
    }
}

fn tell(
    part: &Part,
    cursor: &mut Cursor,
    clock: Option<&Clock>,
    start: u64,
    sink: &mut dyn Sink,
) -> ControlFlow<()> {
    tell_loss(cursor, clock, start, sink)?;
    let at = At { time: nanos(clock, cursor.time), cpu: cursor.cpu, tid: cursor.tid.map(Tid) };
    let format = FormatIndex(part.first_format + cursor.class as u32);
    sink.item(Item::Event { at, format, record: &cursor.record, sample: None })
}

fn tell_loss(cursor: &mut Cursor, clock: Option<&Clock>, start: u64, sink: &mut dyn Sink) -> ControlFlow<()> {
    let Some(loss) = cursor.loss.take() else { return ControlFlow::Continue(()) };
    let from = nanos(clock, loss.from.unwrap_or(start));
    let to = nanos(clock, loss.to.unwrap_or(cursor.time)).max(from);
    sink.item(Item::Lost(Loss { cpu: Some(cursor.cpu), from, to, count: loss.count }))
}
