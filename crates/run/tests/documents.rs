//! The documents of the language: every program in them is checked against this kernel, those
//! with their output are run and have to print it, and the table of functions is the compiler's.
//! `LOTSE_BLESS=1` writes the table anew.

// What is skipped or found is said on stdout, where the test runner's list finds it.
#![allow(clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use bpf::KernelFacts;
use kernel::facts::LiveFacts;
use lang::diagnostic::{Code, Severity};
use lang::front::front;
use lang::options::Options;
use lang::sema::builtins;
use run::program::compile::compile;
use run::program::live_environment::LiveEnvironment;
use run::program::{RunOptions, session};

struct Example {
    line: usize,
    program: String,
    text: Option<String>,
    stderr: Option<String>,
}

fn document(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

/// Fenced blocks `bt`, each with the `text` and `stderr` blocks after it.
fn examples(text: &str) -> Vec<Example> {
    let mut out: Vec<Example> = Vec::new();
    let mut open: Option<(&str, usize, String)> = None;
    for (number, line) in text.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(kind)) => open = Some((kind, number + 1, String::new())),
            (Some(_), Some(_)) => {
                let (kind, line, body) = open.take().expect("it is open");
                match (kind, out.last_mut()) {
                    ("bt", _) => out.push(Example { line, program: body, text: None, stderr: None }),
                    ("text", Some(last)) => last.text = Some(body),
                    ("stderr", Some(last)) => last.stderr = Some(body),
                    _ => {}
                }
            }
            (Some((.., body)), None) => {
                body.push_str(line);
                body.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(!out.is_empty());
    out
}

fn check_document(name: &str) {
    let facts = LiveFacts::new();
    if facts.btf().is_none() || facts.tracepoints().is_empty() {
        println!("SKIPPED: this kernel has no BTF, or its tracepoints cannot be read");
        return;
    }
    let text = std::fs::read_to_string(document(name)).unwrap();
    let environment = LiveEnvironment::new(None);
    let options = Options { environment: &environment, ..Options::default() };
    let mut refused = 0;
    for example in examples(&text) {
        let place = format!("{name}:{}\n{}", example.line, example.program);
        let checked = front(&example.program, &options, &facts);
        let of_the_kernel = |code| matches!(code, Code::NoSuchProbe | Code::ProbeUnsupported);
        let wrong: Vec<_> = checked
            .findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error && !of_the_kernel(finding.code))
            .collect();
        assert!(wrong.is_empty(), "{place}{}", checked.report());
        let Some(expected) = &example.text else { continue };
        let outcome = compile(&example.program, &options, &facts, None);
        let Some(compiled) = outcome.compiled else { panic!("{place}{}", outcome.report) };
        let stop = kernel::stop::StopToken::new().unwrap();
        let (mut out, mut talk) = (Vec::new(), Vec::new());
        let run =
            RunOptions { quiet: true, duration: Some(Duration::from_secs(10)), ..RunOptions::default() };
        if let Err(why) = session::run(&compiled, &facts, &run, None, &stop, &mut out, &mut talk) {
            testkit::skip::note(module_path!(), &why.to_string());
            refused += 1;
            continue;
        }
        let lines = |text: &str| -> Vec<String> {
            text.lines().map(|line| line.trim_end().to_string()).filter(|line| !line.is_empty()).collect()
        };
        let printed = String::from_utf8_lossy(&out);
        assert_eq!(lines(&printed), lines(expected), "{place}");
        if let Some(expected) = &example.stderr {
            let talk = String::from_utf8_lossy(&talk);
            assert!(talk.contains(expected.trim()), "{place}{talk}");
        }
    }
    println!("{refused} examples could not be run here");
}

#[test]
fn the_language_is_as_its_document_says() {
    check_document("language.md");
}

#[test]
fn the_differences_to_bpftrace_are_as_described() {
    check_document("coming-from/bpftrace.md");
}

const BEGIN: &str = "<!-- functions: written by the test from the compiler's own table -->\n";
const END: &str = "<!-- end of functions -->";

#[test]
fn the_table_of_functions_is_the_compilers() {
    let mut table = String::from("| function | |\n|---|---|\n");
    for row in builtins::rows() {
        let forms: Vec<String> =
            row.signature.lines().map(|form| format!("`{}`", form.trim().replace('|', "\\|"))).collect();
        let mark = if row.needs_unsafe { " Needs `--unsafe`." } else { "" };
        table.push_str(&format!("| {} | {}{mark} |\n", forms.join("<br>"), row.doc.replace('|', "\\|")));
    }
    let path = document("language.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let start = text.find(BEGIN).expect("the mark before the table") + BEGIN.len();
    let end = text.find(END).expect("the mark after the table");
    if std::env::var_os("LOTSE_BLESS").is_some() {
        std::fs::write(&path, format!("{}{table}{}", &text[..start], &text[end..])).unwrap();
        return;
    }
    assert_eq!(&text[start..end], table, "run with LOTSE_BLESS=1 to write the table anew");
}
