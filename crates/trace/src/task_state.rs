//! Why a thread left the CPU.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The state of the thread that `sched_switch` takes off the CPU, decoded from the
/// event's own print format (the encoding of `prev_state` changed in 4.8 and 4.14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// `R`: still runnable, it yielded or its slice ended.
    Runnable,
    /// `R+`: still runnable, preempted inside the kernel or by `preempt_schedule`.
    Preempted,
    /// `S`: interruptible sleep.
    Sleeping,
    /// `D`: uninterruptible sleep.
    Uninterruptible,
    /// `T`: stopped by a signal.
    Stopped,
    /// `t`: stopped by a tracer.
    Traced,
    /// `X`: dead.
    Dead,
    /// `Z`: zombie.
    Zombie,
    /// `P`: parked kernel thread.
    Parked,
    /// `I`: idle kernel thread in uninterruptible sleep (not counted in load).
    Idle,
    /// Not decodable: no print format, or a value it does not cover.
    #[default]
    Unknown,
}

impl TaskState {
    /// From the text that the event's print format gives, such as `R+`, `S`, `D|K`.
    /// The first letter decides where several bits are set.
    pub fn from_letters(text: &str) -> TaskState {
        match text.as_bytes() {
            [b'R', rest @ ..] => {
                if rest.contains(&b'+') {
                    TaskState::Preempted
                } else {
                    TaskState::Runnable
                }
            }
            // A preempted thread shows its state with a plus behind it; it is runnable.
            [.., b'+'] => TaskState::Preempted,
            [b'S', ..] => TaskState::Sleeping,
            [b'D', ..] => TaskState::Uninterruptible,
            [b'T', ..] => TaskState::Stopped,
            [b't', ..] => TaskState::Traced,
            [b'X' | b'x', ..] => TaskState::Dead,
            [b'Z', ..] => TaskState::Zombie,
            [b'P', ..] => TaskState::Parked,
            [b'I', ..] => TaskState::Idle,
            _ => TaskState::Unknown,
        }
    }

    /// Whether the thread still wants the CPU.
    pub fn is_runnable(self) -> bool {
        matches!(self, TaskState::Runnable | TaskState::Preempted)
    }

    /// The kernel's letters.
    pub fn letters(self) -> &'static str {
        match self {
            TaskState::Runnable => "R",
            TaskState::Preempted => "R+",
            TaskState::Sleeping => "S",
            TaskState::Uninterruptible => "D",
            TaskState::Stopped => "T",
            TaskState::Traced => "t",
            TaskState::Dead => "X",
            TaskState::Zombie => "Z",
            TaskState::Parked => "P",
            TaskState::Idle => "I",
            TaskState::Unknown => "?",
        }
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.letters())
    }
}
