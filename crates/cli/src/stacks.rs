//! Stacks that a program counted, folded on stdout or as a flame graph in a file: the options and what
//! becomes of them, for every command that runs a program.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use lang::schema::Schema;
use report::Unit;
use report::flame::{Flame, Stack};
use run::program::FoldedMap;
use run::program::folded::{Weight, maps_of_stacks};

use crate::console::Console;

/// What to make of maps of stacks.
#[derive(Debug, Default, Args)]
pub struct StackOptions {
    /// Print maps whose key holds a stack as folded stacks (`root;caller;leaf 42`), and nothing else
    #[arg(long, conflicts_with_all = ["format", "metrics", "flame"])]
    folded: bool,
    /// Draw maps whose key holds a stack as a flame graph, at the end: a picture (.svg) or a page (.html)
    #[arg(long, value_name = "FILE", value_parser = picture)]
    flame: Option<PathBuf>,
}

/// The form of a picture is told by its name.
pub fn picture(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg" | "html") => Ok(path),
        _ => Err("a flame graph is a picture, FILE.svg, or a page, FILE.html".into()),
    }
}

impl StackOptions {
    /// Whether stdout is folded stacks.
    pub fn folded(&self) -> bool {
        self.folded
    }

    /// Whether stacks are drawn at the end.
    pub fn drawn(&self) -> bool {
        self.flame.is_some()
    }

    /// Says before anything is traced that there will be nothing to fold or draw.
    pub fn check(&self, schema: &Schema) -> anyhow::Result<()> {
        let option = match &self.flame {
            Some(_) => "--flame",
            None if self.folded => "--folded",
            None => return Ok(()),
        };
        let maps = maps_of_stacks(schema);
        if maps.is_empty() {
            bail!(
                "{option} needs a map of stacks: a stack in the key and a number as value, as in @[kstack] = count() or @[comm, ustack] = sum($ns)"
            );
        }
        let is_picture = self.flame.as_deref().is_some_and(is_svg);
        if maps.len() > 1 && is_picture {
            let names: Vec<&str> = maps.iter().map(|id| schema.maps[id.0 as usize].name.as_str()).collect();
            bail!(
                "the program has {} maps of stacks ({}), a picture holds one: give --flame FILE.html, a page that holds all",
                maps.len(),
                names.join(", ")
            );
        }
        Ok(())
    }

    /// Writes the picture or page and says what is in it.
    pub fn draw(
        &self,
        schema: &Schema,
        program: &str,
        stacks: &[FoldedMap],
        span: Duration,
        console: &Console,
    ) -> anyhow::Result<()> {
        let Some(path) = &self.flame else { return Ok(()) };
        let flames: Vec<Flame> = stacks.iter().map(|map| flame(schema, program, map, span)).collect();
        write(path, &flames)?;
        for (map, flame) in stacks.iter().zip(&flames) {
            let total = flame.print(flame.total());
            console.say(&format!(
                "{}: {total} of {} in {} stacks",
                path.display(),
                map.name,
                map.stacks.len()
            ));
            if map.negative > 0 {
                console.warn(&format!(
                    "{}: {} stacks with a negative number have no width",
                    map.name, map.negative
                ));
            }
        }
        Ok(())
    }
}

fn is_svg(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "svg")
}

/// Writes graphs as the picture or page that the path asks for.
pub fn write(path: &Path, flames: &[Flame]) -> anyhow::Result<()> {
    let text = match flames {
        [flame] if is_svg(path) => report::flame_graph::svg(flame),
        _ => {
            let title = flames.first().map_or("Flame graph", |flame| flame.title.as_ref());
            report::flame_graph::page(title, flames)
        }
    };
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn flame(schema: &Schema, program: &str, map: &FoldedMap, span: Duration) -> Flame {
    let targets = schema.programs.iter().flat_map(|program| &program.targets);
    let mut probes: Vec<&str> = targets.map(|target| target.name.as_str()).collect();
    probes.dedup();
    let timed = |probe: &&str| ["profile:", "interval:"].iter().any(|kind| probe.starts_with(kind));
    let counted = if probes.iter().any(timed) { "samples" } else { "events" };
    let (unit, factor) = match map.weight {
        Weight::Count => (Unit::Count, 1),
        Weight::Sum => unit_of(&map.name),
    };
    let shown = match probes.len() {
        0..=3 => probes.join(", "),
        more => format!("{}, {} and {} more", probes[0], probes[1], more - 2),
    };
    let name = map.name.trim_start_matches('@');
    let stacks = map
        .stacks
        .iter()
        .map(|(frames, weight)| Stack { frames: frames.clone(), weight: weight.saturating_mul(factor) });
    Flame {
        id: format!("map-{name}").into(),
        title: if name.is_empty() { shown.clone() } else { format!("{name}: {shown}") }.into(),
        about: Some(
            format!(
                "Map {} of {program}, {} s. Widths are {}; a box stands on its caller.",
                map.name,
                report::number::fixed(span.as_secs_f64(), 1),
                match unit {
                    Unit::Count => counted.to_owned(),
                    Unit::Nanos => "time".into(),
                    Unit::Bytes => "bytes".into(),
                    _ => format!("what the program added up in {}", map.name),
                }
            )
            .into(),
        ),
        unit,
        counted: counted.into(),
        stacks: stacks.collect(),
        before: None,
    }
}

/// The unit that a map's name states (`@ns`, `@wait_us`, `@bytes`), and what to multiply by.
fn unit_of(name: &str) -> (Unit, u64) {
    match name.trim_start_matches('@').rsplit('_').next().unwrap_or("") {
        "ns" | "nsecs" => (Unit::Nanos, 1),
        "us" | "usecs" => (Unit::Nanos, 1_000),
        "ms" | "msecs" => (Unit::Nanos, 1_000_000),
        "bytes" => (Unit::Bytes, 1),
        _ => (Unit::Number, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_taken_from_names() {
        assert_eq!(unit_of("@wait_us"), (Unit::Nanos, 1_000));
        assert_eq!(unit_of("@bytes"), (Unit::Bytes, 1));
        assert_eq!(unit_of("@"), (Unit::Number, 1));
        assert!(picture("a.svg").is_ok() && picture("a.png").is_err());
    }
}
