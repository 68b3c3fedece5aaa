//! Making room for a block on its way in.
//!
//! moka can't be asked to evict so many bytes, but it evicts the least recently used for an entry of some weight. So an
//! entry without bytes is inserted, as heavy as what is free and what is to go together, and removed again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use blockgate_block::{Arena, BlockKey, BlockWriter};
use parking_lot::Mutex;

use super::{Entry, MemoryTier, pages};

/// How often room is made for one block: each time about its size is evicted. What then is still missing is being read,
/// or was taken by others.
const ROUNDS_MAX: usize = 4;

/// Names the entry without bytes. No bucket has an empty name, so that no block has this one.
pub(super) fn key() -> BlockKey {
    BlockKey::new("", "room").expect("a key that the rules allow")
}

impl MemoryTier {
    /// Room for a block on its way in; evicts the least recently used blocks to make it.
    ///
    /// None for a block larger than the tier or what is not leased of it, and where what was evicted is still being read.
    #[must_use]
    pub fn allocate(&self, len_bytes: u64) -> Option<BlockWriter> {
        let need_pages = pages(len_bytes);
        if u64::from(need_pages) > self.capacity_pages || Arena::slot_bytes(len_bytes) > self.unleased_bytes() {
            return None;
        }
        if let Some(writer) = self.arena.allocate(len_bytes) {
            return Some(writer);
        }
        let _one_at_a_time = self.making_room.lock();
        for _ in 0..ROUNDS_MAX {
            if let Some(writer) = self.arena.allocate(len_bytes) {
                return Some(writer);
            }
            let stats = self.arena.stats();
            let is_scattered = stats.capacity_bytes - stats.used_bytes >= Arena::slot_bytes(len_bytes);
            if !(is_scattered && self.clear_run(len_bytes)) {
                self.evict(need_pages);
            }
        }
        self.arena.allocate(len_bytes)
    }

    /// What of the arena could be had by evicting.
    fn unleased_bytes(&self) -> u64 {
        let leased_bytes = if self.leases.any() { self.leases.stats().1 } else { 0 };
        self.arena.stats().capacity_bytes.saturating_sub(leased_bytes)
    }

    /// Evicts the least recently used blocks, `pages` in all or a little more.
    fn evict(&self, pages: u32) {
        self.cache.run_pending_tasks();
        let free_pages = self.capacity_pages.saturating_sub(self.cache.weighted_size());
        let weight = (free_pages + u64::from(pages)).min(self.capacity_pages);
        let room = Entry { block: Arc::new(Mutex::new(None)), pages: u32::try_from(weight).unwrap_or(u32::MAX) };
        self.cache.insert(self.room_key.clone(), room);
        self.cache.run_pending_tasks();
        self.cache.invalidate(&self.room_key);
        self.cache.run_pending_tasks();
    }

    /// Evicts blocks that lie side by side, where there is room enough but in pieces. False where that is impossible.
    fn clear_run(&self, len_bytes: u64) -> bool {
        let Some(keys) = self.residents.cheapest_run(&self.arena, Arena::slot_bytes(len_bytes)) else { return false };
        for key in &keys {
            self.remove(key);
        }
        self.residents.evictions.fetch_add(keys.len() as u64, Ordering::Relaxed);
        true
    }
}
