//! The command line of one tool: its own options, found in its text, beside those that all tools have.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use run::tool::Tool;
use run::tool::header::Described;

use crate::global::Global;
use crate::selection::{CpuList, cpu_list};
use crate::stacks::StackOptions;
use crate::values;

/// What all tools understand. The texts are those of [`run::tool::page`], which explains them once for all.
#[derive(Debug, Args)]
pub struct Common {
    /// Seconds between two answers; each is about its own interval
    #[arg(value_name = "INTERVAL", value_parser = values::interval)]
    pub interval: Option<Duration>,
    /// How many answers; without it until Ctrl-C
    #[arg(value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    #[arg(short, long, value_name = "PID", value_delimiter = ',')]
    pub pid: Vec<u32>,
    #[arg(short, long, value_name = "TID", value_delimiter = ',')]
    pub tid: Vec<u32>,
    #[arg(long, value_name = "GROUP")]
    pub cgroup: Option<PathBuf>,
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    pub cpu: Option<CpuList>,
    #[arg(short = 'c', long = "command", value_name = "COMMAND")]
    pub command: Option<String>,
    #[arg(short, long, value_name = "TIME", value_parser = values::duration)]
    pub duration: Option<Duration>,
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub format: FormOption,
    #[arg(long, conflicts_with = "format")]
    pub metrics: bool,
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub top: u64,
    #[arg(long)]
    pub cost: bool,
    #[arg(short = 'v')]
    pub chosen: bool,
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub stacks: StackOptions,
    #[command(flatten)]
    pub global: Global,
    #[arg(skip)]
    pub named: Vec<(String, Option<String>)>,
    /// What the tool's header asks for first.
    #[arg(skip)]
    pub arguments: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormOption {
    /// As people read it
    Text,
    /// One JSON object a line
    Json,
}

/// What a command line asks for.
pub enum Parsed {
    /// Run it.
    Run(Box<Common>),
    /// Explain it.
    Help,
}

/// Reads the words after a tool's name.
pub fn parse(tool: &Tool, words: &[String]) -> Result<Parsed, clap::Error> {
    let own = |word: &str| matches!(word, "-h" | "--help");
    if words.iter().take_while(|word| *word != "--").any(|word| own(word)) {
        return Ok(Parsed::Help);
    }
    let mut command = command(tool);
    let name = format!("lotse tool {}", tool.name);
    let mut matches = command.try_get_matches_from_mut(std::iter::once(&name).chain(words))?;
    let named = named(tool, &matches);
    let given = tool.header.arguments.iter().filter_map(|argument| matches.get_one::<String>(&id_of(argument)));
    let arguments = given.cloned().collect();
    let mut common = Common::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))?;
    common.named = named;
    common.arguments = arguments;
    Ok(Parsed::Run(Box::new(common)))
}

fn command(tool: &Tool) -> Command {
    let name = format!("lotse tool {}", tool.name);
    let mut command = Command::new(name.clone()).bin_name(name).disable_help_flag(true);
    for argument in &tool.header.arguments {
        let arg = Arg::new(id_of(argument)).value_name(argument.name.clone());
        command = command.arg(arg.required(true).help(argument.meaning.clone()));
    }
    command = Common::augment_args(command);
    for option in &tool.options {
        let arg = Arg::new(format!("getopt {}", option.name)).long(option.name.clone());
        // A flag may be given a value, as getopt takes it, but only behind an equals sign.
        command = command.arg(match &option.default {
            Some(_) => arg.value_name("VALUE").allow_hyphen_values(true),
            None => arg
                .value_name("true|false")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .value_parser(["true", "false"]),
        });
    }
    command
}

fn id_of(argument: &Described) -> String {
    format!("argument {}", argument.name)
}

fn named(tool: &Tool, matches: &ArgMatches) -> Vec<(String, Option<String>)> {
    let given = tool.options.iter().filter_map(|option| {
        let value = matches.get_one::<String>(&format!("getopt {}", option.name))?;
        Some((option.name.clone(), Some(value.clone())))
    });
    given.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Box<Common>, String> {
        let tool = run::tool::find("runqlat").unwrap().unwrap();
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match parse(&tool, &words) {
            Ok(Parsed::Run(common)) => Ok(common),
            Ok(Parsed::Help) => Err("help".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn own_and_common_options_stand_side_by_side() {
        let common = parsed("--by=comm -p 1,2 0.5 3 --top 5").unwrap();
        assert_eq!(common.named, [("by".into(), Some("comm".into()))]);
        assert_eq!((common.pid, common.top, common.count), (vec![1, 2], 5, Some(3)));
        assert_eq!(common.interval, Some(Duration::from_millis(500)));
        assert_eq!(parsed("--by comm").unwrap().named, [("by".into(), Some("comm".into()))]);
        assert_eq!(parsed("1 -h").unwrap_err(), "help");
    }

    #[test]
    fn mistakes_are_told() {
        assert!(parsed("--bye comm").unwrap_err().contains("--by"));
        assert!(parsed("--format xml").unwrap_err().contains("json"));
        assert!(parsed("one").unwrap_err().contains("INTERVAL"));
        assert!(parsed("1 0").unwrap_err().contains("COUNT"));
    }

    #[test]
    fn every_tool_has_options_of_its_own_names() {
        for (name, _) in run::tool::SHELF {
            if let Some(Ok(tool)) = run::tool::find(name) {
                command(&tool).debug_assert();
            }
        }
    }
}
