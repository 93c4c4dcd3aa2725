//! Time series as a graph of text, laid out as bpftrace lays it out.

use std::io::{self, Write};

use super::shown::Series;
use super::value::Value;

const WIDTH: usize = 53;

/// How many digits of a second an interval's start needs.
fn fraction(interval: u64) -> (&'static str, usize) {
    if interval.is_multiple_of(1_000_000_000) {
        ("", 0)
    } else if interval.is_multiple_of(1_000_000) {
        (".ms", 3)
    } else if interval.is_multiple_of(1_000) {
        (".us", 6)
    } else {
        (".ns", 9)
    }
}

/// Writes the graph.
pub fn write(out: &mut dyn Write, series: &Series) -> io::Result<()> {
    if series.points.is_empty() {
        return out.write_all(b"<no data>");
    }
    let numbers = || series.points.iter().filter_map(|(_, value)| value.as_ref()?.as_integer());
    let (mut least, mut most) = (numbers().min().unwrap_or(0), numbers().max().unwrap_or(0));
    if least == most {
        (least, most) = (least - 1, most + 1);
    }
    let (unit, digits) = fraction(series.interval);
    let time_width = "hh:mm:ss".len() + if digits > 0 { 1 + digits } else { 0 };
    let blank = " ".repeat(time_width + 1);
    let edges = format!("{blank}{least:<21}{most:>32}");
    writeln!(out, "{edges}")?;
    writeln!(
        out,
        "{:<width$}|{}|",
        format!("hh:mm:ss{unit}"),
        "_".repeat(WIDTH - 2),
        width = time_width + 1
    )?;
    let place =
        |number: i128, of: usize| (of as f32 * (number - least) as f32 / (most - least) as f32) as usize;
    for (start, value) in &series.points {
        let mut line = vec![b' '; WIDTH];
        line[0] = b'|';
        line[WIDTH - 1] = b'|';
        if least < 0 && most > 0 {
            line[place(0, WIDTH).min(WIDTH - 1)] = b'.';
        }
        let shown = match value.as_ref().and_then(Value::as_integer) {
            Some(number) => {
                line[place(number, WIDTH - 1).min(WIDTH - 1)] = b'*';
                number.to_string().into_bytes()
            }
            None => b"-".to_vec(),
        };
        write!(out, "{} ", clock_time(*start, digits))?;
        out.write_all(&line)?;
        out.write_all(b" ")?;
        out.write_all(&shown)?;
        out.write_all(b"\n")?;
    }
    writeln!(out, "{blank}v{}v", "_".repeat(WIDTH - 2))?;
    writeln!(out, "{edges}")
}

fn clock_time(nanoseconds: u64, digits: usize) -> String {
    let text = kernel::local_time::formatted("%H:%M:%S", nanoseconds);
    let fraction = format!("{:09}", nanoseconds % 1_000_000_000);
    if digits == 0 { text } else { format!("{text}.{}", &fraction[..digits]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(values: &[Option<i64>]) -> String {
        let points =
            values.iter().enumerate().map(|(n, value)| (n as u64 * 100_000_000, value.map(Value::Signed)));
        let mut out = Vec::new();
        write(&mut out, &Series { interval: 100_000_000, points: points.collect() }).unwrap();
        // The hour depends on the time zone.
        String::from_utf8(out)
            .unwrap()
            .lines()
            .map(|line| line.get(3..).unwrap_or(""))
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn a_line_for_each_interval_with_its_value() {
        assert_eq!(
            graph(&[Some(0), Some(5), None]),
            "          0                                                   5
mm:ss.ms  |___________________________________________________|
00:00.000 *                                                   | 0
00:00.100 |                                                   * 5
00:00.200 |                                                   | -
          v___________________________________________________v
          0                                                   5"
        );
    }

    #[test]
    fn zero_is_marked_where_values_go_both_ways() {
        let text = graph(&[Some(-5), Some(0), Some(5)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "00:00.000 *                         .                         | -5");
        assert_eq!(lines[3], "00:00.100 |                         *                         | 0");
    }
}
