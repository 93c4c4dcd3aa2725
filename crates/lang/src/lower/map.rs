//! Maps of the text: keys, lookups, updates, deletion.

use bpf::helpers::id;
use bpf::insn::{JumpOp, Size};
use bpf::map::update;

use super::DATA;
use super::builder::{Builder, Home};
use super::memory::Mem;
use super::object::Pad;
use crate::hir::{self, Expr, ExprKind, Intrinsic, LocalId};
use crate::layout::Place;
use crate::lir::{Callee, KeyId, Op, Source, V, Val};
use crate::schema::{Counter, EmitId, EmitKind, MapId};
use crate::types::Type;

const E2BIG: i64 = -7;

impl Builder<'_, '_> {
    /// The address of a key in memory, all its bytes defined.
    pub fn key(&mut self, key: &Expr) -> Source {
        if !key.ty.is_scalar() && Self::padded_in_place(key) {
            let in_memory = matches!(&key.kind, ExprKind::Local(_) | ExprKind::Str(_))
                || matches!(&key.kind, ExprKind::MapGet { key: None, .. });
            if in_memory {
                let mem = self.object(key);
                return self.address(mem);
            }
        }
        let to = self.temporary(key.ty.size().max(1));
        self.store_value(key, to, Pad::Zero);
        self.address(to)
    }

    /// Index of the kernel map, for maps that are one.
    pub fn kernel_map(&self, map: MapId) -> Option<u32> {
        match self.shared.layout.place(map) {
            Place::Map(index) => Some(index),
            _ => None,
        }
    }

    /// The memory of a map without key.
    pub fn keyless(&mut self, map: MapId) -> Option<Mem> {
        match self.shared.layout.place(map) {
            Place::Global { offset } => Some(Mem::map(DATA, offset)),
            Place::PerCpu { offset } => Some(self.cpu_data(offset)),
            Place::Map(_) => None,
        }
    }

    /// Notes that a map without key has been set or deleted: only then it prints.
    fn mark_set(&mut self, map: MapId, set: bool) {
        if let Some(offset) = self.shared.layout.is_set(self.shared.schema, map) {
            self.store(Size::D, Mem::map(DATA, offset), Val::Imm(set.into()));
        }
    }

    /// The address of an entry's value, 0 if there is none.
    pub fn map_lookup(&mut self, map: MapId, key: &Expr) -> V {
        let Some(index) = self.kernel_map(map) else { return self.set(Val::Imm(0)) };
        let bytes = self.key(key);
        let id = self.key_id(key);
        self.lookup(index, bytes, id)
    }

    /// Names the bytes of a key, so that a second lookup can be known to be the same as a first. None where they
    /// may differ from one evaluation to the next.
    fn key_id(&mut self, key: &Expr) -> Option<KeyId> {
        let (mut text, mut reads) = (String::new(), Vec::new());
        self.describe_key(key, &mut text, &mut reads)?;
        let keys = &mut self.frame().keys;
        if let Some(at) = keys.iter().position(|have| *have == text) {
            return Some(KeyId(at as u32));
        }
        keys.push(text);
        let numbered = &mut self.function().keys;
        numbered.push(reads);
        Some(KeyId(numbered.len() as u32 - 1))
    }

    /// What a key is made of, and the registers of the variables it reads.
    fn describe_key(&mut self, key: &Expr, text: &mut String, reads: &mut Vec<V>) -> Option<()> {
        let sign = if key.ty.is_signed() { "i" } else { "u" };
        *text += &format!("{sign}{} ", key.ty.size());
        match &key.kind {
            ExprKind::Int(_) | ExprKind::Str(_) | ExprKind::Zero => *text += &format!("{:?} ", key.kind),
            ExprKind::Local(local) => {
                let Home::Register(v) = self.home(*local) else { return None };
                reads.push(v);
                *text += &format!("{v} ");
            }
            ExprKind::Intrinsic(
                what @ (Intrinsic::Pid { .. }
                | Intrinsic::Tid { .. }
                | Intrinsic::Uid
                | Intrinsic::Gid
                | Intrinsic::Cpu
                | Intrinsic::NumaNode
                | Intrinsic::CgroupId
                | Intrinsic::Register { .. }
                | Intrinsic::TargetIndex
                | Intrinsic::FunctionAddress),
                _,
            ) => *text += &format!("{what:?} "),
            ExprKind::Cast(cast, inner) => {
                *text += &format!("{cast:?} ");
                self.describe_key(inner, text, reads)?;
            }
            ExprKind::Tuple(fields) => {
                for field in fields {
                    self.describe_key(field, text, reads)?;
                }
            }
            ExprKind::Read { place, bits }
                if matches!(place.base, hir::Base::Context) && place.indexes.is_empty() =>
            {
                *text += &format!("context{:+} {bits:?} ", place.offset);
            }
            _ => return None,
        }
        Some(())
    }

    fn lookup(&mut self, map: u32, bytes: Source, key: Option<KeyId>) -> V {
        let dst = self.register();
        self.op(Op::Call {
            dst: Some(dst),
            callee: Callee::Helper(id::MAP_LOOKUP_ELEM),
            arguments: vec![Source::Map(map), bytes],
            pure: false,
            key,
        });
        dst
    }

    pub fn map_get(&mut self, map: MapId, key: Option<&Expr>, ty: &Type) -> Val {
        match key {
            None => match self.keyless(map) {
                Some(mem) => self.load_scalar(ty, mem),
                None => Val::Imm(0),
            },
            Some(key) => {
                let pointer = self.map_lookup(map, key);
                self.report_missing(map, pointer);
                self.unless_null(pointer, |b| b.load_scalar(ty, Mem::at(pointer)))
            }
        }
    }

    /// With `-k`: tells that an entry which is read was not there.
    pub fn report_missing(&mut self, map: MapId, pointer: V) {
        if !self.shared.schema.config.report_helper_errors {
            return;
        }
        let (gone, end) = (self.cold_block(), self.new_block());
        self.branch(JumpOp::Eq, pointer.into(), Val::Imm(0), gone, end);
        self.switch(gone);
        self.report_failure(EmitKind::MissingEntry(map), &[]);
        self.goto(end);
        self.switch(end);
    }

    pub fn map_find(&mut self, map: MapId, key: &Expr, into: LocalId) -> Val {
        let pointer = self.map_lookup(map, key);
        let ty = self.scope().variables[into.0 as usize].ty.clone();
        self.unless_null(pointer, |b| {
            if ty.is_scalar() {
                let value = b.load_scalar(&ty, Mem::at(pointer));
                b.set_local(into, value);
            } else if let Home::Memory(mem) = b.home(into) {
                b.copy_object(mem, Mem::at(pointer), &ty, Pad::Any, false);
            }
            Val::Imm(1)
        })
    }

    pub fn address_of_map(&mut self, map: MapId, key: Option<&Expr>) -> Val {
        match key {
            Some(key) => self.map_lookup(map, key).into(),
            None => match self.keyless(map) {
                Some(mem) => self.pointer(mem).into(),
                None => Val::Imm(0),
            },
        }
    }

    /// `@m[key] = value`.
    pub fn map_set(&mut self, map: MapId, key: Option<&Expr>, value: &Expr) {
        let Some(key) = key else {
            let Some(mem) = self.keyless(map) else { return };
            if value.ty.is_scalar() {
                let value_now = self.scalar(value);
                self.store_scalar(&value.ty, mem, value_now);
            } else {
                self.store_value(value, mem, Pad::Any);
            }
            self.mark_set(map, true);
            return;
        };
        let Some(index) = self.kernel_map(map) else { return };
        // The value first: what it calls would otherwise come between the key and its use.
        let value = if value.ty.is_scalar() {
            let now = self.scalar(value);
            let to = self.temporary(value.ty.size());
            self.store_scalar(&value.ty, to, now);
            self.address(to)
        } else {
            let mem = self.object(value);
            self.address(mem)
        };
        let key = self.key(key);
        self.update(map, index, key, value);
    }

    fn update(&mut self, map: MapId, index: u32, key: Source, value: Source) {
        let arguments = vec![Source::Map(index), key, value, Val::Imm(update::ANY as i64).into()];
        let result = self.call(id::MAP_UPDATE_ELEM, arguments);
        let full = self.shared.counter(Counter::MapFull(map)).is_some();
        let failed = self.shared.counter(Counter::MapFailed(map)).is_some();
        if !full && !failed {
            return;
        }
        let (bad, end) = (self.cold_block(), self.new_block());
        self.branch(JumpOp::Ne, result.into(), Val::Imm(0), bad, end);
        self.switch(bad);
        self.count_refusal(map, result);
        self.goto(end);
        self.switch(end);
    }

    /// Counts an update the kernel refused: by a full map, or for another reason.
    pub fn count_refusal(&mut self, map: MapId, result: V) {
        let (full, other, end) = (self.cold_block(), self.cold_block(), self.cold_block());
        self.branch(JumpOp::Eq, result.into(), Val::Imm(E2BIG), full, other);
        self.switch(full);
        self.bump(Counter::MapFull(map));
        self.goto(end);
        self.switch(other);
        self.bump(Counter::MapFailed(map));
        self.goto(end);
        self.switch(end);
    }

    /// Goes on with the address of an entry, inserted as zeros if it was not there; to `lost` when the map
    /// refuses it.
    pub fn entry(&mut self, map: MapId, key: Source, size: u32, lost: crate::lir::BlockId) -> V {
        let Some(index) = self.kernel_map(map) else { return self.set(Val::Imm(0)) };
        let first = self.call(id::MAP_LOOKUP_ELEM, vec![Source::Map(index), key]);
        let pointer = self.register();
        self.assign(pointer, first);
        let (miss, hit) = (self.cold_block(), self.new_block());
        self.branch(JumpOp::Eq, pointer.into(), Val::Imm(0), miss, hit);
        self.switch(miss);
        let zeros = if size <= 16 && self.stack_has(size) {
            let object = Mem::stack(self.stack_object(size));
            self.zero(object, size);
            self.address(object)
        } else {
            let offset = self.shared.constants.zeros(size);
            Source::MapValue { map: super::CONSTANTS, offset }
        };
        let result = self.call(
            id::MAP_UPDATE_ELEM,
            vec![Source::Map(index), key, zeros, Val::Imm(update::NOEXIST as i64).into()],
        );
        // Another CPU may have inserted it in between, so the second lookup decides.
        let second = self.call(id::MAP_LOOKUP_ELEM, vec![Source::Map(index), key]);
        self.assign(pointer, second);
        let refused = self.cold_block();
        self.branch(JumpOp::Ne, pointer.into(), Val::Imm(0), hit, refused);
        self.switch(refused);
        self.count_refusal(map, result);
        self.goto(lost);
        self.switch(hit);
        pointer
    }

    /// `@m[key]++` and the like.
    pub fn map_step(&mut self, map: MapId, key: Option<&Expr>, by: i64, post: bool, ty: &Type) -> Val {
        let Some(key) = key else {
            let per_cpu = matches!(self.shared.layout.place(map), Place::PerCpu { .. });
            let Some(mem) = self.keyless(map) else { return Val::Imm(0) };
            let value = self.step_at(mem, by, post, ty, !per_cpu);
            self.mark_set(map, true);
            return value;
        };
        let key = self.key(key);
        let result = self.register();
        let end = self.new_block();
        let lost = self.cold_block();
        let shared = !self.shared.schema.maps[map.0 as usize].storage.per_cpu();
        let size = self.shared.schema.maps[map.0 as usize].value.size();
        let pointer = self.entry(map, key, size, lost);
        let value = self.step_at(Mem::at(pointer), by, post, ty, shared);
        self.assign(result, value);
        self.goto(end);
        self.switch(lost);
        self.assign(result, Val::Imm(0));
        self.goto(end);
        self.switch(end);
        result.into()
    }

    fn step_at(&mut self, mem: Mem, by: i64, post: bool, ty: &Type, shared: bool) -> Val {
        let size = Size::from_bytes(ty.size()).unwrap_or(Size::D);
        let before = if shared && matches!(size, Size::W | Size::D) {
            let base = self.pointer(mem);
            let value = self.set(Val::Imm(by));
            let fetch = self.register();
            self.op(Op::AtomicAdd { size, base, offset: 0, value, fetch: Some(fetch) });
            self.canonical(fetch.into(), ty)
        } else {
            let before = self.load_scalar(ty, mem);
            let after = self.add(before, by);
            self.store(size, mem, after);
            before
        };
        if post {
            return before;
        }
        let after = self.add(before, by);
        self.canonical(after, ty)
    }

    /// `delete(@m[key])`: whether there was such an entry.
    pub fn map_delete(&mut self, map: MapId, key: Option<&Expr>, missing: Option<EmitId>) -> Val {
        let Some(key) = key else {
            let size = self.shared.schema.maps[map.0 as usize].value.size();
            if let Some(mem) = self.keyless(map) {
                self.zero(mem, size);
            }
            self.mark_set(map, false);
            return Val::Imm(1);
        };
        let Some(index) = self.kernel_map(map) else { return Val::Imm(0) };
        let key = self.key(key);
        let result = self.call(id::MAP_DELETE_ELEM, vec![Source::Map(index), key]);
        if let Some(record) = missing {
            let (gone, end) = (self.cold_block(), self.new_block());
            self.branch(JumpOp::Ne, result.into(), Val::Imm(0), gone, end);
            self.switch(gone);
            self.emit_record(record, &[]);
            self.goto(end);
            self.switch(end);
            return Val::Imm(1);
        }
        self.condition_value(|b, then, otherwise| {
            b.branch(JumpOp::Eq, result.into(), Val::Imm(0), then, otherwise);
        })
    }
}
