//! `perf.data`, file and pipe mode, as `perf record` and lotse's recorder write it
//! (tools/perf/Documentation/perf.data-file-format.txt).
//!
//! In: the file's bytes. Out: tracepoint records as events, other samples as samples,
//! side records about threads, losses once. Memory: the records of two rounds of rings.

mod attribute;
mod record;
mod head;
mod rounds;

use std::{ops::ControlFlow, sync::Arc};

use trace::{
    At, Comm, Cpu, Item, Loss, Nanos, Sink, Source, SourceError, Tid, TraceInfo,
    format::PrintLookup,
    stream::{FormatIndex, Sample, TaskChange},
};

use self::{
    attribute::{Attribute, read as read_format, sample::READ},
    head::Head,
    record::Layouts,
    rounds::{MOST_CPUS, RecordSink, Rounds, Stop},
};
use crate::{
    input::{Input, wrong},
    trace_dat::Names,
};

pub(crate) use head::is_perf_data;

/// An opened perf.data.
pub struct PerfData {
    input: Arc<dyn Input>,
    info: TraceInfo,
    problems_at_open: usize,
    attributes: Vec<Attribute>,
    layouts: Layouts,
    data: (u64, u64),
    unpacked_at_most: u64,
    /// Position in `info.formats` by event number.
    by_id: Vec<u32>,
    names: Names,
}

const UNKNOWN_ID: u32 = u32::MAX;

impl PerfData {
    /// Reads everything but the data.
    pub fn open(input: Arc<dyn Input>) -> Result<PerfData, SourceError> {
        let Head { mut info, attributes, data, printk, unpacked_at_most } = head::read(&*input)?;
        let with_values = attributes.iter().filter(|attribute| attribute.sample_type & READ != 0);
        let with_values: Vec<&str> = with_values.map(|attribute| attribute.name.as_str()).collect();
        if !with_values.is_empty() {
            let text = format!("read with each sample of {}; skipped", with_values.join(", "));
            info.facts.push(("counter values".to_owned(), text));
        }
        let mut by_id = Vec::new();
        for (at, format) in info.formats.iter().enumerate() {
            let id = usize::from(format.id);
            if by_id.len() <= id {
                by_id.resize(id + 1, UNKNOWN_ID);
            }
            by_id[id] = at as u32;
        }
        Ok(PerfData {
            input,
            problems_at_open: info.problems.len(),
            layouts: Layouts::new(&attributes, info.endian),
            info,
            attributes,
            data,
            unpacked_at_most,
            by_id,
            names: Names::new(&printk, None),
        })
    }
}

impl Source for PerfData {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn names(&self) -> &dyn PrintLookup {
        &self.names
    }

    fn stream(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError> {
        self.info.problems.truncate(self.problems_at_open);
        let input = Arc::clone(&self.input);
        let mut teller = Teller::new(self, sink);
        let mut rounds = Rounds::new(&*input, &self.layouts, self.unpacked_at_most);
        let flow = rounds.read(self.data.0, self.data.1, &mut teller);
        let flow = match flow {
            ControlFlow::Break(Stop::Enough) => return Ok(()),
            ControlFlow::Break(Stop::Damaged(error)) => Err(error),
            ControlFlow::Continue(()) => Ok(()),
        };
        if teller.losses_at_end().is_break() {
            return Ok(());
        }
        let (short, unknown) = (teller.short, teller.unknown);
        let mut problems = Vec::new();
        if rounds.told_early > 0 {
            problems.push("rounds of rings are too large to be held; records may be out of order".to_owned());
        }
        if short > 0 {
            problems.push(format!("{short} records too short for what they say they are"));
        }
        if unknown > 0 {
            problems.push(format!("{unknown} samples of an event that the file does not describe"));
        }
        let cut_off = rounds.cut_off;
        self.info.problems.extend(problems);
        if let (Ok(()), Some((at, left))) = (&flow, cut_off) {
            let error =
                wrong(&*input, at, format!("the last record is cut off: {left} bytes are left of it"));
            // Of a file known to be cut that is to be expected.
            if self.info.cut.is_none() {
                return Err(error);
            }
            self.info.problems.push(format!("at byte {at}: {}", error.reason));
        }
        flow
    }
}

/// Turns records into items.
struct Teller<'a> {
    trace: &'a PerfData,
    sink: &'a mut dyn Sink,
    callchain: Vec<u64>,
    links: Vec<(u64, u64)>,
    short: u64,
    unknown: u64,
    first_time: Option<Nanos>,
    last_time: Nanos,
    /// Time of the last event by CPU.
    last_by_cpu: Vec<Option<Nanos>>,
    lost: LostCounts,
}

/// Losses as the two kinds of records tell them.
///
/// A LOST record comes when a ring has room again and counts what it had refused: it has a
/// place. LOST_SAMPLES written at the end from `PERF_FORMAT_LOST` is a total that contains
/// the former. So what counts is the total where there is one, of which the LOST records
/// say where; the rest was lost after the last of them.
#[derive(Default)]
struct LostCounts {
    /// By CPU (`None`: not told): sum of LOST records, sum of totals.
    by_cpu: std::collections::BTreeMap<Option<u32>, (u64, u64)>,
}

impl<'a> Teller<'a> {
    fn new(trace: &'a PerfData, sink: &'a mut dyn Sink) -> Teller<'a> {
        Teller {
            trace,
            sink,
            callchain: Vec::new(),
            links: Vec::new(),
            short: 0,
            unknown: 0,
            first_time: None,
            last_time: Nanos(0),
            last_by_cpu: Vec::new(),
            lost: LostCounts::default(),
        }
    }

    #[inline]
    fn note_time(&mut self, time: Nanos, cpu: Cpu) {
        self.last_time = self.last_time.max(time);
        if self.first_time.is_none() {
            self.first_time = Some(time);
        }
        let cpu = cpu.0 as usize;
        if let Some(last) = self.last_by_cpu.get_mut(cpu) {
            *last = Some(time);
        } else if cpu < MOST_CPUS {
            self.last_by_cpu.resize(cpu + 1, None);
            self.last_by_cpu[cpu] = Some(time);
        }
    }

    fn last_of(&self, cpu: Option<u32>) -> Option<Nanos> {
        match cpu {
            Some(cpu) => self.last_by_cpu.get(cpu as usize).copied().flatten(),
            None => Some(self.last_time),
        }
    }

    #[inline]
    fn sample(&mut self, record: &[u8], time: u64) -> ControlFlow<()> {
        let layouts = &self.trace.layouts;
        let numbers = layouts.numbers();
        let Some(attribute) = layouts.attribute_of_sample(record) else {
            self.unknown += 1;
            return ControlFlow::Continue(());
        };
        let layout = layouts.layout(attribute);
        let Some(parts) = record::parts(layout, numbers, record, &mut self.callchain) else {
            self.short += 1;
            return ControlFlow::Continue(());
        };
        let word = |offset: u16| if offset == 0 { None } else { numbers.u64(record, offset as usize) };
        let half = |offset: u16, at: usize| {
            if offset == 0 { None } else { numbers.u32(record, offset as usize + at) }
        };
        let process = half(layout.tid, 0).map(|pid| Tid(pid as i32));
        let tid = half(layout.tid, 4).map(|tid| Tid(tid as i32));
        let cpu = Cpu(half(layout.cpu, 0).unwrap_or(0));
        let at = At { time: Nanos(time), cpu, tid };
        let sample = Sample {
            process,
            ip: word(layout.ip),
            callchain: &self.callchain,
            period: word(layout.period).unwrap_or(1),
        };
        let mut item = Item::Sample { at, event: attribute as u32, sample: &sample };
        if let Some(raw) = parts.raw
            && layouts.is_tracepoint(attribute)
            && let Some(id) = numbers.u16(raw, 0)
        {
            let format = self.trace.by_id.get(usize::from(id)).copied().unwrap_or(UNKNOWN_ID);
            if format != UNKNOWN_ID {
                item = Item::Event { at, format: FormatIndex(format), record: raw, sample: Some(&sample) };
            }
        }
        let flow = self.sink.item(item);
        self.note_time(Nanos(time), cpu);
        flow
    }

    #[cold]
    fn side_record(&mut self, kind: u32, flags: u16, record: &[u8], time: u64) -> ControlFlow<()> {
        let layouts = &self.trace.layouts;
        let numbers = layouts.numbers();
        let body = layouts.body(record);
        let time = Nanos(time);
        let cpu = layouts.tail_cpu(record);
        let thread = layouts.tail_thread(record);
        let at = At { time, cpu: Cpu(cpu.unwrap_or(0)), tid: thread.map(|(_, tid)| Tid(tid)) };
        let tid = |at: usize| numbers.u32(body, at).map(|number| Tid(number as i32));
        let change = match kind {
            record::LOST => {
                let Some(count) = numbers.u64(body, 16) else { return self.too_short() };
                let told = &mut self.lost.by_cpu.entry(cpu).or_default().0;
                *told = told.saturating_add(count);
                return self.loss(cpu, time, Some(count));
            }
            record::LOST_SAMPLES => {
                let Some(count) = numbers.u64(body, 8) else { return self.too_short() };
                let tail_id = layouts.tail(record).tail_id as usize;
                let id = record
                    .len()
                    .checked_sub(tail_id)
                    .filter(|_| tail_id > 0)
                    .and_then(|at| numbers.u64(record, at));
                let attribute = id.and_then(|id| layouts.attribute_of_id(id)).unwrap_or(0);
                let is_total = self.trace.attributes[attribute].read_format & read_format::LOST != 0;
                if is_total {
                    // Without a time or a place: told at the end.
                    let total = &mut self.lost.by_cpu.entry(cpu).or_default().1;
                    *total = total.saturating_add(count);
                    return ControlFlow::Continue(());
                }
                return self.loss(cpu, time, Some(count));
            }
            record::COMM => match (tid(8), tid(12), body.get(16..)) {
                (Some(process), Some(tid), Some(comm)) => TaskChange::Comm {
                    process,
                    tid,
                    comm: Comm::new(until_nul(comm)),
                    exec: flags & record::COMM_EXEC != 0,
                },
                _ => return self.too_short(),
            },
            record::FORK | record::EXIT => match (tid(8), tid(12), tid(16), tid(20)) {
                (Some(process), Some(parent_process), Some(tid), Some(parent_tid)) => {
                    if kind == record::FORK {
                        TaskChange::Fork { process, tid, parent_process, parent_tid }
                    } else {
                        TaskChange::Exit { process, tid }
                    }
                }
                _ => return self.too_short(),
            },
            record::MMAP | record::MMAP2 => {
                let path_at = if kind == record::MMAP { 40 } else { 72 };
                let (Some(process), Some(start), Some(length), Some(offset), Some(path)) = (
                    tid(8),
                    numbers.u64(body, 16),
                    numbers.u64(body, 24),
                    numbers.u64(body, 32),
                    body.get(path_at..),
                ) else {
                    return self.too_short();
                };
                let build_id = if kind == record::MMAP2 && flags & record::MMAP_BUILD_ID != 0 {
                    let size = usize::from(body[40]).min(20);
                    &body[44..44 + size]
                } else {
                    &[]
                };
                TaskChange::Map { process, start, length, offset, path: until_nul(path), build_id }
            }
            record::SWITCH | record::SWITCH_CPU_WIDE => {
                let Some((process, tid)) = thread else { return self.too_short() };
                TaskChange::Switch {
                    process: Tid(process),
                    tid: Tid(tid),
                    out: flags & record::SWITCH_OUT != 0,
                    preempted: flags & record::SWITCH_PREEMPTED != 0,
                }
            }
            record::NAMESPACES => {
                let (Some(process), Some(tid), Some(count)) = (tid(8), tid(12), numbers.u64(body, 16)) else {
                    return self.too_short();
                };
                self.links.clear();
                for at in 0..usize::try_from(count).unwrap_or(usize::MAX).min(64) {
                    let (Some(device), Some(inode)) =
                        (numbers.u64(body, 24 + 16 * at), numbers.u64(body, 32 + 16 * at))
                    else {
                        break;
                    };
                    self.links.push((device, inode));
                }
                TaskChange::Namespaces { process, tid, links: &self.links }
            }
            record::CGROUP => match (numbers.u64(body, 8), body.get(16..)) {
                (Some(id), Some(path)) => TaskChange::Cgroup { id, path: until_nul(path) },
                _ => return self.too_short(),
            },
            record::THROTTLE | record::UNTHROTTLE => {
                let (Some(_), Some(id)) = (numbers.u64(body, 8), numbers.u64(body, 16)) else {
                    return self.too_short();
                };
                let event = layouts.attribute_of_id(id).map(|attribute| attribute as u32);
                TaskChange::Throttle { event, held_back: kind == record::THROTTLE }
            }
            _ => return ControlFlow::Continue(()),
        };
        self.sink.item(Item::Task { at, change })
    }

    fn too_short(&mut self) -> ControlFlow<()> {
        self.short += 1;
        ControlFlow::Continue(())
    }

    fn loss(&mut self, cpu: Option<u32>, to: Nanos, count: Option<u64>) -> ControlFlow<()> {
        let from = self.last_of(cpu).or(self.first_time).unwrap_or(to).min(to);
        self.sink.item(Item::Lost(Loss { cpu: cpu.map(Cpu), from, to, count }))
    }

    /// What totals count beyond the LOST records.
    fn losses_at_end(&mut self) -> ControlFlow<()> {
        let counts = std::mem::take(&mut self.lost.by_cpu);
        let sum = |part: fn(&(u64, u64)) -> u64| counts.values().map(part).fold(0, u64::saturating_add);
        let (told, total) = (sum(|(told, _)| *told), sum(|(_, total)| *total));
        // LOST records without CPU cannot be set against a CPU's total.
        let mut surplus = total.saturating_sub(told);
        for (cpu, (told, total)) in counts {
            let count = total.saturating_sub(told).min(surplus);
            if count > 0 {
                surplus -= count;
                let to = self.last_time;
                self.loss(cpu, to, Some(count))?;
            }
        }
        ControlFlow::Continue(())
    }
}

impl RecordSink for Teller<'_> {
    #[inline]
    fn record(&mut self, kind: u32, flags: u16, record: &[u8], time: u64, offset: u64) -> ControlFlow<Stop> {
        let flow = if kind == record::SAMPLE {
            if record.len() == 8 {
                let reason = "a sample without content";
                return ControlFlow::Break(Stop::Damaged(wrong(&*self.trace.input, offset, reason)));
            }
            self.sample(record, time)
        } else {
            self.side_record(kind, flags, record, time)
        };
        match flow {
            ControlFlow::Continue(()) => ControlFlow::Continue(()),
            ControlFlow::Break(()) => ControlFlow::Break(Stop::Enough),
        }
    }
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len())]
}
