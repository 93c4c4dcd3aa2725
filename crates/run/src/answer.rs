//! From a trace file to an answer: analyses, cross-check against the kernel's counters, and
//! the recipe's thresholds.

use std::collections::BTreeSet;
use std::path::Path;

use analysis::crosscheck::{Circumstances, CrossCheck, crosscheck};
use analysis::sched::options::{AffinityFact, CgroupFact, ProcessFact};
use analysis::sched::{self, SchedOptions, SchedResult};
use kernel::cgroup::Throttling;
use trace::{Cpu, Nanos, SourceError, Tid};

use crate::counters::{CounterSpan, ThreadFacts};
use crate::metric::Metric;
use crate::recipe::{Side, Threshold};
use crate::run_record::{RunRecord, SelectionRequest, ThresholdOutcome};
pub use crate::whose::Whose;

/// What a trace is asked.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Only these threads and those they make; empty: all.
    pub threads: Vec<Tid>,
    /// What else narrows the question.
    pub whose: Whose,
    /// Only from here on, on the trace's clock.
    pub from: Option<Nanos>,
    /// Only up to here.
    pub to: Option<Nanos>,
    /// The kernel's counters around the recording.
    pub counters: Option<CounterSpan>,
    /// Filters that kept events out, in words.
    pub filters: Vec<String>,
    /// Whether events of all threads on all CPUs were recorded.
    pub whole_system: bool,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The scheduler's part.
    pub sched: SchedResult,
    /// The comparison with the kernel's counters; `None` where there are none.
    pub crosscheck: Option<CrossCheck>,
    /// Control groups that their CPU quota held back, of which a thread was seen.
    pub held_back: Vec<(String, Throttling)>,
    /// Threads that were asked about and that no event names: they neither ran nor were woken.
    pub unseen: Vec<Tid>,
    /// Parts of the trace that could not be read, each with its place and why.
    pub unreadable: Vec<String>,
}

/// So many that none is summed with others where threads are looked for.
const EVERY_THREAD: usize = 1 << 20;

/// Share of a value by which two measurements may differ.
const TOLERANCE: f64 = 0.01;

/// Why there is no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AnswerError {
    /// The trace cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The question is about nobody in the trace.
    #[error(
        "{file}: no thread fits what was asked for ({of} threads are in it); `lotse report {file} --all` lists them"
    )]
    Nobody {
        /// The trace.
        file: String,
        /// How many threads it tells of.
        of: usize,
    },
}

/// Reads and analyses a trace.
pub fn answer(trace: &Path, question: &Question) -> Result<Answer, AnswerError> {
    let mut source = readers::open_path(trace)?;
    // Counters and events are compared over the same span.
    let bounds = question.counters.as_ref().map(CounterSpan::bounds);
    let mut options = SchedOptions {
        from: question.from.or(bounds.map(|bounds| bounds.0)),
        to: question.to.or(bounds.map(|bounds| bounds.1)),
        threads: question.threads.clone(),
        ..SchedOptions::default()
    };
    if let Some(counters) = &question.counters {
        add_facts(counters, &mut options);
    }
    if !question.whose.is_everybody() {
        let all = SchedOptions { threads: Vec::new(), max_threads: EVERY_THREAD, ..options.clone() };
        let all = sched::analyse(source.as_mut(), &all);
        options.threads = question.whose.threads(&question.threads, &all);
        options.only_listed = true;
        options.cpus = question.whose.cpus.clone();
        if options.threads.is_empty() && !all.threads.is_empty() {
            return Err(AnswerError::Nobody { file: trace.display().to_string(), of: all.threads.len() });
        }
    }
    let result = sched::analyse(source.as_mut(), &options);
    // A narrower span than that of the counters has nothing to be compared with.
    let comparable = question.from.is_none() && question.to.is_none() && question.whose.cpus.is_empty();
    let check = question.counters.as_ref().filter(|_| comparable).map(|counters| {
        let circumstances = Circumstances { filters: question.filters.clone(), tolerance: TOLERANCE };
        crosscheck(&result, &counters.counters(&result, question.whole_system), &circumstances)
    });
    let held_back = question.counters.iter().flat_map(|counters| counters.held_back(&result));
    let held_back = held_back.map(|(path, counts)| (path.to_owned(), counts)).collect();
    let seen: BTreeSet<Tid> = result.threads.iter().map(|thread| thread.key.tid).collect();
    let unseen = question.threads.iter().copied().filter(|tid| !seen.contains(tid)).collect();
    let unreadable = source.info().problems.clone();
    Ok(Answer { sched: result, crosscheck: check, held_back, unseen, unreadable })
}

fn add_facts(counters: &CounterSpan, options: &mut SchedOptions) {
    let tid = |number: u32| Tid(number as i32);
    for facts in &counters.facts {
        options.processes.push(ProcessFact { tid: tid(facts.tid), process: tid(facts.process) });
        if let Some(cpus) = &facts.allowed_cpus {
            let cpus = cpus.iter().map(|&cpu| Cpu(cpu)).collect();
            options.affinity.push(AffinityFact { tid: tid(facts.tid), cpus });
        }
        if let Some(path) = &facts.cgroup {
            options.cgroups.push(CgroupFact { tid: tid(facts.tid), path: path.clone() });
        }
    }
}

impl Question {
    /// The question of a run, as its record and counters tell.
    pub fn of_run(record: &RunRecord, counters: Option<CounterSpan>) -> Question {
        let request = &record.request;
        let numbers = |all: &[u32]| all.iter().map(|&number| Tid(number as i32)).collect::<Vec<_>>();
        let facts = counters.as_ref().map_or(&[][..], |counters| &counters.facts);
        let threads = match &request.selection {
            SelectionRequest::System => Vec::new(),
            SelectionRequest::Command => numbers(record.command_pid.as_slice()),
            SelectionRequest::Threads(tids) => numbers(tids),
            SelectionRequest::Processes(pids) => {
                let of_processes =
                    facts.iter().filter(|facts| pids.contains(&facts.process)).map(|facts| facts.tid);
                let mut tids: Vec<u32> = pids.iter().copied().chain(of_processes).collect();
                tids.sort_unstable();
                tids.dedup();
                numbers(&tids)
            }
            SelectionRequest::Cgroup(directory) => {
                let member = |facts: &&ThreadFacts| {
                    facts.cgroup.as_deref().is_some_and(|group| is_within(group, directory))
                };
                let members = facts.iter().filter(member).map(|facts| facts.tid);
                let mut tids: Vec<u32> = record.cgroup_threads.iter().copied().chain(members).collect();
                tids.sort_unstable();
                tids.dedup();
                numbers(&tids)
            }
        };
        let mut filters = Vec::new();
        if request.narrow {
            filters.push("only the selected threads' events were recorded".to_owned());
        }
        if let Some(cpus) = &request.cpus {
            filters.push(format!("only CPUs {cpus:?} were recorded"));
        }
        Question {
            threads,
            // A span of counters on another clock than the trace's bounds nothing.
            counters: counters.filter(|_| record.ledger.clock == "mono"),
            whole_system: filters.is_empty(),
            filters,
            whose: Whose::default(),
            from: None,
            to: None,
        }
    }
}

/// Whether a group, by its path in the hierarchy, is the one of this directory or below it.
/// Where the hierarchy is mounted is not known here: the directory ends with the group's path.
fn is_within(group: &str, directory: &Path) -> bool {
    let group = Path::new(group.trim_start_matches('/'));
    let named = |ancestor: &Path| !ancestor.as_os_str().is_empty() && directory.ends_with(ancestor);
    group.ancestors().any(named)
}

/// The number of a metric; `None` where the trace does not tell.
pub fn number(answer: &Answer, metric: Metric) -> Option<f64> {
    let wait = &answer.sched.wait;
    let of = |distribution: &analysis::distribution::Distribution| distribution.quantiles;
    let total = of(&wait.total);
    Some(match metric {
        Metric::WaitP50 => total?.p50_ns as f64,
        Metric::WaitP90 => total?.p90_ns as f64,
        Metric::WaitP99 => total?.p99_ns as f64,
        Metric::WaitP999 => total?.p999_ns as f64,
        Metric::WaitMax => total?.max_ns as f64,
        Metric::WakeupWaitP99 => of(&wait.wakeup)?.p99_ns as f64,
        Metric::PreemptionWaitP99 => of(&wait.preemption)?.p99_ns as f64,
        Metric::WaitShare => {
            let waiting = wait.total.sum_ns as f64;
            let running: u64 = answer.sched.threads.iter().map(|thread| thread.budget.running_ns).sum();
            let both = waiting + running as f64;
            if both == 0.0 {
                return None;
            }
            waiting / both
        }
        Metric::LostEvents => {
            let losses = &answer.sched.losses;
            if losses.uncounted > 0 {
                return None;
            }
            (losses.events + losses.events_without_place) as f64
        }
        Metric::DifferingChecks => answer.crosscheck.as_ref()?.differ as f64,
    })
}

/// A threshold with what was found for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The threshold.
    pub threshold: Threshold,
    /// What was found; `None` where the trace does not tell.
    pub found: Option<f64>,
    /// Whether it holds; `None` when that cannot be decided.
    pub holds: Option<bool>,
}

/// Compares thresholds with an answer.
pub fn judge(thresholds: &[Threshold], answer: &Answer) -> Vec<Judged> {
    let judged = |threshold: &Threshold| {
        let found = number(answer, threshold.metric);
        Judged { threshold: threshold.clone(), found, holds: found.map(|found| threshold.holds(found)) }
    };
    thresholds.iter().map(judged).collect()
}

impl Judged {
    /// For `run.json`.
    pub fn outcome(&self) -> ThresholdOutcome {
        let metric = self.threshold.metric;
        ThresholdOutcome {
            metric: metric.name().to_owned(),
            limit: self.limit_text(),
            found: self.found.map(|found| metric.show(found)),
            holds: self.holds,
            then: self.threshold.then.clone(),
        }
    }

    /// The limit in words.
    pub fn limit_text(&self) -> String {
        let side = match self.threshold.side {
            Side::AtMost => "at most",
            Side::AtLeast => "at least",
        };
        format!("{side} {}", self.threshold.metric.show(self.threshold.limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_a_group_and_of_those_below_it_are_told() {
        let directory = Path::new("/sys/fs/cgroup/system.slice/db.service");
        for group in ["/system.slice/db.service", "/system.slice/db.service/worker/1"] {
            assert!(is_within(group, directory), "{group}");
        }
        for group in ["/", "/system.slice", "/system.slice/other.service", "/user.slice"] {
            assert!(!is_within(group, directory), "{group}");
        }
    }
}
