//! Who had the CPU while threads waited for it.

use std::collections::HashMap;

use trace::Comm;

use super::{
    machine::Machine,
    result::{CpuHolder, HadCpu},
    values::Values,
};

/// All holders, the most waited for first. `folded` are those of threads that have no row.
pub(crate) fn had_cpu(
    machine: &Machine<Values>,
    mut by_name: HashMap<(Comm, bool), (u64, u64)>,
) -> Vec<HadCpu> {
    for thread in machine.threads.list.iter().filter(|thread| thread.totals.kept_others > 0) {
        let sum = by_name.entry((thread.comm, thread.counted)).or_default();
        sum.0 += 1;
        sum.1 += thread.totals.kept_others;
    }
    let named = by_name.into_iter().map(|((comm, counted), (threads, others_waited_ns))| {
        let name = comm.to_string();
        let who = if counted { CpuHolder::Counted(name) } else { CpuHolder::NotCounted(name) };
        HadCpu { who, threads, others_waited_ns }
    });
    let mut all: Vec<HadCpu> = named.collect();
    for (who, others_waited_ns) in
        [(CpuHolder::Idle, machine.kept_by_idle), (CpuHolder::Unknown, machine.kept_by_unknown)]
    {
        if others_waited_ns > 0 {
            all.push(HadCpu { who, threads: 0, others_waited_ns });
        }
    }
    all.sort_by(|a, b| b.others_waited_ns.cmp(&a.others_waited_ns).then_with(|| a.who.cmp(&b.who)));
    all
}
