//! The options of a tool: its `getopt` calls, found in the text as it stands, so that help and documentation do
//! not depend on a kernel.

use lang::syntax::lexer::{self, Token};

/// An option that a tool asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOption {
    /// Its name, without dashes.
    pub name: String,
    /// What holds without it; none for a flag, which is off.
    pub default: Option<String>,
    /// What it is for.
    pub description: String,
}

/// The options of a text, each once, in the order of first use.
pub fn of_text(text: &str) -> Vec<ToolOption> {
    let mut found: Vec<ToolOption> = Vec::new();
    let mut at = 0;
    loop {
        let (token, span, _) = lexer::next(text, at, 0);
        if token == Token::End {
            return found;
        }
        at = (span.end as usize).max(at + 1);
        if token == Token::Name
            && &text[span.start as usize..span.end as usize] == "getopt"
            && let Some((option, end)) = call(text, at)
        {
            at = end;
            match found.iter_mut().find(|have| have.name == option.name) {
                Some(have) if have.description.is_empty() => have.description = option.description,
                Some(_) => {}
                None => found.push(option),
            }
        }
    }
}

/// The call whose name ends at `at`, and where it ends.
fn call(text: &str, mut at: usize) -> Option<(ToolOption, usize)> {
    let mut next = || {
        let (token, span, _) = lexer::next(text, at, 0);
        at = span.end as usize;
        (token, span)
    };
    if next().0 != Token::Sign("(") {
        return None;
    }
    let Token::Str(name) = next().0 else { return None };
    let mut parts: Vec<String> = vec![String::from_utf8_lossy(&name).into_owned()];
    loop {
        match next() {
            (Token::Sign(")"), span) => {
                let mut parts = parts.into_iter();
                let name = parts.next()?;
                let default = parts.next().filter(|default| default != "false");
                let description = parts.next().unwrap_or_default();
                return Some((ToolOption { name, default, description }, span.end as usize));
            }
            (Token::Sign(","), _) => parts.push(String::new()),
            (Token::Str(text), _) => parts.last_mut()?.push_str(&String::from_utf8_lossy(&text)),
            (Token::End | Token::Bad, _) => return None,
            (_, span) => parts.last_mut()?.push_str(&text[span.start as usize..span.end as usize]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_wherever_they_stand() {
        let text = r#"
            // getopt("no", 1)
            #if probe("x")
            begin { if (getopt("by", "none", "comm, \"pid\" or none") == "comm") { @a = getopt("n", -1); } }
            #endif
            end { print(getopt("flag")); print(getopt("n", -1, "how many")); print(getopt("off", false, "x")); }
        "#;
        let option = |name: &str, default: Option<&str>, description: &str| ToolOption {
            name: name.into(),
            default: default.map(Into::into),
            description: description.into(),
        };
        assert_eq!(
            of_text(text),
            [
                option("by", Some("none"), "comm, \"pid\" or none"),
                option("n", Some("-1"), "how many"),
                option("flag", None, ""),
                option("off", None, "x"),
            ]
        );
    }
}
