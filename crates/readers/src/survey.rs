//! What a trace holds, counted: the data behind `lotse info`.

use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
};

use serde::Serialize;
use trace::{At, Cpu, Item, Loss, Nanos, Source, SourceError, stream::FormatIndex};

/// What a trace holds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Survey {
    /// Events and samples by name, most frequent first.
    pub events: Vec<EventCount>,
    /// All of them.
    pub total: u64,
    /// Side records about threads and address spaces (`comm`, `fork`, …), most frequent
    /// first.
    pub side_records: Vec<EventCount>,
    /// By CPU, ascending.
    pub cpus: Vec<CpuSurvey>,
    /// Losses in the stream and those known from totals.
    pub losses: LossSurvey,
    /// Earliest and latest time, if there is any event.
    pub first: Option<Nanos>,
    /// See `first`.
    pub last: Option<Nanos>,
    /// Items whose time is before that of an earlier item of the same CPU.
    pub steps_back: u64,
    /// The largest such step.
    pub largest_step_back: Nanos,
    /// Items whose time is before that of an earlier item of another CPU (a reader merges
    /// by time, so these come from late data).
    pub out_of_order: u64,
    /// The largest such difference.
    pub largest_out_of_order: Nanos,
    /// Why the trace could not be read to its end, if so.
    pub error: Option<String>,
}

/// How often an event occurs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventCount {
    /// `system:name`, or what was sampled.
    pub name: String,
    /// Occurrences.
    pub count: u64,
}

/// One CPU's share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CpuSurvey {
    /// The CPU.
    pub cpu: Cpu,
    /// Events and samples.
    pub count: u64,
    /// Time of the first of them.
    pub first: Option<Nanos>,
    /// Time of the last of them.
    pub last: Option<Nanos>,
    /// Events known to be lost on it.
    pub lost: u64,
    /// Losses whose count is not known.
    pub losses_uncounted: u64,
}

/// Losses, summed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LossSurvey {
    /// Events known to be lost.
    pub counted: u64,
    /// Places where some were lost, without a count.
    pub uncounted: u64,
    /// Intervals told in the stream.
    pub intervals: u64,
    /// The first of them, at most 100.
    pub list: Vec<Loss>,
}

/// Reads the whole trace once and counts.
pub fn survey(source: &mut dyn Source) -> Survey {
    let mut survey = Survey::default();
    let mut by_format: Vec<u64> = vec![0; source.info().formats.len()];
    let mut by_sample: BTreeMap<u32, u64> = BTreeMap::new();
    let mut side_records: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut cpus = CpuTable::default();
    let mut latest = Nanos(0);
    let mut note = |survey: &mut Survey, cpus: &mut CpuTable, at: At| {
        let state = cpus.of(at.cpu);
        if state.count == 0 {
            (state.first, state.last) = (at.time, at.time);
        } else if at.time < state.previous {
            survey.steps_back += 1;
            survey.largest_step_back = survey.largest_step_back.max(state.previous.since(at.time));
        } else if at.time < latest {
            survey.out_of_order += 1;
            survey.largest_out_of_order = survey.largest_out_of_order.max(latest.since(at.time));
        }
        state.count += 1;
        state.previous = at.time;
        state.first = state.first.min(at.time);
        state.last = state.last.max(at.time);
        latest = latest.max(at.time);
    };
    let result = source.stream(&mut |item: Item<'_>| {
        match item {
            Item::Event { at, format: FormatIndex(format), .. } => {
                if let Some(count) = by_format.get_mut(format as usize) {
                    *count += 1;
                }
                note(&mut survey, &mut cpus, at);
            }
            Item::Sample { at, event, .. } => {
                *by_sample.entry(event).or_default() += 1;
                note(&mut survey, &mut cpus, at);
            }
            Item::Task { change, .. } => *side_records.entry(change.kind()).or_default() += 1,
            Item::Lost(loss) => survey.losses.add(loss, &mut cpus),
        }
        ControlFlow::Continue(())
    });
    let info = source.info();
    for loss in &info.losses {
        survey.losses.add(*loss, &mut cpus);
    }
    survey.events = info
        .formats
        .iter()
        .zip(&by_format)
        .filter(|(_, count)| **count > 0)
        .map(|(format, count)| EventCount { name: format.full_name(), count: *count })
        .collect();
    survey.events.extend(by_sample.iter().map(|(event, count)| EventCount {
        name: info.sampled.get(*event as usize).cloned().unwrap_or_else(|| format!("sample {event}")),
        count: *count,
    }));
    sort(&mut survey.events);
    survey.side_records = side_records
        .iter()
        .map(|(kind, count)| EventCount { name: (*kind).to_owned(), count: *count })
        .collect();
    sort(&mut survey.side_records);
    survey.total = survey.events.iter().map(|event| event.count).sum();
    cpus.states.sort_by_key(|(cpu, _)| *cpu);
    survey.cpus = cpus
        .states
        .iter()
        .map(|(cpu, state)| CpuSurvey {
            cpu: *cpu,
            count: state.count,
            first: (state.count > 0).then_some(state.first),
            last: (state.count > 0).then_some(state.last),
            lost: state.lost,
            losses_uncounted: state.uncounted,
        })
        .collect();
    survey.first = survey.cpus.iter().filter_map(|cpu| cpu.first).min();
    survey.last = survey.cpus.iter().filter_map(|cpu| cpu.last).max();
    survey.error = result.err().map(|error: SourceError| error.to_string());
    survey
}

fn sort(counts: &mut [EventCount]) {
    counts.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
}

/// Losses listed at most.
const MOST_LISTED: usize = 100;

impl LossSurvey {
    fn add(&mut self, loss: Loss, cpus: &mut CpuTable) {
        self.intervals += 1;
        self.counted = self.counted.saturating_add(loss.count.unwrap_or(0));
        self.uncounted += u64::from(loss.count.is_none());
        if let Some(cpu) = loss.cpu {
            let state = cpus.of(cpu);
            state.lost = state.lost.saturating_add(loss.count.unwrap_or(0));
            state.uncounted += u64::from(loss.count.is_none());
        }
        if self.list.len() < MOST_LISTED {
            self.list.push(loss);
        }
    }
}

#[derive(Clone, Copy, Default)]
struct CpuState {
    count: u64,
    first: Nanos,
    previous: Nanos,
    last: Nanos,
    lost: u64,
    uncounted: u64,
}

/// States of CPUs; numbers in damaged files can be anything, so they are looked up.
#[derive(Default)]
struct CpuTable {
    states: Vec<(Cpu, CpuState)>,
    position: HashMap<Cpu, usize>,
    latest: usize,
}

impl CpuTable {
    fn of(&mut self, cpu: Cpu) -> &mut CpuState {
        if self.states.get(self.latest).is_none_or(|(held, _)| *held != cpu) {
            let states = &mut self.states;
            self.latest = *self.position.entry(cpu).or_insert_with(|| {
                states.push((cpu, CpuState::default()));
                states.len() - 1
            });
        }
        &mut self.states[self.latest].1
    }
}
