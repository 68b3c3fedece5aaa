//! Which parts of the arena are free.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Free extents, never touching one another: best fit to take, coalescing to give back, both in O(log extents).
#[derive(Debug)]
pub(super) struct Extents {
    /// Length by offset, in bytes.
    by_offset: BTreeMap<u64, u64>,
    /// The same as (length, offset).
    by_len: BTreeSet<(u64, u64)>,
    free_bytes: u64,
}

impl Extents {
    /// All of `[0, len_bytes)` is free.
    pub(super) fn new(len_bytes: u64) -> Self {
        let mut extents = Self { by_offset: BTreeMap::new(), by_len: BTreeSet::new(), free_bytes: 0 };
        if len_bytes > 0 {
            extents.give(0, len_bytes);
        }
        extents
    }

    /// Takes `len_bytes` from the start of the shortest extent that holds them, the lowest of equals.
    pub(super) fn take(&mut self, len_bytes: u64) -> Option<u64> {
        let &(extent_len, offset) = self.by_len.range((len_bytes, 0)..).next()?;
        self.remove(offset, extent_len);
        if extent_len > len_bytes {
            self.insert(offset + len_bytes, extent_len - len_bytes);
        }
        self.free_bytes -= len_bytes;
        Some(offset)
    }

    /// Gives back what was taken.
    pub(super) fn give(&mut self, offset: u64, len_bytes: u64) {
        let (mut start, mut end) = (offset, offset + len_bytes);
        if let Some((&before, &before_len)) = self.by_offset.range(..offset).next_back() {
            debug_assert!(before + before_len <= offset, "given back twice");
            if before + before_len == offset {
                self.remove(before, before_len);
                start = before;
            }
        }
        if let Some((&after, &after_len)) = self.by_offset.range(offset..).next() {
            debug_assert!(end <= after, "given back twice");
            if end == after {
                self.remove(after, after_len);
                end += after_len;
            }
        }
        self.insert(start, end - start);
        self.free_bytes += len_bytes;
    }

    /// Whether all of a range is free.
    pub(super) fn contains(&self, range: Range<u64>) -> bool {
        self.by_offset.range(..=range.start).next_back().is_some_and(|(&offset, &len)| offset + len >= range.end)
    }

    /// The longest extent, 0 where nothing is free.
    pub(super) fn largest_bytes(&self) -> u64 {
        self.by_len.last().map_or(0, |&(len, _)| len)
    }

    /// All extents together.
    pub(super) fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    fn insert(&mut self, offset: u64, len_bytes: u64) {
        self.by_offset.insert(offset, len_bytes);
        self.by_len.insert((len_bytes, offset));
    }

    fn remove(&mut self, offset: u64, len_bytes: u64) {
        self.by_offset.remove(&offset);
        self.by_len.remove(&(len_bytes, offset));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn best_fit_takes_the_shortest_hole_and_holes_grow_together() {
        let mut extents = Extents::new(100);
        let taken: Vec<_> = [10, 20, 10, 30].iter().map(|&len| extents.take(len)).collect();
        assert_eq!(taken, [Some(0), Some(10), Some(30), Some(40)]);
        extents.give(10, 20);
        extents.give(0, 10);
        assert_eq!(extents.largest_bytes(), 30);
        // Holes: [0,30) and [70,100). Equal lengths: the lower one.
        assert_eq!(extents.take(30), Some(0));
        extents.give(40, 30);
        // Holes: [40,100). The hole of 10 that appears now is the better fit.
        extents.give(5, 10);
        assert_eq!(extents.take(10), Some(5));
        assert_eq!((extents.take(61), extents.take(60), extents.take(1)), (None, Some(40), None));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take(u64),
        Give(prop::sample::Index),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (1u64..24).prop_map(Step::Take),
            2 => any::<prop::sample::Index>().prop_map(Step::Give),
        ]
    }

    /// The longest run of free granules in a map of them.
    fn longest_run(used: &[bool]) -> u64 {
        used.split(|&used| used).map(|run| run.len() as u64).max().unwrap_or(0)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn behaves_as_a_map_of_granules(steps in prop::collection::vec(step(), 1..200)) {
            const LEN: u64 = 128;
            let mut extents = Extents::new(LEN);
            let mut used = vec![false; LEN as usize];
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for step in steps {
                match step {
                    Step::Take(len) => match extents.take(len) {
                        Some(offset) => {
                            let range = offset as usize..(offset + len) as usize;
                            prop_assert!(used[range.clone()].iter().all(|&used| !used), "taken twice");
                            used[range].fill(true);
                            taken.push((offset, len));
                        }
                        None => prop_assert!(longest_run(&used) < len, "refused though there is room"),
                    },
                    Step::Give(_) if taken.is_empty() => {}
                    Step::Give(index) => {
                        let (offset, len) = taken.swap_remove(index.index(taken.len()));
                        extents.give(offset, len);
                        used[offset as usize..(offset + len) as usize].fill(false);
                    }
                }
                prop_assert_eq!(extents.largest_bytes(), longest_run(&used));
                for (start, end) in [(0, 1), (3, 20), (17, 18), (40, 100), (100, LEN), (0, LEN), (LEN - 1, LEN + 1)] {
                    let free = used.get(start as usize..end as usize).is_some_and(|used| used.iter().all(|&used| !used));
                    prop_assert_eq!(extents.contains(start..end), free, "{}..{}", start, end);
                }
                prop_assert_eq!(extents.free_bytes(), used.iter().filter(|&&used| !used).count() as u64);
            }
            for (offset, len) in taken {
                extents.give(offset, len);
            }
            prop_assert_eq!(extents.by_offset, BTreeMap::from([(0, LEN)]), "all holes have grown together");
            prop_assert_eq!(extents.by_len, BTreeSet::from([(LEN, 0)]));
        }
    }
}
