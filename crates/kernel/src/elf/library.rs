//! Libraries by soname, as the dynamic loader would find them: out of /etc/ld.so.cache.

use super::file::{c_string, u32_at};

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEADER: usize = 48;
const ENTRY: usize = 24;

/// The machine in an entry's flags (sysdeps/generic/ldconfig.h of glibc): 32-bit libraries stand in the
/// same cache.
const MACHINE_MASK: u32 = 0xff00;
const MACHINE: u32 = if cfg!(target_arch = "aarch64") { 0x0a00 } else { 0x0300 };

/// Soname and path of every library of this machine's 64-bit kind in a cache file of glibc's present
/// format; empty for others.
pub fn library_cache(bytes: &[u8]) -> Vec<(String, String)> {
    // The old format may come first, with the new one after it.
    let Some(start) = bytes.windows(MAGIC.len()).position(|window| window == MAGIC) else { return vec![] };
    let bytes = &bytes[start..];
    let Some(header) = bytes.get(..HEADER) else { return vec![] };
    let count = u32_at(header, 20) as usize;
    let entries = bytes[HEADER..].chunks_exact(ENTRY).take(count);
    let text = |offset: u32| String::from_utf8_lossy(c_string(bytes, offset as usize)).into_owned();
    let own = entries.filter(|entry| u32_at(entry, 0) & MACHINE_MASK == MACHINE);
    own.map(|entry| (text(u32_at(entry, 4)), text(u32_at(entry, 8)))).collect()
}

/// Paths of the libraries that a name means: a soname (`libc.so.6`), or its beginning (`libc`, `c`).
pub fn find_libraries(name: &str, cache: &[(String, String)]) -> Vec<String> {
    let exact =
        |wanted: &str| cache.iter().find(|(soname, _)| soname == wanted).map(|(_, path)| path.clone());
    if let Some(path) = exact(name) {
        return vec![path];
    }
    let stem = if name.starts_with("lib") { name.to_owned() } else { format!("lib{name}") };
    let stem = stem.split(".so").next().unwrap_or(&stem).to_owned();
    let versions = cache
        .iter()
        .filter(|(soname, _)| soname.strip_prefix(stem.as_str()).is_some_and(|rest| rest.starts_with(".so")));
    let mut paths: Vec<String> = versions.map(|(_, path)| path.clone()).collect();
    paths.dedup();
    paths.truncate(1);
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_is_found_by_every_spelling() {
        let cache = library_cache(&std::fs::read("/etc/ld.so.cache").unwrap_or_default());
        if cache.is_empty() {
            testkit::skipped!("no /etc/ld.so.cache of glibc");
        }
        for name in ["libc.so.6", "libc", "c"] {
            let found = find_libraries(name, &cache);
            assert!(found.len() == 1 && found[0].contains("libc.so"), "{name}: {found:?}");
        }
        assert!(find_libraries("libnothing-of-that-name", &cache).is_empty());
    }

    #[test]
    fn damaged_caches_are_empty_or_short() {
        let whole = std::fs::read("/etc/ld.so.cache").unwrap_or_else(|_| MAGIC.repeat(9));
        for length in (0..whole.len().min(4096)).step_by(7) {
            library_cache(&whole[..length]);
        }
    }
}
