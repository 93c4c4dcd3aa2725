//! Hand-made map contents against the text and JSON that bpftrace printed for the same program.

use lang::schema::MapValue;
use lang::types::{Clock, Stack, Type, TypeTable};

use super::decode::{Decoder, Names};
use super::shown::{self, RawEntry, ShowOptions};
use super::value::StackLines;
use super::{json, map_text};

struct Plain;

impl Names for Plain {
    fn kernel_address(&self, address: u64, _: bool) -> String {
        format!("{address:#x}")
    }
    fn user_address(&self, address: u64, _: u32, _: bool) -> String {
        format!("{address:#x}")
    }
    fn stack(&self, _: Stack, hash: u64, frames: u32, _: u32) -> StackLines {
        StackLines { frames: (0..frames).map(|n| format!("f{hash}+{n}")).collect(), tab: false }
    }
    fn time(&self, nanoseconds: u64, _: Clock, format: &str) -> String {
        format!("{format}{nanoseconds}")
    }
    fn cgroup(&self, id: u64, _: Option<&str>) -> String {
        format!("unified:/{id}")
    }
    fn user(&self, uid: u32) -> String {
        uid.to_string()
    }
    fn syscall(&self, number: u32) -> String {
        number.to_string()
    }
    fn process(&self, pid: u32) -> String {
        pid.to_string()
    }
    fn errno(&self, number: i32) -> String {
        number.to_string()
    }
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Shows a map whose entries have one value each CPU.
fn show(
    name: &str,
    key: Option<&Type>,
    value: &MapValue,
    entries: &[(Vec<u8>, Vec<Vec<u8>>)],
    options: ShowOptions,
) -> (String, String) {
    let types = TypeTable::default();
    let decoder = Decoder { types: &types, names: &Plain, time_formats: &[], strings: &[], trailer: ".." };
    let raw: Vec<RawEntry<'_>> = entries
        .iter()
        .map(|(key, values)| RawEntry { key, values: values.iter().map(Vec::as_slice).collect() })
        .collect();
    let map = shown::map(name, key, value, &raw, decoder, options);
    let (mut as_text, mut as_json) = (Vec::new(), Vec::new());
    map_text::map(&mut as_text, &map).unwrap();
    json::map(&mut as_json, &map).unwrap();
    (String::from_utf8(as_text).unwrap(), String::from_utf8(as_json).unwrap())
}

#[track_caller]
fn check(
    key: Option<&Type>,
    value: &MapValue,
    entries: &[(Vec<u8>, Vec<Vec<u8>>)],
    expected_text: &str,
    expected_json: &str,
) {
    let (text, json) = show("@", key, value, entries, ShowOptions::default());
    assert_eq!(text, expected_text);
    assert_eq!(json, expected_json.to_owned() + "\n");
}

fn scalar(values: &[&[u64]]) -> Vec<(Vec<u8>, Vec<Vec<u8>>)> {
    vec![(vec![], values.iter().map(|value| words(value)).collect())]
}

fn keyed(rows: &[(u64, &[u64])]) -> Vec<(Vec<u8>, Vec<Vec<u8>>)> {
    rows.iter().map(|(key, value)| (words(&[*key]), vec![words(value)])).collect()
}

#[test]
fn plain_maps_are_sorted_by_value_and_ties_by_key() {
    let entries = keyed(&[(1, &[10]), (2, &[5]), (3, &[7]), (9, &[5])]);
    check(
        Some(&Type::U64),
        &MapValue::Plain(Type::I64),
        &entries,
        "@[2]: 5\n@[9]: 5\n@[3]: 7\n@[1]: 10\n",
        r#"{"type": "map", "data": {"@": {"2": 5, "9": 5, "3": 7, "1": 10}}}"#,
    );
}

#[test]
fn tuples_as_keys_lose_their_parentheses_and_as_values_keep_them() {
    let key = Type::tuple([Type::String(8), Type::I64]);
    let entries = vec![(b"a b\0\0\0\0\0\x03\0\0\0\0\0\0\0".to_vec(), vec![b"x\0\0\0\0\0\0\0".to_vec()])];
    check(
        Some(&key),
        &MapValue::Plain(Type::tuple([Type::String(8)])),
        &entries,
        "@[a b, 3]: (x)\n",
        r#"{"type": "map", "data": {"@": {"a b,3": ["x"]}}}"#,
    );
}

#[test]
fn counts_and_sums_add_up_over_cpus() {
    check(
        None,
        &MapValue::Count,
        &scalar(&[&[2], &[40]]),
        "@: 42\n",
        r#"{"type": "map", "data": {"@": 42}}"#,
    );
    let minus = (-5i64) as u64;
    check(
        None,
        &MapValue::Sum { signed: true },
        &scalar(&[&[minus], &[2]]),
        "@: -3\n",
        r#"{"type": "map", "data": {"@": -3}}"#,
    );
}

#[test]
fn minimum_and_maximum_leave_out_cpus_that_saw_nothing() {
    let minus = (-3i64) as u64;
    let (min, max) = (MapValue::Min { signed: true }, MapValue::Max { signed: true });
    check(None, &min, &scalar(&[&[0, 0], &[7, 1]]), "@: 7\n", r#"{"type": "map", "data": {"@": 7}}"#);
    check(None, &max, &scalar(&[&[0, 0], &[minus, 1]]), "@: -3\n", r#"{"type": "map", "data": {"@": -3}}"#);
}

#[test]
fn averages_of_negative_values_are_negative() {
    let minus = (-9i64) as u64;
    check(
        None,
        &MapValue::Avg { signed: true },
        &scalar(&[&[minus, 1], &[minus, 2]]),
        "@: -6\n",
        r#"{"type": "stats", "data": {"@": -6}}"#,
    );
    check(
        None,
        &MapValue::Stats { signed: false },
        &scalar(&[&[35, 2]]),
        "@: count 2, average 17, total 35\n",
        r#"{"type": "stats", "data": {"@": {"count": 2, "average": 17, "total": 35}}}"#,
    );
}

#[test]
fn print_takes_the_last_rows_and_divides() {
    let entries = keyed(&[(1, &[10, 1]), (2, &[20, 1]), (3, &[30, 1]), (4, &[40, 1])]);
    let options = ShowOptions { top: 2, divisor: 10, ..ShowOptions::default() };
    let avg = MapValue::Avg { signed: false };
    assert_eq!(show("@", Some(&Type::U64), &avg, &entries, options).0, "@[3]: 3\n@[4]: 4\n");
    let options = ShowOptions { top: 10, divisor: u64::MAX, ..ShowOptions::default() };
    assert_eq!(
        show("@", Some(&Type::U64), &avg, &entries, options).0,
        "@[1]: 0\n@[2]: 0\n@[3]: 0\n@[4]: 0\n"
    );
}

fn buckets(value: &MapValue, values: &[i64]) -> Vec<(Vec<u8>, Vec<Vec<u8>>)> {
    let mut counts = vec![0u64; value.size() as usize / 8];
    for number in values {
        let index = match value {
            MapValue::Hist { bits } | MapValue::LogLinear { bits } => {
                lang::aggregate::hist_bucket(*number as u64, *number < 0, *bits)
            }
            MapValue::Lhist { min, max, step } => lang::aggregate::lhist_bucket(*number, *min, *max, *step),
            _ => unreachable!(),
        };
        counts[index as usize] += 1;
    }
    scalar(&[&counts])
}

#[test]
fn histograms_of_powers_of_two_print_as_bpftrace_prints_them() {
    let value = MapValue::Hist { bits: 0 };
    let (text, json) =
        show("@h", None, &value, &buckets(&value, &[-5, 0, 1, 2, 3, 1023, 1024]), ShowOptions::default());
    let expected = "@h:
(..., 0)               1 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |
[0]                    1 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |
[1]                    1 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |
[2, 4)                 2 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
[4, 8)                 0 |                                                    |
[8, 16)                0 |                                                    |
[16, 32)               0 |                                                    |
[32, 64)               0 |                                                    |
[64, 128)              0 |                                                    |
[128, 256)             0 |                                                    |
[256, 512)             0 |                                                    |
[512, 1K)              1 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |
[1K, 2K)               1 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |

";
    assert_eq!(text, expected);
    let start = r#"{"type": "hist", "data": {"@h": [{"max": -1, "count": 1}, {"min": 0, "max": 0, "count": 1}, {"min": 1, "max": 1, "count": 1}, {"min": 2, "max": 3, "count": 2}, "#;
    assert!(json.starts_with(start), "{json}");
    assert!(json.ends_with("{\"min\": 1024, \"max\": 2047, \"count\": 1}]}}\n"), "{json}");
}

#[test]
fn the_largest_buckets_keep_their_units() {
    let value = MapValue::Hist { bits: 0 };
    let text = |number: i64| show("@", None, &value, &buckets(&value, &[number]), ShowOptions::default()).0;
    assert!(text(10 << 30).contains("[8G, 16G)"), "{}", text(10 << 30));
    assert!(text(i64::MAX).contains("[4E, 8E)"), "{}", text(i64::MAX));
    let fine = MapValue::Hist { bits: 2 };
    let (text, _) = show("@", None, &fine, &buckets(&fine, &[9, 1030]), ShowOptions::default());
    assert!(text.starts_with("@:\n[8, 10)  ") && text.contains("[1024, 1280)   "), "{text}");
}

#[test]
fn linear_histograms_have_open_ends() {
    let value = MapValue::Lhist { min: 0, max: 30, step: 10 };
    let (text, json) = show("@", None, &value, &buckets(&value, &[-1, 5, 30, 2000]), ShowOptions::default());
    let expected = "@:
(..., 0)               1 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |
[0, 10)                1 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |
[10, 20)               0 |                                                    |
[20, 30)               0 |                                                    |
[30, ...)              2 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|

";
    assert_eq!(text, expected);
    assert!(json.contains(r#"[{"max": -1, "count": 1}, {"min": 0, "max": 9, "count": 1}"#), "{json}");
    assert!(json.contains(r#"{"min": 30, "count": 2}]"#), "{json}");
    let only_over = buckets(&value, &[5000]);
    let (text, _) = show("@", None, &value, &only_over, ShowOptions::default());
    assert!(text.starts_with("@:\n[30, ...)              1 |@"), "{text}");
}

#[test]
fn log_linear_histograms_print_percentiles_as_bounds() {
    let value = MapValue::LogLinear { bits: 5 };
    let values: Vec<i64> = (1..=1000).collect();
    let (text, _) = show("@", None, &value, &buckets(&value, &values), ShowOptions::default());
    let last = text.lines().rfind(|line| !line.is_empty()).unwrap();
    assert!(last.starts_with("n 1000, p50 496..504, p90 896..912, p99 976..992"), "{last}");
    assert!(last.ends_with("relative error at most 3.1 %"), "{last}");
}

#[test]
fn stacks_are_indented_by_their_place() {
    let stack = Type::Stack(Stack { user: false, mode: Default::default(), limit: 2 });
    let mut bytes = words(&[7]);
    bytes.extend_from_slice(&[2, 0, 0, 0, 0, 0, 0, 0]);
    let entries = vec![(bytes.clone(), vec![words(&[1])])];
    let (text, _) = show("@", Some(&stack), &MapValue::Count, &entries, ShowOptions::default());
    assert_eq!(text, "@[\n    f7+0\n    f7+1\n]: 1\n");
    let (text, json) =
        show("@", None, &MapValue::Plain(stack), &[(vec![], vec![bytes])], ShowOptions::default());
    assert_eq!(text, "@: \n        f7+0\n        f7+1\n\n");
    assert!(json.contains(r#""\n        f7+0\n        f7+1\n""#), "{json}");
}

#[test]
fn json_escapes_text_and_quotes_integers_that_no_double_holds() {
    let mut out = Vec::new();
    let value = super::value::Value::Text(b"test \r \n \t \\ \" bar\x01".to_vec());
    json::message(&mut out, "printf", &value).unwrap();
    json::message(&mut out, "value", &super::value::Value::Unsigned(u64::MAX)).unwrap();
    let expected = "{\"type\": \"printf\", \"data\": \"test \\r \\n \\t \\\\ \\\" bar\\u0001\"}\n\
                    {\"type\": \"value\", \"data\": \"18446744073709551615\"}\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn time_series_fill_gaps_and_keep_the_latest_intervals() {
    let value = MapValue::TimeSeries {
        interval: 1_000_000_000,
        intervals: 3,
        combine: lang::schema::Combine::Avg,
        signed: true,
    };
    // Interval numbers 10 and 12 (stored plus one); the third slot is unused.
    let cpu0 = words(&[11, 0, 9, 3, 13, 0, 4, 2, 0, 0, 0, 0]);
    let cpu1 = words(&[11, 0, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    let (text, json) = show("@", None, &value, &[(vec![], vec![cpu0, cpu1])], ShowOptions::default());
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[3].ends_with("* 3"), "{text}");
    assert!(lines[4].ends_with("| -"), "{text}");
    assert!(lines[5].ends_with("| 2"), "{text}");
    assert!(json.starts_with(r#"{"type": "tseries", "data": {"@": [{"interval_start": "1970-"#), "{json}");
}
