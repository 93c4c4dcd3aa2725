//! What a flight recording waits for: the first event of some kind, seen in a tiny instance of
//! its own that wakes its reader at once.

use std::os::fd::{AsFd, BorrowedFd};

use kernel::tracefs::Tracefs;
use kernel::tracefs_instance::Instance;
use kernel::tracefs_ring::CpuRing;

use super::error::RecordError;
use super::events::{self, ChosenEvent};
use super::setup;
use super::spec::{EventSelection, RecordSpec};

/// An instance that holds the triggering events.
#[derive(Debug)]
pub(super) struct Trigger {
    // Before the instance: it cannot be removed while its rings are open.
    rings: Vec<CpuRing>,
    pub instance: Instance,
    chosen: Vec<ChosenEvent>,
}

impl Trigger {
    /// Sets the instance up; nothing is enabled yet.
    pub fn arm(
        tracefs: &Tracefs,
        spec: &RecordSpec,
        cpus: &[u32],
        selections: &[EventSelection],
    ) -> Result<Self, RecordError> {
        let chosen = events::choose(&tracefs.events()?, selections)?;
        let instance = Instance::create(tracefs)?;
        setup::set_clock(&instance, &spec.clock)?;
        instance.set_cpus(cpus)?;
        instance.set_buffer_kb(16)?;
        // Readable at the first event.
        instance.write("buffer_percent", "0")?;
        setup::set_filters(tracefs, &instance, &chosen)?;
        let rings = cpus.iter().map(|&cpu| CpuRing::open(&instance, cpu)).collect::<Result<_, _>>()?;
        Ok(Trigger { rings, instance, chosen })
    }

    /// Lets the triggering events come.
    pub fn enable(&self) -> Result<(), RecordError> {
        setup::enable(&self.instance, &self.chosen)?;
        Ok(self.instance.set_tracing(true)?)
    }

    /// What becomes readable when it triggers.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings.iter().map(AsFd::as_fd)
    }
}
