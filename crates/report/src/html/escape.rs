//! Foreign text in HTML: nothing that a traced machine calls itself becomes markup.

use crate::terminal_text::{belong_together, visible};

/// Text for element content and for attribute values in double or single quotes. Control
/// characters and those that reorder text are written as escapes a reader can see.
pub fn escape(text: &str) -> String {
    let text = visible(text);
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// A sentence: escaped, with numbers held to their units.
pub fn prose(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut before = "";
    for word in text.split(' ') {
        if !before.is_empty() || !out.is_empty() {
            out.push(if belong_together(before, word) { '\u{a0}' } else { ' ' });
        }
        out.push_str(&escape(word));
        before = word;
    }
    out
}

/// A name that is safe as an `id` and behind `#`.
pub fn anchor(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_markup() {
        assert_eq!(escape("</script><b>&\"'"), "&lt;/script&gt;&lt;b&gt;&amp;&quot;&#39;");
        assert_eq!(escape("a\u{202e}b\0"), "a\\u{202e}b\\x00");
        assert_eq!(prose("a <b> 1.18 µs, 5 %."), "a &lt;b&gt; 1.18\u{a0}µs, 5\u{a0}%.");
        assert_eq!(anchor("a b\"><x"), "a-b---x");
    }
}
