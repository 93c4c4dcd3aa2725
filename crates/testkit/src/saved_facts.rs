//! Facts of kernels that were saved by `cargo xtask facts`, for compiling without those kernels.

use std::path::PathBuf;

use bpf::facts::SavedFacts;

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/facts"))
}

/// The kernels whose facts were saved: `6.1`, `6.12`, …
pub fn names() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some(name.strip_suffix(".facts.zst")?.to_owned())
    });
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names
}

/// The facts of a kernel by its name in [`names`].
///
/// # Panics
/// If the file is not there or damaged: it is part of the repository.
pub fn load(name: &str) -> SavedFacts {
    let path = folder().join(format!("{name}.facts.zst"));
    let packed = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let whole =
        zstd::decode_all(packed.as_slice()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (length, rest) = whole.split_first_chunk::<8>().expect("a length comes first");
    let (json, btf) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let mut facts: SavedFacts = serde_json::from_slice(json).expect("facts are JSON");
    facts.btf_bytes = Some(btf.into());
    facts
}

#[cfg(test)]
mod tests {
    use bpf::KernelFacts;

    #[test]
    fn each_saved_kernel_answers() {
        let names = super::names();
        assert!(names.iter().any(|name| name == "6.1"), "{names:?}");
        for name in names {
            let facts = super::load(&name);
            assert!(facts.release().starts_with(&name[..name.find('-').unwrap_or(name.len())]), "{name}");
            assert!(facts.btf().and_then(|btf| btf.tracepoint("sched_switch")).is_some(), "{name}");
            assert!(facts.tracepoint_format("sched", "sched_switch").is_some(), "{name}");
            assert!(facts.has(bpf::facts::Feature::RingBuf), "{name}");
        }
    }
}
