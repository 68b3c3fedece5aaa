//! Blocks that the upstream does not have yet: which there are, whose turn it is, and who is at them.
//!
//! Of a key only its latest version waits: an overwrite takes the place of what it overwrote. While a block is uploaded its
//! key may be overwritten; then the newer one waits for that upload to end, so that it arrives after it.

mod state;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use blockgate_block::{BlockKey, ObjectInfo};
use blockgate_staging::Version;
use blockgate_upstream::{ListPage, ListRequest};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{timeout, timeout_at};

use self::state::{Stage, State, Waiting};
use super::listing::page_of;

/// A block that was acknowledged and is not yet at the upstream.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) key: BlockKey,
    /// Without an ETag of the upstream's.
    pub(crate) info: Arc<ObjectInfo>,
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) version: Version,
}

/// How many blocks wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) blocks: u64,
    pub(crate) bytes: u64,
}

/// The blocks that wait. Bounded by what staging lets wait.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// There may be work.
    work: Notify,
    /// There may be room for one more.
    room: Notify,
    /// An upload ended, or a block left.
    changed: watch::Sender<()>,
    /// Blocks that were acknowledged and will never be uploaded, since the start.
    pub(crate) lost: AtomicU64,
}

/// A block whose upload is carried out by whoever has this. Dropped unfinished, it waits again.
pub(crate) struct Job {
    queue: Arc<Queue>,
    pub(crate) block: Arc<Pending>,
    pub(crate) asks_first: bool,
    is_finished: bool,
}

/// What becomes of a block after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The upstream has it.
    Uploaded,
    /// First of all, as soon as somebody is free.
    Again,
    /// After a pause.
    Later(Duration),
    /// It must go from staging.
    Over,
}

/// What there is to do for a key.
pub(crate) enum Begun {
    /// Nothing waits.
    Nothing,
    /// The caller must upload it.
    Upload(Job),
    /// Somebody is at it.
    Busy,
    /// It must go from staging.
    Over(Arc<Pending>),
}

impl Queue {
    /// Takes in a block, in place of what waits under its key. `asks_first` where the upstream may have it, or a newer one.
    pub(crate) fn add(&self, block: Pending, asks_first: bool) {
        let mut state = self.state.lock();
        state.last_number += 1;
        let number = state.last_number;
        let key = block.key.clone();
        state.totals.blocks += 1;
        state.totals.bytes += block.info.size_bytes;
        state.by_age.insert((block.info.last_modified, number));
        let old = state.remove(&key);
        let is_uploading = old.as_ref().is_some_and(|old| old.stage == Stage::Uploading);
        let asks_first = asks_first || old.is_some_and(|old| old.asks_first);
        let stage = if is_uploading { Stage::Uploading } else { Stage::Ready };
        let waiting = Waiting { block: Arc::new(block), number, stage, asks_first };
        state.blocks.entry(key.bucket().to_owned()).or_default().insert(key.key().to_owned(), waiting);
        if !is_uploading {
            state.ready.push_back(key);
        }
        drop(state);
        self.work.notify_one();
    }

    /// What waits under a key.
    pub(crate) fn get(&self, key: &BlockKey) -> Option<Arc<Pending>> {
        self.state.lock().waiting(key).map(|waiting| Arc::clone(&waiting.block))
    }

    /// Whether what waits under a key is what was stored there last, and no write of it is under way.
    pub(crate) fn is_newest(&self, key: &BlockKey) -> bool {
        let state = self.state.lock();
        state.waiting(key).is_some() && !state.held.contains_key(key)
    }

    pub(crate) fn totals(&self) -> Totals {
        self.state.lock().totals
    }

    /// When the oldest one was stored.
    pub(crate) fn oldest(&self) -> Option<SystemTime> {
        self.state.lock().by_age.first().map(|&(stored_at, _)| stored_at)
    }

    pub(crate) fn has_any_of(&self, bucket: &str) -> bool {
        self.state.lock().blocks.contains_key(bucket)
    }

    /// Shows what waits in a bucket.
    pub(crate) fn for_each(&self, bucket: &str, look: &mut dyn FnMut(&BlockKey, &Arc<ObjectInfo>)) {
        let state = self.state.lock();
        let blocks = state.blocks.get(bucket).into_iter().flat_map(BTreeMap::values);
        blocks.for_each(|waiting| look(&waiting.block.key, &waiting.block.info));
    }

    /// A listing of what waits in a bucket.
    pub(crate) fn page(&self, bucket: &str, request: &ListRequest) -> ListPage {
        let state = self.state.lock();
        let Some(blocks) = state.blocks.get(bucket) else { return ListPage::default() };
        page_of(blocks, request, |waiting| &waiting.block.info)
    }

    /// The next block to upload, when there is one; none once this is closed.
    pub(crate) async fn next(self: &Arc<Self>) -> Option<Job> {
        loop {
            let work = self.work.notified();
            let due = {
                let mut state = self.state.lock();
                if state.is_closed {
                    return None;
                }
                if let Some((block, asks_first)) = state.take() {
                    // One call may have stood for several blocks.
                    self.work.notify_one();
                    return Some(self.job(block, asks_first));
                }
                state.later.first_key_value().map(|(&(due, _), _)| due)
            };
            match due {
                Some(due) => {
                    let _ = timeout_at(due, work).await;
                }
                None => work.await,
            }
        }
    }

    /// Takes up what waits under a key, out of turn.
    pub(crate) fn begin(self: &Arc<Self>, key: &BlockKey) -> Begun {
        let mut state = self.state.lock();
        if state.held.contains_key(key) {
            return Begun::Busy;
        }
        match state.waiting(key).map(|waiting| (waiting.stage, Arc::clone(&waiting.block))) {
            None => Begun::Nothing,
            Some((Stage::Uploading, _)) => Begun::Busy,
            Some((Stage::Over, block)) => Begun::Over(block),
            Some((Stage::Ready | Stage::Later(..), block)) => {
                let asks_first = state.start(key);
                Begun::Upload(self.job(block, asks_first))
            }
        }
    }

    fn job(self: &Arc<Self>, block: Arc<Pending>, asks_first: bool) -> Job {
        Job { queue: Arc::clone(self), block, asks_first, is_finished: false }
    }

    /// Whether this version still is what waits under its key.
    pub(crate) fn is_current(&self, block: &Pending) -> bool {
        self.state.lock().current(block).is_some()
    }

    /// Whether this version still is what waits under its key, and is not to be uploaded any more.
    pub(crate) fn is_over(&self, block: &Pending) -> bool {
        self.state.lock().current(block).is_some_and(|waiting| waiting.stage == Stage::Over)
    }

    /// Looks once more, later, at a block that is not to be uploaded.
    pub(crate) fn put_off(&self, block: &Pending, pause: Duration) {
        let mut state = self.state.lock();
        if state.current(block).is_some_and(|waiting| waiting.stage == Stage::Over) {
            state.finish(block, Next::Later(pause));
        }
        drop(state);
        self.work.notify_one();
    }

    /// Forgets a block, if it still is what waits under its key.
    pub(crate) fn forget(&self, block: &Pending) {
        let mut state = self.state.lock();
        if state.current(block).is_some() {
            state.remove(&block.key);
        }
        drop(state);
        self.left();
    }

    fn left(&self) {
        self.changed.send_replace(());
        self.room.notify_one();
    }

    /// Keeps what waits under a key, and what will, from being uploaded; not what is being uploaded.
    pub(crate) fn hold(self: &Arc<Self>, key: &BlockKey) -> Held {
        *self.state.lock().held.entry(key.clone()).or_default() += 1;
        Held { queue: Arc::clone(self), key: key.clone() }
    }

    /// Waits, not too long, until there may be room for one more block.
    pub(crate) async fn room(&self, wait_max: Duration) {
        let _ = timeout(wait_max, self.room.notified()).await;
    }

    /// Somebody found room: there may be some for the next one, too.
    pub(crate) fn found_room(&self) {
        self.room.notify_one();
    }

    /// Hears of every upload that ends and every block that leaves.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Waits until nothing is left.
    pub(crate) async fn drained(&self) {
        let mut changes = self.changes();
        // Never an error: `self` holds the sender.
        while self.totals().blocks > 0 && changes.changed().await.is_ok() {}
    }

    /// No upload is begun any more.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.work.notify_waiters();
    }
}

impl Job {
    /// The attempt is over.
    pub(crate) fn finish(mut self, next: Next) {
        self.finish_as(next);
    }

    fn finish_as(&mut self, next: Next) {
        if std::mem::replace(&mut self.is_finished, true) {
            return;
        }
        self.queue.state.lock().finish(&self.block, next);
        self.queue.left();
        self.queue.work.notify_one();
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.finish_as(Next::Again);
    }
}

/// A key of which nothing is uploaded, until this is dropped.
pub(crate) struct Held {
    queue: Arc<Queue>,
    key: BlockKey,
}

impl Held {
    pub(crate) fn key(&self) -> &BlockKey {
        &self.key
    }

    /// What waits under the key, once the upload that is under way has ended; an error if that takes too long.
    pub(crate) async fn still(&self, wait_max: Duration) -> Result<Option<Arc<Pending>>, tokio::time::error::Elapsed> {
        let mut changes = self.queue.changes();
        timeout(wait_max, async {
            loop {
                let waiting = {
                    let state = self.queue.state.lock();
                    state.waiting(&self.key).map(|waiting| (waiting.stage, Arc::clone(&waiting.block)))
                };
                match waiting {
                    Some((Stage::Uploading, _)) => {
                        // Never an error: the queue is held here.
                        let _ = changes.changed().await;
                    }
                    waiting => return waiting.map(|(_, block)| block),
                }
            }
        })
        .await
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        match state.held.get_mut(&self.key) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                state.held.remove(&self.key);
            }
        }
        if let Some(waiting) = state.waiting_mut(&self.key) {
            // The write that held it may have reached the upstream without having been answered.
            waiting.asks_first = true;
            if waiting.stage == Stage::Ready {
                state.ready.push_back(self.key.clone());
            }
        }
        drop(state);
        self.queue.changed.send_replace(());
        self.queue.work.notify_one();
    }
}
