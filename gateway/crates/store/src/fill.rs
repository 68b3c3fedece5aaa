//! Single flight: one read of staging, or one GET of the upstream, for any number of readers of a cold block.
//!
//! The first reader begins a [`FillTask`], which outlives it. A staged block comes in one piece, read by the disk into an
//! arena slot and found sound before anyone sees it. Else the task appends what the upstream sends to an arena slot;
//! every reader, also one of a range, takes from the slot what has arrived, without a copy. The last bytes of every reply
//! wait until the whole block has the checksum that it was stored with, so that a corrupt block never completes.

use std::ops::Range;
use std::sync::Arc;

use blockgate_block::{BlockBuf, BlockKey, BlockReader, BlockWriter, Crc64Hasher, ObjectInfo, Tier};
use blockgate_upstream::{BodyError, ByteStream, Conditions, UpstreamError};
use bytes::Bytes;
use futures::StreamExt;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::conditions::is_expired;
use crate::core::Core;
use crate::deadline::Deadline;
use crate::keys::Reading;
use crate::limits::{HELD_BACK_BYTES, RESUMES_MAX};
use crate::staged::FromStaging;

/// A fill under way; cheap to clone.
#[derive(Clone)]
pub(crate) struct Fill {
    state: watch::Receiver<FillState>,
}

/// How far a fill has come.
#[derive(Clone)]
pub(crate) enum FillState {
    /// Neither staging nor the upstream has answered.
    Asking,
    /// Bytes arrive.
    Arriving(Arrival),
    /// All bytes are there, and sound.
    Whole(Arrival),
    /// The object is there but not for memory: too large, or no room. Readers must go past the tiers.
    Unfit(Arc<ObjectInfo>),
    /// There is nothing to serve.
    Failed(FillError),
}

/// A block that arrives in memory.
#[derive(Clone)]
pub(crate) struct Arrival {
    pub(crate) info: Arc<ObjectInfo>,
    /// Where it comes from.
    pub(crate) tier: Tier,
    reader: BlockReader,
}

/// Why nothing can be served.
#[derive(Clone, Debug)]
pub(crate) enum FillError {
    Upstream(UpstreamError),
    Expired,
    Corrupt,
}

impl Fill {
    pub(crate) fn new(state: watch::Receiver<FillState>) -> Self {
        Self { state }
    }

    /// What the object is, if the upstream has answered.
    pub(crate) fn info(&self) -> Option<Arc<ObjectInfo>> {
        match &*self.state.borrow() {
            FillState::Arriving(arrival) | FillState::Whole(arrival) => Some(Arc::clone(&arrival.info)),
            FillState::Unfit(info) => Some(Arc::clone(info)),
            FillState::Asking | FillState::Failed(_) => None,
        }
    }

    /// Waits for the upstream's answer.
    pub(crate) async fn answered(&mut self) -> FillState {
        self.wait(|state| !matches!(state, FillState::Asking)).await
    }

    /// Waits until all bytes are there, or never will be.
    pub(crate) async fn settled(&mut self) -> FillState {
        self.wait(|state| !matches!(state, FillState::Asking | FillState::Arriving(_))).await
    }

    async fn wait(&mut self, until: impl FnMut(&FillState) -> bool) -> FillState {
        match self.state.wait_for(until).await {
            Ok(state) => state.clone(),
            Err(_) => FillState::Failed(abandoned()),
        }
    }

    /// Bytes of the block as they arrive.
    pub(crate) fn stream(self, arrival: Arrival, range: Range<u64>, deadline: Deadline) -> ByteStream {
        let cursor = Cursor { fill: self, reader: arrival.reader, next: range.start, end: range.end, deadline };
        Box::pin(futures::stream::try_unfold(cursor, |mut cursor| async move {
            let bytes = cursor.next().await?;
            Ok(bytes.map(|bytes| (bytes, cursor)))
        }))
    }
}

impl Arrival {
    /// Bytes that have arrived.
    pub(crate) fn slice(&self, range: Range<u64>) -> Option<Bytes> {
        self.reader.slice(range)
    }
}

/// The task of a fill is gone without a word: the runtime shuts down.
fn abandoned() -> FillError {
    FillError::Upstream(UpstreamError::Unavailable("the read was abandoned".into()))
}

/// One reader's place in a block that arrives.
struct Cursor {
    fill: Fill,
    reader: BlockReader,
    next: u64,
    end: u64,
    deadline: Deadline,
}

impl Cursor {
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            if self.next == self.end {
                return Ok(None);
            }
            let free_to_go = match &*self.fill.state.borrow_and_update() {
                FillState::Whole(_) => self.end,
                FillState::Arriving(_) => self.reader.published_bytes().min(self.end.saturating_sub(HELD_BACK_BYTES)),
                FillState::Failed(error) => return Err(error.clone().into()),
                FillState::Asking | FillState::Unfit(_) => self.next,
            };
            if self.next < free_to_go {
                let bytes = self.reader.slice(self.next..free_to_go).ok_or(BodyError::Stalled)?;
                self.next = free_to_go;
                return Ok(Some(bytes));
            }
            match self.deadline.bound(self.fill.state.changed()).await {
                Some(Ok(())) => {}
                Some(Err(_)) => return Err(abandoned().into()),
                None => return Err(BodyError::Stalled),
            }
        }
    }
}

impl From<FillError> for BodyError {
    fn from(error: FillError) -> Self {
        match error {
            FillError::Corrupt => Self::Corrupt,
            FillError::Expired => Self::Cut("the block has expired".into()),
            FillError::Upstream(error) => Self::Cut(error.to_string()),
        }
    }
}

/// Brings one object to memory: from staging, or else from the upstream.
pub(crate) struct FillTask {
    pub(crate) core: Arc<Core>,
    pub(crate) max_block_bytes: u64,
    /// What the object was when it was last seen, if it was.
    pub(crate) known: Option<Arc<ObjectInfo>>,
    pub(crate) reading: Reading,
    pub(crate) state: watch::Sender<FillState>,
}

/// How a fill ended well.
enum Filled {
    Whole(Arrival, BlockBuf),
    Unfit(Arc<ObjectInfo>),
}

impl FillTask {
    pub(crate) async fn run(self) {
        let key = self.reading.key().clone();
        let outcome = self.fill(&key).await;
        let Self { core, reading, state, .. } = self;
        match outcome {
            Ok(Filled::Whole(arrival, block)) => {
                // Memory first: a reader that no longer finds the fill must find the block.
                reading.remember(|tiers| {
                    tiers.install(&key, &arrival.info, Some(block.clone()));
                    if arrival.tier == Tier::Upstream {
                        tiers.offer(&key, &arrival.info, &block);
                    }
                });
                state.send_replace(FillState::Whole(arrival));
            }
            Ok(Filled::Unfit(info)) => {
                reading.remember(|tiers| tiers.install(&key, &info, None));
                state.send_replace(FillState::Unfit(info));
            }
            Err(error) => {
                match &error {
                    FillError::Upstream(UpstreamError::NoSuchKey) => core.learn_absent(&reading),
                    FillError::Corrupt => {
                        core.metrics.corrupt(Tier::Upstream.as_str());
                        tracing::error!(%key, "the upstream's bytes are not those that were stored");
                        reading.remember(|tiers| tiers.forget(&key));
                    }
                    FillError::Upstream(_) | FillError::Expired => {}
                }
                // Off the table first: nobody who comes later is to share a failure.
                drop(reading);
                state.send_replace(FillState::Failed(error));
            }
        }
    }

    async fn fill(&self, key: &BlockKey) -> Result<Filled, FillError> {
        match self.core.fill_staged(key, self.max_block_bytes, |len_bytes| self.allocate(len_bytes)).await? {
            FromStaging::Block(info, block) => {
                self.refuse_expired(key, &info)?;
                let arrival = Arrival { info, tier: Tier::Staging, reader: block.reader() };
                Ok(Filled::Whole(arrival, block))
            }
            FromStaging::NoRoom(info) => Ok(Filled::Unfit(info)),
            FromStaging::Nothing => {
                self.core.refuse_older(key)?;
                self.fill_from_upstream(key).await
            }
        }
    }

    fn refuse_expired(&self, key: &BlockKey, info: &Arc<ObjectInfo>) -> Result<(), FillError> {
        if !is_expired(info, self.core.upstream.now()) {
            return Ok(());
        }
        self.reading.remember(|tiers| tiers.install(key, info, None));
        Err(FillError::Expired)
    }

    async fn fill_from_upstream(&self, key: &BlockKey) -> Result<Filled, FillError> {
        // Room first, where its size is known: what finds none is not to be asked for twice.
        let room = match &self.known {
            Some(info) => match self.allocate(info.size_bytes) {
                Some(slot) => Some(slot),
                None => return Ok(Filled::Unfit(Arc::clone(info))),
            },
            None => None,
        };
        let any = Conditions::default();
        let asked = Instant::now();
        let get = self.core.upstream.get(key.bucket(), key.key(), None, &any);
        let reply = timeout(self.core.limits.first_byte, get).await.map_err(|_| silent("answer"))??;
        self.core.speeds.answered(asked.elapsed());
        let (answered, arriving) = (Instant::now(), self.core.speeds.arriving());
        let info = Arc::new(reply.info);
        self.refuse_expired(key, &info)?;
        if info.size_bytes > self.max_block_bytes {
            return Ok(Filled::Unfit(info));
        }
        let room = room.filter(|slot| slot.capacity() == info.size_bytes);
        let Some(mut slot) = room.or_else(|| self.allocate(info.size_bytes)) else {
            return Ok(Filled::Unfit(info));
        };
        let arrival = Arrival { info: Arc::clone(&info), tier: Tier::Upstream, reader: slot.reader() };
        self.state.send_replace(FillState::Arriving(arrival.clone()));
        let mut hasher = Crc64Hasher::default();
        let mut body = reply.body;
        let mut resumes = 0;
        while let Err(error) = self.take_in(&mut body, &mut slot, &mut hasher).await {
            if resumes == RESUMES_MAX || slot.len() == slot.capacity() || matches!(error, FillError::Corrupt) {
                return Err(error);
            }
            resumes += 1;
            tracing::debug!(%key, at = slot.len(), ?error, "asking the upstream for the rest of a body that was cut");
            body = self.rest(key, &info, slot.len()).await?;
        }
        let sound = info.crc64().is_none_or(|expected| expected == hasher.finish());
        match slot.finish() {
            Ok(block) if sound => {
                if resumes == 0 {
                    arriving.whole(block.len(), answered.elapsed());
                }
                Ok(Filled::Whole(arrival, block))
            }
            Ok(_) => Err(FillError::Corrupt),
            Err(_) => Err(cut("shorter than announced")),
        }
    }

    fn allocate(&self, len_bytes: u64) -> Option<BlockWriter> {
        let slot = self.reading.tiers().allocate(len_bytes);
        if slot.is_none() {
            self.core.metrics.limit_hit("memory.capacity");
        }
        slot
    }

    /// Appends a body to the slot, up to its end.
    async fn take_in(
        &self,
        body: &mut ByteStream,
        slot: &mut BlockWriter,
        hasher: &mut Crc64Hasher,
    ) -> Result<(), FillError> {
        loop {
            match timeout(self.core.limits.between_chunks, body.next()).await {
                Ok(Some(Ok(bytes))) => {
                    slot.append(&bytes).map_err(|_| cut("longer than announced"))?;
                    hasher.update(&bytes);
                    self.state.send_modify(|_| {});
                }
                Ok(Some(Err(BodyError::Corrupt))) => return Err(FillError::Corrupt),
                Ok(Some(Err(error))) => return Err(cut(&error.to_string())),
                Ok(None) if slot.len() < slot.capacity() => return Err(cut("shorter than announced")),
                Ok(None) => return Ok(()),
                Err(_) => return Err(silent("further byte")),
            }
        }
    }

    /// The body from `from` on, of the same object.
    async fn rest(&self, key: &BlockKey, info: &ObjectInfo, from: u64) -> Result<ByteStream, FillError> {
        let same = Conditions { if_match: Some(info.upstream_etag.clone()), ..Conditions::default() };
        let get = self.core.upstream.get(key.bucket(), key.key(), Some(from..info.size_bytes), &same);
        let reply = timeout(self.core.limits.first_byte, get).await.map_err(|_| silent("answer"))??;
        if reply.range == (from..info.size_bytes) { Ok(reply.body) } else { Err(cut("another range than asked for")) }
    }
}

impl From<UpstreamError> for FillError {
    fn from(error: UpstreamError) -> Self {
        match error {
            // Metadata that can't be read describes no block that can be served.
            UpstreamError::Damaged(_) => Self::Corrupt,
            error => Self::Upstream(error),
        }
    }
}

fn cut(what: &str) -> FillError {
    FillError::Upstream(UpstreamError::Unavailable(format!("the body was {what}")))
}

fn silent(what: &str) -> FillError {
    FillError::Upstream(UpstreamError::Unavailable(format!("no {what} in time")))
}
