//! Blocks in memory by where they lie in the arena.
//!
//! Blocks of several sizes leave holes where they were, and with them the arena may have room for a large block everywhere
//! but in one piece. To go on evicting by least recent use until a long run happens to be free would empty most of the
//! tier: so the run that is cheapest to clear is looked for, by address.

use std::collections::{BTreeMap, VecDeque, btree_map};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use blockgate_block::{Arena, BlockKey};
use parking_lot::Mutex;

use super::{Entry, PAGE_BYTES};

/// How many blocks are looked at for one run: a few milliseconds at most.
const LOOKED_AT_MAX: usize = 1 << 14;

/// Which blocks are in memory, and where.
#[derive(Default)]
pub(super) struct Residents {
    by_offset: Mutex<ByOffset>,
    /// Blocks evicted to make room.
    pub(super) evictions: AtomicU64,
}

#[derive(Default)]
struct ByOffset {
    blocks: BTreeMap<u64, (BlockKey, Entry)>,
    /// Where the next search begins, so that searches move through all of a large arena.
    hand_bytes: u64,
}

impl Residents {
    /// A block is about to be in memory.
    pub(super) fn came(&self, offset_bytes: u64, key: BlockKey, entry: Entry) {
        self.by_offset.lock().blocks.insert(offset_bytes, (key, entry));
    }

    /// A block no longer is. Told before its slot can be free; the slot may be another entry's already, where a block was
    /// put again with another description.
    pub(super) fn left(&self, offset_bytes: u64, entry: &Entry) {
        if let btree_map::Entry::Occupied(at) = self.by_offset.lock().blocks.entry(offset_bytes)
            && Arc::ptr_eq(&at.get().1.block, &entry.block)
        {
            at.remove();
        }
    }

    /// The blocks to evict for a free run of `need_bytes`: of all runs found, those that hold the fewest bytes.
    ///
    /// None where each run found is cut by something that eviction would not free: blocks on their way in or being read.
    pub(super) fn cheapest_run(&self, arena: &Arena, need_bytes: u64) -> Option<Vec<BlockKey>> {
        let mut by_offset = self.by_offset.lock();
        let mut search = Search::new(arena, need_bytes);
        let (hand, mut last) = (by_offset.hand_bytes, 0);
        let from_hand = by_offset.blocks.range(hand..).chain(by_offset.blocks.range(..hand));
        for (&offset, (_, entry)) in from_hand.take(LOOKED_AT_MAX) {
            if offset < last {
                search.arena_ends();
            }
            last = offset;
            search.block(offset..offset + u64::from(entry.pages) * PAGE_BYTES, entry.is_being_read());
        }
        if by_offset.blocks.range(last + 1..).next().is_none() {
            search.arena_ends();
        }
        let (_, run) = search.cheapest?;
        by_offset.hand_bytes = run.end;
        Some(by_offset.blocks.range(run).map(|(_, (key, _))| key.clone()).collect())
    }
}

impl Entry {
    /// Whether evicting it would not free its slot.
    fn is_being_read(&self) -> bool {
        self.block.lock().as_ref().is_none_or(|block| block.bytes.is_shared())
    }
}

/// A window sliding over the blocks of the arena in order of address.
struct Search<'a> {
    arena: &'a Arena,
    need_bytes: u64,
    /// The blocks in the window.
    window: VecDeque<Range<u64>>,
    /// Their bytes together.
    cost_bytes: u64,
    /// What can be had by evicting the blocks in the window; ends where the last one does.
    run: Range<u64>,
    /// Cost and place of the cheapest run that is long enough.
    cheapest: Option<(u64, Range<u64>)>,
}

impl<'a> Search<'a> {
    fn new(arena: &'a Arena, need_bytes: u64) -> Self {
        Self { arena, need_bytes, window: VecDeque::new(), cost_bytes: 0, run: 0..0, cheapest: None }
    }

    /// The next block.
    fn block(&mut self, block: Range<u64>, is_being_read: bool) {
        self.gap(block.start);
        if is_being_read {
            self.begin(block.end);
            return;
        }
        self.cost_bytes += block.end - block.start;
        self.run.end = block.end;
        self.window.push_back(block);
        // Blocks at the front that are not needed for the length.
        while let Some(first) = self.window.front()
            && self.run.end - first.end >= self.need_bytes
        {
            self.cost_bytes -= first.end - first.start;
            self.run.start = first.end;
            self.window.pop_front();
        }
        self.consider();
    }

    /// After the last block.
    fn arena_ends(&mut self) {
        self.gap(self.arena.stats().capacity_bytes);
        self.begin(0);
    }

    /// Between the last block and `end`: free, or else somebody's.
    fn gap(&mut self, end: u64) {
        if self.arena.is_free(self.run.end..end) {
            self.run.end = end;
            self.consider();
        } else {
            self.begin(end);
        }
    }

    /// What lies before `start` is out of reach.
    fn begin(&mut self, start: u64) {
        self.window.clear();
        self.cost_bytes = 0;
        self.run = start..start;
    }

    fn consider(&mut self) {
        let is_long_enough = self.run.end - self.run.start >= self.need_bytes;
        if is_long_enough && self.cheapest.as_ref().is_none_or(|(cost, _)| self.cost_bytes < *cost) {
            self.cheapest = Some((self.cost_bytes, self.run.clone()));
        }
    }
}
