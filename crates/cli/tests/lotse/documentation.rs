//! Every example of docs/commands.md and docs/recording.md is run: lines that begin with `$ ` in
//! their `console` blocks, in order, in one folder for each page. A comment `# exit 1` behind a command states its status.

use crate::harness::{Place, binary};
use crate::needs_recording;

#[test]
fn every_example_of_the_commands_runs() {
    needs_recording!();
    assert!(run_examples("commands.md") >= 15);
}

#[test]
fn every_example_about_recording_runs() {
    needs_recording!();
    assert!(run_examples("recording.md") >= 8);
}

/// Runs a page's examples; answers how many.
fn run_examples(page: &str) -> u32 {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/");
    let text = std::fs::read_to_string(format!("{docs}{page}")).unwrap();
    let place = Place::new();
    std::os::unix::fs::symlink(binary(), place.path("lotse")).unwrap();
    let path = format!("{}:{}", place.path(".").display(), std::env::var("PATH").unwrap_or_default());
    let mut run = 0;
    for block in text.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for line in block.lines().filter_map(|line| line.strip_prefix("$ ")) {
            let (line, status) = match line.split_once("  # exit ") {
                Some((line, status)) => (line, status.trim().parse::<i32>().unwrap()),
                None => (line, 0),
            };
            let mut command = std::process::Command::new("bash");
            command.args(["-o", "pipefail", "-c", line]).env("PATH", &path);
            place.prepare(&mut command);
            let output = place.finish(&mut command);
            let allowed = output.status == Some(status)
                // A busy machine may make a cross-check differ.
                || (status == 0 && output.status == Some(1) && line.contains("lotse run "));
            assert!(allowed, "`{line}` ended with {:?}:\n{}{}", output.status, output.stdout, output.stderr);
            run += 1;
        }
    }
    run
}
