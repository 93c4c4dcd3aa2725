use super::*;

#[test]
fn the_own_binary_has_symbols_at_their_places() {
    let elf = ElfFile::open("/proc/self/exe").unwrap();
    let found = elf.symbols(|name| name == "lotse_symbol_for_the_elf_test");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].kind, SymbolKind::Function);
    assert!(elf.is_code(found[0].file_offset));
    assert!(!elf.is_code(0) || found[0].file_offset != 0);
    assert_eq!(lotse_symbol_for_the_elf_test(1), 2);
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn lotse_symbol_for_the_elf_test(n: u64) -> u64 {
    std::hint::black_box(n) + 1
}

#[test]
fn a_library_has_static_probes_with_arguments() {
    let cache = library_cache(&std::fs::read("/etc/ld.so.cache").unwrap_or_default());
    let Some(path) = find_libraries("libstdc++.so.6", &cache).pop() else {
        testkit::skipped!("no libstdc++ here")
    };
    let elf = ElfFile::open(path).unwrap();
    let probes = elf.static_probes();
    let Some(probe) = probes.iter().find(|probe| probe.provider == "libstdcxx" && probe.name == "throw")
    else {
        testkit::skipped!("this libstdc++ has no static probes");
    };
    assert!(elf.is_code(probe.file_offset));
    assert!(probe.arguments.contains('@'), "{probe:?}");
    assert!(elf.symbols(|name| name == "__cxa_throw").iter().any(|symbol| symbol.file_offset != 0));
}

/// Every byte of a small file damaged in turn, and every length: errors, never a panic.
#[test]
fn damaged_files_are_errors() {
    let whole = std::fs::read("/proc/self/exe").unwrap();
    let directory = std::env::temp_dir().join(format!("lotse-elf-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("damaged");
    for at in 0..64 {
        for damage in [0u8, 0xff, 0x80] {
            let mut bytes = whole[..4096.min(whole.len())].to_vec();
            bytes[at] = damage;
            std::fs::write(&path, &bytes).unwrap();
            if let Ok(elf) = ElfFile::open(&path) {
                elf.symbols(|_| true);
                elf.static_probes();
                elf.build_id();
            }
        }
    }
    std::fs::remove_dir_all(&directory).unwrap();
}
