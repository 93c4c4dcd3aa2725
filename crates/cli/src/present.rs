//! Documents for what a run or a trace file says, and how they are written in each format.

use anyhow::Context;
use clap::ValueEnum;
use report::document::{Ledger, Level, Limit, Notice};
use report::table::{Column, Table, Unit, Value};
use report::{Document, TextOptions};
use run::answer::{Answer, Judged};
use run::metric::{self, Metric};
use run::recipe::Side;
use run::record::{self, Filtered};
use run::run_record::RunRecord;
use std::path::Path;

/// The formats of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For a terminal
    Text,
    /// For programs, versioned
    Json,
    /// One self-contained page with plots
    Html,
    /// For a ticket
    Markdown,
}

impl Format {
    /// The format that a file's name asks for.
    pub fn of_file(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()? {
            "txt" => Some(Format::Text),
            "json" => Some(Format::Json),
            "html" | "htm" => Some(Format::Html),
            "md" | "markdown" => Some(Format::Markdown),
            _ => None,
        }
    }
}

/// A document in one of the formats.
pub fn render(document: &Document, format: Format, options: &TextOptions) -> String {
    match format {
        Format::Text => report::text::document(document, options),
        Format::Json => report::json::document(document),
        Format::Html => report::html::document(document),
        Format::Markdown => report::markdown::document(document),
    }
}

/// Writes a report into a file: whole or not at all.
pub fn write(text: &str, path: &Path) -> anyhow::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.new"));
    std::fs::write(&temporary, text)
        .and_then(|()| std::fs::rename(&temporary, path))
        .inspect_err(|_| {
            let _ = std::fs::remove_file(&temporary);
        })
        .with_context(|| format!("cannot write {}; name another file or free some space", path.display()))
}

/// The document of a trace file alone.
pub fn trace_document(answer: &Answer) -> Document {
    let mut document = report::sched::document(&answer.sched, answer.crosscheck.as_ref());
    if !answer.unseen.is_empty() {
        let numbers: Vec<String> = answer.unseen.iter().take(10).map(|tid| tid.0.to_string()).collect();
        let more = if answer.unseen.len() > 10 { ", …" } else { "" };
        document.notices.push(Notice {
            level: Level::Warning,
            text: format!(
                "{} of the threads asked about {} in no event ({}{more}): they neither ran nor were woken, so they \
                 slept, or waited for a CPU, all the time",
                answer.unseen.len(),
                if answer.unseen.len() == 1 { "is" } else { "are" },
                numbers.join(", ")
            ),
            remedy: Some("ps -L -o tid,stat,comm -p PID tells which: R waits for a CPU, S and D sleep".into()),
        });
    }
    for part in &answer.unreadable {
        document.notice(Level::Warning, format!("a part of the trace could not be used: {part}"));
    }
    document
}

/// The document of a run: the trace's, with what the run knows besides.
pub fn run_document(record: &RunRecord, question: &str, answer: &Answer, judged: &[Judged]) -> Document {
    let mut document = trace_document(answer);
    document.question = Some(question.to_owned().into());
    facts(record, &mut document);
    document.ledger = Some(ledger(&record.ledger));
    document.limits = judged.iter().map(limit).collect();
    for one in judged.iter().filter(|judged| judged.holds == Some(false)) {
        if let Some(then) = &one.threshold.then {
            let text = format!("{} is over its limit", one.threshold.metric.title());
            document.notices.push(Notice { level: Level::Warning, text, remedy: Some(then.clone()) });
        }
    }
    if let Some(status) = record.command_status.filter(|status| status.code != Some(0)) {
        let text = match record.command_ended_by_itself {
            true => format!("the command failed: {status}"),
            false => {
                format!("the command was ended with the run ({status}): its own end is not in the trace")
            }
        };
        document.notice(if record.command_ended_by_itself { Level::Warning } else { Level::Note }, text);
    }
    for (group, counts) in &answer.held_back {
        document.notices.push(Notice {
            level: Level::Warning,
            text: format!(
                "the CPU quota of control group {group} ran out in {} of {} periods: its threads were held back \
                 for {} together (all CPUs), which shows as waiting for a CPU",
                counts.throttled_periods,
                counts.periods,
                report::number::time(counts.throttled_ns)
            ),
            remedy: Some("raise its quota (cpu.max, or cpu.cfs_quota_us in version 1), or use fewer threads".into()),
        });
    }
    for note in &record.notes {
        document.notice(Level::Note, note.clone());
    }
    document
}

fn facts(record: &RunRecord, document: &mut Document) {
    let host = &record.host;
    let text = |text: &str| Value::text(text.to_owned());
    document.headline_fact("host", "host", text(&host.kernel.host_name));
    if let Some(command) = &record.request.command {
        document.headline_fact("command", "command", Value::text(command.join(" ")));
    }
    if let Some(status) = record.command_status {
        document.fact("command_status", "command ended with", Value::text(status.to_string()));
    }
    document.fact("recipe", "recipe", text(&record.recipe.name));
    document.fact("started", "started", text(&record.started));
    document.fact("ended", "ended", text(&record.ended));
    document.fact("ended_by", "ended because", text(&record.ended_by));
    let model = host.topology.model.as_deref().unwrap_or("unknown processor");
    document.fact(
        "processors",
        "processors",
        Value::text(format!("{} CPUs, {} cores: {model}", host.topology.cpus.len(), host.topology.cores())),
    );
    if let Some(hypervisor) = &host.environment.hypervisor {
        document.fact("hypervisor", "hypervisor", text(hypervisor));
    }
    let power = &host.power;
    let governors: Vec<&str> = power.governors.keys().map(String::as_str).collect();
    let frequency = match &power.frequency_driver {
        Some(driver) => Value::text(format!("{driver}, {}", governors.join(" and "))),
        None => Value::missing("not chosen by this kernel"),
    };
    document.fact("frequency", "frequency", frequency);
    let clock = &host.clock;
    let health = if clock.is_healthy() { "healthy" } else { "in doubt: see lotse doctor" };
    let source = clock.source.as_deref().unwrap_or("unknown");
    document.fact("clock_source", "clock source", Value::text(format!("{source}, {health}")));
    if let Some(measured) = &record.preflight.measured {
        document.fact("rate_before", "event rate before the run", Value::Rate(measured.per_s));
    }
    document.fact("ring", "ring of each CPU", Value::Bytes(record.preflight.ring_bytes_per_cpu));
}

fn ledger(ledger: &record::Ledger) -> Ledger {
    let filtered = match ledger.filtered {
        Filtered::Nothing => Value::Count(0),
        Filtered::Counted(count) => Value::Count(count),
        Filtered::NotCounted => Value::missing("the kernel does not count what its filters refuse"),
    };
    let lossy: Vec<_> = ledger.cpus.iter().filter(|cpu| cpu.lost.total() > 0).collect();
    let places = (!lossy.is_empty()).then(|| {
        let mut table = Table::new(
            "losses_by_cpu",
            "CPU",
            vec![
                Column::new("cpu", "CPU", Unit::Id),
                Column::new("recorded", "recorded", Unit::Count),
                Column::new("lost", "lost", Unit::Count),
                Column::new("intervals", "times", Unit::Count),
            ],
        );
        for cpu in lossy {
            table.push(vec![
                Value::Id(i64::from(cpu.cpu)),
                Value::Count(cpu.recorded),
                Value::Count(cpu.lost.total()),
                Value::Count(cpu.losses.len() as u64),
            ]);
        }
        table
    });
    Ledger {
        happened: Value::Count(ledger.happened()),
        recorded: Value::Count(ledger.recorded()),
        lost: Value::Count(ledger.lost()),
        filtered,
        closes: (!ledger.cut).then(|| ledger.disagreements().is_empty()),
        remedy: (ledger.lost() > 0).then(|| "a larger ring: --ring SIZE; or fewer events".to_owned()),
        places,
    }
}

fn limit(judged: &Judged) -> Limit {
    let metric = judged.threshold.metric;
    let what = match judged.threshold.side {
        Side::AtMost => metric.title().to_owned(),
        Side::AtLeast => format!("{} (at least)", metric.title()),
    };
    Limit {
        what: what.into(),
        limit: value(metric, judged.threshold.limit),
        found: judged.found.map_or(Value::missing("the trace does not tell"), |found| value(metric, found)),
        holds: judged.holds,
    }
}

fn value(metric: Metric, number: f64) -> Value {
    match metric.unit() {
        metric::Unit::Nanoseconds => Value::Nanos(number as u64),
        metric::Unit::Share => Value::Share(number),
        metric::Unit::Count => Value::Count(number as u64),
    }
}

/// Tables of `lotse info`.
pub fn info_document(info: &trace::TraceInfo, survey: &readers::Survey, file: &str) -> Document {
    let mut document = Document::new("info", format!("What is in {file}"));
    let or_unknown = |text: &Option<String>| match text {
        Some(text) => Value::text(text.clone()),
        None => Value::missing("the file does not say"),
    };
    document.headline_fact("format", "format", Value::text(info.file_format.clone()));
    document.headline_fact(
        "events",
        "events",
        Value::text(format!("{} events", report::number::count(survey.total))),
    );
    if let (Some(first), Some(last)) = (survey.first, survey.last) {
        document.headline_fact("span", "span", Value::Nanos(last.since(first).0));
        document.fact("first", "first event at", Value::text(first.to_string()));
        document.fact("last", "last event at", Value::text(last.to_string()));
    }
    document.fact("producer", "made by", or_unknown(&info.producer));
    document.fact("kernel", "kernel", or_unknown(&info.kernel_release));
    document.fact("machine", "machine", or_unknown(&info.machine));
    document.fact("host", "host", or_unknown(&info.host_name));
    document.fact("clock", "clock", Value::text(info.clock.to_string()));
    document.fact("cpus", "CPUs of the machine", Value::Count(u64::from(info.cpu_count)));
    for (key, text) in &info.facts {
        document.fact(key.clone(), key.clone(), Value::text(text.clone()));
    }
    document.ledger = Some(Ledger {
        happened: Value::missing("only the recorder knows"),
        recorded: Value::Count(survey.total),
        lost: match (survey.losses.counted, survey.losses.uncounted) {
            (counted, 0) => Value::Count(counted),
            (counted, times) => Value::missing(format!(
                "{} and, {times} times, an unknown number",
                report::number::count(counted)
            )),
        },
        filtered: Value::missing("only the recorder knows"),
        closes: None,
        remedy: None,
        places: None,
    });
    if let Some(cut) = &info.cut {
        document.notice(Level::Warning, format!("the file is cut: {cut}"));
    }
    if let Some(error) = &survey.error {
        document.notice(Level::Bad, format!("the file cannot be read to its end: {error}"));
    }
    for problem in &info.problems {
        document.notice(Level::Warning, problem.clone());
    }
    if survey.steps_back > 0 {
        let step = report::number::time(survey.largest_step_back.0);
        document.notice(
            Level::Warning,
            format!(
                "the clock steps back {} times on one CPU, by up to {step}",
                report::number::count(survey.steps_back)
            ),
        );
    }
    document.sections.push(report::document::Section::new("events", "Events").with(events(survey)));
    document.sections.push(report::document::Section::new("cpus", "CPUs").with(cpus(survey)));
    let mut table = Table::new(
        "facts",
        "fact",
        vec![
            Column::new("fact", "about the file", Unit::Text).essential(),
            Column::new("value", "", Unit::Text).essential(),
        ],
    );
    for fact in document.facts.iter().filter(|fact| !fact.headline) {
        table.push(vec![Value::Text(fact.title.clone()), Value::text(fact.value.print())]);
    }
    document.sections.push(report::document::Section::new("facts", "The file").with(table));
    document
}

fn events(survey: &readers::Survey) -> Table {
    let mut table = Table::new(
        "events",
        "event",
        vec![
            Column::new("event", "event", Unit::Text).essential(),
            Column::new("count", "count", Unit::Count).essential(),
            Column::new("share", "share", Unit::Share),
        ],
    );
    for event in &survey.events {
        let share = event.count as f64 / survey.total.max(1) as f64;
        table.push(vec![Value::text(event.name.clone()), Value::Count(event.count), Value::Share(share)]);
    }
    table
}

fn cpus(survey: &readers::Survey) -> Table {
    let mut table = Table::new(
        "cpus",
        "CPU",
        vec![
            Column::new("cpu", "CPU", Unit::Id).essential(),
            Column::new("events", "events", Unit::Count).essential(),
            Column::new("lost", "lost", Unit::Count).essential(),
            Column::new("covered", "covered", Unit::Nanos),
            Column::new("starts_after", "starts after", Unit::Nanos),
            Column::new("ends_before", "ends before", Unit::Nanos),
        ],
    );
    let (begin, end) = (survey.first.unwrap_or_default(), survey.last.unwrap_or_default());
    for cpu in &survey.cpus {
        let (first, last) = (cpu.first.unwrap_or(begin), cpu.last.unwrap_or(begin));
        table.push(vec![
            Value::Id(i64::from(cpu.cpu.0)),
            Value::Count(cpu.count),
            if cpu.losses_uncounted > 0 {
                Value::missing("an unknown number")
            } else {
                Value::Count(cpu.lost)
            },
            Value::Nanos(last.since(first).0),
            Value::Nanos(first.since(begin).0),
            Value::Nanos(end.since(last).0),
        ]);
    }
    table
}
