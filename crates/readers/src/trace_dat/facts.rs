//! What a trace.dat says about the traced machine: options, side tables, the account that
//! lotse's recorder adds.

use trace::{ClockKind, Comm, Cpu, Loss, Nanos, TraceInfo, info::KnownTask};

/// Option numbers (`trace-cmd.dat.v7(5)`).
pub(super) mod option {
    pub(crate) const DONE: u16 = 0;
    pub(crate) const DATE: u16 = 1;
    pub(crate) const CPUSTAT: u16 = 2;
    pub(crate) const BUFFER: u16 = 3;
    pub(crate) const TRACECLOCK: u16 = 4;
    pub(crate) const UNAME: u16 = 5;
    pub(crate) const HOOK: u16 = 6;
    pub(crate) const OFFSET: u16 = 7;
    pub(crate) const CPUCOUNT: u16 = 8;
    pub(crate) const VERSION: u16 = 9;
    pub(crate) const PROCMAPS: u16 = 10;
    pub(crate) const TRACEID: u16 = 11;
    pub(crate) const TIME_SHIFT: u16 = 12;
    pub(crate) const GUEST: u16 = 13;
    pub(crate) const TSC2NSEC: u16 = 14;
    pub(crate) const STRINGS: u16 = 15;
    pub(crate) const HEADER_INFO: u16 = 16;
    pub(crate) const FTRACE_EVENTS: u16 = 17;
    pub(crate) const EVENT_FORMATS: u16 = 18;
    pub(crate) const KALLSYMS: u16 = 19;
    pub(crate) const PRINTK: u16 = 20;
    pub(crate) const CMDLINES: u16 = 21;
    pub(crate) const BUFFER_TEXT: u16 = 22;
    pub(crate) const SAVED_TGIDS: u16 = 23;
    /// lotse's recorder: its account, as JSON.
    pub(crate) const LEDGER: u16 = 0x4c01;
    /// lotse's recorder: lines "TID PID".
    pub(crate) const THREAD_GROUPS: u16 = 0x4c02;
}

/// From counter cycles to nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CycleScale {
    multiplier: u32,
    shift: u32,
    offset: u64,
}

impl CycleScale {
    pub(super) fn new(multiplier: u32, shift: u32, offset: u64) -> Option<CycleScale> {
        (shift < 64 && multiplier > 0).then_some(CycleScale { multiplier, shift, offset })
    }

    pub(super) fn nanos(&self, cycles: u64) -> u64 {
        let scaled = (u128::from(cycles) * u128::from(self.multiplier)) >> self.shift;
        (scaled as u64).wrapping_add(self.offset)
    }
}

/// Counters of one CPU's ring, from a CPUSTAT option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RingCounters {
    pub(super) cpu: u32,
    /// Events overwritten before they were read; pages tell where.
    pub(super) overrun: u64,
    /// Events refused by a full ring; nothing tells where.
    pub(super) dropped: u64,
}

/// Reads the text of a CPUSTAT option: "CPU: N" and the CPU's `stats` file.
pub(super) fn ring_counters(text: &str) -> Option<RingCounters> {
    let mut counters = RingCounters::default();
    let mut cpu = None;
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        match key.trim() {
            "CPU" => cpu = Some(value.parse().ok()?),
            "overrun" => counters.overrun = value.parse().unwrap_or(0),
            "commit overrun" | "dropped events" => {
                counters.dropped = value.parse::<u64>().unwrap_or(0).saturating_add(counters.dropped);
            }
            _ => {}
        }
    }
    counters.cpu = cpu?;
    Some(counters)
}

/// The clock that `trace_clock` shows in brackets, or the only one.
pub(super) fn chosen_clock(text: &str) -> ClockKind {
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(clock, _)| clock);
    ClockKind::from_ftrace(chosen.unwrap_or(text).trim())
}

/// `uname -srm` or `uname -a` shortened: system, host, release, machine.
pub(super) fn uname(text: &str, info: &mut TraceInfo) {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_release = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    if let Some(at) = words.iter().position(is_release) {
        info.kernel_release = Some(words[at].to_owned());
        if at == 2 {
            info.host_name = Some(words[1].to_owned());
        }
        if at + 1 < words.len() {
            info.machine = words.last().map(|word| (*word).to_owned());
        }
    }
}

/// Adds the threads of `saved_cmdlines`: lines "TID NAME".
pub(super) fn saved_cmdlines(text: &str, tasks: &mut Vec<KnownTask>) {
    for line in text.lines() {
        // A name may begin or end with spaces: exactly one separates it.
        let Some((tid, comm)) = line.trim_start().split_once(' ') else { continue };
        let Ok(tid) = tid.parse() else { continue };
        if comm != "<...>" {
            tasks.push(KnownTask { tid: trace::Tid(tid), process: None, comm: Comm::new(comm.as_bytes()) });
        }
    }
}

/// Completes the threads by `saved_tgids`: lines "TID PID".
pub(super) fn saved_tgids(text: &str, tasks: &mut Vec<KnownTask>) {
    let mut by_tid: std::collections::HashMap<i32, usize> =
        tasks.iter().enumerate().map(|(at, task)| (task.tid.0, at)).collect();
    for line in text.lines() {
        let mut words = line.split_whitespace().map(str::parse::<i32>);
        let (Some(Ok(tid)), Some(Ok(process))) = (words.next(), words.next()) else { continue };
        let process = Some(trace::Tid(process));
        match by_tid.get(&tid) {
            Some(&at) => tasks[at].process = process,
            None => {
                by_tid.insert(tid, tasks.len());
                tasks.push(KnownTask { tid: trace::Tid(tid), process, comm: Comm::default() });
            }
        }
    }
}

/// The part of the recorder's account that a reader needs.
#[derive(Clone, Debug, serde::Deserialize)]
pub(super) struct Account {
    pub(super) version: u32,
    #[serde(default)]
    pub(super) cpus: Vec<CpuAccount>,
    #[serde(default)]
    pub(super) cut: bool,
    #[serde(default)]
    pub(super) started_ns: u64,
    #[serde(default)]
    pub(super) realtime_offset_ns: i64,
}

#[derive(Clone, Debug, serde::Deserialize)]
pub(super) struct CpuAccount {
    pub(super) cpu: u32,
    #[serde(default)]
    pub(super) recorded: u64,
    #[serde(default)]
    pub(super) lost: LostAccount,
    #[serde(default)]
    pub(super) losses: Vec<LossAccount>,
    #[serde(default)]
    pub(super) last_ns: u64,
}

#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct LostAccount {
    pub(super) overwritten: u64,
    pub(super) refused: u64,
    pub(super) nested: u64,
    pub(super) unwritten: u64,
}

impl LostAccount {
    pub(super) fn total(&self) -> u64 {
        [self.overwritten, self.refused, self.nested, self.unwritten].into_iter().fold(0, u64::saturating_add)
    }
}

#[derive(Clone, Copy, Debug, serde::Deserialize)]
pub(super) struct LossAccount {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) count: Option<u64>,
    /// Pages tell of it too.
    #[serde(default)]
    pub(super) in_pages: bool,
}

/// The newest account layout that is understood.
const ACCOUNT_VERSION: u32 = 1;

pub(super) fn account(json: &[u8]) -> Result<Account, String> {
    let account: Account = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    if account.version > ACCOUNT_VERSION {
        return Err(format!(
            "the recorder's account has version {}, known is {ACCOUNT_VERSION}",
            account.version
        ));
    }
    Ok(account)
}

impl Account {
    /// Losses that no page tells: those that ended before a CPU's last event, and those behind
    /// it. Refused and nested events have the place that the recorder's looks at the counters
    /// give them.
    pub(super) fn losses_without_page(&self) -> (Vec<Loss>, Vec<Loss>) {
        let (mut before, mut at_end) = (Vec::new(), Vec::new());
        for cpu in &self.cpus {
            let last = cpu.last_ns.max(self.started_ns);
            for loss in cpu.losses.iter().filter(|loss| !loss.in_pages) {
                let told = if loss.from_ns >= last { &mut at_end } else { &mut before };
                let (from, to) = (Nanos(loss.from_ns), Nanos(loss.to_ns));
                told.push(Loss { cpu: Some(Cpu(cpu.cpu)), from, to, count: loss.count });
            }
        }
        (before, at_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn side_tables() {
        let mut tasks = Vec::new();
        saved_cmdlines("12 a b] ==> c\n13 <...>\n0 <idle>\nx y\n", &mut tasks);
        saved_tgids("12 10\n99 98\n", &mut tasks);
        let shown: Vec<String> =
            tasks.iter().map(|t| format!("{} {:?} {}", t.tid.0, t.process.map(|p| p.0), t.comm)).collect();
        assert_eq!(shown, ["12 Some(10) a b] ==> c", "0 None <idle>", "99 Some(98) "]);
        assert_eq!(
            ring_counters("CPU: 3\nentries: 0\noverrun: 7\ncommit overrun: 1\ndropped events: 2\n"),
            Some(RingCounters { cpu: 3, overrun: 7, dropped: 3 })
        );
        assert_eq!(ring_counters("\nBuffer: r2\n\n"), None);
        assert_eq!(chosen_clock("local [mono] boot\n"), ClockKind::Mono);
        assert_eq!(chosen_clock("local"), ClockKind::Local);
    }

    #[test]
    fn uname_with_and_without_host() {
        let mut info = TraceInfo::new("x");
        uname("Linux vm 6.18.44-fc x86_64", &mut info);
        assert_eq!(
            (info.host_name.as_deref(), info.kernel_release.as_deref(), info.machine.as_deref()),
            (Some("vm"), Some("6.18.44-fc"), Some("x86_64"))
        );
        let mut info = TraceInfo::new("x");
        uname("Linux 6.1.0 aarch64", &mut info);
        assert_eq!(
            (info.host_name.as_deref(), info.kernel_release.as_deref(), info.machine.as_deref()),
            (None, Some("6.1.0"), Some("aarch64"))
        );
    }

    #[test]
    fn cycles_become_nanoseconds() {
        let scale = CycleScale::new(1 << 20, 22, 5).unwrap();
        assert_eq!(scale.nanos(4_000_000_000), 1_000_000_005);
        assert_eq!(CycleScale::new(1, 64, 0), None);
    }
}
