//! Names from the machine at hand: symbols, users, cgroups, clocks. Each table is read when first asked
//! for and kept.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bpf::KernelFacts;
use kernel::ebpf::Map;
use kernel::facts::LiveFacts;
use kernel::mapping_events::MappingEvents;
use kernel::process_maps::ProcessMaps;
use kernel::user_symbols::{UserPlace, UserSymbols};
use lang::schema::Schema;
use lang::types::{Clock, Stack, StackMode};

use super::decode::{Names, unsigned};
use super::folded::FrameNames;
use super::ia32;
use super::value::StackLines;

/// Names of this machine.
pub struct HostNames<'a> {
    facts: &'a LiveFacts,
    schema: &'a Schema,
    /// Kernel maps of `schema.stack_maps`.
    stacks: Vec<&'a Map>,
    user: RefCell<UserNames>,
    cgroups: OnceCell<HashMap<u64, Vec<(String, String)>>>,
    users: OnceCell<HashMap<u32, String>>,
}

#[derive(Default)]
struct UserNames {
    maps: ProcessMaps,
    events: Option<MappingEvents>,
    symbols: UserSymbols,
    /// When a process's mappings were read for an address that none covered.
    refreshed: HashMap<u32, Instant>,
}

impl UserNames {
    fn catch_up(&mut self) {
        if let Some(events) = &mut self.events {
            events.drain(&mut self.maps);
        }
        for (pid, mapping) in self.maps.take_fresh() {
            self.symbols.hold(&self.maps, pid, &mapping);
        }
    }

    fn place(&mut self, address: u64, pid: u32) -> Option<UserPlace> {
        if !self.maps.knows(pid) {
            self.catch_up();
            if !self.maps.knows(pid) {
                self.maps.remember(pid);
            }
        } else if self.maps.find(pid, address).is_none() && self.may_refresh(pid) {
            // Mapped since the last look, or of a just-in-time compiler.
            self.catch_up();
            if self.maps.find(pid, address).is_none() {
                match self.events {
                    Some(_) => self.maps.refresh(pid),
                    // Without events an exec would go unseen.
                    None => self.maps.remember(pid),
                }
            }
        }
        self.symbols.find(&self.maps, pid, address)
    }

    fn may_refresh(&mut self, pid: u32) -> bool {
        const PATIENCE: Duration = Duration::from_millis(100);
        if self.refreshed.get(&pid).is_some_and(|last| last.elapsed() < PATIENCE) {
            return false;
        }
        if self.refreshed.len() > 4096 {
            self.refreshed.clear();
        }
        self.refreshed.insert(pid, Instant::now());
        true
    }
}

/// Which address of a frame names its function: in callers the one before the return address, since what
/// was called may never return and then stands at its function's end. The trampoline of signals is returned
/// to at its start, which belongs to nobody else.
fn within(caller: bool, address: u64) -> [u64; 2] {
    [address - u64::from(caller && address > 0), address]
}

impl<'a> HostNames<'a> {
    /// Knows the kernel maps that stacks are kept in.
    pub fn new(facts: &'a LiveFacts, schema: &'a Schema, stacks: Vec<&'a Map>) -> HostNames<'a> {
        let mut user = UserNames::default();
        user.symbols.demangle = schema.config.cpp_demangle;
        HostNames {
            facts,
            schema,
            stacks,
            user: RefCell::new(user),
            cgroups: OnceCell::new(),
            users: OnceCell::new(),
        }
    }

    /// Begins to keep what processes map, so that addresses of those that exit still have names.
    pub fn follow_processes(&self) {
        let mut user = self.user.borrow_mut();
        // What is there already is read after the listening began: nothing falls between.
        user.events = MappingEvents::open().ok();
        user.maps = ProcessMaps::of_all();
    }

    /// Takes over what processes have mapped since the last call.
    pub fn catch_up(&self) {
        self.user.borrow_mut().catch_up();
    }

    fn user_place(&self, address: u64, pid: u32) -> Option<UserPlace> {
        self.user.borrow_mut().place(address, pid)
    }

    /// The place of a frame, by the address that names its function; offsets are the frame's own.
    fn user_frame(&self, address: u64, caller: bool, pid: u32) -> Option<UserPlace> {
        let [inside, own] = within(caller, address);
        let found = self.user_place(inside, pid).filter(|place| place.function.is_some());
        let Some(mut place) = found.filter(|_| inside != own) else { return self.user_place(own, pid) };
        if let Some((_, offset)) = &mut place.function {
            *offset += 1;
        }
        place.file_offset += 1;
        Some(place)
    }

    fn kernel_frame(&self, address: u64, caller: bool) -> Option<(&str, u64)> {
        let symbols = self.facts.symbols();
        let [inside, own] = within(caller, address);
        let (symbol, offset) = symbols.function_at(inside).or_else(|| symbols.function_at(own))?;
        Some((symbol.name, offset + own.saturating_sub(inside)))
    }

    fn frame(&self, stack: Stack, address: u64, caller: bool, pid: u32) -> String {
        if stack.mode == StackMode::Raw {
            return format!("{address:x}");
        }
        let (name, file) = if stack.user {
            match self.user_frame(address, caller, pid) {
                Some(place) if stack.mode == StackMode::BuildId => return build_id_frame(&place),
                Some(place) => (place.function, Some(place.path)),
                None => (None, None),
            }
        } else {
            let found = self.kernel_frame(address, caller);
            (found.map(|(name, offset)| (Rc::from(name), offset)), None)
        };
        let name = name.map_or_else(|| format!("{address:#x}"), |(name, offset)| format!("{name}+{offset}"));
        match (stack.mode, stack.user) {
            (StackMode::Perf, true) => {
                let file = file.map_or("[unknown]".into(), |path| path.display().to_string());
                format!("{address:x} {name} ({file})")
            }
            (StackMode::Perf, false) => format!("{address:x} {name}"),
            _ => name,
        }
    }

    /// Innermost first.
    fn addresses(&self, stack: Stack, hash: u64, frames: u32) -> Vec<u64> {
        let same = |map: &lang::schema::StackMap| map.user == stack.user && map.limit == stack.limit;
        let map = self.schema.stack_maps.iter().position(same).and_then(|index| self.stacks.get(index));
        let mut key = [0u8; 16];
        key[..8].copy_from_slice(&hash.to_le_bytes());
        key[8..12].copy_from_slice(&frames.to_le_bytes());
        let value = map.and_then(|map| map.lookup(&key).ok().flatten()).unwrap_or_default();
        let addresses = (0..frames.min(stack.limit.into()) as usize).map(|at| unsigned(&value, at * 8, 8));
        let addresses = addresses.take_while(|address| *address != 0);
        if stack.user {
            return addresses.collect();
        }
        addresses.skip_while(|address| self.is_the_tracers(*address)).collect()
    }

    /// Whether an innermost frame is the way from a raw tracepoint to the program, which is not what is traced.
    fn is_the_tracers(&self, address: u64) -> bool {
        const WAY: [&str; 4] = ["bpf_prog_", "bpf_trace_run", "__bpf_trace_", "__traceiter_"];
        let symbol = self.facts.symbols().at(address).map(|(symbol, _)| symbol.name);
        symbol.is_some_and(|name| WAY.iter().any(|part| name.starts_with(part)))
    }

    /// The function's name alone; the file's for code without symbols.
    fn function(&self, stack: Stack, address: u64, caller: bool, pid: u32) -> String {
        let name = match stack.user {
            _ if stack.mode == StackMode::Raw => Some(format!("{address:x}")),
            true => self.user_frame(address, caller, pid).map(|place| match place.function {
                Some((name, _)) => name.to_string(),
                None => format!("[{}]", place.path.file_name().unwrap_or_default().to_string_lossy()),
            }),
            false => self.kernel_frame(address, caller).map(|(name, _)| name.to_owned()),
        };
        name.unwrap_or_else(|| "[unknown]".into())
    }

    fn read_cgroups() -> HashMap<u64, Vec<(String, String)>> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mut found = HashMap::new();
        for line in mounts.lines() {
            let mut words = line.split(' ').skip(1);
            let (Some(root), Some(kind)) = (words.next(), words.next()) else { continue };
            let hierarchy = match kind {
                "cgroup2" => "unified".to_owned(),
                "cgroup" => root.rsplit('/').next().unwrap_or("").to_owned(),
                _ => continue,
            };
            walk_cgroups(Path::new(root), "/", &hierarchy, &mut found);
        }
        found
    }
}

fn build_id_frame(place: &UserPlace) -> String {
    let id: String = place.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{id} {:#x}", place.file_offset)
}

fn walk_cgroups(
    directory: &Path,
    path: &str,
    hierarchy: &str,
    found: &mut HashMap<u64, Vec<(String, String)>>,
) {
    let Ok(metadata) = std::fs::metadata(directory) else { return };
    found.entry(metadata.ino()).or_default().push((hierarchy.to_owned(), path.to_owned()));
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let name = entry.file_name();
            let below = format!("{}/{}", path.trim_end_matches('/'), name.to_string_lossy());
            walk_cgroups(&entry.path(), &below, hierarchy, found);
        }
    }
}

/// What to add to a time on the clock to get nanoseconds since 1970.
pub fn wall_clock_offset(clock: Clock) -> i64 {
    let now = match clock {
        Clock::Monotonic => kernel::clock::monotonic_ns(),
        Clock::Boot => kernel::clock::boottime_ns(),
        Clock::Tai | Clock::SoftwareTai => kernel::clock::tai_ns(),
    };
    kernel::clock::realtime_ns() as i64 - now as i64
}

impl Names for HostNames<'_> {
    fn kernel_address(&self, address: u64, with_offset: bool) -> String {
        match self.facts.symbols().at(address) {
            Some((symbol, offset)) if with_offset => format!("{}+{offset}", symbol.name),
            Some((symbol, _)) => symbol.name.to_owned(),
            None => format!("{address:#x}"),
        }
    }

    fn user_address(&self, address: u64, pid: u32, with_offset: bool) -> String {
        match self.user_place(address, pid).and_then(|place| place.function) {
            Some((name, offset)) if with_offset => format!("{name}+{offset}"),
            Some((name, _)) => name.to_string(),
            None => format!("{address:#x}"),
        }
    }

    fn stack(&self, stack: Stack, hash: u64, frames: u32, pid: u32) -> StackLines {
        let addresses = self.addresses(stack, hash, frames);
        let frames = addresses.into_iter().enumerate();
        let frames = frames.map(|(at, address)| self.frame(stack, address, at > 0, pid));
        StackLines { frames: frames.collect(), tab: stack.mode == StackMode::Perf }
    }
    fn time(&self, nanoseconds: u64, clock: Clock, format: &str) -> String {
        kernel::local_time::formatted(format, nanoseconds.wrapping_add_signed(wall_clock_offset(clock)))
    }

    fn cgroup(&self, id: u64, filter: Option<&str>) -> String {
        let filter = filter.map(lang::glob::Pattern::new);
        let known = self.cgroups.get_or_init(HostNames::read_cgroups);
        let paths = known.get(&id).into_iter().flatten();
        let wanted =
            paths.filter(|(hierarchy, _)| filter.as_ref().is_none_or(|filter| filter.matches(hierarchy)));
        let shown: Vec<String> = wanted.map(|(hierarchy, path)| format!("{hierarchy}:{path}")).collect();
        shown.join(";")
    }

    fn user(&self, uid: u32) -> String {
        let users = self.users.get_or_init(|| {
            let text = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
            let rows = text.lines().filter_map(|line| {
                let mut fields = line.split(':');
                let name = fields.next()?;
                Some((fields.nth(1)?.parse().ok()?, name.to_owned()))
            });
            rows.collect()
        });
        users.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }

    fn syscall(&self, number: u32) -> String {
        if number & ia32::MARK != 0 && number >> 30 == 0 {
            let number = number & !ia32::MARK;
            return format!("ia32:{}", ia32::name(number).map_or_else(|| number.to_string(), str::to_owned));
        }
        self.facts.syscalls().get(&number).cloned().unwrap_or_else(|| number.to_string())
    }

    fn process(&self, pid: u32) -> String {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.trim_end().to_owned()
    }

    fn errno(&self, number: i32) -> String {
        let text = std::io::Error::from_raw_os_error(number).to_string();
        text.split(" (os error").next().unwrap_or(&text).to_owned()
    }
}

impl FrameNames for HostNames<'_> {
    fn functions(&self, stack: Stack, hash: u64, frames: u32, pid: u32) -> Vec<String> {
        let innermost_first = self.addresses(stack, hash, frames).into_iter().enumerate();
        innermost_first.rev().map(|(at, address)| self.function(stack, address, at > 0, pid)).collect()
    }
}
