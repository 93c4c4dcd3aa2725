//! How long waits take: percentiles, histogram, heat map, and the longest ones.

use analysis::sched::{
    SchedResult,
    result::{Intervals, LongWait, WaitCause, Waker},
};

use super::charts;
use crate::{
    document::Section,
    number::count,
    table::{Column, Table, Unit, Value},
};

/// The section about all waits.
pub fn section(result: &SchedResult) -> Section {
    let wait = &result.wait;
    let mut section = Section::new("wait", "How long one wait for the CPU takes")
        .lead(format!("From becoming runnable to running. {}", stands_behind(&wait.intervals)));
    if wait.total.count == 0 {
        return section;
    }
    section = section.with(charts::distribution(
        "wait",
        "wait for the CPU",
        &[
            ("all", "all waits", &wait.total),
            ("wakeup", "after a wakeup", &wait.wakeup),
            ("preemption", "after preemption", &wait.preemption),
        ],
    ));
    if !wait.heat.columns.is_empty() {
        section = section.with(charts::heat_map(
            result,
            "wait_over_time",
            "Waits over time",
            "Each wait counts at the time it ended.",
            &wait.heat,
        ));
    }
    section
}

/// How many intervals a statement rests on, and how many could not be used, in words.
pub fn stands_behind(intervals: &Intervals) -> String {
    let mut text = format!("{} complete", count(intervals.complete));
    for (number, words) in [
        (intervals.cut_at_start, "cut off at the start"),
        (intervals.cut_at_end, "still open at the end"),
        (intervals.discarded_by_loss, "discarded because events were lost"),
        (intervals.discarded_by_gap, "discarded because of gaps"),
        (intervals.discarded_by_clock, "discarded because of the clock"),
    ] {
        if number > 0 {
            text.push_str(&format!(", {} {words}", count(number)));
        }
    }
    text.push('.');
    text
}

/// The longest waits and who ran meanwhile.
pub fn longest(result: &SchedResult) -> Section {
    let mut section = Section::new("longest", "The longest waits, and who ran meanwhile");
    if !result.long_waits.is_empty() {
        section = section.with(longest_table(result));
    }
    if !result.open_waits.is_empty() {
        section = section.with(open_table(result));
    }
    section
}

fn longest_table(result: &SchedResult) -> Table {
    let zero = super::zero_ns(result);
    let mut table = Table::new(
        "longest_waits",
        "waits",
        vec![
            Column::new("wait", "waited", Unit::Nanos).essential(),
            Column::new("at", "at", Unit::Nanos)
                .about("When it became runnable, since the start of the trace.")
                .essential(),
            Column::new("thread", "thread", Unit::Text).essential(),
            Column::new("tid", "tid", Unit::Id),
            Column::new("priority", "prio", Unit::Id)
                .about("The kernel's number: 0–99 real-time, 100–139 normal."),
            Column::new("cause", "after", Unit::Text),
            Column::new("cpu", "CPU", Unit::Id).about("On whose queue it waited.").essential(),
            Column::new("meanwhile", "meanwhile ran", Unit::Text)
                .about(
                    "Who ran on that CPU during the wait, with their share of the part that is remembered.",
                )
                .essential(),
            Column::new("beside_idle", "beside idle CPU", Unit::Nanos)
                .about("How much of the wait another CPU that it may use was idle.")
                .detail(),
            Column::new("waker", "woken by", Unit::Text).detail(),
            Column::new("ran_on", "ran on CPU", Unit::Id).detail(),
        ],
    )
    .brief(10);
    for wait in &result.long_waits {
        let start = wait.start.0.saturating_sub(zero);
        table.spans.push((start, start.saturating_add(wait.wait_ns)));
        table.push(vec![
            Value::Nanos(wait.wait_ns),
            Value::Nanos(start),
            Value::text(wait.name.clone()),
            Value::Id(wait.thread.tid.0.into()),
            Value::Id(wait.priority.into()),
            Value::text(cause(wait.cause)),
            Value::Id(wait.waited_on.0.into()),
            meanwhile(wait),
            Value::Nanos(wait.idle_beside_ns),
            waker(wait),
            Value::Id(wait.ran_on.0.into()),
        ]);
    }
    table
}

fn meanwhile(wait: &LongWait) -> Value {
    if wait.meanwhile.is_empty() || wait.meanwhile_covers_ns == 0 {
        return Value::missing("what ran meanwhile is no longer remembered");
    }
    let whole = wait.meanwhile_covers_ns as f64;
    // Threads of one name are told together: seven times `rustc` says less than `rustc (7)`.
    let mut names: Vec<(&str, u64, usize)> = Vec::new();
    for run in &wait.meanwhile {
        let name = if run.thread.tid.0 == 0 { "idle" } else { run.name.as_str() };
        match names.iter_mut().find(|(known, _, _)| *known == name) {
            Some((_, time, threads)) => {
                *time += run.time_ns;
                *threads += 1;
            }
            None => names.push((name, run.time_ns, 1)),
        }
    }
    names.sort_by_key(|&(_, time, _)| std::cmp::Reverse(time));
    let told: u64 = names.iter().take(3).map(|(_, time, _)| time).sum();
    let parts = names.iter().take(3).map(|&(name, time, threads)| {
        let share = (time as f64 / whole * 100.0).round();
        if threads > 1 { format!("{name} ({threads}) {share:.0} %") } else { format!("{name} {share:.0} %") }
    });
    let mut text = parts.collect::<Vec<_>>().join(", ");
    // Half a per cent is lost in rounding.
    if told * 200 < wait.meanwhile_covers_ns * 199 {
        text.push_str(", …");
    }
    Value::text(text)
}

fn waker(wait: &LongWait) -> Value {
    match wait.waker {
        Some(Waker::Thread(key)) => Value::text(format!("tid {}", key.tid.0)),
        Some(Waker::Interrupt) => Value::text("interrupt"),
        Some(Waker::Unknown) => Value::missing("lost events hide the waker"),
        None => Value::missing("not woken: preempted or new"),
    }
}

fn open_table(result: &SchedResult) -> Table {
    let mut table = Table::new(
        "open_waits",
        "waits",
        vec![
            Column::new("age", "waiting for", Unit::Nanos).essential(),
            Column::new("thread", "thread", Unit::Text).essential(),
            Column::new("tid", "tid", Unit::Id).essential(),
            Column::new("cause", "after", Unit::Text),
            Column::new("cpu", "CPU", Unit::Id).essential(),
        ],
    )
    .title("Still waiting when the trace ended")
    .about("These are in no percentile: a stall shows here first.")
    .brief(5);
    for wait in &result.open_waits {
        table.push(vec![
            Value::Nanos(wait.age_ns),
            Value::text(wait.name.clone()),
            Value::Id(wait.thread.tid.0.into()),
            Value::text(cause(wait.cause)),
            Value::Id(wait.waited_on.0.into()),
        ]);
    }
    table
}

fn cause(cause: WaitCause) -> &'static str {
    match cause {
        WaitCause::Wakeup => "wakeup",
        WaitCause::New => "fork",
        WaitCause::Preemption => "preemption",
    }
}
