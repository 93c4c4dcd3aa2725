//! Maps as metrics in the Prometheus text format: one family a map, its key as labels.

use std::io::{self, Write};

use super::shown::{Histogram, MapShown, Shown};
use super::text;
use super::value::Value;

/// What a family of metrics is called and how it is explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naming {
    /// The family, without the suffix of a counter.
    pub name: String,
    /// In words.
    pub help: String,
    /// The unit, which is the last word of the name.
    pub unit: Option<&'static str>,
    /// Names of the parts of the key, where they are known.
    pub labels: Vec<String>,
}

/// Units as names of maps and fields end, and as metrics spell them.
const UNITS: [(&str, &str); 10] = [
    ("ns", "nanoseconds"),
    ("nsecs", "nanoseconds"),
    ("us", "microseconds"),
    ("usecs", "microseconds"),
    ("ms", "milliseconds"),
    ("msecs", "milliseconds"),
    ("secs", "seconds"),
    ("bytes", "bytes"),
    ("kb", "kibibytes"),
    ("pages", "pages"),
];

impl Naming {
    /// Of a map of any program.
    pub fn of_program(map: &str) -> Naming {
        Naming {
            name: family(map),
            help: format!("Map {map} of the program."),
            unit: None,
            labels: Vec::new(),
        }
    }

    /// Of a map of a tool: `@off_us` of `cpudist` is `lotse_cpudist_off_microseconds`.
    pub fn of_tool(tool: &str, map: &str, help: &str, labels: Vec<String>) -> Naming {
        let stem = map.trim_start_matches('@');
        let (rest, last) = stem.rsplit_once('_').unwrap_or(("", stem));
        let unit = UNITS.iter().find(|(short, _)| *short == last).map(|(_, unit)| *unit);
        let words = match unit {
            Some(unit) if rest.is_empty() => format!("{tool}_{unit}"),
            Some(unit) => format!("{tool}_{rest}_{unit}"),
            None if stem.is_empty() => tool.to_owned(),
            None => format!("{tool}_{stem}"),
        };
        Naming { name: family(&words), help: help.replace('\\', "\\\\").replace('\n', " "), unit, labels }
    }
}

/// Writes a map. Values that are no numbers become the label `value` of a metric that is 1. `monotone`
/// maps (counts, sums of what cannot be negative) are counters, others gauges.
pub fn write(out: &mut dyn Write, map: &MapShown, monotone: bool) -> io::Result<()> {
    write_as(out, map, monotone, &Naming::of_program(&map.name))
}

/// The same under another name.
pub fn write_as(out: &mut dyn Write, map: &MapShown, monotone: bool, naming: &Naming) -> io::Result<()> {
    if map.rows.is_empty() {
        return Ok(());
    }
    let name = &naming.name;
    let kind = match map.rows.first() {
        Some((_, Shown::Histogram(_))) => "histogram",
        Some((_, Shown::Stats { .. })) => "summary",
        _ if monotone => "counter",
        _ => "gauge",
    };
    let suffix = if kind == "counter" { "_total" } else { "" };
    writeln!(out, "# HELP {name}{suffix} {}", naming.help)?;
    writeln!(out, "# TYPE {name}{suffix} {kind}")?;
    if let Some(unit) = naming.unit {
        writeln!(out, "# UNIT {name}{suffix} {unit}")?;
    }
    for (key, shown) in &map.rows {
        let mut labels = labels(key.as_ref());
        for ((label, _), known) in labels.iter_mut().zip(&naming.labels) {
            label.clone_from(known);
        }
        match shown {
            Shown::Value(value) => match value.as_integer() {
                Some(number) => writeln!(out, "{name}{suffix}{} {number}", braces(&labels))?,
                None => {
                    let mut labels = labels.clone();
                    labels
                        .push(("value".into(), String::from_utf8_lossy(&text::to_bytes(value)).into_owned()));
                    writeln!(out, "{name}{suffix}{} 1", braces(&labels))?;
                }
            },
            Shown::Stats { count, total, .. } => {
                let total = total.as_integer().unwrap_or(0);
                writeln!(out, "{name}_sum{} {total}", braces(&labels))?;
                writeln!(out, "{name}_count{} {count}", braces(&labels))?;
            }
            Shown::Histogram(histogram) => write_histogram(out, name, &labels, histogram)?,
            Shown::Series(series) => {
                let last = series.points.iter().rev().find_map(|(_, value)| value.as_ref()?.as_integer());
                writeln!(out, "{name}{} {}", braces(&labels), last.unwrap_or(0))?;
            }
        }
    }
    Ok(())
}

/// Cumulative buckets. The sum of the values is not kept in the kernel and is left out, which the format
/// allows; each bound is the highest integer of its bucket.
fn write_histogram(
    out: &mut dyn Write,
    name: &str,
    labels: &[(String, String)],
    histogram: &Histogram,
) -> io::Result<()> {
    let mut below = 0u64;
    for bucket in &histogram.buckets {
        below += bucket.count;
        if let Some(high) = &bucket.high {
            let mut labels = labels.to_vec();
            labels.push(("le".into(), (high.number() - 1).to_string()));
            writeln!(out, "{name}_bucket{} {below}", braces(&labels))?;
        }
    }
    let mut labels_of_all = labels.to_vec();
    labels_of_all.push(("le".into(), "+Inf".into()));
    writeln!(out, "{name}_bucket{} {below}", braces(&labels_of_all))?;
    writeln!(out, "{name}_count{} {below}", braces(labels))
}

/// `@bytes` → `lotse_bytes`, `@` → `lotse_map`.
fn family(name: &str) -> String {
    let name = name.trim_start_matches('@');
    let clean: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if clean.is_empty() { "lotse_map".into() } else { format!("lotse_{clean}") }
}

fn labels(key: Option<&Value>) -> Vec<(String, String)> {
    let text = |value: &Value| String::from_utf8_lossy(&text::key_bytes(value)).trim().to_owned();
    match key {
        None => vec![],
        Some(Value::Tuple(fields)) => {
            fields.iter().enumerate().map(|(at, field)| (format!("key{at}"), text(field))).collect()
        }
        Some(Value::Record(fields)) => {
            fields.iter().map(|(name, field)| (name.clone(), text(field))).collect()
        }
        Some(value) => vec![("key".into(), text(value))],
    }
}

fn braces(labels: &[(String, String)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let parts: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", parts.join(","))
}

#[cfg(test)]
mod tests {
    use super::super::shown::{Bucket, Label, ShownKind};
    use super::*;

    fn written(rows: Vec<(Option<Value>, Shown)>, monotone: bool) -> String {
        let map = MapShown { name: "@reads".into(), scalar: false, kind: ShownKind::Map, rows };
        let mut out = Vec::new();
        write(&mut out, &map, monotone).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn keys_are_labels() {
        let key = Value::Tuple(vec![Value::Text(b"a \"b\"".to_vec()), Value::Signed(3)]);
        let text = written(vec![(Some(key), Shown::Value(Value::Unsigned(7)))], true);
        assert!(text.ends_with("lotse_reads_total{key0=\"a \\\"b\\\"\",key1=\"3\"} 7\n"), "{text}");
    }

    #[test]
    fn tools_name_their_metrics_with_units() {
        let name = |tool, map| Naming::of_tool(tool, map, "", vec![]).name;
        assert_eq!(name("runqlat", "@usecs"), "lotse_runqlat_microseconds");
        assert_eq!(name("cpudist", "@off_usecs"), "lotse_cpudist_off_microseconds");
        assert_eq!(name("x-y", "@"), "lotse_x_y");
        let naming = Naming::of_tool("t", "@sent_bytes", "payload", vec!["pid".into()]);
        let rows = vec![(Some(Value::Unsigned(7)), Shown::Value(Value::Unsigned(3)))];
        let map = MapShown { name: "@sent_bytes".into(), scalar: false, kind: ShownKind::Map, rows };
        let mut out = Vec::new();
        write_as(&mut out, &map, true, &naming).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "# HELP lotse_t_sent_bytes_total payload\n# TYPE lotse_t_sent_bytes_total counter\n\
             # UNIT lotse_t_sent_bytes_total bytes\nlotse_t_sent_bytes_total{pid=\"7\"} 3\n"
        );
    }

    #[test]
    fn buckets_add_up() {
        let bucket =
            |low, high, count| Bucket { low: Some(Label::Plain(low)), high: Some(Label::Plain(high)), count };
        let histogram =
            Histogram { buckets: vec![bucket(2, 4, 5), bucket(4, 8, 1)], linear: false, percentiles: None };
        let text = written(vec![(None, Shown::Histogram(histogram))], false);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "lotse_reads_bucket{le=\"3\"} 5",
                "lotse_reads_bucket{le=\"7\"} 6",
                "lotse_reads_bucket{le=\"+Inf\"} 6",
                "lotse_reads_count 6"
            ]
        );
    }
}
