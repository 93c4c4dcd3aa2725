//! Debian's kernels: found by their meta packages, so that a version that was withdrawn does no harm.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::folder;

/// A kernel that tests run on.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// What `--kernel` takes.
    pub name: &'static str,
    /// The package that depends on the newest of its kind.
    meta: &'static str,
}

const KERNELS: &[Kernel] = &[
    Kernel { name: "6.1", meta: "linux-image-amd64" },
    Kernel { name: "6.1-cloud", meta: "linux-image-cloud-amd64" },
    Kernel { name: "6.1-rt", meta: "linux-image-rt-amd64" },
    Kernel { name: "6.12", meta: "linux-image-6.12-amd64" },
    Kernel { name: "6.12-cloud", meta: "linux-image-6.12-cloud-amd64" },
    Kernel { name: "6.12-rt", meta: "linux-image-6.12-rt-amd64" },
];

/// A kernel image that was fetched.
#[derive(Debug)]
pub struct Image {
    /// `6.1.0-57-amd64`.
    pub release: String,
    /// The bootable file.
    pub path: PathBuf,
    /// Its module `dummy`, a network device that does nothing: something to trace in a module.
    pub module: PathBuf,
}

/// The kernel of a name.
pub fn by_name(name: &str) -> Result<Kernel> {
    let names: Vec<&str> = KERNELS.iter().map(|kernel| kernel.name).collect();
    KERNELS
        .iter()
        .find(|kernel| kernel.name == name)
        .copied()
        .with_context(|| format!("there is no kernel '{name}' in the matrix; it has {}", names.join(", ")))
}

/// Gets the newest package of a kernel and takes the kernel out of it, unless that was done before.
pub fn fetch(kernel: Kernel) -> Result<Image> {
    let depends = output(Command::new("apt-cache").args(["depends", kernel.meta]))?;
    let package = depends
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("linux-image-"))
        .with_context(|| format!("apt knows no kernel behind {}", kernel.meta))?;
    let release = package.trim_start_matches("linux-image-").to_owned();
    let path = folder().join(format!("vmlinuz-{release}"));
    let module = folder().join(format!("dummy-{release}.ko"));
    if path.exists() && module.exists() {
        return Ok(Image { release, path, module });
    }
    let scratch = folder().join("packages");
    fs::create_dir_all(&scratch)?;
    eprintln!("fetching {package}");
    output(Command::new("apt-get").args(["download", package]).current_dir(&scratch))?;
    let deb = fs::read_dir(&scratch)?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().contains(package))
        .with_context(|| format!("{package} was not downloaded"))?;
    let take = |pattern: &str, filter: &str| -> Result<Vec<u8>> {
        let script = format!("dpkg --fsys-tarfile \"$1\" | tar -xO --wildcards '{pattern}' {filter}");
        Ok(Command::new("sh").args(["-c", &script, "sh"]).arg(&deb).output()?.stdout)
    };
    let vmlinuz = take("./boot/vmlinuz*", "")?;
    // Compressed from 6.12 on.
    let plain = take("*/net/dummy.ko", "")?;
    let dummy = if plain.is_empty() { take("*/net/dummy.ko.xz", "| busybox unxz")? } else { plain };
    fs::remove_file(&deb)?;
    if vmlinuz.len() < 1_000_000 || dummy.len() < 1_000 {
        bail!("{package} holds no kernel, or not its module dummy");
    }
    fs::write(&module, dummy)?;
    fs::write(&path, vmlinuz)?;
    Ok(Image { release, path, module })
}

fn output(command: &mut Command) -> Result<String> {
    let line = format!("{command:?}");
    let output = command.output().with_context(|| format!("cannot start {line}"))?;
    if !output.status.success() {
        bail!("{line} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
