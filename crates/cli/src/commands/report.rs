//! `lotse report`: from a trace file or run folder to an answer, without recording.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use report::Document;
use run::answer::{self, Question, Whose};
use run::counters::CounterSpan;
use run::folder;
use run::recipe;
use run::run_record::RunRecord;
use trace::{Cpu, Nanos, Tid};

use super::run::{say_verdict, verdict};
use crate::console::Console;
use crate::exit::Outcome;
use crate::input::trace_file;
use crate::present::{self, Format};
use crate::selection::{CpuList, cpu_list};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lotse report trace.dat                          a file of trace-cmd or lotse
  lotse report perf.data --format markdown        a file of perf, for a ticket
  lotse report lotse-runs/20261130T153838Z-sched -o again.html
  lotse report trace.dat --from 1.5s --to 2s --pid 4711
  lotse report trace.dat --comm 'nginx*' --cpu 0-3")]
pub struct Report {
    /// A trace file of lotse, trace-cmd or perf, or a run folder
    #[arg(value_name = "FILE|RUN_FOLDER")]
    input: PathBuf,
    /// The format; otherwise by the ending of -o, else text
    #[arg(short, long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Write here instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The analysis
    #[arg(long, value_name = "NAME", default_value = "sched")]
    analysis: AnalysisOption,
    /// Only from so long after the trace's begin: 1.5s
    #[arg(long, value_name = "TIME", value_parser = run::recipe::parse_duration)]
    from: Option<Duration>,
    /// Only until so long after the trace's begin
    #[arg(long, value_name = "TIME", value_parser = run::recipe::parse_duration)]
    to: Option<Duration>,
    /// Only these processes, with all their threads and what they start
    #[arg(short, long, value_name = "PID", value_delimiter = ',')]
    pid: Vec<i32>,
    /// Only these threads, with what they start
    #[arg(short, long, value_name = "TID", value_delimiter = ',')]
    tid: Vec<i32>,
    /// Only threads of these names, of now or before: nginx, 'kworker/*'
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    comm: Vec<String>,
    /// Only waits that end on these CPUs, such as 0,2-3, of threads that run there
    #[arg(short, long, value_name = "LIST", value_parser = cpu_list)]
    cpu: Option<CpuList>,
    /// All rows of every table
    #[arg(long)]
    all: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AnalysisOption {
    /// Where threads run, wait for the CPU, and sleep
    Sched,
}

impl Report {
    pub fn run(&self, console: &mut Console) -> anyhow::Result<Outcome> {
        let AnalysisOption::Sched = self.analysis;
        if let (Some(from), Some(to)) = (self.from, self.to)
            && from >= to
        {
            anyhow::bail!("--from is not before --to: nothing is left to report");
        }
        self.refuse_output_over_input()?;
        let (document, outcome) = if folder::is_run_folder(&self.input) {
            self.of_run(console)?
        } else {
            let trace = trace_file(&self.input, console)?;
            let mut question = Question::default();
            self.narrow(&mut question, &trace)?;
            let answer = answer::answer(&trace, &question)?;
            refuse_without_switches(&answer, &trace)?;
            (present::trace_document(&answer), verdict(&[], &answer))
        };
        let by_name = self.output.as_deref().and_then(Format::of_file);
        let format = self.format.or(by_name).unwrap_or(Format::Text);
        let mut options = console.text_options();
        options.all_rows |= self.all;
        if self.output.is_some() {
            options = report::TextOptions { all_rows: self.all, ..report::TextOptions::PIPED };
        }
        let text = present::render(&document, format, &options);
        match &self.output {
            Some(path) => {
                present::write(&text, path)?;
                console.say(&format!("wrote {}", path.display()));
            }
            None => console.out().write_all(text.as_bytes())?,
        }
        Ok(outcome)
    }

    /// A report can be made again, what it is made from cannot.
    fn refuse_output_over_input(&self) -> anyhow::Result<()> {
        use std::os::unix::fs::MetadataExt;
        let identity = |path: &Path| path.metadata().ok().map(|file| (file.dev(), file.ino()));
        let Some((output, written)) = self.output.as_deref().and_then(|path| Some((path, identity(path)?))) else {
            return Ok(());
        };
        let inside = [folder::TRACE, "perf.data", "run.json", "counters.json"].map(|name| self.input.join(name));
        if std::iter::once(&self.input).chain(&inside).any(|path| identity(path) == Some(written)) {
            anyhow::bail!(
                "--output {} is what the report is made from and would be lost; name another file",
                output.display()
            );
        }
        Ok(())
    }

    fn of_run(&self, console: &Console) -> anyhow::Result<(Document, Outcome)> {
        let record = RunRecord::read(&self.input)?;
        let recipe = recipe::parse(&record.recipe.text)
            .map_err(|problems| anyhow::anyhow!("the recipe in {}/run.json: {problems}", self.input.display()))?;
        let mut question = Question::of_run(&record, CounterSpan::read(&self.input));
        let trace = self.input.join(folder::TRACE);
        self.narrow(&mut question, &trace)?;
        let answer = answer::answer(&trace, &question)?;
        let judged = answer::judge(&recipe.thresholds, &answer);
        say_verdict(&judged, &answer, console);
        let document = present::run_document(&record, &recipe.question, &answer, &judged);
        Ok((document, verdict(&judged, &answer)))
    }

    /// Bounds the question by the options. Times are counted from the trace's first event.
    fn narrow(&self, question: &mut Question, trace: &Path) -> anyhow::Result<()> {
        // Who is named takes the place of whom the run was about; names and CPUs narrow that.
        if !self.tid.is_empty() || !self.pid.is_empty() {
            question.threads = self.tid.iter().map(|&tid| Tid(tid)).collect();
        }
        question.whose = Whose {
            processes: self.pid.iter().map(|&pid| Tid(pid)).collect(),
            names: self.comm.clone(),
            cpus: self.cpu.iter().flat_map(|list| &list.0).map(|&cpu| Cpu(cpu)).collect(),
        };
        if self.from.is_none() && self.to.is_none() {
            return Ok(());
        }
        let begin = first_event_from(trace, self.from.unwrap_or_default())?;
        let at = |after: Duration| begin + Nanos(after.as_nanos() as u64);
        question.from = self.from.map(at);
        question.to = self.to.map(at);
        Ok(())
    }
}

/// The time of the first event, of a trace that has events `from` then on.
fn first_event_from(trace: &Path, from: Duration) -> anyhow::Result<Nanos> {
    let mut source = readers::open_path(trace)?;
    let (mut first, mut length) = (None, Duration::ZERO);
    let mut stop_when_reached = |item: trace::Item<'_>| match item {
        trace::Item::Event { at, .. } | trace::Item::Sample { at, .. } => {
            let begin: Nanos = *first.get_or_insert(at.time);
            length = length.max(Duration::from_nanos(at.time.0.saturating_sub(begin.0)));
            if length >= from { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
        }
        _ => std::ops::ControlFlow::Continue(()),
    };
    source.stream(&mut stop_when_reached)?;
    let Some(first) = first else { anyhow::bail!("{} has no event", trace.display()) };
    if length < from {
        anyhow::bail!("{} ends {length:.3?} after its first event, before --from; take a smaller one", trace.display());
    }
    Ok(first)
}

fn refuse_without_switches(answer: &answer::Answer, trace: &Path) -> anyhow::Result<()> {
    let switches = answer.sched.provenance.events_used.iter().any(|(name, _)| name.ends_with("sched_switch"));
    if switches {
        return Ok(());
    }
    anyhow::bail!(
        "{} has no sched_switch events, without which nobody knows who ran; `lotse info` shows what is in it, \
         `lotse record -e 'sched:*'` records them",
        trace.display()
    )
}
