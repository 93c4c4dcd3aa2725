//! Tools of the family `files`.

use std::process::Command;

use serde_json::{Value, json};

use crate::load::Folder;
use crate::shared::{Answer, Running, counted, counted_within, tool};
use crate::{load, needs_tracing};

/// Rows about files in a folder, by the field that has the path.
fn in_folder<'a>(answer: &'a Answer, folder: &Folder) -> Vec<&'a Value> {
    let here = |row: &&Value| row["path"].as_str().unwrap().starts_with(folder.path().to_str().unwrap());
    answer.rows().into_iter().filter(here).collect()
}

#[test]
fn opensnoop_shows_each_open_with_its_result() {
    needs_tracing!();
    let folder = Folder::new();
    let body = "chdir(argv[1]);
         char path[3000]; snprintf(path, sizeof path, \"%s/made\", argv[1]);
         TIMES(10) close(open(path, O_CREAT | O_WRONLY, 0600));
         snprintf(path, sizeof path, \"%s/missing\", argv[1]);
         TIMES(3) syscall(SYS_open, path, O_RDONLY);
         snprintf(path, sizeof path, \"%s/created\", argv[1]); close(syscall(SYS_creat, path, 0600));
         struct open_how how = { .flags = O_RDONLY };
         close(syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how));
         int dir = open(argv[1], O_RDONLY | O_DIRECTORY); dup2(dir, 77);
         close(openat(77, \"created\", O_RDONLY));
         memset(path, '/', 2000); strcpy(path + 2000, \"tmp\"); open(path, O_RDONLY);";
    let program = load!(&folder, body);
    let command = format!("{program} {}", folder.path().display());
    let answer = tool(&["opensnoop", "-c", &command]).done();
    let of = |name: &str| answer.rows_with(&[("path", folder.file(name).into())]);
    assert_eq!(of("made").len(), 10);
    assert!(
        of("made")
            .iter()
            .all(|row| row["fd"].as_i64() >= Some(3) && row["error"] == 0 && row["dir"] == "cwd")
    );
    assert_eq!(of("made")[0]["flags"], 0x41);
    assert_eq!(of("missing").len(), 3);
    assert!(of("missing").iter().all(|row| row["fd"] == -1 && row["error"] == "ENOENT"));
    // By creat and by openat2.
    let flags: Vec<_> = of("created").iter().map(|row| row["flags"].clone()).collect();
    assert_eq!(flags, [json!(0x241), json!(0)]);
    assert_eq!(answer.rows_with(&[("path", "created".into()), ("dir", json!(77))]).len(), 1);
    let cut =
        answer.rows().into_iter().find(|row| row["path"].as_str().unwrap().starts_with("//////")).unwrap();
    assert!(cut["path"].as_str().unwrap().ends_with(".."), "{cut}");
    assert!(answer.rows().iter().all(|row| row["pid"] == cut["pid"]));
    let failed = tool(&["opensnoop", "--failed", "-c", &command]).done();
    assert_eq!(in_folder(&failed, &folder).len(), 3);
}

/// Paths opened under a folder that a peer prints, one a line.
#[test]
fn opensnoop_agrees_with_its_peer() {
    needs_tracing!();
    let peer = "/usr/sbin/opensnoop";
    let is_libbpf = std::fs::read(peer).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"));
    if !is_libbpf || !testkit::skip::has_program("stdbuf") {
        testkit::skipped!("opensnoop of libbpf-tools is not installed");
    }
    let folder = Folder::new();
    let program = load!(
        &folder,
        "char path[3000]; usleep(300000);
         TIMES(40) { snprintf(path, sizeof path, \"%s/%d\", argv[1], i_); close(open(path, O_CREAT | O_RDWR, 0600)); open(\"/there/is/nothing\", 0); }"
    );
    let mut theirs = Command::new("stdbuf")
        .args(["-oL", peer, "-x", "-n", "load"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Their probes are attached when they have written the heads.
    let mut heads = String::new();
    let mut lines = std::io::BufReader::new(theirs.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut lines, &mut heads).unwrap();
    let ours =
        tool(&["opensnoop", "--failed", "-c", &format!("{program} {}", folder.path().display())]).done();
    let pid = ours.rows().last().unwrap()["pid"].to_string();
    std::thread::sleep(std::time::Duration::from_millis(500));
    let _ = Command::new("kill").args(["-INT", &theirs.id().to_string()]).status();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut lines, &mut text).unwrap();
    // It loses events of its own on a busy machine, and says so.
    let said = theirs.wait_with_output().unwrap().stderr;
    let lost = String::from_utf8_lossy(&said).contains("Lost");
    let path = "/there/is/nothing";
    let is_theirs = |line: &&str| line.ends_with(path) && line.split_whitespace().next() == Some(&pid);
    assert_eq!(ours.rows_with(&[("path", path.into())]).len(), 40);
    let found = text.lines().filter(is_theirs).count();
    assert!(found == 40 || lost && found < 40, "{found}: {text}");
}

#[test]
fn statsnoop_shows_each_question_about_a_file() {
    needs_tracing!();
    let folder = Folder::new();
    let program = load!(
        &folder,
        "struct stat s; struct statfs f; struct statx x; char path[3000];
         snprintf(path, sizeof path, \"%s/load\", argv[1]);
         TIMES(5) syscall(SYS_stat, path, &s);
         TIMES(4) syscall(SYS_newfstatat, AT_FDCWD, path, &s, 0);
         TIMES(3) statx(AT_FDCWD, path, 0, STATX_SIZE, &x);
         TIMES(2) statfs(path, &f);
         access(path, R_OK);
         snprintf(path, sizeof path, \"%s/missing\", argv[1]);
         TIMES(6) syscall(SYS_lstat, path, &s);"
    );
    let answer = tool(&["statsnoop", "-c", &format!("{program} {}", folder.path().display())]).done();
    let number = |call: &str, name: &str, error: Value| {
        let fields = [("call", call.into()), ("path", folder.file(name).into()), ("error", error)];
        answer.rows_with(&fields).len()
    };
    assert_eq!(number("stat", "load", json!(0)), 5, "{:?}", answer.rows());
    assert_eq!(number("newfstatat", "load", json!(0)), 4);
    assert_eq!(number("statx", "load", json!(0)), 3);
    assert_eq!(number("statfs", "load", json!(0)), 2);
    assert_eq!(number("access", "load", json!(0)), 1);
    assert_eq!(number("lstat", "missing", json!("ENOENT")), 6);
    assert_eq!(in_folder(&answer, &folder).len(), 21);
}

/// Writes 100 times 4096 bytes to a file, reads 50 times 1000, syncs it; and moves bytes through a pipe.
const FILE_LOAD: &str =
    "static char data[4096]; char path[3000]; snprintf(path, sizeof path, \"%s/data.bin\", argv[1]);
     int fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600); NEEDS(fd >= 0);
     TIMES(100) NEEDS(write(fd, data, 4096) == 4096);
     TIMES(3) NEEDS(fsync(fd) == 0);
     TIMES(2) NEEDS(fdatasync(fd) == 0);
     TIMES(50) NEEDS(pread(fd, data, 1000, 4096) == 1000);
     NEEDS(pread(fd, data, 1000, 1 << 30) == 0);
     int pair[2]; pipe(pair); TIMES(20) { write(pair[1], data, 100); read(pair[0], data, 100); }
     sync_file_range(-1, 0, 0, 0);";

#[test]
fn syncsnoop_shows_each_sync_with_its_file() {
    needs_tracing!();
    let folder = Folder::on_disk();
    let program = load!(&folder, FILE_LOAD);
    let answer = tool(&["syncsnoop", "-c", &format!("{program} {}", folder.path().display())]).done();
    let calls = |call: &str, file: &str, error: Value| {
        answer.rows_with(&[("call", call.into()), ("file", file.into()), ("error", error)]).len()
    };
    assert_eq!(calls("fsync", "data.bin", json!(0)), 3, "{:?}", answer.rows());
    assert_eq!(calls("fdatasync", "data.bin", json!(0)), 2);
    assert_eq!(calls("sync_file_range", "", json!("EBADF")), 1, "{:?}", answer.rows());
    assert_eq!(answer.rows().len(), 6);
}

#[test]
fn filetop_adds_up_bytes_and_calls() {
    needs_tracing!();
    let folder = Folder::on_disk();
    let program = load!(&folder, FILE_LOAD);
    let command = format!("{program} {}", folder.path().display());
    let answer = tool(&["filetop", "-c", &command]).done();
    let rows = answer.rows_with(&[("file", "data.bin".into()), ("dir", folder.name().into())]);
    assert_eq!(rows.len(), 1, "{:?}", answer.rows());
    let row = rows[0];
    assert_eq!((&row["reads"], &row["writes"]), (&json!(50), &json!(100)));
    assert_eq!((&row["read_kb"], &row["write_kb"]), (&json!(48.828), &json!(400.0)));
    assert_eq!(row["kb"], 448.828);
    // Of the pipe nothing, unless it is asked for.
    assert!(answer.rows().iter().all(|row| row["write_kb"].is_null() || row["file"] == "data.bin"));
    let all = tool(&["filetop", "--all", "-c", &command]).done();
    assert!(all.rows().iter().any(|row| row["writes"] == 20 && row["reads"] == 20), "{:?}", all.rows());
}

#[test]
fn fsslower_and_fsdist_see_each_call_of_a_file_system() {
    needs_tracing!();
    let folder = Folder::on_disk();
    let program = load!(&folder, FILE_LOAD);
    let (command, kind) = (format!("{program} {}", folder.path().display()), folder.file_system());
    let named = format!("--type={kind}");
    let answer = tool(&["fsslower", "--min=0", &named, "-c", &command]).done();
    let file = |op: &str| {
        answer.rows_with(&[("file", "data.bin".into()), ("op", op.into()), ("fs", kind.as_str().into())])
    };
    assert_eq!((file("open").len(), file("write").len(), file("sync").len()), (1, 100, 5), "{kind}");
    // One read was at the end.
    assert_eq!(file("read").len(), 51);
    assert_eq!(file("read").iter().filter_map(|row| row["bytes"].as_u64()).sum::<u64>(), 50_000);
    assert_eq!(file("write")[0]["bytes"], 4096);
    assert_eq!(file("write")[0]["dir"], folder.name());
    let other = tool(&["fsslower", "--min=0", "--type=pipefs", "-c", &command]).done();
    assert_eq!(other.rows().len(), 40, "{:?}", other.rows());
    let answer = tool(&["fsdist", &named, "-c", &command]).done();
    let usecs = answer.map("@usecs");
    assert_eq!(counted(&usecs[format!("{kind},write")]), 100, "{usecs}");
    assert_eq!(counted(&usecs[format!("{kind},sync")]), 5);
    let answer = tool(&["fsdist", &named, "--op=sync", "-c", &command]).done();
    assert_eq!(answer.map("@usecs").as_object().unwrap().len(), 1);
    assert_eq!(counted_within(&answer.map("@usecs")[format!("{kind},sync")], 0, i64::MAX), 5);
}

#[test]
fn fsslower_shows_only_what_is_slow() {
    needs_tracing!();
    let folder = Folder::new();
    // A pipe makes its reader wait as long as one likes.
    let program = load!(
        &folder,
        "int pair[2]; char c; pipe(pair);
         if (!fork()) { TIMES(4) { usleep(i_ % 2 ? 100000 : 0); write(pair[1], \"x\", 1); usleep(20000); } _exit(0); }
         TIMES(4) read(pair[0], &c, 1); wait(0);"
    );
    let answer = tool(&["fsslower", "--min=80", "--type=pipefs", "-c", &program]).done();
    let slow = answer.rows_with(&[("op", "read".into())]);
    assert!(
        slow.len() >= 2 && slow.iter().all(|row| row["us"].as_u64() >= Some(80_000)),
        "{:?}",
        answer.rows()
    );
}

#[test]
fn cachestat_tells_cold_reads_from_warm_ones() {
    needs_tracing!();
    let folder = Folder::on_disk();
    if !matches!(folder.file_system().as_str(), "ext4" | "xfs" | "btrfs") {
        testkit::skipped!("{} is no disk that forgets what was cached", folder.file_system());
    }
    // 8 MiB: 2048 pages, written, forgotten, read from disk, read from the cache.
    let program = load!(
        &folder,
        "static char data[65536]; char path[3000]; snprintf(path, sizeof path, \"%s/data.bin\", argv[1]);
         int fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
         TIMES(128) NEEDS(write(fd, data, sizeof data) == sizeof data);
         NEEDS(fsync(fd) == 0); NEEDS(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
         TIMES(2) { lseek(fd, 0, SEEK_SET); while (read(fd, data, sizeof data) > 0); }"
    );
    let answer = tool(&["cachestat", "-c", &format!("{program} {}", folder.path().display())]);
    if answer.status == Some(2) && answer.stderr.contains("needs the tracepoint") {
        testkit::skipped!("this kernel does not tell what reads ask for");
    }
    let answer = answer.done();
    let sum = |field: &str| answer.rows().iter().filter_map(|row| row[field].as_u64()).sum::<u64>();
    let (asked, added, removed) = (sum("asked"), sum("added"), sum("removed"));
    // Two readings; the loader reads a few pages of libraries besides. Both the write and the cold read add.
    assert!((4096..4196).contains(&asked), "asked {asked}");
    assert!((4096..4496).contains(&added), "added {added}");
    assert!((2048..2148).contains(&removed), "removed {removed}");
    assert!(sum("dirtied") > 0);
}

#[test]
fn writeback_shows_what_a_sync_writes() {
    needs_tracing!();
    let folder = Folder::on_disk();
    if !matches!(folder.file_system().as_str(), "ext4" | "xfs" | "btrfs") {
        testkit::skipped!("{} has no disk to write to", folder.file_system());
    }
    let running = Running::start(&["writeback"]);
    std::fs::write(folder.path().join("data.bin"), vec![7; 4 << 20]).unwrap();
    assert!(Command::new("sync").status().unwrap().success());
    let answer = running.stop().done();
    let synced = answer.rows_with(&[("reason", "WB_REASON_SYNC".into())]);
    let pages: i64 = synced.iter().filter_map(|row| row["pages"].as_i64()).sum();
    assert!(pages >= 1024, "{:?}", answer.rows());
    assert!(synced.iter().all(|row| row["pages"].as_i64() >= Some(0)), "{:?}", answer.rows());
}

#[test]
fn filelife_shows_files_that_come_and_go() {
    needs_tracing!();
    let folder = Folder::on_disk();
    let program = load!(
        &folder,
        "char path[3000]; chdir(argv[1]);
         TIMES(5) { snprintf(path, sizeof path, \"brief%d\", i_); int fd = open(path, O_CREAT | O_WRONLY, 0600);
                    write(fd, \"abc\", 3); close(fd); usleep(20000); NEEDS(unlink(path) == 0); }
         close(open(\"kept\", O_CREAT | O_WRONLY, 0600));
         NEEDS(unlink(\"old\") == 0);"
    );
    std::fs::write(folder.path().join("old"), "was there before").unwrap();
    let answer = tool(&["filelife", "-c", &format!("{program} {}", folder.path().display())]);
    if answer.status == Some(2) && answer.stderr.contains("needs fentry or kprobes") {
        testkit::skipped!("this kernel does not tell what is deleted");
    }
    let answer = answer.done();
    if answer.rows().is_empty() && folder.file_system() != "ext4" && kernel_without_function_probes() {
        testkit::skipped!("without fentry and kprobes only ext4 is seen");
    }
    let names: Vec<_> = answer.rows().iter().map(|row| row["file"].clone()).collect();
    assert_eq!(names, ["brief0", "brief1", "brief2", "brief3", "brief4"]);
    let right = |row: &&Value| {
        row["bytes"] == 3 && row["age_ms"].as_u64() >= Some(19) && row["made_by"] == row["pid"]
    };
    assert!(answer.rows().iter().all(right), "{:?}", answer.rows());
}

/// Whether functions of this kernel cannot be traced.
pub fn kernel_without_function_probes() -> bool {
    use bpf::KernelFacts;
    use bpf::facts::Feature;
    let facts = kernel::facts::LiveFacts::new();
    !facts.has(Feature::Fentry) && !facts.has(Feature::Kprobes)
}

#[test]
fn dcsnoop_shows_names_that_were_not_cached() {
    needs_tracing!();
    if kernel_without_function_probes() {
        testkit::skipped!("needs fentry or kprobes");
    }
    let folder = Folder::new();
    let program = load!(
        &folder,
        "struct stat s; TIMES(3) stat(\"/proc/self/never-there-1\", &s); stat(\"/sys/kernel/never-there-2\", &s); TIMES(3) stat(\"/sys/kernel/never-there-2\", &s);"
    );
    let answer = tool(&["dcsnoop", "-c", &program]).done();
    let missed = answer.rows_with(&[("found", json!(0)), ("name", "never-there-2".into())]);
    assert!(!missed.is_empty(), "{:?}", answer.rows());
    assert!(answer.rows().iter().all(|row| row["found"] == 0 && row["pid"] == missed[0]["pid"]));
}
