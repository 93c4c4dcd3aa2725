//! Functions of the machine.

use bpf::facts::Version;
use bpf::helpers::id;
use bpf::insn::{AluOp, JumpOp, Size, Width};
use bpf::program::ProgramType;

use super::builder::Builder;
use super::memory::Mem;
use super::object::Pad;
use super::{CONSTANTS, DATA, RATES, TaskFields};
use crate::hir::{Expr, ExprKind, Intrinsic, UsdtKind, UsdtLocation};
use crate::lir::{Op, Source, V, Val};
use crate::schema::{Counter, ProgramKind};
use crate::types::{Clock, INET_BYTES, Stack, Type};

/// Offset of the code segment in `pt_regs` on x86-64; its low bits are the privilege level.
const PT_REGS_CS: i32 = 136;
/// `BPF_F_USER_STACK`.
const USER_STACK: i64 = 1 << 8;
/// Cgroup levels that `in_cgroup` looks at.
const CGROUP_LEVELS: i64 = 12;
/// Bytes of one CPU's state of a rate limit: a cache line, so that CPUs do not disturb each other.
pub(super) const RATE_BYTES: u32 = 64;

impl Builder<'_, '_> {
    /// The program type whose helpers may be called.
    pub fn program_type(&self) -> ProgramType {
        match self.kind {
            ProgramKind::Special | ProgramKind::RawTracepoint => ProgramType::RawTracepoint,
            ProgramKind::Tracepoint => ProgramType::Tracepoint,
            ProgramKind::TracingRawTracepoint
            | ProgramKind::Fentry
            | ProgramKind::Fexit
            | ProgramKind::Iterator => ProgramType::Tracing,
            ProgramKind::Kprobe => ProgramType::Kprobe,
            ProgramKind::PerfEvent => ProgramType::PerfEvent,
        }
    }

    fn has_helper(&self, helper: u32) -> bool {
        self.shared.facts.has_helper(self.program_type(), helper)
    }

    /// Complains once about a helper this kernel or program type has not got.
    fn need_helper(&mut self, helper: u32, what: &str) -> bool {
        let there = self.has_helper(helper);
        if !there {
            let name = bpf::helpers::by_id(helper).map_or("?", |known| known.name);
            let kind = self.program_type().name();
            self.unsupported(format!(
                "{what} needs the helper bpf_{name}, which this kernel does not give {kind} programs"
            ));
        }
        there
    }

    /// The value of a scalar function.
    pub fn intrinsic(&mut self, intrinsic: &Intrinsic, arguments: &[Expr], expr: &Expr) -> Val {
        match intrinsic {
            Intrinsic::Pid { initial } => self.process(*initial, true),
            Intrinsic::Tid { initial } => self.process(*initial, false),
            Intrinsic::Uid | Intrinsic::UserName => {
                let both = self.pure_call(id::GET_CURRENT_UID_GID, Vec::new());
                self.extend(both.into(), 32, false)
            }
            Intrinsic::Gid => {
                let both = self.pure_call(id::GET_CURRENT_UID_GID, Vec::new());
                self.binary(AluOp::Rsh, both.into(), Val::Imm(32))
            }
            Intrinsic::CurrentTask => {
                let helper = if self.has_helper(id::GET_CURRENT_TASK_BTF) {
                    id::GET_CURRENT_TASK_BTF
                } else {
                    id::GET_CURRENT_TASK
                };
                self.pure_call(helper, Vec::new()).into()
            }
            Intrinsic::Nsecs(clock) => self.now(*clock).into(),
            Intrinsic::Elapsed => {
                let now = self.now(Clock::Boot);
                let start = self.shared.layout.start_time;
                let start = self.load(Size::D, Mem::map(DATA, start));
                self.binary(AluOp::Sub, now.into(), start.into())
            }
            Intrinsic::Cpu => self.cpu().into(),
            Intrinsic::CpuCount => Val::Imm(self.shared.facts.possible_cpus().into()),
            Intrinsic::NumaNode => self.pure_call(id::GET_NUMA_NODE_ID, Vec::new()).into(),
            Intrinsic::CgroupId => self.pure_call(id::GET_CURRENT_CGROUP_ID, Vec::new()).into(),
            Intrinsic::Random => {
                let value = self.call(id::GET_PRANDOM_U32, Vec::new());
                self.extend(value.into(), 32, false)
            }
            Intrinsic::Jiffies => {
                if self.need_helper(id::JIFFIES64, "`jiffies`") {
                    return self.call(id::JIFFIES64, Vec::new()).into();
                }
                Val::Imm(0)
            }
            Intrinsic::UserMode => self.user_mode(),
            Intrinsic::CompareStrings { n } => self.compare_strings(&arguments[0], &arguments[1], *n),
            Intrinsic::StrContains => {
                let at = self.string_find(&arguments[0], &arguments[1]);
                self.condition_value(|b, then, otherwise| {
                    b.branch(JumpOp::SignedGe, at, Val::Imm(0), then, otherwise);
                })
            }
            Intrinsic::StrFind => self.string_find(&arguments[0], &arguments[1]),
            Intrinsic::StrLength => self.string_length(&arguments[0]),
            Intrinsic::GlobMatch => self.glob_match(&arguments[0], &arguments[1]),
            Intrinsic::CompareMemory { n } => self.compare_memory(&arguments[0], &arguments[1], *n),
            Intrinsic::ByteSwap => {
                let value = self.scalar(&arguments[0]);
                let bits = expr.ty.size() * 8;
                if bits <= 8 {
                    return value;
                }
                let src = self.in_register(value);
                let dst = self.register();
                self.op(Op::Swap { dst, src, bits: bits as u8 });
                self.canonical(dst.into(), &expr.ty)
            }
            Intrinsic::KernelSymbol => self.scalar(&arguments[0]),
            Intrinsic::ErrorText | Intrinsic::SyscallName | Intrinsic::ProcessName => {
                let value = self.scalar(&arguments[0]);
                self.extend(value, 32, expr.ty.is_signed())
            }
            Intrinsic::Register { offset } => {
                let context = self.context();
                self.load_from(Size::D, crate::lir::Base::V(context), *offset as i32, true).into()
            }
            Intrinsic::StackArgument { offset, sp_offset, user } => {
                let context = self.context();
                let sp = self.load_from(Size::D, crate::lir::Base::V(context), *sp_offset as i32, true);
                let at = self.add(sp.into(), (*offset).into());
                self.read_word(at, 8, *user)
            }
            Intrinsic::Override => {
                let code = self.scalar(&arguments[0]);
                if self.need_helper(id::OVERRIDE_RETURN, "`override`") {
                    let context = self.context();
                    self.call(id::OVERRIDE_RETURN, vec![context.into(), code.into()]);
                }
                Val::Imm(0)
            }
            Intrinsic::Signal { thread } => {
                let number = self.scalar(&arguments[0]);
                let helper = if *thread { id::SEND_SIGNAL_THREAD } else { id::SEND_SIGNAL };
                if self.need_helper(helper, "`signal`") {
                    self.call(helper, vec![number.into()]);
                }
                Val::Imm(0)
            }
            Intrinsic::PerCpuAddress { btf_id, .. } => match arguments.first() {
                Some(cpu) => {
                    let cpu = self.scalar(cpu);
                    self.call(id::PER_CPU_PTR, vec![Source::Variable(*btf_id), cpu.into()]).into()
                }
                None => self.call(id::THIS_CPU_PTR, vec![Source::Variable(*btf_id)]).into(),
            },
            Intrinsic::SocketCookie => {
                let socket = self.scalar(&arguments[0]);
                if self.need_helper(id::GET_SOCKET_COOKIE, "`socket_cookie`") {
                    return self.call(id::GET_SOCKET_COOKIE, vec![socket.into()]).into();
                }
                Val::Imm(0)
            }
            Intrinsic::SkbOutput(record) => self.skb_output(*record, arguments),
            Intrinsic::TargetIndex => {
                if self.need_helper(id::GET_ATTACH_COOKIE, "telling apart the probes of one program") {
                    let context = self.context();
                    let cookie = self.pure_call(id::GET_ATTACH_COOKIE, vec![context.into()]);
                    return self.extend(cookie.into(), 32, false);
                }
                Val::Imm(0)
            }
            Intrinsic::PlaceAmong { numbers } => {
                let number = self.scalar(&arguments[0]);
                self.place_among(numbers, number)
            }
            Intrinsic::FunctionAddress => {
                if self.need_helper(id::GET_FUNC_IP, "`func`") {
                    let context = self.context();
                    return self.pure_call(id::GET_FUNC_IP, vec![context.into()]).into();
                }
                Val::Imm(0)
            }
            Intrinsic::FunctionResult => {
                if !self.need_helper(id::GET_FUNC_RET, "`retval` here") {
                    return Val::Imm(0);
                }
                let context = self.context();
                let to = self.temporary(8);
                self.zero(to, 8);
                let place = self.address(to);
                self.call(id::GET_FUNC_RET, vec![context.into(), place]);
                self.load(Size::D, to).into()
            }
            Intrinsic::Sample { one_in } => {
                let random = self.call(id::GET_PRANDOM_U32, Vec::new());
                let random = self.extend(random.into(), 32, false);
                let bound = ((1_u64 << 32) / u64::from((*one_in).max(1))) as i64;
                self.condition_value(|b, then, otherwise| {
                    b.branch(JumpOp::Lt, random, Val::Imm(bound), then, otherwise);
                })
            }
            Intrinsic::RateLimit { count, per, site } => self.rate_limit(*count, *per, *site),
            Intrinsic::InCgroup { id: wanted } => self.in_cgroup(*wanted),
            Intrinsic::Comm
            | Intrinsic::Stack
            | Intrinsic::Str
            | Intrinsic::Buf
            | Intrinsic::Inet { .. }
            | Intrinsic::MacAddress
            | Intrinsic::UserSymbol
            | Intrinsic::Timestamp { .. }
            | Intrinsic::CgroupPath { .. }
            | Intrinsic::Path
            | Intrinsic::Choose(_) => {
                let mem = self.object(expr);
                self.pointer(mem).into()
            }
        }
    }

    fn now(&mut self, clock: Clock) -> V {
        let helper = match clock {
            Clock::Boot => id::KTIME_GET_BOOT_NS,
            Clock::Monotonic => id::KTIME_GET_NS,
            Clock::Tai | Clock::SoftwareTai if self.has_helper(id::KTIME_GET_TAI_NS) => id::KTIME_GET_TAI_NS,
            Clock::Tai => {
                self.need_helper(id::KTIME_GET_TAI_NS, "`nsecs(tai)`");
                id::KTIME_GET_BOOT_NS
            }
            Clock::SoftwareTai => id::KTIME_GET_BOOT_NS,
        };
        self.call(helper, Vec::new())
    }

    fn process(&mut self, initial: bool, group: bool) -> Val {
        if initial || self.shared.facts.host_process_ids() {
            if let Some((task, fields)) = self.task() {
                let offset = if group { fields.tgid } else { fields.pid };
                return self.load_from(Size::W, crate::lir::Base::V(task), offset, true).into();
            }
            let both = self.pure_call(id::GET_CURRENT_PID_TGID, Vec::new());
            return if group {
                self.binary(AluOp::Rsh, both.into(), Val::Imm(32))
            } else {
                self.extend(both.into(), 32, false)
            };
        }
        if !self.need_helper(id::GET_NS_CURRENT_PID_TGID, "`pid` and `tid` in a namespace") {
            return Val::Imm(0);
        }
        let at = self.shared.layout.pid_namespace;
        let device = self.load(Size::D, Mem::map(DATA, at));
        let inode = self.load(Size::D, Mem::map(DATA, at + 8));
        let to = self.temporary(8);
        self.zero(to, 8);
        let place = self.address(to);
        self.call(id::GET_NS_CURRENT_PID_TGID, vec![device.into(), inode.into(), place, Val::Imm(8).into()]);
        // `struct bpf_pidns_info { u32 pid; u32 tgid; }`
        self.load(Size::W, to.plus(if group { 4 } else { 0 })).into()
    }

    /// By a table of 16-bit words over all numbers up to the greatest: no branch, so that two of the same are one.
    fn place_among(&mut self, numbers: &[u32], number: Val) -> Val {
        let most = numbers.iter().copied().max().unwrap_or(0);
        let slots = (most as usize + 1).next_power_of_two();
        let mut table = vec![numbers.len() as u16; slots];
        for (place, number) in numbers.iter().enumerate() {
            table[*number as usize] = place as u16;
        }
        let bytes: Vec<u8> = table.into_iter().flat_map(u16::to_le_bytes).collect();
        let offset = self.shared.constants.bytes(&bytes, bytes.len() as u32);
        let table = self.set(Source::MapValue { map: CONSTANTS, offset });
        let slot = self.binary(AluOp::And, number, Val::Imm(slots as i64 - 1));
        let distance = self.binary(AluOp::Lsh, slot, Val::Imm(1));
        let at = self.binary(AluOp::Add, table.into(), distance);
        let at = self.in_register(at);
        self.load_from(Size::H, crate::lir::Base::V(at), 0, true).into()
    }

    /// The current task and where its fields are, for programs that the verifier lets read them directly: cheaper
    /// than a helper for each, and the task is asked for once.
    fn task(&mut self) -> Option<(V, TaskFields)> {
        if self.program_type() != ProgramType::Tracing {
            return None;
        }
        let fields = self.shared.task_fields()?;
        self.has_helper(id::GET_CURRENT_TASK_BTF)
            .then(|| (self.pure_call(id::GET_CURRENT_TASK_BTF, Vec::new()), fields))
    }

    fn user_mode(&mut self) -> Val {
        match self.kind {
            ProgramKind::Kprobe | ProgramKind::PerfEvent => {}
            // The tracer's own system call is what runs them.
            kind => return Val::Imm((kind == ProgramKind::Special).into()),
        }
        let context = self.context();
        let segment = self.load_from(Size::D, crate::lir::Base::V(context), PT_REGS_CS, true);
        let level = self.binary(AluOp::And, segment.into(), Val::Imm(3));
        self.condition_value(|b, then, otherwise| b.branch(JumpOp::Ne, level, Val::Imm(0), then, otherwise))
    }

    /// A word of foreign memory.
    pub fn read_word(&mut self, at: Val, bytes: u32, user: bool) -> Val {
        let to = self.temporary(8);
        self.probe_read(to, bytes, at, user);
        let size = Size::from_bytes(bytes).unwrap_or(Size::D);
        self.load(size, to).into()
    }

    fn compare_strings(&mut self, left: &Expr, right: &Expr, n: u32) -> Val {
        if n == 0 {
            return Val::Imm(0);
        }
        let (text, other) = match (&left.kind, &right.kind) {
            (ExprKind::Str(text), _) => (text, right),
            (_, ExprKind::Str(text)) => (text, left),
            _ => return self.string_order(left, right, Some(n)),
        };
        // Equality with a constant: its first `n` bytes, with the NUL if that is among them.
        let mut wanted = text.clone();
        wanted.push(0);
        wanted.truncate(n as usize);
        let whole = matches!(&other.ty, Type::String(size) if *size as usize >= wanted.len());
        let cut = matches!(&other.ty, Type::String(size) if n as usize > *size as usize);
        if !whole || cut || wanted.len() > 256 {
            return self.string_order(left, right, Some(n));
        }
        let mem = self.object(other);
        let result = self.set(Val::Imm(1));
        let end = self.new_block();
        for (offset, word) in Self::words(wanted.len() as u32, &[mem.offset]) {
            let part = &wanted[offset as usize..(offset + word.bytes()) as usize];
            let value = part.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
            let have = self.load(word, mem.plus(offset));
            let same = self.new_block();
            self.branch(JumpOp::Ne, have.into(), Val::Imm(value as i64), end, same);
            self.switch(same);
        }
        self.assign(result, Val::Imm(0));
        self.goto_and_switch(end);
        result.into()
    }

    /// At most `count` times in each interval, for this CPU.
    fn rate_limit(&mut self, count: u64, per: u64, site: u32) -> Val {
        self.shared.rate_sites = self.shared.rate_sites.max(site + 1);
        let blocks = self.shared.layout.cpu_blocks;
        let start = self.set(Source::MapValue { map: RATES, offset: site * blocks * RATE_BYTES });
        let state = match self.cpu_block() {
            Val::Imm(_) => Mem::at(start),
            cpu => {
                let bytes = self.binary(AluOp::Mul, cpu, Val::Imm(RATE_BYTES.into()));
                let sum = self.binary(AluOp::Add, start.into(), bytes);
                Mem::at(self.in_register(sum))
            }
        };
        let now = self.now(Clock::Monotonic);
        let number = self.binary(AluOp::Div, now.into(), Val::Imm(per.max(1) as i64));
        let number = self.add(number, 1);
        let have = self.load(Size::D, state);
        let (fresh, same) = (self.new_block(), self.new_block());
        self.branch(JumpOp::Ne, have.into(), number, fresh, same);
        self.switch(fresh);
        self.store(Size::D, state, number);
        self.store(Size::D, state.plus(8), Val::Imm(0));
        self.goto_and_switch(same);
        let used = self.load(Size::D, state.plus(8));
        let more = self.add(used.into(), 1);
        self.store(Size::D, state.plus(8), more);
        let most = i64::try_from(count).unwrap_or(i64::MAX);
        self.condition_value(|b, then, otherwise| {
            b.branch(JumpOp::Lt, used.into(), Val::Imm(most), then, otherwise)
        })
    }

    fn in_cgroup(&mut self, wanted: u64) -> Val {
        if !self.need_helper(id::GET_CURRENT_ANCESTOR_CGROUP_ID, "`in_cgroup`") {
            return Val::Imm(0);
        }
        let result = self.set(Val::Imm(0));
        let (hit, end) = (self.new_block(), self.new_block());
        for level in 0..CGROUP_LEVELS {
            let ancestor = self.call(id::GET_CURRENT_ANCESTOR_CGROUP_ID, vec![Val::Imm(level).into()]);
            let (there, next) = (self.new_block(), self.new_block());
            self.branch(JumpOp::Eq, ancestor.into(), Val::Imm(0), end, there);
            self.switch(there);
            self.branch(JumpOp::Eq, ancestor.into(), Val::Imm(wanted as i64), hit, next);
            self.switch(next);
        }
        self.goto(end);
        self.switch(hit);
        self.assign(result, Val::Imm(1));
        self.goto_and_switch(end);
        result.into()
    }

    /// The value of a function whose result is an object.
    pub fn store_intrinsic(
        &mut self,
        intrinsic: &Intrinsic,
        arguments: &[Expr],
        expr: &Expr,
        to: Mem,
        pad: Pad,
    ) {
        let size = expr.ty.size();
        match intrinsic {
            Intrinsic::Comm => match self.task() {
                // Padded with zeros since Linux 5.17 (`__set_task_comm`), as the helper pads its copy.
                Some((task, TaskFields { comm: Some(comm), .. })) if size == 16 => {
                    for (offset, word) in Self::words(size, &[to.offset, comm]) {
                        let base = crate::lir::Base::V(task);
                        let text = self.load_from(word, base, comm + offset as i32, true);
                        self.store(word, to.plus(offset), text.into());
                    }
                }
                _ => {
                    // Before 6.2 the helper leaves the bytes after the NUL as they were: one name, many keys.
                    if self.shared.facts.version() < Version(6, 2, 0) {
                        self.zero(to, size);
                    }
                    let place = self.address(to);
                    self.call(id::GET_CURRENT_COMM, vec![place, Val::Imm(size.into()).into()]);
                }
            },
            Intrinsic::Str => self.store_str(arguments, size, to, pad),
            Intrinsic::Buf => {
                let Type::Buffer(room) = expr.ty else { return };
                self.store_buffer(arguments, room, to, pad);
            }
            Intrinsic::Stack => {
                let Type::Stack(stack) = expr.ty else { return };
                self.stack_trace(stack, to);
            }
            Intrinsic::Inet { family } => self.inet(*family, arguments, to),
            Intrinsic::MacAddress => {
                let argument = &arguments[0];
                if argument.ty.is_scalar() {
                    let (from, user) = self.pointer_or_object(argument);
                    let from = self.as_val(from);
                    self.probe_read(to, 6, from, user);
                } else {
                    let from = self.object(argument);
                    self.copy(to, from, 6);
                }
            }
            Intrinsic::UserSymbol => {
                let address = self.scalar(&arguments[0]);
                self.store(Size::D, to, address);
                // By the number that the tracer finds the process by.
                let process = self.process(false, true);
                self.store(Size::D, to.plus(8), process);
            }
            Intrinsic::Timestamp { format, clock } => {
                let time = self.scalar(&arguments[0]);
                self.store(Size::D, to, time);
                let word = i64::from(*format) | (*clock as i64) << 32;
                self.store(Size::D, to.plus(8), Val::Imm(word));
            }
            Intrinsic::CgroupPath { filter } => {
                let cgroup = self.scalar(&arguments[0]);
                self.store(Size::D, to, cgroup);
                self.store(Size::D, to.plus(8), Val::Imm((*filter).into()));
            }
            Intrinsic::Path => {
                if pad == Pad::Zero {
                    self.zero(to, size);
                } else {
                    self.store(Size::B, to, Val::Imm(0));
                }
                let path = self.scalar(&arguments[0]);
                if self.need_helper(id::D_PATH, "`path`") {
                    // A file that is not there (an iterator's last call) has no path: the helper takes no null.
                    let (there, end) = (self.new_block(), self.new_block());
                    self.branch(JumpOp::Ne, path, Val::Imm(0), there, end);
                    self.switch(there);
                    let place = self.address(to);
                    self.call(id::D_PATH, vec![path.into(), place, Val::Imm(size.into()).into()]);
                    self.goto_and_switch(end);
                }
            }
            Intrinsic::Choose(texts) => self.choose(texts, &arguments[0], size, to),
            _ => {
                let value = self.scalar(expr);
                self.store_scalar(&expr.ty, to, value);
            }
        }
    }

    fn as_val(&mut self, source: Source) -> Val {
        match source {
            Source::Val(val) => val,
            other => self.set(other).into(),
        }
    }

    fn inet(&mut self, family: bool, arguments: &[Expr], to: Mem) {
        let address = &arguments[usize::from(family)];
        self.zero(to.plus(4), INET_BYTES - 4);
        let bytes = if address.ty.is_scalar() { 4 } else { address.ty.size().min(16) };
        let number =
            if family { self.scalar(&arguments[0]) } else { Val::Imm(if bytes == 16 { 10 } else { 2 }) };
        self.store(Size::W, to, number);
        match &address.ty {
            Type::Pointer { .. } => {
                let (from, user) = self.pointer_or_object(address);
                let from = self.as_val(from);
                self.probe_read(to.plus(4), 16, from, user);
            }
            ty if ty.is_scalar() => {
                let value = self.scalar(address);
                self.store(Size::W, to.plus(4), value);
            }
            _ => {
                let from = self.object(address);
                self.copy(to.plus(4), from, bytes);
            }
        }
    }

    /// One of several constant texts.
    fn choose(&mut self, texts: &[Vec<u8>], index: &Expr, size: u32, to: Mem) {
        if let [only] = texts {
            self.store_bytes(to, only, size);
            return;
        }
        let each = size.next_multiple_of(8);
        let mut table = Vec::with_capacity(texts.len() * each as usize);
        for text in texts {
            let kept = &text[..text.len().min(size.saturating_sub(1) as usize)];
            table.extend(kept);
            table.resize(table.len().next_multiple_of(each as usize).max(table.len()), 0);
        }
        table.resize(texts.len() * each as usize, 0);
        let offset = self.shared.constants.bytes(&table, table.len() as u32);
        let index = self.scalar(index);
        let (inside, outside, end) = (self.new_block(), self.cold_block(), self.new_block());
        self.branch(JumpOp::Lt, index, Val::Imm(texts.len() as i64), inside, outside);
        self.switch(outside);
        self.zero(to, size);
        self.goto(end);
        self.switch(inside);
        let bytes = self.binary(AluOp::Mul, index, Val::Imm(each.into()));
        let base = self.set(Source::MapValue { map: CONSTANTS, offset });
        let from = self.binary(AluOp::Add, base.into(), bytes);
        let from = self.in_register(from);
        self.copy(to, Mem::at(from), size);
        self.goto_and_switch(end);
    }

    /// `kstack` and `ustack`: the frames go to the map of stacks, keyed by their hash; the value is the key.
    fn stack_trace(&mut self, stack: Stack, to: Mem) {
        let wanted = crate::schema::StackMap { user: stack.user, limit: stack.limit };
        let found = self.shared.schema.stack_maps.iter().position(|have| *have == wanted);
        let Some(map) = found.and_then(|at| self.shared.layout.stacks.get(at).copied()) else {
            self.zero(to, 16);
            return;
        };
        let limit = u32::from(stack.limit.max(1));
        // The key has 16 bytes, of which the process is none.
        let key = self.temporary(16);
        self.zero(key, 16);
        let buffer = self.scratch(limit * 8);
        let context = self.context();
        let place = self.address(buffer);
        let flags = if stack.user { USER_STACK } else { 0 };
        let bytes = self.call(
            id::GET_STACK,
            vec![context.into(), place, Val::Imm((limit * 8).into()).into(), Val::Imm(flags).into()],
        );
        let (walked, lost, end) = (self.new_block(), self.cold_block(), self.new_block());
        self.branch(JumpOp::SignedGt, bytes.into(), Val::Imm(0), walked, lost);
        self.switch(lost);
        // No frames are no failure: a sample in user mode has no kernel stack.
        let failed = self.cold_block();
        self.branch(JumpOp::Eq, bytes.into(), Val::Imm(0), end, failed);
        self.switch(failed);
        if stack.user {
            self.kernel_thread_goes_to(end);
        }
        self.bump(Counter::StackLost);
        self.goto(end);
        self.switch(walked);
        let frames = self.binary(AluOp::Rsh, bytes.into(), Val::Imm(3));
        let hash = self.set(Val::Imm(0));
        let base = self.pointer(buffer);
        self.counted(limit, |b, index, out| {
            let more = b.new_block();
            b.branch(JumpOp::Ge, index.into(), frames, out, more);
            b.switch(more);
            let offset = b.binary(AluOp::Lsh, index.into(), Val::Imm(3));
            let at = b.binary(AluOp::Add, base.into(), offset);
            let at = b.in_register(at);
            let frame = b.load_from(Size::D, crate::lir::Base::V(at), 0, false);
            // Multiply and fold, so that every bit of every frame reaches every bit of the hash.
            let mixed = b.binary(AluOp::Xor, hash.into(), frame.into());
            let product = b.binary(AluOp::Mul, mixed, Val::Imm(0x9e37_79b9_7f4a_7c15_u64 as i64));
            let high = b.binary(AluOp::Rsh, product, Val::Imm(29));
            let folded = b.binary(AluOp::Xor, product, high);
            b.assign(hash, folded);
        });
        self.store(Size::D, key, hash.into());
        self.store(Size::W, key.plus(8), frames);
        let key_address = self.address(key);
        let known = self.call(id::MAP_LOOKUP_ELEM, vec![Source::Map(map), key_address]);
        let insert = self.cold_block();
        self.branch(JumpOp::Eq, known.into(), Val::Imm(0), insert, end);
        self.switch(insert);
        let value = self.address(buffer);
        let result =
            self.call(id::MAP_UPDATE_ELEM, vec![Source::Map(map), key_address, value, Val::Imm(0).into()]);
        let refused = self.cold_block();
        self.branch(JumpOp::Ne, result.into(), Val::Imm(0), refused, end);
        self.switch(refused);
        self.bump(Counter::StackLost);
        self.goto(end);
        self.switch(end);
        self.copy(to, key, 8);
        let count = self.load(Size::W, key.plus(8));
        let process = if stack.user { self.process(false, true) } else { Val::Imm(0) };
        self.store(Size::W, to.plus(8), count.into());
        self.store(Size::W, to.plus(12), process);
    }

    /// A kernel thread has no user stack, so that there is none to lose.
    fn kernel_thread_goes_to(&mut self, target: crate::lir::BlockId) {
        // include/linux/sched.h, the same since 2.6.
        const PF_KTHREAD: i64 = 0x0020_0000;
        let flags =
            self.shared.facts.btf().and_then(|btf| btf.field(btf.find_struct("task_struct")?, "flags"));
        let Some(at) = flags.map(|field| field.bit_offset / 8) else { return };
        let task = self.call(id::GET_CURRENT_TASK, Vec::new());
        let from = self.add(task.into(), at.into());
        let place = self.temporary(8);
        self.probe_read(place, 4, from, false);
        let flags = self.load(Size::W, place);
        let kernel = self.binary(AluOp::And, flags.into(), Val::Imm(PF_KTHREAD));
        let user = self.cold_block();
        self.branch(JumpOp::Ne, kernel, Val::Imm(0), target, user);
        self.switch(user);
    }

    /// An argument of a static user probe.
    pub fn usdt_argument(&mut self, locations: &[UsdtLocation], ty: &Type) -> Val {
        let Some(first) = locations.first() else { return Val::Imm(0) };
        if locations.iter().all(|location| location == first) {
            return self.usdt_location(first, ty);
        }
        let result = self.set(Val::Imm(0));
        let context = self.context();
        let cookie = self.pure_call(id::GET_ATTACH_COOKIE, vec![context.into()]);
        let index = self.binary_wide(AluOp::And, Width::W64, cookie.into(), Val::Imm(0xffff));
        let end = self.new_block();
        for (at, location) in locations.iter().enumerate() {
            let (here, next) = (self.new_block(), self.new_block());
            self.branch(JumpOp::Eq, index, Val::Imm(at as i64), here, next);
            self.switch(here);
            let value = self.usdt_location(location, ty);
            self.assign(result, value);
            self.goto(end);
            self.switch(next);
        }
        self.goto_and_switch(end);
        result.into()
    }

    fn usdt_location(&mut self, location: &UsdtLocation, ty: &Type) -> Val {
        let context = self.context();
        let register = |b: &mut Self, offset: u32| {
            Val::V(b.load_from(Size::D, crate::lir::Base::V(context), offset as i32, true))
        };
        let value = match &location.kind {
            UsdtKind::Constant(value) => Val::Imm(*value),
            UsdtKind::Register { offset } => register(self, *offset),
            UsdtKind::Memory { base, displacement, index } => {
                let mut address = match base {
                    Some(offset) => register(self, *offset),
                    None => Val::Imm(0),
                };
                if let Some((offset, scale)) = index {
                    let index = register(self, *offset);
                    let bytes = self.binary(AluOp::Mul, index, Val::Imm((*scale).into()));
                    address = self.binary(AluOp::Add, address, bytes);
                }
                let address = self.add(address, *displacement);
                self.read_word(address, u32::from(location.bytes), true)
            }
        };
        let value = self.extend(value, u32::from(location.bytes) * 8, location.signed);
        self.canonical(value, ty)
    }
}
