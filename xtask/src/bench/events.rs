//! What one event costs the traced program, with a program attached: ours, bpftrace's,
//! and the same written in C.
//!
//! The load calls getppid a million times on one CPU and times itself; the figure is the
//! time per call above that of the bare call in the same round.

use std::{
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail};

use super::{Table, Unit, lotse, measure};
use crate::shell;

const CALLS: &str = "1000000";
const ROUNDS: usize = 7;
/// Goal against bpftrace where an attachment by BTF serves the probe, and against C.
const AGAINST_BPFTRACE: f64 = 0.6;
const AGAINST_C: f64 = 1.0;

/// Name in the C object, our text, bpftrace 0.17's text.
const PROGRAMS: &[(&str, &str)] = &[
    ("count", "tracepoint:syscalls:sys_enter_getppid { @ = count(); }"),
    ("count_by_pid", "tracepoint:syscalls:sys_enter_getppid { @[pid] = count(); }"),
    ("count_by_comm", "tracepoint:syscalls:sys_enter_getppid { @[comm] = count(); }"),
    ("hist", "tracepoint:syscalls:sys_enter_getppid { @ = hist(nsecs & 0xffff); }"),
    (
        "pair",
        "tracepoint:syscalls:sys_enter_getppid { @s[tid] = nsecs; }
         tracepoint:syscalls:sys_exit_getppid /@s[tid]/ { @ = hist(nsecs - @s[tid]); delete(@s[tid]); }",
    ),
    ("count_by_stack", "tracepoint:syscalls:sys_enter_getppid { @[kstack] = count(); }"),
];

pub fn run(table: &mut Table) -> Result<()> {
    let reference = build_reference()?;
    for (name, text) in PROGRAMS {
        let mut instructions = [0; 4];
        // 0: nothing attached, 1: lotse, 2: bpftrace, 3: C.
        let figures = measure::in_turn::<4>(ROUNDS, |who| {
            let tracer = match who {
                0 => None,
                1 => Some(attached(lotse(&["trace", "-e", text]))?),
                2 => {
                    let mut peer = Command::new("bpftrace");
                    peer.args(["-e", &text.replace("@[kstack]", "@[kstack()]")]);
                    Some(attached(peer)?)
                }
                _ => {
                    let mut peer = Command::new(reference.join("loader"));
                    peer.arg(reference.join("events.bpf.o")).arg(name);
                    Some(attached(peer)?)
                }
            };
            let cost = time_calls();
            if let Some(tracer) = tracer {
                instructions[who] = loaded_instructions(tracer.id());
                finish(tracer)?;
            }
            cost
        })?;
        let added = |who: usize| -> Vec<f64> {
            figures[who].iter().zip(&figures[0]).map(|(with, bare)| with - bare).collect()
        };
        table.compare(
            &format!("{name}, against bpftrace"),
            Unit::Nanoseconds,
            &added(1),
            &added(2),
            AGAINST_BPFTRACE,
        );
        table.compare(&format!("{name}, against C"), Unit::Nanoseconds, &added(1), &added(3), AGAINST_C);
        let [_, ours, bpftrace, c] = instructions;
        println!(
            "{name}: instructions of all paths, after the verifier: lotse {ours}, bpftrace {bpftrace}, C {c}"
        );
    }
    Ok(())
}

/// `cargo xtask load-calls N [PER_SECOND]`: calls getppid N times, as fast as it goes or
/// at a steady pace, and prints nanoseconds of CPU time per call: what others do meanwhile
/// on a shared machine is not counted.
pub fn load_calls(arguments: &[String]) -> Result<()> {
    let calls: u64 = arguments.first().context("how many calls?")?.parse()?;
    let pace: Option<u64> = arguments.get(1).map(|text| text.parse()).transpose()?;
    let begin = std::time::Instant::now();
    let cpu_before = kernel::clock::process_cpu_ns();
    for call in 0..calls {
        std::hint::black_box(std::os::unix::process::parent_id());
        if let Some(per_second) = pace {
            let due = std::time::Duration::from_nanos((call + 1) * 1_000_000_000 / per_second);
            while begin.elapsed() < due {
                std::hint::spin_loop();
            }
        }
    }
    println!("{}", (kernel::clock::process_cpu_ns() - cpu_before) as f64 / calls as f64);
    Ok(())
}

fn time_calls() -> Result<f64> {
    let own = std::env::current_exe()?;
    let output = Command::new("taskset")
        .args(["-c", "1"])
        .arg(own)
        .args(["load-calls", CALLS])
        .output()
        .context("cannot run the load")?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().with_context(|| format!("the load printed {text:?}"))
}

/// Starts a tracer and waits until it says that its probes are attached.
fn attached(mut command: Command) -> Result<Child> {
    let mut child = command
        .env("__BPFTRACE_NOTIFY_PROBES_ATTACHED", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    let mut output = BufReader::new(child.stdout.take().context("no stdout")?);
    let mut line = String::new();
    loop {
        line.clear();
        if output.read_line(&mut line)? == 0 {
            let mut errors = String::new();
            if let Some(mut stderr) = child.stderr.take() {
                stderr.read_to_string(&mut errors)?;
            }
            bail!("{command:?} ended before it was attached: {errors}");
        }
        // bpftrace 0.17 knows no such word yet, but prints its count once it has begun to attach.
        if line.contains("__BPFTRACE_NOTIFY_PROBES_ATTACHED") || line.trim() == "ready" {
            break;
        }
        if line.starts_with("Attaching ") {
            wait_until_attached(child.id());
            break;
        }
    }
    child.stdout = Some(output.into_inner());
    Ok(child)
}

/// Waits until a process holds a BPF program or perf event and has gone to sleep.
fn wait_until_attached(pid: u32) {
    for _ in 0..200 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let holds = std::fs::read_dir(format!("/proc/{pid}/fd")).is_ok_and(|descriptors| {
            descriptors.flatten().any(|d| {
                std::fs::read_link(d.path()).is_ok_and(|to| to.to_string_lossy().contains("bpf-prog"))
            })
        });
        let asleep = std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" S")));
        if holds && asleep {
            return;
        }
    }
}

/// Instructions of the programs that a process holds, as the verifier leaves them: helpers that it puts in place
/// count, and so do paths that are not taken; what is executed on an event is fewer.
fn loaded_instructions(pid: u32) -> u64 {
    measure::programs_of(pid).iter().map(|program| u64::from(program.translated_bytes) / 8).sum()
}

fn finish(mut child: Child) -> Result<()> {
    drop(child.stdin.take());
    // The C loader leaves when its input ends; the others on SIGINT.
    let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    let mut rest = Vec::new();
    if let Some(mut output) = child.stdout.take() {
        output.read_to_end(&mut rest)?;
    }
    child.wait()?;
    Ok(())
}

/// Compiles the C programs and their loader with clang and libbpf.
fn build_reference() -> Result<PathBuf> {
    let source = shell::root().join("xtask/src/bench/reference");
    let target = shell::root().join("target/bench-reference");
    std::fs::create_dir_all(&target)?;
    let header = Command::new("bpftool")
        .args(["btf", "dump", "file", "/sys/kernel/btf/vmlinux", "format", "c"])
        .output()
        .context("bpftool is needed for the C programs")?;
    std::fs::write(target.join("vmlinux.h"), header.stdout)?;
    let clang = ["clang-19", "clang", "clang-14"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok())
        .context("clang is needed for the C programs: apt-get install clang-19 libbpf-dev")?;
    shell::run(
        Command::new(clang)
            .args(["-O2", "-g", "-target", "bpf", "-D__TARGET_ARCH_x86", "-I"])
            .arg(&target)
            .arg("-c")
            .arg(source.join("events.bpf.c"))
            .arg("-o")
            .arg(target.join("events.bpf.o")),
    )?;
    shell::run(
        Command::new("cc")
            .arg("-O2")
            .arg(source.join("loader.c"))
            .arg("-o")
            .arg(target.join("loader"))
            .arg("-lbpf"),
    )?;
    Ok(target)
}
