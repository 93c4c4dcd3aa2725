//! Programs: load, with the verifier's words if it refuses; run on demand.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use bpf::image::Program;
use bpf::program::ProgramType;

use super::call::*;
use super::types::{self, ProgramFacts};
use crate::error::Refused;

const LOG_LEVEL_STATEMENTS: u32 = 1;
const LOG_LEVEL_STATISTICS: u32 = 4;
const SMALLEST_LOG: usize = 64 * 1024;
const LARGEST_LOG: usize = 64 * 1024 * 1024;
const RUN_ON_CPU: u32 = 1;

/// A program that the kernel did not take.
#[derive(Debug, thiserror::Error)]
#[error("{refused}")]
pub struct LoadRefused {
    /// Operation, object, errno, what to try.
    #[source]
    pub refused: Refused,
    /// Index in `Image::programs`.
    pub program: usize,
    /// What the verifier wrote, whole; empty if it was not asked.
    pub log: String,
}

/// A loaded program.
#[derive(Debug)]
pub struct LoadedProgram {
    fd: OwnedFd,
    kind: ProgramType,
    name: String,
    /// The verifier's statistics, if they were asked for.
    pub statistics: Option<String>,
}

/// What a program needs besides its code.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadContext<'a> {
    /// `license`.
    pub license: &'a str,
    /// Map descriptors in the order of their indexes, then module BTF descriptors.
    pub descriptors: &'a [i32],
    /// Descriptor of the own BTF.
    pub own_types: Option<BorrowedFd<'a>>,
    /// Descriptor of the BTF that holds the attach id, or of the program to attach to.
    pub attach_to: Option<BorrowedFd<'a>>,
    /// Ask for the verifier's statistics (`--dry-run`).
    pub statistics: bool,
}

impl LoadedProgram {
    /// Loads a program. The verifier's log is asked for only after a refusal: writing it costs more than
    /// the verification.
    pub fn load(program: &Program, context: LoadContext<'_>) -> Result<LoadedProgram, (Refused, String)> {
        let code = program.encode(bpf::encode::MapReferences::Indexes);
        let license = format!("{}\0", context.license);
        let (functions, lines) = (program.function_info(), program.line_info());
        let with_types = context.own_types.is_some();
        let mut attribute = ProgramLoad {
            prog_type: program.kind.number(),
            insn_cnt: (code.len() / 8) as u32,
            insns: address_of(&code),
            license: address_of(license.as_bytes()),
            kern_version: running_version_code(),
            prog_flags: program.load_flags,
            prog_name: object_name(&program.name),
            expected_attach_type: program.expected_attach.number(),
            attach_btf_id: program.attach_btf_id.unwrap_or(0),
            attach_fd: context.attach_to.map_or(0, |fd| fd.as_raw_fd() as u32),
            fd_array: address_of(context.descriptors),
            ..ProgramLoad::default()
        };
        if let Some(fd) = context.own_types.filter(|_| with_types && !functions.is_empty()) {
            attribute.prog_btf_fd = fd.as_raw_fd() as u32;
            attribute.func_info_rec_size = 8;
            attribute.func_info = address_of(&functions);
            attribute.func_info_cnt = (functions.len() / 8) as u32;
            attribute.line_info_rec_size = 16;
            attribute.line_info = address_of(&lines);
            attribute.line_info_cnt = (lines.len() / 16) as u32;
        }
        let mut statistics = vec![0u8; if context.statistics { 4096 } else { 0 }];
        if context.statistics {
            attribute.log_level = LOG_LEVEL_STATISTICS;
            attribute.log_buf = address_of_mut(&mut statistics);
            attribute.log_size = statistics.len() as u32;
        }
        match super::map::with_memlock(|| retry_again(|| bpf_fd(&mut attribute))) {
            Ok(fd) => Ok(LoadedProgram {
                fd,
                kind: program.kind,
                name: program.name.clone(),
                statistics: context.statistics.then(|| text_of(&statistics)),
            }),
            Err(error) => {
                let log = verifier_log(&mut attribute);
                Err((load_refused(program, error, &log), log))
            }
        }
    }

    /// The name it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the kernel says of it.
    pub fn facts(&self) -> Result<ProgramFacts, Refused> {
        types::program_facts(&self.fd)
            .map_err(|e| Refused::new("ask about", format!("program {}", self.name), e))
    }

    /// Runs it once with these arguments as context (raw tracepoint: at most 12; syscall: any bytes), on
    /// a given CPU if it is a raw tracepoint program. Returns its return value and, for syscall programs,
    /// writes the context back.
    pub fn run(&self, context: &mut [u64], cpu: Option<u32>) -> Result<u32, Refused> {
        let mut attribute = TestRun {
            prog_fd: self.fd.as_raw_fd() as u32,
            ctx_in: address_of(context),
            ctx_size_in: size_of_val(context) as u32,
            ..TestRun::default()
        };
        if let (ProgramType::RawTracepoint, Some(cpu)) = (self.kind, cpu) {
            attribute.flags = RUN_ON_CPU;
            attribute.cpu = cpu;
        }
        retry_again(|| bpf(&mut attribute))
            .map(|_| attribute.retval)
            .map_err(|e| Refused::new("run", format!("program {}", self.name), e))
    }
}

impl AsFd for LoadedProgram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The verifier gives EAGAIN when a signal is pending.
fn retry_again<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..5 {
        match call() {
            Err(e) if e.raw_os_error() == Some(libc::EAGAIN) => {}
            other => return other,
        }
    }
    call()
}

/// Loads once more with a log, enlarged until it fits.
fn verifier_log(attribute: &mut ProgramLoad) -> String {
    let mut size = SMALLEST_LOG;
    loop {
        let mut log = vec![0u8; size];
        attribute.log_level = LOG_LEVEL_STATEMENTS | LOG_LEVEL_STATISTICS;
        attribute.log_buf = address_of_mut(&mut log);
        attribute.log_size = size as u32;
        match bpf_fd(attribute) {
            Err(e) if e.raw_os_error() == Some(libc::ENOSPC) && size < LARGEST_LOG => size *= 8,
            _ => return text_of(&log),
        }
    }
}

fn text_of(buffer: &[u8]) -> String {
    let end = buffer.iter().position(|b| *b == 0).unwrap_or(buffer.len());
    String::from_utf8_lossy(&buffer[..end]).trim_end().to_owned()
}

fn load_refused(program: &Program, error: io::Error, log: &str) -> Refused {
    let advice = match error.raw_os_error() {
        Some(libc::EPERM) if log.is_empty() => super::rights::rights_advice(),
        Some(libc::E2BIG) => "the program is too large for the verifier: fewer or smaller loops and unrolls".into(),
        Some(524) => "this kernel has no trampolines for functions (CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS): use a kprobe or a tracepoint".into(),
        _ => match log.lines().rev().find(|line| !line.is_empty() && !is_statistics(line)) {
            Some(last) => format!("the verifier says: {last}"),
            None => String::new(),
        },
    };
    Refused::new("load", format!("program {} ({})", program.name, program.kind.name()), error).advise(advice)
}

fn is_statistics(line: &str) -> bool {
    ["processed ", "verification time", "stack depth"].iter().any(|start| line.starts_with(start))
}

/// `LINUX_VERSION_CODE` of the running kernel, which kprobe programs had to name before 5.0.
fn running_version_code() -> u32 {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let bpf::facts::Version(major, minor, patch) = bpf::facts::Version::parse(&release);
    u32::from(major) << 16 | u32::from(minor) << 8 | u32::from(patch.min(255))
}
