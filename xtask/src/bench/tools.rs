//! Each tool of the shelf against the same tool of libbpf-tools, BCC and bpftrace: Enter → first output, peak
//! memory, and what the kernel measured that its programs cost for the same load.
//!
//! The cost of an event is the time spent in all programs that a contestant loaded, as the kernel's own statistics
//! tell it (`kernel.bpf_stats_enabled`), over the number of events that the load makes. It leaves out what the probe
//! itself costs, which is the same for all, and it is not moved by what else the machine does.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kernel::ebpf::statistics::RunStatistics;
use kernel::usage::wait_with_usage;

use super::{Table, Unit, lotse, measure};

/// First output against BCC's and against libbpf-tools', cost of an event against libbpf-tools'.
const AGAINST_BCC: f64 = 0.1;
const AGAINST_LIBBPF: f64 = 0.5;
const COST: f64 = 1.0;

/// What happens while a tool is measured, and how many events that is.
#[derive(Clone, Copy)]
enum Load {
    /// Two processes on one CPU that wake each other through pipes: two switches and two wakeups each turn.
    Switches(u32),
    /// System calls that do nothing.
    Syscalls(u32),
    /// Files opened.
    Opens(u32),
    /// Programs started.
    Execs(u32),
}

/// A tool and its peers; empty where there is none.
struct Case {
    tool: &'static str,
    libbpf: &'static str,
    bcc: &'static str,
    bpftrace: &'static str,
    load: Load,
}

const fn case(
    tool: &'static str,
    libbpf: &'static str,
    bcc: &'static str,
    bpftrace: &'static str,
    load: Load,
) -> Case {
    Case { tool, libbpf, bcc, bpftrace, load }
}

const CASES: &[Case] = &[
    case("runqlat", "runqlat", "runqlat-bpfcc", "runqlat.bt", Load::Switches(50_000)),
    case("runqslower", "runqslower", "runqslower-bpfcc", "", Load::Switches(50_000)),
    case("cpudist", "cpudist", "cpudist-bpfcc", "", Load::Switches(50_000)),
    case("offcputime", "offcputime", "offcputime-bpfcc", "", Load::Switches(20_000)),
    case("wakeuptime", "wakeuptime", "wakeuptime-bpfcc", "", Load::Switches(20_000)),
    case("runqlen", "runqlen", "runqlen-bpfcc", "runqlen.bt", Load::Switches(1_000)),
    // Times as well on both sides would be `--time` against `-L`; by default both only count.
    case("syscount", "syscount", "syscount-bpfcc", "syscount.bt", Load::Syscalls(500_000)),
    case("opensnoop", "opensnoop", "opensnoop-bpfcc", "opensnoop.bt", Load::Opens(20_000)),
    case("execsnoop", "execsnoop", "execsnoop-bpfcc", "execsnoop.bt", Load::Execs(200)),
    case("exitsnoop", "exitsnoop", "exitsnoop-bpfcc", "", Load::Execs(200)),
    case("biolatency", "biolatency", "biolatency-bpfcc", "biolatency.bt", Load::Opens(1_000)),
    case("biosnoop", "biosnoop", "biosnoop-bpfcc", "biosnoop.bt", Load::Opens(1_000)),
    case("softirqs", "softirqs", "softirqs-bpfcc", "", Load::Switches(1_000)),
    case("hardirqs", "hardirqs", "hardirqs-bpfcc", "", Load::Switches(1_000)),
    case("tcplife", "tcplife", "tcplife-bpfcc", "tcplife.bt", Load::Opens(1_000)),
    case("tcpstates", "tcpstates", "tcpstates-bpfcc", "", Load::Opens(1_000)),
    case("statsnoop", "statsnoop", "statsnoop-bpfcc", "statsnoop.bt", Load::Opens(1_000)),
];

impl Load {
    fn run(self) -> Result<()> {
        let script = match self {
            Load::Switches(turns) => format!(
                "pipe(my $a, my $b); pipe(my $c, my $d); my $x = 'x';
                 if (fork() == 0) {{ for (1..{turns}) {{ sysread($a, $x, 1); syswrite($d, 'x') }} exit }}
                 for (1..{turns}) {{ syswrite($b, 'x'); sysread($c, $x, 1) }} wait;"
            ),
            Load::Syscalls(calls) => format!("getppid() for 1..{calls};"),
            Load::Opens(files) => {
                format!("for (1..{files}) {{ open(my $f, '<', '/etc/hostname'); close($f) }}")
            }
            Load::Execs(programs) => format!("system('/bin/true') for 1..{programs};"),
        };
        let status = Command::new("taskset").args(["-c", "1", "perl", "-e", &script]).status()?;
        if !status.success() {
            bail!("the load ended with {status}");
        }
        Ok(())
    }

    /// What is counted, and whether the load is large enough to divide by.
    fn events(self) -> Option<f64> {
        match self {
            Load::Switches(turns) if turns >= 20_000 => Some(2.0 * f64::from(turns)),
            Load::Syscalls(calls) => Some(f64::from(calls)),
            Load::Opens(files) if files >= 20_000 => Some(f64::from(files)),
            Load::Execs(programs) => Some(f64::from(programs)),
            _ => None,
        }
    }
}

pub fn run(table: &mut Table) -> Result<()> {
    let shelf = lotse(&["list", "tools"]).output()?;
    let shelf = String::from_utf8_lossy(&shelf.stdout).into_owned();
    for case in CASES {
        if !shelf.lines().any(|line| line.split_whitespace().next() == Some(case.tool)) {
            println!("{}: not on the shelf", case.tool);
            continue;
        }
        if let Err(why) = compare(case, table) {
            println!("{}: {why:#}", case.tool);
        }
    }
    Ok(())
}

fn compare(case: &Case, table: &mut Table) -> Result<()> {
    for (peer, goal, rounds) in
        [(case.libbpf, Some(AGAINST_LIBBPF), 7), (case.bcc, Some(AGAINST_BCC), 3), (case.bpftrace, None, 3)]
    {
        if peer.is_empty() || !Path::new("/usr/sbin").join(peer).exists() {
            continue;
        }
        let label = match goal {
            None => format!("{} against {peer}", case.tool),
            Some(_) if peer.ends_with("-bpfcc") => format!("{} against BCC", case.tool),
            Some(_) => format!("{} against libbpf-tools", case.tool),
        };
        let cost = peer == case.libbpf && case.load.events().is_some();
        let mut resident = [Vec::new(), Vec::new()];
        let mut spent = [Vec::new(), Vec::new()];
        let first = measure::in_turn::<2>(rounds, |who| {
            let command = if who == 0 { lotse(&["tool", case.tool]) } else { theirs(peer) };
            let finished = once(command, cost.then_some(case.load))?;
            resident[who].push(finished.resident);
            spent[who].extend(finished.nanoseconds);
            Ok(finished.first_output)
        });
        let first = match first {
            Ok(first) => first,
            Err(why) => {
                println!("{label}: {why:#}");
                continue;
            }
        };
        let (ours, theirs) = (&first[0], &first[1]);
        table.compare(
            &format!("{label}: first output"),
            Unit::Milliseconds,
            ours,
            theirs,
            goal.unwrap_or(1.0),
        );
        table.compare(&format!("{label}: peak memory"), Unit::Megabytes, &resident[0], &resident[1], 1.0);
        if cost {
            table.compare(&format!("{label}: per event"), Unit::Nanoseconds, &spent[0], &spent[1], COST);
        }
    }
    Ok(())
}

/// Peers write lines when they have them, as on a terminal.
fn theirs(peer: &str) -> Command {
    if peer.ends_with("-bpfcc") {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-u", &format!("/usr/sbin/{peer}")]);
        return command;
    }
    let mut command = Command::new("stdbuf");
    command.args(["-oL", "-eL", &format!("/usr/sbin/{peer}")]);
    command
}

struct Finished {
    /// Milliseconds from start to the first line.
    first_output: f64,
    /// Megabytes.
    resident: f64,
    /// Spent in programs for each event of the load.
    nanoseconds: Option<f64>,
}

/// Starts a tool, waits for its first line, runs the load, ends it.
fn once(mut command: Command, load: Option<Load>) -> Result<Finished> {
    let line = format!("{command:?}");
    let _statistics = load.map(|_| RunStatistics::enable()).transpose()?;
    let begun = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {line}"))?;
    let lines = lines_of(&mut child);
    // Compilers' warnings of BCC are no output.
    let noise = |line: &str| line.contains("warning") || line.starts_with(' ') || line.trim().is_empty();
    let mut first_output = None;
    while first_output.is_none() {
        match lines.recv_timeout(Duration::from_secs(60)) {
            Ok((_, text)) if noise(&text) => {}
            Ok((at, _)) => first_output = Some(at.duration_since(begun).as_secs_f64() * 1e3),
            Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                bail!("{line} prints nothing");
            }
        }
    }
    let mut nanoseconds = None;
    if let Some(load) = load {
        let spent = || -> u64 { measure::programs_of(child.id()).iter().map(|program| program.run_ns).sum() };
        let at_first = spent();
        load.run()?;
        let events = load.events().unwrap_or(f64::NAN);
        nanoseconds = Some((spent() - at_first) as f64 / events);
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status()?;
    let (_, usage) = wait_with_usage(&child)?;
    Ok(Finished {
        first_output: first_output.unwrap_or(f64::NAN),
        resident: usage.peak_resident as f64 / 1e6,
        nanoseconds,
    })
}

/// Lines of both outputs, each with the moment it came; the pipes are read to their ends.
fn lines_of(child: &mut Child) -> mpsc::Receiver<(Instant, String)> {
    let (sender, receiver) = mpsc::channel();
    let read = |stream: Box<dyn std::io::Read + Send>, sender: mpsc::Sender<(Instant, String)>| {
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let _ = sender.send((Instant::now(), line));
            }
        });
    };
    if let Some(stream) = child.stdout.take() {
        read(Box::new(stream), sender.clone());
    }
    if let Some(stream) = child.stderr.take() {
        read(Box::new(stream), sender);
    }
    receiver
}
