//! Files of the kernel mapped for reading: their contents do not change while this process lives.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;

use crate::ebpf::map::Memory;
use crate::error::Refused;

/// A file's bytes, mapped where the kernel can (BTF files: 6.16), read otherwise.
#[derive(Debug)]
pub struct KernelFile {
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    Mapped(Memory),
    Read(Vec<u8>),
}

impl KernelFile {
    /// Opens a file of sysfs that never changes, such as `/sys/kernel/btf/vmlinux`.
    pub fn open(path: &str) -> Result<KernelFile, Refused> {
        let open = || -> io::Result<KernelFile> {
            let mut file = File::open(path)?;
            let length = file.metadata()?.len() as usize;
            if let Ok(memory) = Memory::map_private(file.as_fd(), length) {
                return Ok(KernelFile { bytes: Bytes::Mapped(memory) });
            }
            let mut bytes = Vec::with_capacity(length + 1);
            file.read_to_end(&mut bytes)?;
            Ok(KernelFile { bytes: Bytes::Read(bytes) })
        };
        open().map_err(|e| Refused::new("read", path, e))
    }
}

impl AsRef<[u8]> for KernelFile {
    fn as_ref(&self) -> &[u8] {
        match &self.bytes {
            // SAFETY: only sysfs files that never change are opened, and the mapping is private: nobody
            // writes to it.
            Bytes::Mapped(memory) => unsafe { memory.bytes(0, memory.len()) },
            Bytes::Read(bytes) => bytes,
        }
    }
}
