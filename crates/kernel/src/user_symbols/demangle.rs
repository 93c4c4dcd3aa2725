//! Names as in their source.

/// A C++ or Rust name as in its source; others as they are.
pub fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && let Ok(text) = symbol.demangle()
    {
        return text;
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_demangled() {
        assert_eq!(demangled("_ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(demangled("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(demangled("_RNvCskwGfYPst2Cb_7example4main"), "example::main");
        assert_eq!(demangled("_RINvNtC3std3mem8align_ofjE"), "std::mem::align_of::<usize>",);
        assert_eq!(demangled("main"), "main");
        assert_eq!(demangled("_Znothing"), "_Znothing");
    }
}
