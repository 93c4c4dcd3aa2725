//! A context switch: who leaves and to what, who comes and how long it waited.

use trace::{At, TaskState, Tid};

use super::{Discard, Machine, Output, Switch, Trust};
use crate::sched::{
    cpus::Current,
    reason::Syscalls,
    result::{BlockReason, WaitCause},
    threads::{Inside, NO_CPU, Phase, Slot, StartedBy, Thread, Threads},
};

impl<O: Output> Machine<O> {
    /// A CPU goes from one thread to the next. `process` is that of the thread that leaves.
    #[inline]
    pub fn switch(&mut self, cpu: u16, at: &At, event: &Switch<'_>, process: Option<Tid>) {
        let now = at.time.0;
        if let Some(tid) = at.tid
            && tid.0 > 0
            && self.trust != Trust::No
        {
            self.trust = if tid == event.prev.tid { Trust::Yes } else { Trust::No };
        }
        if now >= self.window.0 {
            self.cpus.list[cpu as usize].switches += 1;
        }
        let held = self.cpus.take_held(cpu, now);
        if held > 0 {
            self.charge(cpu, event.prev.tid, held);
        }
        let prev = self.leave(cpu, now, event);
        if let (Some(slot), Some(process), Trust::Yes) = (prev, process, self.trust) {
            self.threads.list[slot as usize].process = Some(process);
        }
        let next = event.next.tid;
        if next == Tid::IDLE {
            self.set_current(cpu, Current::Idle, now);
        } else if Threads::valid(next) {
            let slot = self.owner(next, now);
            self.seen(slot, &event.next);
            self.enter(slot, cpu, now);
            self.set_current(cpu, Current::Thread(slot), now);
        } else {
            self.impossible += 1;
            self.set_current(cpu, Current::Unknown, now);
        }
    }

    /// Counted threads waited while `cpu` was with whom `prev_tid` says, if that was known.
    #[inline]
    pub(super) fn charge(&mut self, cpu: u16, prev_tid: Tid, held: u64) {
        match self.cpus.list[cpu as usize].current {
            Current::Thread(slot) if self.threads.list[slot as usize].key.tid == prev_tid => {
                self.threads.list[slot as usize].totals.kept_others += held;
            }
            Current::Idle if prev_tid == Tid::IDLE => self.kept_by_idle += held,
            _ => self.kept_by_unknown += held,
        }
    }

    /// The first half of a switch: who leaves, and to what.
    #[inline]
    pub(super) fn leave(&mut self, cpu: u16, now: u64, event: &Switch<'_>) -> Option<Slot> {
        let current = self.cpus.list[cpu as usize].current;
        let never = current == Current::Never;
        let state = &mut self.cpus.list[cpu as usize];
        (state.hard, state.soft) = (0, false);
        if !Threads::valid(event.prev.tid) {
            match current {
                Current::Never => self.set_current(cpu, Current::Idle, now),
                Current::Thread(_) => self.gap(cpu, now),
                Current::Idle | Current::Unknown => {}
            }
            self.impossible += u64::from(event.prev.tid != Tid::IDLE);
            self.cpus.account(cpu, now);
            return None;
        }
        let slot = self.owner(event.prev.tid, now);
        if current != Current::Thread(slot) {
            if matches!(current, Current::Thread(_) | Current::Idle) {
                self.gap(cpu, now);
            }
            self.found_running(slot, cpu, now, never);
            if never {
                self.set_current(cpu, Current::Thread(slot), now);
            }
        }
        self.cpus.account(cpu, now);
        self.run_until(slot, now);
        self.seen(slot, &event.prev);
        let in_window = now >= self.window.0;
        let thread = &mut self.threads.list[slot as usize];
        thread.ran_unwoken_at = 0;
        match event.prev_state {
            TaskState::Runnable | TaskState::Preempted => {
                thread.totals.involuntary += u64::from(in_window);
                self.begin_wait(slot, now, WaitCause::Preemption, StartedBy::Switch, cpu);
            }
            TaskState::Dead | TaskState::Zombie => self.die(slot, now),
            TaskState::Unknown if thread.exiting => self.die(slot, now),
            TaskState::Unknown => thread.phase = Phase::OffUnknown,
            state => {
                thread.totals.voluntary += u64::from(in_window);
                thread.phase = Phase::Blocked;
                thread.state = state;
                thread.reason = block_reason(thread, state, self.syscalls);
            }
        }
        Some(slot)
    }

    /// The second half of a switch: who comes, and how long it waited.
    #[inline]
    pub(super) fn enter(&mut self, slot: Slot, cpu: u16, now: u64) {
        let mut woken = false;
        match self.threads.list[slot as usize].phase {
            Phase::Waiting => {
                woken = self.threads.list[slot as usize].cause == WaitCause::Wakeup;
                self.end_wait(slot, cpu, now);
            }
            Phase::Running => {
                self.found_running(slot, cpu, now, false);
            }
            Phase::Unseen if self.has_wakeups => {
                let thread = &mut self.threads.list[slot as usize];
                let start = self.start.unwrap_or(now).max(self.window.0);
                thread.totals.wait_cut += now.saturating_sub(start);
                if now >= self.window.0 && self.cpus.is_selected(cpu) {
                    thread.totals.intervals.cut_at_start += 1;
                    self.wait_intervals.cut_at_start += u64::from(thread.counted);
                }
            }
            Phase::Blocked if self.has_wakeups => {
                self.losses.switched_in_without_wakeup += 1;
                self.discard_blocked(slot, Discard::Gap);
                self.threads.list[slot as usize].ran_unwoken_at = now;
            }
            Phase::Blocked => {
                // No wakeups in this trace: somewhere in between the blocked time ended.
                self.discard_blocked(slot, Discard::Gap);
            }
            Phase::Unseen | Phase::Unknown | Phase::Made | Phase::OffUnknown | Phase::Dead => {}
        }
        if !self.ran_on.has(slot, cpu) {
            self.ran_on.add(slot, cpu);
        }
        self.learn_allowed(slot, cpu);
        let in_window = u64::from(now >= self.window.0);
        let thread = &mut self.threads.list[slot as usize];
        let totals = &mut thread.totals;
        totals.switched_in += in_window;
        let moves = &mut totals.migrations;
        moves.migrations += in_window * u64::from(thread.last_cpu != cpu && thread.last_cpu != NO_CPU);
        if woken {
            moves.wakeups += in_window;
            moves.cross_cpu_wakeups +=
                in_window * u64::from(thread.waker_cpu != cpu && thread.waker_cpu != NO_CPU);
        }
        thread.phase = Phase::Running;
        thread.since = now;
        thread.last_cpu = cpu;
    }
}

fn block_reason(thread: &Thread, state: TaskState, syscalls: Syscalls) -> BlockReason {
    match (state, thread.inside) {
        (TaskState::Stopped | TaskState::Traced, _) => BlockReason::Stopped,
        (TaskState::Idle | TaskState::Parked, _) => BlockReason::KernelThread,
        _ if thread.kernel => BlockReason::KernelThread,
        (_, Inside::Syscall(number)) => syscalls.reason(number, state),
        (_, Inside::User { faulted: true }) => BlockReason::PageFault,
        (_, Inside::User { faulted: false } | Inside::Unknown) => BlockReason::Unknown,
    }
}
