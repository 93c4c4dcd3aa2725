//! `cargo xtask facts`: what each kernel of the matrix can do, as files that compile tests read.
//!
//! A file is `testdata/facts/NAME.facts.zst`: zstd over a `u64` length, that many bytes of JSON
//! (`bpf::facts::SavedFacts`), then the kernel's BTF. Module BTF is left out, and so are formats and functions
//! that no shipped program names by the thousand: see `pruned`.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use bpf::facts::SavedFacts;
use kernel::facts::LiveFacts;

use crate::shell::root;
use crate::vm::guest::{Guest, Outcome};
use crate::vm::{folder, kernels};

/// `[NAME…]`: boots each kernel (by default 6.1, 6.12 and 6.12-rt) and saves its facts; `host` is this machine.
pub fn run(arguments: &[String]) -> Result<()> {
    let names: Vec<&str> = match arguments {
        [] => vec!["host", "6.1", "6.12", "6.12-rt"],
        names => names.iter().map(String::as_str).collect(),
    };
    let target = root().join("testdata/facts");
    fs::create_dir_all(&target)?;
    for name in names {
        let bytes = if name == "host" { here()? } else { from_guest(name)? };
        let label = if name == "host" { host_label()? } else { name.to_owned() };
        let path = target.join(format!("{label}.facts.zst"));
        fs::write(&path, &bytes)?;
        eprintln!("{}: {} KB", path.display(), bytes.len() / 1024);
        if bytes.len() > 3 << 20 {
            bail!("{} is larger than 3 MB", path.display());
        }
    }
    Ok(())
}

/// `PATH`: writes the facts of the running kernel there; what the guest runs.
pub fn save_here(arguments: &[String]) -> Result<()> {
    let [path] = arguments else { bail!("facts-here needs a path") };
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    let bytes = here()?;
    // The receiver cannot see where a serial line ends.
    file.write_all(&(bytes.len() as u64).to_le_bytes())?;
    file.write_all(&bytes)?;
    file.flush()?;
    Ok(())
}

fn host_label() -> Result<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let version = bpf::facts::Version::parse(&release);
    Ok(format!("{}.{}", version.0, version.1))
}

fn here() -> Result<Vec<u8>> {
    let facts = pruned(LiveFacts::new().save());
    let btf = facts.btf_bytes.clone().context("this kernel has no BTF")?;
    let json = serde_json::to_vec(&facts)?;
    let mut whole = (json.len() as u64).to_le_bytes().to_vec();
    whole.extend_from_slice(&json);
    whole.extend_from_slice(&btf);
    Ok(zstd::encode_all(whole.as_slice(), 19)?)
}

/// Without what compile tests do not ask for: the configuration's drivers, formats of system calls
/// beyond the first arguments' sake are kept, since scripts use them.
fn pruned(mut facts: SavedFacts) -> SavedFacts {
    const KEPT: [&str; 8] = ["BPF", "KPROBE", "UPROBE", "FTRACE", "TRAC", "HZ", "BTF", "PERF"];
    facts.config.retain(|name, _| KEPT.iter().any(|part| name.contains(part)));
    facts
}

fn from_guest(name: &str) -> Result<Vec<u8>> {
    let kernel = kernels::by_name(name)?;
    let image = kernels::fetch(kernel)?;
    let received = folder().join(format!("{name}.received"));
    let _ = fs::remove_file(&received);
    let script =
        "stty -F /dev/ttyS1 raw -echo 115200; /tests/xtask facts-here /dev/ttyS1 || status=1; sleep 1\n";
    let guest = Guest {
        kernel: image.path,
        files: vec![("xtask".to_owned(), own_binary()?)],
        script: script.to_owned(),
        second_serial: Some(received.clone()),
    };
    if guest.run()? == Outcome::Failed {
        bail!("the facts of {name} could not be gathered");
    }
    let bytes = fs::read(&received)?;
    let (length, rest) = bytes.split_first_chunk::<8>().context("nothing came over the serial line")?;
    let length = usize::try_from(u64::from_le_bytes(*length))?;
    Ok(rest.get(..length).context("the serial line lost bytes")?.to_vec())
}

fn own_binary() -> Result<PathBuf> {
    Ok(std::env::current_exe()?)
}
