//! The command line as a whole: options that every command has, and the list of commands.

use clap::{Args, Parser, ValueEnum};

use crate::commands::Command;

/// From a question about a Linux machine to a measured, cross-checked answer.
#[derive(Debug, Parser)]
#[command(
    name = "lotse",
    version = VERSION,
    long_version = LONG_VERSION,
    disable_help_subcommand = true,
    infer_subcommands = false,
    after_help = "Exit status: 0 done; 1 done, and a threshold or a check did not hold; 2 could not be done.",
)]
pub struct Arguments {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\nbuilt for ",
    env!("LOTSE_TARGET"),
    ", ",
    env!("LOTSE_PROFILE"),
    ", ",
    env!("LOTSE_RUSTC"),
    "\nwrites run.json 1, trace.dat 6 and 7; reads recipes of version 1",
);

/// Options that every command has.
#[derive(Debug, Args)]
pub struct Global {
    /// Say less on stderr: warnings and errors only
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Everywhere")]
    pub quiet: bool,
    /// Say more on stderr
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub verbose: bool,
    /// When to use colour
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Everywhere")]
    pub color: ColorChoice,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Also into pipes
    Always,
    /// Nowhere
    Never,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn options_do_not_contradict_each_other() {
        Arguments::command().debug_assert();
    }
}
