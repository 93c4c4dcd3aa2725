//! C type names: how wide, how signed.

/// What a C type name says about values of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CType {
    base: Base,
    /// Number of `*`.
    pub(super) pointers: u8,
    /// Whether integers of it are signed.
    pub(super) signed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Bytes(u8),
    Char,
    Bool,
    Long,
    Unknown,
}

impl CType {
    /// From a type name such as `const unsigned long *`. Never fails: what is not known
    /// has no size.
    pub(super) fn parse_words(text: &str) -> CType {
        let words =
            text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
        CType::from_words(words, text.bytes().filter(|&b| b == b'*').count().min(255) as u8)
    }

    pub(super) fn from_words<'a>(words: impl IntoIterator<Item = &'a str>, pointers: u8) -> CType {
        let mut base = Base::Unknown;
        let mut signed = true;
        let mut longs = 0;
        let mut plain_int = false;
        for word in words {
            match word {
                "unsigned" => {
                    signed = false;
                    plain_int = true;
                }
                "signed" | "int" => plain_int = true,
                "long" => longs += 1,
                "short" => base = Base::Bytes(2),
                "char" => base = Base::Char,
                "bool" | "_Bool" => (base, signed) = (Base::Bool, false),
                "enum" => base = Base::Bytes(4),
                "u8" | "__u8" | "uint8_t" | "u_char" | "uchar" => (base, signed) = (Base::Bytes(1), false),
                "s8" | "__s8" | "int8_t" => base = Base::Bytes(1),
                "u16" | "__u16" | "uint16_t" | "__be16" | "__le16" | "umode_t" | "sa_family_t" | "ushort" => {
                    (base, signed) = (Base::Bytes(2), false);
                }
                "s16" | "__s16" | "int16_t" => base = Base::Bytes(2),
                "u32" | "__u32" | "uint32_t" | "__be32" | "__le32" | "gfp_t" | "dev_t" | "uid_t"
                | "gid_t" | "uint" | "blk_opf_t" | "fmode_t" | "isolate_mode_t" => {
                    (base, signed) = (Base::Bytes(4), false)
                }
                "s32" | "__s32" | "int32_t" | "pid_t" => base = Base::Bytes(4),
                "u64" | "__u64" | "uint64_t" | "__be64" | "__le64" | "sector_t" | "dma_addr_t"
                | "phys_addr_t" | "blkcnt_t" => (base, signed) = (Base::Bytes(8), false),
                "s64" | "__s64" | "int64_t" | "loff_t" | "ktime_t" => base = Base::Bytes(8),
                "size_t" | "uintptr_t" | "ino_t" | "pgoff_t" | "ulong" => {
                    (base, signed) = (Base::Long, false)
                }
                "ssize_t" | "intptr_t" | "ptrdiff_t" => base = Base::Long,
                _ => {}
            }
        }
        if base == Base::Unknown {
            base = match longs {
                0 if plain_int => Base::Bytes(4),
                0 => Base::Unknown,
                1 => Base::Long,
                _ => Base::Bytes(8),
            };
        }
        if pointers > 0 {
            // The sign is that of what is pointed to.
            return CType { base, pointers, signed };
        }
        CType { base, pointers, signed }
    }

    /// Whether `word` begins or makes up a type name.
    pub(super) fn is_type_word(word: &str) -> bool {
        matches!(
            word,
            "const"
                | "volatile"
                | "struct"
                | "union"
                | "enum"
                | "unsigned"
                | "signed"
                | "int"
                | "long"
                | "short"
                | "char"
                | "void"
        ) || CType::from_words([word], 0).base != Base::Unknown
            || word.ends_with("_t")
    }

    pub(super) fn is_char(self) -> bool {
        self.base == Base::Char && self.pointers == 0
    }

    /// Bytes of a value; `None` where the type is not known.
    pub(super) fn size(self, long_size: u8) -> Option<u32> {
        if self.pointers > 0 { Some(u32::from(long_size)) } else { self.pointed_size(long_size) }
    }

    /// Bytes of what the outermost pointer points to, or of a value if there is none.
    pub(super) fn pointed_size(self, long_size: u8) -> Option<u32> {
        if self.pointers > 1 {
            return Some(u32::from(long_size));
        }
        match self.base {
            Base::Bytes(size) => Some(u32::from(size)),
            Base::Char | Base::Bool => Some(1),
            Base::Long => Some(u32::from(long_size)),
            Base::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_and_signs_of_type_names() {
        for (text, size, signed) in [
            ("unsigned short", Some(2), false),
            ("unsigned long", Some(4), false),
            ("long long", Some(8), true),
            ("unsigned", Some(4), false),
            ("const char *", Some(4), true),
            ("enum foo_kind", Some(4), true),
            ("struct task_struct", None, true),
            ("sector_t", Some(8), false),
            ("_Bool", Some(1), false),
        ] {
            let c_type = CType::parse_words(text);
            assert_eq!((c_type.size(4), c_type.signed), (size, signed), "{text}");
        }
    }
}
