//! The log as the store sees it.

use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use blockgate_block::{BlockBuf, BlockKey, BlockWriter, Digest};
use bytes::Bytes;

use crate::types::{
    Entry, NewBlock, OpenError, PendingBlock, PutError, ReadError, RemoveError, Settings, Staged, Stats, Summary,
    Version,
};

/// The time by which blocks expire: the upstream's.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Is told which block (by digest) has come (true) or gone (false). Called while the block's entry is locked: it must be
/// quick and must not call the log.
pub type Told = Arc<dyn Fn(Digest, bool) + Send + Sync>;

/// The segment log on local NVMe. It is shared by `Arc`; dropping the last one without [`Self::close`] is as a crash:
/// nothing acknowledged is lost.
pub struct Staging {
    settings: Settings,
}

impl Staging {
    /// Opens the log, or creates it. Blocks the thread while it looks through the segments.
    ///
    /// `found` is shown each block that is there; `told` is told afterwards who comes and goes. Returns what waits for its
    /// upload, oldest first.
    ///
    /// # Errors
    /// When another process has it, when the settings don't fit what is there, or when the directory can't be read.
    pub fn open(
        settings: Settings,
        _clock: Clock,
        _told: Told,
        _found: &mut dyn FnMut(Digest, Summary),
    ) -> Result<(Arc<Self>, Vec<PendingBlock>), OpenError> {
        Ok((Arc::new(Self { settings }), Vec::new()))
    }

    /// Stages a block. It is durable when this returns. Dropped midway, it happened whole or not at all.
    ///
    /// # Errors
    /// When the block is not staged; see [`PutError`].
    pub async fn put(&self, _block: NewBlock) -> Result<Version, PutError> {
        Err(PutError::Off("not there yet".into()))
    }

    /// Offers a block that the upstream has. It may be refused for want of room or of budget; nothing waits.
    pub fn offer(&self, _block: NewBlock) {}

    /// What is known of a block without the disk.
    #[must_use]
    pub fn find(&self, _digest: Digest) -> Option<Staged> {
        None
    }

    /// What a block is, without its bytes: one page read.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn describe(&self, _key: &BlockKey) -> Result<Option<Entry>, ReadError> {
        Ok(None)
    }

    /// A block, read into a slot that `allocate` gives for its length, and checked.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read(
        &self,
        _key: &BlockKey,
        _allocate: impl FnOnce(u64) -> Option<BlockWriter> + Send,
    ) -> Result<Option<(Entry, BlockBuf)>, ReadError> {
        Ok(None)
    }

    /// Part of a block, checked. The range is cut to the block.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read_range(&self, _key: &BlockKey, _range: Range<u64>) -> Result<Option<(Entry, Bytes)>, ReadError> {
        Ok(None)
    }

    /// Takes a block out, durably. A block that isn't there is no error.
    ///
    /// # Errors
    /// When it can't be made durable: after a restart the block might be found again.
    pub async fn remove(&self, _key: &BlockKey) -> Result<(), RemoveError> {
        Ok(())
    }

    /// Notes, durably, that a block's description changed at the upstream: only its bytes still hold.
    ///
    /// # Errors
    /// When it can't be made durable.
    pub async fn amend(&self, _key: &BlockKey) -> Result<(), RemoveError> {
        Ok(())
    }

    /// The upstream has this version now. Another version of the block is left as it is.
    pub fn uploaded(&self, _key: &BlockKey, _version: Version) {}

    /// How it stands.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats { capacity_bytes: self.settings.capacity_bytes, ..Stats::default() }
    }

    /// How it is kept.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Writes what is unwritten and seals the log. Nothing can be put afterwards.
    pub async fn close(&self) {}
}
