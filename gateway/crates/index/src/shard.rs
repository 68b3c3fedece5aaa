//! One shard of the table.

use blockgate_block::Digest;
use hashbrown::HashTable;

use crate::record::Slot;

/// How many entries are looked at for one that is cheap to lose.
const VICTIMS_TRIED: usize = 16;

/// A part of the table, under one lock.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    table: HashTable<Slot>,
    /// The bucket where the search for a victim goes on.
    hand: usize,
}

/// A digest is already a hash; its high bits chose the shard.
fn hash(digest: Digest) -> u64 {
    digest.0 as u64
}

fn hash_of(slot: &Slot) -> u64 {
    hash(slot.digest())
}

impl Shard {
    pub(crate) fn get(&self, digest: Digest) -> Option<Slot> {
        self.table.find(hash(digest), |slot| slot.digest() == digest).copied()
    }

    /// Keeps `new` instead of what was there; where there was nothing and the shard is full, another entry goes.
    pub(crate) fn insert(&mut self, digest: Digest, mut new: Slot, entries_max: usize) {
        if let Some(old) = self.table.find_mut(hash(digest), |slot| slot.digest() == digest) {
            if old.is_in_memory() {
                new.set_in_memory(true);
            }
            if old.is_in_staging() {
                new.set_in_staging(true);
            }
            *old = new;
            return;
        }
        if self.table.len() >= entries_max {
            self.evict_one();
        }
        self.table.insert_unique(hash(digest), new, hash_of);
    }

    pub(crate) fn remove(&mut self, digest: Digest) {
        if let Ok(entry) = self.table.find_entry(hash(digest), |slot| slot.digest() == digest) {
            entry.remove();
        }
    }

    pub(crate) fn set_in_memory(&mut self, digest: Digest, in_memory: bool) {
        if let Some(slot) = self.table.find_mut(hash(digest), |slot| slot.digest() == digest) {
            slot.set_in_memory(in_memory);
        }
    }

    pub(crate) fn set_in_staging(&mut self, digest: Digest, in_staging: bool) {
        if let Some(slot) = self.table.find_mut(hash(digest), |slot| slot.digest() == digest) {
            slot.set_in_staging(in_staging);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn table_bytes(&self) -> usize {
        self.table.allocation_size()
    }

    /// Drops an entry, as digests are random, at random: of a few, first an absence, last a block in memory. What is lost
    /// is one question to the upstream.
    fn evict_one(&mut self) {
        let buckets = self.table.num_buckets();
        let mut victim = None;
        let mut tried = 0;
        for _ in 0..buckets {
            let at = self.hand % buckets;
            self.hand = at + 1;
            let Some(slot) = self.table.get_bucket(at) else { continue };
            let cost = if slot.is_absent() { 0 } else { 1 + u8::from(slot.is_in_memory()) };
            if victim.is_none_or(|(least, _)| cost < least) {
                victim = Some((cost, at));
            }
            tried += 1;
            if cost == 0 || tried == VICTIMS_TRIED {
                break;
            }
        }
        if let Some((_, at)) = victim
            && let Ok(entry) = self.table.get_bucket_entry(at)
        {
            entry.remove();
        }
    }
}
