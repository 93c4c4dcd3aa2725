//! The commands, one file each. To add one: its file, its line in the list below.

use clap::Subcommand;

use crate::console::Console;
use crate::exit::Outcome;

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
    /// A program in the bpftrace language: attached within milliseconds, its output printed
    trace::Trace,
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
