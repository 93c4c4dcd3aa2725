//! `lotse doctor`: what this host lets one trace. Facts come from `kernel`, what they mean
//! and what mends them is said in the table of findings.

mod findings;

use std::collections::BTreeSet;

use bpf::KernelFacts;
use bpf::facts::Feature;
use clap::Args;
use kernel::facts::LiveFacts;
use kernel::facts_host::{Abilities, HostFacts, KernelConfig};
use report::Document;
use report::document::{Block, Finding, Findings, Level, Section};
use report::table::Value;
use serde::Serialize;

use crate::console::Console;
use crate::exit::Outcome;
use crate::json::Head;

#[derive(Debug, Default, Args)]
#[command(after_help = "Exit status 1 when something that `lotse run` needs is not there.")]
pub struct Doctor {
    /// As JSON, schema 1: facts and findings
    #[arg(long)]
    json: bool,
}

/// All that was looked at.
pub(crate) struct Examined {
    pub host: HostFacts,
    pub abilities: Abilities,
    pub config: KernelConfig,
    /// What eBPF can do here, each tried.
    pub features: BTreeSet<Feature>,
}

/// What `lotse trace` builds on.
const FEATURES: &[Feature] =
    &[Feature::RawTracepoint, Feature::TpBtf, Feature::RingBuf, Feature::Fentry, Feature::KprobeMulti, Feature::UprobeMulti];

impl Examined {
    fn gather() -> Examined {
        let facts = LiveFacts::new();
        Examined {
            host: HostFacts::gather(),
            abilities: Abilities::gather(),
            config: KernelConfig::gather(),
            features: FEATURES.iter().copied().filter(|&feature| facts.has(feature)).collect(),
        }
    }
}

impl Doctor {
    pub fn run(&self, console: &mut Console) -> anyhow::Result<Outcome> {
        let examined = Examined::gather();
        let groups = findings::all(&examined);
        let worst = groups.iter().flat_map(|(_, findings)| findings).map(|f| f.level).max();
        if self.json {
            print_json(&examined, &groups, console)?;
        } else {
            let options = console.text_options();
            let text = report::text::document(&document(&examined, groups), &options);
            console.out().write_all(text.as_bytes())?;
        }
        Ok(if worst == Some(Level::Bad) { Outcome::DoesNotHold } else { Outcome::Done })
    }
}

fn document(examined: &Examined, groups: Vec<(&'static str, Vec<Finding>)>) -> Document {
    let mut document = Document::new("doctor", "What this host lets lotse do");
    let kernel = &examined.host.kernel;
    document.headline_fact("host", "host", Value::text(kernel.host_name.clone()));
    document.headline_fact("kernel", "kernel", Value::text(format!("Linux {} {}", kernel.release, kernel.machine)));
    document.answer = vec![answer(&groups)];
    for (title, items) in groups {
        let id = title.replace(' ', "-");
        let mut section = Section::new(id.clone(), title);
        section.blocks.push(Block::Findings(Findings { id: id.into(), items }));
        document.sections.push(section);
    }
    document
}

fn answer(groups: &[(&'static str, Vec<Finding>)]) -> String {
    let of = |level| groups.iter().flat_map(|(_, all)| all).filter(|f| f.level == level).collect::<Vec<_>>();
    let names = |all: &[&Finding]| all.iter().map(|f| f.what.as_ref()).collect::<Vec<_>>().join(", ");
    let (bad, warnings) = (of(Level::Bad), of(Level::Warning));
    match (bad.is_empty(), warnings.is_empty()) {
        (false, _) => format!("`lotse run` cannot work here until this is mended: {}.", names(&bad)),
        (true, false) => format!("`lotse run` works here. Limits to know: {}.", names(&warnings)),
        (true, true) => "`lotse run` works here, and nothing is in the way.".to_owned(),
    }
}

#[derive(Serialize)]
struct Json<'a> {
    lotse: Head,
    host: &'a HostFacts,
    abilities: &'a Abilities,
    features: &'a BTreeSet<Feature>,
    findings: Vec<JsonFinding<'a>>,
}

#[derive(Serialize)]
struct JsonFinding<'a> {
    group: &'static str,
    key: &'a str,
    level: &'static str,
    what: &'a str,
    found: &'a str,
    meaning: Option<&'a str>,
    remedy: Option<&'a str>,
}

fn print_json(
    examined: &Examined,
    groups: &[(&'static str, Vec<Finding>)],
    console: &mut Console,
) -> anyhow::Result<()> {
    let findings = groups.iter().flat_map(|(group, findings)| {
        findings.iter().map(|finding| JsonFinding {
            group,
            key: &finding.key,
            level: finding.level.word(),
            what: &finding.what,
            found: &finding.found,
            meaning: finding.meaning.as_deref(),
            remedy: finding.remedy.as_deref(),
        })
    });
    let json = Json {
        lotse: Head::new("doctor"),
        host: &examined.host,
        abilities: &examined.abilities,
        features: &examined.features,
        findings: findings.collect(),
    };
    serde_json::to_writer_pretty(console.out(), &json)?;
    writeln!(console.out())?;
    Ok(())
}
