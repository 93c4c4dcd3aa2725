//! Whose waits are asked about: from processes, names and CPUs to threads.
//!
//! What a thread is called, whose it is and where it runs is only known at the end of a trace.
//! So a question that names more than threads takes a first analysis of all, and its
//! threads out of that.

use std::collections::{BTreeMap, BTreeSet};

use analysis::sched::{SchedResult, result::ThreadReport};
use trace::{Cpu, Tid, ident::ThreadKey};

/// What narrows a question. Kinds that are empty do not; threads have to fit all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whose {
    /// Threads of these processes, and what they start.
    pub processes: Vec<Tid>,
    /// Threads that are, or were once, called so: `*` stands for any letters, `?` for one.
    pub names: Vec<String>,
    /// Threads that ran on these CPUs, and only their waits that ended there.
    pub cpus: Vec<Cpu>,
}

impl Whose {
    /// Whether nothing is narrowed.
    pub fn is_everybody(&self) -> bool {
        self.processes.is_empty() && self.names.is_empty() && self.cpus.is_empty()
    }

    /// The threads meant, of a trace of which `all` was found. `threads` are meant as well as
    /// the processes, with what they start.
    pub fn threads(&self, threads: &[Tid], all: &SchedResult) -> Vec<Tid> {
        let mut meant: BTreeSet<ThreadKey> = BTreeSet::new();
        let children = children(all);
        let mut look: Vec<&ThreadReport> = all
            .threads
            .iter()
            .filter(|thread| {
                (threads.is_empty() && self.processes.is_empty())
                    || threads.contains(&thread.key.tid)
                    || self.processes.contains(&thread.key.tid)
                    || thread.process.is_some_and(|process| self.processes.contains(&process))
            })
            .collect();
        while let Some(thread) = look.pop() {
            if meant.insert(thread.key) {
                look.extend(children.get(&thread.key).into_iter().flatten());
            }
        }
        let fits = |thread: &&ThreadReport| {
            meant.contains(&thread.key)
                && (self.cpus.is_empty() || thread.ran_on.iter().any(|cpu| self.cpus.contains(cpu)))
                && (self.names.is_empty() || self.is_called(thread))
        };
        let found: BTreeSet<Tid> = all.threads.iter().filter(fits).map(|thread| thread.key.tid).collect();
        found.into_iter().collect()
    }

    fn is_called(&self, thread: &ThreadReport) -> bool {
        let mut names = thread.former_names.iter().chain([&thread.name]);
        names.any(|name| self.names.iter().any(|pattern| fits(pattern.as_bytes(), name.as_bytes())))
    }
}

fn children(all: &SchedResult) -> BTreeMap<ThreadKey, Vec<&ThreadReport>> {
    let mut children: BTreeMap<ThreadKey, Vec<&ThreadReport>> = BTreeMap::new();
    for thread in &all.threads {
        if let Some(parent) = thread.parent {
            children.entry(parent).or_default().push(thread);
        }
    }
    children
}

/// Whether a name fits a pattern. Goes back to the last `*` only, so that it takes no longer than
/// the product of the lengths.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut back = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                back = Some((p, n));
                p += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[n] => (p, n) = (p + 1, n + 1),
            _ => match back {
                Some((star, taken)) => {
                    back = Some((star, taken + 1));
                    (p, n) = (star + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("nginx", "nginx", true),
            ("nginx", "nginx2", false),
            ("kworker/*", "kworker/0:1H", true),
            ("*er*1*", "kworker/0:1H", true),
            ("*er*2*", "kworker/0:1H", false),
            ("?", "a", true),
            ("?", "", false),
            ("**", "", true),
            ("", "", true),
            ("a*b*c", "aXbXbc", true),
            ("a] ==> *", "a] ==> c", true),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
