//! The memory tier: blocks in the arena, kept by least recent use.
//!
//! moka decides what stays. It weighs blocks by what they take of the arena, and its capacity is a little less than the
//! arena's: the rest is for blocks on their way in, and for blocks that were evicted while someone still reads them.
//!
//! # Who is in memory, said truly
//! The tier reports every arrival and departure to `on_presence(key, is_in_memory)`, from whichever thread made it
//! happen. Calls for one key may overtake each other, and still the last one tells the truth:
//! * moka holds a lock on the key while it evicts it and tells of it, and while it inserts it. So "gone" is told before
//!   the key can come back.
//! * whoever inserts or removes reports what it then *sees*, and looks again afterwards until what it told is what it
//!   sees. So a report that comes late is corrected by the one who made it.
//!
//! A table that keeps what it is told (as the index does, `set_in_memory`) is thus right whenever the tier is at rest, and
//! at other times is a hint, which is all it can be.

mod lease;
mod residents;
mod room;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use blockgate_block::{Arena, ArenaStats, BlockBuf, BlockKey, ObjectInfo};
use moka::notification::RemovalCause;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use parking_lot::Mutex;

pub use self::lease::Leased;
use self::lease::Leases;
use self::residents::Residents;

/// The part of the arena, one in so many, that is left to blocks on their way in and to evicted ones still being read.
const HEADROOM_DIVISOR: u64 = 8;

/// Unit of weight: moka's weights are `u32`, in bytes they would end at 4 GiB.
const PAGE_BYTES: u64 = 4096;

/// A block held in memory.
#[derive(Clone, Debug)]
pub struct MemoryBlock {
    /// What it is.
    pub info: Arc<ObjectInfo>,
    /// Its bytes.
    pub bytes: BlockBuf,
}

/// How full the memory tier is, and what it did.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryStats {
    /// The arena, blocks on their way in included.
    pub arena: ArenaStats,
    /// How many blocks the tier holds, leased ones included.
    pub blocks: u64,
    /// What they take of the arena, rounding included.
    pub block_bytes: u64,
    /// How many of them are leased.
    pub leases: u64,
    /// What these take of the arena.
    pub leased_bytes: u64,
    /// Blocks evicted to make room, since the start.
    pub evictions: u64,
}

/// Blocks in memory.
pub struct MemoryTier {
    arena: Arena,
    cache: Cache<BlockKey, Entry>,
    residents: Arc<Residents>,
    leases: Leases,
    capacity_pages: u64,
    /// Held by the one thread that is evicting to make room.
    making_room: Mutex<()>,
    room_key: BlockKey,
    on_presence: Arc<OnPresence>,
}

type OnPresence = dyn Fn(&BlockKey, bool) + Send + Sync;

/// What moka holds: a block, or weight without bytes (see [`room`]).
///
/// moka drops removed values some time later, when no thread can be looking at them. The slot must be free at once, since
/// a writer waits for it: so the eviction listener empties the cell, and whoever finds it empty has missed the block.
#[derive(Clone)]
struct Entry {
    block: Arc<Mutex<Option<MemoryBlock>>>,
    pages: u32,
}

impl MemoryTier {
    /// A tier that fills `arena`.
    ///
    /// `on_presence` is told who is in memory and who no longer is, see the module. It may be called by any thread, within
    /// `insert`, `remove`, `allocate` and, since these do moka's housekeeping, `get`; it must be quick, and call back into
    /// the tier never.
    pub fn new(arena: Arena, on_presence: impl Fn(&BlockKey, bool) + Send + Sync + 'static) -> Self {
        let capacity_pages = (arena.stats().capacity_bytes / PAGE_BYTES).min(u64::from(u32::MAX));
        let capacity_pages = capacity_pages - capacity_pages / HEADROOM_DIVISOR;
        let on_presence: Arc<OnPresence> = Arc::new(on_presence);
        let residents = Arc::new(Residents::default());
        let listener = {
            let (on_presence, residents) = (Arc::clone(&on_presence), Arc::clone(&residents));
            move |key: Arc<BlockKey>, entry: Entry, cause| {
                let Some(block) = entry.block.lock().take() else { return };
                residents.left(block.bytes.offset_bytes(), &entry);
                if cause == RemovalCause::Size {
                    residents.evictions.fetch_add(1, Ordering::Relaxed);
                    on_presence(&key, false);
                }
            }
        };
        let cache = Cache::builder()
            .eviction_policy(EvictionPolicy::lru())
            .max_capacity(capacity_pages)
            .weigher(|_, entry: &Entry| entry.pages)
            .eviction_listener(listener)
            .build();
        Self {
            arena,
            cache,
            capacity_pages,
            making_room: Mutex::new(()),
            room_key: room::key(),
            residents,
            leases: Leases::default(),
            on_presence,
        }
    }

    /// The block, if it is in memory; it becomes the most recently used.
    #[must_use]
    pub fn get(&self, key: &BlockKey) -> Option<MemoryBlock> {
        if let Some(block) = self.in_cache(key) {
            return Some(block);
        }
        if !self.leases.any() {
            return None;
        }
        // Between the two looks its lease may have ended: then it was moved back under this lock.
        let leases = self.leases.lock();
        leases.block(key).or_else(|| self.in_cache(key))
    }

    /// Shows every block in memory, some of them twice. Counts as no use of them.
    pub fn for_each(&self, look: &mut dyn FnMut(&BlockKey, &Arc<ObjectInfo>)) {
        // Whatever is leased, or no longer, while moka's blocks are shown is seen at one end or the other.
        self.leases.lock().for_each(look);
        for (key, entry) in &self.cache {
            let info = entry.block.lock().as_ref().map(|block| Arc::clone(&block.info));
            if let Some(info) = info {
                look(&key, &info);
            }
        }
        self.leases.lock().for_each(look);
    }

    /// Whether the block is in memory. Counts as no use of it.
    #[must_use]
    pub fn contains(&self, key: &BlockKey) -> bool {
        if self.cache.contains_key(key) {
            return true;
        }
        if !self.leases.any() {
            return false;
        }
        let leases = self.leases.lock();
        leases.contains(key) || self.cache.contains_key(key)
    }

    /// Keeps a block as the most recently used, instead of what was there under its key.
    pub fn insert(&self, key: BlockKey, block: MemoryBlock) {
        let reported = key.clone();
        let mut leases = self.leases.lock();
        if !self.describe_leased(&mut leases, &key, &block) {
            self.end_lease(&mut leases, &key);
            self.put_in_cache(key, block);
        }
        drop(leases);
        self.report(&reported);
    }

    /// Forgets a block. Who reads it goes on doing so.
    pub fn remove(&self, key: &BlockKey) {
        let mut leases = self.leases.lock();
        self.end_lease(&mut leases, key);
        self.cache.invalidate(key);
        drop(leases);
        self.report(key);
    }

    /// Lets what was put in and used so far count: moka gathers such news, and hears of a use only what it has heard was put in.
    pub fn catch_up(&self) {
        self.cache.run_pending_tasks();
    }

    /// How full the tier is. Counts blocks exactly when nobody else is at it.
    #[must_use]
    pub fn stats(&self) -> MemoryStats {
        self.cache.run_pending_tasks();
        let (leases, leased_bytes) = self.leases.stats();
        MemoryStats {
            arena: self.arena.stats(),
            blocks: self.cache.entry_count() + leases,
            block_bytes: self.cache.weighted_size() * PAGE_BYTES + leased_bytes,
            leases,
            leased_bytes,
            evictions: self.residents.evictions.load(Ordering::Relaxed),
        }
    }

    fn in_cache(&self, key: &BlockKey) -> Option<MemoryBlock> {
        self.cache.get(key)?.block.lock().clone()
    }

    fn put_in_cache(&self, key: BlockKey, block: MemoryBlock) {
        let pages = pages(block.bytes.len());
        let offset_bytes = block.bytes.offset_bytes();
        let entry = Entry { block: Arc::new(Mutex::new(Some(block))), pages };
        self.residents.came(offset_bytes, key.clone(), entry.clone());
        self.cache.insert(key, entry);
    }

    /// Tells who is in memory until what was told is what is seen.
    fn report(&self, key: &BlockKey) {
        let mut present = self.contains(key);
        loop {
            (self.on_presence)(key, present);
            let now = self.contains(key);
            if now == present {
                return;
            }
            present = now;
        }
    }
}

impl fmt::Debug for MemoryTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryTier").field("capacity_pages", &self.capacity_pages).finish_non_exhaustive()
    }
}

/// What a block takes of the arena, in pages.
fn pages(len_bytes: u64) -> u32 {
    u32::try_from(Arena::slot_bytes(len_bytes) / PAGE_BYTES).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod lease_tests;
#[cfg(test)]
mod tests;
