//! Wakeups: what ends a blocked time, and who ended it.

use trace::{At, TaskState, Tid};

use super::{Discard, LATE_WAKEUP, Machine, Named, Output, Woken};
use crate::sched::{
    cpus::Current,
    result::{BlockReason, WaitCause},
    threads::{NO_CPU, Phase, Slot, StartedBy, Thread, Threads, WokenBy},
};

impl<O: Output> Machine<O> {
    /// `sched_waking`, or `sched_wakeup`.
    #[inline]
    pub fn woken(&mut self, cpu: u16, at: &At, woken: &Woken<'_>, by: StartedBy) {
        let Named { tid, .. } = woken.thread;
        let now = at.time.0;
        if !Threads::valid(tid) {
            self.impossible += u64::from(tid != Tid::IDLE);
            return;
        }
        let queue = self.target(woken.target);
        let slot = self.owner(tid, now);
        self.seen(slot, &woken.thread);
        let owed = self.threads.list[slot as usize].owes_wakeup;
        self.threads.list[slot as usize].owes_wakeup = by == StartedBy::Waking;
        match self.threads.list[slot as usize].phase {
            // A waking finds only threads that have set about to sleep. This one has been woken
            // since, so it ran and blocked again unseen, and this is another wait.
            Phase::Waiting
                if by == StartedBy::Waking
                    && self.threads.list[slot as usize].woken_waiting
                    && !self.may_run_unseen(slot) =>
            {
                self.losses.gaps += 1;
                self.discard_wait(slot, now, Discard::Gap);
            }
            Phase::Waiting => {
                self.threads.list[slot as usize].woken_waiting |= by == StartedBy::Waking;
                if queue != NO_CPU && by == StartedBy::Wakeup {
                    self.move_queue(slot, now, queue);
                }
                return;
            }
            Phase::Running => {
                // Woken on its way to sleep, before the switch that takes it off: the waking
                // begins nothing, and the wakeup that follows the switch is the first of a
                // sleeping thread, not the late half of an earlier wait.
                self.threads.list[slot as usize].owes_wakeup = false;
                let ran_at = std::mem::take(&mut self.threads.list[slot as usize].ran_unwoken_at);
                if ran_at != 0 && now.saturating_sub(ran_at) < LATE_WAKEUP {
                    self.effect_before_cause(now - ran_at);
                }
                return;
            }
            // The wakeup whose waking began the wait that is over already: clocks differ.
            Phase::Blocked if by == StartedBy::Wakeup && owed => {
                return self.effect_before_cause(now.saturating_sub(self.threads.list[slot as usize].since));
            }
            Phase::Blocked => self.end_blocked(slot, cpu, now),
            Phase::OffUnknown => {
                let thread = &mut self.threads.list[slot as usize];
                thread.state = TaskState::Unknown;
                thread.reason = BlockReason::Unknown;
                self.end_blocked(slot, cpu, now);
            }
            Phase::Unseen => {
                let start = self.start.unwrap_or(now).max(self.window.0);
                let thread = &mut self.threads.list[slot as usize];
                let time = now.saturating_sub(start);
                thread.totals.add_blocked(TaskState::Unknown, BlockReason::Unknown, time);
                if thread.counted && now >= self.window.0 {
                    self.off_intervals.cut_at_start += 1;
                }
            }
            Phase::Unknown | Phase::Made | Phase::Dead => {}
        }
        let waker = self.waker(cpu);
        let unseen = self.threads.list[slot as usize].phase == Phase::Unseen;
        let thread = &mut self.threads.list[slot as usize];
        thread.woken_by = waker;
        thread.waker_cpu = cpu;
        thread.state = TaskState::Sleeping;
        if unseen {
            thread.state = TaskState::Unknown;
        }
        self.begin_wait(slot, now, WaitCause::Wakeup, by, queue);
    }

    /// Whether a thread thought to wait may have been running since before the trace.
    #[cold]
    pub(super) fn may_run_unseen(&self, slot: Slot) -> bool {
        self.threads.list[slot as usize].began_waiting_unseen()
            && self.cpus.list.iter().any(|c| c.current == Current::Never)
    }

    pub(super) fn end_blocked(&mut self, slot: Slot, cpu: u16, now: u64) {
        let since = self.threads.list[slot as usize].since;
        if now < since {
            self.effect_before_cause(since - now);
            return self.discard_blocked(slot, Discard::Clock);
        }
        if self.in_doubt(slot) {
            return self.discard_blocked(slot, Discard::Loss);
        }
        let waker = self.waker(cpu);
        let thread = &mut self.threads.list[slot as usize];
        let time = now.saturating_sub(since.max(self.window.0));
        thread.totals.add_blocked(thread.state, thread.reason, time);
        if !thread.counted {
            return;
        }
        if since < self.window.0 {
            self.off_intervals.cut_at_start += u64::from(now >= self.window.0);
            return;
        }
        self.off_intervals.complete += 1;
        self.out.blocked(thread, thread.state, thread.reason, time);
        if O::ALL {
            self.wakers.add(waker, slot, &mut thread.last_pair, time);
        }
    }

    /// Who wakes on this CPU now.
    #[inline]
    pub(super) fn waker(&self, cpu: u16) -> WokenBy {
        let state = &self.cpus.list[cpu as usize];
        match state.current {
            _ if state.hard > 0 || state.soft => WokenBy::Interrupt,
            Current::Thread(slot) => WokenBy::Thread(slot),
            Current::Idle => WokenBy::Interrupt,
            Current::Unknown | Current::Never => WokenBy::Unknown,
        }
    }

    /// `sched_wakeup_new`.
    pub fn woken_new(&mut self, at: &At, woken: &Woken<'_>) {
        let Named { tid, .. } = woken.thread;
        let now = at.time.0;
        if !Threads::valid(tid) {
            self.impossible += 1;
            return;
        }
        let queue = self.target(woken.target);
        let slot = match self.threads.find(tid) {
            Some(slot) if self.threads.list[slot as usize].phase == Phase::Made => slot,
            _ => self.newborn(tid, now),
        };
        self.seen(slot, &woken.thread);
        self.threads.list[slot as usize].owes_wakeup = false;
        self.begin_wait(slot, now, WaitCause::New, StartedBy::WakeupNew, queue);
    }
}

impl Thread {
    /// Whether its present wait follows a blocked time deduced from before the trace.
    pub(super) fn began_waiting_unseen(&self) -> bool {
        self.phase == Phase::Waiting
            && self.state == TaskState::Unknown
            && self.last_cpu == NO_CPU
            && !self.began
    }
}
