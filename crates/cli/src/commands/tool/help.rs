//! `lotse tool --help`.

use std::io::{self, Write};

/// How tools are called, and what there is.
pub fn of_all(out: &mut dyn Write) -> io::Result<()> {
    out.write_all(
        b"A ready tool: an everyday question answered by a program that comes with lotse\n\n\
          Usage: lotse tool NAME [INTERVAL [COUNT]] [OPTIONS]\n\n",
    )?;
    out.write_all(run::tool::page::overview().as_bytes())?;
    out.write_all(b"\n`lotse tool NAME --help` explains one.\n")
}
