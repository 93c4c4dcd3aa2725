//! One recording from arming the tracer to the end of the events. Whatever way it is left,
//! the instance, the command and the folder go with it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kernel::clock;
use kernel::cpu;
use kernel::process::{RunningCommand, StoppedCommand};
use kernel::procfs::{self, ThreadName};
use kernel::stop::{SignalsStop, StopToken, own_tid, wait_readable};
use kernel::tracefs::Tracefs;
use kernel::tracefs_instance::{Instance, PidFilter, sweep};
use kernel::tracefs_ring::{CpuRing, RingStats};

use super::drain::{self, DrainCounters, DrainError, DrainedRing, Drainer, Pace, Until};
use super::error::RecordError;
use super::events;
use super::ledger::{Filtered, LossInterval};
use super::members::{Members, check_selection};
use super::pages::PageLayout;
use super::parts::{Manifest, Parts};
use super::setup;
use super::spec::{OwnEvents, RecordSpec};
use super::trigger::Trigger;
use super::{EndedBy, Phase, Progress, check, command, describe, names};

/// How often progress is told and the counters are looked at.
const TICK: Duration = Duration::from_millis(250);
/// How often a cgroup's members are looked at.
const FOLLOW: Duration = Duration::from_millis(50);

/// A recording under way.
#[derive(Debug)]
pub(super) struct Recording {
    // Declared in the order in which they have to be dropped.
    stopped_command: Option<StoppedCommand>,
    command: Option<RunningCommand>,
    command_pid: Option<u32>,
    drainers: Vec<Drainer>,
    free_buffer: Option<File>,
    counter: Option<Instance>,
    trigger: Option<Trigger>,
    instance: Option<Instance>,
    tracefs: Tracefs,
    parts: Option<Parts>,
    manifest: Manifest,
    layout: PageLayout,
    members: Members,
    threads_at_start: Vec<ThreadName>,
    counters: Arc<DrainCounters>,
    drain_failed: StopToken,
    stats: BTreeMap<u32, RingStats>,
    stats_at_ns: u64,
    // Losses that pages do not tell: a ring that refuses, or interrupts that filled it.
    unmarked_losses: BTreeMap<u32, Vec<LossInterval>>,
    triggered_ns: Option<u64>,
    swept: Vec<String>,
    notes: Vec<String>,
    started: Instant,
}

/// Everything a finished recording hands on to the writer of its file.
#[derive(Debug)]
pub(super) struct Recorded {
    pub parts: Parts,
    /// To be removed; nothing is recorded in them any more.
    pub instances: Vec<Instance>,
    pub manifest: Manifest,
    pub layout: PageLayout,
    pub ended_ns: u64,
    pub stats: BTreeMap<u32, RingStats>,
    pub stats_texts: Vec<String>,
    pub unwritten: BTreeMap<u32, u64>,
    pub unmarked_losses: BTreeMap<u32, Vec<LossInterval>>,
    pub filtered: Filtered,
    pub triggered_ns: Option<u64>,
    pub threads: Vec<ThreadName>,
    pub remembered: Vec<ThreadName>,
    pub disk_full: bool,
    pub swept: Vec<String>,
    pub notes: Vec<String>,
}

impl Recording {
    /// Arms the tracer. The command, if there is one, exists and waits.
    pub fn arm(spec: &RecordSpec) -> Result<Self, RecordError> {
        check_selection(&spec.selection)?;
        let program = check::program(spec)?;
        check::output(&spec.output, spec.overwrite)?;
        let tracefs = Tracefs::open()?;
        let swept = sweep(&tracefs)?;
        let cpus = setup::cpus(spec)?;
        let chosen = events::choose(&tracefs.events()?, &spec.events)?;
        let instance = setup::instance(&tracefs, spec, &cpus, &chosen)?;
        let free_buffer = setup::open_free_buffer(&instance)?;
        let counter = if spec.count_filtered { Some(setup::counter(&tracefs, spec, &cpus)?) } else { None };
        let trigger = match &spec.flight {
            Some(flight) if !flight.events.is_empty() => {
                Some(Trigger::arm(&tracefs, spec, &cpus, &flight.events)?)
            }
            _ => None,
        };
        let parts = Parts::create(&spec.parts_folder())?;

        // Before any thread or filter: a child inherits what its parent's thread is filtered by.
        let stopped_command = match (program, &spec.command) {
            (Some(program), Some(words)) => Some(StoppedCommand::launch(&program, words)?),
            _ => None,
        };
        let members = Members::new(&spec.selection, stopped_command.as_ref().map(StoppedCommand::pid))?;
        let (metadata, layout) = describe::metadata(&tracefs, &instance, spec, &chosen)?;
        let manifest =
            describe::manifest(spec, &instance, &cpus, &chosen, metadata, layout, members.filters())?;

        let mut rings = Vec::new();
        for &cpu in &cpus {
            rings.push(DrainedRing::new(CpuRing::open(&instance, cpu)?, parts.create_pages(cpu)?));
        }
        let counters = Arc::new(DrainCounters::default());
        let drain_failed = StopToken::new()?;
        let pace = match &spec.flight {
            None => Pace {
                flush_interval: spec.rings.flush_interval,
                wake_when_filled: spec.rings.wake_percent > 0,
            },
            // The window stays in the rings until it is complete.
            Some(_) => Pace { flush_interval: Duration::MAX, wake_when_filled: false },
        };
        let drainers = drain::start(rings, layout, pace, &counters, &drain_failed)?;
        let mut recording = Recording {
            stopped_command,
            command: None,
            command_pid: None,
            drainers,
            free_buffer: Some(free_buffer),
            counter,
            trigger,
            instance: Some(instance),
            tracefs,
            parts: Some(parts),
            manifest,
            layout,
            members,
            threads_at_start: Vec::new(),
            counters,
            drain_failed,
            stats: cpus.iter().map(|&cpu| (cpu, RingStats::default())).collect(),
            stats_at_ns: 0,
            unmarked_losses: BTreeMap::new(),
            triggered_ns: None,
            swept,
            notes: Vec::new(),
            started: Instant::now(),
        };
        recording.filter_threads(spec)?;
        setup::enable(recording.instance(), &chosen)?;
        if let Some(counter) = &recording.counter {
            setup::enable(counter, &chosen)?;
        }
        recording.threads_at_start = procfs::all_threads();
        recording.parts().write_threads(&recording.threads_at_start)?;
        recording.manifest.started_ns = clock::monotonic_ns();
        recording.manifest.realtime_offset_ns = clock::realtime_minus_monotonic_ns();
        recording.parts().write_manifest(&recording.manifest)?;
        Ok(recording)
    }

    fn filter_threads(&mut self, spec: &RecordSpec) -> Result<(), RecordError> {
        let mut own: Vec<u32> = self.drainers.iter().map(|drainer| drainer.tid).collect();
        let nobody = own.first().copied().unwrap_or_else(own_tid);
        own.push(own_tid());
        self.manifest.own_threads = own.clone();
        if self.members.filters() {
            let instance = self.instance.as_ref().expect("present until removed");
            setup::begin_thread_filter(instance, nobody)?;
            if let Some(trigger) = &self.trigger {
                setup::begin_thread_filter(&trigger.instance, nobody)?;
            }
            while follow(&mut self.members, instance, self.trigger.as_ref())? > 0 {}
        }
        if spec.own_events == OwnEvents::Refuse {
            self.instance().add_threads(PidFilter::Not, &own)?;
        }
        Ok(())
    }

    /// Lets events flow and the command run, until something ends the recording.
    pub fn run(
        &mut self,
        spec: &RecordSpec,
        stop: &StopToken,
        signals: Option<&SignalsStop>,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<EndedBy, RecordError> {
        if let Some(counter) = &self.counter {
            counter.set_tracing(true)?;
        }
        self.started = Instant::now();
        self.manifest.started_ns = clock::monotonic_ns();
        self.stats_at_ns = self.manifest.started_ns;
        self.instance().set_tracing(true)?;
        if let Some(trigger) = &self.trigger {
            trigger.enable()?;
        }
        self.parts().write_manifest(&self.manifest)?;
        self.command_pid = self.stopped_command.as_ref().map(StoppedCommand::pid);
        tell(self.look(Phase::Recording)?);
        if let Some(stopped) = self.stopped_command.take() {
            let name = spec.command.as_ref().and_then(|words| words.first()).cloned().unwrap_or_default();
            let released = stopped.release();
            self.command = Some(released.map_err(|source| RecordError::CommandNotRunnable {
                command: name.to_string_lossy().into_owned(),
                source,
            })?);
        }
        let mut next_tick = Instant::now() + TICK;
        loop {
            let elapsed = self.started.elapsed();
            let after = self.triggered_ns.zip(spec.flight.as_ref()).map(|(at, flight)| {
                let since = Duration::from_nanos(clock::monotonic_ns() - at);
                flight.after.saturating_sub(since)
            });
            if after == Some(Duration::ZERO) {
                return Ok(EndedBy::Trigger);
            }
            let left = spec.duration.map(|duration| duration.saturating_sub(elapsed));
            let left = left.into_iter().chain(after).min();
            let until_tick = next_tick.saturating_duration_since(Instant::now());
            let mut wait = left.map_or(until_tick, |left| left.min(until_tick));
            if self.members.needs_following() {
                wait = wait.min(FOLLOW);
            }
            let mut descriptors = vec![stop.as_fd(), self.drain_failed.as_fd()];
            descriptors.extend(self.command.as_ref().map(AsFd::as_fd));
            let triggers = descriptors.len();
            if let (None, Some(flight)) = (self.triggered_ns, &spec.flight) {
                descriptors.extend(flight.trigger.as_ref().map(AsFd::as_fd));
                descriptors.extend(self.trigger.iter().flat_map(Trigger::descriptors));
            }
            let ready = wait_readable(&descriptors, Some(wait))?;
            if ready[triggers..].contains(&true) {
                self.triggered_ns = Some(clock::monotonic_ns());
            }

            if let Some(signals) = signals {
                signals.notice();
            }
            if let Some(reason) = stop.requested() {
                stop.take_requests();
                if let Some(command) = &mut self.command {
                    command::end_on_request(command, reason, stop)?;
                }
                return Ok(EndedBy::Stop(reason));
            }
            if self.drain_failed.requested().is_some() {
                return Ok(EndedBy::DiskFull);
            }
            if let Some(command) = &mut self.command
                && command.ended()?.is_some()
            {
                return Ok(EndedBy::Command);
            }
            if spec.duration.is_some_and(|duration| self.started.elapsed() >= duration) {
                return Ok(EndedBy::Duration);
            }
            if self.members.needs_following() {
                let instance = self.instance.as_ref().expect("present until removed");
                follow(&mut self.members, instance, self.trigger.as_ref())?;
            }
            if Instant::now() >= next_tick {
                next_tick = Instant::now() + TICK;
                tell(self.look(Phase::Recording)?);
                if self.command.is_none() && self.members.ended() {
                    return Ok(EndedBy::Command);
                }
            }
        }
    }

    /// Reads the counters; notes losses that no page will tell of.
    fn look(&mut self, phase: Phase) -> Result<Progress, RecordError> {
        let now = clock::monotonic_ns();
        let cpus: Vec<u32> = self.stats.keys().copied().collect();
        for cpu in cpus {
            let (stats, _) = self.instance().stats(cpu)?;
            self.note_unmarked_losses(cpu, stats, now);
        }
        self.stats_at_ns = now;
        Ok(Progress {
            phase,
            elapsed: self.started.elapsed(),
            bytes: self.counters.bytes.load(Ordering::Relaxed),
            events: self.stats.values().map(|stats| stats.read + stats.entries).sum(),
            lost: self.stats.values().map(|stats| self.lost(stats)).sum(),
            command_pid: self.command_pid,
        })
    }

    /// A flight recording overwrites on purpose.
    fn lost(&self, stats: &RingStats) -> u64 {
        if self.manifest.window { stats.lost() - stats.overrun } else { stats.lost() }
    }

    fn note_unmarked_losses(&mut self, cpu: u32, stats: RingStats, now: u64) {
        let earlier = self.stats.insert(cpu, stats).unwrap_or_default();
        let unmarked = |stats: RingStats| stats.dropped + stats.commit_overrun;
        let count = unmarked(stats).saturating_sub(unmarked(earlier));
        if count > 0 {
            let loss =
                LossInterval { from_ns: self.stats_at_ns, to_ns: now, count: Some(count), in_pages: false };
            self.unmarked_losses.entry(cpu).or_default().push(loss);
        }
    }

    /// Ends the recording: stops the tracer, fetches the rest. The instances are left to be
    /// removed.
    pub fn finish(mut self, spec: &RecordSpec) -> Result<(Recorded, Option<ExitStatus>), RecordError> {
        let stopped = self.instance().set_tracing(false);
        let ended_ns = clock::monotonic_ns();
        if let Some(counter) = &self.counter {
            counter.set_tracing(false)?;
        }
        let (mut rings, drain_error) = self.finish_drainers();
        stopped?;
        let disk_full = match drain_error {
            None => false,
            Some(DrainError::Ring(refused)) => return Err(refused.into()),
            Some(DrainError::File { source, .. }) if source.kind() == io::ErrorKind::StorageFull => true,
            Some(DrainError::File { cpu, source }) => {
                return Err(RecordError::output("write", &self.parts().pages_path(cpu), source));
            }
        };
        let mut stats_texts = Vec::new();
        for ring in &mut rings {
            stats_texts.push(self.settle(ring, ended_ns, disk_full)?);
        }
        let unwritten = rings.iter().map(|ring| (ring.ring.cpu(), ring.unwritten)).collect();
        drop(rings);
        let filtered = self.filtered()?;
        let threads = names::living(&self.threads_at_start);
        let remembered = names::remembered(&self.tracefs);
        self.note_new_cpus(spec.cpus.is_some());
        if spec.kernel_symbols {
            self.notes.extend(describe::hidden_symbols());
        }
        self.free_buffer = None;
        let trigger = self.trigger.take().map(|trigger| trigger.instance);
        let instances = [self.counter.take(), trigger, self.instance.take()].into_iter().flatten().collect();
        let status = self.finish_command()?;
        let recorded = Recorded {
            parts: self.parts.take().expect("present until finished"),
            instances,
            manifest: self.manifest.clone(),
            layout: self.layout,
            ended_ns,
            stats: std::mem::take(&mut self.stats),
            stats_texts,
            unwritten,
            unmarked_losses: std::mem::take(&mut self.unmarked_losses),
            filtered,
            triggered_ns: self.triggered_ns,
            threads,
            remembered,
            disk_full,
            swept: std::mem::take(&mut self.swept),
            notes: std::mem::take(&mut self.notes),
        };
        Ok((recorded, status))
    }

    /// Fetches what a writer that was under way when the tracer stopped has added since;
    /// answers the text of the final counters.
    fn settle(
        &mut self,
        ring: &mut DrainedRing,
        ended_ns: u64,
        disk_full: bool,
    ) -> Result<String, RecordError> {
        let cpu = ring.ring.cpu();
        let mut page = vec![0u8; self.layout.size];
        let mut tries = 0;
        loop {
            let (stats, text) = self.instance().stats(cpu)?;
            if stats.entries == 0 || tries == 10 {
                self.note_unmarked_losses(cpu, stats, ended_ns);
                return Ok(format!("CPU: {cpu}\n{text}"));
            }
            tries += 1;
            if disk_full {
                ring.discard_rest(&mut page, self.layout);
            } else if let Err(DrainError::File { source, .. }) =
                ring.fetch(&mut page, Until::Empty, self.layout)
            {
                return Err(RecordError::output("write", &self.parts().pages_path(cpu), source));
            }
        }
    }

    fn filtered(&self) -> Result<Filtered, RecordError> {
        let Some(counter) = &self.counter else {
            let filters = self.manifest.filters;
            return Ok(if filters { Filtered::NotCounted } else { Filtered::Nothing });
        };
        let mut happened = 0;
        for &cpu in self.stats.keys() {
            happened += counter.stats(cpu)?.0.written();
        }
        let passed: u64 = self.stats.values().map(RingStats::written).sum();
        Ok(Filtered::Counted(happened.saturating_sub(passed)))
    }

    /// CPUs that came while recording and are not in the file.
    fn note_new_cpus(&mut self, spec_cpus: bool) {
        let now = cpu::online().unwrap_or_default();
        let new: Vec<String> =
            now.iter().filter(|cpu| !self.stats.contains_key(cpu)).map(u32::to_string).collect();
        if !spec_cpus && !new.is_empty() {
            self.notes.push(format!(
                "CPUs that came online while recording are not in the file: {}",
                new.join(", ")
            ));
        }
    }

    fn finish_command(&mut self) -> Result<Option<ExitStatus>, RecordError> {
        let Some(mut command) = self.command.take() else { return Ok(None) };
        Ok(Some(command::end(&mut command)?))
    }

    fn finish_drainers(&mut self) -> (Vec<DrainedRing>, Option<DrainError>) {
        let (mut rings, mut error) = (Vec::new(), None);
        for drainer in self.drainers.drain(..) {
            let (mine, its_error) = drainer.finish();
            rings.extend(mine);
            error = error.or(its_error);
        }
        (rings, error)
    }

    fn instance(&self) -> &Instance {
        self.instance.as_ref().expect("present until finished")
    }

    fn parts(&self) -> &Parts {
        self.parts.as_ref().expect("present until finished")
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // The stopped command exits without having run; a running one is ours to end.
        drop(self.stopped_command.take());
        if let Some(mut command) = self.command.take() {
            let _ = command::end(&mut command);
        }
        if let Some(instance) = &self.instance {
            let _ = instance.set_tracing(false);
        }
        // The kernel removes no instance whose rings are open.
        drop(self.finish_drainers());
    }
}

fn follow(
    members: &mut Members,
    instance: &Instance,
    trigger: Option<&Trigger>,
) -> Result<usize, RecordError> {
    let instances: Vec<&Instance> =
        std::iter::once(instance).chain(trigger.map(|trigger| &trigger.instance)).collect();
    Ok(members.follow(&instances)?)
}
