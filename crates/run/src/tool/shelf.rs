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

impl Tool {
    /// The program for the arguments of a command line: each `$NAME` of the header's arguments is replaced by what
    /// was given, as it stands.
    pub fn program(&self, arguments: &[String]) -> String {
        let names = self.header.arguments.iter().map(|argument| argument.name.as_str());
        let pairs: Vec<(&str, &String)> = names.zip(arguments).collect();
        let mut program = String::with_capacity(self.text.len());
        let mut rest = self.text.as_str();
        while let Some(at) = rest.find('$') {
            let (before, from) = rest.split_at(at);
            let length = from[1..].bytes().take_while(u8::is_ascii_uppercase).count();
            let (name, after) = from[1..].split_at(length);
            program.push_str(before);
            match pairs.iter().find(|(known, _)| *known == name) {
                Some((_, value)) => program.push_str(value),
                None => program.push_str(&from[..1 + length]),
            }
            rest = after;
        }
        program.push_str(rest);
        program
    }
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
    fn arguments_stand_in_the_program_as_they_were_given() {
        let text = "// t: what is this good for?\n//\n// A test.\n//\n// Family: applications\n// Arguments:\n\
            //   PROBE   what\n//   VALUE   of it\n// Columns:\n//   n  number\n// Examples:\n//   lotse tool t x y\n\
            // Rate: none\n// Limits: none\n// See also: none\n$PROBE { $x = $VALUE; $PROBES = $x; }\n";
        let tool = read("t", text).unwrap();
        let program = tool.program(&["kprobe:f /$1/".into(), "arg0".into()]);
        assert!(program.ends_with("\nkprobe:f /$1/ { $x = arg0; $PROBES = $x; }\n"), "{program}");
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
