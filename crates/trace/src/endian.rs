//! Byte order of the machine that wrote the records.

/// Byte order of the machine that wrote the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl Endian {
    /// The byte order of the machine this runs on.
    pub const NATIVE: Endian = if cfg!(target_endian = "big") { Endian::Big } else { Endian::Little };

    /// The unsigned integer in the first `size` (1, 2, 4 or 8) bytes of `bytes`.
    #[inline]
    pub fn unsigned(self, bytes: &[u8], size: usize) -> Option<u64> {
        let bytes = bytes.get(..size)?;
        Some(match (size, self) {
            (1, _) => u64::from(bytes[0]),
            (2, Endian::Little) => u64::from(u16::from_le_bytes(*bytes.first_chunk()?)),
            (2, Endian::Big) => u64::from(u16::from_be_bytes(*bytes.first_chunk()?)),
            (4, Endian::Little) => u64::from(u32::from_le_bytes(*bytes.first_chunk()?)),
            (4, Endian::Big) => u64::from(u32::from_be_bytes(*bytes.first_chunk()?)),
            (8, Endian::Little) => u64::from_le_bytes(*bytes.first_chunk()?),
            (8, Endian::Big) => u64::from_be_bytes(*bytes.first_chunk()?),
            _ => return None,
        })
    }

    /// The same, sign-extended when `signed`.
    #[inline]
    pub fn integer(self, bytes: &[u8], size: usize, signed: bool) -> Option<u64> {
        let value = self.unsigned(bytes, size)?;
        let unused = 64 - 8 * size as u32;
        Some(if signed { (((value << unused) as i64) >> unused) as u64 } else { value })
    }
}
