//! The functions of one file by place, small: names in one text, rows in one list.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use super::demangle::demangled;
use crate::elf::{ElfFile, SymbolKind};

pub struct FileSymbols {
    /// Sorted by offset in the file, of equal ones the best name last.
    rows: Vec<Row>,
    names: String,
    code: Vec<Range<u64>>,
    pub build_id: Rc<[u8]>,
    /// Names that were asked for, as they are shown.
    shown: RefCell<HashMap<u32, Rc<str>>>,
}

#[derive(Clone, Copy)]
struct Row {
    offset: u64,
    end: u64,
    /// The furthest end of this row and all before it.
    furthest: u64,
    name: u32,
    length: u16,
    sized: bool,
}

impl FileSymbols {
    pub fn read(elf: &ElfFile) -> FileSymbols {
        let (mut rows, mut names) = (Vec::new(), String::new());
        let mut take = |symbol: crate::elf::FoundSymbol<'_>| {
            if symbol.kind != SymbolKind::Function {
                return;
            }
            let (Ok(name), length) =
                (u32::try_from(names.len()), symbol.name.len().min(usize::from(u16::MAX)))
            else {
                return;
            };
            let mut length = length;
            while !symbol.name.is_char_boundary(length) {
                length -= 1;
            }
            names.push_str(&symbol.name[..length]);
            rows.push(Row {
                offset: symbol.file_offset,
                end: symbol.file_offset.saturating_add(symbol.size),
                furthest: 0,
                name,
                length: length as u16,
                sized: symbol.size > 0,
            });
        };
        elf.each_symbol(&mut take);
        elf.each_stub(&mut take);
        let mut file = FileSymbols {
            rows,
            names,
            code: elf.code_ranges(),
            build_id: elf.build_id().unwrap_or_default().into(),
            shown: RefCell::default(),
        };
        file.arrange();
        file
    }

    fn arrange(&mut self) {
        let mut rows = std::mem::take(&mut self.rows);
        let name = |row: &Row| &self.names[row.name as usize..][..usize::from(row.length)];
        // Aliases begin at the same place: prefer one that says its size, then the shortest name.
        let rank = |row: &Row| {
            let (name, length) = (name(row), usize::from(row.length));
            (!row.sized, name.starts_with('_'), length)
        };
        rows.sort_by(|a, b| {
            let by_rank = rank(b).cmp(&rank(a));
            a.offset.cmp(&b.offset).then(by_rank).then_with(|| name(b).cmp(name(a)))
        });
        // The same function stands in the full and in the dynamic table.
        rows.dedup_by(|a, b| a.offset == b.offset && a.end == b.end && name(a) == name(b));
        // Code without a size (assembly) reaches to the next symbol.
        let mut next = u64::MAX;
        for at in (0..rows.len()).rev() {
            if !rows[at].sized {
                rows[at].end = next;
            }
            if at > 0 && rows[at - 1].offset != rows[at].offset {
                next = rows[at].offset;
            }
        }
        let mut furthest = 0;
        for row in &mut rows {
            furthest = row.end.max(furthest);
            row.furthest = furthest;
        }
        rows.shrink_to_fit();
        self.names.shrink_to_fit();
        self.rows = rows;
    }

    /// About how much memory it takes.
    pub fn bytes(&self) -> usize {
        self.rows.len() * size_of::<Row>() + self.names.len()
    }

    /// The function at an offset in the file: of those that cover it the one that begins last.
    pub fn function_at(&self, offset: u64, demangle: bool) -> Option<(Rc<str>, u64)> {
        if !self.code.iter().any(|range| range.contains(&offset)) {
            return None;
        }
        let mut at = self.rows.partition_point(|row| row.offset <= offset);
        while at > 0 {
            at -= 1;
            let row = &self.rows[at];
            if row.furthest <= offset {
                return None;
            }
            if offset < row.end {
                return Some((self.shown(at, demangle), offset - row.offset));
            }
        }
        None
    }

    fn shown(&self, at: usize, demangle: bool) -> Rc<str> {
        let row = &self.rows[at];
        let name = || {
            let name = &self.names[row.name as usize..][..usize::from(row.length)];
            if demangle { demangled(name).into() } else { Rc::from(name) }
        };
        self.shown.borrow_mut().entry(at as u32).or_insert_with(name).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(symbols: &[(&str, u64, u64)]) -> FileSymbols {
        let mut file = FileSymbols {
            rows: vec![],
            names: String::new(),
            code: std::iter::once(0..0x10_000).collect(),
            build_id: Rc::default(),
            shown: RefCell::default(),
        };
        for (name, offset, size) in symbols {
            let at = file.names.len() as u32;
            file.names.push_str(name);
            let (end, length) = (offset + size, name.len() as u16);
            file.rows.push(Row { offset: *offset, end, furthest: 0, name: at, length, sized: *size > 0 });
        }
        file.arrange();
        file
    }

    #[test]
    fn the_function_that_covers_an_address_is_its_function() {
        let file = file(&[
            ("outer", 0x100, 0x100),
            ("inner", 0x120, 0x10),
            ("_alias", 0x100, 0x100),
            ("asm", 0x300, 0),
        ]);
        let at =
            |offset| file.function_at(offset, false).map(|(name, distance)| (name.to_string(), distance));
        assert_eq!(at(0x100), Some(("outer".into(), 0)));
        assert_eq!(at(0x125), Some(("inner".into(), 5)));
        assert_eq!(at(0x150), Some(("outer".into(), 0x50)), "behind a function that lies within");
        assert_eq!(at(0x200), None, "between functions is nobody");
        assert_eq!(at(0x345), Some(("asm".into(), 0x45)), "code without a size reaches on");
        assert_eq!(at(0x10_000), None, "outside of code");
        assert_eq!(at(0), None);
    }
}
