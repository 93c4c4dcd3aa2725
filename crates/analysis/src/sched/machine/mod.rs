//! The state machine: events in time order in, completed intervals out.
//!
//! What each thread and CPU does is followed from event to event. Nothing is guessed: an
//! event that contradicts what was known (a gap) or a loss makes what it touches
//! unknown until the next event tells, and the intervals across it are counted as
//! discarded. Only the time before the trace's first event is deduced, where there is
//! but one way for it to have been: who is woken was blocked, who is switched in was
//! waiting, who is switched off was running.

mod losses;
mod running;
mod lives;
mod waiting;
mod interrupts;
mod waking;
mod switching;

use trace::{At, Comm, Cpu, Loss, Nanos, TaskState, Tid, ident::RecordedComm};

use super::{
    beside::Beside,
    cpus::{Cpus, Current},
    folded::Folded,
    options::SchedOptions,
    reason::Syscalls,
    result::{BlockReason, ClockQuality, Intervals, Losses, WaitCause, WaitStarts},
    threads::{CpuSets, Phase, Slot, Thread, Threads},
    wakers::Wakers,
};

/// A completed wait for a CPU.
pub(crate) struct Wait<'a> {
    pub thread: &'a Thread,
    pub start: u64,
    pub end: u64,
    /// The CPU it now runs on.
    pub cpu: u16,
    /// Time within it that another allowed CPU was idle.
    pub beside: u64,
}

/// Takes completed intervals.
pub(crate) trait Output {
    /// Whether more than the intervals is wanted: load, wakers, time beside idle CPUs.
    const ALL: bool = true;
    /// The counted part of the trace begins here.
    fn begins(&mut self, _start: u64) {}
    /// A wait has ended by a switch to the thread.
    fn wait(&mut self, wait: &Wait<'_>, threads: &Threads, cpus: &Cpus);
    /// A blocked time has ended by a wakeup.
    fn blocked(&mut self, thread: &Thread, state: TaskState, reason: BlockReason, time: u64);
    /// The thread with this serial number will have no row of its own.
    fn folded(&mut self, _serial: u32) {}
}

/// A thread as an event names it.
#[derive(Clone, Copy)]
pub(crate) struct Named<'r> {
    pub tid: Tid,
    pub comm: RecordedComm<'r>,
    pub prio: i32,
}

/// A thread that is woken, and for which CPU.
pub(crate) struct Woken<'r> {
    pub thread: Named<'r>,
    pub target: Cpu,
}

/// Who leaves a CPU, why, and who comes.
pub(crate) struct Switch<'r> {
    pub prev: Named<'r>,
    pub prev_state: TaskState,
    pub next: Named<'r>,
}

/// Why an interval cannot be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Discard {
    Loss,
    Gap,
    Clock,
}

impl Discard {
    fn count(self, intervals: &mut Intervals) {
        match self {
            Discard::Loss => intervals.discarded_by_loss += 1,
            Discard::Gap => intervals.discarded_by_gap += 1,
            Discard::Clock => intervals.discarded_by_clock += 1,
        }
    }
}

/// Whether an event's "current thread" can be believed: in a PID namespace, perf writes
/// other numbers there than the events themselves carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    NotYet,
    Yes,
    No,
}

/// A wakeup held late by more than this has another reason than clocks that differ.
const LATE_WAKEUP: u64 = 5_000_000;

pub(crate) struct Machine<O> {
    pub out: O,
    pub threads: Threads,
    /// CPUs that each thread ran on.
    pub ran_on: CpuSets,
    /// CPUs that each thread may use: given, or ran on or was sent to.
    pub allowed: CpuSets,
    pub cpus: Cpus,
    pub beside: Beside,
    pub wakers: Wakers,
    pub wait_intervals: Intervals,
    pub off_intervals: Intervals,
    pub starts: WaitStarts,
    pub losses: Losses,
    pub clock: ClockQuality,
    /// Events whose CPU or thread numbers cannot be.
    pub impossible: u64,
    /// Time of the first event.
    pub start: Option<u64>,
    /// Time of the last event.
    pub end: u64,
    window: (u64, u64),
    filter: Vec<Tid>,
    /// Whether threads made by counted ones are counted.
    inherits: bool,
    affinity: Vec<(Tid, Vec<Cpu>)>,
    processes: Vec<(Tid, Tid)>,
    names: Vec<(Tid, Comm)>,
    syscalls: Syscalls,
    /// Whether the trace has wakeups at all; without them, who is switched in may have slept.
    has_wakeups: bool,
    any_loss: bool,
    /// Losses that were told when they began and go on.
    open_losses: Vec<Loss>,
    next_loss_end: u64,
    trust: Trust,
    /// Time of the event before the present one on the same CPU.
    before: u64,
    idle_floor: u64,
    held_floor: u64,
    /// Exited threads that have no row any more.
    pub folded: Folded,
    /// Time that counted threads waited for a CPU that idled, or ran nobody knows whom.
    pub kept_by_idle: u64,
    /// See `kept_by_idle`.
    pub kept_by_unknown: u64,
    /// So many threads are too many.
    thread_limit: usize,
    max_threads: usize,
}

/// What is known of the trace before its first event.
pub(crate) struct Beginning {
    pub has_wakeups: bool,
    pub syscalls: Syscalls,
    pub processes: Vec<(Tid, Tid)>,
    pub names: Vec<(Tid, Comm)>,
}

impl<O: Output> Machine<O> {
    pub fn new(options: &SchedOptions, beginning: Beginning, out: O) -> Machine<O> {
        let mut filter = options.threads.clone();
        filter.sort_unstable();
        let mut affinity: Vec<_> = options.affinity.iter().map(|a| (a.tid, a.cpus.clone())).collect();
        affinity.sort_by_key(|a| a.0);
        let mut processes = beginning.processes;
        // What the run says goes before what the trace says.
        processes.splice(0..0, options.processes.iter().map(|p| (p.tid, p.process)));
        processes.sort_by_key(|p| p.0);
        let mut names = beginning.names;
        names.sort_by_key(|n| n.0);
        Machine {
            out,
            threads: Threads::default(),
            ran_on: CpuSets::new(),
            allowed: CpuSets::new(),
            cpus: Cpus::new(options.columns, &options.cpus, O::ALL),
            beside: Beside::default(),
            wakers: Wakers::default(),
            wait_intervals: Intervals::default(),
            off_intervals: Intervals::default(),
            starts: WaitStarts::default(),
            losses: Losses::default(),
            clock: ClockQuality::default(),
            impossible: 0,
            start: None,
            end: 0,
            window: (options.from.map_or(0, |n| n.0), options.to.map_or(u64::MAX, |n| n.0)),
            filter,
            inherits: !options.only_listed,
            affinity,
            processes,
            names,
            syscalls: beginning.syscalls,
            has_wakeups: beginning.has_wakeups,
            any_loss: false,
            open_losses: Vec::new(),
            next_loss_end: u64::MAX,
            trust: Trust::NotYet,
            before: 0,
            idle_floor: options.idle_floor_ns,
            held_floor: options.held_floor_ns,
            folded: Folded::default(),
            kept_by_idle: 0,
            kept_by_unknown: 0,
            thread_limit: options.max_threads.max(16).saturating_mul(2),
            max_threads: options.max_threads.max(16),
        }
    }

    /// Whether `time` is past the counted window.
    #[inline]
    pub fn is_past(&self, time: Nanos) -> bool {
        time.0 > self.window.1
    }

    /// First and last moment counted.
    pub fn counted_span(&self) -> Option<(u64, u64)> {
        let start = self.start?.max(self.window.0);
        (start <= self.end).then_some((start, self.end))
    }

    /// What every event tells, whatever its kind: its CPU's time, and who is current there.
    /// The CPU, unless its number is impossible.
    #[inline]
    pub fn arrive(&mut self, at: &At) -> Option<u16> {
        let (cpu, now) = (at.cpu.0 as u16, at.time.0);
        let current = match self.cpus.list.get_mut(at.cpu.0 as usize) {
            Some(state)
                if state.seen
                    && now >= state.last
                    && now < self.next_loss_end
                    && self.threads.list.len() < self.thread_limit =>
            {
                self.before = std::mem::replace(&mut state.last, now);
                state.current
            }
            _ => self.arrive_seldom(at.cpu, now)?,
        };
        self.end = self.end.max(now);
        if self.trust == Trust::Yes
            && let Some(tid) = at.tid
        {
            let agrees = match current {
                Current::Thread(slot) => tid.0 <= 0 || self.threads.list[slot as usize].key.tid == tid,
                Current::Idle => tid.0 <= 0,
                Current::Never | Current::Unknown => false,
            };
            if !agrees {
                self.learn_current(cpu, now, tid);
            }
        }
        Some(cpu)
    }

    /// An event with which more begins or ends. What its CPU runs, unless its number is impossible.
    #[cold]
    fn arrive_seldom(&mut self, cpu: Cpu, now: u64) -> Option<Current> {
        if !self.cpus.ensure(cpu.0) {
            self.impossible += 1;
            return None;
        }
        if self.threads.list.len() >= self.thread_limit {
            self.fold();
        }
        let cpu = cpu.0 as u16;
        if !self.cpus.list[cpu as usize].seen {
            self.first_of_cpu(cpu, now);
        }
        if now >= self.next_loss_end {
            self.end_losses(now);
        }
        let state = &mut self.cpus.list[cpu as usize];
        self.before = std::mem::replace(&mut state.last, now);
        if now < self.before {
            self.step_back(cpu, now);
        }
        Some(self.cpus.list[cpu as usize].current)
    }

    #[cold]
    fn first_of_cpu(&mut self, cpu: u16, now: u64) {
        let start = *self.start.get_or_insert_with(|| {
            self.cpus.axis.start = now.max(self.window.0);
            self.cpus.window_start = self.window.0;
            self.out.begins(now.max(self.window.0));
            now
        });
        let state = &mut self.cpus.list[cpu as usize];
        state.seen = true;
        state.since = start.min(now);
        state.last = now;
    }

    /// The CPU's clock went back: what it runs it still runs, but for how long is not known.
    #[cold]
    fn step_back(&mut self, cpu: u16, now: u64) {
        self.clock.backward_steps += 1;
        self.clock.max_backward_ns = self.clock.max_backward_ns.max(self.before - now);
        self.cpus.account(cpu, self.before);
        let state = &mut self.cpus.list[cpu as usize];
        state.since = now;
        (state.hard, state.soft) = (0, false);
        if let Current::Thread(slot) = state.current {
            self.run_until(slot, self.before);
            self.threads.list[slot as usize].since = now;
        }
        self.before = now;
    }

    /// The trace has ended: what is open is accounted up to its last event.
    pub fn finish(&mut self) {
        self.end = self.end.min(self.window.1);
        let end = self.end;
        for cpu in 0..self.cpus.list.len() as u16 {
            let held = self.cpus.take_held(cpu, end);
            let tid = match self.cpus.list[cpu as usize].current {
                Current::Thread(slot) => self.threads.list[slot as usize].key.tid,
                _ => Tid::IDLE,
            };
            self.charge(cpu, tid, held);
            if self.cpus.list[cpu as usize].seen {
                self.cpus.account(cpu, end);
            }
            if self.cpus.list[cpu as usize].waiting > 0 {
                self.cpus.reach(end);
                self.cpus.settle_waiting(cpu, end);
            }
        }
        for slot in 0..self.threads.list.len() {
            let thread = &mut self.threads.list[slot];
            let time = end.saturating_sub(thread.since.max(self.window.0));
            match thread.phase {
                Phase::Running => self.run_until(slot as Slot, end),
                Phase::Waiting => {
                    thread.totals.wait_budget[usize::from(thread.cause == WaitCause::Preemption)] += time;
                    thread.totals.intervals.cut_at_end += 1;
                    self.wait_intervals.cut_at_end += u64::from(thread.counted);
                }
                Phase::Blocked => {
                    thread.totals.add_blocked(thread.state, thread.reason, time);
                    self.off_intervals.cut_at_end += u64::from(thread.counted);
                }
                _ => {}
            }
        }
    }
}
