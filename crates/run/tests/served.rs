//! A tracepoint served by its raw arguments says what the tracepoint itself says: each program
//! runs both ways over the same work, and both have to print the same.

// What is skipped is said on stdout, where the test runner's list finds it.
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bpf::KernelFacts;
use bpf::facts::Feature;
use kernel::facts::LiveFacts;
use lang::options::Options;
use run::program::compile::compile;
use run::program::live_environment::LiveEnvironment;
use run::program::{RunOptions, session};

/// A thread that does the same work again and again: opens a file that is not there, sleeps, reads.
struct Worker {
    tid: i32,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Worker {
    fn new() -> Worker {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let (sender, receiver) = std::sync::mpsc::channel();
        let work = move || {
            let link = std::fs::read_link("/proc/thread-self").unwrap();
            let tid: i32 = link.file_name().unwrap().to_string_lossy().parse().unwrap();
            sender.send(tid).unwrap();
            while !seen.load(Ordering::Relaxed) {
                let _ = std::fs::File::open("/no/such/served-file");
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        let thread = std::thread::Builder::new().name("served worker".into()).spawn(work).unwrap();
        Worker { tid: receiver.recv().unwrap(), stop, thread: Some(thread) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the program prints first, with `$1` the worker's thread.
fn printed(text: &str, serve: bool, tid: i32, facts: &LiveFacts) -> Result<String, String> {
    let environment = LiveEnvironment::new(None);
    let options = Options {
        environment: &environment,
        positional: vec![tid.to_string()],
        serve_tracepoints: serve,
        ..Options::default()
    };
    let outcome = compile(text, &options, facts, None);
    let compiled = outcome.compiled.ok_or(outcome.report)?;
    let stop = kernel::stop::StopToken::new().map_err(|why| why.to_string())?;
    let (mut out, mut talk) = (Vec::new(), Vec::new());
    let options = RunOptions { quiet: true, duration: Some(Duration::from_secs(5)), ..RunOptions::default() };
    session::run(&compiled, facts, &options, None, &stop, &mut out, &mut talk)
        .map_err(|why| why.to_string())?;
    let text = String::from_utf8_lossy(&out).into_owned();
    // `exit` ends the session soon, not at once: the first line is what counts.
    let line = text.lines().find(|line| line.starts_with("= ")).map(String::from);
    line.ok_or_else(|| format!("nothing printed: {text}{}", String::from_utf8_lossy(&talk)))
}

/// Programs that print one line about the worker, the same each time.
const PROGRAMS: &[&str] = &[
    "tracepoint:syscalls:sys_enter_openat /tid == $1/ { printf(\"= %d %s %d %d %d\\n\", args.dfd, str(args.filename), args.flags, args.mode, args.__syscall_nr); exit(); }",
    "tracepoint:syscalls:sys_exit_openat /tid == $1/ { printf(\"= %d %d\\n\", args.ret, args.__syscall_nr); exit(); }",
    "tracepoint:syscalls:sys_enter_open, tracepoint:syscalls:sys_enter_openat /tid == $1/ { printf(\"= %s %s\\n\", probe, str(args.filename)); exit(); }",
    "tracepoint:syscalls:sys_exit_newstat, tracepoint:syscalls:sys_exit_openat, tracepoint:syscalls:sys_exit_statx /tid == $1/ { printf(\"= %s %d %d\\n\", probe, args.ret, args.__syscall_nr); exit(); }",
    // More than are compared one by one: by a table.
    "tracepoint:syscalls:sys_enter_ustat, tracepoint:syscalls:sys_enter_openat, tracepoint:syscalls:sys_enter_acct, tracepoint:syscalls:sys_enter_swapon, tracepoint:syscalls:sys_enter_sync, tracepoint:syscalls:sys_enter_reboot /tid == $1/ { printf(\"= %s\\n\", probe); exit(); }",
    "tracepoint:raw_syscalls:sys_exit /tid == $1 && args.id == 257/ { printf(\"= %d %d\\n\", args.id, args.ret); exit(); }",
    "tracepoint:raw_syscalls:sys_enter /tid == $1 && args.id == 257/ { printf(\"= %d %s %d\\n\", args.id, comm, uid); exit(); }",
    "tracepoint:sched:sched_switch /args.prev_pid == $1/ { printf(\"= %s %d %d %d\\n\", args.prev_comm, args.prev_pid, args.prev_prio, tid); exit(); }",
    "tracepoint:sched:sched_switch /args.next_pid == $1/ { printf(\"= %s %d %d\\n\", args.next_comm, args.next_pid, args.next_prio); exit(); }",
    "tracepoint:sched:sched_waking /args.pid == $1/ { printf(\"= %s %d %d\\n\", args.comm, args.pid, args.prio); exit(); }",
    "tracepoint:sched:sched_wakeup /args.pid == $1/ { $ok = args.target_cpu < ncpus; printf(\"= %s %d %d %d\\n\", args.comm, args.pid, args.prio, $ok); exit(); }",
];

#[test]
fn raw_arguments_say_what_the_tracepoint_says() {
    let facts = LiveFacts::new();
    if !facts.has(Feature::TpBtf) || facts.tracepoints().is_empty() {
        testkit::skipped!("this kernel has no typed raw tracepoints, or its tracepoints cannot be read");
    }
    let worker = Worker::new();
    for text in PROGRAMS {
        let served =
            printed(text, true, worker.tid, &facts).unwrap_or_else(|why| panic!("served: {text}\n{why}"));
        let plain =
            printed(text, false, worker.tid, &facts).unwrap_or_else(|why| panic!("plain: {text}\n{why}"));
        assert_eq!(served, plain, "{text}");
    }
}
