//! The threads of a trace: found by number in constant time, each number's successive
//! owners apart.

use trace::{Comm, Tid, ident::ThreadKey, task_state::TaskState};

use super::result::{BlockReason, IdleBeside, Intervals, Migrations, WaitCause};

/// Position in [`Threads::list`].
pub(crate) type Slot = u32;

/// No CPU.
pub(crate) const NO_CPU: u16 = u16::MAX;
/// No entry in the list of waiting threads.
pub(crate) const NO_ENTRY: u32 = u32::MAX;

/// What a thread is doing, as far as events tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Alive since before the trace; what it does its next event will tell.
    Unseen,
    /// Not known and not to be deduced: a loss, a gap, or the clock.
    Unknown,
    /// Made, not yet runnable.
    Made,
    /// On the CPU `Thread::last_cpu`.
    Running,
    /// Runnable, on the queue of `Thread::queue_cpu`.
    Waiting,
    /// Blocked in `Thread::state`.
    Blocked,
    /// Off the CPU in a state that the trace does not tell.
    OffUnknown,
    /// Gone.
    Dead,
}

/// Which event began a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartedBy {
    Waking,
    Wakeup,
    WakeupNew,
    Switch,
}

/// Who woke a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WokenBy {
    Thread(Slot),
    Interrupt,
    Unknown,
}

/// The system call a thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    /// System calls have not been seen of this thread.
    Unknown,
    /// In user space (or a kernel path entered by a fault), with a page fault last or not.
    User { faulted: bool },
    /// In this system call.
    Syscall(i64),
}

/// Times and counts of one thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub on_cpu: u64,
    pub irq: u64,
    pub softirq: u64,
    pub wait_time: [u64; 2],
    pub wait_count: [u64; 2],
    pub wait_max: [u64; 2],
    pub wait_budget: [u64; 2],
    pub wait_cut: u64,
    pub blocked: u64,
    pub blocked_by_state: [u64; 10],
    pub blocked_by_reason: [u64; BlockReason::COUNT],
    pub intervals: Intervals,
    pub switched_in: u64,
    pub voluntary: u64,
    pub involuntary: u64,
    pub longest_run: u64,
    pub migrations: Migrations,
    pub idle_beside: IdleBeside,
    pub held_back: IdleBeside,
    /// Time that counted threads waited for the CPU this one was on.
    pub kept_others: u64,
}

impl Totals {
    /// So much more time blocked.
    #[inline]
    pub fn add_blocked(&mut self, state: TaskState, reason: BlockReason, time: u64) {
        self.blocked += time;
        self.blocked_by_state[state_index(state)] += time;
        self.blocked_by_reason[reason as usize] += time;
    }

    /// Takes time back that was thought to be blocked, as far as there is any.
    pub fn take_back_blocked(&mut self, state: TaskState, reason: BlockReason, time: u64) {
        for sum in [
            &mut self.blocked,
            &mut self.blocked_by_state[state_index(state)],
            &mut self.blocked_by_reason[reason as usize],
        ] {
            *sum = sum.saturating_sub(time);
        }
    }
}

impl BlockReason {
    pub(crate) const COUNT: usize = BlockReason::Unknown as usize + 1;
    pub(crate) const ALL: [BlockReason; BlockReason::COUNT] = [
        BlockReason::Futex,
        BlockReason::Sleep,
        BlockReason::Poll,
        BlockReason::Network,
        BlockReason::Child,
        BlockReason::Sync,
        BlockReason::BlockIo,
        BlockReason::PipeOrSocket,
        BlockReason::PageFault,
        BlockReason::OtherSyscall,
        BlockReason::KernelThread,
        BlockReason::Stopped,
        BlockReason::Unknown,
    ];
}

/// All states, so that tables over them can be indexed.
pub(crate) const STATES: [TaskState; 10] = [
    TaskState::Runnable,
    TaskState::Preempted,
    TaskState::Sleeping,
    TaskState::Uninterruptible,
    TaskState::Stopped,
    TaskState::Traced,
    TaskState::Dead,
    TaskState::Zombie,
    TaskState::Parked,
    TaskState::Idle,
];

/// Position in [`STATES`]; states that cannot be decoded share the last but one place
/// with none that a thread blocks in.
pub(crate) fn state_index(state: TaskState) -> usize {
    match state {
        TaskState::Runnable => 0,
        TaskState::Unknown | TaskState::Preempted => 1,
        TaskState::Sleeping => 2,
        TaskState::Uninterruptible => 3,
        TaskState::Stopped => 4,
        TaskState::Traced => 5,
        TaskState::Dead => 6,
        TaskState::Zombie => 7,
        TaskState::Parked => 8,
        TaskState::Idle => 9,
    }
}

/// The state that an index of a blocked-time table stands for.
pub(crate) fn blocked_state(index: usize) -> TaskState {
    if index <= 1 { TaskState::Unknown } else { STATES[index] }
}

/// One thread's life.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub key: ThreadKey,
    /// How many threads had been seen before it; never used again.
    pub serial: u32,
    pub comm: Comm,
    pub phase: Phase,
    /// Since when it has been in `phase`.
    pub since: u64,
    pub state: TaskState,
    pub reason: BlockReason,
    pub cause: WaitCause,
    pub started_by: StartedBy,
    pub woken_by: WokenBy,
    pub waker_cpu: u16,
    pub queue_cpu: u16,
    pub last_cpu: u16,
    pub prio: i16,
    pub has_prio: bool,
    /// Whether its time and waits are reported.
    pub counted: bool,
    pub began: bool,
    pub exiting: bool,
    /// A waking was seen whose wakeup has not come yet.
    pub owes_wakeup: bool,
    /// It has been woken since it last ran, so it cannot be found asleep.
    pub woken_waiting: bool,
    /// Whether it is a kernel thread for certain.
    pub kernel: bool,
    pub is_ksoftirqd: bool,
    /// When it was switched in without any wakeup; 0: not so.
    pub ran_unwoken_at: u64,
    /// Idle time of the CPU it waits for when its wait began.
    pub idle_mark: u64,
    /// Its place among the waiting threads that may use several CPUs.
    pub entry: u32,
    /// Last pair of waker and woken it was the woken of.
    pub last_pair: u32,
    pub inside: Inside,
    pub process: Option<Tid>,
    pub parent: Option<ThreadKey>,
    pub former: Vec<Comm>,
    pub first: u64,
    pub end: Option<u64>,
    pub totals: Totals,
}

/// All threads.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    pub list: Vec<Thread>,
    pages: Vec<Option<Box<[Slot; PAGE]>>>,
    generations: std::collections::HashMap<i32, u32>,
    next_serial: u32,
}

const PAGE: usize = 1024;
const NONE: Slot = u32::MAX;
/// PID_MAX_LIMIT of 64-bit kernels.
const TID_LIMIT: i32 = 1 << 22;

impl Threads {
    /// Whether this can be a thread's number (the idle thread's is not).
    #[inline]
    pub fn valid(tid: Tid) -> bool {
        tid.0 > 0 && tid.0 <= TID_LIMIT
    }

    /// The present owner of a number.
    #[inline]
    pub fn find(&self, tid: Tid) -> Option<Slot> {
        let page = self.pages.get(tid.0 as usize / PAGE)?.as_ref()?;
        let slot = page[tid.0 as usize % PAGE];
        (slot != NONE).then_some(slot)
    }

    fn set(&mut self, tid: Tid, slot: Slot) {
        let page = tid.0 as usize / PAGE;
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        self.pages[page].get_or_insert_with(|| Box::new([NONE; PAGE]))[tid.0 as usize % PAGE] = slot;
    }

    /// A new owner of a number, whatever it was before.
    #[cold]
    pub fn make(&mut self, tid: Tid, phase: Phase, now: u64, counted: bool) -> Slot {
        let generation = match self.find(tid) {
            Some(old) => self.list[old as usize].key.generation + 1,
            None => self.generations.get(&tid.0).copied().unwrap_or(0),
        };
        let slot = self.list.len() as Slot;
        self.list.push(Thread {
            key: ThreadKey { tid, generation },
            serial: self.next_serial,
            comm: Comm::default(),
            phase,
            since: now,
            state: TaskState::Unknown,
            reason: BlockReason::Unknown,
            cause: WaitCause::Wakeup,
            started_by: StartedBy::Waking,
            woken_by: WokenBy::Unknown,
            waker_cpu: NO_CPU,
            queue_cpu: NO_CPU,
            last_cpu: NO_CPU,
            prio: 0,
            has_prio: false,
            counted,
            began: false,
            exiting: false,
            owes_wakeup: false,
            woken_waiting: false,
            kernel: tid == Tid(2),
            is_ksoftirqd: false,
            ran_unwoken_at: 0,
            idle_mark: 0,
            entry: NO_ENTRY,
            last_pair: NO_ENTRY,
            inside: Inside::Unknown,
            process: None,
            parent: None,
            former: Vec::new(),
            first: now,
            end: None,
            totals: Totals::default(),
        });
        self.next_serial += 1;
        self.set(tid, slot);
        slot
    }

    /// A thread takes over another number (exec by a thread other than the leader).
    pub fn renumber(&mut self, slot: Slot, to: Tid) {
        let from = self.list[slot as usize].key.tid;
        let generation = match self.find(to) {
            Some(old) => self.list[old as usize].key.generation + 1,
            None => self.generations.get(&to.0).copied().unwrap_or(0),
        };
        self.set(from, NONE);
        self.generations.insert(from.0, self.list[slot as usize].key.generation + 1);
        self.list[slot as usize].key = ThreadKey { tid: to, generation };
        self.set(to, slot);
    }

    /// How many threads there have ever been.
    pub fn made(&self) -> u32 {
        self.next_serial
    }

    /// Drops the threads for which `keep` is false; `moved[old]` is the new slot of those
    /// kept, `u32::MAX` for the others.
    pub fn compact(&mut self, keep: &[bool]) -> Vec<Slot> {
        let mut moved = vec![NONE; self.list.len()];
        let old = std::mem::take(&mut self.list);
        for (slot, thread) in old.into_iter().enumerate() {
            let current = self.find(thread.key.tid) == Some(slot as Slot);
            if keep[slot] {
                moved[slot] = self.list.len() as Slot;
                if current {
                    self.set(thread.key.tid, moved[slot]);
                }
                self.list.push(thread);
            } else if current {
                self.set(thread.key.tid, NONE);
                self.generations.insert(thread.key.tid.0, thread.key.generation + 1);
            }
        }
        moved
    }
}

/// One set of CPUs per thread, all of the same size.
#[derive(Debug, Default)]
pub(crate) struct CpuSets {
    words: usize,
    bits: Vec<u64>,
}

impl CpuSets {
    pub fn new() -> CpuSets {
        CpuSets { words: 1, bits: Vec::new() }
    }

    /// The set of one thread, as words.
    #[inline]
    pub fn of(&self, slot: Slot) -> &[u64] {
        let from = slot as usize * self.words;
        self.bits.get(from..from + self.words).unwrap_or(&[])
    }

    #[inline]
    pub fn has(&self, slot: Slot, cpu: u16) -> bool {
        self.of(slot).get(cpu as usize / 64).is_some_and(|w| w >> (cpu % 64) & 1 == 1)
    }

    /// Whether a thread's set has more than one CPU.
    #[inline]
    pub fn has_several(&self, slot: Slot) -> bool {
        match self.of(slot) {
            [word] => word & word.wrapping_sub(1) != 0,
            words => words.iter().map(|word| word.count_ones()).sum::<u32>() > 1,
        }
    }

    #[inline]
    pub fn add(&mut self, slot: Slot, cpu: u16) {
        let at = slot as usize * self.words + cpu as usize / 64;
        if (cpu as usize) < self.words * 64
            && let Some(word) = self.bits.get_mut(at)
        {
            *word |= 1 << (cpu % 64);
            return;
        }
        self.grow(slot, cpu);
        self.bits[slot as usize * self.words + cpu as usize / 64] |= 1 << (cpu % 64);
    }

    #[cold]
    fn grow(&mut self, slot: Slot, cpu: u16) {
        let words = self.words.max(cpu as usize / 64 + 1);
        if words > self.words {
            let mut wider = Vec::new();
            for set in self.bits.chunks(self.words) {
                wider.extend_from_slice(set);
                wider.resize(wider.len() + words - self.words, 0);
            }
            self.bits = wider;
            self.words = words;
        }
        let needed = (slot as usize + 1) * self.words;
        if self.bits.len() < needed {
            self.bits.resize(needed, 0);
        }
    }

    pub fn cpus(&self, slot: Slot) -> impl Iterator<Item = u16> + '_ {
        self.of(slot).iter().enumerate().flat_map(|(w, bits)| {
            (0..64).filter(move |b| bits >> b & 1 == 1).map(move |b| (w * 64 + b) as u16)
        })
    }

    pub fn compact(&mut self, moved: &[Slot]) {
        let mut bits = Vec::new();
        for (slot, &to) in moved.iter().enumerate() {
            if to != NONE {
                let start = to as usize * self.words;
                bits.resize(start, 0);
                bits.extend_from_slice(self.of(slot as Slot));
                bits.resize(start + self.words, 0);
            }
        }
        self.bits = bits;
    }
}
