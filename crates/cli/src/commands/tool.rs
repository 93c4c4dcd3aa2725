//! `lotse tool`: a program of the shelf, with its own options and those that all have.

mod arguments;
mod help;

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, bail};
use clap::Args;
use kernel::cgroup::OwnGroup;
use kernel::facts::LiveFacts;
use kernel::load::ImageRefused;
use kernel::stop::{SignalsStop, StopToken};
use run::program::compile::compile;
use run::program::output::{Form, ToolStyle};
use run::program::table::TableSpec;
use run::program::session::{self, SessionError};
use run::program::{LiveEnvironment, RunOptions};
use run::tool;

use super::trace;
use crate::console::{Console, Talk};
use crate::exit::Outcome;
use crate::selection;
use arguments::{Common, FormOption, Parsed};

#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:
  lotse list tools                      all tools with their questions
  lotse tool runqlat --help             what it shows, its options, its cost, its limits
  lotse tool runqlat 1 5                each second, five times
  lotse tool execsnoop -c 'make'        what a command starts"
)]
pub struct Tool {
    /// Which tool (or a FILE.bt with the first lines of one), its interval and count where it has maps to print, and options
    #[arg(value_name = "NAME [INTERVAL [COUNT]] [OPTIONS]", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

impl Tool {
    pub fn run(&self, console: &mut Console) -> anyhow::Result<Outcome> {
        let Some((name, words)) = self.words.split_first() else {
            bail!("which tool? `lotse list tools` shows all; `lotse tool runqlat 1` is one");
        };
        if matches!(name.as_str(), "-h" | "--help" | "help") {
            help::of_all(console.out())?;
            return Ok(Outcome::Done);
        }
        let tool = find(name)?;
        let parsed = match arguments::parse(&tool, words) {
            Ok(Parsed::Run(common)) => common,
            Ok(Parsed::Help) => {
                console.out().write_all(tool::page::help(&tool).as_bytes())?;
                return Ok(Outcome::Done);
            }
            Err(error) => {
                error.print()?;
                return Ok(Outcome::Status(2));
            }
        };
        run_tool(&tool, &parsed, console)
    }
}

/// By name from the shelf, by path from a file.
fn find(name: &str) -> anyhow::Result<tool::Tool> {
    let mut found = tool::find(name);
    let mut shown = format!("tools/{name}.bt");
    if found.is_none() && name.ends_with(".bt") {
        let text = std::fs::read_to_string(name).with_context(|| format!("cannot read the tool {name}"))?;
        let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy();
        found = Some(tool::read(&stem, &text));
        shown = name.to_owned();
    }
    match found {
        Some(Ok(tool)) => Ok(tool),
        Some(Err(errors)) => {
            let lines: Vec<String> = errors.iter().map(|error| format!("{shown}:{error}")).collect();
            bail!("{}", lines.join("\n"))
        }
        None => match tool::near(name).as_slice() {
            [] => bail!("there is no tool `{name}`; `lotse list tools` shows all"),
            near => bail!("there is no tool `{name}`; did you mean {}?", near.join(", ")),
        },
    }
}

/// The tables of a tool without the columns of maps that its options left out.
fn tables_of(tool: &tool::Tool, schema: &lang::schema::Schema) -> Vec<TableSpec> {
    let mut tables = tool.header.tables.clone();
    for table in &mut tables {
        table.values.retain(|value| schema.maps.iter().any(|map| map.name == value.map));
    }
    tables.retain(|table| !table.values.is_empty());
    tables
}

fn run_tool(tool: &tool::Tool, common: &Common, console: &mut Console) -> anyhow::Result<Outcome> {
    let facts = LiveFacts::new();
    let command = common.command.as_deref().map(trace::words_of);
    let command = command.as_deref().map(session::prepare_command).transpose()?;
    let mut selected =
        selection::of_program(&common.pid, &common.tid, common.cpu.as_ref(), common.cgroup.as_deref())?;
    // A command is the one that is asked about, with all that it starts, unless others are.
    let others = !selected.pids.is_empty() || !selected.tids.is_empty() || selected.cgroup.is_some();
    let mut group = None;
    if let Some(command) = command.as_ref().filter(|_| !others) {
        let made = OwnGroup::create().and_then(|group| group.add(command.pid()).map(|()| group));
        match made {
            Ok(made) => {
                selected.cgroup = Some(selection::selected_cgroup(made.directory())?);
                group = Some(made);
            }
            Err(refused) => {
                console.warn(&format!("only the command's own process is shown, not what it starts: {refused}"));
                selected.pids.push(command.pid());
            }
        }
    }
    // User-space probes are looked for where the process sees files.
    let pid = match common.pid.as_slice() {
        [pid] => Some(*pid),
        _ => None,
    };
    let environment = LiveEnvironment::new(pid);
    let options = lang::options::Options {
        name: format!("{}.bt", tool.name),
        named: common.named.clone(),
        environment: &environment,
        pid: pid.or(command.as_ref().map(kernel::process::StoppedCommand::pid)),
        child: command.as_ref().map(kernel::process::StoppedCommand::pid),
        selection: selected,
        ..lang::options::Options::default()
    };
    let outcome = compile(&tool.program(&common.arguments), &options, &facts, None);
    io::stderr().write_all(outcome.report.as_bytes())?;
    let Some(compiled) = outcome.compiled else { return Ok(Outcome::Status(2)) };
    common.stacks.check(&compiled.schema)?;
    if common.chosen {
        trace::say_chosen(&compiled, &outcome.choices)?;
    }
    let run_options = RunOptions {
        form: match common.format {
            _ if common.metrics => Form::Metrics,
            _ if common.stacks.folded() => Form::Folded,
            FormOption::Text => Form::Text,
            FormOption::Json => Form::Json,
        },
        quiet: console.talk() == Talk::Quiet || common.global.quiet,
        pid,
        cpus: common.cpu.as_ref().map(|list| list.0.iter().copied().collect()),
        duration: common.duration,
        interval: common.interval,
        count: common.count,
        cost: common.cost,
        detach_behind: true,
        keep_stacks: common.stacks.drawn(),
        tool: Some(ToolStyle {
            name: tool.name.clone(),
            columns: tool
                .header
                .columns
                .iter()
                .map(|column| (column.name.clone(), column.meaning.clone()))
                .collect(),
            tables: tables_of(tool, &compiled.schema),
            top: common.top,
        }),
        ..RunOptions::default()
    };
    let stop = StopToken::new()?;
    let _signals = SignalsStop::route_to(&stop);
    let mut file = match &common.output {
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
    let finished = session::run(&compiled, &facts, &run_options, command, &stop, out, &mut io::stderr());
    drop(group);
    match finished {
        Ok(finished) => {
            if common.chosen {
                trace::say_account(&finished)?;
            }
            if common.cost {
                trace::say_costs(&finished)?;
            }
            let span = finished.attached_for;
            common.stacks.draw(&compiled.schema, &tool.name, &finished.stacks, span, console)?;
            Ok(match finished.exit_code {
                0 => Outcome::Done,
                code => Outcome::Status(code as u8),
            })
        }
        Err(SessionError::Load(ImageRefused::Program(refused))) => {
            trace::say_refusal(&compiled, &refused, common.chosen)?;
            Ok(Outcome::Status(2))
        }
        Err(error) => Err(error.into()),
    }
}
