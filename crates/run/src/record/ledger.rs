//! The account of a recording: happened = recorded + lost + filtered, for each CPU, with the
//! times between which events are missing.

use serde::{Deserialize, Serialize};

/// The account of a whole recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    /// Layout of this account; readers refuse a newer one.
    pub version: u32,
    /// One entry for each CPU that was recorded, ascending.
    pub cpus: Vec<CpuLedger>,
    /// What the kernel's filters refused.
    pub filtered: Filtered,
    /// Events in the file that the recorder's own threads caused.
    pub own: u64,
    /// Those threads.
    #[serde(default)]
    pub own_threads: Vec<u32>,
    /// The recorder was killed: the end is missing, and how much is not known.
    pub cut: bool,
    /// The clock of every time here, as `trace_clock` names it.
    pub clock: String,
    /// When writing to the rings began, in the clock "mono", nanoseconds.
    pub started_ns: u64,
    /// When it ended; for a cut recording the time of the last event kept.
    pub ended_ns: u64,
    /// A flight recording: from this time on every CPU's events are there.
    #[serde(default)]
    pub window_from_ns: Option<u64>,
    /// A flight recording: when it was triggered.
    #[serde(default)]
    pub triggered_ns: Option<u64>,
    /// What to add to "mono" times to get nanoseconds since 1970.
    pub realtime_offset_ns: i64,
}

/// The layout version written now.
pub const LEDGER_VERSION: u32 = 1;

/// The account of one CPU's ring.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuLedger {
    /// The CPU.
    pub cpu: u32,
    /// Events in the file, counted in its pages.
    pub recorded: u64,
    /// Events the kernel says were read from the ring; `None` for a cut recording.
    pub read: Option<u64>,
    /// Events that happened but are not in the file.
    pub lost: Lost,
    /// Events older than the window of a flight recording: overwritten on purpose.
    #[serde(default)]
    pub discarded: u64,
    /// Where events are missing, in order of time.
    pub losses: Vec<LossInterval>,
    /// Time of the first event in the file; 0 if there is none.
    pub first_ns: u64,
    /// Time of the last event in the file; 0 if there is none.
    pub last_ns: u64,
    /// Pages in the file.
    pub pages: u64,
    /// Bytes of event data in them, headers of events included, unused ends of pages not.
    pub bytes: u64,
}

/// Lost events by the way they were lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Overwritten in a ring that was too small (or drained too late).
    pub overwritten: u64,
    /// Refused by a full ring that does not overwrite.
    pub refused: u64,
    /// Lost because interrupts filled the whole ring while one event was being written.
    pub nested: u64,
    /// Read from the ring but not written, because the disk was full.
    pub unwritten: u64,
}

impl Lost {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.overwritten + self.refused + self.nested + self.unwritten
    }
}

/// Events are missing on a CPU between two times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossInterval {
    /// The last event before, or the start of the recording.
    pub from_ns: u64,
    /// The first event after, or the end of the recording.
    pub to_ns: u64,
    /// How many, where it is known for this interval alone.
    pub count: Option<u64>,
    /// The pages of the file tell of it too: a reader that tells losses as it meets pages must
    /// not tell it twice.
    pub in_pages: bool,
}

/// What the kernel's filters (threads, fields) refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filtered {
    /// No filter was set.
    Nothing,
    /// Filters were set and this many events refused, by a second count without filters.
    Counted(u64),
    /// Filters were set; the kernel does not count what they refuse.
    NotCounted,
}

impl Ledger {
    /// Events in the file.
    pub fn recorded(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.recorded).sum()
    }

    /// Events that passed the filters and are not in the file.
    pub fn lost(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.lost.total()).sum()
    }

    /// Events that a flight recording did not keep because they are older than its window.
    pub fn discarded(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.discarded).sum()
    }

    /// Events that passed the filters.
    pub fn happened(&self) -> u64 {
        self.recorded() + self.lost() + self.discarded()
    }

    /// CPUs whose own count of the file's events differs from the kernel's count of events
    /// read, as (CPU, counted in the file, read according to the kernel). Empty when the
    /// account is exact; a cut recording has no kernel count to compare with.
    pub fn disagreements(&self) -> Vec<(u32, u64, u64)> {
        let differs = |cpu: &CpuLedger| {
            let read = cpu.read?;
            let found = cpu.recorded + cpu.lost.unwritten;
            (found != read).then_some((cpu.cpu, found, read))
        };
        self.cpus.iter().filter_map(differs).collect()
    }
}

/// Joins neighbours until at most `most` intervals are left, so that an account stays small
/// however bad the losses. Counts add up; an unknown count makes the sum unknown.
pub(super) fn join_down_to(losses: &mut Vec<LossInterval>, most: usize) {
    while losses.len() > most.max(1) {
        let joined = losses.chunks(2).map(|pair| match pair {
            [first, second] => LossInterval {
                from_ns: first.from_ns,
                to_ns: second.to_ns,
                count: first.count.zip(second.count).map(|(a, b)| a + b),
                in_pages: first.in_pages && second.in_pages,
            },
            alone => alone[0],
        });
        *losses = joined.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joining_keeps_the_sum_and_the_span() {
        let mut losses: Vec<_> = (0..9)
            .map(|i| LossInterval { from_ns: i * 10, to_ns: i * 10 + 5, count: Some(i), in_pages: true })
            .collect();
        join_down_to(&mut losses, 3);
        assert_eq!(losses.len(), 3);
        assert_eq!((losses[0].from_ns, losses[2].to_ns), (0, 85));
        assert_eq!(losses.iter().map(|loss| loss.count.unwrap()).sum::<u64>(), 36);
    }

    #[test]
    fn an_unknown_count_stays_unknown() {
        let known = LossInterval { from_ns: 0, to_ns: 1, count: Some(1), in_pages: true };
        let mut losses = vec![known, LossInterval { count: None, ..known }];
        join_down_to(&mut losses, 1);
        assert_eq!(losses[0].count, None);
    }
}
