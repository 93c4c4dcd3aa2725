//! What the first argument of `lotse run` means: a built-in recipe, a recipe's file, or the
//! folder of an earlier run.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use run::recipe::{self, BUILT_IN, Recipe};
use run::run_record::{Request, RunRecord};

/// A recipe, and where it came from.
pub struct What {
    /// The recipe.
    pub recipe: Recipe,
    /// Its text.
    pub text: String,
    /// Its file; `None` for a built-in one.
    pub file: Option<PathBuf>,
    /// The request of the run that is repeated.
    pub earlier: Option<Request>,
}

impl What {
    /// Finds it. A name without a slash or dot is a built-in recipe first.
    pub fn find(text: &str) -> anyhow::Result<What> {
        if let Some(built_in) = recipe::built_in(text) {
            let recipe = recipe::parse(built_in).expect("built-in recipes are right: a test reads them");
            return Ok(What { recipe, text: built_in.to_owned(), file: None, earlier: None });
        }
        let path = Path::new(text);
        if path.is_dir() {
            return What::of_folder(path);
        }
        if path.is_file() {
            if path.file_name().is_some_and(|name| name == run::run_record::FILE_NAME) {
                return What::of_folder(path.parent().unwrap_or(Path::new(".")));
            }
            let bytes = std::fs::read(path).with_context(|| format!("cannot read the recipe {}", path.display()))?;
            if bytes.starts_with(b"\x7fELF") || bytes.starts_with(b"#!") {
                bail!(
                    "{text} is a program and no recipe; to ask about it, name a recipe ({}) and put the command \
                     behind `--`: lotse run {} -- {text}",
                    names(),
                    BUILT_IN[0].0
                );
            }
            let source = String::from_utf8(bytes).ok().with_context(|| {
                format!("{text} is no recipe: not text; `lotse run {}` uses a built-in one", BUILT_IN[0].0)
            })?;
            return Ok(What {
                recipe: parse(&source, &path.display().to_string())?,
                text: source,
                file: Some(path.to_owned()),
                earlier: None,
            });
        }
        bail!("{}", unknown(text))
    }

    fn of_folder(folder: &Path) -> anyhow::Result<What> {
        if !run::folder::is_run_folder(folder) {
            bail!(
                "{} is a folder without a run.json: no run to repeat; name a recipe ({}) or a recipe's file",
                folder.display(),
                names()
            );
        }
        let record = RunRecord::read(folder)?;
        let place = format!("{}/run.json, the recipe in it", folder.display());
        Ok(What {
            recipe: parse(&record.recipe.text, &place)?,
            text: record.recipe.text,
            file: record.recipe.file,
            earlier: Some(record.request),
        })
    }
}

fn parse(source: &str, place: &str) -> anyhow::Result<Recipe> {
    recipe::parse(source).map_err(|problems| {
        let lines: Vec<String> = problems.0.iter().map(|problem| {
            let help = if problem.help.is_empty() { String::new() } else { format!("; {}", problem.help) };
            format!("{place}:{}: {}{help}", problem.line, problem.message)
        }).collect();
        anyhow::anyhow!("the recipe cannot be used:\n  {}", lines.join("\n  "))
    })
}

fn names() -> String {
    BUILT_IN.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn unknown(text: &str) -> String {
    let near = bpf::btf::nearest(text, BUILT_IN.iter().map(|(name, _)| *name), 1);
    let guess = match near.first() {
        Some(name) => format!("did you mean {name}? "),
        None => String::new(),
    };
    format!("there is no recipe, file or folder `{text}`; {guess}built in: {}", names())
}
