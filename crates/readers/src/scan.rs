//! Reading numbers, texts and blocks one after another, each bounded by what is there.

use trace::{Endian, SourceError};

use crate::input::{Input, read_into, wrong};

/// A position in an [`Input`], or in bytes unpacked from one.
pub(crate) struct Scan<'a> {
    input: &'a dyn Input,
    pub(crate) endian: Endian,
    /// Position of the next byte.
    pub(crate) at: u64,
    end: u64,
    /// Bytes already read, and where they begin.
    buffer: Vec<u8>,
    buffer_at: u64,
    /// Where errors are reported when the bytes are unpacked ones.
    packed_at: Option<u64>,
}

const READ_AHEAD: u64 = 1 << 16;

impl<'a> Scan<'a> {
    /// The bytes from `start` to `end` (or the input's end).
    pub(crate) fn new(input: &'a dyn Input, endian: Endian, start: u64, end: u64) -> Scan<'a> {
        let end = end.min(input.size());
        Scan { input, endian, at: start, end, buffer: Vec::new(), buffer_at: 0, packed_at: None }
    }

    /// Bytes unpacked from (or read in one piece at) `packed_at` of `input`.
    pub(crate) fn unpacked(input: &'a dyn Input, endian: Endian, bytes: Vec<u8>, packed_at: u64) -> Scan<'a> {
        let end = bytes.len() as u64;
        Scan { input, endian, at: 0, end, buffer: bytes, buffer_at: 0, packed_at: Some(packed_at) }
    }

    /// Bytes left.
    pub(crate) fn left(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }

    /// Position in the file, for messages.
    pub(crate) fn file_offset(&self) -> u64 {
        self.packed_at.unwrap_or(self.at)
    }

    pub(crate) fn error(&self, reason: impl Into<String>) -> SourceError {
        let mut reason = reason.into();
        if self.packed_at.is_some() {
            reason += &format!(" (at byte {} of this section's content)", self.at);
        }
        wrong(self.input, self.file_offset(), reason)
    }

    fn ready(&mut self, length: u64, what: &str) -> Result<&[u8], SourceError> {
        if length > self.left() {
            return Err(self.error(format!("{what} needs {length} bytes and {} are left", self.left())));
        }
        let have = self.at >= self.buffer_at && self.at + length <= self.buffer_at + self.buffer.len() as u64;
        if !have {
            let wanted = length.max(READ_AHEAD).min(self.left());
            self.buffer.clear();
            self.buffer.resize(wanted as usize, 0);
            self.buffer_at = self.at;
            read_into(self.input, self.at, &mut self.buffer, what)?;
        }
        let start = (self.at - self.buffer_at) as usize;
        Ok(&self.buffer[start..start + length as usize])
    }

    pub(crate) fn bytes(&mut self, length: u64, what: &str) -> Result<Vec<u8>, SourceError> {
        let bytes = self.ready(length, what)?.to_vec();
        self.at += length;
        Ok(bytes)
    }

    pub(crate) fn skip(&mut self, length: u64, what: &str) -> Result<(), SourceError> {
        if length > self.left() {
            return Err(self.error(format!("{what} needs {length} bytes and {} are left", self.left())));
        }
        self.at += length;
        Ok(())
    }

    fn integer(&mut self, size: usize, what: &str) -> Result<u64, SourceError> {
        let endian = self.endian;
        let value = endian.unsigned(self.ready(size as u64, what)?, size).unwrap_or(0);
        self.at += size as u64;
        Ok(value)
    }

    pub(crate) fn u8(&mut self, what: &str) -> Result<u8, SourceError> {
        Ok(self.integer(1, what)? as u8)
    }

    pub(crate) fn u16(&mut self, what: &str) -> Result<u16, SourceError> {
        Ok(self.integer(2, what)? as u16)
    }

    pub(crate) fn u32(&mut self, what: &str) -> Result<u32, SourceError> {
        Ok(self.integer(4, what)? as u32)
    }

    pub(crate) fn u64(&mut self, what: &str) -> Result<u64, SourceError> {
        self.integer(8, what)
    }

    /// A text up to its NUL, at most `longest` bytes of it.
    pub(crate) fn text(&mut self, longest: u64, what: &str) -> Result<String, SourceError> {
        let here = self.left().min(longest + 1);
        let bytes = self.ready(here, what)?;
        let Some(end) = bytes.iter().position(|&b| b == 0) else {
            return Err(self.error(format!("{what} does not end within {longest} bytes")));
        };
        let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
        self.at += end as u64 + 1;
        Ok(text)
    }

    /// Takes `expected`, or says what is there instead.
    pub(crate) fn expect(&mut self, expected: &[u8], what: &str) -> Result<(), SourceError> {
        let found = self.ready(expected.len() as u64, what)?.to_vec();
        if found != expected {
            return Err(self.error(format!(
                "expected {what} {:?}, found {:?}",
                String::from_utf8_lossy(expected),
                String::from_utf8_lossy(&found)
            )));
        }
        self.at += expected.len() as u64;
        Ok(())
    }
}
