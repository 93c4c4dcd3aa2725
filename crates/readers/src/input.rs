//! The bytes of a trace file, read in windows so that memory does not grow with the file.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path, sync::Arc};

use trace::SourceError;

/// Bytes that can be read anywhere. Reading rather than mapping: a file that shrinks while
/// it is read gives an error here, where a mapping gives a signal.
pub trait Input: Send + Sync {
    /// What to call it in messages, such as its path.
    fn name(&self) -> &str;
    /// Bytes in all.
    fn size(&self) -> u64;
    /// Reads from `offset` on; fewer bytes than asked only at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

/// A file.
#[derive(Debug)]
pub struct FileInput {
    name: String,
    file: File,
    size: u64,
}

impl FileInput {
    /// Opens `path` for reading.
    pub fn open(path: &Path) -> Result<FileInput, SourceError> {
        let name = path.display().to_string();
        // Before it is opened: opening a named pipe waits for somebody to write.
        let opened = path.metadata().and_then(|meta| {
            if meta.is_file() { File::open(path).map(|file| Some((meta.len(), file))) } else { Ok(None) }
        });
        let reason = match opened {
            Ok(Some((size, file))) => return Ok(FileInput { name, size, file }),
            Ok(None) => {
                "not a regular file; a trace that comes through a pipe needs to be saved first".to_owned()
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => "there is no such file".to_owned(),
            Err(error) => format!("cannot be opened: {error}"),
        };
        Err(SourceError { file: name, offset: 0, reason })
    }
}

impl Input for FileInput {
    fn name(&self) -> &str {
        &self.name
    }
    fn size(&self) -> u64 {
        self.size
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.file.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

/// Bytes in memory, for tests and for what has been unpacked.
#[derive(Clone, Debug)]
pub struct MemoryInput {
    name: String,
    bytes: Arc<[u8]>,
}

impl MemoryInput {
    /// Takes bytes and what to call them.
    pub fn new(name: impl Into<String>, bytes: impl Into<Arc<[u8]>>) -> MemoryInput {
        MemoryInput { name: name.into(), bytes: bytes.into() }
    }
}

impl Input for MemoryInput {
    fn name(&self) -> &str {
        &self.name
    }
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|at| self.bytes.get(at..)).unwrap_or(&[]);
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// Reads `length` bytes at `offset`, or says which part of the file is missing. Allocates
/// no more than the file holds.
pub(crate) fn read_exactly(
    input: &dyn Input,
    offset: u64,
    length: u64,
    what: &str,
) -> Result<Vec<u8>, SourceError> {
    let left = input.size().saturating_sub(offset);
    if length > left {
        return Err(wrong(
            input,
            offset,
            format!("{what} needs {length} bytes and the file has {left} more"),
        ));
    }
    let mut bytes = vec![0; length as usize];
    read_into(input, offset, &mut bytes, what)?;
    Ok(bytes)
}

/// Fills `buffer` from `offset` on.
pub(crate) fn read_into(
    input: &dyn Input,
    offset: u64,
    buffer: &mut [u8],
    what: &str,
) -> Result<(), SourceError> {
    match input.read_at(buffer, offset) {
        Ok(count) if count == buffer.len() => Ok(()),
        Ok(_) => Err(wrong(input, offset, format!("{what} could not be read: the file has become shorter"))),
        Err(error) => Err(wrong(input, offset, format!("{what} could not be read: {error}"))),
    }
}

pub(crate) fn wrong(input: &dyn Input, offset: u64, reason: impl Into<String>) -> SourceError {
    SourceError { file: input.name().to_owned(), offset, reason: reason.into() }
}
