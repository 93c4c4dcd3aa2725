//! Places on axes and their labels.

use crate::{chart::TimeAxis, table::Unit};

/// A logarithmic axis from `low` to `high`.
#[derive(Clone, Copy, Debug)]
pub struct LogAxis {
    low: f64,
    high: f64,
}

impl LogAxis {
    /// Zero has no place on it; values below 1 stand at the lower end.
    pub fn new(low: u64, high: u64) -> LogAxis {
        let low = (low.max(1) as f64).ln();
        LogAxis { low, high: (high as f64).max(2.0).ln().max(low + 0.1) }
    }

    /// The place of a value as a part of the axis, 0…1.
    pub fn place(&self, value: u64) -> f64 {
        (((value.max(1) as f64).ln() - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// Ticks inside the axis: value, place, and whether it carries a label. Powers of ten
    /// have labels; twos and fives too where there are few powers of ten.
    pub fn ticks(&self) -> Vec<(u64, f64, bool)> {
        let decades = (self.high - self.low) / std::f64::consts::LN_10;
        let mut ticks = Vec::new();
        let mut power = 1u64;
        loop {
            for factor in 1..10u64 {
                let Some(value) = power.checked_mul(factor) else { return ticks };
                let place = ((value as f64).ln() - self.low) / (self.high - self.low);
                if place > 1.0 {
                    return ticks;
                }
                if place >= 0.0 {
                    let label = factor == 1 || decades < 2.0 && matches!(factor, 2 | 5);
                    ticks.push((value, place, label));
                }
            }
            let Some(next) = power.checked_mul(10) else { return ticks };
            power = next;
        }
    }
}

/// A tick's label: a round number without decimals, `100 µs`.
pub fn tick_label(unit: Unit, value: u64) -> String {
    match unit {
        Unit::Nanos => {
            let (divisor, name) = match value {
                0..1_000 => (1, "ns"),
                1_000..1_000_000 => (1_000, "µs"),
                1_000_000..1_000_000_000 => (1_000_000, "ms"),
                _ => (1_000_000_000, "s"),
            };
            if value.is_multiple_of(divisor) {
                format!("{} {name}", value / divisor)
            } else {
                unit.print(value)
            }
        }
        unit => unit.print(value),
    }
}

/// Ticks of a time axis: place 0…1 and label in seconds since second 0.
pub fn time_ticks(axis: &TimeAxis) -> Vec<(f64, String)> {
    let span = axis.span_ns() as f64;
    if span <= 0.0 {
        return Vec::new();
    }
    let start = axis.offset_ns(0) as f64;
    let step = nice_step(span / 5.0);
    let decimals = (9.0 - step.log10().floor()).clamp(0.0, 9.0) as usize;
    let mut ticks = Vec::new();
    let mut number = (start / step).ceil();
    while number * step <= start + span * 1.000_001 && ticks.len() < 20 {
        let at = number * step;
        ticks.push(((at - start) / span, format!("{:.decimals$} s", at / 1e9)));
        number += 1.0;
    }
    ticks
}

/// The next of 1, 2, 5 × a power of ten.
fn nice_step(raw: f64) -> f64 {
    let power = 10f64.powf(raw.max(1.0).log10().floor());
    let factor = raw / power;
    power
        * if factor <= 1.0 {
            1.0
        } else if factor <= 2.0 {
            2.0
        } else if factor <= 5.0 {
            5.0
        } else {
            10.0
        }
}

/// A place as a percentage for an SVG attribute, without needless digits.
pub fn percent(place: f64) -> String {
    let text = format!("{:.2}", place * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decades_are_labelled_and_in_place() {
        let axis = LogAxis::new(1_000, 10_000_000);
        let labelled: Vec<_> = axis
            .ticks()
            .into_iter()
            .filter(|t| t.2)
            .map(|(value, place, _)| (tick_label(Unit::Nanos, value), percent(place)))
            .collect();
        assert_eq!(
            labelled,
            [("1 µs", "0%"), ("10 µs", "25%"), ("100 µs", "50%"), ("1 ms", "75%"), ("10 ms", "100%")]
                .map(|(a, b)| (a.to_owned(), b.to_owned()))
        );
    }

    #[test]
    fn extreme_axes_end() {
        assert!(!LogAxis::new(0, u64::MAX).ticks().is_empty());
        assert!(LogAxis::new(0, 0).place(u64::MAX) <= 1.0);
        let axis = TimeAxis { start_ns: 0, zero_ns: 0, step_ns: u64::MAX, columns: 3 };
        assert!(time_ticks(&axis).len() <= 20);
        assert!(time_ticks(&TimeAxis { start_ns: 0, zero_ns: 9, step_ns: 0, columns: 0 }).is_empty());
    }

    #[test]
    fn seconds_have_the_decimals_of_their_step() {
        let axis =
            TimeAxis { start_ns: 5_000_000_000, zero_ns: 5_000_000_000, step_ns: 10_000_000, columns: 200 };
        let labels: Vec<String> = time_ticks(&axis).into_iter().map(|t| t.1).collect();
        assert_eq!(labels, ["0.0 s", "0.5 s", "1.0 s", "1.5 s", "2.0 s"]);
    }
}
