//! Bringing a match up to memory before it is read, and keeping it there.

use std::sync::Arc;
use std::time::SystemTime;

use blockgate_block::{BlockKey, KeyList};
use blockgate_tier::memory::Leased;
use futures::{StreamExt, stream};
use tokio::sync::Semaphore;
use tracing::Instrument;

use crate::core::Core;
use crate::fill::FillState;
use crate::keys::Shared;

/// Blocks of one chain that are brought at the same time.
const FETCHES_OF_CHAIN: usize = 8;
/// Blocks of all chains that are brought at the same time.
const FETCHES_OF_ALL: usize = 32;
/// Chains that are brought, or wait for it, at the same time; beyond that a prefetch is not begun.
const CHAINS_MAX: usize = 64;
/// What one prefetch may bring, as one part in so many of the arena: it must not evict what it brought itself.
const ARENA_DIVISOR: u64 = 4;
/// Blocks that are marked as used without a pause.
const USED_AT_ONCE: usize = 256;

/// What is being brought.
pub(crate) struct Prefetches {
    chains: Arc<Semaphore>,
    fetches: Semaphore,
    /// One block at a time, to learn whether the upstream is still as slow as it was.
    trials: Arc<Semaphore>,
}

impl Default for Prefetches {
    fn default() -> Self {
        Self {
            chains: Arc::new(Semaphore::new(CHAINS_MAX)),
            fetches: Semaphore::new(FETCHES_OF_ALL),
            trials: Arc::new(Semaphore::new(1)),
        }
    }
}

/// Blocks of a chain to bring, with their lengths, in its order.
pub(super) type Wanted = Vec<(usize, u64)>;

impl Core {
    /// Begins to bring blocks to memory, and leases each that came, until `lease_until`.
    pub(super) fn prefetch(self: &Arc<Self>, keys: &Arc<KeyList>, wanted: Wanted, lease_until: Option<SystemTime>) {
        if wanted.is_empty() {
            return;
        }
        let Ok(place) = Arc::clone(&self.prefetches.chains).try_acquire_owned() else {
            self.metrics.limit_hit("store.prefetch_chains");
            return;
        };
        let mut room_bytes = self.tiers().memory().stats().arena.capacity_bytes / ARENA_DIVISOR;
        let fits = move |&(_, len_bytes): &(usize, u64)| {
            let fits = len_bytes <= room_bytes;
            room_bytes = room_bytes.saturating_sub(len_bytes);
            fits
        };
        let (core, keys) = (Arc::clone(self), Arc::clone(keys));
        let task = async move {
            let _place = place;
            let reach = wanted.last().map_or(0, |(at, _)| at + 1);
            let mut brought = stream::iter(wanted.into_iter().take_while(fits))
                .map(|(at, _)| core.bring(keys.get(at), lease_until))
                .buffered(FETCHES_OF_CHAIN);
            // What comes after a block that can't be had is of no use.
            while let Some(true) = brought.next().await {}
            drop(brought);
            core.mark_used(&keys, reach).await;
        };
        tokio::spawn(task.in_current_span());
    }

    /// Brings one block that a deadline was too short for, by what the upstream was measured to be: if nobody read from it
    /// any more, it would be thought slow for ever.
    pub(super) fn try_again(self: &Arc<Self>, key: BlockKey) {
        if let Ok(place) = Arc::clone(&self.prefetches.trials).try_acquire_owned() {
            let core = Arc::clone(self);
            let task = async move {
                let _place = place;
                core.bring(key, None).await;
            };
            tokio::spawn(task.in_current_span());
        }
    }

    /// Brings a block to memory. False where it can't be had, or has no room.
    async fn bring(self: &Arc<Self>, key: BlockKey, lease_until: Option<SystemTime>) -> bool {
        let Ok(_place) = self.prefetches.fetches.acquire().await else { return false };
        let policy = self.policy(key.bucket());
        let known = self.tiers().info(&key).map(|known| known.info);
        if known.as_ref().is_some_and(|info| info.size_bytes > policy.max_block_bytes) {
            return false;
        }
        let is_there = match self.keys.share_fill(&key, self.upstream.now()) {
            Shared::There(_) => true,
            Shared::Joined(mut fill) => matches!(fill.settled().await, FillState::Whole(_)),
            Shared::Begun(mut fill, state, reading) => {
                self.begin_fill(policy, known, state, reading);
                matches!(fill.settled().await, FillState::Whole(_))
            }
        };
        if is_there && let Some(until) = lease_until {
            self.tiers().lease(&key, until);
        }
        is_there
    }

    /// Leases the blocks at these places, first ones first. Until when they stay; none where one of them does not.
    pub(super) fn lease(&self, keys: &KeyList, places: &[usize], until: SystemTime) -> Option<SystemTime> {
        let mut all_until = None;
        for &at in places {
            match self.tiers().lease(&keys.get(at), until) {
                Leased::Until(until) => all_until = Some(all_until.map_or(until, |all: SystemTime| all.min(until))),
                Leased::NotHere | Leased::NoRoom => return None,
            }
        }
        all_until
    }

    /// Marks the first `blocks` of a chain as used, its tail first, so that eviction takes its tail first.
    pub(crate) async fn mark_used(&self, keys: &KeyList, blocks: usize) {
        let places: Vec<usize> = (0..blocks.min(keys.len())).rev().collect();
        self.tiers().memory().catch_up();
        for some in places.chunks(USED_AT_ONCE) {
            for &at in some {
                drop(self.tiers().block(&keys.get(at)));
            }
            tokio::task::yield_now().await;
        }
    }
}
