//! What a reader should be told first, in plain sentences.

use super::result::{CpuHolder, CpuReport, Finding, HadCpu, SchedResult, Weight};
use crate::units::{counted, duration, share};

/// All findings, those that matter most first.
pub(crate) fn of(result: &SchedResult) -> Vec<Finding> {
    let mut findings = Vec::new();
    for find in ALL {
        find(result, &mut findings);
    }
    findings.sort_by_key(|f: &Finding| std::cmp::Reverse(f.weight));
    findings
}

type Find = fn(&SchedResult, &mut Vec<Finding>);

/// In the order in which findings of the same weight are told.
const ALL: &[Find] = &[
    no_switches,
    losses,
    gaps,
    clock,
    unclosed_budgets,
    waits,
    who_waits,
    had_cpu,
    held_back,
    idle_beside,
    uneven_cpus,
    open_waits,
];

fn push(findings: &mut Vec<Finding>, id: &str, weight: Weight, text: String) {
    findings.push(Finding { id: id.to_owned(), weight, text });
}

fn no_switches(result: &SchedResult, findings: &mut Vec<Finding>) {
    if result.cpus.iter().all(|c| c.switches == 0) {
        let text = "The trace has no context switches (sched:sched_switch), so nothing can be said about who ran and \
                    who waited. Record at least sched_switch, sched_waking and sched_wakeup_new."
            .to_owned();
        push(findings, "no_switches", Weight::Serious, text);
    }
}

fn losses(result: &SchedResult, findings: &mut Vec<Finding>) {
    let losses = &result.losses;
    let places = losses.intervals.len() as u64 + losses.intervals_not_listed;
    if places > 0 {
        let discarded = result.wait.intervals.discarded_by_loss;
        let unknown = if losses.uncounted > 0 {
            format!(" (and in {} an unknown number)", counted(losses.uncounted, "further place"))
        } else {
            String::new()
        };
        let text = format!(
            "{} lost in {}{unknown}. {} that may have been touched {} left out; larger buffers or fewer events \
             avoid this.",
            were(losses.events, "event"),
            counted(places, "place"),
            counted(discarded, "wait"),
            if discarded == 1 { "was" } else { "were" },
        );
        push(findings, "losses", Weight::Serious, text);
    }
    if losses.events_without_place > 0 {
        let text = format!(
            "{} lost at times that the producer did not note: intervals across them could not be left out.",
            were(losses.events_without_place, "event"),
        );
        push(findings, "losses_without_place", Weight::Serious, text);
    }
}

fn were(count: u64, noun: &str) -> String {
    format!("{} {}", counted(count, noun), if count == 1 { "was" } else { "were" })
}

fn gaps(result: &SchedResult, findings: &mut Vec<Finding>) {
    let losses = &result.losses;
    if losses.gaps == 0 {
        return;
    }
    let switches: u64 = result.cpus.iter().map(|c| c.switches).sum();
    let weight = if losses.gaps * 100 > switches { Weight::Notable } else { Weight::Note };
    let text = format!(
        "{} in which a CPU ran a thread it had not been seen to switch to, without a loss being told (threads \
         hidden from the trace). {} left out on that account.",
        counted(losses.gaps, "gap"),
        were(result.wait.intervals.discarded_by_gap, "wait"),
    );
    push(findings, "gaps", weight, text);
}

fn clock(result: &SchedResult, findings: &mut Vec<Finding>) {
    let clock = &result.clock_quality;
    if clock.backward_steps > 0 {
        let text = format!(
            "The clock ({}) stepped back {} on one CPU, by up to {}.",
            result.provenance.clock,
            counted(clock.backward_steps, "time"),
            duration(clock.max_backward_ns)
        );
        push(findings, "clock_backward", Weight::Notable, text);
    }
    if clock.effects_before_causes > 0 {
        let text = format!(
            "{} stamped before their causes on another CPU, by up to {}: the clock ({}) orders events of \
             different CPUs no better than that.",
            were(clock.effects_before_causes, "effect"),
            duration(clock.max_effect_before_cause_ns),
            result.provenance.clock,
        );
        push(findings, "clock_order", Weight::Notable, text);
    }
}

/// What is open for less than this, in nanoseconds, misleads nobody, however short a thread lived.
const SMALL_REMAINDER_NS: u64 = 100_000;

fn unclosed_budgets(result: &SchedResult, findings: &mut Vec<Finding>) {
    if result.cpus.iter().all(|c| c.switches == 0) {
        // Nothing is accounted for, as another finding says.
        return;
    }
    let open = result.threads.iter().filter(|t| {
        t.budget.remainder_ns > SMALL_REMAINDER_NS && t.budget.remainder_ns * 100 > t.budget.span_ns
    });
    let (mut count, mut worst) = (0, None);
    for thread in open {
        count += 1;
        if worst
            .is_none_or(|w: &super::result::ThreadReport| w.budget.remainder_ns < thread.budget.remainder_ns)
        {
            worst = Some(thread);
        }
    }
    if let Some(worst) = worst {
        let text = format!(
            "Of {}, more than 1 % of the time is not accounted for; most of {} [{}]: {} ({}).",
            counted(count, "thread"),
            worst.name,
            worst.key.tid.0,
            duration(worst.budget.remainder_ns),
            share(worst.budget.remainder_ns, worst.budget.span_ns),
        );
        push(findings, "unclosed_budgets", Weight::Notable, text);
    }
}

fn waits(result: &SchedResult, findings: &mut Vec<Finding>) {
    let wait = &result.wait;
    let Some(quantiles) = &wait.total.quantiles else { return };
    let text = format!(
        "Threads waited for a CPU {}, {} together: {} after a wakeup, {} after losing the CPU. Half of the waits \
         were not longer than {}, 99 % not longer than {}, the longest {}.",
        counted(wait.total.count, "time"),
        duration(wait.total.sum_ns),
        share(wait.wakeup.sum_ns, wait.total.sum_ns),
        share(wait.preemption.sum_ns, wait.total.sum_ns),
        duration(quantiles.p50_ns),
        duration(quantiles.p99_ns),
        duration(quantiles.max_ns),
    );
    push(findings, "waits", Weight::Note, text);
}

fn who_waits(result: &SchedResult, findings: &mut Vec<Finding>) {
    let all: u64 = result.threads.iter().map(|t| t.budget.waiting_ns()).sum();
    let Some(first) = result.threads.first() else { return };
    let waited = first.budget.waiting_ns();
    if all == 0 || waited * 10 < all {
        return;
    }
    let text = format!(
        "{} [{}] waited most: {}, {} of all waiting, {} of its own time.",
        first.name,
        first.key.tid.0,
        duration(waited),
        share(waited, all),
        share(waited, first.budget.span_ns),
    );
    push(findings, "who_waits", Weight::Note, text);
}

fn had_cpu(result: &SchedResult, findings: &mut Vec<Finding>) {
    let holders = &result.wait.meanwhile;
    let time = |wanted: fn(&CpuHolder) -> bool| -> u64 {
        holders.iter().filter(|h| wanted(&h.who)).map(|h| h.others_waited_ns).sum()
    };
    let others = time(|who| matches!(who, CpuHolder::NotCounted(_)));
    let own = time(|who| matches!(who, CpuHolder::Counted(_)));
    let all: u64 = time(|_| true);
    if all == 0 {
        return;
    }
    let first = |wanted: fn(&CpuHolder) -> bool| {
        let named = |holder: &HadCpu| match &holder.who {
            CpuHolder::Counted(name) | CpuHolder::NotCounted(name) => {
                format!("{name} ({})", share(holder.others_waited_ns, all))
            }
            CpuHolder::Idle | CpuHolder::Unknown => String::new(),
        };
        let names: Vec<String> = holders.iter().filter(|h| wanted(&h.who)).take(3).map(named).collect();
        names.join(", ")
    };
    if others == 0 {
        let names = first(|who| matches!(who, CpuHolder::Counted(_)));
        if names.is_empty() {
            return;
        }
        let text = format!("While threads waited, their CPU was busy with {names}.");
        return push(findings, "had_cpu", Weight::Note, text);
    }
    // Others are the cause where they had the CPU for most of the waiting.
    let weight = if others * 2 > all { Weight::Notable } else { Weight::Note };
    let text = format!(
        "While they waited, threads that were not asked about had their CPU for {} of the time, first of all {}; \
         the threads asked about themselves for {}.",
        share(others, all),
        first(|who| matches!(who, CpuHolder::NotCounted(_))),
        share(own, all),
    );
    push(findings, "had_cpu", weight, text);
}

fn held_back(result: &SchedResult, findings: &mut Vec<Finding>) {
    let held = &result.held_back;
    let Some(worst) = result.threads.iter().max_by_key(|t| t.held_back.time_ns) else { return };
    if held.waits == 0 {
        return;
    }
    let weight = if held.time_ns * 20 > result.wait.total.sum_ns { Weight::Notable } else { Weight::Note };
    let text = format!(
        "{}, threads had to wait although the very CPU they waited for was idle, {} together; {} [{}] for {} of \
         it. The scheduler held them back: look for a CPU quota of their cgroup (cpu.max, cpu.cfs_quota_us; throttled time \
         in cpu.stat).",
        counted(held.waits, "time"),
        duration(held.time_ns),
        worst.name,
        worst.key.tid.0,
        share(worst.held_back.time_ns, held.time_ns),
    );
    push(findings, "held_back", weight, text);
}

fn idle_beside(result: &SchedResult, findings: &mut Vec<Finding>) {
    let beside = &result.idle_beside;
    let Some(worst) = result.threads.iter().max_by_key(|t| t.idle_beside.time_ns) else { return };
    if beside.waits == 0 {
        return;
    }
    let weight = if beside.time_ns * 20 > result.wait.total.sum_ns { Weight::Notable } else { Weight::Note };
    let text = format!(
        "{} of threads for a busy CPU went on while another CPU that they use was idle, {} together ({} of all \
         waiting), up to {} at a time; {} [{}] for {} of it.",
        counted(beside.waits, "wait"),
        duration(beside.time_ns),
        share(beside.time_ns, result.wait.total.sum_ns),
        duration(beside.max_ns),
        worst.name,
        worst.key.tid.0,
        share(worst.idle_beside.time_ns, beside.time_ns),
    );
    push(findings, "idle_beside", weight, text);
}

fn uneven_cpus(result: &SchedResult, findings: &mut Vec<Finding>) {
    let whole = |c: &CpuReport| c.busy_ns + c.idle_ns + c.unknown_ns;
    let busiest = result.cpus.iter().max_by_key(|c| c.busy_ns);
    let idlest = result.cpus.iter().min_by_key(|c| c.busy_ns);
    let (Some(busiest), Some(idlest)) = (busiest, idlest) else { return };
    let uneven = busiest.busy_ns * 10 > whole(busiest) * 8 && idlest.busy_ns * 10 < whole(idlest) * 5;
    let waits = result.wait.by_cpu.iter().find(|g| g.group == super::result::Group::Cpu(busiest.cpu));
    let waited = waits.map_or(0, |w| w.total.sum_ns);
    if !uneven || waited * 20 < whole(busiest) {
        return;
    }
    // Who waited there and was never seen anywhere else.
    let only_here = result
        .threads
        .iter()
        .filter(|t| t.ran_on == [busiest.cpu])
        .max_by_key(|t| t.budget.waiting_ns())
        .filter(|t| t.budget.waiting_ns() > 0);
    let bound = match only_here {
        Some(thread) => format!(
            " {} [{}] waited there for {} and ran on no other CPU: if it is bound to this CPU, that is why.",
            thread.name,
            thread.key.tid.0,
            duration(thread.budget.waiting_ns()),
        ),
        None => String::new(),
    };
    let text = format!(
        "CPU {} was busy {} of the time and threads waited {} for it, while CPU {} was busy {}.{bound}",
        busiest.cpu.0,
        share(busiest.busy_ns, whole(busiest)),
        duration(waited),
        idlest.cpu.0,
        share(idlest.busy_ns, whole(idlest)),
    );
    push(findings, "uneven_cpus", Weight::Notable, text);
}

fn open_waits(result: &SchedResult, findings: &mut Vec<Finding>) {
    let Some(open) = result.open_waits.first() else { return };
    let longest = result.wait.total.quantiles.map_or(0, |q| q.max_ns);
    if open.age_ns > longest && open.age_ns > 1_000_000 {
        let text = format!(
            "{} [{}] was still waiting for CPU {} when the trace ended, already for {}: longer than any wait that \
             ended.",
            open.name,
            open.thread.tid.0,
            open.waited_on.0,
            duration(open.age_ns),
        );
        push(findings, "open_waits", Weight::Notable, text);
    }
}
