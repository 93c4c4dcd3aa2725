//! Static probes: the notes that `sys/sdt.h` leaves in a binary.

use super::file::{ElfFile, c_string, notes_of, u64_at};

/// A static probe. A name may have several places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticProbe {
    /// Who defined it.
    pub provider: String,
    /// Name.
    pub name: String,
    /// Offset of its instruction in the file.
    pub file_offset: u64,
    /// Offset in the file of the counter that has to be above 0 for the probe to fire; 0 for none.
    pub semaphore_offset: u64,
    /// Arguments as the note has them: `-4@%edi 8@-16(%rbp)`.
    pub arguments: String,
}

impl ElfFile {
    /// The static probes, in the order of the file. Those that lie outside of code are left out.
    pub fn static_probes(&self) -> Vec<StaticProbe> {
        const STAPSDT: u32 = 3;
        let Some(notes) = self.section_by_name(".note.stapsdt") else { return vec![] };
        let base_now = self.section(".stapsdt.base").map(|section| section.address);
        let mut probes = Vec::new();
        for note in notes_of(&notes).filter(|note| note.kind == STAPSDT && note.name == b"stapsdt") {
            let Some(texts) = note.content.get(24..) else { continue };
            let (place, base_then, semaphore) =
                (u64_at(note.content, 0), u64_at(note.content, 8), u64_at(note.content, 16));
            // prelink moves addresses and leaves the notes as they were; the base section tells by how much.
            let moved = base_now.filter(|_| base_then != 0).map_or(0, |now| now.wrapping_sub(base_then));
            let Some(file_offset) = self.code_offset_of(place.wrapping_add(moved)) else { continue };
            let semaphore_offset = match semaphore {
                0 => 0,
                address => self.offset_of(address.wrapping_add(moved)).unwrap_or(0),
            };
            let mut at = 0;
            let mut text = || {
                let bytes = c_string(texts, at);
                at += bytes.len() + 1;
                String::from_utf8_lossy(bytes).into_owned()
            };
            let (provider, name, arguments) = (text(), text(), text());
            probes.push(StaticProbe { provider, name, file_offset, semaphore_offset, arguments });
        }
        probes
    }
}
