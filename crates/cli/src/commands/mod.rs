//! The command line: the commands, one file each. To add one: its file, its line in the
//! list below.

use clap::{Parser, Subcommand};

use crate::console::Console;
use crate::exit::Outcome;
use crate::global::Global;

/// From a question about a Linux machine to a measured, cross-checked answer.
#[derive(Debug, Parser)]
#[command(
    name = "lotse",
    version = VERSION,
    long_version = LONG_VERSION,
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

macro_rules! commands {
    ($($(#[doc = $doc:literal])* $module:ident :: $name:ident,)*) => {
        $(mod $module;)*

        /// What lotse does.
        #[derive(Debug, Subcommand)]
        pub enum Command {
            $($(#[doc = $doc])* $name($module::$name),)*
        }

        /// Runs one of them.
        pub fn run(command: &Command, console: &mut Console) -> anyhow::Result<Outcome> {
            match command {
                $(Command::$name(command) => command.run(console),)*
            }
        }
    };
}

commands! {
    /// What this host lets you trace, what is in the way, and the command that mends it
    doctor::Doctor,
    /// Events of this kernel, their fields and types
    list::List,
    /// A whole measured run: preflight, recording, analysis, cross-check, report
    run::Run,
    /// A ready tool: an everyday question answered by a program that comes with lotse
    tool::Tool,
    /// A program in the bpftrace language: attached within milliseconds, its output printed
    trace::Trace,
    /// Folded stacks as a flame graph; two runs as a comparison
    flame::Flame,
    /// Raw events to a trace file
    record::Record,
    /// A trace file or run folder to an answer
    report::Report,
    /// What a trace file holds, and who made it
    info::Info,
    /// The kept run folders, and which may go
    runs::Runs,
    /// What a message's code means
    explain::Explain,
    /// Shell completions, as a script on stdout
    completions::Completions,
    /// The manual page, in roff, on stdout
    man::Man,
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
