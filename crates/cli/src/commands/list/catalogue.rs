//! Everything that can be traced here: tracepoints from tracefs, raw tracepoints from BTF,
//! perf's software and hardware events from a table.

use bpf::btf::Btf;
use kernel::facts_host::Abilities;
use kernel::tracefs::{EventName, Tracefs};
use serde::Serialize;
use trace::format::{EventFormat, FieldShape};

/// An event that can be traced.
pub struct Entry {
    /// `tracepoint`, `rawtracepoint`, `software`, `hardware`.
    pub kind: &'static str,
    /// Its name within the kind, such as `sched:sched_switch`.
    pub name: String,
    /// What it is, where no kernel text says it.
    pub about: Option<&'static str>,
    /// Whether this machine has it.
    pub available: bool,
}

/// A field or argument.
#[derive(Serialize)]
pub struct FieldLine {
    /// Its name, with the length of an array.
    pub name: String,
    /// How C declares it.
    #[serde(skip)]
    pub declaration: String,
    /// Its C type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Bytes from the record's start; an argument has none.
    pub offset: Option<u32>,
    /// Bytes.
    pub size: Option<u32>,
    /// Whether its integers are signed.
    pub signed: Option<bool>,
}

/// What is known of one event besides its name.
#[derive(Default)]
pub struct Details {
    pub id: Option<u16>,
    pub fields: Vec<FieldLine>,
    pub print_format: Option<String>,
}

/// The sources, opened once.
pub struct Catalogue {
    tracefs: Option<Tracefs>,
    btf: Option<Btf>,
    hardware: bool,
    unreachable: Vec<String>,
}

impl Catalogue {
    pub fn open() -> Catalogue {
        let mut unreachable = Vec::new();
        let tracefs = match Tracefs::open() {
            Ok(tracefs) => Some(tracefs),
            Err(refused) => {
                unreachable.push(format!("tracepoints cannot be listed: {refused}"));
                None
            }
        };
        let btf = match std::fs::read("/sys/kernel/btf/vmlinux") {
            Ok(bytes) => Btf::new(bytes).map_err(|e| unreachable.push(format!("BTF cannot be read: {e}"))).ok(),
            // A kernel without BTF has no raw tracepoint arguments to tell; `doctor` says so.
            Err(_) => None,
        };
        Catalogue { tracefs, btf, hardware: Abilities::hardware_counters().is_yes(), unreachable }
    }

    /// Sources that could not be opened, with the reason.
    pub fn unreachable(&self) -> &[String] {
        &self.unreachable
    }

    /// All events, sorted within each kind.
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        let traceable = |name: String, kind| Entry { kind, name, about: None, available: true };
        let mut names: Vec<EventName> =
            self.tracefs.as_ref().and_then(|tracefs| tracefs.events().ok()).unwrap_or_default();
        names.sort();
        names.dedup();
        entries.extend(names.iter().map(|name| traceable(name.to_string(), "tracepoint")));
        if let Some(btf) = &self.btf {
            let mut names: Vec<&str> = btf.tracepoint_names().collect();
            names.sort_unstable();
            names.dedup();
            entries.extend(names.into_iter().map(|name| traceable(name.to_owned(), "rawtracepoint")));
        }
        let listed = |kind, (name, about): &(&str, &'static str), available| Entry {
            kind,
            name: (*name).to_owned(),
            about: Some(about),
            available,
        };
        entries.extend(SOFTWARE.iter().map(|row| listed("software", row, true)));
        entries.extend(HARDWARE.iter().map(|row| listed("hardware", row, self.hardware)));
        entries
    }

    /// Fields of a tracepoint, arguments of a raw tracepoint; nothing for the others.
    pub fn details(&self, entry: &Entry) -> Details {
        match entry.kind {
            "tracepoint" => self.tracepoint(&entry.name).unwrap_or_default(),
            "rawtracepoint" => self.raw_tracepoint(&entry.name).unwrap_or_default(),
            _ => Details::default(),
        }
    }

    fn tracepoint(&self, name: &str) -> Option<Details> {
        let name = EventName::parse(name)?;
        let text = self.tracefs.as_ref()?.format(&name).ok()?;
        let format = EventFormat::parse(&name.system, &text).ok()?;
        let fields = format.fields.iter().map(|field| {
            let name = match field.shape {
                FieldShape::Array { length: 0 } => format!("{}[]", field.name),
                FieldShape::Array { length } => format!("{}[{length}]", field.name),
                _ => field.name.clone(),
            };
            let type_name = match field.shape {
                FieldShape::DataLoc => format!("__data_loc {}", field.type_name),
                FieldShape::RelLoc => format!("__rel_loc {}", field.type_name),
                _ => field.type_name.clone(),
            };
            FieldLine {
                declaration: format!("{type_name} {name}"),
                name,
                type_name,
                offset: Some(field.offset),
                size: Some(field.size),
                signed: Some(field.signed),
            }
        });
        Some(Details { id: Some(format.id), fields: fields.collect(), print_format: Some(format.print_fmt.clone()) })
    }

    fn raw_tracepoint(&self, name: &str) -> Option<Details> {
        let btf = self.btf.as_ref()?;
        let signature = btf.tracepoint(name)?;
        let argument = |(index, parameter): (usize, &bpf::btf::Parameter)| {
            let name = if parameter.name.is_empty() { format!("arg{index}") } else { parameter.name.to_owned() };
            FieldLine {
                declaration: btf.declaration(parameter.type_id, &name),
                name,
                type_name: btf.type_name(parameter.type_id),
                offset: None,
                size: btf.size_of(parameter.type_id).map(|size| size as u32),
                signed: None,
            }
        };
        let fields = signature.parameters.iter().enumerate().map(argument).collect();
        Some(Details { id: None, fields, print_format: None })
    }
}

// Names and numbers of include/uapi/linux/perf_event.h, the names as perf and bpftrace have them.
const SOFTWARE: &[(&str, &str)] = &[
    ("cpu-clock", "time on the CPU by a timer of each CPU; the usual clock for sampling"),
    ("task-clock", "time on the CPU by a timer that runs with the thread"),
    ("page-faults", "all page faults"),
    ("minor-faults", "page faults served from memory"),
    ("major-faults", "page faults that had to read from a device"),
    ("context-switches", "switches from one thread to another"),
    ("cpu-migrations", "moves of a thread to another CPU"),
    ("alignment-faults", "unaligned accesses that the kernel mended"),
    ("emulation-faults", "instructions that the kernel emulated"),
    ("bpf-output", "what eBPF programs hand to perf rings"),
    ("cgroup-switches", "switches between threads of different control groups"),
];

const HARDWARE: &[(&str, &str)] = &[
    ("cpu-cycles", "cycles of the CPU while not halted"),
    ("instructions", "instructions retired"),
    ("cache-references", "accesses to the last-level cache"),
    ("cache-misses", "misses of the last-level cache"),
    ("branch-instructions", "branches retired"),
    ("branch-misses", "branches predicted wrongly"),
    ("bus-cycles", "cycles of the bus"),
    ("frontend-stalls", "cycles in which no instruction could be issued for want of instructions"),
    ("backend-stalls", "cycles in which no instruction could be issued for want of resources"),
    ("ref-cycles", "cycles at the reference frequency"),
];
