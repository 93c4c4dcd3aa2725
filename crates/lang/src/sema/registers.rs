//! Registers in `pt_regs`, by architecture: names, arguments, result, stack pointer.

/// What the compiler knows of an architecture's calling convention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Names with their offset in `pt_regs`.
    pub names: &'static [(&'static str, u32)],
    /// Offsets of the registers that carry integer arguments.
    pub arguments: &'static [u32],
    /// Offset of the result.
    pub result: u32,
    /// Offset of the stack pointer.
    pub stack: u32,
    /// Bytes between the stack pointer and the first argument on the stack, at function entry.
    pub stack_arguments: u32,
    /// Offsets of the registers of system call arguments.
    pub syscall_arguments: &'static [u32],
}

const X86_64: Registers = Registers {
    names: &[
        ("r15", 0),
        ("r14", 8),
        ("r13", 16),
        ("r12", 24),
        ("bp", 32),
        ("bx", 40),
        ("r11", 48),
        ("r10", 56),
        ("r9", 64),
        ("r8", 72),
        ("ax", 80),
        ("cx", 88),
        ("dx", 96),
        ("si", 104),
        ("di", 112),
        ("orig_ax", 120),
        ("orig_rax", 120),
        ("ip", 128),
        ("cs", 136),
        ("flags", 144),
        ("sp", 152),
        ("ss", 160),
    ],
    arguments: &[112, 104, 96, 88, 72, 64],
    result: 80,
    stack: 152,
    stack_arguments: 8,
    syscall_arguments: &[112, 104, 96, 56, 72, 64],
};

const AARCH64: Registers = Registers {
    names: &[
        ("r0", 0),
        ("r1", 8),
        ("r2", 16),
        ("r3", 24),
        ("r4", 32),
        ("r5", 40),
        ("r6", 48),
        ("r7", 56),
        ("r8", 64),
        ("r9", 72),
        ("r10", 80),
        ("r11", 88),
        ("r12", 96),
        ("r13", 104),
        ("r14", 112),
        ("r15", 120),
        ("r16", 128),
        ("r17", 136),
        ("r18", 144),
        ("r19", 152),
        ("r20", 160),
        ("r21", 168),
        ("r22", 176),
        ("r23", 184),
        ("r24", 192),
        ("r25", 200),
        ("r26", 208),
        ("r27", 216),
        ("r28", 224),
        ("r29", 232),
        ("r30", 240),
        ("lr", 240),
        ("sp", 248),
        ("pc", 256),
        ("ip", 256),
        ("pstate", 264),
    ],
    arguments: &[0, 8, 16, 24, 32, 40, 48, 56],
    result: 0,
    stack: 248,
    stack_arguments: 0,
    syscall_arguments: &[0, 8, 16, 24, 32, 40],
};

impl Registers {
    /// Those of `uname -m`; x86_64's for what is not known.
    pub fn of(machine: &str) -> &'static Registers {
        if machine.starts_with("aarch64") || machine.starts_with("arm64") { &AARCH64 } else { &X86_64 }
    }

    /// Offset and width of a register by any of its names, as assembly writes it (`%rax`, `eax`, `x0`).
    pub fn find(&self, name: &str) -> Option<(u32, u8)> {
        let name = name.trim_start_matches('%');
        let offset =
            |name: &str| self.names.iter().find(|(have, _)| *have == name).map(|(_, offset)| *offset);
        if let Some(offset) = offset(name) {
            return Some((offset, 8));
        }
        if self.result == 0 {
            let (kind, number) = name.split_at_checked(1)?;
            let bytes = match kind {
                "x" => 8,
                "w" => 4,
                _ => return None,
            };
            return Some((offset(&format!("r{number}"))?, bytes));
        }
        // r8d, r8w, r8b
        if name.starts_with('r') && name[1..].starts_with(|c: char| c.is_ascii_digit()) {
            let (base, bytes) = match name.chars().last()? {
                'd' => (&name[..name.len() - 1], 4),
                'w' => (&name[..name.len() - 1], 2),
                'b' => (&name[..name.len() - 1], 1),
                _ => (name, 8),
            };
            return Some((offset(base)?, bytes));
        }
        if let Some(base) = name.strip_prefix('r') {
            return Some((offset(base)?, 8));
        }
        if let Some(base) = name.strip_prefix('e') {
            return Some((offset(base)?, 4));
        }
        match name {
            "al" | "bl" | "cl" | "dl" => Some((offset(&name.replace('l', "x"))?, 1)),
            "sil" | "dil" | "bpl" | "spl" => Some((offset(&name[..2])?, 1)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_have_many_names() {
        let x86 = Registers::of("x86_64");
        assert_eq!(x86.find("%rax"), Some((80, 8)));
        assert_eq!(x86.find("eax"), Some((80, 4)));
        assert_eq!(x86.find("al"), Some((80, 1)));
        assert_eq!(x86.find("%r10d"), Some((56, 4)));
        assert_eq!(x86.find("dil"), Some((112, 1)));
        assert_eq!(x86.find("%xmm0"), None);
        let arm = Registers::of("aarch64");
        assert_eq!(arm.find("x3"), Some((24, 8)));
        assert_eq!(arm.find("w3"), Some((24, 4)));
        assert_eq!(arm.find("sp"), Some((248, 8)));
    }
}
