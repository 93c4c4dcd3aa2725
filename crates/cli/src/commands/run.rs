//! `lotse run`: from a question to a measured answer.

mod what;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use clap::Args;
use run::answer::{self, Answer, Judged, Question};
use run::folder;
use run::recipe::Recipe;
use run::record::EndedBy;
use run::run_record::{CommandStatus, RecipeText, Request, RunRecord, SelectionRequest, Tool, VERSION};
use run::session::{self, Plan, Session, Told};
use run::wall_time::rfc3339;

use crate::console::Console;
use crate::exit::Outcome;
use crate::present::{self, Format};
use crate::progress::ProgressLine;
use crate::selection::SelectionOptions;
use crate::{said, values};
use what::What;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lotse run sched -- make -j8             where do the compile's threads wait for the CPU?
  lotse run sched --duration 30s --pid 4711
  lotse run ./my-recipe.toml              your own question
  lotse run lotse-runs/20261130T153838Z-sched    the same run again

Built-in recipes: sched. Everything is kept in one folder: the trace, run.json, report.html, report.json.")]
pub struct Run {
    /// A built-in recipe, a recipe's file, or the folder of an earlier run to repeat
    #[arg(value_name = "RECIPE|FILE|RUN_FOLDER")]
    what: String,
    #[command(flatten)]
    selection: SelectionOptions,
    /// Ask about the whole system, also when a command is given
    #[arg(short = 'a', long, conflicts_with_all = ["pid", "tid", "cgroup", "narrow"])]
    all: bool,
    /// Record only the selected threads' events: cheaper, but who had the CPU meanwhile stays unknown
    #[arg(long)]
    narrow: bool,
    /// End the run after this time: 500ms, 10s, 2m
    #[arg(short, long, value_name = "TIME", value_parser = values::duration)]
    duration: Option<Duration>,
    /// Bytes of ring for each CPU: 64MiB
    #[arg(long, value_name = "SIZE", value_parser = values::ring)]
    ring: Option<u64>,
    /// The run's folder; it must not exist or be empty
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// The report's format on stdout
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// A command to run and ask about; the run ends when it ends
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<std::ffi::OsString>,
}

/// Where runs go unless told otherwise.
pub const RUNS: &str = "lotse-runs";

impl Run {
    pub fn run(&self, console: &mut Console) -> anyhow::Result<Outcome> {
        let what = What::find(&self.what)?;
        let request = self.request(&what)?;
        if request.command.is_none() && session::duration(&what.recipe, &request).is_none() {
            console.say("no --duration and no command: recording until Ctrl-C");
        }
        let folder = RunFolder::create(self.output.as_deref(), &what.recipe.name)?;
        console.detail(&format!("run folder: {}", folder.path.display()));
        let plan = Plan {
            recipe: what.recipe.clone(),
            request: request.clone(),
            folder: folder.path.clone(),
            stop: None,
            handle_signals: true,
        };
        let mut line = ProgressLine::new(console, session::duration(&what.recipe, &request));
        let session = session::run(&plan, &mut |told| match told {
            Told::Preflight(preflight) => said::preflight(preflight, console),
            Told::Progress(progress) => line.show(progress),
        })?;
        line.end();
        // From here on there is something to keep, whatever happens.
        let path = folder.keep();
        said::recording(&session.outcome, console);
        let mut record = record(&what, request, &session);
        record.write(&path)?;
        self.report(&what.recipe, &mut record, session, &path, console)
    }

    fn request(&self, what: &What) -> anyhow::Result<Request> {
        let mut request = what.earlier.clone().unwrap_or_default();
        if !self.command.is_empty() {
            let mut words = Vec::new();
            for word in &self.command {
                let Some(word) = word.to_str() else {
                    anyhow::bail!(
                        "the command's word {word:?} is not UTF-8 and could not be repeated from run.json; \
                         put it into a script and run that"
                    );
                };
                words.push(word.to_owned());
            }
            request.command = Some(words);
            request.directory = std::env::current_dir().ok();
            request.selection = SelectionRequest::Command;
        }
        if let Some(selection) = self.selection.request()? {
            request.selection = selection;
        } else if self.all {
            request.selection = SelectionRequest::System;
        }
        if let Some(cpus) = self.selection.cpus() {
            request.cpus = Some(cpus);
        }
        if let Some(duration) = self.duration {
            request.duration_s = Some(duration.as_secs_f64());
        }
        request.ring_bytes_per_cpu = self.ring.or(request.ring_bytes_per_cpu);
        request.narrow |= self.narrow;
        Ok(request)
    }

    fn report(
        &self,
        recipe: &Recipe,
        record: &mut RunRecord,
        session: Session,
        folder: &Path,
        console: &mut Console,
    ) -> anyhow::Result<Outcome> {
        let question = Question::of_run(record, session.counters);
        let disk_full = session.outcome.ended_by == EndedBy::DiskFull;
        let answer = answer::answer(&folder.join(folder::TRACE), &question)
            .with_context(|| format!("the run is kept in {}, and its trace cannot be read", folder.display()))?;
        let judged = answer::judge(&recipe.thresholds, &answer);
        record.thresholds = judged.iter().map(Judged::outcome).collect();
        let document = present::run_document(record, &recipe.question, &answer, &judged);
        for (name, format) in [(folder::REPORT_HTML, Format::Html), (folder::REPORT_JSON, Format::Json)] {
            let text = present::render(&document, format, &console.text_options());
            present::write(&text, &folder.join(name))?;
        }
        record.files = session::files(folder)?;
        record.write(folder)?;
        let text = present::render(&document, self.format, &console.text_options());
        console.out().write_all(text.as_bytes())?;
        console.flush()?;
        say_verdict(&judged, &answer, console);
        console.say(&format!("all of it is in {}; open {}", folder.display(), folder.join(folder::REPORT_HTML).display()));
        Ok(if disk_full { Outcome::DoesNotHold } else { verdict(&judged, &answer) })
    }
}

/// What did not hold, a line each.
pub fn say_verdict(judged: &[Judged], answer: &Answer, console: &Console) {
    for one in judged {
        let metric = one.threshold.metric;
        match (one.holds, one.found) {
            (Some(false), Some(found)) => console.warn(&format!(
                "threshold does not hold: {} is {}, the recipe allows {}",
                metric.name(),
                metric.show(found),
                one.limit_text()
            )),
            (None, _) => console.warn(&format!("threshold cannot be decided: the trace does not tell {}", metric.name())),
            _ => {}
        }
    }
    let differing = unexplained(answer);
    if differing > 0 {
        console.warn(&format!("{differing} cross-checks differ for no reason known: the report says which"));
    }
}

/// Exit status 1 when a threshold does not hold or a cross-check differs without a reason.
pub fn verdict(judged: &[Judged], answer: &Answer) -> Outcome {
    let held = judged.iter().all(|one| one.holds != Some(false));
    // An answer from a part of the trace is one, and no proof that all is well.
    let whole = answer.unreadable.is_empty() && answer.sched.provenance.cut.is_none();
    if held && whole && unexplained(answer) == 0 { Outcome::Done } else { Outcome::DoesNotHold }
}

fn unexplained(answer: &Answer) -> usize {
    let rows = answer.crosscheck.iter().flat_map(|check| &check.rows);
    rows.filter(|row| row.verdict == analysis::crosscheck::Verdict::Unexplained).count()
}

fn record(what: &What, request: Request, session: &Session) -> RunRecord {
    let outcome = &session.outcome;
    let mut notes = outcome.notes.clone();
    notes.extend(session.counters.iter().flat_map(|counters| counters.notes.clone()));
    notes.extend(session.preflight.hidden_switches.iter().map(ToString::to_string));
    notes.extend(session.preflight.left_out.iter().map(|event| format!("this kernel has no {event}")));
    let cgroup_threads = match &request.selection {
        SelectionRequest::Cgroup(path) => kernel::cgroup::threads_of(path),
        _ => Vec::new(),
    };
    RunRecord {
        version: VERSION,
        tool: Tool::this(),
        recipe: RecipeText {
            name: what.recipe.name.clone(),
            file: what.file.clone(),
            text: what.text.clone(),
        },
        request,
        host: session.host.clone(),
        preflight: session.preflight.clone(),
        started: rfc3339(session.started),
        ended: rfc3339(session.ended),
        started_ns: outcome.ledger.started_ns,
        ended_ns: outcome.ledger.ended_ns,
        ended_by: said::ended_by(outcome.ended_by),
        command_pid: outcome.command_pid,
        command_status: outcome.command_status.map(CommandStatus::from),
        command_ended_by_itself: outcome.ended_by == EndedBy::Command,
        cgroup_threads,
        events: outcome.events.clone(),
        ledger: outcome.ledger.clone(),
        thresholds: Vec::new(),
        files: Vec::new(),
        notes,
    }
}

/// The run's folder; removed again unless kept.
struct RunFolder {
    path: PathBuf,
    made: bool,
    kept: bool,
    /// The folder of runs, when it was made for this one.
    made_parent: Option<PathBuf>,
}

impl RunFolder {
    fn create(asked: Option<&Path>, recipe: &str) -> anyhow::Result<RunFolder> {
        if let Some(path) = asked {
            let made = folder::create_exactly(path)?;
            return Ok(RunFolder { path: path.to_owned(), made, kept: false, made_parent: None });
        }
        let parent = PathBuf::from(RUNS);
        let made_parent = (!parent.exists()).then(|| parent.clone());
        let path = folder::create_below(&parent, recipe, SystemTime::now())?;
        Ok(RunFolder { path, made: true, kept: false, made_parent })
    }

    fn keep(mut self) -> PathBuf {
        self.kept = true;
        self.path.clone()
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // A failed run leaves nothing: the recorder has removed its own files already.
        let _ = std::fs::remove_file(self.path.join(run::counters::FILE_NAME));
        if self.made {
            let _ = std::fs::remove_dir(&self.path);
        }
        if let Some(parent) = &self.made_parent {
            let _ = std::fs::remove_dir(parent);
        }
    }
}
