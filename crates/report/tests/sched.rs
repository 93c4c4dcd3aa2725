//! A scheduler trace written as text, analysed, and told in each format: which numbers
//! stand where, and the names that the JSON contract promises.

use analysis::{
    crosscheck::{Circumstances, Counter, Quantity, Subject, crosscheck},
    sched::{SchedOptions, SchedResult, analyse},
};
use report::{Document, TextOptions, html, json, text};
use testkit::scenario::Scenario;
use trace::Tid;

/// Two CPUs, a thread that is preempted, one that waits while CPU 1 is idle, one with an
/// odd name, one that is still waiting at the end. Times in nanoseconds.
const TRACE: &str = r#"
1000000 0 switch idle R -> make/10
1000000 1 switch idle R -> "a b] ==> c/11"
1200000 0 waking cc1/12 -> 0
1201000 0 wakeup cc1/12 -> 0
1900000 0 switch make/10 R -> cc1/12
2500000 1 switch "a b] ==> c/11" S -> idle
4400000 0 waking "a b] ==> c/11" -> 0
4401000 0 wakeup "a b] ==> c/11" -> 0
5900000 0 switch cc1/12 S -> make/10
6400000 0 switch make/10 R -> "a b] ==> c/11"
6500000 0 new "</script>/13/120" -> 1
6600000 1 switch idle R -> "</script>/13/120"
6900000 1 switch "</script>/13/120" D -> idle
7000000 0 switch "a b] ==> c/11" S -> make/10
8000000 1 waking "</script>/13/120" -> 1
8000500 1 wakeup "</script>/13/120" -> 1
8004000 1 switch idle R -> "</script>/13/120"
9000000 1 exit "</script>/13/120"
9001000 1 switch "</script>/13/120" X -> idle
9500000 0 waking cc1/12 -> 0
9501000 0 wakeup cc1/12 -> 0
9900000 0 waking make/10 -> 0
"#;

fn result() -> SchedResult {
    analyse(&mut Scenario::parse(TRACE), &SchedOptions { columns: 16, ..SchedOptions::default() })
}

fn document() -> Document {
    let result = result();
    let counter = |subject, quantity, value, source: &str, slack| Counter {
        subject,
        quantity,
        value,
        source: source.to_owned(),
        slack,
    };
    let counters = [
        counter(Subject::System, Quantity::Switches, 10, "/proc/stat ctxt", 2),
        counter(Subject::Thread(Tid(12)), Quantity::RunTime, 9_000_000, "taskstats", 0),
        counter(Subject::Thread(Tid(99)), Quantity::RunTime, 5, "taskstats", 0),
    ];
    let check = crosscheck(&result, &counters, &Circumstances { filters: vec![], tolerance: 0.01 });
    report::sched::document(&result, Some(&check))
}

fn check(name: &str, actual: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected").join(name);
    if std::env::var_os("LOTSE_BLESS").is_some() {
        std::fs::write(&path, actual).expect("the expected text can be written");
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    for (number, (is, should)) in actual.lines().zip(expected.lines()).enumerate() {
        assert!(is == should, "{name}:{}\n  is      {is}\n  should  {should}", number + 1);
    }
    assert_eq!(actual.len(), expected.len(), "{name} has another length; LOTSE_BLESS=1 rewrites it");
}

#[test]
fn the_report_reads_well() {
    let options = TextOptions { width: Some(110), colour: false, all_rows: true };
    check("sched.txt", &text::document(&document(), &options));
}

/// Every key of an object, with the keys below it; of a list, those of its first element.
fn keys(value: &serde_json::Value, path: &str, out: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(entries) => {
            for (key, value) in entries {
                let path = format!("{path}.{key}");
                keys(value, &path, out);
                out.push(path);
            }
        }
        serde_json::Value::Array(items) => {
            // Rows may differ in their `_missing` keys only.
            for item in items {
                keys(item, &format!("{path}[]"), out);
            }
        }
        _ => {}
    }
}

/// A key that disappears from this list breaks programs of users: that needs a new
/// `json::SCHEMA`. A key that appears does not.
#[test]
fn the_json_contract_keeps_its_keys() {
    let value: serde_json::Value = serde_json::from_str(&json::document(&document())).expect("it is JSON");
    let mut names = Vec::new();
    keys(&value, "", &mut names);
    names.sort();
    names.dedup();
    check("sched.keys.txt", &(names.join("\n") + "\n"));
}

/// The numbers of the document are those of the analysis, in every format.
#[test]
fn numbers_arrive_unchanged() {
    let (result, document) = (result(), document());
    let value: serde_json::Value = serde_json::from_str(&json::document(&document)).expect("it is JSON");
    let quantiles = result.wait.total.quantiles.expect("there are waits");
    let all = &value["data"]["wait"]["series"][0];
    assert_eq!(all["key"], "all");
    assert_eq!(all["count"], result.wait.total.count);
    assert_eq!(all["percentiles"]["max_ns"], quantiles.max_ns);
    assert_eq!(all["percentiles"]["p50_ns"], quantiles.p50_ns);
    let counts = all["counts"].as_array().expect("a list");
    assert_eq!(counts.iter().filter_map(|c| c.as_u64()).sum::<u64>(), result.wait.total.count);
    let rows = value["data"]["threads"]["rows"].as_array().expect("a list");
    assert_eq!(rows.len(), result.threads.len());
    for row in rows {
        let thread = result.threads.iter().find(|thread| row["tid"] == thread.key.tid.0).expect("its thread");
        assert_eq!(row["wait_ns"], thread.budget.wakeup_wait_ns + thread.budget.preemption_wait_ns);
    }
    // The parts of each budget add up to its span exactly.
    let budget = &value["data"]["budget"];
    let parts: Vec<&str> =
        budget["parts"].as_array().expect("a list").iter().filter_map(|p| p["key"].as_str()).collect();
    for row in budget["rows"].as_array().expect("a list") {
        let sum: u64 = parts.iter().filter_map(|part| row[*part].as_u64()).sum();
        assert_eq!(sum, row["span_ns"].as_u64().expect("a number"), "{row}");
    }
    let heat = value["data"]["wait_over_time"]["counts"].as_array().expect("a list");
    let cells = heat.iter().flat_map(|c| c.as_array()).flatten().filter_map(|c| c.as_u64());
    assert_eq!(cells.sum::<u64>(), result.wait.total.count);
    let page = html::document(&document);
    assert!(page.contains("&lt;/script&gt;") && !page.contains("</script>/"));
}

/// Who was waiting when the trace began waited longest of all, by a measure that no column shows.
#[test]
fn threads_stand_in_the_order_of_the_waits_they_are_shown_with() {
    let trace = r#"
1000000 0 switch idle R -> make/10
1100000 0 waking cc1/12 -> 0
1500000 0 switch make/10 S -> cc1/12
9000000 0 switch cc1/12 S -> late/20
9500000 0 switch late/20 S -> idle
"#;
    let result = analyse(&mut Scenario::parse(trace), &SchedOptions::default());
    assert_eq!(result.threads[0].key.tid, Tid(20), "the analysis counts what the trace cuts off");
    let document = report::sched::document(&result, None);
    let value: serde_json::Value = serde_json::from_str(&json::document(&document)).expect("it is JSON");
    let rows = value["data"]["threads"]["rows"].as_array().expect("a list");
    let waits: Vec<u64> = rows.iter().filter_map(|row| row["wait_ns"].as_u64()).collect();
    assert!(waits.is_sorted_by(|a, b| a >= b) && waits[0] == 400_000, "{waits:?}");
}

#[test]
fn an_empty_trace_has_a_report() {
    let result = analyse(&mut Scenario::parse(""), &SchedOptions::default());
    let document = report::sched::document(&result, None);
    let text = text::document(&document, &TextOptions::PIPED);
    assert!(text.contains("No thread was seen waiting"), "{text}");
    assert!(html::document(&document).ends_with("</html>\n"));
}

#[test]
fn names_in_json_are_unique() {
    let document = document();
    let mut ids = Vec::new();
    for block in document.sections.iter().flat_map(|s| &s.blocks) {
        let table = match block {
            report::document::Block::Table(table) => table,
            report::document::Block::Budget(budget) => &budget.table,
            _ => continue,
        };
        ids.push(table.id.clone());
        let mut keys: Vec<String> = table.columns.iter().map(|c| c.json_key()).collect();
        let number = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), number, "a key occurs twice in {}: {keys:?}", table.id);
    }
    let number = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), number, "a table's name occurs twice: {ids:?}");
}
