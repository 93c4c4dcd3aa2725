//! `cargo xtask structure`: the architecture's absences, held against the code.
//!
//! Two rules. Crates depend only along the allowed arrows. Within a crate, a `mod`
//! list goes from the lowest layer to the highest, and a module uses only modules that
//! stand above it in the list. A recursion over a language is written in several files
//! that call each other; its `mod` list says so in a comment ([`RECURSION`]) and is not
//! ordered within.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::shell::root;

/// All arrows allowed between the crates; `cli` and the tools may use every crate.
/// `run → readers`: a whole run ends in the analysis of its own file.
const ARROWS: &[(&str, &[&str])] = &[
    ("bpf", &[]),
    ("trace", &[]),
    ("lang", &["bpf", "trace"]),
    ("kernel", &["bpf"]),
    ("readers", &["trace"]),
    ("analysis", &["trace"]),
    ("report", &["analysis", "trace"]),
    ("run", &["lang", "kernel", "bpf", "trace", "readers", "analysis"]),
    ("testkit", &["bpf", "trace"]),
];

/// Heads a `mod` list whose modules are one recursion.
const RECURSION: &str = "// One recursion in several files";

/// Checks both rules and lists every violation.
pub fn run(_: &[String]) -> Result<()> {
    let crates = root().join("crates");
    let mut violations = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(&crates).context("crates/")? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    for name in &names {
        let folder = crates.join(name);
        violations.extend(arrows(name, &names, &fs::read_to_string(folder.join("Cargo.toml"))?));
        for root_file in ["src/lib.rs", "src/main.rs"] {
            let file = folder.join(root_file);
            if file.exists() {
                order(&file, &folder.join("src"), "crate", &mut violations)?;
            }
        }
    }
    if violations.is_empty() {
        eprintln!("structure: {} crates, arrows and module order hold", names.len());
        return Ok(());
    }
    bail!("structure:\n  {}", violations.join("\n  "))
}

/// Dependencies of a manifest (not the ones for tests) that no arrow allows.
fn arrows(name: &str, all: &[String], manifest: &str) -> Vec<String> {
    let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == name) else {
        return if name == "cli" {
            Vec::new()
        } else {
            vec![format!("{name}: a crate that the design does not have")]
        };
    };
    let mut section = "";
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line.trim();
        } else if section == "[dependencies]" {
            let dependency = line.split(['.', '=', ' ']).next().unwrap_or("").trim();
            if all.iter().any(|n| n == dependency) && !allowed.contains(&dependency) {
                found.push(format!("{name} → {dependency}: not an allowed arrow"));
            }
        }
    }
    found
}

/// Checks the `mod` list of `file` (whose children live in `folder`) and of all below it.
fn order(file: &Path, folder: &Path, path: &str, violations: &mut Vec<String>) -> Result<()> {
    let text = fs::read_to_string(file)?;
    let modules: Vec<String> = text.lines().filter_map(module_of).map(str::to_owned).collect();
    let recursion = text.lines().any(|line| line.starts_with(RECURSION));
    for (position, module) in modules.iter().enumerate() {
        if module == "tests" {
            continue;
        }
        let (child, child_folder) = locate(folder, module)?;
        let mut sources = vec![child.clone()];
        collect(&child_folder, &mut sources);
        // Files of tests may use the whole crate.
        for source in sources.iter().filter(|path| !path.ends_with("tests.rs")) {
            let code = fs::read_to_string(source)?;
            let code = code.split("#[cfg(test)]").next().unwrap_or("");
            for later in modules[position + 1..].iter().filter(|_| !recursion) {
                if later != "tests" && uses(code, path, later, *source == child) {
                    violations.push(format!(
                        "{}: uses {path}::{later}, which stands below {path}::{module} in {}",
                        relative(source),
                        relative(file)
                    ));
                }
            }
        }
        order(&child, &child_folder, &format!("{path}::{module}"), violations)?;
    }
    Ok(())
}

/// Whether `code` names the module `later` of the module at `path`.
fn uses(code: &str, path: &str, later: &str, direct_child: bool) -> bool {
    let mut prefixes = vec![format!("{path}::")];
    if direct_child {
        prefixes.push("super::".to_owned());
    }
    prefixes.iter().any(|prefix| {
        code.match_indices(prefix.as_str()).any(|(at, _)| {
            let line_start = code[..at].rfind('\n').map_or(0, |n| n + 1);
            if code[line_start..at].trim_start().starts_with("//") {
                return false;
            }
            let rest = &code[at + prefix.len()..];
            if let Some(group) = rest.strip_prefix('{') {
                return heads(group).iter().any(|head| head == later);
            }
            let head: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            head == later
        })
    })
}

/// First path segments of the entries of a `use` group, the text after its `{`.
fn heads(group: &str) -> Vec<String> {
    let (mut depth, mut heads, mut entry) = (0, Vec::new(), String::new());
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => heads.push(std::mem::take(&mut entry)),
            _ if depth == 0 => entry.push(c),
            _ => {}
        }
    }
    heads.push(entry);
    heads.iter().map(|e| e.trim().split([':', ' ']).next().unwrap_or("").to_owned()).collect()
}

/// The name in a `mod name;` line.
fn module_of(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub ")).unwrap_or(line);
    line.strip_prefix("mod ")?.strip_suffix(';')
}

fn locate(folder: &Path, module: &str) -> Result<(PathBuf, PathBuf)> {
    let flat = folder.join(format!("{module}.rs"));
    let nested = folder.join(module).join("mod.rs");
    let file = if flat.exists() { flat } else { nested };
    if !file.exists() {
        bail!("module {module} of {} has no file", folder.display());
    }
    Ok((file, folder.join(module)))
}

fn collect(folder: &Path, sources: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, sources);
        } else if path.extension().is_some_and(|e| e == "rs") && !sources.contains(&path) {
            sources.push(path);
        }
    }
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrow_that_is_not_allowed_is_named() {
        let all = ["bpf", "lang", "kernel"].map(String::from);
        let manifest = "[dependencies]\nbpf.workspace = true\nkernel.workspace = true\n[dev-dependencies]\nrun.workspace = true\n";
        assert_eq!(arrows("lang", &all, manifest), ["lang → kernel: not an allowed arrow"]);
        assert!(arrows("cli", &all, manifest).is_empty());
        assert_eq!(arrows("extra", &all, manifest).len(), 1);
    }

    #[test]
    fn uses_of_a_later_module_are_seen_in_paths_and_groups() {
        assert!(uses("use crate::later::Thing;", "crate", "later", false));
        assert!(uses("use crate::{a::{later, x}, later::Y};", "crate", "later", false));
        assert!(!uses("use crate::{a::{later, x}, b};", "crate", "later", false));
        assert!(!uses("// see crate::later", "crate", "later", false));
        assert!(!uses("use crate::later_still::Thing;", "crate", "later", false));
        assert!(uses("super::later::go()", "crate::a", "later", true));
    }
}
