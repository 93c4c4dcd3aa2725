//! Where the kernel and this process run: metal or virtual machine, container or not.

use serde::{Deserialize, Serialize};

use super::line;

/// Machine and namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// The hypervisor by its CPUID signature or device tree, such as `KVM`; `None` on metal
    /// or where the hypervisor hides.
    pub hypervisor: Option<String>,
    /// Maker and product as the firmware names them.
    pub product: Option<String>,
    /// What kind of container this process is in, such as `docker`; `None` outside of one.
    pub container: Option<String>,
    /// Whether this process is in the first pid namespace. If not, thread numbers in events
    /// (which count from the first) differ from those that `ps` shows here.
    pub initial_pid_namespace: bool,
    /// Whether this process is in the first user namespace. If not, its capabilities do not
    /// count for tracing.
    pub initial_user_namespace: bool,
    /// Which control groups are mounted.
    pub control_groups: ControlGroups,
    /// The control group of this process in the v2 tree.
    pub own_control_group: Option<String>,
}

/// Which versions of control groups are mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlGroups {
    /// None.
    #[default]
    None,
    /// Version 1 alone.
    V1,
    /// Version 2 alone.
    V2,
    /// Version 1 hierarchies with a v2 tree beside them.
    Hybrid,
}

impl Environment {
    /// Reads /proc, /sys and the processor's identification.
    pub fn gather() -> Environment {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let own_groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        // fs/nsfs and include/linux/proc_ns.h: the first namespaces have fixed inode numbers.
        Environment {
            hypervisor: hypervisor(),
            product: product(),
            container: container(&own_groups),
            initial_pid_namespace: namespace("pid") == Some(0xEFFF_FFFC),
            initial_user_namespace: namespace("user") == Some(0xEFFF_FFFD),
            control_groups: control_groups(&mounts),
            own_control_group: own_groups.lines().find_map(|l| l.strip_prefix("0::")).map(str::to_owned),
        }
    }
}

/// `uname -m`, from the kernel where it tells (since 6.1), else as this program was built.
pub(crate) fn machine() -> String {
    line("/proc/sys/kernel/arch").unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn namespace(kind: &str) -> Option<u64> {
    let link = std::fs::read_link(format!("/proc/self/ns/{kind}")).ok()?;
    link.to_str()?.split_once('[')?.1.trim_end_matches(']').parse().ok()
}

fn control_groups(mounts: &str) -> ControlGroups {
    let mounted = |kind: &str| mounts.lines().any(|l| l.split(' ').nth(2) == Some(kind));
    match (mounted("cgroup"), mounted("cgroup2")) {
        (false, false) => ControlGroups::None,
        (true, false) => ControlGroups::V1,
        (false, true) => ControlGroups::V2,
        (true, true) => ControlGroups::Hybrid,
    }
}

fn container(own_groups: &str) -> Option<String> {
    for (file, kind) in [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")] {
        if std::path::Path::new(file).exists() {
            return Some(kind.to_owned());
        }
    }
    if let Some(kind) = line("/run/systemd/container") {
        return Some(kind);
    }
    let marks = ["kubepods", "docker", "containerd", "libpod", "lxc", "crio", "machine.slice"];
    marks.into_iter().find(|mark| own_groups.contains(mark)).map(str::to_owned)
}

fn product() -> Option<String> {
    let parts = ["sys_vendor", "product_name"].map(|name| line(&format!("/sys/class/dmi/id/{name}")));
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join(" ");
    if !text.is_empty() {
        return Some(text);
    }
    line("/proc/device-tree/model").map(|text| text.trim_end_matches('\0').to_owned())
}

fn hypervisor() -> Option<String> {
    let signature = processor_signature();
    let name = match signature.as_deref() {
        Some("KVMKVMKVM") | Some("Linux KVM Hv") => "KVM",
        Some("VMwareVMware") => "VMware",
        Some("XenVMMXenVMM") => "Xen",
        Some("Microsoft Hv") => "Hyper-V",
        Some("TCGTCGTCGTCG") => "QEMU without acceleration",
        Some("VBoxVBoxVBox") => "VirtualBox",
        Some("bhyve bhyve ") => "bhyve",
        Some("ACRNACRNACRN") => "ACRN",
        Some("QNXQVMBSQG") => "QNX",
        Some(other) => return Some(format!("unknown hypervisor `{other}`")),
        None => return line("/sys/hypervisor/type"),
    };
    Some(name.to_owned())
}

/// The hypervisor leaf of CPUID, if the processor says that one is there.
#[cfg(target_arch = "x86_64")]
fn processor_signature() -> Option<String> {
    use std::arch::x86_64::__cpuid;
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 processor has the CPUID instruction; leaf 1 always exists, and
    // leaf 0x4000_0000 is defined whenever leaf 1 has the hypervisor bit.
    let (features, leaf) = unsafe { (__cpuid(1), __cpuid(0x4000_0000)) };
    if features.ecx & 1 << 31 == 0 {
        return None;
    }
    let bytes: Vec<u8> = [leaf.ebx, leaf.ecx, leaf.edx].iter().flat_map(|word| word.to_le_bytes()).collect();
    let text = String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned();
    if text.is_empty() { None } else { Some(text) }
}

#[cfg(not(target_arch = "x86_64"))]
fn processor_signature() -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_known_by_their_groups() {
        let groups = "0::/kubepods.slice/kubepods-burstable.slice/x\n";
        assert!(container(groups).is_some());
    }

    #[test]
    fn versions_of_control_groups_are_told_apart() {
        let v1 = "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\n";
        let v2 = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        assert_eq!(control_groups(v1), ControlGroups::V1);
        assert_eq!(control_groups(v2), ControlGroups::V2);
        assert_eq!(control_groups(&format!("{v1}{v2}")), ControlGroups::Hybrid);
        assert_eq!(control_groups("proc /proc proc rw 0 0\n"), ControlGroups::None);
    }
}
