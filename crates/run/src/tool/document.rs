//! What tools say about themselves, as documents: the documentation page, the table for people who know other
//! collections, and manual pages in roff.

use std::fmt::Write;

use super::page::{COMMON_OPTIONS, option_meaning, option_usage};
use super::{Family, SHELF, Tool, find};

fn tools() -> Vec<Tool> {
    SHELF.iter().filter_map(|(name, _)| find(name)?.ok()).collect()
}

/// `docs/tools.md`: from questions to tools, then each tool with everything it says.
pub fn tools_page() -> String {
    let tools = tools();
    let mut page = String::from(
        "# The shelf: ready tools\n\n\
         `lotse tool NAME` answers one everyday question. Each tool is one program in the language (`tools/NAME.bt`), attached\n\
         within milliseconds, on every kernel from 6.1 on; this page is made from the first lines of those programs.\n\
         `lotse tool NAME --help` and `lotse man tool-NAME` say the same. People who know BCC's or bpftrace's names find the\n\
         tools in [coming-from/bcc.md](coming-from/bcc.md).\n",
    );
    page.push_str("\n## Which question?\n\n| question | tool |\n|---|---|\n");
    for family in Family::ALL {
        for tool in of_family(&tools, family) {
            let question = capitalised(&tool.header.question);
            let _ = writeln!(page, "| {} | [{name}](#{name}) |", cell(&question), name = tool.name);
        }
    }
    page.push_str("\n## Options that all tools have\n\n| option | |\n|---|---|\n");
    for (name, what) in COMMON_OPTIONS {
        let _ = writeln!(page, "| `{}` | {} |", name.trim().replace('|', "\\|"), cell(what));
    }
    page.push_str(
        "\nWith an interval each answer is about its own interval: every event is in exactly one. Histograms have percentiles\n\
         below them, as the bounds of the buckets that hold them. What could not be recorded is told on stderr, with what\n\
         would mend it. The form of `-f json` is described in [json.md](json.md#tools).\n",
    );
    for family in Family::ALL {
        let members: Vec<&Tool> = of_family(&tools, family).collect();
        if members.is_empty() {
            continue;
        }
        let _ = writeln!(page, "\n## {}", capitalised(family.name()));
        for tool in members {
            section(&mut page, tool);
        }
    }
    page
}

/// The command line in general.
fn usage(tool: &Tool) -> String {
    let arguments: String =
        tool.header.arguments.iter().map(|argument| format!(" {}", argument.name)).collect();
    format!("lotse tool {}{arguments} [INTERVAL [COUNT]] [OPTIONS]", tool.name)
}

fn of_family(tools: &[Tool], family: Family) -> impl Iterator<Item = &Tool> {
    tools.iter().filter(move |tool| tool.header.family == family)
}

fn section(page: &mut String, tool: &Tool) {
    let header = &tool.header;
    let _ = writeln!(page, "\n### {}\n\n**{}**", tool.name, text(&capitalised(&header.question)));
    for paragraph in &header.text {
        page.push('\n');
        wrapped(page, &text(paragraph));
    }
    let _ = writeln!(page, "\n    {}\n", usage(tool));
    if !header.arguments.is_empty() {
        page.push_str("| argument | |\n|---|---|\n");
        for argument in &header.arguments {
            let _ = writeln!(page, "| `{}` | {} |", argument.name, cell(&argument.meaning));
        }
        page.push('\n');
    }
    page.push_str("| shows | |\n|---|---|\n");
    for column in &header.columns {
        let _ = writeln!(page, "| `{}` | {} |", column.name, cell(&column.meaning));
    }
    if !tool.options.is_empty() {
        page.push_str("\n| option | |\n|---|---|\n");
        for option in &tool.options {
            let _ = writeln!(page, "| `{}` | {} |", option_usage(option), cell(&option_meaning(option)));
        }
    }
    page.push_str("\n```sh\n");
    let width = header.examples.iter().map(|example| example.name.chars().count()).max().unwrap_or(0);
    for example in &header.examples {
        let _ = match example.meaning.as_str() {
            "" => writeln!(page, "{}", example.name),
            meaning => writeln!(page, "{:width$}  # {meaning}", example.name),
        };
    }
    page.push_str("```\n");
    for (name, said) in facts(tool) {
        page.push('\n');
        wrapped(page, &format!("*{name}:* {}", text(&said)));
    }
    let see_also: Vec<String> = header
        .see_also
        .iter()
        .map(|name| match SHELF.iter().any(|(known, _)| known == name) {
            true => format!("[{name}](#{name})"),
            false => name.clone(),
        })
        .collect();
    if !see_also.is_empty() {
        page.push('\n');
        wrapped(page, &format!("*See also:* {}", see_also.join(", ")));
    }
}

/// Rate, cost and limits, as far as they are said.
fn facts(tool: &Tool) -> Vec<(&'static str, String)> {
    let header = &tool.header;
    let all =
        [("Rate", Some(&header.rate)), ("Cost", header.cost.as_ref()), ("Limits", Some(&header.limits))];
    all.into_iter().filter_map(|(name, said)| Some((name, said?.clone()))).collect()
}

/// `docs/coming-from/bcc.md`: the names of other collections.
pub fn coming_from_bcc() -> String {
    let mut page = String::from(
        "# Coming from BCC, libbpf-tools and bpftrace's tools\n\n\
         One table: the name you know, and the tool of [the shelf](../tools.md) that answers its question. Options that are the\n\
         same everywhere: `-p`, `-t`, `--cgroup`, `--cpu` select, `INTERVAL COUNT` and `-d` say how long, `-f json` and\n\
         `--metrics` are for programs, `--folded` and `--flame` for stacks. No kernel headers, compiler or Python are needed;\n\
         what was lost is always told. This page is made from the `Peers:` lines of the tools.\n\n\
         | there | in | here | what differs |\n|---|---|---|---|\n",
    );
    let mut rows: Vec<(String, String)> = Vec::new();
    for tool in tools() {
        let mut names: Vec<&str> = tool.header.peers.iter().map(|peer| peer.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let peers: Vec<_> = tool.header.peers.iter().filter(|peer| peer.name == name).collect();
            let collections: Vec<&str> = peers.iter().map(|peer| peer.collection.as_str()).collect();
            let mut differs: Vec<String> = Vec::new();
            for peer in &peers {
                let Some(said) = &peer.differs else { continue };
                let same = peers.iter().filter(|other| other.differs.as_ref() == Some(said)).count();
                let said = if same == peers.len() || peers.len() == 1 {
                    said.clone()
                } else {
                    format!("{}: {said}", peer.collection)
                };
                if !differs.contains(&said) {
                    differs.push(said);
                }
            }
            let row = format!(
                "| `{name}` | {} | [{tool}](../tools.md#{tool}) | {} |\n",
                collections.join(", "),
                cell(&differs.join("; ")),
                tool = tool.name
            );
            rows.push((name.to_owned(), row));
        }
    }
    rows.sort();
    page.extend(rows.into_iter().map(|(_, row)| row));
    page
}

/// A tool's manual page.
pub fn manual(tool: &Tool, version: &str) -> String {
    let header = &tool.header;
    let mut page = String::new();
    let title = format!("lotse-tool-{}", tool.name);
    let _ = writeln!(page, ".TH {} 1 \"\" \"lotse {version}\" \"Tools of lotse\"", roff(&title));
    let _ = writeln!(page, ".SH NAME\n{} \\- {}", roff(&title), roff(&header.question));
    let _ = writeln!(page, ".SH SYNOPSIS\n.B {}", roff(&usage(tool)));
    page.push_str(".SH DESCRIPTION\n");
    for (at, paragraph) in header.text.iter().enumerate() {
        let _ = writeln!(page, "{}{}", if at > 0 { ".PP\n" } else { "" }, roff(paragraph));
    }
    let mut entries = |name: &str, entries: Vec<(String, String)>| {
        if entries.is_empty() {
            return;
        }
        let _ = writeln!(page, ".SH {name}");
        for (term, meaning) in entries {
            let _ = writeln!(page, ".TP\n.B {}\n{}", roff(&term), roff(&meaning));
        }
    };
    let described = |list: &[super::header::Described]| {
        list.iter().map(|entry| (entry.name.clone(), entry.meaning.clone())).collect::<Vec<_>>()
    };
    entries("ARGUMENTS", described(&header.arguments));
    entries("WHAT IT SHOWS", described(&header.columns));
    entries(
        "OPTIONS",
        tool.options.iter().map(|option| (option_usage(option), option_meaning(option))).collect(),
    );
    entries(
        "OPTIONS THAT ALL TOOLS HAVE",
        COMMON_OPTIONS.iter().map(|(name, what)| (name.trim().to_owned(), (*what).to_owned())).collect(),
    );
    entries("EXAMPLES", described(&header.examples));
    for (name, said) in facts(tool) {
        let _ = writeln!(page, ".SH {}\n{}", name.to_ascii_uppercase(), roff(&said));
    }
    if !header.see_also.is_empty() {
        let others: Vec<String> =
            header.see_also.iter().map(|name| format!("\\fBlotse-tool-{}\\fR(1)", roff(name))).collect();
        let _ = writeln!(page, ".SH \"SEE ALSO\"\n{}", others.join(", "));
    }
    page
}

/// Text for roff: no escapes of its own, no line that is taken for a request.
fn roff(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    if escaped.starts_with(['.', '\'']) { format!("\\&{escaped}") } else { escaped }
}

/// Text for Markdown, outside of code.
fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_code = false;
    for character in text.chars() {
        in_code ^= character == '`';
        if !in_code && matches!(character, '*' | '_' | '<' | '[' | ']') {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

/// The same in a table.
fn cell(said: &str) -> String {
    text(said).replace('|', "\\|")
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_uppercase().collect::<String>() + characters.as_str(),
        None => String::new(),
    }
}

/// A paragraph in lines of at most 120 characters.
fn wrapped(page: &mut String, text: &str) {
    let mut length = 0;
    for word in text.split_whitespace() {
        let word_length = word.chars().count();
        if length > 0 && length + 1 + word_length > 120 {
            page.push('\n');
            length = 0;
        } else if length > 0 {
            page.push(' ');
            length += 1;
        }
        page.push_str(word);
        length += word_length;
    }
    page.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(path: &str, text: &str) {
        let path = format!("{}/../../docs/{path}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("LOTSE_BLESS").is_some() {
            std::fs::write(&path, text).unwrap();
        }
        let have = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            have == text,
            "{path} is not what the tools say: `LOTSE_BLESS=1 cargo test -p run --lib document` writes it anew"
        );
    }

    #[test]
    fn the_documentation_is_what_the_tools_say() {
        compared("tools.md", &tools_page());
    }

    #[test]
    fn the_table_of_peers_is_what_the_tools_say() {
        compared("coming-from/bcc.md", &coming_from_bcc());
    }

    #[test]
    fn every_tool_has_a_manual_page_with_everything() {
        for tool in tools() {
            let page = manual(&tool, "1");
            for part in [".TH ", ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH EXAMPLES", ".SH LIMITS"]
            {
                assert!(page.contains(part), "{}: {part}", tool.name);
            }
            for option in &tool.options {
                assert!(page.contains(&roff(&option_usage(option))), "{}: --{}", tool.name, option.name);
            }
            let requests = [".TH", ".SH", ".TP", ".PP", ".B "];
            let stray = page.lines().find(|line| {
                line.starts_with(['.', '\'']) && !requests.iter().any(|request| line.starts_with(request))
            });
            assert_eq!(stray, None, "{}", tool.name);
        }
    }

    #[test]
    fn markdown_and_roff_are_escaped() {
        assert_eq!(cell("a|b *c* `*d*`"), "a\\|b \\*c\\* `*d*`");
        assert_eq!(roff(".a \\-b"), "\\&.a \\e\\-b");
    }
}
