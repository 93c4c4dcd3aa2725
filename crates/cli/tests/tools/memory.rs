//! Tools of the family `memory`, against threads, memory groups and compactions of the test's own.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::needs_tracing;
use crate::shared::{Running, counted, tool, wait_until};

/// A control group that limits memory, gone when dropped.
struct Limited {
    folder: PathBuf,
    limit: &'static str,
}

impl Limited {
    fn new(test: &str) -> Result<Limited, String> {
        let name = format!("lotse-{test}-{}", std::process::id());
        for (root, limit) in [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
            ("/sys/fs/cgroup/unified", "memory.max"),
        ] {
            let folder = PathBuf::from(root).join(&name);
            if std::fs::create_dir(&folder).is_err() {
                continue;
            }
            let group = Limited { folder, limit };
            if group.folder.join(limit).exists() {
                return Ok(group);
            }
        }
        Err("no control group can limit memory here".to_owned())
    }

    /// A shell that waits for a line, and then is this program with no more memory than so much.
    fn command(&self, bytes: u64, program: &str) -> std::process::Child {
        std::fs::write(self.folder.join(self.limit), bytes.to_string()).unwrap();
        let procs = self.folder.join("cgroup.procs");
        Command::new("sh")
            .arg("-c")
            .arg(format!("echo $$ > {} && read go && exec {program}", procs.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        if let Ok(pids) = std::fs::read_to_string(self.folder.join("cgroup.procs")) {
            for pid in pids.lines() {
                let _ = Command::new("kill").args(["-KILL", pid]).status();
            }
        }
        // A group is busy until its processes are gone.
        for _ in 0..1000 {
            match std::fs::remove_dir(&self.folder) {
                Err(why) if why.kind() == std::io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                _ => break,
            }
        }
    }
}

macro_rules! limited {
    ($test:literal) => {
        match Limited::new($test) {
            Ok(group) => group,
            Err(why) => testkit::skipped!("{why}"),
        }
    };
}

fn go(child: &mut std::process::Child) {
    use std::io::Write;
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
}

/// A counter of /proc/vmstat.
fn vmstat(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/vmstat").unwrap();
    let line = text.lines().find(|line| line.split(' ').next() == Some(name)).expect("a counter");
    line.split(' ').nth(1).unwrap().parse().unwrap()
}

fn sum(rows: &[&Value], field: &str) -> u64 {
    rows.iter().map(|row| row[field].as_u64().unwrap_or(0)).sum()
}

/// A process that touches so many fresh pages when it is told to, seen by a tool.
fn touch_pages(pages: usize, words: &[&str]) -> (u32, crate::shared::Answer) {
    let script = "my $pages = <STDIN>; my $memory = q(); vec($memory, $pages * 4096 - 1, 8) = 1; sleep 60";
    let mut toucher = Command::new("perl").args(["-e", script]).stdin(Stdio::piped()).spawn().unwrap();
    let pid = toucher.id();
    // Until it waits for the number it takes faults of its own.
    let waits = || {
        std::fs::read_to_string(format!("/proc/{pid}/syscall")).is_ok_and(|call| call.starts_with("0 0x0 "))
    };
    wait_until("perl reads", waits);
    let running = Running::start(&[words, &["-p", &pid.to_string()]].concat());
    let resident = || {
        let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
        text.split(' ').nth(1).unwrap().parse::<usize>().unwrap()
    };
    let before = resident();
    std::io::Write::write_all(toucher.stdin.as_mut().unwrap(), format!("{pages}\n").as_bytes()).unwrap();
    wait_until("the pages are there", || resident() >= before + pages);
    toucher.kill().unwrap();
    toucher.wait().unwrap();
    (pid, running.finish())
}

#[test]
fn faults_counts_each_page_that_a_process_touches() {
    needs_tracing!();
    if !testkit::skip::has_program("perl") {
        testkit::skipped!("perl is not installed");
    }
    let (pid, answer) = touch_pages(400, &["faults"]);
    if answer.stderr.contains("x86") {
        testkit::skipped!("{}", answer.stderr);
    }
    let answer = answer.done();
    let rows = answer.rows();
    assert_eq!(rows.len(), 1, "{rows:?}");
    let row = rows[0];
    assert_eq!((&row["pid"], &row["comm"]), (&pid.into(), &"perl".into()));
    // The interpreter takes a few more.
    for field in ["faults", "user", "write"] {
        assert!((400..430).contains(&row[field].as_u64().unwrap()), "{field}: {row}");
    }
    assert_eq!(sum(&rows, "user") + sum(&rows, "kernel"), sum(&rows, "faults"));
    let (_, answer) = touch_pages(300, &["faults", "--stacks"]);
    let answer = answer.done();
    let stacks = answer.map("@count").as_object().unwrap();
    let most = stacks.iter().max_by_key(|(_, count)| count.as_u64()).unwrap();
    assert!((299..=301).contains(&most.1.as_u64().unwrap()), "{stacks:?}");
    assert!(most.0.contains("memset"), "{most:?}");
}

#[test]
fn drsnoop_shows_a_process_that_must_free_pages_of_its_own_group() {
    needs_tracing!();
    let group = limited!("drsnoop");
    let file = std::env::temp_dir().join(format!("lotse-drsnoop-{}", std::process::id()));
    // Four times what the group may have in memory.
    let mut writer =
        group.command(16 << 20, &format!("dd if=/dev/zero of={} bs=1M count=64", file.display()));
    let pid = writer.id();
    let running = Running::start(&["drsnoop", "-p", &pid.to_string()]);
    go(&mut writer);
    let written = writer.wait().unwrap();
    let answer = running.finish().done();
    let _ = std::fs::remove_file(&file);
    assert!(written.success());
    let rows = answer.rows_with(&[("kind", "memcg".into())]);
    assert!(!rows.is_empty());
    for row in answer.rows() {
        assert_eq!((&row["pid"], &row["comm"]), (&pid.into(), &"dd".into()), "{row}");
    }
    // Nobody else frees what is over the limit: 48 MiB and what else the program needed.
    let freed = sum(&rows, "pages") * 4096;
    assert!(freed > 32 << 20 && freed < 128 << 20, "{freed} of {} reclaims", rows.len());
}

#[test]
fn oomkill_shows_the_victim_of_a_group_without_memory() {
    needs_tracing!();
    if !testkit::skip::has_program("perl") {
        testkit::skipped!("perl is not installed");
    }
    let group = limited!("oomkill");
    let mut hungry = group.command(24 << 20, "perl -e 'my $x = q(x) x (200 << 20); sleep 60'");
    let pid = hungry.id();
    let running = Running::start(&["oomkill"]);
    go(&mut hungry);
    let status = hungry.wait().unwrap();
    let answer = running.stop().done();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{status}");
    let rows = answer.rows_with(&[("pid", pid.into())]);
    assert_eq!(rows.len(), 1, "{:?}", answer.rows());
    let row = rows[0];
    assert_eq!((&row["comm"], &row["trigger_comm"]), (&"perl".into(), &"perl".into()));
    assert_eq!((&row["trigger_pid"], &row["uid"]), (&pid.into(), &0.into()));
    let anon = row["anon_kb"].as_u64().unwrap();
    assert!((8 << 10..=24 << 10).contains(&anon), "{row}");
    assert!(row["total_kb"].as_u64().unwrap() >= 200 << 10, "{row}");
}

#[test]
fn slabratetop_counts_the_objects_of_a_process() {
    needs_tracing!();
    // Each open file is an object of this cache.
    let script = "for n in 1 2 3 4 5; do : < /dev/null; done";
    let of = |cache: &str, script: &str| {
        let cache = format!("--cache={cache}");
        let answer = tool(&["slabratetop", &cache, "-c", &format!("sh -c \"{script}\"")]).done();
        answer.rows().first().map_or(0, |row| row["allocs"].as_u64().unwrap())
    };
    let (without, with) = (of("filp", ":"), of("filp", script));
    assert_eq!(with - without, 5, "{without} {with}");
    let answer = tool(&["slabratetop", "-c", "true"]).done();
    let row = answer.rows_with(&[("cache", "filp".into())])[0];
    let each = row["alloc_kb"].as_f64().unwrap() * 1024.0 / row["allocs"].as_f64().unwrap();
    assert!((128.0..1024.0).contains(&each), "{row}");
}

#[test]
fn shrinklat_agrees_with_the_kernels_counter_of_scanned_objects() {
    needs_tracing!();
    // Some names for the kernel to forget.
    for at in 0..500 {
        let _ = std::fs::metadata(format!("/tmp/lotse-not-there-{at}"));
    }
    let before = vmstat("slabs_scanned");
    let answer = tool(&["shrinklat", "-c", "sh -c 'echo 2 > /proc/sys/vm/drop_caches'"]).done();
    let scanned = vmstat("slabs_scanned") - before;
    if scanned == 0 {
        testkit::skipped!("caches cannot be dropped here");
    }
    let rows = answer.rows();
    // Others may shrink something at the same time.
    let told = sum(&rows, "scanned");
    assert!(told > 0 && told <= scanned, "{told} {scanned} {rows:?}");
    let row = rows.iter().find(|row| row["shrinker"] == "super_cache_scan").expect("file systems");
    assert!(row["freed"].as_u64().unwrap() > 0 && row["calls"].as_u64().unwrap() > 0, "{row}");
    let answer = tool(&["shrinklat", "--dist", "-c", "sh -c 'echo 2 > /proc/sys/vm/drop_caches'"]).done();
    assert!(counted(&answer.map("@usecs")["super_cache_scan"]) > 0, "{:?}", answer.lines);
}

#[test]
fn compaction_and_numamoves_agree_on_the_pages_that_a_compaction_moves() {
    needs_tracing!();
    if !std::path::Path::new("/proc/sys/vm/compact_memory").exists() {
        testkit::skipped!("this kernel does not compact memory");
    }
    let moves = Running::start(&["numamoves", "--all"]);
    let before = vmstat("pgmigrate_success");
    let answer = tool(&["compaction", "-c", "sh -c 'echo 1 > /proc/sys/vm/compact_memory'"]).done();
    let around = vmstat("pgmigrate_success") - before;
    let moves = moves.stop().done();
    let rows = answer.rows();
    assert!(!rows.is_empty());
    for row in &rows {
        assert_eq!(
            (&row["comm"], &row["order"], &row["mode"]),
            (&"sh".into(), &(-1).into(), &"MIGRATE_SYNC".into())
        );
        assert!(row["zone"].as_str().is_some_and(|zone| !zone.is_empty()), "{row}");
    }
    let moved = sum(&rows, "moved");
    assert!(moved <= around, "{moved} {around}");
    let pid = rows[0]["pid"].clone();
    let told = moves.rows_with(&[("pid", pid), ("reason", "MR_COMPACTION".into())]);
    assert_eq!(sum(&told, "pages"), moved, "{:?}", moves.rows());
}
