//! Requests to and replies from the store.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use blockgate_block::{Attributes, BlockKey, Crc64, ObjectInfo, Tier};
use blockgate_upstream::{ByteStream, Conditions};
use bytes::Bytes;

/// A byte range as a client asks for it, before the object's length is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeSpec {
    /// From `first` to `last` inclusive, or to the end.
    From {
        /// First byte.
        first: u64,
        /// Last byte, inclusive.
        last: Option<u64>,
    },
    /// The last bytes.
    Suffix {
        /// How many.
        len_bytes: u64,
    },
}

/// A GET or HEAD.
#[derive(Clone, Debug, Default)]
pub struct ReadRequest {
    /// Which bytes; all when `None`.
    pub range: Option<RangeSpec>,
    /// Conditions. An `If-Match` may name the block's ETag or the upstream's.
    pub conditions: Conditions,
    /// The fingerprint that the block must have been stored for.
    pub fingerprint: Option<String>,
    /// Time that may pass until the last byte; the bucket's default when `None`.
    pub deadline: Option<Duration>,
}

/// An object's description, and where it is.
#[derive(Clone, Debug)]
pub struct Found {
    /// What it is.
    pub info: Arc<ObjectInfo>,
    /// Where it is.
    pub tier: Tier,
}

/// The bytes of a GET.
pub enum Body {
    /// All there.
    Bytes(Bytes),
    /// Arriving. Ends with an error instead of a wrong byte: the last bytes are held back until the checksum is known good.
    Stream(ByteStream),
}

/// An object being served.
pub struct Served {
    /// What it is; `size_bytes` is the whole object's.
    pub info: Arc<ObjectInfo>,
    /// Where it was.
    pub tier: Tier,
    /// Which bytes the body holds.
    pub range: Range<u64>,
    /// The bytes.
    pub body: Body,
}

/// A PUT, or the start or end of a multipart upload.
///
/// The TTL is taken from user metadata or the tag (`kv-ttl`), the fingerprint from user metadata (`kv-fingerprint`).
#[derive(Clone, Debug, Default)]
pub struct WriteRequest {
    /// The client's attributes.
    pub attributes: Attributes,
    /// The client's tags.
    pub tags: Vec<(String, String)>,
    /// Conditions on what is there now.
    pub conditions: Conditions,
}

/// An object or a part that was stored.
#[derive(Clone, Debug)]
pub struct Written {
    /// ETag without quotes, as every later read will show it.
    pub etag: String,
    /// Length, where known.
    pub size_bytes: Option<u64>,
    /// Checksum of the whole, where known.
    pub crc64: Option<Crc64>,
    /// When it was stored.
    pub stored_at: SystemTime,
    /// When it will no longer be served.
    pub expires_at: Option<SystemTime>,
}

/// A copy.
#[derive(Clone, Debug)]
pub struct CopyObject {
    /// What to read.
    pub source: BlockKey,
    /// Conditions on the source.
    pub source_conditions: Conditions,
    /// What to write.
    pub target: BlockKey,
    /// Attributes of the copy; the source's when `None`.
    pub attributes: Option<Attributes>,
    /// Tags of the copy; the source's when `None`.
    pub tags: Option<Vec<(String, String)>>,
    /// Conditions on the target.
    pub conditions: Conditions,
}

/// A part made of (a range of) an existing object.
#[derive(Clone, Debug)]
pub struct PartCopy {
    /// What to read.
    pub source: BlockKey,
    /// Which bytes; must lie within the object.
    pub source_range: Option<Range<u64>>,
    /// Conditions on the source.
    pub source_conditions: Conditions,
    /// The upload's key.
    pub target: BlockKey,
    /// The upload.
    pub upload_id: String,
    /// Part number.
    pub number: u32,
}

/// A part named in Complete: its number, and the ETag that `upload_part` returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletePart {
    /// Part number.
    pub number: u32,
    /// ETag without quotes.
    pub etag: String,
}
