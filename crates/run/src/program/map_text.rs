//! Maps as text, to the letter as bpftrace prints them.

use std::io::{self, Write};

use super::columns;
use super::series;
use super::shown::{Bucket, Histogram, Label, MapShown, Shown};
use super::text::{key_bytes, to_bytes};
use super::value::Value;

/// Characters of a histogram's longest bar.
const BAR: usize = 52;

/// A whole map.
pub fn map(out: &mut dyn Write, map: &MapShown) -> io::Result<()> {
    write_map(out, map, &map.name, false)
}

/// The same as tools print it: the name without its `@`, percentiles below every histogram.
pub fn tool_map(out: &mut dyn Write, map: &MapShown) -> io::Result<()> {
    let name = map.name.trim_start_matches('@');
    let name = if name.is_empty() { "value" } else { name };
    if map.rows.iter().any(|(key, _)| key.as_ref().is_some_and(Value::has_stack)) {
        return map.rows.iter().try_for_each(|row| write_stacks(out, name, row));
    }
    write_map(out, map, name, true)
}

/// `off_ns 1234: comm`, then the stacks of the key with `--` between them, innermost first.
fn write_stacks(out: &mut dyn Write, name: &str, (key, shown): &(Option<Value>, Shown)) -> io::Result<()> {
    let parts: Vec<&Value> = match key {
        Some(Value::Tuple(parts)) => parts.iter().collect(),
        Some(Value::Record(fields)) => fields.iter().map(|(_, value)| value).collect(),
        other => other.iter().collect(),
    };
    let others: Vec<String> =
        parts.iter().filter(|part| !part.has_stack()).map(|part| columns::cell(part)).collect();
    match shown {
        Shown::Value(value) => write!(out, "{name} {}", columns::cell(value))?,
        Shown::Stats { count, average, total } => write!(
            out,
            "{name} count {count}, average {}, total {}",
            columns::cell(average),
            columns::cell(total)
        )?,
        Shown::Histogram(_) | Shown::Series(_) => out.write_all(name.as_bytes())?,
    }
    let between = if others.is_empty() { "" } else { ": " };
    writeln!(out, "{between}{}", others.join(", "))?;
    let mut first = true;
    for part in parts {
        let Value::Stack(stack) = part else { continue };
        if !std::mem::take(&mut first) {
            writeln!(out, "    --")?;
        }
        for frame in &stack.frames {
            writeln!(out, "    {frame}")?;
        }
    }
    if let Shown::Histogram(histogram) = shown {
        write_buckets(out, histogram)?;
        write_ranks(out, histogram)?;
    }
    writeln!(out)
}

fn write_map(out: &mut dyn Write, map: &MapShown, name: &str, ranks: bool) -> io::Result<()> {
    for (key, shown) in &map.rows {
        out.write_all(name.as_bytes())?;
        if let Some(key) = key {
            out.write_all(b"[")?;
            out.write_all(&key_bytes(key))?;
            out.write_all(b"]")?;
        }
        match shown {
            Shown::Value(value) => {
                out.write_all(b": ")?;
                out.write_all(&to_bytes(value))?;
                out.write_all(b"\n")?;
            }
            Shown::Stats { count, average, total } => {
                out.write_all(b": ")?;
                let average = to_bytes(average);
                write!(out, "count {count}, average ")?;
                out.write_all(&average)?;
                out.write_all(b", total ")?;
                out.write_all(&to_bytes(total))?;
                out.write_all(b"\n")?;
            }
            Shown::Histogram(histogram) => {
                out.write_all(b":\n")?;
                write_buckets(out, histogram)?;
                if ranks {
                    write_ranks(out, histogram)?
                } else {
                    write_percentiles(out, histogram)?
                }
                out.write_all(b"\n")?;
            }
            Shown::Series(series) => {
                out.write_all(b":\n")?;
                series::write(out, series)?;
                out.write_all(b"\n")?;
            }
        }
    }
    Ok(())
}

fn range(bucket: &Bucket, linear: bool) -> String {
    match (&bucket.low, &bucket.high) {
        (None, Some(high)) => format!("(..., {})", high.text()),
        (Some(low), None) => format!("[{}, ...)", low.text()),
        (Some(Label::Plain(low)), Some(Label::Plain(high))) if low + 1 == *high && !linear => {
            format!("[{low}]")
        }
        (Some(low), Some(high)) => format!("[{}, {})", low.text(), high.text()),
        (None, None) => "(..., ...)".into(),
    }
}

/// `count 120, p50 in [4, 8), …`: a histogram knows a percentile no better than its bucket.
fn write_ranks(out: &mut dyn Write, histogram: &Histogram) -> io::Result<()> {
    let parts =
        histogram.ranks().map(|(name, bucket)| format!(", {name} in {}", range(bucket, histogram.linear)));
    writeln!(out, "count {}{}", histogram.count(), parts.collect::<String>())
}

fn write_buckets(out: &mut dyn Write, histogram: &Histogram) -> io::Result<()> {
    let most = histogram.buckets.iter().map(|bucket| bucket.count).max().unwrap_or(0).max(1);
    for bucket in &histogram.buckets {
        let range = range(bucket, histogram.linear);
        let bar = "@".repeat((bucket.count as f32 / most as f32 * BAR as f32) as usize);
        writeln!(out, "{range:<16}{:>8} |{bar:<BAR$}|", bucket.count)?;
    }
    Ok(())
}

fn write_percentiles(out: &mut dyn Write, histogram: &Histogram) -> io::Result<()> {
    if let Some(percentiles) = &histogram.percentiles {
        let parts: Vec<String> = percentiles
            .values
            .iter()
            .map(|(name, low, high)| format!("{name} {}", between(*low, *high)))
            .collect();
        writeln!(
            out,
            "n {}, {}, relative error at most {:.1} %",
            percentiles.count,
            parts.join(", "),
            percentiles.error * 100.0
        )?;
    }
    Ok(())
}

fn between(low: u128, high: u128) -> String {
    if high <= low + 1 { low.to_string() } else { format!("{low}..{high}") }
}
