//! zstd, bounded: what comes out may be large only in proportion to what went in.

use zstd::bulk::Decompressor;

/// Unpacked bytes per packed byte that are believed; sparse ring pages reach some hundreds.
const LARGEST_RATIO: u64 = 4096;

/// Unpacked bytes that are always believed.
const ALWAYS: u64 = 1 << 20;

/// Unpacks one piece after another: its tables, larger than many a piece, are made once.
#[derive(Default)]
pub(crate) struct Unpacker {
    decompressor: Option<Decompressor<'static>>,
}

impl Unpacker {
    /// Unpacks `packed` into `out` (cleared first), which must come to `expected` bytes.
    pub(crate) fn unpack(&mut self, packed: &[u8], expected: u64, out: &mut Vec<u8>) -> Result<(), String> {
        out.clear();
        let most = (packed.len() as u64).saturating_mul(LARGEST_RATIO).saturating_add(ALWAYS);
        if expected > most {
            return Err(format!("{} packed bytes cannot hold the {expected} they claim", packed.len()));
        }
        let decompressor = match &mut self.decompressor {
            Some(decompressor) => decompressor,
            none => none.insert(Decompressor::new().map_err(|e| format!("zstd: {e}"))?),
        };
        out.reserve(expected as usize);
        decompressor.decompress_to_buffer(packed, out).map_err(|e| format!("zstd: {e}"))?;
        if out.len() as u64 != expected {
            return Err(format!("unpacked to {} bytes instead of {expected}", out.len()));
        }
        Ok(())
    }
}
