//! Work on the project itself: structure checks, the test run, benchmarks, the kernel
//! matrix. Ships nothing.
//!
//! One command is one row of [`COMMANDS`] and one file.

mod shell;
mod structure;
mod test;
mod bench;
mod vm;
mod facts;

use std::process::ExitCode;

use anyhow::{Result, bail};

/// A command of `cargo xtask`.
struct Command {
    name: &'static str,
    what: &'static str,
    run: fn(&[String]) -> Result<()>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "test",
        what: "format, lints, structure, all tests; lists what had to be skipped and why",
        run: test::run_all,
    },
    Command {
        name: "load-calls",
        what: "the load of a benchmark: N cheap system calls, timed",
        run: bench::events::load_calls,
    },
    Command {
        name: "vm",
        what: "the kernel tests on Debian kernels in QEMU: [--kernel NAME]… [-- TESTNAME…]",
        run: vm::run,
    },
    Command {
        name: "facts",
        what: "saves the facts of each kernel into testdata/facts for compile tests",
        run: facts::run,
    },
    Command {
        name: "facts-here",
        what: "writes the facts of the running kernel to a file; `facts` runs it in its guests",
        run: facts::save_here,
    },
    Command { name: "bench", what: "the design's budgets, as ratios against the peers", run: bench::run },
    Command {
        name: "structure",
        what: "the allowed arrows between crates and the order of modules",
        run: structure::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<()> {
    let Some((name, rest)) = arguments.split_first() else {
        for command in COMMANDS {
            eprintln!("cargo xtask {:<10} {}", command.name, command.what);
        }
        bail!("name a command");
    };
    match COMMANDS.iter().find(|command| command.name == name) {
        Some(command) => (command.run)(rest),
        None => bail!("no command `{name}`; `cargo xtask` lists them"),
    }
}
