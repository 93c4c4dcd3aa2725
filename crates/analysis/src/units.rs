//! Durations and shares as a reader wants them in a sentence.

/// A duration with three significant digits and its unit, such as `1.24 ms`.
pub fn duration(ns: u64) -> String {
    let value = ns as f64;
    let (scaled, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (value / 1e3, "µs"),
        1_000_000..1_000_000_000 => (value / 1e6, "ms"),
        _ => (value / 1e9, "s"),
    };
    let decimals = match scaled {
        s if s < 9.995 => 2,
        s if s < 99.95 => 1,
        _ => 0,
    };
    format!("{scaled:.decimals$} {unit}")
}

/// `part` of `whole` in percent, such as `12.3 %`; `0 %` of nothing.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".to_owned();
    }
    let percent = part as f64 * 100.0 / whole as f64;
    if percent >= 9.95 || percent == 0.0 {
        format!("{percent:.0} %")
    } else if percent >= 0.095 {
        format!("{percent:.1} %")
    } else {
        "< 0.1 %".to_owned()
    }
}

/// A count with its noun: `1 wait`, `2 waits`; large counts in groups of three.
pub fn counted(count: u64, noun: &str) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{grouped} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let durations =
            [0, 999, 1_000, 12_345, 999_400, 1_500_000, 2_000_000_000, 3_600_000_000_000].map(duration);
        assert_eq!(
            durations,
            ["0 ns", "999 ns", "1.00 µs", "12.3 µs", "999 µs", "1.50 ms", "2.00 s", "3600 s"]
        );
        assert_eq!(
            [share(1, 3), share(1, 100), share(0, 9), share(1, 100_000)],
            ["33 %", "1.0 %", "0 %", "< 0.1 %"]
        );
        assert_eq!(counted(1, "wait"), "1 wait");
        assert_eq!(counted(1_234_567, "event"), "1,234,567 events");
        assert_eq!(counted(1234, "event"), "1,234 events");
    }
}
