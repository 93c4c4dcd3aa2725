//! The options the kernel was built with.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::line;

/// The build options of the running kernel, and where they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelConfig {
    /// The file; `None` when no place had one.
    pub source: Option<PathBuf>,
    options: BTreeMap<String, String>,
}

impl KernelConfig {
    /// Reads `/proc/config.gz`, or the file that distributions keep beside the kernel.
    pub fn gather() -> KernelConfig {
        let release = line("/proc/sys/kernel/osrelease").unwrap_or_default();
        let places = [
            PathBuf::from("/proc/config.gz"),
            PathBuf::from(format!("/boot/config-{release}")),
            PathBuf::from(format!("/lib/modules/{release}/config")),
            PathBuf::from(format!("/usr/lib/modules/{release}/config")),
            PathBuf::from(format!("/lib/modules/{release}/build/.config")),
        ];
        for place in places {
            let Ok(bytes) = std::fs::read(&place) else { continue };
            let Some(text) = text_of(&bytes) else { continue };
            return KernelConfig { source: Some(place), options: parse(&text) };
        }
        KernelConfig::default()
    }

    /// The value of an option, named with its `CONFIG_`: `y`, `m`, a number or a text
    /// without its quotes. `None` when it is not set; ask [`KernelConfig::is_known`] first.
    pub fn get(&self, option: &str) -> Option<&str> {
        self.options.get(option).map(String::as_str)
    }

    /// Whether the option is built in or a module.
    pub fn has(&self, option: &str) -> bool {
        matches!(self.get(option), Some("y" | "m"))
    }

    /// Whether the options could be read at all.
    pub fn is_known(&self) -> bool {
        self.source.is_some()
    }

    /// All set options by name.
    pub fn options(&self) -> &BTreeMap<String, String> {
        &self.options
    }
}

fn parse(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter(|line| line.starts_with("CONFIG_"))
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.trim().trim_matches('"').to_owned()))
        .collect()
}

/// The text of a plain or gzip-compressed file.
fn text_of(bytes: &[u8]) -> Option<String> {
    let plain = if bytes.starts_with(&[0x1f, 0x8b]) {
        // A kernel configuration is some 200 KB; ten times that is no longer one.
        miniz_oxide::inflate::decompress_to_vec_with_limit(deflated(bytes)?, 4 << 20).ok()?
    } else {
        bytes.to_vec()
    };
    Some(String::from_utf8_lossy(&plain).into_owned())
}

/// What lies behind a gzip header (RFC 1952).
fn deflated(bytes: &[u8]) -> Option<&[u8]> {
    const HEADER_CRC: u8 = 2;
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    let flags = *bytes.get(3)?;
    let mut rest = bytes.get(10..)?;
    if flags & EXTRA != 0 {
        let length = u16::from_le_bytes(*rest.first_chunk()?) as usize;
        rest = rest.get(2 + length..)?;
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            let end = rest.iter().position(|&b| b == 0)?;
            rest = rest.get(end + 1..)?;
        }
    }
    if flags & HEADER_CRC != 0 {
        rest = rest.get(2..)?;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_with_their_values() {
        let text =
            "# comment\nCONFIG_HZ=250\nCONFIG_BTF=y\n# CONFIG_KPROBES is not set\nCONFIG_NAME=\"a b\"\n";
        let config = KernelConfig { source: Some(PathBuf::new()), options: parse(text) };
        assert_eq!(config.get("CONFIG_HZ"), Some("250"));
        assert_eq!(config.get("CONFIG_NAME"), Some("a b"));
        assert!(config.has("CONFIG_BTF") && !config.has("CONFIG_KPROBES"));
    }

    #[test]
    fn gzip_with_a_name_and_extra_bytes_is_read() {
        let packed = miniz_oxide::deflate::compress_to_vec(b"CONFIG_A=y\n", 6);
        let mut file = vec![0x1f, 0x8b, 8, 4 | 8, 0, 0, 0, 0, 0, 3];
        file.extend([2, 0, 7, 7]);
        file.extend(b"config\0");
        file.extend(&packed);
        assert_eq!(text_of(&file).as_deref(), Some("CONFIG_A=y\n"));
        for cut in 0..file.len() - packed.len() {
            text_of(&file[..cut]);
        }
    }
}
