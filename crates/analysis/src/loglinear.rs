//! Counts of durations in buckets whose width is a fixed share of their lower bound.
//!
//! With `sub_bits = b`, values below `2^b` have a bucket each, and every power of two
//! above is cut into `2^b` equal buckets, so a bucket is at most `2^-b` of its lower
//! bound wide. All bounds are integers and the scheme maps exactly to coarser ones.

use crate::distribution::{Bucket, Histogram};

/// A growing histogram; holds memory only for the range between its lowest and its
/// highest value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LogLinear {
    sub_bits: u32,
    first: usize,
    counts: Vec<u32>,
    pub count: u64,
    pub sum: u64,
    pub min: u64,
    pub max: u64,
}

/// The bucket that takes `value`.
#[inline]
pub(crate) fn bucket_of(sub_bits: u32, value: u64) -> usize {
    let bits = 63 - (value | 1).leading_zeros();
    if bits < sub_bits {
        return value as usize;
    }
    let shift = bits - sub_bits;
    ((((shift + 1) as u64) << sub_bits) + ((value >> shift) - (1 << sub_bits))) as usize
}

/// The lowest value of a bucket, and its width.
pub(crate) fn bounds_of(sub_bits: u32, bucket: usize) -> (u64, u64) {
    let size = 1u64 << sub_bits;
    let bucket = bucket as u64;
    if bucket < size {
        return (bucket, 1);
    }
    let shift = (bucket >> sub_bits) - 1;
    ((size + (bucket & (size - 1))) << shift, 1 << shift)
}

impl LogLinear {
    pub fn new(sub_bits: u32) -> LogLinear {
        LogLinear { sub_bits, first: 0, counts: Vec::new(), count: 0, sum: 0, min: u64::MAX, max: 0 }
    }

    #[inline]
    pub fn add(&mut self, value: u64) {
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.add_to(bucket_of(self.sub_bits, value), 1);
    }

    /// Adds to a bucket only; the caller sets the sums.
    pub fn add_counted(&mut self, bucket: usize, count: u32) {
        self.add_to(bucket, count);
    }

    #[inline]
    fn add_to(&mut self, bucket: usize, count: u32) {
        match self.counts.get_mut(bucket.wrapping_sub(self.first)) {
            Some(slot) => *slot = slot.saturating_add(count),
            None => self.widen(bucket, count),
        }
    }

    #[cold]
    fn widen(&mut self, bucket: usize, count: u32) {
        if self.counts.is_empty() {
            self.first = bucket;
            self.counts.push(count);
            return;
        }
        if bucket < self.first {
            let more = self.first - bucket;
            self.counts.splice(0..0, std::iter::repeat_n(0, more));
            self.first = bucket;
        } else {
            self.counts.resize(bucket - self.first + 1, 0);
        }
        self.counts[bucket - self.first] += count;
    }

    /// Adds another histogram of the same or a finer scheme.
    pub fn merge(&mut self, other: &LogLinear) {
        for (bucket, count) in other.filled() {
            let (low, _) = bounds_of(other.sub_bits, bucket);
            self.add_to(bucket_of(self.sub_bits, low), count);
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Buckets that hold something, rising.
    pub fn filled(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.counts.iter().enumerate().filter(|(_, c)| **c > 0).map(|(i, c)| (self.first + i, *c))
    }

    /// The bucket that holds the value of this rank (from 1), and the values before it.
    pub fn bucket_with_rank(&self, rank: u64) -> Option<(usize, u64)> {
        let mut before = 0;
        for (bucket, count) in self.filled() {
            if before + u64::from(count) >= rank {
                return Some((bucket, before));
            }
            before += u64::from(count);
        }
        None
    }

    /// How many values a bucket holds.
    pub fn count_in(&self, bucket: usize) -> u64 {
        self.counts.get(bucket.wrapping_sub(self.first)).map_or(0, |c| u64::from(*c))
    }

    pub fn sub_bits(&self) -> u32 {
        self.sub_bits
    }

    /// For drawing: the same with buckets of at most 1/16 of their lower bound.
    pub fn drawn(&self) -> LogLinear {
        const DRAWN: u32 = 4;
        let mut drawn = LogLinear::new(DRAWN.min(self.sub_bits));
        drawn.merge(self);
        drawn
    }

    /// The same in the result's form.
    pub fn to_histogram(&self) -> Histogram {
        let drawn = self.drawn();
        Histogram {
            relative_width: 1.0 / (1u64 << drawn.sub_bits) as f64,
            buckets: drawn
                .filled()
                .map(|(bucket, count)| {
                    let (low, width) = bounds_of(drawn.sub_bits, bucket);
                    Bucket { low_ns: low, high_ns: low.saturating_add(width), count: u64::from(count) }
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_the_numbers() {
        for sub_bits in [2, 3, 4, 6, 7] {
            let mut next = 0u64;
            for bucket in 0.. {
                let (low, width) = bounds_of(sub_bits, bucket);
                assert_eq!(low, next, "bucket {bucket} of {sub_bits}");
                assert_eq!(bucket_of(sub_bits, low), bucket);
                assert_eq!(bucket_of(sub_bits, low + (width - 1)), bucket);
                assert!(bucket < 1 << sub_bits || width << sub_bits <= low);
                match low.checked_add(width) {
                    Some(n) => next = n,
                    None => break,
                }
            }
            assert_eq!(bounds_of(sub_bits, bucket_of(sub_bits, u64::MAX)).0.leading_ones(), sub_bits + 1);
        }
    }

    #[test]
    fn ranks_are_found_and_coarser_merges_keep_counts() {
        let mut fine = LogLinear::new(6);
        for value in [5, 5, 900, 7, 1_000_000, 3] {
            fine.add(value);
        }
        assert_eq!((fine.count, fine.min, fine.max, fine.sum), (6, 3, 1_000_000, 1_000_920));
        assert_eq!(fine.bucket_with_rank(1), Some((3, 0)));
        assert_eq!(fine.bucket_with_rank(3), Some((5, 1)));
        assert_eq!(fine.bucket_with_rank(6).map(|b| b.1), Some(5));
        assert_eq!(fine.bucket_with_rank(7), None);
        let mut coarse = LogLinear::new(3);
        coarse.merge(&fine);
        assert_eq!(coarse.filled().map(|f| f.1).collect::<Vec<_>>(), [1, 2, 1, 1, 1]);
        assert_eq!(coarse.to_histogram().buckets.len(), 5);
    }
}
