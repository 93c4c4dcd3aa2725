//! The helpers that compiled programs use.

use super::memory::Memory;
use super::step::{Code, FUNCTION_TAG, MAP_TAG};
use super::{Fault, Machine};
use crate::helpers::{by_id, id};
use crate::map::{MapKind, update};

const EFAULT: i64 = -14;
const EEXIST: i64 = -17;
const ENOENT: i64 = -2;
const E2BIG: i64 = -7;
const EINVAL: i64 = -22;
const EAGAIN: i64 = -11;

/// Bytes before each record in a ring buffer.
const RING_HEADER: u64 = 8;

impl Machine {
    pub(super) fn helper(
        &mut self,
        code: &Code<'_>,
        slot: u32,
        helper: u32,
        arguments: [Option<u64>; 5],
        depth: u32,
    ) -> Result<u64, Fault> {
        let known = by_id(helper).ok_or_else(|| Fault { slot, what: format!("no helper {helper}") })?;
        let fault = |what: String| Fault { slot, what: format!("bpf_{}: {what}", known.name) };
        let mut values = [0; 5];
        for (at, _) in known.arguments.iter().enumerate() {
            values[at] =
                arguments[at].ok_or_else(|| fault(format!("argument {} is not initialised", at + 1)))?;
        }
        match helper {
            id::LOOP => return self.bpf_loop(code, slot, values, depth),
            id::FOR_EACH_MAP_ELEM => return self.for_each(code, slot, values, depth),
            _ => {}
        }
        let [a, b, c, d, _] = values;
        self.simple(helper, a, b, c, d).map_err(fault)
    }

    fn function(&self, slot: u32, value: u64) -> Result<u32, Fault> {
        u32::try_from(value.wrapping_sub(FUNCTION_TAG))
            .map_err(|_| Fault { slot, what: "not a callback".into() })
    }

    fn bpf_loop(&mut self, code: &Code<'_>, slot: u32, values: [u64; 5], depth: u32) -> Result<u64, Fault> {
        let [count, callback, context, flags, _] = values;
        let target = self.function(slot, callback)?;
        if flags != 0 || count > 1 << 23 {
            return Ok(if flags != 0 { EINVAL } else { E2BIG } as u64);
        }
        for index in 0..count {
            let stop = self.call(code, target, [index, context, 0, 0, 0], 2, depth + 1)?;
            if stop > 1 {
                return Err(Fault { slot, what: format!("a callback returned {stop}, not 0 or 1") });
            }
            if stop == 1 {
                return Ok(index + 1);
            }
        }
        Ok(count)
    }

    fn for_each(&mut self, code: &Code<'_>, slot: u32, values: [u64; 5], depth: u32) -> Result<u64, Fault> {
        let [map, callback, context, _, _] = values;
        let target = self.function(slot, callback)?;
        let index = self.map_index(map).map_err(|what| Fault { slot, what })?;
        let entries: Vec<(Vec<u8>, u32)> = if self.maps[index].spec.kind.hashed() {
            let live = &self.maps[index];
            live.entries
                .iter()
                .map(|(key, regions)| {
                    (key.clone(), *regions.get(self.world.cpu as usize).unwrap_or(&regions[0]))
                })
                .collect()
        } else {
            return Err(Fault { slot, what: "for_each_map_elem over arrays is not interpreted".into() });
        };
        let mut count = 0;
        for (key, region) in entries {
            let scratch = self.memory.add(key.len(), true);
            self.memory.fill(scratch, &key);
            let arguments = [map, self.memory.address(scratch), self.memory.address(region), context, 0];
            let stop = self.call(code, target, arguments, 4, depth + 1);
            self.memory.remove(scratch);
            count += 1;
            if stop? != 0 {
                break;
            }
        }
        Ok(count)
    }

    fn map_index(&self, value: u64) -> Result<usize, String> {
        let index = usize::try_from(value.wrapping_sub(MAP_TAG)).unwrap_or(usize::MAX);
        if index < self.maps.len() { Ok(index) } else { Err(format!("{value:#x} is not a map")) }
    }

    fn clock(&mut self) -> u64 {
        let now = self.world.nanoseconds;
        self.world.nanoseconds += self.world.tick;
        now
    }

    fn simple(&mut self, helper: u32, a: u64, b: u64, c: u64, d: u64) -> Result<u64, String> {
        let cpu = self.world.cpu;
        Ok(match helper {
            id::MAP_LOOKUP_ELEM => self.lookup(a, b, cpu)?,
            id::MAP_LOOKUP_PERCPU_ELEM => {
                if c >= u64::from(self.cpus) {
                    return Ok(0);
                }
                self.lookup(a, b, c as u32)?
            }
            id::MAP_UPDATE_ELEM => self.update(a, b, c, d)? as u64,
            id::MAP_DELETE_ELEM => {
                let index = self.map_index(a)?;
                let key = self.memory.read(b, self.maps[index].spec.key_size.into())?.to_vec();
                match self.maps[index].entries.remove(&key) {
                    Some(regions) => {
                        regions.into_iter().for_each(|region| self.memory.remove(region));
                        0
                    }
                    None => ENOENT as u64,
                }
            }
            id::PROBE_READ | id::PROBE_READ_KERNEL | id::PROBE_READ_USER | id::COPY_FROM_USER => {
                self.probe_read(a, b, c)? as u64
            }
            id::PROBE_READ_STR | id::PROBE_READ_KERNEL_STR | id::PROBE_READ_USER_STR => {
                self.probe_read_str(a, b, c)? as u64
            }
            id::KTIME_GET_NS | id::KTIME_GET_BOOT_NS | id::KTIME_GET_TAI_NS | id::KTIME_GET_COARSE_NS => {
                self.clock()
            }
            id::JIFFIES64 => self.clock() / 4_000_000,
            id::GET_PRANDOM_U32 => {
                self.world.random = self.world.random.wrapping_add(1);
                self.world.random.wrapping_sub(1).into()
            }
            id::GET_SMP_PROCESSOR_ID => cpu.into(),
            id::GET_NUMA_NODE_ID => self.world.numa_node.into(),
            id::GET_CURRENT_PID_TGID => u64::from(self.world.tgid) << 32 | u64::from(self.world.pid),
            id::GET_CURRENT_UID_GID => u64::from(self.world.gid) << 32 | u64::from(self.world.uid),
            id::GET_CURRENT_CGROUP_ID => self.world.cgroup,
            id::GET_CURRENT_ANCESTOR_CGROUP_ID => self.world.cgroup,
            id::GET_CURRENT_TASK | id::GET_CURRENT_TASK_BTF => self.world.task,
            id::GET_ATTACH_COOKIE => self.world.cookie,
            id::GET_FUNC_IP => self.world.function_address,
            id::GET_NS_CURRENT_PID_TGID => {
                if d != 8 {
                    return Ok(EINVAL as u64);
                }
                let mut out = self.world.pid.to_le_bytes().to_vec();
                out.extend(self.world.tgid.to_le_bytes());
                self.memory.write(c, &out)?;
                0
            }
            id::GET_CURRENT_COMM => {
                let mut out = vec![0; usize::try_from(b).unwrap_or(0)];
                let end = self.world.comm.iter().position(|byte| *byte == 0).unwrap_or(16);
                let count = end.min(out.len().saturating_sub(1));
                out[..count].copy_from_slice(&self.world.comm[..count]);
                self.memory.write(a, &out)?;
                0
            }
            id::GET_STACK => self.stack(b, c, d)? as u64,
            id::STRNCMP => {
                let size = usize::try_from(b).map_err(|_| "size")?;
                let left = self.memory.read(a, b)?.to_vec();
                let right = self.read_string(c, size)?;
                compare_strings(&left, &right, size) as u64
            }
            id::RINGBUF_OUTPUT => {
                let bytes = self.memory.read(b, c)?.to_vec();
                self.push_record(a, bytes)? as u64
            }
            id::RINGBUF_QUERY => 0,
            id::SEND_SIGNAL | id::SEND_SIGNAL_THREAD => {
                self.signals.push((a as u32, helper == id::SEND_SIGNAL_THREAD));
                0
            }
            id::TRACE_PRINTK => 0,
            _ => return Err("not interpreted".into()),
        })
    }

    fn lookup(&mut self, map: u64, key: u64, cpu: u32) -> Result<u64, String> {
        let index = self.map_index(map)?;
        let spec = &self.maps[index].spec;
        let key = self.memory.read(key, spec.key_size.into())?.to_vec();
        let live = &self.maps[index];
        if live.spec.kind.hashed() {
            let region =
                live.entries.get(&key).map(|regions| *regions.get(cpu as usize).unwrap_or(&regions[0]));
            return Ok(region.map_or(0, |region| self.memory.address(region)));
        }
        let number = u32::from_le_bytes(key.try_into().map_err(|_| "array keys have 4 bytes")?);
        let Some(region) = live.arrays.get(cpu as usize).or(live.arrays.first()) else {
            return Err("no lookups in this kind of map".into());
        };
        if number >= live.spec.max_entries {
            return Ok(0);
        }
        Ok(self.memory.address(*region) + u64::from(number) * u64::from(live.spec.value_size))
    }

    fn update(&mut self, map: u64, key: u64, value: u64, flags: u64) -> Result<i64, String> {
        let index = self.map_index(map)?;
        let spec = self.maps[index].spec.clone();
        let key = self.memory.read(key, spec.key_size.into())?.to_vec();
        let bytes = self.memory.read(value, spec.value_size.into())?.to_vec();
        if !spec.kind.hashed() {
            let number = u32::from_le_bytes(key.try_into().map_err(|_| "array keys have 4 bytes")?);
            if number >= spec.max_entries {
                return Ok(E2BIG);
            }
            let copies = &self.maps[index].arrays;
            let region = *copies.get(self.world.cpu as usize).unwrap_or(&copies[0]);
            self.memory.write_at(region, number as usize * spec.value_size as usize, &bytes);
            return Ok(0);
        }
        let there = self.maps[index].entries.get(&key).cloned();
        match (&there, flags) {
            (Some(_), update::NOEXIST) => return Ok(EEXIST),
            (None, update::EXIST) => return Ok(ENOENT),
            _ => {}
        }
        let cpu = self.world.cpu as usize;
        if let Some(regions) = there {
            self.memory.fill(*regions.get(cpu).unwrap_or(&regions[0]), &bytes);
            return Ok(0);
        }
        if self.maps[index].entries.len() >= spec.max_entries as usize {
            if !matches!(spec.kind, MapKind::LruHash | MapKind::LruPerCpuHash) {
                return Ok(E2BIG);
            }
            self.maps[index].entries.pop_first();
        }
        let copies = if spec.kind.per_cpu() { self.cpus } else { 1 };
        let regions: Vec<u32> =
            (0..copies).map(|_| self.memory.add(spec.value_size as usize, true)).collect();
        // As the kernel does: on an insert the other CPUs' values are zero.
        self.memory.fill(*regions.get(cpu).unwrap_or(&regions[0]), &bytes);
        self.maps[index].entries.insert(key, regions);
        Ok(0)
    }

    fn outside(&self, address: u64, size: u64) -> Option<Vec<u8>> {
        if Memory::owns(address) {
            return self.memory.read(address, size).ok().map(<[u8]>::to_vec);
        }
        self.world.read(address, size).map(<[u8]>::to_vec)
    }

    fn probe_read(&mut self, to: u64, size: u64, from: u64) -> Result<i64, String> {
        let found = self.outside(from, size);
        let result = if found.is_some() { 0 } else { EFAULT };
        self.memory.write(to, &found.unwrap_or_else(|| vec![0; size as usize]))?;
        Ok(result)
    }

    fn read_string(&self, address: u64, most: usize) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        while out.len() < most {
            match self.outside(address + out.len() as u64, 1) {
                Some(byte) if byte[0] != 0 => out.push(byte[0]),
                Some(_) => return Ok(out),
                None => return Err(format!("no memory at {address:#x}")),
            }
        }
        Ok(out)
    }

    fn probe_read_str(&mut self, to: u64, size: u64, from: u64) -> Result<i64, String> {
        // The verifier wants all of the destination to be memory.
        let _ = self.memory.write(to, &[]);
        if size == 0 {
            return Ok(0);
        }
        match self.read_string(from, size as usize - 1) {
            Ok(mut text) => {
                text.push(0);
                self.memory.write(to, &text)?;
                Ok(text.len() as i64)
            }
            Err(_) => {
                self.memory.write(to, &vec![0; size as usize])?;
                Ok(EFAULT)
            }
        }
    }

    fn stack(&mut self, to: u64, size: u64, flags: u64) -> Result<i64, String> {
        let frames = if flags & 256 != 0 { &self.world.user_stack } else { &self.world.kernel_stack };
        if frames.is_empty() {
            return Ok(EFAULT);
        }
        let skip = (flags & 255) as usize;
        let bytes: Vec<u8> = frames.iter().skip(skip).flat_map(|frame| frame.to_le_bytes()).collect();
        let count = bytes.len().min(size as usize / 8 * 8);
        let mut out = vec![0; size as usize];
        out[..count].copy_from_slice(&bytes[..count]);
        self.memory.write(to, &out)?;
        Ok(count as i64)
    }

    fn push_record(&mut self, ring: u64, bytes: Vec<u8>) -> Result<i64, String> {
        let index = self.map_index(ring)?;
        let spec = &self.maps[index].spec;
        if spec.kind != MapKind::RingBuf {
            return Err("not a ring buffer".into());
        }
        let size = (bytes.len() as u64 + RING_HEADER).next_multiple_of(8);
        // The kernel never fills the last byte: a full ring could not be told from an empty one.
        if self.ring_used + size >= u64::from(spec.max_entries) {
            return Ok(EAGAIN);
        }
        self.ring_used += size;
        self.records.push(bytes);
        Ok(0)
    }
}

fn compare_strings(left: &[u8], right: &[u8], size: usize) -> i64 {
    for at in 0..size {
        let (a, b) = (left.get(at).copied().unwrap_or(0), right.get(at).copied().unwrap_or(0));
        if a != b {
            return if a < b { -1 } else { 1 };
        }
        if a == 0 {
            break;
        }
    }
    0
}
