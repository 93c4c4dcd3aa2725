//! Control groups by their directories.

use std::path::Path;

/// The threads of a group and of those below it, now; empty when it cannot be read.
pub fn threads_of(directory: &Path) -> Vec<u32> {
    let mut threads = Vec::new();
    collect(directory, &mut threads, 0);
    threads.sort_unstable();
    threads.dedup();
    threads
}

fn collect(directory: &Path, threads: &mut Vec<u32>, depth: u32) {
    // `tasks` is version 1's name for it.
    let text = ["cgroup.threads", "tasks"]
        .iter()
        .find_map(|name| std::fs::read_to_string(directory.join(name)).ok());
    threads.extend(text.unwrap_or_default().lines().filter_map(|line| line.parse::<u32>().ok()));
    // The kernel's limit on nesting is lower; a loop by bind mounts ends here.
    if depth > 64 {
        return;
    }
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&entry.path(), threads, depth + 1);
        }
    }
}
