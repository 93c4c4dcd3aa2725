//! What the HTML page promises: well formed, nothing foreign becomes markup, no request
//! ever leaves it, and its script runs under its own policy.

mod sample;

use std::process::Command;

use report::{
    Document, Table, Value,
    chart::{Lane, Series},
    document::{Block, Level},
    html,
};

/// Elements without an end tag in HTML.
const VOID: [&str; 3] = ["meta", "link", "br"];
const HOSTILE: &str = "</script></style></title>--><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">' \" & \u{202e}\0\x1b[2J";

/// The document with every text that could come from a traced machine made hostile.
fn hostile() -> Document {
    let mut document = sample::document(24);
    let evil = || HOSTILE.to_owned();
    document.title = evil().into();
    document.question = Some(evil().into());
    document.answer = vec![evil()];
    document.facts.iter_mut().for_each(|fact| {
        fact.title = evil().into();
        fact.value = Value::text(evil());
    });
    document.checks.iter_mut().for_each(|check| {
        check.what = evil().into();
        check.source = evil().into();
        check.reason = Some(evil());
    });
    document.limits.iter_mut().for_each(|limit| limit.what = evil().into());
    document.notice(Level::Warning, evil());
    document.notices.iter_mut().for_each(|notice| notice.remedy = Some(evil()));
    if let Some(ledger) = &mut document.ledger {
        ledger.remedy = Some(evil());
        ledger.lost = Value::missing(evil());
    }
    for section in &mut document.sections {
        section.title = evil().into();
        section.lead = Some(evil());
        section.id = format!("{}{}", section.id, HOSTILE).into();
        for block in &mut section.blocks {
            match block {
                Block::Text(text) => *text = evil(),
                Block::Table(table) => poison(table),
                Block::Budget(budget) => poison(&mut budget.table),
                Block::Distribution(distribution) => {
                    distribution.title = evil().into();
                    distribution.series.iter_mut().for_each(|series: &mut Series| {
                        series.title = evil().into();
                        series.percentiles.iter_mut().for_each(|p| p.name = evil().into());
                    });
                }
                Block::HeatMap(map) => {
                    map.title = evil().into();
                    map.about = Some(evil().into());
                }
                Block::Timeline(timeline) => {
                    timeline.title = evil().into();
                    timeline.tracks.iter_mut().for_each(|track| track.title = evil().into());
                    timeline.lanes.iter_mut().for_each(|lane: &mut Lane| lane.title = evil().into());
                }
                Block::Flame(flame) => {
                    flame.title = evil().into();
                    flame.stacks.iter_mut().for_each(|stack| stack.frames[0] = evil());
                }
                Block::Findings(findings) => findings.items.iter_mut().for_each(|item| {
                    item.what = evil().into();
                    item.found = evil();
                    item.meaning = Some(evil());
                    item.remedy = Some(evil());
                }),
            }
        }
    }
    document
}

fn poison(table: &mut Table) {
    table.title = Some(HOSTILE.into());
    table.about = Some(HOSTILE.into());
    table.row_name = HOSTILE.into();
    table.columns.iter_mut().for_each(|column| {
        column.title = HOSTILE.into();
        column.about = Some(HOSTILE.into());
        column.over = column.over.as_ref().map(|_| HOSTILE.into());
    });
    for value in table.rows.iter_mut().flatten() {
        match value {
            Value::Text(text) => *text = HOSTILE.into(),
            Value::Missing(reason) => *reason = HOSTILE.into(),
            _ => {}
        }
    }
}

/// One start tag: name, attributes.
type Tag = (String, Vec<(String, String)>);

/// Reads a page strictly: every attribute quoted, every element closed in order, every `<`
/// and `&` of text escaped. Returns the start tags.
fn tags(page: &str) -> Result<Vec<Tag>, String> {
    let mut rest = page.strip_prefix("<!DOCTYPE html>").ok_or("no doctype")?;
    let mut open: Vec<String> = Vec::new();
    let mut tags = Vec::new();
    while let Some(at) = rest.find('<') {
        text(&rest[..at])?;
        rest = &rest[at + 1..];
        if let Some(end) = rest.strip_prefix('/') {
            let (name, after) = end.split_once('>').ok_or("an end tag without an end")?;
            let expected = open.pop().ok_or(format!("</{name}> closes nothing"))?;
            if expected != name {
                return Err(format!("</{name}> where </{expected}> is due"));
            }
            rest = after;
            continue;
        }
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric()).ok_or("a tag without an end")?;
        let name = rest[..length].to_owned();
        if name.is_empty() {
            return Err(format!("a stray < before {:?}", head(rest)));
        }
        rest = &rest[length..];
        let mut attributes = Vec::new();
        let closed = loop {
            if let Some(after) = rest.strip_prefix("/>") {
                rest = after;
                break true;
            }
            if let Some(after) = rest.strip_prefix('>') {
                rest = after;
                break false;
            }
            let after = rest.strip_prefix(' ').ok_or(format!("in <{name}>: {:?}", head(rest)))?;
            let (key, after) = after.split_once("=\"").ok_or("an attribute without quotes")?;
            if key.contains(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
                return Err(format!("attribute name {key:?} in <{name}>"));
            }
            let (value, after) = after.split_once('"').ok_or("an attribute without an end")?;
            text(value)?;
            if value.contains('<') {
                return Err(format!("< in {key} of <{name}>"));
            }
            attributes.push((key.to_owned(), value.to_owned()));
            rest = after;
        };
        if !closed && (name == "script" || name == "style") {
            let end = rest.find(&format!("</{name}>")).ok_or(format!("<{name}> never ends"))?;
            if rest[..end].contains("<!--") || name == "script" && rest[..end].contains("<script") {
                return Err("a script that HTML would read on".to_owned());
            }
            rest = &rest[end + name.len() + 3..];
        } else if !closed && !VOID.contains(&name.as_str()) {
            open.push(name.clone());
        }
        tags.push((name, attributes));
    }
    if open.is_empty() { Ok(tags) } else { Err(format!("never closed: {open:?}")) }
}

fn head(text: &str) -> String {
    text.chars().take(40).collect()
}

fn text(text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('&') {
        let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
        if !known.iter().any(|entity| text[at..].starts_with(entity)) {
            return Err(format!("a bare & in {:?}", head(&text[at..])));
        }
    }
    match text.chars().find(|&c| c != '\n' && report::terminal_text::is_unsafe(c)) {
        Some(c) => Err(format!("the character {c:?} in text")),
        None => Ok(()),
    }
}

#[test]
fn pages_are_well_formed_with_unique_anchors() {
    for document in [sample::document(24), Document::new("empty", "Nothing"), hostile()] {
        let page = html::document(&document);
        let tags = tags(&page).unwrap_or_else(|wrong| panic!("{}: {wrong}", document.kind));
        let mut anchors: Vec<&String> =
            tags.iter().flat_map(|(_, a)| a).filter(|(key, _)| key == "id").map(|(_, value)| value).collect();
        let number = anchors.len();
        anchors.sort();
        anchors.dedup();
        assert_eq!(anchors.len(), number, "an id occurs twice in {anchors:?}");
        for (name, attributes) in &tags {
            for (_, target) in
                attributes.iter().filter(|(key, _)| key == "href").filter(|(_, v)| v.starts_with('#'))
            {
                assert!(
                    anchors.iter().any(|a| **a == target[1..]),
                    "<{name}> points at {target}, which is not there"
                );
            }
        }
    }
}

#[test]
fn the_reader_of_this_test_is_strict() {
    for wrong in ["<p>a<b></p>", "<p>&</p>", "<p a=1></p>", "<p>", "</p>", "<p>1 < 2</p>", "<p>\u{202e}</p>"]
    {
        assert!(tags(&format!("<!DOCTYPE html>{wrong}")).is_err(), "{wrong}");
    }
    assert_eq!(tags("<!DOCTYPE html><p id=\"a\">&amp;<br></p>").map(|t| t.len()), Ok(2));
}

#[test]
fn nothing_foreign_becomes_markup() {
    let (plain, poisoned) = (html::document(&sample::document(24)), html::document(&hostile()));
    let names = |page: &str| -> Vec<String> {
        tags(page).expect("it is well formed").into_iter().map(|(name, _)| name).collect()
    };
    let scripts = |page: &str| names(page).iter().filter(|name| *name == "script").count();
    assert_eq!(scripts(&plain), scripts(&poisoned));
    assert!(!names(&poisoned).contains(&"img".to_owned()));
    let attributes = tags(&poisoned).expect("it is well formed");
    let handlers = attributes.iter().flat_map(|(_, a)| a).filter(|(key, _)| key.starts_with("on")).count();
    assert_eq!(handlers, 0);
}

#[test]
fn no_request_leaves_the_page() {
    for document in [sample::document(24), hostile()] {
        let page = html::document(&document);
        for (name, attributes) in tags(&page).expect("it is well formed") {
            for (key, value) in attributes {
                if ["href", "src", "action", "srcset", "data", "poster", "style"].contains(&key.as_str()) {
                    assert!(value.starts_with('#') || value == "data:,", "<{name} {key}={value}>");
                }
            }
            assert!(
                !["iframe", "object", "embed", "form", "base", "img"].contains(&name.as_str()),
                "<{name}>"
            );
        }
        let style =
            page.split("<style>").nth(1).and_then(|s| s.split("</style>").next()).expect("a style sheet");
        assert!(!style.contains("@import"));
        for (at, _) in style.match_indices("url(") {
            assert!(style[at + 4..].starts_with('#'), "{}", &style[at..at + 20]);
        }
        let script = page.rsplit("<script>").next().expect("a script");
        for call in ["fetch(", "XMLHttpRequest", "WebSocket", "import(", "innerHTML", "eval(", "sendBeacon"] {
            assert!(!script.contains(call), "{call}");
        }
    }
}

#[test]
fn pages_of_large_machines_stay_readable() {
    let size = html::document(&sample::document(240)).len();
    assert!(size < 200_000, "{size} bytes");
    // 256 CPUs and 20 000 threads.
    let mut document = sample::document(240);
    for block in document.sections.iter_mut().flat_map(|s| &mut s.blocks) {
        match block {
            Block::Timeline(timeline) => {
                let lane = timeline.lanes[0].clone();
                timeline.lanes =
                    (0..256).map(|cpu| Lane { title: format!("CPU {cpu}").into(), ..lane.clone() }).collect();
            }
            Block::Table(table) => table.rows = vec![table.rows[0].clone(); 20_000],
            Block::Budget(budget) => budget.table.rows = vec![budget.table.rows[0].clone(); 20_000],
            _ => {}
        }
    }
    let page = html::document(&document);
    assert!(page.len() < 1_500_000, "{} bytes", page.len());
    assert!(page.contains("300 of 20,000 threads are in this page"));
    let text = report::text::document(&document, &report::TextOptions::PIPED);
    assert!(text.lines().count() < 200, "{} lines", text.lines().count());
    assert!(text.contains("16 of 256 lanes shown"));
}

#[test]
fn the_script_runs_in_a_browser_and_hostile_names_do_not() {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names
        .iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success()));
    let Some(browser) = found else {
        testkit::skipped!("no chromium to open the page with");
    };
    let folder = std::env::temp_dir().join(format!("lotse-page-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the page");
    let page = folder.join("page.html");
    std::fs::write(&page, html::document(&hostile())).expect("the page is written");
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
        ])
        .args(["--disable-component-update", "--disable-sync", "--virtual-time-budget=2000", "--dump-dom"])
        .arg("--enable-logging=stderr")
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", page.display()))
        .output();
    let output = output.expect("the browser starts");
    let _ = std::fs::remove_dir_all(&folder);
    let dom = String::from_utf8_lossy(&output.stdout);
    let talk = String::from_utf8_lossy(&output.stderr);
    if dom.is_empty() {
        testkit::skipped!("chromium does not start here");
    }
    assert!(dom.contains("id=\"theme\""), "the script did not run: {talk}");
    assert!(!dom.contains("<title>owned"), "a hostile name ran as a script");
    assert!(!dom.contains("<img"), "a hostile name became an element");
    let complaint = talk.lines().find(|line| line.contains("CONSOLE"));
    assert_eq!(complaint, None, "the page complains");
}
