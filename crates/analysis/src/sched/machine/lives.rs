//! Threads' lives: how they come to be known, are made, named, numbered anew, and end.

use trace::{
    At, Comm, Tid,
    event::{SchedProcessExec, SchedProcessExit, SchedProcessFork, SchedProcessFree, TaskRename},
};

use super::{Discard, LATE_WAKEUP, Machine, Named, Output};
use crate::sched::{
    cpus::CPU_LIMIT,
    threads::{NO_ENTRY, Phase, Slot, Threads, WokenBy},
};

impl<O: Output> Machine<O> {
    /// The thread that has this number now, one that existed before the trace if none is known.
    #[inline]
    pub(super) fn owner(&mut self, tid: Tid, now: u64) -> Slot {
        match self.threads.find(tid) {
            Some(slot) if self.threads.list[slot as usize].phase != Phase::Dead => slot,
            Some(_) => self.newcomer(tid, Phase::Unknown, now),
            None if self.any_loss => self.newcomer(tid, Phase::Unknown, now),
            None => self.newcomer(tid, Phase::Unseen, now),
        }
    }

    #[cold]
    pub(super) fn newcomer(&mut self, tid: Tid, phase: Phase, now: u64) -> Slot {
        let counted = self.filter.is_empty() || self.filter.binary_search(&tid).is_ok();
        let slot = self.threads.make(tid, phase, now, counted);
        let thread = &mut self.threads.list[slot as usize];
        if thread.key.generation == 0 {
            // Side tables speak of the number's owner at some time: the first is the best guess
            // only while there is but one.
            let at = self.processes.partition_point(|p| p.0 < tid);
            thread.process = self.processes.get(at).filter(|p| p.0 == tid).map(|p| p.1);
            if let Ok(at) = self.names.binary_search_by_key(&tid, |n| n.0) {
                thread.comm = self.names[at].1;
            }
        }
        if let Some((_, cpus)) = self.affinity.iter().find(|a| a.0 == tid) {
            for cpu in cpus.iter().filter(|c| c.0 < CPU_LIMIT) {
                self.allowed.add(slot, cpu.0 as u16);
            }
        }
        if phase == Phase::Unseen
            || (phase == Phase::Unknown && self.threads.list[slot as usize].key.generation == 0)
        {
            self.threads.list[slot as usize].first = self.start.unwrap_or(now).min(now);
        }
        slot
    }

    /// A thread that begins now; if its number has an owner, that one is over.
    pub(super) fn newborn(&mut self, tid: Tid, now: u64) -> Slot {
        if let Some(old) = self.threads.find(tid) {
            self.end_unseen(old, now);
        }
        let slot = self.newcomer(tid, Phase::Made, now);
        let thread = &mut self.threads.list[slot as usize];
        thread.began = true;
        thread.first = now;
        slot
    }

    /// A thread must have ended, since its number has another owner or its remains are freed.
    pub(super) fn end_unseen(&mut self, slot: Slot, now: u64) {
        match self.threads.list[slot as usize].phase {
            Phase::Dead => return,
            Phase::Waiting => self.discard_wait(slot, now, Discard::Gap),
            Phase::Blocked => self.discard_blocked(slot, Discard::Gap),
            Phase::Running => {
                let cpu = self.threads.list[slot as usize].last_cpu;
                let known_until = self.cpus.list[cpu as usize].last.min(now);
                self.losses.gaps += 1;
                self.forget_current(cpu, known_until.max(self.cpus.list[cpu as usize].since), now);
            }
            _ => {}
        }
        let thread = &mut self.threads.list[slot as usize];
        thread.phase = Phase::Dead;
        thread.end = Some(now);
    }

    pub(super) fn die(&mut self, slot: Slot, now: u64) {
        let thread = &mut self.threads.list[slot as usize];
        thread.phase = Phase::Dead;
        thread.end = Some(now);
        // Leaving for good is a voluntary switch in the kernel's count as well.
        thread.totals.voluntary += u64::from(now >= self.window.0);
    }

    /// `sched_process_fork`.
    pub fn fork(&mut self, at: &At, event: &SchedProcessFork) {
        let now = at.time.0;
        let (parent, child) = (event.parent_tid, event.child_tid);
        if !Threads::valid(child) {
            self.impossible += 1;
            return;
        }
        let slot = match self.threads.find(child) {
            Some(slot) if self.threads.list[slot as usize].phase == Phase::Made => slot,
            _ => self.newborn(child, now),
        };
        self.name(slot, &event.child_comm);
        if Threads::valid(parent) {
            let parent = self.owner(parent, now);
            self.name(parent, &event.parent_comm);
            self.inherit(slot, parent);
        }
    }

    /// A producer's own record of a new thread (perf); those before the first event tell of
    /// threads that existed already.
    pub fn forked(&mut self, at: &At, (process, tid): (Tid, Tid), parent_tid: Tid) {
        if !Threads::valid(tid) {
            return;
        }
        let now = at.time.0;
        let existed = self.start.is_none_or(|start| now < start);
        let slot = match self.threads.find(tid) {
            Some(slot) if existed || self.threads.list[slot as usize].phase == Phase::Made => slot,
            // The scheduler's own events came first and are the better witness.
            Some(slot)
                if self.threads.list[slot as usize].began
                    && now.saturating_sub(self.threads.list[slot as usize].first) < LATE_WAKEUP =>
            {
                slot
            }
            None if existed => self.owner(tid, now),
            _ => self.newborn(tid, now),
        };
        self.threads.list[slot as usize].process = Some(process);
        if !existed && Threads::valid(parent_tid) {
            let parent = self.owner(parent_tid, now);
            if parent != slot {
                self.inherit(slot, parent);
            }
        }
    }

    pub(super) fn inherit(&mut self, child: Slot, parent: Slot) {
        let maker = &self.threads.list[parent as usize];
        let (key, counted, kernel) = (maker.key, maker.counted, maker.kernel);
        let thread = &mut self.threads.list[child as usize];
        thread.parent = Some(key);
        thread.counted |= counted && self.inherits;
        thread.kernel = kernel;
    }

    /// A producer's own record of a name (perf).
    pub fn named(&mut self, at: &At, process: Tid, tid: Tid, comm: Comm) {
        if Threads::valid(tid) {
            let slot = self.owner(tid, at.time.0);
            self.threads.list[slot as usize].process = Some(process);
            self.name(slot, &comm);
        }
    }

    /// `task_rename`.
    pub fn rename(&mut self, at: &At, event: &TaskRename) {
        if Threads::valid(event.tid) {
            let slot = self.owner(event.tid, at.time.0);
            self.name(slot, &event.old_comm);
            self.name(slot, &event.new_comm);
        }
    }

    #[inline]
    pub(super) fn name(&mut self, slot: Slot, comm: &Comm) {
        if self.threads.list[slot as usize].comm != *comm {
            self.rename_slow(slot, *comm);
        }
    }

    #[cold]
    pub(super) fn rename_slow(&mut self, slot: Slot, comm: Comm) {
        let thread = &mut self.threads.list[slot as usize];
        if comm.is_empty() {
            return;
        }
        if !thread.comm.is_empty() && thread.former.len() < 8 && !thread.former.contains(&thread.comm) {
            thread.former.push(thread.comm);
        }
        thread.comm = comm;
        thread.is_ksoftirqd = comm.as_bytes().starts_with(b"ksoftirqd/");
    }

    /// What an event says of a thread besides what happens to it.
    #[inline]
    pub(super) fn seen(&mut self, slot: Slot, named: &Named<'_>) {
        let thread = &mut self.threads.list[slot as usize];
        thread.prio = named.prio.clamp(-1, 200) as i16;
        thread.has_prio = true;
        if !named.comm.is(&thread.comm) {
            self.name(slot, &named.comm.comm());
        }
    }

    /// `sched_process_exec`: a thread other than the leader takes the leader's number.
    pub fn exec(&mut self, at: &At, event: &SchedProcessExec) {
        if event.old_tid != event.tid
            && Threads::valid(event.old_tid)
            && Threads::valid(event.tid)
            && let Some(slot) = self.threads.find(event.old_tid)
        {
            if let Some(leader) = self.threads.find(event.tid) {
                self.end_unseen(leader, at.time.0);
            }
            self.threads.renumber(slot, event.tid);
        }
    }

    /// `sched_process_exit`.
    pub fn exit(&mut self, at: &At, event: &SchedProcessExit) {
        if Threads::valid(event.tid) {
            let slot = self.owner(event.tid, at.time.0);
            self.name(slot, &event.comm);
            self.threads.list[slot as usize].exiting = true;
        }
    }

    /// `sched_process_free`: also of threads whose last switch was not seen.
    pub fn free(&mut self, at: &At, event: &SchedProcessFree) {
        if Threads::valid(event.tid)
            && let Some(slot) = self.threads.find(event.tid)
            && self.threads.list[slot as usize].phase != Phase::Unseen
        {
            self.end_unseen(slot, at.time.0);
        }
    }

    /// Sums exited threads that waited least, until half of the rows are free.
    #[cold]
    pub(super) fn fold(&mut self) {
        let list = &self.threads.list;
        let mut ended: Vec<Slot> =
            (0..list.len() as Slot).filter(|s| list[*s as usize].phase == Phase::Dead).collect();
        let waited = |s: &Slot| list[*s as usize].totals.wait_time.iter().sum::<u64>();
        ended.sort_unstable_by_key(|s| (waited(s), *s));
        ended.truncate(list.len().saturating_sub(self.max_threads));
        if ended.len() < self.max_threads / 4 {
            // So many are alive: they keep their rows.
            self.thread_limit = self.thread_limit.saturating_mul(2);
        }
        let mut keep = vec![true; list.len()];
        let span = self.counted_span();
        for slot in ended {
            keep[slot as usize] = false;
            let thread = &self.threads.list[slot as usize];
            self.out.folded(thread.serial);
            self.folded.add(thread, span);
        }
        let moved = self.threads.compact(&keep);
        self.ran_on.compact(&moved);
        self.allowed.compact(&moved);
        self.beside.rename_slots(&moved);
        self.wakers.rename_slots(&moved);
        for cpu in &mut self.cpus.list {
            cpu.rename_slots(&moved);
        }
        for thread in &mut self.threads.list {
            thread.last_pair = NO_ENTRY;
            if let WokenBy::Thread(slot) = thread.woken_by {
                let now = moved[slot as usize];
                thread.woken_by = if now == NO_ENTRY { WokenBy::Unknown } else { WokenBy::Thread(now) };
            }
        }
    }
}
