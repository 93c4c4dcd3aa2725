//! `lotse man`: the manual pages, from the same declarations as the help.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Command, CommandFactory};
use run::tool;

use super::Arguments;
use crate::console::Console;
use crate::exit::Outcome;

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lotse man | man -l -                   the whole command
  lotse man tool-runqlat | man -l -      one tool
  lotse man -o /usr/local/share/man/man1")]
pub struct Man {
    /// The page of this command (record) or tool (tool-runqlat) instead of the whole
    page: Option<String>,
    /// Write a page for each command into this folder instead: lotse.1, lotse-run.1, …
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

impl Man {
    pub fn run(&self, console: &mut Console) -> anyhow::Result<Outcome> {
        let mut command = Arguments::command();
        command.build();
        if let Some(page) = &self.page {
            let text = one(&command, page)?;
            console.out().write_all(&text)?;
            return Ok(Outcome::Done);
        }
        let Some(folder) = &self.output else {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            console.out().write_all(&page)?;
            return Ok(Outcome::Done);
        };
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}; name another one", folder.display()))?;
        let refused = || format!("cannot write the pages into {}; name another folder", folder.display());
        clap_mangen::generate_to(command, folder).with_context(refused)?;
        for tool in tool::SHELF.iter().filter_map(|(name, _)| tool::find(name)?.ok()) {
            let path = folder.join(format!("lotse-tool-{}.1", tool.name));
            std::fs::write(path, tool::document::manual(&tool, VERSION)).with_context(refused)?;
        }
        console.say(&format!("manual pages are in {}", folder.display()));
        Ok(Outcome::Done)
    }
}

/// The page of a command, or of a tool by `tool-NAME`.
fn one(command: &Command, page: &str) -> anyhow::Result<Vec<u8>> {
    if let Some(name) = page.strip_prefix("tool-") {
        return match tool::find(name) {
            Some(Ok(tool)) => Ok(tool::document::manual(&tool, VERSION).into_bytes()),
            _ => match tool::near(name).as_slice() {
                [] => bail!("there is no tool `{name}`; `lotse list tools` shows all"),
                near => bail!("there is no tool `{name}`; did you mean tool-{}?", near.join(", tool-")),
            },
        };
    }
    let page = page.strip_prefix("lotse-").unwrap_or(page);
    let Some(found) = command.get_subcommands().find(|command| command.get_name() == page) else {
        bail!("there is no command `{page}`; `lotse --help` shows all, tools are called tool-NAME");
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(found.clone()).render(&mut text)?;
    Ok(text)
}
