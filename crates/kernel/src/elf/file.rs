//! Headers, segments and sections of a 64-bit little-endian ELF file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NotElf {
    /// It cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// It is something else, or damaged.
    #[error("{} is not a usable ELF file: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: &'static str,
    },
}

/// A part of the file that is loaded into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) kind: u32,
    pub(super) executable: bool,
    pub(super) offset: u64,
    pub(super) address: u64,
    pub(super) file_size: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) name: u32,
    pub(super) kind: u32,
    pub(super) address: u64,
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) link: u32,
    /// `SHF_COMPRESSED`: a header that says how, then the compressed bytes.
    compressed: bool,
}

/// An open ELF file.
#[derive(Debug)]
pub struct ElfFile {
    path: PathBuf,
    /// Where its separate debug files are looked for: the process's own root.
    pub(super) root: PathBuf,
    content: Content,
    size: u64,
    machine: u16,
    pub(super) segments: Vec<Segment>,
    pub(super) sections: Vec<Section>,
    names: Vec<u8>,
}

#[derive(Debug)]
enum Content {
    File(File),
    Bytes(Vec<u8>),
}

/// [`ElfFile::machine`] of x86-64.
pub const EM_X86_64: u16 = 62;
/// [`ElfFile::machine`] of aarch64.
pub const EM_AARCH64: u16 = 183;
const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const SECTION_HEADER: usize = 64;
const PT_LOAD: u32 = 1;
/// A section larger than this is not read whole.
const LARGEST_SECTION: u64 = 1 << 30;

impl ElfFile {
    /// Reads the headers.
    pub fn open(path: impl AsRef<Path>) -> Result<ElfFile, NotElf> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|error| NotElf::Unreadable { path: path.to_owned(), error })?;
        ElfFile::from_file(file, path, Path::new("/"))
    }

    /// The same of a file that is open already. `path` is its name below `root`, the root directory of the
    /// process that has it mapped.
    pub fn from_file(file: File, path: &Path, root: &Path) -> Result<ElfFile, NotElf> {
        let metadata =
            file.metadata().map_err(|error| NotElf::Unreadable { path: path.to_owned(), error })?;
        ElfFile::parse(Content::File(file), metadata.len(), path, root)
    }

    /// The same of an image in memory.
    pub fn from_bytes(bytes: Vec<u8>, path: &Path) -> Result<ElfFile, NotElf> {
        let size = bytes.len() as u64;
        ElfFile::parse(Content::Bytes(bytes), size, path, Path::new("/"))
    }

    fn parse(content: Content, size: u64, path: &Path, root: &Path) -> Result<ElfFile, NotElf> {
        let mut elf = ElfFile {
            path: path.to_owned(),
            root: root.to_owned(),
            content,
            size,
            machine: 0,
            segments: vec![],
            sections: vec![],
            names: vec![],
        };
        let header = elf.bytes(0, HEADER as u64).map_err(|_| elf.damaged("shorter than a header"))?;
        if header[..4] != *b"\x7fELF" {
            return Err(elf.damaged("no ELF magic number"));
        }
        if header[4..6] != [2, 1] {
            return Err(elf.damaged("not 64-bit little-endian"));
        }
        elf.machine = u16_at(&header, 18);
        let (programs, sections) = (u64_at(&header, 32), u64_at(&header, 40));
        let (program_size, program_count) = (u16_at(&header, 54), u16_at(&header, 56));
        let (section_size, section_count, name_index) =
            (u16_at(&header, 58), u16_at(&header, 60), u16_at(&header, 62));
        if program_count > 0 && usize::from(program_size) != PROGRAM_HEADER {
            return Err(elf.damaged("segments of an unknown size"));
        }
        let table = elf
            .bytes(programs, u64::from(program_count) * PROGRAM_HEADER as u64)
            .map_err(|_| elf.damaged("the segment table lies beyond the end"))?;
        elf.segments = table.chunks_exact(PROGRAM_HEADER).map(Segment::parse).collect();
        // Section tables are often stripped or damaged; what is loaded does not need them.
        if usize::from(section_size) == SECTION_HEADER
            && let Ok(table) = elf.bytes(sections, u64::from(section_count) * SECTION_HEADER as u64)
        {
            elf.sections = table.chunks_exact(SECTION_HEADER).map(Section::parse).collect();
        }
        if let Some(section) = elf.sections.get(usize::from(name_index)).cloned() {
            elf.names = elf.section_bytes(&section).unwrap_or_default();
        }
        Ok(elf)
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The offset in the file of an address, if it lies in a segment that is loaded from the file.
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        self.loaded().find_map(|segment| segment.offset_of(address))
    }

    /// The same, only for code.
    pub fn code_offset_of(&self, address: u64) -> Option<u64> {
        self.loaded().filter(|segment| segment.executable).find_map(|segment| segment.offset_of(address))
    }

    /// Whether a file offset lies in code.
    pub fn is_code(&self, offset: u64) -> bool {
        self.loaded().any(|segment| {
            segment.executable && offset >= segment.offset && offset - segment.offset < segment.file_size
        })
    }

    /// `EM_*`: whose instructions it holds.
    pub fn machine(&self) -> u16 {
        self.machine
    }

    /// Offsets in the file that hold code.
    pub fn code_ranges(&self) -> Vec<std::ops::Range<u64>> {
        let code = self.loaded().filter(|segment| segment.executable);
        code.map(|segment| segment.offset..segment.offset.saturating_add(segment.file_size)).collect()
    }

    fn loaded(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.kind == PT_LOAD)
    }

    pub(super) fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| self.section_name(section) == name.as_bytes())
    }

    /// The bytes of a section by its name.
    pub fn section_by_name(&self, name: &str) -> Option<Vec<u8>> {
        self.section_bytes(self.section(name)?)
    }

    fn section_name(&self, section: &Section) -> &[u8] {
        c_string(&self.names, section.name as usize)
    }

    pub(super) fn section_bytes(&self, section: &Section) -> Option<Vec<u8>> {
        const NO_BITS: u32 = 8;
        if section.kind == NO_BITS {
            return None;
        }
        let bytes = self.bytes(section.offset, section.size).ok()?;
        if section.compressed { inflated(&bytes) } else { Some(bytes) }
    }

    /// Bytes of the file, checked against its size before anything is allocated.
    pub(super) fn bytes(&self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        let end = offset.checked_add(length);
        if length > LARGEST_SECTION || end.is_none_or(|end| end > self.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match &self.content {
            Content::File(file) => {
                let mut bytes = vec![0u8; length as usize];
                file.read_exact_at(&mut bytes, offset)?;
                Ok(bytes)
            }
            Content::Bytes(all) => Ok(all[offset as usize..][..length as usize].to_vec()),
        }
    }

    /// The id that the linker gave the build, as bytes.
    pub fn build_id(&self) -> Option<Vec<u8>> {
        const GNU_BUILD_ID: u32 = 3;
        let notes = self.section_by_name(".note.gnu.build-id")?;
        notes_of(&notes)
            .find(|note| note.name == b"GNU" && note.kind == GNU_BUILD_ID)
            .map(|note| note.content.to_vec())
    }

    fn damaged(&self, why: &'static str) -> NotElf {
        NotElf::Damaged { path: self.path.clone(), why }
    }
}

/// The content of a compressed section (`Elf64_Chdr`): zlib; others are not read.
fn inflated(bytes: &[u8]) -> Option<Vec<u8>> {
    const ZLIB: u32 = 1;
    let head = bytes.get(..24)?;
    let size = u64_at(head, 8);
    if u32_at(head, 0) != ZLIB || size > LARGEST_SECTION {
        return None;
    }
    miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(&bytes[24..], size as usize).ok()
}

impl Segment {
    fn parse(bytes: &[u8]) -> Segment {
        Segment {
            kind: u32_at(bytes, 0),
            executable: u32_at(bytes, 4) & 1 != 0,
            offset: u64_at(bytes, 8),
            address: u64_at(bytes, 16),
            file_size: u64_at(bytes, 32),
        }
    }

    fn offset_of(&self, address: u64) -> Option<u64> {
        let distance = address.checked_sub(self.address)?;
        if distance >= self.file_size { None } else { self.offset.checked_add(distance) }
    }
}

impl Section {
    fn parse(bytes: &[u8]) -> Section {
        Section {
            name: u32_at(bytes, 0),
            kind: u32_at(bytes, 4),
            compressed: u64_at(bytes, 8) & 0x800 != 0,
            address: u64_at(bytes, 16),
            offset: u64_at(bytes, 24),
            size: u64_at(bytes, 32),
            link: u32_at(bytes, 40),
        }
    }
}

/// A note: who wrote it, of which kind, what it says.
pub(super) struct Note<'a> {
    pub(super) name: &'a [u8],
    pub(super) kind: u32,
    pub(super) content: &'a [u8],
}

/// The notes of a note section, up to the first that does not fit.
pub(super) fn notes_of(mut bytes: &[u8]) -> impl Iterator<Item = Note<'_>> {
    std::iter::from_fn(move || {
        let head = bytes.get(..12)?;
        let (name_size, content_size) = (u32_at(head, 0) as usize, u32_at(head, 4) as usize);
        let name_end = 12usize.checked_add(name_size)?;
        let content_start = name_end.checked_next_multiple_of(4)?;
        let content_end = content_start.checked_add(content_size)?;
        let name = bytes.get(12..name_end)?;
        let content = bytes.get(content_start..content_end)?;
        let note = Note { name: name.strip_suffix(b"\0").unwrap_or(name), kind: u32_at(head, 8), content };
        bytes = bytes.get(content_end.next_multiple_of(4)..).unwrap_or(&[]);
        Some(note)
    })
}

/// The bytes up to the NUL from `offset` on; empty beyond the end.
pub(super) fn c_string(bytes: &[u8], offset: usize) -> &[u8] {
    let bytes = bytes.get(offset..).unwrap_or(&[]);
    &bytes[..bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len())]
}

/// A number at a place that is known to be there.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// A number at a place that is known to be there.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

/// A number at a place that is known to be there.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
