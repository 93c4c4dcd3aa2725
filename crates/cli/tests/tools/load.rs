//! Loads written in C: each system call is one that the text says, and their number is known.

// Each family uses what it needs.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of its own, with its files removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    /// A new one, below the folder for temporary files.
    pub fn new() -> Folder {
        Folder::below(&std::env::temp_dir())
    }

    /// A new one on a disk, where the build has its files; else as [`Folder::new`].
    pub fn on_disk() -> Folder {
        let built = Path::new(env!("CARGO_TARGET_TMPDIR"));
        if built.is_dir() { Folder::below(built) } else { Folder::new() }
    }

    fn below(parent: &Path) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("lotse-tools-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path.canonicalize().unwrap())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where a file in it is.
    pub fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Its own name, without those above it.
    pub fn name(&self) -> &str {
        self.0.file_name().unwrap().to_str().unwrap()
    }

    /// The type of the file system that it is on, as mountinfo calls it.
    pub fn file_system(&self) -> String {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let of_line = |line: &str| {
            let (left, right) = line.split_once(" - ")?;
            Some((left.split(' ').nth(4)?.to_owned(), right.split(' ').next()?.to_owned()))
        };
        let above = mounts.lines().filter_map(of_line).filter(|(place, _)| self.0.starts_with(place));
        above.max_by_key(|(place, _)| place.len()).unwrap().1
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What every load begins with.
const PRELUDE: &str = "
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define TIMES(n) for (int i_ = 0; i_ < (n); i_++)
#define NEEDS(x) do { if (!(x)) { perror(#x); exit(99); } } while (0)
";

/// Compiles the body of a `main` (with `what` before it) into the folder; `None` without a compiler.
#[track_caller]
pub fn compiled(folder: &Folder, before: &str, body: &str) -> Option<String> {
    if !testkit::skip::has_program("cc") {
        return None;
    }
    let (source, program) = (folder.file("load.c"), folder.file("load"));
    let text = format!("{PRELUDE}{before}\nint main(int argc, char **argv) {{ {body}\nreturn 0; }}\n");
    std::fs::write(&source, text).unwrap();
    let output = Command::new("cc")
        .args([
            "-O1",
            "-fno-omit-frame-pointer",
            "-fno-optimize-sibling-calls",
            "-fno-inline",
            "-w",
            "-pthread",
        ])
        .args(["-fno-builtin", "-o", &program, &source])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

/// A compiled load, or the end of the test as skipped.
#[macro_export]
macro_rules! load {
    ($folder:expr, $body:expr) => {
        $crate::load!($folder, "", $body)
    };
    ($folder:expr, $before:expr, $body:expr) => {
        match $crate::load::compiled($folder, $before, $body) {
            Some(program) => program,
            None => testkit::skipped!("there is no C compiler (cc)"),
        }
    };
}
