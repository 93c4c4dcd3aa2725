//! Tracepoints that can be served by their raw arguments: cheaper by half, with the same
//! values.
//!
//! Each row says how a field of a tracepoint's record is computed from the raw arguments, in
//! the language itself; it is checked against this kernel's BTF like any program. A field
//! that is not listed, a row that does not check, or a block that prints kernel stacks (which
//! would show the frames of the attachment) makes the probe attach to the tracepoint itself.
//! Sources: the `TP_fast_assign` of each event in `include/trace/events/`.

/// Fields of one tracepoint with their expressions over the raw arguments.
pub struct Row {
    /// `category:name`
    pub tracepoint: &'static str,
    /// Field and expression.
    pub fields: &'static [(&'static str, &'static str)],
}

const fn row(tracepoint: &'static str, fields: &'static [(&'static str, &'static str)]) -> Row {
    Row { tracepoint, fields }
}

const WAKEUP: &[(&str, &str)] = &[
    ("comm", "args.p.comm"),
    ("pid", "args.p.pid"),
    ("prio", "args.p.prio"),
    // task_cpu(): thread_info.cpu with THREAD_INFO_IN_TASK, which all kernels with BTF have on x86 and arm64.
    ("target_cpu", "args.p.thread_info.cpu"),
];

/// `blk_rq_trace_sector()`: 0 for passthrough requests and those without a position.
const RQ_SECTOR: &str = "(args.rq.cmd_flags & 0xff) == 34 || (args.rq.cmd_flags & 0xff) == 35 \
     || args.rq.__sector == 0xffffffffffffffff ? (uint64)0 : (uint64)args.rq.__sector";
const RQ_SECTORS: &str = "(args.rq.cmd_flags & 0xff) == 34 || (args.rq.cmd_flags & 0xff) == 35 ? (uint32)0 \
     : (uint32)(args.rq.__data_len >> 9)";
const RQ_DEVICE: &str =
    "args.rq.q.disk != 0 ? (uint32)((args.rq.q.disk.major << 20) | args.rq.q.disk.first_minor) : (uint32)0";

/// Every tracepoint that is known well enough.
pub const ROWS: &[Row] = &[
    row(
        "sched:sched_switch",
        &[
            ("prev_comm", "args.prev.comm"),
            ("prev_pid", "args.prev.pid"),
            ("prev_prio", "args.prev.prio"),
            ("next_comm", "args.next.comm"),
            ("next_pid", "args.next.pid"),
            ("next_prio", "args.next.prio"),
        ],
    ),
    row("sched:sched_waking", WAKEUP),
    row("sched:sched_wakeup", WAKEUP),
    row("sched:sched_wakeup_new", WAKEUP),
    row(
        "sched:sched_process_exit",
        &[("comm", "args.p.comm"), ("pid", "args.p.pid"), ("prio", "args.p.prio")],
    ),
    row(
        "sched:sched_process_free",
        &[("comm", "args.p.comm"), ("pid", "args.p.pid"), ("prio", "args.p.prio")],
    ),
    row(
        "sched:sched_process_exec",
        &[("filename", "str(args.bprm.filename)"), ("pid", "args.p.pid"), ("old_pid", "args.old_pid")],
    ),
    row("sched:sched_process_fork", &[("parent_pid", "args.parent.pid"), ("child_pid", "args.child.pid")]),
    row(
        "sched:sched_migrate_task",
        &[
            ("comm", "args.p.comm"),
            ("pid", "args.p.pid"),
            ("prio", "args.p.prio"),
            ("orig_cpu", "args.p.thread_info.cpu"),
            ("dest_cpu", "args.dest_cpu"),
        ],
    ),
    row("irq:irq_handler_entry", &[("irq", "args.irq"), ("name", "str(args.action.name)")]),
    row("irq:irq_handler_exit", &[("irq", "args.irq"), ("ret", "args.ret")]),
    row("irq:softirq_entry", &[("vec", "args.vec_nr")]),
    row("irq:softirq_exit", &[("vec", "args.vec_nr")]),
    row("irq:softirq_raise", &[("vec", "args.vec_nr")]),
    row("raw_syscalls:sys_enter", &[("id", "args.id")]),
    row("raw_syscalls:sys_exit", &[("id", "(int32)args.regs.orig_ax"), ("ret", "args.ret")]),
    row(
        "block:block_rq_issue",
        &[
            ("dev", RQ_DEVICE),
            ("sector", RQ_SECTOR),
            ("nr_sector", RQ_SECTORS),
            ("bytes", "args.rq.__data_len"),
        ],
    ),
    row(
        "block:block_rq_insert",
        &[
            ("dev", RQ_DEVICE),
            ("sector", RQ_SECTOR),
            ("nr_sector", RQ_SECTORS),
            ("bytes", "args.rq.__data_len"),
        ],
    ),
    row(
        "block:block_rq_complete",
        &[("dev", RQ_DEVICE), ("sector", "args.rq.__sector"), ("nr_sector", "args.nr_bytes >> 9")],
    ),
    row(
        "net:net_dev_queue",
        &[("skbaddr", "args.skb"), ("len", "args.skb.len"), ("name", "str(args.skb.dev.name)")],
    ),
    row(
        "net:netif_receive_skb",
        &[("skbaddr", "args.skb"), ("len", "args.skb.len"), ("name", "str(args.skb.dev.name)")],
    ),
    row("skb:consume_skb", &[("skbaddr", "args.skb"), ("location", "args.location")]),
    row(
        "skb:kfree_skb",
        &[
            ("skbaddr", "args.skb"),
            ("location", "args.location"),
            ("reason", "args.reason"),
            ("protocol", "bswap(args.skb.protocol)"),
        ],
    ),
    row(
        "exceptions:page_fault_user",
        &[("address", "args.address"), ("ip", "args.regs.ip"), ("error_code", "args.error_code")],
    ),
    row(
        "exceptions:page_fault_kernel",
        &[("address", "args.address"), ("ip", "args.regs.ip"), ("error_code", "args.error_code")],
    ),
    row("workqueue:workqueue_execute_start", &[("work", "args.work"), ("function", "args.work.func")]),
    // Its second argument is a pointer to a function, which the verifier lets no typed program read.
    row("workqueue:workqueue_execute_end", &[("work", "args.work")]),
    row("power:cpu_idle", &[("state", "args.state"), ("cpu_id", "args.cpu_id")]),
    row("power:cpu_frequency", &[("state", "args.frequency"), ("cpu_id", "args.cpu_id")]),
];

/// The row of a tracepoint.
pub fn find(tracepoint: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.tracepoint == tracepoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tracepoint_has_one_row() {
        let mut names: Vec<&str> = ROWS.iter().map(|row| row.tracepoint).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROWS.len());
        assert!(find("sched:sched_switch").is_some_and(|row| row.fields.len() == 6));
    }
}
