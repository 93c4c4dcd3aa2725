//! Name patterns: `sched:*`, `tracepoint:sched:sched_switch`, `*fault*`, `sched_switch`.

/// A pattern over kinds and names.
pub struct Pattern<'a> {
    text: &'a str,
    parts: usize,
}

impl<'a> Pattern<'a> {
    pub fn new(text: &'a str) -> Pattern<'a> {
        Pattern { text, parts: text.split(':').count() }
    }

    /// Whether an event of this kind and name (`sched:sched_switch`, `cpu-clock`) is meant.
    /// The pattern may begin at the kind, at the name, or at the name's last part.
    pub fn matches(&self, kind: &str, name: &str) -> bool {
        let full = format!("{kind}:{name}");
        let last = name.rsplit(':').next().unwrap_or(name);
        let candidates: &[&str] = match self.parts {
            1 => &[last, name],
            2 => &[name, &full],
            _ => &[&full],
        };
        candidates.iter().any(|candidate| matches(self.text, candidate))
    }
}

/// Wildcards: `*` any number of characters, `?` one.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&b) if b == b'?' || b == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                // Let the last star take one character more, and try again from there.
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    t = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&b| b == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_begins_at_the_kind_the_name_or_its_last_part() {
        let is = |pattern: &str, kind: &str, name: &str| Pattern::new(pattern).matches(kind, name);
        for pattern in ["sched_switch", "sched:sched_switch", "tracepoint:sched:sched_switch", "sched:*", "*switch", "*"] {
            assert!(is(pattern, "tracepoint", "sched:sched_switch"), "{pattern}");
        }
        for pattern in ["sched", "irq:*", "rawtracepoint:*", "switch*"] {
            assert!(!is(pattern, "tracepoint", "sched:sched_switch"), "{pattern}");
        }
        assert!(is("software:*", "software", "cpu-clock"));
        assert!(is("cpu-clock", "software", "cpu-clock"));
        assert!(is("software:cpu?clock", "software", "cpu-clock"));
    }

    #[test]
    fn stars_take_as_much_as_is_needed() {
        assert!(matches("*a*b", "aabab"));
        assert!(!matches("*a*b", "aabac"));
        assert!(matches("a**", "a"));
        assert!(!matches("?", ""));
        assert!(matches(&format!("{}b", "a*".repeat(30)), &format!("{}b", "a".repeat(60))));
    }
}
