//! `lotse completions`: a script for the user's shell.

use clap::builder::PossibleValuesParser;
use clap::{Args, CommandFactory};

use super::Arguments;
use crate::console::Console;
use crate::exit::Outcome;

#[derive(Debug, Args)]
#[command(after_help = "Example: lotse completions bash > ~/.local/share/bash-completion/completions/lotse")]
pub struct Completions {
    /// The shell
    shell: clap_complete::Shell,
}

impl Completions {
    pub fn run(&self, console: &mut Console) -> anyhow::Result<Outcome> {
        // The generator panics where it cannot write; a buffer always takes it.
        let mut script = Vec::new();
        let tools = run::tool::SHELF.iter().map(|(name, _)| *name);
        let mut command = Arguments::command().mut_subcommand("tool", |tool| {
            // For the script alone: what follows a tool's name is the tool's own affair.
            tool.mut_arg("words", |words| words.value_parser(PossibleValuesParser::new(tools)))
        });
        clap_complete::generate(self.shell, &mut command, "lotse", &mut script);
        console.out().write_all(&script)?;
        Ok(Outcome::Done)
    }
}
