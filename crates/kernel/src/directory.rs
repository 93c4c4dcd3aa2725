//! A directory held by descriptor: its files are reached with `openat`, so the directory
//! need not be mounted anywhere and cannot be swapped underneath us.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::error::{Refused, check};

/// An open directory with the name it is called by in messages.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
    label: String,
}

impl Directory {
    /// Takes over an open directory descriptor; `label` is what messages call it.
    pub fn from_fd(fd: OwnedFd, label: impl Into<String>) -> Self {
        Directory { fd, label: label.into() }
    }

    /// Opens a directory by its path.
    pub fn open(path: &str) -> Result<Self, Refused> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let fd = open_at(libc::AT_FDCWD, path, flags).map_err(|e| Refused::new("open directory", path, e))?;
        Ok(Directory { fd, label: path.trim_end_matches('/').to_owned() })
    }

    /// What messages call this directory.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The name messages use for a file in it.
    pub fn name_of(&self, relative: &str) -> String {
        format!("{}/{}", self.label, relative)
    }

    /// Opens a directory below this one.
    pub fn open_directory(&self, relative: &str) -> Result<Directory, Refused> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let fd = self.open_raw(relative, flags).map_err(|e| self.refused("open directory", relative, e))?;
        Ok(Directory { fd, label: self.name_of(relative) })
    }

    /// Opens a file below this directory for reading; `nonblocking` reads answer EAGAIN
    /// instead of waiting.
    pub fn open_file(&self, relative: &str, nonblocking: bool) -> Result<File, Refused> {
        let wait = if nonblocking { libc::O_NONBLOCK } else { 0 };
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | wait;
        Ok(File::from(self.open_raw(relative, flags).map_err(|e| self.refused("open", relative, e))?))
    }

    /// Opens a file below this directory for writing, as it is.
    pub fn open_for_writing(&self, relative: &str) -> Result<File, Refused> {
        let flags = libc::O_WRONLY | libc::O_CLOEXEC;
        Ok(File::from(self.open_raw(relative, flags).map_err(|e| self.refused("open", relative, e))?))
    }

    /// Reads a file whole, in large pieces: some files (`events/header_page`) answer the first
    /// read alone, however short it was.
    pub fn read(&self, relative: &str) -> Result<Vec<u8>, Refused> {
        const PIECE: usize = 1 << 16;
        let mut file = self.open_file(relative, false)?;
        let mut bytes = Vec::new();
        loop {
            let filled = bytes.len();
            bytes.resize(filled + PIECE, 0);
            match file.read(&mut bytes[filled..]) {
                Ok(got) => {
                    bytes.truncate(filled + got);
                    if got == 0 {
                        return Ok(bytes);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => bytes.truncate(filled),
                Err(e) => return Err(self.refused("read", relative, e)),
            }
        }
    }

    /// Reads a file whole as text; bytes that are not UTF-8 are replaced.
    pub fn read_text(&self, relative: &str) -> Result<String, Refused> {
        Ok(String::from_utf8_lossy(&self.read(relative)?).into_owned())
    }

    /// Writes a text to a control file in one write, without truncating the file first
    /// (truncation of a list such as `set_event_pid` would empty it for a moment).
    pub fn write(&self, relative: &str, text: &str) -> Result<(), Refused> {
        let flags = libc::O_WRONLY | libc::O_CLOEXEC;
        let written = self.open_raw(relative, flags).and_then(|fd| File::from(fd).write_all(text.as_bytes()));
        written.map_err(|e| self.refused(format!("write '{}' to", shortened(text)), relative, e))
    }

    /// True if something of this name exists.
    pub fn has(&self, relative: &str) -> bool {
        self.open_raw(relative, libc::O_PATH | libc::O_CLOEXEC).is_ok()
    }

    /// The names in a directory below this one ("." for this one), in the kernel's order.
    pub fn list(&self, relative: &str) -> Result<Vec<String>, Refused> {
        // The descriptor's own link in /proc reaches the directory without a mount point.
        let path = format!("/proc/self/fd/{}/{relative}", self.fd.as_raw_fd());
        let refused = |e| self.refused("list", relative, e);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(path).map_err(refused)? {
            names.push(entry.map_err(refused)?.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    /// Makes a directory below this one.
    pub fn make_directory(&self, relative: &str) -> Result<(), Refused> {
        let path = c_path(relative).map_err(|e| self.refused("make directory", relative, e))?;
        // SAFETY: `path` is a NUL-terminated string that lives through the call.
        let result = unsafe { libc::mkdirat(self.fd.as_raw_fd(), path.as_ptr(), 0o750) };
        check(result.into()).map(drop).map_err(|e| self.refused("make directory", relative, e))
    }

    /// Removes a directory below this one.
    pub fn remove_directory(&self, relative: &str) -> Result<(), Refused> {
        let path = c_path(relative).map_err(|e| self.refused("remove directory", relative, e))?;
        // SAFETY: `path` is a NUL-terminated string that lives through the call.
        let result = unsafe { libc::unlinkat(self.fd.as_raw_fd(), path.as_ptr(), libc::AT_REMOVEDIR) };
        check(result.into()).map(drop).map_err(|e| self.refused("remove directory", relative, e))
    }

    fn open_raw(&self, relative: &str, flags: i32) -> io::Result<OwnedFd> {
        open_at(self.fd.as_raw_fd(), relative, flags)
    }

    fn refused(&self, operation: impl Into<String>, relative: &str, error: io::Error) -> Refused {
        let denied = matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES));
        let refused = Refused::new(operation, self.name_of(relative), error);
        if denied {
            refused.advise("run as root; where the kernel is locked down (/sys/kernel/security/lockdown) tracing is refused to root too")
        } else {
            refused
        }
    }
}

fn shortened(text: &str) -> String {
    let text = text.trim_end();
    if text.chars().count() <= 60 {
        return text.to_owned();
    }
    text.chars().take(57).chain("...".chars()).collect()
}

fn c_path(path: &str) -> io::Result<CString> {
    CString::new(path).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

fn open_at(directory: i32, path: &str, flags: i32) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    // SAFETY: `path` is a NUL-terminated string that lives through the call.
    let fd = check(unsafe { libc::openat(directory, path.as_ptr(), flags) }.into())?;
    // SAFETY: the descriptor is new and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
