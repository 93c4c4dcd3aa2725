//! What the scheduler analysis finds, as plain data.
//!
//! Times ending in `_ns` are nanoseconds; points in time are on the trace's clock.
//! Percentages never occur: shares are left to whoever displays.

use serde::{Deserialize, Serialize};
use trace::{ClockKind, Cpu, Loss, Nanos, TaskState, Tid, ident::ThreadKey};

use crate::distribution::{Distribution, HeatMap};

/// All that the scheduler analysis finds in one trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SchedResult {
    /// Rises when a field changes its meaning or goes away.
    pub version: u32,
    /// What the numbers rest on.
    pub provenance: Provenance,
    /// What is missing.
    pub losses: Losses,
    /// How well the clock orders events.
    pub clock_quality: ClockQuality,
    /// The sentences a reader should see first, most important first.
    pub findings: Vec<Finding>,
    /// Time from runnable to running.
    pub wait: WaitReport,
    /// Time blocked: by state, by reason, and who ended it.
    pub off_cpu: OffCpuReport,
    /// Each thread that was seen, those that waited longest first; the idle threads are not
    /// among them (their time is in `cpus`).
    pub threads: Vec<ThreadReport>,
    /// Exited threads beyond `SchedOptions::max_threads`, summed; `None` if there were none.
    pub folded_threads: Option<FoldedThreads>,
    /// Each CPU of which there is an event.
    pub cpus: Vec<CpuReport>,
    /// Moves between CPUs, of all threads.
    pub migrations: Migrations,
    /// Waits while another allowed CPU was idle, of all threads.
    pub idle_beside: IdleBeside,
    /// Waits while the CPU waited for was itself idle for at least `SchedOptions::held_floor_ns`,
    /// of all threads: the scheduler held them back, as a cgroup's CPU quota does.
    pub held_back: IdleBeside,
    /// Load by CPU over time.
    pub timeline: Timeline,
    /// The longest waits, longest first.
    pub long_waits: Vec<LongWait>,
    /// Threads that were still waiting for a CPU when the trace ended, longest first.
    pub open_waits: Vec<OpenWait>,
}

impl SchedResult {
    /// The present [`SchedResult::version`].
    pub const VERSION: u32 = 1;
}

/// What the numbers rest on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The file format, such as `trace.dat v7`.
    pub file_format: String,
    /// The program that wrote the trace.
    pub producer: Option<String>,
    /// `uname -r` of the traced machine.
    pub kernel_release: Option<String>,
    /// The clock of the time stamps.
    pub clock: ClockKind,
    /// First and last event (of any kind) within the counted window; `None` without events.
    pub span: Option<(Nanos, Nanos)>,
    /// CPUs that the machine had; 0 where unknown.
    pub cpu_count: u32,
    /// CPUs of which there is at least one event.
    pub cpus_seen: Vec<Cpu>,
    /// Events and samples read.
    pub items: u64,
    /// Events used, by their kernel name, those that occur.
    pub events_used: Vec<(String, u64)>,
    /// How wakeup waits began.
    pub wait_starts: WaitStarts,
    /// What this trace cannot tell, since an event or a field is not in it.
    pub missing: Vec<Missing>,
    /// Records too short for their format.
    pub short_records: u64,
    /// Why the trace ends before it was meant to, if it does.
    pub cut: Option<String>,
    /// Where the CPUs that a thread may run on come from.
    pub affinity: AffinitySource,
    /// How often the trace was read to get the percentiles exact.
    pub passes: u32,
}

/// Which event began the wakeup waits. `sched_waking` comes in the waker's context before the
/// target CPU is chosen, `sched_wakeup` when the thread is on a run queue: some
/// microseconds later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitStarts {
    /// Waits that began with `sched_waking`.
    pub waking: u64,
    /// Waits that began with `sched_wakeup`, there being no `sched_waking` before it.
    pub wakeup: u64,
    /// First waits of new threads, begun with `sched_wakeup_new`.
    pub wakeup_new: u64,
    /// Waits that began with the switch that took the CPU away.
    pub preemption: u64,
}

/// Something that this trace cannot tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The event, such as `sched:sched_waking`, or event and field `sched:sched_switch.prev_state`.
    pub what: String,
    /// What therefore is not known, as a sentence.
    pub consequence: String,
}

/// Where the CPUs that a thread may run on come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AffinitySource {
    /// Only from where threads ran or were sent within the trace: a thread that never went
    /// to a CPU it may use is not credited with it.
    #[default]
    Learned,
    /// Given for some threads, learned for the others.
    GivenForSome,
}

/// What is missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Losses {
    /// Events lost, as far as the producer counted.
    pub events: u64,
    /// Losses that the producer gave without a count.
    pub uncounted: u64,
    /// Losses with their place, in order; at most 1000 are listed.
    pub intervals: Vec<Loss>,
    /// How many more there were than are listed.
    pub intervals_not_listed: u64,
    /// Events lost of which only the total is known, not when: nothing could be cut for them.
    pub events_without_place: u64,
    /// Places where a CPU's running thread was not the one last switched to, without a loss
    /// being told: events of hidden threads. Intervals across them were cut.
    pub gaps: u64,
    /// Switches to a sleeping thread without any wakeup event although the trace has them.
    pub switched_in_without_wakeup: u64,
}

/// How well the clock orders events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockQuality {
    /// Events of one CPU that are stamped earlier than the event before them.
    pub backward_steps: u64,
    /// The widest of these steps.
    pub max_backward_ns: u64,
    /// Wakeups stamped after the thread they woke was already running on another CPU, and
    /// waits that would be negative.
    pub effects_before_causes: u64,
    /// The widest of these.
    pub max_effect_before_cause_ns: u64,
}

/// A sentence for the reader, with the numbers it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable name of the kind of finding, such as `idle_beside`.
    pub id: String,
    /// How much it matters.
    pub weight: Weight,
    /// The finding in plain words with its numbers and units.
    pub text: String,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// Explains or confirms.
    Note,
    /// Worth a look.
    Notable,
    /// The numbers or the machine are in trouble.
    Serious,
}

/// How many intervals stand behind a statement, and how many could not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intervals {
    /// Begun and ended within the trace: these are counted.
    pub complete: u64,
    /// Ended, but begun before the trace (or window).
    pub cut_at_start: u64,
    /// Begun, but not ended when the trace (or window) ended.
    pub cut_at_end: u64,
    /// Open while events of a CPU they may concern were lost.
    pub discarded_by_loss: u64,
    /// Open across a gap: an event that contradicts what was known.
    pub discarded_by_gap: u64,
    /// Would be negative: the clock steps back, or differs between CPUs.
    pub discarded_by_clock: u64,
}

/// Run-queue wait: from runnable to running.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitReport {
    /// What stands behind it.
    pub intervals: Intervals,
    /// All waits.
    pub total: Distribution,
    /// Waits after a wakeup, first waits of new threads among them.
    pub wakeup: Distribution,
    /// Waits after the CPU was taken away or yielded.
    pub preemption: Distribution,
    /// By the CPU the thread then ran on.
    pub by_cpu: Vec<GroupWait>,
    /// By process, where the trace or the run knows it.
    pub by_process: Vec<GroupWait>,
    /// By priority when switched in (0–99 real-time, 100–139 normal, -1 deadline).
    pub by_priority: Vec<GroupWait>,
    /// By policy class, as far as the priority tells it.
    pub by_policy: Vec<GroupWait>,
    /// By cgroup, where the run knows it.
    pub by_cgroup: Vec<GroupWait>,
    /// Who had the CPU while threads waited for it, the most time first: the sum over all is
    /// the waiting time, complete waits or not.
    pub meanwhile: Vec<HadCpu>,
    /// All waits over time.
    pub heat: HeatMap,
    /// Waits after a wakeup over time.
    pub heat_wakeup: HeatMap,
    /// Waits after preemption over time.
    pub heat_preemption: HeatMap,
}

/// Threads of one name, and how long others waited for the CPU that they had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HadCpu {
    /// Who.
    pub who: CpuHolder,
    /// How many threads of this name.
    pub threads: u64,
    /// Waiting time of others meanwhile: two that wait for a millisecond are two milliseconds.
    pub others_waited_ns: u64,
}

/// Who had a CPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuHolder {
    /// Threads of this name that are counted themselves.
    Counted(String),
    /// Threads of this name that are not among those asked for.
    NotCounted(String),
    /// Nobody: the CPU idled, and the waiting were held back or on their way.
    Idle,
    /// Not known: a loss, a gap, or before the first event.
    Unknown,
}

/// The waits of one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupWait {
    /// What the group has in common.
    pub group: Group,
    /// How it is called, such as `CPU 1`, `nice 0 (120)`, `postgres`.
    pub name: String,
    /// All its waits.
    pub total: Distribution,
    /// Of these, after a wakeup: how many, and their sum.
    pub wakeups: CountAndTime,
    /// Of these, after preemption: how many, and their sum.
    pub preemptions: CountAndTime,
    /// Time its threads ran.
    pub running_ns: u64,
}

/// What the waits of a [`GroupWait`] have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// The CPU that the thread then ran on.
    Cpu(Cpu),
    /// The process; `None`: its process is not known.
    Process(Option<Tid>),
    /// The kernel's priority number.
    Priority(i32),
    /// The policy class.
    Policy(PolicyClass),
    /// The cgroup's path; `None`: its cgroup is not known.
    Cgroup(Option<String>),
}

/// What a priority number tells of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyClass {
    /// `SCHED_DEADLINE` (priority -1).
    Deadline,
    /// `SCHED_FIFO`, `SCHED_RR` and the kernel's stop threads (0–99).
    RealTime,
    /// `SCHED_OTHER`, `SCHED_BATCH` and `SCHED_EXT` (100–139).
    Normal,
}

/// How many, and their time together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountAndTime {
    /// How many.
    pub count: u64,
    /// Their time together.
    pub time_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Time blocked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OffCpuReport {
    /// What stands behind it.
    pub intervals: Intervals,
    /// All blocked times, from switching off to the wakeup that ended them.
    pub total: Distribution,
    /// By the state in which threads left the CPU.
    pub by_state: Vec<StateTime>,
    /// By reason, as far as other events tell.
    pub by_reason: Vec<ReasonTime>,
    /// Who woke whom, by the blocked time that ended so.
    pub wakers: Vec<WakerPair>,
    /// Pairs not listed in `wakers`, summed.
    pub other_wakers: CountAndTime,
}

/// Blocked time in one state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateTime {
    /// The state.
    pub state: TaskState,
    /// The times.
    pub blocked: Distribution,
}

/// Blocked time for one reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReasonTime {
    /// The reason.
    pub reason: BlockReason,
    /// The times.
    pub blocked: Distribution,
}

/// Why a thread blocked, as far as the events before it tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockReason {
    /// Within a system call that waits for a futex: locks and condition variables.
    Futex,
    /// Within a system call that only waits for time to pass.
    Sleep,
    /// Within a system call that waits for any of several descriptors (poll, select, epoll).
    Poll,
    /// Within a system call on sockets.
    Network,
    /// Within a system call that waits for a child process.
    Child,
    /// Within a system call that forces data to storage (fsync and its like).
    Sync,
    /// Uninterruptible within a system call that reads or writes: storage, mostly.
    BlockIo,
    /// Interruptible within a system call that reads or writes: pipes, sockets, terminals.
    PipeOrSocket,
    /// After a page fault, outside system calls.
    PageFault,
    /// Within another system call.
    OtherSyscall,
    /// A kernel thread, in interruptible or idle sleep: no work for it.
    KernelThread,
    /// Stopped by a signal or a tracer.
    Stopped,
    /// System calls are not in the trace, or the thread entered its call before the trace.
    #[default]
    Unknown,
}

/// One waker and one thread it woke.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WakerPair {
    /// Who woke.
    pub waker: Waker,
    /// Name of the waker (for interrupts, of the thread they interrupted).
    pub waker_name: String,
    /// Who was woken.
    pub woken: ThreadKey,
    /// Name of the woken.
    pub woken_name: String,
    /// How often, the blocked time ended so, and the longest.
    pub blocked: CountAndTime,
}

/// Who woke a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Waker {
    /// A thread.
    Thread(ThreadKey),
    /// An interrupt while the CPU was idle (or in an interrupt handler seen in the trace).
    Interrupt,
    /// Not known: a loss or a gap.
    Unknown,
}

/// What is known of one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadReport {
    /// The thread.
    pub key: ThreadKey,
    /// Its last name.
    pub name: String,
    /// Names it had before, oldest first, at most eight.
    pub former_names: Vec<String>,
    /// Its process, where known.
    pub process: Option<Tid>,
    /// Its cgroup, where known.
    pub cgroup: Option<String>,
    /// Who made it, where seen.
    pub parent: Option<ThreadKey>,
    /// Whether it began within the trace.
    pub began: bool,
    /// Whether it ended within the trace.
    pub ended: bool,
    /// Its last priority; `None` if no event carried it.
    pub priority: Option<i32>,
    /// Where its time went.
    pub budget: TimeBudget,
    /// Its waits for a CPU.
    pub wait: Distribution,
    /// Of these, after a wakeup.
    pub wakeup_wait: CountAndTime,
    /// Of these, after preemption.
    pub preemption_wait: CountAndTime,
    /// What stands behind the waits.
    pub wait_intervals: Intervals,
    /// Times it was switched in.
    pub switched_in: u64,
    /// Switches off in which it blocked.
    pub voluntary_switches: u64,
    /// Switches off in which it was still runnable.
    pub involuntary_switches: u64,
    /// The longest uninterrupted run on one CPU.
    pub longest_run_ns: u64,
    /// Moves between CPUs.
    pub migrations: Migrations,
    /// CPUs it ran on.
    pub ran_on: Vec<Cpu>,
    /// Waits while another allowed CPU was idle.
    pub idle_beside: IdleBeside,
    /// Waits while the CPU waited for was itself idle: held back, as by a CPU quota.
    pub held_back: IdleBeside,
}

/// Where a thread's time went. The parts and the remainder add up to the span exactly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeBudget {
    /// From when the thread (or the trace) began to when either ended.
    pub span_ns: u64,
    /// On a CPU, interrupts taken off.
    pub running_ns: u64,
    /// Runnable after a wakeup and not on a CPU.
    pub wakeup_wait_ns: u64,
    /// Runnable after preemption and not on a CPU.
    pub preemption_wait_ns: u64,
    /// Runnable from the trace's start to its first run: whether after a wakeup or after
    /// preemption is not known.
    pub cut_wait_ns: u64,
    /// Blocked, all states.
    pub blocked_ns: u64,
    /// On a CPU, but a hardware interrupt's handler ran (0 where they are not traced).
    pub stolen_by_irq_ns: u64,
    /// On a CPU, but a softirq ran (0 where they are not traced).
    pub stolen_by_softirq_ns: u64,
    /// Neither: losses, gaps, backward steps of the clock.
    pub remainder_ns: u64,
    /// `blocked_ns` by state.
    pub blocked_by_state: Vec<(TaskState, u64)>,
    /// `blocked_ns` by reason.
    pub blocked_by_reason: Vec<(BlockReason, u64)>,
}

/// Exited threads that have no row of their own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FoldedThreads {
    /// How many.
    pub threads: u64,
    /// Where their time went.
    pub budget: TimeBudget,
    /// Their waits.
    pub wait: CountAndTime,
    /// Times they were switched in.
    pub switched_in: u64,
}

/// Moves between CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Migrations {
    /// Switched in on another CPU than it last ran on.
    pub migrations: u64,
    /// `sched_migrate_task` events.
    pub migrate_events: u64,
    /// Wakeups of a sleeping thread that were followed by a run.
    pub wakeups: u64,
    /// Of these, by a waker on another CPU than the one it then ran on.
    pub cross_cpu_wakeups: u64,
}

/// Waits that overlapped with a CPU being idle: another allowed one while the CPU waited for
/// was busy (`idle_beside`), or the CPU waited for itself (`held_back`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleBeside {
    /// Waits that overlapped with it for at least the floor that the options state.
    pub waits: u64,
    /// The overlap of these, together.
    pub time_ns: u64,
    /// The longest overlap.
    pub max_ns: u64,
}

/// One CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuReport {
    /// The CPU.
    pub cpu: Cpu,
    /// Switches on it.
    pub switches: u64,
    /// Time it ran threads, interrupts included.
    pub busy_ns: u64,
    /// Time it ran its idle thread, interrupts included.
    pub idle_ns: u64,
    /// Time of which that is not known: before its first event, losses, gaps.
    pub unknown_ns: u64,
    /// Of all these, in hardware interrupts' handlers (0 where they are not traced).
    pub irq_ns: u64,
    /// Of all these, in softirqs outside ksoftirqd (0 where they are not traced).
    pub softirq_ns: u64,
    /// Events lost on it, as far as counted.
    pub lost: u64,
    /// Most threads seen waiting for it at one time.
    pub max_waiting: u32,
}

/// Load by CPU over time. Column `i` of each lane covers
/// `start_ns + i * column_ns ..` for `column_ns`; the last one may be covered partly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Left edge of the first column.
    pub start_ns: u64,
    /// Where the trace ends.
    pub end_ns: u64,
    /// Width of a column.
    pub column_ns: u64,
    /// One lane per CPU of `SchedResult::cpus`, in the same order.
    pub lanes: Vec<Lane>,
}

/// One CPU's load over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lane {
    /// The CPU.
    pub cpu: Cpu,
    /// Time per column that it ran threads.
    pub busy_ns: Vec<u64>,
    /// Time per column of which it is not known what it ran.
    pub unknown_ns: Vec<u64>,
    /// Thread-nanoseconds per column spent waiting for it: divided by the column's width,
    /// the mean number of threads waiting.
    pub waiting_ns: Vec<u64>,
    /// Most threads waiting at one time, per column.
    pub max_waiting: Vec<u32>,
}

/// One long wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LongWait {
    /// Who waited.
    pub thread: ThreadKey,
    /// Its name then.
    pub name: String,
    /// Its priority when switched in.
    pub priority: i32,
    /// Why it waited.
    pub cause: WaitCause,
    /// When it became runnable.
    pub start: Nanos,
    /// For how long it waited.
    pub wait_ns: u64,
    /// The CPU on whose queue it was last known to be.
    pub waited_on: Cpu,
    /// The CPU it then ran on.
    pub ran_on: Cpu,
    /// Who woke it; `None` for preemption and new threads.
    pub waker: Option<Waker>,
    /// Overlap with another allowed CPU being idle.
    pub idle_beside_ns: u64,
    /// Who ran meanwhile on the CPU it waited on, longest first, at most eight.
    pub meanwhile: Vec<Meanwhile>,
    /// Share of the wait that `meanwhile` was drawn from: only the last runs of each CPU are
    /// remembered.
    pub meanwhile_covers_ns: u64,
}

/// Why a thread waits for a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitCause {
    /// It was woken.
    Wakeup,
    /// It is new.
    New,
    /// The CPU was taken from it, or it yielded.
    Preemption,
}

/// Who ran on a CPU while another thread waited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meanwhile {
    /// Who ran; tid 0 is the idle thread.
    pub thread: ThreadKey,
    /// Its name.
    pub name: String,
    /// For how long within the wait.
    pub time_ns: u64,
    /// In how many pieces.
    pub runs: u32,
}

/// A wait that had not ended when the trace did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenWait {
    /// Who waits.
    pub thread: ThreadKey,
    /// Its name.
    pub name: String,
    /// Why it waits.
    pub cause: WaitCause,
    /// Since when.
    pub start: Nanos,
    /// For how long already.
    pub age_ns: u64,
    /// The CPU on whose queue it was last known to be.
    pub waited_on: Cpu,
}

impl TimeBudget {
    /// Runnable and not on a CPU, for whatever cause.
    pub fn waiting_ns(&self) -> u64 {
        self.wakeup_wait_ns + self.preemption_wait_ns + self.cut_wait_ns
    }
}
