//! One run of a recipe: from the request to a folder with the trace, its account and the
//! kernel's counters. What it all means is found afterwards (`answer`).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kernel::facts_host::HostFacts;

use crate::counters::{CounterSpan, Sampler};
use crate::folder;
use crate::preflight::{self, Demands, Preflight, PreflightError};
use crate::recipe::{Recipe, WhenFull};
use crate::record::{
    self, EventSelection, Phase, Progress, RecordError, RecordOutcome, RecordSpec, Selection, StopToken,
};
use crate::run_record::{Request, SelectionRequest};

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The recipe.
    pub recipe: Recipe,
    /// What the user asked for besides.
    pub request: Request,
    /// The run folder; it exists and is empty.
    pub folder: PathBuf,
    /// Ends the run from outside.
    pub stop: Option<StopToken>,
    /// Whether SIGINT and the like end the run and let it report.
    pub handle_signals: bool,
}

/// What the caller hears of while a run goes on.
#[derive(Debug)]
pub enum Told<'a> {
    /// Preflight is over.
    Preflight(&'a Preflight),
    /// Recording goes on.
    Progress(Progress),
}

/// A finished run, before its analysis.
#[derive(Debug)]
pub struct Session {
    /// The host when it began.
    pub host: HostFacts,
    /// What was found and decided before.
    pub preflight: Preflight,
    /// The recording.
    pub outcome: RecordOutcome,
    /// The kernel's counters, where they could be read.
    pub counters: Option<CounterSpan>,
    /// When recording began.
    pub started: SystemTime,
    /// When it ended.
    pub ended: SystemTime,
}

/// Why a run could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It was not begun.
    #[error(transparent)]
    Preflight(#[from] PreflightError),
    /// The recording failed.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The host's counters could not be stored.
    #[error("cannot write {}: {source}; free some space or name another folder with --output", path.display())]
    Store {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Runs a recipe: preflight, recording, counters. `tell` hears of it on the calling thread.
pub fn run(plan: &Plan, tell: &mut dyn FnMut(Told<'_>)) -> Result<Session, RunError> {
    // Also what is recorded whole and selected by the analysis.
    record::check_selection(&selection(&plan.request))?;
    let host = HostFacts::gather();
    let (mut spec, optional) = spec(plan);
    let left_out = preflight::leave_out_missing(&mut spec, &optional)?;
    let demands = Demands {
        ring_bytes_per_cpu: plan.request.ring_bytes_per_cpu.or(plan.recipe.ring.bytes_per_cpu),
        max_disk_bytes: plan.recipe.max_disk_bytes,
    };
    let mut preflight = preflight::preflight(&mut spec, demands, &plan.folder)?;
    preflight.left_out = left_out;
    tell(Told::Preflight(&preflight));

    let mut sampler = Sampler::new();
    let mut counters = None;
    let warm_up = plan.recipe.warm_up;
    let mut started = SystemTime::now();
    let outcome = record::record(&spec, &mut |progress| {
        match progress.phase {
            Phase::Preparing | Phase::Writing => {}
            Phase::Recording if !sampler.has_begun() && progress.elapsed >= warm_up => {
                started = SystemTime::now() - progress.elapsed;
                sampler.begin();
            }
            Phase::Recording => sampler.visit(),
            Phase::Ending => counters = sampler.end(),
        }
        tell(Told::Progress(progress));
    })?;
    let length = outcome.ledger.ended_ns.saturating_sub(outcome.ledger.started_ns);
    let ended = started + Duration::from_nanos(length);
    if let Some(counters) = &counters {
        let path = plan.folder.join(crate::counters::FILE_NAME);
        counters.write(&plan.folder).map_err(|source| RunError::Store { path, source })?;
    }
    Ok(Session { host, preflight, outcome, counters, started, ended })
}

/// The recording that a plan asks for, and the events it can do without.
fn spec(plan: &Plan) -> (RecordSpec, Vec<EventSelection>) {
    let (recipe, request) = (&plan.recipe, &plan.request);
    let mut spec = RecordSpec::new(&[], plan.folder.join(folder::TRACE));
    let mut optional = Vec::new();
    for event in &recipe.events {
        let mut selection = EventSelection::new(&event.pattern);
        selection.filter = event.filter.clone();
        if event.required { &mut spec.events } else { &mut optional }.push(selection);
    }
    spec.selection = if request.narrow { selection(request) } else { Selection::Everything };
    spec.cpus = request.cpus.clone();
    spec.command = request.command.as_ref().map(|words| words.iter().map(OsString::from).collect());
    spec.duration = duration(recipe, request);
    spec.clock = recipe.clock.name().to_owned();
    spec.rings.when_full = match recipe.ring.when_full {
        WhenFull::Overwrite => record::WhenFull::Overwrite,
        WhenFull::Refuse => record::WhenFull::Refuse,
    };
    spec.stop = plan.stop.clone();
    spec.handle_signals = plan.handle_signals;
    (spec, optional)
}

/// Whom the request is about.
fn selection(request: &Request) -> Selection {
    match &request.selection {
        SelectionRequest::System => Selection::Everything,
        SelectionRequest::Command => Selection::Command,
        SelectionRequest::Processes(pids) => Selection::Processes(pids.clone()),
        SelectionRequest::Threads(tids) => Selection::Threads(tids.clone()),
        SelectionRequest::Cgroup(path) => Selection::Cgroup(path.clone()),
    }
}

/// How long a run takes at most: what was asked for; a command's own length; the recipe's.
pub fn duration(recipe: &Recipe, request: &Request) -> Option<Duration> {
    match (request.duration_s, &request.command) {
        (Some(seconds), _) => Duration::try_from_secs_f64(seconds).ok(),
        (None, Some(_)) => None,
        (None, None) => recipe.duration,
    }
}

/// The files of a run folder with their sizes, by name.
pub fn files(folder: &Path) -> std::io::Result<Vec<crate::run_record::FileEntry>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == crate::run_record::FILE_NAME || name.starts_with('.') {
            continue;
        }
        let what = match name.as_str() {
            folder::TRACE => "events, in trace-cmd's format",
            folder::REPORT_HTML => "the report, for people",
            folder::REPORT_JSON => "the report, for programs",
            crate::counters::FILE_NAME => "the kernel's counters around the recording",
            _ => "",
        };
        files.push(crate::run_record::FileEntry {
            name,
            bytes: entry.metadata()?.len(),
            what: what.to_owned(),
        });
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}
