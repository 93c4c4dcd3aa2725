//! Constants that C headers define by `#define`, which BTF therefore does not have.
//!
//! Values are those of the kernel's user-space interface for x86-64 and arm64 (they agree
//! unless noted); programs that define a name themselves have their own value.

use std::rc::Rc;

use bpf::KernelFacts;

use super::errnos;

/// The value of a name.
pub fn find(name: &str, facts: &dyn KernelFacts) -> Option<i64> {
    if let Some(call) = name.strip_prefix("__NR_").or_else(|| name.strip_prefix("SYS_")) {
        let found = facts.syscalls().iter().find(|(_, have)| *have == call);
        return found.map(|(number, _)| i64::from(*number));
    }
    if let Some(number) = signal(name).filter(|_| name.starts_with("SIG")) {
        return Some(i64::from(number));
    }
    TABLE.binary_search_by_key(&name, |(name, _)| name).ok().map(|at| TABLE[at].1)
}

/// A signal's number by name, with or without `SIG`.
pub fn signal(name: &str) -> Option<u32> {
    let short = name.strip_prefix("SIG").unwrap_or(name);
    SIGNALS.iter().position(|have| *have == short).map(|at| at as u32 + 1)
}

/// Names of errnos with their numbers, also of those that stay in the kernel.
pub fn errnos() -> Vec<(Rc<str>, i64)> {
    errnos::NAMES.iter().map(|(name, number)| (Rc::from(*name), *number)).collect()
}

/// Names of signals with their numbers, `SIGHUP` to `SIGSYS`, then those from `SIGRTMIN` (32, as the kernel
/// counts; the C library keeps the first two or three for itself).
pub fn signals() -> Vec<(Rc<str>, i64)> {
    let usual = SIGNALS.iter().enumerate().map(|(at, name)| (format!("SIG{name}").into(), at as i64 + 1));
    let rest =
        (0..33).map(|n| (if n == 0 { "SIGRTMIN".into() } else { format!("SIGRTMIN+{n}").into() }, 32 + n));
    usual.chain(rest).collect()
}

const SIGNALS: &[&str] = &[
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
    "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
    "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// Sorted by name.
const TABLE: &[(&str, i64)] = &[
    ("AF_ALG", 38),
    ("AF_BRIDGE", 7),
    ("AF_INET", 2),
    ("AF_INET6", 10),
    ("AF_LOCAL", 1),
    ("AF_NETLINK", 16),
    ("AF_PACKET", 17),
    ("AF_UNIX", 1),
    ("AF_UNSPEC", 0),
    ("AF_VSOCK", 40),
    ("AF_XDP", 44),
    ("AT_EACCESS", 0x200),
    ("AT_EMPTY_PATH", 0x1000),
    ("AT_FDCWD", -100),
    ("AT_REMOVEDIR", 0x200),
    ("AT_SYMLINK_FOLLOW", 0x400),
    ("AT_SYMLINK_NOFOLLOW", 0x100),
    ("CLONE_FILES", 0x400),
    ("CLONE_FS", 0x200),
    ("CLONE_NEWCGROUP", 0x0200_0000),
    ("CLONE_NEWIPC", 0x0800_0000),
    ("CLONE_NEWNET", 0x4000_0000),
    ("CLONE_NEWNS", 0x0002_0000),
    ("CLONE_NEWPID", 0x2000_0000),
    ("CLONE_NEWUSER", 0x1000_0000),
    ("CLONE_NEWUTS", 0x0400_0000),
    ("CLONE_SIGHAND", 0x800),
    ("CLONE_THREAD", 0x0001_0000),
    ("CLONE_VFORK", 0x4000),
    ("CLONE_VM", 0x100),
    ("E2BIG", 7),
    ("EACCES", 13),
    ("EADDRINUSE", 98),
    ("EADDRNOTAVAIL", 99),
    ("EAGAIN", 11),
    ("EALREADY", 114),
    ("EBADF", 9),
    ("EBUSY", 16),
    ("ECANCELED", 125),
    ("ECHILD", 10),
    ("ECONNABORTED", 103),
    ("ECONNREFUSED", 111),
    ("ECONNRESET", 104),
    ("EDEADLK", 35),
    ("EDOM", 33),
    ("EEXIST", 17),
    ("EFAULT", 14),
    ("EFBIG", 27),
    ("EHOSTUNREACH", 113),
    ("EINPROGRESS", 115),
    ("EINTR", 4),
    ("EINVAL", 22),
    ("EIO", 5),
    ("EISCONN", 106),
    ("EISDIR", 21),
    ("ELOOP", 40),
    ("EMFILE", 24),
    ("EMLINK", 31),
    ("EMSGSIZE", 90),
    ("ENAMETOOLONG", 36),
    ("ENETDOWN", 100),
    ("ENETUNREACH", 101),
    ("ENFILE", 23),
    ("ENOBUFS", 105),
    ("ENODATA", 61),
    ("ENODEV", 19),
    ("ENOENT", 2),
    ("ENOEXEC", 8),
    ("ENOLCK", 37),
    ("ENOMEM", 12),
    ("ENOSPC", 28),
    ("ENOSYS", 38),
    ("ENOTCONN", 107),
    ("ENOTDIR", 20),
    ("ENOTEMPTY", 39),
    ("ENOTSUP", 95),
    ("ENOTTY", 25),
    ("ENXIO", 6),
    ("EOPNOTSUPP", 95),
    ("EOVERFLOW", 75),
    ("EPERM", 1),
    ("EPIPE", 32),
    ("EPROTO", 71),
    ("ERANGE", 34),
    ("ERESTARTNOHAND", 514),
    ("ERESTARTNOINTR", 513),
    ("ERESTARTSYS", 512),
    ("ERESTART_RESTARTBLOCK", 516),
    ("EROFS", 30),
    ("ESPIPE", 29),
    ("ESRCH", 3),
    ("ESTALE", 116),
    ("ETIME", 62),
    ("ETIMEDOUT", 110),
    ("EWOULDBLOCK", 11),
    ("EXDEV", 18),
    ("FUTEX_CMP_REQUEUE", 4),
    ("FUTEX_LOCK_PI", 6),
    ("FUTEX_PRIVATE_FLAG", 128),
    ("FUTEX_REQUEUE", 3),
    ("FUTEX_UNLOCK_PI", 7),
    ("FUTEX_WAIT", 0),
    ("FUTEX_WAIT_BITSET", 9),
    ("FUTEX_WAKE", 1),
    ("FUTEX_WAKE_BITSET", 10),
    ("IPPROTO_ICMP", 1),
    ("IPPROTO_ICMPV6", 58),
    ("IPPROTO_IP", 0),
    ("IPPROTO_IPV6", 41),
    ("IPPROTO_RAW", 255),
    ("IPPROTO_TCP", 6),
    ("IPPROTO_UDP", 17),
    ("MAP_ANONYMOUS", 0x20),
    ("MAP_FIXED", 0x10),
    ("MAP_HUGETLB", 0x40000),
    ("MAP_POPULATE", 0x8000),
    ("MAP_PRIVATE", 2),
    ("MAP_SHARED", 1),
    ("NULL", 0),
    ("O_ACCMODE", 3),
    ("O_APPEND", 0o2000),
    ("O_CLOEXEC", 0o2_000_000),
    ("O_CREAT", 0o100),
    ("O_DIRECTORY", 0o200_000),
    ("O_EXCL", 0o200),
    ("O_NOFOLLOW", 0o400_000),
    ("O_NONBLOCK", 0o4000),
    ("O_PATH", 0o10_000_000),
    ("O_RDONLY", 0),
    ("O_RDWR", 2),
    ("O_SYNC", 0o4_010_000),
    ("O_TRUNC", 0o1000),
    ("O_WRONLY", 1),
    ("PAGE_SHIFT", 12),
    ("PAGE_SIZE", 4096),
    ("PF_EXITING", 4),
    ("PF_KTHREAD", 0x0020_0000),
    ("PF_WQ_WORKER", 0x20),
    ("POLLERR", 8),
    ("POLLHUP", 0x10),
    ("POLLIN", 1),
    ("POLLOUT", 4),
    ("PROT_EXEC", 4),
    ("PROT_NONE", 0),
    ("PROT_READ", 1),
    ("PROT_WRITE", 2),
    ("SEEK_CUR", 1),
    ("SEEK_END", 2),
    ("SEEK_SET", 0),
    ("SHUT_RD", 0),
    ("SHUT_RDWR", 2),
    ("SHUT_WR", 1),
    ("SOCK_DGRAM", 2),
    ("SOCK_RAW", 3),
    ("SOCK_SEQPACKET", 5),
    ("SOCK_STREAM", 1),
    ("SOL_SOCKET", 1),
    ("S_IFBLK", 0o60000),
    ("S_IFCHR", 0o20000),
    ("S_IFDIR", 0o40000),
    ("S_IFIFO", 0o10000),
    ("S_IFLNK", 0o120_000),
    ("S_IFMT", 0o170_000),
    ("S_IFREG", 0o100_000),
    ("S_IFSOCK", 0o140_000),
    ("TASK_COMM_LEN", 16),
    ("TASK_INTERRUPTIBLE", 1),
    ("TASK_RUNNING", 0),
    ("TASK_UNINTERRUPTIBLE", 2),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_signals_are_numbered() {
        for pair in TABLE.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{} {}", pair[0].0, pair[1].0);
        }
        assert_eq!(
            (signal("SIGKILL"), signal("KILL"), signal("SIGSYS"), signal("SIGX")),
            (Some(9), Some(9), Some(31), None)
        );
        assert_eq!(find("AF_INET6", &bpf::facts::SavedFacts::default()), Some(10));
    }
}
