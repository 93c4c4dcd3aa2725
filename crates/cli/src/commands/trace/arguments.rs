//! Words of the command line and of the environment, as bpftrace takes them.

use std::ffi::OsString;
use std::io::Write;

use run::program::Compiled;

use crate::exit::Outcome;

/// `-- --help`: the options that the program asks for with `getopt`.
pub fn print_options(compiled: &Compiled, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    for option in &compiled.schema.options {
        let value = format!("--{}={}", option.name, option.default);
        writeln!(out, "{value:<24} {}", option.description)?;
    }
    Ok(Outcome::Done)
}

/// `--name=value` and `--name` are for `getopt`, the rest is `$1`, `$2`, …
pub fn split_arguments(words: &[String]) -> (Vec<String>, Vec<(String, Option<String>)>) {
    let (mut positional, mut named) = (Vec::new(), Vec::new());
    for word in words {
        match word.strip_prefix("--") {
            // What comes after it is read as what comes before it: bpftrace takes both on both sides.
            Some("") => {}
            Some(name) => match name.split_once('=') {
                Some((name, value)) => named.push((name.to_owned(), Some(value.to_owned()))),
                None => named.push((name.to_owned(), None)),
            },
            _ => positional.push(word.clone()),
        }
    }
    (positional, named)
}

/// Settings that bpftrace takes from its environment.
pub fn settings_of_environment() -> Vec<(String, String)> {
    let variables = std::env::vars().filter_map(|(name, value)| {
        let name = name.strip_prefix("BPFTRACE_")?.to_ascii_lowercase();
        lang::config::VARIABLES.iter().any(|(known, _)| *known == name).then_some((name, value))
    });
    variables.collect()
}

/// A command line in words, with quotes and backslashes as in a shell.
pub fn words_of(line: &str) -> Vec<OsString> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (character, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\\', None | Some('"')) => {
                if let Some(next) = characters.next() {
                    word.get_or_insert_default().push(next);
                }
            }
            (c @ ('"' | '\''), None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words.into_iter().map(OsString::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_as_a_shell_splits_them() {
        assert_eq!(words_of("sh -c 'echo \"a b\"' x\\ y \"\""), ["sh", "-c", "echo \"a b\"", "x y", ""]);
        assert!(words_of("  ").is_empty());
    }

    #[test]
    fn named_and_positional_arguments_are_told_apart() {
        let words: Vec<String> = ["1", "--top=5", "--", "2", "--all"].map(String::from).into();
        let (positional, named) = split_arguments(&words);
        assert_eq!(positional, ["1", "2"]);
        assert_eq!(named, [("top".into(), Some("5".into())), ("all".into(), None)]);
    }
}
