//! Time that interrupts take from the running thread, and where in the kernel it is.

use super::{Machine, Output};
use crate::sched::{cpus::Current, threads::Inside};

impl<O: Output> Machine<O> {
    /// A hardware interrupt's handler begins or ends on this CPU.
    #[inline]
    pub fn irq(&mut self, cpu: u16, now: u64, begins: bool) {
        let state = &mut self.cpus.list[cpu as usize];
        if begins {
            state.hard += 1;
            if state.hard == 1 {
                state.hard_since = now;
                if state.soft {
                    let since = state.soft_since;
                    self.steal(cpu, since, now, false);
                }
            }
        } else if state.hard > 0 {
            state.hard -= 1;
            if state.hard == 0 {
                let since = state.hard_since;
                state.soft_since = now;
                self.steal(cpu, since, now, true);
            }
        }
    }

    /// A softirq begins or ends on this CPU.
    #[inline]
    pub fn softirq(&mut self, cpu: u16, now: u64, begins: bool) {
        let state = &mut self.cpus.list[cpu as usize];
        if !begins && state.soft {
            let since = state.soft_since;
            self.steal(cpu, since, now, false);
        }
        let state = &mut self.cpus.list[cpu as usize];
        state.soft = begins;
        state.soft_since = now;
    }

    #[inline]
    pub(super) fn steal(&mut self, cpu: u16, since: u64, now: u64, hard: bool) {
        let time = now.saturating_sub(since.max(self.window.0));
        let state = &mut self.cpus.list[cpu as usize];
        let victim = match state.current {
            Current::Thread(slot) => Some(&mut self.threads.list[slot as usize]),
            _ => None,
        };
        // Softirqs are what ksoftirqd is for.
        if !hard && victim.as_ref().is_some_and(|t| t.is_ksoftirqd) {
            return;
        }
        *(if hard { &mut state.irq } else { &mut state.softirq }) += time;
        if let Some(thread) = victim {
            *(if hard { &mut thread.totals.irq } else { &mut thread.totals.softirq }) += time;
        }
    }

    /// The current thread of a CPU is now inside this.
    #[inline]
    pub fn inside(&mut self, cpu: u16, inside: Inside) {
        if let Current::Thread(slot) = self.cpus.list[cpu as usize].current {
            let thread = &mut self.threads.list[slot as usize];
            match inside {
                // A fault within a system call belongs to the call.
                Inside::User { faulted: true } if matches!(thread.inside, Inside::Syscall(_)) => {}
                inside => thread.inside = inside,
            }
        }
    }
}
