//! A wait's begin, its end, and the queues between them.

use trace::{At, Cpu, event::SchedMigrateTask};

use super::{Discard, Machine, Output, Wait};
use crate::sched::{
    result::WaitCause,
    threads::{NO_CPU, Phase, Slot, StartedBy, Threads},
};

impl<O: Output> Machine<O> {
    /// A thread becomes runnable: its wait begins.
    #[inline]
    pub(super) fn begin_wait(&mut self, slot: Slot, now: u64, cause: WaitCause, by: StartedBy, queue: u16) {
        self.learn_allowed(slot, queue);
        let thread = &mut self.threads.list[slot as usize];
        thread.phase = Phase::Waiting;
        thread.since = now;
        thread.cause = cause;
        thread.started_by = by;
        thread.queue_cpu = queue;
        thread.idle_mark = self.cpus.idle_time(queue, now);
        thread.woken_waiting = cause != WaitCause::Preemption;
        if O::ALL {
            self.cpus.waiting(queue, now, true);
            if self.threads.list[slot as usize].counted {
                self.cpus.hold(queue, now, true);
            }
            self.beside.update(slot, now, &mut self.threads.list, &self.allowed, &self.cpus);
        }
    }

    /// Takes a thread off the queue it waits on; the time beside an idle CPU.
    #[inline]
    pub(super) fn stop_waiting(&mut self, slot: Slot, now: u64) -> u64 {
        if !O::ALL {
            return 0;
        }
        let thread = &self.threads.list[slot as usize];
        self.cpus.waiting(thread.queue_cpu, now, false);
        if thread.counted {
            self.cpus.hold(thread.queue_cpu, now, false);
        }
        self.beside.end(slot, now, &mut self.threads.list)
    }

    pub(super) fn discard_wait(&mut self, slot: Slot, now: u64, discard: Discard) {
        self.stop_waiting(slot, now);
        let thread = &mut self.threads.list[slot as usize];
        discard.count(&mut thread.totals.intervals);
        if thread.counted {
            discard.count(&mut self.wait_intervals);
        }
    }

    pub(super) fn discard_blocked(&mut self, slot: Slot, discard: Discard) {
        if self.threads.list[slot as usize].counted {
            discard.count(&mut self.off_intervals);
        }
    }

    /// A waiting thread is on another queue than was known.
    pub(super) fn move_queue(&mut self, slot: Slot, now: u64, to: u16) {
        let from = self.threads.list[slot as usize].queue_cpu;
        if from == to {
            return;
        }
        if !O::ALL {
            self.learn_allowed(slot, to);
            self.threads.list[slot as usize].queue_cpu = to;
            return;
        }
        self.cpus.waiting(from, now, false);
        self.cpus.waiting(to, now, true);
        if self.threads.list[slot as usize].counted {
            self.cpus.hold(from, now, false);
            self.cpus.hold(to, now, true);
        }
        self.learn_allowed(slot, to);
        self.threads.list[slot as usize].queue_cpu = to;
        self.threads.list[slot as usize].idle_mark = self.cpus.idle_time(to, now);
        self.beside.update(slot, now, &mut self.threads.list, &self.allowed, &self.cpus);
    }

    /// A target CPU from an event, `NO_CPU` if its number is impossible.
    #[inline]
    pub(super) fn target(&mut self, cpu: Cpu) -> u16 {
        if self.cpus.ensure(cpu.0) {
            cpu.0 as u16
        } else {
            self.impossible += 1;
            NO_CPU
        }
    }

    pub(super) fn given_affinity(&self, slot: Slot) -> bool {
        let tid = self.threads.list[slot as usize].key.tid;
        !self.affinity.is_empty() && self.affinity.binary_search_by_key(&tid, |a| a.0).is_ok()
    }

    /// The thread may use this CPU, as it was seen there.
    #[inline]
    pub(super) fn learn_allowed(&mut self, slot: Slot, cpu: u16) {
        if !self.allowed.has(slot, cpu) && !self.given_affinity(slot) {
            self.allowed.add(slot, cpu);
        }
    }

    #[inline]
    pub(super) fn end_wait(&mut self, slot: Slot, cpu: u16, now: u64) {
        let start = self.threads.list[slot as usize].since;
        if now < start {
            self.effect_before_cause(start - now);
            return self.discard_wait(slot, now, Discard::Clock);
        }
        if self.in_doubt(slot) {
            return self.discard_wait(slot, now, Discard::Loss);
        }
        let beside = self.stop_waiting(slot, now);
        let queue = self.threads.list[slot as usize].queue_cpu;
        let idle = self.cpus.idle_time(queue, now).saturating_sub(self.threads.list[slot as usize].idle_mark);
        let thread = &mut self.threads.list[slot as usize];
        let kind = usize::from(thread.cause == WaitCause::Preemption);
        thread.totals.wait_budget[kind] += now.saturating_sub(start.max(self.window.0));
        if !self.cpus.is_selected(cpu) {
            return;
        }
        if start < self.window.0 {
            if now >= self.window.0 {
                thread.totals.intervals.cut_at_start += 1;
                self.wait_intervals.cut_at_start += u64::from(thread.counted);
            }
            return;
        }
        let value = now - start;
        let totals = &mut thread.totals;
        totals.intervals.complete += 1;
        totals.wait_count[kind] += 1;
        totals.wait_time[kind] += value;
        totals.wait_max[kind] = totals.wait_max[kind].max(value);
        if beside >= self.idle_floor && beside > 0 {
            totals.idle_beside.add(beside);
        }
        if idle >= self.held_floor && idle > 0 {
            totals.held_back.add(idle);
        }
        if thread.counted {
            self.wait_intervals.complete += 1;
            match thread.started_by {
                StartedBy::Waking => self.starts.waking += 1,
                StartedBy::Wakeup => self.starts.wakeup += 1,
                StartedBy::WakeupNew => self.starts.wakeup_new += 1,
                StartedBy::Switch => self.starts.preemption += 1,
            }
            let thread = &self.threads.list[slot as usize];
            let wait = Wait { thread, start, end: now, cpu, beside };
            self.out.wait(&wait, &self.threads, &self.cpus);
        }
    }

    #[cold]
    pub(super) fn effect_before_cause(&mut self, by: u64) {
        self.clock.effects_before_causes += 1;
        self.clock.max_effect_before_cause_ns = self.clock.max_effect_before_cause_ns.max(by);
    }

    /// `sched_migrate_task`.
    pub fn migrate(&mut self, at: &At, event: &SchedMigrateTask) {
        if !Threads::valid(event.tid) {
            self.impossible += 1;
            return;
        }
        let now = at.time.0;
        let to = self.target(event.dest_cpu);
        let slot = self.owner(event.tid, now);
        self.name(slot, &event.comm);
        self.threads.list[slot as usize].totals.migrations.migrate_events += u64::from(now >= self.window.0);
        if to != NO_CPU && self.threads.list[slot as usize].phase == Phase::Waiting {
            self.move_queue(slot, now, to);
        } else if to != NO_CPU {
            self.learn_allowed(slot, to);
        }
    }
}
