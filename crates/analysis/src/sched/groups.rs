//! Which distributions a duration belongs to.
//!
//! Each distribution that a result shows has a number here. Waits belong to several:
//! all, by cause, by CPU, priority, policy, thread, process, cgroup; blocked times to
//! all, by state, by reason.

use std::collections::HashMap;

use trace::Tid;

use super::{
    result::{BlockReason, PolicyClass, WaitCause},
    threads::STATES,
};

/// A distribution's number; [`NO_GROUP`] for none.
pub(crate) type GroupId = u32;
pub(crate) const NO_GROUP: GroupId = u32::MAX;

pub(crate) const TOTAL: GroupId = 0;
pub(crate) const WAKEUP: GroupId = 1;
pub(crate) const PREEMPTION: GroupId = 2;
pub(crate) const BLOCKED: GroupId = 3;
pub(crate) const BY_STATE: GroupId = 4;
pub(crate) const BY_REASON: GroupId = BY_STATE + STATES.len() as GroupId;
pub(crate) const BY_POLICY: GroupId = BY_REASON + BlockReason::COUNT as GroupId;
pub(crate) const BY_PRIORITY: GroupId = BY_POLICY + 3;
/// Priorities are clamped to -1..=200 and counted from 0.
pub(crate) const PRIORITIES: GroupId = 202;
pub(crate) const BY_CPU: GroupId = BY_PRIORITY + PRIORITIES;

/// What decides a wait's distributions, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitTag {
    pub serial: u32,
    pub cpu: u16,
    pub prio: i16,
    pub cause: WaitCause,
}

impl WaitTag {
    #[inline]
    pub fn pack(self) -> u64 {
        u64::from(self.serial) << 32
            | u64::from(self.cpu) << 16
            | u64::from((self.prio + 1) as u8) << 8
            | self.cause as u64
    }

    #[inline]
    pub fn unpack(word: u64) -> WaitTag {
        WaitTag {
            serial: (word >> 32) as u32,
            cpu: (word >> 16) as u16,
            prio: i16::from((word >> 8) as u8) - 1,
            cause: match word & 3 {
                0 => WaitCause::Wakeup,
                1 => WaitCause::New,
                _ => WaitCause::Preemption,
            },
        }
    }
}

/// The policy class that a priority tells.
pub(crate) fn policy_of(prio: i32) -> PolicyClass {
    match prio {
        ..0 => PolicyClass::Deadline,
        0..100 => PolicyClass::RealTime,
        _ => PolicyClass::Normal,
    }
}

/// The numbers of the distributions whose count depends on the trace.
#[derive(Debug, Default)]
pub(crate) struct GroupTable {
    /// By thread serial.
    pub thread: Vec<GroupId>,
    /// By thread serial.
    pub process: Vec<GroupId>,
    /// By thread serial.
    pub cgroup: Vec<GroupId>,
    /// All distributions together.
    pub count: GroupId,
    /// Cgroups given, by thread.
    pub paths: HashMap<Tid, String>,
    /// Groups from here on are rows of long tables: no histogram for drawing.
    pub without_histogram: GroupId,
}

impl GroupTable {
    /// The distributions of a wait.
    #[inline]
    pub fn of_wait(&self, tag: WaitTag) -> [GroupId; 8] {
        let by_serial = |table: &[GroupId]| table.get(tag.serial as usize).copied().unwrap_or(NO_GROUP);
        [
            TOTAL,
            if tag.cause == WaitCause::Preemption { PREEMPTION } else { WAKEUP },
            BY_POLICY + policy_of(i32::from(tag.prio)) as GroupId,
            BY_PRIORITY + (tag.prio + 1) as GroupId,
            BY_CPU + GroupId::from(tag.cpu),
            by_serial(&self.thread),
            by_serial(&self.process),
            by_serial(&self.cgroup),
        ]
    }
}

/// The distributions of a blocked time.
#[inline]
pub(crate) fn of_blocked(state: usize, reason: usize) -> [GroupId; 3] {
    [BLOCKED, BY_STATE + state as GroupId, BY_REASON + reason as GroupId]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_survive_packing() {
        for (serial, cpu, prio, cause) in [
            (0, 0, -1, WaitCause::Wakeup),
            (u32::MAX, 8191, 139, WaitCause::Preemption),
            (77, 300, 200, WaitCause::New),
        ] {
            let tag = WaitTag { serial, cpu, prio, cause };
            assert_eq!(WaitTag::unpack(tag.pack()), tag);
        }
        assert_eq!(policy_of(-1), PolicyClass::Deadline);
        assert_eq!(policy_of(99), PolicyClass::RealTime);
        assert_eq!(policy_of(100), PolicyClass::Normal);
    }
}
