//! Recording raw events: a spec in, a standard `trace.dat` and its exact account out.
//! Events go from the kernel's rings to files without being decoded; what is in them is
//! counted only when recording is over.

mod error;
mod ledger;
mod spec;
mod events;
mod pages;
mod members;
mod dat_parts;
mod dat_pages;
mod dat6;
mod dat7;
mod parts;
mod drain;
mod setup;
mod describe;
mod names;
mod command;
mod trigger;
mod check;
mod estimate;
mod hidden;
mod recording;
mod assemble;
mod cut;

use kernel::stop::SignalsStop;
use kernel::tracefs_instance::Instance;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

pub use check::check;
pub use cut::{CutRecording, finish_cut_recording, look_at_cut_recording};
pub use dat_parts::own_option;
pub use error::RecordError;
pub use estimate::{BRIDGED, CpuRate, Needs, Rates, estimate_rates};
pub use hidden::{HiddenSwitches, try_switches};
pub use kernel::stop::{StopReason, StopToken};
pub use ledger::{CpuLedger, Filtered, Ledger, LossInterval, Lost};
pub use members::check_selection;
pub use spec::{
    EventSelection, FileFormat, Flight, LEVEL_BY_AMOUNT, OwnEvents, RecordSpec, Rings, Selection, WhenFull,
    parts_folder,
};

/// How far a recording is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub phase: Phase,
    /// Since writing to the rings began.
    pub elapsed: Duration,
    /// Bytes of raw pages fetched so far.
    pub bytes: u64,
    /// Events read from the rings so far, as the kernel counts them.
    pub events: u64,
    /// Events lost so far.
    pub lost: u64,
    /// The command's process, once it exists.
    pub command_pid: Option<u32>,
}

/// The phases of a recording, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Rings are being set up.
    Preparing,
    /// Events are being recorded. First told when they flow and the command has not been
    /// released yet: counters read then and at [`Phase::Ending`] bound a span that is
    /// recorded whole.
    Recording,
    /// Events still flow, for the last time: the command, if there was one, has ended.
    Ending,
    /// Recording is over; the trace file is being written.
    Writing,
}

/// A finished recording.
#[derive(Debug)]
pub struct RecordOutcome {
    /// The trace file.
    pub file: PathBuf,
    /// Its size in bytes.
    pub file_bytes: u64,
    /// The account.
    pub ledger: Ledger,
    /// Why it ended.
    pub ended_by: EndedBy,
    /// How the command ended, if there was one.
    pub command_status: Option<ExitStatus>,
    /// The command's process.
    pub command_pid: Option<u32>,
    /// The events recorded, "system:name", in the order asked for.
    pub events: Vec<String>,
    /// Instances of dead runs that were found and removed.
    pub swept: Vec<String>,
    /// What the user should know besides, as sentences.
    pub notes: Vec<String>,
}

/// Why a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedBy {
    /// Its time was over.
    Duration,
    /// Its command, or the last selected process, ended.
    Command,
    /// A flight recording was triggered and its time after that was over.
    Trigger,
    /// It was asked to stop, or a signal came.
    Stop(StopReason),
    /// The disk was full: what had been recorded until then was kept.
    DiskFull,
}

/// Records as `spec` asks and writes its file. `tell` hears of the progress about four times a
/// second, on the calling thread. Events of that thread and of the recorder's others are
/// accounted for apart (see [`OwnEvents`]).
pub fn record(spec: &RecordSpec, tell: &mut dyn FnMut(Progress)) -> Result<RecordOutcome, RecordError> {
    let stop = match &spec.stop {
        Some(stop) => stop.clone(),
        None => StopToken::new()?,
    };
    let signals = spec.handle_signals.then(|| SignalsStop::route_to(&stop));
    let mut progress = Progress {
        phase: Phase::Preparing,
        elapsed: Duration::ZERO,
        bytes: 0,
        events: 0,
        lost: 0,
        command_pid: None,
    };
    tell(progress);
    let mut recording = recording::Recording::arm(spec)?;
    let ended_by = recording.run(spec, &stop, signals.as_ref(), &mut |now| {
        progress = now;
        tell(now);
    })?;
    tell(Progress { phase: Phase::Ending, ..progress });
    let (mut recorded, command_status) = recording.finish(spec)?;
    tell(Progress { phase: Phase::Writing, ..progress });
    let ended_by = if recorded.disk_full { EndedBy::DiskFull } else { ended_by };
    let (swept, mut notes) = (std::mem::take(&mut recorded.swept), std::mem::take(&mut recorded.notes));
    let events = recorded.manifest.events.clone();
    let instances = std::mem::take(&mut recorded.instances);
    // Removing them waits for the kernel, writing the file for the processor and the disk.
    let (assembled, removed) = std::thread::scope(|scope| {
        let remover = scope.spawn(|| instances.into_iter().try_for_each(Instance::remove));
        let assembled = assemble::assemble(recorded, &spec.output, spec.kernel_symbols, false);
        (assembled, remover.join())
    });
    let (ledger, file_bytes) = assembled?;
    match removed {
        Ok(Ok(())) => {}
        // The recording is whole all the same; the next one tries again.
        Ok(Err(refused)) => notes.push(refused.to_string()),
        Err(panic) => std::panic::resume_unwind(panic),
    }
    let file = spec.output.clone();
    let command_pid = progress.command_pid;
    Ok(RecordOutcome {
        file,
        file_bytes,
        ledger,
        ended_by,
        command_status,
        command_pid,
        events,
        swept,
        notes,
    })
}

/// Whether a selection means any of these events.
pub(crate) fn is_there(available: &[kernel::tracefs::EventName], selection: &EventSelection) -> bool {
    events::choose(available, std::slice::from_ref(selection)).is_ok()
}
