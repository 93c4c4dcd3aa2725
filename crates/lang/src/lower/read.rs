//! Reads of memory: the context, kernel and user memory, typed kernel pointers, the program's own objects.

use bpf::helpers::id;
use bpf::insn::{AluOp, JumpOp, Size};

use super::builder::{Builder, Home};
use super::memory::Mem;
use super::object::Pad;
use crate::hir::{Base, Cast, Expr, ExprKind, Index, Intrinsic, Place};
use crate::lir::{Base as LirBase, Source, V, Val};
use crate::schema::{Counter, EmitKind, ProgramKind};
use crate::types::{BitField, DataLoc, Space, Type};

/// A place with its base evaluated.
enum Where {
    /// The context plus a constant.
    Context(i64),
    /// A pointer whose type the verifier follows, plus a constant.
    Trusted(V, i64),
    /// An address to be read by a helper.
    Address(Val, bool),
    /// The program's own memory.
    Own(Mem),
    /// Nothing: an index beyond the end, or a null pointer. The flag that says so is 0.
    Checked(V, Box<Where>),
}

/// Arguments of tracepoints that the verifier (6.13 on) takes for perhaps null: `raw_tp_null_args` in
/// kernel/bpf/btf.c.
const NULLABLE: &[(&str, u32)] = &[
    ("sched_pi_setprio", 1),
    ("sched_stick_numa", 2),
    ("sched_swap_numa", 2),
    ("ext4_mballoc_discard", 1),
    ("ext4_mballoc_free", 1),
    ("fib_table_lookup", 2),
    ("posix_lock_inode", 1),
    ("fcntl_setlk", 1),
    ("locks_remove_posix", 1),
    ("flock_lock_inode", 1),
    ("break_lease_noblock", 1),
    ("break_lease_block", 1),
    ("break_lease_unblock", 1),
    ("generic_delete_lease", 1),
    ("time_out_leases", 1),
    ("mm_khugepaged_scan_pmd", 1),
    ("mm_collapse_huge_page_isolate", 0),
    ("mm_khugepaged_scan_file", 1),
    ("mm_khugepaged_collapse_file", 1),
    ("mm_page_alloc", 0),
    ("mm_page_pcpu_drain", 0),
    ("mm_page_alloc_zone_locked", 0),
    ("netfs_failure", 1),
    ("device_pm_callback_start", 1),
    ("qdisc_dequeue", 3),
    ("kfree_skb", 3),
    ("tcp_send_reset", 0),
    ("tcp_send_reset", 1),
    ("tcp_sendmsg_locked", 2),
    ("tmigr_update_events", 0),
    ("writeback_dirty_folio", 1),
    ("folio_wait_writeback", 1),
];

/// Frequent tracepoints whose arguments, but for those above, are known to the verifier as not null. For all
/// others a check is one instruction that the verifier may want.
const NEVER_NULL: &[&str] = &[
    "sched_",
    "sys_",
    "irq_",
    "softirq_",
    "tasklet_",
    "timer_",
    "hrtimer_",
    "itimer_",
    "workqueue_",
    "block_",
    "net_",
    "netif_",
    "napi_",
    "tcp_",
    "udp_",
    "sock_",
    "inet_",
    "kfree_skb",
    "consume_skb",
    "task_",
    "signal_",
    "cpu_",
    "contention_",
    "exceptions_",
    "page_fault_",
    "rcu_",
    "mm_page",
    "mm_vmscan",
    "kmem_",
    "kmalloc",
    "kfree",
];

/// The fewest bytes that hold a bit field within its word: bytes to skip, the field in them, their size.
fn covering(bits: BitField, whole: Size) -> (i64, BitField, Size) {
    let (first, end) = (u32::from(bits.shift), u32::from(bits.shift) + u32::from(bits.bits));
    for size in [Size::B, Size::H, Size::W] {
        let width = size.bytes() * 8;
        let start = first / width * width;
        if size < whole && end <= start + width {
            return (i64::from(start / 8), BitField { shift: (first - start) as u8, bits: bits.bits }, size);
        }
    }
    (0, bits, whole)
}

impl Builder<'_, '_> {
    /// Whether the verifier knows what a pointer expression points at.
    pub fn trusted(&mut self, expr: &Expr) -> bool {
        if !matches!(expr.ty, Type::Pointer { space: Space::Btf, .. }) {
            return false;
        }
        match &expr.kind {
            ExprKind::Read { place, bits: None } if place.indexes.is_empty() => match &place.base {
                Base::Context => {
                    matches!(
                        self.kind,
                        ProgramKind::TracingRawTracepoint
                            | ProgramKind::Fentry
                            | ProgramKind::Fexit
                            | ProgramKind::Iterator
                    )
                }
                Base::Pointer(inner) => self.trusted(inner),
                Base::Value(_) => false,
            },
            ExprKind::Intrinsic(Intrinsic::CurrentTask, _) => true,
            ExprKind::Local(local) => {
                let in_register = matches!(self.home(*local), Home::Register(_));
                in_register && self.scope().variables[local.0 as usize].trusted
            }
            ExprKind::Cast(Cast::Integer, inner) => {
                matches!((&inner.ty, &expr.ty), (Type::Pointer { to: a, .. }, Type::Pointer { to: b, .. }) if a == b)
                    && self.trusted(inner)
            }
            _ => false,
        }
    }

    /// Whether the verifier wants to see a null check before this pointer is followed.
    fn may_be_null(&mut self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Read { place, .. } => match &place.base {
                Base::Context => match self.kind {
                    ProgramKind::TracingRawTracepoint => {
                        let name = self.tracepoint.as_str();
                        let known = NEVER_NULL.iter().any(|prefix| name.starts_with(prefix));
                        let listed = |(listed, at): &(&str, u32)| {
                            *listed == name && i64::from(*at) * 8 == place.offset
                        };
                        !known || NULLABLE.iter().any(listed)
                    }
                    // Iterators end with a null object.
                    ProgramKind::Iterator => true,
                    _ => false,
                },
                // From 6.5 on some members are typed as perhaps null; nothing tells which.
                _ => true,
            },
            ExprKind::Cast(_, inner) => self.may_be_null(inner),
            ExprKind::Local(_) => true,
            _ => false,
        }
    }

    fn place(&mut self, place: &Place) -> Where {
        match &place.base {
            Base::Context if place.indexes.is_empty() => Where::Context(place.offset),
            Base::Context => {
                // The context has no variable offsets: copy the array, then index the copy.
                let bytes: u32 = place
                    .indexes
                    .iter()
                    .map(|index| index.stride.saturating_mul(index.count.unwrap_or(1)))
                    .max()
                    .unwrap_or(8);
                let copy = self.scratch(bytes);
                let context = self.context();
                let from = self.add(context.into(), place.offset);
                self.copy_by_helper(copy, from.into(), bytes);
                self.indexed(copy, &place.indexes)
            }
            Base::Value(object) => {
                let mem = self.object(object);
                let mem = mem.plus(place.offset as u32);
                self.indexed(mem, &place.indexes)
            }
            Base::Pointer(pointer) => {
                let space = match &pointer.ty {
                    Type::Pointer { space, .. } => *space,
                    _ => Space::Kernel,
                };
                if space == Space::Btf && self.trusted(pointer) {
                    let check = self.may_be_null(pointer);
                    let value = self.scalar(pointer);
                    let v = self.in_register(value);
                    let inner = if place.indexes.is_empty() {
                        Where::Trusted(v, place.offset)
                    } else {
                        let address = self.plus_indexes(v.into(), place);
                        Where::Address(address, false)
                    };
                    return if check { Where::Checked(v, Box::new(inner)) } else { inner };
                }
                let value = self.scalar(pointer);
                if space == Space::Own {
                    let v = self.in_register(value);
                    let mem = Mem::at(v).plus(place.offset as u32);
                    let inner = self.indexed(mem, &place.indexes);
                    // `&@m[k]` is null when there is no entry.
                    return Where::Checked(v, Box::new(inner));
                }
                let address = self.plus_indexes(value, place);
                Where::Address(address, space == Space::User)
            }
        }
    }

    fn plus_indexes(&mut self, base: Val, place: &Place) -> Val {
        let mut address = self.add(base, place.offset);
        for index in &place.indexes {
            let value = self.scalar(&index.value);
            let bytes = self.binary(AluOp::Mul, value, Val::Imm(index.stride.into()));
            address = self.binary(AluOp::Add, address, bytes);
        }
        address
    }

    /// An element of own memory; indexes beyond the end give nothing.
    fn indexed(&mut self, mem: Mem, indexes: &[Index]) -> Where {
        if indexes.is_empty() {
            return Where::Own(mem);
        }
        let inside = self.set(Val::Imm(0));
        let address = self.register();
        self.assign(address, Val::Imm(0));
        let mut total = Val::Imm(0);
        let (ok, end) = (self.new_block(), self.new_block());
        for index in indexes {
            let value = self.scalar(&index.value);
            let next = self.new_block();
            self.branch(JumpOp::Lt, value, Val::Imm(index.count.unwrap_or(1).max(1).into()), next, end);
            self.switch(next);
            let bytes = self.binary(AluOp::Mul, value, Val::Imm(index.stride.into()));
            total = self.binary(AluOp::Add, total, bytes);
        }
        self.goto_and_switch(ok);
        let base = self.pointer(mem);
        let sum = self.binary(AluOp::Add, base.into(), total);
        self.assign(address, sum);
        self.assign(inside, Val::Imm(1));
        self.goto_and_switch(end);
        // The verifier follows the two ways apart: where the flag is 1, the address is set.
        Where::Checked(inside, Box::new(Where::Own(Mem::at(address))))
    }

    /// A scalar from a place.
    pub fn read_scalar(&mut self, place: &Place, bits: Option<BitField>, ty: &Type) -> Val {
        let place = self.place(place);
        self.read_at(place, bits, ty)
    }

    fn read_at(&mut self, place: Where, bits: Option<BitField>, ty: &Type) -> Val {
        let whole = Size::from_bytes(ty.size()).unwrap_or(Size::D);
        // A bit field shares its word with other members, over which the verifier lets no access reach: only
        // the bytes that hold it are read.
        let (place, bits, size) = match (place, bits) {
            (place @ (Where::Trusted(..) | Where::Own(_) | Where::Address(..)), Some(bits)) => {
                let (skip, bits, size) = covering(bits, whole);
                let place = match place {
                    Where::Trusted(v, offset) => Where::Trusted(v, offset + skip),
                    Where::Own(mem) => Where::Own(mem.plus(skip as u32)),
                    Where::Address(address, user) => Where::Address(self.add(address, skip), user),
                    other => other,
                };
                (place, Some(bits), size)
            }
            (place, bits) => (place, bits, whole),
        };
        let extended = |b: &mut Self, v: V| match bits {
            Some(bits) => b.bit_field(v, bits, ty),
            None if ty.is_signed() => b.extend(v.into(), size.bytes() * 8, true),
            None => v.into(),
        };
        match place {
            Where::Context(offset) => {
                let context = self.context();
                let v = self.load_from(size, LirBase::V(context), offset as i32, true);
                extended(self, v)
            }
            Where::Trusted(pointer, offset) if i16::try_from(offset).is_ok() => {
                let v = self.load_from(size, LirBase::V(pointer), offset as i32, true);
                extended(self, v)
            }
            Where::Trusted(pointer, offset) => {
                let far = self.add(pointer.into(), offset);
                let far = self.in_register(far);
                let v = self.load_from(size, LirBase::V(far), 0, true);
                extended(self, v)
            }
            Where::Own(mem) => {
                let v = self.load(size, mem);
                extended(self, v)
            }
            Where::Address(address, user) => {
                let mark = self.mark();
                let to = self.temporary(8);
                self.probe_read(to, size.bytes(), address, user);
                let v = self.load(size, to);
                self.release(mark);
                extended(self, v)
            }
            Where::Checked(flag, inner) => self.unless_null(flag, |b| b.read_at(*inner, bits, ty)),
        }
    }

    fn bit_field(&mut self, v: V, bits: BitField, ty: &Type) -> Val {
        if ty.is_signed() {
            let up = 64 - i64::from(bits.shift) - i64::from(bits.bits);
            let high = self.binary(AluOp::Lsh, v.into(), Val::Imm(up));
            return self.binary(AluOp::Arsh, high, Val::Imm(64 - i64::from(bits.bits)));
        }
        let low = self.binary(AluOp::Rsh, v.into(), Val::Imm(bits.shift.into()));
        match bits.bits {
            64.. => low,
            bits => self.binary(AluOp::And, low, Val::Imm((1_i64 << bits).wrapping_sub(1))),
        }
    }

    /// Reads foreign memory; where that fails the bytes are zero.
    pub fn probe_read(&mut self, to: Mem, size: u32, from: Val, user: bool) {
        let helper = if user { id::PROBE_READ_USER } else { id::PROBE_READ_KERNEL };
        let to = self.address(to);
        let result = self.call(helper, vec![to, Val::Imm(size.into()).into(), from.into()]);
        self.count_failed_read(helper, result);
    }

    /// Counts a read that failed (a negative result), if the schema accounts for it.
    pub fn count_failed_read(&mut self, helper: u32, result: V) {
        if self.shared.counter(Counter::ReadFailed).is_none() {
            return;
        }
        let (bad, end) = (self.cold_block(), self.new_block());
        self.branch(JumpOp::SignedLt, result.into(), Val::Imm(0), bad, end);
        self.switch(bad);
        self.bump(Counter::ReadFailed);
        self.report_failure(EmitKind::HelperError, &[Val::Imm(helper.into()), result.into()]);
        self.goto(end);
        self.switch(end);
    }

    /// Adds one to a counter of the schema.
    pub fn bump(&mut self, counter: Counter) {
        let Some(index) = self.shared.counter(counter) else { return };
        let offset = self.shared.layout.counters + index * 8;
        let mem = self.cpu_data(offset);
        let value = self.load(Size::D, mem);
        let more = self.add(value.into(), 1);
        self.store(Size::D, mem, more);
    }

    /// Copies an object from a place; zero bytes where there is none.
    pub fn read_object(&mut self, place: &Place, ty: &Type, to: Mem) {
        let place = self.place(place);
        self.read_object_at(place, ty, to);
    }

    fn read_object_at(&mut self, place: Where, ty: &Type, to: Mem) {
        let size = ty.size();
        match place {
            Where::Own(from) => self.copy(to, from, size),
            Where::Context(offset) => {
                let context = self.context();
                if size <= 64 && self.kind != ProgramKind::PerfEvent {
                    for (at, word) in Self::words(size, &[to.offset, offset as i32]) {
                        let v = self.load_from(word, LirBase::V(context), offset as i32 + at as i32, true);
                        self.store(word, to.plus(at), v.into());
                    }
                } else {
                    let from = self.add(context.into(), offset);
                    self.copy_by_helper(to, from.into(), size);
                }
            }
            Where::Trusted(pointer, offset) => {
                let words = Self::words(size, &[to.offset, offset as i32]);
                let flat = matches!(ty, Type::Array { element, .. } if element.is_scalar())
                    || matches!(ty, Type::String(_));
                if flat && words.len() <= 8 && i16::try_from(offset + i64::from(size)).is_ok() {
                    for (at, word) in words {
                        let v = self.load_from(word, LirBase::V(pointer), offset as i32 + at as i32, true);
                        self.store(word, to.plus(at), v.into());
                    }
                } else {
                    let from = self.add(pointer.into(), offset);
                    self.probe_read(to, size, from, false);
                }
            }
            Where::Address(address, user) => self.probe_read(to, size, address, user),
            Where::Checked(flag, inner) => {
                let (there, gone, end) = (self.new_block(), self.new_block(), self.new_block());
                self.branch(JumpOp::Ne, flag.into(), Val::Imm(0), there, gone);
                self.switch(there);
                self.read_object_at(*inner, ty, to);
                self.goto(end);
                self.switch(gone);
                self.zero(to, size);
                self.goto(end);
                self.switch(end);
            }
        }
    }

    /// Where an object is, if it can be used in place.
    pub fn object_in_place(&mut self, place: &Place) -> Option<Mem> {
        if let Base::Value(object) = &place.base
            && place.indexes.is_empty()
        {
            return Some(self.object(object).plus(place.offset as u32));
        }
        None
    }

    /// The address of a place, as a number.
    pub fn address_of(&mut self, place: &Place) -> Val {
        match self.place(place) {
            Where::Context(offset) => {
                let context = self.context();
                self.add(context.into(), offset)
            }
            Where::Trusted(pointer, offset) => self.add(pointer.into(), offset),
            Where::Address(address, _) => address,
            Where::Own(mem) => self.pointer(mem).into(),
            Where::Checked(flag, inner) => self.unless_null(flag, |b| match *inner {
                Where::Own(mem) => b.pointer(mem).into(),
                Where::Trusted(pointer, offset) => b.add(pointer.into(), offset),
                Where::Address(address, _) => address,
                _ => Val::Imm(0),
            }),
        }
    }

    /// Address of a tracepoint's dynamic array.
    pub fn data_address(&mut self, place: &Place, loc: DataLoc) -> Val {
        let field = place.offset;
        let word = self.read_scalar(place, None, &Type::U32);
        let offset = self.binary(AluOp::And, word, Val::Imm(0xffff));
        let base = if loc.relative { field + 4 } else { 0 };
        // Loads from the context take constant offsets only; helpers take any address.
        let context = self.context();
        let start = self.add(context.into(), base);
        self.binary(AluOp::Add, start, offset)
    }

    /// A tracepoint's dynamic string.
    pub fn data_string(&mut self, place: &Place, loc: DataLoc, size: u32, to: Mem, pad: Pad) {
        let address = self.data_address(place, loc);
        self.read_string(to, size, address, false, pad);
    }

    /// Writes a scalar to own memory or the context.
    pub fn store_place(&mut self, place: &Place, value: &Expr) {
        if !value.ty.is_scalar() {
            let from = self.object(value);
            match self.place(place) {
                Where::Own(to) => self.copy(to, from, value.ty.size()),
                Where::Checked(flag, inner) => {
                    if let Where::Own(to) = *inner {
                        let (there, end) = (self.new_block(), self.new_block());
                        self.branch(JumpOp::Ne, flag.into(), Val::Imm(0), there, end);
                        self.switch(there);
                        self.copy(to, from, value.ty.size());
                        self.goto_and_switch(end);
                    }
                }
                _ => self.unsupported("only the program's own memory can be written"),
            }
            return;
        }
        let scalar = self.scalar(value);
        match self.place(place) {
            Where::Own(to) => self.store_scalar(&value.ty, to, scalar),
            Where::Context(offset) => {
                let context = self.context();
                self.store_scalar(&value.ty, Mem::at(context).plus(offset as u32), scalar);
            }
            Where::Checked(flag, inner) => {
                let (there, end) = (self.new_block(), self.new_block());
                self.branch(JumpOp::Ne, flag.into(), Val::Imm(0), there, end);
                self.switch(there);
                match *inner {
                    Where::Own(to) => self.store_scalar(&value.ty, to, scalar),
                    _ => self.unsupported("only the program's own memory can be written"),
                }
                self.goto_and_switch(end);
            }
            _ => self.unsupported("only the program's own memory can be written"),
        }
    }

    /// The address an array expression or pointer denotes, and whether it is in user memory.
    pub fn pointer_or_object(&mut self, expr: &Expr) -> (Source, bool) {
        match &expr.ty {
            Type::Pointer { space, .. } => (self.scalar(expr).into(), *space == Space::User),
            ty if ty.is_scalar() => (self.scalar(expr).into(), false),
            _ => {
                let mem = self.object(expr);
                (self.address(mem), false)
            }
        }
    }
}
