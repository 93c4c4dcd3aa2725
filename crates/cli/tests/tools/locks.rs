//! Tools of the family `locks`, against waits that the test arranges.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::needs_tracing;
use crate::shared::{Answer, Running, wait_until};

/// Runs a thread after a tool has been started for it alone.
fn traced_thread(words: &[&str], body: impl FnOnce() + Send + 'static) -> Answer {
    let (tell, told) = mpsc::channel();
    let go = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let start = go.clone();
    let thread = std::thread::spawn(move || {
        let me = std::fs::read_link("/proc/thread-self").unwrap();
        tell.send(me.file_name().unwrap().to_string_lossy().into_owned()).unwrap();
        // Without a futex.
        while !start.load(std::sync::atomic::Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        body();
    });
    let tid = told.recv().unwrap();
    let running = Running::start(&[words, &["-t", &tid]].concat());
    go.store(true, std::sync::atomic::Ordering::SeqCst);
    thread.join().unwrap();
    running.stop()
}

fn five_timeouts() {
    let mutex = std::sync::Mutex::new(());
    let never = std::sync::Condvar::new();
    let mut guard = mutex.lock().unwrap();
    for _ in 0..5 {
        loop {
            let (again, result) = never.wait_timeout(guard, Duration::from_millis(20)).unwrap();
            guard = again;
            if result.timed_out() {
                break;
            }
        }
    }
}

#[test]
fn futexwaits_measures_waits_that_time_out() {
    needs_tracing!();
    let answer = traced_thread(&["futexwaits"], five_timeouts).done();
    let rows = answer.rows();
    let row = rows.iter().find(|row| row["timeouts"] == 5).unwrap_or_else(|| panic!("{rows:?}"));
    assert_eq!((&row["pid"], &row["waits"]), (&std::process::id().into(), &5.into()), "{row}");
    assert!(row["futex"].as_u64().is_some_and(|address| address > 4096), "{row}");
    assert!(row["wait_ms"].as_f64().unwrap() >= 100.0, "{row}");
    assert!(row["avg_us"].as_u64().unwrap() >= 20_000, "{row}");
}

#[test]
fn futexwaits_finds_the_code_that_waits_for_a_mutex() {
    needs_tracing!();
    let mutex = std::sync::Arc::new(std::sync::Mutex::new(()));
    let held = mutex.clone();
    let (tell, told) = mpsc::channel::<()>();
    let holder = std::thread::spawn(move || {
        let guard = held.lock().unwrap();
        told.recv().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        drop(guard);
    });
    let answer = traced_thread(&["futexwaits", "--stacks"], move || {
        tell.send(()).unwrap();
        wait_for(&mutex);
    })
    .done();
    holder.join().unwrap();
    let stacks = answer.map("@us").as_object().unwrap_or_else(|| panic!("{:?}", answer.lines));
    // One of them, by how much the compiler has put together.
    let waits = |stack: &String| stack.contains("wait_for") || stack.contains("Mutex");
    assert!(stacks.keys().any(waits), "{stacks:?}");
}

#[inline(never)]
fn wait_for(mutex: &std::sync::Mutex<()>) {
    drop(mutex.lock().unwrap());
}

/// A small write while a large one has the lock of the file, unless that is over too soon.
fn small_write_behind_a_large_one(file: &std::path::Path) -> Answer {
    drop(std::fs::File::create(file).unwrap());
    // Waits for its turn with the file open, then writes one byte by a builtin of the shell.
    let mut small = Command::new("sh")
        .args(["-c", &format!("exec 3>>{}; read go; printf y >&3", file.display())])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let running = Running::start(&["klockstat", "-p", &small.id().to_string()]);
    // One write of 192 MiB has the lock of the inode for as long as it takes.
    let mut large = Command::new("dd")
        .args(["if=/dev/zero", &format!("of={}", file.display()), "bs=192M", "count=1", "status=none"])
        .args(["conv=notrunc"])
        .spawn()
        .unwrap();
    wait_until("the large write has begun", || std::fs::metadata(file).is_ok_and(|file| file.len() > 0));
    small.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let (small_done, large_done) = (small.wait().unwrap(), large.wait().unwrap());
    let answer = running.finish().done();
    std::fs::remove_file(file).unwrap();
    assert!(small_done.success() && large_done.success());
    answer
}

#[test]
fn klockstat_finds_the_writer_that_waits_for_a_files_lock() {
    needs_tracing!();
    let file = std::path::Path::new("/dev/shm").join(format!("lotse-klockstat-{}", std::process::id()));
    if std::fs::File::create(&file).is_err() {
        testkit::skipped!("no /dev/shm");
    }
    for _ in 0..10 {
        let answer = small_write_behind_a_large_one(&file);
        let rows = answer.rows_with(&[("kind", "rwsem (w)".into())]);
        if let [row] = rows[..] {
            assert_eq!(row["waits"], 1, "{row}");
            assert!(row["max_us"].as_u64().unwrap() > 0, "{row}");
            return;
        }
        assert!(rows.is_empty(), "one lock is waited for: {rows:?}");
    }
    panic!("ten small writes never waited for the large one");
}
