//! Is it there? A table of all blocks that this gateway knows of, present or absent, of at most 128 bytes each.
//!
//! Sharded by the digest's high bits, so that thousands of keys are asked about at once without readers meeting writers.
//! A digest is an address, never a proof of identity: who serves a block compares its full key first.
#![forbid(unsafe_code)]

mod record;
mod shard;

use std::ops::ControlFlow;
use std::time::{Duration, SystemTime};

use blockgate_block::Digest;
use parking_lot::{RwLock, RwLockReadGuard};

pub use record::{Presence, Record};
use record::{Slot, millis};
use shard::Shard;

/// Most shards. More than cores of the largest machine, few enough that each is worth its lock.
const SHARDS_MAX: u64 = 256;

/// A smaller index has fewer shards, so that its limit is divided evenly enough.
const SHARD_ENTRIES_MIN: u64 = 1024;

/// The table. All times are by the upstream's clock.
#[derive(Debug)]
pub struct Index {
    shards: Box<[RwLock<Shard>]>,
    /// How far a digest's high bits are shifted to number its shard.
    shift: u32,
    shard_entries_max: usize,
    negative_ttl_ms: u64,
}

impl Index {
    /// An empty index that never holds more than `entries_max` entries (at least one), absences included.
    ///
    /// Absences are believed for `negative_ttl`; 0 turns that off.
    #[must_use]
    pub fn new(entries_max: u64, negative_ttl: Duration) -> Self {
        let entries_max = entries_max.max(1);
        let shards = (entries_max / SHARD_ENTRIES_MIN).next_power_of_two().min(SHARDS_MAX);
        Self {
            shards: (0..shards).map(|_| RwLock::default()).collect(),
            shift: u128::BITS - shards.trailing_zeros(),
            shard_entries_max: usize::try_from(entries_max / shards).unwrap_or(usize::MAX),
            negative_ttl_ms: u64::try_from(negative_ttl.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// What is known of a block at `now`.
    ///
    /// A record whose time is over is still [`Presence::Present`], with its `expires_at_ms` in the past: the reader can then
    /// say `expired`, not `absent`.
    #[must_use]
    pub fn get(&self, digest: Digest, now: SystemTime) -> Presence {
        let slot = self.shard(digest).read().get(digest);
        self.presence(slot, millis(now))
    }

    /// What is known of many blocks at `now`, told in their order until `tell` breaks off; it must not ask the index itself.
    ///
    /// For thousands of blocks, faster than one by one: a shard is locked once for all of them, and without locks between
    /// the look-ups the processor waits for the memory of several at once. Writers wait for all of it, so a thousand is
    /// enough.
    pub fn get_many(
        &self,
        digests: &[Digest],
        now: SystemTime,
        mut tell: impl FnMut(Presence) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let now_ms = millis(now);
        let mut locked: Vec<Option<RwLockReadGuard<'_, Shard>>> = Vec::new();
        locked.resize_with(self.shards.len(), || None);
        for &digest in digests {
            let at = self.shard_number(digest);
            locked[at].get_or_insert_with(|| self.shards[at].read());
        }
        digests.iter().try_for_each(|&digest| {
            let slot = locked[self.shard_number(digest)].as_ref().and_then(|shard| shard.get(digest));
            tell(self.presence(slot, now_ms))
        })
    }

    fn presence(&self, slot: Option<Slot>, now_ms: u64) -> Presence {
        let Some(slot) = slot else { return Presence::Unknown };
        match slot.absent_until_ms() {
            None => Presence::Present(slot.record()),
            Some(until_ms) if self.is_believed(until_ms, now_ms) => Presence::Absent,
            Some(_) => Presence::WasAbsent,
        }
    }

    /// Keeps what is known of a block, instead of what was known before.
    ///
    /// Only `in_memory` and `in_staging` are not overwritten by `false`: the tiers say so by [`Index::set_in_memory`] and
    /// [`Index::set_in_staging`], and whoever learned of a block elsewhere does not know better.
    pub fn insert(&self, digest: Digest, record: Record) {
        self.put(digest, Slot::present(digest, &record));
    }

    /// Forgets a block: neither there nor absent.
    pub fn remove(&self, digest: Digest) {
        self.shard(digest).write().remove(digest);
    }

    /// Remembers that nothing is stored: it is believed from `now` for the negative TTL, and is a doubt after that.
    pub fn mark_absent(&self, digest: Digest, now: SystemTime) {
        self.put(digest, Slot::absent(digest, millis(now).saturating_add(self.negative_ttl_ms)));
    }

    /// Told by the memory tier. Nothing changes for a block that is not known to be present.
    pub fn set_in_memory(&self, digest: Digest, in_memory: bool) {
        self.shard(digest).write().set_in_memory(digest, in_memory);
    }

    /// Told by the staging tier. Nothing changes for a block that is not known to be present.
    pub fn set_in_staging(&self, digest: Digest, in_staging: bool) {
        self.shard(digest).write().set_in_staging(digest, in_staging);
    }

    /// How many entries there are, absences included, old ones too.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.shards.iter().map(|shard| shard.read().len() as u64).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory taken by the tables, in bytes.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.read().table_bytes() as u64).sum()
    }

    fn put(&self, digest: Digest, slot: Slot) {
        self.shard(digest).write().insert(digest, slot, self.shard_entries_max);
    }

    fn shard(&self, digest: Digest) -> &RwLock<Shard> {
        &self.shards[self.shard_number(digest)]
    }

    fn shard_number(&self, digest: Digest) -> usize {
        // A shift by all 128 bits, for a single shard, is 0.
        digest.0.checked_shr(self.shift).unwrap_or(0) as usize
    }

    /// An absence that ends later than one learned just now is of a clock that was set back since.
    fn is_believed(&self, until_ms: u64, now_ms: u64) -> bool {
        now_ms < until_ms && until_ms - now_ms <= self.negative_ttl_ms
    }
}

#[cfg(test)]
mod tests;
