//! Two measurements of the same thing beside each other: what the events say against
//! what the kernel's own counters say.
//!
//! A disagreement is not explained away: its reason is sought in the order in which it
//! is usually found (filters, losses, then the clock), and when none of them is
//! there, it is called unexplained.

use serde::{Deserialize, Serialize};
use trace::{Cpu, Tid};

use crate::sched::{SchedResult, result::ThreadReport};
use crate::units::{counted, duration};

/// One of the kernel's counters, as the difference between the end and the start of the
/// recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counter {
    /// What it counts for.
    pub subject: Subject,
    /// What it counts.
    pub quantity: Quantity,
    /// How much, in the quantity's unit.
    pub value: u64,
    /// Where it was read, such as `/proc/stat ctxt`.
    pub source: String,
    /// How far it may be off for reasons of reading alone: what happened between reading it
    /// and the start (and end) of the recording, or its resolution.
    pub slack: u64,
}

/// Whom a number is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// The whole machine.
    System,
    /// One CPU.
    Cpu(Cpu),
    /// One thread (the last with this number).
    Thread(Tid),
    /// All threads of one process.
    Process(Tid),
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Context switches (of a thread: times it was switched off, of either kind).
    Switches,
    /// Switches in which the thread blocked.
    VoluntarySwitches,
    /// Switches in which the thread was still runnable.
    InvoluntarySwitches,
    /// Nanoseconds on a CPU.
    RunTime,
    /// Nanoseconds runnable and not on a CPU.
    WaitTime,
}

impl Quantity {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Switches => "context switches",
            Quantity::VoluntarySwitches => "voluntary switches",
            Quantity::InvoluntarySwitches => "involuntary switches",
            Quantity::RunTime => "run time",
            Quantity::WaitTime => "wait time",
        }
    }

    /// Whether it is nanoseconds, not a count.
    pub fn is_time(self) -> bool {
        matches!(self, Quantity::RunTime | Quantity::WaitTime)
    }
}

/// What is known about the recording that could explain a difference.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Circumstances {
    /// Filters that kept events out (kernel filters, pid and CPU selections), in words.
    pub filters: Vec<String>,
    /// Share of the larger value that two measurements may differ by, such as 0.01.
    pub tolerance: f64,
}

/// The outcome of all comparisons.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CrossCheck {
    /// One row per counter.
    pub rows: Vec<CheckRow>,
    /// Rows that agree.
    pub agree: usize,
    /// Rows that differ.
    pub differ: usize,
    /// Rows that could not be compared.
    pub not_comparable: usize,
}

impl CrossCheck {
    /// Whether nothing differs.
    pub fn holds(&self) -> bool {
        self.differ == 0
    }
}

/// One comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckRow {
    /// Whom it is about.
    pub subject: Subject,
    /// The subject in words, such as `postgres [123]`.
    pub subject_name: String,
    /// What is compared.
    pub quantity: Quantity,
    /// What the events say; `None` if they cannot tell.
    pub ours: Option<u64>,
    /// What the counter says.
    pub theirs: u64,
    /// Where the counter was read.
    pub source: String,
    /// The difference allowed, in the quantity's unit.
    pub allowed: u64,
    /// Whether they agree.
    pub verdict: Verdict,
    /// Why not, as far as known, as a sentence; empty when they agree.
    pub reason: String,
}

/// Whether two measurements agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The same within what is allowed.
    Agrees,
    /// Different, and a filter explains why.
    DiffersByFilter,
    /// Different, and a loss explains why.
    DiffersByLoss,
    /// Different, and the clock is in doubt.
    DiffersByClock,
    /// Different for no reason known.
    Unexplained,
    /// The events do not tell this.
    NotComparable,
}

/// Compares the events' account with the kernel's counters.
pub fn crosscheck(result: &SchedResult, counters: &[Counter], circumstances: &Circumstances) -> CrossCheck {
    let mut check = CrossCheck::default();
    for counter in counters {
        check.rows.push(compare(result, counter, circumstances));
    }
    handover(&mut check.rows, circumstances.tolerance);
    for row in &check.rows {
        match row.verdict {
            Verdict::Agrees => check.agree += 1,
            Verdict::NotComparable => check.not_comparable += 1,
            _ => check.differ += 1,
        }
    }
    check
}

/// Run time and wait time that differ for no other reason, and agree when added up: the two
/// sides put the moment of the handover apart, and what one calls running the other still
/// calls waiting.
///
/// The kernel stamps the handover with its run-queue clock, which it does not read again for
/// a switch that directly follows a wakeup (`RQCF_REQ_SKIP`, kernel/sched/core.c), so the time
/// since its last reading goes to the thread that comes. The event is stamped at the switch.
fn handover(rows: &mut [CheckRow], tolerance: f64) {
    for index in 0..rows.len() {
        let row = &rows[index];
        let other = match row.quantity {
            Quantity::RunTime => Quantity::WaitTime,
            Quantity::WaitTime => Quantity::RunTime,
            _ => continue,
        };
        if row.verdict != Verdict::Unexplained {
            continue;
        }
        let Some(pair) = rows.iter().find(|pair| pair.subject == row.subject && pair.quantity == other)
        else {
            continue;
        };
        let (Some(ours), Some(ours_too)) = (row.ours, pair.ours) else { continue };
        let (ours, theirs) = (ours + ours_too, row.theirs + pair.theirs);
        let allowed = row.allowed.max(pair.allowed) + (ours.max(theirs) as f64 * tolerance) as u64;
        if ours.abs_diff(theirs) <= allowed {
            let reason = format!(
                "running and waiting together agree ({} and {}): the kernel's run-queue clock is read \
                 before the switch that the event stamps",
                duration(ours),
                duration(theirs)
            );
            rows[index].verdict = Verdict::DiffersByClock;
            rows[index].reason = reason;
        }
    }
}

fn compare(result: &SchedResult, counter: &Counter, circumstances: &Circumstances) -> CheckRow {
    let ours = ours(result, counter.subject, counter.quantity);
    let larger = ours.unwrap_or(0).max(counter.value);
    let allowed = counter.slack.saturating_add((larger as f64 * circumstances.tolerance).ceil() as u64);
    let (verdict, reason) = match ours {
        None => (Verdict::NotComparable, not_comparable(result, counter)),
        Some(ours) if ours.abs_diff(counter.value) <= allowed => (Verdict::Agrees, String::new()),
        Some(ours) => explain(result, counter, ours, circumstances),
    };
    CheckRow {
        subject: counter.subject,
        subject_name: subject_name(result, counter.subject),
        quantity: counter.quantity,
        ours,
        theirs: counter.value,
        source: counter.source.clone(),
        allowed,
        verdict,
        reason,
    }
}

fn last_with(result: &SchedResult, tid: Tid) -> Option<&ThreadReport> {
    result.threads.iter().filter(|t| t.key.tid == tid).max_by_key(|t| t.key.generation)
}

fn ours(result: &SchedResult, subject: Subject, quantity: Quantity) -> Option<u64> {
    let of_thread = |t: &ThreadReport| match quantity {
        Quantity::Switches => t.voluntary_switches + t.involuntary_switches,
        Quantity::VoluntarySwitches => t.voluntary_switches,
        Quantity::InvoluntarySwitches => t.involuntary_switches,
        // The kernel's run time of a thread includes the interrupts that it suffered, unless
        // it was built with IRQ_TIME_ACCOUNTING.
        Quantity::RunTime => t.budget.running_ns + t.budget.stolen_by_irq_ns + t.budget.stolen_by_softirq_ns,
        Quantity::WaitTime => t.budget.waiting_ns(),
    };
    match subject {
        Subject::Thread(tid) => last_with(result, tid).map(of_thread),
        Subject::Process(process) => {
            let mut threads = result.threads.iter().filter(|t| t.process == Some(process)).peekable();
            threads.peek()?;
            Some(threads.map(of_thread).sum())
        }
        Subject::Cpu(cpu) => {
            let report = result.cpus.iter().find(|c| c.cpu == cpu)?;
            match quantity {
                Quantity::Switches => Some(report.switches),
                Quantity::RunTime => Some(report.busy_ns),
                _ => None,
            }
        }
        Subject::System if result.cpus.is_empty() => None,
        Subject::System => match quantity {
            Quantity::Switches => Some(result.cpus.iter().map(|c| c.switches).sum()),
            Quantity::RunTime => Some(result.cpus.iter().map(|c| c.busy_ns).sum()),
            Quantity::WaitTime => Some(
                result.threads.iter().map(of_thread).sum::<u64>()
                    + result.folded_threads.as_ref().map_or(0, |f| f.budget.waiting_ns()),
            ),
            Quantity::VoluntarySwitches | Quantity::InvoluntarySwitches => None,
        },
    }
}

fn subject_name(result: &SchedResult, subject: Subject) -> String {
    match subject {
        Subject::System => "the whole machine".to_owned(),
        Subject::Cpu(cpu) => format!("CPU {}", cpu.0),
        Subject::Thread(tid) => match last_with(result, tid) {
            Some(thread) => format!("{} [{}]", thread.name, tid.0),
            None => format!("thread {}", tid.0),
        },
        Subject::Process(tid) => match last_with(result, tid) {
            Some(thread) => format!("process {} [{}]", thread.name, tid.0),
            None => format!("process {}", tid.0),
        },
    }
}

fn not_comparable(result: &SchedResult, counter: &Counter) -> String {
    match counter.subject {
        Subject::Thread(_) | Subject::Process(_) if counter.value == 0 => {
            "no event names it, and the counter did not move either".to_owned()
        }
        Subject::Thread(_) | Subject::Process(_) => {
            let folded = result.folded_threads.as_ref().map_or(0, |f| f.threads);
            if folded > 0 {
                format!("it has no row of its own ({folded} exited threads were summed into one)")
            } else {
                "no event in the trace names it".to_owned()
            }
        }
        Subject::Cpu(_) | Subject::System => "the events do not tell this for it".to_owned(),
    }
}

/// Seeks the reason of a difference: filters, then losses, then the clock.
fn explain(
    result: &SchedResult,
    counter: &Counter,
    ours: u64,
    circumstances: &Circumstances,
) -> (Verdict, String) {
    let missing = counter.value.saturating_sub(ours);
    // A filter only ever keeps events out, so it cannot explain that we have more.
    if !circumstances.filters.is_empty() && ours < counter.value {
        let filters = circumstances.filters.join("; ");
        return (Verdict::DiffersByFilter, format!("events were filtered while recording: {filters}"));
    }
    let losses = &result.losses;
    let lost = losses.events + losses.events_without_place;
    if lost > 0 || losses.uncounted > 0 {
        let mut text = format!("{} lost", counted(lost, "event"));
        if losses.uncounted > 0 {
            text.push_str(&format!(", and {} an unknown number", counted(losses.uncounted, "time")));
        }
        if !counter.quantity.is_time() && missing > lost {
            text.push_str(&format!(", though {} are missing", counted(missing, "event")));
        }
        if counter.quantity.is_time() || missing <= lost || losses.uncounted > 0 {
            return (Verdict::DiffersByLoss, text);
        }
        return (Verdict::Unexplained, text);
    }
    if losses.gaps > 0 && ours < counter.value {
        return (
            Verdict::DiffersByLoss,
            format!(
                "{} without a loss record: threads hidden from the trace ran",
                counted(losses.gaps, "gap")
            ),
        );
    }
    let clock = &result.clock_quality;
    if counter.quantity.is_time() && (clock.backward_steps > 0 || clock.effects_before_causes > 0) {
        return (
            Verdict::DiffersByClock,
            format!(
                "the clock stepped back {} times, and {} effects are stamped before their causes",
                clock.backward_steps, clock.effects_before_causes
            ),
        );
    }
    (Verdict::Unexplained, "no filter, no loss, and the clock gives no cause for doubt".to_owned())
}
