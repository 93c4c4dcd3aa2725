//! `lotse list tools`: the shelf, one line a tool.

use run::tool::{SHELF, Tool, find};
use serde::Serialize;

use super::pattern::Pattern;
use crate::console::Console;
use crate::exit::Outcome;
use crate::json::Head;

/// Lists the tools whose names match.
pub fn list(pattern: Option<&str>, as_json: bool, console: &mut Console) -> anyhow::Result<Outcome> {
    let text = pattern.unwrap_or("*");
    let matcher = Pattern::new(text);
    let tools: Vec<Tool> = SHELF
        .iter()
        .filter(|(name, _)| matcher.matches("tool", name))
        .filter_map(|(name, _)| find(name)?.ok())
        .collect();
    if tools.is_empty() {
        anyhow::bail!("no tool matches `{text}`; `lotse list tools` shows all there are");
    }
    if as_json {
        let json = Json { lotse: Head::new("tools"), tools: tools.iter().map(JsonTool::of).collect() };
        serde_json::to_writer(console.out(), &json)?;
        writeln!(console.out())?;
        return Ok(Outcome::Done);
    }
    let widest = |of: fn(&Tool) -> usize| tools.iter().map(of).max().unwrap_or(0);
    let (name_width, family_width) =
        (widest(|tool| tool.name.len()), widest(|tool| tool.header.family.name().len()));
    for tool in &tools {
        let family = tool.header.family.name();
        let question = &tool.header.question;
        writeln!(console.out(), "{:name_width$}  {family:family_width$}  {question}", tool.name)?;
    }
    Ok(Outcome::Done)
}

#[derive(Serialize)]
struct Json<'a> {
    lotse: Head,
    tools: Vec<JsonTool<'a>>,
}

#[derive(Serialize)]
struct JsonTool<'a> {
    name: &'a str,
    family: &'static str,
    question: &'a str,
    options: Vec<JsonOption<'a>>,
}

#[derive(Serialize)]
struct JsonOption<'a> {
    name: &'a str,
    default: Option<&'a str>,
    description: &'a str,
}

impl JsonTool<'_> {
    fn of(tool: &Tool) -> JsonTool<'_> {
        let options = tool.options.iter().map(|option| JsonOption {
            name: &option.name,
            default: option.default.as_deref(),
            description: &option.description,
        });
        JsonTool {
            name: &tool.name,
            family: tool.header.family.name(),
            question: &tool.header.question,
            options: options.collect(),
        }
    }
}
