//! Maps of the time since they were looked at last, without losing what comes while they are read.
//!
//! Counts, sums, averages and histograms are never cleared: programs add to them on other CPUs all the time, and
//! whatever is added between reading and clearing would be gone. Instead the last contents are kept and taken from
//! the new ones, number by number. So each event is in exactly one interval. Entries that did not change are
//! removed when their map is half full, so that keys which are gone do not fill it; the kernel gives the value back
//! that it removes, and what it grew by since it was read belongs to this interval.
//!
//! Maps are read one after the other: an event between two readings is in this interval by one map and in the next
//! by the other, in none twice.
//!
//! What is no sum (plain values, minima, maxima) cannot be subtracted: it is taken out key by key, the value read in
//! the same step in which the entry goes. Only without a key, where there is no entry to take, a value set in the
//! microsecond between reading and resetting can be missed.

use std::collections::HashMap;

use kernel::error::Refused;
use lang::layout::Place;
use lang::schema::{MapId, MapValue};

use super::contents::{Contents, Maps};
use super::decode::unsigned;

/// What maps held when they were looked at last.
#[derive(Debug, Default)]
pub struct Intervals {
    seen: HashMap<MapId, HashMap<Vec<u8>, Vec<Vec<u8>>>>,
}

impl Intervals {
    /// The contents of a map since this was asked last, or since the beginning.
    pub fn since(&mut self, maps: Maps<'_>, id: MapId) -> Result<Contents, Refused> {
        let map = &maps.schema.maps[id.0 as usize];
        match &map.value {
            MapValue::Plain(_) | MapValue::Min { .. } | MapValue::Max { .. } => take(maps, id),
            // Each interval of it has its own number.
            MapValue::TimeSeries { .. } => maps.read(id),
            _ => self.added(maps, id),
        }
    }

    fn added(&mut self, maps: Maps<'_>, id: MapId) -> Result<Contents, Refused> {
        let map = &maps.schema.maps[id.0 as usize];
        let seen = self.seen.entry(id).or_default();
        let contents = maps.read(id)?;
        let crowded = contents.entries.len() as u64 * 2 > u64::from(map.capacity);
        let keyed = matches!(maps.layout.place(id), Place::Map(_));
        let mut added = Contents::default();
        let mut now = HashMap::with_capacity(contents.entries.len());
        for (key, values) in contents.entries {
            let before = seen.get(&key);
            if before == Some(&values) && !keyed && map.value == MapValue::Count {
                // A count of nothing is an answer too, in each interval as at the end.
                added.entries.push((key.clone(), difference(&map.value, before, &values)));
                now.insert(key, values);
                continue;
            }
            if before == Some(&values) && !(crowded && keyed) {
                now.insert(key, values);
                continue;
            }
            if before == Some(&values) {
                // Unchanged for a whole interval, in a map that needs the room.
                if let Some(last) = maps.take_entry(id, &key)?
                    && last != values
                {
                    added.entries.push((key, difference(&map.value, Some(&values), &last)));
                }
                continue;
            }
            added.entries.push((key.clone(), difference(&map.value, before, &values)));
            now.insert(key, values);
        }
        *seen = now;
        Ok(added)
    }
}

fn take(maps: Maps<'_>, id: MapId) -> Result<Contents, Refused> {
    let contents = maps.read(id)?;
    if !matches!(maps.layout.place(id), Place::Map(_)) {
        maps.clear(id)?;
        return Ok(contents);
    }
    let mut taken = Contents::default();
    for (key, _) in contents.entries {
        if let Some(values) = maps.take_entry(id, &key)? {
            taken.entries.push((key, values));
        }
    }
    Ok(taken)
}

/// What was added on each CPU. A count that became smaller was begun anew: its program deleted the entry.
fn difference(value: &MapValue, before: Option<&Vec<Vec<u8>>>, now: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let Some(before) = before.filter(|before| before.len() == now.len() && !anew(value, before, now)) else {
        return now.to_vec();
    };
    let cpus = before.iter().zip(now).map(|(before, now)| {
        let words = (0..now.len()).step_by(8);
        words
            .flat_map(|at| unsigned(now, at, 8).wrapping_sub(unsigned(before, at, 8)).to_le_bytes())
            .take(now.len())
            .collect()
    });
    cpus.collect()
}

fn anew(value: &MapValue, before: &[Vec<u8>], now: &[Vec<u8>]) -> bool {
    // Words that only grow as long as an entry lives.
    let growing = |size: usize| match value {
        MapValue::Sum { signed: true } => 0..0,
        MapValue::Avg { .. } | MapValue::Stats { .. } => 8..size,
        _ => 0..size,
    };
    before.iter().zip(now).any(|(before, now)| {
        growing(now.len()).step_by(8).any(|at| unsigned(now, at, 8) < unsigned(before, at, 8))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn sums_are_told_apart_by_subtraction_on_each_cpu() {
        let before = vec![words(&[5]), words(&[0])];
        let now = vec![words(&[5]), words(&[2])];
        assert_eq!(difference(&MapValue::Count, Some(&before), &now), [words(&[0]), words(&[2])]);
        assert_eq!(difference(&MapValue::Count, None, &now), now);
        let signed = MapValue::Sum { signed: true };
        assert_eq!(
            difference(&signed, Some(&vec![words(&[5])]), &[words(&[3])]),
            [words(&[2u64.wrapping_neg()])]
        );
    }

    #[test]
    fn an_entry_that_was_deleted_begins_anew() {
        assert_eq!(difference(&MapValue::Count, Some(&vec![words(&[5])]), &[words(&[3])]), [words(&[3])]);
        let stats = MapValue::Stats { signed: true };
        // Its total may shrink, its count may not.
        let before = vec![words(&[10, 2])];
        assert_eq!(difference(&stats, Some(&before), &[words(&[7, 3])]), [words(&[3u64.wrapping_neg(), 1])]);
        assert_eq!(difference(&stats, Some(&before), &[words(&[7, 1])]), [words(&[7, 1])]);
    }
}
