//! A command that is started stopped: it exists, has its process id, and runs its program
//! only when released, so that a tracer can be armed for it first.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use crate::error::{Refused, check};
use crate::stop::owned;

/// Why a program cannot be run.
#[derive(Debug)]
pub enum ProgramMissing {
    /// No such file: in none of the directories of PATH, or not at the path given.
    NotFound {
        /// Where it was looked for.
        searched: String,
    },
    /// A file is there that may not be executed.
    NotExecutable(PathBuf),
}

/// Finds a program as a shell would: a name with a slash is a path, any other is looked for in
/// PATH.
pub fn find_program(program: &OsStr) -> Result<PathBuf, ProgramMissing> {
    let mut not_executable = None;
    let mut runnable = |path: &Path| {
        if !path.is_file() {
            return false;
        }
        let Ok(c_path) = CString::new(path.as_os_str().as_bytes()) else { return false };
        // SAFETY: `c_path` is NUL-terminated and lives through the call.
        let may = unsafe { libc::access(c_path.as_ptr(), libc::X_OK) } == 0;
        if !may {
            not_executable.get_or_insert(path.to_owned());
        }
        may
    };
    let searched = if program.as_bytes().contains(&b'/') {
        if runnable(Path::new(program)) {
            return Ok(PathBuf::from(program));
        }
        program.to_owned()
    } else {
        let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
        if let Some(found) =
            std::env::split_paths(&path).map(|d| d.join(program)).find(|p| !program.is_empty() && runnable(p))
        {
            return Ok(found);
        }
        path
    };
    Err(match not_executable {
        Some(path) => ProgramMissing::NotExecutable(path),
        None => ProgramMissing::NotFound { searched: searched.to_string_lossy().into_owned() },
    })
}

/// A process that waits to become the command. Dropping it lets it exit without having run.
#[derive(Debug)]
pub struct StoppedCommand {
    // Taken out on release.
    process: Option<RunningCommand>,
    gate: Option<File>,
    exec_error: File,
}

/// A command that runs.
#[derive(Debug)]
pub struct RunningCommand {
    pid: u32,
    pidfd: OwnedFd,
    status: Option<ExitStatus>,
}

impl StoppedCommand {
    /// Forks a process that will run `program` with `arguments` (the first is its name) in the
    /// caller's environment and directory.
    pub fn launch(program: &Path, arguments: &[OsString]) -> Result<Self, Refused> {
        let refused = |e| Refused::new("start", program.display().to_string(), e);
        // Everything that allocates happens before the fork.
        let c_string = |s: &OsStr| {
            CString::new(s.as_bytes()).map_err(|_| refused(io::Error::from_raw_os_error(libc::EINVAL)))
        };
        let path = c_string(program.as_os_str())?;
        let arguments: Vec<CString> = arguments.iter().map(|a| c_string(a)).collect::<Result<_, _>>()?;
        let environment: Vec<CString> = std::env::vars_os()
            .filter_map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok())
            .collect();
        let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
            strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
        };
        let (argument_pointers, environment_pointers) = (pointers(&arguments), pointers(&environment));
        let (gate_read, gate_write) = pipe().map_err(refused)?;
        let (error_read, error_write) = pipe().map_err(refused)?;

        // SAFETY: the child calls only async-signal-safe functions (see `become_command`).
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: both arrays end with null and point to NUL-terminated strings that the
            // child's copy of this frame keeps alive.
            unsafe {
                become_command(
                    &path,
                    &argument_pointers,
                    &environment_pointers,
                    &gate_read,
                    &gate_write,
                    &error_write,
                )
            }
        }
        check(pid.into()).map_err(refused)?;
        // SAFETY: integer arguments only.
        let pidfd = owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) });
        let pidfd = pidfd.map_err(|e| Refused::new("open a pidfd of", format!("process {pid}"), e))?;
        Ok(StoppedCommand {
            process: Some(RunningCommand { pid: pid as u32, pidfd, status: None }),
            gate: Some(File::from(gate_write)),
            exec_error: File::from(error_read),
        })
    }

    /// The process id it has and keeps.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("present until released").pid
    }

    /// Lets it run its program; answers when the program has begun, or with the reason why not.
    pub fn release(mut self) -> Result<RunningCommand, io::Error> {
        let mut gate = self.gate.take().expect("present until released");
        gate.write_all(b"!")?;
        drop(gate);
        // Closed by a successful exec; otherwise it carries the errno.
        let mut errno = Vec::new();
        self.exec_error.read_to_end(&mut errno)?;
        match <[u8; 4]>::try_from(errno.as_slice()) {
            Ok(errno) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(errno))),
            Err(_) => Ok(self.process.take().expect("present until released")),
        }
    }
}

impl Drop for StoppedCommand {
    fn drop(&mut self) {
        drop(self.gate.take());
        if let Some(mut process) = self.process.take() {
            let _ = process.wait();
        }
    }
}

impl RunningCommand {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The exit status if it has ended. Does not wait.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, Refused> {
        self.reap(libc::WNOHANG)
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> Result<ExitStatus, Refused> {
        loop {
            if let Some(status) = self.reap(0)? {
                return Ok(status);
            }
        }
    }

    /// Sends it a signal; none is sent once it has been reaped.
    pub fn signal(&self, signal: i32) {
        if self.status.is_none() {
            // SAFETY: integer arguments only; the process is our unreaped child, so its number
            // cannot have passed to another.
            unsafe { libc::kill(self.pid as i32, signal) };
        }
    }

    fn reap(&mut self, options: i32) -> Result<Option<ExitStatus>, Refused> {
        if self.status.is_some() {
            return Ok(self.status);
        }
        let mut raw = 0;
        // SAFETY: `raw` is a valid integer to write the status to.
        let result = unsafe { libc::waitpid(self.pid as i32, &mut raw, options) };
        match check(result.into()) {
            Ok(0) => Ok(None),
            Ok(_) => {
                self.status = Some(ExitStatus::from_raw(raw));
                Ok(self.status)
            }
            Err(e) if e.raw_os_error() == Some(libc::EINTR) => Ok(None),
            Err(e) => Err(Refused::new("wait for", format!("process {}", self.pid), e)),
        }
    }
}

impl AsFd for RunningCommand {
    /// A descriptor that becomes readable when the command ends.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// Sets the nice value of the calling thread (−20 is the most favoured); without the right to
/// it stays as it was. Answers whether it was set.
pub fn set_own_nice(nice: i32) -> bool {
    // SAFETY: integer arguments only; 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) == 0 }
}

pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0i32; 2];
    // SAFETY: `fds` has room for the two descriptors.
    check(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) }.into())?;
    Ok((owned(fds[0].into())?, owned(fds[1].into())?))
}

/// The child's side: waits at the gate, then becomes the program.
///
/// # Safety
/// Runs between fork and exec of a process that may have had threads: only
/// async-signal-safe calls, no allocation. Both arrays are null-terminated.
unsafe fn become_command(
    path: &CString,
    arguments: &[*const libc::c_char],
    environment: &[*const libc::c_char],
    gate_read: &OwnedFd,
    gate_write: &OwnedFd,
    error_write: &OwnedFd,
) -> ! {
    // SAFETY: see the function's contract; every pointer outlives the calls.
    unsafe {
        // The own copy of the writing end would keep the gate from closing with the recorder.
        libc::close(gate_write.as_raw_fd());
        // While it waits a Ctrl-C is to end it, not to run the recorder's handler in it.
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
            if libc::signal(signal, libc::SIG_DFL) == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_IGN);
            }
        }
        let mut byte = 0u8;
        let came = loop {
            let got = libc::read(gate_read.as_raw_fd(), (&raw mut byte).cast(), 1);
            if got >= 0 || *libc::__errno_location() != libc::EINTR {
                break got;
            }
        };
        if came != 1 {
            libc::_exit(127);
        }
        // Rust programs ignore SIGPIPE; the command must not inherit that, nor a signal mask.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
        libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr());
        let errno = (*libc::__errno_location()).to_ne_bytes();
        libc::write(error_write.as_raw_fd(), errno.as_ptr().cast(), errno.len());
        libc::_exit(127)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(words: &[&str]) -> StoppedCommand {
        let program = find_program(OsStr::new(words[0])).unwrap();
        let arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
        StoppedCommand::launch(&program, &arguments).unwrap()
    }

    #[test]
    fn a_stopped_command_runs_only_when_released() {
        let mut running = launch(&["sh", "-c", "exit 7"]).release().unwrap();
        assert_eq!(running.wait().unwrap().code(), Some(7));
        // Asking again gives the same answer.
        assert_eq!(running.ended().unwrap().unwrap().code(), Some(7));
    }

    #[test]
    fn a_dropped_command_never_runs() {
        let witness = std::env::temp_dir().join(format!("lotse-never-{}", std::process::id()));
        drop(launch(&["touch", witness.to_str().unwrap()]));
        assert!(!witness.exists());
    }

    #[test]
    fn a_file_that_is_no_program_says_so_when_released() {
        let path = std::env::temp_dir().join(format!("lotse-noexec-{}", std::process::id()));
        std::fs::write(&path, [0x7f, b'E', b'L', b'F', 0, 0]).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let error = StoppedCommand::launch(&path, &[path.clone().into()]).unwrap().release().unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(error.raw_os_error(), Some(libc::ENOEXEC));
    }

    #[test]
    fn missing_and_forbidden_programs_are_told_apart() {
        assert!(matches!(
            find_program(OsStr::new("no-such-program-here")),
            Err(ProgramMissing::NotFound { .. })
        ));
        assert!(matches!(find_program(OsStr::new("/etc/passwd")), Err(ProgramMissing::NotExecutable(_))));
        assert!(matches!(find_program(OsStr::new("")), Err(ProgramMissing::NotFound { .. })));
    }
}
