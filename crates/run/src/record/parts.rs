//! The folder a recording lives in until its trace file is complete, and all that is left of
//! one that was killed.
//!
//! `OUTPUT.parts/` holds
//! * `recording.json`: owner, clock, start, CPUs, format texts ([`Manifest`]), written before
//!   the first event;
//! * `threads`: lines "TID PID COMM", as of the start of the recording;
//! * `cpuN.pages`: the pages of CPU N as the kernel gave them, one after the other, no header;
//! * `reserve`: room for the first pieces of that file, given back when it is begun, so that it
//!   can be put together on a disk that the pages have filled;
//! * `trace.dat`: the file being put together, in the last phase only. It becomes OUTPUT by a
//!   rename, after which the folder goes.
//!
//! So whatever the moment of death, the pages fetched until then are there, in whole pages but
//! for the last one, which may be short. Fetched means: written by the kernel to the page cache,
//! so a killed recorder loses nothing of it, a crashed machine may. What was in the rings is
//! lost; with the default flush interval that is at most the last second.
//! [`finish_cut_recording`](super::finish_cut_recording) makes the trace file from the folder,
//! its account marked as cut.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use kernel::procfs::{ProcessIdentity, ThreadName, pid_namespace};
use serde::{Deserialize, Serialize};

use super::dat_parts::Metadata;
use super::error::RecordError;

/// What has to be known to make a trace file from raw pages.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// Layout of the folder; an unknown one is refused.
    pub version: u32,
    /// Who records: process id, start time in ticks, pid namespace.
    pub owner: (u32, u64, u64),
    /// The instance's name.
    pub instance: String,
    /// CPUs that are recorded.
    pub cpus: Vec<u32>,
    /// Bytes of a page.
    pub page_size: u32,
    /// When recording began, "mono".
    pub started_ns: u64,
    /// From "mono" to the wall clock.
    pub realtime_offset_ns: i64,
    /// Threads whose events are counted as the recorder's own.
    pub own_threads: Vec<u32>,
    /// The kernel filtered by thread or field.
    pub filters: bool,
    /// A flight recording: the file begins with what the rings held.
    #[serde(default)]
    pub window: bool,
    /// Version of trace.dat to make.
    pub dat_version: u32,
    /// zstd level, if compressed; 0: to be chosen by the amount.
    pub zstd_level: Option<i32>,
    /// Events recorded.
    pub events: Vec<String>,
    /// Everything else in the file.
    pub metadata: Metadata,
}

const MANIFEST: &str = "recording.json";

/// Bytes to reserve: formats and what is compressed at a time, else what suffices on two cores.
const RESERVES: [u64; 2] = [3 << 20, 256 << 10];

/// Layout version of the folder.
pub(super) const PARTS_VERSION: u32 = 1;

impl Manifest {
    /// True while the process that records is alive. One in another pid namespace cannot be
    /// asked and counts as alive.
    pub fn owner_lives(&self) -> bool {
        let (pid, start_ticks, namespace) = self.owner;
        namespace != pid_namespace() || ProcessIdentity { pid, start_ticks }.lives()
    }
}

/// The folder while it is written to. Dropping it removes it unless it was kept.
#[derive(Debug)]
pub(super) struct Parts {
    folder: PathBuf,
    keep: bool,
    // Locked while the recorder lives, however it ends.
    _lock: Option<File>,
}

impl Parts {
    /// Makes the folder; refuses if there is one that holds a recording.
    pub fn create(folder: &Path) -> Result<Self, RecordError> {
        if is_empty_shell(folder) {
            fs::remove_dir_all(folder).map_err(|e| RecordError::output("remove", folder, e))?;
        }
        fs::create_dir(folder).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => RecordError::PartsExist { path: folder.to_owned() },
            _ => RecordError::output("make the folder", folder, e),
        })?;
        let lock = lock(folder);
        let parts = Parts { folder: folder.to_owned(), keep: false, _lock: lock };
        parts.reserve();
        Ok(parts)
    }

    // A small disk, or one that cannot put space aside, goes without.
    fn reserve(&self) {
        let Ok(file) = create(&self.folder.join("reserve")) else { return };
        let _ = RESERVES.iter().any(|&bytes| kernel::files::reserve(&file, bytes).is_ok());
    }

    /// Takes over a folder that a killed recorder left. It is kept when finishing fails.
    pub fn adopt(folder: &Path) -> Self {
        Parts { folder: folder.to_owned(), keep: true, _lock: None }
    }

    /// Where a CPU's raw pages are.
    pub fn pages_path(&self, cpu: u32) -> PathBuf {
        self.folder.join(format!("cpu{cpu}.pages"))
    }

    /// Makes the file for a CPU's raw pages.
    pub fn create_pages(&self, cpu: u32) -> Result<File, RecordError> {
        create(&self.pages_path(cpu))
    }

    /// Opens a CPU's raw pages for reading and punching holes.
    pub fn open_pages(&self, cpu: u32) -> Result<File, RecordError> {
        let path = self.pages_path(cpu);
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        opened.map_err(|e| RecordError::output("open", &path, e))
    }

    /// Writes the manifest. Whoever is killed meanwhile leaves the one before.
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<(), RecordError> {
        let path = self.folder.join(MANIFEST);
        let refused = |e: io::Error| RecordError::output("write", &path, e);
        let text = serde_json::to_vec(manifest).map_err(|e| refused(e.into()))?;
        let new = self.folder.join("recording.json.new");
        fs::write(&new, text).map_err(refused)?;
        fs::rename(&new, &path).map_err(refused)
    }

    /// Reads the manifest of a folder.
    pub fn read_manifest(folder: &Path) -> Result<Manifest, RecordError> {
        let bad = |reason: String| RecordError::BadParts { path: folder.to_owned(), reason };
        let text = fs::read(folder.join(MANIFEST)).map_err(|e| bad(format!("recording.json: {e}")))?;
        let manifest: Manifest =
            serde_json::from_slice(&text).map_err(|e| bad(format!("recording.json: {e}")))?;
        if manifest.version != PARTS_VERSION {
            return Err(bad(format!("its layout is version {}, known is {PARTS_VERSION}", manifest.version)));
        }
        // Sizes are used for allocation: nothing a kernel would not have.
        if !manifest.page_size.is_power_of_two() || !(4096..=1 << 20).contains(&manifest.page_size) {
            return Err(bad(format!("pages of {} bytes", manifest.page_size)));
        }
        Ok(manifest)
    }

    /// Writes the list of threads.
    pub fn write_threads(&self, threads: &[ThreadName]) -> Result<(), RecordError> {
        let path = self.folder.join("threads");
        let lines: String = threads.iter().map(|t| format!("{} {} {}\n", t.tid, t.pid, t.comm)).collect();
        fs::write(&path, lines).map_err(|e| RecordError::output("write", &path, e))
    }

    /// Reads the list of threads; a missing list is an empty one.
    pub fn read_threads(&self) -> Vec<ThreadName> {
        let text = fs::read(self.folder.join("threads")).unwrap_or_default();
        String::from_utf8_lossy(&text)
            .lines()
            .filter_map(|line| {
                let mut words = line.splitn(3, ' ');
                let (tid, pid) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                Some(ThreadName { tid, pid, comm: words.next()?.to_owned() })
            })
            .collect()
    }

    /// The trace file being put together.
    pub fn create_trace(&self) -> Result<File, RecordError> {
        let _ = fs::remove_file(self.folder.join("reserve"));
        create(&self.folder.join("trace.dat"))
    }

    /// Makes the finished trace file the output and removes the folder.
    pub fn publish(mut self, output: &Path) -> Result<(), RecordError> {
        fs::rename(self.folder.join("trace.dat"), output)
            .map_err(|e| RecordError::output("write", output, e))?;
        self.keep = false;
        // First of all: without it the rest is known to be no recording.
        let _ = fs::remove_file(self.folder.join(MANIFEST));
        Ok(())
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// What a recorder leaves that was killed before its first event, or after its file was complete.
fn is_empty_shell(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let ours = |name: &str| {
        let pages = name.strip_prefix("cpu").and_then(|rest| rest.strip_suffix(".pages"));
        pages.is_some_and(|cpu| cpu.parse::<u32>().is_ok())
            || ["threads", "reserve", "trace.dat", "recording.json.new"].contains(&name)
    };
    entries.flatten().all(|entry| entry.file_name().to_str().is_some_and(ours)) && lock(folder).is_some()
}

/// A lock on the folder; `None` while somebody has one. It goes with the process.
fn lock(folder: &Path) -> Option<File> {
    let file = File::open(folder).ok()?;
    file.try_lock().ok().map(|()| file)
}

fn create(path: &Path) -> Result<File, RecordError> {
    let created = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(path);
    created.map_err(|e| RecordError::output("create", path, e))
}
