//! The definitions again, slow and simple: for each question the whole trace is searched.
//!
//! Only for traces without losses, gaps, or clocks that step back.

use analysis::sched::result::WaitCause;
use testkit::scenario::{Step, What};
use trace::TaskState;

/// All that is true of one thread.
#[derive(Debug, Default)]
pub struct Life {
    pub tid: i32,
    pub generation: u32,
    pub span: u64,
    pub waits: Vec<Waited>,
    pub running: u64,
    pub wakeup_wait: u64,
    pub preemption_wait: u64,
    pub cut_wait: u64,
    pub blocked: u64,
    /// From the fork to the first wakeup.
    pub unborn: u64,
    pub open_waits: u64,
    pub switched_in: u64,
    pub voluntary: u64,
    pub involuntary: u64,
    pub migrations: u64,
    pub beside_idle: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct Waited {
    pub start: u64,
    pub end: u64,
    pub cause: WaitCause,
}

/// What an event says about one thread.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Turn {
    In,
    Out(TaskState),
    Woken,
    New,
    Fork,
}

fn turn(step: &Step, tid: i32) -> Option<Turn> {
    match &step.what {
        What::Switch(_, _, next) if next.tid == tid => Some(Turn::In),
        What::Switch(prev, state, _) if prev.tid == tid => Some(Turn::Out(*state)),
        What::Waking(who, _) | What::Wakeup(who, _) if who.tid == tid => Some(Turn::Woken),
        What::New(who, _) if who.tid == tid => Some(Turn::New),
        What::Fork(_, child) if child.tid == tid => Some(Turn::Fork),
        _ => None,
    }
}

/// Every thread that any event tells of.
pub fn lives(steps: &[Step]) -> Vec<Life> {
    let mut tids: Vec<i32> = Vec::new();
    for step in steps {
        match &step.what {
            What::Switch(prev, _, next) => tids.extend([prev.tid, next.tid]),
            What::Waking(who, _) | What::Wakeup(who, _) | What::New(who, _) => tids.push(who.tid),
            What::Fork(_, child) => tids.push(child.tid),
            // The current thread of any event with a believable number.
            _ => {}
        }
    }
    tids.sort_unstable();
    tids.dedup();
    tids.retain(|t| *t > 0);
    let mut lives = Vec::new();
    for tid in tids {
        let mut start = 0;
        let mut generation = 0;
        // Each fork begins another life; what was before the first is one as well, if it was.
        for i in 0..steps.len() {
            if turn(&steps[i], tid) == Some(Turn::Fork) {
                if (start..i).any(|k| turn(&steps[k], tid).is_some()) {
                    lives.push(life(steps, start, i, tid, generation));
                    generation += 1;
                }
                start = i;
            }
        }
        lives.push(life(steps, start, steps.len(), tid, generation));
    }
    lives
}

fn life(steps: &[Step], from: usize, to: usize, tid: i32, generation: u32) -> Life {
    let trace_start = steps[0].time;
    let trace_end = steps.iter().map(|s| s.time).max().unwrap();
    let forked = turn(&steps[from], tid) == Some(Turn::Fork);
    let mut life = Life { tid, generation, ..Life::default() };
    let begin = if forked { steps[from].time } else { trace_start };
    let mut end = trace_end;
    for i in from..to {
        let now = steps[i].time;
        let before =
            |k: usize| (from..k).rev().find(|j| !matches!(turn(&steps[*j], tid), None | Some(Turn::Fork)));
        // The last In or Out or New before.
        let placed = |k: usize| {
            (from..k)
                .rev()
                .find(|j| matches!(turn(&steps[*j], tid), Some(Turn::In | Turn::Out(_) | Turn::New)))
        };
        match turn(&steps[i], tid) {
            Some(Turn::In) => {
                life.switched_in += 1;
                let last_in =
                    (from..i).rev().find(|j| matches!(turn(&steps[*j], tid), Some(Turn::In | Turn::Out(_))));
                life.migrations += u64::from(last_in.is_some_and(|j| steps[j].cpu != steps[i].cpu));
                match wait_before(steps, from, i, tid) {
                    Some((start, cause)) => {
                        let wait = Waited { start: steps[start].time, end: now, cause };
                        life.waits.push(wait);
                        *(if cause == WaitCause::Preemption {
                            &mut life.preemption_wait
                        } else {
                            &mut life.wakeup_wait
                        }) += wait.end - wait.start;
                        life.beside_idle += beside_idle(steps, from, start, i, tid);
                    }
                    None => {
                        assert!(before(i).is_none(), "the model switches in only who waits");
                        life.cut_wait += now - begin;
                    }
                }
            }
            Some(Turn::Out(state)) => {
                let since = placed(i).map_or(begin, |j| {
                    assert_eq!(turn(&steps[j], tid), Some(Turn::In));
                    steps[j].time
                });
                life.running += now - since;
                match state {
                    TaskState::Runnable | TaskState::Preempted => life.involuntary += 1,
                    _ => life.voluntary += 1,
                }
                if state == TaskState::Dead {
                    end = now;
                }
            }
            Some(Turn::Woken) => {
                // The first since it blocked ends the blocked time.
                let blocked_since = match placed(i) {
                    Some(j) => match turn(&steps[j], tid) {
                        Some(Turn::Out(state)) if !state.is_runnable() => Some((j, steps[j].time)),
                        _ => None,
                    },
                    None if forked => None,
                    // Never seen before: it slept, unless it turns out to have been running or waiting.
                    None => {
                        let next = (i + 1..to).find_map(|k| match turn(&steps[k], tid) {
                            Some(Turn::Out(_)) => Some(false),
                            Some(Turn::In) => Some(true),
                            _ => None,
                        });
                        (next != Some(false)).then_some((from, begin))
                    }
                };
                if let Some((j, since)) = blocked_since
                    && !(j..i).any(|k| turn(&steps[k], tid) == Some(Turn::Woken))
                {
                    life.blocked += now - since;
                }
            }
            Some(Turn::New) => life.unborn += now - begin,
            Some(Turn::Fork) | None => {}
        }
    }
    life.span = end - begin;
    finish(&mut life, steps, from, to, trace_end);
    life
}

/// Where the wait that ends with the switch `end` began, and why.
fn wait_before(steps: &[Step], from: usize, end: usize, tid: i32) -> Option<(usize, WaitCause)> {
    let mut woken = None;
    for j in (from..end).rev() {
        match turn(&steps[j], tid) {
            Some(Turn::Woken) => woken = Some(j),
            Some(Turn::Out(state)) if state.is_runnable() => return Some((j, WaitCause::Preemption)),
            Some(Turn::Out(_)) => return woken.map(|w| (w, WaitCause::Wakeup)),
            Some(Turn::New) => return Some((j, WaitCause::New)),
            Some(Turn::In) => panic!("the model switches in only who waits"),
            Some(Turn::Fork) | None => {}
        }
    }
    woken.map(|w| (w, WaitCause::Wakeup))
}

/// What is still open at the end.
fn finish(life: &mut Life, steps: &[Step], from: usize, to: usize, end: u64) {
    let tid = life.tid;
    let last =
        (from..to).rev().find(|j| matches!(turn(&steps[*j], tid), Some(Turn::In | Turn::Out(_) | Turn::New)));
    match last.map(|j| (j, turn(&steps[j], tid).unwrap())) {
        Some((j, Turn::In)) => life.running += end - steps[j].time,
        Some((_, Turn::Out(TaskState::Dead))) => {}
        Some((j, Turn::Out(state))) if state.is_runnable() => {
            life.preemption_wait += end - steps[j].time;
            life.open_waits += 1;
        }
        Some((j, Turn::New)) => {
            life.wakeup_wait += end - steps[j].time;
            life.open_waits += 1;
        }
        Some((j, _)) => match (j..to).find(|k| turn(&steps[*k], tid) == Some(Turn::Woken)) {
            Some(k) => {
                life.wakeup_wait += end - steps[k].time;
                life.open_waits += 1;
            }
            None => life.blocked += end - steps[j].time,
        },
        None => match (from..to).find(|k| turn(&steps[*k], tid) == Some(Turn::Woken)) {
            Some(k) => {
                life.wakeup_wait += end - steps[k].time;
                life.open_waits += 1;
            }
            None => life.unborn = life.span,
        },
    }
}

/// Time within the wait `start..end` (steps) that the thread's queue was busy with a thread
/// while another CPU it was seen on or sent to was idle.
fn beside_idle(steps: &[Step], from: usize, start: usize, end: usize, tid: i32) -> u64 {
    let mut time = 0;
    for at in start..end {
        let queue = (from..=at)
            .rev()
            .find_map(|j| match &steps[j].what {
                What::Wakeup(who, cpu) | What::New(who, cpu) if who.tid == tid => Some(*cpu),
                What::Waking(who, cpu) if who.tid == tid && j == start => Some(*cpu),
                What::Migrate(who, _, cpu) if who.tid == tid => Some(*cpu),
                What::Switch(prev, _, _) if prev.tid == tid && j == start => Some(steps[j].cpu),
                _ => None,
            })
            .unwrap();
        let busy = matches!(current_after(steps, at, queue), Some(tid) if tid > 0);
        let mut allowed: Vec<u32> = Vec::new();
        for (j, step) in steps[from..=at].iter().enumerate() {
            match &step.what {
                What::Switch(prev, _, next) if prev.tid == tid || next.tid == tid => allowed.push(step.cpu),
                What::Wakeup(who, cpu) if who.tid == tid && believed(steps, from, from + j, tid) => {
                    allowed.push(*cpu)
                }
                What::Waking(who, cpu) if who.tid == tid && starts_wait(steps, from, from + j, tid) => {
                    allowed.push(*cpu);
                }
                What::New(who, cpu) | What::Migrate(who, _, cpu) if who.tid == tid => allowed.push(*cpu),
                _ => {}
            }
        }
        let beside = allowed.iter().any(|cpu| *cpu != queue && current_after(steps, at, *cpu) == Some(0));
        if busy && beside {
            time += steps[at + 1].time - steps[at].time;
        }
    }
    time
}

/// Whether a wakeup tells where a thread will run: not while it runs.
fn believed(steps: &[Step], from: usize, at: usize, tid: i32) -> bool {
    let last = (from..at).rev().find_map(|j| match turn(&steps[j], tid) {
        Some(Turn::In) => Some(true),
        Some(Turn::Out(_) | Turn::New) => Some(false),
        _ => None,
    });
    last != Some(true)
}

/// Whether a waking begins a wait.
fn starts_wait(steps: &[Step], from: usize, at: usize, tid: i32) -> bool {
    for j in (from..at).rev() {
        match turn(&steps[j], tid) {
            Some(Turn::Woken | Turn::In | Turn::New) => return false,
            Some(Turn::Out(state)) => return !state.is_runnable(),
            _ => {}
        }
    }
    true
}

/// Who runs on a CPU after step `at`, as far as steps up to there have told.
fn current_after(steps: &[Step], at: usize, cpu: u32) -> Option<i32> {
    let last_switch = (0..=at).rev().find_map(|j| match &steps[j].what {
        What::Switch(_, _, next) if steps[j].cpu == cpu => Some(next.tid),
        _ => None,
    });
    if last_switch.is_some() {
        return last_switch;
    }
    // Before its first switch, an event may tell, once any switch has shown that such numbers
    // are to be believed.
    (0..=at).find_map(|j| {
        let trusted =
            (0..j).any(|k| matches!(steps[k].what, What::Switch(..)) && steps[k].by.is_some_and(|b| b > 0));
        (trusted && steps[j].cpu == cpu).then_some(steps[j].by).flatten()
    })
}

/// Busy time (unknown if the CPU never switched), idle time and switches of each CPU.
pub fn cpus(steps: &[Step]) -> (Vec<Option<u64>>, Vec<u64>, Vec<u64>) {
    let count = steps.iter().map(|s| s.cpu + 1).max().unwrap() as usize;
    let (start, end) = (steps[0].time, steps.iter().map(|s| s.time).max().unwrap());
    let (mut busy, mut idle, mut switches) = (vec![None; count], vec![0; count], vec![0; count]);
    for cpu in 0..count {
        let own: Vec<(u64, i32, i32)> = steps
            .iter()
            .filter(|s| s.cpu as usize == cpu)
            .filter_map(|s| match &s.what {
                What::Switch(prev, _, next) => Some((s.time, prev.tid, next.tid)),
                _ => None,
            })
            .collect();
        switches[cpu] = own.len() as u64;
        if own.is_empty() {
            continue;
        }
        let mut sums = [0, 0];
        let mut since = start;
        for (time, prev, _) in &own {
            sums[usize::from(*prev == 0)] += time - since;
            since = *time;
        }
        sums[usize::from(own.last().unwrap().2 == 0)] += end - since;
        (busy[cpu], idle[cpu]) = (Some(sums[0]), sums[1]);
    }
    (busy, idle, switches)
}

/// Time from a thread's first wakeup to the switch that shows that it ran all along.
pub fn woken_while_running(steps: &[Step]) -> u64 {
    let mut time = 0;
    for life in lives(steps).iter().filter(|l| l.generation == 0) {
        let turns: Vec<(u64, Turn)> =
            steps.iter().filter_map(|s| turn(s, life.tid).map(|t| (s.time, t))).collect();
        let off = turns.iter().position(|t| !matches!(t.1, Turn::Woken));
        if let Some(off) = off.filter(|off| *off > 0)
            && matches!(turns[off].1, Turn::Out(_))
        {
            time += turns[off].0 - turns[0].0;
        }
    }
    time
}

/// Who runs on a CPU when the trace begins; 0 if that cannot be known.
pub fn first_current(steps: &[Step], cpu: u32) -> i32 {
    steps
        .iter()
        .filter(|s| s.cpu == cpu)
        .find_map(|s| match &s.what {
            What::Switch(prev, _, _) => Some(prev.tid),
            _ => None,
        })
        .unwrap_or(0)
}
