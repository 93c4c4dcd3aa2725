//! Metrics as text for scrapers: the Prometheus text format (0.0.4) and OpenMetrics (1.0).
//!
//! One family is declared once and printed in both; they differ in where `_total` stands,
//! in the unit line and in the end mark.

use std::fmt::Write;

/// What a family's numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only ever rises; starts again at 0 when its producer does.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size.
    Histogram,
}

/// A metric with all its series.
#[derive(Clone, Debug)]
pub struct Family {
    /// Its name without `_total`; ends with the unit, such as `lotse_cpu_wait_seconds`.
    pub name: String,
    /// What it is, in a sentence.
    pub help: String,
    /// What its numbers are.
    pub kind: Kind,
    /// The unit at the name's end, such as `seconds`; none for plain counts.
    pub unit: Option<&'static str>,
    /// The series.
    pub series: Vec<Series>,
}

/// One labelled series.
#[derive(Clone, Debug)]
pub struct Series {
    /// Label names and values, in the order to print.
    pub labels: Vec<(String, String)>,
    /// Its present value.
    pub value: Number,
    /// When its producer began to count, in seconds since 1970, so that a reader can tell a
    /// reset (OpenMetrics only; not for gauges).
    pub created: Option<f64>,
}

/// A series' value.
#[derive(Clone, Debug)]
pub enum Number {
    /// A whole number.
    Whole(u64),
    /// Any number.
    Real(f64),
    /// Counts by size, not cumulated: `counts[i]` values were at most `bounds[i]` and above
    /// the bound before; the last count, one more than there are bounds, is of those above all.
    Histogram {
        /// Upper bounds, ascending, in the family's unit.
        bounds: Vec<f64>,
        /// One more than bounds.
        counts: Vec<u64>,
        /// The sum of all values, in the family's unit.
        sum: f64,
    },
}

/// The Prometheus text format (`text/plain; version=0.0.4`).
pub fn text(families: &[Family]) -> String {
    write(families, Format::Prometheus)
}

/// OpenMetrics (`application/openmetrics-text; version=1.0.0`).
pub fn openmetrics(families: &[Family]) -> String {
    let mut out = write(families, Format::OpenMetrics);
    out.push_str("# EOF\n");
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Prometheus,
    OpenMetrics,
}

fn write(families: &[Family], format: Format) -> String {
    let mut out = String::new();
    for family in families {
        let name = metric_name(&family.name);
        let sample_name = if family.kind == Kind::Counter { format!("{name}_total") } else { name.clone() };
        // The old format declares a counter by the name of its samples.
        let declared = if format == Format::Prometheus { &sample_name } else { &name };
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let _ = writeln!(out, "# HELP {declared} {}", escape(&family.help, format == Format::OpenMetrics));
        let _ = writeln!(out, "# TYPE {declared} {kind}");
        if let (Format::OpenMetrics, Some(unit)) = (format, family.unit) {
            let _ = writeln!(out, "# UNIT {declared} {unit}");
        }
        for series in &family.series {
            match &series.value {
                Number::Whole(value) => {
                    line(&mut out, &sample_name, &series.labels, None, &value.to_string())
                }
                Number::Real(value) => line(&mut out, &sample_name, &series.labels, None, &real(*value)),
                Number::Histogram { bounds, counts, sum } => {
                    histogram(&mut out, &name, &series.labels, bounds, counts, *sum);
                }
            }
            if let (Format::OpenMetrics, Some(created), true) =
                (format, series.created, family.kind != Kind::Gauge)
            {
                line(&mut out, &format!("{name}_created"), &series.labels, None, &real(created));
            }
        }
    }
    out
}

fn histogram(
    out: &mut String,
    name: &str,
    labels: &[(String, String)],
    bounds: &[f64],
    counts: &[u64],
    sum: f64,
) {
    let bucket = format!("{name}_bucket");
    let mut below = 0u64;
    for (i, count) in counts.iter().enumerate() {
        below = below.saturating_add(*count);
        let bound = bounds.get(i).copied().unwrap_or(f64::INFINITY);
        line(out, &bucket, labels, Some(("le", &real(bound))), &below.to_string());
        if bound == f64::INFINITY {
            break;
        }
    }
    line(out, &format!("{name}_sum"), labels, None, &real(sum));
    line(out, &format!("{name}_count"), labels, None, &below.to_string());
}

fn line(out: &mut String, name: &str, labels: &[(String, String)], last: Option<(&str, &str)>, value: &str) {
    out.push_str(name);
    let labels = labels.iter().map(|(key, value)| (label_name(key), value.as_str()));
    let labels = labels.chain(last.map(|(key, value)| (key.to_owned(), value)));
    for (i, (key, value)) in labels.enumerate() {
        let _ = write!(out, "{}{key}=\"{}\"", if i == 0 { '{' } else { ',' }, escape(value, true));
    }
    if out.ends_with('"') {
        out.push('}');
    }
    let _ = writeln!(out, " {value}");
}

fn real(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() }
    } else if value == value.trunc() && value.abs() < 1e15 {
        format!("{value:.1}")
    } else {
        value.to_string()
    }
}

fn escape(text: &str, quotes: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out
}

fn metric_name(name: &str) -> String {
    allowed(name, |c| c == ':')
}

fn label_name(name: &str) -> String {
    allowed(name, |_| false)
}

/// Letters, digits and `_`, not beginning with a digit; anything else becomes `_`.
fn allowed(name: &str, also: fn(char) -> bool) -> String {
    let mut out: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || also(c) { c } else { '_' })
        .collect();
    if out.is_empty() || out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert(0, '_');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn families() -> Vec<Family> {
        let label = |value: &str| vec![("comm".to_owned(), value.to_owned())];
        vec![
            Family {
                name: "lotse_switches".into(),
                help: "Context switches.".into(),
                kind: Kind::Counter,
                unit: None,
                series: vec![Series {
                    labels: label("a \"b\"\\\n"),
                    value: Number::Whole(u64::MAX),
                    created: Some(1.5),
                }],
            },
            Family {
                name: "lotse_wait_seconds".into(),
                help: "Wait for\nthe CPU.".into(),
                kind: Kind::Histogram,
                unit: Some("seconds"),
                series: vec![Series {
                    labels: vec![],
                    value: Number::Histogram { bounds: vec![0.001, 1.0], counts: vec![5, 2, 1], sum: 3.25 },
                    created: None,
                }],
            },
            Family {
                name: "9 lives".into(),
                help: "Left.".into(),
                kind: Kind::Gauge,
                unit: None,
                series: vec![Series { labels: label("x"), value: Number::Real(f64::NAN), created: None }],
            },
        ]
    }

    #[test]
    fn the_prometheus_text_format() {
        let expected = r#"# HELP lotse_switches_total Context switches.
# TYPE lotse_switches_total counter
lotse_switches_total{comm="a \"b\"\\\n"} 18446744073709551615
# HELP lotse_wait_seconds Wait for\nthe CPU.
# TYPE lotse_wait_seconds histogram
lotse_wait_seconds_bucket{le="0.001"} 5
lotse_wait_seconds_bucket{le="1.0"} 7
lotse_wait_seconds_bucket{le="+Inf"} 8
lotse_wait_seconds_sum 3.25
lotse_wait_seconds_count 8
# HELP _9_lives Left.
# TYPE _9_lives gauge
_9_lives{comm="x"} NaN
"#;
        assert_eq!(text(&families()), expected);
    }

    #[test]
    fn openmetrics_differs_where_it_must() {
        let text = openmetrics(&families());
        assert!(text.starts_with("# HELP lotse_switches Context switches.\n# TYPE lotse_switches counter\n"));
        assert!(text.contains("lotse_switches_created{comm=\"a \\\"b\\\"\\\\\\n\"} 1.5\n"), "{text}");
        assert!(text.contains("# UNIT lotse_wait_seconds seconds\n"));
        assert!(text.ends_with("# EOF\n"));
    }
}
