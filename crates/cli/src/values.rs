//! How option values are read.

use std::time::Duration;

/// A duration with its unit.
pub fn duration(text: &str) -> Result<Duration, String> {
    match run::recipe::parse_duration(text) {
        Ok(Duration::ZERO) => Err("0 is no length of time".to_owned()),
        other => other,
    }
}

/// A length of time in seconds, or with its unit.
pub fn interval(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e9 => Ok(Duration::from_secs_f64(seconds)),
        Ok(_) => Err("an interval is more than 0 seconds".to_owned()),
        Err(_) => duration(text),
    }
}

/// The number of a process or thread.
pub fn task(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| {
        format!("`{text}` is no number of a process or thread; `pgrep -d, NAME` prints those of a name")
    })
}

/// A size with its unit.
pub fn bytes(text: &str) -> Result<u64, String> {
    run::recipe::parse_bytes(text)
}

/// A ring's size: 4 KiB to 4 GiB.
pub fn ring(text: &str) -> Result<u64, String> {
    let size = bytes(text)?;
    if (4096..=4 << 30).contains(&size) {
        Ok(size)
    } else {
        Err("rings have 4KiB to 4GiB for each CPU".to_owned())
    }
}
