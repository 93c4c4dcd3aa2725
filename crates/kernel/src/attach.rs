//! From an image's description of a place to attachments: every kind of probe, one arm each.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use bpf::image::{Attach, KernelTarget, PerfEventSpec, Rate, TracepointTarget, UserTarget};
use bpf::program::AttachType;

use crate::cpu;
use crate::ebpf::link::UserPlaces;
use crate::ebpf::{Link, LoadedProgram};
use crate::error::Refused;
use crate::perf_event::{Attached, PerfEvent, PerfEventAttr, SOFTWARE_CPU_CLOCK, Scope, event_type, flag};
use crate::process::pipe;
use crate::tracefs::Tracefs;

/// Something that goes away when dropped.
#[derive(Debug)]
enum Held {
    Link(Link),
    Event(Attached),
}

impl Held {
    fn descriptors(&self) -> Vec<RawFd> {
        match self {
            Held::Link(link) => vec![link.as_raw_fd()],
            Held::Event(attached) => attached.descriptors(),
        }
    }
}

/// Everything that is attached. Detached by [`Attachments::detach`], or on drop.
#[derive(Debug, Default)]
pub struct Attachments {
    held: Vec<Held>,
    /// Breakpoints by their address.
    breakpoints: Vec<(u64, Attached)>,
    /// Iterators: (index of the program, file to read).
    pub iterators: Vec<(usize, File)>,
    /// Places attached to, by the count that users are told.
    pub places: usize,
}

/// What attaching needs to know besides the image.
pub struct Attacher<'a> {
    tracefs: Option<Tracefs>,
    online: Vec<u32>,
    /// For timed, software, hardware and user-space probes that name no process: only this one.
    pub pid: Option<u32>,
    /// For profile, software, hardware and interval events: only these CPUs.
    pub cpus: Option<&'a BTreeSet<u32>>,
}

impl<'a> Attacher<'a> {
    /// Knows which CPUs are online now.
    pub fn new() -> Result<Attacher<'a>, Refused> {
        Ok(Attacher { tracefs: None, online: cpu::online()?, pid: None, cpus: None })
    }

    /// Attaches a program where its image says. Returns refusals of single places among several; an error
    /// if nothing could be attached. `TestRun` attaches nothing.
    pub fn attach(
        &mut self,
        index: usize,
        program: &LoadedProgram,
        place: &Attach,
        into: &mut Attachments,
    ) -> Result<Vec<Refused>, Refused> {
        let before = into.places;
        let mut refusals = Vec::new();
        match place {
            Attach::TestRun(_) => return Ok(refusals),
            Attach::TpBtf { places, cookie, .. } => {
                into.link(Link::raw_tracepoint(program, None, *cookie)?, *places as usize);
            }
            Attach::RawTracepoint { targets } => {
                for target in targets {
                    match Link::raw_tracepoint(program, Some(&target.name), target.cookie) {
                        Ok(link) => into.link(link, 1),
                        Err(refused) => refusals.push(refused),
                    }
                }
            }
            Attach::Tracepoint { targets } => {
                for target in targets {
                    match self.tracepoint(program, target) {
                        Ok(attached) => into.event(attached),
                        Err(refused) => refusals.push(refused),
                    }
                }
            }
            Attach::Kprobe { on_return, multi: true, targets } => {
                into.link(kprobe_multi(program, targets, *on_return)?, targets.len());
            }
            Attach::Kprobe { on_return, multi: false, targets } => {
                for target in targets {
                    match kprobe(program, target, *on_return) {
                        Ok(attached) => into.event(attached),
                        Err(refused) => refusals.push(refused),
                    }
                }
            }
            Attach::Trampoline { on_return, cookie, .. } => {
                let kind = if *on_return { AttachType::TraceFexit } else { AttachType::TraceFentry };
                let link = match cookie {
                    0 => Link::raw_tracepoint(program, None, 0)?,
                    cookie => Link::trampoline(program, kind, *cookie)?,
                };
                into.link(link, 1);
            }
            Attach::Uprobe { on_return, multi: true, path, pid, targets } => {
                into.link(uprobe_multi(program, path, targets, *on_return, pid.or(self.pid))?, targets.len());
            }
            Attach::Uprobe { on_return, multi: false, path, pid, targets } => {
                for target in targets {
                    match uprobe(program, path, target, *on_return, pid.or(self.pid)) {
                        Ok(attached) => into.event(attached),
                        Err(refused) => refusals.push(refused),
                    }
                }
            }
            Attach::PerfEvent(spec) => self.perf_event(program, spec, into)?,
            Attach::Breakpoint { address, length, mode, pid } => {
                self.breakpoint(program, *address, *length, *mode, *pid, into)?;
            }
            Attach::Iterator { pin: Some(path), .. } => {
                Link::pinned_iterator(program, path)?;
                into.places += 1;
            }
            Attach::Iterator { pin: None, .. } => {
                into.iterators.push((index, Link::iterator(program)?));
                into.places += 1;
            }
        }
        if into.places == before
            && let Some(first) = refusals.pop()
        {
            return Err(first);
        }
        Ok(refusals)
    }

    fn tracepoint(
        &mut self,
        program: &LoadedProgram,
        target: &TracepointTarget,
    ) -> Result<Attached, Refused> {
        let TracepointTarget { category, name, cookie } = target;
        let object = format!("tracepoint {category}:{name}");
        let id = self.tracepoint_id(category, name)?;
        PerfEvent::tracepoint(id, &object)?.attach(program, *cookie, &object)
    }

    fn tracepoint_id(&mut self, category: &str, name: &str) -> Result<u64, Refused> {
        let tracefs = match &mut self.tracefs {
            Some(open) => open,
            none => none.insert(Tracefs::open()?),
        };
        let path = format!("events/{category}/{name}/id");
        let text = tracefs.root().read_text(&path).map_err(|refused| {
            if refused.errno() == libc::ENOENT {
                refused.advise(format!("there is no tracepoint {category}:{name} here; see `lotse list 'tracepoint:{category}:*'`"))
            } else {
                refused
            }
        })?;
        text.trim().parse().map_err(|_| Refused::new("understand", path, std::io::Error::other(text)))
    }

    fn perf_event(
        &self,
        program: &LoadedProgram,
        spec: &PerfEventSpec,
        into: &mut Attachments,
    ) -> Result<(), Refused> {
        let (sample_period, flags) = match spec.rate {
            Rate::Period(period) => (period, 0),
            Rate::Frequency(hertz) => (hertz, flag::FREQ),
        };
        let attribute = PerfEventAttr {
            event_type: spec.event_type,
            config: spec.config,
            sample_period,
            flags,
            ..PerfEventAttr::default()
        };
        let object = match (spec.event_type, spec.config) {
            (event_type::SOFTWARE, SOFTWARE_CPU_CLOCK) => "the CPU's timer".to_owned(),
            (event_type::SOFTWARE, config) => format!("software event {config}"),
            (kind, config) => format!("hardware event {kind}:{config:#x}"),
        };
        let mut attribute = attribute;
        let scopes: Vec<Scope> = match self.pid {
            _ if !spec.every_cpu => self.chosen_cpus().take(1).map(Scope::cpu).collect(),
            // Events belong to threads: one for each that is there, handed on to those made later.
            Some(pid) => {
                attribute.flags |= flag::INHERIT | flag::INHERIT_THREAD;
                threads_of(pid).into_iter().map(Scope::thread).collect()
            }
            None => self.chosen_cpus().map(Scope::cpu).collect(),
        };
        let mut attached = Vec::new();
        for scope in scopes {
            attached.push(PerfEvent::open(&attribute, scope, &object)?.attach(program, 0, &object)?);
        }
        into.held.extend(attached.into_iter().map(Held::Event));
        into.places += 1;
        Ok(())
    }

    fn chosen_cpus(&self) -> impl Iterator<Item = u32> {
        let chosen = self.cpus;
        self.online.iter().copied().filter(move |cpu| chosen.is_none_or(|chosen| chosen.contains(cpu)))
    }

    fn breakpoint(
        &self,
        program: &LoadedProgram,
        address: u64,
        length: u8,
        mode: u8,
        pid: Option<u32>,
        into: &mut Attachments,
    ) -> Result<(), Refused> {
        let object = format!("watchpoint {address:#x}");
        let execute = mode & 4 != 0;
        let attribute = PerfEventAttr {
            event_type: event_type::BREAKPOINT,
            sample_period: 1,
            breakpoint_type: u32::from(mode),
            config1: address,
            // The kernel wants sizeof(long) for code breakpoints.
            config2: if execute { 8 } else { u64::from(length) },
            ..PerfEventAttr::default()
        };
        let scopes: Vec<Scope> = match pid {
            // Breakpoints belong to threads.
            Some(pid) => threads_of(pid).into_iter().map(Scope::thread).collect(),
            None => self.online.iter().map(|cpu| Scope::cpu(*cpu)).collect(),
        };
        for scope in scopes {
            let attached = PerfEvent::open(&attribute, scope, &object)?.attach(program, 0, &object)?;
            into.breakpoints.push((address, attached));
        }
        into.places += 1;
        Ok(())
    }
}

impl Attachments {
    fn link(&mut self, link: Link, places: usize) {
        self.held.push(Held::Link(link));
        self.places += places;
    }

    fn event(&mut self, attached: Attached) {
        self.held.push(Held::Event(attached));
        self.places += 1;
    }

    /// Takes the breakpoints at an address away.
    pub fn unwatch(&mut self, address: u64) {
        self.breakpoints.retain(|(at, _)| *at != address);
    }

    /// Descriptors held.
    pub fn len(&self) -> usize {
        self.held.len() + self.breakpoints.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty() && self.breakpoints.is_empty()
    }

    /// Leaves detaching, which can take tens of milliseconds a probe, to a child process, for a caller that is
    /// about to end. The child has a share in the attachments and in nothing else, so that nobody waits for its
    /// end; it waits until this process has let go of them, and with it they go, however it ends.
    pub fn detach_behind(&mut self) {
        if self.held.is_empty() {
            return self.detach();
        }
        let Ok((wait, gone)) = pipe() else { return self.detach() };
        let mut keep: Vec<RawFd> = self.held.iter().flat_map(Held::descriptors).collect();
        keep.push(wait.as_raw_fd());
        keep.sort_unstable();
        // SAFETY: the child calls only async-signal-safe functions (see `outlive`).
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: this is the child of a fork; `keep` is sorted.
            unsafe { outlive(&keep, &wait) }
        }
        // Not the last references now: quick. Where there is no child they are, and this is `detach`.
        self.detach();
        drop(gone);
    }

    /// Detaches everything. Each close can wait for a grace period; closing from several threads lets one
    /// grace period serve many.
    pub fn detach(&mut self) {
        self.iterators.clear();
        self.breakpoints.clear();
        let mut held = std::mem::take(&mut self.held);
        let threads = (held.len() / 4).clamp(1, 64);
        if threads == 1 {
            return drop(held);
        }
        let share = held.len().div_ceil(threads);
        std::thread::scope(|scope| {
            while !held.is_empty() {
                let part = held.split_off(held.len().saturating_sub(share));
                // A thread that cannot be started drops its part here and now.
                let _ =
                    std::thread::Builder::new().stack_size(64 * 1024).spawn_scoped(scope, move || drop(part));
            }
        });
    }
}

/// Ends this process when its parent has let go of the other end of the pipe.
///
/// # Safety
/// Only in the child of a fork: it closes all descriptors but those given, in ascending order.
unsafe fn outlive(keep: &[RawFd], wait: &OwnedFd) -> ! {
    let mut byte = 0_u8;
    // SAFETY: system calls alone, on descriptors that nothing else in this process uses; `byte` has room for one
    // byte, and nothing runs after `_exit`.
    unsafe {
        let mut next: u32 = 0;
        for keep in keep.iter().map(|descriptor| *descriptor as u32) {
            if keep > next {
                libc::syscall(libc::SYS_close_range, next, keep - 1, 0);
            }
            next = keep + 1;
        }
        libc::syscall(libc::SYS_close_range, next, u32::MAX, 0);
        while libc::read(wait.as_raw_fd(), (&raw mut byte).cast(), 1) < 0
            && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
        {}
        libc::_exit(0)
    }
}

fn kprobe(program: &LoadedProgram, target: &KernelTarget, on_return: bool) -> Result<Attached, Refused> {
    let symbol = qualified(target);
    let object = format!("{} {symbol}", if on_return { "kretprobe" } else { "kprobe" });
    let event = PerfEvent::kprobe(&symbol, target.offset, target.address, on_return);
    let event = event.map_err(|refused| match refused.errno() {
        libc::EILSEQ if target.offset != 0 => refused.advise(format!(
            "offset {} is in the middle of an instruction; the disassembly of {symbol} shows where they begin",
            target.offset
        )),
        _ => refused,
    })?;
    event.attach(program, target.cookie, &object)
}

/// `module:function` is what the kernel takes for a function of a module.
fn qualified(target: &KernelTarget) -> String {
    match &target.module {
        Some(module) if module != "vmlinux" => format!("{module}:{}", target.symbol),
        _ => target.symbol.clone(),
    }
}

fn kprobe_multi(program: &LoadedProgram, targets: &[KernelTarget], on_return: bool) -> Result<Link, Refused> {
    let cookies: Vec<u64> = targets.iter().map(|target| target.cookie).collect();
    let addresses: Option<Vec<u64>> = targets.iter().map(|target| target.address).collect();
    let symbols: Vec<&str> = targets.iter().map(|target| target.symbol.as_str()).collect();
    Link::kprobe_multi(program, &symbols, addresses.as_deref().unwrap_or_default(), &cookies, on_return)
}

fn uprobe(
    program: &LoadedProgram,
    path: &str,
    target: &UserTarget,
    on_return: bool,
    pid: Option<u32>,
) -> Result<Attached, Refused> {
    let object = format!("uprobe {path}:{}", target.symbol);
    PerfEvent::uprobe(path, target.file_offset, target.semaphore, on_return, pid)?.attach(
        program,
        target.cookie,
        &object,
    )
}

fn uprobe_multi(
    program: &LoadedProgram,
    path: &str,
    targets: &[UserTarget],
    on_return: bool,
    pid: Option<u32>,
) -> Result<Link, Refused> {
    let column = |read: fn(&UserTarget) -> u64| targets.iter().map(read).collect::<Vec<u64>>();
    let (offsets, cookies) = (column(|t| t.file_offset), column(|t| t.cookie));
    let semaphores = column(|t| t.semaphore);
    let has_semaphores = semaphores.iter().any(|offset| *offset != 0);
    Link::uprobe_multi(
        program,
        UserPlaces {
            path,
            offsets: &offsets,
            semaphores: if has_semaphores { &semaphores } else { &[] },
            cookies: &cookies,
            at_return: on_return,
            pid,
        },
    )
}

fn threads_of(pid: u32) -> Vec<u32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"));
    let mut threads: Vec<u32> = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    if threads.is_empty() {
        threads.push(pid); // the kernel then says that there is no such process
    }
    threads
}
