//! Making room for a block on its way in.
//!
//! moka can't be asked to evict so many bytes, but it evicts the least recently used for an entry of some weight. So an
//! entry without bytes is inserted, as heavy as what is free and what is to go together, and removed again.

use std::sync::Arc;

use blockgate_block::{BlockKey, BlockWriter};
use parking_lot::Mutex;

use super::{Entry, MemoryTier, pages};

/// Names the entry without bytes. No bucket has an empty name, so that no block has this one.
pub(super) fn key() -> BlockKey {
    BlockKey::new("", "room").expect("a key that the rules allow")
}

impl MemoryTier {
    /// Room for a block on its way in; evicts the least recently used blocks to make it.
    ///
    /// None for a block larger than the tier, and where what was evicted is still being read.
    #[must_use]
    pub fn allocate(&self, len_bytes: u64) -> Option<BlockWriter> {
        let need_pages = u64::from(pages(len_bytes));
        if need_pages > self.capacity_pages {
            return None;
        }
        if let Some(writer) = self.arena.allocate(len_bytes) {
            return Some(writer);
        }
        let _one_at_a_time = self.making_room.lock();
        let mut evict_pages = need_pages;
        loop {
            if let Some(writer) = self.arena.allocate(len_bytes) {
                return Some(writer);
            }
            if self.evict(evict_pages) == 0 {
                return None;
            }
            evict_pages *= 2;
        }
    }

    /// Evicts the least recently used blocks, `pages` in all or a little more; returns how much went.
    fn evict(&self, pages: u64) -> u64 {
        self.cache.run_pending_tasks();
        let before = self.cache.weighted_size();
        let weight = (self.capacity_pages.saturating_sub(before) + pages).min(self.capacity_pages);
        let room = Entry { block: Arc::new(Mutex::new(None)), pages: u32::try_from(weight).unwrap_or(u32::MAX) };
        self.cache.insert(self.room_key.clone(), room);
        self.cache.run_pending_tasks();
        self.cache.invalidate(&self.room_key);
        self.cache.run_pending_tasks();
        before.saturating_sub(self.cache.weighted_size())
    }
}
