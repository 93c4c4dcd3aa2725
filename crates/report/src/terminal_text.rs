//! Text that comes from the traced machine, made fit for a terminal: its width in
//! columns, cutting, wrapping, and control characters shown instead of obeyed.

/// The columns a terminal uses for this text. Combining marks take none, East Asian wide
/// characters and emoji take two.
pub fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

fn char_width(c: char) -> usize {
    match c as u32 {
        0x20..0x7f => 1,
        0x00..0x20 | 0x7f..0xa0 => 0,
        0x300..=0x36f | 0x483..=0x489 | 0x591..=0x5bd | 0x610..=0x61a | 0x64b..=0x65f => 0,
        0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x2064 | 0x2066..=0x206f => 0,
        0xfe00..=0xfe0f | 0xfe20..=0xfe2f | 0xfeff | 0xe0100..=0xe01ef => 0,
        0x1100..=0x115f | 0x2e80..=0x303e | 0x3041..=0xa4cf | 0xac00..=0xd7a3 => 2,
        0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 => 2,
        0x1f300..=0x1f64f | 0x1f680..=0x1f6ff | 0x1f900..=0x1faff | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// Whether a character could move the cursor, recolour the terminal or reorder text.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c as u32, 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff | 0xe0000..=0xe007f)
}

/// The text with every unsafe character written as an escape (`\n`, `\x1b`, `\u{202e}`),
/// so that a thread's name can neither clear the screen nor forge a line. Reads like the
/// input where there is none.
pub fn visible(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_unsafe(c) && (c as u32) < 0x100 => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if is_unsafe(c) => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => out.push(c),
        }
    }
    out.into()
}

/// At most `limit` columns of the text. What is left out is marked by `…` in the middle,
/// because both ends of a name tell things apart (`kworker/u8:3-events`).
pub fn shorten(text: &str, limit: usize) -> String {
    if width(text) <= limit {
        return text.to_owned();
    }
    if limit == 0 {
        return String::new();
    }
    let tail_columns = (limit - 1) / 3;
    let head_columns = limit - 1 - tail_columns;
    let mut head = String::new();
    let mut used = 0;
    for c in text.chars() {
        if used + char_width(c) > head_columns {
            break;
        }
        used += char_width(c);
        head.push(c);
    }
    let mut tail = Vec::new();
    let mut used = 0;
    for c in text.chars().rev() {
        if used + char_width(c) > tail_columns {
            break;
        }
        used += char_width(c);
        tail.push(c);
    }
    head.push('…');
    head.extend(tail.into_iter().rev());
    head
}

/// Whether a line must not break between these words, a number and its unit.
pub fn belong_together(number: &str, unit: &str) -> bool {
    const UNITS: [&str; 14] =
        ["ns", "µs", "ms", "s", "min", "h", "%", "B", "KiB", "MiB", "GiB", "TiB", "events/s", "times"];
    let unit = unit.trim_end_matches(['.', ',', ';', ':', ')', '?']);
    number.ends_with(|c: char| c.is_ascii_digit()) && UNITS.contains(&unit)
}

/// Breaks a paragraph at spaces into lines of at most `limit` columns; a longer word
/// keeps a line of its own, and a number its unit.
pub fn wrap(text: &str, limit: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    let mut words = text.split([' ', '\n']).filter(|w| !w.is_empty()).peekable();
    while let Some(word) = words.next() {
        let mut piece = std::borrow::Cow::from(word);
        while let Some(next) = words.next_if(|next| belong_together(&piece, next)) {
            piece = format!("{piece} {next}").into();
        }
        let word = piece.as_ref();
        let columns = width(word);
        if used > 0 && used + 1 + columns > limit {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += columns;
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_follow_what_a_terminal_shows() {
        assert_eq!(width("kworker/0:1"), 11);
        assert_eq!(width("日本"), 4);
        assert_eq!(width("e\u{301}"), 1);
        assert_eq!(width("µs –"), 4);
    }

    #[test]
    fn names_cannot_drive_the_terminal() {
        assert_eq!(visible("a b] ==> c"), "a b] ==> c");
        assert_eq!(visible("\x1b[2J\nroot"), "\\x1b[2J\\nroot");
        assert_eq!(visible("a\u{202e}b"), "a\\u{202e}b");
    }

    #[test]
    fn shortened_text_keeps_both_ends_and_the_limit() {
        assert_eq!(shorten("kworker/u8:3-events_unbound", 15), "kworker/u8…ound");
        assert_eq!(shorten("short", 15), "short");
        for limit in 0..8 {
            assert!(width(&shorten("日本語テキスト", limit)) <= limit, "{limit}");
        }
    }

    #[test]
    fn paragraphs_wrap_at_spaces() {
        assert_eq!(wrap("one two  three\nfour", 9), ["one two", "three", "four"]);
        assert_eq!(wrap("incomprehensibilities no", 5), ["incomprehensibilities", "no"]);
        assert!(wrap("", 5).is_empty());
        assert_eq!(wrap("waits of 1.18 µs, at most", 13), ["waits of", "1.18 µs, at", "most"]);
    }
}
