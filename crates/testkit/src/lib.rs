//! Workloads whose truth is known, and the peers to compare with. Ships nothing.

/// How much of random work a test does: its usual measure, times `LOTSE_LONG` where that is set.
pub fn longer(usual: u64) -> u64 {
    let times = std::env::var("LOTSE_LONG").ok().and_then(|times| times.parse::<u64>().ok());
    usual * times.unwrap_or(1)
}

pub mod skip;

pub mod saved_facts;
pub mod load;
pub mod scenario;
pub mod synthetic;
