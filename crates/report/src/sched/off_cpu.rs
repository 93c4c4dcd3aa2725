//! Blocked time: in which state, for which reason, and who ended it.

use analysis::{
    distribution::{self, Quantiles},
    sched::{
        SchedResult,
        result::{BlockReason, Waker},
    },
};
use trace::TaskState;

use super::waits;
use crate::{
    document::Section,
    number::{count, time},
    table::{Column, Table, Unit, Value},
};

/// The section about blocked time.
pub fn section(result: &SchedResult) -> Section {
    let off = &result.off_cpu;
    let mut section = Section::new("off_cpu", "What threads blocked on").detail().lead(format!(
        "From switching off to the wakeup that ended it. {}",
        waits::stands_behind(&off.intervals)
    ));
    // Without system calls in the trace there is but one reason: not known.
    if off.by_reason.iter().any(|r| r.reason != BlockReason::Unknown) {
        let rows = off.by_reason.iter().map(|r| (reason(r.reason).to_owned(), &r.blocked));
        section = section.with(table("blocked_by_reason", "reason", "reasons", rows));
    }
    if !off.by_state.is_empty() {
        let rows = off.by_state.iter().map(|s| (state(s.state), &s.blocked));
        section = section.with(table("blocked_by_state", "state", "states", rows));
    }
    if !off.wakers.is_empty() {
        section = section.with(wakers(result));
        let other = off.other_wakers;
        if other.count > 0 {
            section = section.with(format!(
                "Pairs not listed: {} wakeups that ended {} of blocked time.",
                count(other.count),
                time(other.time_ns)
            ));
        }
    }
    section
}

fn table<'a>(
    id: &'static str,
    head: &'static str,
    row_name: &'static str,
    rows: impl Iterator<Item = (String, &'a distribution::Distribution)>,
) -> Table {
    let mut table = Table::new(
        id,
        row_name,
        vec![
            Column::new("name", head, Unit::Text).essential(),
            Column::new("blocked", "total", Unit::Nanos).essential(),
            Column::new("times", "times", Unit::Count).essential(),
            Column::new("p50", "p50", Unit::Nanos).over("blocked once").essential(),
            Column::new("p90", "p90", Unit::Nanos).over("blocked once"),
            Column::new("p99", "p99", Unit::Nanos).over("blocked once").essential(),
            Column::new("p99_9", "p99.9", Unit::Nanos).over("blocked once"),
            Column::new("max", "max", Unit::Nanos).over("blocked once").essential(),
        ],
    );
    for (name, blocked) in rows {
        let quantile = |pick: fn(Quantiles) -> u64| {
            Value::or_missing(blocked.quantiles.map(|q| Value::Nanos(pick(q))), "no complete interval")
        };
        table.push(vec![
            Value::text(name),
            Value::Nanos(blocked.sum_ns),
            Value::Count(blocked.count),
            quantile(|q| q.p50_ns),
            quantile(|q| q.p90_ns),
            quantile(|q| q.p99_ns),
            quantile(|q| q.p999_ns),
            quantile(|q| q.max_ns),
        ]);
    }
    table
}

fn wakers(result: &SchedResult) -> Table {
    let mut table = Table::new(
        "wakers",
        "pairs",
        vec![
            Column::new("waker", "woken by", Unit::Text).essential(),
            Column::new("woken", "woken", Unit::Text).essential(),
            Column::new("woken_tid", "tid", Unit::Id),
            Column::new("times", "times", Unit::Count).essential(),
            Column::new("blocked", "blocked before", Unit::Nanos).essential(),
            Column::new("max", "longest", Unit::Nanos),
        ],
    )
    .title("Who woke whom")
    .about("The longest blocked time first.")
    .brief(10);
    for pair in &result.off_cpu.wakers {
        table.push(vec![
            match pair.waker {
                Waker::Thread(key) => Value::text(format!("{} [{}]", pair.waker_name, key.tid.0)),
                Waker::Interrupt => Value::text("interrupt"),
                Waker::Unknown => Value::missing("lost events hide the waker"),
            },
            Value::text(pair.woken_name.clone()),
            Value::Id(pair.woken.tid.0.into()),
            Value::Count(pair.blocked.count),
            Value::Nanos(pair.blocked.time_ns),
            Value::Nanos(pair.blocked.max_ns),
        ]);
    }
    table
}

fn state(state: TaskState) -> String {
    let words = match state {
        TaskState::Runnable => "runnable",
        TaskState::Preempted => "preempted",
        TaskState::Sleeping => "interruptible sleep",
        TaskState::Uninterruptible => "uninterruptible sleep",
        TaskState::Stopped => "stopped by a signal",
        TaskState::Traced => "stopped by a tracer",
        TaskState::Dead => "dead",
        TaskState::Zombie => "zombie",
        TaskState::Parked => "parked kernel thread",
        TaskState::Idle => "idle kernel thread",
        TaskState::Unknown => return "not known".to_owned(),
    };
    format!("{words} ({})", state.letters())
}

fn reason(reason: BlockReason) -> &'static str {
    match reason {
        BlockReason::Futex => "lock or condition (futex)",
        BlockReason::Sleep => "sleep",
        BlockReason::Poll => "poll, select, epoll",
        BlockReason::Network => "socket call",
        BlockReason::Child => "child process",
        BlockReason::Sync => "fsync and the like",
        BlockReason::BlockIo => "storage",
        BlockReason::PipeOrSocket => "pipe, socket or terminal",
        BlockReason::PageFault => "page fault",
        BlockReason::OtherSyscall => "another system call",
        BlockReason::KernelThread => "kernel thread without work",
        BlockReason::Stopped => "stopped",
        BlockReason::Unknown => "not known (system calls not traced)",
    }
}
