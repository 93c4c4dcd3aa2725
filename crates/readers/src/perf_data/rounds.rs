//! Records in order of time, in bounded memory.
//!
//! perf empties its rings one after another; within a ring records are in order, and a
//! FINISHED_ROUND says that all rings have been emptied once, so that what was older than
//! the newest record of the round *before* should not come any more. It does come (perf
//! script tells such events out of order): a thread can lose its CPU between reading the
//! clock and writing the record, and rounds can be as short as some microseconds. So a
//! further round is awaited, and at least a whole block of data.
//!
//! The data is cut into runs of records in order, and runs are merged.
//!
//! A block of plain records is dropped when memory is short and read again when its turn
//! comes, so that also a file without rounds needs no more than its runs' positions.

use std::{ops::ControlFlow, rc::Rc};

use trace::SourceError;

use super::record::{self, Layouts, Numbers};
use crate::{
    input::{Input, read_into, wrong},
    merge::MergeHeap,
};

/// Takes records in order of time: type, flags, record, time, position in the file.
pub(super) trait RecordSink {
    fn record(&mut self, kind: u32, flags: u16, record: &[u8], time: u64, offset: u64) -> ControlFlow<Stop>;
}

/// Why the stream ends early.
#[derive(Debug)]
pub(super) enum Stop {
    /// The receiver has enough.
    Enough,
    /// The data makes no sense from here on.
    Damaged(SourceError),
}

type Flow<T> = ControlFlow<Stop, T>;

/// How much is read at once: more than the longest record (64 kB), and little enough that
/// blocks are still in the cache when their records are told.
const BLOCK: usize = 128 << 10;

/// CPUs whose last times are kept; damaged files can name any.
pub(super) const MOST_CPUS: usize = 1 << 16;

/// Bytes of blocks held before plain ones are dropped.
const HELD_AT_MOST: usize = 32 << 20;

/// Bytes of unpacked blocks held before records are told even though older ones could
/// still come.
const UNPACKED_AT_MOST: usize = 128 << 20;

struct Block {
    /// Position in the file: of its first byte, or of the compressed record.
    offset: u64,
    length: u32,
    bytes: Option<Rc<Vec<u8>>>,
    /// Can be read again.
    plain: bool,
    /// Runs that are not yet told.
    runs: u32,
}

#[derive(Clone, Copy)]
struct Run {
    block: u32,
    at: u32,
    end: u32,
}

/// Cuts data into runs and tells them in order.
pub(super) struct Rounds<'a> {
    input: &'a dyn Input,
    layouts: &'a Layouts,
    numbers: Numbers,
    blocks: Vec<Block>,
    free_blocks: Vec<u32>,
    /// Plain blocks in memory, the longest held first.
    held: std::collections::VecDeque<u32>,
    held_bytes: usize,
    unpacked_bytes: usize,
    runs: Vec<Run>,
    free_runs: Vec<u32>,
    /// Time of the next record, order of arrival, run.
    heap: MergeHeap<(u64, u32, u32)>,
    arrived: u32,
    newest: u64,
    /// By CPU: time of the last sample indexed.
    last_by_cpu: Vec<u64>,
    /// The newest time at the end of the two rounds before this, the older one first.
    newest_before: [u64; 2],
    unpacker: Option<zstd::stream::raw::Decoder<'static>>,
    /// The beginning of a record whose end is in the next compressed one.
    unpacked_rest: Vec<u8>,
    unpacked_at_most: u64,
    /// Buffers to use again.
    spare: Vec<Vec<u8>>,
    /// Times that records were told early for want of memory.
    pub(super) told_early: u64,
    /// Position and length of a last record that is not whole.
    pub(super) cut_off: Option<(u64, u64)>,
    /// Where the data stopped making sense.
    damage: Option<SourceError>,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(input: &'a dyn Input, layouts: &'a Layouts, unpacked_at_most: u64) -> Rounds<'a> {
        Rounds {
            input,
            layouts,
            numbers: layouts.numbers(),
            blocks: Vec::new(),
            free_blocks: Vec::new(),
            held: std::collections::VecDeque::new(),
            held_bytes: 0,
            unpacked_bytes: 0,
            runs: Vec::new(),
            free_runs: Vec::new(),
            heap: MergeHeap::new(),
            arrived: 0,
            newest: 0,
            last_by_cpu: Vec::new(),
            newest_before: [0; 2],
            unpacker: None,
            unpacked_rest: Vec::new(),
            unpacked_at_most,
            spare: Vec::new(),
            told_early: 0,
            cut_off: None,
            damage: None,
        }
    }

    /// Reads records from `start` to `end` of the file and tells them.
    pub(super) fn read(&mut self, start: u64, end: u64, sink: &mut impl RecordSink) -> ControlFlow<Stop> {
        let mut at = start;
        while at < end && self.damage.is_none() {
            let mut bytes = self.spare.pop().unwrap_or_default();
            let length = (end - at).min(BLOCK as u64) as usize;
            bytes.resize(length, 0);
            if let Err(error) = read_into(self.input, at, &mut bytes, "records") {
                self.damage = Some(error);
                break;
            }
            let safe = self.newest_before[0];
            let next = self.index(bytes, at, true, end);
            self.tell_until(safe, sink)?;
            self.keep_memory_bounded(sink)?;
            if next == at && self.damage.is_none() {
                self.cut_off = Some((at, end - at));
                break;
            }
            at = next;
        }
        if self.damage.is_none() && !self.unpacked_rest.is_empty() {
            let rest = self.unpacked_rest.len();
            self.damage =
                Some(wrong(self.input, end, format!("{rest} unpacked bytes are left that make no record")));
        }
        self.tell_until(u64::MAX, sink)?;
        match self.damage.take() {
            Some(damage) => ControlFlow::Break(Stop::Damaged(damage)),
            None => ControlFlow::Continue(()),
        }
    }

    /// Cuts a block into runs. Returns the file position to go on from (plain blocks).
    fn index(&mut self, bytes: Vec<u8>, offset: u64, plain: bool, data_end: u64) -> u64 {
        let bytes = Rc::new(bytes);
        let block = self.new_block(offset, &bytes, plain);
        let mut at = 0usize;
        let mut run_start = 0usize;
        let mut run_first = None;
        let mut run_last = 0u64;
        let mut skip_to = None;
        while let Some((kind, _, size)) = self.numbers.header(&bytes, at) {
            let size = usize::from(size);
            if size < 8 {
                let reason =
                    format!("a record of type {kind} with a size of {size} bytes, less than its header");
                self.damage = Some(wrong(self.input, offset + if plain { at as u64 } else { 0 }, reason));
                break;
            }
            let Some(record) = bytes.get(at..at + size) else { break };
            if kind < record::FIRST_OF_RECORDER {
                if let Some(time) = self.layouts.time(kind, record) {
                    let begins = self.begin_of_loss(kind, record);
                    if (run_first.is_some() && time < run_last) || begins.is_some() {
                        self.end_run(block, run_start, at, run_first);
                        (run_start, run_first) = (at, None);
                    }
                    if begins.is_some() {
                        at += size;
                        self.end_run(block, run_start, at, begins);
                        run_start = at;
                        continue;
                    }
                    self.note_sample(kind, record, time);
                    run_first.get_or_insert(time);
                    run_last = time;
                    self.newest = self.newest.max(time);
                }
                at += size;
                continue;
            }
            match kind {
                record::FINISHED_ROUND => {
                    at += size;
                    self.newest_before = [self.newest_before[1], self.newest];
                }
                record::COMPRESSED | record::COMPRESSED2 if plain => {
                    self.end_run(block, run_start, at, run_first);
                    let start = if kind == record::COMPRESSED { 8 } else { 16 };
                    let length = match kind {
                        record::COMPRESSED => size.saturating_sub(8),
                        // What lies behind the data is padding.
                        _ => self
                            .numbers
                            .u64(record, 8)
                            .map_or(0, |n| usize::try_from(n).unwrap_or(usize::MAX)),
                    };
                    let packed = record.get(start..).map(|packed| &packed[..packed.len().min(length)]);
                    self.unpack(packed.unwrap_or(&[]), offset + at as u64);
                    at += size;
                    (run_start, run_first) = (at, None);
                    if self.damage.is_some() || self.unpacked_bytes > UNPACKED_AT_MOST {
                        break;
                    }
                }
                record::AUXTRACE | record::HEADER_TRACING_DATA if plain => {
                    // Data that are no records follow.
                    let follows = match kind {
                        record::AUXTRACE => self.numbers.u64(record, 8),
                        _ => self.numbers.u32(record, 8).map(|n| u64::from(n).next_multiple_of(8)),
                    };
                    self.end_run(block, run_start, at, run_first);
                    at += size;
                    (run_start, run_first) = (at, None);
                    let next = (offset + at as u64).saturating_add(follows.unwrap_or(0)).min(data_end);
                    let in_block = next - offset;
                    if in_block <= bytes.len() as u64 {
                        at = in_block as usize;
                        run_start = at;
                        continue;
                    }
                    skip_to = Some(next);
                    break;
                }
                _ => at += size,
            }
        }
        self.end_run(block, run_start, at, run_first);
        if !plain && self.damage.is_none() {
            self.unpacked_rest.extend_from_slice(&bytes[at..]);
        }
        self.release_if_done(block);
        drop(bytes);
        skip_to.unwrap_or(offset + at as u64)
    }

    #[inline]
    fn note_sample(&mut self, kind: u32, record: &[u8], time: u64) {
        let Some(cpu) = self.layouts.cpu_of_sample(kind, record) else { return };
        match self.last_by_cpu.get_mut(cpu as usize) {
            Some(last) => *last = time,
            None if (cpu as usize) < MOST_CPUS => {
                self.last_by_cpu.resize(cpu as usize + 1, 0);
                self.last_by_cpu[cpu as usize] = time;
            }
            None => {}
        }
    }

    /// A LOST record stands behind the loss, often in the next round: there the ring had room
    /// again. It is told where the loss begins, behind the last sample of its CPU.
    #[inline]
    fn begin_of_loss(&self, kind: u32, record: &[u8]) -> Option<u64> {
        if kind != record::LOST {
            return None;
        }
        let last = *self.last_by_cpu.get(self.layouts.tail_cpu(record)? as usize)?;
        (last > 0).then_some(last)
    }

    fn keep_memory_bounded(&mut self, sink: &mut impl RecordSink) -> Flow<()> {
        while self.held_bytes > HELD_AT_MOST && self.held.len() > 1 {
            self.drop_oldest();
        }
        if self.unpacked_bytes > UNPACKED_AT_MOST {
            self.told_early += 1;
            while self.unpacked_bytes > UNPACKED_AT_MOST / 2 {
                let Some((time, ..)) = self.heap.top() else { break };
                self.tell_until(time, sink)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn unpack(&mut self, packed: &[u8], offset: u64) {
        use zstd::stream::raw::{InBuffer, Operation, OutBuffer};
        if self.unpacker.is_none() {
            match zstd::stream::raw::Decoder::new() {
                Ok(unpacker) => self.unpacker = Some(unpacker),
                Err(error) => {
                    self.damage = Some(wrong(self.input, offset, format!("zstd: {error}")));
                    return;
                }
            }
        }
        let mut input = InBuffer::around(packed);
        let mut total = 0u64;
        loop {
            let mut bytes = self.spare.pop().unwrap_or_default();
            let rest = self.unpacked_rest.len();
            bytes.resize(rest + BLOCK, 0);
            bytes[..rest].copy_from_slice(&self.unpacked_rest);
            self.unpacked_rest.clear();
            let Some(unpacker) = &mut self.unpacker else { return };
            let mut output = OutBuffer::around(&mut bytes[rest..]);
            let before = input.pos;
            let result = unpacker.run(&mut input, &mut output);
            let made = output.pos();
            bytes.truncate(rest + made);
            total += made as u64;
            if let Err(error) = result {
                self.damage = Some(wrong(self.input, offset, format!("a compressed record: zstd: {error}")));
                return;
            }
            if total > self.unpacked_at_most {
                let reason =
                    format!("a compressed record unpacks to more than {} bytes", self.unpacked_at_most);
                self.damage = Some(wrong(self.input, offset, reason));
                return;
            }
            self.index(bytes, offset, false, 0);
            let done = input.pos == packed.len() && made < BLOCK;
            if !done && made == 0 && input.pos == before {
                self.damage.get_or_insert_with(|| {
                    wrong(self.input, offset, "a compressed record ends in the middle")
                });
            }
            if done || self.damage.is_some() {
                return;
            }
        }
    }

    fn new_block(&mut self, offset: u64, bytes: &Rc<Vec<u8>>, plain: bool) -> u32 {
        let block =
            Block { offset, length: bytes.len() as u32, bytes: Some(Rc::clone(bytes)), plain, runs: 0 };
        let at = match self.free_blocks.pop() {
            Some(at) => {
                self.blocks[at as usize] = block;
                at
            }
            None => {
                self.blocks.push(block);
                self.blocks.len() as u32 - 1
            }
        };
        if plain {
            self.held.push_back(at);
            self.held_bytes += bytes.len();
        } else {
            self.unpacked_bytes += bytes.len();
        }
        at
    }

    /// Records without any time are told as soon as possible, as if they had time 0.
    fn end_run(&mut self, block: u32, start: usize, end: usize, first_time: Option<u64>) {
        if start >= end {
            return;
        }
        let run = Run { block, at: start as u32, end: end as u32 };
        let at = match self.free_runs.pop() {
            Some(at) => {
                self.runs[at as usize] = run;
                at
            }
            None => {
                self.runs.push(run);
                self.runs.len() as u32 - 1
            }
        };
        self.blocks[block as usize].runs += 1;
        self.heap.push((first_time.unwrap_or(0), self.arrived, at));
        self.arrived = self.arrived.wrapping_add(1);
    }

    fn release_if_done(&mut self, block: u32) {
        let state = &mut self.blocks[block as usize];
        if state.runs > 0 {
            return;
        }
        let bytes = state.bytes.take();
        if state.plain {
            if bytes.is_some() {
                self.held_bytes -= state.length as usize;
                self.held.retain(|held| *held != block);
            }
        } else {
            self.unpacked_bytes -= state.length as usize;
        }
        self.free_blocks.push(block);
        if let Some(bytes) = bytes.and_then(|bytes| Rc::try_unwrap(bytes).ok())
            && self.held_bytes + self.spare.len() * BLOCK < HELD_AT_MOST
        {
            self.spare.push(bytes);
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.held.pop_front() {
            let state = &mut self.blocks[oldest as usize];
            if state.bytes.take().is_some() {
                self.held_bytes -= state.length as usize;
            }
        }
    }

    /// A block's bytes, read again if they were dropped.
    fn bytes_of(&mut self, block: u32) -> Result<Rc<Vec<u8>>, SourceError> {
        let state = &mut self.blocks[block as usize];
        if let Some(bytes) = &state.bytes {
            return Ok(Rc::clone(bytes));
        }
        let mut bytes = vec![0; state.length as usize];
        read_into(self.input, state.offset, &mut bytes, "records")?;
        let bytes = Rc::new(bytes);
        state.bytes = Some(Rc::clone(&bytes));
        self.held_bytes += bytes.len();
        self.held.push_back(block);
        while self.held_bytes > HELD_AT_MOST && self.held.len() > 1 {
            self.drop_oldest();
        }
        Ok(bytes)
    }

    /// Tells all records up to and including `limit`.
    fn tell_until(&mut self, limit: u64, sink: &mut impl RecordSink) -> ControlFlow<Stop> {
        while let Some((mut time, arrived, index)) = self.heap.top() {
            if time > limit {
                break;
            }
            let bound =
                self.heap.runner_up().unwrap_or((u64::MAX, u32::MAX, 0)).min((limit, u32::MAX, u32::MAX));
            // Of records with the bound's time, only runs that stand before the bound's go first.
            let last = bound.0.saturating_sub(u64::from((arrived, index) > (bound.1, bound.2)));
            let mut run = self.runs[index as usize];
            let bytes = match self.bytes_of(run.block) {
                Ok(bytes) => bytes,
                Err(error) => return ControlFlow::Break(Stop::Damaged(error)),
            };
            let (offset, plain) =
                (self.blocks[run.block as usize].offset, self.blocks[run.block as usize].plain);
            let mut done = true;
            let mut at = run.at as usize;
            while at < run.end as usize {
                let Some((kind, flags, size)) = self.numbers.header(&bytes, at) else { break };
                let size = usize::from(size);
                let Some(record) = bytes.get(at..at + size).filter(|record| record.len() >= 8) else { break };
                if kind < record::FIRST_OF_RECORDER {
                    // What has no time of its own goes with what is before it.
                    let own = self.layouts.time(kind, record).unwrap_or(time);
                    // A loss goes where its run stands, which is where it begins.
                    time = if kind == record::LOST { time } else { own };
                    if time > last {
                        done = false;
                        break;
                    }
                    sink.record(kind, flags, record, own, if plain { offset + at as u64 } else { offset })?;
                }
                at += size;
            }
            drop(bytes);
            if done {
                self.heap.pop();
                self.free_runs.push(index);
                let block = run.block;
                self.blocks[block as usize].runs -= 1;
                self.release_if_done(block);
            } else {
                run.at = at as u32;
                self.runs[index as usize] = run;
                self.heap.replace_top((time, arrived, index));
            }
        }
        ControlFlow::Continue(())
    }
}
