//! Streamed records: built in memory, then copied into the ring with one helper call.

use bpf::helpers::id;
use bpf::insn::{AluOp, JumpOp, Size};

use super::RING;
use super::builder::{Builder, STACK_OBJECT};
use super::memory::Mem;
use super::object::{ALWAYS_PADDED, Pad};
use crate::hir::{Expr, ExprKind, Intrinsic};
use crate::lir::{Source, V, Val};
use crate::schema::{Counter, EmitId, EmitKind, EmittedRecord, TEXT_CUT};
use crate::source::Span;
use crate::types::{Space, Type};

/// `BPF_RB_NO_WAKEUP`: the tracer polls; a wake-up for each record would measure itself.
const NO_WAKEUP: i64 = 1;
/// `BPF_RB_FORCE_WAKEUP`.
const FORCE_WAKEUP: i64 = 2;

/// Where the next text of a record goes: a constant, plus what the lengths so far added.
struct Tail {
    fixed: u32,
    dynamic: Option<V>,
}

impl Builder<'_, '_> {
    /// Streams a record.
    pub fn emit_record(&mut self, record: EmitId, values: &[Expr]) {
        let layout = self.shared.schema.records[record.0 as usize].clone();
        // Texts of run-time length would leave bytes of a stack record undefined.
        let fixed = values.iter().all(|value| match &value.ty {
            Type::String(size) => {
                matches!(value.kind, ExprKind::Str(_)) || *size <= ALWAYS_PADDED && !is_read(value)
            }
            Type::Buffer(_) => false,
            _ => true,
        });
        let record_memory = if fixed && layout.max_size <= STACK_OBJECT * 2 && self.stack_has(layout.max_size)
        {
            Mem::stack(self.stack_object(layout.max_size))
        } else {
            self.record_memory(&layout)
        };
        let mut tail = Tail { fixed: layout.fixed_size, dynamic: None };
        let mut written = 8;
        for (value, argument) in values.iter().zip(&layout.arguments) {
            self.zero_gap(record_memory, written, argument.offset);
            let place = record_memory.plus(argument.offset);
            match &argument.ty {
                Type::String(room) | Type::Buffer(room) => {
                    self.text(record_memory, argument.offset, value, *room, &mut tail);
                    written = argument.offset + crate::schema::TEXT_SLOT_BYTES;
                }
                ty => {
                    self.store_value(value, place, Pad::Any);
                    written = argument.offset + ty.size();
                }
            }
        }
        self.zero_gap(record_memory, written, layout.fixed_size);
        let wake = if matches!(layout.kind, EmitKind::Exit) { FORCE_WAKEUP } else { NO_WAKEUP };
        self.finish_record(record, record_memory, tail, wake);
    }

    /// Room for a record. The verifier does not see that rounding up to 8 bytes and down again keeps a bound,
    /// so each text needs up to 7 bytes more for its eyes.
    fn record_memory(&mut self, layout: &EmittedRecord) -> Mem {
        self.scratch(layout.max_size + 8 * layout.arguments.len() as u32)
    }

    fn zero_gap(&mut self, record: Mem, from: u32, to: u32) {
        if to > from {
            self.zero(record.plus(from), to - from);
        }
    }

    fn finish_record(&mut self, record: EmitId, memory: Mem, tail: Tail, wake: i64) {
        let length = match tail.dynamic {
            Some(v) => self.add(v.into(), tail.fixed.into()),
            None => Val::Imm(tail.fixed.into()),
        };
        match length {
            Val::Imm(length) if memory.offset % 8 == 0 => {
                // Both words of the header in one store.
                let word = i64::from(record.0) | length << 32;
                self.store(Size::D, memory, Val::Imm(word));
            }
            length => {
                self.store(Size::W, memory, Val::Imm(record.0.into()));
                self.store(Size::W, memory.plus(4), length);
            }
        }
        let from = self.address(memory);
        let result = self
            .call(id::RINGBUF_OUTPUT, vec![Source::Map(RING), from, length.into(), Val::Imm(wake).into()]);
        if self.shared.counter(Counter::RingFull(record)).is_some() {
            let (full, end) = (self.cold_block(), self.new_block());
            self.branch(JumpOp::Ne, result.into(), Val::Imm(0), full, end);
            self.switch(full);
            self.bump(Counter::RingFull(record));
            self.goto(end);
            self.switch(end);
        }
    }

    /// With `-k`: tells of a failure at this place in the text.
    pub fn report_failure(&mut self, kind: EmitKind, numbers: &[Val]) {
        if !self.shared.schema.config.report_helper_errors || self.span == Span::NONE {
            return;
        }
        let layout = EmittedRecord::new(kind, vec![Type::U64; numbers.len()], self.span);
        let record = self.shared.report(layout.clone());
        let memory = self.record_memory(&layout);
        for (number, argument) in numbers.iter().zip(&layout.arguments) {
            self.store(Size::D, memory.plus(argument.offset), *number);
        }
        let tail = Tail { fixed: layout.fixed_size, dynamic: None };
        self.finish_record(record, memory, tail, NO_WAKEUP);
    }

    /// The address of the tail.
    fn tail_place(&mut self, record: Mem, tail: &Tail) -> Mem {
        match tail.dynamic {
            None => record.plus(tail.fixed),
            Some(dynamic) => {
                let base = self.pointer(record);
                let sum = self.binary(AluOp::Add, base.into(), dynamic.into());
                Mem::at(self.in_register(sum)).plus(tail.fixed)
            }
        }
    }

    fn slot(&mut self, record: Mem, at: u32, tail: &Tail, length: Val) {
        let offset = match tail.dynamic {
            None => Val::Imm(tail.fixed.into()),
            Some(dynamic) => self.add(dynamic.into(), tail.fixed.into()),
        };
        self.store(Size::W, record.plus(at), offset);
        self.store(Size::W, record.plus(at + 4), length);
    }

    /// A string or buffer: its bytes go to the tail, offset and length into its slot.
    fn text(&mut self, record: Mem, at: u32, value: &Expr, room: u32, tail: &mut Tail) {
        match (&value.ty, &value.kind) {
            (_, ExprKind::Str(bytes)) => {
                let kept = &bytes[..bytes.len().min(room.saturating_sub(1) as usize)];
                let size = (kept.len() as u32).next_multiple_of(8);
                let to = self.tail_place(record, tail);
                self.store_bytes(to, kept, size);
                self.slot(record, at, tail, Val::Imm(kept.len() as i64));
                tail.fixed += size;
            }
            (Type::String(size), _) if *size <= ALWAYS_PADDED && !is_read(value) => {
                // Short and padded: all of it, the reader stops at the NUL.
                let to = self.tail_place(record, tail);
                self.store_value(value, to, Pad::Any);
                let whole = size.next_multiple_of(8);
                self.zero_gap_at(to, *size, whole);
                self.slot(record, at, tail, Val::Imm((*size).into()));
                tail.fixed += whole;
            }
            (Type::Buffer(_), _) => self.buffer(record, at, value, room, tail),
            _ => {
                let place = self.tail_place(record, tail);
                let result = self.text_into(value, place, room);
                self.advance(record, at, result, room, tail);
            }
        }
    }

    fn zero_gap_at(&mut self, to: Mem, from: u32, end: u32) {
        if end > from {
            self.zero(to.plus(from), end - from);
        }
    }

    /// Reads a string straight into the record; answers what the helper returned.
    fn text_into(&mut self, value: &Expr, to: Mem, room: u32) -> V {
        let constant = |expr: Option<&Expr>| match expr.map(|e| &e.kind) {
            Some(ExprKind::Int(most)) => Some((*most).min(room.into()) as u32),
            None => Some(room),
            _ => None,
        };
        match &value.kind {
            ExprKind::Intrinsic(Intrinsic::Str, arguments) => {
                let (from, user) = self.pointer_or_object(&arguments[0]);
                let helper = if user { id::PROBE_READ_USER_STR } else { id::PROBE_READ_KERNEL_STR };
                let most = match constant(arguments.get(1)) {
                    Some(most) => Val::Imm(most.into()),
                    None => {
                        let most = self.scalar(&arguments[1]);
                        self.at_most(most, room)
                    }
                };
                let to = self.address(to);
                let result = self.call(helper, vec![to, most.into(), from]);
                if user {
                    self.count_failed_read(helper, result);
                }
                result
            }
            ExprKind::ReadDataLoc { place, loc } => {
                let from = self.data_address(place, *loc);
                let to = self.address(to);
                self.call(id::PROBE_READ_KERNEL_STR, vec![to, Val::Imm(room.into()).into(), from.into()])
            }
            _ => {
                let mem = self.object(value);
                let from = self.address(mem);
                let to = self.address(to);
                self.call(id::PROBE_READ_KERNEL_STR, vec![to, Val::Imm(room.into()).into(), from])
            }
        }
    }

    /// Writes the slot for a text of the returned length and moves the tail behind it.
    fn advance(&mut self, record: Mem, at: u32, result: V, room: u32, tail: &mut Tail) {
        let length = self.set(Val::Imm(0));
        let bytes = self.set(Val::Imm(0));
        let (good, end) = (self.new_block(), self.new_block());
        self.branch(JumpOp::SignedGt, result.into(), Val::Imm(0), good, end);
        self.switch(good);
        // The helper returns at most `room`; older verifiers want to see it.
        let bounded = self.new_block();
        self.branch(JumpOp::Le, result.into(), Val::Imm(room.into()), bounded, end);
        self.switch(bounded);
        self.assign(bytes, result);
        let without = self.add(result.into(), -1);
        self.assign(length, without);
        let cut = self.cold_block();
        self.branch(JumpOp::Ge, result.into(), Val::Imm(room.into()), cut, end);
        self.switch(cut);
        let marked = self.binary(AluOp::Or, length.into(), Val::Imm(i64::from(TEXT_CUT)));
        self.assign(length, marked);
        self.goto(end);
        self.switch(end);
        self.slot(record, at, tail, length.into());
        let up = self.add(bytes.into(), 7);
        let whole = self.binary(AluOp::And, up, Val::Imm(-8));
        let sum = match tail.dynamic {
            Some(before) => self.binary(AluOp::Add, before.into(), whole),
            None => whole,
        };
        tail.dynamic = Some(self.in_register(sum));
    }

    fn buffer(&mut self, record: Mem, at: u32, value: &Expr, room: u32, tail: &mut Tail) {
        let place = self.tail_place(record, tail);
        let length = match &value.kind {
            ExprKind::Intrinsic(Intrinsic::Buf, arguments) => {
                let (from, user) = self.pointer_or_object(&arguments[0]);
                let length = match arguments.get(1) {
                    Some(length) => self.scalar(length),
                    None => Val::Imm(room.into()),
                };
                let length = self.at_most(length, room);
                let helper = if user { id::PROBE_READ_USER } else { id::PROBE_READ_KERNEL };
                let to = self.address(place);
                let result = self.call(helper, vec![to, length.into(), from]);
                self.count_failed_read(helper, result);
                length
            }
            _ => {
                let mem = self.object(value);
                let length = self.load(Size::W, mem);
                let length = self.at_most(length.into(), room);
                let from = self.address(mem.plus(4));
                let to = self.address(place);
                self.call(id::PROBE_READ_KERNEL, vec![to, length.into(), from]);
                length
            }
        };
        self.slot(record, at, tail, length);
        match length {
            Val::Imm(length) => tail.fixed += (length as u32).next_multiple_of(8),
            length => {
                let up = self.add(length, 7);
                let whole = self.binary(AluOp::And, up, Val::Imm(-8));
                let sum = match tail.dynamic {
                    Some(before) => self.binary(AluOp::Add, before.into(), whole),
                    None => whole,
                };
                tail.dynamic = Some(self.in_register(sum));
            }
        }
    }

    /// `join(array, separator)`: strings of an array of `char *`, up to the first null.
    pub fn join(&mut self, record: EmitId, array: &Expr, most: u32) {
        let layout = self.shared.schema.records[record.0 as usize].clone();
        let memory = self.record_memory(&layout);
        self.zero(memory.plus(8), layout.fixed_size.saturating_sub(8));
        let (user, inner_user) = match &array.ty {
            Type::Pointer { to, space } => {
                let inner = matches!(&**to, Type::Pointer { space: Space::User, .. });
                (*space == Space::User, inner || *space == Space::User)
            }
            _ => (false, false),
        };
        let base = self.scalar(array);
        let base = self.in_register(base);
        let tail_size = self.set(Val::Imm(0));
        let done = self.new_block();
        for (at, argument) in layout.arguments.iter().take(most as usize).enumerate() {
            let (Type::String(room) | Type::Buffer(room)) = &argument.ty else { continue };
            let pointer = self.temporary(8);
            let from = self.add(base.into(), at as i64 * 8);
            self.probe_read(pointer, 8, from, user);
            let text = self.load(Size::D, pointer);
            let go_on = self.new_block();
            self.branch(JumpOp::Eq, text.into(), Val::Imm(0), done, go_on);
            self.switch(go_on);
            let mut tail = Tail { fixed: layout.fixed_size, dynamic: Some(tail_size) };
            let place = self.tail_place(memory, &tail);
            let helper = if inner_user { id::PROBE_READ_USER_STR } else { id::PROBE_READ_KERNEL_STR };
            let to = self.address(place);
            let result = self.call(helper, vec![to, Val::Imm((*room).into()).into(), text.into()]);
            self.advance(memory, argument.offset, result, *room, &mut tail);
            if let Some(new) = tail.dynamic {
                self.assign(tail_size, new);
            }
        }
        self.goto_and_switch(done);
        let tail = Tail { fixed: layout.fixed_size, dynamic: Some(tail_size) };
        self.finish_record(record, memory, tail, NO_WAKEUP);
    }

    /// `exit()`: the record, the flag, and out.
    pub fn exit(&mut self, record: EmitId, code: &Expr) {
        self.emit_record(record, std::slice::from_ref(code));
        let exiting = self.shared.layout.exiting;
        self.store(Size::D, Mem::map(super::DATA, exiting), Val::Imm(1));
        self.leave_program();
    }

    /// `skboutput(path, skb, length, offset)`.
    pub fn skb_output(&mut self, record: EmitId, arguments: &[Expr]) -> Val {
        let layout = self.shared.schema.records[record.0 as usize].clone();
        let (Some(packet), Some(time)) = (layout.arguments.first(), layout.arguments.get(1)) else {
            return Val::Imm(0);
        };
        let (Type::String(room) | Type::Buffer(room)) = packet.ty else { return Val::Imm(0) };
        let memory = self.record_memory(&layout);
        self.zero(memory.plus(8), layout.fixed_size.saturating_sub(8));
        let skb = self.scalar(&arguments[0]);
        let length = self.scalar(&arguments[1]);
        let offset = arguments.get(2).map_or(Val::Imm(0), |offset| self.scalar(offset));
        let Some((at, size)) = self.shared.facts.btf().and_then(|btf| {
            let field = btf.field(btf.find_struct("sk_buff")?, "data")?;
            Some((field.bit_offset / 8, 8))
        }) else {
            self.unsupported("skboutput needs BTF of struct sk_buff");
            return Val::Imm(0);
        };
        let pointer = self.temporary(8);
        let from = self.add(skb, at.into());
        self.probe_read(pointer, size, from, false);
        let data = self.load(Size::D, pointer);
        let data = self.binary(AluOp::Add, data.into(), offset);
        let now = self.call(id::KTIME_GET_BOOT_NS, Vec::new());
        self.store(Size::D, memory.plus(time.offset), now.into());
        let length = self.at_most(length, room);
        let to = self.address(memory.plus(layout.fixed_size));
        let result = self.call(id::PROBE_READ_KERNEL, vec![to, length.into(), data.into()]);
        let mut tail = Tail { fixed: layout.fixed_size, dynamic: None };
        self.slot(memory, packet.offset, &tail, length);
        let up = self.add(length, 7);
        let whole = self.binary(AluOp::And, up, Val::Imm(-8));
        tail.dynamic = Some(self.in_register(whole));
        self.finish_record(record, memory, tail, NO_WAKEUP);
        result.into()
    }
}

/// Strings read from memory come with their length for free.
fn is_read(value: &Expr) -> bool {
    matches!(value.kind, ExprKind::Intrinsic(Intrinsic::Str, _) | ExprKind::ReadDataLoc { .. })
}
