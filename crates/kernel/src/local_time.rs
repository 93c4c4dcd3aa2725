//! Times of day in the local time zone, by the C library's strftime.

use std::ffi::CString;

/// Formats a time given in nanoseconds since 1970. Beyond strftime, `%f` is microseconds, six digits. An
/// empty or faulty format gives an empty text.
pub fn formatted(format: &str, nanoseconds: u64) -> String {
    let microseconds = format!("{:06}", nanoseconds / 1000 % 1_000_000);
    // `%%f` is a percent sign and an f.
    let mut expanded = String::with_capacity(format.len() + 8);
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        match (character, characters.as_str().chars().next()) {
            ('%', Some('f')) => {
                expanded.push_str(&microseconds);
                characters.next();
            }
            ('%', Some(next)) => {
                expanded.extend(['%', next]);
                characters.next();
            }
            _ => expanded.push(character),
        }
    }
    let Ok(format) = CString::new(expanded) else { return String::new() };
    let seconds = (nanoseconds / 1_000_000_000) as libc::time_t;
    // SAFETY: tm is plain integers and a pointer that may be null.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live values.
    if unsafe { libc::localtime_r(&seconds, &mut parts) }.is_null() {
        return String::new();
    }
    let mut buffer = vec![0u8; 256 + 64 * format.as_bytes().len()];
    // SAFETY: the buffer has the length given, the format is NUL-terminated, `parts` was filled in above.
    let length = unsafe { libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), format.as_ptr(), &parts) };
    buffer.truncate(length);
    String::from_utf8_lossy(&buffer).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_are_an_extension_of_strftime() {
        assert_eq!(formatted("1%f", 1_000_123_000), "1000123");
        assert_eq!(formatted("%%f %S", 1_000_123_000), "%f 01");
        assert_eq!(formatted("%Y", 86_400_000_000_000 * 20), "1970");
        assert_eq!(formatted("", 5), "");
    }
}
