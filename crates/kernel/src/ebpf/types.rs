//! BTF objects: loading our own, and finding those that the kernel keeps for its modules.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::call::*;
use crate::error::Refused;

const BTF_GET_NEXT_ID: u32 = 23;
const PROG_GET_NEXT_ID: u32 = 11;
const PROG_GET_FD_BY_ID: u32 = 13;

/// Loads own BTF, for programs with functions of their own.
pub fn load(bytes: &[u8]) -> Result<OwnedFd, Refused> {
    let mut attribute =
        BtfLoad { btf: address_of(bytes), btf_size: bytes.len() as u32, ..BtfLoad::default() };
    bpf_fd(&mut attribute).map_err(|e| {
        let mut log = vec![0u8; 64 * 1024];
        attribute.log_buf = address_of_mut(&mut log);
        attribute.log_size = log.len() as u32;
        attribute.log_level = 1;
        let again = bpf_fd(&mut attribute);
        let end = log.iter().position(|b| *b == 0).unwrap_or(log.len());
        let said = String::from_utf8_lossy(&log[..end]).trim().to_owned();
        drop(again);
        Refused::new("load", "the program's own type information", e).advise(said)
    })
}

/// `struct bpf_btf_info`.
#[repr(C)]
#[derive(Default)]
struct BtfInfo {
    btf: u64,
    btf_size: u32,
    id: u32,
    name: u64,
    name_len: u32,
    kernel_btf: u32,
}

/// The BTF object of a kernel module, which programs name by descriptor.
pub fn of_module(module: &str) -> Result<OwnedFd, Refused> {
    let refused = |e| Refused::new("find", format!("types of module {module}"), e);
    let mut id = 0;
    loop {
        let mut attribute = GetFdById { id, ..GetFdById::default() };
        bpf_command(BTF_GET_NEXT_ID, &mut attribute).map_err(refused)?;
        id = attribute.next_id;
        let Ok(fd) = bpf_fd(&mut GetFdById { id, ..GetFdById::default() }) else { continue };
        let mut name = [0u8; 64];
        let mut info =
            BtfInfo { name: address_of_mut(&mut name), name_len: name.len() as u32, ..BtfInfo::default() };
        get_info(&fd, &mut info).map_err(refused)?;
        let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
        if info.kernel_btf != 0 && &name[..end] == module.as_bytes() {
            return Ok(fd);
        }
    }
}

/// `struct bpf_prog_info`, the head of it up to `btf_id`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ProgramInfo {
    prog_type: u32,
    id: u32,
    tag: [u8; 8],
    jited_prog_len: u32,
    xlated_prog_len: u32,
    jited_prog_insns: u64,
    xlated_prog_insns: u64,
    load_time: u64,
    created_by_uid: u32,
    nr_map_ids: u32,
    map_ids: u64,
    name: [u8; 16],
    ifindex: u32,
    flags: u32,
    netns_dev: u64,
    netns_ino: u64,
    nr_jited_ksyms: u32,
    nr_jited_func_lens: u32,
    jited_ksyms: u64,
    jited_func_lens: u64,
    btf_id: u32,
    func_info_rec_size: u32,
    func_info: u64,
    nr_func_info: u32,
    nr_line_info: u32,
    line_info: u64,
    jited_line_info: u64,
    nr_jited_line_info: u32,
    line_info_rec_size: u32,
    jited_line_info_rec_size: u32,
    nr_prog_tags: u32,
    prog_tags: u64,
    run_time_ns: u64,
    run_cnt: u64,
    recursion_misses: u64,
    verified_insns: u32,
    attach_btf_obj_id: u32,
    attach_btf_id: u32,
    pad: u32,
}

/// What the kernel says of a loaded program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramFacts {
    /// Its id.
    pub id: u32,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// Instructions that the verifier walked (kernel 5.16).
    pub verified_instructions: u32,
    /// Bytes of machine code.
    pub machine_code_bytes: u32,
    /// Bytes of instructions after the verifier's changes.
    pub translated_bytes: u32,
    /// Times it ran, with `kernel.bpf_stats_enabled`.
    pub run_count: u64,
    /// Nanoseconds it ran, with `kernel.bpf_stats_enabled`.
    pub run_ns: u64,
    /// Runs that the kernel left out because the program was already running on that CPU.
    pub recursion_misses: u64,
}

/// Asks about a loaded program.
pub(super) fn program_facts(fd: &OwnedFd) -> io::Result<ProgramFacts> {
    let mut info = ProgramInfo::default();
    get_info(fd, &mut info)?;
    let end = info.name.iter().position(|b| *b == 0).unwrap_or(info.name.len());
    Ok(ProgramFacts {
        id: info.id,
        name: String::from_utf8_lossy(&info.name[..end]).into_owned(),
        verified_instructions: info.verified_insns,
        machine_code_bytes: info.jited_prog_len,
        translated_bytes: info.xlated_prog_len,
        run_count: info.run_cnt,
        run_ns: info.run_time_ns,
        recursion_misses: info.recursion_misses,
    })
}

/// All programs loaded on this machine, with a descriptor each.
pub fn loaded_programs() -> Vec<(OwnedFd, ProgramFacts)> {
    let mut found = Vec::new();
    let mut id = 0;
    loop {
        let mut attribute = GetFdById { id, ..GetFdById::default() };
        if bpf_command(PROG_GET_NEXT_ID, &mut attribute).is_err() {
            return found;
        }
        id = attribute.next_id;
        let mut attribute = GetFdById { id, ..GetFdById::default() };
        let Ok(fd) = bpf_command(PROG_GET_FD_BY_ID, &mut attribute) else { continue };
        let fd = owned(fd);
        if let Ok(facts) = program_facts(&fd) {
            found.push((fd, facts));
        }
    }
}

fn owned(fd: i64) -> OwnedFd {
    use std::os::fd::FromRawFd;
    // SAFETY: a command that answers with a new descriptor has just made it.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}

fn get_info<T>(fd: &OwnedFd, info: &mut T) -> io::Result<()> {
    let mut attribute = GetInfo {
        bpf_fd: fd.as_raw_fd() as u32,
        info_len: size_of::<T>() as u32,
        info: std::ptr::from_mut(info) as u64,
    };
    bpf(&mut attribute).map(drop)
}
