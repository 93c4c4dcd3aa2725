//! The kernel's counters around a recording, for the cross-check of its trace.
//!
//! They are read while events flow: right after recording begins and right before it ends.
//! An analysis limited to the span between sees exactly what the counters counted, but for
//! what happened during a reading itself, which is stated as slack.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use analysis::crosscheck::{Counter, Quantity, Subject};
use analysis::sched::{SchedResult, result::ThreadReport};
use kernel::cgroup::{self, Throttling};
use kernel::proc_counters::{SystemCounters, ThreadCounters, control_group_of, read_threads};
use kernel::task_exits::ExitListener;
use serde::{Deserialize, Serialize};
use trace::Nanos;

/// The name of the file in a run folder.
pub const FILE_NAME: &str = "counters.json";

/// What the counters counted between two moments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CounterSpan {
    /// Layout of this value.
    pub version: u32,
    /// The beginning, on `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// The end.
    pub to_ns: u64,
    /// Context switches of the whole system.
    pub context_switches: Option<u64>,
    /// How many of them may lie outside of the span, or outside of the count.
    pub context_switch_slack: u64,
    /// By thread: those that lived at the beginning or the end, or were heard of as they ended.
    pub threads: BTreeMap<u32, ThreadSpan>,
    /// Control groups that their CPU quota held back, by path.
    #[serde(default)]
    pub throttled: BTreeMap<String, Throttling>,
    /// What is known of threads that lived at the beginning or the end.
    pub facts: Vec<ThreadFacts>,
    /// Clock ticks (of 1/100 s) that the hypervisor took from all CPUs.
    pub stolen_ticks: u64,
    /// What is missing, as sentences.
    pub notes: Vec<String>,
}

/// What was counted for one thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadSpan {
    /// Its name at last.
    pub comm: String,
    /// Switches because it had to wait.
    pub voluntary_switches: Option<u64>,
    /// Switches although it could have gone on.
    pub involuntary_switches: Option<u64>,
    /// Nanoseconds on a CPU.
    pub run_ns: Option<u64>,
    /// Nanoseconds runnable and not on a CPU.
    pub wait_ns: Option<u64>,
    /// Nanoseconds by which its readings lie beside the ends of the span.
    pub beside_ns: u64,
    /// Whether the last reading was the kernel's at its end.
    pub at_exit: bool,
}

/// What /proc says of a thread that a trace does not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadFacts {
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub process: u32,
    /// CPUs it may run on.
    pub allowed_cpus: Option<Vec<u32>>,
    /// Its control group.
    pub cgroup: Option<String>,
}

/// Reads the counters at both ends and hears of threads that end between.
#[derive(Debug)]
pub struct Sampler {
    before: Option<Reading>,
    exits: Option<ExitListener>,
    ended: BTreeMap<u32, ThreadSpan>,
    notes: Vec<String>,
}

#[derive(Debug)]
struct Reading {
    system: SystemCounters,
    threads: BTreeMap<u32, ThreadCounters>,
    /// By thread.
    groups: BTreeMap<u32, String>,
    /// By path.
    throttling: BTreeMap<String, Throttling>,
}

impl Reading {
    fn new(system: SystemCounters, threads: BTreeMap<u32, ThreadCounters>) -> Reading {
        let group =
            |thread: &ThreadCounters| Some((thread.tid, control_group_of(thread.process, thread.tid)?));
        let groups: BTreeMap<u32, String> = threads.values().filter_map(group).collect();
        let paths: BTreeSet<&String> = groups.values().collect();
        let hierarchy = cgroup::cpu_hierarchy();
        let count = |path: &String| Some((path.clone(), cgroup::throttling(hierarchy.as_deref()?, path)?));
        let throttling = paths.into_iter().filter_map(count).collect();
        Reading { system, threads, groups, throttling }
    }
}

/// Reading each thread takes some 30 µs; hosts with more threads are read in part.
const MOST_THREADS: usize = 3000;

impl Sampler {
    /// Begins to listen; to be made before recording begins.
    pub fn new() -> Sampler {
        let mut notes = Vec::new();
        let exits = ExitListener::open().map_err(|refused| {
            notes.push(format!("threads that ended were not checked one by one: {refused}"))
        });
        Sampler { before: None, exits: exits.ok(), ended: BTreeMap::new(), notes }
    }

    /// Takes the first reading; exits heard of so far are forgotten.
    pub fn begin(&mut self) {
        let threads = read();
        if let Some(exits) = &mut self.exits {
            exits.take();
        }
        match SystemCounters::read() {
            Ok(system) => self.before = Some(Reading::new(system, threads)),
            Err(error) => self.notes.push(format!("/proc/stat cannot be read: {error}")),
        }
    }

    /// Whether the first reading was taken.
    pub fn has_begun(&self) -> bool {
        self.before.is_some()
    }

    /// Takes up exits; to be called a few times a second.
    pub fn visit(&mut self) {
        let Some(listener) = &mut self.exits else { return };
        for exit in listener.take() {
            let before = self.before.as_ref().and_then(|reading| reading.threads.get(&exit.tid));
            let since = |now: u64, before: Option<u64>| Some(now.saturating_sub(before.unwrap_or(0)));
            let span = ThreadSpan {
                comm: exit.comm.clone(),
                // The switch that takes it off the CPU for good comes after this count.
                voluntary_switches: since(
                    exit.voluntary_switches + 1,
                    before.and_then(|b| b.voluntary_switches),
                ),
                involuntary_switches: since(
                    exit.involuntary_switches,
                    before.and_then(|b| b.involuntary_switches),
                ),
                run_ns: since(exit.run_ns, before.and_then(|b| b.run_ns)),
                wait_ns: since(exit.wait_ns, before.and_then(|b| b.wait_ns)),
                beside_ns: 0,
                at_exit: true,
            };
            self.ended.insert(exit.tid, span);
        }
    }

    /// Takes the last reading; `None` when the first one failed or this one does.
    pub fn end(&mut self) -> Option<CounterSpan> {
        let before = self.before.take()?;
        let system = SystemCounters::read().ok()?;
        let after = read();
        self.visit();
        Some(self.span(&before, &Reading::new(system, after)))
    }

    fn span(&mut self, before: &Reading, after: &Reading) -> CounterSpan {
        let middle = |system: &SystemCounters| system.read_from_ns.midpoint(system.read_to_ns);
        let (from_ns, to_ns) = (middle(&before.system), middle(&after.system));
        let switches = after.system.context_switches.saturating_sub(before.system.context_switches);
        let readings = [&before.system, &after.system].map(|system| system.read_to_ns - system.read_from_ns);
        let per_ns = switches as f64 / to_ns.saturating_sub(from_ns).max(1) as f64;
        let steal = |reading: &Reading| reading.system.cpus.iter().map(|cpu| cpu.steal).sum::<u64>();
        let mut threads = std::mem::take(&mut self.ended);
        for (tid, now) in &after.threads {
            let then = before.threads.get(tid);
            // A number that was given to another thread in between counts from nothing.
            let then = then.filter(|then| then.run_ns <= now.run_ns && !threads.contains_key(tid));
            let since = |now: Option<u64>, then: Option<Option<u64>>| match then {
                Some(then) => Some(now?.saturating_sub(then?)),
                None => now,
            };
            let beside =
                now.read_at_ns.abs_diff(to_ns) + then.map_or(0, |then| then.read_at_ns.abs_diff(from_ns));
            threads.insert(
                *tid,
                ThreadSpan {
                    comm: now.comm.clone(),
                    voluntary_switches: since(now.voluntary_switches, then.map(|t| t.voluntary_switches)),
                    involuntary_switches: since(
                        now.involuntary_switches,
                        then.map(|t| t.involuntary_switches),
                    ),
                    run_ns: since(now.run_ns, then.map(|t| t.run_ns)),
                    wait_ns: since(now.wait_ns, then.map(|t| t.wait_ns)),
                    beside_ns: beside,
                    at_exit: false,
                },
            );
        }
        if self.exits.as_ref().is_some_and(ExitListener::overrun) {
            self.notes.push("more threads ended at once than the kernel could tell of".to_owned());
        }
        CounterSpan {
            version: 1,
            from_ns,
            to_ns,
            context_switches: Some(switches),
            context_switch_slack: 4 + (per_ns * readings.iter().sum::<u64>() as f64).ceil() as u64,
            threads,
            throttled: throttled(before, after),
            facts: facts(&[before, after]),
            stolen_ticks: steal(after).saturating_sub(steal(before)),
            notes: std::mem::take(&mut self.notes),
        }
    }
}

impl Default for Sampler {
    fn default() -> Self {
        Sampler::new()
    }
}

/// What each group's quota did between the readings; groups that it left alone are not listed.
fn throttled(before: &Reading, after: &Reading) -> BTreeMap<String, Throttling> {
    let earlier = |path: &String| before.throttling.get(path).copied().unwrap_or_default();
    let since = after.throttling.iter().map(|(path, now)| (path.clone(), now.since(earlier(path))));
    since.filter(|(_, counts)| counts.throttled_periods > 0).collect()
}

/// Facts of the threads of all readings; the last reading counts.
fn facts(readings: &[&Reading]) -> Vec<ThreadFacts> {
    let mut facts = BTreeMap::new();
    for reading in readings {
        for thread in reading.threads.values() {
            let (tid, process) = (thread.tid, thread.process);
            let cgroup = reading.groups.get(&tid).cloned();
            facts
                .insert(tid, ThreadFacts { tid, process, allowed_cpus: thread.allowed_cpus.clone(), cgroup });
        }
    }
    facts.into_values().collect()
}

fn read() -> BTreeMap<u32, ThreadCounters> {
    let mut left = MOST_THREADS;
    read_threads(|_, _| {
        left = left.saturating_sub(1);
        left > 0
    })
}

/// Threads whose rows are worth reading: so many of those that ran or waited most.
const ROWS: usize = 8;
/// Work of a thread's end that comes after the kernel's last count of it: its memory is given back.
const EXIT_SLACK_NS: u64 = 5_000_000;
/// The scheduler's tick at 100 Hz, the slowest that is built.
const TICK_NS: u64 = 10_000_000;
/// Below this a thread's times say more about the readings than about the thread.
const WORTH_CHECKING_NS: u64 = 100_000_000;

impl CounterSpan {
    /// The counters to compare a result with: the whole system's switches, and switches, run
    /// time and wait time of the threads that ran or waited most. `whole_system` tells
    /// whether events of all threads were recorded.
    pub fn counters(&self, result: &SchedResult, whole_system: bool) -> Vec<Counter> {
        let mut counters = Vec::new();
        if let Some(switches) = self.context_switches.filter(|_| whole_system) {
            counters.push(Counter {
                subject: Subject::System,
                quantity: Quantity::Switches,
                value: switches,
                source: "/proc/stat ctxt".into(),
                slack: self.context_switch_slack,
            });
        }
        let mut threads: Vec<_> = result.threads.iter().collect();
        threads
            .sort_by_key(|thread| std::cmp::Reverse(thread.budget.running_ns + thread.budget.waiting_ns()));
        let checked = threads.into_iter().filter_map(|thread| {
            let span = self.threads.get(&u32::try_from(thread.key.tid.0).ok()?)?;
            let weight = thread.budget.running_ns + thread.budget.waiting_ns();
            (weight >= WORTH_CHECKING_NS).then_some((thread, span))
        });
        for (thread, span) in checked.take(ROWS) {
            span.push(thread, self.to_ns.saturating_sub(self.from_ns), &mut counters);
        }
        counters
    }

    /// Groups held back by their quota, of which a thread is in the result: path, counts.
    pub fn held_back<'a>(&'a self, result: &SchedResult) -> Vec<(&'a str, Throttling)> {
        let seen: BTreeSet<u32> =
            result.threads.iter().filter_map(|thread| u32::try_from(thread.key.tid.0).ok()).collect();
        let of_seen = |path: &str| {
            self.facts.iter().any(|facts| facts.cgroup.as_deref() == Some(path) && seen.contains(&facts.tid))
        };
        self.throttled
            .iter()
            .filter(|(path, _)| of_seen(path))
            .map(|(path, counts)| (path.as_str(), *counts))
            .collect()
    }

    /// The span as bounds for an analysis of a trace with a monotonic clock.
    pub fn bounds(&self) -> (Nanos, Nanos) {
        (Nanos(self.from_ns), Nanos(self.to_ns))
    }

    /// Writes it into a run folder.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        let text = serde_json::to_string(self).expect("counters have only numbers and texts");
        std::fs::write(folder.join(FILE_NAME), text)
    }

    /// Reads that of a run folder; `None` where there is none.
    pub fn read(folder: &Path) -> Option<CounterSpan> {
        let text = std::fs::read_to_string(folder.join(FILE_NAME)).ok()?;
        serde_json::from_str(&text).ok().filter(|span: &CounterSpan| span.version == 1)
    }
}

/// How far the kernel's own run and wait times may be off. It stamps a switch with the run
/// queue's clock, and does not renew that when a wakeup or a yield has just done so
/// (`rq_clock_skip_update`, kernel/sched): a run that preempts begins, in its account, at the
/// wakeup, and the time until the switch counts as running although it was waiting.
fn clock_slack_ns(thread: &ThreadReport) -> u64 {
    // The time from a wakeup to the switch it forces is an interrupt's latency: no more than
    // the shorter half of the waits, and than this.
    const LONGEST_FORCED_SWITCH_NS: u64 = 50_000;
    const YIELD_NS: u64 = 200;
    let median = thread.wait.quantiles.map_or(0, |quantiles| quantiles.p50_ns);
    thread.wakeup_wait.count * median.min(LONGEST_FORCED_SWITCH_NS) + thread.switched_in * YIELD_NS
}

impl ThreadSpan {
    fn push(&self, thread: &ThreadReport, span_ns: u64, counters: &mut Vec<Counter>) {
        let subject = Subject::Thread(thread.key.tid);
        let (place, after_exit) = if self.at_exit { ("taskstats", EXIT_SLACK_NS) } else { ("/proc", 0) };
        let switches = self.voluntary_switches.zip(self.involuntary_switches).map(|(a, b)| a + b);
        if let Some(value) = switches {
            let beside = value as f64 * (self.beside_ns + after_exit) as f64 / span_ns.max(1) as f64;
            let source = if self.at_exit { "taskstats nvcsw+nivcsw" } else { "/proc/PID/status switches" };
            let slack = 2 + beside.ceil() as u64;
            counters.push(Counter {
                subject,
                quantity: Quantity::Switches,
                value,
                source: source.into(),
                slack,
            });
        }
        // The kernel adds a wait when it ends: one under way at a reading is counted whole on
        // one side and not at all on the other. A run is added at each tick.
        let ends = if self.at_exit { 1 } else { 2 };
        let longest_wait = thread.wait.quantiles.map_or(0, |quantiles| quantiles.max_ns);
        let times = [
            (Quantity::RunTime, self.run_ns, after_exit + ends * TICK_NS),
            (Quantity::WaitTime, self.wait_ns, ends * longest_wait),
        ];
        for (quantity, value, at_the_ends) in times {
            let Some(value) = value else { continue };
            let source = match place {
                "/proc" => "/proc/PID/schedstat".to_owned(),
                other => format!("{other} at its end"),
            };
            let slack = self.beside_ns + at_the_ends + clock_slack_ns(thread);
            counters.push(Counter { subject, quantity, value, source, slack });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_between_the_readings_is_counted() {
        let mut sampler = Sampler::new();
        sampler.begin();
        assert!(sampler.has_begun());
        let mut number = 0u64;
        let end = std::time::Instant::now() + std::time::Duration::from_millis(30);
        while std::time::Instant::now() < end {
            number = std::hint::black_box(number.wrapping_mul(31).wrapping_add(7));
        }
        let ended = std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_millis(2))).join();
        assert!(ended.is_ok());
        sampler.visit();
        let span = sampler.end().unwrap();
        assert!(span.to_ns - span.from_ns >= 30_000_000);
        let me = &span.threads[&kernel::stop::own_tid()];
        assert!(!me.at_exit);
        // Another load may have had the CPU meanwhile; run and wait together are the span.
        let known = me.run_ns.unwrap() + me.wait_ns.unwrap_or(0);
        assert!(known >= 25_000_000, "{me:?}");
        assert!(span.context_switches.unwrap() > 0);
        let text = serde_json::to_string(&span).unwrap();
        assert_eq!(serde_json::from_str::<CounterSpan>(&text).unwrap(), span);
    }
}
