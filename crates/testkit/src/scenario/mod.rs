//! Traces written as small texts, for tests.
//!
//! One event a line: time, CPU, what happened. Threads are `name/tid` or
//! `name/tid/priority` (names with a slash always so), the idle thread is `idle`; names
//! with spaces stand in double quotes.
//!
//! ```text
//! 100 0 switch idle R -> a/10
//! 150 0 waking b/11 -> 1          the CPU it is meant for
//! 152 1 wakeup b/11 -> 1
//! 160 1 switch idle R -> b/11
//! 200 0 switch a/10 S -> idle
//! 210 0 new c/12 -> 0
//! 215 0 migrate b/11 1 -> 0
//! 220 0 fork a/10 -> c/12
//! 225 0 exit c/12
//! 226 0 free c/12
//! 227 0 exec 10 from 11
//! 230 0 rename 10 a -> "a b] ==> c"
//! 240 0 irq+      irq-  soft+  soft-  fault
//! 250 0 enter 202     exit-call 202
//! 260 0 tick
//! 270 - lost 1 300 310 5          CPU (or -), from, to, how many (or ?)
//! ```
//!
//! A last word `by=TID` says which thread was current.

mod encode;

use std::{fmt, ops::ControlFlow};

use trace::{
    Comm, Cpu, Loss, Nanos, Source, SourceError, TaskState, Tid, TraceInfo,
    stream::{At, FormatIndex, Item, Sink},
};

/// A thread as an event names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// Its name.
    pub name: String,
    /// Its number.
    pub tid: i32,
    /// Its priority.
    pub prio: i32,
}

impl Who {
    /// A thread of nice 0 called `t` and its number.
    pub fn number(tid: i32) -> Who {
        Who { name: if tid == 0 { "swapper".into() } else { format!("t{tid}") }, tid, prio: 120 }
    }

    fn comm(&self) -> Comm {
        Comm::new(self.name.as_bytes())
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// `sched_switch`
    Switch(Who, TaskState, Who),
    /// `sched_waking`, for this CPU
    Waking(Who, u32),
    /// `sched_wakeup`, on this CPU
    Wakeup(Who, u32),
    /// `sched_wakeup_new`, on this CPU
    New(Who, u32),
    /// `sched_migrate_task`, from and to
    Migrate(Who, u32, u32),
    /// `sched_process_fork`, parent and child
    Fork(Who, Who),
    /// `sched_process_exit`
    Exit(Who),
    /// `sched_process_free`
    Free(Who),
    /// `sched_process_exec`, new and old number
    Exec(i32, i32),
    /// `task_rename`, number, old and new name
    Rename(i32, String, String),
    /// `irq_handler_entry`
    IrqEntry,
    /// `irq_handler_exit`
    IrqExit,
    /// `softirq_entry`
    SoftirqEntry,
    /// `softirq_exit`
    SoftirqExit,
    /// `page_fault_user`
    Fault,
    /// `sys_enter`
    Enter(i64),
    /// `sys_exit`
    ExitCall(i64),
    /// An event of a kind that nobody knows.
    Tick,
    /// Events are missing.
    Lost(Loss),
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When.
    pub time: u64,
    /// Where.
    pub cpu: u32,
    /// The current thread, where the event says so.
    pub by: Option<i32>,
    /// What.
    pub what: What,
}

/// A trace made of steps, as good as one from a file.
#[derive(Debug)]
pub struct Scenario {
    info: TraceInfo,
    items: Vec<Encoded>,
}

#[derive(Debug)]
enum Encoded {
    Event { at: At, format: FormatIndex, record: Vec<u8> },
    Lost(Loss),
}

impl Scenario {
    /// A trace of these steps in this order, with the formats of all events (`only`: just
    /// the formats and steps of these event names).
    pub fn new(steps: &[Step], only: Option<&[&str]>) -> Scenario {
        let mut info = TraceInfo::new("scenario");
        info.machine = Some("x86_64".into());
        info.clock = trace::ClockKind::Mono;
        info.formats = encode::formats();
        if let Some(only) = only {
            info.formats.retain(|f| only.contains(&f.name.as_str()));
        }
        let mut items = Vec::new();
        for step in steps {
            if let What::Lost(loss) = step.what {
                items.push(Encoded::Lost(loss));
                continue;
            }
            let at = At { time: Nanos(step.time), cpu: Cpu(step.cpu), tid: step.by.map(Tid) };
            if let Some((format, record)) = encode::record(&info.formats, &step.what) {
                items.push(Encoded::Event { at, format, record });
            }
            info.cpu_count = info.cpu_count.max(step.cpu + 1);
        }
        Scenario { info, items }
    }

    /// A trace from its text. Panics with the line that cannot be read, as befits a test.
    pub fn parse(text: &str) -> Scenario {
        Scenario::new(&steps(text), None)
    }

    /// To change what the trace says about itself.
    pub fn info_mut(&mut self) -> &mut TraceInfo {
        &mut self.info
    }
}

impl Source for Scenario {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn stream(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError> {
        for item in &self.items {
            let item = match item {
                Encoded::Event { at, format, record } => {
                    Item::Event { at: *at, format: *format, record, sample: None }
                }
                Encoded::Lost(loss) => Item::Lost(*loss),
            };
            if sink.item(item) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }
}

/// The steps that a text tells. Panics with the line that cannot be read.
pub fn steps(text: &str) -> Vec<Step> {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or("").trim())
        .filter(|line| !line.is_empty())
        .map(|line| step(line).unwrap_or_else(|| panic!("cannot read this step: {line}")))
        .collect()
}

fn step(line: &str) -> Option<Step> {
    let mut words = words(line);
    let by = match words.last() {
        Some(last) if last.starts_with("by=") => {
            let tid = last[3..].parse().ok()?;
            words.pop();
            Some(tid)
        }
        _ => None,
    };
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|w| *w != "->").collect();
    let time = words.first()?.parse().ok()?;
    let cpu = match *words.get(1)? {
        "-" => 0,
        cpu => cpu.parse().ok()?,
    };
    let number = |w: &str| w.parse::<u32>().ok();
    let what = match words[2..] {
        ["switch", prev, state, next] => What::Switch(who(prev)?, TaskState::from_letters(state), who(next)?),
        ["waking", thread, cpu] => What::Waking(who(thread)?, number(cpu)?),
        ["wakeup", thread, cpu] => What::Wakeup(who(thread)?, number(cpu)?),
        ["new", thread, cpu] => What::New(who(thread)?, number(cpu)?),
        ["migrate", thread, from, to] => What::Migrate(who(thread)?, number(from)?, number(to)?),
        ["fork", parent, child] => What::Fork(who(parent)?, who(child)?),
        ["exit", thread] => What::Exit(who(thread)?),
        ["free", thread] => What::Free(who(thread)?),
        ["exec", tid, "from", old] => What::Exec(tid.parse().ok()?, old.parse().ok()?),
        ["rename", tid, old, new] => What::Rename(tid.parse().ok()?, old.into(), new.into()),
        ["irq+"] => What::IrqEntry,
        ["irq-"] => What::IrqExit,
        ["soft+"] => What::SoftirqEntry,
        ["soft-"] => What::SoftirqExit,
        ["fault"] => What::Fault,
        ["enter", number] => What::Enter(number.parse().ok()?),
        ["exit-call", number] => What::ExitCall(number.parse().ok()?),
        ["tick"] => What::Tick,
        ["lost", cpu, from, to, count] => What::Lost(Loss {
            cpu: if cpu == "-" { None } else { Some(Cpu(number(cpu)?)) },
            from: Nanos(from.parse().ok()?),
            to: Nanos(to.parse().ok()?),
            count: if count == "?" { None } else { Some(count.parse().ok()?) },
        }),
        _ => return None,
    };
    Some(Step { time, cpu, by, what })
}

/// Words, where double quotes keep spaces (and the slash after them joins).
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => words.push(String::new()),
            c => words.last_mut().expect("never empty").push(c),
        }
    }
    words.retain(|w| !w.is_empty());
    words
}

fn who(word: &str) -> Option<Who> {
    if word == "idle" {
        return Some(Who::number(0));
    }
    let parts: Vec<&str> = word.split('/').collect();
    let (name, tid, prio) = match &parts[..] {
        [name, tid] => ((*name).to_owned(), tid.parse().ok()?, 120),
        [name @ .., tid, prio] => (name.join("/"), tid.parse().ok()?, prio.parse().ok()?),
        _ => return None,
    };
    Some(Who { name, tid, prio })
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tid {
            0 => f.write_str("idle"),
            tid => write!(f, "\"{}\"/{tid}/{}", self.name, self.prio),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.time, self.cpu)?;
        match &self.what {
            What::Switch(prev, state, next) => write!(f, "switch {prev} {state} -> {next}"),
            What::Waking(who, cpu) => write!(f, "waking {who} -> {cpu}"),
            What::Wakeup(who, cpu) => write!(f, "wakeup {who} -> {cpu}"),
            What::New(who, cpu) => write!(f, "new {who} -> {cpu}"),
            What::Migrate(who, from, to) => write!(f, "migrate {who} {from} -> {to}"),
            What::Fork(parent, child) => write!(f, "fork {parent} -> {child}"),
            What::Exit(who) => write!(f, "exit {who}"),
            What::Free(who) => write!(f, "free {who}"),
            What::Exec(tid, old) => write!(f, "exec {tid} from {old}"),
            What::Rename(tid, old, new) => write!(f, "rename {tid} \"{old}\" -> \"{new}\""),
            What::IrqEntry => f.write_str("irq+"),
            What::IrqExit => f.write_str("irq-"),
            What::SoftirqEntry => f.write_str("soft+"),
            What::SoftirqExit => f.write_str("soft-"),
            What::Fault => f.write_str("fault"),
            What::Enter(number) => write!(f, "enter {number}"),
            What::ExitCall(number) => write!(f, "exit-call {number}"),
            What::Tick => f.write_str("tick"),
            What::Lost(loss) => {
                let cpu = loss.cpu.map_or("-".into(), |c| c.0.to_string());
                let count = loss.count.map_or("?".into(), |c| c.to_string());
                write!(f, "lost {cpu} {} {} {count}", loss.from.0, loss.to.0)
            }
        }?;
        self.by.map_or(Ok(()), |tid| write!(f, " by={tid}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_read_as_they_print_and_decode_as_they_were_meant() {
        let text = r#"
            100 0 switch idle R -> "a b] ==> c"/10/49 by=0
            150 0 waking b/11 -> 1
            210 0 new c/12 -> 0   # a remark
            215 0 migrate b/11 1 -> 0
            220 0 fork a/10 -> c/12
            227 0 exec 10 from 11
            230 0 rename 10 a -> "x y"
            240 3 irq+
            250 0 exit-call 202
            270 - lost 1 300 310 ?
        "#;
        let first = steps(text);
        let printed: Vec<String> = first.iter().map(ToString::to_string).collect();
        assert_eq!(steps(&printed.join("\n")), first);
        let mut scenario = Scenario::new(&first, None);
        let mut decoder = trace::decode::Decoder::new(scenario.info());
        assert!(decoder.unbound.is_empty(), "{:?}", decoder.unbound);
        let mut events = Vec::new();
        scenario
            .stream(&mut |item: Item<'_>| {
                if let Item::Event { format, record, .. } = item {
                    events.push(decoder.decode(format, record));
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(events.len(), 9);
        let Some(trace::Event::SchedSwitch(switch)) = events[0] else { panic!("{:?}", events[0]) };
        assert_eq!(switch.next_comm.to_string(), "a b] ==> c");
        assert_eq!(
            (switch.next_tid, switch.next_prio, switch.prev_state),
            (Tid(10), 49, TaskState::Runnable)
        );
        assert!(events.iter().all(Option::is_some), "{events:?}");
    }
}
