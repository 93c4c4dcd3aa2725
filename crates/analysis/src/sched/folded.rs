//! Exited threads beyond the number that have a row of their own.

use std::collections::HashMap;

use trace::Comm;

use super::{
    budget::budget,
    result::{FoldedThreads, IdleBeside, Migrations, TimeBudget},
    threads::{Phase, Thread},
};

#[derive(Debug, Default)]
pub(crate) struct Folded {
    pub sum: FoldedThreads,
    pub moves: Migrations,
    pub beside: IdleBeside,
    pub held: IdleBeside,
    /// Time that counted threads waited for the CPU of these, by their name and whether they
    /// are counted themselves: how many, and the time.
    pub kept_others: HashMap<(Comm, bool), (u64, u64)>,
}

impl Folded {
    pub fn add(&mut self, thread: &Thread, span: Option<(u64, u64)>) {
        self.add_kept(thread);
        if !thread.counted || thread.phase == Phase::Unseen {
            return;
        }
        let totals = &thread.totals;
        self.sum.threads += 1;
        self.sum.switched_in += totals.switched_in;
        for kind in 0..2 {
            self.sum.wait.count += totals.wait_count[kind];
            self.sum.wait.time_ns += totals.wait_time[kind];
            self.sum.wait.max_ns = self.sum.wait.max_ns.max(totals.wait_max[kind]);
        }
        self.sum.budget.add(budget(thread, span));
        self.moves.merge(&totals.migrations);
        self.beside.merge(&totals.idle_beside);
        self.held.merge(&totals.held_back);
    }
}

impl Folded {
    /// Adds what a thread kept others waiting.
    pub fn add_kept(&mut self, thread: &Thread) {
        if thread.totals.kept_others > 0 {
            let sum = self.kept_others.entry((thread.comm, thread.counted)).or_default();
            sum.0 += 1;
            sum.1 += thread.totals.kept_others;
        }
    }
}

impl TimeBudget {
    fn add(&mut self, other: TimeBudget) {
        self.span_ns += other.span_ns;
        self.running_ns += other.running_ns;
        self.wakeup_wait_ns += other.wakeup_wait_ns;
        self.preemption_wait_ns += other.preemption_wait_ns;
        self.cut_wait_ns += other.cut_wait_ns;
        self.blocked_ns += other.blocked_ns;
        self.stolen_by_irq_ns += other.stolen_by_irq_ns;
        self.stolen_by_softirq_ns += other.stolen_by_softirq_ns;
        self.remainder_ns += other.remainder_ns;
        add_by_key(&mut self.blocked_by_state, other.blocked_by_state);
        add_by_key(&mut self.blocked_by_reason, other.blocked_by_reason);
    }
}

fn add_by_key<K: PartialEq>(sums: &mut Vec<(K, u64)>, more: Vec<(K, u64)>) {
    for (key, ns) in more {
        match sums.iter_mut().find(|s| s.0 == key) {
            Some((_, sum)) => *sum += ns,
            None => sums.push((key, ns)),
        }
    }
}
