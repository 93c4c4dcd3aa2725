//! Columns of time for traces whose length is not known beforehand.
//!
//! Columns begin narrow; when the trace outgrows them, neighbours are joined and all
//! become twice as wide. So memory is bounded, and a finished axis is between half
//! full and full.

/// A row of equally wide columns from a fixed start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Axis {
    pub start: u64,
    shift: u32,
    columns: usize,
}

impl Axis {
    /// At most `columns` columns (rounded up to even) from `start`.
    pub fn new(start: u64, columns: usize) -> Axis {
        Axis { start, shift: 10, columns: columns.max(2).next_multiple_of(2) }
    }

    /// The column of `time`, or how many times the axis must be doubled before it has one.
    #[inline]
    pub fn column(&self, time: u64) -> Result<usize, u32> {
        let column = time.saturating_sub(self.start) >> self.shift;
        if column < self.columns as u64 {
            return Ok(column as usize);
        }
        let mut doublings = 0;
        while (column >> doublings) >= self.columns as u64 {
            doublings += 1;
        }
        Err(doublings)
    }

    /// The column of `time`, which must not be before the start; may be beyond the last.
    #[inline]
    pub fn column_at(&self, time: u64) -> usize {
        (time.saturating_sub(self.start) >> self.shift) as usize
    }

    /// The column that the whole of `from..to` lies in, if one does; `to` is after `from`.
    #[inline]
    pub fn only_column(&self, from: u64, to: u64) -> Option<usize> {
        let (from, last) = (from.checked_sub(self.start)?, (to - 1).wrapping_sub(self.start));
        ((from ^ last) >> self.shift == 0).then_some((from >> self.shift) as usize)
    }

    pub fn double(&mut self, times: u32) {
        self.shift += times;
    }

    pub fn width(&self) -> u64 {
        1 << self.shift
    }
}

/// Joins neighbours `times` over: `join` adds the second to the first.
pub(crate) fn join_columns<T>(columns: &mut Vec<T>, times: u32, join: impl Fn(&mut T, T)) {
    for _ in 0..times {
        let old = std::mem::take(columns);
        let mut items = old.into_iter();
        while let Some(mut first) = items.next() {
            if let Some(second) = items.next() {
                join(&mut first, second);
            }
            columns.push(first);
        }
        if columns.len() <= 1 {
            break;
        }
    }
}

/// Adds the interval `from..to` to columns as `weight` per nanosecond; the axis must have
/// a column for `to` already.
#[inline]
pub(crate) fn spread(axis: &Axis, columns: &mut Vec<u64>, from: u64, to: u64, weight: u64) {
    if to <= from || to <= axis.start {
        return;
    }
    if let Some(column) = axis.only_column(from, to).and_then(|column| columns.get_mut(column)) {
        *column += (to - from) * weight;
        return;
    }
    spread_far(axis, columns, from, to, weight);
}

fn spread_far(axis: &Axis, columns: &mut Vec<u64>, from: u64, to: u64, weight: u64) {
    let from = from.max(axis.start);
    let (first, last) = ((from - axis.start) >> axis.shift, (to - 1 - axis.start) >> axis.shift);
    if columns.len() <= last as usize {
        columns.resize(last as usize + 1, 0);
    }
    for column in first..=last {
        let low = from.max(axis.start + (column << axis.shift));
        let high = to.min(axis.start + ((column + 1) << axis.shift));
        columns[column as usize] += (high - low) * weight;
    }
}

/// Takes back what [`spread`] added.
pub(crate) fn take_back(axis: &Axis, columns: &mut [u64], from: u64, to: u64, weight: u64) {
    let mut added = Vec::new();
    spread(axis, &mut added, from, to, weight);
    for (column, added) in columns.iter_mut().zip(added) {
        *column = column.saturating_sub(added);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreading_and_joining_keep_the_sum() {
        let mut axis = Axis::new(1000, 4);
        let mut columns = Vec::new();
        assert_eq!(axis.column(1000 + 4 * 1024), Err(1));
        spread(&axis, &mut columns, 500, 1000 + 1500, 2);
        assert_eq!(columns, [2048, 952]);
        assert_eq!(axis.column(1000 + 9 * 1024), Err(2));
        axis.double(2);
        join_columns(&mut columns, 2, |a, b| *a += b);
        assert_eq!(columns, [3000]);
        assert_eq!((axis.width(), axis.column(1000 + 9 * 1024)), (4096, Ok(2)));
        spread(&axis, &mut columns, 1000 + 4000, 1000 + 9000, 1);
        assert_eq!(columns, [3096, 4096, 808]);
    }
}
