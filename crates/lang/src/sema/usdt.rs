//! Argument descriptions of static probes: `-4@%eax 8@-16(%rbp,%rax,8) 4@$5`.

use super::registers::Registers;
use crate::hir::{UsdtKind, UsdtLocation};

/// All arguments of a note; one that cannot be read is `None`.
pub fn arguments(text: &str, registers: &Registers) -> Vec<Option<UsdtLocation>> {
    let mut out = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        // aarch64 has a space within brackets: `-4@[sp, 60]`.
        let inside = rest.find('[').filter(|open| rest.find(' ').is_none_or(|space| *open < space));
        let end = match inside {
            Some(open) => rest[open..].find(']').map_or(rest.len(), |close| open + close + 1),
            None => rest.find(' ').unwrap_or(rest.len()),
        };
        out.push(argument(&rest[..end], registers));
        rest = rest[end..].trim_start();
    }
    out
}

fn argument(text: &str, registers: &Registers) -> Option<UsdtLocation> {
    let (size, place) = text.split_once('@').unwrap_or(("8", text));
    let size: i32 = size.trim_end_matches('f').parse().ok()?;
    let bytes = size.unsigned_abs() as u8;
    if !matches!(bytes, 1 | 2 | 4 | 8) {
        return None;
    }
    Some(UsdtLocation { bytes, signed: size < 0, kind: place_of(place.trim(), registers)? })
}

fn place_of(place: &str, registers: &Registers) -> Option<UsdtKind> {
    if let Some(constant) = place.strip_prefix('$') {
        return Some(UsdtKind::Constant(integer(constant)?));
    }
    if let Some(inner) = place.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let mut parts = inner.split(',').map(str::trim);
        let (base, _) = registers.find(parts.next()?)?;
        let displacement = match parts.next() {
            None => 0,
            Some(text) => integer(text.trim_start_matches('#'))?,
        };
        return Some(UsdtKind::Memory { base: Some(base), displacement, index: None });
    }
    if let Some((displacement, inner)) = place.split_once('(') {
        let mut parts = inner.strip_suffix(')')?.split(',').map(str::trim);
        let base = match parts.next()? {
            "" => None,
            name => Some(registers.find(name)?.0),
        };
        let index = match parts.next() {
            None => None,
            Some(name) => {
                let scale = parts.next().map_or(Some(1), |scale| scale.parse().ok())?;
                Some((registers.find(name)?.0, scale))
            }
        };
        let displacement = if displacement.is_empty() { 0 } else { integer(displacement)? };
        return Some(UsdtKind::Memory { base, displacement, index });
    }
    if let Some((offset, _)) = registers.find(place) {
        return Some(UsdtKind::Register { offset });
    }
    integer(place).map(UsdtKind::Constant)
}

fn integer(text: &str) -> Option<i64> {
    // `16+foo@GOTPCREL` and other symbols are not resolved.
    match text.strip_prefix("-0x").map(|hex| (hex, true)).or(text.strip_prefix("0x").map(|hex| (hex, false)))
    {
        Some((hex, negative)) => {
            let value = i64::from_str_radix(hex, 16).ok()?;
            Some(if negative { -value } else { value })
        }
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_of_both_architectures() {
        let x86 = Registers::of("x86_64");
        let found = arguments("-4@%eax 8@-16(%rbp,%rax,8) 4@$-5 8@(%rsp) 1@foo(%rip)", x86);
        let kinds: Vec<Option<UsdtKind>> = found.iter().map(|one| one.clone().map(|one| one.kind)).collect();
        assert_eq!(
            kinds,
            [
                Some(UsdtKind::Register { offset: 80 }),
                Some(UsdtKind::Memory { base: Some(32), displacement: -16, index: Some((80, 8)) }),
                Some(UsdtKind::Constant(-5)),
                Some(UsdtKind::Memory { base: Some(152), displacement: 0, index: None }),
                None,
            ]
        );
        assert_eq!((found[0].as_ref().unwrap().bytes, found[0].as_ref().unwrap().signed), (4, true));
        let arm = arguments("-4@[sp, 60] 8@x1", Registers::of("aarch64"));
        assert_eq!(arm.len(), 2);
        assert_eq!(
            arm[0].as_ref().unwrap().kind,
            UsdtKind::Memory { base: Some(248), displacement: 60, index: None }
        );
    }
}
