//! The tools themselves.

use super::header::{self, Header, HeaderError};
use super::options::{self, ToolOption};

/// Name and text of every tool, by name.
pub const SHELF: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/shelf.rs"));

/// A tool with its header read.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Its name, which is that of its file.
    pub name: String,
    /// The program.
    pub text: String,
    /// What its first lines say.
    pub header: Header,
    /// What it asks for with `getopt`.
    pub options: Vec<ToolOption>,
}

/// The tool of this name, if there is one.
pub fn find(name: &str) -> Option<Result<Tool, Vec<HeaderError>>> {
    let (name, text) = SHELF.iter().find(|(known, _)| *known == name)?;
    Some(read(name, text))
}

/// A tool of any text, also one that is not on the shelf.
pub fn read(name: &str, text: &str) -> Result<Tool, Vec<HeaderError>> {
    let header = header::parse(name, text)?;
    Ok(Tool { name: name.to_owned(), text: text.to_owned(), header, options: options::of_text(text) })
}

/// Names close to one that does not exist.
pub fn near(name: &str) -> Vec<&'static str> {
    bpf::btf::nearest(name, SHELF.iter().map(|(known, _)| *known), 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_says_what_it_is() {
        let mut wrong = String::new();
        for (name, _) in SHELF {
            if let Some(Err(errors)) = find(name) {
                wrong.extend(errors.iter().map(|error| format!("tools/{name}.bt:{error}\n")));
            }
        }
        assert_eq!(wrong, "");
    }

    #[test]
    fn see_also_names_tools() {
        for (name, _) in SHELF {
            let Some(Ok(tool)) = find(name) else { continue };
            for other in &tool.header.see_also {
                assert!(other.as_str() != *name, "{name} refers to itself");
            }
        }
    }
}
