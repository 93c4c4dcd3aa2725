//! A recording of lotse whose recorder was killed: raw pages of each CPU in a file of
//! their own, and what describes them beside. Nothing in the folder is changed.

use std::{path::Path, sync::Arc};

use trace::{Comm, Cpu, Endian, EventFormat, SourceError, Tid, TraceInfo, info::KnownTask};

use super::{
    cpu_data::CpuExtent,
    facts,
    head::{Buffer, Head},
    ring_page::PageLayout,
};
use crate::input::{FileInput, Input, read_exactly, wrong};

/// The newest layout of the folder that is understood.
const VERSION: u32 = 1;

/// Bytes of `recording.json` that are believed: format texts of all events are some MB.
const LARGEST: u64 = 64 << 20;

#[derive(serde::Deserialize)]
struct Manifest {
    version: u32,
    cpus: Vec<u32>,
    page_size: u32,
    started_ns: u64,
    #[serde(default)]
    realtime_offset_ns: i64,
    #[serde(default)]
    filters: bool,
    metadata: Metadata,
}

#[derive(serde::Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Metadata {
    header_page: String,
    ftrace_formats: Vec<String>,
    event_formats: Vec<(String, Vec<String>)>,
    printk_formats: String,
    clock: String,
    uname: String,
    cpu_count: u32,
}

pub(super) fn read(folder: &Path) -> Result<(Head, Vec<Arc<dyn Input>>), SourceError> {
    let input = FileInput::open(&folder.join("recording.json"))?;
    let text = read_exactly(&input, 0, input.size().min(LARGEST), "the recording's description")?;
    let manifest: Manifest =
        serde_json::from_slice(&text).map_err(|error| wrong(&input, 0, error.to_string()))?;
    if manifest.version != VERSION {
        let reason = format!("the recording's parts have layout {}, known is {VERSION}", manifest.version);
        return Err(wrong(&input, 0, reason));
    }
    if !manifest.page_size.is_power_of_two() || !(256..=1 << 26).contains(&manifest.page_size) {
        return Err(wrong(&input, 0, format!("ring pages of {} bytes", manifest.page_size)));
    }
    let metadata = manifest.metadata;
    // The recorder runs on the machine it records; that is the one this was made on or,
    // the parts having been moved, one like it: page headers say at least the long's size.
    let endian = Endian::NATIVE;
    let layout =
        PageLayout::parse(&metadata.header_page, endian).map_err(|reason| wrong(&input, 0, reason))?;
    let mut info = TraceInfo::new("parts of an unfinished recording (pages of trace.dat)");
    info.endian = endian;
    info.long_size = layout.long_size();
    info.producer = Some("lotse".to_owned());
    info.cpu_count = metadata.cpu_count.min(1 << 16);
    facts::uname(&metadata.uname, &mut info);
    let formats = metadata.ftrace_formats.iter().map(|text| ("ftrace", text));
    let systems = metadata.event_formats.iter();
    let formats =
        formats.chain(systems.flat_map(|(system, texts)| texts.iter().map(|text| (system.as_str(), text))));
    for (system, text) in formats {
        match EventFormat::parse(system, text) {
            Ok(format) => info.formats.push(format),
            Err(error) => info.problems.push(error.to_string()),
        }
    }
    info.facts.push(("started, ns".to_owned(), manifest.started_ns.to_string()));
    info.facts.push(("clock to unix time, ns".to_owned(), manifest.realtime_offset_ns.to_string()));
    if manifest.filters {
        info.facts
            .push(("filters".to_owned(), "the kernel filtered events; how many is not known".to_owned()));
    }
    info.cut = Some(
        "the recorder was killed (or still runs): what was in the rings is missing, and how much was lost at the end is not known".to_owned(),
    );
    info.tasks = threads(folder, &mut info.problems);

    let clock = facts::chosen_clock(&metadata.clock);
    info.clock = clock.clone();
    let mut head = Head::new(info, layout, manifest.page_size as usize);
    head.printk = metadata.printk_formats;
    head.buffers.push(Buffer { name: String::new(), clock });
    let mut files: Vec<Arc<dyn Input>> = Vec::new();
    for &cpu in &manifest.cpus {
        match FileInput::open(&folder.join(format!("cpu{cpu}.pages"))) {
            Ok(file) => {
                let size = file.size();
                let file_number = files.len() as u32;
                files.push(Arc::new(file));
                head.extents.push(CpuExtent {
                    cpu: Cpu(cpu),
                    offset: 0,
                    size,
                    packed: false,
                    buffer: 0,
                    file: file_number,
                });
            }
            Err(error) => head.info.problems.push(error.to_string()),
        }
    }
    if files.is_empty() {
        return Err(wrong(&input, 0, "no pages of any CPU are there"));
    }
    Ok((head, files))
}

/// Lines "TID PID COMM".
fn threads(folder: &Path, problems: &mut Vec<String>) -> Vec<KnownTask> {
    let path = folder.join("threads");
    let text = match FileInput::open(&path)
        .and_then(|file| read_exactly(&file, 0, file.size().min(LARGEST), "the list of threads"))
    {
        Ok(text) => text,
        Err(error) => {
            problems.push(error.to_string());
            return Vec::new();
        }
    };
    let task = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let tid = words.next()?.parse().ok()?;
        let process: i32 = words.next()?.parse().ok()?;
        let comm = Comm::new(words.next()?.as_bytes());
        Some(KnownTask { tid: Tid(tid), process: (process != 0).then_some(Tid(process)), comm })
    };
    String::from_utf8_lossy(&text).lines().filter_map(task).collect()
}
