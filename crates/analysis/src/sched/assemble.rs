//! From the machine's final state to the result.

use std::collections::{BTreeMap, HashMap};

use trace::{Cpu, Nanos, Tid, info::TraceInfo};

use super::{
    budget::budget,
    cpus::CpuState,
    findings,
    folded::Folded,
    groups::{
        BLOCKED, BY_CPU, BY_POLICY, BY_PRIORITY, BY_REASON, BY_STATE, GroupTable, NO_GROUP, PREEMPTION,
        PRIORITIES, TOTAL, WAKEUP, policy_of,
    },
    had_cpu::had_cpu,
    long::waker,
    machine::Machine,
    options::SchedOptions,
    result::{
        AffinitySource, BlockReason, CountAndTime, CpuReport, Group, GroupWait, IdleBeside, Lane, Migrations,
        Missing, OffCpuReport, OpenWait, PolicyClass, Provenance, ReasonTime, SchedResult, StateTime,
        ThreadReport, Timeline, WaitReport, WakerPair,
    },
    summary::Summary,
    threads::{Phase, STATES, Slot, Thread, Totals, WokenBy, blocked_state},
    values::Values,
};

/// What the reading itself told.
pub(crate) struct Told {
    pub items: u64,
    pub used: Vec<(String, u64)>,
    pub unbound: Vec<(String, &'static str)>,
    pub short_records: u64,
    pub error: Option<String>,
}

/// Whether the scheduler's events tell anything of this thread.
fn is_reported(thread: &Thread) -> bool {
    thread.counted && thread.phase != Phase::Unseen
}

/// Numbers the distributions of this trace.
pub(crate) fn group_table(machine: &Machine<Values>, options: &SchedOptions) -> GroupTable {
    let serials = machine.threads.made() as usize;
    let mut table = GroupTable {
        thread: vec![NO_GROUP; serials],
        process: vec![NO_GROUP; serials],
        cgroup: vec![NO_GROUP; serials],
        count: BY_CPU + machine.cpus.list.len() as u32,
        without_histogram: 0,
        paths: options.cgroups.iter().map(|c| (c.tid, c.path.clone())).collect(),
    };
    let mut paths: BTreeMap<Option<&str>, u32> = BTreeMap::new();
    for thread in machine.threads.list.iter().filter(|t| is_reported(t)) {
        if !table.paths.is_empty() {
            let path = table.paths.get(&thread.key.tid).map(String::as_str);
            let next = table.count;
            let group = *paths.entry(path).or_insert(next);
            table.count += u32::from(group == next);
            table.cgroup[thread.serial as usize] = group;
        }
    }
    table.without_histogram = table.count;
    let mut processes: HashMap<Option<Tid>, u32> = HashMap::new();
    for thread in machine.threads.list.iter().filter(|t| is_reported(t)) {
        let next = table.count;
        let group = *processes.entry(thread.process).or_insert(next);
        table.count += u32::from(group == next);
        table.process[thread.serial as usize] = group;
        table.thread[thread.serial as usize] = table.count;
        table.count += 1;
    }
    table
}

/// Puts the result together.
pub(crate) fn result(
    info: &TraceInfo,
    options: &SchedOptions,
    mut machine: Machine<Values>,
    table: &GroupTable,
    summaries: &[Summary],
    told: Told,
    passes: u32,
) -> SchedResult {
    let span = machine.counted_span();
    let mut threads: Vec<ThreadReport> = Vec::new();
    let Folded { sum: folded, mut moves, mut beside, mut held, kept_others } =
        std::mem::take(&mut machine.folded);
    for (slot, thread) in machine.threads.list.iter().enumerate().filter(|(_, t)| is_reported(t)) {
        threads.push(thread_report(&machine, slot as Slot, table, summaries));
        moves.merge(&thread.totals.migrations);
        beside.merge(&thread.totals.idle_beside);
        held.merge(&thread.totals.held_back);
    }
    threads.sort_by_key(|t| (std::cmp::Reverse(t.budget.waiting_ns()), t.key));
    let mut result = SchedResult {
        version: SchedResult::VERSION,
        provenance: provenance(info, options, &machine, told, passes),
        losses: machine.losses.clone(),
        clock_quality: machine.clock,
        findings: Vec::new(),
        wait: wait_report(&machine, table, summaries),
        off_cpu: off_cpu_report(&machine, options, summaries),
        threads,
        folded_threads: (folded.threads > 0).then_some(folded),
        cpus: cpu_reports(&machine),
        migrations: moves,
        idle_beside: beside,
        held_back: held,
        timeline: timeline(&machine, span),
        long_waits: Vec::new(),
        open_waits: open_waits(&machine, options),
    };
    for loss in &info.losses {
        match loss.count {
            Some(count) => result.losses.events_without_place += count,
            None => result.losses.uncounted += 1,
        }
    }
    result.wait.meanwhile = had_cpu(&machine, kept_others);
    result.long_waits = machine.out.long.into_sorted();
    result.findings = findings::of(&result);
    result
}

fn provenance(
    info: &TraceInfo,
    options: &SchedOptions,
    machine: &Machine<Values>,
    told: Told,
    passes: u32,
) -> Provenance {
    let seen = |(i, c): (usize, &CpuState)| c.seen.then_some(Cpu(i as u32));
    Provenance {
        file_format: info.file_format.clone(),
        producer: info.producer.clone(),
        kernel_release: info.kernel_release.clone(),
        clock: info.clock.clone(),
        span: machine.counted_span().map(|(a, b)| (Nanos(a), Nanos(b))),
        cpu_count: info.cpu_count,
        cpus_seen: machine.cpus.list.iter().enumerate().filter_map(seen).collect(),
        items: told.items,
        missing: missing(info, &told),
        events_used: told.used,
        wait_starts: machine.starts,
        short_records: told.short_records + machine.impossible,
        cut: told.error.or_else(|| info.cut.clone()),
        affinity: if options.affinity.is_empty() {
            AffinitySource::Learned
        } else {
            AffinitySource::GivenForSome
        },
        passes,
    }
}

/// What follows from an event kind not being there.
const CONSEQUENCES: [(&str, &str); 8] = [
    ("sched:sched_switch", "who ran when is not known; there is nothing to analyse"),
    (
        "sched:sched_waking",
        "waits begin with sched_wakeup, some microseconds later than the waker asked for them, and wakers may be \
         the interrupt that carried the wakeup to another CPU",
    ),
    ("sched:sched_wakeup", "the CPU that a woken thread waits for is taken to be the one it ran on before"),
    ("sched:sched_wakeup_new", "first waits of new threads are not known"),
    ("sched:sched_process_fork", "makers of threads, and thread numbers used again, are not known"),
    ("sched:sched_process_exit", "only the state at the last switch tells that a thread ended"),
    ("irq:irq_handler_entry", "time taken by hardware interrupts counts as the running thread's"),
    ("irq:softirq_entry", "time taken by softirqs counts as the running thread's"),
];

fn missing(info: &TraceInfo, told: &Told) -> Vec<Missing> {
    let mut missing: Vec<Missing> = CONSEQUENCES
        .iter()
        .filter(|(name, _)| !told.used.iter().any(|u| u.0 == *name))
        .filter(|(name, _)| !told.unbound.iter().any(|u| u.0 == *name))
        .map(|(name, consequence)| Missing {
            what: (*name).to_owned(),
            consequence: format!("no such event in the trace: {consequence}"),
        })
        .collect();
    for (event, field) in &told.unbound {
        missing.push(Missing {
            what: format!("{event}.{field}"),
            consequence: "the event's format has no such field, so none of these events is used".to_owned(),
        });
    }
    let states_unknown = info
        .formats
        .iter()
        .any(|f| f.name == "sched_switch" && f.field("prev_state").is_some() && f.print_fmt.is_empty());
    if states_unknown {
        missing.push(Missing {
            what: "sched:sched_switch.prev_state".to_owned(),
            consequence: "the event's print format is not in the trace, so the states are not known"
                .to_owned(),
        });
    }
    missing
}

fn group(
    group: Group,
    name: String,
    summary: &Summary,
    parts: [CountAndTime; 2],
    running_ns: u64,
) -> GroupWait {
    let [wakeups, preemptions] = parts;
    GroupWait { group, name, total: summary.to_distribution(), wakeups, preemptions, running_ns }
}

/// Waits after a wakeup and after preemption of one thread.
fn parts(totals: &Totals) -> [CountAndTime; 2] {
    [0, 1].map(|k| CountAndTime {
        count: totals.wait_count[k],
        time_ns: totals.wait_time[k],
        max_ns: totals.wait_max[k],
    })
}

fn wait_report(machine: &Machine<Values>, table: &GroupTable, summaries: &[Summary]) -> WaitReport {
    let whole = |id: u32| summaries[id as usize].to_distribution();
    let out = &machine.out;
    let mut report = WaitReport {
        intervals: machine.wait_intervals,
        total: whole(TOTAL),
        wakeup: whole(WAKEUP),
        preemption: whole(PREEMPTION),
        heat: out.heat_wakeup.plus(&out.heat_preemption).to_map(),
        heat_wakeup: out.heat_wakeup.to_map(),
        heat_preemption: out.heat_preemption.to_map(),
        ..WaitReport::default()
    };
    for (index, cpu) in machine.cpus.reported() {
        let summary = &summaries[BY_CPU as usize + index];
        let parts = machine.out.parts_of(BY_CPU + index as u32);
        report.by_cpu.push(group(
            Group::Cpu(Cpu(index as u32)),
            format!("CPU {index}"),
            summary,
            parts,
            cpu.busy,
        ));
    }
    let mut running: BTreeMap<i32, u64> = BTreeMap::new();
    let mut processes: BTreeMap<u32, Merged<'_>> = BTreeMap::new();
    let mut cgroups: BTreeMap<u32, Merged<'_>> = BTreeMap::new();
    for thread in machine.threads.list.iter().filter(|t| is_reported(t)) {
        if thread.has_prio {
            *running.entry(i32::from(thread.prio)).or_default() += thread.totals.on_cpu;
        }
        for (merged, id) in [
            (&mut processes, table.process[thread.serial as usize]),
            (&mut cgroups, table.cgroup[thread.serial as usize]),
        ] {
            if id != NO_GROUP {
                merged.entry(id).or_default().add(thread);
            }
        }
    }
    for prio in -1..PRIORITIES as i32 - 1 {
        let id = (BY_PRIORITY as i32 + prio + 1) as u32;
        let summary = &summaries[id as usize];
        if summary.count > 0 {
            let ran = running.get(&prio).copied().unwrap_or(0);
            report.by_priority.push(group(
                Group::Priority(prio),
                priority_name(prio),
                summary,
                machine.out.parts_of(id),
                ran,
            ));
        }
    }
    for (class, name) in [
        (PolicyClass::Deadline, "deadline"),
        (PolicyClass::RealTime, "real-time"),
        (PolicyClass::Normal, "normal"),
    ] {
        let id = BY_POLICY + class as u32;
        let summary = &summaries[id as usize];
        if summary.count > 0 {
            let ran = running.iter().filter(|(p, _)| policy_of(**p) == class).map(|(_, ns)| ns).sum();
            report.by_policy.push(group(
                Group::Policy(class),
                name.to_owned(),
                summary,
                machine.out.parts_of(id),
                ran,
            ));
        }
    }
    for (id, merged) in processes {
        let Some(first) = merged.threads.first() else { continue };
        let leader = merged.threads.iter().find(|t| Some(t.key.tid) == t.process).unwrap_or(first);
        let name = match leader.process {
            Some(process) => format!("{} [{}]", leader.comm, process.0),
            None => "process not known".to_owned(),
        };
        let key = Group::Process(leader.process);
        report.by_process.push(group(key, name, &summaries[id as usize], merged.parts, merged.running));
    }
    for (id, merged) in cgroups {
        let Some(first) = merged.threads.first() else { continue };
        let path = table.paths.get(&first.key.tid).cloned();
        let name = path.clone().unwrap_or_else(|| "cgroup not known".to_owned());
        report.by_cgroup.push(group(
            Group::Cgroup(path),
            name,
            &summaries[id as usize],
            merged.parts,
            merged.running,
        ));
    }
    report.by_process.sort_by_key(|g| (std::cmp::Reverse(g.total.sum_ns), g.name.clone()));
    report.by_cgroup.sort_by_key(|g| (std::cmp::Reverse(g.total.sum_ns), g.name.clone()));
    report
}

/// Threads that share a process or a cgroup.
#[derive(Default)]
struct Merged<'m> {
    threads: Vec<&'m Thread>,
    parts: [CountAndTime; 2],
    running: u64,
}

impl<'m> Merged<'m> {
    fn add(&mut self, thread: &'m Thread) {
        for (sum, part) in self.parts.iter_mut().zip(parts(&thread.totals)) {
            sum.merge(&part);
        }
        self.running += thread.totals.on_cpu;
        self.threads.push(thread);
    }
}

fn priority_name(prio: i32) -> String {
    match prio {
        ..0 => "deadline (-1)".to_owned(),
        0..100 => format!("real-time {} ({prio})", 99 - prio),
        100..140 => format!("nice {} ({prio})", prio - 120),
        _ => format!("priority {prio}"),
    }
}

fn off_cpu_report(machine: &Machine<Values>, options: &SchedOptions, summaries: &[Summary]) -> OffCpuReport {
    let mut report = OffCpuReport {
        intervals: machine.off_intervals,
        total: summaries[BLOCKED as usize].to_distribution(),
        ..OffCpuReport::default()
    };
    for index in 0..STATES.len() {
        let summary = &summaries[BY_STATE as usize + index];
        if summary.count > 0 {
            let state = blocked_state(index);
            report.by_state.push(StateTime { state, blocked: summary.to_distribution() });
        }
    }
    for reason in BlockReason::ALL {
        let summary = &summaries[BY_REASON as usize + reason as usize];
        if summary.count > 0 {
            report.by_reason.push(ReasonTime { reason, blocked: summary.to_distribution() });
        }
    }
    report.by_state.sort_by_key(|s| std::cmp::Reverse(s.blocked.sum_ns));
    report.by_reason.sort_by_key(|s| std::cmp::Reverse(s.blocked.sum_ns));
    let threads = &machine.threads;
    let mut pairs = machine.wakers.pairs.clone();
    let tid = |slot: Slot| threads.list[slot as usize].key;
    let order = |w: WokenBy| match w {
        WokenBy::Thread(slot) => (0, Some(tid(slot))),
        WokenBy::Interrupt => (1, None),
        WokenBy::Unknown => (2, None),
    };
    pairs.sort_by_key(|p| (std::cmp::Reverse(p.blocked.time_ns), tid(p.woken), order(p.waker)));
    report.other_wakers = machine.wakers.others;
    for pair in pairs.iter().skip(options.wakers) {
        report.other_wakers.merge(&pair.blocked);
    }
    for pair in pairs.iter().take(options.wakers) {
        let woken = &threads.list[pair.woken as usize];
        report.wakers.push(WakerPair {
            waker: waker(pair.waker, threads),
            waker_name: match pair.waker {
                WokenBy::Thread(slot) => threads.list[slot as usize].comm.to_string(),
                WokenBy::Interrupt => "an interrupt".to_owned(),
                WokenBy::Unknown => "not known".to_owned(),
            },
            woken: woken.key,
            woken_name: woken.comm.to_string(),
            blocked: pair.blocked,
        });
    }
    report
}

fn thread_report(
    machine: &Machine<Values>,
    slot: Slot,
    table: &GroupTable,
    summaries: &[Summary],
) -> ThreadReport {
    let thread = &machine.threads.list[slot as usize];
    let totals = &thread.totals;
    let [wakeup_wait, preemption_wait] = parts(totals);
    let mut summary = summaries[table.thread[thread.serial as usize] as usize].to_distribution();
    summary.histogram = None;
    ThreadReport {
        key: thread.key,
        name: thread.comm.to_string(),
        former_names: thread.former.iter().map(ToString::to_string).collect(),
        process: thread.process,
        cgroup: table.paths.get(&thread.key.tid).cloned(),
        parent: thread.parent,
        began: thread.began,
        ended: thread.phase == Phase::Dead,
        priority: thread.has_prio.then_some(i32::from(thread.prio)),
        budget: budget(thread, machine.counted_span()),
        wait: summary,
        wakeup_wait,
        preemption_wait,
        wait_intervals: totals.intervals,
        switched_in: totals.switched_in,
        voluntary_switches: totals.voluntary,
        involuntary_switches: totals.involuntary,
        longest_run_ns: totals.longest_run,
        migrations: totals.migrations,
        ran_on: machine.ran_on.cpus(slot).map(|c| Cpu(u32::from(c))).collect(),
        idle_beside: totals.idle_beside,
        held_back: totals.held_back,
    }
}

fn cpu_reports(machine: &Machine<Values>) -> Vec<CpuReport> {
    let report = |(index, cpu): (usize, &CpuState)| CpuReport {
        cpu: Cpu(index as u32),
        switches: cpu.switches,
        busy_ns: cpu.busy,
        idle_ns: cpu.idle,
        unknown_ns: cpu.unknown,
        irq_ns: cpu.irq,
        softirq_ns: cpu.softirq,
        lost: cpu.lost,
        max_waiting: cpu.most_waiting,
    };
    machine.cpus.reported().map(report).collect()
}

fn timeline(machine: &Machine<Values>, span: Option<(u64, u64)>) -> Timeline {
    let axis = &machine.cpus.axis;
    let Some((start, end)) = span else { return Timeline::default() };
    let columns = axis.column(end.saturating_sub(u64::from(end > start))).map_or(0, |c| c + 1);
    let padded = |lane: &[u64]| (0..columns).map(|i| lane.get(i).copied().unwrap_or(0)).collect();
    let lanes = machine.cpus.reported().map(|(index, cpu)| Lane {
        cpu: Cpu(index as u32),
        busy_ns: padded(&cpu.lane.busy),
        unknown_ns: padded(&cpu.lane.unknown),
        waiting_ns: padded(&cpu.lane.waiting),
        max_waiting: (0..columns).map(|i| cpu.lane.most.get(i).copied().unwrap_or(0)).collect(),
    });
    Timeline { start_ns: start, end_ns: end, column_ns: axis.width(), lanes: lanes.collect() }
}

fn open_waits(machine: &Machine<Values>, options: &SchedOptions) -> Vec<OpenWait> {
    let mut open: Vec<OpenWait> = machine
        .threads
        .list
        .iter()
        .filter(|t| t.counted && t.phase == Phase::Waiting && machine.cpus.is_selected(t.queue_cpu))
        .map(|t| OpenWait {
            thread: t.key,
            name: t.comm.to_string(),
            cause: t.cause,
            start: Nanos(t.since),
            age_ns: machine.end.saturating_sub(t.since),
            waited_on: Cpu(u32::from(t.queue_cpu)),
        })
        .collect();
    open.sort_by_key(|w| (std::cmp::Reverse(w.age_ns), w.thread));
    open.truncate(options.long_waits);
    open
}

impl Migrations {
    pub(crate) fn merge(&mut self, other: &Migrations) {
        self.migrations += other.migrations;
        self.migrate_events += other.migrate_events;
        self.wakeups += other.wakeups;
        self.cross_cpu_wakeups += other.cross_cpu_wakeups;
    }
}

impl IdleBeside {
    #[inline]
    pub(crate) fn add(&mut self, time: u64) {
        self.waits += 1;
        self.time_ns += time;
        self.max_ns = self.max_ns.max(time);
    }

    pub(crate) fn merge(&mut self, other: &IdleBeside) {
        self.waits += other.waits;
        self.time_ns += other.time_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}
