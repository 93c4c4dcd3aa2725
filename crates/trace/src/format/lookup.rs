//! Names of addresses, asked for while printing.

/// What a trace knows besides its records: names of addresses.
pub trait PrintLookup {
    /// The symbol at or before an address and the distance from it.
    fn symbol(&self, address: u64) -> Option<(String, u64)> {
        let _ = address;
        None
    }
    /// The text constant at an address of the traced kernel (`printk_formats`).
    fn string_at(&self, address: u64) -> Option<&str> {
        let _ = address;
        None
    }
}

/// Knows no names.
pub struct NoLookup;

impl PrintLookup for NoLookup {}
