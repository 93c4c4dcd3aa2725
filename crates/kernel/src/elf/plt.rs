//! The stubs through which a program calls functions of libraries: `puts@plt`.

use std::collections::HashMap;

use super::file::{EM_X86_64, ElfFile, u32_at, u64_at};
use super::symbols::{FoundSymbol, SymbolKind};

const RELOCATION: usize = 24;
const R_X86_64_GLOB_DAT: u32 = 6;
const R_X86_64_JUMP_SLOT: u32 = 7;

impl ElfFile {
    /// The stubs of `.plt`, `.plt.sec` and `.plt.got`. A stub is known by the slot that it jumps through, and
    /// the slot by its relocation: the order of stubs is the linker's business. x86-64.
    pub fn each_stub(&self, each: &mut dyn FnMut(FoundSymbol<'_>)) {
        if self.machine() != EM_X86_64 {
            return;
        }
        let names = self.dynamic_names();
        let mut slots: HashMap<u64, &str> = HashMap::new();
        for table in [".rela.plt", ".rela.dyn"] {
            let rows = self.section_by_name(table).unwrap_or_default();
            for row in rows.chunks_exact(RELOCATION) {
                let (slot, kind, symbol) = (u64_at(row, 0), u32_at(row, 8), u32_at(row, 12));
                if matches!(kind, R_X86_64_GLOB_DAT | R_X86_64_JUMP_SLOT)
                    && let Some(name) = names.get(symbol as usize).filter(|name| !name.is_empty())
                {
                    slots.insert(slot, name);
                }
            }
        }
        if slots.is_empty() {
            return;
        }
        for (section, stub) in [(".plt.sec", 16), (".plt", 16), (".plt.got", 8)] {
            let Some(place) = self.section(section).cloned() else { continue };
            let code = self.section_bytes(&place).unwrap_or_default();
            // `.plt.got` with branch protection has stubs of 16 bytes.
            let stub = if stub == 8 && code.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) { 16 } else { stub };
            for (number, code) in code.chunks_exact(stub).enumerate() {
                let address = place.address + (number * stub) as u64;
                let Some(name) = slot_of(code, address).and_then(|slot| slots.get(&slot)) else { continue };
                let Some(file_offset) = self.code_offset_of(address) else { continue };
                let name = format!("{name}@plt");
                let kind = SymbolKind::Function;
                each(FoundSymbol { name: &name, kind, address, size: stub as u64, file_offset });
            }
        }
    }
}

/// Where `jmp *slot(%rip)` finds its target.
fn slot_of(code: &[u8], address: u64) -> Option<u64> {
    let jump = code.windows(6).position(|bytes| bytes[..2] == [0xff, 0x25])?;
    let distance = u32_at(code, jump + 2) as i32;
    Some((address + jump as u64 + 6).wrapping_add_signed(distance.into()))
}
