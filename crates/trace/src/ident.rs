//! Who and where: CPUs, threads and their names.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// A logical CPU number as the kernel counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cpu(pub u32);

/// A thread number (the kernel's `pid`). 0 is the idle thread of some CPU; numbers
/// are reused, so a thread over time is a [`ThreadKey`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tid(pub i32);

impl Tid {
    /// The idle thread ("swapper"), one per CPU.
    pub const IDLE: Tid = Tid(0);
}

/// One thread's life: its number and how often that number had been taken before
/// within the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ThreadKey {
    /// The thread's number.
    pub tid: Tid,
    /// 0 for the first thread seen with this number, 1 for the next, …
    pub generation: u32,
}

/// A thread's name as the kernel holds it: up to 15 bytes and NULs, any bytes
/// (spaces, `]`, `==>` and invalid UTF-8 occur). Bytes after the first NUL are
/// cleared, so equal names compare equal.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Comm([u8; 16]);

impl Comm {
    /// From bytes up to the first NUL; more than 15 bytes are cut as the kernel does.
    pub fn new(bytes: &[u8]) -> Comm {
        let mut comm = [0; 16];
        let length = bytes.iter().take(15).position(|&b| b == 0).unwrap_or(bytes.len().min(15));
        comm[..length].copy_from_slice(&bytes[..length]);
        Comm(comm)
    }

    /// From the fixed array of an event record. Branch-free up to the NUL search, since
    /// two of these are read for each context switch.
    pub fn from_array(bytes: [u8; 16]) -> Comm {
        let word = u128::from_le_bytes(bytes);
        // The lowest zero byte: the classic "has zero" trick, exact for the lowest one.
        const ONES: u128 = u128::from_le_bytes([1; 16]);
        const HIGHS: u128 = u128::from_le_bytes([0x80; 16]);
        let zeros = word.wrapping_sub(ONES) & !word & HIGHS;
        let length = (zeros.trailing_zeros() / 8).min(15);
        let mask = (1u128 << (length * 8)) - 1;
        Comm((word & mask).to_le_bytes())
    }

    /// Whether this is the name in an event's array, by a comparison alone. `false` says little:
    /// behind the NUL of the array may be remains of another name.
    #[inline]
    pub fn is_array(&self, bytes: &[u8; 16]) -> bool {
        self.0 == *bytes
    }

    /// The name's bytes, without NULs.
    pub fn as_bytes(&self) -> &[u8] {
        let length = self.0.iter().position(|&b| b == 0).unwrap_or(16);
        &self.0[..length]
    }

    /// Whether the name is empty, as it is where a trace did not carry one.
    pub fn is_empty(&self) -> bool {
        self.0[0] == 0
    }
}

/// A thread's name where it lies in a record: mostly it is the one that is known already.
#[derive(Clone, Copy, Debug)]
pub enum RecordedComm<'r> {
    /// In an array, behind whose first NUL anything may be.
    Array(&'r [u8; 16]),
    /// Bytes without NUL.
    Text(&'r [u8]),
}

impl RecordedComm<'_> {
    /// Whether it is this name for certain.
    #[inline]
    pub fn is(&self, comm: &Comm) -> bool {
        matches!(self, RecordedComm::Array(bytes) if comm.is_array(bytes))
    }

    /// The name.
    pub fn comm(&self) -> Comm {
        match self {
            RecordedComm::Array(bytes) => Comm::from_array(**bytes),
            RecordedComm::Text(bytes) => Comm::new(bytes),
        }
    }
}

impl fmt::Display for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(self.as_bytes()))
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.as_bytes()))
    }
}

impl Serialize for Comm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_making_a_name_agree() {
        for name in [
            &b""[..],
            b"a",
            b"kworker/0:1",
            b"a b] ==> c",
            b"123456789012345",
            b"1234567890123456",
            b"x\0junk after it",
            b"\x01\0\x01\x80\xff",
        ] {
            let mut array = [0; 16];
            let n = name.len().min(16);
            array[..n].copy_from_slice(&name[..n]);
            assert_eq!(Comm::from_array(array), Comm::new(name), "{name:?}");
        }
        assert_eq!(Comm::new(b"a b] ==> c").to_string(), "a b] ==> c");
    }
}
