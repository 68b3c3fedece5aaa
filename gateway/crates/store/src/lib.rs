//! The one place that orchestrates: index → memory → staging → upstream.
//!
//! Knows no HTTP. Both faces speak to [`Store`].
#![forbid(unsafe_code)]

mod body;
mod buckets;
mod chain;
mod commits;
mod conditions;
mod copy;
mod core;
mod deadline;
mod direct;
mod error;
mod fill;
mod group;
mod grouped;
mod keys;
mod limits;
mod list;
mod multipart;
mod observed;
mod parts;
mod passthrough;
mod pending;
mod policy;
mod read;
mod remove;
mod request;
mod staged;
mod sweep;
mod tiers;
mod touch;
mod ttl;
mod uploads;
mod write;
mod writeback;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use blockgate_block::{Arena, BlockKey, KeyList, RESERVED_PREFIX, Tier};
use blockgate_telemetry::Metrics;
use blockgate_tier::memory::MemoryStats;
use blockgate_upstream::{ListPage, ListRequest, PartList, Payload, UploadList, UploadListRequest, Upstream};

pub use blockgate_staging::{
    Engine as StagingEngine, OpenError as StagingError, Settings as StagingSettings, Stats as StagingStats,
};
pub use body::TakenIn;
pub use chain::{ChainMatch, ChainRequest, ChainStats, TierSpeed, Whole};
pub use error::{Result, StoreError};
pub use limits::Limits;
pub use policy::{BucketPolicies, BucketPolicy, Mode, OnUpstreamError, WriteMode};
pub use request::{
    Body, CompletePart, CopyObject, Found, PartCopy, RangeSpec, ReadRequest, Served, WriteRequest, Written,
};

use crate::core::Core;

/// What a store is made of.
pub struct StoreParts {
    /// The shared store.
    pub upstream: Arc<dyn Upstream>,
    /// Where memory blocks lie.
    pub arena: Arena,
    /// Most entries of the index.
    pub index_entries: u64,
    /// How long an absence is remembered.
    pub negative_ttl: Duration,
    /// Settings by bucket name.
    pub policies: BucketPolicies,
    /// Where outcomes are counted.
    pub metrics: Metrics,
}

/// Blocks, wherever they are.
///
/// A read that begins after a write through this store was acknowledged sees that write or a later one. A read or a write
/// that is dropped midway leaves nothing half done: what has begun at the upstream is carried to its end.
pub struct Store {
    core: Arc<Core>,
}

/// Every operation may fail with [`StoreError::Upstream`]; what else each may answer is said at it.
impl Store {
    /// A store with the limits that suit its arena. Must be called within a tokio runtime.
    #[must_use]
    pub fn new(parts: StoreParts) -> Arc<Self> {
        let limits = Limits::for_arena(parts.arena.stats().capacity_bytes);
        Self::with_limits(parts, limits)
    }

    /// A store with other limits.
    #[must_use]
    pub fn with_limits(parts: StoreParts, limits: Limits) -> Arc<Self> {
        Arc::new(Self { core: Core::new(parts, limits) })
    }

    /// The shared store, its calls timed and counted.
    #[must_use]
    pub fn upstream(&self) -> &Arc<dyn Upstream> {
        &self.core.upstream
    }

    /// The settings of a bucket.
    #[must_use]
    pub fn policy(&self, bucket: &str) -> &BucketPolicy {
        self.core.policy(bucket)
    }

    /// What memory holds.
    #[must_use]
    pub fn memory_stats(&self) -> MemoryStats {
        self.core.tiers().memory().stats()
    }

    /// Blocks that the index knows.
    #[must_use]
    pub fn index_len(&self) -> u64 {
        self.core.tiers().index().len()
    }

    /// Bytes that were acknowledged and are not yet at the upstream (`write = "back"` and `write = "async"`).
    #[must_use]
    pub fn pending_bytes(&self) -> u64 {
        self.core.pending_bytes()
    }

    /// Of them, those that memory alone has (`write = "async"`): the end of the process is theirs.
    #[must_use]
    pub fn unprotected_bytes(&self) -> u64 {
        self.core.backlog.bytes()
    }

    /// Blocks that were acknowledged (`write = "back"`) and could never be uploaded, since the start.
    #[must_use]
    pub fn lost_blocks(&self) -> u64 {
        self.core.writeback.lost.load(Ordering::Relaxed)
    }

    /// Waits for uploads that were acknowledged before they were made. What `write = "back"` acknowledged is not lost where
    /// this is not waited for: the next start takes it up.
    pub async fn drain(&self) {
        self.core.backlog.drained().await;
        self.core.writeback.drained().await;
    }

    /// Reads an object.
    ///
    /// # Errors
    /// [`StoreError::Miss`] where there is no block to serve in time, conditions that fail, a range beyond the end.
    /// A body that has begun may still end with [`blockgate_upstream::BodyError`]: `Corrupt` where the bytes are not
    /// those that were stored, `Stalled` where nothing came for too long or the deadline passed.
    pub async fn get(&self, key: &BlockKey, request: ReadRequest) -> Result<Served> {
        self.core.get(key, &request).await
    }

    /// Reads a block that is at hand, without waiting; none where it isn't, or where the request must be judged by
    /// [`Self::get`].
    #[must_use]
    pub fn get_held(&self, key: &BlockKey, request: &ReadRequest) -> Option<Served> {
        self.core.get_held(key, request)
    }

    /// Describes a block that is at hand, as [`Self::get_held`].
    #[must_use]
    pub fn head_held(&self, key: &BlockKey, request: &ReadRequest) -> Option<Found> {
        self.core.head_held(key, request)
    }

    /// Describes an object. The range is not looked at.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn head(&self, key: &BlockKey, request: ReadRequest) -> Result<Found> {
        self.core.head(key, &request).await
    }

    /// Reads a whole block, found sound, as one buffer. The request's range is not looked at.
    ///
    /// # Errors
    /// As [`Self::get`]; what ends a body that has begun is a miss here. A block for which there is no room by the deadline is a miss, `deadline`.
    pub async fn get_whole(&self, key: &BlockKey, request: ReadRequest) -> Result<Whole> {
        self.core.get_whole(key, &request).await
    }

    /// How much of a chain is reusable: its longest prefix of blocks that can be served.
    ///
    /// # Errors
    /// The upstream's, where the bucket does not take them for misses, and
    /// [`blockgate_upstream::UpstreamError::NotSupported`] for a passthrough bucket.
    pub async fn lookup(&self, keys: &Arc<KeyList>, request: ChainRequest) -> Result<ChainMatch> {
        self.core.lookup(keys, &request).await
    }

    /// Which blocks can be served, one by one: of a chain or not. What is not known by the deadline counts as absent.
    ///
    /// # Errors
    /// As [`Self::lookup`].
    pub async fn exists(
        &self,
        keys: &Arc<KeyList>,
        fingerprint: Option<&str>,
        deadline: Option<Duration>,
    ) -> Result<Vec<bool>> {
        self.core.exists(keys, fingerprint, deadline).await
    }

    /// Tells that the first `blocks` of a chain were read, so that eviction takes the chain's tail before its head. To be
    /// called once, after the last of them; quick for thousands of blocks, and in the background.
    pub fn used(&self, keys: &Arc<KeyList>, blocks: usize) {
        let (core, keys) = (Arc::clone(&self.core), Arc::clone(keys));
        tokio::spawn(async move { core.mark_used(&keys, blocks).await });
    }

    /// Tells the estimator how long bytes from a tier took to a client's socket.
    pub fn delivered(&self, tier: Tier, bytes: u64, elapsed: Duration) {
        self.core.speeds.delivered(tier, bytes, elapsed);
    }

    /// Leases, and what tiers were measured to be.
    #[must_use]
    pub fn chain_stats(&self) -> ChainStats {
        self.core.chain_stats()
    }

    /// Stores an object, replacing what was there if the conditions hold.
    ///
    /// # Errors
    /// [`StoreError::InvalidArgument`] for a time to live or a fingerprint that the bucket does not take, conditions that
    /// fail, a body that fails. Nothing is stored then.
    pub async fn put(&self, key: &BlockKey, request: WriteRequest, payload: Payload) -> Result<Written> {
        self.core.put(key, request, payload).await
    }

    /// Takes in a body that is to become a block of `bucket`: into the arena, or into a bounded part of the heap, which is
    /// waited for.
    ///
    /// # Errors
    /// [`StoreError::InvalidArgument`] for more than the bucket's `max_block_bytes`, `SlowDown` where no room came free in
    /// time, a body that fails.
    pub async fn take_in(&self, bucket: &str, payload: Payload) -> Result<TakenIn> {
        self.core.take_in(bucket, payload).await
    }

    /// Stores a body that was taken in, as [`Self::put`] does.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub async fn put_taken(&self, key: &BlockKey, request: WriteRequest, body: TakenIn) -> Result<Written> {
        self.core.put_taken(key, request, body).await
    }

    /// Removes an object; one that isn't there counts as removed.
    ///
    /// # Errors
    /// Only the upstream's.
    pub async fn delete(&self, key: &BlockKey) -> Result<()> {
        self.core.delete(key).await
    }

    /// Removes many objects, with the outcome of each in the order asked.
    ///
    /// # Errors
    /// Only the upstream's; an error for all may come after some were removed.
    pub async fn delete_many(&self, keys: &[BlockKey]) -> Result<Vec<Result<()>>> {
        self.core.delete_many(keys).await
    }

    /// Copies an object within the upstream.
    ///
    /// # Errors
    /// [`StoreError::Miss`] where the source has expired, conditions on the source that fail,
    /// [`StoreError::InvalidArgument`] for a copy onto itself that changes nothing.
    pub async fn copy(&self, request: CopyObject) -> Result<Written> {
        self.core.copy(request).await
    }

    /// As the upstream lists, block ETags where known, and with the staged blocks that are not there yet. Those that were
    /// acknowledged from memory (`write = "async"`) are not listed before they are.
    ///
    /// # Errors
    /// Only the upstream's.
    pub async fn list(&self, bucket: &str, request: &ListRequest) -> Result<ListPage> {
        // An upstream shows blockgate's own keys when they are asked for by prefix; clients never see them.
        if request.prefix.starts_with(RESERVED_PREFIX) {
            return self.core.upstream.head_bucket(bucket).await.map(|_| ListPage::default()).map_err(Into::into);
        }
        self.core.list(bucket, request).await
    }

    /// Reads an object's tags.
    ///
    /// # Errors
    /// Only the upstream's.
    pub async fn tags(&self, key: &BlockKey) -> Result<Vec<(String, String)>> {
        self.core.tags(key).await
    }

    /// Replaces an object's tags; none removes them. A time to live among them counts from now.
    ///
    /// # Errors
    /// [`StoreError::Miss`] where the block has expired, [`StoreError::InvalidArgument`] for a bad time to live.
    pub async fn set_tags(&self, key: &BlockKey, tags: Vec<(String, String)>) -> Result<()> {
        self.core.set_tags(key, tags).await
    }

    /// Begins a multipart upload and names it.
    ///
    /// # Errors
    /// [`StoreError::InvalidArgument`] as for [`Self::put`].
    pub async fn create_multipart(&self, key: &BlockKey, request: WriteRequest) -> Result<String> {
        self.core.create_multipart(key, request).await
    }

    /// Stores a part; returns its ETag without quotes.
    ///
    /// # Errors
    /// A body that fails.
    pub async fn upload_part(&self, key: &BlockKey, upload_id: &str, number: u32, payload: Payload) -> Result<String> {
        self.core.upload_part(key, upload_id, number, payload).await
    }

    /// Makes a part of (a range of) an existing object.
    ///
    /// # Errors
    /// [`StoreError::Miss`] where the source has expired, conditions on it that fail, a range that is not within it.
    pub async fn upload_part_copy(&self, request: PartCopy) -> Result<Written> {
        self.core.upload_part_copy(request).await
    }

    /// Joins parts to one object. Of `request`, only the conditions count.
    ///
    /// # Errors
    /// Conditions that fail.
    pub async fn complete_multipart(
        &self,
        key: &BlockKey,
        upload_id: &str,
        parts: Vec<CompletePart>,
        request: WriteRequest,
    ) -> Result<Written> {
        self.core.complete_multipart(key, upload_id, parts, request).await
    }

    /// Forgets a multipart upload and its parts.
    ///
    /// # Errors
    /// Only the upstream's.
    pub async fn abort_multipart(&self, key: &BlockKey, upload_id: &str) -> Result<()> {
        self.core.abort_multipart(key, upload_id).await
    }

    /// Parts stored so far, numbers above `after`, at most `limit`.
    ///
    /// # Errors
    /// Only the upstream's.
    pub async fn list_parts(&self, key: &BlockKey, upload_id: &str, after: u32, limit: u32) -> Result<PartList> {
        self.core.list_parts(key, upload_id, after, limit).await
    }

    /// Unfinished uploads.
    ///
    /// # Errors
    /// Only the upstream's.
    pub async fn list_uploads(&self, bucket: &str, request: &UploadListRequest) -> Result<UploadList> {
        if request.prefix.starts_with(RESERVED_PREFIX) {
            return self.core.upstream.head_bucket(bucket).await.map(|_| UploadList::default()).map_err(Into::into);
        }
        Ok(self.core.upstream.list_uploads(bucket, request).await?)
    }
}
