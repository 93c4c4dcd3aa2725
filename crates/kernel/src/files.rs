//! What the file system offers beyond the standard library.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::{Refused, check};

/// Gives the blocks of a part of a file back to the file system; that part reads as zeros and
/// the file's length stays.
pub fn punch_hole(file: &File, offset: u64, length: u64) -> io::Result<()> {
    if length == 0 {
        return Ok(());
    }
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: integer arguments only; the descriptor is open.
    check(unsafe { libc::fallocate(file.as_raw_fd(), mode, offset as i64, length as i64) }.into()).map(drop)
}

/// Has the file system put `length` bytes aside for a file: an error now instead of a full disk
/// later.
pub fn reserve(file: &File, length: u64) -> io::Result<()> {
    // SAFETY: integer arguments only; the descriptor is open.
    check(unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length as i64) }.into()).map(drop)
}

/// Bytes an unprivileged user may still write to the file system that holds `path`.
pub fn free_bytes(path: &Path) -> Result<u64, Refused> {
    let refused = |e| Refused::new("ask for the free space of", path.display().to_string(), e);
    let c_path = std::ffi::CString::new(path.as_os_str().as_bytes())
        .map_err(|_| refused(io::Error::from_raw_os_error(libc::EINVAL)))?;
    // SAFETY: statvfs is plain integers; all-zero is a valid value.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is NUL-terminated and `stat` is valid to write to.
    check(unsafe { libc::statvfs(c_path.as_ptr(), &mut stat) }.into()).map_err(refused)?;
    Ok(stat.f_bavail * stat.f_frsize)
}
