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

/// What one byte has to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Element {
    /// This byte.
    Byte(u8),
    /// Any byte.
    Any,
    /// One of these (or, negated, none of them), each range with both ends.
    Class {
        /// `[!…]`.
        negated: bool,
        /// Lowest and highest.
        ranges: Vec<(u8, u8)>,
    },
}

impl Element {
    fn holds(&self, byte: u8) -> bool {
        match self {
            Element::Byte(wanted) => *wanted == byte,
            Element::Any => true,
            Element::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&byte)) != *negated
            }
        }
    }
}

/// A pattern's elements between its stars: one list more than there are stars.
pub fn parts(pattern: &[u8]) -> Vec<Vec<Element>> {
    let mut parts = vec![Vec::new()];
    let mut at = 0;
    while at < pattern.len() {
        if pattern[at] == b'*' {
            parts.push(Vec::new());
            at += 1;
            continue;
        }
        let (element, next) = element(pattern, at);
        if let Some(last) = parts.last_mut() {
            last.push(element);
        }
        at = next;
    }
    parts
}

/// The element at `p`, and where the pattern goes on. A `[` that is never closed is itself.
fn element(pattern: &[u8], p: usize) -> (Element, usize) {
    match pattern[p] {
        b'?' => (Element::Any, p + 1),
        b'[' => {
            let negated = matches!(pattern.get(p + 1), Some(b'!' | b'^'));
            let start = p + 1 + usize::from(negated);
            // A `]` right after the opening is a member.
            let Some(length) = pattern.iter().skip(start + 1).position(|byte| *byte == b']') else {
                return (Element::Byte(b'['), p + 1);
            };
            let class = &pattern[start..start + 1 + length];
            let mut ranges = Vec::new();
            let mut i = 0;
            while i < class.len() {
                if class.get(i + 1) == Some(&b'-') && i + 2 < class.len() {
                    ranges.push((class[i], class[i + 2]));
                    i += 3;
                } else {
                    ranges.push((class[i], class[i]));
                    i += 1;
                }
            }
            (Element::Class { negated, ranges }, start + length + 2)
        }
        byte => (Element::Byte(byte), p + 1),
    }
}

/// Matches one byte at `p`; answers where the pattern goes on.
fn one(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    if p >= pattern.len() {
        return None;
    }
    let (element, next) = element(pattern, p);
    element.holds(byte).then_some(next)
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
