//! Merging streams that are each in order: a binary heap that also tells the runner-up, so
//! that a stream may go on without comparing while it stays ahead.

/// Keys of the streams' next items, the smallest on top.
#[derive(Debug)]
pub(crate) struct MergeHeap<K> {
    keys: Vec<K>,
}

impl<K: Copy + Ord> MergeHeap<K> {
    /// An empty heap.
    pub(crate) fn new() -> MergeHeap<K> {
        MergeHeap { keys: Vec::new() }
    }

    pub(crate) fn push(&mut self, key: K) {
        self.keys.push(key);
        let mut at = self.keys.len() - 1;
        while at > 0 && self.keys[at] < self.keys[(at - 1) / 2] {
            self.keys.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    /// The smallest key.
    pub(crate) fn top(&self) -> Option<K> {
        self.keys.first().copied()
    }

    /// The second smallest key.
    pub(crate) fn runner_up(&self) -> Option<K> {
        match self.keys.get(1..3.min(self.keys.len()))? {
            [one] => Some(*one),
            [one, two] => Some(*one.min(two)),
            _ => None,
        }
    }

    /// Gives the stream on top another key.
    pub(crate) fn replace_top(&mut self, key: K) {
        if !self.keys.is_empty() {
            self.sift_down(key);
        }
    }

    /// Removes the stream on top.
    pub(crate) fn pop(&mut self) -> Option<K> {
        let top = self.top()?;
        let last = self.keys.pop()?;
        if !self.keys.is_empty() {
            self.sift_down(last);
        }
        Some(top)
    }

    /// Puts `key` where it belongs, from the top down.
    #[inline]
    fn sift_down(&mut self, key: K) {
        let mut at = 0;
        while let Some(&left) = self.keys.get(2 * at + 1) {
            let (child, smaller) = match self.keys.get(2 * at + 2) {
                Some(&right) if right < left => (2 * at + 2, right),
                _ => (2 * at + 1, left),
            };
            if key <= smaller {
                break;
            }
            self.keys[at] = smaller;
            at = child;
        }
        self.keys[at] = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_keys_in_order_and_knows_the_second() {
        let mut heap = MergeHeap::new();
        let mut state = 1u32;
        let mut all: Vec<u32> = (0..500)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state >> 20
            })
            .collect();
        all.iter().for_each(|&key| heap.push(key));
        all.sort_unstable();
        for (at, &key) in all.iter().enumerate() {
            assert_eq!(heap.top(), Some(key));
            assert_eq!(heap.runner_up(), all.get(at + 1).copied());
            // Every other one by replacement.
            if at % 2 == 0 && at + 1 < all.len() {
                heap.replace_top(key);
                assert_eq!(heap.top(), Some(key));
            }
            heap.pop();
        }
        assert_eq!(heap.pop(), None);
        assert_eq!(heap.runner_up(), None);
    }
}
