//! `write = "back"`: a PUT is acknowledged once the staging log has it, and uploaded afterwards.
//!
//! Until then reads find it in memory or in staging like any other block, listings show it, and a crash does not lose it: what
//! the log holds unuploaded is taken up again at the next start.
//!
//! Who changes a key at the upstream meanwhile holds its write lock, and either lets what waits go up first ([`Core::settle`]:
//! operations that go by what the upstream says), or keeps it down ([`Core::unstage`]: those that replace or remove it). An
//! upload under way is waited for in both cases, so that none arrives after what came after it.
//!
//! That a block was uploaded is noted in the log a moment later. What a crash keeps from being noted goes up again, if by then
//! the upstream has nothing under its key: so a delete through another gateway within that moment is undone.

mod listing;
mod put;
mod queue;
mod seen;
mod uploader;

use std::sync::Arc;
use std::time::SystemTime;

use blockgate_block::BlockKey;
use blockgate_staging::{PendingBlock, RemoveError, Staging};
use blockgate_upstream::UpstreamError;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

pub(crate) use self::listing::lay_over;
use self::queue::{Begun, Held};
pub(crate) use self::queue::{Pending, Queue};
pub(crate) use self::seen::Seen;
use crate::core::{Core, each};
use crate::limits::CALLS_AT_ONCE_MAX;
use crate::{Result, StoreError};

/// Blocks that one request takes out of staging at the same time.
pub(crate) const UNSTAGED_AT_ONCE: usize = 256;

/// What a write that replaces or removes a block keeps down. Where the write does not go through, dropping this lets it up again.
#[must_use]
pub(crate) struct Unstaged {
    /// None where nothing is ever staged.
    staging: Option<(Arc<Staging>, Held)>,
    pending: Option<Arc<Pending>>,
}

impl Core {
    /// Takes up what was acknowledged before the last start and is not yet at the upstream, and begins to upload.
    pub(crate) fn resume(self: &Arc<Self>, pending: Vec<PendingBlock>) {
        if !pending.is_empty() {
            tracing::info!(blocks = pending.len(), "staged blocks wait for their upload since the last start");
        }
        for PendingBlock { key, entry } in pending {
            self.buckets_seen.insert(key.bucket());
            let block = Pending { key, info: entry.info, tags: entry.tags, version: entry.staged.version };
            self.writeback.add(block, true);
        }
        self.begin_uploads();
    }

    /// Bytes that were acknowledged and are not yet at the upstream, whatever the write mode.
    pub(crate) fn pending_bytes(&self) -> u64 {
        self.backlog.bytes() + self.writeback.totals().bytes
    }

    /// How long the oldest block has been waiting for its upload, in seconds.
    pub(crate) fn upload_lag_seconds(&self) -> u64 {
        let age = |stored_at: SystemTime| self.upstream.now().duration_since(stored_at).unwrap_or_default();
        self.writeback.oldest().map_or(0, |stored_at| age(stored_at).as_secs())
    }

    /// To be called under the key's write lock, before the upstream is told to replace or remove an object: staging must not
    /// show what was there before, after a restart either. What waits for its upload goes only when the upstream has taken
    /// the write, by [`Unstaged::done`].
    pub(crate) async fn unstage(&self, key: &BlockKey) -> Result<Unstaged> {
        let Some(staging) = self.staging() else { return Ok(Unstaged { staging: None, pending: None }) };
        let held = self.writeback.hold(key);
        let pending = held.still(self.limits.settle_wait).await.map_err(|_| under_way())?;
        if pending.is_none() {
            staging.remove(key).await.map_err(refused)?;
        }
        Ok(Unstaged { staging: Some((Arc::clone(staging), held)), pending })
    }

    /// The same for many.
    pub(crate) async fn unstage_all(&self, keys: &[BlockKey]) -> Result<Vec<Unstaged>> {
        // All at once: one flush of the disk serves them together.
        let outcomes = each(0..keys.len(), UNSTAGED_AT_ONCE, |index| self.unstage(&keys[index])).await;
        outcomes.into_iter().collect()
    }

    /// Lets what waits under a key go up now, so that the upstream can be asked about it. The caller has the key's turn.
    ///
    /// The upstream's error where it does not take it, `Unavailable` where it takes too long.
    pub(crate) async fn settle(self: &Arc<Self>, key: &BlockKey) -> Result<()> {
        let until = Instant::now() + self.limits.settle_wait;
        let mut changes = self.writeback.changes();
        while Instant::now() < until {
            match self.writeback.begin(key) {
                Begun::Nothing => return Ok(()),
                Begun::Over(block) => self.take_out(&block).await?,
                Begun::Upload(job) => {
                    let core = Arc::clone(self);
                    let upload = tokio::spawn(async move { core.bring_up(job).await }.in_current_span());
                    // One that is abandoned or fails is tried again by itself.
                    timeout_at(until, upload).await.map_err(|_| under_way())?.map_err(|_| under_way())??;
                }
                Begun::Busy => {
                    let _ = timeout_at(until, changes.changed()).await;
                }
            }
        }
        Err(under_way())
    }

    /// The same for many keys.
    pub(crate) async fn settle_all(self: &Arc<Self>, keys: &[BlockKey]) -> Result<()> {
        let outcomes = each(0..keys.len(), CALLS_AT_ONCE_MAX, |index| self.settle(&keys[index])).await;
        outcomes.into_iter().collect()
    }

    /// The same for a key that the caller does not have the turn of: whatever was acknowledged before goes up.
    pub(crate) async fn settled(self: &Arc<Self>, key: &BlockKey) -> Result<()> {
        self.keys.settled(key).await;
        if self.writeback.get(key).is_none() {
            return Ok(());
        }
        let _turn = self.keys.turn(key).await;
        self.settle(key).await
    }

    /// An error for a key whose block waits for its upload and can't be had from staging: what the upstream has is older.
    pub(crate) fn refuse_older(&self, key: &BlockKey) -> std::result::Result<(), UpstreamError> {
        if self.writeback.is_newest(key) {
            return Err(UpstreamError::Unavailable(
                "what was stored last waits for its upload and can't be read".into(),
            ));
        }
        Ok(())
    }

    /// Takes a block that is not to be uploaded out of staging. The caller has the key's turn.
    async fn take_out(&self, block: &Pending) -> Result<()> {
        if let Some(staging) = self.staging() {
            staging.remove(&block.key).await.map_err(refused)?;
        }
        self.keys.learn(&block.key, |tiers| tiers.forget(&block.key));
        self.writeback.forget(block);
        Ok(())
    }
}

impl Unstaged {
    /// What waits for its upload.
    pub(crate) fn pending(&self) -> Option<&Arc<Pending>> {
        self.pending.as_ref()
    }

    /// The upstream has taken the write: what waited will never be uploaded, after a restart either.
    pub(crate) async fn done(self, core: &Core) -> Result<()> {
        if let (Some((staging, held)), Some(pending)) = (&self.staging, &self.pending) {
            staging.remove(held.key()).await.map_err(refused)?;
            core.writeback.forget(pending);
        }
        Ok(())
    }

    /// The same for a write that excluded nobody: what was staged meanwhile is not there any more either, unless it waits for
    /// its upload: then it comes after this write.
    pub(crate) async fn done_shared(&self, core: &Core) -> Result<()> {
        let Some((staging, held)) = &self.staging else { return Ok(()) };
        let _turn = core.keys.turn(held.key()).await;
        let version = |pending: &Option<Arc<Pending>>| pending.as_ref().map(|pending| pending.version);
        let waiting = core.writeback.get(held.key());
        if waiting.is_some() && version(&waiting) != version(&self.pending) {
            return Ok(());
        }
        staging.remove(held.key()).await.map_err(refused)?;
        if let Some(pending) = &self.pending {
            core.writeback.forget(pending);
        }
        Ok(())
    }
}

/// Nothing was changed.
pub(crate) fn refused(error: RemoveError) -> StoreError {
    tracing::warn!(%error, "a change of a staged block was refused");
    StoreError::Staging(error.0)
}

fn under_way() -> StoreError {
    StoreError::Upstream(UpstreamError::Unavailable("an upload of what was stored before is still under way".into()))
}
