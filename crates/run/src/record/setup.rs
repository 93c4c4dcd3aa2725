//! Setting up an instance as a spec asks for it, with tracing still off.

use std::fs::File;

use kernel::cpu;
use kernel::tracefs::Tracefs;
use kernel::tracefs_instance::{FilterRefused, Instance, PidFilter};

use super::error::RecordError;
use super::events::{ChosenEvent, field_names};
use super::spec::{RecordSpec, WhenFull};

/// The CPUs to record: those asked for, all online ones otherwise.
pub(super) fn cpus(spec: &RecordSpec) -> Result<Vec<u32>, RecordError> {
    let online = cpu::online()?;
    let Some(asked) = &spec.cpus else { return Ok(online) };
    if let Some(&cpu) = asked.iter().find(|cpu| !online.contains(cpu)) {
        let online = online.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        return Err(RecordError::CpuOffline { cpu, online });
    }
    if asked.is_empty() {
        return Err(RecordError::Spec(
            "an empty list of CPUs was asked for; leave it out for all".to_owned(),
        ));
    }
    let mut cpus = asked.clone();
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// Makes an instance with the spec's clock, rings, CPUs and filters. Events stay disabled.
pub(super) fn instance(
    tracefs: &Tracefs,
    spec: &RecordSpec,
    cpus: &[u32],
    chosen: &[ChosenEvent],
) -> Result<Instance, RecordError> {
    let instance = Instance::create(tracefs)?;
    set_clock(&instance, &spec.clock)?;
    instance.set_option("overwrite", spec.rings.when_full == WhenFull::Overwrite)?;
    // For the names of threads and the processes they belong to.
    instance.set_option("record-cmd", true)?;
    instance.set_option("record-tgid", true)?;
    // A killed recorder is to cost nothing more: closing `free_buffer` stops the tracer.
    instance.set_option("disable_on_free", true)?;
    instance.set_cpus(cpus)?;
    instance.set_buffer_kb(spec.rings.kb_per_cpu)?;
    instance.write("buffer_percent", &spec.rings.wake_percent.clamp(1, 100).to_string())?;
    set_filters(tracefs, &instance, chosen)?;
    Ok(instance)
}

/// Sets the events' filters.
pub(super) fn set_filters(
    tracefs: &Tracefs,
    instance: &Instance,
    chosen: &[ChosenEvent],
) -> Result<(), RecordError> {
    for ChosenEvent { event, filter } in chosen {
        let Some(filter) = filter else { continue };
        instance.set_filter(event, filter).map_err(|refused| match refused {
            FilterRefused::Other(refused) => RecordError::Kernel(refused),
            FilterRefused::BadFilter { kernel_says } => RecordError::BadFilter {
                event: event.to_string(),
                filter: filter.clone(),
                kernel_says,
                fields: tracefs.format(event).map(|format| field_names(&format)).unwrap_or_default(),
                others: chosen.iter().filter(|other| other.filter.as_ref() == Some(filter)).count() - 1,
            },
        })?;
    }
    Ok(())
}

/// Sets the clock; an unknown one is told with those there are.
pub(super) fn set_clock(instance: &Instance, clock: &str) -> Result<(), RecordError> {
    instance.write("trace_clock", clock).map_err(|refused| {
        let there = instance.directory().read_text("trace_clock").unwrap_or_default();
        RecordError::Kernel(refused.advise(format!("the clocks of this kernel are: {}", there.trim())))
    })
}

/// Has the kernel filter by thread: nothing passes but what is added later.
pub(super) fn begin_thread_filter(instance: &Instance, nobody: u32) -> Result<(), RecordError> {
    instance.set_option("event-fork", true)?;
    // An empty list would mean everybody. `nobody` is a thread of the recorder that is refused
    // by the other list, and never forks.
    instance.add_threads(PidFilter::Only, &[nobody])?;
    instance.add_threads(PidFilter::Not, &[nobody])?;
    Ok(())
}

/// Enables the events, one by one.
pub(super) fn enable(instance: &Instance, chosen: &[ChosenEvent]) -> Result<(), RecordError> {
    for ChosenEvent { event, .. } in chosen {
        instance.enable(event, true)?;
    }
    Ok(())
}

/// An instance that counts the events that happen, filters apart.
pub(super) fn counter(tracefs: &Tracefs, spec: &RecordSpec, cpus: &[u32]) -> Result<Instance, RecordError> {
    let counter = Instance::create(tracefs)?;
    set_clock(&counter, &spec.clock)?;
    counter.set_option("overwrite", true)?;
    counter.set_cpus(cpus)?;
    counter.set_buffer_kb(16)?;
    Ok(counter)
}

/// While this is open the ring keeps its memory; when it closes, with the recorder's life if
/// need be, the tracer stops and the ring's memory is freed.
pub(super) fn open_free_buffer(instance: &Instance) -> Result<File, RecordError> {
    Ok(instance.directory().open_for_writing("free_buffer")?)
}
