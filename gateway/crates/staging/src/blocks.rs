//! Which blocks are where: the table, and the lives that it points into.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use blockgate_block::Digest;
use hashbrown::HashTable;
use hashbrown::hash_table;
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::Told;
use crate::format::footer::Entry;
use crate::format::state::Mark;
use crate::life::{Life, Totals};
use crate::types::{Staged, Version};

const SHARDS: usize = 64;

const PENDING: u8 = 1;
const AMENDED: u8 = 2;
/// Read since it was written.
const HOT: u8 = 4;

/// Where a block is. A place in the table, its life in the registry and the counts change together, under the lock of
/// the table's shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Number of the segment.
    segment: u32,
    pub(crate) page: u32,
    pub(crate) len_bytes: u32,
    pub(crate) header_pages: u8,
    bits: u8,
}

impl Place {
    pub(crate) fn is_pending(self) -> bool {
        self.bits & PENDING != 0
    }

    pub(crate) fn is_amended(self) -> bool {
        self.bits & AMENDED != 0
    }

    fn is_at(self, segment: u32, page: u32) -> bool {
        self.segment == segment && self.page == page
    }
}

/// A block that can be read. While this is held, nothing is written over it.
#[derive(Clone)]
pub(crate) struct Pinned {
    pub(crate) place: Place,
    pub(crate) life: Arc<Life>,
}

impl Pinned {
    pub(crate) fn staged(&self) -> Staged {
        Staged {
            version: self.life.version(self.place.page),
            len_bytes: u64::from(self.place.len_bytes),
            pending: self.place.is_pending(),
            amended: self.place.is_amended(),
        }
    }
}

struct Slot {
    digest: Digest,
    place: Place,
}

type Shard = HashTable<Slot>;

/// Locks are taken in this order: a shard, the registry of lives, a life.
pub(crate) struct Blocks {
    shards: Box<[Mutex<Shard>]>,
    lives: RwLock<HashMap<u32, Arc<Life>>>,
    told: Told,
    pub(crate) totals: Totals,
}

impl Blocks {
    pub(crate) fn new(told: Told) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, lives: RwLock::default(), told, totals: Totals::default() }
    }

    fn shard(&self, digest: Digest) -> MutexGuard<'_, Shard> {
        // The table below takes the lowest and the highest bits of the lower half; this takes some of the upper half.
        self.shards[(digest.0 >> 64) as usize % SHARDS].lock()
    }

    /// Adds a life to which places may point.
    pub(crate) fn add_life(&self, life: Arc<Life>) {
        self.lives.write().insert(life.number(), life);
    }

    /// Removes a life to which no place points any more.
    pub(crate) fn remove_life(&self, number: u32) {
        self.lives.write().remove(&number);
    }

    /// All lives, the earliest first.
    pub(crate) fn lives(&self) -> Vec<Arc<Life>> {
        let mut lives: Vec<_> = self.lives.read().values().cloned().collect();
        lives.sort_unstable_by_key(|life| life.header.sequence);
        lives
    }

    fn pinned(&self, place: Place) -> Option<Pinned> {
        let life = self.lives.read().get(&place.segment).cloned()?;
        Some(Pinned { place, life })
    }

    /// Whether a block is there.
    pub(crate) fn contains(&self, digest: Digest) -> bool {
        self.shard(digest).find(hash(digest), |slot| slot.digest == digest).is_some()
    }

    /// Where a block is.
    pub(crate) fn find(&self, digest: Digest) -> Option<Pinned> {
        let shard = self.shard(digest);
        self.pinned(shard.find(hash(digest), |slot| slot.digest == digest)?.place)
    }

    /// The same, for a reader: it counts as read.
    pub(crate) fn read(&self, digest: Digest) -> Option<Pinned> {
        let mut shard = self.shard(digest);
        let slot = shard.find_mut(hash(digest), |slot| slot.digest == digest)?;
        slot.place.bits |= HOT;
        self.pinned(slot.place)
    }

    /// Whether this record is what the table has of its block, was read and waits for nothing: worth keeping.
    pub(crate) fn is_hot(&self, life: &Life, entry: &Entry) -> bool {
        let place = self.find(entry.digest).map(|pinned| pinned.place);
        place.is_some_and(|place| {
            place.is_at(life.number(), entry.page) && place.bits & (HOT | PENDING | AMENDED) == HOT
        })
    }

    /// Shows a record that has become durable; it takes the place of an earlier one. Where `of` names the record that
    /// it is a copy of, only if that still is its block's. Returns the record that is dead now, if one is: which of its
    /// segment's marks must become durable.
    pub(crate) fn publish(
        &self,
        life: &Arc<Life>,
        entry: &Entry,
        amended: bool,
        of: Option<(u32, u32)>,
    ) -> Option<(Arc<Life>, u64)> {
        let bits = if entry.pending { PENDING } else { 0 } | if amended { AMENDED } else { 0 };
        let (page, len_bytes, header_pages) = (entry.page, entry.len_bytes, entry.header_pages);
        let place = Place { segment: life.number(), page, len_bytes, header_pages, bits };
        let digest = entry.digest;
        let mut shard = self.shard(digest);
        let mut dead = None;
        match shard.entry(hash(digest), |slot| slot.digest == digest, |slot| hash(slot.digest)) {
            hash_table::Entry::Occupied(mut slot)
                if of.is_none_or(|(segment, page)| slot.get().place.is_at(segment, page)) =>
            {
                dead = self.leave(std::mem::replace(&mut slot.get_mut().place, place), true);
            }
            hash_table::Entry::Vacant(slot) if of.is_none() => {
                slot.insert(Slot { digest, place });
            }
            _ => {
                let change = life.mark(page, Mark::Dead, true);
                return Some((Arc::clone(life), change));
            }
        }
        life.count_in(entry.pending);
        self.totals.blocks.fetch_add(1, Ordering::Relaxed);
        self.totals.block_bytes.fetch_add(u64::from(len_bytes), Ordering::Relaxed);
        self.totals.pending_blocks.fetch_add(u64::from(entry.pending), Ordering::Relaxed);
        self.totals.pending_bytes.fetch_add(place.pending_bytes(), Ordering::Relaxed);
        (self.told)(digest, true);
        dead
    }

    /// Takes a record off, if it still is its block's. Its mark is set where a start must not find it again.
    pub(crate) fn remove(&self, digest: Digest, segment: u32, page: u32, mark: bool) {
        let mut shard = self.shard(digest);
        let is_it = |slot: &Slot| slot.digest == digest && slot.place.is_at(segment, page);
        if let Ok(slot) = shard.find_entry(hash(digest), is_it) {
            let place = slot.remove().0.place;
            self.leave(place, mark);
            (self.told)(digest, false);
        }
    }

    /// A record is not its block's any more. Its life, and what to flush there, if it was to be marked.
    fn leave(&self, place: Place, mark: bool) -> Option<(Arc<Life>, u64)> {
        self.totals.blocks.fetch_sub(1, Ordering::Relaxed);
        self.totals.block_bytes.fetch_sub(u64::from(place.len_bytes), Ordering::Relaxed);
        self.totals.pending_blocks.fetch_sub(u64::from(place.is_pending()), Ordering::Relaxed);
        self.totals.pending_bytes.fetch_sub(place.pending_bytes(), Ordering::Relaxed);
        let life = self.lives.read().get(&place.segment).cloned()?;
        life.count_out(place.is_pending());
        mark.then(|| life.mark(place.page, Mark::Dead, true)).map(|change| (life, change))
    }

    /// The upstream has this version now. Whether it was the block's, and waiting.
    pub(crate) fn settle(&self, digest: Digest, version: Version) -> bool {
        let mut shard = self.shard(digest);
        let Some(slot) = shard.find_mut(hash(digest), |slot| slot.digest == digest) else { return false };
        let Some(pinned) = self.pinned(slot.place) else { return false };
        if !slot.place.is_pending() || pinned.life.version(slot.place.page) != version {
            return false;
        }
        slot.place.bits &= !PENDING;
        self.totals.pending_blocks.fetch_sub(1, Ordering::Relaxed);
        self.totals.pending_bytes.fetch_sub(pinned.place.pending_bytes(), Ordering::Relaxed);
        pinned.life.mark(slot.place.page, Mark::Settled, true);
        pinned.life.want_flush();
        pinned.life.count_settled(true);
        true
    }

    /// The block's description changed. Its life, and what to flush there.
    pub(crate) fn amend(&self, digest: Digest) -> Option<(Arc<Life>, u64)> {
        let mut shard = self.shard(digest);
        let slot = shard.find_mut(hash(digest), |slot| slot.digest == digest)?;
        slot.place.bits |= AMENDED;
        let pinned = self.pinned(slot.place)?;
        let change = pinned.life.mark(slot.place.page, Mark::Amended, true);
        Some((pinned.life, change))
    }

    /// The blocks of a segment, by looking through all: slow, for when its footer can't be read.
    pub(crate) fn of_segment(&self, number: u32) -> Vec<(Digest, u32)> {
        let mut found = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let slots = shard.iter().filter(|slot| slot.place.segment == number);
            found.extend(slots.map(|slot| (slot.digest, slot.place.page)));
        }
        found
    }

    /// Heap of the table, and of what else is kept for every block.
    pub(crate) fn heap_bytes(&self) -> u64 {
        let shards = self.shards.iter().map(|shard| shard.lock().allocation_size() as u64).sum::<u64>();
        shards + self.lives.read().values().map(|life| life.heap_bytes()).sum::<u64>()
    }
}

impl Place {
    fn pending_bytes(self) -> u64 {
        if self.is_pending() { u64::from(self.len_bytes) } else { 0 }
    }
}

/// A digest is a hash already.
fn hash(digest: Digest) -> u64 {
    digest.0 as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_takes_32_bytes_of_the_table() {
        assert_eq!(size_of::<Slot>(), 32);
    }
}
