//! `trace.dat`, versions 6 and 7, as trace-cmd and lotse's recorder write them
//! (`trace-cmd.dat.v6(5)`, `trace-cmd.dat.v7(5)`).
//!
//! In: the file's bytes. Out: all records of all its rings, merged by time; losses where
//! the pages tell them. Memory: one block of pages (or one unpacked chunk) per CPU.

mod ring_page;
mod facts;
mod cpu_data;
mod head;
mod version_6;
mod version_7;
mod names;
mod parts;

use std::{ops::ControlFlow, path::Path, rc::Rc, sync::Arc};

use trace::{
    At, ClockKind, Cpu, Endian, Item, Loss, Nanos, Sink, Source, SourceError, Tid, TraceInfo,
    format::PrintLookup, stream::FormatIndex,
};

use self::{
    cpu_data::{CpuCursor, CpuExtent},
    facts::{Account, CycleScale, RingCounters},
    head::Head,
    ring_page::PageLayout,
};
use crate::{input::Input, merge::MergeHeap};

pub(crate) use head::{TracingData, is_trace_dat, read_tracing_data};
pub(crate) use names::Names;

/// An opened trace.dat.
pub struct TraceDat {
    /// The file; of a recording that was not finished, one file per CPU.
    files: Vec<Arc<dyn Input>>,
    info: TraceInfo,
    /// Problems known before streaming; those found while streaming come behind.
    problems_at_open: usize,
    layout: PageLayout,
    page_size: usize,
    extents: Vec<CpuExtent>,
    /// Position in `info.formats` by event number.
    by_id: Vec<u32>,
    /// Offset of `common_pid`.
    pid_offset: Option<usize>,
    time: TimeScale,
    account: Option<Account>,
    /// Overwritten events by (buffer, CPU), where the file counts them.
    overrun: Vec<(u32, Cpu, u64)>,
    names: Names,
}

/// From the ring's time to nanoseconds.
#[derive(Clone, Copy, Debug)]
struct TimeScale {
    cycles: Option<CycleScale>,
    offset: i64,
}

impl TimeScale {
    #[inline]
    fn nanos(&self, time: u64) -> Nanos {
        let time = match &self.cycles {
            None => time,
            Some(scale) => scale.nanos(time),
        };
        Nanos(time.wrapping_add_signed(self.offset))
    }
}

const UNKNOWN_ID: u32 = u32::MAX;

/// Memory for blocks of pages of all CPUs together.
const BLOCK_BUDGET: usize = 16 << 20;

/// No more than this many problems are kept; more are counted.
const MOST_PROBLEMS: usize = 100;

impl TraceDat {
    /// Reads everything but the pages.
    pub fn open(input: Arc<dyn Input>) -> Result<TraceDat, SourceError> {
        let head = head::read(&*input)?;
        Ok(TraceDat::new(head, vec![input]))
    }

    /// Opens the folder of a recording of lotse that was not put together.
    pub fn open_parts(folder: &Path) -> Result<TraceDat, SourceError> {
        let (head, files) = parts::read(folder)?;
        Ok(TraceDat::new(head, files))
    }

    fn new(head: Head, files: Vec<Arc<dyn Input>>) -> TraceDat {
        let mut info = head.info;
        let extents = usable_extents(&head.buffers, head.extents, &mut info);

        let mut by_id = Vec::new();
        for (at, format) in info.formats.iter().enumerate() {
            let id = usize::from(format.id);
            if by_id.len() <= id {
                by_id.resize(id + 1, UNKNOWN_ID);
            }
            by_id[id] = at as u32;
        }
        let pid_offset = info.formats.iter().find_map(|f| f.field("common_pid")).filter(|f| f.size == 4);
        let pid_offset = pid_offset.map(|field| field.offset as usize);

        let cycles = head.scale.filter(|_| info.clock == ClockKind::Cycles);
        if cycles.is_some() {
            info.clock = ClockKind::Other("x86-tsc in nanoseconds".to_owned());
        }
        let overrun = head
            .counters
            .iter()
            .filter_map(|(name, counters)| {
                let buffer = head.buffers.iter().position(|b| b.name == *name)? as u32;
                Some((buffer, Cpu(counters.cpu), counters.overrun))
            })
            .collect();
        let mut refused = Vec::new();
        if let Some(account) = &head.account {
            let recorded = account.cpus.iter().map(|cpu| cpu.recorded).fold(0, u64::saturating_add);
            let lost = account.cpus.iter().map(|cpu| cpu.lost.total()).fold(0, u64::saturating_add);
            info.facts.push(("account".to_owned(), format!("{recorded} recorded, {lost} lost")));
            info.facts.push(("clock to unix time, ns".to_owned(), account.realtime_offset_ns.to_string()));
            info.losses = account.losses_without_page().0;
        } else {
            refused = head.counters.into_iter().filter(|(_, counters)| counters.dropped > 0).collect();
        }
        let symbols = head.symbols;
        let load = symbols.zip(files.first().cloned()).map(|(section, input)| {
            let endian = info.endian;
            let load = move || section.content(&*input, endian).unwrap_or_default();
            Box::new(load) as Box<dyn Fn() -> Vec<u8> + Send + Sync>
        });
        let mut trace = TraceDat {
            problems_at_open: info.problems.len(),
            info,
            files,
            layout: head.layout,
            page_size: head.page_size,
            extents,
            by_id,
            pid_offset,
            time: TimeScale { cycles, offset: head.time_offset },
            account: head.account,
            overrun,
            names: Names::new(&head.printk, load),
        };
        trace.place_refused(&head.buffers, &refused);
        trace
    }

    /// Events that a full ring refused are only counted in all. A ring is full at its first record
    /// at the earliest, and nothing is recorded after the last record of all.
    fn place_refused(&mut self, buffers: &[head::Buffer], refused: &[(String, RingCounters)]) {
        if refused.is_empty() {
            return;
        }
        let unpacker = Rc::default();
        let spans: Vec<Option<(Nanos, Nanos)>> = self
            .extents
            .iter()
            .map(|extent| {
                let input = Arc::clone(&self.files[extent.file as usize]);
                let page = self.page_size;
                let cursor = CpuCursor::new(input, *extent, self.layout, page, page, &unpacker).ok()?;
                let (first, last) = cursor.span()?;
                Some((self.time.nanos(first), self.time.nanos(last)))
            })
            .collect();
        let (Some(begin), Some(end)) =
            (spans.iter().flatten().map(|s| s.0).min(), spans.iter().flatten().map(|s| s.1).max())
        else {
            return;
        };
        for (name, counters) in refused {
            let is_its = |extent: &CpuExtent| {
                extent.cpu.0 == counters.cpu && buffers[extent.buffer as usize].name == *name
            };
            let at = self.extents.iter().position(is_its);
            let from = at.and_then(|at| spans[at]).map_or(begin, |span| span.0);
            let (cpu, count) = (Some(Cpu(counters.cpu)), Some(counters.dropped));
            self.info.losses.push(Loss { cpu, from, to: end, count });
        }
    }

    fn problem(&mut self, text: String) {
        let found = self.info.problems.len() - self.problems_at_open;
        match found.cmp(&MOST_PROBLEMS) {
            std::cmp::Ordering::Less => self.info.problems.push(text),
            std::cmp::Ordering::Equal => {
                self.info.problems.push("further problems are not listed".to_owned())
            }
            std::cmp::Ordering::Greater => {}
        }
    }
}

/// Rings whose clock is that of the first ring with pages; others cannot be merged with it.
fn usable_extents(buffers: &[head::Buffer], extents: Vec<CpuExtent>, info: &mut TraceInfo) -> Vec<CpuExtent> {
    let buffer_of = |extent: &CpuExtent| &buffers[extent.buffer as usize];
    let with_pages: Vec<CpuExtent> = extents.into_iter().filter(|extent| extent.size > 0).collect();
    let Some(first) = with_pages.first() else { return with_pages };
    let clock = buffer_of(first).clock.clone();
    info.clock = clock.clone();
    for (at, buffer) in buffers.iter().enumerate() {
        let bytes: u64 = with_pages.iter().filter(|e| e.buffer == at as u32).map(|e| e.size).sum();
        if bytes == 0 {
            continue;
        }
        let name = if buffer.name.is_empty() { "top" } else { buffer.name.as_str() };
        info.facts.push(("buffer".to_owned(), format!("{name}: {bytes} bytes, clock {}", buffer.clock)));
        if buffer.clock != clock {
            info.problems.push(format!(
                "buffer {name} is left out: its clock is {}, that of the first buffer {clock}",
                buffer.clock
            ));
        }
    }
    with_pages.into_iter().filter(|extent| buffer_of(extent).clock == clock).collect()
}

impl Source for TraceDat {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn names(&self) -> &dyn PrintLookup {
        &self.names
    }

    fn stream(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError> {
        self.info.problems.truncate(self.problems_at_open);
        let block = BLOCK_BUDGET / self.extents.len().max(1);
        // Little enough that a block is still in the cache when its last record is told.
        let block = block.clamp(64 << 10, 128 << 10);
        let unpacker = Rc::default();
        let mut cursors = Vec::new();
        let mut heap = MergeHeap::new();
        let mut failed: Option<SourceError> = None;
        for (at, extent) in self.extents.iter().enumerate() {
            let input = Arc::clone(&self.files[extent.file as usize]);
            let opened = CpuCursor::new(input, *extent, self.layout, self.page_size, block, &unpacker);
            let opened = opened.and_then(|mut cursor| {
                let any = cursor.advance()?;
                Ok((cursor, any))
            });
            match opened {
                Ok((cursor, any)) => {
                    if any {
                        heap.push((cursor.record_time, at as u32));
                    }
                    cursors.push(Some(cursor));
                }
                Err(error) => {
                    cursors.push(None);
                    failed.get_or_insert(error);
                }
            }
        }
        let mut stream = Stream {
            start: self.time.nanos(heap.top().map_or(0, |(time, _)| time)),
            trace: self,
            unknown: Vec::new(),
            short: 0,
            told: vec![(0, true); cursors.len()],
            latest: 0,
        };
        let flow = stream.merge(&mut cursors, &mut heap, sink, &mut failed);
        let flow = match flow {
            ControlFlow::Continue(()) => stream.losses_at_end(&mut cursors, sink),
            stopped => stopped,
        };
        let (unknown, short) = (stream.unknown, stream.short);
        for damage in cursors.iter_mut().flatten().flat_map(|cursor| cursor.damage.drain(..)) {
            self.problem(format!("at byte {}: {}", damage.offset, damage.reason));
        }
        for (id, count) in unknown {
            self.problem(format!("{count} records of event {id}, whose format is not in the file"));
        }
        if short > 0 {
            self.problem(format!("{short} records too short to say what they are"));
        }
        match (flow, failed) {
            (ControlFlow::Continue(()), Some(error)) => Err(error),
            _ => Ok(()),
        }
    }
}

struct Stream<'a> {
    trace: &'a TraceDat,
    start: Nanos,
    /// Records without format: event number, count.
    unknown: Vec<(u16, u64)>,
    short: u64,
    /// By cursor: lost events counted by pages, and whether every loss had its count.
    told: Vec<(u64, bool)>,
    /// Time of the last record of all.
    latest: u64,
}

impl Stream<'_> {
    fn merge(
        &mut self,
        cursors: &mut [Option<CpuCursor>],
        heap: &mut MergeHeap<(u64, u32)>,
        sink: &mut dyn Sink,
        failed: &mut Option<SourceError>,
    ) -> ControlFlow<()> {
        while let Some((_, index)) = heap.top() {
            let runner_up = heap.runner_up().unwrap_or((u64::MAX, u32::MAX));
            let Some(cursor) = &mut cursors[index as usize] else {
                heap.pop();
                continue;
            };
            if let Some(loss) = cursor.take_loss() {
                self.tell_loss(index, cursor, loss, sink)?;
            }
            // As long as this CPU stays ahead of all others, nothing needs comparing.
            loop {
                self.tell_record(cursor, sink)?;
                match cursor.advance() {
                    Ok(true) => {
                        // Told when it begins, not at the record after it: analyses doubt what other
                        // CPUs do in between.
                        if let Some(loss) = cursor.take_loss() {
                            self.tell_loss(index, cursor, loss, sink)?;
                        }
                        let key = (cursor.record_time, index);
                        if key > runner_up {
                            heap.replace_top(key);
                            break;
                        }
                    }
                    Ok(false) => {
                        heap.pop();
                        break;
                    }
                    Err(error) => {
                        failed.get_or_insert(error);
                        heap.pop();
                        break;
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }

    #[inline]
    fn tell_record(&mut self, cursor: &CpuCursor, sink: &mut dyn Sink) -> ControlFlow<()> {
        let record = cursor.record();
        self.latest = self.latest.max(cursor.record_time);
        let endian = self.trace.layout.endian;
        let Some(&id) = record.first_chunk::<2>() else {
            self.short += 1;
            return ControlFlow::Continue(());
        };
        let id = if endian == Endian::Little { u16::from_le_bytes(id) } else { u16::from_be_bytes(id) };
        let format = self.trace.by_id.get(usize::from(id)).copied().unwrap_or(UNKNOWN_ID);
        if format == UNKNOWN_ID {
            self.count_unknown(id);
            return ControlFlow::Continue(());
        }
        let tid = self.trace.pid_offset.and_then(|at| record.get(at..)?.first_chunk::<4>()).map(|bytes| {
            Tid(if endian == Endian::Little {
                i32::from_le_bytes(*bytes)
            } else {
                i32::from_be_bytes(*bytes)
            })
        });
        let at = At { time: self.trace.time.nanos(cursor.record_time), cpu: cursor.cpu, tid };
        sink.item(Item::Event { at, format: FormatIndex(format), record, sample: None })
    }

    #[cold]
    fn count_unknown(&mut self, id: u16) {
        if let Some((_, count)) = self.unknown.iter_mut().find(|(known, _)| *known == id) {
            *count += 1;
        } else if self.unknown.len() < MOST_PROBLEMS {
            self.unknown.push((id, 1));
        }
    }

    #[cold]
    fn tell_loss(
        &mut self,
        index: u32,
        cursor: &CpuCursor,
        loss: cpu_data::PageLoss,
        sink: &mut dyn Sink,
    ) -> ControlFlow<()> {
        let to = self.trace.time.nanos(cursor.record_time);
        let from = loss.from.map_or(self.start.min(to), |time| self.trace.time.nanos(time));
        let told = &mut self.told[index as usize];
        // The recorder's account knows counts that had no room on their page.
        let count = loss.count.or_else(|| {
            let cpu = self.trace.account.as_ref()?.cpus.iter().find(|cpu| cpu.cpu == cursor.cpu.0)?;
            cpu.losses.iter().find(|known| known.to_ns == to.0)?.count
        });
        match count {
            Some(count) => told.0 = told.0.saturating_add(count),
            None => told.1 = false,
        }
        sink.item(Item::Lost(Loss { cpu: Some(cursor.cpu), from, to, count }))
    }

    /// Losses behind a CPU's last record: those the account tells, or what the ring's
    /// counters say beyond what the pages told.
    fn losses_at_end(&mut self, cursors: &mut [Option<CpuCursor>], sink: &mut dyn Sink) -> ControlFlow<()> {
        let end = self.trace.time.nanos(self.latest);
        for (at, cursor) in cursors.iter_mut().enumerate() {
            let Some(cursor) = cursor else { continue };
            let last = cursor.last_record().map_or(self.start, |time| self.trace.time.nanos(time));
            if let Some(loss) = cursor.loss_at_end() {
                self.told[at].1 &= loss.count.is_some();
                self.told[at].0 = self.told[at].0.saturating_add(loss.count.unwrap_or(0));
                sink.item(Item::Lost(Loss {
                    cpu: Some(cursor.cpu),
                    from: last,
                    to: end.max(last),
                    count: loss.count,
                }))?;
            }
            let extent = &self.trace.extents[at];
            let counted =
                self.trace.overrun.iter().find(|(b, cpu, _)| (*b, *cpu) == (extent.buffer, extent.cpu));
            if let (None, Some((_, _, overrun)), (told, true)) = (&self.trace.account, counted, self.told[at])
                && *overrun > told
            {
                let count = Some(overrun - told);
                sink.item(Item::Lost(Loss { cpu: Some(cursor.cpu), from: last, to: end.max(last), count }))?;
            }
        }
        if let Some(account) = &self.trace.account {
            for loss in account.losses_without_page().1 {
                sink.item(Item::Lost(loss))?;
            }
        }
        ControlFlow::Continue(())
    }
}
