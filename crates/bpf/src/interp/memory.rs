//! Memory the program owns: regions with bounds, told apart by the upper half of the address.

use std::collections::BTreeMap;

/// First address of all regions: neither a user nor a kernel address.
const TAG: u64 = 0x0100_0000_0000_0000;

#[derive(Debug)]
struct Region {
    bytes: Vec<u8>,
    /// Stack bytes written so far; none where all count as written.
    written: Option<Vec<bool>>,
}

/// Regions by number.
#[derive(Debug, Default)]
pub struct Memory {
    regions: BTreeMap<u32, Region>,
    next: u32,
}

impl Memory {
    /// A zeroed region; `initialised` is false for stacks.
    pub(super) fn add(&mut self, size: usize, initialised: bool) -> u32 {
        self.next += 1;
        let written = (!initialised).then(|| vec![false; size]);
        self.regions.insert(self.next, Region { bytes: vec![0; size], written });
        self.next
    }

    pub(super) fn remove(&mut self, region: u32) {
        self.regions.remove(&region);
    }

    pub(super) fn fill(&mut self, region: u32, bytes: &[u8]) {
        self.write_at(region, 0, bytes);
    }

    pub(super) fn write_at(&mut self, region: u32, offset: usize, bytes: &[u8]) {
        if let Some(found) = self.regions.get_mut(&region)
            && let Some(room) = found.bytes.get_mut(offset..offset + bytes.len())
        {
            room.copy_from_slice(bytes);
        }
    }

    pub(super) fn bytes(&self, region: u32) -> &[u8] {
        self.regions.get(&region).map_or(&[], |found| &found.bytes)
    }

    /// The address of a region's first byte. Offsets may be negative by arithmetic, so each region has
    /// room before it.
    pub(super) fn address(&self, region: u32) -> u64 {
        TAG + (u64::from(region) << 32) + (1 << 31)
    }

    pub(super) fn owns(address: u64) -> bool {
        address >> 56 == TAG >> 56
    }

    fn place(&self, address: u64) -> Option<(u32, usize)> {
        let inner = address.checked_sub(TAG)?;
        let region = u32::try_from(inner >> 32).ok()?;
        let offset = (inner & 0xffff_ffff).checked_sub(1 << 31)?;
        Some((region, usize::try_from(offset).ok()?))
    }

    pub(super) fn read(&self, address: u64, size: u64) -> Result<&[u8], String> {
        let wrong = || format!("read of {size} bytes at {address:#x} outside of the program's memory");
        let (number, offset) = self.place(address).ok_or_else(wrong)?;
        let region = self.regions.get(&number).ok_or_else(wrong)?;
        let end = offset.checked_add(usize::try_from(size).map_err(|_| wrong())?).ok_or_else(wrong)?;
        let bytes = region.bytes.get(offset..end).ok_or_else(|| {
            format!("read of {size} bytes at offset {offset} of a region of {} bytes", region.bytes.len())
        })?;
        if let Some(written) = &region.written
            && written[offset..end].contains(&false)
        {
            return Err(format!("read of uninitialised stack, {size} bytes at {}", offset as i64 - 512));
        }
        Ok(bytes)
    }

    pub(super) fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), String> {
        let wrong =
            || format!("write of {} bytes at {address:#x} outside of the program's memory", bytes.len());
        let (number, offset) = self.place(address).ok_or_else(wrong)?;
        let region = self.regions.get_mut(&number).ok_or_else(wrong)?;
        let end = offset.checked_add(bytes.len()).ok_or_else(wrong)?;
        let size = region.bytes.len();
        let room = region.bytes.get_mut(offset..end).ok_or_else(|| {
            format!("write of {} bytes at offset {offset} of a region of {size} bytes", bytes.len())
        })?;
        room.copy_from_slice(bytes);
        if let Some(written) = &mut region.written {
            written[offset..end].fill(true);
        }
        Ok(())
    }
}
