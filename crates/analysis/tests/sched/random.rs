//! Traces made at random by a small model of a scheduler, judged by the reference.

use std::collections::BTreeMap;

use analysis::sched::{
    SchedOptions, SchedResult, analyse,
    options::AffinityFact,
    result::{WaitCause, WaitReport},
};
use testkit::scenario::{Scenario, Step, What, Who};
use trace::{Cpu, Loss, Nanos, TaskState, Tid};

use crate::{
    describe::describe,
    reference::{self, Life},
};

/// A small generator (splitmix64), so that each failure names the seed that repeats it.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Mode {
    Runs,
    Queued(usize),
    Sleeps,
}

/// A scheduler that decides by dice.
struct Model {
    random: Random,
    now: u64,
    steps: Vec<Step>,
    current: Vec<i32>,
    threads: BTreeMap<i32, Mode>,
    /// Threads that were woken by `sched_waking`, their `sched_wakeup` still to come.
    owed: Vec<(i32, u32)>,
    /// Threads woken since they last ran: they cannot be woken again.
    woken: std::collections::BTreeSet<i32>,
    next_tid: i32,
    dead: Vec<i32>,
    reuse: bool,
}

impl Model {
    fn run(seed: u64, length: usize, reuse: bool) -> Vec<Step> {
        let mut random = Random(seed);
        let cpus = 1 + random.below(4);
        let count = 1 + random.below(9) as i32;
        let mut threads = BTreeMap::new();
        let mut current = vec![0; cpus];
        for tid in 10..10 + count {
            let cpu = random.below(cpus);
            let mode = match random.below(3) {
                0 if current[cpu] == 0 => {
                    current[cpu] = tid;
                    Mode::Runs
                }
                1 => Mode::Queued(cpu),
                _ => Mode::Sleeps,
            };
            threads.insert(tid, mode);
        }
        let mut model = Model {
            random,
            now: 1_000_000,
            steps: Vec::new(),
            current,
            threads,
            owed: Vec::new(),
            woken: std::collections::BTreeSet::new(),
            next_tid: 100,
            dead: Vec::new(),
            reuse,
        };
        while model.steps.len() < length {
            let cpu = model.random.below(model.current.len());
            match model.random.below(100) {
                0..45 => model.switch(cpu),
                45..75 => model.wake(cpu),
                75..82 => model.late_wakeup(),
                82..88 => model.needless_wakeup(cpu),
                88..92 => model.fork(cpu),
                92..95 => model.migrate(cpu),
                _ => model.push(cpu, What::Tick),
            }
        }
        // The reference learns who runs from switches alone.
        let mut switched = vec![false; cpus];
        for step in &mut model.steps {
            let known = &mut switched[step.cpu as usize];
            *known |= matches!(step.what, What::Switch(..));
            if !*known {
                step.by = None;
            }
        }
        model.steps
    }

    fn push(&mut self, cpu: usize, what: What) {
        if self.random.chance(85) {
            self.now += 1 + self.random.next() % 40;
        }
        let by = self.random.chance(60).then(|| self.current[cpu]);
        self.steps.push(Step { time: self.now, cpu: cpu as u32, by, what });
    }

    fn pick(&mut self, wanted: impl Fn(Mode) -> bool) -> Option<i32> {
        let fitting: Vec<i32> = self.threads.iter().filter(|t| wanted(*t.1)).map(|t| *t.0).collect();
        (!fitting.is_empty()).then(|| fitting[self.random.below(fitting.len())])
    }

    fn pay_wakeup(&mut self, tid: i32) {
        while let Some(at) = self.owed.iter().position(|o| o.0 == tid) {
            let (tid, cpu) = self.owed.swap_remove(at);
            self.push(cpu as usize, What::Wakeup(Who::number(tid), cpu));
        }
    }

    fn switch(&mut self, cpu: usize) {
        let prev = self.current[cpu];
        let next = if self.random.chance(70) {
            self.pick(|m| m == Mode::Queued(cpu))
        } else if self.random.chance(50) {
            self.pick(|m| matches!(m, Mode::Queued(_)))
        } else {
            None
        };
        let next = next.unwrap_or(0);
        if next == prev {
            return;
        }
        let state = match self.random.below(20) {
            _ if prev == 0 => TaskState::Runnable,
            0..6 => TaskState::Preempted,
            6..9 => TaskState::Runnable,
            9..16 => TaskState::Sleeping,
            16..18 => TaskState::Uninterruptible,
            18 => TaskState::Idle,
            _ => TaskState::Dead,
        };
        if prev != 0 && !state.is_runnable() {
            self.pay_wakeup(prev);
            if state == TaskState::Dead {
                self.push(cpu, What::Exit(Who::number(prev)));
            }
        }
        self.push(cpu, What::Switch(Who::number(prev), state, Who::number(next)));
        if prev != 0 {
            let mode = match state {
                TaskState::Runnable | TaskState::Preempted => Mode::Queued(cpu),
                _ => Mode::Sleeps,
            };
            self.threads.insert(prev, mode);
            if state == TaskState::Dead {
                self.threads.remove(&prev);
                self.dead.push(prev);
            }
        }
        if next != 0 {
            self.threads.insert(next, Mode::Runs);
            self.woken.remove(&next);
        }
        self.current[cpu] = next;
    }

    fn wake(&mut self, cpu: usize) {
        let Some(tid) = self.pick(|m| m == Mode::Sleeps) else { return };
        let last = self.random.below(self.current.len()) as u32;
        let target = self.random.below(self.current.len()) as u32;
        self.push(cpu, What::Waking(Who::number(tid), last));
        self.threads.insert(tid, Mode::Queued(target as usize));
        self.woken.insert(tid);
        if self.random.chance(60) {
            let waker = if self.random.chance(50) { cpu } else { target as usize };
            self.push(waker, What::Wakeup(Who::number(tid), target));
        } else {
            self.owed.push((tid, target));
        }
    }

    fn late_wakeup(&mut self) {
        if !self.owed.is_empty() {
            let at = self.random.below(self.owed.len());
            self.pay_wakeup(self.owed[at].0);
        }
    }

    fn needless_wakeup(&mut self, cpu: usize) {
        // Running, or preempted on its way to sleep.
        let woken = self.woken.clone();
        let fitting = |t: &(&i32, &Mode)| *t.1 != Mode::Sleeps && !woken.contains(t.0);
        let fitting: Vec<i32> = self.threads.iter().filter(fitting).map(|t| *t.0).collect();
        if fitting.is_empty() {
            return;
        }
        let tid = fitting[self.random.below(fitting.len())];
        if self.threads[&tid] != Mode::Runs {
            self.woken.insert(tid);
        }
        self.pay_wakeup(tid);
        let target = self.random.below(self.current.len()) as u32;
        self.push(cpu, What::Waking(Who::number(tid), target));
        self.push(cpu, What::Wakeup(Who::number(tid), target));
    }

    fn fork(&mut self, cpu: usize) {
        let parent = self.current[cpu];
        if parent == 0 || self.threads.len() > 14 {
            return;
        }
        let child = match self.dead.pop() {
            Some(tid) if self.reuse => tid,
            _ => {
                self.next_tid += 1;
                self.next_tid
            }
        };
        let target = self.random.below(self.current.len());
        self.push(cpu, What::Fork(Who::number(parent), Who::number(child)));
        self.push(cpu, What::New(Who::number(child), target as u32));
        self.threads.insert(child, Mode::Queued(target));
        self.woken.insert(child);
    }

    fn migrate(&mut self, cpu: usize) {
        let Some(tid) = self.pick(|m| matches!(m, Mode::Queued(_))) else { return };
        let Mode::Queued(from) = self.threads[&tid] else { return };
        let to = self.random.below(self.current.len());
        self.push(cpu, What::Migrate(Who::number(tid), from as u32, to as u32));
        self.threads.insert(tid, Mode::Queued(to));
    }
}

fn text(steps: &[Step]) -> String {
    steps.iter().map(|s| format!("{s}\n")).collect()
}

fn all_waits() -> SchedOptions {
    SchedOptions { long_waits: usize::MAX, idle_floor_ns: 0, ..SchedOptions::default() }
}

/// Waits as thread, start, end.
fn waits_of(result: &SchedResult) -> Vec<(i32, u32, u64, u64)> {
    let mut waits: Vec<_> = result
        .long_waits
        .iter()
        .map(|w| (w.thread.tid.0, w.thread.generation, w.start.0, w.start.0 + w.wait_ns))
        .collect();
    waits.sort_unstable();
    waits
}

#[test]
fn whole_traces_give_what_the_reference_gives() {
    for seed in 0..200 {
        let length = 30 + (seed as usize % 8) * 40;
        let steps = Model::run(seed, length, true);
        let result = analyse(&mut Scenario::new(&steps, None), &all_waits());
        let lives = reference::lives(&steps);
        let context = || format!("seed {seed}\n{}{}", text(&steps), describe(&result));
        let mut expected: Vec<_> = lives
            .iter()
            .flat_map(|l| l.waits.iter().map(|w| (l.tid, l.generation, w.start, w.end)))
            .collect();
        expected.sort_unstable();
        assert_eq!(waits_of(&result), expected, "{}", context());
        let clean = (result.losses.gaps, result.losses.switched_in_without_wakeup, result.clock_quality);
        assert_eq!(clean, (0, 0, Default::default()), "{}", context());
        for life in &lives {
            compare_life(&result, life, &context);
        }
        check_distributions(&result.wait, &lives, &context);
        check_totals(&result, &steps, &context);
    }
}

fn compare_life(result: &SchedResult, life: &Life, context: &dyn Fn() -> String) {
    let found =
        result.threads.iter().find(|t| t.key.tid.0 == life.tid && t.key.generation == life.generation);
    let Some(thread) = found else { panic!("thread {} is missing\n{}", life.tid, context()) };
    let budget = &thread.budget;
    let ours = (
        budget.span_ns,
        budget.running_ns,
        budget.wakeup_wait_ns,
        budget.preemption_wait_ns,
        budget.cut_wait_ns,
        budget.blocked_ns,
        budget.remainder_ns,
    );
    let theirs = (
        life.span,
        life.running,
        life.wakeup_wait,
        life.preemption_wait,
        life.cut_wait,
        life.blocked,
        life.unborn,
    );
    assert_eq!(ours, theirs, "thread {}+{}\n{}", life.tid, life.generation, context());
    let counts = (thread.switched_in, thread.voluntary_switches, thread.involuntary_switches);
    assert_eq!(
        counts,
        (life.switched_in, life.voluntary, life.involuntary),
        "thread {}\n{}",
        life.tid,
        context()
    );
    assert_eq!(thread.migrations.migrations, life.migrations, "thread {}\n{}", life.tid, context());
    assert_eq!(
        thread.idle_beside.time_ns,
        life.beside_idle,
        "beside idle, thread {}\n{}",
        life.tid,
        context()
    );
    assert_eq!(thread.wait_intervals.cut_at_end, life.open_waits, "thread {}\n{}", life.tid, context());
}

fn check_distributions(report: &WaitReport, lives: &[Life], context: &dyn Fn() -> String) {
    let lengths = |wanted: &dyn Fn(WaitCause) -> bool| {
        let mut all: Vec<u64> = lives
            .iter()
            .flat_map(|l| l.waits.iter().filter(|w| wanted(w.cause)).map(|w| w.end - w.start))
            .collect();
        all.sort_unstable();
        all
    };
    for (distribution, mut values) in [
        (&report.total, lengths(&|_| true)),
        (&report.wakeup, lengths(&|c| c != WaitCause::Preemption)),
        (&report.preemption, lengths(&|c| c == WaitCause::Preemption)),
    ] {
        assert_eq!(distribution.count, values.len() as u64, "{}", context());
        assert_eq!(distribution.sum_ns, values.iter().sum::<u64>(), "{}", context());
        let Some(quantiles) = distribution.quantiles else {
            assert!(values.is_empty());
            continue;
        };
        let at = |q: f64| values[((values.len() as f64 * q).ceil() as usize).max(1) - 1];
        assert_eq!(
            [quantiles.p50_ns, quantiles.p90_ns, quantiles.p99_ns, quantiles.p999_ns, quantiles.error_ns],
            [at(0.5), at(0.9), at(0.99), at(0.999), 0],
            "{}",
            context()
        );
        assert_eq!(Some(quantiles.max_ns), values.pop(), "{}", context());
        let drawn: u64 = distribution.histogram.as_ref().unwrap().buckets.iter().map(|b| b.count).sum();
        assert_eq!(drawn, distribution.count);
    }
    let by_cpu: u64 = report.by_cpu.iter().map(|g| g.total.count).sum();
    assert_eq!(by_cpu, report.total.count);
    for group in &report.by_cpu {
        assert_eq!(group.wakeups.count + group.preemptions.count, group.total.count);
        assert_eq!(group.wakeups.time_ns + group.preemptions.time_ns, group.total.sum_ns);
    }
}

fn check_totals(result: &SchedResult, steps: &[Step], context: &dyn Fn() -> String) {
    let (busy, idle, switches) = reference::cpus(steps);
    for cpu in &result.cpus {
        let at = cpu.cpu.0 as usize;
        if let Some(busy) = busy[at] {
            assert_eq!(
                (cpu.busy_ns, cpu.idle_ns, cpu.unknown_ns),
                (busy, idle[at], 0),
                "CPU {at}\n{}",
                context()
            );
        }
        assert_eq!(cpu.switches, switches[at], "CPU {at}\n{}", context());
    }
    let lanes: u64 = result.timeline.lanes.iter().flat_map(|l| &l.waiting_ns).sum();
    let waits: u64 =
        result.threads.iter().map(|t| t.budget.wakeup_wait_ns + t.budget.preemption_wait_ns).sum();
    // A thread that runs since before the trace and is "woken" by several CPUs before its first
    // switch was drawn as waiting on one after the other; only the last is taken back.
    let woken_while_running = reference::woken_while_running(steps);
    assert!(waits <= lanes && lanes <= waits + woken_while_running, "{lanes} {waits}\n{}", context());
}

#[test]
fn what_is_lost_is_never_made_up() {
    let (mut kept, mut discarded) = (0, 0);
    for seed in 1000..1400 {
        let steps = Model::run(seed, 300, false);
        let mut random = Random(seed ^ 0x5555);
        let Some((damaged, late)) = lose(&steps, &mut random) else { continue };
        let tids: std::collections::BTreeSet<i32> = reference::lives(&steps).iter().map(|l| l.tid).collect();
        let everywhere =
            tids.iter().map(|t| AffinityFact { tid: Tid(*t), cpus: (0..4).map(Cpu).collect() }).collect();
        let options = SchedOptions { affinity: everywhere, ..all_waits() };
        let result = analyse(&mut Scenario::new(&damaged, None), &options);
        let context = || format!("seed {seed}\n{}{}", text(&damaged), describe(&result));
        let lives = reference::lives(&steps);
        for (tid, _, start, end) in waits_of(&result) {
            let truth = lives.iter().filter(|l| l.tid == tid).flat_map(|l| &l.waits);
            // A wait whose waking was lost may begin at its wakeup.
            let fits = truth.clone().any(|w| w.end == end && w.start <= start);
            assert!(fits, "thread {tid} did not wait {start}..{end}\n{}", context());
            kept += 1;
        }
        discarded += result.wait.intervals.discarded_by_loss;
        check_parts(&result, &lives, &context);
        let result = analyse(&mut Scenario::new(&late, None), &options);
        check_parts(&result, &lives, &|| format!("late, seed {seed}\n{}{}", text(&late), describe(&result)));
    }
    assert!(kept > 5000 && discarded > 300, "the test tests something: {kept} kept, {discarded} discarded");
}

fn check_parts(result: &SchedResult, lives: &[Life], context: &dyn Fn() -> String) {
    for thread in &result.threads {
        let budget = &thread.budget;
        let parts = budget.running_ns + budget.waiting_ns() + budget.blocked_ns + budget.remainder_ns;
        assert_eq!(parts, budget.span_ns, "thread {}\n{}", thread.key.tid.0, context());
        let truth: u64 = lives.iter().filter(|l| l.tid == thread.key.tid.0).map(|l| l.running).sum();
        assert!(budget.running_ns <= truth, "thread {} ran {truth}\n{}", thread.key.tid.0, context());
    }
}

/// Takes out what one CPU recorded in a while; the loss told at its beginning, and at its end.
fn lose(steps: &[Step], random: &mut Random) -> Option<(Vec<Step>, Vec<Step>)> {
    let cpu = random.below(2) as u32;
    let own: Vec<usize> = (0..steps.len()).filter(|i| steps[*i].cpu == cpu).collect();
    if own.len() < 20 {
        return None;
    }
    let first = random.below(own.len() - 15);
    let last = first + 2 + random.below(12);
    let (from, to) = (own[first], own[last]);
    let loss = Loss {
        cpu: Some(Cpu(cpu)),
        from: Nanos(steps[from].time),
        to: Nanos(steps[to].time),
        count: Some((last - first - 1) as u64),
    };
    let told = |time| Step { time, cpu, by: None, what: What::Lost(loss) };
    let is_gone = |i: usize| i > from && i < to && steps[i].cpu == cpu;
    let mut early: Vec<Step> = Vec::new();
    let mut late: Vec<Step> = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        if i == to {
            late.push(told(step.time));
        }
        if !is_gone(i) {
            early.push(step.clone());
            late.push(step.clone());
        }
        if i == from {
            early.push(told(step.time));
        }
    }
    Some((early, late))
}

#[test]
fn a_hidden_thread_costs_intervals_and_makes_none_up() {
    let (mut gaps, mut kept) = (0, 0);
    for seed in 2000..2300 {
        let steps = Model::run(seed, 300, false);
        // Nothing that happens while this thread is current is in the trace.
        let hidden = 10;
        let mut current: BTreeMap<u32, i32> = BTreeMap::new();
        let mut seen = Vec::new();
        for (i, step) in steps.iter().enumerate() {
            let on_cpu =
                current.get(&step.cpu).copied().unwrap_or_else(|| reference::first_current(&steps, step.cpu));
            if on_cpu != hidden {
                seen.push(steps[i].clone());
            }
            if let What::Switch(_, _, next) = &step.what {
                current.insert(step.cpu, next.tid);
            }
        }
        let result = analyse(&mut Scenario::new(&seen, None), &all_waits());
        let context = || format!("seed {seed}\n{}{}", text(&seen), describe(&result));
        let lives = reference::lives(&steps);
        for (tid, _, start, end) in waits_of(&result) {
            let mut truth = lives.iter().filter(|l| l.tid == tid).flat_map(|l| &l.waits);
            let fits = truth.any(|w| w.end == end && w.start <= start);
            assert!(tid == hidden || fits, "thread {tid} did not wait {start}..{end}\n{}", context());
            kept += 1;
        }
        gaps += result.losses.gaps;
    }
    assert!(gaps > 300 && kept > 5000, "the test tests something: {gaps} gaps, {kept} waits");
}
