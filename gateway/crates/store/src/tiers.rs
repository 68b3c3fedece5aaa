//! What this gateway holds and knows: blocks in memory, the index, and descriptions of objects.
//!
//! Nothing here is the truth; the upstream is. [`crate::keys`] decides what may enter and when it must go.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use blockgate_block::{Arena, BlockBuf, BlockKey, BlockWriter, ObjectInfo, fingerprint_hash};
use blockgate_index::{Index, Presence, Record};
use blockgate_staging::{Bytes4k, NewBlock, Staged, Staging};
use blockgate_tier::memory::{Leased, MemoryBlock, MemoryTier};
use moka::sync::Cache;
use tokio::time::Instant;

/// What a description takes beyond its texts, roughly.
const INFO_BYTES_BASE: usize = 512;

/// A description, and since when this gateway has it.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) info: Arc<ObjectInfo>,
    pub(crate) since: Instant,
}

pub(crate) struct Tiers {
    memory: MemoryTier,
    staging: Option<Arc<Staging>>,
    index: Arc<Index>,
    infos: Cache<BlockKey, Known>,
    /// The upstream's clock.
    now: Box<dyn Fn() -> SystemTime + Send + Sync>,
}

impl Tiers {
    pub(crate) fn new(
        arena: Arena,
        staging: Option<Arc<Staging>>,
        index: Arc<Index>,
        info_bytes: u64,
        now: impl Fn() -> SystemTime + Send + Sync + 'static,
    ) -> Self {
        let told = Arc::clone(&index);
        let memory = MemoryTier::new(arena, move |key, in_memory| told.set_in_memory(key.digest(), in_memory));
        let infos = Cache::builder()
            .weigher(|key: &BlockKey, known: &Known| info_bytes_of(key, &known.info))
            .max_capacity(info_bytes)
            .build();
        Self { memory, staging, index, infos, now: Box::new(now) }
    }

    /// A slot for a block on its way in.
    pub(crate) fn allocate(&self, len_bytes: u64) -> Option<BlockWriter> {
        self.memory().allocate(len_bytes)
    }

    /// The memory tier, without the leases that are over.
    pub(crate) fn memory(&self) -> &MemoryTier {
        if self.memory.has_leases() {
            self.memory.end_leases((self.now)());
        }
        &self.memory
    }

    /// Keeps a block in memory, if it is there, until `until`.
    pub(crate) fn lease(&self, key: &BlockKey, until: SystemTime) -> Leased {
        self.memory.lease(key, until, (self.now)())
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// The log on local NVMe, where there is one.
    pub(crate) fn staging(&self) -> Option<&Arc<Staging>> {
        self.staging.as_ref()
    }

    pub(crate) fn block(&self, key: &BlockKey) -> Option<MemoryBlock> {
        self.memory.get(key)
    }

    pub(crate) fn info(&self, key: &BlockKey) -> Option<Known> {
        self.infos.get(key)
    }

    /// Shows what memory holds and what is described.
    pub(crate) fn for_each(&self, look: &mut dyn FnMut(&BlockKey, &Arc<ObjectInfo>)) {
        self.infos.iter().for_each(|(key, known)| look(&key, &known.info));
        self.memory.for_each(look);
    }

    /// Whether the upstream said, a moment ago, that there is no such object.
    pub(crate) fn is_absent(&self, key: &BlockKey, now: SystemTime) -> bool {
        matches!(self.index.get(key.digest(), now), Presence::Absent)
    }

    /// Takes an object in, replacing what was known under its key.
    pub(crate) fn install(&self, key: &BlockKey, info: &Arc<ObjectInfo>, bytes: Option<BlockBuf>) {
        self.note(key, info);
        match bytes {
            Some(bytes) => self.memory.insert(key.clone(), MemoryBlock { info: Arc::clone(info), bytes }),
            None => self.memory.remove(key),
        }
    }

    /// Offers a block that the upstream has to staging.
    pub(crate) fn offer(&self, key: &BlockKey, info: &Arc<ObjectInfo>, bytes: &BlockBuf) {
        let Some(staging) = &self.staging else { return };
        if info.record.is_some() && !bytes.is_empty() {
            let (key, info, bytes) = (key.clone(), Arc::clone(info), Bytes4k::Arena(bytes.clone()));
            staging.offer(NewBlock { key, info, tags: Vec::new(), bytes, pending: false });
        }
    }

    /// Learns what the upstream calls a block that it did not have before; memory keeps its bytes.
    pub(crate) fn renew(&self, key: &BlockKey, info: &Arc<ObjectInfo>) {
        match self.block(key).filter(|block| block.info.record == info.record) {
            Some(block) => self.install(key, info, Some(block.bytes)),
            None => self.note(key, info),
        }
    }

    /// Learns what an object is. Whether memory or staging has its bytes, these tell the index.
    pub(crate) fn note(&self, key: &BlockKey, info: &Arc<ObjectInfo>) {
        self.infos.insert(key.clone(), Known { info: Arc::clone(info), since: Instant::now() });
        // Only blocks are indexed: an object without a record has no expiry, and an ETag that is not its checksum.
        match &info.record {
            Some(record) => self.index.insert(
                key.digest(),
                Record {
                    len_bytes: record.len_bytes,
                    crc64: record.crc64,
                    expires_at_ms: record.expires_at.map_or(0, milliseconds),
                    fingerprint: fingerprint_hash(info.fingerprint()),
                    in_memory: false,
                    in_staging: false,
                    in_upstream: self.staged(key).is_none_or(|staged| !staged.pending),
                },
            ),
            None => self.index.remove(key.digest()),
        }
        self.report_staged(key);
    }

    /// What staging has under this key's digest.
    pub(crate) fn staged(&self, key: &BlockKey) -> Option<Staged> {
        self.staging.as_ref()?.find(key.digest())
    }

    /// Tells the index whether a block is staged, until what was told is what is seen: staging itself tells of changes only,
    /// and these may have come while the index did not know the block.
    fn report_staged(&self, key: &BlockKey) {
        if self.staging.is_none() {
            return;
        }
        let mut is_staged = self.staged(key).is_some();
        loop {
            self.index.set_in_staging(key.digest(), is_staged);
            let now = self.staged(key).is_some();
            if now == is_staged {
                return;
            }
            is_staged = now;
        }
    }

    /// Remembers, for a moment, that there is no such object.
    pub(crate) fn note_absent(&self, key: &BlockKey, now: SystemTime) {
        self.memory.remove(key);
        self.infos.invalidate(key);
        self.index.mark_absent(key.digest(), now);
    }

    pub(crate) fn forget(&self, key: &BlockKey) {
        self.memory.remove(key);
        self.infos.invalidate(key);
        self.index.remove(key.digest());
    }
}

fn milliseconds(at: SystemTime) -> u64 {
    let ms = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis();
    u64::try_from(ms).unwrap_or(u64::MAX)
}

fn info_bytes_of(key: &BlockKey, info: &ObjectInfo) -> u32 {
    let attributes = &info.attributes;
    let headers = [
        &attributes.content_type,
        &attributes.content_encoding,
        &attributes.content_language,
        &attributes.content_disposition,
        &attributes.cache_control,
        &attributes.expires,
    ];
    let headers: usize = headers.into_iter().flatten().map(String::len).sum();
    let user: usize = attributes.user.iter().map(|(name, value)| name.len() + value.len() + 64).sum();
    let total = INFO_BYTES_BASE + key.key().len() + headers + user;
    u32::try_from(total).unwrap_or(u32::MAX)
}
