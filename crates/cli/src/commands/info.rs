//! `lotse info`: what a trace file holds and who made it.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::console::Console;
use crate::exit::Outcome;
use crate::input::trace_file;
use crate::json::Head;
use crate::present::{self, Format};

#[derive(Debug, Args)]
#[command(after_help = "Example: lotse info trace.dat

Exit status 1 when the file is cut, damaged, or cannot be read to its end; what can be read is told.")]
pub struct Info {
    /// A trace file of lotse, trace-cmd or perf, or a run folder
    #[arg(value_name = "FILE|RUN_FOLDER")]
    input: PathBuf,
    /// As JSON, schema 1
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Json<'a> {
    lotse: Head,
    file: String,
    info: &'a trace::TraceInfo,
    survey: &'a readers::Survey,
}

impl Info {
    pub fn run(&self, console: &mut Console) -> anyhow::Result<Outcome> {
        let path = trace_file(&self.input, console)?;
        let mut source = readers::open_path(&path)?;
        let survey = readers::survey(source.as_mut());
        let info = source.info();
        let whole = info.cut.is_none() && info.problems.is_empty() && survey.error.is_none();
        let file = path.display().to_string();
        if self.json {
            let json = Json { lotse: Head::new("info"), file, info, survey: &survey };
            serde_json::to_writer_pretty(console.out(), &json)?;
            writeln!(console.out())?;
        } else {
            let document = present::info_document(info, &survey, &file);
            let text = present::render(&document, Format::Text, &console.text_options());
            console.out().write_all(text.as_bytes())?;
        }
        Ok(if whole { Outcome::Done } else { Outcome::DoesNotHold })
    }
}
