//! `lotse man`: the manual pages, from the same declarations as the help.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};

use super::Arguments;
use crate::console::Console;
use crate::exit::Outcome;

#[derive(Debug, Args)]
#[command(after_help = "Example: lotse man | man -l -")]
pub struct Man {
    /// Write a page for each command into this folder instead: lotse.1, lotse-run.1, …
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

impl Man {
    pub fn run(&self, console: &mut Console) -> anyhow::Result<Outcome> {
        let mut command = Arguments::command();
        command.build();
        let Some(folder) = &self.output else {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            console.out().write_all(&page)?;
            return Ok(Outcome::Done);
        };
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}; name another one", folder.display()))?;
        clap_mangen::generate_to(command, folder)
            .with_context(|| format!("cannot write the pages into {}; name another folder", folder.display()))?;
        console.say(&format!("manual pages are in {}", folder.display()));
        Ok(Outcome::Done)
    }
}
