//! Tools of the family `interrupts`, against the kernel's own counters.

use std::collections::BTreeMap;

use crate::needs_tracing;
use crate::shared::{Answer, Running, counted};

/// The sums over CPUs of a table such as /proc/softirqs, by what its lines begin with.
fn totals(path: &str) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(path).unwrap();
    let line = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        let counts = counts.split_whitespace().map_while(|count| count.parse::<u64>().ok());
        Some((name.trim().to_owned(), counts.sum()))
    };
    text.lines().filter_map(line).collect()
}

/// Runs a tool and tells for each name how much a counter grew while it traced for sure, and at most.
fn bracketed(words: &[&str], path: &str) -> (Answer, impl Fn(&str) -> (u64, u64)) {
    let before = totals(path);
    let running = Running::start(words);
    let begun = totals(path);
    // Something to interrupt: timers, and writes that end in softirqs.
    let until = std::time::Instant::now() + std::time::Duration::from_millis(300);
    while std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
    let end = totals(path);
    let answer = running.stop().done();
    let after = totals(path);
    (answer, move |name: &str| (end[name] - begun[name], after[name] - before[name]))
}

#[test]
fn softirqs_agrees_with_proc_softirqs() {
    needs_tracing!();
    let (answer, grown) = bracketed(&["softirqs"], "/proc/softirqs");
    let rows = answer.rows();
    assert!(rows.iter().any(|row| row["vector"] == "RCU" || row["vector"] == "TIMER"), "{rows:?}");
    for row in rows {
        let (least, most) = grown(row["vector"].as_str().unwrap());
        let count = row["count"].as_u64().unwrap();
        // One that runs at the begin is counted there already; its entry was not seen.
        assert!((least.saturating_sub(8)..=most).contains(&count), "{least} {most} {row}");
        assert!(row["max_us"].as_u64().unwrap() as f64 <= row["time_ms"].as_f64().unwrap() * 1000.0 + 1.0);
    }
}

#[test]
fn hardirqs_agrees_with_proc_interrupts() {
    needs_tracing!();
    let (answer, grown) = bracketed(&["hardirqs"], "/proc/interrupts");
    let timers = answer.rows_with(&[("name", "[local_timer]".into())]);
    let mut checked = 0;
    if let [row] = timers[..] {
        let (least, most) = grown("LOC");
        let count = row["count"].as_u64().unwrap();
        assert!((least.saturating_sub(8)..=most).contains(&count), "{least} {most} {row}");
        checked += 1;
    }
    let lines = totals("/proc/interrupts");
    for row in answer.rows() {
        let irq = row["irq"].to_string();
        let device = !row["name"].as_str().unwrap().starts_with('[');
        if device && lines.contains_key(&irq) {
            let (least, most) = grown(&irq);
            let count = row["count"].as_u64().unwrap();
            assert!((least.saturating_sub(8)..=most).contains(&count), "{least} {most} {row}");
            checked += 1;
        }
    }
    assert!(checked > 0, "{:?}", answer.rows());
}

#[test]
fn their_histograms_count_what_their_tables_count() {
    needs_tracing!();
    let (answer, grown) = bracketed(&["softirqs", "--dist"], "/proc/softirqs");
    let map = answer.map("@usecs").as_object().unwrap();
    for (name, buckets) in map {
        let (least, most) = grown(name);
        assert!((least.saturating_sub(8)..=most).contains(&counted(buckets)), "{least} {most} {name}");
    }
    assert!(!map.is_empty());
}

#[test]
fn timers_has_the_timer_of_a_sleeper_and_how_late_it_was() {
    needs_tracing!();
    let running = Running::start(&["timers"]);
    for _ in 0..50 {
        std::thread::sleep(std::time::Duration::from_micros(500));
    }
    let answer = running.stop().done();
    let rows = answer.rows_with(&[("kind", "hrtimer".into()), ("function", "hrtimer_wakeup".into())]);
    assert_eq!(rows.len(), 1, "{:?}", answer.rows());
    assert!(rows[0]["count"].as_u64().unwrap() >= 50, "{}", rows[0]);
    assert!(rows[0]["worst_us"].as_u64().unwrap() >= rows[0]["late_us"].as_u64().unwrap());
    // A function of the wheel's timers has no lateness.
    for row in answer.rows_with(&[("kind", "timer".into())]) {
        assert!(row["late_us"].is_null(), "{row}");
    }
}
