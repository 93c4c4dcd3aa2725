//! Which CPUs there are, and CPU lists and masks as the kernel writes them.

use std::io;

use crate::error::Refused;

/// The CPUs that are online now, ascending.
pub fn online() -> Result<Vec<u32>, Refused> {
    from_sysfs("/sys/devices/system/cpu/online")
}

/// The CPUs that can ever come online, ascending.
pub fn possible() -> Result<Vec<u32>, Refused> {
    from_sysfs("/sys/devices/system/cpu/possible")
}

fn from_sysfs(path: &str) -> Result<Vec<u32>, Refused> {
    let text = std::fs::read_to_string(path).map_err(|e| Refused::new("read", path, e))?;
    parse_list(&text).ok_or_else(|| {
        Refused::new("understand", path, io::Error::other(format!("'{}' is no CPU list", text.trim())))
    })
}

/// Keeps the calling thread on one CPU from now on.
pub fn run_on(cpu: u32) -> Result<(), Refused> {
    let mut mask = [0_u64; 16];
    if let Some(word) = mask.get_mut(cpu as usize / 64) {
        *word = 1 << (cpu % 64);
    }
    // SAFETY: the kernel reads `size_of_val(&mask)` bytes from the array, which outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(&mask), mask.as_ptr()) };
    if result < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Refused::new("run on", format!("CPU {cpu}"), error));
    }
    Ok(())
}

/// Reads a CPU list such as "0-3,8"; empty text is an empty list.
pub fn parse_list(text: &str) -> Option<Vec<u32>> {
    // More than any kernel supports: a list is not to allocate what its text does not justify.
    const MOST_CPUS: u32 = 65_536;
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MOST_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// The mask that `tracing_cpumask` takes: hexadecimal words of 32 CPUs, highest first.
pub fn mask_text(cpus: &[u32]) -> String {
    let words = cpus.iter().max().map_or(1, |highest| highest / 32 + 1) as usize;
    let mut mask = vec![0u32; words];
    for cpu in cpus {
        mask[(cpu / 32) as usize] |= 1 << (cpu % 32);
    }
    mask.iter().rev().map(|word| format!("{word:08x}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_bad_ones_refused() {
        assert_eq!(parse_list("0-2,8\n"), Some(vec![0, 1, 2, 8]));
        assert_eq!(parse_list(""), Some(vec![]));
        for bad in ["3-1", "x", "0-4000000000", "1,,a"] {
            assert_eq!(parse_list(bad), None, "{bad}");
        }
    }

    #[test]
    fn masks_have_a_word_per_32_cpus() {
        assert_eq!(mask_text(&[0, 1]), "00000003");
        assert_eq!(mask_text(&[33]), "00000002,00000000");
    }
}
