//! `lotse flame`: folded stacks, of lotse or others, as a flame graph; two runs as a comparison.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use report::Unit;
use report::flame::{self, Stack};

use crate::console::Console;
use crate::exit::Outcome;
use crate::stacks;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lotse trace -e 'profile:hz:99 { @[ustack, kstack] = count(); }' --folded --duration 10s > a.folded
  lotse flame a.folded                     as an indented tree, here
  lotse flame a.folded -o a.svg            a picture; opened in a browser it has search and zoom
  lotse flame a.folded b.folded -o diff.svg     what changed from a to b

Folded stacks are lines of `root;caller;leaf 42`; kernel functions end with _[k]. lotse trace --folded, perf
script with stackcollapse-perf.pl and most profilers write them.")]
pub struct Flame {
    /// Folded stacks (- for stdin)
    file: PathBuf,
    /// Folded stacks of a second run: its widths, with colours for what became more and less
    second: Option<PathBuf>,
    /// A picture (.svg) or a page (.html); without it a tree is printed
    #[arg(short, long, value_name = "FILE", value_parser = stacks::picture)]
    output: Option<PathBuf>,
    /// The title
    #[arg(long)]
    title: Option<String>,
    /// What the numbers count, in the plural; ns, us, ms and bytes are units
    #[arg(long, value_name = "WORD", default_value = "samples")]
    counted: String,
}

impl Flame {
    pub fn run(&self, console: &mut Console) -> anyhow::Result<Outcome> {
        let first = read(&self.file, console)?;
        let second = self.second.as_deref().map(|path| read(path, console)).transpose()?;
        let (unit, factor) = match self.counted.as_str() {
            "ns" => (Unit::Nanos, 1),
            "us" => (Unit::Nanos, 1_000),
            "ms" => (Unit::Nanos, 1_000_000),
            "bytes" => (Unit::Bytes, 1),
            _ => (Unit::Count, 1),
        };
        let scaled = |mut stacks: Vec<Stack>| {
            stacks.iter_mut().for_each(|stack| stack.weight = stack.weight.saturating_mul(factor));
            stacks
        };
        let name = |path: &Path| path.file_name().map_or("stdin".into(), |name| name.to_string_lossy().into_owned());
        let (stacks, before, title) = match (second, &self.second) {
            (Some(second), Some(path)) => {
                (second, Some(scaled(first)), format!("From {} to {}", name(&self.file), name(path)))
            }
            _ => (first, None, name(&self.file)),
        };
        let flame = flame::Flame {
            id: "stacks".into(),
            title: self.title.clone().unwrap_or(title).into(),
            about: None,
            unit,
            counted: self.counted.clone().into(),
            stacks: scaled(stacks),
            before,
        };
        match &self.output {
            Some(path) => {
                stacks::write(path, &[flame])?;
                console.say(&format!("{} written", path.display()));
            }
            None if flame.before.is_some() => {
                bail!("a comparison is a picture: say where to, -o FILE.svg or -o FILE.html")
            }
            None => {
                let text = report::text::flame(&flame, &console.text_options());
                console.out().write_all(text.as_bytes())?;
            }
        }
        Ok(Outcome::Done)
    }
}

fn read(path: &Path, console: &Console) -> anyhow::Result<Vec<Stack>> {
    let shown = path.display();
    let mut bytes = Vec::new();
    if path.as_os_str() == "-" {
        std::io::stdin().read_to_end(&mut bytes).context("cannot read stdin")?;
    } else {
        bytes = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    }
    let (stacks, wrong) = flame::Flame::parse_folded(&String::from_utf8_lossy(&bytes));
    if stacks.is_empty() && wrong > 0 {
        bail!("{shown} holds no folded stacks: each line is frames with ; between them, a blank and a whole number");
    }
    if stacks.is_empty() {
        console.warn(&format!("{shown} is empty: no stack was counted"));
    }
    if wrong > 0 {
        console.warn(&format!("{shown}: {wrong} lines are no folded stacks and are left out"));
    }
    Ok(stacks)
}
