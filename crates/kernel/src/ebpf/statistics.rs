//! The kernel's own measure of what programs cost: run counts and times, kept only while asked for.

use std::os::fd::OwnedFd;

use super::call::{EnableStats, bpf_fd};
use crate::error::Refused;

/// While it lives, the kernel counts runs of every program and their time, which itself costs each run
/// some nanoseconds.
#[derive(Debug)]
pub struct RunStatistics {
    _fd: OwnedFd,
}

impl RunStatistics {
    /// Begins (BPF_ENABLE_STATS, kernel 5.8).
    pub fn enable() -> Result<RunStatistics, Refused> {
        bpf_fd(&mut EnableStats::default()).map(|fd| RunStatistics { _fd: fd }).map_err(|e| {
            Refused::new("enable", "run statistics of programs", e).advise(super::rights::rights_advice())
        })
    }
}
