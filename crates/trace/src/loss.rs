//! What is known to be missing from a trace.

use serde::{Deserialize, Serialize};

use crate::{clock::Nanos, ident::Cpu};

/// Events of one CPU that happened and were not recorded.
///
/// Within `from..=to` the CPU's state is unknown; analyses cut the intervals that
/// touch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// The CPU, or `None` where the producer does not say (then all are in doubt).
    pub cpu: Option<Cpu>,
    /// Time of the last event known before the loss (the trace's start if none).
    pub from: Nanos,
    /// Time of the first event known after it (the trace's end if none).
    pub to: Nanos,
    /// How many events, `None` where the producer only says "some".
    pub count: Option<u64>,
}
