//! Single durations, each kept exactly, in little more than a byte.
//!
//! Durations come with a tag: a small number that says to which distributions they belong.
//! A tag's first few are kept as words. Of a tag with many, the buckets of a log-linear
//! histogram keep what is below their lower bound's precision: one byte of each duration up
//! to 32 µs, two up to 8 ms. A bucket with more durations than it has values counts
//! them by value instead, so that a tag's memory is bounded however long a trace is.

use crate::loglinear::{LogLinear, bounds_of, bucket_of};

/// Buckets of 1/128 of their lower bound.
pub(crate) const FINE: u32 = 7;
/// So many durations of a tag are kept as words before it gets buckets.
const WORDS: u32 = 2048;
/// Low bits of a word for the duration: up to 18 minutes.
const VALUE_BITS: u32 = 40;
const VALUE_MASK: u64 = (1 << VALUE_BITS) - 1;
/// So many words are put in their place at once.
const PENDING: usize = 1024;
const NO_BUCKETS: u32 = u32::MAX;
/// Marks a bucket that counts by value.
const COUNTED: u32 = 1 << 31;
const NO_CHUNK: u32 = COUNTED - 1;
/// Bytes of a chunk, a power of two.
const CHUNK: usize = 32;

/// Durations by tag, in bounded memory.
pub(crate) struct Kept {
    /// Words not yet put where they belong: many at a time, the memory they go to is fetched
    /// for several at once.
    pending: Vec<u64>,
    tags: Vec<Tag>,
    /// Tag above [`VALUE_BITS`] bits of duration; in order once settled.
    words: Vec<u64>,
    buckets: Vec<Buckets>,
    rests: Rests,
}

#[derive(Clone, Copy)]
struct Tag {
    words: u32,
    /// Position in the list of buckets.
    buckets: u32,
}

/// The buckets of one tag, from that of its lowest duration to that of its highest.
struct Buckets {
    first: usize,
    list: Vec<Bucket>,
    sum: u64,
    min: u64,
    max: u64,
}

#[derive(Clone, Copy)]
struct Bucket {
    count: u32,
    /// The chunk that was begun last, or with [`COUNTED`] the position of its counters.
    at: u32,
}

/// What buckets keep of their durations: what these are above the bucket's lower bound.
struct Rests {
    /// Bytes that may still be taken, for all of [`Kept`].
    room: usize,
    chunks: Vec<[u8; CHUNK]>,
    /// By chunk: the one filled before it in its bucket, or the next free one.
    before: Vec<u32>,
    free: u32,
    counters: Vec<u32>,
}

impl Kept {
    /// Takes up to `bytes` of memory, a little at a time.
    pub fn new(bytes: usize) -> Kept {
        let rests = Rests {
            room: bytes,
            chunks: Vec::new(),
            before: Vec::new(),
            free: NO_CHUNK,
            counters: Vec::new(),
        };
        Kept { pending: Vec::new(), tags: Vec::new(), words: Vec::new(), buckets: Vec::new(), rests }
    }

    /// Keeps a duration. `false`: there is no room for it, and it is not kept.
    #[inline]
    pub fn add(&mut self, tag: u32, value: u64) -> bool {
        if value >> VALUE_BITS != 0 || (self.pending.len() >= PENDING && !self.put_away()) {
            return false;
        }
        self.pending.push(u64::from(tag) << VALUE_BITS | value);
        true
    }

    /// Puts what is pending where it belongs. `false`: there is no room for the rest of it.
    fn put_away(&mut self) -> bool {
        let mut pending = std::mem::take(&mut self.pending);
        let put = |word: &u64| {
            let (tag, value) = ((word >> VALUE_BITS) as usize, word & VALUE_MASK);
            match self.tags.get(tag) {
                Some(tag) if tag.buckets != NO_BUCKETS => {
                    self.buckets[tag.buckets as usize].add(value, &mut self.rests)
                }
                _ => self.add_word(tag, *word),
            }
        };
        let done = pending.iter().map(put).take_while(|put| *put).count();
        let all = done == pending.len();
        pending.drain(..done);
        self.pending = pending;
        all
    }

    fn add_word(&mut self, tag: usize, word: u64) -> bool {
        let more = (tag + 1).saturating_sub(self.tags.len());
        if !self.rests.take(8 + more * size_of::<Tag>()) {
            return false;
        }
        self.tags.resize(self.tags.len() + more, Tag { words: 0, buckets: NO_BUCKETS });
        self.words.push(word);
        let state = &mut self.tags[tag];
        state.words += 1;
        if state.words == WORDS {
            state.buckets = self.buckets.len() as u32;
            self.buckets.push(Buckets { first: 0, list: Vec::new(), sum: 0, min: u64::MAX, max: 0 });
        }
        true
    }

    /// How many durations of a tag are kept. Settled.
    pub fn count(&self, tag: u32) -> u64 {
        let Some(state) = self.tags.get(tag as usize) else { return 0 };
        let bucketed = self.buckets.get(state.buckets as usize);
        u64::from(state.words) + bucketed.map_or(0, |b| b.list.iter().map(|b| u64::from(b.count)).sum())
    }

    /// Puts everything in its place, before tags are asked for.
    pub fn settle(&mut self) {
        // What is pending still may be more than there is room for, by little.
        self.rests.room = usize::MAX;
        self.put_away();
        self.words.sort_unstable();
    }

    /// Counts a tag's durations into a histogram of [`FINE`] buckets. Settled.
    pub fn count_into(&self, tag: u32, histogram: &mut LogLinear) {
        for word in self.words_of(tag, 0, 1 << VALUE_BITS) {
            histogram.add(word & VALUE_MASK);
        }
        let Some(buckets) = self.buckets_of(tag) else { return };
        for (index, bucket) in buckets.list.iter().enumerate().filter(|(_, b)| b.count > 0) {
            histogram.add_counted(buckets.first + index, bucket.count);
            histogram.count += u64::from(bucket.count);
        }
        histogram.sum = histogram.sum.saturating_add(buckets.sum);
        histogram.min = histogram.min.min(buckets.min);
        histogram.max = histogram.max.max(buckets.max);
    }

    /// Tells a tag's durations in `low..low + width`, which are one bucket's or all buckets',
    /// each with its count. Settled.
    pub fn values(&self, tag: u32, low: u64, width: u64, mut tell: impl FnMut(u64, u32)) {
        for word in self.words_of(tag, low, low.saturating_add(width)) {
            tell(word & VALUE_MASK, 1);
        }
        let Some(buckets) = self.buckets_of(tag) else { return };
        let from = bucket_of(FINE, low).saturating_sub(buckets.first);
        let to = bucket_of(FINE, low.saturating_add(width - 1).min(VALUE_MASK)) + 1;
        let to = to.saturating_sub(buckets.first).min(buckets.list.len());
        for (index, bucket) in buckets.list.iter().enumerate().take(to).skip(from) {
            self.rests.tell(*bucket, buckets.first + index, &mut tell);
        }
    }

    /// Tells all durations with their tags and counts. Settled.
    pub fn all(&self, mut tell: impl FnMut(u32, u64, u32)) {
        for tag in 0..self.tags.len() as u32 {
            self.values(tag, 0, 1 << VALUE_BITS, |value, count| tell(tag, value, count));
        }
    }

    fn words_of(&self, tag: u32, from: u64, to: u64) -> &[u64] {
        let word = |value: u64| (u64::from(tag) << VALUE_BITS) + value.min(1 << VALUE_BITS);
        let start = self.words.partition_point(|w| *w < word(from));
        let length = self.words[start..].partition_point(|w| *w < word(to));
        &self.words[start..start + length]
    }

    fn buckets_of(&self, tag: u32) -> Option<&Buckets> {
        self.buckets.get(self.tags.get(tag as usize)?.buckets as usize)
    }
}

impl Buckets {
    #[inline]
    fn add(&mut self, value: u64, rests: &mut Rests) -> bool {
        let number = bucket_of(FINE, value);
        if number.wrapping_sub(self.first) >= self.list.len() && !self.widen(number, rests) {
            return false;
        }
        let bucket = &mut self.list[number - self.first];
        let shift = shift_of(number);
        if !rests.push(bucket, shift, (value & ((1 << shift) - 1)) as u32) {
            return false;
        }
        bucket.count = bucket.count.saturating_add(1);
        if bucket.count == full(shift) {
            rests.count_by_value(bucket, shift);
        }
        self.sum = self.sum.saturating_add(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        true
    }

    #[cold]
    fn widen(&mut self, number: usize, rests: &mut Rests) -> bool {
        const EMPTY: Bucket = Bucket { count: 0, at: NO_CHUNK };
        if self.list.is_empty() {
            self.first = number;
        }
        let below = self.first.saturating_sub(number);
        let above = (number + 1).saturating_sub(self.first + self.list.len());
        if !rests.take((below + above) * size_of::<Bucket>()) {
            return false;
        }
        self.list.splice(0..0, std::iter::repeat_n(EMPTY, below));
        self.first -= below;
        self.list.resize(self.list.len() + above, EMPTY);
        true
    }
}

impl Rests {
    fn take(&mut self, bytes: usize) -> bool {
        let enough = self.room >= bytes;
        self.room -= if enough { bytes } else { 0 };
        enough
    }

    /// Keeps one more `rest` of a bucket, whose count the caller raises.
    #[inline]
    fn push(&mut self, bucket: &mut Bucket, shift: u32, rest: u32) -> bool {
        if bucket.at & COUNTED != 0 {
            let counter = &mut self.counters[(bucket.at & !COUNTED) as usize + rest as usize];
            *counter = counter.saturating_add(1);
            return true;
        }
        let size = bytes_of_rest(shift);
        let place = bucket.count as usize % (CHUNK / size);
        if place == 0 {
            let Some(chunk) = self.chunk() else { return false };
            self.before[chunk as usize] = bucket.at;
            bucket.at = chunk;
        }
        let chunk = &mut self.chunks[bucket.at as usize];
        match size {
            1 => chunk[place] = rest as u8,
            2 => chunk[2 * place..2 * place + 2].copy_from_slice(&(rest as u16).to_le_bytes()),
            _ => chunk[4 * place..4 * place + 4].copy_from_slice(&rest.to_le_bytes()),
        }
        true
    }

    fn chunk(&mut self) -> Option<u32> {
        if self.free != NO_CHUNK {
            let chunk = self.free;
            self.free = self.before[chunk as usize];
            return Some(chunk);
        }
        if self.chunks.len() as u32 == NO_CHUNK || !self.take(CHUNK + 4) {
            return None;
        }
        self.chunks.push([0; CHUNK]);
        self.before.push(NO_CHUNK);
        Some(self.chunks.len() as u32 - 1)
    }

    /// A full bucket counts from now on, if there is room for counters.
    #[cold]
    fn count_by_value(&mut self, bucket: &mut Bucket, shift: u32) {
        let at = self.counters.len();
        if at + (1 << shift) > COUNTED as usize || !self.take(4 << shift) {
            return;
        }
        let mut counters = vec![0; 1 << shift];
        self.tell_rests(*bucket, shift, |rest| counters[rest as usize] += 1);
        self.counters.append(&mut counters);
        // Its chunks are free for other buckets.
        let mut first = bucket.at;
        while self.before[first as usize] != NO_CHUNK {
            first = self.before[first as usize];
        }
        self.before[first as usize] = self.free;
        self.free = bucket.at;
        bucket.at = at as u32 | COUNTED;
    }

    fn tell_rests(&self, bucket: Bucket, shift: u32, mut tell: impl FnMut(u32)) {
        let size = bytes_of_rest(shift);
        let mut left = bucket.count as usize;
        let mut at = bucket.at;
        while left > 0 {
            let here = (left - 1) % (CHUNK / size) + 1;
            let bytes = &self.chunks[at as usize][..here * size];
            bytes.chunks_exact(size).for_each(|rest| {
                tell(rest.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)));
            });
            left -= here;
            at = self.before[at as usize];
        }
    }

    fn tell(&self, bucket: Bucket, number: usize, tell: &mut impl FnMut(u64, u32)) {
        let (low, width) = bounds_of(FINE, number);
        if bucket.at & COUNTED == 0 {
            return self.tell_rests(bucket, shift_of(number), |rest| tell(low + u64::from(rest), 1));
        }
        let at = (bucket.at & !COUNTED) as usize;
        for (rest, &count) in self.counters[at..at + width as usize].iter().enumerate() {
            if count > 0 {
                tell(low + rest as u64, count);
            }
        }
    }
}

/// Power of two of a bucket's width.
#[inline]
fn shift_of(bucket: usize) -> u32 {
    (bucket as u32 >> FINE).saturating_sub(1)
}

/// Bytes that a bucket `1 << shift` wide keeps of each duration.
#[inline]
fn bytes_of_rest(shift: u32) -> usize {
    match shift {
        0..=8 => 1,
        9..=16 => 2,
        _ => 4,
    }
}

/// So many durations take as much memory as a counter for each value.
#[inline]
fn full(shift: u32) -> u32 {
    ((4u64 << shift) / bytes_of_rest(shift) as u64).min(u64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Durations of several tags, some with many and some in few buckets.
    fn durations() -> impl Iterator<Item = (u32, u64)> {
        let mut state = 7u64;
        (0..200_000u64).map(move |i| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let random = state >> 33;
            match i % 8 {
                0..3 => (3, 900 + random % 300),
                3..5 => (9, random % 40_000),
                5 => (9, random << 9),
                6 => (4, random % 3_000_000),
                _ => (100 + i as u32 % 1000, random % 5000),
            }
        })
    }

    #[test]
    fn all_that_was_kept_is_told() {
        let mut kept = Kept::new(8 << 20);
        let mut all: Vec<(u32, u64)> = durations().collect();
        assert!(all.iter().all(|(tag, value)| kept.add(*tag, *value)));
        kept.settle();
        let mut told = Vec::new();
        kept.all(|tag, value, count| told.extend((0..count).map(|_| (tag, value))));
        all.sort_unstable();
        told.sort_unstable();
        assert!(told == all, "{} of {}", told.len(), all.len());
        for tag in [3, 9, 4, 100, 5000] {
            let of_tag = || all.iter().filter(|d| d.0 == tag).map(|d| d.1);
            let (mut histogram, mut expected) = (LogLinear::new(FINE), LogLinear::new(FINE));
            kept.count_into(tag, &mut histogram);
            of_tag().for_each(|value| expected.add(value));
            assert_eq!(histogram.filled().collect::<Vec<_>>(), expected.filled().collect::<Vec<_>>());
            assert_eq!(
                (histogram.count, histogram.sum, histogram.min, histogram.max),
                (expected.count, expected.sum, expected.min, expected.max)
            );
            assert_eq!(kept.count(tag), expected.count);
            for (bucket, count) in expected.filled().step_by(17) {
                let (low, width) = bounds_of(FINE, bucket);
                let mut inside = 0;
                kept.values(tag, low, width, |value, times| {
                    assert!(value >= low && value - low < width);
                    inside += times;
                });
                assert_eq!(inside, count);
            }
        }
    }

    #[test]
    fn memory_is_bounded_and_counters_take_the_place_of_bytes() {
        let mut kept = Kept::new(1 << 20);
        // A million in one megabyte, since there are but 300 values.
        for i in 0..1_000_000u64 {
            assert!(kept.add(0, 900 + i * 7919 % 300));
        }
        assert!(!kept.add(1, 1 << VALUE_BITS), "too long to keep");
        let mut added = 0;
        while kept.add(1, added * 1_000_003 % (1 << 39)) {
            added += 1;
        }
        assert!((60_000..400_000).contains(&added), "{added}");
        kept.settle();
        let mut told = 0;
        kept.all(|tag, _, count| told += if tag == 1 { u64::from(count) } else { 0 });
        assert_eq!((told, kept.count(0)), (added, 1_000_000));
    }
}
