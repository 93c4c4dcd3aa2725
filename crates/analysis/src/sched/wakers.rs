//! Who wakes whom.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

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
    by_key: HashMap<u64, u32, BuildHasherDefault<WordHasher>>,
    pub others: CountAndTime,
}

/// Both slots in one word; slots stay far below the two marks.
fn key(waker: WokenBy, woken: Slot) -> u64 {
    let waker = match waker {
        WokenBy::Thread(slot) => slot,
        WokenBy::Interrupt => u32::MAX,
        WokenBy::Unknown => u32::MAX - 1,
    };
    u64::from(waker) << 32 | u64::from(woken)
}

/// For keys that no one chooses to collide: two multiplications and a fold.
#[derive(Debug, Default)]
pub(crate) struct WordHasher(u64);

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }

    fn finish(&self) -> u64 {
        self.0
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
        let at = match self.by_key.get(&key(waker, woken)) {
            Some(&at) => at,
            None if self.pairs.len() >= PAIRS => return self.others.add(time),
            None => {
                let at = self.pairs.len() as u32;
                self.pairs.push(Pair { waker, woken, blocked: CountAndTime::default() });
                self.by_key.insert(key(waker, woken), at);
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
                WokenBy::Thread(slot) if moved[slot as usize] != NO_ENTRY => {
                    WokenBy::Thread(moved[slot as usize])
                }
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
            self.by_key.insert(key(waker, woken), self.pairs.len() as u32);
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
