//! Which capability a refused bpf(2) call wanted.

/// Which capability an EPERM of bpf(2) is about, from what this process holds.
pub fn rights_advice() -> String {
    const CAP_SYS_ADMIN: u32 = 21;
    const CAP_PERFMON: u32 = 38;
    const CAP_BPF: u32 = 39;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    let has = |capability: u32| effective & 1 << capability != 0;
    if has(CAP_SYS_ADMIN) {
        return "this process has CAP_SYS_ADMIN: a security module or kernel lockdown refuses bpf(2) (see /sys/kernel/security/lockdown)".into();
    }
    let missing: Vec<&str> = [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")]
        .into_iter()
        .filter_map(|(capability, name)| (!has(capability)).then_some(name))
        .collect();
    if missing.is_empty() {
        return "tracing needs CAP_SYS_ADMIN for this operation: run as root".into();
    }
    format!("{} missing: run as root, or `setcap cap_bpf,cap_perfmon+ep` the binary", missing.join(" and "))
}
