//! What this process may do, and what the administrator has closed.

use serde::{Deserialize, Serialize};

use super::{line, number};

/// A capability of `capabilities(7)`; the number is its bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Capability(pub u8);

impl Capability {
    /// Read any file.
    pub const DAC_READ_SEARCH: Capability = Capability(2);
    /// Network administration; needed to hear of thread exits by taskstats.
    pub const NET_ADMIN: Capability = Capability(12);
    /// Look into other processes.
    pub const SYS_PTRACE: Capability = Capability(19);
    /// Mount tracefs and much else.
    pub const SYS_ADMIN: Capability = Capability(21);
    /// Raise resource limits.
    pub const SYS_RESOURCE: Capability = Capability(24);
    /// Kernel addresses.
    pub const SYSLOG: Capability = Capability(34);
    /// perf events of everything (since 5.8).
    pub const PERFMON: Capability = Capability(38);
    /// Load eBPF programs (since 5.8).
    pub const BPF: Capability = Capability(39);

    /// Its name in lower case, as `capsh` prints it.
    pub fn name(self) -> String {
        NAMES.get(self.0 as usize).map_or_else(|| format!("cap_{}", self.0), |name| format!("cap_{name}"))
    }
}

// include/uapi/linux/capability.h, in order of their numbers.
const NAMES: &[&str] = &[
    "chown",
    "dac_override",
    "dac_read_search",
    "fowner",
    "fsetid",
    "kill",
    "setgid",
    "setuid",
    "setpcap",
    "linux_immutable",
    "net_bind_service",
    "net_broadcast",
    "net_admin",
    "net_raw",
    "ipc_lock",
    "ipc_owner",
    "sys_module",
    "sys_rawio",
    "sys_chroot",
    "sys_ptrace",
    "sys_pacct",
    "sys_admin",
    "sys_boot",
    "sys_nice",
    "sys_resource",
    "sys_time",
    "sys_tty_config",
    "mknod",
    "lease",
    "audit_write",
    "audit_control",
    "setfcap",
    "mac_override",
    "mac_admin",
    "syslog",
    "wake_alarm",
    "block_suspend",
    "audit_read",
    "perfmon",
    "bpf",
    "checkpoint_restore",
];

/// Rights of this process and the host's limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    /// Effective user.
    pub effective_uid: u32,
    /// Effective capabilities, bit by bit.
    pub effective_capabilities: u64,
    /// Capabilities that could still be had (the bounding set).
    pub bounding_capabilities: u64,
    /// `kernel.perf_event_paranoid`: -1 all, 0 no raw tracepoints of the whole system for
    /// ordinary users, 1 no CPU-wide events, 2 no kernel events, 3 and 4 (distributions) nothing.
    pub perf_event_paranoid: Option<i32>,
    /// `kernel.kptr_restrict`: 0 kernel addresses shown, 1 to the privileged, 2 to nobody.
    pub kptr_restrict: Option<i32>,
    /// `kernel.unprivileged_bpf_disabled`: 0 anyone may load, 1 and 2 only the privileged.
    pub unprivileged_bpf_disabled: Option<i32>,
    /// `kernel.perf_event_mlock_kb`: ring memory of an ordinary user.
    pub perf_event_mlock_kb: Option<u64>,
    /// `kernel.perf_event_max_sample_rate`, which the kernel lowers under load.
    pub perf_event_max_sample_rate: Option<u64>,
    /// Kernel lockdown: `none`, `integrity`, `confidentiality`; `None` where the kernel has
    /// no lockdown or securityfs is not mounted.
    pub lockdown: Option<String>,
    /// Active security modules, as the kernel lists them.
    pub security_modules: Option<String>,
    /// The seccomp mode of this process: 0 none, 1 strict, 2 filtered.
    pub seccomp: Option<u8>,
}

impl Rights {
    /// Reads them from /proc and /sys.
    pub fn gather() -> Rights {
        let sysctl = |name: &str| format!("/proc/sys/kernel/{name}");
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
        let mask = |name: &str| field(name).and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0);
        Rights {
            // Real, effective, saved, file system.
            effective_uid: field("Uid:")
                .and_then(|text| text.split_ascii_whitespace().nth(1)?.parse().ok())
                .unwrap_or(u32::MAX),
            effective_capabilities: mask("CapEff:"),
            bounding_capabilities: mask("CapBnd:"),
            perf_event_paranoid: number(&sysctl("perf_event_paranoid")),
            kptr_restrict: number(&sysctl("kptr_restrict")),
            unprivileged_bpf_disabled: number(&sysctl("unprivileged_bpf_disabled")),
            perf_event_mlock_kb: number(&sysctl("perf_event_mlock_kb")),
            perf_event_max_sample_rate: number(&sysctl("perf_event_max_sample_rate")),
            lockdown: line("/sys/kernel/security/lockdown").and_then(|text| chosen(&text)),
            security_modules: line("/sys/kernel/security/lsm"),
            seccomp: field("Seccomp:").and_then(|text| text.parse().ok()),
        }
    }

    /// Whether the capability is effective.
    pub fn has(&self, capability: Capability) -> bool {
        self.effective_capabilities & (1 << capability.0) != 0
    }

    /// Whether eBPF programs for tracing may be loaded: CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN.
    pub fn may_load_bpf(&self) -> bool {
        self.has(Capability::SYS_ADMIN) || (self.has(Capability::BPF) && self.has(Capability::PERFMON))
    }

    /// Whether perf events of the whole system, the kernel's included, may be opened.
    pub fn may_trace_system(&self) -> bool {
        self.has(Capability::SYS_ADMIN)
            || self.has(Capability::PERFMON)
            || self.perf_event_paranoid.is_some_and(|level| level < 0)
    }

    /// Names of the effective capabilities.
    pub fn capability_names(&self) -> Vec<String> {
        (0..64).map(Capability).filter(|&capability| self.has(capability)).map(Capability::name).collect()
    }
}

/// The word in brackets of files such as `none [integrity] confidentiality`.
pub(crate) fn chosen(text: &str) -> Option<String> {
    let start = text.find('[')? + 1;
    let end = text[start..].find(']')? + start;
    Some(text[start..end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_have_the_numbers_of_the_kernel() {
        assert_eq!(Capability::SYS_RESOURCE.name(), "cap_sys_resource");
        assert_eq!(Capability::SYSLOG.name(), "cap_syslog");
        assert_eq!(Capability::PERFMON.name(), "cap_perfmon");
        assert_eq!(Capability::BPF.name(), "cap_bpf");
        assert_eq!(Capability(63).name(), "cap_63");
    }

    #[test]
    fn rights_follow_from_capabilities_or_sysctl() {
        let none = Rights { perf_event_paranoid: Some(2), ..Rights::default() };
        assert!(!none.may_load_bpf() && !none.may_trace_system());
        let split = Rights { effective_capabilities: 1 << 38 | 1 << 39, ..none.clone() };
        assert!(split.may_load_bpf() && split.may_trace_system());
        assert!(Rights { perf_event_paranoid: Some(-1), ..none }.may_trace_system());
    }

    #[test]
    fn the_chosen_word_is_found() {
        assert_eq!(chosen("none [integrity] confidentiality").as_deref(), Some("integrity"));
        assert_eq!(chosen("nothing"), None);
    }
}
