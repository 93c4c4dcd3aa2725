//! Who waits, and where each thread's time went.

use analysis::sched::{
    SchedResult,
    result::{BlockReason, ThreadReport, TimeBudget},
};

use crate::{
    chart::{Budget, Meaning, Part},
    document::Section,
    number::{count, time},
    table::{Column, Table, Unit, Value},
};

/// Threads by their waits.
pub fn section(result: &SchedResult) -> Section {
    let mut section = Section::new("threads", "Who waits");
    if result.threads.is_empty() {
        return section;
    }
    let mut table = Table::new(
        "threads",
        "threads",
        vec![
            Column::new("thread", "thread", Unit::Text).essential(),
            Column::new("tid", "tid", Unit::Id).essential(),
            Column::new("wait", "total wait", Unit::Nanos).essential(),
            Column::new("wait", "of its time", Unit::Share)
                .about("Waiting for a CPU as a part of the time the thread was observed.")
                .essential(),
            Column::new("waits", "waits", Unit::Count).about("Completed waits for a CPU.").essential(),
            Column::new("p50", "p50", Unit::Nanos).over("one wait").essential(),
            Column::new("p90", "p90", Unit::Nanos).over("one wait"),
            Column::new("p99", "p99", Unit::Nanos).over("one wait").essential(),
            Column::new("p99_9", "p99.9", Unit::Nanos).over("one wait"),
            Column::new("max", "max", Unit::Nanos).over("one wait").essential(),
            Column::new("running", "run time", Unit::Nanos),
            Column::new("switched_in", "runs", Unit::Count).about("Times it was switched in.").detail(),
            Column::new("preempted", "preempted", Unit::Count)
                .about("Switches off while it still wanted the CPU.")
                .detail(),
            where_any(
                result.threads.iter().any(|t| t.idle_beside.time_ns > 0),
                Column::new("beside_idle", "beside idle CPU", Unit::Nanos)
                    .about("Waited while another CPU that it may use was idle."),
            ),
            where_any(
                result.threads.iter().any(|t| t.held_back.time_ns > 0),
                Column::new("held_back", "held back", Unit::Nanos)
                    .about("Waited though the CPU it waited for was idle: held back, as by a CPU quota."),
            ),
            Column::new("process", "process", Unit::Id).detail(),
            Column::new("priority", "prio", Unit::Id)
                .about("The kernel's number: 0–99 real-time, 100–139 normal.")
                .detail(),
            Column::new("wakeup_wait", "after wakeup", Unit::Nanos).over("total wait").detail(),
            Column::new("preemption_wait", "after preemption", Unit::Nanos).over("total wait").detail(),
            Column::new("voluntary", "blocked", Unit::Count)
                .about("Switches off in which it blocked.")
                .detail(),
            Column::new("longest_run", "longest run", Unit::Nanos).detail(),
            Column::new("migrations", "migrations", Unit::Count).detail(),
            Column::new("cross_cpu_wakeups", "cross-CPU wakeups", Unit::Count).detail(),
            Column::new("cgroup", "cgroup", Unit::Text).detail(),
            Column::new("life", "began, ended", Unit::Text).about("Within the trace.").detail(),
        ],
    )
    .about("The longest total wait first.")
    .brief(12);
    // The analysis counts waits that the trace cuts off too, which have no column here.
    let mut by_wait: Vec<&ThreadReport> = result.threads.iter().collect();
    by_wait.sort_by_key(|thread| std::cmp::Reverse(complete_wait(thread)));
    for thread in by_wait {
        table.push(row(thread));
    }
    section = section.with(table);
    if let Some(folded) = &result.folded_threads {
        section = section.with(format!(
            "{} more exited threads have no row of their own: they waited {} in {} waits and ran {}.",
            count(folded.threads),
            time(folded.wait.time_ns),
            count(folded.wait.count),
            time(folded.budget.running_ns),
        ));
    }
    section
}

fn complete_wait(thread: &ThreadReport) -> u64 {
    thread.budget.wakeup_wait_ns + thread.budget.preemption_wait_ns
}

fn row(thread: &ThreadReport) -> Vec<Value> {
    let budget = &thread.budget;
    let wait = complete_wait(thread);
    let quantile = |pick: fn(analysis::distribution::Quantiles) -> u64| {
        Value::or_missing(thread.wait.quantiles.map(|q| Value::Nanos(pick(q))), "no complete wait")
    };
    vec![
        Value::text(thread.name.clone()),
        Value::Id(thread.key.tid.0.into()),
        Value::Nanos(wait),
        share(wait, budget.span_ns),
        Value::Count(thread.wait.count),
        quantile(|q| q.p50_ns),
        quantile(|q| q.p90_ns),
        quantile(|q| q.p99_ns),
        quantile(|q| q.p999_ns),
        quantile(|q| q.max_ns),
        Value::Nanos(budget.running_ns),
        Value::Count(thread.switched_in),
        Value::Count(thread.involuntary_switches),
        Value::Nanos(thread.idle_beside.time_ns),
        Value::Nanos(thread.held_back.time_ns),
        Value::or_missing(thread.process.map(|p| Value::Id(p.0.into())), "its process is not known"),
        Value::or_missing(thread.priority.map(|p| Value::Id(p.into())), "no event carried its priority"),
        Value::Nanos(budget.wakeup_wait_ns),
        Value::Nanos(budget.preemption_wait_ns),
        Value::Count(thread.voluntary_switches),
        Value::Nanos(thread.longest_run_ns),
        Value::Count(thread.migrations.migrations),
        Value::Count(thread.migrations.cross_cpu_wakeups),
        Value::or_missing(thread.cgroup.clone().map(|c| Value::Text(c.into())), "its cgroup is not known"),
        Value::text(match (thread.began, thread.ended) {
            (true, true) => "began and ended",
            (true, false) => "began",
            (false, true) => "ended",
            (false, false) => "",
        }),
    ]
}

/// A column of nothing but zeros is there for who looks for it, but not in the way.
fn where_any(any: bool, column: Column) -> Column {
    if any { column } else { column.detail() }
}

/// A part of a span; nothing of nothing is no answer.
pub fn share(part: u64, whole: u64) -> Value {
    if whole == 0 { Value::missing("observed for no time") } else { Value::Share(part as f64 / whole as f64) }
}

/// The parts of a budget in drawing order, with the time of each.
type PartOf = (&'static str, &'static str, Meaning, fn(&TimeBudget) -> u64);
const PARTS: [PartOf; 9] = [
    ("running", "running", Meaning::Running, |b| b.running_ns),
    ("stolen", "interrupts", Meaning::Stolen, |b| b.stolen_by_irq_ns + b.stolen_by_softirq_ns),
    ("waiting", "waiting", Meaning::Waiting, TimeBudget::waiting_ns),
    ("storage", "storage", Meaning::BlockedIo, |b| blocked(b, &[BlockReason::BlockIo, BlockReason::Sync])),
    ("memory", "faults", Meaning::BlockedMemory, |b| blocked(b, &[BlockReason::PageFault])),
    ("lock", "locks", Meaning::BlockedLock, |b| blocked(b, &[BlockReason::Futex])),
    ("network", "pipes, net", Meaning::BlockedNetwork, |b| {
        blocked(b, &[BlockReason::Network, BlockReason::PipeOrSocket])
    }),
    ("asleep", "asleep", Meaning::Sleeping, |b| {
        b.blocked_ns.saturating_sub(blocked(
            b,
            &[
                BlockReason::BlockIo,
                BlockReason::Sync,
                BlockReason::PageFault,
                BlockReason::Futex,
                BlockReason::Network,
                BlockReason::PipeOrSocket,
            ],
        ))
    }),
    ("unknown", "unknown", Meaning::Unknown, |b| b.remainder_ns),
];

fn blocked(budget: &TimeBudget, reasons: &[BlockReason]) -> u64 {
    budget.blocked_by_reason.iter().filter(|(reason, _)| reasons.contains(reason)).map(|(_, time)| time).sum()
}

/// Where each thread's time went.
pub fn budget(result: &SchedResult) -> Section {
    let section = Section::new("budget", "Where each thread's time went");
    if result.threads.is_empty() {
        return section;
    }
    // A part that no thread has is no column.
    let parts: Vec<&PartOf> =
        PARTS.iter().filter(|(_, _, _, of)| result.threads.iter().any(|t| of(&t.budget) > 0)).collect();
    let mut columns = vec![
        Column::new("thread", "thread", Unit::Text).essential(),
        Column::new("tid", "tid", Unit::Id).essential(),
        Column::new("span", "observed", Unit::Nanos)
            .about("From when the thread (or the trace) began to when either ended."),
    ];
    for (key, title, meaning, _) in &parts {
        let column = Column::new(*key, *title, Unit::Share).over("part of it");
        let both = matches!(meaning, Meaning::Running | Meaning::Waiting);
        columns.push(if both { column.essential() } else { column });
    }
    for (key, title, _, _) in &parts {
        columns.push(Column::new(*key, *title, Unit::Nanos).over("time").detail());
    }
    let mut table = Table::new("budget", "threads", columns)
        .about("The parts add up to the time a thread was observed; what is not known is a part of its own.")
        .brief(12);
    for thread in &result.threads {
        let b = &thread.budget;
        let mut row = vec![
            Value::text(thread.name.clone()),
            Value::Id(thread.key.tid.0.into()),
            Value::Nanos(b.span_ns),
        ];
        row.extend(parts.iter().map(|(_, _, _, of)| share(of(b), b.span_ns)));
        row.extend(parts.iter().map(|(_, _, _, of)| Value::Nanos(of(b))));
        table.push(row);
    }
    let parts =
        parts.iter().map(|(key, _, meaning, _)| Part { key: (*key).into(), meaning: *meaning }).collect();
    section.with(Budget { parts, table })
}
