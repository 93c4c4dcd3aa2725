//! The kernel's last word on each thread that ends: taskstats over generic netlink
//! (Documentation/accounting/taskstats.rst). Exact for threads too short to be seen in /proc.
//!
//! Needs CONFIG_TASKSTATS and CAP_NET_ADMIN in the first namespaces. Messages that did not
//! fit in the socket are known to be missing, not how many.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use serde::{Deserialize, Serialize};

use crate::error::{Refused, check};
use crate::stop::owned;

/// What the kernel counted for a thread over its whole life, taken as it ends. The switch
/// that takes it off its CPU for good comes after.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadExit {
    /// The thread, as the first pid namespace counts.
    pub tid: u32,
    /// Its process, where the kernel tells (since 5.19).
    pub process: Option<u32>,
    /// Its name at the end.
    pub comm: String,
    /// Switches because it had to wait for something.
    pub voluntary_switches: u64,
    /// Switches although it could have gone on.
    pub involuntary_switches: u64,
    /// Nanoseconds on a CPU.
    pub run_ns: u64,
    /// Nanoseconds runnable and not on a CPU.
    pub wait_ns: u64,
    /// How many times it was put on a CPU.
    pub times_on_cpu: u64,
    /// Wall-clock nanoseconds from its making to its end.
    pub life_ns: u64,
}

/// Listens to thread exits of the whole host until dropped.
#[derive(Debug)]
pub struct ExitListener {
    socket: OwnedFd,
    overrun: bool,
}

// include/uapi/linux/{netlink,genetlink,taskstats}.h
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const TASKSTATS_CMD_GET: u8 = 1;
const TASKSTATS_CMD_ATTR_REGISTER_CPUMASK: u16 = 3;
const TASKSTATS_TYPE_PID: u16 = 1;
const TASKSTATS_TYPE_STATS: u16 = 3;
const TASKSTATS_TYPE_AGGR_PID: u16 = 4;
const NLMSG_ERROR: u16 = 2;
const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;

impl ExitListener {
    /// Asks for the exits on all possible CPUs.
    pub fn open() -> Result<ExitListener, Refused> {
        let refused = |operation: &str, e| {
            Refused::new(operation, "thread exits (taskstats)", e)
                .advise("this needs CAP_NET_ADMIN and a kernel with CONFIG_TASKSTATS")
        };
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: integer arguments only.
        let socket = owned(unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_GENERIC) }.into())
            .map_err(|e| refused("open a socket for", e))?;
        let listener = ExitListener { socket, overrun: false };
        listener.enlarge();
        let family = listener.family().map_err(|e| refused("find", e))?;
        let last = crate::cpu::possible()?.last().copied().unwrap_or(0);
        let mut mask = format!("0-{last}").into_bytes();
        mask.push(0);
        let request = message(family, TASKSTATS_CMD_GET, 1, TASKSTATS_CMD_ATTR_REGISTER_CPUMASK, &mask);
        listener.send(&request).map_err(|e| refused("ask for", e))?;
        // The acknowledgement: an error message with 0.
        let mut buffer = vec![0; 8192];
        let length = listener.receive(&mut buffer, 0).map_err(|e| refused("ask for", e))?;
        match acknowledged(&buffer[..length]) {
            Some(0) => Ok(listener),
            Some(errno) => Err(refused("ask for", io::Error::from_raw_os_error(errno))),
            None => Err(refused("ask for", io::Error::from_raw_os_error(libc::EPROTO))),
        }
    }

    /// All exits that have come since the last call; never waits.
    pub fn take(&mut self) -> Vec<ThreadExit> {
        let mut exits = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            match self.receive(&mut buffer, libc::MSG_DONTWAIT) {
                Ok(0) => return exits,
                Ok(length) => exits.extend(exits_in(&buffer[..length])),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => self.overrun = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return exits,
            }
        }
    }

    /// Whether some exits are known to be missing.
    pub fn overrun(&self) -> bool {
        self.overrun
    }

    /// A larger receive buffer: a compile ends hundreds of threads between two visits.
    fn enlarge(&self) {
        let bytes: libc::c_int = 8 << 20;
        for option in [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF] {
            // SAFETY: the option's value is an int that lives through the call.
            let result = unsafe {
                libc::setsockopt(
                    self.socket.as_raw_fd(),
                    libc::SOL_SOCKET,
                    option,
                    (&raw const bytes).cast(),
                    size_of::<libc::c_int>() as libc::socklen_t,
                )
            };
            if result == 0 {
                return;
            }
        }
    }

    fn family(&self) -> io::Result<u16> {
        self.send(&message(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0, CTRL_ATTR_FAMILY_NAME, b"TASKSTATS\0"))?;
        let mut buffer = vec![0; 8192];
        let length = self.receive(&mut buffer, 0)?;
        let answer = &buffer[..length];
        if let Some(errno) = acknowledged(answer).filter(|&errno| errno != 0) {
            return Err(io::Error::from_raw_os_error(errno));
        }
        attributes(answer.get(HEADER + GENERIC_HEADER..).unwrap_or_default())
            .find(|(kind, _)| *kind == CTRL_ATTR_FAMILY_ID)
            .and_then(|(_, value)| Some(u16::from_ne_bytes(*value.first_chunk()?)))
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EPROTO))
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: pointer and length describe `bytes`; an unconnected netlink socket sends
        // to the kernel.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
        check(sent as libc::c_long).map(|_| ())
    }

    fn receive(&self, buffer: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
        // SAFETY: pointer and length describe `buffer`, which is exclusively ours.
        let got =
            unsafe { libc::recv(self.socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), flags) };
        check(got as libc::c_long).map(|length| length as usize)
    }
}

/// A request with one attribute, acknowledged where `version` 1 is used for a command.
fn message(family: u16, command: u8, version: u8, attribute: u16, value: &[u8]) -> Vec<u8> {
    let attribute_length = 4 + value.len();
    let length = HEADER + GENERIC_HEADER + attribute_length.next_multiple_of(4);
    let flags = libc::NLM_F_REQUEST | if family == GENL_ID_CTRL { 0 } else { libc::NLM_F_ACK };
    let mut bytes = Vec::with_capacity(length);
    bytes.extend((length as u32).to_ne_bytes());
    bytes.extend(family.to_ne_bytes());
    bytes.extend((flags as u16).to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([command, version, 0, 0]);
    bytes.extend((attribute_length as u16).to_ne_bytes());
    bytes.extend(attribute.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(length, 0);
    bytes
}

/// The errno of an acknowledgement, 0 for success; `None` for another kind of message.
fn acknowledged(bytes: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let code = i32::from_ne_bytes(*bytes.get(HEADER..)?.first_chunk()?);
    (kind == NLMSG_ERROR).then_some(-code)
}

/// Kind and value of each attribute in a row.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = u16::from_ne_bytes(*bytes.first_chunk()?) as usize;
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?) & 0x3fff;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn exits_in(mut bytes: &[u8]) -> Vec<ThreadExit> {
    let mut exits = Vec::new();
    while let Some(length) = bytes.first_chunk().map(|head| u32::from_ne_bytes(*head) as usize) {
        if length < HEADER + GENERIC_HEADER || length > bytes.len() {
            break;
        }
        for (kind, value) in attributes(&bytes[HEADER + GENERIC_HEADER..length]) {
            // The last thread of a group also brings a sum over the group, which is not wanted.
            if kind != TASKSTATS_TYPE_AGGR_PID {
                continue;
            }
            let find = |wanted| attributes(value).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
            let tid =
                find(TASKSTATS_TYPE_PID).and_then(|value| Some(u32::from_ne_bytes(*value.first_chunk()?)));
            if let (Some(tid), Some(stats)) = (tid, find(TASKSTATS_TYPE_STATS))
                && let Some(exit) = exit_of(tid, stats)
            {
                exits.push(exit);
            }
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    exits
}

/// Reads `struct taskstats`. Its fields are meant never to move, and did so once (version 15,
/// Linux 6.14): the thread's number, which is known, tells whether the layout is the right one.
fn exit_of(tid: u32, stats: &[u8]) -> Option<ThreadExit> {
    let half = |offset: usize| Some(u32::from_ne_bytes(*stats.get(offset..)?.first_chunk()?));
    let word = |offset: usize| Some(u64::from_ne_bytes(*stats.get(offset..)?.first_chunk()?));
    if half(128)? != tid {
        return None;
    }
    let version = u16::from_ne_bytes(*stats.first_chunk()?);
    let comm = stats.get(80..112)?;
    let comm = &comm[..comm.iter().position(|&b| b == 0).unwrap_or(32)];
    Some(ThreadExit {
        tid,
        // ac_tgid came with version 12.
        process: if version >= 12 { half(368) } else { None },
        comm: String::from_utf8_lossy(comm).into_owned(),
        times_on_cpu: word(16)?,
        wait_ns: word(24)?,
        run_ns: word(72)?,
        life_ns: word(144)?.saturating_mul(1000),
        voluntary_switches: word(272)?,
        involuntary_switches: word(280)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics(tid: u32) -> Vec<u8> {
        let mut stats = vec![0u8; 416];
        stats[0] = 13;
        stats[16..24].copy_from_slice(&5u64.to_ne_bytes());
        stats[24..32].copy_from_slice(&600u64.to_ne_bytes());
        stats[72..80].copy_from_slice(&7000u64.to_ne_bytes());
        stats[80..84].copy_from_slice(b"a b]");
        stats[128..132].copy_from_slice(&tid.to_ne_bytes());
        stats[272..280].copy_from_slice(&3u64.to_ne_bytes());
        stats[280..288].copy_from_slice(&2u64.to_ne_bytes());
        stats[368..372].copy_from_slice(&40u32.to_ne_bytes());
        stats
    }

    #[test]
    fn statistics_are_read_and_a_moved_layout_is_refused() {
        let exit = exit_of(41, &statistics(41)).unwrap();
        assert_eq!((exit.times_on_cpu, exit.wait_ns, exit.run_ns), (5, 600, 7000));
        assert_eq!((exit.voluntary_switches, exit.involuntary_switches), (3, 2));
        assert_eq!((exit.comm.as_str(), exit.process), ("a b]", Some(40)));
        assert_eq!(exit_of(42, &statistics(41)), None);
        for cut in 0..416 {
            exit_of(41, &statistics(41)[..cut]);
            exits_in(&statistics(41)[..cut]);
        }
    }

    #[test]
    fn a_thread_that_ends_is_heard_of() {
        let mut listener = match ExitListener::open() {
            Ok(listener) => listener,
            Err(refused) => testkit::skipped!("{refused}"),
        };
        let tid = std::thread::spawn(|| {
            for _ in 0..3 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            crate::stop::own_tid()
        })
        .join()
        .unwrap();
        // join() returns when the thread has let go of its memory, a moment before its end.
        let mut exits = Vec::new();
        for _ in 0..1000 {
            exits.extend(listener.take());
            if exits.iter().any(|exit| exit.tid == tid) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let exit = exits.iter().find(|exit| exit.tid == tid).expect("the thread's exit was told");
        assert!(exit.voluntary_switches >= 3, "{exit:?}");
        assert!(exit.run_ns > 0 && exit.run_ns < exit.life_ns, "{exit:?}");
        assert_eq!(exit.process, Some(std::process::id()), "{exit:?}");
    }
}
