//! Loads whose truth is known come out as what they are. Bounds are such that other work on
//! the machine, which only ever adds waiting, does not break them.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Place, json};
use crate::needs_recording;

/// A thread of this process with something to do until it is dropped.
struct Worker {
    tid: u32,
    rounds: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Begins `work` over and over, in a thread of this name.
    fn start(name: &str, work: impl Fn() + Send + 'static) -> Worker {
        let (send, receive) = std::sync::mpsc::channel();
        let (rounds, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, ended) = (rounds.clone(), stop.clone());
        let begin = move || {
            send.send(kernel::stop::own_tid()).unwrap();
            while !ended.load(Ordering::Relaxed) {
                work();
                count.fetch_add(1, Ordering::Relaxed);
            }
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(begin).unwrap();
        Worker { tid: receive.recv().unwrap(), rounds, stop, thread: Some(thread) }
    }

    fn spinner() -> Worker {
        Worker::start("spinner", || {
            for turn in 0..1000 {
                std::hint::black_box(turn);
            }
        })
    }

    /// Lets it run on one CPU only.
    fn pin(&self, cpu: u32) {
        run("taskset", &["-pc", &cpu.to_string(), &self.tid.to_string()]);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[track_caller]
fn run(program: &str, words: &[&str]) {
    let output = Command::new(program).args(words).output().unwrap();
    assert!(output.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn missing_tools() -> Option<&'static str> {
    ["taskset", "renice"].into_iter().find(|tool| !testkit::skip::has_program(tool))
}

macro_rules! needs_tools {
    () => {
        needs_recording!();
        if let Some(tool) = missing_tools() {
            testkit::skipped!("{tool} is not installed");
        }
    };
}

/// Switches that the machine's ftrace did not tell: some virtual machines hide the switches
/// of one CPU from the idle thread to the next, also from a plain tracefs instance. The
/// report counts them as gaps; what a thread did across one is not known.
fn hidden_switches(report: &Value) -> u64 {
    let notices = report["notices"].as_array().map_or(&[][..], Vec::as_slice);
    let of_gaps = |notice: &Value| {
        let (count, rest) = notice["text"].as_str()?.split_once(' ')?;
        rest.starts_with("gap").then(|| count.replace(',', "").parse::<u64>().ok())?
    };
    notices.iter().find_map(of_gaps).unwrap_or(0)
}

macro_rules! needs_all_switches {
    ($report:expr) => {
        let hidden = hidden_switches(&$report);
        if hidden > 5 {
            testkit::skipped!(
                "{hidden} switches were hidden from the trace: what a sleeper did is not known"
            );
        }
    };
}

/// The report of a run about these threads.
#[track_caller]
fn report_about(place: &Place, threads: &[&Worker], duration: &str) -> Value {
    let tids = threads.iter().map(|worker| worker.tid.to_string()).collect::<Vec<_>>().join(",");
    let words =
        ["run", "sched", "-q", "--format", "json", "--duration", duration, "--tid", &tids, "--output", "run"];
    let output = place.lotse(&words);
    assert!(matches!(output.status, Some(0 | 1)), "{}", output.stderr);
    json(&output.stdout)
}

/// Where a thread's time went, as shares of the time observed.
#[derive(Debug)]
struct Budget {
    span_ns: f64,
    running: f64,
    waiting: f64,
    asleep: f64,
    unknown: f64,
}

fn row<'a>(report: &'a Value, table: &str, tid: u32) -> &'a Value {
    let rows = report["data"][table]["rows"].as_array().unwrap_or_else(|| panic!("no {table} in {report}"));
    rows.iter().find(|row| row["tid"] == tid).unwrap_or_else(|| panic!("no {tid} in {rows:?}"))
}

fn budget(report: &Value, worker: &Worker) -> Budget {
    let row = row(report, "budget", worker.tid);
    // A part that no thread has is no column.
    let number = |key: &str| {
        row.get(key).map_or(0.0, |value| value.as_f64().unwrap_or_else(|| panic!("{key} in {row}")))
    };
    let span_ns = number("span_ns");
    Budget {
        span_ns,
        running: number("running_ns") / span_ns,
        waiting: number("waiting_ns") / span_ns,
        asleep: number("asleep_ns") / span_ns,
        unknown: number("unknown_ns") / span_ns,
    }
}

#[test]
fn of_two_spinners_on_one_cpu_the_nicer_one_waits() {
    needs_tools!();
    let (place, favoured, nice) = (Place::new(), Worker::spinner(), Worker::spinner());
    favoured.pin(0);
    nice.pin(0);
    run("renice", &["-n", "19", "-p", &nice.tid.to_string()]);
    let report = report_about(&place, &[&favoured, &nice], "1500ms");
    needs_all_switches!(report);
    if report["notices"].to_string().contains(&nice.tid.to_string()) {
        // So busy a machine that it never got its turn: no event names it, and that is said.
        return;
    }
    let ended_waits = row(&report, "threads", nice.tid)["waits"].as_u64().unwrap();
    let (favoured, nice) = (budget(&report, &favoured), budget(&report, &nice));
    // Weights of 1024 to 15: the nicer one gets a seventieth of what the other gets.
    assert!(nice.running < favoured.running / 15.0, "{favoured:?} {nice:?}");
    assert!(nice.waiting > 0.9, "{nice:?}");
    // They never sleep, and one CPU is all they share.
    assert!(nice.asleep < 0.01 && favoured.asleep < 0.01, "{favoured:?} {nice:?}");
    assert!(favoured.running + nice.running <= 1.005, "{favoured:?} {nice:?}");
    for budget in [&favoured, &nice] {
        let sum = budget.running + budget.waiting + budget.asleep + budget.unknown;
        // What is missing was stolen by interrupts.
        assert!((0.9..=1.01).contains(&sum), "{budget:?}");
        assert!(budget.span_ns > 1.3e9, "{budget:?}");
    }
    // Groups are of waits that ended: on a busy machine the nicer one may never get its turn.
    if ended_waits > 0 {
        let priorities = report["data"]["priorities"]["rows"].as_array().expect("two priorities");
        assert!(priorities.len() >= 2, "{priorities:?}");
    }
}

#[test]
fn a_periodic_sleeper_sleeps_its_period() {
    needs_recording!();
    let place = Place::new();
    let sleeper = Worker::start("sleeper", || std::thread::sleep(Duration::from_millis(10)));
    let before = sleeper.rounds.load(Ordering::Relaxed);
    let report = report_about(&place, &[&sleeper], "1s");
    needs_all_switches!(report);
    let after = sleeper.rounds.load(Ordering::Relaxed);
    let row = row(&report, "threads", sleeper.tid);
    let wakeups = row["waits"].as_u64().unwrap();
    assert!(wakeups <= after - before, "{wakeups} of {}", after - before);
    assert!(wakeups >= 30, "{row}");
    let budget = budget(&report, &sleeper);
    // Each round sleeps 10 ms and is late by at most what it then waits and some timer slack.
    let slept_ms = budget.asleep * budget.span_ns / 1e6;
    let rounds = wakeups as f64;
    assert!(slept_ms >= (rounds - 2.0) * 10.0, "{slept_ms} ms in {rounds} rounds");
    assert!(slept_ms <= (rounds + 2.0) * 11.5, "{slept_ms} ms in {rounds} rounds");
    assert!(budget.running < 0.05, "{budget:?}");
    assert!(budget.unknown < 0.01, "{budget:?}");
}

#[test]
fn a_thread_of_a_group_with_a_quota_waits_for_it() {
    needs_tools!();
    let Some(group) = Group::with_quota(20) else {
        testkit::skipped!("no control group with a CPU quota can be made here");
    };
    let (place, spinner) = (Place::new(), Worker::spinner());
    group.add(spinner.tid);
    let report = report_about(&place, &[&spinner], "1500ms");
    needs_all_switches!(report);
    let budget = budget(&report, &spinner);
    assert!(budget.running > 0.05 && budget.running < 0.22, "a fifth is allowed: {budget:?}");
    assert!(budget.waiting > 0.75, "throttled is runnable and not running: {budget:?}");
    let notices = report["notices"].to_string();
    let name = group.path.file_name().unwrap().to_str().unwrap();
    assert!(notices.contains("CPU quota") && notices.contains(name), "the report names the quota: {notices}");
}

#[test]
fn the_members_of_a_control_group_are_asked_about() {
    needs_tools!();
    let Some(group) = Group::with_quota(90) else {
        testkit::skipped!("no control group can be made here");
    };
    let (place, member, other) = (Place::new(), Worker::spinner(), Worker::spinner());
    group.add(member.tid);
    let path = group.path.to_str().unwrap();
    let about_the_group = ["run", "sched", "-q", "--format", "json", "--duration", "800ms", "--cgroup", path];
    // With everybody else recorded too, and the members alone.
    for more in [&["--output", "run"][..], &["--output", "narrow", "--narrow"]] {
        let output = place.lotse(&[&about_the_group[..], more].concat());
        assert!(matches!(output.status, Some(0 | 1)), "{}", output.stderr);
        let report = json(&output.stdout);
        let rows = report["data"]["threads"]["rows"].as_array().unwrap();
        assert!(rows.iter().any(|row| row["tid"] == member.tid), "{more:?}: {rows:?}");
        assert!(rows.iter().all(|row| row["tid"] != other.tid), "{more:?}: {rows:?}");
    }
}

/// A control group of the test's own, removed when dropped.
struct Group {
    path: PathBuf,
    members: &'static str,
}

impl Group {
    /// Version 1's `cpu` hierarchy or the version 2 tree, whichever can limit.
    fn with_quota(percent: u32) -> Option<Group> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("lotse-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let version1 = PathBuf::from("/sys/fs/cgroup/cpu").join(&name);
        if std::fs::create_dir(&version1).is_ok() {
            let group = Group { path: version1, members: "tasks" };
            std::fs::write(group.path.join("cpu.cfs_period_us"), "100000").ok()?;
            std::fs::write(group.path.join("cpu.cfs_quota_us"), (percent * 1000).to_string()).ok()?;
            return Some(group);
        }
        let version2 = PathBuf::from("/sys/fs/cgroup").join(&name);
        std::fs::create_dir(&version2).ok()?;
        let group = Group { path: version2, members: "cgroup.threads" };
        std::fs::write(group.path.join("cgroup.type"), "threaded").ok()?;
        std::fs::write(group.path.join("cpu.max"), format!("{} 100000", percent * 1000)).ok()?;
        Some(group)
    }

    fn add(&self, tid: u32) {
        std::fs::write(self.path.join(self.members), tid.to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its last member ends a moment after it was joined.
        for _ in 0..200 {
            if std::fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_pinned_thread_is_not_told_to_use_the_other_cpu() {
    needs_tools!();
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        testkit::skipped!("one CPU");
    }
    let (place, first, second) = (Place::new(), Worker::spinner(), Worker::spinner());
    first.pin(1);
    second.pin(1);
    let report = report_about(&place, &[&first, &second], "800ms");
    needs_all_switches!(report);
    let (one, other) = (budget(&report, &first), budget(&report, &second));
    assert!(one.running + other.running <= 1.005, "{one:?} {other:?}");
    assert!(one.waiting > 0.3 && other.waiting > 0.3, "they take turns: {one:?} {other:?}");
    for worker in [&first, &second] {
        let row = row(&report, "threads", worker.tid);
        assert_eq!(row["beside_idle_ns"], 0, "CPU 0 may idle, but is not allowed: {row}");
    }
}

#[test]
fn an_odd_name_is_kept_as_it_is() {
    needs_recording!();
    let (place, worker) =
        (Place::new(), Worker::start("before", || std::thread::sleep(Duration::from_millis(3))));
    let comm = format!("/proc/self/task/{}/comm", worker.tid);
    let renamer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        std::fs::write(comm, "a b] ==> c").unwrap();
    });
    let report = report_about(&place, &[&worker], "1200ms");
    needs_all_switches!(report);
    renamer.join().unwrap();
    let row = row(&report, "threads", worker.tid);
    assert_eq!(row["thread"], "a b] ==> c", "{row}");
    assert!(row["waits"].as_u64().unwrap() > 50, "one thread before and after: {row}");
}

#[test]
fn ten_thousand_short_lives_are_all_seen() {
    needs_recording!();
    let place = Place::new();
    let script = "i=0; while [ $i -lt 10000 ]; do (:); i=$((i+1)); done";
    let output =
        place.lotse(&["run", "sched", "-q", "--format", "json", "--output", "run", "--", "sh", "-c", script]);
    assert!(matches!(output.status, Some(0 | 1)), "{}", output.stderr);
    let report = json(&output.stdout);
    assert_eq!(report["ledger"]["lost"], 0, "{}", report["ledger"]);
    let used = report["data"]["events_used"]["rows"].as_array().unwrap();
    let of = |name: &str| {
        let row =
            used.iter().find(|row| row["event"] == name).unwrap_or_else(|| panic!("{name} in {used:?}"));
        row["count"].as_u64().unwrap()
    };
    // Others may fork and end meanwhile.
    assert!(of("sched:sched_process_fork") >= 10_000);
    assert!(of("sched:sched_process_exit") >= 10_001);
    let rows = report["data"]["threads"]["rows"].as_array().unwrap().len();
    assert!(rows >= 10_001, "every thread has its row: {rows}");
    let switches =
        report["checks"].as_array().unwrap().iter().find(|check| check["key"] == "switches").unwrap();
    assert_ne!(switches["verdict"], "differs", "{switches}");
}
