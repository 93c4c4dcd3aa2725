//! The scheduler analysis of two real traces against perf's and against a script that goes
//! over what perf and trace-cmd print of the same traces.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use analysis::sched::{SchedOptions, SchedResult, analyse};
use serde_json::Value;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lotse/support/brute_sched.py");

/// Run time with interrupts, times switched in, waits, their sum; by thread number.
type Sums = BTreeMap<i64, [u64; 4]>;

fn ours(result: &SchedResult) -> Sums {
    let mut sums = Sums::new();
    for thread in &result.threads {
        let budget = &thread.budget;
        let on_cpu = budget.running_ns + budget.stolen_by_irq_ns + budget.stolen_by_softirq_ns;
        let sum = sums.entry(i64::from(thread.key.tid.0)).or_default();
        for (sum, more) in
            sum.iter_mut().zip([on_cpu, thread.switched_in, thread.wait.count, thread.wait.sum_ns])
        {
            *sum += more;
        }
    }
    sums
}

/// What the script makes of a peer's text.
fn script(mut peer: Command, kind: &str) -> Sums {
    let mut peer = peer.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let text = peer.stdout.take().unwrap();
    let output = Command::new("python3").args([SCRIPT, kind]).stdin(text).output().unwrap();
    assert!(peer.wait().unwrap().success() && output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let threads = report["threads"].as_object().unwrap();
    let number = |row: &Value, key: &str| row[key].as_u64().unwrap();
    threads
        .iter()
        .map(|(tid, row)| (tid.parse().unwrap(), ["run", "in", "waits", "sum"].map(|key| number(row, key))))
        .collect()
}

#[track_caller]
fn same(ours: &Sums, theirs: &Sums, at_least: usize) {
    assert!(ours.len() >= at_least, "{} threads", ours.len());
    let tids: std::collections::BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
    let differ: Vec<_> = tids
        .into_iter()
        .map(|tid| (tid, ours.get(tid), theirs.get(tid)))
        .filter(|(_, ours, theirs)| ours != theirs)
        .collect();
    assert!(differ.is_empty(), "thread, ours and theirs of [run, in, waits, sum]: {differ:?}");
}

/// The perf.data trace, unpacked to `target`.
fn unpacked(traces: &Path, target: PathBuf) -> PathBuf {
    let packed = File::open(traces.join("own/mix.perf.data.zst")).unwrap();
    let status =
        Command::new("zstd").arg("-dcq").stdin(packed).stdout(File::create(&target).unwrap()).status();
    assert!(status.unwrap().success());
    target
}

macro_rules! needs {
    ($($program:literal),*) => {{
        $(if !testkit::skip::has_program($program) {
            testkit::skipped!("{} is not installed", $program);
        })*
        match testkit::skip::foreign_traces() {
            Some(folder) => folder,
            None => testkit::skipped!("the folder of trace files is not there"),
        }
    }};
}

fn analysed(path: &Path) -> SchedResult {
    let mut source = readers::open_path(path).unwrap();
    let result = analyse(source.as_mut(), &SchedOptions::default());
    assert_eq!(result.provenance.cut, None);
    for thread in &result.threads {
        // What is not accounted for lies across gaps, and nowhere else.
        let budget = &thread.budget;
        let gaps = thread.wait_intervals.discarded_by_gap + result.losses.gaps;
        assert!(budget.remainder_ns * 100 <= budget.span_ns || gaps > 0, "{thread:?}");
    }
    result
}

#[test]
fn a_trace_dat_gives_what_the_script_finds_in_trace_cmds_text() {
    let traces = needs!("trace-cmd", "python3");
    let path = traces.join("own/mix.v7.dat");
    let mut peer = Command::new("trace-cmd");
    peer.args(["report", "-t", "-i"]).arg(&path);
    same(&ours(&analysed(&path)), &script(peer, "trace-cmd"), 200);
}

#[test]
fn a_perf_data_gives_what_perf_and_the_script_find_in_it() {
    let traces = needs!("perf", "python3", "zstd");
    let folder = crate::harness::Place::new();
    let path = unpacked(&traces, folder.path("mix.perf.data"));
    let result = analysed(&path);
    let mut peer = Command::new("perf");
    peer.args(["script", "--ns", "-F", "comm,tid,cpu,time,event,trace", "-i"]).arg(&path);
    same(&ours(&result), &script(peer, "perf"), 300);

    let output = Command::new("perf").args(["sched", "timehist", "-s", "-i"]).arg(&path).output().unwrap();
    timehist(&result, &String::from_utf8_lossy(&output.stdout));
    let told = std::fs::read_to_string(traces.join("own/oracle/mix.sched-latency-6.12.txt")).unwrap();
    latency(&result, &told);
}

/// `perf sched timehist -s`: run time and times switched in agree to the last digit printed for
/// every thread of which neither a gap nor an end of the trace cuts a run.
fn timehist(result: &SchedResult, text: &str) {
    let (mut same, mut differ) = (0, Vec::new());
    for line in text.lines() {
        let Some((name, rest)) = line.rsplit_once(']') else { continue };
        let numbers: Vec<&str> = rest.split_whitespace().collect();
        let (Some((_, tid)), [_, count, run, ..]) = (name.rsplit_once('['), &numbers[..]) else { continue };
        let tid: i32 = tid.split('/').next().unwrap().parse().unwrap();
        // perf keeps a thread "-1", whose number a thread loses while it ends.
        if tid <= 0 {
            continue;
        }
        let (count, run_ms): (u64, f64) = (count.parse().unwrap(), run.parse().unwrap());
        let Some(thread) = result.threads.iter().find(|t| t.key.tid.0 == tid) else {
            panic!("perf knows a thread that we do not: {line}");
        };
        let budget = &thread.budget;
        let ours = budget.running_ns + budget.stolen_by_irq_ns + budget.stolen_by_softirq_ns;
        if thread.switched_in == count && (ours as f64 / 1e6 - run_ms).abs() < 0.0011 {
            same += 1;
        } else {
            differ.push((tid, thread.switched_in, count, ours as f64 / 1e6, run_ms));
        }
    }
    assert!(same >= 340, "{same} agree; tid, switched in and run time (ours, perf's): {differ:?}");
    // perf gives the time across a gap to whoever leaves the CPU next. Two gaps' worth of threads
    // for each gap, and what the trace's ends cut, is all that may differ.
    assert!(differ.len() as u64 <= result.losses.gaps, "{differ:?}");
}

/// `perf sched latency` (6.12, which takes waking where it is): mean and longest wait agree for
/// the threads it lists by number, except where waits were left out for a gap.
fn latency(result: &SchedResult, text: &str) {
    let mut same = 0;
    for line in text.lines() {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [task, _, _, average, longest, ..] = &columns[..] else { continue };
        let Some(tid) = task.rsplit_once(':').and_then(|t| t.1.parse::<i32>().ok()) else { continue };
        let ms = |text: &str, word: &str| {
            text.strip_prefix(word).unwrap().trim().trim_end_matches(" ms").parse::<f64>().unwrap()
        };
        let thread = result.threads.iter().find(|t| t.key.tid.0 == tid).unwrap();
        let Some(quantiles) = thread.wait.quantiles else { continue };
        let mean = thread.wait.mean_ns().unwrap() / 1e6;
        if (mean - ms(average, "avg:")).abs() < 0.0011
            && (quantiles.max_ns as f64 / 1e6 - ms(longest, "max:")).abs() < 0.0011
        {
            same += 1;
        } else {
            let cut = thread.wait_intervals.discarded_by_gap + thread.wait_intervals.cut_at_start;
            let hidden = thread.name == "tokio-rt-worker" && thread.budget.running_ns == 0;
            assert!(cut > 0 || hidden, "{line}\n{thread:?}");
        }
    }
    assert!(same >= 28, "{same} agree");
}
