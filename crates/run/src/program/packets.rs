//! Packets of `skboutput` as pcap files with nanosecond times.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const LINKTYPE_ETHERNET: u32 = 1;
const LARGEST_PACKET: u32 = 262_144;

/// Open packet files by path.
#[derive(Debug, Default)]
pub struct Packets {
    files: HashMap<String, BufWriter<File>>,
}

impl Packets {
    /// Appends a packet; the file is made anew with the first.
    pub fn write(&mut self, path: &str, wall_nanoseconds: u64, packet: &[u8]) -> io::Result<()> {
        if !self.files.contains_key(path) {
            let mut file = BufWriter::new(File::create(path)?);
            for word in [MAGIC_NANOSECONDS, 2 | 4 << 16, 0, 0, LARGEST_PACKET, LINKTYPE_ETHERNET] {
                file.write_all(&word.to_le_bytes())?;
            }
            self.files.insert(path.to_owned(), file);
        }
        let Some(file) = self.files.get_mut(path) else { return Ok(()) };
        let (seconds, nanoseconds) = (wall_nanoseconds / 1_000_000_000, wall_nanoseconds % 1_000_000_000);
        for word in [seconds as u32, nanoseconds as u32, packet.len() as u32, packet.len() as u32] {
            file.write_all(&word.to_le_bytes())?;
        }
        file.write_all(packet)
    }

    /// Everything leaves the process now.
    pub fn flush(&mut self) -> io::Result<()> {
        self.files.values_mut().try_for_each(Write::flush)
    }
}
