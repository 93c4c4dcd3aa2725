//! Signals that do not end the process but are counted, for `self:signal` probes.

use std::sync::atomic::{AtomicU64, Ordering};

const SIGNALS: usize = 65;
static COUNTS: [AtomicU64; SIGNALS] = [const { AtomicU64::new(0) }; SIGNALS];

/// Names of signals that a program may wait for, with their numbers.
const NAMES: &[(&str, i32)] = &[
    ("SIGUSR1", libc::SIGUSR1),
    ("SIGUSR2", libc::SIGUSR2),
    ("SIGHUP", libc::SIGHUP),
    ("SIGALRM", libc::SIGALRM),
    ("SIGCONT", libc::SIGCONT),
    ("SIGWINCH", libc::SIGWINCH),
    ("SIGIO", libc::SIGIO),
    ("SIGURG", libc::SIGURG),
    ("SIGVTALRM", libc::SIGVTALRM),
    ("SIGPROF", libc::SIGPROF),
    ("SIGPWR", libc::SIGPWR),
];

/// The number of a signal by its name, with or without `SIG`.
pub fn by_name(name: &str) -> Option<i32> {
    NAMES
        .iter()
        .find(|(have, _)| *have == name || have.strip_prefix("SIG") == Some(name))
        .map(|(_, number)| *number)
}

/// Counts this signal from now on, rather than doing what it does by default.
pub fn watch(signal: i32) {
    if (1..SIGNALS as i32).contains(&signal) {
        let handler = on_signal as extern "C" fn(i32) as libc::sighandler_t;
        // SAFETY: the handler touches an atomic and nothing else.
        unsafe { libc::signal(signal, handler) };
    }
}

/// How often it came since this was last asked.
pub fn take(signal: i32) -> u64 {
    usize::try_from(signal)
        .ok()
        .and_then(|at| COUNTS.get(at))
        .map_or(0, |count| count.swap(0, Ordering::AcqRel))
}

extern "C" fn on_signal(signal: i32) {
    if let Some(count) = COUNTS.get(signal as usize) {
        count.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_watched_signal_is_counted() {
        let signal = super::by_name("USR2").unwrap();
        super::watch(signal);
        // SAFETY: sends a handled signal to this process.
        unsafe { libc::raise(signal) };
        assert_eq!(super::take(signal), 1);
        assert_eq!(super::take(signal), 0);
        assert_eq!(super::by_name("SIGKILL"), None);
    }
}
