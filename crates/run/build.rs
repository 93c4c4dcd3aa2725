//! The shelf: every `tools/*.bt` of the workspace, as a list of names and texts.

use std::fmt::Write;
use std::path::PathBuf;
use std::{env, fs};

fn main() {
    // Asked for when it runs: a target folder that is copied elsewhere must not build the tools of its origin.
    let manifest = env::var_os("CARGO_MANIFEST_DIR").expect("cargo tells the folder");
    let folder = PathBuf::from(manifest).join("../../tools");
    println!("cargo::rerun-if-changed={}", folder.display());
    println!("cargo::rerun-if-changed=build.rs");
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry.expect("the folder of tools is readable").file_name().to_string_lossy().into_owned()
        })
        .filter_map(|name| name.strip_suffix(".bt").map(str::to_owned))
        .collect();
    names.sort();
    let mut list = String::from("&[\n");
    for name in &names {
        let path = folder.join(format!("{name}.bt"));
        writeln!(list, "    ({name:?}, include_str!({:?})),", path.display().to_string())
            .expect("a string takes all");
    }
    list.push(']');
    let to = PathBuf::from(env::var_os("OUT_DIR").expect("cargo tells the folder")).join("shelf.rs");
    fs::write(&to, list).unwrap_or_else(|error| panic!("{}: {error}", to.display()));
}
