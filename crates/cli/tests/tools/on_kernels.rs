//! Tools that choose among probes, on whatever kernel this is: here, and on the kernels of the matrix
//! (`cargo xtask vm`), with loads that busybox can make.

use std::process::Command;

use serde_json::{Value, json};

use crate::load::Folder;
use crate::needs_tracing;
use crate::shared::{Answer, Running, counted, tool};

/// What a tool says, unless this kernel lacks what it needs.
macro_rules! answer {
    ($words:expr) => {{
        let answer: Answer = tool($words);
        if answer.status == Some(2) && answer.stderr.contains("error[L0010]") {
            testkit::skipped!("{}", answer.stderr.lines().next().unwrap_or_default());
        }
        answer.done()
    }};
}

fn number(answer: &Answer, fields: &[(&str, Value)]) -> usize {
    answer.rows_with(fields).len()
}

#[test]
fn on_kernels_files_are_followed() {
    needs_tracing!();
    let folder = Folder::new();
    let missing = folder.file("missing");
    let answer =
        answer!(&["opensnoop", "-c", &format!("sh -c 'exec cat {missing} /proc/self/stat >/dev/null'")]);
    assert_eq!(number(&answer, &[("path", missing.as_str().into()), ("error", "ENOENT".into())]), 1);
    assert_eq!(number(&answer, &[("path", "/proc/self/stat".into()), ("error", json!(0))]), 1);
    let output = folder.file("out");
    let dd = format!("dd if=/dev/zero of={output} bs=4096 count=30");
    let answer = answer!(&["filetop", "-c", &dd]);
    let rows = answer.rows_with(&[("file", "out".into()), ("dir", folder.name().into())]);
    assert_eq!((rows.len(), &rows[0]["writes"], &rows[0]["write_kb"]), (1, &json!(30), &json!(120.0)));
    let kind = format!("--type={}", folder.file_system());
    let answer = answer!(&["fsslower", "--min=0", &kind, "-c", &dd]);
    assert_eq!(
        number(&answer, &[("file", "out".into()), ("op", "write".into()), ("bytes", json!(4096))]),
        30
    );
}

#[test]
fn on_kernels_short_lives_are_told() {
    needs_tracing!();
    let folder = Folder::on_disk();
    let probe = tool(&["filelife", "-d", "1ms"]);
    if probe.status == Some(2) {
        testkit::skipped!("{}", probe.stderr.lines().next().unwrap_or_default());
    }
    let running = Running::start(&["filelife"]);
    let brief = folder.path().join("brief");
    std::fs::write(&brief, "hi\n").unwrap();
    std::fs::write(folder.path().join("kept"), "hi\n").unwrap();
    std::fs::remove_file(&brief).unwrap();
    let answer = running.stop().done();
    let me = json!(std::process::id());
    let rows = answer.rows_with(&[("pid", me.clone()), ("made_by", me)]);
    if rows.is_empty() && folder.file_system() != "ext4" && crate::files::kernel_without_function_probes() {
        testkit::skipped!("without fentry and kprobes only ext4 is seen");
    }
    assert_eq!(
        (rows.len(), &rows[0]["file"], &rows[0]["bytes"]),
        (1, &json!("brief"), &json!(3)),
        "{rows:?}"
    );
}

#[test]
fn on_kernels_the_cache_of_names_is_watched() {
    needs_tracing!();
    let answer = answer!(&["dcsnoop", "-c", "cat /proc/never-there-1"]);
    assert_eq!(
        number(&answer, &[("name", "never-there-1".into()), ("found", json!(0))]),
        1,
        "{:?}",
        answer.rows()
    );
    let answer = answer!(&["dcsnoop", "--all", "-c", "sh -c 'exec cat /proc/uptime >/dev/null'"]);
    assert!(number(&answer, &[("name", "uptime".into())]) >= 1, "{:?}", answer.rows());
    assert!(answer.rows().iter().any(|row| row["found"] == 1), "{:?}", answer.rows());
}

#[test]
fn on_kernels_capabilities_are_told() {
    needs_tracing!();
    let answer = answer!(&["capable", "-c", "chroot / true"]);
    assert_eq!(
        number(&answer, &[("cap", "CAP_SYS_CHROOT".into()), ("refused", json!(0))]),
        1,
        "{:?}",
        answer.rows()
    );
    let checks_only = !crate::files::kernel_without_function_probes();
    // Checks that refuse nothing are told apart where functions can be traced.
    assert!(!checks_only || number(&answer, &[("cap", "CAP_SYS_ADMIN".into())]) == 0, "{:?}", answer.rows());
}

#[test]
fn on_kernels_reads_are_counted_in_pages() {
    needs_tracing!();
    let folder = Folder::new();
    let place = folder.path().to_str().unwrap().to_owned();
    if !Command::new("mount")
        .args(["-t", "ramfs", "lotse-test", &place])
        .status()
        .is_ok_and(|status| status.success())
    {
        testkit::skipped!("ramfs cannot be mounted here");
    }
    let data = folder.file("data");
    std::fs::write(&data, vec![1; 100 * 4096]).unwrap();
    let read = tool(&["cachestat", "-c", &format!("dd if={data} of=/dev/null bs=16384")]);
    let _ = Command::new("umount").arg(&place).status();
    if read.status == Some(2) && read.stderr.contains("error[L0010]") {
        testkit::skipped!("{}", read.stderr.lines().next().unwrap_or_default());
    }
    let answer = read.done();
    let sum = |field: &str| answer.rows().iter().filter_map(|row| row[field].as_u64()).sum::<u64>();
    // The last read finds the end; the loader reads a page of each library.
    assert!((100..=120).contains(&sum("asked")), "{:?}", answer.rows());
    assert!(sum("added") <= 20, "{:?}", answer.rows());
}

#[test]
fn on_kernels_functions_of_the_kernel_are_timed() {
    needs_tracing!();
    let dd = "dd if=/dev/zero of=/dev/null bs=1 count=300";
    let answer = answer!(&["funclatency", "vfs_write", "-c", dd]);
    assert!((300..=310).contains(&counted(answer.map("@usecs"))), "{:?}", answer.lines);
    let answer = answer!(&["funcslower", "vfs_write", "--min=0", "-c", dd]);
    let written = number(&answer, &[("result", json!(1)), ("function", "vfs_write".into())]);
    assert!(written == 300 || number(&answer, &[("result", json!(0))]) >= 300, "{written}");
    let answer = answer!(&["funccount", "kprobe:vfs_writ*", "-c", dd]);
    let rows = answer.rows_with(&[("probe", "kprobe:vfs_write".into())]);
    assert!(rows.len() == 1 && rows[0]["calls"].as_u64() >= Some(300), "{:?}", answer.rows());
}

#[test]
fn on_kernels_ends_and_calls_are_counted() {
    needs_tracing!();
    let answer = answer!(&["exitsnoop", "-c", "sh -c 'exit 3'"]);
    assert_eq!(answer.rows().len(), 1, "{:?}", answer.rows());
    assert_eq!((&answer.rows()[0]["code"], &answer.rows()[0]["signal"]), (&json!(3), &json!(0)));
    let answer = answer!(&["syscount", "-c", "dd if=/dev/zero of=/dev/null bs=1 count=300"]);
    let reads = answer.rows_with(&[("syscall", "read".into())]);
    assert!(reads[0]["calls"].as_u64() >= Some(300), "{:?}", answer.rows());
    let answer = answer!(&["errsnoop", "-c", "cat /never/there"]);
    assert!(number(&answer, &[("error", "ENOENT".into()), ("count", json!(1))]) >= 1, "{:?}", answer.rows());
}
