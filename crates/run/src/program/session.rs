//! One run of a program from loading to the last line: begin, attach, drain, end, print, account.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use bpf::KernelFacts;
use bpf::image::{Attach, Moment};
use kernel::attach::{Attacher, Attachments};
use kernel::ebpf::statistics::RunStatistics;
use kernel::error::Refused;
use kernel::facts::LiveFacts;
use kernel::load::{ImageRefused, LoadOptions, Loaded};
use kernel::process::{ProgramMissing, RunningCommand, StoppedCommand, find_program};
use kernel::procfs::ProcessIdentity;
use kernel::signal_counts;
use kernel::stop::{StopToken, wait_readable};
use lang::config::MissingProbes;
use lang::schema::{MapId, Schema};
use lang::types::Type;

use super::compiled::Compiled;
use super::contents::{Maps, Zeroed};
use super::folded::{self, FoldedMap};
use super::host_names::HostNames;
use super::intervals::Intervals;
use super::losses::Account;
use super::output::{Buffering, Form, Output, ToolStyle};
use super::packets::Packets;
use super::records::{Asked, Printer, RecordError};
use super::shown::ShowOptions;

/// Harnesses that drive bpftrace wait for this word.
const NOTIFY: &str = "__BPFTRACE_NOTIFY_PROBES_ATTACHED";
/// The ring is looked at this often when nothing comes, and at least this often.
const LONGEST_WAIT: Duration = Duration::from_millis(25);
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Text or JSON.
    pub form: Form,
    /// When output leaves the process.
    pub buffering: Buffering,
    /// No messages, only what the program prints.
    pub quiet: bool,
    /// End with this process; timed probes see only it.
    pub pid: Option<u32>,
    /// Timed probes only on these CPUs.
    pub cpus: Option<std::collections::BTreeSet<u32>>,
    /// End after this time.
    pub duration: Option<Duration>,
    /// Let the kernel measure what each program costs.
    pub cost: bool,
    /// This process ends right after the run: detaching goes on in a child while the user has the prompt back.
    pub detach_behind: bool,
    /// Warnings of the program (`warnf`) are not printed.
    pub no_warnings: bool,
    /// Hand maps of stacks over at the end instead of printing them.
    pub keep_stacks: bool,
    /// Print as a tool of the shelf does.
    pub tool: Option<ToolStyle>,
    /// Print a tool's maps this often, what came since the last time.
    pub interval: Option<Duration>,
    /// End after so many intervals.
    pub count: Option<u64>,
}

/// What became of it.
#[derive(Debug, Default)]
pub struct Finished {
    /// `exit(code)`'s code, 0 without.
    pub exit_code: i32,
    /// Kept, filtered, lost.
    pub account: Account,
    /// Of each program: name, runs, nanoseconds; if asked for.
    pub costs: Vec<(String, u64, u64)>,
    /// From attached to the end.
    pub attached_for: Duration,
    /// Maps of stacks, if asked for.
    pub stacks: Vec<FoldedMap>,
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The kernel did not take a map or program.
    #[error(transparent)]
    Load(#[from] ImageRefused),
    /// The kernel refused something else.
    #[error(transparent)]
    Kernel(#[from] Refused),
    /// A probe could not be attached.
    #[error("{place}: cannot attach {probe}: {refused}")]
    Attach {
        /// Place in the text.
        place: String,
        /// The probe.
        probe: String,
        /// Why.
        refused: Box<Refused>,
    },
    /// Output could not be written.
    #[error("cannot write output: {0}")]
    Output(#[from] io::Error),
    /// The command of `-c` cannot be run.
    #[error("cannot run {command}: {why}")]
    Command {
        /// Its name.
        command: String,
        /// Why.
        why: String,
    },
}

impl From<RecordError> for SessionError {
    fn from(error: RecordError) -> SessionError {
        match error {
            RecordError::Output(error) => SessionError::Output(error),
            RecordError::Kernel(refused) => SessionError::Kernel(refused),
        }
    }
}

/// Loads an image and stores what its programs read of the tracer.
pub fn load(compiled: &Compiled, facts: &LiveFacts, statistics: bool) -> Result<Loaded, ImageRefused> {
    let options = LoadOptions { statistics, possible_cpus: facts.possible_cpus() };
    Loaded::load(&compiled.image, options, |_, data| {
        if let Some(data) = data {
            let layout = &compiled.layout;
            data.store(layout.start_time as usize, kernel::clock::boottime_ns());
            let (device, inode) = kernel::procfs::pid_namespace_file();
            data.store(layout.pid_namespace as usize, device);
            data.store(layout.pid_namespace as usize + 8, inode);
        }
        Ok(())
    })
}

/// Runs a program until it ends, is asked to, or its command (let go once all is attached) or process ends.
pub fn run(
    compiled: &Compiled,
    facts: &LiveFacts,
    options: &RunOptions,
    command: Option<StoppedCommand>,
    stop: &StopToken,
    out: &mut dyn Write,
    talk: &mut dyn Write,
) -> Result<Finished, SessionError> {
    let mut loaded = load(compiled, facts, false)?;
    let mut ring = loaded.ring.take();
    let (kernel_maps, programs, data) = (&loaded.maps, &loaded.programs, loaded.data.as_ref());
    let zeroed = Zeroed::default();
    let maps = Maps {
        schema: &compiled.schema,
        layout: &compiled.layout,
        kernel: kernel_maps,
        data,
        zeroed: &zeroed,
        cpus: facts.possible_cpus(),
    };
    let stacks = compiled.layout.stacks.iter().map(|index| &kernel_maps[*index as usize]).collect();
    let names = HostNames::new(facts, &compiled.schema, stacks);
    if names_user_addresses(&compiled.schema) {
        names.follow_processes();
    }
    let mut printer = Printer {
        compiled,
        maps,
        names: &names,
        frames: &names,
        output: Output::new(out, options.form, options.buffering).for_tool(options.tool.clone()),
        talk,
        packets: Packets::default(),
        unwatched: Vec::new(),
        errors: 0,
        no_warnings: options.no_warnings,
    };

    let run_moment = |wanted: &dyn Fn(&Moment) -> bool| -> Result<usize, Refused> {
        let mut ran = 0;
        for (program, loaded) in compiled.image.programs.iter().zip(programs) {
            if let Attach::TestRun(moment) = &program.attach
                && wanted(moment)
            {
                loaded.run(&mut [], None)?;
                ran += 1;
            }
        }
        Ok(ran)
    };

    let mut probes = run_moment(&|moment| *moment == Moment::Begin)?;
    let mut attachments = Attachments::default();
    let mut attacher = Attacher::new()?;
    let pid = options.pid.or(command.as_ref().map(StoppedCommand::pid));
    (attacher.pid, attacher.cpus) = (pid, options.cpus.as_ref());
    attach_all(compiled, programs, &mut attacher, &mut attachments, printer.talk)?;
    let signals = watched_signals(compiled);
    let ends =
        compiled.image.programs.iter().filter(|program| program.attach == Attach::TestRun(Moment::End));
    probes += attachments.places + signals.len() + ends.count();
    if !options.quiet {
        printer.output.attached(probes)?;
    }
    if options.tool.is_some() && !printer.heads()? && !options.quiet {
        // Where there is no row to come, nothing else tells that the counting has begun.
        let plural = if probes == 1 { "" } else { "s" };
        writeln!(printer.talk, "lotse: {probes} probe{plural} attached; Ctrl-C ends")?;
    }
    if std::env::var_os(NOTIFY).is_some() {
        printer.output.decoration(&format!("{NOTIFY}\n"))?;
        printer.output.flush()?;
    }

    let statistics = options.cost.then(RunStatistics::enable).transpose()?;
    let attached_at = Instant::now();
    let mut exit_code = None;
    for (_, file) in &mut attachments.iterators {
        kernel::ebpf::link::run_iterator(file)?;
        // A long iteration fills the ring: what one produced is printed before the next.
        exit_code = drain(&mut ring, &mut printer, &names)?.or(exit_code);
    }
    let mut running = command.map(StoppedCommand::release).transpose()?;
    let watched = options.pid.and_then(ProcessIdentity::of);
    if let (Some(pid), None) = (options.pid, watched) {
        return Err(Refused::new(
            "watch",
            format!("process {pid}"),
            io::Error::from_raw_os_error(libc_esrch()),
        )
        .into());
    }
    // Nothing is left that could fire: begin, end and iterators have had their turn.
    let idle = attachments.is_empty() && signals.is_empty() && running.is_none() && watched.is_none();

    let ring_map = compiled.image.system.ring.and_then(|index| kernel_maps.get(index as usize));
    let kept = if options.keep_stacks { folded::maps_of_stacks(&compiled.schema) } else { vec![] };
    let deadline = options.duration.map(|duration| Instant::now() + duration);
    let mut wait = SHORTEST_WAIT;
    let mut clock = options.interval.map(|every| Clock::new(every, options.count));
    loop {
        let before = exit_code;
        let had_records = ring.as_ref().is_some_and(|ring| ring.waiting() > 0);
        exit_code = drain(&mut ring, &mut printer, &names)?.or(before);
        for address in printer.unwatched.drain(..) {
            attachments.unwatch(address);
        }
        let asked_in_kernel = data.is_some_and(|data| data.load(compiled.layout.exiting as usize) != 0);
        if exit_code.is_some() || asked_in_kernel || asked_to_stop(stop) || idle {
            break;
        }
        if let Some(clock) = clock.as_mut().filter(|clock| clock.is_due()) {
            clock.print(&mut printer, &kept)?;
            if clock.left == Some(0) {
                break;
            }
        }
        for (signal, name) in &signals {
            for _ in 0..signal_counts::take(*signal) {
                run_moment(&|moment| *moment == Moment::Signal(name.clone()))?;
            }
        }
        let over = deadline.is_some_and(|deadline| Instant::now() >= deadline)
            || watched.is_some_and(|process| !process.lives())
            || command_ended(&mut running)?;
        if over {
            break;
        }
        wait = if had_records { SHORTEST_WAIT } else { (wait * 2).min(LONGEST_WAIT) };
        let until = clock.as_ref().map(|clock| clock.next).into_iter().chain(deadline).min();
        let pause = until.map_or(wait, |until| wait.min(until.saturating_duration_since(Instant::now())));
        // `exit()` wakes; nothing else does.
        match ring_map {
            Some(map) => wait_readable(&[stop.as_fd(), map.as_fd()], Some(pause))?,
            None => wait_readable(&[stop.as_fd()], Some(pause))?,
        };
    }

    if exit_code.is_none() {
        exit_code = drain(&mut ring, &mut printer, &names)?;
    }
    // What came after `exit()` is not the program's output any more.
    if let (Some(_), Some(ring)) = (exit_code, &mut ring) {
        ring.drain(|_| true)?;
    }
    let attached_for = attached_at.elapsed();
    let cost_of = |program: &kernel::ebpf::LoadedProgram| {
        program.facts().map(|facts| (program.name().to_owned(), facts.run_count, facts.run_ns))
    };
    let costs = match statistics {
        Some(_) => programs.iter().map(cost_of).collect::<Result<_, _>>()?,
        None => vec![],
    };
    run_moment(&|moment| *moment == Moment::End)?;
    let code_of_end = drain(&mut ring, &mut printer, &names)?;
    exit_code = exit_code.or(code_of_end);
    names.catch_up();
    let account = Account::take(compiled, maps);
    if account.ring_lost > 0 {
        printer.output.lost(account.ring_lost)?;
    }
    printer.output.decoration("\n\n")?;
    let stacks = kept.iter().map(|id| printer.folded(*id)).collect::<Result<_, _>>()?;
    if let Some(clock) = &mut clock {
        // The interval that was cut short; after the last of a count there is none.
        if clock.left != Some(0) {
            clock.print(&mut printer, &kept)?;
        }
    } else if options.tool.is_some() {
        printer.tool_maps(&kept, None)?;
    } else if compiled.schema.config.print_maps_on_exit {
        let mut order: Vec<usize> = (0..compiled.schema.maps.len()).collect();
        order.sort_by_key(|index| &compiled.schema.maps[*index].name);
        for index in order.into_iter().filter(|index| !kept.contains(&MapId(*index as u32))) {
            printer.map(MapId(index as u32), ShowOptions::default())?;
        }
    }
    printer.output.flush()?;
    printer.packets.flush()?;
    for loss in &account.losses {
        writeln!(printer.talk, "lost: {loss}")?;
    }
    if let Some(command) = &running {
        command.signal(15);
    }
    // Everything is printed; now the slow part.
    if options.detach_behind {
        attachments.detach_behind();
    } else {
        attachments.detach();
    }
    Ok(Finished { exit_code: exit_code.unwrap_or(0), account, costs, attached_for, stacks })
}

/// When a tool's maps are printed.
struct Clock {
    every: Duration,
    begun: Instant,
    next: Instant,
    left: Option<u64>,
    intervals: Intervals,
}

impl Clock {
    fn new(every: Duration, left: Option<u64>) -> Clock {
        let begun = Instant::now();
        Clock { every, begun, next: begun + every, left, intervals: Intervals::default() }
    }

    fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    fn print(&mut self, printer: &mut Printer<'_, '_>, without: &[MapId]) -> Result<(), SessionError> {
        let now = Instant::now();
        printer.output.interval(now - self.begun)?;
        // A scraper wants counters that only grow.
        let intervals = Some(&mut self.intervals).filter(|_| printer.output.form != Form::Metrics);
        printer.tool_maps(without, intervals)?;
        printer.output.flush()?;
        self.begun = now;
        self.left = self.left.map(|left| left.saturating_sub(1));
        // An interval that took longer to print than it lasts delays the next; none is made up for.
        self.next = (self.next + self.every).max(Instant::now());
        Ok(())
    }
}

/// A signal only wakes the token; its reason is carried over by others.
fn asked_to_stop(stop: &StopToken) -> bool {
    stop.requested().is_some() || stop.take_requests() > 0
}

fn libc_esrch() -> i32 {
    3
}

/// Prints what is in the ring, up to an `exit()`.
fn drain(
    ring: &mut Option<kernel::ebpf::Ring>,
    printer: &mut Printer<'_, '_>,
    names: &HostNames<'_>,
) -> Result<Option<i32>, SessionError> {
    names.catch_up();
    let Some(ring) = ring else { return Ok(None) };
    let mut outcome = Ok(None);
    let drained = ring.drain(|record| match printer.record(record) {
        Ok(Asked::Exit(code)) => {
            outcome = Ok(Some(code));
            false
        }
        Ok(Asked::Nothing) => true,
        Err(error) => {
            outcome = Err(error);
            false
        }
    });
    drained?;
    let outcome = outcome?;
    printer.output.batch_done()?;
    Ok(outcome)
}

fn attach_all(
    compiled: &Compiled,
    programs: &[kernel::ebpf::LoadedProgram],
    attacher: &mut Attacher<'_>,
    attachments: &mut Attachments,
    talk: &mut dyn Write,
) -> Result<(), SessionError> {
    for (index, (program, loaded)) in compiled.image.programs.iter().zip(programs).enumerate() {
        let mut refusals = match attacher.attach(index, loaded, &program.attach, attachments) {
            Ok(refusals) => refusals,
            Err(refused) => vec![refused],
        };
        let Some(refused) = refusals.pop() else { continue };
        let span = compiled.schema.programs.get(program.probe as usize).map(|program| program.span);
        let place = span.map_or_else(|| compiled.source.name(0).to_owned(), |span| compiled.place(span));
        let error = SessionError::Attach { place, probe: program.name.clone(), refused: Box::new(refused) };
        match compiled.schema.config.missing_probes {
            MissingProbes::Error => return Err(error),
            MissingProbes::Warn => writeln!(talk, "WARNING: {error}")?,
            MissingProbes::Ignore => {}
        }
    }
    Ok(())
}

fn watched_signals(compiled: &Compiled) -> Vec<(i32, String)> {
    let mut signals = Vec::new();
    for program in &compiled.image.programs {
        if let Attach::TestRun(Moment::Signal(name)) = &program.attach
            && let Some(number) = signal_counts::by_name(name)
            && !signals.iter().any(|(have, _)| *have == number)
        {
            signal_counts::watch(number);
            signals.push((number, name.clone()));
        }
    }
    signals
}

/// Whether anything printed needs to know what user processes have mapped.
fn names_user_addresses(schema: &Schema) -> bool {
    fn within(ty: &Type) -> bool {
        match ty {
            Type::UserSymbol => true,
            Type::Stack(stack) => stack.user,
            Type::Tuple(fields) => fields.iter().any(|field| within(&field.ty)),
            Type::Array { element, .. } => within(element),
            _ => false,
        }
    }
    let in_maps = schema.maps.iter().any(|map| {
        let value = matches!(&map.value, lang::schema::MapValue::Plain(ty) if within(ty));
        value || map.key.as_ref().is_some_and(within)
    });
    in_maps
        || schema.records.iter().any(|record| record.arguments.iter().any(|argument| within(&argument.ty)))
}

/// A command that waits until all is attached; its process is there already.
pub fn prepare_command(words: &[OsString]) -> Result<StoppedCommand, SessionError> {
    let name = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let failed = |why: String| SessionError::Command { command: name.clone(), why };
    let program = words.first().ok_or_else(|| failed("no command is given".into()))?;
    let path = find_program(program).map_err(|missing| failed(words_of(&missing)))?;
    StoppedCommand::launch(Path::new(&path), words).map_err(SessionError::Kernel)
}

fn words_of(missing: &ProgramMissing) -> String {
    match missing {
        ProgramMissing::NotFound { searched } => format!("there is no such command in {searched}"),
        ProgramMissing::NotExecutable(path) => format!("{} may not be executed", path.display()),
    }
}

fn command_ended(running: &mut Option<RunningCommand>) -> Result<bool, Refused> {
    let Some(command) = running else { return Ok(false) };
    let ended = command.ended()?.is_some();
    if ended {
        *running = None;
    }
    Ok(ended)
}
