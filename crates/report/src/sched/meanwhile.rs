//! Who had the CPU while threads waited for it.

use analysis::sched::{
    SchedResult,
    result::{CpuHolder, HadCpu},
};

use super::threads::share;
use crate::{
    document::Section,
    table::{Column, Table, Unit, Value},
};

/// Names, the most waited for first.
pub fn section(result: &SchedResult) -> Section {
    let section = Section::new("meanwhile", "Who had the CPU meanwhile");
    let holders = &result.wait.meanwhile;
    let all: u64 = holders.iter().map(|holder| holder.others_waited_ns).sum();
    if all == 0 {
        return section;
    }
    let asked = holders.iter().any(|holder| matches!(holder.who, CpuHolder::NotCounted(_)));
    let mut columns = vec![Column::new("name", "had the CPU", Unit::Text).essential()];
    if asked {
        columns.push(Column::new("asked_about", "asked about", Unit::Text));
    }
    columns.extend([
        Column::new("threads", "threads", Unit::Count),
        Column::new("others_waited", "others waited", Unit::Nanos)
            .about("Two threads that wait for a millisecond are two milliseconds.")
            .essential(),
        Column::new("part", "of all waiting", Unit::Share).essential(),
    ]);
    let mut table = Table::new("meanwhile", "names", columns)
        .about("Whom the waiting threads waited for: how long they did while threads of this name ran on their CPU.")
        .brief(8);
    for holder in holders {
        table.push(row(holder, all, asked));
    }
    section.with(table)
}

fn row(holder: &HadCpu, all: u64, asked: bool) -> Vec<Value> {
    let named = |name: &String| Value::text(name.clone());
    let count = Value::Count(holder.threads);
    let nobody = || Value::missing("no thread");
    let (name, about, threads) = match &holder.who {
        CpuHolder::Counted(name) => (named(name), Value::text("yes"), count),
        CpuHolder::NotCounted(name) => (named(name), Value::text("no"), count),
        CpuHolder::Idle => (Value::text("nobody (idle)"), nobody(), nobody()),
        CpuHolder::Unknown => (Value::text("not known"), nobody(), nobody()),
    };
    let mut row = vec![name];
    if asked {
        row.push(about);
    }
    row.extend([threads, Value::Nanos(holder.others_waited_ns), share(holder.others_waited_ns, all)]);
    row
}
