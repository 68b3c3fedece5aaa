//! Every limit of the store that is no bucket's setting.

use std::time::Duration;

/// The largest object that a store copies in one call (S3's own limit): larger ones can't be given a record afterwards.
pub(crate) const COPY_BYTES_MAX: u64 = 5 << 30;

/// Blocks up to this size are answered whole, so that a corrupt one is a clean miss; larger ones stream while they fill.
pub(crate) const WHOLE_ANSWER_BYTES_MAX: u64 = 256 << 10;

/// Bytes at the end of a reply that wait for the whole block's checksum.
pub(crate) const HELD_BACK_BYTES: u64 = 64 << 10;

/// How often a body that was cut is asked for again from where it broke.
pub(crate) const RESUMES_MAX: u32 = 2;

/// Most keys that an upstream deletes in one call.
pub(crate) const DELETE_KEYS_MAX: usize = 1000;

/// Most calls of the upstream that one request over many keys makes at the same time.
pub(crate) const CALLS_AT_ONCE_MAX: usize = 16;

/// Limits of a store.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Longest wait for the upstream to begin an answer to a read.
    pub first_byte: Duration,
    /// Longest silence in a body that the upstream sends.
    pub between_chunks: Duration,
    /// Longest wait for the staging disk; then the upstream is asked.
    pub staging_answer: Duration,
    /// How long a disk that did not answer is not asked again: one read in so long waits for it, not every one.
    pub staging_silence: Duration,
    /// Bytes that were acknowledged and are not yet at the upstream (`write = "async"`); over it, PUTs go through.
    pub pending_bytes: u64,
    /// How many blocks are uploaded at the same time after they were acknowledged: the rest of the machine is for requests.
    pub uploads_at_once: usize,
    /// How long such a block is tried to be uploaded while the upstream is out; then it is given up.
    pub upload_patience: Duration,
    /// Pause before a block is tried again that the upstream refused, or that could not be read (`write = "back"`).
    pub upload_retry: Duration,
    /// A block up to this size is uploaded in one call; a larger one in parts of a quarter of it.
    pub upload_call_bytes: u64,
    /// Longest wait of an operation for the upload of what was stored before it under its key.
    pub settle_wait: Duration,
    /// Attempts to commit a group.
    pub commit_attempts: u32,
    /// Pause after the first failed attempt; doubles with each one.
    pub upload_pause: Duration,
    /// Bytes of multipart uploads' parts kept in memory until Complete.
    pub part_bytes: u64,
    /// Parts remembered by their ETags until Complete.
    pub parts: usize,
    /// Unfinished multipart uploads whose attributes are remembered.
    pub uploads: usize,
    /// Heap for the bodies of PUTs that find no room in the arena.
    pub heap_bytes: u64,
    /// Longest wait for that heap, or for room among the blocks that wait for their upload in staging, before the client is asked
    /// to slow down.
    pub heap_wait: Duration,
    /// Heap for descriptions of objects that are not in memory.
    pub info_bytes: u64,
}

impl Limits {
    /// The limits that suit an arena of `capacity_bytes`.
    #[must_use]
    pub const fn for_arena(capacity_bytes: u64) -> Self {
        Self {
            first_byte: Duration::from_secs(10),
            between_chunks: Duration::from_secs(10),
            staging_answer: Duration::from_secs(2),
            staging_silence: Duration::from_secs(5),
            pending_bytes: capacity_bytes / 4,
            uploads_at_once: 8,
            upload_patience: Duration::from_secs(60 * 60),
            upload_retry: Duration::from_secs(30),
            upload_call_bytes: 64 << 20,
            settle_wait: Duration::from_secs(10),
            commit_attempts: 5,
            upload_pause: Duration::from_millis(200),
            part_bytes: capacity_bytes / 8,
            parts: 65_536,
            uploads: 4_096,
            heap_bytes: 256 << 20,
            heap_wait: Duration::from_secs(10),
            info_bytes: 32 << 20,
        }
    }
}
