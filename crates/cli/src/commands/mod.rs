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
    /// Raw events to a trace file
    record::Record,
    /// Shell completions, as a script on stdout
    completions::Completions,
    /// The manual page, in roff, on stdout
    man::Man,
}
