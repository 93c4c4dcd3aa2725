//! Options that every command has.

use clap::{Args, ValueEnum};

/// Options that every command has.
#[derive(Debug, Args)]
pub struct Global {
    /// Say less on stderr: warnings and errors only
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Everywhere")]
    pub quiet: bool,
    /// Say more on stderr
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub verbose: bool,
    /// When to use colour
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Everywhere")]
    pub color: ColorChoice,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Also into pipes
    Always,
    /// Nowhere
    Never,
}
