//! The way from a trace to the result: read, follow, and where needed read again.

use std::ops::ControlFlow;

use trace::{
    At, Event, EventKind, Item, Sink, Source, SourceError, Tid,
    decode::Decoder,
    event::Binding,
    field::recorded_comm,
    info::TraceInfo,
    stream::{FormatIndex, TaskChange},
    strings::Strings,
};

use super::{
    assemble::{self, Told},
    machine::{Beginning, Machine, Named, Output, Switch, Woken},
    options::SchedOptions,
    reason::Syscalls,
    refine::Refiner,
    result::SchedResult,
    threads::{Inside, StartedBy},
    values::Values,
};

/// More readings than this have no use: each narrows a bucket by a factor of 2048.
const MOST_PASSES: u32 = 40;

/// Analyses a trace. A damaged one is analysed as far as it can be read; the result's
/// `provenance.cut` then says where and why it ends.
pub fn analyse(source: &mut dyn Source, options: &SchedOptions) -> SchedResult {
    let values = Values::new(options.value_bytes, options.columns, options.long_waits);
    let mut follower = Follower::new(source.info(), options, values);
    let outcome = source.stream(&mut follower);
    follower.machine.finish();
    let told = follower.told(outcome.err());
    let mut machine = follower.machine;
    let table = assemble::group_table(&machine, options);
    let mut summaries = machine.out.resolve(&table);
    machine.out.release();
    let mut passes = 1;
    if machine.out.inexact() {
        while passes < MOST_PASSES {
            let Some(refiner) = Refiner::aim(&table, &summaries, options.value_bytes.max(1 << 20)) else {
                break;
            };
            let mut again = Follower::new(source.info(), options, refiner);
            // What could not be read the first time cannot be now.
            let _ = source.stream(&mut again);
            again.machine.out.narrow(&mut summaries);
            passes += 1;
        }
    }
    assemble::result(source.info(), options, machine, &table, &summaries, told, passes)
}

/// An analysis that is fed items as they come, for traces that are not read twice (a live
/// one). Percentiles are exact as long as single durations fit `SchedOptions::value_bytes`.
pub struct SchedAnalysis {
    options: SchedOptions,
    info: TraceInfo,
    follower: Follower<Values>,
}

impl SchedAnalysis {
    /// An analysis of what will come.
    pub fn new(info: &TraceInfo, options: &SchedOptions) -> SchedAnalysis {
        let values = Values::new(options.value_bytes, options.columns, options.long_waits);
        SchedAnalysis {
            options: options.clone(),
            info: info.clone(),
            follower: Follower::new(info, options, values),
        }
    }

    /// The result of all that came.
    pub fn finish(mut self) -> SchedResult {
        self.follower.machine.finish();
        let told = self.follower.told(None);
        let mut machine = self.follower.machine;
        let table = assemble::group_table(&machine, &self.options);
        let summaries = machine.out.resolve(&table);
        assemble::result(&self.info, &self.options, machine, &table, &summaries, told, 1)
    }
}

impl Sink for SchedAnalysis {
    fn item(&mut self, item: Item<'_>) -> ControlFlow<()> {
        self.follower.item(item)
    }
}

/// Decodes items and drives the machine.
struct Follower<O> {
    machine: Machine<O>,
    decoder: Decoder,
    /// Formats not worth decoding here.
    skip: Vec<bool>,
    used: [u64; EventKind::ALL.len()],
    items: u64,
}

impl<O: Output> Follower<O> {
    fn new(info: &TraceInfo, options: &SchedOptions, out: O) -> Follower<O> {
        let has = |name: &str| info.formats.iter().any(|f| f.name == name && f.system == "sched");
        let beginning = Beginning {
            has_wakeups: has("sched_waking") || has("sched_wakeup"),
            syscalls: Syscalls::of_machine(info.machine.as_deref()),
            processes: info.tasks.iter().filter_map(|t| Some((t.tid, t.process?))).collect(),
            names: info.tasks.iter().map(|t| (t.tid, t.comm)).collect(),
        };
        let kinds: Vec<(&str, &str)> =
            EventKind::ALL.iter().filter(|k| is_used(**k)).flat_map(|k| k.names()).copied().collect();
        let skip = info
            .formats
            .iter()
            .map(|f| !kinds.iter().any(|k| f.name == k.1 && (f.system == k.0 || f.system.is_empty())))
            .collect();
        Follower {
            machine: Machine::new(options, beginning, out),
            decoder: Decoder::new(info),
            skip,
            used: [0; EventKind::ALL.len()],
            items: 0,
        }
    }

    #[inline]
    fn event(&mut self, at: &At, format: FormatIndex, record: &[u8], process: Option<Tid>) {
        let Some(cpu) = self.machine.arrive(at) else { return };
        if self.skip.get(format.0 as usize).copied().unwrap_or(true) {
            return;
        }
        let Some((binding, strings)) = self.decoder.binding(format) else { return };
        match take(&mut self.machine, cpu, at, binding, record, strings, process) {
            Some(true) => self.used[binding.kind() as usize] += 1,
            Some(false) => {}
            None => self.decoder.short_records += 1,
        }
    }

    fn task(&mut self, at: &At, change: TaskChange<'_>) {
        match change {
            TaskChange::Comm { process, tid, comm, .. } => self.machine.named(at, process, tid, comm),
            TaskChange::Fork { process, tid, parent_tid, .. } => {
                self.machine.forked(at, (process, tid), parent_tid);
            }
            // The scheduler's own events tell when a thread ended.
            TaskChange::Exit { .. } => {}
            _ => {}
        }
    }

    fn told(&self, error: Option<SourceError>) -> Told {
        Told {
            items: self.items,
            used: EventKind::ALL
                .iter()
                .filter(|k| self.used[**k as usize] > 0)
                .map(|k| (format!("{}:{}", k.names()[0].0, k.names()[0].1), self.used[*k as usize]))
                .collect(),
            unbound: self.decoder.unbound.clone(),
            short_records: self.decoder.short_records,
            error: error.map(|e| e.to_string()),
        }
    }
}

/// Reads what the machine wants to know of an event, and tells it. Whether it took it; `None`
/// when the record is too short.
#[inline(always)]
fn take<O: Output>(
    machine: &mut Machine<O>,
    cpu: u16,
    at: &At,
    binding: &Binding,
    record: &[u8],
    strings: &mut Strings,
    process: Option<Tid>,
) -> Option<bool> {
    let now = at.time.0;
    /// A thread by its three fields, whose names differ from event to event.
    macro_rules! named {
        ($plan:ident, $tid:ident, $comm:ident, $prio:ident) => {
            Named {
                tid: $plan.$tid(record, strings)?,
                comm: recorded_comm($plan.$comm.as_ref()?, record)?,
                prio: $plan.$prio(record, strings)?,
            }
        };
    }
    match binding {
        Binding::SchedSwitch(plan) => {
            let switch = Switch {
                prev: named!(plan, prev_tid, prev_comm, prev_prio),
                prev_state: plan.prev_state(record, strings)?,
                next: named!(plan, next_tid, next_comm, next_prio),
            };
            machine.switch(cpu, at, &switch, process);
        }
        Binding::SchedWaking(plan) => {
            let thread = named!(plan, tid, comm, prio);
            let woken = Woken { thread, target: plan.target_cpu(record, strings)? };
            machine.woken(cpu, at, &woken, StartedBy::Waking);
        }
        Binding::SchedWakeup(plan) => {
            let thread = named!(plan, tid, comm, prio);
            let woken = Woken { thread, target: plan.target_cpu(record, strings)? };
            machine.woken(cpu, at, &woken, StartedBy::Wakeup);
        }
        Binding::SchedWakeupNew(plan) => {
            let thread = named!(plan, tid, comm, prio);
            machine.woken_new(at, &Woken { thread, target: plan.target_cpu(record, strings)? });
        }
        Binding::IrqHandlerEntry(_) => machine.irq(cpu, now, true),
        Binding::IrqHandlerExit(_) => machine.irq(cpu, now, false),
        Binding::SoftirqEntry(_) => machine.softirq(cpu, now, true),
        Binding::SoftirqExit(_) => machine.softirq(cpu, now, false),
        Binding::SysEnter(plan) => machine.inside(cpu, Inside::Syscall(plan.number(record, strings)?)),
        Binding::SysExit(_) => machine.inside(cpu, Inside::User { faulted: false }),
        Binding::PageFaultUser(_) => machine.inside(cpu, Inside::User { faulted: true }),
        seldom => return take_seldom(machine, at, &seldom.read(record, strings)?),
    }
    Some(true)
}

/// The life of threads.
fn take_seldom<O: Output>(machine: &mut Machine<O>, at: &At, event: &Event) -> Option<bool> {
    match event {
        Event::SchedMigrateTask(event) => machine.migrate(at, event),
        Event::SchedProcessFork(event) => machine.fork(at, event),
        Event::SchedProcessExec(event) => machine.exec(at, event),
        Event::SchedProcessExit(event) => machine.exit(at, event),
        Event::SchedProcessFree(event) => machine.free(at, event),
        Event::TaskRename(event) => machine.rename(at, event),
        _ => return Some(false),
    }
    Some(true)
}

/// Whether the machine takes events of this kind.
fn is_used(kind: EventKind) -> bool {
    use EventKind as K;
    matches!(
        kind,
        K::SchedSwitch
            | K::SchedWaking
            | K::SchedWakeup
            | K::SchedWakeupNew
            | K::SchedMigrateTask
            | K::SchedProcessFork
            | K::SchedProcessExec
            | K::SchedProcessExit
            | K::SchedProcessFree
            | K::TaskRename
            | K::IrqHandlerEntry
            | K::IrqHandlerExit
            | K::SoftirqEntry
            | K::SoftirqExit
            | K::SysEnter
            | K::SysExit
            | K::PageFaultUser
    )
}

impl<O: Output> Sink for Follower<O> {
    #[inline]
    fn item(&mut self, item: Item<'_>) -> ControlFlow<()> {
        // Side records about threads are no events.
        self.items += u64::from(matches!(item, Item::Event { .. } | Item::Sample { .. }));
        // Matched where it lies: copying what has just been written in pieces is slow.
        match &item {
            Item::Event { at, format, record, sample } => {
                if self.machine.is_past(at.time) {
                    return ControlFlow::Break(());
                }
                self.event(at, *format, record, sample.and_then(|s| s.process));
            }
            Item::Sample { at, .. } => {
                if self.machine.is_past(at.time) {
                    return ControlFlow::Break(());
                }
                self.machine.arrive(at);
            }
            Item::Task { at, change } => self.task(at, *change),
            Item::Lost(loss) => self.machine.lost(loss),
        }
        ControlFlow::Continue(())
    }
}
