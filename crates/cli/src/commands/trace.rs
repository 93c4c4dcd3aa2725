//! `lotse trace`: a program in the bpftrace language, compiled and attached within milliseconds.

mod arguments;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bpf::image::Attach;
use clap::{Args, ValueEnum};
use kernel::facts::LiveFacts;
use kernel::load::ImageRefused;
use kernel::stop::{SignalsStop, StopToken};
use run::program::compile::{Stage, compile};
use run::program::output::{Buffering, Form};
use run::program::session::{self, SessionError};
use run::program::{Compiled, LiveEnvironment, RunOptions, explained};

use self::arguments::{settings_of_environment, split_arguments};
pub(super) use self::arguments::words_of;
use super::doctor::Doctor;
use super::list::List;
use crate::console::Console;
use crate::exit::Outcome;
use crate::selection::{self, CpuList, cpu_list};
use crate::stacks::StackOptions;
use crate::values;

#[derive(Debug, Args)]
#[command(
    disable_help_flag = false,
    after_help = "Examples:
  lotse trace -e 'tracepoint:syscalls:sys_enter_openat { printf(\"%s %s\\n\", comm, str(args.filename)); }'
  lotse trace -e 'tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }' --duration 10s
  lotse trace biolatency.bt
  lotse trace -e 'uprobe:libc:malloc { @bytes = hist(arg0); }' -c 'ls -l'
  lotse trace -e 'profile:hz:99 { @[ustack, kstack] = count(); }' --flame cpu.svg --duration 10s

The language is bpftrace's; docs/coming-from/bpftrace.md lists what differs."
)]
pub struct Trace {
    /// The program
    #[arg(short, long = "execute", value_name = "PROGRAM")]
    execute: Option<String>,
    /// A file with the program (- for stdin), unless -e gives it; then what the program calls $1, $2, …
    #[arg(value_name = "FILE|ARGUMENTS", trailing_var_arg = true)]
    words: Vec<String>,

    /// Only these processes, in any probe, checked in the kernel
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pid: Vec<u32>,
    /// Only these threads, in any probe, checked in the kernel
    #[arg(long, value_name = "TID", value_delimiter = ',')]
    tid: Vec<u32>,
    /// Only on these CPUs, such as 0,2-3
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    cpu: Option<CpuList>,
    /// Only this control group (v2) and those below it: its directory
    #[arg(long, value_name = "DIRECTORY")]
    cgroup: Option<PathBuf>,

    /// Attach user-space probes to this process only, and end with it (as bpftrace's -p)
    #[arg(short = 'p', value_name = "PID")]
    attach_pid: Option<u32>,
    /// Run this command once all is attached, and end with it
    #[arg(short = 'c', value_name = "COMMAND")]
    command: Option<String>,
    /// End after this time: 500ms, 10s, 2m
    #[arg(short, long, value_name = "TIME", value_parser = values::duration)]
    duration: Option<Duration>,

    /// List probes and attach nothing: those that match a pattern, of a FILE or of -e; -v shows their arguments
    #[arg(short = 'l')]
    list: bool,
    /// Run the program's test: probes, and say which failed
    #[arg(long, conflicts_with = "bench")]
    test: bool,
    /// Run the program's bench: probes, and say what each run takes
    #[arg(long)]
    bench: bool,
    /// What the kernel has that programs can use (as `lotse doctor`)
    #[arg(long)]
    info: bool,

    /// Output to a file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Form of the output
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    format: FormOption,
    /// When output leaves the process
    #[arg(short = 'B', value_name = "MODE", default_value = "line")]
    buffering: BufferingOption,
    /// Warn when a helper of the kernel fails
    #[arg(short = 'k')]
    helper_errors: bool,
    /// Do not print warnings
    #[arg(long)]
    no_warnings: bool,
    /// Allow functions that change the system: system(), signal(), override()
    #[arg(long)]
    r#unsafe: bool,

    /// Print a stage of the compilation and end
    #[arg(long, value_name = "STAGE")]
    emit: Option<StageOption>,
    /// Load and verify, attach nothing, print the verifier's statistics
    #[arg(long)]
    dry_run: bool,
    /// Do not trace: tell for this time how often each probe fires here
    #[arg(long, value_name = "TIME", value_parser = values::duration, num_args = 0..=1, default_missing_value = "1s")]
    rates: Option<Duration>,
    /// Print the maps at the end as Prometheus text, and nothing else
    #[arg(long, conflicts_with = "format")]
    metrics: bool,
    #[command(flatten)]
    stacks: StackOptions,
    /// Tell at the end what each program cost, as the kernel measured it
    #[arg(long)]
    cost: bool,
    /// How each probe was served
    #[arg(short = 'v')]
    chosen: bool,
    /// Attach tracepoint probes as tracepoints, also where raw arguments would do and cost half
    #[arg(long)]
    plain_tracepoints: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormOption {
    /// As people read it
    Text,
    /// One JSON object a line
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BufferingOption {
    /// With each batch of lines
    Line,
    /// When the buffer is full
    Full,
    /// With each record
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StageOption {
    /// The program as understood
    Ast,
    /// Typed, names resolved
    Hir,
    /// Basic blocks
    Lir,
    /// Instructions with their source
    Asm,
}

impl Trace {
    pub fn run(&self, console: &mut Console) -> anyhow::Result<Outcome> {
        if self.info {
            return Doctor::default().run(console);
        }
        if self.list
            && let Some(pattern) = self.pattern_to_list()
        {
            return List::of(pattern, self.chosen).run(console);
        }
        let (name, text, arguments) = self.text()?;
        let (positional, named) = split_arguments(&arguments);
        let facts = LiveFacts::new();
        let environment = LiveEnvironment::new(self.attach_pid);
        let command = self.command.as_deref().map(words_of);
        let command = command.as_deref().map(session::prepare_command).transpose()?;
        let options = lang::options::Options {
            name,
            positional,
            named,
            settings: settings_of_environment(),
            environment: &environment,
            unsafe_allowed: self.r#unsafe,
            // As with bpftrace, a command's user-space probes are its own.
            pid: self.attach_pid.or(command.as_ref().map(kernel::process::StoppedCommand::pid)),
            child: command.as_ref().map(kernel::process::StoppedCommand::pid),
            serve_tracepoints: !self.plain_tracepoints,
            report_helper_errors: self.helper_errors,
            selection: self.selection()?,
            keep_tests: self.test || self.bench,
        };
        let stage = self.emit.map(|stage| match stage {
            StageOption::Ast => Stage::Ast,
            StageOption::Hir => Stage::Hir,
            StageOption::Lir => Stage::Lir,
            StageOption::Asm => Stage::Asm,
        });
        let outcome = compile(&text, &options, &facts, stage);
        // A program that compiled has warnings alone.
        if outcome.compiled.is_none() && outcome.stage.is_none() || !self.no_warnings {
            io::stderr().write_all(outcome.report.as_bytes())?;
        }
        if let Some(stage) = outcome.stage {
            console.out().write_all(stage.as_bytes())?;
            return Ok(Outcome::Done);
        }
        let Some(compiled) = outcome.compiled else { return Ok(Outcome::Status(2)) };
        if options.named.iter().any(|(name, _)| name == "help") {
            return arguments::print_options(&compiled, console.out());
        }
        if self.list {
            for target in compiled.schema.programs.iter().flat_map(|program| &program.targets) {
                writeln!(console.out(), "{}", target.name)?;
            }
            return Ok(Outcome::Done);
        }
        if self.chosen {
            say_chosen(&compiled, &outcome.choices)?;
        }
        if self.test {
            return self.run_tests(&compiled, &facts, console);
        }
        if self.bench {
            return self.run_benches(&compiled, &facts, console);
        }
        self.stacks.check(&compiled.schema)?;
        if self.dry_run {
            return self.print_statistics(&compiled, &facts, console);
        }
        self.trace(&compiled, &facts, command, console)
    }

    fn trace(
        &self,
        compiled: &Compiled,
        facts: &LiveFacts,
        command: Option<kernel::process::StoppedCommand>,
        console: &mut Console,
    ) -> anyhow::Result<Outcome> {
        let options = RunOptions {
            form: match self.format {
                _ if self.metrics => Form::Metrics,
                _ if self.stacks.folded() => Form::Folded,
                FormOption::Text => Form::Text,
                FormOption::Json => Form::Json,
            },
            buffering: match self.buffering {
                BufferingOption::Line => Buffering::Line,
                BufferingOption::Full => Buffering::Full,
                BufferingOption::None => Buffering::None,
            },
            quiet: console.talk() == crate::console::Talk::Quiet,
            pid: self.attach_pid,
            cpus: self.cpu.as_ref().map(|list| list.0.iter().copied().collect::<BTreeSet<u32>>()),
            duration: self.duration,
            cost: self.cost,
            detach_behind: true,
            no_warnings: self.no_warnings,
            keep_stacks: self.stacks.drawn(),
            ..RunOptions::default()
        };
        let stop = StopToken::new()?;
        let _signals = SignalsStop::route_to(&stop);
        if let Some(span) = self.rates {
            return print_rates(compiled, facts, span, &stop, console);
        }
        let mut file = match &self.output {
            Some(path) => {
                Some(File::create(path).with_context(|| format!("cannot write {}", path.display()))?)
            }
            None => None,
        };
        let mut stdout = io::stdout().lock();
        let out: &mut dyn Write = match &mut file {
            Some(file) => file,
            None => &mut stdout,
        };
        let finished = session::run(compiled, facts, &options, command, &stop, out, &mut io::stderr());
        match finished {
            Ok(finished) => {
                if self.chosen {
                    say_account(&finished)?;
                }
                if self.cost {
                    say_costs(&finished)?;
                }
                let (program, span) = (compiled.source.name(0), finished.attached_for);
                self.stacks.draw(&compiled.schema, program, &finished.stacks, span, console)?;
                Ok(match finished.exit_code {
                    0 => Outcome::Done,
                    code => Outcome::Status(code as u8),
                })
            }
            Err(SessionError::Load(ImageRefused::Program(refused))) => {
                say_refusal(compiled, &refused, self.chosen)?;
                Ok(Outcome::Status(2))
            }
            Err(SessionError::Output(error)) => Err(error.into()),
            Err(error) => Err(error.into()),
        }
    }

    fn print_statistics(
        &self,
        compiled: &Compiled,
        facts: &LiveFacts,
        console: &mut Console,
    ) -> anyhow::Result<Outcome> {
        let rows = match run::program::dry_run::dry_run(compiled, facts) {
            Ok(rows) => rows,
            Err(ImageRefused::Program(refused)) => {
                say_refusal(compiled, &refused, self.chosen)?;
                return Ok(Outcome::Status(2));
            }
            Err(error) => return Err(error.into()),
        };
        let out = console.out();
        writeln!(
            out,
            "{:>7} {:>8} {:>7} {:>9} {:>9}  program",
            "insns", "walked", "stack", "verify", "machine"
        )?;
        for row in rows {
            let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
            writeln!(
                out,
                "{:>7} {:>8} {:>7} {:>6} us {:>7} B  {} ({})",
                row.instructions,
                number(row.walked),
                row.stack_depth.as_deref().unwrap_or("-"),
                number(row.microseconds),
                row.machine_code_bytes,
                row.name,
                row.kind
            )?;
        }
        Ok(Outcome::Done)
    }

    /// `-l PATTERN`, or `-l` alone; not with a program whose probes are wanted.
    fn pattern_to_list(&self) -> Option<Option<String>> {
        if self.execute.is_some() {
            return None;
        }
        match self.words.first() {
            Some(word) if word == "-" || std::path::Path::new(word).is_file() => None,
            word => Some(word.cloned()),
        }
    }

    fn run_tests(
        &self,
        compiled: &Compiled,
        facts: &LiveFacts,
        console: &mut Console,
    ) -> anyhow::Result<Outcome> {
        let outcomes = run::program::checks::tests(compiled, facts)?;
        let out = console.out();
        let mut failed = 0;
        for outcome in &outcomes {
            match &outcome.failure {
                None => writeln!(out, "test:{} passed", outcome.name)?,
                Some(why) => {
                    failed += 1;
                    out.write_all(&outcome.output)?;
                    writeln!(out, "test:{} FAILED: {why}", outcome.name)?;
                }
            }
        }
        writeln!(out, "{} passed, {failed} failed", outcomes.len() - failed)?;
        Ok(if failed == 0 { Outcome::Done } else { Outcome::DoesNotHold })
    }

    fn run_benches(
        &self,
        compiled: &Compiled,
        facts: &LiveFacts,
        console: &mut Console,
    ) -> anyhow::Result<Outcome> {
        let measured = run::program::checks::benches(compiled, facts)?;
        let json = self.format == FormOption::Json;
        run::program::checks::write_benches(console.out(), &measured, json)?;
        Ok(Outcome::Done)
    }

    /// Name, text and the words after it.
    fn text(&self) -> anyhow::Result<(String, String, Vec<String>)> {
        if let Some(text) = &self.execute {
            return Ok(("stdin".to_owned(), text.clone(), self.words.clone()));
        }
        let Some((file, rest)) = self.words.split_first() else {
            bail!("there is no program: give one with -e 'PROGRAM', or a FILE (- for stdin)");
        };
        let ours = |word: &&String| word.strip_prefix('-').is_some_and(|rest| rest.starts_with(char::is_alphabetic));
        if let Some(option) = rest.iter().take_while(|word| *word != "--").find(ours) {
            bail!(
                "`{option}` comes after the script, where words are the script's own; put it before: \
                 lotse trace {option} … {file}"
            );
        }
        let mut text = String::new();
        if file == "-" {
            io::stdin().read_to_string(&mut text).context("cannot read the program from stdin")?;
            return Ok(("stdin".to_owned(), text, rest.to_vec()));
        }
        let bytes = std::fs::read(file).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if file.contains(['{', ' ']) => {
                anyhow!("there is no file `{file}`; a program on the command line goes behind -e: lotse trace -e '{file}'")
            }
            io::ErrorKind::NotFound => anyhow!("there is no file {file}; name a script, or give a program with -e 'PROGRAM'"),
            io::ErrorKind::IsADirectory => anyhow!("{file} is a folder; name a script in it"),
            _ => anyhow!("cannot read the program {file}: {error}"),
        })?;
        if bytes.starts_with(b"\x7fELF") {
            bail!("{file} is an executable and no script; to trace it: lotse trace -e 'PROGRAM' -c {file}");
        }
        let text = String::from_utf8(bytes).with_context(|| format!("{file} is no script: not UTF-8 text"))?;
        Ok((file.clone(), text, rest.to_vec()))
    }

    fn selection(&self) -> anyhow::Result<lang::options::Selection> {
        selection::of_program(&self.pid, &self.tid, self.cpu.as_ref(), self.cgroup.as_deref())
    }
}

/// Why the kernel did not take a program; `whole`: with the verifier's log.
pub(super) fn say_refusal(
    compiled: &Compiled,
    refused: &kernel::ebpf::LoadRefused,
    whole: bool,
) -> io::Result<()> {
    let mut stderr = io::stderr();
    if refused.log.is_empty() {
        return writeln!(stderr, "lotse: error: {refused}");
    }
    write!(stderr, "{}", explained(compiled, refused))?;
    if whole {
        return writeln!(stderr, "the verifier's log:\n{}", refused.log);
    }
    writeln!(
        stderr,
        "-v prints the verifier's log whole; a program that lotse accepts and the kernel does not is a fault of lotse: please report it"
    )
}

pub(super) fn say_chosen(compiled: &Compiled, choices: &[String]) -> io::Result<()> {
    let mut stderr = io::stderr();
    for choice in choices {
        writeln!(stderr, "{choice}: chosen for this kernel")?;
    }
    for program in &compiled.image.programs {
        let how = how_served(&program.attach);
        let Some(described) = compiled.schema.programs.get(program.probe as usize) else { continue };
        for target in &described.targets {
            writeln!(stderr, "{}: {how}", target.name)?;
        }
    }
    Ok(())
}

fn how_served(attach: &Attach) -> &'static str {
    match attach {
        Attach::TestRun(_) => "run by lotse itself",
        Attach::TpBtf { .. } => "typed raw tracepoint",
        Attach::RawTracepoint { .. } => "raw tracepoint",
        Attach::Tracepoint { .. } => "tracepoint",
        Attach::Kprobe { on_return: false, multi: false, .. } => "kprobe",
        Attach::Kprobe { on_return: true, multi: false, .. } => "kretprobe",
        Attach::Kprobe { multi: true, .. } => "one kprobe_multi link for all",
        Attach::Trampoline { on_return: false, .. } => "trampoline at entry",
        Attach::Trampoline { on_return: true, .. } => "trampoline at return",
        Attach::Uprobe { on_return: false, multi: false, .. } => "uprobe",
        Attach::Uprobe { on_return: true, multi: false, .. } => "uretprobe",
        Attach::Uprobe { multi: true, .. } => "one uprobe_multi link for all",
        Attach::PerfEvent(_) => "perf event",
        Attach::Breakpoint { .. } => "hardware breakpoint",
        Attach::Iterator { .. } => "iterator",
    }
}

fn print_rates(
    compiled: &Compiled,
    facts: &LiveFacts,
    span: Duration,
    stop: &StopToken,
    console: &mut Console,
) -> anyhow::Result<Outcome> {
    console.say(&format!("counting for {:.1} s", span.as_secs_f64()));
    let rates = run::program::rates::measure(compiled, facts, span, stop)?;
    let out = console.out();
    for rate in &rates {
        match &rate.refused {
            Some(why) => writeln!(out, "{:>12}  {}: {why}", "-", rate.name)?,
            None => writeln!(out, "{:>10.0}/s  {}", rate.per_second, rate.name)?,
        }
    }
    let all_there = rates.iter().all(|rate| rate.refused.is_none());
    Ok(if all_there { Outcome::Done } else { Outcome::DoesNotHold })
}

pub(super) fn say_costs(finished: &run::program::Finished) -> io::Result<()> {
    let mut stderr = io::stderr();
    let seconds = finished.attached_for.as_secs_f64().max(1e-9);
    for (name, runs, nanoseconds) in &finished.costs {
        let each = *nanoseconds as f64 / (*runs).max(1) as f64;
        let share = *nanoseconds as f64 / 1e9 / seconds * 100.0;
        writeln!(stderr, "{name}: {runs} runs, {each:.0} ns each, {share:.3} % of one CPU")?;
    }
    Ok(())
}

pub(super) fn say_account(finished: &run::program::Finished) -> io::Result<()> {
    let mut stderr = io::stderr();
    for program in &finished.account.programs {
        let kept = program.seen - program.filtered.min(program.seen);
        writeln!(
            stderr,
            "{}: seen {} = kept {kept} + filtered {}",
            program.name, program.seen, program.filtered
        )?;
    }
    Ok(())
}
