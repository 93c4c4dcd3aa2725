//! Where the bytes of a field lie in a record.

use super::{Field, FieldShape};
use crate::Endian;

/// Where a field's bytes lie, dynamic ones followed.
#[derive(Clone, Copy, Debug)]
pub struct BytesPlan {
    offset: u32,
    size: u32,
    shape: FieldShape,
    swap: bool,
}

impl BytesPlan {
    /// Plans to read a field's bytes, whatever they mean.
    pub fn new(field: &Field, endian: Endian) -> BytesPlan {
        let swap = (endian == Endian::Big) != cfg!(target_endian = "big");
        BytesPlan { offset: field.offset, size: field.size, shape: field.shape, swap }
    }

    /// The field's bytes in `record`, dynamic ones followed to where they lie.
    pub fn bytes<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let start = self.offset as usize;
        match self.shape {
            FieldShape::Array { length: 0 } => record.get(start..),
            FieldShape::Scalar | FieldShape::Array { .. } => record.get(start..start + self.size as usize),
            FieldShape::DataLoc | FieldShape::RelLoc => {
                let raw = u32::from_ne_bytes(*record.get(start..)?.first_chunk()?);
                let raw = if self.swap { raw.swap_bytes() } else { raw };
                let base = if self.shape == FieldShape::RelLoc { start + 4 } else { 0 };
                let from = base + (raw & 0xffff) as usize;
                record.get(from..from + (raw >> 16) as usize)
            }
        }
    }

    /// The bytes of a field that has exactly 16 in place, as names of threads do.
    #[inline]
    pub fn array16<'a>(&self, record: &'a [u8]) -> Option<&'a [u8; 16]> {
        if self.size != 16 {
            return None;
        }
        record.get(self.offset as usize..)?.first_chunk()
    }

    /// The field's bytes up to the first NUL.
    pub fn text<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let bytes = self.bytes(record)?;
        Some(&bytes[..bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len())])
    }
}
