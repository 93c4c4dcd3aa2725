//! Counts by time and length, in bounded memory whatever the trace's length.

use crate::{
    axis::{Axis, join_columns},
    distribution::HeatMap,
    loglinear::{bounds_of, bucket_of},
};

/// Four rows per power of two.
const SUB_BITS: u32 = 2;
/// Up to 2^37 ns, 137 s; longer durations go to the last row.
const ROWS: usize = 4 * 36;

#[derive(Debug)]
pub(crate) struct Heat {
    axis: Axis,
    columns: Vec<[u32; ROWS]>,
}

impl Heat {
    pub fn new(columns: usize) -> Heat {
        Heat { axis: Axis::new(0, columns), columns: Vec::new() }
    }

    /// Sets where the first column begins; before the first `add`.
    pub fn start_at(&mut self, start: u64) {
        self.axis.start = start;
    }

    #[inline]
    pub fn add(&mut self, time: u64, value: u64) {
        let column = match self.axis.column(time) {
            Ok(column) => column,
            Err(doublings) => {
                self.axis.double(doublings);
                join_columns(&mut self.columns, doublings, |a, b| {
                    for (a, b) in a.iter_mut().zip(b) {
                        *a = a.saturating_add(b);
                    }
                });
                self.axis.column(time).unwrap_or(0)
            }
        };
        if self.columns.len() <= column {
            self.columns.resize(column + 1, [0; ROWS]);
        }
        let cell = &mut self.columns[column][bucket_of(SUB_BITS, value).min(ROWS - 1)];
        *cell = cell.saturating_add(1);
    }

    /// The sum of both, which have the same start; the wider columns decide.
    pub fn plus(&self, other: &Heat) -> Heat {
        let (mut wide, narrow) = if self.axis.width() >= other.axis.width() {
            (Heat { axis: self.axis, columns: self.columns.clone() }, other)
        } else {
            (Heat { axis: other.axis, columns: other.columns.clone() }, self)
        };
        let doublings = (wide.axis.width() / narrow.axis.width()).trailing_zeros();
        for (index, column) in narrow.columns.iter().enumerate() {
            let to = index >> doublings;
            if wide.columns.len() <= to {
                wide.columns.resize(to + 1, [0; ROWS]);
            }
            for (a, b) in wide.columns[to].iter_mut().zip(column) {
                *a = a.saturating_add(*b);
            }
        }
        wide
    }

    /// The map with the rows that are used.
    pub fn to_map(&self) -> HeatMap {
        let used = |row: usize| self.columns.iter().any(|c| c[row] > 0);
        let Some(first) = (0..ROWS).find(|r| used(*r)) else {
            return HeatMap { start_ns: self.axis.start, column_ns: self.axis.width(), ..HeatMap::default() };
        };
        let last = (first..ROWS).rev().find(|r| used(*r)).unwrap_or(first);
        let (low, width) = bounds_of(SUB_BITS, last);
        HeatMap {
            start_ns: self.axis.start,
            column_ns: self.axis.width(),
            row_low_ns: (first..=last).map(|r| bounds_of(SUB_BITS, r).0).collect(),
            row_end_ns: low + width,
            columns: self.columns.iter().map(|c| c[first..=last].to_vec()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_keeps_every_value_through_widening() {
        let (mut a, mut b) = (Heat::new(8), Heat::new(8));
        a.start_at(5);
        b.start_at(5);
        for i in 0..1000u64 {
            a.add(5 + i * 997, 1 << (i % 30));
            if i < 10 {
                b.add(5 + i * 100, 3);
            }
        }
        let sum = |m: &HeatMap| m.columns.iter().flatten().map(|c| u64::from(*c)).sum::<u64>();
        let (map, both) = (a.to_map(), b.plus(&a).to_map());
        assert_eq!((sum(&map), sum(&both)), (1000, 1010));
        assert!(map.columns.len() <= 8 && map.columns.len() >= 4, "{}", map.columns.len());
        assert_eq!(map.row_low_ns[0], 1);
        assert!(map.row_end_ns > 1 << 29);
    }
}
