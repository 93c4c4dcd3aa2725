//! `lotse list`: what can be traced here, by name, with fields and types.

mod catalogue;
mod functions;
mod pattern;
mod tools;

use clap::Args;
use serde::Serialize;

use crate::console::Console;
use crate::exit::Outcome;
use crate::json::Head;
use catalogue::{Catalogue, Entry, FieldLine};
use pattern::Pattern;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lotse list                         every event, one a line
  lotse list 'sched:*' -v            the scheduler's tracepoints with their fields
  lotse list 'rawtracepoint:*waking' -v   arguments, from the kernel's type information
  lotse list '*fault*'               whatever has fault in its name
  lotse list 'uprobe:libc:*alloc*'   functions of an executable or library; -v: their arguments
  lotse list tools                   the ready tools, each with the question it answers
  lotse list tools 'run*'            some of them")]
pub struct List {
    /// Names with * and ?; with or without the kind before them
    pattern: Option<String>,
    /// After the word `tools`: names of tools with * and ?
    #[arg(value_name = "TOOL")]
    tool: Option<String>,
    /// With fields: type, name, offset, size and sign
    // Not the global `--verbose`, which is about stderr.
    #[arg(short = 'v', long = "fields")]
    fields: bool,
    /// As JSON, schema 1, with fields
    #[arg(long)]
    json: bool,
}

impl List {
    /// What `lotse trace -l` asks for.
    pub fn of(pattern: Option<String>, fields: bool) -> List {
        List { pattern, tool: None, fields, json: false }
    }

    pub fn run(&self, console: &mut Console) -> anyhow::Result<Outcome> {
        if self.pattern.as_deref() == Some("tools") {
            return tools::list(self.tool.as_deref(), self.json, console);
        }
        if let Some(more) = &self.tool {
            anyhow::bail!("one pattern at a time: what is `{more}` for? (`lotse list tools PATTERN` lists tools)");
        }
        if let Some((file, pattern)) = self.pattern.as_deref().and_then(functions::parts) {
            return self.print_functions(file, pattern, console);
        }
        let catalogue = Catalogue::open();
        for reason in catalogue.unreachable() {
            console.warn(reason);
        }
        let entries = catalogue.entries();
        let text = self.pattern.as_deref().unwrap_or("*");
        let pattern = Pattern::new(text);
        let chosen: Vec<&Entry> = entries.iter().filter(|entry| pattern.matches(entry.kind, &entry.name)).collect();
        if chosen.is_empty() {
            if !catalogue.unreachable().is_empty() {
                anyhow::bail!("`{text}` is not among the events that can be listed here; what is missing stands above");
            }
            anyhow::bail!("{}", no_match(text, &entries));
        }
        if self.json {
            return self.print_json(&catalogue, &chosen, console);
        }
        let mut text = String::new();
        for entry in chosen {
            text.push_str(entry.kind);
            text.push(':');
            text.push_str(&entry.name);
            text.push('\n');
            if self.fields {
                describe(&catalogue, entry, &mut text);
            }
        }
        console.out().write_all(text.as_bytes())?;
        Ok(Outcome::Done)
    }

    fn print_functions(&self, file: &str, pattern: &str, console: &mut Console) -> anyhow::Result<Outcome> {
        let found = functions::matching(file, pattern, self.fields || self.json)
            .map_err(|lang::environment::Unanswered(why)| anyhow::anyhow!("{why}"))?;
        if found.is_empty() {
            anyhow::bail!("no function of {file} matches `{pattern}`; `lotse list 'uprobe:{file}:*'` shows all there are");
        }
        if self.json {
            #[derive(Serialize)]
            struct Functions {
                lotse: Head,
                functions: Vec<functions::Function>,
            }
            let json = Functions { lotse: Head::new("functions"), functions: found };
            serde_json::to_writer(console.out(), &json)?;
            writeln!(console.out())?;
            return Ok(Outcome::Done);
        }
        console.out().write_all(functions::text(&found).as_bytes())?;
        Ok(Outcome::Done)
    }

    fn print_json(&self, catalogue: &Catalogue, chosen: &[&Entry], console: &mut Console) -> anyhow::Result<Outcome> {
        let events = chosen.iter().map(|entry| {
            let details = catalogue.details(entry);
            JsonEvent {
                kind: entry.kind,
                name: &entry.name,
                id: details.id,
                available: entry.available,
                about: entry.about,
                fields: details.fields,
                print_format: details.print_format,
            }
        });
        let json = Json { lotse: Head::new("events"), events: events.collect() };
        serde_json::to_writer(console.out(), &json)?;
        writeln!(console.out())?;
        Ok(Outcome::Done)
    }
}

#[derive(Serialize)]
struct Json<'a> {
    lotse: Head,
    events: Vec<JsonEvent<'a>>,
}

#[derive(Serialize)]
struct JsonEvent<'a> {
    kind: &'static str,
    name: &'a str,
    id: Option<u16>,
    available: bool,
    about: Option<&'static str>,
    fields: Vec<FieldLine>,
    print_format: Option<String>,
}

fn describe(catalogue: &Catalogue, entry: &Entry, text: &mut String) {
    use std::fmt::Write;
    if let Some(about) = entry.about {
        let _ = writeln!(text, "    {about}{}", if entry.available { "" } else { " (not on this machine)" });
    }
    let fields = catalogue.details(entry).fields;
    let declared = |field: &FieldLine| format!("{};", field.declaration);
    let width = fields.iter().map(|field| declared(field).len()).max().unwrap_or(0).min(48);
    for field in &fields {
        let _ = match (field.offset, field.size, field.signed) {
            (Some(offset), Some(size), Some(signed)) => {
                let sign = if signed { "signed" } else { "unsigned" };
                writeln!(text, "    {:width$}  offset {offset:>3}  size {size:>2}  {sign}", declared(field))
            }
            _ => writeln!(text, "    {}", declared(field)),
        };
    }
}

fn no_match(pattern: &str, entries: &[Entry]) -> String {
    let with_kind: Vec<String> = entries.iter().map(|entry| format!("{}:{}", entry.kind, entry.name)).collect();
    let names = entries.iter().map(|entry| entry.name.as_str());
    let alone = entries.iter().filter_map(|entry| entry.name.split_once(':').map(|(_, name)| name));
    let mut near: Vec<&str> = bpf::btf::nearest(pattern, with_kind.iter().map(String::as_str).chain(names), 3);
    if near.is_empty() {
        near = bpf::btf::nearest(pattern, alone, 3);
    }
    let advice = match near.as_slice() {
        [] => "`lotse list` shows all there are; patterns take * and ?".to_owned(),
        names => format!("did you mean {}?", names.join(", ")),
    };
    format!("no event matches `{pattern}`; {advice}")
}
