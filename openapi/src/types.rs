//! What requests and responses hold. Unknown fields are refused everywhere: a mistyped `deadline_ms` must not be ignored.
//!
//! A key in full is `key_prefix + key + key_suffix`. Times are milliseconds since 1970 by the upstream's clock, durations
//! milliseconds or seconds as their names say.

use serde::{Deserialize, Serialize};

use crate::{Bitmap, ErrorCode, MissReason};

/// The keys of a request, in order of the chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExistsRequest {
    /// At most [`crate::limits::KEYS_MAX`].
    pub keys: Vec<String>,
    /// Stands before every key.
    pub key_prefix: String,
    /// Stands after every key.
    pub key_suffix: String,
    /// The fingerprint that blocks must have been stored for; any when null.
    pub fingerprint: Option<String>,
    /// Time that the answer may take.
    pub deadline_ms: Option<u64>,
}

/// Which keys are there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExistsResponse {
    /// One bit a key.
    pub present: Bitmap,
}

/// How much of a chain is reusable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LookupRequest {
    /// At most [`crate::limits::KEYS_MAX`].
    pub keys: Vec<String>,
    /// Stands before every key.
    pub key_prefix: String,
    /// Stands after every key.
    pub key_suffix: String,
    /// The fingerprint that blocks must have been stored for; any when null.
    pub fingerprint: Option<String>,
    /// How long the match must stay where it is; 0 asks for no lease.
    pub lease_ms: u64,
    /// Whether to begin bringing the match to memory.
    pub prefetch: bool,
    /// Time by which the match must be delivered: `matched` is what can be.
    pub deadline_ms: Option<u64>,
}

/// The longest usable prefix of a chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LookupResponse {
    /// How many blocks, from the first.
    pub matched: u64,
    /// Their bytes together. Blocks whose length is not known yet are counted like the nearest known one.
    pub bytes: u64,
    /// Where they are.
    pub tiers: TierCounts,
    /// Why the prefix ends; null when all keys match.
    pub miss: Option<Miss>,
    /// What delivering the match would take, by measured latency and bandwidth.
    pub estimate_ms: f64,
    /// Until when what is in memory of the match stays there; null without a lease, and where not all of it could be leased
    /// (a quarter of memory at most is): what could be is leased nevertheless.
    pub lease_expires_at: Option<u64>,
}

/// Blocks by tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierCounts {
    /// In the gateway's memory.
    pub memory: u64,
    /// On its NVMe.
    pub staging: u64,
    /// In the shared store.
    pub upstream: u64,
}

/// A block that can't be served now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Miss {
    /// Its position in `keys`.
    pub index: u64,
    /// Why.
    pub reason: MissReason,
}

/// Which blocks of `keys` are delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GetMode {
    /// Up to the first miss.
    #[default]
    Prefix,
    /// All that are there, a miss frame for each that isn't.
    All,
}

/// In which order blocks are delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GetOrder {
    /// As asked.
    #[default]
    Request,
    /// As they become ready.
    Ready,
}

/// Bytes of every block: `offset` and `length` must lie within each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByteRange {
    /// First byte.
    pub offset: u64,
    /// How many.
    pub length: u64,
}

/// Lookup and stream fused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GetRequest {
    /// At most [`crate::limits::KEYS_MAX`].
    pub keys: Vec<String>,
    /// Stands before every key.
    pub key_prefix: String,
    /// Stands after every key.
    pub key_suffix: String,
    /// Which blocks.
    pub mode: GetMode,
    /// In which order.
    pub order: GetOrder,
    /// Each block is cut into so many stripes of `length / stripes` bytes (the last takes the rest); stripe 0 of all blocks comes
    /// first, then stripe 1 of all.
    pub stripes: u32,
    /// Only these bytes of every block, one frame each (`stripe` is the range's position), in the same order as stripes: range 0 of
    /// all blocks first. Not together with `stripes`.
    #[serde(deserialize_with = "crate::object::list")]
    pub ranges: Option<Vec<ByteRange>>,
    /// Time to the last byte.
    pub deadline_ms: Option<u64>,
    /// The fingerprint that blocks must have been stored for; any when null.
    pub fingerprint: Option<String>,
}

impl Default for GetRequest {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            key_prefix: String::new(),
            key_suffix: String::new(),
            mode: GetMode::default(),
            order: GetOrder::default(),
            stripes: 1,
            ranges: None,
            deadline_ms: None,
            fingerprint: None,
        }
    }
}

/// JSON payload of the last frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamEnd {
    /// Blocks delivered whole.
    pub blocks: u64,
    /// Payload bytes of data frames.
    pub bytes: u64,
}

/// JSON payload of a miss frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MissBody {
    /// Why.
    pub reason: MissReason,
}

/// JSON payload of the first frame of each block of a `put`; its data frame follows with the same index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutHeader {
    /// The key, in full.
    pub key: String,
    /// Seconds to live; the bucket's default when null.
    #[serde(default)]
    pub ttl_s: Option<u64>,
    /// What must be equal for the block to be reusable.
    #[serde(default)]
    pub fingerprint: Option<String>,
}

/// Outcomes of a `put`, in order of the blocks' indices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutResponse {
    /// One a block.
    pub results: Vec<PutResult>,
}

/// Outcome of one block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutResult {
    /// 200, or the status of `code`.
    pub status: u16,
    /// The block's ETag, where it was stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// Why it was not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// The same for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Which blocks to delete: exactly one of `keys`, `prefix` and `fingerprint`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeleteRequest {
    /// These keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<Vec<String>>,
    /// Stands before every one of `keys`.
    pub key_prefix: String,
    /// Stands after every one of `keys`.
    pub key_suffix: String,
    /// All keys that begin so; not empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// All blocks that were stored for this fingerprint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

/// What was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteResponse {
    /// How many. Of `keys`, those that are gone now, whether they were there or not.
    pub deleted: u64,
    /// Since when this gateway does not serve them, by the upstream's clock. Another may, from its memory, until it evicts them.
    pub effective_at: u64,
}

/// Renews times to live.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TouchRequest {
    /// At most [`crate::limits::KEYS_MAX`].
    pub keys: Vec<String>,
    /// Stands before every key.
    #[serde(default)]
    pub key_prefix: String,
    /// Stands after every key.
    #[serde(default)]
    pub key_suffix: String,
    /// Seconds to live from now.
    pub ttl_s: u64,
}

/// What was renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TouchResponse {
    /// How many blocks: those that are there.
    pub touched: u64,
}

/// What operators look at, of one bucket on one gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatsResponse {
    /// The bucket.
    pub bucket: String,
    /// Blocks under a lease, of all buckets.
    pub leases: LeaseStats,
    /// What tiers were measured to be: what `estimate_ms` of a lookup is made of.
    pub tiers: TierStats,
    /// The gateway's memory, of all buckets.
    pub memory: MemoryStats,
    /// The gateway's NVMe, of all buckets; null where there is none.
    pub staging: Option<StagingStats>,
    /// Blocks that the gateway's index knows, of all buckets.
    pub index_entries: u64,
    /// Bytes acknowledged and not yet in the shared store, of all buckets.
    pub pending_upload_bytes: u64,
}

/// Memory of a gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStats {
    /// All of it.
    pub capacity_bytes: u64,
    /// In use, blocks on their way in or out included.
    pub used_bytes: u64,
    /// Blocks that it holds.
    pub blocks: u64,
    /// Blocks evicted to make room, since the start.
    pub evictions: u64,
}

/// NVMe of a gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagingStats {
    /// Whether blocks are taken in: not while the disk fails or is full.
    pub is_on: bool,
    /// Most that it may take of the disk.
    pub capacity_bytes: u64,
    /// What it takes now.
    pub used_bytes: u64,
    /// Blocks that it holds.
    pub blocks: u64,
    /// Of them, those that are not yet in the shared store.
    pub pending_blocks: u64,
    /// Their bytes.
    pub pending_bytes: u64,
}

/// The shared store, as a gateway sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamInfo {
    /// `fs` or `s3`.
    pub kind: String,
    /// Whether it answers.
    pub state: UpstreamState,
}

/// Whether a shared store answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamState {
    /// It does.
    Up,
    /// It does not.
    #[default]
    Down,
}

/// Leases of a gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseStats {
    /// Blocks under a lease.
    pub blocks: u64,
    /// What they take of memory.
    pub bytes: u64,
}

/// Speed of each tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TierStats {
    /// Memory, up to a client's socket.
    pub memory: TierSpeed,
    /// The gateway's NVMe, up to memory; null where there is none.
    pub staging: Option<TierSpeed>,
    /// The shared store, up to memory.
    pub upstream: TierSpeed,
}

/// Speed of a tier, as measured lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TierSpeed {
    /// Time to the first byte.
    pub latency_ms: f64,
    /// What one stream delivers after it.
    pub bytes_per_second: u64,
}

/// The gateways that are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetResponse {
    /// The one that answers is always among them.
    pub gateways: Vec<GatewayInfo>,
}

/// A gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayInfo {
    /// Names its run: another one after each start.
    pub id: String,
    /// Version of blockgate.
    pub version: String,
    /// When it started.
    pub started_at: u64,
    /// Its memory.
    pub memory: MemoryStats,
    /// Its NVMe; null where it has none.
    pub staging: Option<StagingStats>,
    /// Its shared store.
    pub upstream: UpstreamInfo,
}
