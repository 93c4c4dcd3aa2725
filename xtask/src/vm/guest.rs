//! One boot: an initramfs made, QEMU started, its console read, a hang noticed and tried once more.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::archive::Archive;
use super::folder;

/// Printed by init as soon as it runs, and at its end with the status of the script.
const STARTED: &str = "LOTSE-VM-STARTED";
const ENDED: &str = "LOTSE-VM-ENDED";
/// A two-CPU boot under TCG hangs once in a while, before init.
const BOOT_LIMIT: Duration = Duration::from_secs(90);
const SCRIPT_LIMIT: Duration = Duration::from_secs(400);

/// What to boot and what to do there.
pub struct Guest {
    /// Kernel image.
    pub kernel: PathBuf,
    /// (name below /tests, path here).
    pub files: Vec<(String, PathBuf)>,
    /// Shell commands; they set `status=1` to fail.
    pub script: String,
    /// Where bytes written to /dev/ttyS1 go.
    pub second_serial: Option<PathBuf>,
}

/// How the script ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// `status` was 0.
    Passed,
    /// It was not.
    Failed,
}

enum Attempt {
    Ended(Outcome),
    Hung(&'static str),
}

impl Guest {
    /// Boots, with one retry if the guest hangs.
    pub fn run(&self) -> Result<Outcome> {
        let initramfs = folder().join("initramfs");
        fs::create_dir_all(folder())?;
        fs::write(&initramfs, self.initramfs()?)?;
        match self.boot(&initramfs)? {
            Attempt::Ended(outcome) => Ok(outcome),
            Attempt::Hung(when) => {
                eprintln!("the guest hung {when}; trying once more");
                match self.boot(&initramfs)? {
                    Attempt::Ended(outcome) => {
                        eprintln!("the retry was needed");
                        Ok(outcome)
                    }
                    Attempt::Hung(when) => bail!("the guest hung {when}, twice"),
                }
            }
        }
    }

    fn initramfs(&self) -> Result<Vec<u8>> {
        let mut archive = Archive::default();
        for directory in ["bin", "dev", "proc", "sys", "tmp", "etc", "tests"] {
            archive.directory(directory);
        }
        archive.device("dev/console", 5, 1);
        archive.device("dev/null", 1, 3);
        let busybox = fs::read("/bin/busybox").context("busybox-static is not installed")?;
        archive.file("bin/busybox", &busybox);
        archive.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n");
        for (name, path) in &self.files {
            archive.file(&format!("tests/{name}"), &without_debug_information(path)?);
        }
        archive.file("init", self.init().as_bytes());
        Ok(archive.finish())
    }

    fn init(&self) -> String {
        format!(
            "#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/ TMPDIR=/tmp RUST_BACKTRACE=0
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t cgroup2 cgroup /sys/fs/cgroup
hostname guest
echo {STARTED} $(uname -r)
status=0
{}
echo {ENDED} $status
poweroff -f
",
            self.script
        )
    }

    fn boot(&self, initramfs: &Path) -> Result<Attempt> {
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1024"]);
        qemu.args(["-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio"]);
        if let Some(path) = &self.second_serial {
            qemu.arg("-serial").arg(format!("file:{}", path.display()));
        }
        qemu.args(["-append", "console=ttyS0 quiet mitigations=off nokaslr tsc=reliable panic=-1"]);
        qemu.arg("-kernel").arg(&self.kernel).arg("-initrd").arg(initramfs);
        qemu.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = qemu.spawn().context("qemu-system-x86 is not installed")?;
        let attempt = watch(&mut child);
        let _ = child.kill();
        let _ = child.wait();
        attempt
    }
}

fn watch(child: &mut Child) -> Result<Attempt> {
    let console = child.stdout.take().context("no console")?;
    let (send, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(console).split(b'\n').map_while(Result::ok) {
            let text = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
            if send.send(text).is_err() {
                break;
            }
        }
    });
    let begun = Instant::now();
    let mut started = false;
    loop {
        let limit = if started { SCRIPT_LIMIT } else { BOOT_LIMIT };
        let left = limit.saturating_sub(begun.elapsed());
        match lines.recv_timeout(left) {
            Ok(line) if line.contains(ENDED) => {
                let passed = line.trim_end().ends_with(" 0");
                eprintln!("guest: {:.1} s", begun.elapsed().as_secs_f64());
                return Ok(Attempt::Ended(if passed { Outcome::Passed } else { Outcome::Failed }));
            }
            Ok(line) => {
                started |= line.contains(STARTED);
                eprintln!("  {line}");
            }
            Err(RecvTimeoutError::Timeout) if started => return Ok(Attempt::Hung("in its tests")),
            Err(RecvTimeoutError::Timeout) => return Ok(Attempt::Hung("while booting")),
            Err(RecvTimeoutError::Disconnected) => return Ok(Attempt::Hung("and went away")),
        }
    }
}

/// A binary as it is, or smaller where `objcopy` is at hand: the initramfs is unpacked into memory.
fn without_debug_information(path: &Path) -> Result<Vec<u8>> {
    let stripped = folder().join("stripped");
    let done = Command::new("objcopy").arg("--strip-debug").arg(path).arg(&stripped).status();
    let path = if done.is_ok_and(|status| status.success()) { stripped.as_path() } else { path };
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
