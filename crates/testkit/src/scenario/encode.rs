//! Steps as the records that a kernel would have written.

use trace::{EventFormat, TaskState, stream::FormatIndex};

use super::{What, Who};

/// Name, system, fields beyond the common ones as (declaration, size, signed), print format.
type Kind = (&'static str, &'static str, &'static [(&'static str, u32, bool)], &'static str);

const STATE: &str = concat!(
    r#""prev_state=%s%s", (REC->prev_state & 0xff) ? "#,
    r#"__print_flags(REC->prev_state & 0xff, "|", { 0x01, "S" }, { 0x02, "D" }, { 0x04, "T" }, { 0x08, "t" }, "#,
    r#"{ 0x10, "X" }, { 0x20, "Z" }, { 0x40, "P" }, { 0x80, "I" }) : "R", "#,
    r#"REC->prev_state & 0x100 ? "+" : "" "#
);

const WOKEN: &[(&str, u32, bool)] = &[
    ("char comm[16]", 16, false),
    ("pid_t pid", 4, true),
    ("int prio", 4, true),
    ("int target_cpu", 4, true),
];

const KINDS: &[Kind] = &[
    (
        "sched_switch",
        "sched",
        &[
            ("char prev_comm[16]", 16, false),
            ("pid_t prev_pid", 4, true),
            ("int prev_prio", 4, true),
            ("long prev_state", 8, true),
            ("char next_comm[16]", 16, false),
            ("pid_t next_pid", 4, true),
            ("int next_prio", 4, true),
        ],
        STATE,
    ),
    ("sched_waking", "sched", WOKEN, ""),
    ("sched_wakeup", "sched", WOKEN, ""),
    ("sched_wakeup_new", "sched", WOKEN, ""),
    (
        "sched_migrate_task",
        "sched",
        &[
            ("char comm[16]", 16, false),
            ("pid_t pid", 4, true),
            ("int prio", 4, true),
            ("int orig_cpu", 4, true),
            ("int dest_cpu", 4, true),
        ],
        "",
    ),
    (
        "sched_process_fork",
        "sched",
        &[
            ("char parent_comm[16]", 16, false),
            ("pid_t parent_pid", 4, true),
            ("char child_comm[16]", 16, false),
            ("pid_t child_pid", 4, true),
        ],
        "",
    ),
    (
        "sched_process_exit",
        "sched",
        &[("char comm[16]", 16, false), ("pid_t pid", 4, true), ("int prio", 4, true)],
        "",
    ),
    ("sched_process_free", "sched", &[("char comm[16]", 16, false), ("pid_t pid", 4, true)], ""),
    (
        "sched_process_exec",
        "sched",
        &[("char filename[16]", 16, false), ("pid_t pid", 4, true), ("pid_t old_pid", 4, true)],
        "",
    ),
    (
        "task_rename",
        "task",
        &[("pid_t pid", 4, true), ("char oldcomm[16]", 16, false), ("char newcomm[16]", 16, false)],
        "",
    ),
    ("irq_handler_entry", "irq", &[("int irq", 4, true), ("char name[16]", 16, false)], ""),
    ("irq_handler_exit", "irq", &[("int irq", 4, true), ("int ret", 4, true)], ""),
    ("softirq_entry", "irq", &[("unsigned int vec", 4, false)], ""),
    ("softirq_exit", "irq", &[("unsigned int vec", 4, false)], ""),
    ("sys_enter", "raw_syscalls", &[("long id", 8, true)], ""),
    ("sys_exit", "raw_syscalls", &[("long id", 8, true), ("long ret", 8, true)], ""),
    (
        "page_fault_user",
        "exceptions",
        &[
            ("unsigned long address", 8, false),
            ("unsigned long ip", 8, false),
            ("unsigned long error_code", 8, false),
        ],
        "",
    ),
    ("tick", "lotse_test", &[("int nothing", 4, true)], ""),
];

/// All formats, as a kernel describes them.
pub(super) fn formats() -> Vec<EventFormat> {
    let mut formats = Vec::new();
    for (index, (name, system, fields, print)) in KINDS.iter().enumerate() {
        let mut text = format!("name: {name}\nID: {}\nformat:\n", index + 1);
        text += "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n";
        text += "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n";
        text += "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n";
        text += "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";
        let mut offset = 8;
        for (declaration, size, signed) in *fields {
            if *size == 8 {
                offset = u32::next_multiple_of(offset, 8);
            }
            text += &format!(
                "\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{};\n",
                u8::from(*signed)
            );
            offset += size;
        }
        let print = if print.is_empty() { "\"\"" } else { print };
        text += &format!("\nprint fmt: {print}\n");
        formats.push(EventFormat::parse(system, &text).expect("our own format"));
    }
    formats
}

/// A record of a step; `None` where its format is left out.
pub(super) fn record(formats: &[EventFormat], what: &What) -> Option<(FormatIndex, Vec<u8>)> {
    let name = match what {
        What::Switch(..) => "sched_switch",
        What::Waking(..) => "sched_waking",
        What::Wakeup(..) => "sched_wakeup",
        What::New(..) => "sched_wakeup_new",
        What::Migrate(..) => "sched_migrate_task",
        What::Fork(..) => "sched_process_fork",
        What::Exit(..) => "sched_process_exit",
        What::Free(..) => "sched_process_free",
        What::Exec(..) => "sched_process_exec",
        What::Rename(..) => "task_rename",
        What::IrqEntry => "irq_handler_entry",
        What::IrqExit => "irq_handler_exit",
        What::SoftirqEntry => "softirq_entry",
        What::SoftirqExit => "softirq_exit",
        What::Fault => "page_fault_user",
        What::Enter(..) => "sys_enter",
        What::ExitCall(..) => "sys_exit",
        What::Tick => "tick",
        What::Lost(_) => return None,
    };
    let index = formats.iter().position(|f| f.name == name)?;
    let mut writer = Writer { format: &formats[index], bytes: vec![0; formats[index].fixed_size() as usize] };
    writer.number("common_type", i64::from(formats[index].id));
    match what {
        What::Switch(prev, state, next) => {
            writer.who(prev, "prev_comm", "prev_pid", Some("prev_prio"));
            writer.number("prev_state", raw_state(*state));
            writer.who(next, "next_comm", "next_pid", Some("next_prio"));
        }
        What::Waking(who, cpu) | What::Wakeup(who, cpu) | What::New(who, cpu) => {
            writer.who(who, "comm", "pid", Some("prio"));
            writer.number("target_cpu", i64::from(*cpu));
        }
        What::Migrate(who, from, to) => {
            writer.who(who, "comm", "pid", Some("prio"));
            writer.number("orig_cpu", i64::from(*from));
            writer.number("dest_cpu", i64::from(*to));
        }
        What::Fork(parent, child) => {
            writer.who(parent, "parent_comm", "parent_pid", None);
            writer.who(child, "child_comm", "child_pid", None);
        }
        What::Exit(who) => writer.who(who, "comm", "pid", Some("prio")),
        What::Free(who) => writer.who(who, "comm", "pid", None),
        What::Exec(tid, old) => {
            writer.number("pid", i64::from(*tid));
            writer.number("old_pid", i64::from(*old));
        }
        What::Rename(tid, old, new) => {
            writer.number("pid", i64::from(*tid));
            writer.text("oldcomm", old.as_bytes());
            writer.text("newcomm", new.as_bytes());
        }
        What::Enter(number) | What::ExitCall(number) => writer.number("id", *number),
        _ => {}
    }
    Some((FormatIndex(index as u32), writer.bytes))
}

fn raw_state(state: TaskState) -> i64 {
    match state {
        TaskState::Runnable => 0,
        TaskState::Sleeping => 1,
        TaskState::Uninterruptible => 2,
        TaskState::Stopped => 4,
        TaskState::Traced => 8,
        TaskState::Dead => 0x10,
        TaskState::Zombie => 0x20,
        TaskState::Parked => 0x40,
        TaskState::Idle => 0x80,
        TaskState::Preempted => 0x100,
        // A value that the print format has no letter for.
        TaskState::Unknown => 1 << 40,
    }
}

struct Writer<'f> {
    format: &'f EventFormat,
    bytes: Vec<u8>,
}

impl Writer<'_> {
    fn number(&mut self, field: &str, value: i64) {
        let field = self.format.field(field).expect("a field of our own format");
        let (offset, size) = (field.offset as usize, field.size as usize);
        self.bytes[offset..offset + size].copy_from_slice(&value.to_le_bytes()[..size]);
    }

    fn text(&mut self, field: &str, text: &[u8]) {
        let field = self.format.field(field).expect("a field of our own format");
        let (offset, size) = (field.offset as usize, text.len().min(field.size as usize - 1));
        self.bytes[offset..offset + size].copy_from_slice(&text[..size]);
    }

    fn who(&mut self, who: &Who, comm: &str, tid: &str, prio: Option<&str>) {
        self.text(comm, who.comm().as_bytes());
        self.number(tid, i64::from(who.tid));
        if let Some(prio) = prio {
            self.number(prio, i64::from(who.prio));
        }
    }
}
