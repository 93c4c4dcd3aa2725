//! What all tools share, seen with small tools of the tests' own.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::Value;

use crate::needs_tracing;
use crate::shared::{Running, counted, tool, tool_text};

const HEADER: &str = "\
// own: how often does it happen?
//
// A tool of a test.
//
// Family: syscalls
// Columns:
//   n   how often
// Table: TID NAME | CALLS=@calls KILO=@sum/1000 BEST=@best
// Examples:
//   lotse tool own
// Rate: as many as the test makes
// Limits: none
// See also: none
";

/// A file with a tool, gone when it is dropped.
struct Own(PathBuf);

impl Own {
    fn new(program: &str) -> Own {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("lotse-tool-{}-{number}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("own.bt"), format!("{HEADER}{program}")).unwrap();
        Own(folder)
    }

    fn path(&self) -> String {
        self.0.join("own.bt").display().to_string()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn sum(values: &[&Value]) -> u64 {
    values.iter().filter_map(|value| value.as_u64()).sum()
}

#[test]
fn every_event_is_in_exactly_one_interval() {
    needs_tracing!();
    let own = Own::new(
        "tracepoint:raw_syscalls:sys_enter /args.id == 110/ {
            @n = count(); @h = hist(args.id); @s = stats(2); @_memory = count();
            @calls[tid, \"name\"] = count(); @sum[tid, \"name\"] = sum(500); @best[tid, \"name\"] = max(7);
        }",
    );
    let (path, me) = (own.path(), std::process::id().to_string());
    let running = Running::start(&[&path, "0.02", "-p", &me]);
    let (stop, threads) = (AtomicBool::new(false), 3);
    let made: u64 = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut calls = 0u64;
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::black_box(std::os::unix::process::parent_id());
                        calls += 1;
                    }
                    calls
                })
            })
            .collect();
        std::thread::sleep(std::time::Duration::from_millis(700));
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    let answer = running.stop().done();
    let intervals = answer.of_type("interval").count();
    assert!(intervals > 3, "{intervals} intervals");
    assert!(answer.maps("@_memory").is_empty() && answer.maps("@calls").is_empty());
    // Not one is lost or told twice, whatever kind of map counts them.
    assert_eq!(sum(&answer.maps("@n")), made);
    assert_eq!(answer.maps("@h").iter().map(|buckets| counted(buckets)).sum::<u64>(), made);
    let stats = answer.maps("@s");
    assert_eq!(stats.iter().filter_map(|stats| stats["count"].as_u64()).sum::<u64>(), made);
    let rows = answer.rows();
    assert_eq!(rows.iter().filter_map(|row| row["calls"].as_u64()).sum::<u64>(), made);
    let kilo: f64 = rows.iter().filter_map(|row| row["kilo"].as_f64()).sum();
    // Three digits after the point of half a thousandth each: cut at most once for each row.
    assert!(
        (kilo - made as f64 * 0.5).abs() < 1e-6 * made as f64 + rows.len() as f64 * 0.001,
        "{kilo} {made}"
    );
    // Maps are read one after the other: what came between is in this interval by one, in the next by the other.
    let best = |row: &Value| row["best"] == 7 || row["best"].is_null();
    assert!(rows.iter().all(|row| row["name"] == "name" && best(row)), "{rows:?}");
    assert!(rows.iter().any(|row| row["best"] == 7));
}

#[test]
fn a_count_ends_after_so_many_intervals_also_without_events() {
    needs_tracing!();
    let own = Own::new("tracepoint:raw_syscalls:sys_enter /args.id == 110 && pid == 1/ { @n = count(); }");
    let answer = tool(&[&own.path(), "0.01", "3"]).done();
    assert_eq!(answer.of_type("interval").count(), 3);
    // A count of nothing is told as often as one of something.
    assert_eq!(answer.maps("@n"), [0, 0, 0]);
}

#[test]
fn rows_stand_under_their_heads_and_tables_are_sorted() {
    needs_tracing!();
    let own = Own::new(
        "begin {
            print((pid=(uint32)1, name=\"short\", path=\"/a b\"));
            print((pid=(uint32)12345678, name=\"short\", path=\"/c\"));
            @calls[1, \"a\"] = count(); @calls[2, \"b\"] = count(); @calls[2, \"b\"] = count();
            @sum[2, \"b\"] = sum(1500); @n[(uint32)3, \"k\"] = sum(4); @one = count();
            exit();
        }",
    );
    let (status, out, err) = tool_text(&[&own.path()]);
    assert_eq!(status, Some(0), "{err}");
    let expected = "    PID NAME   PATH
      1 short  /a b
12345678 short /c
TID NAME CALLS  KILO
  2 b        2 1.500
  1 a        1     -
KEY1 KEY2 N
   3 k    4
one: 1
";
    assert_eq!(out, expected);
    let (_, out, _) = tool_text(&[&own.path(), "--top", "1"]);
    assert!(out.contains("  2 b ") && !out.contains("  1 a "), "{out}");
}

#[test]
fn a_header_with_mistakes_names_its_lines() {
    let own = Own::new("begin { }");
    let path = own.path();
    let text = std::fs::read_to_string(&path).unwrap().replace("// Family: syscalls", "// Family: calls");
    std::fs::write(&path, text).unwrap();
    let (status, _, err) = tool_text(&[&path]);
    assert_eq!(status, Some(2));
    assert!(err.contains("own.bt:5: Family: `calls` is none of"), "{err}");
}

#[test]
fn a_command_is_shown_with_all_that_it_starts_and_nobody_else() {
    needs_tracing!();
    let script = "sh -c 'expr 1 + 1; (expr 2 + 2; sh -c \"expr 3 + 3\")'";
    let running = Running::start(&["execsnoop", "-c", script]);
    let group = format!("lotse-tool-{}-*", running.pid());
    let answer = running.finish().done();
    if answer.stderr.contains("only the command's own process is shown") {
        testkit::skipped!("no control group can be made here: {}", answer.stderr);
    }
    let rows = answer.rows();
    let mut words: Vec<&str> = rows.iter().map(|row| row["args"].as_str().unwrap()).collect();
    words.retain(|words| words.starts_with("expr "));
    assert_eq!(words, ["expr 1 + 1", "expr 2 + 2", "expr 3 + 3"]);
    assert!(rows.iter().all(|row| ["sh", "expr"].contains(&row["comm"].as_str().unwrap())), "{rows:?}");
    let left = std::process::Command::new("find").args(["/sys/fs/cgroup", "-name", &group]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "", "a control group is left behind");
}

#[test]
fn metrics_have_units_help_and_the_names_of_keys() {
    needs_tracing!();
    let own = Own::new("begin { @calls[1, \"a\"] = count(); @wait_us = hist(5); exit(); }");
    let (status, out, err) = tool_text(&[&own.path(), "--metrics"]);
    assert_eq!(status, Some(0), "{err}");
    assert!(out.contains("lotse_own_calls_total{tid=\"1\",name=\"a\"} 1\n"), "{out}");
    assert!(out.contains("# UNIT lotse_own_wait_microseconds microseconds\n"), "{out}");
    assert!(out.contains("lotse_own_wait_microseconds_bucket{le=\"7\"} 1\n"), "{out}");
    let (_, out, _) = tool_text(&["runqlat", "--metrics", "-d", "200ms"]);
    assert!(out.contains("# HELP lotse_runqlat_microseconds the wait in microseconds\n"), "{out}");
}
