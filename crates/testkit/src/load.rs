//! Loads that know their own size: a program that makes exactly so many system calls.
//!
//! A test runs its own executable again as the load, so nothing has to be built or found
//! beside it: one test is called [`LOAD_TEST`] and does nothing but [`run_if_asked`].

use std::ffi::OsString;
use std::os::unix::process::parent_id;
use std::process::Command;
use std::thread;

/// The name of the test that is the load when its program is run again.
pub const LOAD_TEST: &str = "the_load_makes_exactly_its_calls";
const VARIABLE: &str = "LOTSE_TEST_LOAD";

/// Calls getppid (the C library does not cache it) `calls` times in each of `threads` threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// getppid calls of each thread.
    pub calls: u64,
    /// Threads; they start together.
    pub threads: u32,
    /// CPU time between calls, as turns of an empty loop.
    pub pause: u32,
}

impl Load {
    /// All calls of all threads.
    pub fn total(&self) -> u64 {
        self.calls * u64::from(self.threads)
    }

    /// The command that runs this load on these CPUs (as `taskset -c` takes them).
    pub fn command(&self, cpus: &str) -> Vec<OsString> {
        let setting = format!("{VARIABLE}={}:{}:{}", self.calls, self.threads, self.pause);
        let own = std::env::current_exe().expect("a test knows its executable");
        let mut words: Vec<OsString> =
            ["env", &setting, "taskset", "-c", cpus].iter().map(OsString::from).collect();
        words.push(own.into());
        words.extend(["--exact", LOAD_TEST, "--quiet"].iter().map(OsString::from));
        words
    }

    /// The same as a command to be spawned, silent.
    pub fn process(&self, cpus: &str) -> Command {
        let words = self.command(cpus);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdout(std::process::Stdio::null());
        command
    }

    /// Makes the calls in this process.
    pub fn run(&self) {
        thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| {
                    for _ in 0..self.calls {
                        std::hint::black_box(parent_id());
                        for turn in 0..self.pause {
                            std::hint::black_box(turn);
                        }
                    }
                });
            }
        });
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let mut next = || parts.next();
        Some(Load {
            calls: next()?.parse().ok()?,
            threads: next()?.parse().ok()?,
            pause: next()?.parse().ok()?,
        })
    }
}

/// Runs the load that the environment asks for; false if it asks for none.
pub fn run_if_asked() -> bool {
    let asked = std::env::var(VARIABLE).ok().map(|text| Load::parse(&text).expect("calls:threads:pause"));
    asked.inspect(Load::run).is_some()
}
