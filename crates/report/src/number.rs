//! Numbers as people read them: counts with separators, times and sizes with the unit
//! that fits, and one common unit for numbers that stand in a column together.
//!
//! In a sentence each value takes its own unit ([`time`], [`bytes`]); in a column all
//! values share one ([`Scale`]), so that a longer number is a larger number.

/// A count with a comma between groups of three digits: `1,111,073`.
pub fn count(value: u64) -> String {
    group_digits(&value.to_string())
}

/// A time with three significant digits in the unit that fits: `840 ns`, `4.12 ms`, `2 h 05 min`.
pub fn time(nanos: u64) -> String {
    let value = nanos as f64;
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        // Limits are where three digits round up to the next unit's 1.00.
        1_000..999_500 => format!("{} µs", significant(value / 1e3)),
        999_500..999_500_000 => format!("{} ms", significant(value / 1e6)),
        999_500_000..119_950_000_000 => format!("{} s", significant(value / 1e9)),
        _ => {
            let seconds = (value / 1e9).round() as u64;
            let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
            if hours == 0 {
                format!("{minutes} min {seconds:02} s")
            } else {
                format!("{hours} h {minutes:02} min")
            }
        }
    }
}

/// A size in binary units with three significant digits: `512 B`, `1.41 MiB`.
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut scaled = value as f64;
    let mut unit = 0;
    while scaled >= if unit == 0 { 1024.0 } else { 999.5 } && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{value} B") } else { format!("{} {}", significant(scaled), UNITS[unit]) }
}

/// A part of a whole, given as 0…1, in per cent: `12.5 %`, `0 %`, `<0.1 %`.
pub fn share(value: f64) -> String {
    let percent = value * 100.0;
    if percent == 0.0 || percent == 100.0 {
        return format!("{percent:.0} %");
    }
    if percent > 0.0 && percent < 0.05 {
        return "<0.1 %".to_owned();
    }
    if percent < 0.0 && percent > -0.05 {
        return ">-0.1 %".to_owned();
    }
    // Nearly all is not all.
    if (99.95..100.0).contains(&percent) {
        return ">99.9 %".to_owned();
    }
    format!("{percent:.1} %")
}

/// Events per second: `12,345/s`, `3.2/s`.
pub fn rate(per_second: f64) -> String {
    if per_second.abs() >= 100.0 || per_second == 0.0 {
        format!("{}/s", fixed(per_second, 0))
    } else {
        format!("{}/s", significant(per_second))
    }
}

/// A number with a fixed count of decimals and grouped digits.
pub fn fixed(value: f64, decimals: usize) -> String {
    group_digits(&format!("{value:.decimals$}"))
}

/// Three significant digits, without an exponent: `0.0123`, `1.23`, `12.3`, `123`, `1,235`.
fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 || v == 0.0 => 2,
        v => (2 - v.log10().floor() as i32).clamp(2, 9) as usize,
    };
    fixed(value, decimals)
}

fn group_digits(digits: &str) -> String {
    let (sign, rest) = digits.split_at(digits.bytes().take_while(|b| !b.is_ascii_digit()).count());
    let (whole, fraction) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
    let mut out = String::with_capacity(digits.len() + whole.len() / 3);
    out.push_str(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out.push_str(fraction);
    out
}

/// One unit and number of decimals for all numbers of a column (or of several columns
/// that are read together, such as percentiles).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// What stands in the column's head, such as `ms`, `%`, `MiB`; empty for plain counts.
    pub unit: &'static str,
    /// A value is divided by this before it is printed.
    pub divisor: f64,
    /// Digits behind the point.
    pub decimals: usize,
}

impl Scale {
    /// Whole numbers.
    pub const COUNT: Scale = Scale { unit: "", divisor: 1.0, decimals: 0 };
    /// Parts of a whole given as 0…1, printed in per cent.
    pub const SHARE: Scale = Scale { unit: "%", divisor: 0.01, decimals: 1 };

    /// For times in nanoseconds: milliseconds over most of the range, since a column is
    /// easier to read where 0.004 and 23.118 differ in length than where 4 µs and 23 ms
    /// differ in one letter.
    pub fn for_times(values: impl Iterator<Item = u64>) -> Scale {
        let (low, high) = low_and_high(values, 4);
        Scale::for_times_between(low, high)
    }

    /// The same with three digits for the smallest of them too: for percentiles side by side.
    pub fn for_times_finely(values: impl Iterator<Item = u64>) -> Scale {
        let (low, high) = low_and_high(values, usize::MAX);
        Scale::for_times_between(low, high)
    }

    fn for_times_between(low: u64, high: u64) -> Scale {
        match high {
            // Nothing but zeros: the unit that the neighbours are likely to have.
            0 => Scale { unit: "ms", divisor: 1e6, decimals: 0 },
            1..10_000 => Scale { unit: "ns", divisor: 1.0, decimals: 0 },
            10_000..1_000_000 => Scale { unit: "µs", divisor: 1e3, decimals: 1 },
            1_000_000..100_000_000_000 => {
                // Three digits of the smallest numbers.
                let decimals = if low < 1_000_000 {
                    3
                } else if low < 10_000_000 {
                    2
                } else {
                    1
                };
                Scale { unit: "ms", divisor: 1e6, decimals }
            }
            _ => Scale { unit: "s", divisor: 1e9, decimals: if low < 1_000_000_000 { 3 } else { 1 } },
        }
    }

    /// For sizes in bytes.
    pub fn for_bytes(values: impl Iterator<Item = u64>) -> Scale {
        let (_, high) = low_and_high(values, 4);
        match high {
            0..10_240 => Scale { unit: "B", divisor: 1.0, decimals: 0 },
            10_240..10_485_760 => Scale { unit: "KiB", divisor: 1024.0, decimals: 1 },
            10_485_760..10_737_418_240 => Scale { unit: "MiB", divisor: 1_048_576.0, decimals: 1 },
            _ => Scale { unit: "GiB", divisor: 1_073_741_824.0, decimals: 1 },
        }
    }

    /// For plain numbers and rates, by the largest magnitude.
    pub fn for_numbers(unit: &'static str, values: impl Iterator<Item = f64>) -> Scale {
        let high = values.filter(|v| v.is_finite()).fold(0.0f64, |high, v| high.max(v.abs()));
        let decimals = if high >= 1_000.0 {
            0
        } else if high >= 10.0 {
            1
        } else {
            2
        };
        Scale { unit, divisor: 1.0, decimals }
    }

    /// The number in this unit, without the unit. A value that is not zero and would be
    /// rounded to it is printed as `<0.001`.
    pub fn print(&self, value: f64) -> String {
        let scaled = value / self.divisor;
        let smallest = 10f64.powi(-(self.decimals as i32));
        if scaled > 0.0 && scaled < smallest / 2.0 {
            return format!("<{}", fixed(smallest, self.decimals));
        }
        fixed(scaled, self.decimals)
    }
}

/// The value that one of so many of the non-zero ones lies below, and the largest.
fn low_and_high(values: impl Iterator<Item = u64>, one_of: usize) -> (u64, u64) {
    let mut values: Vec<u64> = values.filter(|&v| v > 0).collect();
    values.sort_unstable();
    match values.last() {
        Some(&high) => (values[values.len() / one_of], high),
        None => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_in_sentences_have_three_digits_and_their_own_unit() {
        for (nanos, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (12_345, "12.3 µs"),
            (999_499, "999 µs"),
            (999_600, "1.00 ms"),
            (4_118_000, "4.12 ms"),
            (10_000_000_000, "10.0 s"),
            (99_960_000_000, "100 s"),
            (125_000_000_000, "2 min 05 s"),
            (7_500_000_000_000, "2 h 05 min"),
        ] {
            assert_eq!(time(nanos), text, "{nanos}");
        }
        assert_eq!(time(u64::MAX), "5124095 h 34 min");
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024 * 1023), "0.999 MiB");
        assert_eq!(bytes(1_478_492), "1.41 MiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        assert_eq!(count(1_111_073), "1,111,073");
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(fixed(-1234.5, 1), "-1,234.5");
        assert_eq!(rate(123_456.7), "123,457/s");
        assert_eq!(rate(0.25), "0.250/s");
    }

    #[test]
    fn shares_never_round_something_to_nothing_or_to_all() {
        assert_eq!(share(0.0), "0 %");
        assert_eq!(share(0.0001), "<0.1 %");
        assert_eq!(share(0.125), "12.5 %");
        assert_eq!(share(0.99996), ">99.9 %");
        assert_eq!(share(1.0), "100 %");
        assert_eq!(share(-0.031), "-3.1 %");
        assert_eq!(share(-0.0002), ">-0.1 %");
    }

    #[test]
    fn a_column_shares_one_unit() {
        let scale = Scale::for_times([4_000, 23_118_000, 0, 12_000].into_iter());
        assert_eq!(scale.unit, "ms");
        assert_eq!(scale.print(4_000.0), "0.004");
        assert_eq!(scale.print(23_118_000.0), "23.118");
        assert_eq!(scale.print(0.0), "0.000");
        assert_eq!(scale.print(300.0), "<0.001");
        assert_eq!(Scale::for_times([0u64; 0].into_iter()).print(0.0), "0");
        assert_eq!(Scale::for_times([90_000].into_iter()).print(90_000.0), "90.0");
        assert_eq!(Scale::SHARE.print(0.0001), "<0.1");
        assert_eq!(Scale::for_numbers("", [0.5, 2.25].into_iter()).print(2.25), "2.25");
    }
}
