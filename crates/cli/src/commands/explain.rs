//! `lotse explain`: what a message's code means, at length.

use clap::Args;
use lang::diagnostic::{CODES, Code};

use crate::console::Console;
use crate::exit::Outcome;

#[derive(Debug, Args)]
#[command(after_help = "Example: lotse explain L0001")]
pub struct Explain {
    /// The code in a message, such as L0001; without it, all codes are listed
    code: Option<String>,
}

impl Explain {
    pub fn run(&self, console: &mut Console) -> anyhow::Result<Outcome> {
        let Some(text) = &self.code else {
            for row in CODES {
                writeln!(console.out(), "{}  {}", row.code, row.title)?;
            }
            return Ok(Outcome::Done);
        };
        let Some(code) = Code::parse(text) else {
            anyhow::bail!("there is no code `{text}`; `lotse explain` lists all");
        };
        let row = code.row();
        writeln!(console.out(), "{}: {}\n\n{}", row.code, row.title, row.explanation)?;
        Ok(Outcome::Done)
    }
}
