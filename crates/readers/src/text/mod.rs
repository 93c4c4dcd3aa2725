//! Text: ftrace's `trace` and `trace_pipe`, `trace-cmd report`, `perf script`.
//!
//! In: lines. Out: records laid out by formats made up here (see [`known`]), so that
//! analyses see typed events, and each event's text for printing. What text cannot tell
//! (nanoseconds, losses at the end, states printed as numbers) stays unknown. The file is
//! read twice: once for the names in it.

mod line;
mod known;

use std::{collections::HashMap, ops::ControlFlow, sync::Arc};

use trace::{
    At, ClockKind, Comm, Cpu, Item, Loss, Nanos, Sink, Source, SourceError, Tid, TraceInfo,
    info::KnownTask,
    stream::{FormatIndex, Sample},
};

use crate::input::{Input, wrong};

/// An opened text.
pub struct TextTrace {
    input: Arc<dyn Input>,
    info: TraceInfo,
    problems_at_open: usize,
    by_name: HashMap<String, u32>,
}

/// Names of events that are told apart.
const MOST_EVENTS: usize = 4096;

/// Threads whose names are kept.
const MOST_TASKS: usize = 1 << 20;

pub(crate) use known::{STATE_PRINT, state};

/// Whether `start` looks like the beginning of such a text.
pub(crate) fn is_text_trace(start: &[u8]) -> bool {
    let text = String::from_utf8_lossy(start);
    if text.starts_with("# tracer:") {
        return true;
    }
    // The last line may be cut.
    text.lines().take(40).any(|text| line::parse(text).is_some())
}

impl TextTrace {
    /// Reads the text once, for the events in it.
    pub fn open(input: Arc<dyn Input>) -> Result<TextTrace, SourceError> {
        let mut info = TraceInfo::new("ftrace text");
        info.clock = ClockKind::Local;
        let mut by_name: HashMap<String, u32> = HashMap::new();
        let mut comms: HashMap<i32, KnownTask> = HashMap::new();
        let (mut by_perf, mut last_cpu, mut left_out) = (false, 0, 0u64);
        let mut key = String::new();
        each_line(&*input, &mut |text| {
            let Some(line) = line::parse(text) else { return ControlFlow::Continue(()) };
            by_perf |= line.by_perf;
            last_cpu = last_cpu.max(line.cpu.min(1 << 16));
            name_of(&line, &mut key);
            if !by_name.contains_key(&key) {
                if info.formats.len() == MOST_EVENTS {
                    left_out += 1;
                    return ControlFlow::Continue(());
                }
                let id = info.formats.len() as u16 + 1;
                by_name.insert(key.clone(), info.formats.len() as u32);
                info.formats.push(known::format(id, line.system, line.event));
            }
            if !comms.contains_key(&line.tid) && comms.len() < MOST_TASKS && line.comm != "<...>" {
                let process = line.process.map(Tid);
                comms.insert(
                    line.tid,
                    KnownTask { tid: Tid(line.tid), process, comm: Comm::new(line.comm.as_bytes()) },
                );
            }
            ControlFlow::Continue(())
        })?;
        if by_perf {
            info.file_format = "perf script text".to_owned();
        }
        info.cpu_count = last_cpu + 1;
        info.tasks = comms.into_values().collect();
        info.tasks.sort_by_key(|task| task.tid);
        if left_out > 0 {
            info.problems.push(format!("{left_out} lines of further kinds of events are left out"));
        }
        Ok(TextTrace { input, problems_at_open: info.problems.len(), info, by_name })
    }
}

fn name_of(line: &line::Line<'_>, key: &mut String) {
    key.clear();
    key.push_str(line.system);
    key.push(':');
    key.push_str(line.event);
}

impl Source for TextTrace {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn stream(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError> {
        self.info.problems.truncate(self.problems_at_open);
        let knowns: Vec<_> = self.info.formats.iter().map(|format| known::find(&format.name)).collect();
        let mut record = Vec::new();
        let mut key = String::new();
        let mut last: HashMap<u32, Nanos> = HashMap::new();
        let mut first = None;
        let mut pending: Vec<(u32, Option<u64>)> = Vec::new();
        let mut odd = 0u64;
        let mut latest = Nanos(0);
        let by_name = &self.by_name;
        let mut flow = ControlFlow::Continue(());
        each_line(&*self.input, &mut |text| {
            let Some(line) = line::parse(text) else {
                if let Some(loss) = line::parse_loss(text) {
                    pending.push(loss);
                }
                return ControlFlow::Continue(());
            };
            name_of(&line, &mut key);
            let Some(&format) = by_name.get(&key) else { return ControlFlow::Continue(()) };
            let time = Nanos(line.time);
            let start = *first.get_or_insert(time);
            flow = told(&mut pending, Some(line.cpu), &last, start, time, sink);
            if flow.is_break() {
                return flow;
            }
            last.insert(line.cpu, time);
            latest = latest.max(time);
            let known = knowns[format as usize];
            if !known::record(&mut record, format as u16 + 1, line.tid, known, line.text) {
                odd += 1;
                return ControlFlow::Continue(());
            }
            let at = At { time, cpu: Cpu(line.cpu), tid: Some(Tid(line.tid)) };
            let sample = line.process.map(|process| Sample {
                process: Some(Tid(process)),
                ip: None,
                callchain: &[],
                period: 1,
            });
            flow = sink.item(Item::Event {
                at,
                format: FormatIndex(format),
                record: &record,
                sample: sample.as_ref(),
            });
            flow
        })?;
        if flow.is_continue() {
            let start = first.unwrap_or_default();
            let _ = told(&mut pending, None, &last, start, latest, sink);
        }
        if odd > 0 {
            self.info.problems.push(format!("{odd} lines of known events have another text than is known"));
        }
        Ok(())
    }
}

/// Tells the losses of a CPU (or all) up to `to`.
fn told(
    pending: &mut Vec<(u32, Option<u64>)>,
    cpu: Option<u32>,
    last: &HashMap<u32, Nanos>,
    start: Nanos,
    to: Nanos,
    sink: &mut dyn Sink,
) -> ControlFlow<()> {
    while let Some(at) = pending.iter().position(|(lost, _)| cpu.is_none_or(|cpu| cpu == *lost)) {
        let (lost, count) = pending.remove(at);
        let from = last.get(&lost).copied().unwrap_or(start).min(to);
        sink.item(Item::Lost(Loss { cpu: Some(Cpu(lost)), from, to, count }))?;
    }
    ControlFlow::Continue(())
}

/// How much is read at once; a longer line is cut into several.
const BLOCK: usize = 256 << 10;

fn each_line(input: &dyn Input, take: &mut dyn FnMut(&str) -> ControlFlow<()>) -> Result<(), SourceError> {
    let mut bytes = vec![0; BLOCK];
    let mut kept = 0;
    let mut at = 0;
    loop {
        let read =
            input.read_at(&mut bytes[kept..], at).map_err(|error| wrong(input, at, error.to_string()))?;
        at += read as u64;
        let filled = kept + read;
        let end = match bytes[..filled].iter().rposition(|&b| b == b'\n') {
            Some(end) if read > 0 => end + 1,
            _ => filled,
        };
        for line in bytes[..end].split(|&b| b == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let flow = match std::str::from_utf8(line) {
                Ok(text) => take(text),
                Err(_) => take(&String::from_utf8_lossy(line)),
            };
            if flow.is_break() {
                return Ok(());
            }
        }
        bytes.copy_within(end..filled, 0);
        kept = filled - end;
        if read == 0 {
            return Ok(());
        }
    }
}
