//! Functions of executables and libraries: `uprobe:BIN:PATTERN`, with their arguments by debug information.

use lang::environment::{Environment, ParameterPlace, Pattern, Symbol, Unanswered};
use run::program::LiveEnvironment;
use serde::Serialize;

/// A function that can be probed.
#[derive(Serialize)]
pub struct Function {
    /// As a program names it: `uprobe:/bin/app:main`.
    pub probe: String,
    /// Arguments, where asked for and known.
    pub arguments: Vec<Argument>,
    /// The result's type, where known.
    pub result: Option<String>,
}

/// An argument of a function.
#[derive(Serialize)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// As C declares it.
    pub declaration: String,
    /// Why no program can read it.
    pub unreadable: Option<String>,
}

/// File and pattern of `uprobe:FILE:PATTERN`; none for names of other kinds.
pub fn parts(text: &str) -> Option<(&str, &str)> {
    let rest = ["uprobe:", "uretprobe:", "u:", "ur:"].iter().find_map(|kind| text.strip_prefix(kind))?;
    rest.rsplit_once(':')
}

/// The functions that match, by file and name.
pub fn matching(file: &str, pattern: &str, with_arguments: bool) -> Result<Vec<Function>, Unanswered> {
    let environment = LiveEnvironment::new(None);
    let mut found = Vec::new();
    let paths = environment.binaries(file)?;
    if paths.is_empty() {
        let message = format!("there is no file or library '{file}'; give a path, a command in PATH, or a library's name");
        return Err(Unanswered(message));
    }
    for path in paths {
        let mut symbols = environment.symbols(&path, &Pattern::new(pattern), false)?;
        symbols.sort_by(|a, b| (&a.name, a.address).cmp(&(&b.name, b.address)));
        symbols.dedup_by(|a, b| a.name == b.name);
        found.extend(symbols.iter().map(|symbol| described(&environment, &path, symbol, with_arguments)));
    }
    Ok(found)
}

/// One function a line, and its arguments below it.
pub fn text(functions: &[Function]) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    for function in functions {
        let _ = writeln!(text, "{}", function.probe);
        for argument in &function.arguments {
            let _ = match &argument.unreadable {
                None => writeln!(text, "    {}", argument.declaration),
                Some(why) => writeln!(text, "    {}  (cannot be read: {why})", argument.declaration),
            };
        }
        if let Some(result) = &function.result {
            let _ = writeln!(text, "    returns {result}");
        }
    }
    text
}

fn described(environment: &LiveEnvironment, path: &str, symbol: &Symbol, with_arguments: bool) -> Function {
    let mut function =
        Function { probe: format!("uprobe:{path}:{}", symbol.name), arguments: vec![], result: None };
    if with_arguments && let Ok(Some(known)) = environment.debug_function(path, symbol) {
        function.arguments = known
            .parameters
            .iter()
            .map(|parameter| Argument {
                name: parameter.name.clone(),
                declaration: known.types.declaration(parameter.type_id, &parameter.name),
                unreadable: match &parameter.place {
                    ParameterPlace::Unreadable(why) => Some(why.clone()),
                    _ => None,
                },
            })
            .collect();
        function.result = (known.result != 0).then(|| known.types.type_name(known.result));
    }
    function
}
