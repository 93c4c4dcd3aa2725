//! Frequency and idle settings: what makes the same work take a different time tomorrow.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{line, number};

/// One idle state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleState {
    /// The driver's name for it, such as `C6`.
    pub name: String,
    /// Microseconds to leave it, as the driver states.
    pub exit_latency_us: Option<u32>,
    /// Whether CPU 0 may enter it.
    pub enabled: bool,
}

/// Frequency and idle settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerFacts {
    /// The frequency driver; `None` where the guest or machine does not let Linux choose.
    pub frequency_driver: Option<String>,
    /// Governors in use, with how many CPUs use each.
    pub governors: BTreeMap<String, u32>,
    /// Lowest and highest frequency allowed on CPU 0, in kHz.
    pub frequency_range_khz: Option<(u64, u64)>,
    /// Whether the processor may go above its base frequency.
    pub turbo: Option<bool>,
    /// Energy preference of CPU 0, where the driver has one.
    pub energy_preference: Option<String>,
    /// The idle driver.
    pub idle_driver: Option<String>,
    /// The idle governor.
    pub idle_governor: Option<String>,
    /// Idle states of CPU 0.
    pub idle_states: Vec<IdleState>,
}

impl PowerFacts {
    /// Reads /sys/devices/system/cpu.
    pub fn gather() -> PowerFacts {
        let root = "/sys/devices/system/cpu";
        let cpu0 = |name: &str| format!("{root}/cpu0/cpufreq/{name}");
        let lowest = number(&cpu0("scaling_min_freq"));
        let highest = number(&cpu0("scaling_max_freq"));
        PowerFacts {
            frequency_driver: line(&cpu0("scaling_driver")),
            governors: governors(root),
            frequency_range_khz: lowest.zip(highest),
            turbo: turbo(root),
            energy_preference: line(&cpu0("energy_performance_preference")),
            idle_driver: line(&format!("{root}/cpuidle/current_driver")).filter(|name| name != "none"),
            idle_governor: line(&format!("{root}/cpuidle/current_governor"))
                .or_else(|| line(&format!("{root}/cpuidle/current_governor_ro"))),
            idle_states: idle_states(&format!("{root}/cpu0/cpuidle")),
        }
    }
}

fn governors(root: &str) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        if let Some(governor) = line(&format!("{}/cpufreq/scaling_governor", entry.path().display())) {
            *counts.entry(governor).or_insert(0) += 1;
        }
    }
    counts
}

/// intel_pstate says `no_turbo`, the other drivers `boost`.
fn turbo(root: &str) -> Option<bool> {
    match line(&format!("{root}/intel_pstate/no_turbo")) {
        Some(text) => Some(text == "0"),
        None => line(&format!("{root}/cpufreq/boost")).map(|text| text == "1"),
    }
}

fn idle_states(directory: &str) -> Vec<IdleState> {
    (0..16)
        .map(|index| format!("{directory}/state{index}"))
        .map_while(|state| {
            Some(IdleState {
                name: line(&format!("{state}/name"))?,
                exit_latency_us: number(&format!("{state}/latency")),
                enabled: line(&format!("{state}/disable")).is_none_or(|text| text == "0"),
            })
        })
        .collect()
}
