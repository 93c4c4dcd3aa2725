//! Buckets of the histograms: one definition for the code that fills them in the kernel,
//! the code that prints them and the tests.

/// Most buckets an `lhist` may have.
pub const LHIST_MAX_BUCKETS: u32 = 1000;

/// Number of buckets of `hist(n, bits)`: one for negative values, then values in order of size.
///
/// Bucket 0 holds negative values. Values below 2^bits have a bucket each; above, each power
/// of two is split into 2^bits buckets of equal width.
pub fn hist_buckets(bits: u8) -> u32 {
    ((65 - u32::from(bits)) << bits) + 1
}

/// The bucket of a value; `negative` values (signed types only) go to bucket 0.
pub fn hist_bucket(value: u64, negative: bool, bits: u8) -> u32 {
    if negative {
        return 0;
    }
    let bits = u32::from(bits);
    if value >> bits == 0 {
        return value as u32 + 1;
    }
    let shift = 63 - value.leading_zeros() - bits;
    let mask = (1u64 << bits) - 1;
    ((shift + 1) << bits) + ((value >> shift) & mask) as u32 + 1
}

/// Bounds `[low, high)` of a bucket other than 0; `high` is 2^64 for the last one.
pub fn hist_bounds(index: u32, bits: u8) -> (u128, u128) {
    let index = u64::from(index.saturating_sub(1));
    let octave = index >> bits;
    if octave == 0 {
        return (u128::from(index), u128::from(index) + 1);
    }
    let shift = octave - 1;
    let mantissa = (index & ((1 << bits) - 1)) + (1 << bits);
    (u128::from(mantissa) << shift, u128::from(mantissa + 1) << shift)
}

/// Number of buckets of an `lhist`, with the two for what lies outside; 0 when the bounds make no sense.
pub fn lhist_buckets(min: i64, max: i64, step: i64) -> u32 {
    if step <= 0 || max < min {
        return 0;
    }
    let inner = (i128::from(max) - i128::from(min)) / i128::from(step);
    u32::try_from(inner).map_or(0, |inner| inner.saturating_add(2))
}

/// The bucket of a value: 0 below `min`, the last at `max` and above.
pub fn lhist_bucket(value: i64, min: i64, max: i64, step: i64) -> u32 {
    if value < min {
        0
    } else if value >= max {
        lhist_buckets(min, max, step) - 1
    } else {
        ((i128::from(value) - i128::from(min)) / i128::from(step)) as u32 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_lies_within_the_bounds_of_its_bucket() {
        for bits in 0..=5 {
            let mut last = 0;
            let edges = (0..64).flat_map(|e| [(1u64 << e) - 1, 1 << e, (1 << e) + 1]).chain([u64::MAX]);
            let mut edges: Vec<u64> = edges.collect();
            edges.sort_unstable();
            for value in edges {
                let bucket = hist_bucket(value, false, bits);
                let (low, high) = hist_bounds(bucket, bits);
                assert!(low <= u128::from(value) && u128::from(value) < high, "{value} {bits} {bucket}");
                assert!(bucket >= last && bucket < hist_buckets(bits), "{value} {bits} {bucket}");
                last = bucket;
            }
            assert_eq!(hist_bucket(u64::MAX, false, bits), hist_buckets(bits) - 1);
        }
    }

    #[test]
    fn powers_of_two_are_those_of_bpftrace() {
        let buckets: Vec<u32> = [0, 1, 2, 3, 4, 1023, 1024].map(|v| hist_bucket(v, false, 0)).into();
        assert_eq!(buckets, [1, 2, 3, 3, 4, 11, 12]);
        assert_eq!(hist_bucket(0, true, 0), 0);
    }

    #[test]
    fn linear_buckets_have_one_for_each_side() {
        assert_eq!(lhist_buckets(0, 100, 10), 12);
        let buckets: Vec<u32> = [-1, 0, 9, 10, 99, 100].map(|v| lhist_bucket(v, 0, 100, 10)).into();
        assert_eq!(buckets, [0, 1, 1, 2, 10, 11]);
    }
}
