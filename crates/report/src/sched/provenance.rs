//! What the numbers rest on.

use analysis::sched::{SchedResult, result::AffinitySource};

use super::note;
use crate::{
    document::{Document, Level, Notice, Section},
    number::count,
    table::{Column, Table, Unit, Value},
};

/// Facts that the trace itself knows.
pub fn facts(result: &SchedResult, document: &mut Document) {
    let provenance = &result.provenance;
    let text = |text: &Option<String>, reason: &'static str| {
        Value::or_missing(text.clone().map(|t| Value::Text(t.into())), reason)
    };
    document.headline_fact("kernel", "kernel", text(&provenance.kernel_release, "the trace does not say"));
    if let Some((first, last)) = provenance.span {
        document.headline_fact("span", "time span", Value::Nanos(last.since(first).0));
        document.fact("first_event", "first event", Value::text(format!("{first} s on the trace's clock")));
    }
    document.fact("clock", "clock", Value::text(provenance.clock.to_string()));
    document.fact("file_format", "trace format", Value::text(provenance.file_format.clone()));
    document.fact("producer", "recorded by", text(&provenance.producer, "the trace does not say"));
    let cpus = provenance.cpu_count as usize;
    let seen = provenance.cpus_seen.len();
    document.fact(
        "cpus",
        "CPUs",
        if cpus > 0 { Value::Count(cpus as u64) } else { Value::missing("the trace does not say") },
    );
    document.fact("cpus_seen", "CPUs with events", Value::Count(seen as u64));
    document.fact("events", "events read", Value::Count(provenance.items));
    document.fact(
        "affinity",
        "allowed CPUs known",
        Value::text(match provenance.affinity {
            AffinitySource::Learned => "from where threads ran or were sent",
            AffinitySource::GivenForSome => "asked of the kernel for some threads, else from where they ran",
        }),
    );
}

/// What has to be known before believing the numbers.
pub fn notices(result: &SchedResult) -> Vec<Notice> {
    let mut notices = Vec::new();
    let provenance = &result.provenance;
    if let Some(reason) = &provenance.cut {
        notices.push(note(Level::Warning, format!("The trace ends before it was meant to: {reason}")));
    }
    for missing in &provenance.missing {
        notices.push(note(
            Level::Note,
            format!("{} is not in the trace: {}", missing.what, missing.consequence),
        ));
    }
    for finding in result.findings.iter().filter(|f| super::ABOUT_TRUST.contains(&f.id.as_str())) {
        notices.push(note(super::level(finding.weight), finding.text.clone()));
    }
    let losses = &result.losses;
    if losses.switched_in_without_wakeup > 0 {
        notices.push(note(
            Level::Note,
            format!(
                "Switched to a sleeping thread without a wakeup event before: {} (those waits are not known).",
                match losses.switched_in_without_wakeup {
                    1 => "once".to_owned(),
                    times => format!("{} times", count(times)),
                }
            ),
        ));
    }
    if provenance.short_records > 0 {
        notices.push(note(
            Level::Warning,
            format!(
                "{} records are too short for their format and were left out.",
                count(provenance.short_records)
            ),
        ));
    }
    let seen = provenance.cpus_seen.len() as u32;
    if seen > 0 && seen < provenance.cpu_count {
        notices.push(note(
            Level::Note,
            format!("{seen} of {} CPUs have events in the trace.", provenance.cpu_count),
        ));
    }
    // The worst first; what is equally bad stays in its order.
    notices.sort_by_key(|n| std::cmp::Reverse(n.level));
    notices
}

/// The events used and how waits began.
pub fn section(result: &SchedResult) -> Section {
    let mut section = Section::new("basis", "What the numbers rest on").detail();
    let starts = &result.provenance.wait_starts;
    let mut table = Table::new(
        "wait_starts",
        "beginnings",
        vec![
            Column::new("event", "waits begin at", Unit::Text).essential(),
            Column::new("waits", "waits", Unit::Count).essential(),
        ],
    )
    .title("Which event began the waits");
    for (name, number) in [
        ("sched_waking (the waker's view, before a CPU is chosen)", starts.waking),
        ("sched_wakeup (on the run queue)", starts.wakeup),
        ("sched_wakeup_new (a new thread)", starts.wakeup_new),
        ("sched_switch (preempted or yielded)", starts.preemption),
    ] {
        if number > 0 {
            table.push(vec![Value::text(name), Value::Count(number)]);
        }
    }
    section = section.with(table);
    let mut events = Table::new(
        "events_used",
        "events",
        vec![
            Column::new("event", "event", Unit::Text).essential(),
            Column::new("count", "in the trace", Unit::Count).essential(),
        ],
    )
    .title("Events used");
    for (name, number) in &result.provenance.events_used {
        events.push(vec![Value::text(name.clone()), Value::Count(*number)]);
    }
    section.with(events)
}
