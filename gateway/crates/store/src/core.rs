//! What all operations of a store share.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use blockgate_index::Index;
use blockgate_staging::{OpenError, Staging};
use blockgate_telemetry::Metrics;
use blockgate_upstream::{Upstream, UpstreamError};
use bytes::Bytes;
use futures::StreamExt;
use moka::sync::Cache;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tracing::Instrument;

use crate::chain::{Prefetches, Speeds};
use crate::commits::Commits;
use crate::grouped::Grouped;
use crate::keys::KeyTable;
use crate::observed::Observed;
use crate::pending::Backlog;
use crate::staged::{self, Silence};
use crate::tiers::Tiers;
use crate::uploads::Uploads;
use crate::writeback::{Queue, Seen};
use crate::{BucketPolicies, BucketPolicy, Limits, Result, StoreError, StoreParts};

/// How long a bucket is believed to be there before a block is acknowledged that is not yet at the upstream.
const BUCKET_BELIEVED: Duration = Duration::from_secs(60);
const BUCKETS_BELIEVED_MAX: u64 = 10_000;

/// The part of the arena, one in so many, that blocks may take which wait to be staged.
const OFFERED_DIVISOR: u64 = 8;

/// Heap is handed out in pieces of this size.
const HEAP_UNIT_BYTES: u64 = 64 << 10;

pub(crate) struct Core {
    pub(crate) upstream: Arc<dyn Upstream>,
    /// The same, where what it hides is of interest.
    pub(crate) grouped: Arc<Grouped>,
    pub(crate) keys: Arc<KeyTable>,
    pub(crate) policies: BucketPolicies,
    pub(crate) metrics: Metrics,
    pub(crate) limits: Arc<Limits>,
    pub(crate) negative_ttl: Duration,
    pub(crate) uploads: Uploads,
    pub(crate) backlog: Backlog,
    pub(crate) writeback: Arc<Queue>,
    pub(crate) heap: Heap,
    pub(crate) speeds: Arc<Speeds>,
    pub(crate) prefetches: Prefetches,
    /// Of the staging disk.
    pub(crate) silence: Silence,
    /// Buckets that were there a moment ago.
    pub(crate) buckets: Cache<String, ()>,
    /// Buckets that ever were there.
    pub(crate) buckets_seen: Arc<Seen>,
}

impl Drop for Core {
    fn drop(&mut self) {
        self.writeback.close();
    }
}

impl Core {
    pub(crate) fn new(parts: StoreParts, limits: Limits) -> Arc<Self> {
        let index = index_of(&parts);
        Self::of(parts, limits, index, None)
    }

    /// Opens the staging tier too. What it finds to be not yet uploaded is taken up again.
    pub(crate) fn with_staging(
        parts: StoreParts,
        limits: Limits,
        staging: blockgate_staging::Settings,
    ) -> std::result::Result<Arc<Self>, OpenError> {
        let index = index_of(&parts);
        let (staging, pending) = staged::open(staging, Arc::clone(&parts.upstream), &index)?;
        let core = Self::of(parts, limits, index, Some(staging));
        core.resume(pending);
        Ok(core)
    }

    fn of(parts: StoreParts, limits: Limits, index: Arc<Index>, staging: Option<Arc<Staging>>) -> Arc<Self> {
        let StoreParts { upstream, arena, index_entries: _, negative_ttl, policies, metrics } = parts;
        if let Some(staging) = &staging {
            // They keep their slots, also when memory would give them to others.
            staging.bound_offers(arena.stats().capacity_bytes / OFFERED_DIVISOR);
        }
        let directory = staging.as_ref().map(|staging| staging.settings().path.clone());
        let buckets_seen = Arc::new(Seen::read(directory));
        let observed: Arc<dyn Upstream> = Arc::new(Observed::new(upstream, metrics.clone()));
        let clock = Arc::clone(&observed);
        let tiers = Tiers::new(arena, staging, index, limits.info_bytes, move || clock.now());
        let commits = Commits::new(Arc::clone(&observed), negative_ttl, limits.first_byte);
        let grouped = Arc::new(Grouped::new(observed, commits));
        let core = Arc::new(Self {
            upstream: grouped.clone(),
            grouped,
            keys: KeyTable::new(tiers),
            policies,
            metrics,
            negative_ttl,
            uploads: Uploads::new(limits.part_bytes, limits.parts, limits.uploads),
            backlog: Backlog::new(limits.pending_bytes, limits.uploads_at_once),
            writeback: Arc::default(),
            heap: Heap::new(limits.heap_bytes),
            speeds: Arc::default(),
            prefetches: Prefetches::default(),
            silence: Silence::default(),
            limits: Arc::new(limits),
            buckets: Cache::builder().max_capacity(BUCKETS_BELIEVED_MAX).time_to_live(BUCKET_BELIEVED).build(),
            buckets_seen,
        });
        core.show_gauges();
        core
    }

    /// Values that are read whenever metrics are shown.
    fn show_gauges(self: &Arc<Self>) {
        let gauge = |name, help, read: fn(&Self) -> u64| {
            // Weak: the metrics must not keep alive the core that holds them.
            let core = Arc::downgrade(self);
            #[allow(clippy::cast_precision_loss)] // exact up to 2^53
            self.metrics.observe(name, help, move || core.upgrade().map_or(0.0, |core| read(&core) as f64));
        };
        gauge("blockgate_memory_blocks", "Blocks in memory.", |core| core.tiers().memory().stats().blocks);
        gauge("blockgate_memory_block_bytes", "Bytes of the arena taken by blocks in memory.", |core| {
            core.tiers().memory().stats().block_bytes
        });
        gauge("blockgate_memory_evictions_total", "Blocks evicted from memory to make room.", |core| {
            core.tiers().memory().stats().evictions
        });
        gauge("blockgate_memory_capacity_bytes", "Capacity of the memory tier.", |core| {
            core.tiers().memory().stats().arena.capacity_bytes
        });
        gauge(
            "blockgate_memory_used_bytes",
            "Bytes of the memory tier in use, blocks on their way included.",
            |core| core.tiers().memory().stats().arena.used_bytes,
        );
        gauge("blockgate_leases", "Blocks in memory under a lease.", |core| core.chain_stats().leases);
        gauge("blockgate_lease_bytes", "Bytes of the memory tier taken by leased blocks.", |core| {
            core.chain_stats().lease_bytes
        });
        gauge("blockgate_index_entries", "Entries of the index, absences included.", |core| core.tiers().index().len());
        self.show_staging();
        gauge("blockgate_pending_upload_bytes", "Bytes acknowledged and not yet at the upstream.", |core| {
            core.pending_bytes()
        });
        gauge("blockgate_pending_upload_blocks", "Staged blocks that are not yet at the upstream.", |core| {
            core.writeback.totals().blocks
        });
        gauge("blockgate_upload_lag_seconds", "How long the oldest staged block has waited for its upload.", |core| {
            core.upload_lag_seconds()
        });
    }

    pub(crate) fn policy(&self, bucket: &str) -> &BucketPolicy {
        self.policies.of(bucket)
    }

    pub(crate) fn tiers(&self) -> &Tiers {
        self.keys.tiers()
    }

    /// The staging tier, where there is one.
    pub(crate) fn staging(&self) -> Option<&Arc<Staging>> {
        self.tiers().staging()
    }
}

fn index_of(parts: &StoreParts) -> Arc<Index> {
    Arc::new(Index::new(parts.index_entries, parts.negative_ttl))
}

/// Carries `operation` to its end even if the caller goes away: a change of the upstream that was asked for is either
/// known to have happened or not, and the tiers are told.
pub(crate) async fn to_the_end<T: Send + 'static>(
    operation: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    joined(tokio::spawn(operation.in_current_span())).await
}

/// Carries out `operation` for each of `items`, at most `at_once` at the same time; the outcomes in order.
pub(crate) async fn each<I, F: Future>(
    items: impl IntoIterator<Item = I>,
    at_once: usize,
    operation: impl Fn(I) -> F,
) -> Vec<F::Output> {
    futures::stream::iter(items.into_iter().map(operation)).buffered(at_once).collect().await
}

/// The result of a task.
pub(crate) async fn joined<T>(task: JoinHandle<Result<T>>) -> Result<T> {
    match task.await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(StoreError::Upstream(UpstreamError::Unavailable("the gateway is shutting down".into()))),
    }
}

/// A bounded part of the heap, for bodies that find no room in the arena.
pub(crate) struct Heap {
    units: Arc<Semaphore>,
    units_max: u32,
}

/// Room on the heap; free again when dropped.
pub(crate) struct HeapRoom {
    _units: tokio::sync::OwnedSemaphorePermit,
}

impl HeapRoom {
    /// Bytes that take this room until the last view of them goes.
    pub(crate) fn keep(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(OnHeap { bytes, _room: self })
    }
}

/// Bytes, and the room that they take.
struct OnHeap {
    bytes: Bytes,
    _room: HeapRoom,
}

impl AsRef<[u8]> for OnHeap {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Heap {
    fn new(bytes_max: u64) -> Self {
        let units_max = u32::try_from(bytes_max.div_ceil(HEAP_UNIT_BYTES)).unwrap_or(u32::MAX).max(1);
        Self { units: Arc::new(Semaphore::new(units_max as usize)), units_max }
    }

    /// Waits for room. A body larger than the whole heap gets all of it.
    pub(crate) async fn room_for(&self, bytes: u64, wait_max: Duration) -> Result<HeapRoom> {
        let units = u32::try_from(bytes.div_ceil(HEAP_UNIT_BYTES)).unwrap_or(u32::MAX).clamp(1, self.units_max);
        let room = Arc::clone(&self.units).acquire_many_owned(units);
        match tokio::time::timeout(wait_max, room).await {
            Ok(Ok(units)) => Ok(HeapRoom { _units: units }),
            Ok(Err(_)) | Err(_) => Err(StoreError::Upstream(UpstreamError::SlowDown)),
        }
    }
}
