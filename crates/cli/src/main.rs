//! The `lotse` command: arguments in, exit status out. Holds no logic that another crate
//! could: each command is one file, which gathers, calls and prints.

mod global;
mod console;
mod exit;
mod input;
mod json;
mod present;
mod progress;
mod said;
mod stacks;
mod values;
mod selection;
mod commands;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = match commands::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return exit::usage(error),
    };
    let mut console = console::Console::new(&arguments.global);
    let outcome = commands::run(&arguments.command, &mut console);
    exit::code(outcome, &mut console)
}
