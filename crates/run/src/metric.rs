//! Numbers that thresholds can be set on: name, unit, and where they are found in a result.

use serde::{Deserialize, Serialize};

use crate::quantity::{format_duration, parse_duration};

/// A number of a run's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Median wait for the CPU.
    WaitP50,
    /// 90th percentile of the wait for the CPU.
    WaitP90,
    /// 99th percentile of the wait for the CPU.
    WaitP99,
    /// 99.9th percentile of the wait for the CPU.
    WaitP999,
    /// Longest wait for the CPU.
    WaitMax,
    /// 99th percentile of waits after a wakeup.
    WakeupWaitP99,
    /// 99th percentile of waits after preemption.
    PreemptionWaitP99,
    /// Waiting time as a share of waiting and running time.
    WaitShare,
    /// Events lost.
    LostEvents,
    /// Cross-checks that differ.
    DifferingChecks,
}

/// All metrics.
pub const ALL: &[Metric] = &[
    Metric::WaitP50,
    Metric::WaitP90,
    Metric::WaitP99,
    Metric::WaitP999,
    Metric::WaitMax,
    Metric::WakeupWaitP99,
    Metric::PreemptionWaitP99,
    Metric::WaitShare,
    Metric::LostEvents,
    Metric::DifferingChecks,
];

/// What a metric's numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// A share from 0 to 1, written as a percentage.
    Share,
    /// A number of things.
    Count,
}

impl Metric {
    /// Its name in recipes.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// What its numbers are.
    pub fn unit(self) -> Unit {
        self.row().1
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> (&'static str, Unit, &'static str) {
        use Unit::{Count, Nanoseconds, Share};
        match self {
            Metric::WaitP50 => ("wait.p50", Nanoseconds, "p50 of the wait for the CPU"),
            Metric::WaitP90 => ("wait.p90", Nanoseconds, "p90 of the wait for the CPU"),
            Metric::WaitP99 => ("wait.p99", Nanoseconds, "p99 of the wait for the CPU"),
            Metric::WaitP999 => ("wait.p999", Nanoseconds, "p99.9 of the wait for the CPU"),
            Metric::WaitMax => ("wait.max", Nanoseconds, "longest wait for the CPU"),
            Metric::WakeupWaitP99 => ("wait.wakeup.p99", Nanoseconds, "p99 of the wait after a wakeup"),
            Metric::PreemptionWaitP99 => {
                ("wait.preemption.p99", Nanoseconds, "p99 of the wait after preemption")
            }
            Metric::WaitShare => ("wait.share", Share, "share of waiting in waiting and running"),
            Metric::LostEvents => ("lost.events", Count, "events lost"),
            Metric::DifferingChecks => ("checks.differing", Count, "cross-checks that differ"),
        }
    }

    /// Reads a limit in the metric's unit: `10ms`, `5%`, `0`.
    pub fn parse(self, text: &str) -> Result<f64, String> {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
        match self.unit() {
            Unit::Nanoseconds => parse_duration(text).map(|duration| duration.as_nanos() as f64),
            Unit::Share => text
                .trim()
                .strip_suffix('%')
                .and_then(number)
                .map(|percent| percent / 100.0)
                .ok_or_else(|| format!("`{text}` is no share; write a percentage, such as \"5%\"")),
            Unit::Count => number(text).ok_or_else(|| format!("`{text}` is no number; write one, such as 0")),
        }
    }

    /// A number as a person writes it.
    pub fn show(self, number: f64) -> String {
        match self.unit() {
            Unit::Nanoseconds => format_duration(std::time::Duration::from_nanos(number as u64)),
            Unit::Share => format!("{:.1}%", number * 100.0),
            Unit::Count => format!("{number}"),
        }
    }

    /// A limit as an example for messages.
    pub fn example(self) -> &'static str {
        match self.unit() {
            Unit::Nanoseconds => "\"10ms\"",
            Unit::Share => "\"5%\"",
            Unit::Count => "0",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_has_a_name_of_its_own_and_reads_its_example() {
        let mut names: Vec<_> = ALL.iter().map(|metric| metric.name()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        for metric in ALL {
            let limit = metric.parse(metric.example().trim_matches('"')).unwrap();
            assert_eq!(metric.parse(&metric.show(limit)), Ok(limit));
        }
    }
}
