//! Who wakes whom.

use std::collections::HashMap;

use super::{
    result::CountAndTime,
    threads::{NO_ENTRY, Slot, WokenBy},
};

/// More pairs than this are only summed.
const PAIRS: usize = 1 << 17;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub waker: WokenBy,
    pub woken: Slot,
    pub blocked: CountAndTime,
}

/// Blocked time by who ended it.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    pub pairs: Vec<Pair>,
    by_key: HashMap<(u64, Slot), u32>,
    pub others: CountAndTime,
}

fn key(waker: WokenBy) -> u64 {
    match waker {
        WokenBy::Thread(slot) => u64::from(slot),
        WokenBy::Interrupt => u64::MAX,
        WokenBy::Unknown => u64::MAX - 1,
    }
}

impl Wakers {
    /// `last` remembers the woken thread's last pair: mostly the same wakes it again.
    #[inline]
    pub fn add(&mut self, waker: WokenBy, woken: Slot, last: &mut u32, time: u64) {
        if let Some(pair) = self.pairs.get_mut(*last as usize)
            && pair.waker == waker
        {
            pair.blocked.add(time);
            return;
        }
        self.add_slow(waker, woken, last, time);
    }

    fn add_slow(&mut self, waker: WokenBy, woken: Slot, last: &mut u32, time: u64) {
        let at = match self.by_key.get(&(key(waker), woken)) {
            Some(&at) => at,
            None if self.pairs.len() >= PAIRS => return self.others.add(time),
            None => {
                let at = self.pairs.len() as u32;
                self.pairs.push(Pair { waker, woken, blocked: CountAndTime::default() });
                self.by_key.insert((key(waker), woken), at);
                at
            }
        };
        *last = at;
        self.pairs[at as usize].blocked.add(time);
    }

    /// Pairs with threads that have no slot any more are summed into the others. Every
    /// thread's last pair is void afterwards.
    pub fn rename_slots(&mut self, moved: &[Slot]) {
        let old = std::mem::take(&mut self.pairs);
        self.by_key.clear();
        for pair in old {
            let woken = moved[pair.woken as usize];
            let waker = match pair.waker {
                WokenBy::Thread(slot) if moved[slot as usize] != NO_ENTRY => WokenBy::Thread(moved[slot as usize]),
                WokenBy::Thread(_) => {
                    self.others.merge(&pair.blocked);
                    continue;
                }
                other => other,
            };
            if woken == NO_ENTRY {
                self.others.merge(&pair.blocked);
                continue;
            }
            self.by_key.insert((key(waker), woken), self.pairs.len() as u32);
            self.pairs.push(Pair { waker, woken, blocked: pair.blocked });
        }
    }
}

impl CountAndTime {
    #[inline]
    pub(crate) fn add(&mut self, time: u64) {
        self.count += 1;
        self.time_ns = self.time_ns.saturating_add(time);
        self.max_ns = self.max_ns.max(time);
    }

    pub(crate) fn merge(&mut self, other: &CountAndTime) {
        self.count += other.count;
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}
