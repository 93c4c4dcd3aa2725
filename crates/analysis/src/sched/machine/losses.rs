//! Losses: which intervals they touch, and what becomes unknown by them.

use trace::Loss;

use super::{Discard, Machine, Output};
use crate::sched::{
    cpus::Current,
    result::{Losses, WaitCause},
    threads::{NO_CPU, Phase, Slot},
};

impl<O: Output> Machine<O> {
    /// Events are missing.
    #[cold]
    pub fn lost(&mut self, loss: &Loss) {
        self.losses.record(loss);
        self.any_loss = true;
        let cpus: Vec<u16> = match loss.cpu {
            Some(cpu) if self.cpus.ensure(cpu.0) => vec![cpu.0 as u16],
            Some(_) => return,
            None => (0..self.cpus.list.len() as u16).collect(),
        };
        for &cpu in &cpus {
            let state = &mut self.cpus.list[cpu as usize];
            state.lost += if loss.cpu.is_some() { loss.count.unwrap_or(0) } else { 0 };
            if !state.seen {
                state.current = Current::Unknown;
                continue;
            }
            // Where the loss is told late, events of other CPUs from within it have been taken.
            let known_until = loss.from.0.max(state.since).min(self.end.max(state.since));
            if state.current != Current::Unknown {
                self.forget_current(cpu, known_until, self.end);
            }
        }
        self.doubt_open_intervals(loss);
        if loss.to.0 > self.end {
            self.open_losses.push(*loss);
            self.next_loss_end = self.next_loss_end.min(loss.to.0);
        }
    }

    /// Whether a loss is going on of events that may concern the thread.
    #[inline]
    pub(super) fn in_doubt(&self, slot: Slot) -> bool {
        !self.open_losses.is_empty() && self.open_losses.iter().any(|l| self.may_concern(l, slot))
    }

    pub(super) fn may_concern(&self, loss: &Loss, slot: Slot) -> bool {
        let thread = &self.threads.list[slot as usize];
        match loss.cpu {
            None => true,
            Some(_) if thread.phase == Phase::Unseen => true,
            Some(cpu) => self.allowed.has(slot, cpu.0.min(u32::from(NO_CPU)) as u16),
        }
    }

    /// Losses that were told when they began end now.
    #[cold]
    pub(super) fn end_losses(&mut self, now: u64) {
        for loss in std::mem::take(&mut self.open_losses) {
            if loss.to.0 > now {
                self.open_losses.push(loss);
            } else {
                self.doubt_open_intervals(&loss);
            }
        }
        self.next_loss_end = self.open_losses.iter().map(|l| l.to.0).min().unwrap_or(u64::MAX);
    }

    /// Off-CPU intervals that overlap with a loss may have been several, with runs between.
    pub(super) fn doubt_open_intervals(&mut self, loss: &Loss) {
        for slot in 0..self.threads.list.len() as Slot {
            let thread = &self.threads.list[slot as usize];
            let off =
                matches!(thread.phase, Phase::Waiting | Phase::Blocked | Phase::OffUnknown | Phase::Unseen);
            if off
                && (thread.since <= loss.to.0 || thread.phase == Phase::Unseen)
                && self.may_concern(loss, slot)
            {
                self.forget_off_cpu(slot, loss.from.0);
            }
        }
    }

    /// What a thread off the CPU does is unknown from here on; up to `known_until`, it is known.
    pub(super) fn forget_off_cpu(&mut self, slot: Slot, known_until: u64) {
        let thread = &mut self.threads.list[slot as usize];
        let known = known_until.saturating_sub(thread.since.max(self.window.0));
        match thread.phase {
            Phase::Waiting => {
                thread.totals.wait_budget[usize::from(thread.cause == WaitCause::Preemption)] += known;
                self.discard_wait(slot, self.end, Discard::Loss);
            }
            Phase::Blocked => {
                thread.totals.add_blocked(thread.state, thread.reason, known);
                self.discard_blocked(slot, Discard::Loss);
            }
            _ => {}
        }
        self.threads.list[slot as usize].phase = Phase::Unknown;
    }
}

impl Losses {
    const LISTED: usize = 1000;

    fn record(&mut self, loss: &Loss) {
        match loss.count {
            Some(count) => self.events += count,
            None => self.uncounted += 1,
        }
        if self.intervals.len() < Losses::LISTED {
            self.intervals.push(*loss);
        } else {
            self.intervals_not_listed += 1;
        }
    }
}
