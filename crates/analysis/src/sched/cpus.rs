//! The CPUs of a trace: what each runs, who waits for it, and how that went over time.

use trace::Cpu;

use super::threads::{NO_CPU, Slot};
use crate::axis::{Axis, join_columns, spread, take_back};

/// Larger than any kernel's NR_CPUS; records with larger numbers are damaged.
pub(crate) const CPU_LIMIT: u32 = 8192;

/// What a CPU is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Current {
    /// No event yet: what the first tells held since the trace's start.
    Never,
    /// A loss or a gap.
    Unknown,
    Idle,
    Thread(Slot),
}

/// One piece of a CPU's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub slot: Slot,
    pub from: u64,
    pub to: u64,
}

/// [`Run::slot`] of the idle thread.
pub(crate) const IDLE_SLOT: Slot = u32::MAX;

const RUNS_KEPT: usize = 1024;

#[derive(Debug)]
pub(crate) struct CpuState {
    pub seen: bool,
    pub current: Current,
    /// Since when; for `Unknown` since when it is unknown.
    pub since: u64,
    /// Time of its last event.
    pub last: u64,
    pub switches: u64,
    pub busy: u64,
    pub idle: u64,
    pub unknown: u64,
    pub irq: u64,
    pub softirq: u64,
    pub lost: u64,
    /// Nesting of hardware interrupt handlers.
    pub hard: u32,
    pub hard_since: u64,
    pub soft: bool,
    pub soft_since: u64,
    /// Threads on its queue, not running.
    pub waiting: u32,
    pub waiting_since: u64,
    pub most_waiting: u32,
    /// Threads that are counted among the waiting, and their waiting time since whoever runs
    /// here was switched to.
    held: u32,
    held_since: u64,
    held_ns: u64,
    pub lane: LaneColumns,
    runs: Vec<Run>,
    runs_next: usize,
}

/// One CPU's columns.
#[derive(Debug, Default)]
pub(crate) struct LaneColumns {
    pub busy: Vec<u64>,
    pub unknown: Vec<u64>,
    pub waiting: Vec<u64>,
    pub most: Vec<u32>,
}

impl CpuState {
    fn new() -> CpuState {
        CpuState {
            seen: false,
            current: Current::Never,
            since: 0,
            last: 0,
            switches: 0,
            busy: 0,
            idle: 0,
            unknown: 0,
            irq: 0,
            softirq: 0,
            lost: 0,
            hard: 0,
            hard_since: 0,
            soft: false,
            soft_since: 0,
            waiting: 0,
            waiting_since: 0,
            most_waiting: 0,
            held: 0,
            held_since: 0,
            held_ns: 0,
            lane: LaneColumns::default(),
            runs: Vec::new(),
            runs_next: 0,
        }
    }

    #[inline]
    fn settle_held(&mut self, now: u64, from_window: u64) {
        if self.held > 0 {
            self.held_ns += u64::from(self.held) * now.saturating_sub(self.held_since.max(from_window));
        }
        self.held_since = now;
    }

    /// Accounts the threads waiting for it up to `now`, for which the axis has a column.
    #[inline]
    fn settle_waiting(&mut self, axis: &Axis, from_window: u64, now: u64) {
        let from = self.waiting_since.max(from_window);
        if self.waiting > 0 && now > from {
            let LaneColumns { waiting, most, .. } = &mut self.lane;
            let column = axis.only_column(from, now);
            match column.and_then(|at| Some((waiting.get_mut(at)?, most.get_mut(at)?))) {
                Some((waiting, most)) => {
                    *waiting += (now - from) * u64::from(self.waiting);
                    *most = (*most).max(self.waiting);
                }
                None => self.settle_columns(axis, from, now),
            }
        }
        self.waiting_since = now;
    }

    #[cold]
    fn settle_columns(&mut self, axis: &Axis, from: u64, now: u64) {
        spread(axis, &mut self.lane.waiting, from, now, u64::from(self.waiting));
        let (first, last) = (axis.column_at(from), axis.column_at(now - 1));
        let most = &mut self.lane.most;
        if most.len() <= last {
            most.resize(last + 1, 0);
        }
        for most in &mut most[first..=last] {
            *most = (*most).max(self.waiting);
        }
    }

    /// Remembers a piece of its time.
    #[inline]
    pub fn remember(&mut self, run: Run) {
        if self.runs.len() < RUNS_KEPT {
            self.runs.push(run);
            return;
        }
        self.runs[self.runs_next] = run;
        self.runs_next = (self.runs_next + 1) % RUNS_KEPT;
    }

    /// The pieces remembered.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    pub fn rename_slots(&mut self, moved: &[Slot]) {
        if let Current::Thread(slot) = &mut self.current {
            *slot = moved[*slot as usize];
        }
        self.runs.retain_mut(|run| {
            if run.slot != IDLE_SLOT {
                run.slot = moved[run.slot as usize];
                // u32::MAX marks both the idle thread and a thread that is gone.
                return run.slot != IDLE_SLOT;
            }
            true
        });
        self.runs_next = 0;
    }
}

/// All CPUs.
#[derive(Debug)]
pub(crate) struct Cpus {
    pub list: Vec<CpuState>,
    /// Which are idle, one bit each.
    pub idle: Vec<u64>,
    pub axis: Axis,
    pub window_start: u64,
    /// By CPU, those that are reported; empty: all.
    selected: Vec<bool>,
    /// Whether columns and pieces are kept, not sums alone.
    keep: bool,
}

impl Cpus {
    pub fn new(columns: usize, selected: &[Cpu], keep: bool) -> Cpus {
        let mut flags = Vec::new();
        for cpu in selected.iter().filter(|cpu| cpu.0 < CPU_LIMIT) {
            let at = cpu.0 as usize;
            flags.resize(flags.len().max(at + 1), false);
            flags[at] = true;
        }
        let axis = Axis::new(0, columns);
        Cpus { list: Vec::new(), idle: vec![0], axis, window_start: 0, selected: flags, keep }
    }

    /// Whether this CPU is asked about.
    #[inline]
    pub fn is_selected(&self, cpu: u16) -> bool {
        self.selected.is_empty() || self.selected.get(cpu as usize).copied().unwrap_or(false)
    }

    /// The CPUs to report: seen, and asked about.
    pub fn reported(&self) -> impl Iterator<Item = (usize, &CpuState)> {
        self.list.iter().enumerate().filter(|(at, cpu)| cpu.seen && self.is_selected(*at as u16))
    }

    /// Makes room for a CPU. `false` when the number cannot be one.
    #[inline]
    pub fn ensure(&mut self, cpu: u32) -> bool {
        if (cpu as usize) < self.list.len() {
            return true;
        }
        self.ensure_slow(cpu)
    }

    #[cold]
    fn ensure_slow(&mut self, cpu: u32) -> bool {
        if cpu >= CPU_LIMIT || cpu as u16 == NO_CPU {
            return false;
        }
        self.list.resize_with(cpu as usize + 1, CpuState::new);
        self.idle.resize(self.list.len().div_ceil(64), 0);
        true
    }

    #[inline]
    pub fn is_idle(&self, cpu: u16) -> bool {
        self.idle.get(cpu as usize / 64).is_some_and(|w| w >> (cpu % 64) & 1 == 1)
    }

    #[inline]
    pub fn set_idle(&mut self, cpu: u16, idle: bool) {
        let word = &mut self.idle[cpu as usize / 64];
        *word = *word & !(1 << (cpu % 64)) | u64::from(idle) << (cpu % 64);
    }

    /// Widens the columns until there is one for `time`.
    #[inline]
    pub fn reach(&mut self, time: u64) {
        if let Err(times) = self.axis.column(time) {
            self.double(times);
        }
    }

    #[cold]
    fn double(&mut self, times: u32) {
        self.axis.double(times);
        for cpu in &mut self.list {
            join_columns(&mut cpu.lane.busy, times, |a, b| *a += b);
            join_columns(&mut cpu.lane.unknown, times, |a, b| *a += b);
            join_columns(&mut cpu.lane.waiting, times, |a, b| *a += b);
            join_columns(&mut cpu.lane.most, times, |a, b| *a = (*a).max(b));
        }
    }

    /// Accounts what `cpu` ran from its `since` to `to`, and begins the next piece there.
    #[inline]
    pub fn account(&mut self, cpu: u16, to: u64) {
        if !self.keep {
            self.list[cpu as usize].since = to;
            return;
        }
        self.reach(to);
        let from_window = self.window_start;
        let state = &mut self.list[cpu as usize];
        let from = state.since.max(from_window);
        let time = to.saturating_sub(from);
        match state.current {
            Current::Thread(slot) => {
                state.busy += time;
                spread(&self.axis, &mut state.lane.busy, from, to, 1);
                state.remember(Run { slot, from: state.since, to });
            }
            Current::Idle => {
                state.idle += time;
                state.remember(Run { slot: IDLE_SLOT, from: state.since, to });
            }
            Current::Unknown | Current::Never => {
                state.unknown += time;
                spread(&self.axis, &mut state.lane.unknown, from, to, 1);
            }
        }
        state.since = to;
    }

    /// Time that `cpu` is known to have been idle up to `now`.
    #[inline]
    pub fn idle_time(&self, cpu: u16, now: u64) -> u64 {
        match self.list.get(cpu as usize) {
            Some(state) if state.current == Current::Idle => {
                state.idle + now.saturating_sub(state.since.max(self.window_start))
            }
            Some(state) => state.idle,
            None => 0,
        }
    }

    /// One thread more (or less) waits for `cpu` from `now` on.
    #[inline]
    pub fn waiting(&mut self, cpu: u16, now: u64, more: bool) {
        if cpu == NO_CPU {
            return;
        }
        self.reach(now);
        let state = &mut self.list[cpu as usize];
        state.settle_waiting(&self.axis, self.window_start, now);
        state.waiting = if more { state.waiting + 1 } else { state.waiting.saturating_sub(1) };
        if now >= self.window_start {
            state.most_waiting = state.most_waiting.max(state.waiting);
        }
    }

    /// One counted thread more (or less) waits for `cpu` from `now` on.
    #[inline]
    pub fn hold(&mut self, cpu: u16, now: u64, more: bool) {
        if !self.is_selected(cpu) {
            return;
        }
        let from_window = self.window_start;
        let Some(state) = self.list.get_mut(cpu as usize) else { return };
        state.settle_held(now, from_window);
        state.held = if more { state.held + 1 } else { state.held.saturating_sub(1) };
    }

    /// Waiting time of counted threads on `cpu`'s queue since this was last asked.
    #[inline]
    pub fn take_held(&mut self, cpu: u16, now: u64) -> u64 {
        let from_window = self.window_start;
        let state = &mut self.list[cpu as usize];
        state.settle_held(now, from_window);
        std::mem::take(&mut state.held_ns)
    }

    /// A thread thought to wait for `cpu` since `from` did not; it is off the queue already.
    pub fn did_not_wait(&mut self, cpu: u16, from: u64, now: u64) {
        if cpu != NO_CPU {
            let from = from.max(self.window_start);
            take_back(&self.axis, &mut self.list[cpu as usize].lane.waiting, from, now, 1);
        }
    }

    /// Accounts the threads waiting for `cpu` up to `now`, for which there is a column.
    pub fn settle_waiting(&mut self, cpu: u16, now: u64) {
        self.list[cpu as usize].settle_waiting(&self.axis, self.window_start, now);
    }
}
