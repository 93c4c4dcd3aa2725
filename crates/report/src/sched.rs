//! The scheduler analysis as a document: which numbers stand where, and in which words.

use analysis::{
    crosscheck::CrossCheck,
    sched::{
        SchedResult,
        result::{Finding, Weight},
    },
};

use crate::{
    document::{Block, Document, Ledger, Level, Notice, Section},
    number::{count, time},
    table::{Column, Table, Unit, Value},
};

mod charts;
mod checks;
mod groups;
mod provenance;
mod threads;
mod meanwhile;
mod waits;
mod off_cpu;

/// The document for a trace's scheduler analysis. `crosscheck` is there for live runs. Facts
/// about host and command, limits of the recipe and an exact ledger are added by who
/// knows them; until then the ledger holds what the trace itself says.
pub fn document(result: &SchedResult, crosscheck: Option<&CrossCheck>) -> Document {
    let mut document = Document::new("sched", "Where threads wait for the CPU");
    document.question = Some("Where do the threads of this workload wait for the CPU?".into());
    document.answer = answer(result);
    provenance::facts(result, &mut document);
    document.ledger = Some(ledger(result));
    document.checks = crosscheck.map(checks::checks).unwrap_or_default();
    document.notices = provenance::notices(result);
    let mut section = |section: Section| {
        if !section.blocks.is_empty() {
            document.sections.push(section);
        }
    };
    section(findings(result));
    section(waits::section(result));
    section(threads::section(result));
    section(meanwhile::section(result));
    section(waits::longest(result));
    section(threads::budget(result));
    section(charts::cpus(result));
    section(groups::section(result));
    section(off_cpu::section(result));
    section(provenance::section(result));
    document
}

/// One sentence with the measure of all waits, and the most important finding.
fn answer(result: &SchedResult) -> Vec<String> {
    let span = result.provenance.span.map_or(0, |(first, last)| last.since(first).0);
    let total = &result.wait.total;
    let mut answer = Vec::new();
    match total.quantiles {
        None => answer.push(format!(
            "No thread was seen waiting for a CPU from beginning to end in {} of recording.",
            time(span)
        )),
        Some(q) => {
            let longest = result.long_waits.first();
            let who = longest.map_or(String::new(), |w| format!(" ({}, tid {})", w.name, w.thread.tid.0));
            let cpus = result.cpus.len();
            let mut parts =
                vec![format!("{} wait{}", count(total.count), if total.count == 1 { "" } else { "s" })];
            if total.count > 1 {
                parts.push(format!("half of them up to {}", time(q.p50_ns)));
            }
            // Of fewer, the longest is the hundredth part and more.
            if total.count >= 100 {
                parts.push(format!("one in a hundred over {}", time(q.p99_ns)));
            }
            parts.push(format!("the longest {}{who}", time(q.max_ns)));
            answer.push(format!(
                "Threads waited {} for a CPU within {} on {cpus} CPU{}: {}.",
                time(total.sum_ns),
                time(span),
                if cpus == 1 { "" } else { "s" },
                parts.join(", "),
            ));
        }
    }
    if let Some(finding) = about_waiting(result).next() {
        answer.push(finding.text.clone());
    }
    answer
}

/// Findings that say how far the numbers can be trusted: they stand with the losses.
const ABOUT_TRUST: [&str; 6] =
    ["losses", "losses_without_place", "gaps", "clock_backward", "clock_order", "unclosed_budgets"];

/// The other findings, in their order. What all waits come to is said by the answer already.
fn about_waiting(result: &SchedResult) -> impl Iterator<Item = &Finding> {
    result.findings.iter().filter(|f| f.id != "waits" && !ABOUT_TRUST.contains(&f.id.as_str()))
}

/// The findings that are not in the answer already.
fn findings(result: &SchedResult) -> Section {
    let mut section = Section::new("findings", "What stands out");
    let items: Vec<crate::document::Finding> = about_waiting(result).skip(1).map(finding).collect();
    if !items.is_empty() {
        section = section.with(Block::Findings(crate::document::Findings { id: "findings".into(), items }));
    }
    section
}

fn finding(finding: &Finding) -> crate::document::Finding {
    crate::document::Finding {
        key: finding.id.clone().into(),
        level: level(finding.weight),
        what: "".into(),
        found: finding.text.clone(),
        meaning: None,
        remedy: None,
    }
}

fn level(weight: Weight) -> Level {
    match weight {
        Weight::Note => Level::Note,
        Weight::Notable | Weight::Serious => Level::Warning,
    }
}

/// What the trace itself says about its losses.
fn ledger(result: &SchedResult) -> Ledger {
    let losses = &result.losses;
    let lost = losses.events + losses.events_without_place;
    let lost = if losses.uncounted > 0 {
        let known = if lost > 0 { format!("at least {}, ", count(lost)) } else { String::new() };
        Value::missing(format!("{known}{} losses without a count", count(losses.uncounted)))
    } else {
        Value::Count(lost)
    };
    Ledger {
        happened: Value::missing("nothing counted the events independently of the trace"),
        recorded: Value::Count(result.provenance.items),
        lost,
        filtered: Value::missing("the trace does not say"),
        closes: None,
        remedy: None,
        places: loss_places(result),
    }
}

fn loss_places(result: &SchedResult) -> Option<Table> {
    if result.losses.intervals.is_empty() {
        return None;
    }
    let zero = zero_ns(result);
    let mut table = Table::new(
        "losses",
        "losses",
        vec![
            Column::new("cpu", "CPU", Unit::Id).essential(),
            Column::new("from", "from", Unit::Nanos).over("since start").essential(),
            Column::new("to", "to", Unit::Nanos).over("since start").essential(),
            Column::new("lost", "events lost", Unit::Count).essential(),
        ],
    )
    .brief(5);
    for loss in &result.losses.intervals {
        table.push(vec![
            Value::or_missing(
                loss.cpu.map(|cpu| Value::Id(cpu.0.into())),
                "the trace does not say which CPU",
            ),
            Value::Nanos(loss.from.0.saturating_sub(zero)),
            Value::Nanos(loss.to.0.saturating_sub(zero)),
            Value::or_missing(loss.count.map(Value::Count), "the trace does not say how many"),
        ]);
    }
    Some(table)
}

/// What is called second 0: the first event.
fn zero_ns(result: &SchedResult) -> u64 {
    result.provenance.span.map_or(result.timeline.start_ns, |(first, _)| first.0)
}

fn note(level: Level, text: impl Into<String>) -> Notice {
    Notice { level, text: text.into(), remedy: None }
}
