//! Tracefs without a mount point: an own mount from `fsopen`/`fsmount` that no path leads to,
//! or a mounted one where the kernel refuses that. Knows event names, formats and how to make
//! and sweep instances; never writes to the top-level buffer and never to `ftrace_enabled`.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::directory::Directory;
use crate::error::{Refused, check};

// include/uapi/linux/mount.h; the libc crate does not carry them for every target.
const FSOPEN_CLOEXEC: u32 = 1;
const FSCONFIG_CMD_CREATE: u32 = 6;
const FSMOUNT_CLOEXEC: u32 = 1;
const MOUNT_ATTR_NOSUID: u32 = 2;
const MOUNT_ATTR_NODEV: u32 = 4;
const MOUNT_ATTR_NOEXEC: u32 = 8;

/// How the tracefs at hand was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// An own mount that no path leads to.
    Private,
    /// A file system that somebody mounted at this path.
    Mounted(String),
}

/// An open tracefs.
#[derive(Debug)]
pub struct Tracefs {
    root: Directory,
    access: Access,
}

/// A trace event: `sched:sched_switch`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventName {
    /// The directory below `events/`.
    pub system: String,
    /// The event's own name.
    pub name: String,
}

impl EventName {
    /// Reads "system:name".
    pub fn parse(text: &str) -> Option<Self> {
        let (system, name) = text.split_once(':')?;
        Some(EventName { system: system.to_owned(), name: name.to_owned() })
    }

    /// The event's directory below a tracefs or instance root.
    pub fn directory(&self) -> String {
        format!("events/{}/{}", self.system, self.name)
    }
}

impl std::fmt::Display for EventName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.system, self.name)
    }
}

impl Tracefs {
    /// Opens a private tracefs; where `fsopen` is refused, one that is mounted.
    pub fn open() -> Result<Self, Refused> {
        let refusal = match open_private() {
            Ok(fd) => {
                let root = Directory::from_fd(fd, "tracefs");
                // A mount that answers nothing (lockdown) is no better than none: find out now.
                root.read("available_events")?;
                return Ok(Tracefs { root, access: Access::Private });
            }
            Err(refusal) => refusal,
        };
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        for path in mounted_at(&mounts) {
            if let Ok(root) = Directory::open(&path)
                && root.has("available_events")
            {
                return Ok(Tracefs { root, access: Access::Mounted(path) });
            }
        }
        let advice = match refusal.errno() {
            libc::EPERM => {
                "mounting tracefs needs CAP_SYS_ADMIN: run as root, or have root run `mount -t tracefs tracefs /sys/kernel/tracing`"
            }
            libc::ENODEV => "this kernel was built without tracefs (CONFIG_TRACING)",
            _ => "have root run `mount -t tracefs tracefs /sys/kernel/tracing` and try again",
        };
        Err(refusal.advise(advice))
    }

    /// Its root directory.
    pub fn root(&self) -> &Directory {
        &self.root
    }

    /// How it was reached.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Every event that can be enabled, in the kernel's order.
    pub fn events(&self) -> Result<Vec<EventName>, Refused> {
        Ok(self.root.read_text("available_events")?.lines().filter_map(EventName::parse).collect())
    }

    /// The text of an event's `format` file.
    pub fn format(&self, event: &EventName) -> Result<String, Refused> {
        self.root.read_text(&format!("{}/format", event.directory()))
    }
}

/// Mount points of tracefs, and of debugfs with tracefs below it, out of /proc/self/mounts.
fn mounted_at(mounts: &str) -> Vec<String> {
    let mut found = Vec::new();
    for wanted in ["tracefs", "debugfs"] {
        for line in mounts.lines() {
            let mut words = line.split(' ');
            if let (Some(_), Some(path), Some(kind)) = (words.next(), words.next(), words.next())
                && kind == wanted
            {
                let path = path.replace("\\040", " ");
                found.push(if wanted == "debugfs" { format!("{path}/tracing") } else { path });
            }
        }
    }
    found
}

fn open_private() -> Result<OwnedFd, Refused> {
    let refused = |operation: &str, e| Refused::new(operation, "tracefs", e);
    let kind: &CStr = c"tracefs";
    // SAFETY: `kind` is NUL-terminated; the call touches no other memory.
    let context = new_fd(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), FSOPEN_CLOEXEC) })
        .map_err(|e| refused("fsopen", e))?;
    let no_text = std::ptr::null::<libc::c_char>();
    let create = FSCONFIG_CMD_CREATE;
    // SAFETY: FSCONFIG_CMD_CREATE takes no key and no value: null pointers are what it wants.
    check(unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), create, no_text, no_text, 0) })
        .map_err(|e| refused("fsconfig", e))?;
    let attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    // SAFETY: integer arguments only.
    new_fd(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), FSMOUNT_CLOEXEC, attributes) })
        .map_err(|e| refused("fsmount", e))
}

fn new_fd(result: libc::c_long) -> io::Result<OwnedFd> {
    let fd = check(result)? as i32;
    // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracefs_is_preferred_over_debugfs_and_blanks_are_decoded() {
        let mounts = "debugfs /sys/kernel/debug debugfs rw 0 0\nt /mnt/a\\040b tracefs rw 0 0\nproc /proc proc rw 0 0\n";
        assert_eq!(mounted_at(mounts), ["/mnt/a b", "/sys/kernel/debug/tracing"]);
    }

    #[test]
    fn a_private_tracefs_lists_events_and_formats() {
        let tracefs = match Tracefs::open() {
            Ok(tracefs) => tracefs,
            Err(refusal) => testkit::skipped!("{refusal}"),
        };
        let switch = EventName::parse("sched:sched_switch").unwrap();
        assert!(tracefs.events().unwrap().contains(&switch));
        assert!(tracefs.format(&switch).unwrap().contains("prev_state"));
    }
}
