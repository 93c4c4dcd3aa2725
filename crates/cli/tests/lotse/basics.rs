//! Help, version, completions, manual, explanations, pipes.

use std::io::Read;
use std::process::Stdio;

use crate::harness::Place;

#[test]
fn help_names_every_command_and_the_exit_statuses() {
    let output = Place::new().lotse(&["--help"]).expect(0);
    for name in ["doctor", "list", "run", "record", "report", "info", "runs", "explain", "completions", "man"]
    {
        assert!(output.stdout.contains(&format!("\n  {name} ")), "{name} in:\n{}", output.stdout);
    }
    assert!(output.stdout.contains("1 done, and a threshold or a check did not hold"));
}

#[test]
fn the_version_tells_how_it_was_built() {
    let place = Place::new();
    assert_eq!(place.lotse(&["-V"]).expect(0).stdout, format!("lotse {}\n", env!("CARGO_PKG_VERSION")));
    assert!(place.lotse(&["--version"]).expect(0).stdout.contains("built for "));
}

#[test]
fn a_command_line_that_is_not_understood_is_refused_with_a_hint() {
    let place = Place::new();
    let output = place.lotse(&["recrod"]).expect(2);
    assert!(output.stderr.contains("record"), "{}", output.stderr);
    let output = place.lotse(&["run", "sched", "--duration", "10"]).expect(2);
    assert!(output.stderr.contains("write a number and its unit"), "{}", output.stderr);
    let output = place.lotse(&["run", "sched", "--pid", "1", "--tid", "2"]).expect(2);
    assert!(output.stderr.contains("cannot be used with"), "{}", output.stderr);
    place.lotse(&[]).expect(2);
}

#[test]
fn completions_and_manual_come_from_the_same_declarations() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(place.lotse(&["completions", shell]).expect(0).stdout.contains("doctor"), "{shell}");
    }
    assert!(place.lotse(&["man"]).expect(0).stdout.contains(".TH lotse 1"));
    assert!(place.lotse(&["man", "record"]).expect(0).stdout.contains(".TH"));
    assert!(place.lotse(&["man", "tool-runqlat"]).expect(0).stdout.contains(".TH lotse\\-tool\\-runqlat 1"));
    place.lotse(&["man", "tool-runqla"]).refused(&["did you mean tool-runqlat"]);
    place.lotse(&["man", "--output", "pages"]).expect(0);
    assert!(place.path("pages/lotse-tool-execsnoop.1").is_file());
    assert!(place.lotse(&["completions", "bash"]).expect(0).stdout.contains("runqlat"));
    let pages = crate::harness::names_in(&place.path("pages"));
    assert!(pages.contains(&"lotse-run.1".to_owned()), "{pages:?}");
}

#[test]
fn every_code_is_explained() {
    let place = Place::new();
    let list = place.lotse(&["explain"]).expect(0).stdout;
    let first = list.split_whitespace().next().unwrap().to_owned();
    assert!(place.lotse(&["explain", &first]).expect(0).stdout.starts_with(&format!("{first}: ")));
    place.lotse(&["explain", "L9999"]).refused(&["there is no code `L9999`", "lists all"]);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Place::new();
    let mut child =
        place.command(&["list", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut some = [0; 16];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut some).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn piped_output_has_no_escape_sequences_unless_asked() {
    let place = Place::new();
    assert!(!place.lotse(&["doctor"]).stdout.contains('\x1b'));
    assert!(place.lotse(&["doctor", "--color", "always"]).stdout.contains('\x1b'));
}
