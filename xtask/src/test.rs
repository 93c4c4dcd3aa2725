//! `cargo xtask test`: everything that has to hold before a change lands.

use std::{collections::BTreeMap, fs};

use anyhow::Result;

use crate::{
    shell::{command, root, run},
    structure,
};

/// Format, lints, structure, tests. Arguments go to `cargo test`.
pub fn run_all(arguments: &[String]) -> Result<()> {
    run(&mut command("cargo", &["fmt", "--all", "--check"]))?;
    run(&mut command(
        "cargo",
        &["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"],
    ))?;
    structure::run(&[])?;

    // Tests that cannot run on this machine write their reason here (testkit::skipped!).
    let skipped = root().join("target/skipped.txt");
    let _ = fs::remove_file(&skipped);
    // The product is built first: tests start it as users do.
    run(&mut command("cargo", &["build", "--workspace", "--bins"]))?;
    let mut tests = command("cargo", &["test", "--workspace", "--no-fail-fast"]);
    tests.args(arguments).env("LOTSE_SKIPPED", &skipped);
    // Tests that trace share the machine with whatever else runs on it. If one fails, it is said
    // and all run once more; what fails then is a failure.
    let result = run(&mut tests).or_else(|error| {
        eprintln!(
            "tests failed ({error:#}); once more, since others on this machine may have disturbed them"
        );
        let _ = fs::remove_file(&skipped);
        run(&mut tests)
    });

    let reasons = fs::read_to_string(&skipped).unwrap_or_default();
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    for line in reasons.lines() {
        *counted.entry(line).or_default() += 1;
    }
    eprintln!(
        "skipped: {} {}",
        reasons.lines().count(),
        if counted.is_empty() { "" } else { "(could not run here)" }
    );
    for (reason, count) in counted {
        eprintln!("  {count} × {reason}");
    }
    result
}
