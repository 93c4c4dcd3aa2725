//! `cargo xtask vm`: the kernel tests on other kernels, in QEMU without KVM.
//!
//! A kernel out of Debian's package, an initramfs of busybox and this workspace's static test binaries, the
//! serial console as the only way out. Nothing is installed and nothing outside `target/vm` is written.

pub mod archive;
pub mod guest;
pub mod kernels;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::shell::{command, root};
use guest::{Guest, Outcome};

/// Where packages, kernels and images are kept between runs.
pub fn folder() -> PathBuf {
    root().join("target/vm")
}

/// `[--kernel NAME]… [-- TESTNAME…]`: runs the kernel crate's integration tests, and the binary itself, on
/// each kernel.
pub fn run(arguments: &[String]) -> Result<()> {
    let (options, filters) = match arguments.iter().position(|argument| argument == "--") {
        Some(at) => (&arguments[..at], &arguments[at + 1..]),
        None => (arguments, &[][..]),
    };
    let mut wanted = Vec::new();
    let mut rest = options.iter();
    while let Some(option) = rest.next() {
        match option.as_str() {
            "--kernel" => wanted.push(kernels::by_name(rest.next().context("--kernel needs a name")?)?),
            other => bail!("'{other}' is not an option of vm; it knows --kernel NAME and -- TESTNAME…"),
        }
    }
    if wanted.is_empty() {
        wanted = vec![kernels::by_name("6.1")?, kernels::by_name("6.12")?];
    }
    let tests = test_binaries()?;
    let mut failed = Vec::new();
    for kernel in wanted {
        let image = kernels::fetch(kernel)?;
        let mut script = String::from("insmod /tests/dummy.ko numdummies=1\n");
        // The product is there for tests to call, not to be run as one.
        for (name, _) in tests.iter().filter(|(name, _)| name != "lotse") {
            let filters: String = filters.iter().map(|filter| format!(" '{filter}'")).collect();
            script.push_str(&format!(
                "echo \"== {name}\"; cd /tests && ./{name} --test-threads 1{filters} || status=1\n"
            ));
        }
        eprintln!("== {} ({})", kernel.name, image.release);
        let files = [&tests[..], &[("dummy.ko".to_owned(), image.module)]].concat();
        let guest = Guest { kernel: image.path, files, script, second_serial: None };
        match guest.run()? {
            Outcome::Passed => {}
            Outcome::Failed => failed.push(kernel.name),
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("tests failed on {}", failed.join(", ")) }
}

/// Builds the integration tests that make sense in a guest: (name in the guest, path here).
fn test_binaries() -> Result<Vec<(String, PathBuf)>> {
    const TESTS: &[(&str, &str)] = &[
        ("kernel", "loads_and_attaches"),
        ("run", "record_ledger"),
        ("run", "record_whom"),
        ("run", "record_flight"),
        ("cli", "trace_on_kernels"),
        ("cli", "tools"),
    ];
    let mut found = Vec::new();
    for (package, test) in TESTS {
        let place = root().join(format!("crates/{package}/tests"));
        if !place.join(format!("{test}.rs")).exists() && !place.join(test).join("main.rs").exists() {
            continue;
        }
        let mut build = command("cargo", &["test", "-q", "-p", package, "--test", test, "--no-run"]);
        let output = build.arg("--message-format=json").output().context("cannot run cargo")?;
        if !output.status.success() {
            bail!("{test} does not build:\n{}", String::from_utf8_lossy(&output.stderr));
        }
        let messages = String::from_utf8_lossy(&output.stdout);
        let path = messages
            .lines()
            .filter(|line| line.contains("\"kind\":[\"test\"]"))
            .filter_map(executable_of)
            .next_back();
        let path = path.with_context(|| format!("cargo did not name the executable of {test}"))?;
        found.push(((*test).to_owned(), PathBuf::from(path)));
        if *package == "cli" && !found.iter().any(|(name, _)| name == "lotse") {
            let binary =
                root().join(format!("target/{}-unknown-linux-gnu/debug/lotse", std::env::consts::ARCH));
            found.push(("lotse".to_owned(), binary));
        }
    }
    Ok(found)
}

/// `"executable":"PATH"` in a line of cargo's JSON.
fn executable_of(line: &str) -> Option<String> {
    let after = line.split_once("\"executable\":\"")?.1;
    Some(after.split_once('"')?.0.to_owned())
}
