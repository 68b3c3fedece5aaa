//! Leases: blocks that stay until an instant, whatever else is put in memory.
//!
//! moka can't be told to keep an entry. So a leased block is not its: the lease table alone holds it, and evicting finds
//! room among the others as if it were not there. When its lease ends, the block is moka's again, as just used.
//!
//! A key's block is in moka or in this table, never in both, and it moves under this table's lock. An overwrite or a
//! removal takes the same lock, so that no lease keeps, or gives back to moka, what was replaced. moka's eviction listener
//! must not take it: moka evicts within calls that are made under it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use blockgate_block::{Arena, BlockKey, ObjectInfo};
use parking_lot::{Mutex, MutexGuard};

use super::{MemoryBlock, MemoryTier};

/// The part of the arena, one in so many, that may be leased.
const LEASED_DIVISOR: u64 = 4;

/// The longest lease. One that ends later than that from now was given before the clock was set back.
const LEASE_MAX: Duration = Duration::from_secs(600);

/// How asking for a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leased {
    /// The block stays until then: as asked, or to its own expiry if that is sooner; later if it already was leased longer.
    Until(SystemTime),
    /// It is not in memory.
    NotHere,
    /// As much as may be is leased.
    NoRoom,
}

/// The table.
#[derive(Default)]
pub(super) struct Leases {
    table: Mutex<Table>,
    /// How many there are, one that is being made included. Most of the time none, and nobody need ask.
    count: AtomicUsize,
}

#[derive(Default)]
pub(super) struct Table {
    held: HashMap<BlockKey, Lease>,
    by_end: BTreeMap<End, BlockKey>,
    bytes: u64,
    made: u64,
}

struct Lease {
    block: MemoryBlock,
    asked_until: SystemTime,
    end: End,
}

/// When a lease ends; of those that end together, the last made ends first. So a chain that was leased from its head is given
/// back tail first, and evicted tail first.
type End = (SystemTime, Reverse<u64>);

impl Leases {
    pub(super) fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    /// Whether there may be any. Once a block has left moka for the table, this is true until it is back.
    pub(super) fn any(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// How many leases there are, and what their blocks take of the arena.
    pub(super) fn stats(&self) -> (u64, u64) {
        let table = self.lock();
        (table.held.len() as u64, table.bytes)
    }
}

impl Table {
    pub(super) fn block(&self, key: &BlockKey) -> Option<MemoryBlock> {
        self.held.get(key).map(|lease| lease.block.clone())
    }

    pub(super) fn contains(&self, key: &BlockKey) -> bool {
        self.held.contains_key(key)
    }

    pub(super) fn for_each(&self, look: &mut dyn FnMut(&BlockKey, &Arc<ObjectInfo>)) {
        self.held.iter().for_each(|(key, lease)| look(key, &lease.block.info));
    }

    /// Ends a lease.
    fn take(&mut self, key: &BlockKey) -> Option<MemoryBlock> {
        let lease = self.held.remove(key)?;
        self.by_end.remove(&lease.end);
        self.bytes -= Arena::slot_bytes(lease.block.bytes.len());
        Some(lease.block)
    }

    fn add(&mut self, key: &BlockKey, block: MemoryBlock, asked_until: SystemTime) -> SystemTime {
        let until = block.info.expires_at().map_or(asked_until, |expires_at| expires_at.min(asked_until));
        let end = (until, Reverse(self.made));
        self.made += 1;
        self.bytes += Arena::slot_bytes(block.bytes.len());
        self.by_end.insert(end, key.clone());
        self.held.insert(key.clone(), Lease { block, asked_until, end });
        until
    }

    /// A lease that is over at `now`.
    fn ended(&self, now: SystemTime) -> Option<BlockKey> {
        let first = self.by_end.first_key_value().filter(|((until, _), _)| *until <= now);
        let beyond = now + LEASE_MAX;
        first
            .or_else(|| self.by_end.last_key_value().filter(|((until, _), _)| *until > beyond))
            .map(|(_, key)| key.clone())
    }
}

impl MemoryTier {
    /// Keeps a block that is in memory until `until`, by the clock that says `now`, at most ten minutes. At most a quarter of
    /// the arena is leased.
    ///
    /// An overwrite or a removal ends the lease at once; the same bytes put again with another description do not.
    pub fn lease(&self, key: &BlockKey, until: SystemTime, now: SystemTime) -> Leased {
        self.end_leases(now);
        let until = until.min(now + LEASE_MAX);
        let leased = self.lease_locked(&mut self.leases.lock(), key, until, now);
        if leased != Leased::NotHere {
            // Whoever evicted the block at this moment has said that it is gone.
            self.report(key);
        }
        leased
    }

    fn lease_locked(&self, table: &mut Table, key: &BlockKey, until: SystemTime, now: SystemTime) -> Leased {
        if let Some(lease) = table.held.get(key) {
            let until = until.max(lease.asked_until);
            return match table.take(key) {
                Some(block) => Leased::Until(table.add(key, block, until)),
                None => Leased::NotHere,
            };
        }
        // Before the block leaves moka: a reader that misses it there must ask here.
        self.leases.count.fetch_add(1, Ordering::SeqCst);
        let leased = match self.in_cache(key) {
            None => Leased::NotHere,
            Some(block) if block.info.expires_at().is_some_and(|at| at <= now) => Leased::NotHere,
            Some(block) => {
                let capacity_bytes = self.arena.stats().capacity_bytes / LEASED_DIVISOR;
                if table.bytes + Arena::slot_bytes(block.bytes.len()) > capacity_bytes {
                    Leased::NoRoom
                } else {
                    self.cache.invalidate(key);
                    Leased::Until(table.add(key, block, until))
                }
            }
        };
        if !matches!(leased, Leased::Until(_)) {
            self.leases.count.fetch_sub(1, Ordering::SeqCst);
        }
        leased
    }

    /// Whether there may be leases to end.
    #[must_use]
    pub fn has_leases(&self) -> bool {
        self.leases.any()
    }

    /// Gives blocks whose lease is over at `now` back to eviction, as just used. Cheap when there are none.
    pub fn end_leases(&self, now: SystemTime) {
        while self.leases.any() {
            let mut table = self.leases.lock();
            let Some(key) = table.ended(now) else { return };
            let Some(block) = table.take(&key) else { return };
            if block.info.expires_at().is_none_or(|at| at > now) {
                self.put_in_cache(key.clone(), block);
            }
            self.leases.count.fetch_sub(1, Ordering::SeqCst);
            drop(table);
            self.report(&key);
        }
    }

    /// Ends the lease of a key whose block is replaced or removed.
    pub(super) fn end_lease(&self, table: &mut Table, key: &BlockKey) {
        if table.take(key).is_some() {
            self.leases.count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Lets a leased block have another description. False where this is not the leased block.
    pub(super) fn describe_leased(&self, table: &mut Table, key: &BlockKey, block: &MemoryBlock) -> bool {
        // Both hold their slots, so equal places are one slot.
        let is_same = |lease: &&Lease| lease.block.bytes.offset_bytes() == block.bytes.offset_bytes();
        let Some(asked_until) = table.held.get(key).filter(is_same).map(|lease| lease.asked_until) else {
            return false;
        };
        table.take(key);
        table.add(key, block.clone(), asked_until);
        true
    }
}
