//! Events whose text is understood: their fields, and from text to fields.
//!
//! To add an event, add its row. Its fields get the names by which the typed event asks
//! for them (`trace::event`).

use trace::{
    EventFormat,
    format::{Field, FieldShape},
};

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A number, decimal or `0x…`.
    Number,
    /// A thread's name: may hold anything.
    Comm,
    /// Text.
    Text,
    /// `prev_state`.
    State,
    /// `handled` or `unhandled`.
    Handled,
}

/// An understood event.
pub(super) struct Known {
    pub(super) system: &'static str,
    pub(super) name: &'static str,
    /// Field, key in the text (the word before `=`), kind.
    pub(super) fields: &'static [(&'static str, &'static str, Kind)],
}

use Kind::{Comm, Handled, Number, State, Text};

const WAKE: &[(&str, &str, Kind)] = &[
    ("comm", "comm", Comm),
    ("pid", "pid", Number),
    ("prio", "prio", Number),
    ("target_cpu", "target_cpu", Number),
];
const VECTOR: &[(&str, &str, Kind)] = &[("vec", "vec", Number)];
const ENDED: &[(&str, &str, Kind)] =
    &[("comm", "comm", Comm), ("pid", "pid", Number), ("prio", "prio", Number)];

pub(super) const KNOWN: &[Known] = &[
    Known {
        system: "sched",
        name: "sched_switch",
        fields: &[
            ("prev_comm", "prev_comm", Comm),
            ("prev_pid", "prev_pid", Number),
            ("prev_prio", "prev_prio", Number),
            ("prev_state", "prev_state", State),
            ("next_comm", "next_comm", Comm),
            ("next_pid", "next_pid", Number),
            ("next_prio", "next_prio", Number),
        ],
    },
    Known { system: "sched", name: "sched_waking", fields: WAKE },
    Known { system: "sched", name: "sched_wakeup", fields: WAKE },
    Known { system: "sched", name: "sched_wakeup_new", fields: WAKE },
    Known {
        system: "sched",
        name: "sched_migrate_task",
        fields: &[
            ("comm", "comm", Comm),
            ("pid", "pid", Number),
            ("prio", "prio", Number),
            ("orig_cpu", "orig_cpu", Number),
            ("dest_cpu", "dest_cpu", Number),
        ],
    },
    Known {
        system: "sched",
        name: "sched_stat_runtime",
        fields: &[("comm", "comm", Comm), ("pid", "pid", Number), ("runtime", "runtime", Number)],
    },
    Known {
        system: "sched",
        name: "sched_process_fork",
        fields: &[
            ("parent_comm", "comm", Comm),
            ("parent_pid", "pid", Number),
            ("child_comm", "child_comm", Comm),
            ("child_pid", "child_pid", Number),
        ],
    },
    Known {
        system: "sched",
        name: "sched_process_exec",
        fields: &[("filename", "filename", Text), ("pid", "pid", Number), ("old_pid", "old_pid", Number)],
    },
    Known { system: "sched", name: "sched_process_exit", fields: ENDED },
    Known { system: "sched", name: "sched_process_free", fields: ENDED },
    Known {
        system: "task",
        name: "task_rename",
        fields: &[("pid", "pid", Number), ("oldcomm", "oldcomm", Comm), ("newcomm", "newcomm", Comm)],
    },
    Known {
        system: "irq",
        name: "irq_handler_entry",
        fields: &[("irq", "irq", Number), ("name", "name", Text)],
    },
    Known {
        system: "irq",
        name: "irq_handler_exit",
        fields: &[("irq", "irq", Number), ("ret", "ret", Handled)],
    },
    Known { system: "irq", name: "softirq_entry", fields: VECTOR },
    Known { system: "irq", name: "softirq_exit", fields: VECTOR },
    Known { system: "irq", name: "softirq_raise", fields: VECTOR },
    Known {
        system: "exceptions",
        name: "page_fault_user",
        fields: &[("address", "address", Number), ("error_code", "error_code", Number)],
    },
    Known { system: "raw_syscalls", name: "sys_enter", fields: &[("id", "NR", Number)] },
    Known {
        system: "raw_syscalls",
        name: "sys_exit",
        fields: &[("id", "NR", Number), ("ret", "ret", Number)],
    },
];

/// States are stored as the bits of kernels since 4.14, whatever the text said.
const STATE_LETTERS: &[(char, u64)] = &[
    ('S', 1),
    ('D', 2),
    ('T', 4),
    ('t', 8),
    ('X', 0x10),
    ('x', 0x10),
    ('Z', 0x20),
    ('P', 0x40),
    ('I', 0x80),
];

/// A number printed raw whose meaning depends on the kernel.
const STATE_UNKNOWN: u64 = 0x200;
const STATE_PREEMPTED: u64 = 0x100;

/// The print format of `sched_switch` with states as [`state`] gives them.
pub(crate) const STATE_PRINT: &str = r#""prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d next_prio=%d", REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & 0x2ff) ? __print_flags(REC->prev_state & 0x2ff, "|", { 0x01, "S" }, { 0x02, "D" }, { 0x04, "T" }, { 0x08, "t" }, { 0x10, "X" }, { 0x20, "Z" }, { 0x40, "P" }, { 0x80, "I" }, { 0x200, "?" }) : "R", REC->prev_state & 0x100 ? "+" : "", REC->next_comm, REC->next_pid, REC->next_prio"#;

/// The bits of a state's letters, or of a number printed raw.
pub(crate) fn state(text: &str) -> u64 {
    if let Ok(number) = text.parse::<u64>() {
        // Numbers that mean the same in all encodings; the bit of preemption has moved
        // upwards with the kernels and stands alone.
        return match number {
            0 | 1 | 2 | 4 | 8 => number,
            256 | 1024 | 2048 | 4096 | 8192 => STATE_PREEMPTED,
            _ => STATE_UNKNOWN,
        };
    }
    let mut bits = 0;
    for letter in text.chars() {
        if letter == '+' {
            bits |= STATE_PREEMPTED;
        } else if let Some((_, bit)) = STATE_LETTERS.iter().find(|(known, _)| *known == letter) {
            bits |= bit;
        } else if !matches!(letter, 'R' | '|' | 'K' | 'W' | 'N' | 'n') {
            bits |= STATE_UNKNOWN;
        }
    }
    bits
}

/// The layout that records of an event are given here: common fields as in ftrace, then
/// numbers of eight bytes, names of sixteen, texts at the end.
pub(super) fn format(id: u16, system: &str, name: &str) -> EventFormat {
    let known = find(name);
    let mut fields = vec![
        field("common_type", "unsigned short", 0, 2, false, FieldShape::Scalar),
        field("common_pid", "int", 4, 4, true, FieldShape::Scalar),
    ];
    let mut at = 8;
    let mut print_fmt = "\"%s\", REC->text".to_owned();
    for (name, _, kind) in known.map_or(&[][..], |known| known.fields) {
        let (type_name, size, shape) = match kind {
            Comm => ("char", 16, FieldShape::Array { length: 16 }),
            Text => ("char", 4, FieldShape::DataLoc),
            _ => ("s64", 8, FieldShape::Scalar),
        };
        fields.push(field(name, type_name, at, size, shape == FieldShape::Scalar, shape));
        at += size;
        if *kind == State {
            print_fmt = STATE_PRINT.to_owned();
        }
    }
    // The text itself, for printing.
    fields.push(field("text", "char", at, 4, false, FieldShape::DataLoc));
    let system = if system.is_empty() { known.map_or("", |known| known.system) } else { system };
    EventFormat { system: system.to_owned(), name: name.to_owned(), id, fields, print_fmt }
}

fn field(name: &str, type_name: &str, offset: u32, size: u32, signed: bool, shape: FieldShape) -> Field {
    Field {
        name: name.to_owned(),
        type_name: type_name.to_owned(),
        offset,
        size,
        signed,
        shape,
        common: name.starts_with("common_"),
    }
}

/// The row of an event.
pub(super) fn find(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

/// Writes a record laid out as [`format`] says. `false` if the text does not have the
/// fields that the event is known by.
pub(super) fn record(out: &mut Vec<u8>, id: u16, tid: i32, known: Option<&Known>, text: &str) -> bool {
    out.clear();
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&tid.to_le_bytes());
    let fields = known.map_or(&[][..], |known| known.fields);
    let size: usize = 8 + fields.iter().map(|(_, _, kind)| size(*kind)).sum::<usize>() + 4;
    let mut tail: Vec<u8> = Vec::new();
    let mut values = Values::new(known, text);
    for (at, (_, key, kind)) in fields.iter().enumerate() {
        let next = fields.get(at + 1).map(|(_, key, _)| *key);
        let Some(value) = values.next(key, next, *kind) else { return false };
        match kind {
            Comm => {
                let mut comm = [0; 16];
                let bytes = value.as_bytes();
                let length = bytes.len().min(15);
                comm[..length].copy_from_slice(&bytes[..length]);
                out.extend_from_slice(&comm);
            }
            Text => place(out, &mut tail, size, value),
            Number => match number(value) {
                Some(number) => out.extend_from_slice(&number.to_le_bytes()),
                None => return false,
            },
            State => out.extend_from_slice(&state(value).to_le_bytes()),
            Handled => out.extend_from_slice(&u64::from(value.starts_with("handled")).to_le_bytes()),
        }
    }
    place(out, &mut tail, size, text);
    out.extend_from_slice(&tail);
    true
}

fn size(kind: Kind) -> usize {
    match kind {
        Comm => 16,
        Text => 4,
        _ => 8,
    }
}

/// Puts a text behind the fixed part and its place into it.
fn place(out: &mut Vec<u8>, tail: &mut Vec<u8>, size: usize, text: &str) {
    let at = (size + tail.len()).min(0xffff) as u32;
    let length = text.len().min(0xffff - at as usize) as u32;
    out.extend_from_slice(&(length << 16 | at).to_le_bytes());
    tail.extend_from_slice(&text.as_bytes()[..length as usize]);
}

/// Decimal or `0x…`, up to what is no digit (`[action=RCU]`, `[ns]`).
fn number(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Some(hex) = text.strip_prefix("0x") {
        let digits = hex.bytes().take_while(u8::is_ascii_hexdigit).count();
        return u64::from_str_radix(&hex[..digits], 16).ok().map(|value| value as i64);
    }
    let sign = usize::from(text.starts_with('-'));
    let digits = text[sign..].bytes().take_while(u8::is_ascii_digit).count();
    text[..sign + digits].parse().ok()
}

/// The values in a text, one after another.
enum Values<'a> {
    /// `key=value key=value`.
    Keys(&'a str),
    /// Already found (system calls, and what libtraceevent writes for switches and wakes).
    Found(Vec<&'a str>),
}

impl<'a> Values<'a> {
    fn new(known: Option<&Known>, text: &'a str) -> Values<'a> {
        match known.map(|known| known.name) {
            Some("sys_enter" | "sys_exit") => Values::Found(system_call(text).unwrap_or_default()),
            Some("sched_switch") if !text.starts_with("prev_comm=") => {
                Values::Found(plugin_switch(text).unwrap_or_default())
            }
            Some("sched_waking" | "sched_wakeup" | "sched_wakeup_new") if !text.starts_with("comm=") => {
                Values::Found(plugin_wake(text).unwrap_or_default())
            }
            _ => Values::Keys(text),
        }
    }

    fn next(&mut self, key: &str, next_key: Option<&str>, kind: Kind) -> Option<&'a str> {
        match self {
            Values::Found(values) => {
                if values.is_empty() {
                    return None;
                }
                Some(values.remove(0))
            }
            Values::Keys(rest) => {
                let start = key_at(rest, key)?;
                let value = &rest[start..];
                // A name or path ends where the next key begins, any other at a space.
                let end = match (kind, next_key) {
                    (Comm | Text, Some(next)) => key_at(value, next).map(|at| at - next.len() - 2)?,
                    (Comm | Text, None) => value.len(),
                    _ => value.find(' ').unwrap_or(value.len()),
                };
                let found = value.get(..end)?;
                *rest = &value[end..];
                Some(found)
            }
        }
    }
}

/// Where the value of ` key=` begins.
fn key_at(text: &str, key: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find(key)?;
        let end = at + key.len();
        if text[end..].starts_with('=') && (at == 0 || text.as_bytes()[at - 1] == b' ') {
            return Some(end + 1);
        }
        from = end;
    }
}

/// `NR 16 (1b, …)` or `NR 16 = 0`.
fn system_call(text: &str) -> Option<Vec<&str>> {
    let rest = text.strip_prefix("NR ")?;
    let (number, rest) = rest.split_once(' ')?;
    Some(match rest.strip_prefix("= ") {
        Some(result) => vec![number, result],
        None => vec![number],
    })
}

/// `COMM:PID [PRIO] STATE ==> COMM:PID [PRIO]`.
fn plugin_switch(text: &str) -> Option<Vec<&str>> {
    text.match_indices(" ==> ").find_map(|(at, arrow)| {
        let (prev, next) = (&text[..at], &text[at + arrow.len()..]);
        let (prev, state) = prev.rsplit_once(' ')?;
        let (prev_comm, prev_pid, prev_prio, "") = plugin_task(prev)? else { return None };
        let (next_comm, next_pid, next_prio, _) = plugin_task(next)?;
        Some(vec![prev_comm, prev_pid, prev_prio, state, next_comm, next_pid, next_prio])
    })
}

/// `COMM:PID [PRIO] … CPU:NNN`.
fn plugin_wake(text: &str) -> Option<Vec<&str>> {
    let (task, cpu) = text.rsplit_once("CPU:")?;
    let (comm, pid, prio, _) = plugin_task(task)?;
    Some(vec![comm, pid, prio, cpu])
}

/// `COMM:PID [PRIO]` and what follows.
fn plugin_task(text: &str) -> Option<(&str, &str, &str, &str)> {
    let (head, rest) = text.rsplit_once(" [")?;
    let (prio, after) = rest.split_once(']')?;
    let (comm, pid) = head.rsplit_once(':')?;
    number(pid)?;
    Some((comm, pid, prio, after.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::{Endian, Event, event::Binding, strings::Strings};

    fn decoded(name: &str, text: &str) -> Option<String> {
        let format = format(7, "", name);
        let mut bytes = Vec::new();
        if !record(&mut bytes, 7, 33, find(name), text) {
            return None;
        }
        let printed = format.printer(Endian::Little, 8).text(&bytes);
        assert!(printed == text || name == "sched_switch", "{printed}");
        let binding = Binding::new(&format, Endian::Little).unwrap()?;
        let mut strings = Strings::default();
        let event = binding.read(&bytes, &mut strings)?;
        Some(match event {
            Event::SchedSwitch(s) => format!(
                "{:?} {} {} {} {:?} {} {}",
                s.prev_comm, s.prev_tid.0, s.prev_prio, s.prev_state, s.next_comm, s.next_tid.0, s.next_prio
            ),
            Event::SchedWakeup(w) => format!("{:?} {} {} {}", w.comm, w.tid.0, w.prio, w.target_cpu.0),
            Event::SchedProcessExec(e) => {
                format!("{} {} {}", String::from_utf8_lossy(strings.get(e.filename)), e.tid.0, e.old_tid.0)
            }
            other => format!("{other:?}"),
        })
    }

    #[test]
    fn texts_become_typed_events() {
        for (name, text, expected) in [
            (
                "sched_switch",
                "prev_comm=a b] ==> c prev_pid=5 prev_prio=-1 prev_state=R+ ==> next_comm=x=y next_pid=0 next_prio=120",
                "\"a b] ==> c\" 5 -1 R+ \"x=y\" 0 120",
            ),
            (
                "sched_switch",
                "prev_comm=a prev_pid=5 prev_prio=120 prev_state=64 next_comm=b next_pid=0 next_prio=120",
                "\"a\" 5 120 ? \"b\" 0 120",
            ),
            (
                "sched_switch",
                "prev_comm=a prev_pid=5 prev_prio=120 prev_state=4096 next_comm=b next_pid=0 next_prio=120",
                "\"a\" 5 120 R+ \"b\" 0 120",
            ),
            (
                "sched_switch",
                "swapper/1:0 [120] R ==> kworker/u8:1:46 [98]",
                "\"swapper/1\" 0 120 R \"kworker/u8:1\" 46 98",
            ),
            ("sched_switch", "a:5 [120] D ==> b:6 [120]", "\"a\" 5 120 D \"b\" 6 120"),
            (
                "sched_wakeup",
                "comm=kworker/1:3 pid=8786 prio=120 target_cpu=001",
                "\"kworker/1:3\" 8786 120 1",
            ),
            ("sched_wakeup", "comm=sh pid=1642 prio=120 success=1 target_cpu=2", "\"sh\" 1642 120 2"),
            ("sched_wakeup", "rcu_sched:9 [120] success=1 CPU:001", "\"rcu_sched\" 9 120 1"),
            ("sched_process_exec", "filename=/bin/a b pid=3 old_pid=4", "/bin/a b 3 4"),
            ("sys_exit", "NR 16 = -11", "SysExit(SysExit { number: 16, ret: -11 })"),
            ("softirq_entry", "vec=9 [action=RCU]", "SoftirqEntry(SoftirqEntry { vector: 9 })"),
        ] {
            assert_eq!(decoded(name, text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(decoded("sched_switch", "prev_comm=a prev_pid=x"), None);
        assert_eq!(decoded("sched_wakeup", ""), None);
    }
}
