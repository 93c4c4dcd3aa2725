//! What a finished child process used, from the kernel's own account of it.

use std::{io, os::unix::process::ExitStatusExt, process::Child, process::ExitStatus, time::Duration};

/// What a process (and the children it waited for) used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Largest resident set, in bytes.
    pub peak_resident: u64,
    /// Page faults served without I/O.
    pub minor_faults: u64,
    /// Switches because it had to wait.
    pub voluntary_switches: u64,
    /// Switches because its time was up.
    pub involuntary_switches: u64,
}

/// Waits for `child` to end and tells how it ended and what it used.
pub fn wait_with_usage(child: &Child) -> io::Result<(ExitStatus, Usage)> {
    let mut status = 0;
    // SAFETY: rusage is plain integers; all-zero is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live locals of the types wait4 writes.
        let waited = unsafe { libc::wait4(child.id() as libc::pid_t, &raw mut status, 0, &raw mut usage) };
        if waited >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    Ok((
        ExitStatus::from_raw(status),
        Usage {
            user: time(usage.ru_utime),
            system: time(usage.ru_stime),
            peak_resident: usage.ru_maxrss as u64 * 1024,
            minor_faults: usage.ru_minflt as u64,
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
        },
    ))
}
