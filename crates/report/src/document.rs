//! The document: what an analysis found, arranged for a reader, before any format.
//!
//! Each analysis is turned into a [`Document`] once; text, JSON, Markdown and HTML are
//! made from it. So a new analysis gets every format by one conversion, and a new format
//! serves every analysis. Order is that of reading: can it be trusted, what is the
//! answer, what supports it.

use crate::{
    chart::{Budget, Distribution, HeatMap, Timeline},
    flame::Flame,
    table::{Table, Text, Value},
};

/// A whole report.
#[derive(Clone, Debug)]
pub struct Document {
    /// What kind of report it is, in JSON: `sched`, `info`, `doctor`.
    pub kind: Text,
    /// Its title.
    pub title: Text,
    /// The question it answers, as the recipe states it.
    pub question: Option<Text>,
    /// The answer in one or two sentences.
    pub answer: Vec<String>,
    /// Where, when and how it was measured.
    pub facts: Vec<Fact>,
    /// What happened, was recorded, was lost.
    pub ledger: Option<Ledger>,
    /// The same quantities from other sources.
    pub checks: Vec<Check>,
    /// Limits that the recipe sets.
    pub limits: Vec<Limit>,
    /// What a reader has to know before believing it.
    pub notices: Vec<Notice>,
    /// What supports the answer.
    pub sections: Vec<Section>,
}

impl Document {
    /// An empty document of this kind.
    pub fn new(kind: impl Into<Text>, title: impl Into<Text>) -> Document {
        Document {
            kind: kind.into(),
            title: title.into(),
            question: None,
            answer: Vec::new(),
            facts: Vec::new(),
            ledger: None,
            checks: Vec::new(),
            limits: Vec::new(),
            notices: Vec::new(),
            sections: Vec::new(),
        }
    }

    /// Adds a fact of the kind that only a closer look needs.
    pub fn fact(&mut self, key: impl Into<Text>, title: impl Into<Text>, value: Value) {
        self.facts.push(Fact { key: key.into(), title: title.into(), value, headline: false });
    }

    /// Adds a fact that stands in the first line: host, kernel, span.
    pub fn headline_fact(&mut self, key: impl Into<Text>, title: impl Into<Text>, value: Value) {
        self.facts.push(Fact { key: key.into(), title: title.into(), value, headline: true });
    }

    /// Adds a notice.
    pub fn notice(&mut self, level: Level, text: impl Into<String>) {
        self.notices.push(Notice { level, text: text.into(), remedy: None });
    }

    /// Whether every limit holds and no check contradicts: exit code 0 rather than 1.
    pub fn holds(&self) -> bool {
        self.limits.iter().all(|l| l.holds != Some(false))
            && self.checks.iter().all(|c| c.verdict != Verdict::Differs)
            && self.ledger.as_ref().is_none_or(|l| l.closes != Some(false))
    }
}

/// One circumstance of the measurement.
#[derive(Clone, Debug)]
pub struct Fact {
    /// Its name in JSON, without the unit's ending.
    pub key: Text,
    /// Its name for people.
    pub title: Text,
    /// What it is.
    pub value: Value,
    /// Whether it belongs in the first line.
    pub headline: bool,
}

/// How good or bad something is. Said in words and by a mark, never by colour alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Good,
    /// Worth knowing.
    Note,
    /// The numbers have to be read with care.
    Warning,
    /// Does not hold, or not to be relied on.
    Bad,
}

impl Level {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Level::Good => "ok",
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Bad => "failed",
        }
    }

    /// The mark for it, one column wide.
    pub fn mark(self) -> &'static str {
        match self {
            Level::Good => "✓",
            Level::Note => "·",
            Level::Warning => "!",
            Level::Bad => "✗",
        }
    }
}

/// Something to know before believing the numbers, with what to do about it.
#[derive(Clone, Debug)]
pub struct Notice {
    /// How much it matters.
    pub level: Level,
    /// What it is and what it means for the numbers.
    pub text: String,
    /// What to do, as a command or a sentence.
    pub remedy: Option<String>,
}

/// The account of events: happened = recorded + lost + filtered.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// Events that happened, where something counted them independently.
    pub happened: Value,
    /// Events in the recording.
    pub recorded: Value,
    /// Events lost, or why that is not known.
    pub lost: Value,
    /// Events left out on purpose.
    pub filtered: Value,
    /// Whether both sides are equal; `None` when not every term is known.
    pub closes: Option<bool>,
    /// What to do against the loss.
    pub remedy: Option<String>,
    /// The account by CPU, buffer or event, where losses have a place.
    pub places: Option<Table>,
}

impl Ledger {
    /// How good the account is: losses are a warning, an account that does not close is worse.
    pub fn level(&self) -> Level {
        match (self.closes, &self.lost) {
            (Some(false), _) => Level::Bad,
            (_, Value::Count(0)) => Level::Good,
            (_, Value::Count(_)) => Level::Warning,
            _ => Level::Note,
        }
    }
}

/// One quantity from two sources.
#[derive(Clone, Debug)]
pub struct Check {
    /// Its name in JSON.
    pub key: Text,
    /// The quantity: `context switches`.
    pub what: Text,
    /// As computed from the events.
    pub ours: Value,
    /// As the other source has it.
    pub theirs: Value,
    /// The other source: `/proc/stat ctxt`.
    pub source: Text,
    /// The difference relative to the other source, signed.
    pub difference: Value,
    /// Whether they agree.
    pub verdict: Verdict,
    /// The bound for the difference, or the reason for it sought in the order filters,
    /// losses, clock, or why there was nothing to compare.
    pub reason: Option<String>,
}

/// What a cross-check says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Equal within the stated bound.
    Agrees,
    /// Not equal, and a filter, a loss or the clock explains it: a limit of this measurement,
    /// not a contradiction.
    Explained,
    /// Not equal for no reason known.
    Differs,
    /// One side is not to be had; the reason says why.
    Unavailable,
}

impl Verdict {
    /// As a level.
    pub fn level(self) -> Level {
        match self {
            Verdict::Agrees => Level::Good,
            Verdict::Explained => Level::Warning,
            Verdict::Differs => Level::Bad,
            Verdict::Unavailable => Level::Note,
        }
    }

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Explained => "differs, explained",
            Verdict::Differs => "differs",
            Verdict::Unavailable => "not checked",
        }
    }
}

/// A limit that the recipe sets, and what was found.
#[derive(Clone, Debug)]
pub struct Limit {
    /// What is limited: `p99 of the wait for the CPU`.
    pub what: Text,
    /// The limit.
    pub limit: Value,
    /// What was found.
    pub found: Value,
    /// Whether it holds; `None` when it could not be decided.
    pub holds: Option<bool>,
}

impl Limit {
    /// How good or bad it is.
    pub fn level(&self) -> Level {
        match self.holds {
            Some(true) => Level::Good,
            Some(false) => Level::Bad,
            None => Level::Note,
        }
    }
}

/// A part of the report with one point.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its anchor in HTML and its name in JSON, unique in the document.
    pub id: Text,
    /// Its title.
    pub title: Text,
    /// What it says, in a sentence or two.
    pub lead: Option<String>,
    /// What supports that.
    pub blocks: Vec<Block>,
    /// Whether text output shows it too, or leaves it to `--format html|json|markdown`.
    pub brief: bool,
}

impl Section {
    /// An empty section that every format shows.
    pub fn new(id: impl Into<Text>, title: impl Into<Text>) -> Section {
        Section { id: id.into(), title: title.into(), lead: None, blocks: Vec::new(), brief: true }
    }

    /// With a sentence that says its point.
    pub fn lead(mut self, lead: impl Into<String>) -> Section {
        self.lead = Some(lead.into());
        self
    }

    /// Left out of text output.
    pub fn detail(mut self) -> Section {
        self.brief = false;
        self
    }

    /// With one more block.
    pub fn with(mut self, block: impl Into<Block>) -> Section {
        self.blocks.push(block.into());
        self
    }
}

/// A thing in a section that each format renders in its own way.
#[derive(Clone, Debug)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A table.
    Table(Table),
    /// A distribution with its percentiles.
    Distribution(Distribution),
    /// Time × magnitude with counts.
    HeatMap(HeatMap),
    /// Where the time of each row went.
    Budget(Budget),
    /// Tracks over time, in lanes.
    Timeline(Timeline),
    /// Stacks merged by their callers.
    Flame(Flame),
    /// Findings with remedies.
    Findings(Findings),
}

/// A list of findings, each with what it means and what mends it (`lotse doctor`).
#[derive(Clone, Debug)]
pub struct Findings {
    /// Its name in JSON.
    pub id: Text,
    /// The findings, in reading order.
    pub items: Vec<Finding>,
}

/// One finding.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Its name in JSON.
    pub key: Text,
    /// How good or bad.
    pub level: Level,
    /// What was looked at: `tracefs`.
    pub what: Text,
    /// What was found: `not mounted`.
    pub found: String,
    /// What that means.
    pub meaning: Option<String>,
    /// The command or sentence that mends it.
    pub remedy: Option<String>,
}

macro_rules! block_from {
    ($($variant:ident($type:ty)),*) => {
        $(impl From<$type> for Block {
            fn from(value: $type) -> Block {
                Block::$variant(value)
            }
        })*
    };
}
block_from!(
    Text(String),
    Table(Table),
    Distribution(Distribution),
    HeatMap(HeatMap),
    Budget(Budget),
    Timeline(Timeline),
    Flame(Flame),
    Findings(Findings)
);
