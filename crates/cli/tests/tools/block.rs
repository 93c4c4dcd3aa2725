//! Tools of the family `block`, against `dd` on a loop device of their own.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::needs_tracing;
use crate::shared::{Answer, Running, counted, counted_within, tool};

/// A loop device over a file of zeros, gone when dropped.
struct Disk {
    device: String,
    file: PathBuf,
}

impl Disk {
    fn new(test: &str) -> Result<Disk, String> {
        let file = std::env::temp_dir().join(format!("lotse-{test}-{}", std::process::id()));
        std::fs::write(&file, vec![0; 16 << 20]).map_err(|why| why.to_string())?;
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&file).output();
        match made {
            Ok(output) if output.status.success() => {
                Ok(Disk { device: String::from_utf8_lossy(&output.stdout).trim().to_owned(), file })
            }
            other => {
                let _ = std::fs::remove_file(&file);
                Err(format!("no loop device can be made: {other:?}"))
            }
        }
    }

    /// As the kernel calls it.
    fn name(&self) -> &str {
        self.device.trim_start_matches("/dev/")
    }

    fn only(&self) -> String {
        format!("--disk={}", self.name())
    }

    /// Reads past the page cache.
    fn reading(&self, size: &str, count: u32, skip: u32) -> String {
        let device = &self.device;
        format!("dd if={device} of=/dev/null bs={size} count={count} skip={skip} iflag=direct status=none")
    }

    fn writing(&self, size: &str, count: u32) -> String {
        let device = &self.device;
        format!("dd if=/dev/zero of={device} bs={size} count={count} oflag=direct conv=fsync status=none")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.device]).status();
        let _ = std::fs::remove_file(&self.file);
    }
}

macro_rules! disk {
    ($test:literal) => {
        match Disk::new($test) {
            Ok(disk) => disk,
            Err(why) => testkit::skipped!("{why}"),
        }
    };
}

fn run(command: &str) -> u32 {
    let mut words = command.split_whitespace();
    let mut child =
        Command::new(words.next().unwrap()).args(words).stdout(Stdio::null()).spawn().expect("dd");
    let pid = child.id();
    assert!(child.wait().unwrap().success(), "{command}");
    pid
}

/// The histogram whose key has all these parts.
fn of_key<'a>(map: &'a Value, parts: &[&str]) -> &'a Value {
    let entries = map.as_object().into_iter().flatten();
    let mut found = entries.filter(|(key, _)| parts.iter().all(|part| key.contains(part)));
    found.next().map_or(&Value::Null, |(_, value)| value)
}

fn sectors(answer: &Answer, disk: &Disk, op: &str) -> Vec<u64> {
    let rows = answer.rows_with(&[("disk", disk.name().into()), ("op", op.into())]);
    rows.iter().map(|row| row["sector"].as_u64().unwrap()).collect()
}

#[test]
fn biosnoop_shows_each_request_of_a_command_where_and_how_large() {
    needs_tracing!();
    let disk = disk!("biosnoop");
    let answer = tool(&["biosnoop", &disk.only(), "-c", &disk.reading("64k", 8, 0)]).done();
    assert_eq!(sectors(&answer, &disk, "read"), [0, 128, 256, 384, 512, 640, 768, 896]);
    assert_eq!(answer.rows().len(), 8, "{:?}", answer.rows());
    for row in answer.rows() {
        assert_eq!(
            (&row["comm"], &row["bytes"], &row["status"]),
            (&"dd".into(), &65536.into(), &"ok".into())
        );
        assert_eq!(row["flags"], "S");
    }
    // The flush that fsync waits for is a row of its caller.
    let answer = tool(&["biosnoop", &disk.only(), "-c", &disk.writing("4k", 3)]).done();
    assert_eq!(sectors(&answer, &disk, "write"), [0, 8, 16]);
    let flushes = answer.rows_with(&[("op", "flush".into())]);
    assert_eq!(flushes.len(), 1, "{:?}", answer.rows());
    assert_eq!((&flushes[0]["bytes"], &flushes[0]["device_us"]), (&0.into(), &0.into()));
}

#[test]
fn biosnoop_names_who_started_a_request_and_not_who_was_current_when_it_completed() {
    needs_tracing!();
    let disk = disk!("biosnoop-owner");
    // Loop devices complete in a kernel thread.
    let running = Running::start(&["biosnoop", &disk.only()]);
    let pids = [run(&disk.reading("4k", 5, 0)), run(&disk.reading("4k", 5, 100))];
    let answer = running.stop().done();
    for (pid, first) in pids.into_iter().zip([0, 800]) {
        let rows = answer.rows_with(&[("pid", pid.into()), ("comm", "dd".into())]);
        let sectors: Vec<u64> = rows.iter().map(|row| row["sector"].as_u64().unwrap()).collect();
        assert_eq!(sectors, [0, 8, 16, 24, 32].map(|at| at + first), "{:?}", answer.rows());
    }
    // A process that does nothing is selected: nothing is shown.
    let running = Running::start(&["biosnoop", &disk.only(), "-p", &std::process::id().to_string()]);
    run(&disk.reading("4k", 5, 0));
    assert!(running.stop().done().rows().is_empty());
}

#[test]
fn biotop_sums_requests_and_bytes_by_process_disk_and_operation() {
    needs_tracing!();
    let disk = disk!("biotop");
    let answer = tool(&["biotop", &disk.only(), "-c", &disk.writing("64k", 8)]).done();
    let of = |op: &str| answer.rows_with(&[("disk", disk.name().into()), ("op", op.into())]);
    let (written, flushed) = (of("write"), of("flush"));
    assert_eq!((written.len(), flushed.len(), answer.rows().len()), (1, 1, 2), "{:?}", answer.rows());
    assert_eq!((written[0]["ios"].as_u64(), written[0]["kb"].as_f64()), (Some(8), Some(512.0)));
    assert_eq!((&written[0]["comm"], flushed[0]["ios"].as_u64()), (&"dd".into(), Some(1)));
}

#[test]
fn biolatency_counts_each_request_once_in_either_histogram() {
    needs_tracing!();
    let disk = disk!("biolatency");
    let answer = tool(&["biolatency", &disk.only(), "-c", &disk.writing("16k", 20)]).done();
    let key = [disk.name(), "write"];
    assert_eq!(counted(of_key(answer.map("@device_us"), &key)), 20, "{:?}", answer.lines);
    // fsync's request waits for the flush without being issued itself.
    assert_eq!(counted(of_key(answer.map("@queue_us"), &key)), 21, "{:?}", answer.lines);
    let answer = tool(&["biolatency", &disk.only(), "--by=comm", "-c", &disk.reading("16k", 7, 3)]).done();
    assert_eq!(counted(of_key(answer.map("@device_us"), &[disk.name(), "dd"])), 7, "{:?}", answer.lines);
    let answer = tool(&["biolatency", &disk.only(), "--by=flags", "-c", &disk.reading("16k", 7, 3)]).done();
    assert_eq!(
        counted(of_key(answer.map("@device_us"), &[disk.name(), "read", "S"])),
        7,
        "{:?}",
        answer.lines
    );
}

#[test]
fn biolatency_of_everybody_has_the_devices_own_flush() {
    needs_tracing!();
    let disk = disk!("biolatency-flush");
    let running = Running::start(&["biolatency", &disk.only()]);
    run(&disk.writing("16k", 4));
    let answer = running.stop().done();
    assert_eq!(counted(of_key(answer.map("@device_us"), &[disk.name(), "write"])), 4, "{:?}", answer.lines);
    assert!(counted(of_key(answer.map("@device_us"), &[disk.name(), "flush"])) >= 1, "{:?}", answer.lines);
}

#[test]
fn biostacks_finds_the_path_that_reads() {
    needs_tracing!();
    let disk = disk!("biostacks");
    let answer = tool(&["biostacks", &disk.only(), "-c", &disk.reading("16k", 9, 0)]).done();
    let stacks = answer.map("@usecs").as_object().unwrap();
    assert!(stacks.keys().all(|key| key.contains("dd") && key.contains("blk_mq_submit_bio")), "{stacks:?}");
    assert_eq!(stacks.values().map(counted).sum::<u64>(), 9);
}

#[test]
fn bitesize_tells_small_requests_from_large_ones() {
    needs_tracing!();
    let disk = disk!("bitesize");
    for (size, count, from, to) in [("4k", 6, 4096, 8191), ("64k", 5, 65536, 131_071)] {
        let answer = tool(&["bitesize", &disk.only(), "-c", &disk.reading(size, count, 0)]).done();
        let sizes = &answer.map("@bytes")["dd"];
        assert_eq!(counted_within(sizes, from, to), u64::from(count), "{:?}", answer.lines);
        assert_eq!(counted(sizes), u64::from(count));
    }
}

#[test]
fn biopattern_tells_sequential_from_random() {
    needs_tracing!();
    let disk = disk!("biopattern");
    let answer = tool(&["biopattern", &disk.only(), "-c", &disk.reading("4k", 10, 5)]).done();
    let row = answer.rows()[0];
    assert_eq!((row["sequential"].as_u64(), row["random"].as_u64()), (Some(9), Some(1)), "{row}");
    assert_eq!((row["random_pct"].as_u64(), row["kb"].as_f64()), (Some(10), Some(40.0)), "{row}");
    let running = Running::start(&["biopattern", &disk.only()]);
    for skip in [50, 3, 700, 90] {
        run(&disk.reading("4k", 1, skip));
    }
    let answer = running.stop().done();
    let rows = answer.rows_with(&[("disk", disk.name().into())]);
    assert_eq!((rows[0]["sequential"].as_u64(), rows[0]["random"].as_u64()), (Some(0), Some(4)), "{rows:?}");
}

#[test]
fn biopattern_counts_what_the_libbpf_tool_counts() {
    needs_tracing!();
    if !testkit::skip::has_program("biopattern") {
        testkit::skipped!("libbpf-tools are not installed");
    }
    let disk = disk!("biopattern-peer");
    let mut peer = Command::new("biopattern")
        .args(["-d", disk.name(), "3", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(peer.stdout.take().unwrap()).lines();
    if lines.next().is_none() {
        let _ = peer.wait();
        testkit::skipped!("the libbpf tool does not run here");
    }
    let running = Running::start(&["biopattern", &disk.only()]);
    run(&disk.reading("4k", 30, 7));
    run(&disk.reading("16k", 5, 100));
    let told: Vec<String> = lines.map_while(Result::ok).collect();
    let _ = peer.wait();
    let answer = running.stop().done();
    let ours = answer.rows_with(&[("disk", disk.name().into())]);
    let line = told.iter().find(|line| line.starts_with(disk.name()));
    let Some(line) = line else {
        testkit::skipped!("the machine was too busy for the libbpf tool's three seconds");
    };
    let count = ours[0]["sequential"].as_u64().unwrap() + ours[0]["random"].as_u64().unwrap();
    assert_eq!((count, ours[0]["random"].as_u64(), ours[0]["kb"].as_f64()), (35, Some(2), Some(200.0)));
    // DISK %RND %SEQ COUNT KBYTES, without the first request of the disk: 4 KiB, random here.
    let theirs: Vec<&str> = line.split_whitespace().collect();
    if theirs[3] != "34" {
        testkit::skipped!("the machine was too busy for the libbpf tool's three seconds");
    }
    assert_eq!(theirs, [disk.name(), "2", "97", "34", "196"]);
}
