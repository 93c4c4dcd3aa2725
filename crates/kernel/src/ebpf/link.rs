//! Links: what keeps a program attached, and takes it off when dropped.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use bpf::program::AttachType;

use super::call::*;
use super::program::LoadedProgram;
use crate::error::Refused;
use std::os::fd::AsFd;

const MULTI_AT_RETURN: u32 = 1;

/// An attachment. Dropping it detaches, which can wait for a grace period of the kernel.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
}

/// Places of one uprobe-multi link, by index.
#[derive(Clone, Copy, Debug)]
pub struct UserPlaces<'a> {
    /// Binary or library.
    pub path: &'a str,
    /// Offsets in the file.
    pub offsets: &'a [u64],
    /// Offsets of semaphores in the file; empty if there are none.
    pub semaphores: &'a [u64],
    /// Cookies.
    pub cookies: &'a [u64],
    /// At return rather than entry.
    pub at_return: bool,
    /// Only this process.
    pub pid: Option<u32>,
}

impl AsRawFd for Link {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl Link {
    /// Attaches a raw tracepoint or tp_btf program (`name` none), fentry or fexit. A cookie needs kernel
    /// 6.10 for tracepoints, 5.19 for trampolines.
    pub fn raw_tracepoint(program: &LoadedProgram, name: Option<&str>, cookie: u64) -> Result<Link, Refused> {
        let refused = |e| refused("tracepoint", name.unwrap_or(program.name()), e);
        let text = name.map(c_text).transpose().map_err(refused)?;
        let mut attribute = RawTracepointOpen {
            name: text.as_ref().map_or(0, |text| text.as_ptr() as u64),
            prog_fd: raw(program),
            cookie,
            ..RawTracepointOpen::default()
        };
        bpf_fd(&mut attribute).map(Link::from_fd).map_err(refused)
    }

    /// Attaches fentry or fexit with a cookie.
    pub fn trampoline(program: &LoadedProgram, attach: AttachType, cookie: u64) -> Result<Link, Refused> {
        let mut attribute = LinkCreate {
            prog_fd: raw(program),
            attach_type: attach.number(),
            cookie,
            ..LinkCreate::default()
        };
        bpf_fd(&mut attribute).map(Link::from_fd).map_err(|e| refused("function", program.name(), e))
    }

    /// Attaches to a perf event (kernel 5.15).
    pub fn perf_event(program: &LoadedProgram, event: BorrowedFd<'_>, cookie: u64) -> io::Result<Link> {
        let mut attribute = LinkPerfEvent {
            prog_fd: raw(program),
            target_fd: event.as_raw_fd() as u32,
            attach_type: AttachType::PerfEvent.number(),
            cookie,
            ..LinkPerfEvent::default()
        };
        bpf_fd(&mut attribute).map(Link::from_fd)
    }

    /// Attaches to many kernel functions at once (kernel 5.18 with CONFIG_FPROBE): by name, or by address
    /// if there are addresses.
    pub fn kprobe_multi(
        program: &LoadedProgram,
        symbols: &[&str],
        addresses: &[u64],
        cookies: &[u64],
        at_return: bool,
    ) -> Result<Link, Refused> {
        let object = format!("{} kernel functions", symbols.len().max(addresses.len()));
        let refused = |e| refused("", &object, e);
        let texts: Vec<CString> =
            symbols.iter().map(|s| c_text(s)).collect::<Result<_, _>>().map_err(refused)?;
        let pointers: Vec<u64> = texts.iter().map(|text| text.as_ptr() as u64).collect();
        let mut attribute = LinkKprobeMulti {
            prog_fd: raw(program),
            attach_type: AttachType::TraceKprobeMulti.number(),
            multi_flags: if at_return { MULTI_AT_RETURN } else { 0 },
            count: cookies.len() as u32,
            symbols: if addresses.is_empty() { address_of(&pointers) } else { 0 },
            addresses: address_of(addresses),
            cookies: address_of(cookies),
            ..LinkKprobeMulti::default()
        };
        bpf_fd(&mut attribute).map(Link::from_fd).map_err(refused)
    }

    /// Attaches to many places of one file at once (kernel 6.6).
    pub fn uprobe_multi(program: &LoadedProgram, places: UserPlaces<'_>) -> Result<Link, Refused> {
        let refused = |e| refused("uprobes in", places.path, e);
        let path = c_text(places.path).map_err(refused)?;
        let mut attribute = LinkUprobeMulti {
            prog_fd: raw(program),
            attach_type: AttachType::TraceUprobeMulti.number(),
            path: path.as_ptr() as u64,
            offsets: address_of(places.offsets),
            semaphores: address_of(places.semaphores),
            cookies: address_of(places.cookies),
            count: places.offsets.len() as u32,
            multi_flags: if places.at_return { MULTI_AT_RETURN } else { 0 },
            pid: places.pid.unwrap_or(0),
            ..LinkUprobeMulti::default()
        };
        bpf_fd(&mut attribute).map(Link::from_fd).map_err(refused)
    }

    /// Attaches an iterator program and opens it: reading the file runs the program.
    pub fn iterator(program: &LoadedProgram) -> Result<File, Refused> {
        let refused = |e| refused("iterator", program.name(), e);
        let link = iterator_link(program).map_err(refused)?;
        let mut attribute = IteratorCreate { link_fd: link.as_raw_fd() as u32, flags: 0 };
        bpf_fd(&mut attribute).map(File::from).map_err(refused)
    }

    /// Attaches an iterator program and pins it: whoever reads the file later runs the program.
    pub fn pinned_iterator(program: &LoadedProgram, path: &str) -> Result<(), Refused> {
        let refused = |e| {
            Refused::new("pin", format!("iterator at {path}"), e)
                .advise("the path has to be on a bpffs (mount -t bpf bpf /sys/fs/bpf) and free")
        };
        let link = iterator_link(program).map_err(refused)?;
        let text = c_text(path).map_err(refused)?;
        let mut attribute =
            Pin { pathname: text.as_ptr() as u64, bpf_fd: link.as_raw_fd() as u32, file_flags: 0 };
        bpf(&mut attribute).map(drop).map_err(refused)
    }

    fn from_fd(fd: OwnedFd) -> Link {
        Link { fd }
    }
}

/// Reads an iterator to its end; returns what the program wrote with `bpf_seq_write`.
pub fn run_iterator(file: &mut File) -> Result<Vec<u8>, Refused> {
    let mut written = Vec::new();
    file.read_to_end(&mut written).map_err(|e| Refused::new("read", "iterator", e))?;
    Ok(written)
}

fn iterator_link(program: &LoadedProgram) -> io::Result<OwnedFd> {
    let mut attribute = LinkIterator {
        prog_fd: raw(program),
        attach_type: AttachType::TraceIter.number(),
        ..LinkIterator::default()
    };
    bpf_fd(&mut attribute)
}

fn raw(program: &LoadedProgram) -> u32 {
    program.as_fd().as_raw_fd() as u32
}

fn c_text(text: &str) -> io::Result<CString> {
    CString::new(text).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

fn refused(kind: &str, name: &str, error: io::Error) -> Refused {
    let advice = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => super::rights::rights_advice(),
        Some(libc::ENOENT) => "it does not exist here; `lotse list` shows what does".into(),
        Some(libc::EBUSY) => "somebody else holds it".into(),
        Some(524) | Some(libc::EOPNOTSUPP) => "this kernel cannot attach there".into(),
        Some(libc::E2BIG | libc::EINVAL) => "this kernel may not know this kind of attachment".into(),
        _ => String::new(),
    };
    Refused::new("attach to", format!("{kind} {name}").trim().to_owned(), error).advise(advice)
}
