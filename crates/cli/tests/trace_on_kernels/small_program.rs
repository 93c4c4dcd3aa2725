//! A program of a few instructions, written as an ELF file: functions, a static probe and a word of data whose
//! uses are known. It runs on any x86-64 kernel and needs no compiler.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// Calls `work_a(n)` and `work_b(n)` for n from 50 down to 1, which return n + 1 and n + 2, and writes n to the word
/// at 0x600000 each time. `work_a` is at 0x400120; the first instruction of `work_b` is the static probe
/// `small:tick` with n as its argument.
pub struct SmallProgram {
    path: PathBuf,
}

const BASE: u64 = 0x40_0000;
const DATA: u64 = 0x60_0000;
const CODE: usize = 0x100;
const WORK_A: usize = CODE + 0x20;
const WORK_B: usize = CODE + 0x40;
const NOTE: usize = 0x200;
const SYMBOLS: usize = 0x300;
const NAMES: usize = 0x400;
const SECTION_NAMES: usize = 0x480;
const SECTIONS: usize = 0x500;

impl SmallProgram {
    /// Writes it; `name` keeps tests apart.
    pub fn new(name: &str) -> SmallProgram {
        let path = std::env::temp_dir().join(format!("lotse-{name}-{}", std::process::id()));
        std::fs::write(&path, elf()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        SmallProgram { path }
    }

    /// Where it is.
    pub fn path(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }
}

impl Drop for SmallProgram {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn elf() -> Vec<u8> {
    let mut file = Vec::new();
    let mut at = |offset: usize, bytes: &[u8]| {
        if file.len() < offset + bytes.len() {
            file.resize(offset + bytes.len(), 0);
        }
        file[offset..offset + bytes.len()].copy_from_slice(bytes);
    };
    let code: [&[u8]; 9] = [
        &[0xbb, 50, 0, 0, 0],   //       mov ebx, 50
        &[0x89, 0xdf],          // 05:   mov edi, ebx
        &[0xe8, 0x14, 0, 0, 0], // 07:   call work_a
        &[0xe8, 0x2f, 0, 0, 0], // 0c:   call work_b
        &[0xff, 0xcb],          // 11:   dec ebx
        &[0x75, 0xf0],          // 13:   jnz 05
        &[0x31, 0xff],          // 15:   xor edi, edi
        &[0xb8, 60, 0, 0, 0],   // 17:   mov eax, 60
        &[0x0f, 0x05],          // 1c:   syscall
    ];
    at(CODE, &code.concat());
    at(WORK_A, &[0x90, 0x8d, 0x47, 1, 0xc3]); // nop; lea eax, [rdi + 1]; ret
    let store: &[u8] = &[0x89, 0x3c, 0x25, 0, 0, 0x60, 0]; // mov [0x600000], edi
    at(WORK_B, &[&[0x90], store, &[0x8d, 0x47, 2, 0xc3]].concat());

    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    // The note of a static probe: address, base, semaphore; provider, name, arguments.
    let mut description = words(&[BASE + WORK_B as u64, 0, 0]);
    description.extend(b"small\0tick\x004@%edi\0");
    let header = [8u32, description.len() as u32, 3].map(u32::to_le_bytes).concat();
    let note = [&header[..], b"stapsdt\0", &description[..]].concat();
    at(NOTE, &note);

    let symbol = |name: u32, offset: usize, size: u64| {
        let mut bytes = name.to_le_bytes().to_vec();
        bytes.extend([0x12, 0, 1, 0]); // global function in section 1
        bytes.extend(words(&[BASE + offset as u64, size]));
        bytes
    };
    let symbols = [vec![0; 24], symbol(1, WORK_A, 5), symbol(8, WORK_B, 12), symbol(15, CODE, 0x1e)].concat();
    at(SYMBOLS, &symbols);
    at(NAMES, b"\0work_a\0work_b\0_start\0");
    let section_names = b"\0.text\0.note.stapsdt\0.symtab\0.strtab\0.shstrtab\0";
    at(SECTION_NAMES, section_names);

    let section = |name: u32,
                   kind: u32,
                   flags: u64,
                   address: u64,
                   offset: usize,
                   size: usize,
                   link: (u32, u32),
                   each: u64| {
        let mut bytes = [name, kind].map(u32::to_le_bytes).concat();
        bytes.extend(words(&[flags, address, offset as u64, size as u64]));
        bytes.extend([link.0, link.1].map(u32::to_le_bytes).concat());
        bytes.extend(words(&[if each == 0 { 4 } else { 8 }, each]));
        bytes
    };
    let sections = [
        vec![0; 64],
        section(1, 1, 6, BASE + CODE as u64, CODE, 0x60, (0, 0), 0),
        section(7, 7, 0, 0, NOTE, note.len(), (0, 0), 0),
        section(21, 2, 0, 0, SYMBOLS, symbols.len(), (4, 1), 24),
        section(29, 3, 0, 0, NAMES, 0x20, (0, 0), 0),
        section(37, 3, 0, 0, SECTION_NAMES, section_names.len(), (0, 0), 0),
    ];
    at(SECTIONS, &sections.concat());

    let half = |numbers: &[u16]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let mut head = b"\x7fELF\x02\x01\x01".to_vec();
    head.resize(16, 0);
    head.extend(half(&[2, 62])); // executable, x86-64
    head.extend(1u32.to_le_bytes());
    head.extend(words(&[BASE + CODE as u64, 64, SECTIONS as u64]));
    head.extend(0u32.to_le_bytes());
    head.extend(half(&[64, 56, 2, 64, 6, 5]));
    at(0, &head);
    let segment = |flags: u32, address: u64, file_size: u64, memory_size: u64| {
        let mut bytes = [1u32, flags].map(u32::to_le_bytes).concat();
        bytes.extend(words(&[0, address, address, file_size, memory_size, 0x1000]));
        bytes
    };
    at(64, &[segment(5, BASE, 0x200, 0x200), segment(6, DATA, 0x10, 0x1000)].concat());
    file
}
