//! What a tool says about itself, as help on a terminal.

use std::fmt::Write;

use super::{Family, SHELF, Tool, ToolOption, find};

/// Options that all tools have: as written, and what they do.
pub const COMMON_OPTIONS: &[(&str, &str)] = &[
    ("INTERVAL [COUNT]", "print what came in each interval, in seconds; end after COUNT of them"),
    ("-p, --pid PID[,PID]", "only these processes, tested in the kernel; ends with the process if it is one"),
    ("-t, --tid TID[,TID]", "only these threads, tested in the kernel"),
    (
        "    --cgroup GROUP",
        "only this control group (v2) and those below it: its directory, or its path below the mount",
    ),
    ("    --cpu LIST", "only on these CPUs, such as 0,2-3"),
    ("-c, --command COMMAND", "run this command once all is attached, show what it does, end with it"),
    ("-d, --duration TIME", "end after this time: 500ms, 10s, 2m"),
    ("-f, --format json", "one JSON object a line: rows, maps with their percentiles"),
    ("    --metrics", "print the maps at the end as Prometheus text, and nothing else"),
    ("    --folded", "print maps of stacks as folded stacks, and nothing else"),
    ("    --flame FILE", "draw maps of stacks at the end as a flame graph: FILE.svg or FILE.html"),
    ("    --top N", "only the N greatest lines of a table"),
    ("    --cost", "tell at the end what each probe cost, as the kernel measured it"),
    ("-v", "tell which probes are used, and how often each fired"),
    ("-o, --output FILE", "output to a file"),
];

/// Characters of a line.
const WIDTH: usize = 100;

/// Everything about a tool.
pub fn help(tool: &Tool) -> String {
    let header = &tool.header;
    let mut page = format!("{}: {}\n", tool.name, header.question);
    for paragraph in &header.text {
        page.push('\n');
        wrap(&mut page, 0, paragraph);
    }
    let arguments: String = header.arguments.iter().map(|argument| format!(" {}", argument.name)).collect();
    let _ = writeln!(page, "\nUsage: lotse tool {}{arguments} [INTERVAL [COUNT]] [OPTIONS]", tool.name);
    if !header.arguments.is_empty() {
        page.push_str("\nArguments:\n");
        let described = header.arguments.iter().map(|one| (one.name.clone(), one.meaning.clone()));
        entries(&mut page, described);
    }
    page.push_str("\nWhat it shows:\n");
    entries(&mut page, header.columns.iter().map(|column| (column.name.clone(), column.meaning.clone())));
    if !tool.options.is_empty() {
        page.push_str("\nOptions:\n");
        entries(&mut page, tool.options.iter().map(|option| (option_usage(option), option_meaning(option))));
    }
    page.push_str("\nOptions that all tools have:\n");
    entries(&mut page, COMMON_OPTIONS.iter().map(|(name, what)| ((*name).to_owned(), (*what).to_owned())));
    page.push_str("\nExamples:\n");
    entries(&mut page, header.examples.iter().map(|example| (example.name.clone(), example.meaning.clone())));
    for (name, text) in [
        ("Rate", Some(&header.rate)),
        ("Cost", header.cost.as_ref()),
        ("Limits", Some(&header.limits)),
        ("See also", Some(&header.see_also.join(", "))),
    ] {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            page.push('\n');
            wrap(&mut page, 0, &format!("{name}: {text}"));
        }
    }
    page
}

/// `--by=VALUE`, `--flag`.
pub fn option_usage(option: &ToolOption) -> String {
    match &option.default {
        Some(_) => format!("--{}=VALUE", option.name),
        None => format!("--{}", option.name),
    }
}

/// What it is for, and what holds without it.
pub fn option_meaning(option: &ToolOption) -> String {
    match &option.default {
        Some(default) if default.is_empty() => option.description.clone(),
        Some(default) => format!("{} [{default}]", option.description),
        None => option.description.clone(),
    }
}

/// All tools by family, with their questions.
pub fn overview() -> String {
    let tools: Vec<Tool> = SHELF.iter().filter_map(|(name, _)| find(name)?.ok()).collect();
    let mut page = String::new();
    for family in Family::ALL {
        let mut members = tools.iter().filter(|tool| tool.header.family == family).peekable();
        if members.peek().is_none() {
            continue;
        }
        if !page.is_empty() {
            page.push('\n');
        }
        let _ = writeln!(page, "{}:", family.name());
        entries(&mut page, members.map(|tool| (tool.name.clone(), tool.header.question.clone())));
    }
    page
}

/// Names with their meanings in a column beside them, or below where a name is long.
fn entries(page: &mut String, entries: impl Iterator<Item = (String, String)>) {
    let entries: Vec<(String, String)> = entries.collect();
    let lengths = entries.iter().map(|(name, _)| name.chars().count()).filter(|length| *length <= 40);
    let width = lengths.max().unwrap_or(0).max(8) + 2;
    for (name, meaning) in &entries {
        let length = name.chars().count();
        if meaning.is_empty() {
            let _ = writeln!(page, "  {name}");
            continue;
        }
        let mut text = String::new();
        wrap(&mut text, width + 2, meaning);
        if length + 2 > width {
            let _ = writeln!(page, "  {name}");
            page.push_str(&text);
        } else {
            let _ = write!(page, "  {name:width$}{}", text.trim_start());
        }
    }
}

/// A paragraph in lines that begin with so many blanks.
fn wrap(page: &mut String, indent: usize, text: &str) {
    let mut line = " ".repeat(indent);
    for word in text.split_whitespace() {
        if line.len() > indent && line.chars().count() + 1 + word.chars().count() > WIDTH {
            page.push_str(&line);
            page.push('\n');
            line = " ".repeat(indent);
        }
        if line.len() > indent {
            line.push(' ');
        }
        line.push_str(word);
    }
    page.push_str(&line);
    page.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meaning_stands_beside_its_name_and_goes_on_below_itself() {
        let mut page = String::new();
        let long = "word ".repeat(30);
        entries(&mut page, [("a".to_owned(), long), ("b".to_owned(), String::new())].into_iter());
        let lines: Vec<&str> = page.lines().collect();
        assert!(lines[0].starts_with("  a         word word"), "{page}");
        assert!(lines[1].starts_with("            word"), "{page}");
        assert_eq!(lines.last(), Some(&"  b"));
        assert!(lines.iter().all(|line| line.len() <= WIDTH));
    }

    #[test]
    fn help_has_everything_of_every_tool() {
        for (name, _) in SHELF {
            let Some(Ok(tool)) = find(name) else { continue };
            let page = help(&tool);
            for part in ["What it shows:", "Examples:", "Rate: ", "Limits: ", "Options that all tools have:"]
            {
                assert!(page.contains(part), "{name} has no {part}");
            }
            for option in &tool.options {
                assert!(page.contains(&format!("--{}", option.name)), "{name}: {}", option.name);
                assert!(!option.description.is_empty(), "{name}: --{} is not described", option.name);
            }
        }
    }
}
