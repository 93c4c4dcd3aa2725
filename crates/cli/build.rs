//! Facts about the build for `lotse --version`: none of them depends on the machine it runs on.

use std::env;
use std::process::Command;

fn main() {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().map(|out| out.stdout).unwrap_or_default();
    let version = String::from_utf8_lossy(&version);
    let short: Vec<&str> = version.split_whitespace().take(2).collect();
    println!("cargo::rustc-env=LOTSE_RUSTC={}", short.join(" "));
    for (name, from) in [("LOTSE_TARGET", "TARGET"), ("LOTSE_PROFILE", "PROFILE")] {
        println!("cargo::rustc-env={name}={}", env::var(from).unwrap_or_default());
    }
    println!("cargo::rerun-if-changed=build.rs");
}
