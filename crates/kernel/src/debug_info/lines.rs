//! Addresses of a source line.

use std::collections::BTreeSet;

use super::dwarf::Units;

/// Why a line has no address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoLine {
    /// No unit has that file.
    #[error("{file} is none of its source files{}", listed(near))]
    NoFile {
        /// As asked.
        file: String,
        /// Files that there are.
        near: Vec<String>,
    },
    /// The file is there, the line has no code.
    #[error("{file}:{line} has no code{}", next.map_or(String::new(), |next| format!("; the next line with code is {next}")))]
    NoCode {
        /// As asked.
        file: String,
        /// As asked.
        line: u32,
        /// The next line that has some.
        next: Option<u32>,
    },
}

fn listed(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; it has {}", near.join(", ")) }
}

/// Starts of the runs of instructions that the compiler made for a line and marks as beginnings of a
/// statement.
pub fn addresses(units: &Units<'_>, file: &str, line: u32) -> Result<Vec<u64>, NoLine> {
    let mut found = BTreeSet::new();
    let (mut files, mut next, mut known) = (BTreeSet::new(), None, false);
    for unit in (0..units.len()).filter_map(|number| units.unit(number)) {
        let Some(program) = unit.line_program.clone() else { continue };
        let header = program.header().clone();
        // Files by number, read once for each program.
        let mut wanted: Vec<Option<bool>> = Vec::new();
        let mut rows = program.rows();
        let mut before = None;
        while let Ok(Some((_, row))) = rows.next_row() {
            if row.end_sequence() {
                before = None;
                continue;
            }
            let number = row.file_index() as usize;
            if wanted.len() <= number {
                wanted.resize(number.min(1 << 16) + 1, None);
            }
            let Some(is_wanted) = wanted.get_mut(number) else { continue };
            let is_wanted = *is_wanted.get_or_insert_with(|| {
                let path = header.file(number as u64).and_then(|entry| {
                    let name =
                        units.dwarf.attr_string(unit, entry.path_name()).ok()?.to_string_lossy().into_owned();
                    let directory =
                        entry.directory(&header).and_then(|value| units.dwarf.attr_string(unit, value).ok());
                    Some(match directory {
                        Some(directory) if !name.starts_with('/') => {
                            format!("{}/{name}", directory.to_string_lossy())
                        }
                        _ => name,
                    })
                });
                let Some(path) = path else { return false };
                files.insert(path.rsplit('/').next().unwrap_or(&path).to_owned());
                is_file(&path, file)
            });
            let this = row.line().map(std::num::NonZeroU64::get).filter(|_| is_wanted);
            known |= is_wanted;
            if let Some(at) = this.filter(|at| *at > u64::from(line)) {
                next = Some(next.map_or(at, |next: u64| next.min(at)));
            }
            if this == Some(line.into()) && before != this && row.is_stmt() {
                found.insert(row.address());
            }
            if row.is_stmt() || this != Some(line.into()) {
                before = this;
            }
        }
    }
    // Code that the linker dropped stands at 0.
    found.remove(&0);
    if !found.is_empty() {
        return Ok(found.into_iter().collect());
    }
    if !known {
        let near = files.into_iter().take(8).collect();
        return Err(NoLine::NoFile { file: file.to_owned(), near });
    }
    Err(NoLine::NoCode { file: file.to_owned(), line, next: next.and_then(|next| u32::try_from(next).ok()) })
}

/// Whether a path ends in the components that were given.
fn is_file(path: &str, wanted: &str) -> bool {
    path == wanted
        || path.strip_suffix(wanted.trim_start_matches("./")).is_some_and(|rest| rest.ends_with('/'))
}
