//! perf_event_open(2): the attribute, opening, enabling, and attaching a program.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::ebpf::{Link, LoadedProgram};
use crate::error::{Refused, check};

/// `PERF_TYPE_*` numbers that do not depend on the machine.
pub mod event_type {
    /// Generic hardware events.
    pub const HARDWARE: u32 = 0;
    /// Events of the kernel's own making.
    pub const SOFTWARE: u32 = 1;
    /// Tracepoints, by id.
    pub const TRACEPOINT: u32 = 2;
    /// Hardware cache events.
    pub const HW_CACHE: u32 = 3;
    /// Raw hardware events.
    pub const RAW: u32 = 4;
    /// Breakpoints on addresses.
    pub const BREAKPOINT: u32 = 5;
}

/// `PERF_COUNT_SW_CPU_CLOCK`: the timer behind profile and interval probes.
pub const SOFTWARE_CPU_CLOCK: u64 = 0;

/// Bits of [`PerfEventAttr::flags`], in the order of the kernel's bit field.
pub mod flag {
    /// Opened disabled.
    pub const DISABLED: u64 = 1;
    /// Children count too.
    pub const INHERIT: u64 = 1 << 1;
    /// Not in user mode.
    pub const EXCLUDE_USER: u64 = 1 << 4;
    /// Not in the kernel.
    pub const EXCLUDE_KERNEL: u64 = 1 << 5;
    /// Not in the hypervisor.
    pub const EXCLUDE_HV: u64 = 1 << 6;
    /// `sample_period` is a frequency.
    pub const FREQ: u64 = 1 << 10;
    /// Enabled by the task's next exec.
    pub const ENABLE_ON_EXEC: u64 = 1 << 12;
    /// With [`INHERIT`]: by new threads only, not by new processes (kernel 5.13).
    pub const INHERIT_THREAD: u64 = 1 << 35;
}

/// `struct perf_event_attr`, version 7 (128 bytes).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerfEventAttr {
    /// Which kind of event; see [`event_type`].
    pub event_type: u32,
    /// Bytes of this structure; set by [`PerfEvent::open`].
    pub size: u32,
    /// Which event of that kind.
    pub config: u64,
    /// Events, or with [`flag::FREQ`] hertz, for one sample.
    pub sample_period: u64,
    /// `PERF_SAMPLE_*`: what each record holds.
    pub sample_type: u64,
    /// `PERF_FORMAT_*`: what read(2) answers.
    pub read_format: u64,
    /// Bits of [`flag`].
    pub flags: u64,
    /// Records (or bytes, with the watermark flag) for one wake-up.
    pub wakeup: u32,
    /// `HW_BREAKPOINT_*` bits: read 1, write 2, execute 4.
    pub breakpoint_type: u32,
    /// Breakpoint address; function or path of dynamic probes.
    pub config1: u64,
    /// Breakpoint length; offset or address of dynamic probes.
    pub config2: u64,
    /// `PERF_SAMPLE_BRANCH_*`.
    pub branch_sample_type: u64,
    /// User registers to dump.
    pub sample_regs_user: u64,
    /// User stack bytes to dump.
    pub sample_stack_user: u32,
    /// Clock of the records.
    pub clockid: i32,
    /// Registers to dump at interrupts.
    pub sample_regs_intr: u64,
    /// Bytes for one wake-up of the AUX area.
    pub aux_watermark: u32,
    /// Most frames of a call chain.
    pub sample_max_stack: u16,
    #[doc(hidden)]
    pub reserved: u16,
    /// Bytes of AUX data in a sample.
    pub aux_sample_size: u32,
    #[doc(hidden)]
    pub reserved2: u32,
    /// Data passed with a signal.
    pub sig_data: u64,
}

/// Whom an event observes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// A thread, or -1 for all.
    pub pid: i32,
    /// A CPU, or -1 for all (with a thread).
    pub cpu: i32,
}

impl Scope {
    /// Everything on one CPU. Programs on tracepoints and dynamic probes run on all CPUs whichever is named.
    pub fn cpu(cpu: u32) -> Scope {
        Scope { pid: -1, cpu: cpu as i32 }
    }

    /// One thread wherever it runs.
    pub fn thread(pid: u32) -> Scope {
        Scope { pid: pid as i32, cpu: -1 }
    }
}

/// An open perf event; closed on drop.
#[derive(Debug)]
pub struct PerfEvent {
    fd: OwnedFd,
}

impl PerfEvent {
    /// Opens an event. `object` is what messages call it.
    pub fn open(attribute: &PerfEventAttr, scope: Scope, object: &str) -> Result<PerfEvent, Refused> {
        const FLAG_FD_CLOEXEC: libc::c_ulong = 8;
        let attribute = PerfEventAttr { size: size_of::<PerfEventAttr>() as u32, ..*attribute };
        // SAFETY: `attribute` is live, its size field is right, and the addresses in it (config1 of
        // dynamic probes) are kept alive by the callers in this module.
        let result = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                std::ptr::from_ref(&attribute),
                scope.pid,
                scope.cpu,
                -1,
                FLAG_FD_CLOEXEC,
            )
        };
        let fd = check(result).map_err(|e| open_refused(&attribute, object, e))?;
        // SAFETY: the call succeeded: a new descriptor that nobody else owns.
        Ok(PerfEvent { fd: unsafe { OwnedFd::from_raw_fd(fd as i32) } })
    }

    /// Opens a kprobe, or with `at_return` a kretprobe, on a function (plus offset) or an address.
    pub fn kprobe(
        function: &str,
        offset: u64,
        address: Option<u64>,
        at_return: bool,
    ) -> Result<PerfEvent, Refused> {
        let object = match address {
            Some(address) => format!("kprobe at {address:#x}"),
            None if offset != 0 => format!("kprobe {function}+{offset:#x}"),
            None => format!("kprobe {function}"),
        };
        let unit = DynamicUnit::read("kprobe")?;
        let name = c_text(function, &object)?;
        let attribute = PerfEventAttr {
            event_type: unit.event_type,
            config: unit.config(at_return),
            config1: if address.is_some() { 0 } else { name.as_ptr() as u64 },
            config2: address.unwrap_or(offset),
            ..PerfEventAttr::default()
        };
        PerfEvent::open(&attribute, Scope::cpu(0), &object)
    }

    /// Opens a uprobe, or with `at_return` a uretprobe, at an offset in a file, with the offset of its
    /// semaphore in the same file (0: none). `pid`: only that process.
    pub fn uprobe(
        path: &str,
        offset: u64,
        semaphore: u64,
        at_return: bool,
        pid: Option<u32>,
    ) -> Result<PerfEvent, Refused> {
        let object = format!("uprobe {path}+{offset:#x}");
        let unit = DynamicUnit::read("uprobe")?;
        let name = c_text(path, &object)?;
        let attribute = PerfEventAttr {
            event_type: unit.event_type,
            config: unit.config(at_return) | semaphore << 32,
            config1: name.as_ptr() as u64,
            config2: offset,
            ..PerfEventAttr::default()
        };
        PerfEvent::open(&attribute, pid.map_or(Scope::cpu(0), Scope::thread), &object)
    }

    /// Opens a tracepoint by its id.
    pub fn tracepoint(id: u64, object: &str) -> Result<PerfEvent, Refused> {
        let attribute = PerfEventAttr {
            event_type: event_type::TRACEPOINT,
            config: id,
            sample_period: 1,
            ..PerfEventAttr::default()
        };
        PerfEvent::open(&attribute, Scope::cpu(0), object)
    }

    /// Attaches a program: by a link with a cookie where the kernel has them (5.15), else without.
    pub fn attach(self, program: &LoadedProgram, cookie: u64, object: &str) -> Result<Attached, Refused> {
        match Link::perf_event(program, self.fd.as_fd(), cookie) {
            Ok(link) => {
                self.enable(object)?;
                return Ok(Attached { link: Some(link), event: self });
            }
            Err(e) if e.raw_os_error() != Some(libc::EINVAL) || cookie != 0 => {
                return Err(Refused::new("attach to", object, e));
            }
            Err(_) => {}
        }
        const SET_BPF: libc::c_ulong = 0x4004_2408;
        self.control(SET_BPF, program.as_fd().as_raw_fd(), object)?;
        self.enable(object)?;
        Ok(Attached { link: None, event: self })
    }

    /// Lets it count.
    pub fn enable(&self, object: &str) -> Result<(), Refused> {
        const ENABLE: libc::c_ulong = 0x2400;
        self.control(ENABLE, 0, object)
    }

    /// Reads the count.
    pub fn count(&self) -> io::Result<u64> {
        let mut value = [0u8; 8];
        // SAFETY: `value` has the 8 bytes that are asked for.
        let got = unsafe { libc::read(self.fd.as_raw_fd(), value.as_mut_ptr().cast(), value.len()) };
        check(got as libc::c_long)?;
        Ok(u64::from_ne_bytes(value))
    }

    fn control(&self, request: libc::c_ulong, argument: i32, object: &str) -> Result<(), Refused> {
        // SAFETY: these requests take an integer.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), request as _, argument) };
        check(result.into()).map(drop).map_err(|e| Refused::new("attach to", object, e))
    }
}

impl AsFd for PerfEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A program on a perf event; dropping it detaches.
#[derive(Debug)]
pub struct Attached {
    link: Option<Link>,
    event: PerfEvent,
}

impl Attached {
    /// What keeps the program attached.
    pub fn descriptors(&self) -> Vec<RawFd> {
        let link = self.link.as_ref().map(Link::as_raw_fd);
        link.into_iter().chain([self.event.fd.as_raw_fd()]).collect()
    }
}

/// A perf unit that makes probes on demand.
struct DynamicUnit {
    event_type: u32,
    return_bit: u32,
}

impl DynamicUnit {
    fn read(name: &str) -> Result<DynamicUnit, Refused> {
        let number = |path: &str, prefix: &str| {
            let path = format!("/sys/bus/event_source/devices/{name}/{path}");
            let text = std::fs::read_to_string(&path).map_err(|e| {
                let option = if name == "kprobe" { "CONFIG_KPROBE_EVENTS" } else { "CONFIG_UPROBE_EVENTS" };
                Refused::new("read", &path, e)
                    .advise(format!("this kernel has no {name}s (built without {option}?)"))
            })?;
            text.trim()
                .trim_start_matches(prefix)
                .parse()
                .map_err(|_| Refused::new("understand", path, io::Error::other(format!("'{}'", text.trim()))))
        };
        Ok(DynamicUnit { event_type: number("type", "")?, return_bit: number("format/retprobe", "config:")? })
    }

    fn config(&self, at_return: bool) -> u64 {
        u64::from(at_return) << self.return_bit.min(63)
    }
}

fn c_text(text: &str, object: &str) -> Result<CString, Refused> {
    CString::new(text).map_err(|_| Refused::new("open", object, io::Error::from_raw_os_error(libc::EINVAL)))
}

fn open_refused(attribute: &PerfEventAttr, object: &str, error: io::Error) -> Refused {
    let hardware =
        matches!(attribute.event_type, event_type::HARDWARE | event_type::HW_CACHE | event_type::RAW);
    let advice = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => format!(
            "it needs CAP_PERFMON, or kernel.perf_event_paranoid below its present {}",
            std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default().trim()
        ),
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) if hardware => {
            "this machine (a virtual one?) has no such hardware counter; the software event cpu-clock works everywhere".into()
        }
        Some(libc::ENOENT | libc::EADDRNOTAVAIL) => "there is no such symbol, or it must not be probed".into(),
        Some(libc::EINVAL) if object.starts_with("uprobe") => {
            "the offset is not in an executable part of the file, or not at the start of an instruction".into()
        }
        Some(libc::ESRCH) => "there is no such process".into(),
        Some(libc::EMFILE) => "too many open files: raise the limit (ulimit -n), or probe fewer places".into(),
        Some(libc::ENOSPC) => "all hardware breakpoints (four on x86) are taken".into(),
        _ => String::new(),
    };
    Refused::new("open", object.to_owned(), error).advise(advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attribute_has_version_7s_size() {
        assert_eq!(size_of::<PerfEventAttr>(), 128);
    }

    #[test]
    fn a_software_counter_counts() {
        let attribute =
            PerfEventAttr { event_type: event_type::SOFTWARE, config: 1, ..PerfEventAttr::default() };
        let event = PerfEvent::open(&attribute, Scope { pid: 0, cpu: -1 }, "task-clock").unwrap();
        let before = event.count().unwrap();
        while event.count().unwrap() == before {
            std::hint::spin_loop();
        }
    }
}
