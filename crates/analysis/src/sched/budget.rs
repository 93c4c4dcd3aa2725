//! Where one thread's time went.

use super::{
    result::{BlockReason, TimeBudget},
    threads::{Thread, blocked_state},
};

/// A thread's budget; the remainder is what is left of the span.
pub(crate) fn budget(thread: &Thread, span: Option<(u64, u64)>) -> TimeBudget {
    let totals = &thread.totals;
    let (start, end) = span.unwrap_or((0, 0));
    let span_ns = thread.end.unwrap_or(end).min(end).saturating_sub(thread.first.max(start));
    let stolen = totals.irq + totals.softirq;
    let mut budget = TimeBudget {
        span_ns,
        running_ns: totals.on_cpu.saturating_sub(stolen),
        wakeup_wait_ns: totals.wait_budget[0],
        preemption_wait_ns: totals.wait_budget[1],
        cut_wait_ns: totals.wait_cut,
        blocked_ns: totals.blocked,
        stolen_by_irq_ns: totals.irq,
        stolen_by_softirq_ns: totals.softirq,
        remainder_ns: 0,
        blocked_by_state: Vec::new(),
        blocked_by_reason: Vec::new(),
    };
    let known = budget.running_ns + stolen + budget.waiting_ns() + budget.blocked_ns;
    budget.remainder_ns = span_ns.saturating_sub(known);
    for (index, ns) in totals.blocked_by_state.iter().enumerate().filter(|(_, ns)| **ns > 0) {
        budget.blocked_by_state.push((blocked_state(index), *ns));
    }
    for reason in BlockReason::ALL {
        let ns = totals.blocked_by_reason[reason as usize];
        if ns > 0 {
            budget.blocked_by_reason.push((reason, ns));
        }
    }
    budget
}
