//! The sample document in every format, compared with the texts in `tests/expected`.
//! `LOTSE_BLESS=1 cargo test -p report` rewrites them; read the difference before committing.

mod sample;

use report::{TextOptions, html, json, markdown, text};

fn check(name: &str, actual: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected").join(name);
    if std::env::var_os("LOTSE_BLESS").is_some() {
        std::fs::write(&path, actual).expect("the expected text can be written");
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some((number, (is, should))) =
        actual.lines().zip(expected.lines()).enumerate().find(|(_, (is, should))| is != should)
    {
        panic!("{name}:{}\n  is      {is}\n  should  {should}\nLOTSE_BLESS=1 rewrites it", number + 1);
    }
    assert_eq!(actual.len(), expected.len(), "{name} has another length; LOTSE_BLESS=1 rewrites it");
}

#[test]
fn piped_text() {
    check("sample.txt", &text::document(&sample::document(24), &TextOptions::PIPED));
}

#[test]
fn coloured_text_of_eighty_columns() {
    let options = TextOptions { width: Some(80), colour: true, all_rows: true };
    let actual = text::document(&sample::document(24), &options);
    check("sample.80.ansi", &actual);
}

#[test]
fn text_keeps_to_the_width_and_to_plain_characters() {
    for width in [72, 80, 120] {
        let options = TextOptions { width: Some(width), colour: false, all_rows: true };
        let text = text::document(&sample::document(24), &options);
        assert!(!text.contains('\x1b'), "no escape sequence without colour");
        for line in text.lines() {
            // A remedy is a command to copy and is not broken.
            if !line.contains('→') {
                let columns = report::terminal_text::width(line);
                assert!(columns <= width, "{columns} columns at width {width}: {line}");
            }
        }
    }
}

#[test]
fn markdown_for_a_ticket() {
    check("sample.md", &markdown::document(&sample::document(24)));
}

#[test]
fn json_contract() {
    let text = json::document(&sample::document(4));
    check("sample.json", &text);
    let value: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(value["lotse"]["schema"], json::SCHEMA);
    assert_eq!(value["data"]["threads"]["rows"][0]["p99_ns"], 4_118_000);
    assert_eq!(value["data"]["threads"]["rows"][3]["p99_ns"], serde_json::Value::Null);
    assert_eq!(value["data"]["threads"]["rows"][3]["p99_ns_missing"], "fewer than 100 waits");
    assert_eq!(value["data"]["wait"]["series"][0]["percentiles"]["p99_9_ns"], 9_700_000);
    assert_eq!(value["holds"], false);
}

#[test]
fn html_page() {
    // Style and script are files of their own; only what is made is compared.
    let mut page = html::document(&sample::document(24));
    for (open, close) in
        [("<style>", "</style>"), ("<script>", "</script>"), ("sha256-", "'"), ("sha256-", "'")]
    {
        let start = page.find(open).expect("it has it") + open.len();
        let end = start + page[start..].find(close).expect("it ends");
        page.replace_range(start..end, "…");
        page = page.replacen("sha256-…", "hash …", 1);
    }
    check("sample.html", &page);
}
