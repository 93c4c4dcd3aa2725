//! Threads that wait for a busy CPU while another that they may use is idle.

use super::{
    cpus::{Cpus, Current},
    threads::{CpuSets, NO_CPU, NO_ENTRY, Slot, Thread},
};

/// One waiting thread that may use more than one CPU.
#[derive(Clone, Copy, Debug)]
struct Entry {
    slot: Slot,
    /// Since when an allowed CPU has been idle beside it; `u64::MAX`: none is now.
    since: u64,
    /// Time of that kind that is over.
    total: u64,
}

/// The waiting threads for which another CPU may become idle.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    entries: Vec<Entry>,
}

const NOT_NOW: u64 = u64::MAX;

impl Beside {
    /// A thread begins to wait, or the CPUs that it may use or waits for have changed.
    #[inline]
    pub fn update(&mut self, slot: Slot, now: u64, threads: &mut [Thread], allowed: &CpuSets, cpus: &Cpus) {
        let thread = &mut threads[slot as usize];
        if thread.entry == NO_ENTRY {
            if !allowed.has_several(slot) {
                return;
            }
            thread.entry = self.entries.len() as u32;
            self.entries.push(Entry { slot, since: NOT_NOW, total: 0 });
        }
        let entry = &mut self.entries[thread.entry as usize];
        entry.turn(is_beside(thread.queue_cpu, allowed.of(slot), cpus), now);
    }

    /// A CPU becomes idle, busy or unknown.
    #[inline]
    pub fn cpu_changed(&mut self, cpu: u16, now: u64, threads: &[Thread], allowed: &CpuSets, cpus: &Cpus) {
        for entry in &mut self.entries {
            if allowed.has(entry.slot, cpu) {
                let queue = threads[entry.slot as usize].queue_cpu;
                entry.turn(is_beside(queue, allowed.of(entry.slot), cpus), now);
            }
        }
    }

    /// A thread's wait ends: the time that an allowed CPU was idle beside it.
    #[inline]
    pub fn end(&mut self, slot: Slot, now: u64, threads: &mut [Thread]) -> u64 {
        let at = std::mem::replace(&mut threads[slot as usize].entry, NO_ENTRY);
        if at == NO_ENTRY {
            return 0;
        }
        let mut entry = self.entries.swap_remove(at as usize);
        if let Some(moved) = self.entries.get(at as usize) {
            threads[moved.slot as usize].entry = at;
        }
        entry.turn(false, now);
        entry.total
    }

    pub fn rename_slots(&mut self, moved: &[Slot]) {
        for entry in &mut self.entries {
            entry.slot = moved[entry.slot as usize];
        }
    }
}

impl Entry {
    #[inline]
    fn turn(&mut self, beside: bool, now: u64) {
        if beside != (self.since != NOT_NOW) {
            if beside {
                self.since = now;
            } else {
                self.total += now.saturating_sub(self.since);
                self.since = NOT_NOW;
            }
        }
    }
}

/// Whether the CPU waited for runs another thread while some other allowed CPU is idle.
#[inline]
fn is_beside(queue: u16, allowed: &[u64], cpus: &Cpus) -> bool {
    if queue == NO_CPU || !matches!(cpus.list[queue as usize].current, Current::Thread(_)) {
        return false;
    }
    // The queue's own CPU is not idle here, so it needs no masking.
    allowed.iter().zip(&cpus.idle).any(|(a, i)| a & i != 0)
}
