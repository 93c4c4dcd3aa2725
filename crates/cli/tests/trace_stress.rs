//! Much of everything: keys, events, probes, and a reader that is held up. What is kept and what is lost adds up.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn cannot_trace() -> bool {
    if kernel::facts::LiveFacts::new().tracefs().is_some() {
        return false;
    }
    testkit::skip::note("trace_stress", "tracing is not allowed here");
    true
}

fn start(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_lotse"))
        .arg("trace")
        .args(arguments)
        .env("__BPFTRACE_NOTIFY_PROBES_ATTACHED", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The sum of the numbers before these words.
fn number_before(text: &str, words: &str) -> u64 {
    let lines = text.lines().filter_map(|line| line.split_once(words));
    lines.filter_map(|(before, _)| before.split_whitespace().next_back()?.parse::<u64>().ok()).sum()
}

#[test]
fn a_hundred_thousand_keys_are_kept_or_counted_as_refused() {
    if cannot_trace() {
        return;
    }
    let body = "BEGIN { for ($i : 0..100000) { @[$i] = count(); } exit(); }";
    for most in [1000, 100_000] {
        let program = format!("config = {{ max_map_keys = {most} }} {body}");
        let output = text(&start(&["-e", &program]).wait_with_output().unwrap());
        let kept = output.lines().filter(|line| line.starts_with("@[")).count() as u64;
        // So many at once exhaust what the kernel keeps ready for entries too: those are counted as well.
        let refused = number_before(&output, " updates of @");
        assert_eq!(kept + refused, 100_000, "{kept} kept, {refused} refused");
        assert!(kept == 1000 || most > 1000 && kept > 1000, "{kept} kept");
    }
}

#[test]
fn a_reader_that_is_held_up_loses_records_and_counts_each() {
    if cannot_trace() {
        return;
    }
    // Held up before the first event until after the last: more records than the ring has room for.
    const EVENTS: u64 = 250_000;
    let program = r#"tracepoint:syscalls:sys_enter_write /pid == $1/ { printf("one of many records\n"); }"#;
    let command = format!("kill -STOP $$; exec dd if=/dev/zero of=/dev/null bs=1 count={EVENTS} status=none");
    let mut load = Command::new("sh").args(["-c", &command]).spawn().unwrap();
    let tracer = start(&["-q", "-e", program, &load.id().to_string()]);
    wait_for_attached(tracer.id());
    signal(tracer.id(), "-STOP");
    signal(load.id(), "-CONT");
    load.wait().unwrap();
    signal(tracer.id(), "-CONT");
    signal(tracer.id(), "-INT");
    let output = text(&tracer.wait_with_output().unwrap());
    let printed = output.lines().filter(|line| *line == "one of many records").count() as u64;
    let lost = number_before(&output, " records of the call at");
    assert!(printed > 0 && lost > 0, "{printed} printed, {lost} lost");
    assert_eq!(printed + lost, EVENTS, "{printed} printed, {lost} lost");
}

#[test]
fn ctrl_c_ends_a_run_in_the_middle_of_a_flood() {
    if cannot_trace() {
        return;
    }
    let mut load = Command::new("dd")
        .args(["if=/dev/zero", "of=/dev/null", "bs=1"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let program =
        "tracepoint:raw_syscalls:sys_enter /pid == $1/ { @[args.id] = count(); printf(\"%d\\n\", args.id); }";
    let tracer = start(&["-q", "-e", program, &load.id().to_string()]);
    let pid = tracer.id();
    // The pipe is read, or the tracer would wait for us.
    let reader = std::thread::spawn(move || tracer.wait_with_output().unwrap());
    wait_for_attached(pid);
    std::thread::sleep(Duration::from_millis(300));
    let asked = Instant::now();
    signal(pid, "-INT");
    let output = text(&reader.join().unwrap());
    load.kill().unwrap();
    load.wait().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(60), "{:?}", asked.elapsed());
    let count = |start: &str| output.lines().filter(|line| line.starts_with(start)).count();
    assert!(count("@[0]: ") == 1 && count("@[1]: ") == 1, "{}", &output[output.len().saturating_sub(500)..]);
}

#[test]
fn thousands_of_functions_are_attached_at_once() {
    if cannot_trace() {
        return;
    }
    if !bpf::KernelFacts::has(&kernel::facts::LiveFacts::new(), bpf::facts::Feature::UprobeMulti) {
        testkit::skipped!("this kernel attaches user-space probes one by one");
    }
    // A copy that nobody runs: attached to, and never hit.
    let library = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6"]
        .into_iter()
        .find(|path| std::path::Path::new(path).exists());
    let Some(library) = library else { testkit::skipped!("the C library is elsewhere") };
    let copy = std::env::temp_dir().join(format!("lotse-stress-{}.so", std::process::id()));
    std::fs::copy(library, &copy).unwrap();
    let program = format!(
        "config = {{ max_probes = 20000 }} uprobe:{}:* {{ @ = count(); }} BEGIN {{ exit(); }}",
        copy.display()
    );
    let output = text(&start(&["-e", &program]).wait_with_output().unwrap());
    std::fs::remove_file(&copy).unwrap();
    let attached = number_before(&output, " probes");
    assert!(attached > 1500, "{output}");
}

/// Waits until the process holds a link besides its maps: then it is attached.
fn wait_for_attached(pid: u32) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut links = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        if links.any(|link| {
            let link = link.to_string_lossy();
            link.contains("bpf_link") || link.contains("bpf-link") || link.contains("perf_event")
        }) {
            return;
        }
        assert!(Instant::now() < end, "nothing was attached");
        std::thread::sleep(Duration::from_millis(5));
    }
}
