//! Go's own table of functions (`.gopclntab`), which also stripped programs have: the runtime needs it.
//! Layouts by magic number: Go 1.2, 1.16, 1.18 and 1.20 (src/debug/gosym/pclntab.go of Go).

use super::file::{ElfFile, c_string, u32_at, u64_at};
use super::symbols::{FoundSymbol, SymbolKind};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    /// Names and functions by offsets from the table's start; addresses of 8 bytes.
    Go12,
    /// The same with a part of its own for names and one for functions.
    Go116,
    /// Addresses of 4 bytes, counted from the start of the text.
    Go118,
}

/// A function: its address, and the next one's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Function<'a> {
    name: &'a str,
    start: u64,
    end: u64,
}

impl ElfFile {
    /// The functions of a Go program.
    pub(super) fn go_functions(&self, each: &mut dyn FnMut(FoundSymbol<'_>)) {
        let names = [".gopclntab", ".data.rel.ro.gopclntab"];
        let Some(table) = names.iter().find_map(|name| self.section_by_name(name)) else { return };
        let text = self.section(".text").map_or(0, |section| section.address);
        functions(&table, text, &mut |function| {
            if let Some(file_offset) = self.code_offset_of(function.start) {
                each(FoundSymbol {
                    name: function.name,
                    kind: SymbolKind::Function,
                    address: function.start,
                    size: function.end - function.start,
                    file_offset,
                });
            }
        });
    }
}

/// `text` is where the text begins if the table does not say (position-independent programs). None where
/// the table is of another kind or damaged.
fn functions(table: &[u8], text: u64, each: &mut dyn FnMut(Function<'_>)) -> Option<()> {
    let head = table.get(..8)?;
    let layout = match u32_at(head, 0) {
        0xffff_fffb => Layout::Go12,
        0xffff_fffa => Layout::Go116,
        0xffff_fff0 | 0xffff_fff1 => Layout::Go118,
        _ => return None,
    };
    // Two zeros, the smallest instruction, the size of an address.
    if head[4..6] != [0, 0] || head[7] != 8 {
        return None;
    }
    let word = |number: usize| table.get(8 + 8 * number..16 + 8 * number).map(|bytes| u64_at(bytes, 0));
    let part = |number: usize| word(number).and_then(|offset| table.get(usize::try_from(offset).ok()?..));
    let count = usize::try_from(word(0)?).ok()?;
    let (text, names, functions) = match layout {
        Layout::Go12 => (0, table, table.get(16..)?),
        Layout::Go116 => (0, part(2)?, part(6)?),
        Layout::Go118 => {
            let stated = word(2)?;
            (if stated == 0 { text } else { stated }, part(3)?, part(7)?)
        }
    };
    let size = if layout == Layout::Go118 { 4 } else { 8 };
    let number = |at: usize| -> Option<u64> {
        let bytes = functions.get(at..at.checked_add(size)?)?;
        Some(if size == 4 { u32_at(bytes, 0).into() } else { u64_at(bytes, 0) })
    };
    // Of Go 1.2 functions lie by offsets from the start of the whole table.
    let records = if layout == Layout::Go12 { table } else { functions };
    for row in 0..count {
        let at = row.checked_mul(2 * size)?;
        let (start, record, end) = (number(at)?, number(at + size)?, number(at + 2 * size)?);
        // The entry's address stands first, of 4 bytes from Go 1.18 on; then the name.
        let name_at = usize::try_from(record).ok()?.checked_add(size)?;
        let name = u32_at(records.get(name_at..name_at.checked_add(4)?)?, 0) as usize;
        let name = std::str::from_utf8(c_string(names, name)).ok()?;
        if end > start && !name.is_empty() {
            each(Function { name, start: text.checked_add(start)?, end: text.checked_add(end)? });
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two functions, `main.main` at 0x1000…0x1040 and `main.leaf` at 0x1040…0x1060.
    fn table(magic: u32, text: u64) -> Vec<u8> {
        let small = magic == 0xffff_fff0 || magic == 0xffff_fff1;
        let size = if small { 4 } else { 8 };
        let names = b"\0main.main\0main.leaf\0".to_vec();
        let base = if small { 0x1000 } else { 0 };
        let put = |bytes: &mut Vec<u8>, number: u64| bytes.extend(&number.to_le_bytes()[..size]);
        let rows = 5 * size;
        let head = match magic {
            0xffff_fffb => 16,
            0xffff_fffa => 8 + 7 * 8,
            _ => 8 + 8 * 8,
        };
        // Parts: head, names, rows, records; Go 1.2: head, rows, records, names.
        let old = magic == 0xffff_fffb;
        let (names_at, rows_at) =
            if old { (head + rows + 2 * (size + 4), head) } else { (head, head + names.len()) };
        let records_base = if old { rows_at } else { 0 };
        let (mut functions, mut records) = (Vec::new(), Vec::new());
        for (number, start) in [0x1000u64, 0x1040].into_iter().enumerate() {
            put(&mut functions, start - base);
            put(&mut functions, (records_base + rows + number * (size + 4)) as u64);
            put(&mut records, start - base);
            let name = 1 + 10 * number + if old { names_at } else { 0 };
            records.extend((name as u32).to_le_bytes());
        }
        put(&mut functions, 0x1060 - base);
        let mut bytes = magic.to_le_bytes().to_vec();
        bytes.extend([0, 0, 1, 8]);
        let words: Vec<u64> = match magic {
            0xffff_fffb => vec![2],
            0xffff_fffa => vec![2, 1, names_at as u64, 0, 0, 0, rows_at as u64],
            _ => vec![2, 1, text, names_at as u64, 0, 0, 0, rows_at as u64],
        };
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        let parts = if old { [functions, records, names] } else { [names, functions, records] };
        parts.iter().for_each(|part| bytes.extend(part));
        bytes
    }

    fn read(table: &[u8], text: u64) -> Vec<(String, u64, u64)> {
        let mut found = Vec::new();
        functions(table, text, &mut |f| found.push((f.name.to_owned(), f.start, f.end)));
        found
    }

    #[test]
    fn every_layout_is_read() {
        let expected = [("main.main".to_owned(), 0x1000, 0x1040), ("main.leaf".to_owned(), 0x1040, 0x1060)];
        for magic in [0xffff_fffb, 0xffff_fffa, 0xffff_fff0, 0xffff_fff1] {
            assert_eq!(read(&table(magic, 0x1000), 7), expected, "{magic:#x}");
        }
        // A position-independent program is told where its text begins.
        assert_eq!(read(&table(0xffff_fff1, 0), 0x1000), expected);
    }

    #[test]
    fn damaged_tables_end_early() {
        for magic in [0xffff_fffb, 0xffff_fffa, 0xffff_fff0, 0xffff_fff1] {
            let whole = table(magic, 0x1000);
            for at in 0..whole.len() {
                read(&whole[..at], 0);
                for damage in [0x7f, 0x80, 0xff] {
                    let mut bytes = whole.clone();
                    bytes[at] = damage;
                    read(&bytes, 0);
                }
            }
        }
    }
}
