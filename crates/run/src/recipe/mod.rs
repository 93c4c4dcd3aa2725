//! Recipes: a question with all that is needed to answer it again, as a TOML text.
//!
//! Text in; a [`Recipe`] or every problem of the text out, each with its line and what to
//! write instead. Opens no file.

mod reader;
mod text;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use crate::quantity::{format_bytes, format_duration, parse_bytes, parse_duration};
pub use reader::{Problem, Problems};
pub use text::parse;

use crate::metric::Metric;

/// A question and how it is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// Short name, part of run folders' names: letters, digits, `-` and `_`.
    pub name: String,
    /// The question in a user's words.
    pub question: String,
    /// The events to record, in order. At least one.
    pub events: Vec<RecipeEvent>,
    /// The trace clock.
    pub clock: Clock,
    /// How long a run takes at most; `None`: until its command ends, or Ctrl-C.
    pub duration: Option<Duration>,
    /// What of the beginning is recorded and not analysed.
    pub warm_up: Duration,
    /// The rings.
    pub ring: RingPolicy,
    /// The most that the recording may take on disk; `None`: what is free, less a reserve.
    pub max_disk_bytes: Option<u64>,
    /// What is made of the events.
    pub analyses: Vec<Analysis>,
    /// What has to hold for exit status 0.
    pub thresholds: Vec<Threshold>,
    /// When run folders of this recipe may be removed by `lotse runs prune`.
    pub keep: Keep,
}

/// An event, or several by pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecipeEvent {
    /// `system:name`, with `*` and `?`.
    pub pattern: String,
    /// A filter in the kernel's language.
    pub filter: Option<String>,
    /// Whether a kernel without it cannot answer the question. Optional ones are left out
    /// there, and the run says so.
    pub required: bool,
}

/// The trace clocks that a recipe may name: all count nanoseconds and compare between CPUs
/// better than ftrace's `local` does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// `CLOCK_MONOTONIC`.
    #[default]
    Mono,
    /// `CLOCK_MONOTONIC_RAW`.
    MonoRaw,
    /// `CLOCK_BOOTTIME`.
    Boot,
    /// `CLOCK_TAI`.
    Tai,
}

impl Clock {
    /// All of them, by the names ftrace gives them.
    pub const ALL: [(&'static str, Clock); 4] =
        [("mono", Clock::Mono), ("mono_raw", Clock::MonoRaw), ("boot", Clock::Boot), ("tai", Clock::Tai)];

    /// The name ftrace gives it.
    pub fn name(self) -> &'static str {
        Clock::ALL.iter().find(|(_, clock)| *clock == self).map_or("mono", |(name, _)| name)
    }
}

/// How the rings are sized and what a full one does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingPolicy {
    /// Bytes for each CPU; `None`: from the measured rate.
    pub bytes_per_cpu: Option<u64>,
    /// What happens to events that a full ring has no room for.
    pub when_full: WhenFull,
}

/// What happens to events that a full ring has no room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// The oldest page gives way: losses have their place.
    #[default]
    Overwrite,
    /// New events are refused: the beginning is kept.
    Refuse,
}

/// An analysis that a recipe may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Analysis {
    /// Run-queue wait, time budgets, off-CPU time, migrations.
    Sched,
}

impl Analysis {
    /// All of them by name.
    pub const ALL: [(&'static str, Analysis); 1] = [("sched", Analysis::Sched)];
}

/// A limit on one number of the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// The number.
    pub metric: Metric,
    /// Which side is allowed.
    pub side: Side,
    /// The limit, in the metric's own unit.
    pub limit: f64,
    /// What to do when it does not hold, in the recipe's words.
    pub then: Option<String>,
}

/// Which side of a limit is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Up to the limit and the limit itself.
    AtMost,
    /// The limit itself and above.
    AtLeast,
}

impl Threshold {
    /// Whether `found` is on the allowed side.
    pub fn holds(&self, found: f64) -> bool {
        match self.side {
            Side::AtMost => found <= self.limit,
            Side::AtLeast => found >= self.limit,
        }
    }
}

/// How long run folders are kept; without either they are kept for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// Removable when older.
    pub age: Option<Duration>,
    /// Removable when so many newer runs of the recipe exist.
    pub runs: Option<u32>,
}

/// Recipes that are part of the program: name and text.
pub const BUILT_IN: &[(&str, &str)] = &[("sched", include_str!("../../../../recipes/sched.toml"))];

/// The text of a built-in recipe.
pub fn built_in(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_recipe_is_right_and_named_after_its_file() {
        for (name, text) in BUILT_IN {
            let recipe = parse(text).unwrap_or_else(|problems| panic!("{name}: {problems}"));
            assert_eq!(recipe.name, *name);
            assert!(!recipe.analyses.is_empty());
            assert!(recipe.question.ends_with('?'), "{name}: {}", recipe.question);
        }
    }

    #[test]
    fn every_file_in_the_recipe_folder_is_built_in() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../recipes");
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".toml")?.to_owned()))
            .collect();
        names.sort();
        let mut known: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
        known.sort();
        assert_eq!(names, known);
    }
}
