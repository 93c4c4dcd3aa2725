//! The first lines of a tool, read strictly: question, text, then named sections.

use std::fmt;

use crate::program::table::{TableSpec, TableValue};

/// What a tool's first lines say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The question that it answers; ends with a question mark.
    pub question: String,
    /// What is measured, from which event to which; paragraphs.
    pub text: Vec<String>,
    /// Its place on the shelf.
    pub family: Family,
    /// Tools of other collections that answer the same question.
    pub peers: Vec<Peer>,
    /// What its command line begins with, before an interval: `PROBE`, `FUNCTION`; none for most tools.
    pub arguments: Vec<Described>,
    /// What it prints: columns, fields, maps.
    pub columns: Vec<Described>,
    /// Maps that print as tables.
    pub tables: Vec<TableSpec>,
    /// Command lines.
    pub examples: Vec<Described>,
    /// How many events a second it has to handle.
    pub rate: String,
    /// Measured cost per event; none as long as nobody measured it.
    pub cost: Option<String>,
    /// What it cannot see or gets wrong.
    pub limits: String,
    /// Other tools.
    pub see_also: Vec<String>,
}

/// What tools are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the names say it
pub enum Family {
    Scheduler,
    Processes,
    Files,
    Block,
    Network,
    Memory,
    Interrupts,
    Locks,
    Syscalls,
    Applications,
}

impl Family {
    /// All, in the order of the documentation.
    pub const ALL: [Family; 10] = [
        Family::Scheduler,
        Family::Processes,
        Family::Files,
        Family::Block,
        Family::Network,
        Family::Memory,
        Family::Interrupts,
        Family::Locks,
        Family::Syscalls,
        Family::Applications,
    ];

    /// As headers write it.
    pub fn name(self) -> &'static str {
        match self {
            Family::Scheduler => "scheduler",
            Family::Processes => "processes",
            Family::Files => "files",
            Family::Block => "block",
            Family::Network => "network",
            Family::Memory => "memory",
            Family::Interrupts => "interrupts",
            Family::Locks => "locks",
            Family::Syscalls => "syscalls",
            Family::Applications => "applications",
        }
    }
}

/// A tool of another collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// `runqlat`, `runqlat.bt`.
    pub name: String,
    /// `BCC`, `libbpf-tools`, `bpftrace`.
    pub collection: String,
    /// What differs, where the header says so.
    pub differs: Option<String>,
}

/// Something and what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// A column, a command line.
    pub name: String,
    /// In words; may be empty for a command line.
    pub meaning: String,
}

/// What is wrong in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderError {
    /// Line of the file, from 1.
    pub line: usize,
    /// The section: `Columns`, or `question` and `text` before the first.
    pub section: String,
    /// What is wrong with it and how it should be.
    pub message: String,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.line, self.section, self.message)
    }
}

const SECTIONS: [&str; 10] =
    ["Family", "Peers", "Arguments", "Columns", "Table", "Examples", "Rate", "Cost", "Limits", "See also"];
/// Where peers come from.
const COLLECTIONS: [&str; 7] =
    ["BCC", "libbpf-tools", "bpftrace", "perf", "perf-tools", "sysstat", "iproute2"];
/// Sections that every tool has.
const NEEDED: [&str; 6] = ["Family", "Columns", "Examples", "Rate", "Limits", "See also"];

/// A section as it stands: its line, its name, what follows the colon, and the lines below with their numbers.
struct Section<'t> {
    line: usize,
    name: &'static str,
    first: &'t str,
    rest: Vec<(usize, &'t str)>,
}

/// Reads the header of a tool; all that is wrong is told at once.
pub fn parse(name: &str, text: &str) -> Result<Header, Vec<HeaderError>> {
    let mut reader = Reader { name, errors: Vec::new() };
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    let lines: Vec<(usize, &str)> = lines
        .skip_while(|(_, line)| line.starts_with("#!"))
        .map_while(|(at, line)| {
            let line = line.strip_prefix("//")?;
            Some((at, line.strip_prefix(' ').unwrap_or(line).trim_end()))
        })
        .collect();
    let question = reader.question(lines.first().copied());
    let is_section = |line: &str| section_of(line).is_some();
    let body = lines.iter().skip(1).take_while(|(_, line)| !is_section(line));
    let body_lines: Vec<&str> = body.map(|(_, line)| *line).collect();
    let text = paragraphs(&body_lines);
    if text.is_empty() {
        reader.wrong(2, "text", "say in a paragraph what is measured, from which event to which");
    }
    let sections = reader.sections(&lines[(1 + body_lines.len()).min(lines.len())..]);
    let end = lines.last().map_or(1, |(at, _)| *at);
    for needed in NEEDED {
        if !sections.iter().any(|section| section.name == needed) {
            reader.wrong(end, needed, "is missing");
        }
    }
    let mut header = Header {
        question,
        text,
        family: Family::Scheduler,
        peers: Vec::new(),
        arguments: Vec::new(),
        columns: Vec::new(),
        tables: Vec::new(),
        examples: Vec::new(),
        rate: String::new(),
        cost: None,
        limits: String::new(),
        see_also: Vec::new(),
    };
    for section in &sections {
        match section.name {
            "Family" => header.family = reader.family(section).unwrap_or(header.family),
            "Peers" => header.peers = reader.peers(section),
            "Arguments" => header.arguments = reader.arguments(section),
            "Columns" => header.columns = reader.columns(section),
            "Table" => header.tables.extend(reader.table(section)),
            "Examples" => header.examples = reader.examples(section),
            "Rate" => header.rate = reader.prose(section),
            "Cost" => header.cost = Some(reader.prose(section)),
            "Limits" => header.limits = reader.prose(section),
            _ => header.see_also = names(&reader.prose(section)),
        }
    }
    if reader.errors.is_empty() { Ok(header) } else { Err(reader.errors) }
}

fn section_of(line: &str) -> Option<(&'static str, &str)> {
    SECTIONS.iter().find_map(|name| Some((*name, line.strip_prefix(name)?.strip_prefix(':')?.trim())))
}

fn paragraphs(lines: &[&str]) -> Vec<String> {
    let groups = lines.split(|line| line.trim().is_empty()).filter(|group| !group.is_empty());
    groups.map(|group| group.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")).collect()
}

fn names(text: &str) -> Vec<String> {
    let names = text.split([',', ' ']).map(str::trim).filter(|name| !name.is_empty() && *name != "none");
    names.map(str::to_owned).collect()
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

struct Reader<'n> {
    name: &'n str,
    errors: Vec<HeaderError>,
}

impl Reader<'_> {
    fn wrong(&mut self, line: usize, section: &str, message: impl Into<String>) {
        self.errors.push(HeaderError { line, section: section.to_owned(), message: message.into() });
    }

    fn question(&mut self, first: Option<(usize, &str)>) -> String {
        let (line, text) = first.unwrap_or((1, ""));
        match text.strip_prefix(self.name).and_then(|rest| rest.strip_prefix(':')).map(str::trim) {
            Some(question) if question.ends_with('?') && question.len() > 8 => question.to_owned(),
            _ => {
                let message = format!("the first line is `// {}: QUESTION?`", self.name);
                self.wrong(line, "question", message);
                String::new()
            }
        }
    }

    fn sections<'t>(&mut self, lines: &[(usize, &'t str)]) -> Vec<Section<'t>> {
        let mut sections: Vec<Section<'t>> = Vec::new();
        for (line, text) in lines {
            if let Some((name, first)) = section_of(text) {
                if name != "Table" && sections.iter().any(|section| section.name == name) {
                    self.wrong(*line, name, "is there twice");
                }
                sections.push(Section { line: *line, name, first, rest: Vec::new() });
            } else if text.is_empty() {
                // Blank lines may stand between sections.
            } else if text.starts_with(' ') {
                if let Some(section) = sections.last_mut() {
                    section.rest.push((*line, text));
                }
            } else {
                let message =
                    format!("`{text}` is no section ({}) and no indented line of one", SECTIONS.join(", "));
                let section = sections.last().map_or("text", |section| section.name);
                self.wrong(*line, section, message);
            }
        }
        sections
    }

    fn prose(&mut self, section: &Section<'_>) -> String {
        let lines = std::iter::once(section.first).chain(section.rest.iter().map(|(_, line)| line.trim()));
        let text: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        if text.is_empty() {
            self.wrong(section.line, section.name, "is empty");
        }
        text.join(" ")
    }

    fn family(&mut self, section: &Section<'_>) -> Option<Family> {
        let found = Family::ALL.into_iter().find(|family| family.name() == section.first);
        if found.is_none() {
            let all: Vec<&str> = Family::ALL.iter().map(|family| family.name()).collect();
            let message = format!("`{}` is none of {}", section.first, all.join(", "));
            self.wrong(section.line, section.name, message);
        }
        found
    }

    /// `runqlat (BCC), runqlat.bt`, and `runqlat (BCC): what differs` on a line of its own below.
    fn peers(&mut self, section: &Section<'_>) -> Vec<Peer> {
        let mut peers: Vec<Peer> = Vec::new();
        let listed =
            section.first.split(',').map(str::trim).filter(|word| !word.is_empty() && *word != "none");
        let mut lines: Vec<(usize, &str, Option<&str>)> =
            listed.map(|word| (section.line, word, None)).collect();
        for (line, text) in &section.rest {
            match text.trim().split_once(": ") {
                Some((peer, differs)) => lines.push((*line, peer, Some(differs))),
                None => lines.extend(
                    text.split(',')
                        .map(str::trim)
                        .filter(|word| !word.is_empty())
                        .map(|word| (*line, word, None)),
                ),
            }
        }
        for (line, word, differs) in lines {
            let (name, collection) = match word.split_once(" (") {
                Some((name, rest)) => (name, rest.strip_suffix(')').unwrap_or(rest)),
                None if word.ends_with(".bt") => (word, "bpftrace"),
                None => (word, ""),
            };
            if !COLLECTIONS.contains(&collection) {
                let message = format!(
                    "`{word}` should be like `runqlat (BCC)`, `runqlat (libbpf-tools)` or `runqlat.bt`"
                );
                self.wrong(line, section.name, message);
                continue;
            }
            let differs = differs.map(str::to_owned);
            match peers.iter_mut().find(|peer| peer.name == name && peer.collection == collection) {
                Some(peer) => peer.differs = differs,
                None => {
                    peers.push(Peer { name: name.to_owned(), collection: collection.to_owned(), differs })
                }
            }
        }
        peers
    }

    /// A name, two blanks or more, and what it means; deeper lines go on with it.
    fn entries(&mut self, section: &Section<'_>) -> Vec<(usize, Described)> {
        if !section.first.is_empty() {
            self.wrong(section.line, section.name, "has its entries on the indented lines below");
        }
        let least = section.rest.iter().map(|(_, line)| indent(line)).min().unwrap_or(0);
        let mut entries: Vec<(usize, Described)> = Vec::new();
        for (line, text) in &section.rest {
            let trimmed = text.trim();
            match entries.last_mut() {
                Some((_, last)) if indent(text) > least => {
                    if !last.meaning.is_empty() {
                        last.meaning.push(' ');
                    }
                    last.meaning.push_str(trimmed);
                }
                _ => {
                    let (name, meaning) = trimmed.split_once("  ").unwrap_or((trimmed, ""));
                    let entry = Described { name: name.to_owned(), meaning: meaning.trim().to_owned() };
                    entries.push((*line, entry));
                }
            }
        }
        if entries.is_empty() {
            self.wrong(section.line, section.name, "is empty");
        }
        entries
    }

    fn arguments(&mut self, section: &Section<'_>) -> Vec<Described> {
        let arguments = self.columns(section);
        for argument in &arguments {
            if argument.name.is_empty() || !argument.name.bytes().all(|c| c.is_ascii_uppercase()) {
                let message = format!("`{}` is not a word of capital letters", argument.name);
                self.wrong(section.line, section.name, message);
            }
        }
        arguments
    }

    fn columns(&mut self, section: &Section<'_>) -> Vec<Described> {
        let entries = self.entries(section);
        for (line, entry) in &entries {
            if entry.meaning.is_empty() {
                let message = format!("`{}` needs two blanks and what it means", entry.name);
                self.wrong(*line, section.name, message);
            }
        }
        entries.into_iter().map(|(_, entry)| entry).collect()
    }

    fn examples(&mut self, section: &Section<'_>) -> Vec<Described> {
        let entries = self.entries(section);
        let begin = format!("lotse tool {}", self.name);
        for (line, entry) in &entries {
            if !entry.name.starts_with(&begin) {
                let message = format!("`{}` does not begin with `{begin}`", entry.name);
                self.wrong(*line, section.name, message);
            }
        }
        entries.into_iter().map(|(_, entry)| entry).collect()
    }

    /// `PID COMM | WAITS=@waits TOTAL_MS=@total/1000000`
    fn table(&mut self, section: &Section<'_>) -> Option<TableSpec> {
        // What follows two blanks is a remark.
        let text = section.first;
        let Some((keys, values)) = text.split_once('|') else {
            self.wrong(section.line, section.name, "has no `|` between the heads of the key and the values");
            return None;
        };
        let keys: Vec<String> = keys.split_whitespace().map(str::to_owned).collect();
        let mut columns = Vec::new();
        for word in values.split_whitespace() {
            match table_value(word) {
                Some(value) => columns.push(value),
                None => {
                    let message = format!("`{word}` should be HEAD=@map or HEAD=@map/DIVISOR");
                    self.wrong(section.line, section.name, message);
                }
            }
        }
        if keys.is_empty() || columns.is_empty() {
            self.wrong(section.line, section.name, "needs a head for each part of the key, and values");
        }
        Some(TableSpec { keys, values: columns })
    }
}

fn table_value(word: &str) -> Option<TableValue> {
    let (head, map) = word.split_once('=')?;
    let (map, divisor) = match map.split_once('/') {
        Some((map, divisor)) => (map, divisor.parse().ok().filter(|divisor| *divisor > 0)?),
        None => (map, 1),
    };
    let named = map.strip_prefix('@').is_some_and(|name| {
        name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
    });
    (named && !head.is_empty()).then(|| TableValue { head: head.to_owned(), map: map.to_owned(), divisor })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "\
// runqlat: how long do threads wait for a CPU?
//
// From the wakeup
// to the switch.
//
// A second paragraph.
//
// Family: scheduler
// Peers: runqlat (BCC), runqlat (libbpf-tools), runqlat.bt
//   runqlat (BCC): counts preempted threads as waiting
// Columns:
//   usecs   the wait,
//           in microseconds
//   comm    who
// Table: PID COMM | WAITS=@waits TOTAL_MS=@total/1000000
// Examples:
//   lotse tool runqlat 1 5    five
//   lotse tool runqlat --by=comm
// Rate: one event
//   per switch
// Limits: none that we know
// See also: runqslower, cpudist
begin { }
";

    #[test]
    fn a_whole_header_is_read() {
        let header = parse("runqlat", WHOLE).unwrap();
        assert_eq!(header.question, "how long do threads wait for a CPU?");
        assert_eq!(header.text, ["From the wakeup to the switch.", "A second paragraph."]);
        assert_eq!(header.family, Family::Scheduler);
        let peers: Vec<(&str, &str)> =
            header.peers.iter().map(|peer| (peer.name.as_str(), peer.collection.as_str())).collect();
        assert_eq!(peers, [("runqlat", "BCC"), ("runqlat", "libbpf-tools"), ("runqlat.bt", "bpftrace")]);
        assert_eq!(header.peers[0].differs.as_deref(), Some("counts preempted threads as waiting"));
        assert_eq!(header.columns[0].meaning, "the wait, in microseconds");
        assert_eq!(header.tables[0].keys, ["PID", "COMM"]);
        assert_eq!(header.tables[0].values[1].divisor, 1_000_000);
        assert_eq!(header.examples[1].name, "lotse tool runqlat --by=comm");
        assert_eq!(header.rate, "one event per switch");
        assert_eq!((header.cost, header.see_also), (None, vec!["runqslower".into(), "cpudist".into()]));
    }

    #[track_caller]
    fn wrong(from: &str, to: &str) -> String {
        assert!(WHOLE.contains(from), "{from}");
        let errors = parse("runqlat", &WHOLE.replace(from, to)).unwrap_err();
        errors.iter().map(HeaderError::to_string).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn mistakes_name_line_and_section() {
        assert_eq!(
            wrong("runqlat: how", "cpudist: how"),
            "1: question: the first line is `// runqlat: QUESTION?`"
        );
        assert!(wrong("scheduler", "sched").starts_with("8: Family: `sched` is none of scheduler, "));
        assert_eq!(wrong("// Limits: none that we know\n", ""), "21: Limits: is missing");
        assert_eq!(wrong("none that we know", ""), "21: Limits: is empty");
        assert_eq!(
            wrong("comm    who", "comm who"),
            "14: Columns: `comm who` needs two blanks and what it means"
        );
        assert_eq!(
            wrong("@total/1000000", "@total/0"),
            "15: Table: `TOTAL_MS=@total/0` should be HEAD=@map or HEAD=@map/DIVISOR"
        );
        assert!(wrong("runqlat --by", "other --by").starts_with("18: Examples: "));
        assert!(wrong("// Rate", "// Rates").contains("19: Examples: `Rates: one event` is no section"));
        assert!(wrong("(BCC),", "(bcc),").starts_with("9: Peers: `runqlat (bcc)` should be"));
        assert_eq!(wrong("// See also", "// Family: block\n// See also"), "22: Family: is there twice");
    }
}
