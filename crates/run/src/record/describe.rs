//! What a recording says about itself and its machine, collected before the first event.

use kernel::clock;
use kernel::cpu;
use kernel::procfs::{ProcessIdentity, pid_namespace};
use kernel::tracefs::Tracefs;
use kernel::tracefs_instance::Instance;

use super::dat_parts::Metadata;
use super::error::RecordError;
use super::events::{self, ChosenEvent};
use super::pages::PageLayout;
use super::parts::{Manifest, PARTS_VERSION};
use super::spec::{FileFormat, LEVEL_BY_AMOUNT, RecordSpec};

/// Formats, clock and machine, and the layout of the pages.
pub(super) fn metadata(
    tracefs: &Tracefs,
    instance: &Instance,
    spec: &RecordSpec,
    chosen: &[ChosenEvent],
) -> Result<(Metadata, PageLayout), RecordError> {
    let root = tracefs.root();
    let header_page = instance
        .directory()
        .read_text("events/header_page")
        .or_else(|_| root.read_text("events/header_page"))?;
    let layout = PageLayout::parse(&header_page).ok_or_else(|| {
        RecordError::Spec(format!(
            "this kernel describes its pages in a way that is not understood:\n{header_page}"
        ))
    })?;
    let own = ProcessIdentity::own().map_or(0, |own| own.start_ticks << 32 | u64::from(own.pid));
    let metadata = Metadata {
        header_page,
        header_event: root.read_text("events/header_event")?,
        ftrace_formats: events::ftrace_formats(tracefs)?,
        event_formats: events::formats(tracefs, chosen)?,
        printk_formats: root.read_text("printk_formats").unwrap_or_default(),
        trace_clock: instance.directory().read_text("trace_clock")?,
        clock: spec.clock.clone(),
        uname: uname(),
        cpu_count: cpu::possible()?.last().map_or(1, |last| last + 1),
        trace_id: clock::realtime_ns() ^ own,
    };
    Ok((metadata, layout))
}

/// All that is needed to make the file, also by somebody else. Times and own threads are still
/// to be filled in.
pub(super) fn manifest(
    spec: &RecordSpec,
    instance: &Instance,
    cpus: &[u32],
    chosen: &[ChosenEvent],
    metadata: Metadata,
    layout: PageLayout,
    thread_filter: bool,
) -> Result<Manifest, RecordError> {
    let own = ProcessIdentity::own().map_or((0, 0), |own| (own.pid, own.start_ticks));
    let (dat_version, zstd_level) = match spec.format {
        FileFormat::V7Zstd(LEVEL_BY_AMOUNT) => (7, Some(LEVEL_BY_AMOUNT)),
        FileFormat::V7Zstd(level) => (7, Some(level.clamp(1, 19))),
        FileFormat::V7 => (7, None),
        FileFormat::V6 => (6, None),
    };
    Ok(Manifest {
        version: PARTS_VERSION,
        owner: (own.0, own.1, pid_namespace()),
        instance: instance.name().to_owned(),
        cpus: cpus.to_vec(),
        page_size: layout.size as u32,
        started_ns: 0,
        realtime_offset_ns: 0,
        own_threads: Vec::new(),
        filters: thread_filter || chosen.iter().any(|chosen| chosen.filter.is_some()),
        window: spec.flight.is_some(),
        dat_version,
        zstd_level,
        events: chosen.iter().map(|chosen| chosen.event.to_string()).collect(),
        metadata,
    })
}

/// What to tell the user about the symbols that were asked for.
pub(super) fn hidden_symbols() -> Option<String> {
    let restricted =
        std::fs::read_to_string("/proc/sys/kernel/kptr_restrict").is_ok_and(|text| text.trim() == "2");
    restricted.then(|| {
        "kernel symbols are hidden (kernel.kptr_restrict=2): addresses in the file have no names".to_owned()
    })
}

fn uname() -> String {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    format!("{} {} {}", read("ostype").trim(), read("osrelease").trim(), std::env::consts::ARCH)
}
