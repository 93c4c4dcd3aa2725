//! Tools of the family `scheduler`.

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::needs_tracing;
use crate::shared::{Running, counted, counted_within, tool, tool_text, wait_until};

/// A perl script with this text and name.
fn perl(name: &str, text: &str) -> Command {
    let mut command = Command::new("perl");
    command.args(["-e", &format!("$0 = '{name}'; {text}")]).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// The same bound to a CPU.
fn perl_on(cpu: u32, name: &str, text: &str) -> Command {
    let mut command = Command::new("taskset");
    let text = format!("$0 = '{name}'; {text}");
    command.args(["-c", &cpu.to_string(), "perl", "-e", &text]).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Sleeps so many times for so many seconds; each ends with a wakeup and a wait for a CPU.
fn naps(times: u32, seconds: f64) -> String {
    format!("select(undef, undef, undef, {seconds}) for 1..{times};")
}

/// Keeps a CPU busy until it has had so much time on it, and says so with its exit.
fn busy(seconds: f64) -> String {
    format!("1 while (times)[0] + (times)[1] < {seconds};")
}

/// A process that is ended with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until taskset has become perl and perl has given itself its name.
fn wait_for_name(process: &Child, name: &str) {
    wait_until("the load runs", || {
        let comm = std::fs::read_to_string(format!("/proc/{}/comm", process.id()));
        comm.is_ok_and(|comm| comm.trim() == name)
    });
}

fn last_cpu() -> u32 {
    *kernel::cpu::online().unwrap().last().unwrap()
}

/// The sum of a map's entries whose keys have all of these parts.
fn total_of(map: &Value, parts: &[&str]) -> u64 {
    let entries = map.as_object().into_iter().flatten();
    let wanted = entries.filter(|(key, _)| parts.iter().all(|part| key.contains(part)));
    wanted.filter_map(|(_, value)| value.as_u64()).sum()
}

#[test]
fn runqlat_counts_a_wait_for_each_wakeup() {
    needs_tracing!();
    let answer = tool(&["runqlat", "-c", &format!("perl -e '{}'", naps(50, 0.002))]).done();
    let count = counted(answer.map("@usecs"));
    // Each nap ends with one, but those that are over before the thread is off the CPU; preemptions come on top.
    assert!(count >= 40, "{count}");
    assert_eq!(answer.percentiles("@usecs", None)["count"], count);
    assert!(answer.map("@_woken").is_null(), "a tool's memory is not printed");
}

#[test]
fn runqlat_tells_processes_and_groups_apart() {
    needs_tracing!();
    let answer = tool(&["runqlat", "--by=comm", "-c", &format!("perl -e '{}'", naps(50, 0.002))]).done();
    assert!(counted(&answer.map("@usecs")["perl"]) >= 40, "{answer:?}");
    let mut running = perl("naps", &naps(50, 0.002)).spawn().unwrap();
    let pid = running.id().to_string();
    let tracer = Running::start(&["runqlat", "--by=pid", "-p", &pid]);
    running.wait().unwrap();
    // It ends with the process.
    let answer = tracer.finish().done();
    let pids: Vec<&String> = answer.map("@usecs").as_object().map_or(vec![], |map| map.keys().collect());
    assert!(pids.iter().all(|found| **found == pid), "{pids:?}");
}

#[test]
fn runqslower_tells_a_long_wait_and_who_had_the_cpu() {
    needs_tracing!();
    let cpu = last_cpu();
    let napper = Ended(perl_on(cpu, "napper", &naps(100_000, 0.005)).spawn().unwrap());
    wait_for_name(&napper.0, "napper");
    let mut running = Running::start(&["runqslower", "--min-us=1000", "-d", "60s"]);
    // In the real-time class: who naps on this CPU has to wait until it ends.
    let hog = perl_on(cpu, "rt hog", &busy(0.5));
    let hog = Command::new("chrt").args(["-f", "10"]).arg(hog.get_program()).args(hog.get_args()).status();
    if !hog.as_ref().is_ok_and(|status| status.success()) {
        running.stop().done();
        testkit::skipped!("no real-time class for processes here: {hog:?}");
    }
    // Half a second on the CPU, of which at most a twentieth is given to others.
    let long =
        |row: &Value| row["lat_us"].as_u64().is_some_and(|waited| (100_000..10_000_000).contains(&waited));
    let row = running.wait_for_row(|row| row["comm"] == "napper" && long(row)).expect("the napper's wait");
    assert_eq!((&row["cpu"], &row["pid"]), (&cpu.into(), &napper.0.id().into()));
    // The first that came after it names it, who may have waited for the end of the half second alone.
    let answer = running.stop().done();
    assert!(!answer.rows_with(&[("prev", "rt hog".into())]).is_empty(), "{:?}", answer.rows());
}

#[test]
fn runqlen_counts_those_who_wait() {
    needs_tracing!();
    let cpu = last_cpu();
    let spinners: Vec<Ended> =
        (0..4).map(|_| Ended(perl_on(cpu, "spinner", &busy(600.0)).spawn().unwrap())).collect();
    let answer = tool(&["runqlen", "--by=cpu", "-d", "1s"]).done();
    drop(spinners);
    let of_cpu = &answer.map("@waiting")[cpu.to_string()];
    // One runs, three wait, as long as all four are there.
    assert!(counted_within(of_cpu, 3, 100) * 10 > counted(of_cpu) * 5, "{of_cpu}");
}

#[test]
fn cpudist_tells_time_on_and_off_the_cpu() {
    needs_tracing!();
    let script = format!("perl -e '{}'", naps(45, 0.02));
    let off = tool(&["cpudist", "--off", "-c", &script]).done();
    // 20 ms lie in the bucket from 16 384 µs.
    assert!(counted_within(off.map("@off_usecs"), 16_384, i64::MAX) >= 40, "{off:?}");
    assert!(off.map("@on_usecs").is_null());
    let on = tool(&["cpudist", "-c", &script]).done();
    assert!(counted(on.map("@on_usecs")) >= 40, "{on:?}");
    assert!(on.map("@off_usecs").is_null());
}

#[test]
fn offcputime_adds_up_the_time_asleep_where_it_was_spent() {
    needs_tracing!();
    let begun = std::time::Instant::now();
    let answer = tool(&["offcputime", "-c", &format!("perl -e '{}'", naps(20, 0.02))]).done();
    let whole = begun.elapsed().as_nanos() as u64;
    let asleep = total_of(answer.map("@off_ns"), &["__x64_sys_", "sleep", "perl"])
        + total_of(answer.map("@off_ns"), &["do_select", "perl"]);
    assert!((360_000_000..whole).contains(&asleep), "{asleep} of {whole}: {answer:?}");
    let map = answer.map("@off_ns").to_string();
    assert!(!map.contains("bpf_prog_") && !map.contains("__traceiter_"), "the tracer's own frames: {map}");
}

/// A process that wakes another every 20 ms, 20 times, through a pipe.
fn waker_and_sleeper() -> Command {
    perl(
        "tw waker",
        "pipe(my $r, my $w); if (fork() == 0) { close $w; $0 = 'tw sleeper'; 1 while sysread($r, my $x, 1); exit }
         for (1..20) { select(undef, undef, undef, 0.02); syswrite($w, 'x') } close $w; wait;",
    )
}

#[test]
fn wakeuptime_and_offwaketime_name_the_waker() {
    needs_tracing!();
    for (name, map) in [("wakeuptime", "@blocked_ns"), ("offwaketime", "@off_ns")] {
        let running = Running::start(&[name]);
        assert!(waker_and_sleeper().status().unwrap().success());
        let answer = running.stop().done();
        let blocked = total_of(answer.map(map), &["pipe_write", "tw waker", "tw sleeper"]);
        assert!((380_000_000..60_000_000_000).contains(&blocked), "{name}: {blocked}");
    }
}

#[test]
fn profile_counts_samples_in_proportion_to_cpu_time() {
    needs_tracing!();
    let answer = tool(&["profile", "-c", &format!("perl -e '{}'", busy(1.0))]).done();
    let samples = total_of(answer.map("@samples"), &["perl"]);
    // One second of CPU time at 99 Hz.
    assert!((70..130).contains(&samples), "{samples}: {answer:?}");
    let (status, folded, err) =
        tool_text(&["profile", "--folded", "-c", &format!("perl -e '{}'", busy(0.2))]);
    assert_eq!(status, Some(0), "{err}");
    assert!(folded.lines().all(|line| line.starts_with("perl;") || line.starts_with("taskset;")), "{folded}");
}

#[test]
fn cpuwalk_tells_the_cpu_that_a_process_is_bound_to() {
    needs_tracing!();
    let cpu = last_cpu();
    let spinner = Ended(perl_on(cpu, "spinner", &busy(600.0)).spawn().unwrap());
    let pid = spinner.0.id().to_string();
    wait_for_name(&spinner.0, "spinner");
    let answer = tool(&["cpuwalk", "-p", &pid, "-d", "500ms"]).done();
    let buckets = answer.map("@cpu");
    assert!(counted(buckets) > 0);
    assert_eq!(counted_within(buckets, cpu.into(), cpu.into()), counted(buckets), "{buckets}");
}

#[test]
fn migrations_counts_each_move_of_a_bound_thread() {
    needs_tracing!();
    let cpus = kernel::cpu::online().unwrap();
    let [first, .., last] = cpus.as_slice() else { testkit::skipped!("one CPU, no moves") };
    let spinner = Ended(perl_on(*first, "mover", &busy(600.0)).spawn().unwrap());
    let pid = spinner.0.id();
    wait_for_name(&spinner.0, "mover");
    let running = Running::start(&["migrations", "-p", &pid.to_string()]);
    for turn in 0..20 {
        let cpu = if turn % 2 == 0 { last } else { first };
        let bound =
            Command::new("taskset").args(["-cp", &cpu.to_string(), &pid.to_string()]).output().unwrap();
        assert!(bound.status.success());
    }
    let answer = running.stop().done();
    let rows = answer.rows();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((&rows[0]["tid"], &rows[0]["comm"]), (&pid.into(), &"mover".into()));
    assert_eq!(rows[0]["moves"], 20);
}

#[test]
fn unknown_names_and_options_are_told_with_what_there_is() {
    let (status, out, err) = tool_text(&["runqlatt"]);
    assert_eq!((status, out.as_str()), (Some(2), ""));
    assert!(err.contains("did you mean runqlat"), "{err}");
    let (status, _, err) = tool_text(&["runqlat", "--bye", "comm"]);
    assert_eq!(status, Some(2));
    assert!(err.contains("'--by'"), "{err}");
    let (status, out, _) = tool_text(&["runqlat", "--help"]);
    assert_eq!(status, Some(0));
    assert!(out.contains("how long do threads wait") && out.contains("--by=VALUE"), "{out}");
}
