//! Patterns with `*`, `?` and `[…]`, as probes and `globmatch` use them.

/// A pattern over names.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Pattern {
    text: String,
    wild: bool,
}

impl Pattern {
    /// Takes `*`, `?` and `[…]` as wildcards.
    pub fn new(text: &str) -> Pattern {
        Pattern { text: text.into(), wild: has_wildcard(text) }
    }

    /// The pattern as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it can match more than one name.
    pub fn is_wild(&self) -> bool {
        self.wild
    }

    /// Whether a name matches as a whole.
    pub fn matches(&self, name: &str) -> bool {
        if self.wild { glob(self.text.as_bytes(), name.as_bytes()) } else { self.text == name }
    }
}

/// Whether a text has a wildcard in it.
pub fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Whether `name` as a whole matches `pattern`; time is at most the product of the lengths.
pub fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&b'*') {
            retry = Some((p + 1, n));
            p += 1;
            continue;
        }
        if let Some(next) = one(pattern, p, name[n]) {
            p = next;
            n += 1;
            continue;
        }
        match retry {
            Some((after_star, from)) => {
                retry = Some((after_star, from + 1));
                p = after_star;
                n = from + 1;
            }
            None => return false,
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Matches one byte at `p`; answers where the pattern goes on.
fn one(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    match *pattern.get(p)? {
        b'?' => Some(p + 1),
        b'[' => {
            let Some(length) = pattern[p + 1..].iter().skip(1).position(|byte| *byte == b']') else {
                return (byte == b'[').then_some(p + 1);
            };
            let class = &pattern[p + 1..p + 2 + length];
            let (negated, class) = match class.first() {
                Some(b'!' | b'^') => (true, &class[1..]),
                _ => (false, class),
            };
            let mut found = false;
            let mut i = 0;
            while i < class.len() {
                if class.get(i + 1) == Some(&b'-') && i + 2 < class.len() {
                    found |= (class[i]..=class[i + 2]).contains(&byte);
                    i += 3;
                } else {
                    found |= class[i] == byte;
                    i += 1;
                }
            }
            (found != negated).then_some(p + 3 + length)
        }
        literal => (literal == byte).then_some(p + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_whole_names() {
        let cases = [
            ("tcp_*", "tcp_reset", true),
            ("tcp_*", "atcp_reset", false),
            ("*socket*", "sys_socketpair", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[!a-c]x", "dx", true),
            ("a*b*c", "a__b__b__c", true),
            ("a*b*c", "a__c__b", false),
            ("[", "[", true),
            ("*", "", true),
            ("", "", true),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(Pattern::new(pattern).matches(name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_take_little_time() {
        let pattern = "*a".repeat(50) + "b";
        assert!(!Pattern::new(&pattern).matches(&"a".repeat(5000)));
    }
}
