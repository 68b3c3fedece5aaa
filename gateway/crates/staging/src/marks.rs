//! What happens to records after they were written: removals, changes, uploads; and making it durable.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use blockgate_block::{BlockKey, Digest};
use futures::StreamExt;

use crate::format::state::Mark;
use crate::life::Life;
use crate::log::Log;
use crate::types::{RemoveError, Version};

/// How long marks gather that nobody waits for. One that a crash loses is set again.
const FLUSH_AFTER: Duration = Duration::from_millis(100);

/// Segments whose marks are written at the same time.
const FLUSHES_MAX: usize = 16;

impl Log {
    /// Whether nothing is known of a block: it neither is here, nor on its way, nor may a start find it. What is
    /// offered of it must have been withdrawn.
    pub(crate) fn is_without(&self, digest: Digest) -> bool {
        let is_known = {
            let appender = self.appender.lock();
            appender.is_under_way(digest) || appender.ghosts.contains(&digest)
        };
        !is_known && !self.blocks.contains(digest)
    }

    /// Takes a block out for good. Must not be dropped midway.
    pub(crate) async fn remove(&self, digest: Digest) -> Result<(), RemoveError> {
        self.hold(digest).await;
        let removed = self.remove_held(digest).await;
        self.unhold(digest);
        removed.map_err(|error| {
            self.fail("marking", &error);
            RemoveError(error.to_string())
        })
    }

    async fn remove_held(&self, digest: Digest) -> io::Result<()> {
        if self.appender.lock().ghosts.contains(&digest) {
            self.seal_closed().await?;
        }
        let Some(found) = self.blocks.find(digest) else { return Ok(()) };
        let (life, page) = (&found.life, found.place.page);
        let change = life.mark(page, Mark::Dead, true);
        if let Err(error) = life.flush(&self.io, change).await {
            // It is refused: the block stays, and the disk is told so when it can be told anything.
            life.mark(page, Mark::Dead, false);
            return Err(error);
        }
        self.blocks.remove(digest, life.number(), page, false);
        self.signals.keeper.notify_one();
        Ok(())
    }

    /// Notes for good that only a block's bytes hold. Must not be dropped midway.
    pub(crate) async fn amend(&self, digest: Digest) -> Result<(), RemoveError> {
        self.hold(digest).await;
        let amended = match self.blocks.amend(digest) {
            Some((life, change)) => life.flush(&self.io, change).await,
            None => Ok(()),
        };
        self.unhold(digest);
        amended.map_err(|error| {
            self.fail("marking", &error);
            RemoveError(error.to_string())
        })
    }

    /// The upstream has this version.
    pub(crate) fn uploaded(&self, key: &BlockKey, version: Version) {
        if self.blocks.settle(key.digest(), version) {
            self.signals.flusher.notify_one();
            self.signals.keeper.notify_one();
        }
    }

    /// Writes, after a while, the marks that nobody waits for.
    pub(crate) async fn run_flusher(self: Arc<Self>) {
        while self.is_signalled(self.signals.flusher.notified()).await {
            if !self.is_signalled(tokio::time::sleep(FLUSH_AFTER)).await {
                return;
            }
            let wanted = self.blocks.lives().into_iter().filter(|life| life.take_flush_wanted());
            if let Err(error) = self.flush(unflushed(wanted)).await {
                self.fail("marking", &error);
            }
        }
    }

    /// Makes all marks durable.
    pub(crate) async fn flush_all(&self) -> io::Result<()> {
        self.flush(unflushed(self.blocks.lives().into_iter())).await
    }

    /// Makes marks durable: of each life, up to a change.
    pub(crate) async fn flush(&self, marked: Vec<(Arc<Life>, u64)>) -> io::Result<()> {
        let flush = async |(life, change): (Arc<Life>, u64)| life.flush(&self.io, change).await;
        let mut outcomes = futures::stream::iter(marked).map(flush).buffer_unordered(FLUSHES_MAX);
        let mut outcome = Ok(());
        while let Some(one) = outcomes.next().await {
            outcome = outcome.and(one);
        }
        outcome
    }

    /// Writes the footers that are due. Records that were given up can't be found by a start any more thereafter.
    pub(crate) async fn seal_closed(&self) -> io::Result<()> {
        let _sealing = self.sealing.lock().await;
        let closed: Vec<_> = self.appender.lock().closed.clone();
        for life in closed.iter().filter(|life| life.is_to_be_sealed()) {
            life.seal(&self.io).await?;
            let mut appender = self.appender.lock();
            appender.closed.retain(|other| !Arc::ptr_eq(life, other));
            if appender.closed.is_empty() {
                appender.ghosts.clear();
            }
        }
        Ok(())
    }
}

fn unflushed(lives: impl Iterator<Item = Arc<Life>>) -> Vec<(Arc<Life>, u64)> {
    lives.filter_map(|life| life.unflushed().map(|change| (life, change))).collect()
}
