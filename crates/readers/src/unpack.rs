//! zstd, bounded: what comes out may be large only in proportion to what went in.

use std::io::Read;

/// Unpacked bytes per packed byte that are believed; sparse ring pages reach some hundreds.
const LARGEST_RATIO: u64 = 4096;

/// Unpacked bytes that are always believed.
const ALWAYS: u64 = 1 << 20;

/// Unpacks `packed` into `out` (cleared first), which must come to `expected` bytes.
pub(crate) fn unpack(packed: &[u8], expected: u64, out: &mut Vec<u8>) -> Result<(), String> {
    out.clear();
    let most = (packed.len() as u64).saturating_mul(LARGEST_RATIO).saturating_add(ALWAYS);
    if expected > most {
        return Err(format!("{} packed bytes cannot hold the {expected} they claim", packed.len()));
    }
    let decoder = zstd::stream::read::Decoder::with_buffer(packed).map_err(|e| format!("zstd: {e}"))?;
    // One byte more than expected, so that too much is seen.
    decoder.take(expected + 1).read_to_end(out).map_err(|e| format!("zstd: {e}"))?;
    if out.len() as u64 != expected {
        return Err(format!("unpacked to {} bytes instead of {expected}", out.len()));
    }
    Ok(())
}
