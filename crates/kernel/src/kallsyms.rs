//! The kernel's symbols out of /proc/kallsyms. The kernel needs tens of milliseconds to print them, so
//! they are read once, when the first is asked for.

use crate::error::Refused;

/// Kernel symbols by address and by name.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    /// Sorted by address.
    rows: Vec<Row>,
    /// All names, one after the other.
    names: String,
    modules: Vec<String>,
    /// True if the kernel shows every address as 0 (kptr_restrict, or no CAP_SYSLOG).
    pub hidden: bool,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    address: u64,
    name: u32,
    length: u16,
    /// Index in `modules` plus 1; 0: the kernel itself.
    module: u16,
    code: bool,
}

/// The last function of a module reaches no further.
const LARGEST_LAST_FUNCTION: u64 = 1 << 16;

/// A symbol found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelSymbol<'a> {
    /// Name.
    pub name: &'a str,
    /// Where it begins.
    pub address: u64,
    /// Module, none for the kernel itself.
    pub module: Option<&'a str>,
    /// Whether it is code.
    pub code: bool,
}

impl KernelSymbols {
    /// Reads /proc/kallsyms.
    pub fn read() -> Result<KernelSymbols, Refused> {
        let path = "/proc/kallsyms";
        let text = std::fs::read(path).map_err(|e| Refused::new("read", path, e))?;
        Ok(KernelSymbols::parse(&text))
    }

    /// Reads lines of `address type name [module]`.
    pub fn parse(text: &[u8]) -> KernelSymbols {
        let mut symbols = KernelSymbols::default();
        symbols.rows.reserve(text.len() / 40);
        symbols.names.reserve(text.len() / 2);
        for line in text.split(|b| *b == b'\n') {
            let Ok(line) = std::str::from_utf8(line) else { continue };
            symbols.line(line);
        }
        symbols.hidden = !symbols.rows.is_empty() && symbols.rows.iter().all(|row| row.address == 0);
        symbols.rows.sort_by_key(|row| row.address);
        symbols
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let mut words = line.split_ascii_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let kind = words.next()?.bytes().next()?;
        let name = words.next()?;
        let module = match words.next() {
            Some(module) => {
                let module = module.trim_matches(['[', ']']);
                // Symbols of one module stand together.
                if self.modules.last().map(String::as_str) != Some(module) {
                    self.modules.push(module.to_owned());
                }
                u16::try_from(self.modules.len()).unwrap_or(0)
            }
            None => 0,
        };
        let code = matches!(kind, b't' | b'T' | b'w' | b'W');
        let row = Row {
            address,
            name: self.names.len() as u32,
            length: name.len().min(usize::from(u16::MAX)) as u16,
            module,
            code,
        };
        self.names.push_str(name);
        self.rows.push(row);
        Some(())
    }

    /// The symbol that an address lies in or after, and the distance from its start.
    pub fn at(&self, address: u64) -> Option<(KernelSymbol<'_>, u64)> {
        if self.hidden {
            return None;
        }
        let after = self.rows.partition_point(|row| row.address <= address);
        let last = self.rows.get(after.checked_sub(1)?)?;
        // Of several symbols at one address the first in the kernel's order, as the kernel itself prints.
        let first = self.rows.partition_point(|row| row.address < last.address);
        let row = &self.rows[first];
        Some((self.symbol(row), address - row.address))
    }

    /// The function that an address of code lies in, and the distance from its start. None where no function
    /// is known: behind the kernel's code, or far behind the last function of a module.
    pub fn function_at(&self, address: u64) -> Option<(KernelSymbol<'_>, u64)> {
        let (symbol, distance) = self.at(address)?;
        // Marks of the end of code, which is followed by data.
        if !symbol.code || matches!(symbol.name, "_etext" | "_einittext") {
            return None;
        }
        let next = self.rows.get(self.rows.partition_point(|row| row.address <= address));
        let same_module = next.is_some_and(|next| {
            usize::from(next.module).checked_sub(1).map(|at| self.modules[at].as_str()) == symbol.module
        });
        (same_module || distance < LARGEST_LAST_FUNCTION).then_some((symbol, distance))
    }

    /// The first symbol of a name.
    pub fn find(&self, name: &str) -> Option<KernelSymbol<'_>> {
        self.iter().find(|symbol| symbol.name == name).filter(|_| !self.hidden)
    }

    /// All symbols by address.
    pub fn iter(&self) -> impl Iterator<Item = KernelSymbol<'_>> {
        self.rows.iter().map(|row| self.symbol(row))
    }

    fn symbol(&self, row: &Row) -> KernelSymbol<'_> {
        let start = row.name as usize;
        KernelSymbol {
            name: &self.names[start..start + usize::from(row.length)],
            address: row.address,
            module: usize::from(row.module).checked_sub(1).map(|index| self.modules[index].as_str()),
            code: row.code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_find_each_other() {
        let text = b"ffffffff81000000 T _stext\nffffffff81000040 t do_it\nffffffffa0000000 t init\t[ext4]\n";
        let symbols = KernelSymbols::parse(text);
        let (symbol, offset) = symbols.at(0xffffffff81000042).unwrap();
        assert_eq!((symbol.name, offset, symbol.module), ("do_it", 2, None));
        assert_eq!(symbols.at(0xffffffffa0000000).unwrap().0.module, Some("ext4"));
        assert_eq!(symbols.at(5), None);
        assert_eq!(symbols.function_at(0xffffffff81000042).unwrap().0.name, "do_it");
        assert_eq!(symbols.function_at(0xffffffff90000000), None, "between kernel and module");
        assert_eq!(symbols.function_at(0xffffffffa0000010).unwrap().0.module, Some("ext4"));
        assert_eq!(symbols.function_at(0xffffffffa0100000), None, "far behind the module's last function");
        let ended =
            KernelSymbols::parse(b"ffffffff81000000 T f\nffffffff81000040 T _etext\nffffffff81200000 D d\n");
        assert_eq!(ended.function_at(0xffffffff81000050), None, "behind the code");
        assert_eq!(ended.function_at(0xffffffff81200000), None, "data");
        assert_eq!(ended.at(0xffffffff81200000).unwrap().0.name, "d");
        assert_eq!(symbols.find("_stext").unwrap().address, 0xffffffff81000000);
    }

    #[test]
    fn hidden_addresses_are_told_from_real_ones() {
        let symbols = KernelSymbols::parse(b"0000000000000000 T a\n0000000000000000 T b\n");
        assert!(symbols.hidden);
        assert_eq!((symbols.at(0), symbols.find("a")), (None, None));
    }
}
