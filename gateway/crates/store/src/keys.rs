//! What is going on per key: writes in progress, reads of the upstream that several requests share, blocks acknowledged
//! and not yet uploaded.
//!
//! This is where "never stale" is decided. Every write through this gateway raises the key's generation when it begins
//! and when it ends, and makes the tiers forget the key, or know the new object, in the same step. What a read brings
//! from the upstream enters the tiers only if the generation is still the one that the read began with and no write is in
//! progress. And a write detaches the reads in flight, so that no request that begins after it joins one from before it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use blockgate_block::{BlockBuf, BlockKey, ObjectInfo};
use blockgate_tier::memory::MemoryBlock;
use blockgate_upstream::UpstreamError;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedMutexGuard, watch};

use crate::conditions::is_expired;
use crate::fill::{Fill, FillState};
use crate::tiers::Tiers;

const STRIPES: usize = 256;

/// A HEAD of the upstream that several requests wait for; `None` until it is answered.
pub(crate) type HeadAnswer = Option<Result<Arc<ObjectInfo>, UpstreamError>>;

pub(crate) struct KeyTable {
    stripes: Box<[Mutex<Stripe>]>,
    /// How many keys have a block that waits for its upload: most of the time none, and no read need ask.
    pending: AtomicUsize,
    tiers: Tiers,
}

type Stripe = HashMap<BlockKey, KeyState>;

/// There while somebody holds the key.
#[derive(Default)]
struct KeyState {
    holders: usize,
    generation: u64,
    writes: usize,
    fill: Option<Fill>,
    head: Option<watch::Receiver<HeadAnswer>>,
    pending: Option<MemoryBlock>,
    order: Arc<tokio::sync::Mutex<()>>,
}

impl KeyState {
    /// A write begins or ends: nothing that was read before may be remembered or joined after.
    fn turn(&mut self) {
        self.generation += 1;
        self.fill = None;
        self.head = None;
    }
}

/// How a read of the upstream is shared.
pub(crate) enum Shared<T, S> {
    /// It is already under way.
    Joined(T),
    /// The caller must carry it out.
    Begun(T, S, Reading),
    /// The block came to memory meanwhile.
    There(MemoryBlock),
}

impl KeyTable {
    pub(crate) fn new(tiers: Tiers) -> Arc<Self> {
        let stripes = (0..STRIPES).map(|_| Mutex::default()).collect();
        Arc::new(Self { stripes, pending: AtomicUsize::new(0), tiers })
    }

    pub(crate) fn tiers(&self) -> &Tiers {
        &self.tiers
    }

    fn stripe(&self, key: &BlockKey) -> MutexGuard<'_, Stripe> {
        #[allow(clippy::cast_possible_truncation)] // only the low bits choose the stripe
        let at = key.digest().0 as usize % STRIPES;
        self.stripes[at].lock()
    }

    fn hold<T>(self: &Arc<Self>, key: &BlockKey, with: impl FnOnce(&mut KeyState) -> T) -> (Hold, T) {
        let mut stripe = self.stripe(key);
        let state = stripe.entry(key.clone()).or_default();
        state.holders += 1;
        let result = with(state);
        drop(stripe);
        (Hold { table: Arc::clone(self), key: key.clone() }, result)
    }

    /// The block that was acknowledged under this key and is not yet at the upstream.
    pub(crate) fn pending(&self, key: &BlockKey) -> Option<MemoryBlock> {
        if self.pending.load(Ordering::SeqCst) == 0 {
            return None;
        }
        self.stripe(key).get(key)?.pending.clone()
    }

    /// Shows the blocks that were acknowledged and are not yet at the upstream.
    pub(crate) fn for_each_pending(&self, look: &mut dyn FnMut(&BlockKey, &Arc<ObjectInfo>)) {
        if self.pending.load(Ordering::SeqCst) == 0 {
            return;
        }
        for stripe in &self.stripes {
            for (key, state) in stripe.lock().iter() {
                if let Some(block) = &state.pending {
                    look(key, &block.info);
                }
            }
        }
    }

    /// Joins the fill of this key, or begins one, unless memory has the block at `now`.
    pub(crate) fn share_fill(
        self: &Arc<Self>,
        key: &BlockKey,
        now: SystemTime,
    ) -> Shared<Fill, watch::Sender<FillState>> {
        let (hold, shared) = self.hold(key, |state| {
            if let Some(fill) = &state.fill {
                return Err(Shared::Joined(fill.clone()));
            }
            // A fill puts its block in memory before it is taken off this table.
            if let Some(block) = self.tiers.block(key).filter(|block| !is_expired(&block.info, now)) {
                return Err(Shared::There(block));
            }
            let (sender, receiver) = watch::channel(FillState::Asking);
            let fill = Fill::new(receiver);
            state.fill = Some(fill.clone());
            Ok((fill, sender, state.generation))
        });
        match shared {
            Ok((fill, sender, generation)) => {
                Shared::Begun(fill, sender, Reading { hold, generation, slot: Slot::Fill })
            }
            Err(shared) => shared,
        }
    }

    /// Joins the HEAD of this key, or begins one.
    pub(crate) fn share_head(
        self: &Arc<Self>,
        key: &BlockKey,
    ) -> Shared<watch::Receiver<HeadAnswer>, watch::Sender<HeadAnswer>> {
        let (hold, shared) = self.hold(key, |state| {
            if let Some(head) = &state.head {
                return Err(head.clone());
            }
            let (sender, receiver) = watch::channel(None);
            state.head = Some(receiver.clone());
            Ok((receiver, sender, state.generation))
        });
        match shared {
            Ok((receiver, sender, generation)) => {
                Shared::Begun(receiver, sender, Reading { hold, generation, slot: Slot::Head })
            }
            Err(receiver) => Shared::Joined(receiver),
        }
    }

    /// The fill of this key, if one is under way.
    pub(crate) fn fill(&self, key: &BlockKey) -> Option<Fill> {
        self.stripe(key).get(key)?.fill.clone()
    }

    /// Begins a write that excludes others of the same key: what it stored may then enter the tiers.
    pub(crate) async fn write(self: &Arc<Self>, key: &BlockKey) -> Writing {
        let (hold, order) = self.hold(key, |state| Arc::clone(&state.order));
        let order = order.lock_owned().await;
        Writing::begin(hold, Some(order))
    }

    /// Begins writes of many keys, which must be different.
    pub(crate) async fn write_all(self: &Arc<Self>, keys: &[BlockKey]) -> Vec<Writing> {
        // All who hold several keys take them in one order, so that none waits for another in a circle.
        let mut sorted: Vec<&BlockKey> = keys.iter().collect();
        sorted.sort_by(|a, b| (a.bucket(), a.key()).cmp(&(b.bucket(), b.key())));
        let mut writes = Vec::with_capacity(keys.len());
        for key in sorted {
            writes.push(self.write(key).await);
        }
        writes
    }

    /// Waits until what was acknowledged from memory under this key is at the upstream, or lost.
    pub(crate) async fn settled(self: &Arc<Self>, key: &BlockKey) {
        if self.pending(key).is_some() {
            drop(self.turn(key).await);
        }
    }

    /// Keeps writes of this key out, and writes nothing.
    pub(crate) async fn turn(self: &Arc<Self>, key: &BlockKey) -> Turn {
        let (hold, order) = self.hold(key, |state| Arc::clone(&state.order));
        let order = order.lock_owned().await;
        Turn { _order: order, _hold: hold }
    }

    /// Lets the tiers learn something, unless a write of the key is in progress: that knows better.
    pub(crate) fn learn(&self, key: &BlockKey, learn: impl FnOnce(&Tiers)) {
        let stripe = self.stripe(key);
        if stripe.get(key).is_none_or(|state| state.writes == 0) {
            learn(&self.tiers);
        }
    }
}

/// Nobody else writes the key while this is held.
pub(crate) struct Turn {
    _order: OwnedMutexGuard<()>,
    _hold: Hold,
}

/// Keeps the state of a key alive.
struct Hold {
    table: Arc<KeyTable>,
    key: BlockKey,
}

impl Hold {
    fn with<T>(&self, with: impl FnOnce(&mut KeyState, &Tiers) -> T) -> T {
        let mut stripe = self.table.stripe(&self.key);
        with(stripe.entry(self.key.clone()).or_default(), &self.table.tiers)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut stripe = self.table.stripe(&self.key);
        let unused = match stripe.entry(self.key.clone()) {
            Entry::Occupied(mut entry) => {
                entry.get_mut().holders -= 1;
                if entry.get().holders == 0 { Some(entry.remove()) } else { None }
            }
            Entry::Vacant(_) => None,
        };
        drop(stripe);
        drop(unused);
    }
}

enum Slot {
    Fill,
    Head,
}

/// A read of the upstream whose result may be remembered. Dropping it takes it off the table.
pub(crate) struct Reading {
    hold: Hold,
    generation: u64,
    slot: Slot,
}

impl Reading {
    /// Lets the tiers learn something, unless a write made it old.
    pub(crate) fn remember(&self, learn: impl FnOnce(&Tiers)) {
        self.hold.with(|state, tiers| {
            if state.generation == self.generation && state.writes == 0 {
                learn(tiers);
            }
        });
    }

    pub(crate) fn key(&self) -> &BlockKey {
        &self.hold.key
    }

    pub(crate) fn tiers(&self) -> &Tiers {
        &self.hold.table.tiers
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.hold.with(|state, _| {
            // Within one generation nobody else can have begun the same read.
            if state.generation == self.generation {
                match self.slot {
                    Slot::Fill => state.fill = None,
                    Slot::Head => state.head = None,
                }
            }
        });
    }
}

/// A write in progress. However it ends, even by being dropped, the tiers no longer know what was there before.
pub(crate) struct Writing {
    hold: Hold,
    generation: u64,
    order: Option<OwnedMutexGuard<()>>,
    published: bool,
    ended: bool,
}

impl Writing {
    fn begin(hold: Hold, order: Option<OwnedMutexGuard<()>>) -> Self {
        let generation = hold.with(|state, _| {
            state.turn();
            state.writes += 1;
            state.generation
        });
        Self { hold, generation, order, published: false, ended: false }
    }

    pub(crate) fn key(&self) -> &BlockKey {
        &self.hold.key
    }

    /// Excludes nobody any more: for bytes that arrive slowly. It still comes after what was acknowledged before it.
    pub(crate) fn share(&mut self) {
        self.order = None;
    }

    /// Lets reads see a block that is not yet at the upstream, until this write ends.
    pub(crate) fn publish(&mut self, block: MemoryBlock) {
        self.published = true;
        let table = &self.hold.table;
        self.hold.with(|state, _| {
            if state.pending.replace(block).is_none() {
                table.pending.fetch_add(1, Ordering::SeqCst);
            }
        });
    }

    /// Ends the write. The tiers learn what is there now, unless another write of the key came between.
    pub(crate) fn end(mut self, learn: impl FnOnce(&Tiers)) {
        self.conclude(|tiers, _| learn(tiers));
    }

    /// Ends the write of a block that the upstream has now: memory takes its bytes, where they are given, and staging is
    /// offered them.
    pub(crate) fn stored(mut self, info: &Arc<ObjectInfo>, bytes: Option<BlockBuf>) {
        let key = self.hold.key.clone();
        self.conclude(|tiers, is_last| {
            tiers.install(&key, info, bytes.clone());
            if is_last && let Some(bytes) = &bytes {
                tiers.offer(&key, info, bytes);
            }
        });
    }

    /// Of `learn`, the second is whether no other write of the key is under way: then what it learns will stay true until one begins.
    fn conclude(&mut self, learn: impl FnOnce(&Tiers, bool)) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let table = &self.hold.table;
        let (generation, published, key) = (self.generation, self.published, &self.hold.key);
        self.hold.with(|state, tiers| {
            let alone = state.generation == generation;
            state.writes -= 1;
            state.turn();
            if alone {
                learn(tiers, state.writes == 0);
            } else {
                tiers.forget(key);
            }
            if published && state.pending.take().is_some() {
                table.pending.fetch_sub(1, Ordering::SeqCst);
            }
        });
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let key = self.hold.key.clone();
        self.conclude(|tiers, _| tiers.forget(&key));
    }
}
