//! Names of addresses: text constants of `trace_printk`, and kernel symbols.

use std::{collections::HashMap, sync::OnceLock};

use trace::format::PrintLookup;

/// What a trace.dat says about addresses.
#[derive(Default)]
pub(crate) struct Names {
    texts: HashMap<u64, String>,
    symbols: OnceLock<Vec<(u64, String)>>,
    load: Option<Box<dyn Fn() -> Vec<u8> + Send + Sync>>,
}

impl Names {
    /// From the text of `printk_formats`; kallsyms are read by `load` when first asked for.
    pub(crate) fn new(printk: &str, load: Option<Box<dyn Fn() -> Vec<u8> + Send + Sync>>) -> Names {
        Names { texts: printk_formats(printk), symbols: OnceLock::new(), load }
    }
}

/// Lines `0xADDRESS : "text"`.
fn printk_formats(text: &str) -> HashMap<u64, String> {
    let mut texts = HashMap::new();
    for line in text.lines() {
        let Some((address, quoted)) = line.split_once(':') else { continue };
        let Ok(address) = u64::from_str_radix(address.trim().trim_start_matches("0x"), 16) else { continue };
        let quoted = quoted.trim();
        let inner = quoted.strip_prefix('"').and_then(|q| q.strip_suffix('"')).unwrap_or(quoted);
        texts.insert(
            address,
            inner.replace("\\n", "\n").replace("\\t", "\t").replace("\\\"", "\"").replace("\\\\", "\\"),
        );
    }
    texts
}

/// Lines `ADDRESS TYPE NAME [MODULE]`, sorted by address.
fn kallsyms(text: &[u8]) -> Vec<(u64, String)> {
    let mut symbols: Vec<(u64, String)> = String::from_utf8_lossy(text)
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let name = words.nth(1)?;
            (address != 0).then(|| (address, name.to_owned()))
        })
        .collect();
    symbols.sort_by_key(|(address, _)| *address);
    symbols
}

impl PrintLookup for Names {
    fn symbol(&self, address: u64) -> Option<(String, u64)> {
        let symbols =
            self.symbols.get_or_init(|| self.load.as_ref().map_or_else(Vec::new, |load| kallsyms(&load())));
        let at = symbols.partition_point(|(start, _)| *start <= address).checked_sub(1)?;
        let (start, name) = symbols.get(at)?;
        // Beyond the last symbol nothing is known.
        (at + 1 < symbols.len() || *start == address).then(|| (name.clone(), address - start))
    }

    fn string_at(&self, address: u64) -> Option<&str> {
        self.texts.get(&address).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_names() {
        let load = || {
            b"ffffffff00000010 T first\nffffffff00000020 t second [module]\nffffffff00000030 T end\n".to_vec()
        };
        let names = Names::new("0xffffffff81 : \"a=%d\\n\"\n", Some(Box::new(load)));
        assert_eq!(names.string_at(0x00ff_ffff_ff81), Some("a=%d\n"));
        assert_eq!(names.symbol(0xffff_ffff_0000_0024), Some(("second".to_owned(), 4)));
        assert_eq!(names.symbol(3), None);
        assert_eq!(names.symbol(u64::MAX), None);
    }
}
