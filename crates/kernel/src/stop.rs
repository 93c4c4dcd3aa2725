//! Asking a run to end: from another thread, or by SIGINT, SIGTERM, SIGHUP or SIGQUIT.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use crate::error::{Refused, check};

/// A wish to stop that any thread can express and a loop can wait for. Clones share it.
#[derive(Debug, Clone)]
pub struct StopToken {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    event: File,
    // 0: not requested, -1: by a thread, otherwise the signal's number.
    reason: AtomicI32,
}

/// Why a stop was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// A part of the program asked.
    Asked,
    /// This signal came.
    Signal(i32),
}

impl StopToken {
    /// A token that nothing has asked of yet.
    pub fn new() -> Result<Self, Refused> {
        // SAFETY: integer arguments only.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }.into())
            .map_err(|e| Refused::new("make", "an event descriptor", e))?;
        // SAFETY: the descriptor is new and nobody else owns it.
        let event = unsafe { File::from_raw_fd(fd as i32) };
        Ok(StopToken { shared: Arc::new(Shared { event, reason: AtomicI32::new(0) }) })
    }

    /// Asks to stop.
    pub fn request(&self) {
        self.ask(-1);
    }

    /// The reason once a stop was asked for. The first reason stays.
    pub fn requested(&self) -> Option<StopReason> {
        match self.shared.reason.load(Ordering::Acquire) {
            0 => None,
            -1 => Some(StopReason::Asked),
            signal => Some(StopReason::Signal(signal)),
        }
    }

    /// How many requests have come since this was last asked: a second Ctrl-C shows here.
    pub fn take_requests(&self) -> u64 {
        let mut count = [0u8; 8];
        match (&self.shared.event).read(&mut count) {
            Ok(8) => u64::from_ne_bytes(count),
            _ => 0,
        }
    }

    fn ask(&self, reason: i32) {
        let _ = self.shared.reason.compare_exchange(0, reason, Ordering::AcqRel, Ordering::Acquire);
        let _ = (&self.shared.event).write(&1u64.to_ne_bytes());
    }
}

impl AsFd for StopToken {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }
}

// What the signal handler writes to; it may touch nothing but atomics and write(2).
static SIGNAL_EVENT_FD: AtomicI32 = AtomicI32::new(-1);
static SIGNAL_REASON: AtomicI32 = AtomicI32::new(0);
const STOPPING_SIGNALS: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// While it lives, the stopping signals ask a token to stop instead of ending the process.
/// One at a time per process: the newest wins.
#[derive(Debug)]
pub struct SignalsStop {
    token: StopToken,
    earlier: Vec<(i32, libc::sighandler_t)>,
}

impl SignalsStop {
    /// Routes the stopping signals to `token`. A signal that was ignored (nohup) stays ignored.
    pub fn route_to(token: &StopToken) -> Self {
        SIGNAL_REASON.store(0, Ordering::Release);
        SIGNAL_EVENT_FD.store(token.shared.event.as_raw_fd(), Ordering::Release);
        let mut earlier = Vec::new();
        for signal in STOPPING_SIGNALS {
            let handler = on_signal as extern "C" fn(i32) as libc::sighandler_t;
            // SAFETY: the handler only uses atomics and write(2), which are async-signal-safe.
            let before = unsafe { libc::signal(signal, handler) };
            if before == libc::SIG_IGN {
                // SAFETY: restores the disposition found.
                unsafe { libc::signal(signal, before) };
            } else {
                earlier.push((signal, before));
            }
        }
        SignalsStop { token: token.clone(), earlier }
    }

    /// Carries a signal that came over to the token, so that `requested` tells its number.
    pub fn notice(&self) {
        let signal = SIGNAL_REASON.load(Ordering::Acquire);
        if signal != 0 {
            let reason = &self.token.shared.reason;
            let _ = reason.compare_exchange(0, signal, Ordering::AcqRel, Ordering::Acquire);
        }
    }
}

impl Drop for SignalsStop {
    fn drop(&mut self) {
        for (signal, before) in &self.earlier {
            // SAFETY: restores the disposition that was found.
            unsafe { libc::signal(*signal, *before) };
        }
        SIGNAL_EVENT_FD.store(-1, Ordering::Release);
    }
}

extern "C" fn on_signal(signal: i32) {
    let _ = SIGNAL_REASON.compare_exchange(0, signal, Ordering::AcqRel, Ordering::Acquire);
    let fd = SIGNAL_EVENT_FD.load(Ordering::Acquire);
    if fd >= 0 {
        let one = 1u64.to_ne_bytes();
        // SAFETY: errno belongs to the interrupted code, so it is put back.
        unsafe {
            let errno = *libc::__errno_location();
            libc::write(fd, one.as_ptr().cast(), one.len());
            *libc::__errno_location() = errno;
        }
    }
}

/// Waits until one of the descriptors is readable (or hung up) or the time is over; answers
/// which are. A signal ends the wait early with none.
pub fn wait_readable(
    descriptors: &[BorrowedFd<'_>],
    timeout: Option<Duration>,
) -> Result<Vec<bool>, Refused> {
    let mut polls: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    // Rounded up: a wait of half a millisecond is not to become a busy loop.
    let milliseconds = timeout.map_or(-1, |t| t.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32);
    // SAFETY: the pointer and the count describe the vector, which lives through the call.
    let result = unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, milliseconds) };
    match check(result.into()) {
        Ok(_) => Ok(polls.iter().map(|poll| poll.revents != 0).collect()),
        Err(e) if e.raw_os_error() == Some(libc::EINTR) => Ok(vec![false; descriptors.len()]),
        Err(e) => Err(Refused::new("wait for", "descriptors", e)),
    }
}

/// The kernel's id of the calling thread.
pub fn own_tid() -> u32 {
    // SAFETY: gettid takes nothing and cannot fail.
    unsafe { libc::gettid() as u32 }
}

/// An owned duplicate-free descriptor from a successful system call.
pub(crate) fn owned(result: libc::c_long) -> std::io::Result<OwnedFd> {
    let fd = check(result)? as i32;
    // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_wakes_a_waiter_and_its_reason_stays() {
        let token = StopToken::new().unwrap();
        assert_eq!(wait_readable(&[token.as_fd()], Some(Duration::ZERO)).unwrap(), [false]);
        token.request();
        assert_eq!(wait_readable(&[token.as_fd()], None).unwrap(), [true]);
        assert_eq!(token.requested(), Some(StopReason::Asked));
        assert_eq!(token.take_requests(), 1);
        assert_eq!(token.take_requests(), 0);
    }
}
