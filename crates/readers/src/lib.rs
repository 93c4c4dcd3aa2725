//! Bytes of a trace file in, a `trace` stream out. Never panics on bad bytes; knows no
//! analysis.
//!
//! [`open`] tells the format by the file's first bytes. Memory does not grow with the
//! file: files are read in windows, CPUs are merged as they are read.

mod input;
mod scan;
mod unpack;
mod merge;
pub mod trace_dat;
pub mod perf_data;
pub mod text;
pub mod ctf;
pub mod survey;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use trace::{Source, SourceError};

pub use input::{FileInput, Input, MemoryInput};
pub use survey::{Survey, survey};

type Opened = Result<Box<dyn Source>, SourceError>;

/// A format of single files.
struct Format {
    /// What it is called in messages.
    name: &'static str,
    /// Whether a file begins as one of this format does.
    begins: fn(&[u8]) -> bool,
    open: fn(Arc<dyn Input>) -> Opened,
}

/// The formats of single files. To add one, add its folder and its row.
const FORMATS: &[Format] = &[
    Format {
        name: "trace.dat of versions 6 and 7",
        begins: trace_dat::is_trace_dat,
        open: |input| Ok(Box::new(trace_dat::TraceDat::open(input)?)),
    },
    Format {
        name: "perf.data",
        begins: perf_data::is_perf_data,
        open: |input| Ok(Box::new(perf_data::PerfData::open(input)?)),
    },
    Format {
        name: "text of ftrace, trace-cmd report and perf script",
        begins: text::is_text_trace,
        open: |input| Ok(Box::new(text::TextTrace::open(input)?)),
    },
];

/// Bytes of a file by which its format is told.
const START: usize = 16 << 10;

/// Opens a trace of any format that is understood.
pub fn open(input: Arc<dyn Input>) -> Result<Box<dyn Source>, SourceError> {
    let mut start = vec![0; START];
    let length = match input.read_at(&mut start, 0) {
        Ok(length) => length,
        Err(error) => return Err(input::wrong(&*input, 0, error.to_string())),
    };
    let start = &start[..length];
    if let Some(format) = FORMATS.iter().find(|format| (format.begins)(start)) {
        return (format.open)(input);
    }
    let reason = match start {
        [] => "the file is empty".to_owned(),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "packed with zstd: unpack it first (`unzstd FILE`)".to_owned(),
        [0x1f, 0x8b, ..] => "packed with gzip: unpack it first (`gunzip FILE`)".to_owned(),
        _ => {
            let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
            format!("not a trace of a known format (known: {}; folders of CTF 1.8)", names.join("; "))
        }
    };
    Err(input::wrong(&*input, 0, reason))
}

/// Opens the trace at `path`: a file; a folder with a trace in it; or, where a recorder of
/// lotse was killed, the parts it left, by their folder or by the file they were to become.
pub fn open_path(path: &Path) -> Result<Box<dyn Source>, SourceError> {
    if path.join(PARTS_MANIFEST).is_file() {
        return Ok(Box::new(trace_dat::TraceDat::open_parts(path)?));
    }
    if path.is_dir() {
        if let Some(inner) = trace_in(path) {
            return open_path(&inner);
        }
        let folders = ctf::find(path);
        if !folders.is_empty() {
            return Ok(Box::new(ctf::CtfTrace::open(&folders)?));
        }
        let reason =
            "a folder without trace.dat, perf.data, CTF metadata or the parts of a recording".to_owned();
        return Err(SourceError { file: path.display().to_string(), offset: 0, reason });
    }
    let parts = parts_folder(path);
    if !path.exists() && parts.join(PARTS_MANIFEST).is_file() {
        return Ok(Box::new(trace_dat::TraceDat::open_parts(&parts)?));
    }
    if path.file_name().is_some_and(|name| name == PERF_FOLDER_DATA) && path.with_extension("0").exists() {
        let folder = path.parent().unwrap_or(path).display();
        let reason = format!(
            "its events are in files of their own beside it (data.0 …: perf record --threads), which are not read; \
             `perf inject -i {folder} -o JOINED` makes one file of them, in the folder JOINED"
        );
        return Err(SourceError { file: path.display().to_string(), offset: 0, reason });
    }
    open(Arc::new(FileInput::open(path)?))
}

/// The trace that a folder holds under one of the names that recorders give.
fn trace_in(folder: &Path) -> Option<PathBuf> {
    let named = ["trace.dat", "perf.data"].map(|name| folder.join(name));
    let found = named.into_iter().find(|inner| inner.exists() || parts_folder(inner).is_dir());
    found.or_else(|| is_perf_folder(folder).then(|| folder.join(PERF_FOLDER_DATA)))
}

/// The file in a folder that perf made, with what all its files have in common.
const PERF_FOLDER_DATA: &str = "data";

fn is_perf_folder(folder: &Path) -> bool {
    use std::io::Read;
    let mut start = Vec::new();
    let file = std::fs::File::open(folder.join(PERF_FOLDER_DATA));
    file.is_ok_and(|file| file.take(16).read_to_end(&mut start).is_ok()) && perf_data::is_perf_data(&start)
}

/// Whether [`open_path`] finds a trace in or below a folder.
pub fn is_trace_folder(path: &Path) -> bool {
    path.join(PARTS_MANIFEST).is_file() || trace_in(path).is_some() || !ctf::find(path).is_empty()
}

/// What marks the folder of a recording that is not put together.
const PARTS_MANIFEST: &str = "recording.json";

fn parts_folder(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".parts");
    PathBuf::from(name)
}
