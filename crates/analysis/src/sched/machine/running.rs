//! Who runs on a CPU, as switches and the current thread that records carry tell.

use trace::{TaskState, Tid};

use super::{Discard, Machine, Output};
use crate::sched::{
    cpus::Current,
    result::BlockReason,
    threads::{Phase, Slot, Threads},
};

impl<O: Output> Machine<O> {
    /// An event names another current thread than was known.
    #[cold]
    pub(super) fn learn_current(&mut self, cpu: u16, now: u64, tid: Tid) {
        let never = self.cpus.list[cpu as usize].current == Current::Never;
        if tid == Tid::IDLE {
            if never {
                self.set_current(cpu, Current::Idle, now);
            }
            return;
        }
        if !Threads::valid(tid) {
            return;
        }
        if matches!(self.cpus.list[cpu as usize].current, Current::Thread(_) | Current::Idle) {
            self.gap(cpu, now);
        }
        let slot = self.owner(tid, now);
        self.found_running(slot, cpu, now, never);
        if !never {
            self.cpus.account(cpu, now);
        }
        self.set_current(cpu, Current::Thread(slot), now);
    }

    pub(super) fn set_current(&mut self, cpu: u16, current: Current, now: u64) {
        let state = &mut self.cpus.list[cpu as usize];
        if state.current == current {
            return;
        }
        let was_thread = matches!(state.current, Current::Thread(_));
        state.current = current;
        let idle = current == Current::Idle;
        let changed = was_thread != matches!(current, Current::Thread(_)) || self.cpus.is_idle(cpu) != idle;
        self.cpus.set_idle(cpu, idle);
        if changed && O::ALL {
            self.beside.cpu_changed(cpu, now, &self.threads.list, &self.allowed, &self.cpus);
        }
    }

    /// What the CPU was running it left at an unknown moment after its last event.
    #[cold]
    pub(super) fn gap(&mut self, cpu: u16, now: u64) {
        self.losses.gaps += 1;
        let known_until = self.before.max(self.cpus.list[cpu as usize].since);
        self.forget_current(cpu, known_until, now);
    }

    /// The CPU's current is unknown from `known_until` on.
    pub(super) fn forget_current(&mut self, cpu: u16, known_until: u64, now: u64) {
        if let Current::Thread(slot) = self.cpus.list[cpu as usize].current {
            self.run_until(slot, known_until);
            self.threads.list[slot as usize].phase = Phase::Unknown;
        }
        self.cpus.account(cpu, known_until);
        let state = &mut self.cpus.list[cpu as usize];
        (state.hard, state.soft) = (0, false);
        self.set_current(cpu, Current::Unknown, now);
    }

    /// A thread turns out to be on a CPU though no switch to it was seen.
    pub(super) fn found_running(&mut self, slot: Slot, cpu: u16, now: u64, never: bool) {
        let by_loss = self.any_loss && self.cpus.list[cpu as usize].current == Current::Unknown;
        let discard = if by_loss { Discard::Loss } else { Discard::Gap };
        let start = self.start.unwrap_or(now);
        let mut since = now;
        let thread = &mut self.threads.list[slot as usize];
        match thread.phase {
            Phase::Running if thread.last_cpu == cpu => return,
            Phase::Running => {
                // Two CPUs cannot run it: the other has lost it unseen.
                let other = thread.last_cpu;
                self.losses.gaps += 1;
                let known_until =
                    self.cpus.list[other as usize].last.max(self.cpus.list[other as usize].since).min(now);
                self.forget_current(other, known_until, now);
            }
            Phase::Unseen if never => since = start.min(now),
            // A thread that runs since before the trace may be "woken" while it is about to
            // sleep: what that wakeup made us deduce is taken back.
            Phase::Waiting if never && thread.began_waiting_unseen() => {
                let deduced = thread.since.saturating_sub(start.max(self.window.0));
                thread.totals.take_back_blocked(TaskState::Unknown, BlockReason::Unknown, deduced);
                if thread.counted && thread.since >= self.window.0 {
                    self.off_intervals.cut_at_start -= 1;
                }
                let (queue, from) = (thread.queue_cpu, thread.since);
                self.stop_waiting(slot, now);
                self.cpus.did_not_wait(queue, from, now);
                since = start.min(now);
            }
            Phase::Waiting => self.discard_wait(slot, now, discard),
            Phase::Blocked => self.discard_blocked(slot, discard),
            Phase::Unseen | Phase::Unknown | Phase::Made | Phase::OffUnknown | Phase::Dead => {}
        }
        self.ran_on.add(slot, cpu);
        self.learn_allowed(slot, cpu);
        let thread = &mut self.threads.list[slot as usize];
        thread.phase = Phase::Running;
        thread.since = since;
        thread.last_cpu = cpu;
    }

    /// Accounts a running thread up to `to`.
    #[inline]
    pub(super) fn run_until(&mut self, slot: Slot, to: u64) {
        let thread = &mut self.threads.list[slot as usize];
        thread.totals.on_cpu += to.saturating_sub(thread.since.max(self.window.0));
        thread.totals.longest_run = thread.totals.longest_run.max(to.saturating_sub(thread.since));
        thread.since = to;
    }
}
