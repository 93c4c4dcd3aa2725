//! Aggregates: one value for each CPU, updated in place without atomics.

use bpf::helpers::id;
use bpf::insn::{AluOp, JumpOp, Size};

use super::builder::Builder;
use super::memory::Mem;
use crate::aggregate::{hist_buckets, lhist_buckets};
use crate::hir::{Expr, Update};
use crate::layout::Place;
use crate::lir::{BlockId, Source, V, Val};
use crate::schema::{Combine, MapId, MapValue, TIME_SERIES_SLOT_BYTES};

impl Builder<'_, '_> {
    /// `@m[key] = count()` and the like.
    pub fn aggregate(&mut self, map: MapId, key: Option<&Expr>, update: &Update) {
        let value = match update {
            Update::Count => None,
            Update::Sum(expr)
            | Update::Min(expr)
            | Update::Max(expr)
            | Update::Avg(expr)
            | Update::Stats(expr)
            | Update::Hist(expr)
            | Update::Lhist(expr)
            | Update::LogLinear(expr)
            | Update::TimeSeries(expr) => Some((self.scalar(expr), expr.ty.is_signed())),
        };
        let kind = self.shared.schema.maps[map.0 as usize].value.clone();
        let end = self.new_block();
        let mem = match key {
            None => match self.keyless(map) {
                Some(mem) => mem,
                None => return,
            },
            Some(key) => {
                let key = self.key(key);
                Mem::at(self.entry(map, key, kind.size(), end))
            }
        };
        self.combine(&kind, mem, value, end);
        self.goto_and_switch(end);
    }

    fn combine(&mut self, kind: &MapValue, mem: Mem, value: Option<(Val, bool)>, end: BlockId) {
        let (value, signed) = value.unwrap_or((Val::Imm(1), false));
        match *kind {
            MapValue::Count => self.add_at(mem, Val::Imm(1)),
            MapValue::Sum { .. } => self.add_at(mem, value),
            MapValue::Avg { .. } | MapValue::Stats { .. } => {
                let mem = self.fixed(mem);
                self.add_at(mem, value);
                self.add_at(mem.plus(8), Val::Imm(1));
            }
            MapValue::Min { signed } | MapValue::Max { signed } => {
                let least = matches!(kind, MapValue::Min { .. });
                self.extreme(mem, value, signed, least, end);
            }
            MapValue::Hist { bits } | MapValue::LogLinear { bits } => {
                let bucket = self.hist_bucket(value, signed, bits);
                self.count_bucket(mem, bucket, hist_buckets(bits), end);
            }
            MapValue::Lhist { min, max, step } => {
                let bucket = self.lhist_bucket(value, min, max, step);
                self.count_bucket(mem, bucket, lhist_buckets(min, max, step), end);
            }
            MapValue::TimeSeries { interval, intervals, combine, signed } => {
                self.time_series(mem, value, interval, intervals, combine, signed, end);
            }
            MapValue::Plain(_) => {}
        }
    }

    /// The same memory with its address computed once.
    fn fixed(&mut self, mem: Mem) -> Mem {
        Mem::at(self.pointer(mem))
    }

    fn add_at(&mut self, mem: Mem, value: Val) {
        let before = self.load(Size::D, mem);
        let after = self.binary(AluOp::Add, before.into(), value);
        self.store(Size::D, mem, after);
    }

    fn extreme(&mut self, mem: Mem, value: Val, signed: bool, least: bool, end: BlockId) {
        let mem = self.fixed(mem);
        let seen = self.load(Size::D, mem.plus(8));
        let (first, compare, write) = (self.new_block(), self.new_block(), self.new_block());
        self.branch(JumpOp::Eq, seen.into(), Val::Imm(0), first, compare);
        self.switch(compare);
        let have = self.load(Size::D, mem);
        let op = match (signed, least) {
            (true, true) => JumpOp::SignedLt,
            (true, false) => JumpOp::SignedGt,
            (false, true) => JumpOp::Lt,
            (false, false) => JumpOp::Gt,
        };
        self.branch(op, value, have.into(), write, end);
        self.switch(first);
        self.store(Size::D, mem.plus(8), Val::Imm(1));
        self.goto(write);
        self.switch(write);
        self.store(Size::D, mem, value);
    }

    fn count_bucket(&mut self, mem: Mem, bucket: Val, buckets: u32, end: BlockId) {
        let inside = self.new_block();
        // Always true; the verifier wants to see it.
        self.branch(JumpOp::Lt, bucket, Val::Imm(buckets.max(1).into()), inside, end);
        self.switch(inside);
        let base = self.pointer(mem);
        let bytes = self.binary(AluOp::Lsh, bucket, Val::Imm(3));
        let at = self.binary(AluOp::Add, base.into(), bytes);
        let at = self.in_register(at);
        self.add_at(Mem::at(at), Val::Imm(1));
    }

    /// [`crate::aggregate::hist_bucket`] in code. With `n = value >> bits` and `l` the number of its highest
    /// bit (0 for 0), the bucket is `(l << bits) + (value >> l) + 1`: the highest bits after the first are
    /// the place within the octave, and small values are their own place.
    fn hist_bucket(&mut self, value: Val, signed: bool, bits: u8) -> Val {
        let result = self.register();
        let end = self.new_block();
        let value = self.in_register(value);
        if signed {
            let (negative, positive) = (self.cold_block(), self.new_block());
            self.branch(JumpOp::SignedLt, value.into(), Val::Imm(0), negative, positive);
            self.switch(negative);
            self.assign(result, Val::Imm(0));
            self.goto(end);
            self.switch(positive);
        }
        let rest = self.register();
        let start = self.binary(AluOp::Rsh, value.into(), Val::Imm(bits.into()));
        self.assign(rest, start);
        let log = self.register();
        self.assign(log, Val::Imm(0));
        for step in [32, 16, 8, 4, 2, 1] {
            let (up, next) = (self.new_block(), self.new_block());
            if step == 32 {
                let high = self.binary(AluOp::Rsh, rest.into(), Val::Imm(32));
                self.branch(JumpOp::Ne, high, Val::Imm(0), up, next);
                self.switch(up);
                self.assign(rest, high);
                self.assign(log, Val::Imm(32));
            } else {
                self.branch(JumpOp::Gt, rest.into(), Val::Imm((1 << step) - 1), up, next);
                self.switch(up);
                let shifted = self.binary(AluOp::Rsh, rest.into(), Val::Imm(step));
                self.assign(rest, shifted);
                let more = self.add(log.into(), step);
                self.assign(log, more);
            }
            self.goto_and_switch(next);
        }
        // `rest` is now the highest bit itself: 1, or 0 for the value 0.
        let top = if bits == 0 { rest.into() } else { self.binary(AluOp::Rsh, value.into(), log.into()) };
        let octave = self.binary(AluOp::Lsh, log.into(), Val::Imm(bits.into()));
        let sum = self.binary(AluOp::Add, octave, top);
        let bucket = self.add(sum, 1);
        self.assign(result, bucket);
        self.goto_and_switch(end);
        result.into()
    }

    fn lhist_bucket(&mut self, value: Val, min: i64, max: i64, step: i64) -> Val {
        let result = self.register();
        let (below, not_below, above, within, end) =
            (self.new_block(), self.new_block(), self.new_block(), self.new_block(), self.new_block());
        self.branch(JumpOp::SignedLt, value, Val::Imm(min), below, not_below);
        self.switch(below);
        self.assign(result, Val::Imm(0));
        self.goto(end);
        self.switch(not_below);
        self.branch(JumpOp::SignedGe, value, Val::Imm(max), above, within);
        self.switch(above);
        let last = i64::from(lhist_buckets(min, max, step)) - 1;
        self.assign(result, Val::Imm(last));
        self.goto(end);
        self.switch(within);
        let distance = self.add(value, min.wrapping_neg());
        let inner = self.binary(AluOp::Div, distance, Val::Imm(step.max(1)));
        let bucket = self.add(inner, 1);
        self.assign(result, bucket);
        self.goto_and_switch(end);
        result.into()
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one kind of map")]
    fn time_series(
        &mut self,
        mem: Mem,
        value: Val,
        interval: u64,
        intervals: u32,
        combine: Combine,
        signed: bool,
        end: BlockId,
    ) {
        let now = self.call(id::KTIME_GET_BOOT_NS, Vec::new());
        let number = self.binary(AluOp::Div, now.into(), Val::Imm(interval.max(1) as i64));
        let slot = self.binary(AluOp::Mod, number, Val::Imm(intervals.max(1).into()));
        let inside = self.new_block();
        self.branch(JumpOp::Lt, slot, Val::Imm(intervals.max(1).into()), inside, end);
        self.switch(inside);
        let base = self.pointer(mem);
        let bytes = self.binary(AluOp::Mul, slot, Val::Imm(TIME_SERIES_SLOT_BYTES.into()));
        let at = self.binary(AluOp::Add, base.into(), bytes);
        let at = Mem::at(self.in_register(at));
        let mark = self.add(number, 1);
        let have = self.load(Size::D, at);
        let (reset, same) = (self.new_block(), self.new_block());
        self.branch(JumpOp::Ne, have.into(), mark, reset, same);
        self.switch(reset);
        self.store(Size::D, at, mark);
        for offset in [8, 16, 24] {
            self.store(Size::D, at.plus(offset), Val::Imm(0));
        }
        self.goto_and_switch(same);
        match combine {
            Combine::Last => {
                self.store(Size::D, at.plus(8), value);
                self.store(Size::D, at.plus(24), now.into());
            }
            Combine::Avg | Combine::Sum => {
                self.add_at(at.plus(16), value);
                self.add_at(at.plus(24), Val::Imm(1));
            }
            Combine::Min | Combine::Max => {
                let count = self.load(Size::D, at.plus(24));
                let more = self.add(count.into(), 1);
                self.store(Size::D, at.plus(24), more);
                let (write, compare) = (self.new_block(), self.new_block());
                self.branch(JumpOp::Eq, count.into(), Val::Imm(0), write, compare);
                self.switch(compare);
                let before = self.load(Size::D, at.plus(8));
                let op = match (signed, combine == Combine::Min) {
                    (true, true) => JumpOp::SignedLt,
                    (true, false) => JumpOp::SignedGt,
                    (false, true) => JumpOp::Lt,
                    (false, false) => JumpOp::Gt,
                };
                self.branch(op, value, before.into(), write, end);
                self.switch(write);
                self.store(Size::D, at.plus(8), value);
            }
        }
    }

    /// An aggregate over all CPUs as an integer.
    pub fn map_aggregate(&mut self, map: MapId, key: Option<&Expr>) -> Val {
        let kind = self.shared.schema.maps[map.0 as usize].value.clone();
        match key {
            None => match self.shared.layout.place(map) {
                Place::PerCpu { offset } => {
                    let (start, stride) = (self.shared.layout.cpu_start, self.shared.layout.cpu_stride);
                    self.over_cpus(&kind, |b, cpu, _| {
                        let bytes = b.binary(AluOp::Mul, cpu.into(), Val::Imm(stride.into()));
                        let base = b.set(Source::MapValue { map: super::DATA, offset: start + offset });
                        let at = b.binary(AluOp::Add, base.into(), bytes);
                        b.in_register(at)
                    })
                }
                Place::Global { offset } => self.load(Size::D, Mem::map(super::DATA, offset)).into(),
                Place::Map(_) => Val::Imm(0),
            },
            Some(key) => {
                let key = self.key(key);
                self.aggregate_of_key(map, &kind, key)
            }
        }
    }

    /// The same for a key in memory.
    pub fn aggregate_of_key(&mut self, map: MapId, kind: &MapValue, key: Source) -> Val {
        let Some(index) = self.kernel_map(map) else { return Val::Imm(0) };
        if !self.shared.percpu_lookup {
            self.unsupported("reading an aggregate with a key in the program needs Linux 5.19");
            return Val::Imm(0);
        }
        self.over_cpus(kind, |b, cpu, skip| {
            let pointer = b.call(id::MAP_LOOKUP_PERCPU_ELEM, vec![Source::Map(index), key, cpu.into()]);
            let there = b.new_block();
            b.branch(JumpOp::Eq, pointer.into(), Val::Imm(0), skip, there);
            b.switch(there);
            pointer
        })
    }

    /// Combines the values of all CPUs; `address` gives the value of one, or jumps to the block for none.
    fn over_cpus(&mut self, kind: &MapValue, address: impl FnOnce(&mut Self, V, BlockId) -> V) -> Val {
        let total = self.set(Val::Imm(0));
        let count = self.set(Val::Imm(0));
        let cpus = self.shared.facts.possible_cpus().max(1);
        self.counted(cpus, |b, cpu, _| {
            let skip = b.new_block();
            let at = Mem::at(address(b, cpu, skip));
            let value = b.load(Size::D, at);
            match *kind {
                MapValue::Min { signed } | MapValue::Max { signed } => {
                    let seen = b.load(Size::D, at.plus(8));
                    let (set, compare, write) = (b.new_block(), b.new_block(), b.new_block());
                    b.branch(JumpOp::Eq, seen.into(), Val::Imm(0), skip, set);
                    b.switch(set);
                    b.branch(JumpOp::Eq, count.into(), Val::Imm(0), write, compare);
                    b.switch(compare);
                    let op = match (signed, matches!(kind, MapValue::Min { .. })) {
                        (true, true) => JumpOp::SignedLt,
                        (true, false) => JumpOp::SignedGt,
                        (false, true) => JumpOp::Lt,
                        (false, false) => JumpOp::Gt,
                    };
                    b.branch(op, value.into(), total.into(), write, skip);
                    b.switch(write);
                    b.assign(count, Val::Imm(1));
                    b.assign(total, value);
                }
                _ => {
                    let sum = b.binary(AluOp::Add, total.into(), value.into());
                    b.assign(total, sum);
                    if matches!(kind, MapValue::Avg { .. } | MapValue::Stats { .. }) {
                        let more = b.load(Size::D, at.plus(8));
                        let sum = b.binary(AluOp::Add, count.into(), more.into());
                        b.assign(count, sum);
                    }
                }
            }
            b.goto_and_switch(skip);
        });
        match *kind {
            MapValue::Avg { signed } | MapValue::Stats { signed } => {
                let op = if signed { AluOp::SignedDiv } else { AluOp::Div };
                self.binary(op, total.into(), count.into())
            }
            _ => total.into(),
        }
    }
}
