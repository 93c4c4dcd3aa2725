//! Every example of docs/commands.md is run: lines that begin with `$ lotse` in its `console`
//! blocks, in order, in one folder. A comment `# exit 1` behind a command states its status.

use crate::harness::{Place, binary};
use crate::needs_recording;

#[test]
fn every_example_in_the_documentation_runs() {
    needs_recording!();
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md")).unwrap();
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
    assert!(run >= 15, "{run} examples");
}
