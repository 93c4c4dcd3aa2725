//! One line of text → who, where, when, what.

/// A line that tells an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Name of the current thread, as far as told.
    pub(super) comm: &'a str,
    pub(super) tid: i32,
    pub(super) process: Option<i32>,
    pub(super) cpu: u32,
    /// Nanoseconds.
    pub(super) time: u64,
    /// Without `system:`.
    pub(super) event: &'a str,
    /// Before the colon in the event's name; empty where not told.
    pub(super) system: &'a str,
    pub(super) text: &'a str,
    /// Written by perf script: `comm tid` instead of `comm-tid`.
    pub(super) by_perf: bool,
}

/// Reads a line of ftrace's `trace`, `trace-cmd report` or `perf script`.
pub(super) fn parse(line: &str) -> Option<Line<'_>> {
    // A thread's name can hold brackets: try each that could be the CPU's.
    for (open, _) in line.match_indices('[') {
        let inner = &line[open + 1..];
        let digits = inner.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 || !inner[digits..].starts_with(']') {
            continue;
        }
        let Ok(cpu) = inner[..digits].parse() else { continue };
        let Some((comm, tid, process, by_perf)) = task(&line[..open]) else { continue };
        let Some((time, rest)) = time(&inner[digits + 1..]) else { continue };
        let Some((system, event, text)) = event(rest, by_perf) else { continue };
        return Some(Line { comm, tid, process, cpu, time, event, system, text, by_perf });
    }
    None
}

/// `COMM-TID`, `COMM-TID (TGID)` or perf's `COMM TID`, `COMM PID/TID`.
fn task(head: &str) -> Option<(&str, i32, Option<i32>, bool)> {
    let mut head = head.trim();
    let mut process = None;
    if let Some(rest) = head.strip_suffix(')')
        && let Some((before, group)) = rest.rsplit_once('(')
    {
        process = group.trim().parse().ok();
        head = before.trim_end();
    }
    if let Some((comm, tid)) = head.rsplit_once('-')
        && !tid.is_empty()
        && tid.bytes().all(|b| b.is_ascii_digit())
    {
        return Some((comm, tid.parse().ok()?, process, false));
    }
    let (comm, number) = head.rsplit_once(char::is_whitespace)?;
    let (process, tid) = match number.split_once('/') {
        Some((process, tid)) => (Some(process.parse().ok()?), tid),
        None => (None, number),
    };
    Some((comm.trim_end(), tid.parse().ok()?, process, true))
}

/// The time, behind at most two words of flags; nanoseconds and what follows the colon.
fn time(rest: &str) -> Option<(u64, &str)> {
    let mut rest = rest.trim_start();
    for _ in 0..3 {
        let end = rest.find(char::is_whitespace)?;
        let word = &rest[..end];
        if let Some(number) = word.strip_suffix(':')
            && let Some(nanos) = nanos(number)
        {
            return Some((nanos, rest[end..].trim_start()));
        }
        rest = rest[end..].trim_start();
    }
    None
}

/// `seconds.fraction`.
fn nanos(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let fraction = fraction.parse::<u64>().ok()? * 10u64.pow(9 - fraction.len() as u32);
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// `[PERIOD] [SYSTEM:]EVENT: TEXT`.
fn event(rest: &str, by_perf: bool) -> Option<(&str, &str, &str)> {
    let mut rest = rest;
    if by_perf
        && let Some((number, after)) = rest.split_once(char::is_whitespace)
        && number.bytes().all(|b| b.is_ascii_digit())
    {
        rest = after.trim_start();
    }
    let (name, text) = rest.split_once(": ").or_else(|| Some((rest.trim_end().strip_suffix(':')?, "")))?;
    if name.is_empty() || name.len() > 200 || name.contains(char::is_whitespace) {
        return None;
    }
    let (system, event) = if by_perf { name.split_once(':').unwrap_or(("", name)) } else { ("", name) };
    Some((system, event, text.trim()))
}

/// A line that tells a loss: CPU and count.
pub(super) fn parse_loss(line: &str) -> Option<(u32, Option<u64>)> {
    let rest = line.trim_start().strip_prefix("CPU:")?;
    let (cpu, rest) = rest.split_once(char::is_whitespace)?;
    let inner = rest.trim().strip_prefix('[')?.strip_suffix(']')?;
    if !(inner.contains("EVENTS") && (inner.contains("LOST") || inner.contains("DROPPED"))) {
        return None;
    }
    Some((cpu.trim().parse().ok()?, inner.split_whitespace().find_map(|word| word.parse().ok())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_three_writers() {
        let shown = |line: &str| {
            parse(line).map(|l| {
                format!(
                    "{}|{}|{:?}|{}|{}|{}:{}|{}",
                    l.comm, l.tid, l.process, l.cpu, l.time, l.system, l.event, l.text
                )
            })
        };
        for (line, expected) in [
            (
                "            bash-27236   [000] d..2.  4241.456891: sched_switch: prev_comm=bash ==> x",
                "bash|27236|None|0|4241456891000|:sched_switch|prev_comm=bash ==> x",
            ),
            (
                "           <...>-1701  [001]    76.211513: sched_wakeup:          comm=sh",
                "<...>|1701|None|1|76211513000|:sched_wakeup|comm=sh",
            ),
            (
                " a [001] 1.5: b-12    (   10) [003] .... 5.000000001: print: a: b",
                "a [001] 1.5: b|12|Some(10)|3|5000000001|:print|a: b",
            ),
            (
                "perf 24888/24889 [000]  4165.771756:     raw_syscalls:sys_enter: NR 16 (1b)",
                "perf|24889|Some(24888)|0|4165771756000|raw_syscalls:sys_enter|NR 16 (1b)",
            ),
            (
                "perf 10447 [002] 346832.330193:          1 cycles: ",
                "perf|10447|None|2|346832330193000|:cycles|",
            ),
        ] {
            assert_eq!(shown(line).as_deref(), Some(expected), "{line}");
        }
        for line in [
            "",
            "# tracer: nop",
            "version = 6",
            "\tffffffff96613abf [unknown] ([kernel.kallsyms])",
            "x-1 [0] : y",
        ] {
            assert_eq!(shown(line), None, "{line}");
        }
        assert_eq!(parse_loss("CPU:1 [LOST 123 EVENTS]"), Some((1, Some(123))));
        assert_eq!(parse_loss("CPU:0 [EVENTS DROPPED]"), Some((0, None)));
        assert_eq!(parse_loss("cpus=6"), None);
    }
}
