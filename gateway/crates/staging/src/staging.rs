//! The log as the store sees it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use blockgate_block::{BlockBuf, BlockKey, BlockWriter, Digest};
use bytes::Bytes;
use tokio::runtime::Handle;

use crate::append::{Purpose, Refusal};
use crate::blocks::Blocks;
use crate::directory;
use crate::format::{Geometry, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
use crate::io::Io;
use crate::keeper::SEGMENTS_MIN;
use crate::log::Log;
use crate::prepare::Prepared;
use crate::recovery::{self, Recovered};
use crate::types::{
    Entry, NewBlock, OpenError, PendingBlock, PutError, ReadError, RemoveError, Settings, Staged, Stats, Summary,
    Version,
};

/// Most segments of a log: each is an open file.
const SEGMENTS_MAX: u64 = 16 << 10;

/// The time by which blocks expire: the upstream's.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Is told which block (by digest) has come (true) or gone (false). Called while the block's entry is locked: it must
/// be quick and must not call the log.
pub type Told = Arc<dyn Fn(Digest, bool) + Send + Sync>;

/// The segment log on local NVMe. It is shared by `Arc`; dropping the last one without [`Self::close`] is as a crash:
/// nothing acknowledged is lost.
pub struct Staging {
    log: Arc<Log>,
}

impl Staging {
    /// Opens the log, or creates it. Blocks the thread while it looks through the segments; to be called within a tokio
    /// runtime, where the log's tasks run from then on.
    ///
    /// `found` is shown each block that is there; `told` is told who comes and goes, of those found too. Returns what
    /// waits for its upload, oldest first.
    ///
    /// # Errors
    /// When another process has it, when the settings don't fit what is there, or when the directory can't be read.
    pub fn open(
        settings: Settings,
        clock: Clock,
        told: Told,
        found: &mut dyn FnMut(Digest, Summary),
    ) -> Result<(Arc<Self>, Vec<PendingBlock>), OpenError> {
        let io = Io::start(settings.engine);
        let io = io.map_err(|source| OpenError::Io { path: settings.path.clone(), source })?;
        Self::open_with(settings, io, clock, told, found)
    }

    /// The same, with an engine of the caller's: for tests.
    ///
    /// # Errors
    /// As [`Self::open`].
    #[doc(hidden)]
    pub fn open_with(
        settings: Settings,
        io: Io,
        clock: Clock,
        told: Told,
        found: &mut dyn FnMut(Digest, Summary),
    ) -> Result<(Arc<Self>, Vec<PendingBlock>), OpenError> {
        let geometry = check(&settings)?;
        let runtime = Handle::try_current().map_err(|error| OpenError::Settings(error.to_string()))?;
        let failed = |source| OpenError::Io { path: settings.path.clone(), source };
        directory::create(&settings.path).map_err(failed)?;
        let lock = directory::lock(&settings.path)?;
        let blocks = Blocks::new(told);
        let recovered = recovery::recover(&settings.path, geometry, &blocks, found)?;
        let Recovered { stock, closed, pending, id, damaged } = recovered;
        let log = Arc::new(Log::new(settings, geometry, io, clock, runtime, id, lock, blocks));
        log.counters.corrupt.store(damaged, Ordering::Relaxed);
        log.appender.lock().closed = closed;
        log.start(stock);
        Ok((Arc::new(Self { log }), pending))
    }

    /// Stages a block. It is durable when this returns. Dropped midway, it happened whole or not at all.
    ///
    /// # Errors
    /// When the block is not staged; see [`PutError`].
    pub async fn put(&self, block: NewBlock) -> Result<Version, PutError> {
        let log = &self.log;
        let prepared = Prepared::new(&block, log.geometry)?;
        let digest = block.key.digest();
        if !block.pending && !log.budget.spend(digest, prepared.disk_bytes(), log.opened.elapsed()) {
            log.counters.refused.fetch_add(1, Ordering::Relaxed);
            return Err(PutError::Budget);
        }
        log.offers.withdraw(digest);
        // Closed by nobody.
        let permit = Arc::clone(&log.puts).acquire_owned().await.ok();
        let answer = match log.append_when_room(&prepared, Purpose::Put, permit).await {
            Ok(answer) => answer.await.unwrap_or_else(|_| Err(PutError::Off("it was closed".to_owned()))),
            Err(Refusal::Put(error)) => Err(error),
            Err(Refusal::NoRoom | Refusal::Superseded) => Err(PutError::Full),
        };
        if answer.is_err() {
            log.counters.refused.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }

    /// Offers a block that the upstream has. It may be refused for want of room or of budget; nothing waits.
    pub fn offer(&self, block: NewBlock) {
        self.log.offer(block);
    }

    /// Lets offers that wait to be written keep no more than so many bytes in memory.
    pub fn bound_offers(&self, bytes: u64) {
        self.log.offers.bound(bytes);
    }

    /// What is known of a block without the disk.
    #[must_use]
    pub fn find(&self, digest: Digest) -> Option<Staged> {
        self.log.blocks.find(digest).map(|found| found.staged())
    }

    /// What a block is, without its bytes: one page read.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn describe(&self, key: &BlockKey) -> Result<Option<Entry>, ReadError> {
        self.log.describe(key).await
    }

    /// A block, read into a slot that `allocate` gives for its length, and checked.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read(
        &self,
        key: &BlockKey,
        allocate: impl FnOnce(u64) -> Option<BlockWriter> + Send,
    ) -> Result<Option<(Entry, BlockBuf)>, ReadError> {
        self.log.read(key, allocate).await
    }

    /// Part of a block, checked. The range is cut to the block.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read_range(&self, key: &BlockKey, range: Range<u64>) -> Result<Option<(Entry, Bytes)>, ReadError> {
        self.log.read_range(key, range).await
    }

    /// Takes a block out, durably. A block that isn't there is no error.
    ///
    /// # Errors
    /// When it can't be made durable: after a restart the block might be found again.
    pub async fn remove(&self, key: &BlockKey) -> Result<(), RemoveError> {
        let (log, digest) = (Arc::clone(&self.log), key.digest());
        log.offers.withdraw(digest);
        if log.is_without(digest) {
            return Ok(());
        }
        // A task: whoever asked may go, and half of it must not remain.
        self.log.whole(async move { log.remove(digest).await }).await
    }

    /// Notes, durably, that a block's description changed at the upstream: only its bytes still hold.
    ///
    /// # Errors
    /// When it can't be made durable.
    pub async fn amend(&self, key: &BlockKey) -> Result<(), RemoveError> {
        let (log, digest) = (Arc::clone(&self.log), key.digest());
        // What was offered no longer is what it is.
        log.offers.withdraw(digest);
        if log.is_without(digest) {
            return Ok(());
        }
        self.log.whole(async move { log.amend(digest).await }).await
    }

    /// The upstream has this version now. Another version of the block is left as it is.
    pub fn uploaded(&self, key: &BlockKey, version: Version) {
        self.log.uploaded(key, version);
    }

    /// How it stands.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.log.stats()
    }

    /// How it is kept.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.log.settings
    }

    /// Writes what is unwritten and seals the log. Nothing can be put afterwards.
    pub async fn close(&self) {
        self.log.close().await;
    }
}

impl fmt::Debug for Staging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Staging({})", self.log.settings.path.display())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.log.stop();
    }
}

/// The geometry of segments, where settings make sense.
fn check(settings: &Settings) -> Result<Geometry, OpenError> {
    let Settings { capacity_bytes, segment_bytes, .. } = settings;
    let wrong = |text: String| Err(OpenError::Settings(text));
    let Some(geometry) = Geometry::new(*segment_bytes) else {
        return wrong(format!(
            "segments of {segment_bytes} bytes: accepted are multiples of 4 KiB from {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}"
        ));
    };
    match capacity_bytes / segment_bytes {
        ..SEGMENTS_MIN => wrong(format!(
            "a capacity of {capacity_bytes} bytes holds fewer than {SEGMENTS_MIN} segments of {segment_bytes} bytes"
        )),
        SEGMENTS_MIN..=SEGMENTS_MAX => Ok(geometry),
        segments => {
            wrong(format!("{segments} segments are too many, at most {SEGMENTS_MAX} are accepted: take larger ones"))
        }
    }
}
