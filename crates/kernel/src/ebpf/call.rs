//! The attributes of bpf(2) as the kernel lays them out (include/uapi/linux/bpf.h), and the call itself.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use crate::error::check;

/// A `#[repr(C)]` attribute of one bpf(2) command.
///
/// # Safety
/// The type has no padding that matters, and every address in it is either 0 or valid for what the
/// command does with it while the call lasts.
pub(super) unsafe trait Attribute: Sized {
    /// `BPF_…` command number.
    const COMMAND: u32;
}

/// Calls bpf(2).
pub(super) fn bpf<A: Attribute>(attribute: &mut A) -> io::Result<i64> {
    bpf_command(A::COMMAND, attribute)
}

/// Calls bpf(2) with a command that shares its attribute's layout with another.
pub(super) fn bpf_command<A: Attribute>(command: u32, attribute: &mut A) -> io::Result<i64> {
    // SAFETY: `attribute` is a live, initialised value of the size given; `Attribute` promises that the
    // addresses in it are valid.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attribute), size_of::<A>()) };
    check(result)
}

/// Calls bpf(2) for a command that answers with a descriptor.
pub(super) fn bpf_fd<A: Attribute>(attribute: &mut A) -> io::Result<OwnedFd> {
    let fd = bpf(attribute)?;
    // SAFETY: the command made this descriptor, nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The address of the first byte, 0 for an empty slice.
pub(super) fn address_of<T>(slice: &[T]) -> u64 {
    if slice.is_empty() { 0 } else { slice.as_ptr() as u64 }
}

/// The address of the first byte of a slice that the kernel will write to, 0 for an empty slice.
pub(super) fn address_of_mut<T>(slice: &mut [T]) -> u64 {
    if slice.is_empty() { 0 } else { slice.as_mut_ptr() as u64 }
}

/// A name as the kernel keeps it: 15 bytes of `[A-Za-z0-9_.]` and a NUL.
pub(super) fn object_name(name: &str) -> [u8; 16] {
    let mut kept = [0u8; 16];
    let fitting = name.bytes().map(|b| if b.is_ascii_alphanumeric() || b == b'.' { b } else { b'_' });
    for (slot, byte) in kept[..15].iter_mut().zip(fitting) {
        *slot = byte;
    }
    kept
}

macro_rules! attributes {
    ($($(#[$doc:meta])* $name:ident = $command:literal { $($field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Default)]
        pub(super) struct $name { $(pub(super) $field: $type),* }
        // SAFETY: plain integers laid out as the kernel's union member; callers fill addresses from
        // slices that outlive the call.
        unsafe impl Attribute for $name { const COMMAND: u32 = $command; }
    )*};
}

attributes! {
    /// BPF_MAP_CREATE
    MapCreate = 0 {
        map_type: u32, key_size: u32, value_size: u32, max_entries: u32, map_flags: u32, inner_map_fd: u32,
        numa_node: u32, map_name: [u8; 16], map_ifindex: u32, btf_fd: u32, btf_key_type_id: u32,
        btf_value_type_id: u32, btf_vmlinux_value_type_id: u32, map_extra: u64,
    }
    /// BPF_MAP_LOOKUP_ELEM, and UPDATE, DELETE, GET_NEXT_KEY, FREEZE
    MapElement = 1 { map_fd: u32, pad: u32, key: u64, value: u64, flags: u64 }
    /// BPF_MAP_LOOKUP_BATCH, and LOOKUP_AND_DELETE, DELETE
    MapBatch = 24 {
        in_batch: u64, out_batch: u64, keys: u64, values: u64, count: u32, map_fd: u32, elem_flags: u64,
        flags: u64,
    }
    /// BPF_PROG_LOAD
    ProgramLoad = 5 {
        prog_type: u32, insn_cnt: u32, insns: u64, license: u64, log_level: u32, log_size: u32, log_buf: u64,
        kern_version: u32, prog_flags: u32, prog_name: [u8; 16], prog_ifindex: u32, expected_attach_type: u32,
        prog_btf_fd: u32, func_info_rec_size: u32, func_info: u64, func_info_cnt: u32, line_info_rec_size: u32,
        line_info: u64, line_info_cnt: u32, attach_btf_id: u32, attach_fd: u32, core_relo_cnt: u32,
        fd_array: u64, core_relos: u64, core_relo_rec_size: u32, log_true_size: u32,
    }
    /// BPF_PROG_TEST_RUN
    TestRun = 10 {
        prog_fd: u32, retval: u32, data_size_in: u32, data_size_out: u32, data_in: u64, data_out: u64,
        repeat: u32, duration: u32, ctx_size_in: u32, ctx_size_out: u32, ctx_in: u64, ctx_out: u64,
        flags: u32, cpu: u32, batch_size: u32, pad: u32,
    }
    /// BPF_RAW_TRACEPOINT_OPEN with a cookie (kernel 6.10); without one only the first 16 bytes count.
    RawTracepointOpen = 17 { name: u64, prog_fd: u32, pad: u32, cookie: u64 }
    /// BPF_BTF_LOAD
    BtfLoad = 18 {
        btf: u64, log_buf: u64, btf_size: u32, log_size: u32, log_level: u32, log_true_size: u32,
    }
    /// BPF_BTF_GET_FD_BY_ID and its kin for programs and maps
    GetFdById = 19 { id: u32, next_id: u32, open_flags: u32 }
    /// BPF_OBJ_GET_INFO_BY_FD
    GetInfo = 15 { bpf_fd: u32, info_len: u32, info: u64 }
    /// BPF_OBJ_PIN
    Pin = 6 { pathname: u64, bpf_fd: u32, file_flags: u32 }
    /// BPF_LINK_CREATE on one target
    LinkCreate = 28 {
        prog_fd: u32, target_fd: u32, attach_type: u32, flags: u32, target_btf_id: u64, cookie: u64,
    }
    /// BPF_LINK_CREATE on a perf event
    LinkPerfEvent = 28 { prog_fd: u32, target_fd: u32, attach_type: u32, flags: u32, cookie: u64 }
    /// BPF_LINK_CREATE for an iterator
    LinkIterator = 28 {
        prog_fd: u32, target_fd: u32, attach_type: u32, flags: u32, iter_info: u64, iter_info_len: u32, pad: u32,
    }
    /// BPF_LINK_CREATE on many kernel functions
    LinkKprobeMulti = 28 {
        prog_fd: u32, target_fd: u32, attach_type: u32, flags: u32, multi_flags: u32, count: u32, symbols: u64,
        addresses: u64, cookies: u64,
    }
    /// BPF_LINK_CREATE on many user-space places
    LinkUprobeMulti = 28 {
        prog_fd: u32, target_fd: u32, attach_type: u32, flags: u32, path: u64, offsets: u64,
        semaphores: u64, cookies: u64, count: u32, multi_flags: u32, pid: u32, pad: u32,
    }
    /// BPF_ENABLE_STATS; type 0 is run time
    EnableStats = 32 { kind: u32 }
    /// BPF_ITER_CREATE
    IteratorCreate = 33 { link_fd: u32, flags: u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_the_sizes_of_the_kernel_header() {
        assert_eq!(size_of::<MapCreate>(), 72);
        assert_eq!(size_of::<ProgramLoad>(), 144);
        assert_eq!(size_of::<TestRun>(), 80);
        assert_eq!(size_of::<MapBatch>(), 56);
        assert_eq!(size_of::<LinkUprobeMulti>(), 64);
        assert_eq!(size_of::<LinkKprobeMulti>(), 48);
    }

    #[test]
    fn names_are_cut_and_cleaned() {
        assert_eq!(&object_name("tracepoint:sched:sched_switch")[..], b"tracepoint_sche\0");
        assert_eq!(&object_name("@")[..3], b"_\0\0");
    }
}
