//! One stream's file, packet after packet, event after event.

use std::sync::Arc;

use trace::{Cpu, SourceError};

use super::{
    Classes,
    bits::{Bits, Seen, Taker, read},
    class::RecordTaker,
    tsdl::Metadata,
    types::Int,
};
use crate::input::{Input, read_into, wrong};

/// Bytes in which a packet's header and context have to fit.
const HEADER: usize = 64 << 10;

const MAGIC: i128 = 0xc1fc_1fc1;

/// A loss that a packet tells: until when, and how many.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketLoss {
    pub(super) from: Option<u64>,
    pub(super) to: Option<u64>,
    pub(super) count: Option<u64>,
}

/// Reads one stream.
pub(super) struct Cursor {
    input: Arc<dyn Input>,
    next: u64,
    packet: Vec<u8>,
    packet_at: u64,
    at: u64,
    end: u64,
    stream: u64,
    clock: u64,
    discarded: Option<u64>,
    packet_end_time: Option<u64>,
    pub(super) cpu: Cpu,
    pub(super) time: u64,
    pub(super) tid: Option<i32>,
    /// Position of the event's class.
    pub(super) class: usize,
    pub(super) record: Vec<u8>,
    tail: Vec<u8>,
    pub(super) last_time: Option<u64>,
    pub(super) loss: Option<PacketLoss>,
    pub(super) damage: Vec<(u64, String)>,
}

/// Keeps the clock, and the thread where a context tells it.
struct Facts<'a> {
    clock: &'a mut u64,
    tid: &'a mut Option<i32>,
    moves_clock: bool,
}

impl Taker for Facts<'_> {
    fn int(&mut self, name: &str, value: u64, int: &Int) {
        if int.clock && self.moves_clock {
            *self.clock = if int.size == 64 {
                value
            } else {
                // The lower bits; they have wrapped when they are less than before.
                let mask = (1u64 << int.size) - 1;
                let upper = *self.clock & !mask;
                let next = upper | (value & mask);
                if next < *self.clock { next.wrapping_add(mask + 1) } else { next }
            };
        }
        if matches!(name, "tid" | "_tid") || matches!(name, "vtid" | "_vtid") && self.tid.is_none() {
            *self.tid = Some(value as i32);
        }
    }
    fn float(&mut self, _: &str, _: u64) {}
    fn text(&mut self, _: &str, _: (usize, usize)) {}
    fn array(&mut self, _: &str) {}
    fn end_array(&mut self) {}
}

impl Cursor {
    pub(super) fn new(input: Arc<dyn Input>) -> Cursor {
        Cursor {
            input,
            next: 0,
            packet: Vec::new(),
            packet_at: 0,
            at: 0,
            end: 0,
            stream: 0,
            clock: 0,
            discarded: None,
            packet_end_time: None,
            cpu: Cpu(0),
            time: 0,
            tid: None,
            class: 0,
            record: Vec::new(),
            tail: Vec::new(),
            last_time: None,
            loss: None,
            damage: Vec::new(),
        }
    }

    fn wrong(&self, offset: u64, reason: impl Into<String>) -> SourceError {
        wrong(&*self.input, offset, reason)
    }

    /// Goes to the next event; `false` at the end.
    pub(super) fn advance(&mut self, metadata: &Metadata, classes: &Classes) -> Result<bool, SourceError> {
        loop {
            if self.at >= self.end && !self.next_packet(metadata)? {
                return Ok(false);
            }
            if self.at >= self.end {
                continue;
            }
            match self.event(metadata, classes) {
                Ok(()) => {
                    self.last_time = Some(self.time);
                    return Ok(true);
                }
                Err(reason) => {
                    let offset = self.packet_at + self.at / 8;
                    self.damage.push((offset, reason));
                    self.at = self.end;
                    let from = self.loss.map_or(self.last_time, |loss| loss.from);
                    self.loss = Some(PacketLoss { from, to: self.packet_end_time, count: None });
                }
            }
        }
    }

    fn event(&mut self, metadata: &Metadata, classes: &Classes) -> Result<(), String> {
        let beyond = |what: &str| format!("{what} reaches beyond the packet's content, or has no length");
        let stream = metadata.streams.get(&self.stream).ok_or("the packet's stream is not described")?;
        let mut bits = Bits { bytes: &self.packet, at: self.at, end: self.end };
        let start = bits.at;
        let mut seen = Seen::default();
        let mut tid = None;
        let mut facts = Facts { clock: &mut self.clock, tid: &mut tid, moves_clock: true };
        if let Some(header) = &stream.event_header {
            read(&mut bits, "", header, &mut seen, &mut facts).ok_or_else(|| beyond("an event's header"))?;
        }
        let id = seen.last("id").or(seen.last("_id")).unwrap_or(0);
        facts.moves_clock = false;
        let key = (self.stream, u64::try_from(id).unwrap_or(u64::MAX));
        let position = *classes
            .by_id
            .get(&key)
            .ok_or_else(|| format!("an event of the number {id}, which is not described"))?;
        let class = &metadata.events[position];
        for context in [&stream.event_context, &class.context].into_iter().flatten() {
            read(&mut bits, "", context, &mut seen, &mut facts)
                .ok_or_else(|| beyond("an event's context"))?;
        }
        self.tid = tid;
        self.class = position;
        self.time = self.clock;
        let taker = (&mut self.record, &mut self.tail);
        let slots = &classes.slots[position];
        let mut taker =
            RecordTaker::new(taker.0, taker.1, bits.bytes, slots, position as u16, tid.unwrap_or(0));
        if let Some(fields) = &class.fields {
            read(&mut bits, "", fields, &mut seen, &mut taker).ok_or_else(|| beyond(&class.name))?;
        }
        taker.finish();
        // Events without any bits would never end.
        if bits.at == start {
            return Err("an event without content".to_owned());
        }
        self.at = bits.at;
        Ok(())
    }

    fn next_packet(&mut self, metadata: &Metadata) -> Result<bool, SourceError> {
        let size = self.input.size();
        if self.next >= size {
            return Ok(false);
        }
        let left = size - self.next;
        let mut start = vec![0; (left.min(HEADER as u64)) as usize];
        read_into(&*self.input, self.next, &mut start, "a packet's header")?;
        let mut bits = Bits { bytes: &start, at: 0, end: 8 * start.len() as u64 };
        let mut seen = Seen::default();
        let (mut ignored_clock, mut ignored_tid) = (0, None);
        let mut facts = Facts { clock: &mut ignored_clock, tid: &mut ignored_tid, moves_clock: false };
        let too_long = || self.wrong(self.next, "a packet's header reaches beyond the file");
        if let Some(header) = &metadata.packet_header {
            read(&mut bits, "", header, &mut seen, &mut facts).ok_or_else(too_long)?;
            if let Some(magic) = seen.last("magic").filter(|magic| *magic != MAGIC) {
                return Err(
                    self.wrong(self.next, format!("a packet begins with {magic:#x} instead of {MAGIC:#x}"))
                );
            }
        }
        let stream_id = seen
            .last("stream_id")
            .unwrap_or_else(|| metadata.streams.keys().next().map_or(0, |id| i128::from(*id)));
        let stream_id = u64::try_from(stream_id).unwrap_or(u64::MAX);
        let Some(stream) = metadata.streams.get(&stream_id) else {
            return Err(self.wrong(
                self.next,
                format!("a packet of stream {stream_id}, which the metadata do not describe"),
            ));
        };
        seen.clear();
        if let Some(context) = &stream.packet_context {
            read(&mut bits, "", context, &mut seen, &mut facts).ok_or_else(too_long)?;
        }
        let number = |name: &str| seen.last(name).and_then(|value| u64::try_from(value).ok());
        let packet_bits = number("packet_size").unwrap_or(8 * left);
        let content_bits = number("content_size").unwrap_or(packet_bits);
        if !packet_bits.is_multiple_of(8)
            || content_bits > packet_bits
            || content_bits < bits.at
            || packet_bits == 0
        {
            let reason = format!(
                "a packet of {packet_bits} bits with {content_bits} of content behind a header of {}",
                bits.at
            );
            return Err(self.wrong(self.next, reason));
        }
        if packet_bits / 8 > left {
            let reason = format!("a packet of {} bytes where {left} are left", packet_bits / 8);
            return Err(self.wrong(self.next, reason));
        }
        let begin = number("timestamp_begin");
        let end_time = number("timestamp_end");
        let discarded = number("events_discarded");
        let header_end = bits.at;
        if let Some(cpu) = number("cpu_id") {
            self.cpu = Cpu(cpu as u32);
        }
        if let (Some(now), Some(before)) = (discarded, self.discarded)
            && now > before
        {
            let from = self.packet_end_time.or(self.last_time);
            self.loss = Some(PacketLoss { from, to: end_time, count: Some(now - before) });
        }
        self.discarded = discarded.or(self.discarded);
        self.packet.resize((packet_bits / 8) as usize, 0);
        read_into(&*self.input, self.next, &mut self.packet, "a packet")?;
        self.stream = stream_id;
        self.packet_end_time = end_time;
        self.clock = begin.unwrap_or(self.clock);
        self.packet_at = self.next;
        self.next += packet_bits / 8;
        (self.at, self.end) = (header_end, content_bits);
        Ok(true)
    }
}
