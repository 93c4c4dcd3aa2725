//! Durations and sizes as people write them.

use std::time::Duration;

const DURATION_UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

const SIZE_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("K", 1 << 10),
    ("MiB", 1 << 20),
    ("M", 1 << 20),
    ("GiB", 1 << 30),
    ("G", 1 << 30),
    ("TiB", 1 << 40),
];

/// Reads `10s`, `1.5ms`, `2m`; a bare number is refused, since seconds and milliseconds are
/// mistaken for each other. The error says what would be right.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let example = "write a number and its unit: 500ms, 10s, 2m, 1h, 30d";
    let nanoseconds =
        parse_quantity(text, DURATION_UNITS).ok_or_else(|| format!("`{text}` is no duration; {example}"))?;
    Ok(Duration::from_nanos(nanoseconds))
}

/// Reads `64MiB`, `1.5GB`, `4096B`. The error says what would be right.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let example = "write a number and its unit: 512KiB, 64MiB, 2GiB";
    parse_quantity(text, SIZE_UNITS).ok_or_else(|| format!("`{text}` is no size; {example}"))
}

fn parse_quantity(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (text[..end].parse::<f64>().ok()?, text[end..].trim());
    let factor = units.iter().find(|(name, _)| *name == unit)?.1;
    let value = number * factor as f64;
    (value.is_finite() && value < u64::MAX as f64).then_some(value.round() as u64)
}

/// The shortest text that [`parse_duration`] reads back to within a thousandth.
pub fn format_duration(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos() as f64;
    for (unit, factor) in [("d", 864e11), ("h", 36e11), ("m", 6e10)] {
        let value = nanoseconds / factor;
        if value >= 1.0 && value.fract() == 0.0 {
            return format!("{value}{unit}");
        }
    }
    let (unit, factor) = match nanoseconds {
        n if n >= 1e9 || n == 0.0 => ("s", 1e9),
        n if n >= 1e6 => ("ms", 1e6),
        n if n >= 1e3 => ("us", 1e3),
        _ => ("ns", 1.0),
    };
    let rounded = (nanoseconds / factor * 1000.0).round() / 1000.0;
    format!("{rounded}{unit}")
}

/// A size with at most one decimal, in powers of 1024.
pub fn format_bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return format!("{} {unit}", (value * 10.0).round() / 10.0);
        }
        value /= 1024.0;
    }
    format!("{} TiB", (value * 10.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_need_their_unit() {
        assert_eq!(parse_duration("1.5ms"), Ok(Duration::from_micros(1500)));
        assert_eq!(parse_duration("2 m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_bytes("64MiB"), Ok(64 << 20));
        for bad in ["10", "", "s", "-1s", "1e99s", "10 parsecs", "1..2s", "99999999999999d"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
        assert!(parse_bytes("12").unwrap_err().contains("MiB"));
    }

    #[test]
    fn what_is_written_can_be_read() {
        for text in ["0s", "10s", "1.5s", "2m", "90s", "250us", "7ns", "30d", "36h"] {
            let duration = parse_duration(text).unwrap();
            assert_eq!(parse_duration(&format_duration(duration)), Ok(duration), "{text}");
        }
        assert_eq!(format_duration(Duration::from_secs(90)), "90s");
        assert_eq!(format_bytes(1536), "1.5 KiB");
        assert_eq!(format_bytes(0), "0 B");
    }
}
