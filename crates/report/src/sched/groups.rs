//! Waits by what threads have in common.

use analysis::sched::{SchedResult, result::GroupWait};

use crate::{
    document::Section,
    table::{Column, Table, Unit, Value},
};

/// By process, priority, policy and cgroup (CPUs have a section of their own). A grouping
/// with a single group says nothing and is left out.
pub fn section(result: &SchedResult) -> Section {
    let wait = &result.wait;
    let mut section = Section::new("groups", "Waits by process, priority and cgroup").detail();
    for (id, head, rows, groups) in [
        ("processes", "process", "processes", &wait.by_process),
        ("priorities", "priority", "priorities", &wait.by_priority),
        ("policies", "policy", "policies", &wait.by_policy),
        ("cgroups", "cgroup", "cgroups", &wait.by_cgroup),
    ] {
        if groups.len() > 1 {
            section = section.with(table(id, head, rows, groups));
        }
    }
    section
}

fn table(id: &'static str, head: &'static str, rows: &'static str, groups: &[GroupWait]) -> Table {
    let mut table = Table::new(
        id,
        rows,
        vec![
            Column::new("name", head, Unit::Text).essential(),
            Column::new("wait", "total wait", Unit::Nanos).essential(),
            Column::new("waits", "waits", Unit::Count).essential(),
            Column::new("p50", "p50", Unit::Nanos).over("one wait").essential(),
            Column::new("p90", "p90", Unit::Nanos).over("one wait"),
            Column::new("p99", "p99", Unit::Nanos).over("one wait").essential(),
            Column::new("p99_9", "p99.9", Unit::Nanos).over("one wait"),
            Column::new("max", "max", Unit::Nanos).over("one wait").essential(),
            Column::new("running", "run time", Unit::Nanos),
            Column::new("wakeups", "wakeups", Unit::Count).detail(),
            Column::new("wakeup_wait", "after wakeup", Unit::Nanos).over("total wait").detail(),
            Column::new("preemptions", "preemptions", Unit::Count).detail(),
            Column::new("preemption_wait", "after preemption", Unit::Nanos).over("total wait").detail(),
        ],
    )
    .brief(10);
    for group in groups {
        let q = group.total.quantiles;
        let quantile = |pick: fn(analysis::distribution::Quantiles) -> u64| {
            Value::or_missing(q.map(|q| Value::Nanos(pick(q))), "no complete wait")
        };
        table.push(vec![
            Value::text(group.name.clone()),
            Value::Nanos(group.total.sum_ns),
            Value::Count(group.total.count),
            quantile(|q| q.p50_ns),
            quantile(|q| q.p90_ns),
            quantile(|q| q.p99_ns),
            quantile(|q| q.p999_ns),
            quantile(|q| q.max_ns),
            Value::Nanos(group.running_ns),
            Value::Count(group.wakeups.count),
            Value::Nanos(group.wakeups.time_ns),
            Value::Count(group.preemptions.count),
            Value::Nanos(group.preemptions.time_ns),
        ]);
    }
    table
}
