//! The table behind the queue: what waits, in which stage, and in which order.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;

use blockgate_block::BlockKey;
use tokio::time::Instant;

use super::{Next, Pending, Totals};

#[derive(Default)]
pub(super) struct State {
    pub(super) blocks: HashMap<String, BTreeMap<String, Waiting>>,
    /// Whose turn it is, some of them gone or held back by now.
    pub(super) ready: VecDeque<BlockKey>,
    /// Whose turn comes later.
    pub(super) later: BTreeMap<(Instant, u64), BlockKey>,
    /// Keys that writes are at: nothing of theirs is uploaded meanwhile.
    pub(super) held: HashMap<BlockKey, usize>,
    pub(super) by_age: BTreeSet<(SystemTime, u64)>,
    pub(super) totals: Totals,
    pub(super) last_number: u64,
    pub(super) is_closed: bool,
}

pub(super) struct Waiting {
    pub(super) block: Arc<Pending>,
    pub(super) number: u64,
    pub(super) stage: Stage,
    /// Something of it, or newer than it, may be at the upstream.
    pub(super) asks_first: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Ready,
    Later(Instant, u64),
    Uploading,
    /// It is not to be uploaded any more, and still staged.
    Over,
}

impl State {
    pub(super) fn waiting(&self, key: &BlockKey) -> Option<&Waiting> {
        self.blocks.get(key.bucket())?.get(key.key())
    }

    /// This version, if it still is what waits under its key.
    pub(super) fn current(&self, block: &Pending) -> Option<&Waiting> {
        self.waiting(&block.key).filter(|waiting| waiting.block.version == block.version)
    }

    pub(super) fn waiting_mut(&mut self, key: &BlockKey) -> Option<&mut Waiting> {
        self.blocks.get_mut(key.bucket())?.get_mut(key.key())
    }

    pub(super) fn remove(&mut self, key: &BlockKey) -> Option<Waiting> {
        let blocks = self.blocks.get_mut(key.bucket())?;
        let removed = blocks.remove(key.key())?;
        if blocks.is_empty() {
            self.blocks.remove(key.bucket());
        }
        if let Stage::Later(due, number) = removed.stage {
            self.later.remove(&(due, number));
        }
        self.by_age.remove(&(removed.block.info.last_modified, removed.number));
        self.totals.blocks -= 1;
        self.totals.bytes -= removed.block.info.size_bytes;
        Some(removed)
    }

    /// The block whose turn it is.
    pub(super) fn take(&mut self) -> Option<(Arc<Pending>, bool)> {
        let now = Instant::now();
        while let Some((&(due, number), _)) = self.later.first_key_value()
            && due <= now
            && let Some(key) = self.later.remove(&(due, number))
        {
            self.make_ready(&key);
        }
        while let Some(key) = self.ready.pop_front() {
            let Some(waiting) = self.waiting(&key) else { continue };
            if waiting.stage == Stage::Ready && !self.held.contains_key(&key) {
                let block = Arc::clone(&waiting.block);
                let asks_first = self.start(&key);
                return Some((block, asks_first));
            }
        }
        None
    }

    pub(super) fn make_ready(&mut self, key: &BlockKey) {
        if let Some(waiting) = self.waiting_mut(key) {
            waiting.stage = Stage::Ready;
            self.ready.push_back(key.clone());
        }
    }

    /// An upload begins; whether the upstream is to be asked first.
    pub(super) fn start(&mut self, key: &BlockKey) -> bool {
        let Some(waiting) = self.waiting_mut(key) else { return false };
        let (stage, asks_first) = (std::mem::replace(&mut waiting.stage, Stage::Uploading), waiting.asks_first);
        if let Stage::Later(due, number) = stage {
            self.later.remove(&(due, number));
        }
        asks_first
    }

    pub(super) fn finish(&mut self, block: &Pending, next: Next) {
        let Some(waiting) = self.waiting_mut(&block.key) else { return };
        if waiting.block.version != block.version {
            // Overwritten meanwhile: the upstream may have what it overwrote, which is no reason to ask.
            self.make_ready(&block.key);
            return;
        }
        let number = waiting.number;
        match next {
            Next::Uploaded => {
                self.remove(&block.key);
            }
            Next::Again => {
                (waiting.stage, waiting.asks_first) = (Stage::Ready, true);
                self.ready.push_front(block.key.clone());
            }
            Next::Later(pause) => {
                let due = Instant::now() + pause;
                (waiting.stage, waiting.asks_first) = (Stage::Later(due, number), true);
                self.later.insert((due, number), block.key.clone());
            }
            Next::Over => waiting.stage = Stage::Over,
        }
    }
}
