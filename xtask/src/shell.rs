//! Running other programs from the repository's root.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result, bail};

/// The repository's root folder.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).unwrap_or(here)
}

/// A command that will run in the repository's root.
pub fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// Runs a command to its end; an exit status other than 0 is an error that names it.
pub fn run(command: &mut Command) -> Result<()> {
    let line = format!("{command:?}");
    eprintln!("$ {line}");
    let status = command.status().with_context(|| format!("cannot start {line}"))?;
    if !status.success() {
        bail!("{line} ended with {status}");
    }
    Ok(())
}

/// A binary of the last release build.
pub fn release_binary(name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    // With a named build target the product lies below its triple.
    let triple = target.join(format!("{}-unknown-linux-gnu/release", std::env::consts::ARCH)).join(name);
    if triple.exists() { triple } else { target.join("release").join(name) }
}
