//! The state machine: events in time order in, completed intervals out.
//!
//! What each thread and CPU does is followed from event to event. Nothing is guessed: an
//! event that contradicts what was known (a gap) or a loss makes what it touches
//! unknown until the next event tells, and the intervals across it are counted as
//! discarded. Only the time before the trace's first event is deduced, where there is
//! but one way for it to have been: who is woken was blocked, who is switched in was
//! waiting, who is switched off was running.

use trace::{
    At, Comm, Cpu, Loss, Nanos, TaskState, Tid,
    event::{
        SchedMigrateTask, SchedProcessExec, SchedProcessExit, SchedProcessFork, SchedProcessFree,
        SchedSwitch, TaskRename,
    },
};

use super::{
    beside::Beside,
    cpus::{CPU_LIMIT, Cpus, Current},
    folded::Folded,
    options::SchedOptions,
    reason::Syscalls,
    result::{BlockReason, ClockQuality, Intervals, Losses, WaitCause, WaitStarts},
    threads::{
        CpuSets, Inside, NO_CPU, NO_ENTRY, Phase, Slot, StartedBy, Thread, Threads, WokenBy, state_index,
    },
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

/// A thread that is woken, as the event names it.
pub(crate) struct Woken<'e> {
    pub tid: Tid,
    pub comm: &'e Comm,
    pub prio: i32,
    pub target: Cpu,
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
            cpus: Cpus::new(options.columns, O::ALL),
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
        if !self.cpus.ensure(at.cpu.0) {
            self.impossible += 1;
            return None;
        }
        if self.threads.list.len() >= self.thread_limit {
            self.fold();
        }
        let (cpu, now) = (at.cpu.0 as u16, at.time.0);
        if !self.cpus.list[cpu as usize].seen {
            self.first_of_cpu(cpu, now);
        }
        if now >= self.next_loss_end {
            self.end_losses(now);
        }
        let state = &mut self.cpus.list[cpu as usize];
        self.before = state.last;
        state.last = now;
        if now < self.before {
            self.step_back(cpu, now);
        }
        self.end = self.end.max(now);
        if self.trust == Trust::Yes
            && let Some(tid) = at.tid
        {
            let agrees = match self.cpus.list[cpu as usize].current {
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

    /// Sums exited threads that waited least, until half of the rows are free.
    #[cold]
    fn fold(&mut self) {
        let list = &self.threads.list;
        let mut ended: Vec<Slot> =
            (0..list.len() as Slot).filter(|s| list[*s as usize].phase == Phase::Dead).collect();
        let waited = |s: &Slot| list[*s as usize].totals.wait_time.iter().sum::<u64>();
        ended.sort_unstable_by_key(|s| (waited(s), *s));
        ended.truncate(list.len().saturating_sub(self.max_threads));
        if ended.len() < self.max_threads / 4 {
            // So many are alive: they keep their rows.
            self.thread_limit = self.thread_limit.saturating_mul(2);
        }
        let mut keep = vec![true; list.len()];
        let span = self.counted_span();
        for slot in ended {
            keep[slot as usize] = false;
            let thread = &self.threads.list[slot as usize];
            self.out.folded(thread.serial);
            self.folded.add(thread, span);
        }
        let moved = self.threads.compact(&keep);
        self.ran_on.compact(&moved);
        self.allowed.compact(&moved);
        self.beside.rename_slots(&moved);
        self.wakers.rename_slots(&moved);
        for cpu in &mut self.cpus.list {
            cpu.rename_slots(&moved);
        }
        for thread in &mut self.threads.list {
            thread.last_pair = NO_ENTRY;
            if let WokenBy::Thread(slot) = thread.woken_by {
                let now = moved[slot as usize];
                thread.woken_by = if now == NO_ENTRY { WokenBy::Unknown } else { WokenBy::Thread(now) };
            }
        }
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

    /// An event names another current thread than was known.
    #[cold]
    fn learn_current(&mut self, cpu: u16, now: u64, tid: Tid) {
        let never = self.cpus.list[cpu as usize].current == Current::Never;
        if tid == Tid::IDLE {
            if never {
                self.set_current(cpu, Current::Idle, now);
            }
            return;
        }
        if !Threads::valid(tid) {
            return;
        }
        if matches!(self.cpus.list[cpu as usize].current, Current::Thread(_) | Current::Idle) {
            self.gap(cpu, now);
        }
        let slot = self.owner(tid, now);
        self.found_running(slot, cpu, now, never);
        if !never {
            self.cpus.account(cpu, now);
        }
        self.set_current(cpu, Current::Thread(slot), now);
    }

    fn set_current(&mut self, cpu: u16, current: Current, now: u64) {
        let state = &mut self.cpus.list[cpu as usize];
        if state.current == current {
            return;
        }
        let was_thread = matches!(state.current, Current::Thread(_));
        state.current = current;
        let idle = current == Current::Idle;
        let changed = was_thread != matches!(current, Current::Thread(_)) || self.cpus.is_idle(cpu) != idle;
        self.cpus.set_idle(cpu, idle);
        if changed && O::ALL {
            self.beside.cpu_changed(cpu, now, &self.threads.list, &self.allowed, &self.cpus);
        }
    }

    /// What the CPU was running it left at an unknown moment after its last event.
    #[cold]
    fn gap(&mut self, cpu: u16, now: u64) {
        self.losses.gaps += 1;
        let known_until = self.before.max(self.cpus.list[cpu as usize].since);
        self.forget_current(cpu, known_until, now);
    }

    /// The CPU's current is unknown from `known_until` on.
    fn forget_current(&mut self, cpu: u16, known_until: u64, now: u64) {
        if let Current::Thread(slot) = self.cpus.list[cpu as usize].current {
            self.run_until(slot, known_until);
            self.threads.list[slot as usize].phase = Phase::Unknown;
        }
        self.cpus.account(cpu, known_until);
        let state = &mut self.cpus.list[cpu as usize];
        (state.hard, state.soft) = (0, false);
        self.set_current(cpu, Current::Unknown, now);
    }

    /// The thread that has this number now, one that existed before the trace if none is known.
    #[inline]
    fn owner(&mut self, tid: Tid, now: u64) -> Slot {
        match self.threads.find(tid) {
            Some(slot) if self.threads.list[slot as usize].phase != Phase::Dead => slot,
            Some(_) => self.newcomer(tid, Phase::Unknown, now),
            None if self.any_loss => self.newcomer(tid, Phase::Unknown, now),
            None => self.newcomer(tid, Phase::Unseen, now),
        }
    }

    #[cold]
    fn newcomer(&mut self, tid: Tid, phase: Phase, now: u64) -> Slot {
        let counted = self.filter.is_empty() || self.filter.binary_search(&tid).is_ok();
        let slot = self.threads.make(tid, phase, now, counted);
        let thread = &mut self.threads.list[slot as usize];
        if thread.key.generation == 0 {
            // Side tables speak of the number's owner at some time: the first is the best guess
            // only while there is but one.
            let at = self.processes.partition_point(|p| p.0 < tid);
            thread.process = self.processes.get(at).filter(|p| p.0 == tid).map(|p| p.1);
            if let Ok(at) = self.names.binary_search_by_key(&tid, |n| n.0) {
                thread.comm = self.names[at].1;
            }
        }
        if let Some((_, cpus)) = self.affinity.iter().find(|a| a.0 == tid) {
            for cpu in cpus.iter().filter(|c| c.0 < CPU_LIMIT) {
                self.allowed.add(slot, cpu.0 as u16);
            }
        }
        if phase == Phase::Unseen
            || (phase == Phase::Unknown && self.threads.list[slot as usize].key.generation == 0)
        {
            self.threads.list[slot as usize].first = self.start.unwrap_or(now).min(now);
        }
        slot
    }

    fn given_affinity(&self, slot: Slot) -> bool {
        let tid = self.threads.list[slot as usize].key.tid;
        !self.affinity.is_empty() && self.affinity.binary_search_by_key(&tid, |a| a.0).is_ok()
    }

    /// The thread may use this CPU, as it was seen there.
    #[inline]
    fn learn_allowed(&mut self, slot: Slot, cpu: u16) {
        if !self.allowed.has(slot, cpu) && !self.given_affinity(slot) {
            self.allowed.add(slot, cpu);
        }
    }

    /// A thread turns out to be on a CPU though no switch to it was seen.
    fn found_running(&mut self, slot: Slot, cpu: u16, now: u64, never: bool) {
        let by_loss = self.any_loss && self.cpus.list[cpu as usize].current == Current::Unknown;
        let discard = if by_loss { Discard::Loss } else { Discard::Gap };
        let start = self.start.unwrap_or(now);
        let mut since = now;
        let thread = &mut self.threads.list[slot as usize];
        match thread.phase {
            Phase::Running if thread.last_cpu == cpu => return,
            Phase::Running => {
                // Two CPUs cannot run it: the other has lost it unseen.
                let other = thread.last_cpu;
                self.losses.gaps += 1;
                let known_until =
                    self.cpus.list[other as usize].last.max(self.cpus.list[other as usize].since).min(now);
                self.forget_current(other, known_until, now);
            }
            Phase::Unseen if never => since = start.min(now),
            // A thread that runs since before the trace may be "woken" while it is about to
            // sleep: what that wakeup made us deduce is taken back.
            Phase::Waiting if never && thread.began_waiting_unseen() => {
                let deduced = thread.since.saturating_sub(start.max(self.window.0));
                thread.totals.blocked -= deduced.min(thread.totals.blocked);
                let by_state = &mut thread.totals.blocked_by_state[state_index(TaskState::Unknown)];
                *by_state -= deduced.min(*by_state);
                let by_reason = &mut thread.totals.blocked_by_reason[BlockReason::Unknown as usize];
                *by_reason -= deduced.min(*by_reason);
                if thread.counted && thread.since >= self.window.0 {
                    self.off_intervals.cut_at_start -= 1;
                }
                let (queue, from) = (thread.queue_cpu, thread.since);
                self.stop_waiting(slot, now);
                self.cpus.did_not_wait(queue, from, now);
                since = start.min(now);
            }
            Phase::Waiting => self.discard_wait(slot, now, discard),
            Phase::Blocked => self.discard_blocked(slot, discard),
            Phase::Unseen | Phase::Unknown | Phase::Made | Phase::OffUnknown | Phase::Dead => {}
        }
        self.ran_on.add(slot, cpu);
        self.learn_allowed(slot, cpu);
        let thread = &mut self.threads.list[slot as usize];
        thread.phase = Phase::Running;
        thread.since = since;
        thread.last_cpu = cpu;
    }

    /// Accounts a running thread up to `to`.
    #[inline]
    fn run_until(&mut self, slot: Slot, to: u64) {
        let thread = &mut self.threads.list[slot as usize];
        thread.totals.on_cpu += to.saturating_sub(thread.since.max(self.window.0));
        thread.totals.longest_run = thread.totals.longest_run.max(to.saturating_sub(thread.since));
        thread.since = to;
    }

    /// Takes a thread off the queue it waits on; the time beside an idle CPU.
    #[inline]
    fn stop_waiting(&mut self, slot: Slot, now: u64) -> u64 {
        if !O::ALL {
            return 0;
        }
        let thread = &self.threads.list[slot as usize];
        self.cpus.waiting(thread.queue_cpu, now, false);
        if thread.counted {
            self.cpus.hold(thread.queue_cpu, now, false);
        }
        self.beside.end(slot, now, &mut self.threads.list)
    }

    fn discard_wait(&mut self, slot: Slot, now: u64, discard: Discard) {
        self.stop_waiting(slot, now);
        let thread = &mut self.threads.list[slot as usize];
        discard.count(&mut thread.totals.intervals);
        if thread.counted {
            discard.count(&mut self.wait_intervals);
        }
    }

    fn discard_blocked(&mut self, slot: Slot, discard: Discard) {
        if self.threads.list[slot as usize].counted {
            discard.count(&mut self.off_intervals);
        }
    }

    /// A thread becomes runnable: its wait begins.
    #[inline]
    fn begin_wait(&mut self, slot: Slot, now: u64, cause: WaitCause, by: StartedBy, queue: u16) {
        self.learn_allowed(slot, queue);
        let thread = &mut self.threads.list[slot as usize];
        thread.phase = Phase::Waiting;
        thread.since = now;
        thread.cause = cause;
        thread.started_by = by;
        thread.queue_cpu = queue;
        thread.idle_mark = self.cpus.idle_time(queue, now);
        thread.woken_waiting = cause != WaitCause::Preemption;
        if O::ALL {
            self.cpus.waiting(queue, now, true);
            if self.threads.list[slot as usize].counted {
                self.cpus.hold(queue, now, true);
            }
            self.beside.update(slot, now, &mut self.threads.list, &self.allowed, &self.cpus);
        }
    }

    /// A waiting thread is on another queue than was known.
    fn move_queue(&mut self, slot: Slot, now: u64, to: u16) {
        let from = self.threads.list[slot as usize].queue_cpu;
        if from == to {
            return;
        }
        if !O::ALL {
            self.learn_allowed(slot, to);
            self.threads.list[slot as usize].queue_cpu = to;
            return;
        }
        self.cpus.waiting(from, now, false);
        self.cpus.waiting(to, now, true);
        if self.threads.list[slot as usize].counted {
            self.cpus.hold(from, now, false);
            self.cpus.hold(to, now, true);
        }
        self.learn_allowed(slot, to);
        self.threads.list[slot as usize].queue_cpu = to;
        self.threads.list[slot as usize].idle_mark = self.cpus.idle_time(to, now);
        self.beside.update(slot, now, &mut self.threads.list, &self.allowed, &self.cpus);
    }

    /// A target CPU from an event, `NO_CPU` if its number is impossible.
    #[inline]
    fn target(&mut self, cpu: Cpu) -> u16 {
        if self.cpus.ensure(cpu.0) {
            cpu.0 as u16
        } else {
            self.impossible += 1;
            NO_CPU
        }
    }

    #[inline]
    fn name(&mut self, slot: Slot, comm: &Comm) {
        if self.threads.list[slot as usize].comm != *comm {
            self.rename_slow(slot, *comm);
        }
    }

    #[cold]
    fn rename_slow(&mut self, slot: Slot, comm: Comm) {
        let thread = &mut self.threads.list[slot as usize];
        if comm.is_empty() {
            return;
        }
        if !thread.comm.is_empty() && thread.former.len() < 8 && !thread.former.contains(&thread.comm) {
            thread.former.push(thread.comm);
        }
        thread.comm = comm;
        thread.is_ksoftirqd = comm.as_bytes().starts_with(b"ksoftirqd/");
    }

    #[inline]
    fn priority(&mut self, slot: Slot, prio: i32) {
        let thread = &mut self.threads.list[slot as usize];
        thread.prio = prio.clamp(-1, 200) as i16;
        thread.has_prio = true;
    }

    /// A CPU goes from one thread to the next. `process` is that of the thread that leaves.
    #[inline]
    pub fn switch(&mut self, cpu: u16, at: &At, event: &SchedSwitch, process: Option<Tid>) {
        let now = at.time.0;
        if let Some(tid) = at.tid
            && tid.0 > 0
            && self.trust != Trust::No
        {
            self.trust = if tid == event.prev_tid { Trust::Yes } else { Trust::No };
        }
        if now >= self.window.0 {
            self.cpus.list[cpu as usize].switches += 1;
        }
        let held = self.cpus.take_held(cpu, now);
        if held > 0 {
            self.charge(cpu, event.prev_tid, held);
        }
        let prev = self.leave(cpu, now, event);
        if let (Some(slot), Some(process), Trust::Yes) = (prev, process, self.trust) {
            self.threads.list[slot as usize].process = Some(process);
        }
        let next = event.next_tid;
        if next == Tid::IDLE {
            self.set_current(cpu, Current::Idle, now);
        } else if Threads::valid(next) {
            let slot = self.owner(next, now);
            self.name(slot, &event.next_comm);
            self.priority(slot, event.next_prio);
            self.enter(slot, cpu, now);
            self.set_current(cpu, Current::Thread(slot), now);
        } else {
            self.impossible += 1;
            self.set_current(cpu, Current::Unknown, now);
        }
    }

    /// Counted threads waited while `cpu` was with whom `prev_tid` says, if that was known.
    #[inline]
    fn charge(&mut self, cpu: u16, prev_tid: Tid, held: u64) {
        match self.cpus.list[cpu as usize].current {
            Current::Thread(slot) if self.threads.list[slot as usize].key.tid == prev_tid => {
                self.threads.list[slot as usize].totals.kept_others += held;
            }
            Current::Idle if prev_tid == Tid::IDLE => self.kept_by_idle += held,
            _ => self.kept_by_unknown += held,
        }
    }

    /// The first half of a switch: who leaves, and to what.
    #[inline]
    fn leave(&mut self, cpu: u16, now: u64, event: &SchedSwitch) -> Option<Slot> {
        let current = self.cpus.list[cpu as usize].current;
        let never = current == Current::Never;
        let state = &mut self.cpus.list[cpu as usize];
        (state.hard, state.soft) = (0, false);
        if !Threads::valid(event.prev_tid) {
            match current {
                Current::Never => self.set_current(cpu, Current::Idle, now),
                Current::Thread(_) => self.gap(cpu, now),
                Current::Idle | Current::Unknown => {}
            }
            self.impossible += u64::from(event.prev_tid != Tid::IDLE);
            self.cpus.account(cpu, now);
            return None;
        }
        let slot = self.owner(event.prev_tid, now);
        if current != Current::Thread(slot) {
            if matches!(current, Current::Thread(_) | Current::Idle) {
                self.gap(cpu, now);
            }
            self.found_running(slot, cpu, now, never);
            if never {
                self.set_current(cpu, Current::Thread(slot), now);
            }
        }
        self.cpus.account(cpu, now);
        self.run_until(slot, now);
        self.name(slot, &event.prev_comm);
        self.priority(slot, event.prev_prio);
        let in_window = now >= self.window.0;
        let thread = &mut self.threads.list[slot as usize];
        thread.ran_unwoken_at = 0;
        match event.prev_state {
            TaskState::Runnable | TaskState::Preempted => {
                thread.totals.involuntary += u64::from(in_window);
                self.begin_wait(slot, now, WaitCause::Preemption, StartedBy::Switch, cpu);
            }
            TaskState::Dead | TaskState::Zombie => self.die(slot, now),
            TaskState::Unknown if thread.exiting => self.die(slot, now),
            TaskState::Unknown => thread.phase = Phase::OffUnknown,
            state => {
                thread.totals.voluntary += u64::from(in_window);
                thread.phase = Phase::Blocked;
                thread.state = state;
                thread.reason = block_reason(thread, state, self.syscalls);
            }
        }
        Some(slot)
    }

    fn die(&mut self, slot: Slot, now: u64) {
        let thread = &mut self.threads.list[slot as usize];
        thread.phase = Phase::Dead;
        thread.end = Some(now);
        // Leaving for good is a voluntary switch in the kernel's count as well.
        thread.totals.voluntary += u64::from(now >= self.window.0);
    }

    /// The second half of a switch: who comes, and how long it waited.
    #[inline]
    fn enter(&mut self, slot: Slot, cpu: u16, now: u64) {
        let mut woken = false;
        match self.threads.list[slot as usize].phase {
            Phase::Waiting => {
                woken = self.threads.list[slot as usize].cause == WaitCause::Wakeup;
                self.end_wait(slot, cpu, now);
            }
            Phase::Running => {
                self.found_running(slot, cpu, now, false);
            }
            Phase::Unseen if self.has_wakeups => {
                let thread = &mut self.threads.list[slot as usize];
                let start = self.start.unwrap_or(now).max(self.window.0);
                thread.totals.wait_cut += now.saturating_sub(start);
                if now >= self.window.0 {
                    thread.totals.intervals.cut_at_start += 1;
                    self.wait_intervals.cut_at_start += u64::from(thread.counted);
                }
            }
            Phase::Blocked if self.has_wakeups => {
                self.losses.switched_in_without_wakeup += 1;
                self.discard_blocked(slot, Discard::Gap);
                self.threads.list[slot as usize].ran_unwoken_at = now;
            }
            Phase::Blocked => {
                // No wakeups in this trace: somewhere in between the blocked time ended.
                self.discard_blocked(slot, Discard::Gap);
            }
            Phase::Unseen | Phase::Unknown | Phase::Made | Phase::OffUnknown | Phase::Dead => {}
        }
        if !self.ran_on.has(slot, cpu) {
            self.ran_on.add(slot, cpu);
        }
        self.learn_allowed(slot, cpu);
        let in_window = u64::from(now >= self.window.0);
        let thread = &mut self.threads.list[slot as usize];
        let totals = &mut thread.totals;
        totals.switched_in += in_window;
        let moves = &mut totals.migrations;
        moves.migrations += in_window * u64::from(thread.last_cpu != cpu && thread.last_cpu != NO_CPU);
        if woken {
            moves.wakeups += in_window;
            moves.cross_cpu_wakeups +=
                in_window * u64::from(thread.waker_cpu != cpu && thread.waker_cpu != NO_CPU);
        }
        thread.phase = Phase::Running;
        thread.since = now;
        thread.last_cpu = cpu;
    }

    #[inline]
    fn end_wait(&mut self, slot: Slot, cpu: u16, now: u64) {
        let start = self.threads.list[slot as usize].since;
        if now < start {
            self.effect_before_cause(start - now);
            return self.discard_wait(slot, now, Discard::Clock);
        }
        if self.in_doubt(slot) {
            return self.discard_wait(slot, now, Discard::Loss);
        }
        let beside = self.stop_waiting(slot, now);
        let queue = self.threads.list[slot as usize].queue_cpu;
        let idle = self.cpus.idle_time(queue, now).saturating_sub(self.threads.list[slot as usize].idle_mark);
        let thread = &mut self.threads.list[slot as usize];
        let kind = usize::from(thread.cause == WaitCause::Preemption);
        thread.totals.wait_budget[kind] += now.saturating_sub(start.max(self.window.0));
        if start < self.window.0 {
            if now >= self.window.0 {
                thread.totals.intervals.cut_at_start += 1;
                self.wait_intervals.cut_at_start += u64::from(thread.counted);
            }
            return;
        }
        let value = now - start;
        let totals = &mut thread.totals;
        totals.intervals.complete += 1;
        totals.wait_count[kind] += 1;
        totals.wait_time[kind] += value;
        totals.wait_max[kind] = totals.wait_max[kind].max(value);
        if beside >= self.idle_floor && beside > 0 {
            totals.idle_beside.add(beside);
        }
        if idle >= self.held_floor && idle > 0 {
            totals.held_back.add(idle);
        }
        if thread.counted {
            self.wait_intervals.complete += 1;
            match thread.started_by {
                StartedBy::Waking => self.starts.waking += 1,
                StartedBy::Wakeup => self.starts.wakeup += 1,
                StartedBy::WakeupNew => self.starts.wakeup_new += 1,
                StartedBy::Switch => self.starts.preemption += 1,
            }
            let thread = &self.threads.list[slot as usize];
            let wait = Wait { thread, start, end: now, cpu, beside };
            self.out.wait(&wait, &self.threads, &self.cpus);
        }
    }

    #[cold]
    fn effect_before_cause(&mut self, by: u64) {
        self.clock.effects_before_causes += 1;
        self.clock.max_effect_before_cause_ns = self.clock.max_effect_before_cause_ns.max(by);
    }

    /// `sched_waking`, or `sched_wakeup`.
    #[inline]
    pub fn woken(&mut self, cpu: u16, at: &At, woken: &Woken<'_>, by: StartedBy) {
        let &Woken { tid, comm, prio, target: target_cpu } = woken;
        let now = at.time.0;
        if !Threads::valid(tid) {
            self.impossible += u64::from(tid != Tid::IDLE);
            return;
        }
        let queue = self.target(target_cpu);
        let slot = self.owner(tid, now);
        self.name(slot, comm);
        self.priority(slot, prio);
        let owed = self.threads.list[slot as usize].owes_wakeup;
        self.threads.list[slot as usize].owes_wakeup = by == StartedBy::Waking;
        match self.threads.list[slot as usize].phase {
            // A waking finds only threads that have set about to sleep. This one has been woken
            // since, so it ran and blocked again unseen, and this is another wait.
            Phase::Waiting
                if by == StartedBy::Waking
                    && self.threads.list[slot as usize].woken_waiting
                    && !self.may_run_unseen(slot) =>
            {
                self.losses.gaps += 1;
                self.discard_wait(slot, now, Discard::Gap);
            }
            Phase::Waiting => {
                self.threads.list[slot as usize].woken_waiting |= by == StartedBy::Waking;
                if queue != NO_CPU && by == StartedBy::Wakeup {
                    self.move_queue(slot, now, queue);
                }
                return;
            }
            Phase::Running => {
                // Woken on its way to sleep, before the switch that takes it off: the waking
                // begins nothing, and the wakeup that follows the switch is the first of a
                // sleeping thread, not the late half of an earlier wait.
                self.threads.list[slot as usize].owes_wakeup = false;
                let ran_at = std::mem::take(&mut self.threads.list[slot as usize].ran_unwoken_at);
                if ran_at != 0 && now.saturating_sub(ran_at) < LATE_WAKEUP {
                    self.effect_before_cause(now - ran_at);
                }
                return;
            }
            // The wakeup whose waking began the wait that is over already: clocks differ.
            Phase::Blocked if by == StartedBy::Wakeup && owed => {
                return self.effect_before_cause(now.saturating_sub(self.threads.list[slot as usize].since));
            }
            Phase::Blocked => self.end_blocked(slot, cpu, now),
            Phase::OffUnknown => {
                let thread = &mut self.threads.list[slot as usize];
                thread.state = TaskState::Unknown;
                thread.reason = BlockReason::Unknown;
                self.end_blocked(slot, cpu, now);
            }
            Phase::Unseen => {
                let start = self.start.unwrap_or(now).max(self.window.0);
                let thread = &mut self.threads.list[slot as usize];
                let time = now.saturating_sub(start);
                thread.totals.blocked += time;
                thread.totals.blocked_by_state[state_index(TaskState::Unknown)] += time;
                thread.totals.blocked_by_reason[BlockReason::Unknown as usize] += time;
                if thread.counted && now >= self.window.0 {
                    self.off_intervals.cut_at_start += 1;
                }
            }
            Phase::Unknown | Phase::Made | Phase::Dead => {}
        }
        let waker = self.waker(cpu);
        let unseen = self.threads.list[slot as usize].phase == Phase::Unseen;
        let thread = &mut self.threads.list[slot as usize];
        thread.woken_by = waker;
        thread.waker_cpu = cpu;
        thread.state = TaskState::Sleeping;
        if unseen {
            thread.state = TaskState::Unknown;
        }
        self.begin_wait(slot, now, WaitCause::Wakeup, by, queue);
    }

    /// Whether a thread thought to wait may have been running since before the trace.
    #[cold]
    fn may_run_unseen(&self, slot: Slot) -> bool {
        self.threads.list[slot as usize].began_waiting_unseen()
            && self.cpus.list.iter().any(|c| c.current == Current::Never)
    }

    fn end_blocked(&mut self, slot: Slot, cpu: u16, now: u64) {
        let since = self.threads.list[slot as usize].since;
        if now < since {
            self.effect_before_cause(since - now);
            return self.discard_blocked(slot, Discard::Clock);
        }
        if self.in_doubt(slot) {
            return self.discard_blocked(slot, Discard::Loss);
        }
        let waker = self.waker(cpu);
        let thread = &mut self.threads.list[slot as usize];
        let time = now.saturating_sub(since.max(self.window.0));
        thread.totals.blocked += time;
        thread.totals.blocked_by_state[state_index(thread.state)] += time;
        thread.totals.blocked_by_reason[thread.reason as usize] += time;
        if !thread.counted {
            return;
        }
        if since < self.window.0 {
            self.off_intervals.cut_at_start += u64::from(now >= self.window.0);
            return;
        }
        self.off_intervals.complete += 1;
        self.out.blocked(thread, thread.state, thread.reason, time);
        if O::ALL {
            self.wakers.add(waker, slot, &mut thread.last_pair, time);
        }
    }

    /// Who wakes on this CPU now.
    #[inline]
    fn waker(&self, cpu: u16) -> WokenBy {
        let state = &self.cpus.list[cpu as usize];
        match state.current {
            _ if state.hard > 0 || state.soft => WokenBy::Interrupt,
            Current::Thread(slot) => WokenBy::Thread(slot),
            Current::Idle => WokenBy::Interrupt,
            Current::Unknown | Current::Never => WokenBy::Unknown,
        }
    }

    /// `sched_wakeup_new`.
    pub fn woken_new(&mut self, at: &At, woken: &Woken<'_>) {
        let &Woken { tid, comm, prio, target: target_cpu } = woken;
        let now = at.time.0;
        if !Threads::valid(tid) {
            self.impossible += 1;
            return;
        }
        let queue = self.target(target_cpu);
        let slot = match self.threads.find(tid) {
            Some(slot) if self.threads.list[slot as usize].phase == Phase::Made => slot,
            _ => self.newborn(tid, now),
        };
        self.name(slot, comm);
        self.priority(slot, prio);
        self.threads.list[slot as usize].owes_wakeup = false;
        self.begin_wait(slot, now, WaitCause::New, StartedBy::WakeupNew, queue);
    }

    /// A thread that begins now; if its number has an owner, that one is over.
    fn newborn(&mut self, tid: Tid, now: u64) -> Slot {
        if let Some(old) = self.threads.find(tid) {
            self.end_unseen(old, now);
        }
        let slot = self.newcomer(tid, Phase::Made, now);
        let thread = &mut self.threads.list[slot as usize];
        thread.began = true;
        thread.first = now;
        slot
    }

    /// A thread must have ended, since its number has another owner or its remains are freed.
    fn end_unseen(&mut self, slot: Slot, now: u64) {
        match self.threads.list[slot as usize].phase {
            Phase::Dead => return,
            Phase::Waiting => self.discard_wait(slot, now, Discard::Gap),
            Phase::Blocked => self.discard_blocked(slot, Discard::Gap),
            Phase::Running => {
                let cpu = self.threads.list[slot as usize].last_cpu;
                let known_until = self.cpus.list[cpu as usize].last.min(now);
                self.losses.gaps += 1;
                self.forget_current(cpu, known_until.max(self.cpus.list[cpu as usize].since), now);
            }
            _ => {}
        }
        let thread = &mut self.threads.list[slot as usize];
        thread.phase = Phase::Dead;
        thread.end = Some(now);
    }

    /// `sched_process_fork`.
    pub fn fork(&mut self, at: &At, event: &SchedProcessFork) {
        let now = at.time.0;
        let (parent, child) = (event.parent_tid, event.child_tid);
        if !Threads::valid(child) {
            self.impossible += 1;
            return;
        }
        let slot = match self.threads.find(child) {
            Some(slot) if self.threads.list[slot as usize].phase == Phase::Made => slot,
            _ => self.newborn(child, now),
        };
        self.name(slot, &event.child_comm);
        if Threads::valid(parent) {
            let parent = self.owner(parent, now);
            self.name(parent, &event.parent_comm);
            self.inherit(slot, parent);
        }
    }

    fn inherit(&mut self, child: Slot, parent: Slot) {
        let maker = &self.threads.list[parent as usize];
        let (key, counted, kernel) = (maker.key, maker.counted, maker.kernel);
        let thread = &mut self.threads.list[child as usize];
        thread.parent = Some(key);
        thread.counted |= counted;
        thread.kernel = kernel;
    }

    /// A producer's own record of a new thread (perf); those before the first event tell of
    /// threads that existed already.
    pub fn forked(&mut self, at: &At, (process, tid): (Tid, Tid), parent_tid: Tid) {
        if !Threads::valid(tid) {
            return;
        }
        let now = at.time.0;
        let existed = self.start.is_none_or(|start| now < start);
        let slot = match self.threads.find(tid) {
            Some(slot) if existed || self.threads.list[slot as usize].phase == Phase::Made => slot,
            // The scheduler's own events came first and are the better witness.
            Some(slot)
                if self.threads.list[slot as usize].began
                    && now.saturating_sub(self.threads.list[slot as usize].first) < LATE_WAKEUP =>
            {
                slot
            }
            None if existed => self.owner(tid, now),
            _ => self.newborn(tid, now),
        };
        self.threads.list[slot as usize].process = Some(process);
        if !existed && Threads::valid(parent_tid) {
            let parent = self.owner(parent_tid, now);
            if parent != slot {
                self.inherit(slot, parent);
            }
        }
    }

    /// A producer's own record of a name (perf).
    pub fn named(&mut self, at: &At, process: Tid, tid: Tid, comm: Comm) {
        if Threads::valid(tid) {
            let slot = self.owner(tid, at.time.0);
            self.threads.list[slot as usize].process = Some(process);
            self.name(slot, &comm);
        }
    }

    /// `task_rename`.
    pub fn rename(&mut self, at: &At, event: &TaskRename) {
        if Threads::valid(event.tid) {
            let slot = self.owner(event.tid, at.time.0);
            self.name(slot, &event.old_comm);
            self.name(slot, &event.new_comm);
        }
    }

    /// `sched_process_exec`: a thread other than the leader takes the leader's number.
    pub fn exec(&mut self, at: &At, event: &SchedProcessExec) {
        if event.old_tid != event.tid
            && Threads::valid(event.old_tid)
            && Threads::valid(event.tid)
            && let Some(slot) = self.threads.find(event.old_tid)
        {
            if let Some(leader) = self.threads.find(event.tid) {
                self.end_unseen(leader, at.time.0);
            }
            self.threads.renumber(slot, event.tid);
        }
    }

    /// `sched_process_exit`.
    pub fn exit(&mut self, at: &At, event: &SchedProcessExit) {
        if Threads::valid(event.tid) {
            let slot = self.owner(event.tid, at.time.0);
            self.name(slot, &event.comm);
            self.threads.list[slot as usize].exiting = true;
        }
    }

    /// `sched_process_free`: also of threads whose last switch was not seen.
    pub fn free(&mut self, at: &At, event: &SchedProcessFree) {
        if Threads::valid(event.tid)
            && let Some(slot) = self.threads.find(event.tid)
            && self.threads.list[slot as usize].phase != Phase::Unseen
        {
            self.end_unseen(slot, at.time.0);
        }
    }

    /// `sched_migrate_task`.
    pub fn migrate(&mut self, at: &At, event: &SchedMigrateTask) {
        if !Threads::valid(event.tid) {
            self.impossible += 1;
            return;
        }
        let now = at.time.0;
        let to = self.target(event.dest_cpu);
        let slot = self.owner(event.tid, now);
        self.name(slot, &event.comm);
        self.threads.list[slot as usize].totals.migrations.migrate_events += u64::from(now >= self.window.0);
        if to != NO_CPU && self.threads.list[slot as usize].phase == Phase::Waiting {
            self.move_queue(slot, now, to);
        } else if to != NO_CPU {
            self.learn_allowed(slot, to);
        }
    }

    /// A hardware interrupt's handler begins or ends on this CPU.
    #[inline]
    pub fn irq(&mut self, cpu: u16, now: u64, begins: bool) {
        let state = &mut self.cpus.list[cpu as usize];
        if begins {
            state.hard += 1;
            if state.hard == 1 {
                state.hard_since = now;
                if state.soft {
                    let since = state.soft_since;
                    self.steal(cpu, since, now, false);
                }
            }
        } else if state.hard > 0 {
            state.hard -= 1;
            if state.hard == 0 {
                let since = state.hard_since;
                state.soft_since = now;
                self.steal(cpu, since, now, true);
            }
        }
    }

    /// A softirq begins or ends on this CPU.
    #[inline]
    pub fn softirq(&mut self, cpu: u16, now: u64, begins: bool) {
        let state = &mut self.cpus.list[cpu as usize];
        if !begins && state.soft {
            let since = state.soft_since;
            self.steal(cpu, since, now, false);
        }
        let state = &mut self.cpus.list[cpu as usize];
        state.soft = begins;
        state.soft_since = now;
    }

    #[inline]
    fn steal(&mut self, cpu: u16, since: u64, now: u64, hard: bool) {
        let time = now.saturating_sub(since.max(self.window.0));
        let state = &mut self.cpus.list[cpu as usize];
        let victim = match state.current {
            Current::Thread(slot) => Some(&mut self.threads.list[slot as usize]),
            _ => None,
        };
        // Softirqs are what ksoftirqd is for.
        if !hard && victim.as_ref().is_some_and(|t| t.is_ksoftirqd) {
            return;
        }
        *(if hard { &mut state.irq } else { &mut state.softirq }) += time;
        if let Some(thread) = victim {
            *(if hard { &mut thread.totals.irq } else { &mut thread.totals.softirq }) += time;
        }
    }

    /// The current thread of a CPU is now inside this.
    #[inline]
    pub fn inside(&mut self, cpu: u16, inside: Inside) {
        if let Current::Thread(slot) = self.cpus.list[cpu as usize].current {
            let thread = &mut self.threads.list[slot as usize];
            match inside {
                // A fault within a system call belongs to the call.
                Inside::User { faulted: true } if matches!(thread.inside, Inside::Syscall(_)) => {}
                inside => thread.inside = inside,
            }
        }
    }

    /// Events are missing.
    #[cold]
    pub fn lost(&mut self, loss: &Loss) {
        self.losses.record(loss);
        self.any_loss = true;
        let cpus: Vec<u16> = match loss.cpu {
            Some(cpu) if self.cpus.ensure(cpu.0) => vec![cpu.0 as u16],
            Some(_) => return,
            None => (0..self.cpus.list.len() as u16).collect(),
        };
        for &cpu in &cpus {
            let state = &mut self.cpus.list[cpu as usize];
            state.lost += if loss.cpu.is_some() { loss.count.unwrap_or(0) } else { 0 };
            if !state.seen {
                state.current = Current::Unknown;
                continue;
            }
            // Where the loss is told late, events of other CPUs from within it have been taken.
            let known_until = loss.from.0.max(state.since).min(self.end.max(state.since));
            if state.current != Current::Unknown {
                self.forget_current(cpu, known_until, self.end);
            }
        }
        self.doubt_open_intervals(loss);
        if loss.to.0 > self.end {
            self.open_losses.push(*loss);
            self.next_loss_end = self.next_loss_end.min(loss.to.0);
        }
    }

    /// Whether a loss is going on of events that may concern the thread.
    #[inline]
    fn in_doubt(&self, slot: Slot) -> bool {
        !self.open_losses.is_empty() && self.open_losses.iter().any(|l| self.may_concern(l, slot))
    }

    fn may_concern(&self, loss: &Loss, slot: Slot) -> bool {
        let thread = &self.threads.list[slot as usize];
        match loss.cpu {
            None => true,
            Some(_) if thread.phase == Phase::Unseen => true,
            Some(cpu) => self.allowed.has(slot, cpu.0.min(u32::from(NO_CPU)) as u16),
        }
    }

    /// Losses that were told when they began end now.
    #[cold]
    fn end_losses(&mut self, now: u64) {
        for loss in std::mem::take(&mut self.open_losses) {
            if loss.to.0 > now {
                self.open_losses.push(loss);
            } else {
                self.doubt_open_intervals(&loss);
            }
        }
        self.next_loss_end = self.open_losses.iter().map(|l| l.to.0).min().unwrap_or(u64::MAX);
    }

    /// Off-CPU intervals that overlap with a loss may have been several, with runs between.
    fn doubt_open_intervals(&mut self, loss: &Loss) {
        for slot in 0..self.threads.list.len() as Slot {
            let thread = &self.threads.list[slot as usize];
            let off =
                matches!(thread.phase, Phase::Waiting | Phase::Blocked | Phase::OffUnknown | Phase::Unseen);
            if off
                && (thread.since <= loss.to.0 || thread.phase == Phase::Unseen)
                && self.may_concern(loss, slot)
            {
                self.forget_off_cpu(slot, loss.from.0);
            }
        }
    }

    /// What a thread off the CPU does is unknown from here on; up to `known_until`, it is known.
    fn forget_off_cpu(&mut self, slot: Slot, known_until: u64) {
        let thread = &mut self.threads.list[slot as usize];
        let known = known_until.saturating_sub(thread.since.max(self.window.0));
        match thread.phase {
            Phase::Waiting => {
                thread.totals.wait_budget[usize::from(thread.cause == WaitCause::Preemption)] += known;
                self.discard_wait(slot, self.end, Discard::Loss);
            }
            Phase::Blocked => {
                thread.totals.blocked += known;
                thread.totals.blocked_by_state[state_index(thread.state)] += known;
                thread.totals.blocked_by_reason[thread.reason as usize] += known;
                self.discard_blocked(slot, Discard::Loss);
            }
            _ => {}
        }
        self.threads.list[slot as usize].phase = Phase::Unknown;
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
                    thread.totals.blocked += time;
                    thread.totals.blocked_by_state[state_index(thread.state)] += time;
                    thread.totals.blocked_by_reason[thread.reason as usize] += time;
                    self.off_intervals.cut_at_end += u64::from(thread.counted);
                }
                _ => {}
            }
        }
    }
}

impl Thread {
    /// Whether its present wait follows a blocked time deduced from before the trace.
    fn began_waiting_unseen(&self) -> bool {
        self.phase == Phase::Waiting
            && self.state == TaskState::Unknown
            && self.last_cpu == NO_CPU
            && !self.began
    }
}

fn block_reason(thread: &Thread, state: TaskState, syscalls: Syscalls) -> BlockReason {
    match (state, thread.inside) {
        (TaskState::Stopped | TaskState::Traced, _) => BlockReason::Stopped,
        (TaskState::Idle | TaskState::Parked, _) => BlockReason::KernelThread,
        _ if thread.kernel => BlockReason::KernelThread,
        (_, Inside::Syscall(number)) => syscalls.reason(number, state),
        (_, Inside::User { faulted: true }) => BlockReason::PageFault,
        (_, Inside::User { faulted: false } | Inside::Unknown) => BlockReason::Unknown,
    }
}

impl Losses {
    const LISTED: usize = 1000;

    fn record(&mut self, loss: &Loss) {
        match loss.count {
            Some(count) => self.events += count,
            None => self.uncounted += 1,
        }
        if self.intervals.len() < Losses::LISTED {
            self.intervals.push(*loss);
        } else {
            self.intervals_not_listed += 1;
        }
    }
}
