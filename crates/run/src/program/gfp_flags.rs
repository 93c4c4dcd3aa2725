//! GFP flags by name, as the kernel's own trace events print them. The bits moved in 6.10; the names are
//! those of 6.18, which fit 6.10 and later.

/// Single bits in the order of their numbers; the composed ones that users know come first.
const COMPOSED: &[(&str, u64)] = &[
    ("GFP_HIGHUSER_MOVABLE", 0x100cca),
    ("GFP_HIGHUSER", 0x100cc2),
    ("GFP_USER", 0x100cc0),
    ("GFP_KERNEL_ACCOUNT", 0x400cc0),
    ("GFP_KERNEL", 0xcc0),
    ("GFP_NOFS", 0xc40),
    ("GFP_ATOMIC", 0x820),
    ("GFP_NOIO", 0xc00),
    ("GFP_NOWAIT", 0x800),
];
const BITS: &[&str] = &[
    "__GFP_DMA",
    "__GFP_HIGHMEM",
    "GFP_DMA32",
    "__GFP_MOVABLE",
    "__GFP_RECLAIMABLE",
    "__GFP_HIGH",
    "__GFP_IO",
    "__GFP_FS",
    "__GFP_ZERO",
    "",
    "__GFP_DIRECT_RECLAIM",
    "__GFP_KSWAPD_RECLAIM",
    "__GFP_WRITE",
    "__GFP_NOWARN",
    "__GFP_RETRY_MAYFAIL",
    "__GFP_NOFAIL",
    "__GFP_NORETRY",
    "__GFP_MEMALLOC",
    "__GFP_COMP",
    "__GFP_NOMEMALLOC",
    "__GFP_HARDWALL",
    "__GFP_THISNODE",
    "__GFP_ACCOUNT",
    "__GFP_ZEROTAGS",
];

/// `GFP_KERNEL|__GFP_ZERO`; bits without a name as a hexadecimal number.
pub fn names(mut flags: u64) -> String {
    if flags == 0 {
        return "none".into();
    }
    let mut found = Vec::new();
    if let Some((name, bits)) = COMPOSED.iter().find(|(_, bits)| flags & bits == *bits) {
        found.push((*name).to_owned());
        flags &= !bits;
    }
    for (bit, name) in BITS.iter().enumerate() {
        if flags & 1 << bit != 0 && !name.is_empty() {
            found.push((*name).to_owned());
            flags &= !(1 << bit);
        }
    }
    if flags != 0 {
        found.push(format!("{flags:#x}"));
    }
    found.join("|")
}

#[cfg(test)]
mod tests {
    #[test]
    fn known_combinations_come_first() {
        assert_eq!(super::names(0xdc0), "GFP_KERNEL|__GFP_ZERO");
        assert_eq!(super::names(0), "none");
        assert_eq!(super::names(1 << 40), "0x10000000000");
    }
}
