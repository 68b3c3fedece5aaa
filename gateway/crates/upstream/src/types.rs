//! Requests to and replies from an upstream.

use std::ops::Range;
use std::pin::Pin;
use std::time::SystemTime;

use blockgate_block::{Attributes, ObjectInfo};
use bytes::Bytes;
use futures::Stream;
use thiserror::Error;

/// Why a body ended early.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The peer went away, or the transport failed.
    #[error("the body was cut short: {0}")]
    Cut(String),
    /// Fewer or more bytes than announced.
    #[error("the body is {got} bytes, not {announced}")]
    Length {
        /// Bytes announced.
        announced: u64,
        /// Bytes that came (at least).
        got: u64,
    },
    /// The bytes are not those that were promised by a checksum or a signature; holds the S3 error code to answer with.
    #[error("{code}: {message}")]
    Mismatch {
        /// S3 error code: `BadDigest`, `XAmzContentSHA256Mismatch`, `SignatureDoesNotMatch` …
        code: &'static str,
        /// What differs.
        message: String,
    },
    /// The stored bytes do not have the checksum that they were stored with.
    #[error("the stored bytes are corrupt")]
    Corrupt,
    /// Nothing came for too long.
    #[error("the body stalled")]
    Stalled,
}

/// Bytes that arrive over time. After an error nothing more comes.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, BodyError>> + Send + Sync>>;

/// The stream of one chunk (none, if it is empty).
#[must_use]
pub fn byte_stream_of(bytes: Bytes) -> ByteStream {
    Box::pin(futures::stream::iter((!bytes.is_empty()).then_some(Ok(bytes))))
}

/// The bytes of a PUT or of a part. Its length is always known.
pub enum Payload {
    /// All there, shared and replayable: a failed call may be retried.
    Bytes(Bytes),
    /// Arriving: exactly `len_bytes`, or nothing is stored.
    Stream {
        /// Announced length.
        len_bytes: u64,
        /// The bytes.
        stream: ByteStream,
    },
}

impl Payload {
    /// Length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Stream { len_bytes, .. } => *len_bytes,
        }
    }

    /// The bytes as a stream.
    #[must_use]
    pub fn into_stream(self) -> ByteStream {
        match self {
            Self::Bytes(bytes) => byte_stream_of(bytes),
            Self::Stream { stream, .. } => stream,
        }
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Payload").field("len_bytes", &self.len_bytes()).finish_non_exhaustive()
    }
}

/// What a store can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Capabilities {
    /// `If-None-Match: *` on PUT is atomic.
    pub put_if_none_match: bool,
    /// `If-Match` on PUT is atomic.
    pub put_if_match: bool,
    /// Both are on Complete, too.
    pub conditional_complete: bool,
    /// The store checks and keeps CRC64NVME checksums.
    pub crc64nvme: bool,
    /// The store keeps object tags.
    pub tagging: bool,
    /// `x-amz-copy-source-if-match` is honoured.
    pub copy_if_match: bool,
}

/// Conditions of a request, judged in the order of RFC 9110. ETags are without quotes; `*` is any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// `If-Match`.
    pub if_match: Option<String>,
    /// `If-None-Match`.
    pub if_none_match: Option<String>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<SystemTime>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Option<SystemTime>,
}

impl Conditions {
    /// Whether nothing is asked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketInfo {
    /// Its name.
    pub name: String,
    /// When it was created.
    pub created_at: Option<SystemTime>,
}

/// An object being read.
pub struct GetReply {
    /// What it is; `size_bytes` is the whole object's.
    pub info: ObjectInfo,
    /// Which bytes of it the body holds.
    pub range: Range<u64>,
    /// The bytes.
    pub body: ByteStream,
}

impl std::fmt::Debug for GetReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GetReply").field("info", &self.info).field("range", &self.range).finish_non_exhaustive()
    }
}

/// Everything about a PUT but the bytes.
#[derive(Clone, Debug, Default)]
pub struct PutRequest {
    /// Attributes to keep, [`blockgate_block::RECORD_META`] among `user` where there is a record.
    pub attributes: Attributes,
    /// Tags to keep.
    pub tags: Vec<(String, String)>,
    /// Conditions, judged atomically by the store.
    pub conditions: Conditions,
    /// Checksum of the payload, for stores that check it.
    pub crc64: Option<blockgate_block::Crc64>,
}

/// An object or a part that was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The upstream's ETag without quotes.
    pub upstream_etag: String,
    /// When, by the upstream's clock.
    pub stored_at: SystemTime,
}

/// A server-side copy.
#[derive(Clone, Debug)]
pub struct CopyRequest {
    /// Bucket to read from.
    pub source_bucket: String,
    /// Key to read from.
    pub source_key: String,
    /// Conditions on the source, by the upstream's ETags.
    pub source_conditions: Conditions,
    /// Bucket to write to.
    pub bucket: String,
    /// Key to write to.
    pub key: String,
    /// The new object's attributes, all of them.
    pub attributes: Attributes,
    /// The new object's tags; `None` keeps the source's.
    pub tags: Option<Vec<(String, String)>>,
}

/// One page of a listing.
#[derive(Clone, Debug, Default)]
pub struct ListRequest {
    /// Only keys that begin so.
    pub prefix: String,
    /// Keys that hold it after the prefix are folded into one common prefix.
    pub delimiter: Option<String>,
    /// Only keys, and common prefixes, greater than this. Naming a common prefix leaves out all keys under it.
    pub start_after: Option<String>,
    /// Most entries returned, keys and common prefixes together.
    pub limit: u32,
}

/// A key or a common prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListEntry {
    /// An object. `etag` is the upstream's, without quotes.
    Object {
        /// Its key.
        key: String,
        /// Its length.
        size_bytes: u64,
        /// The upstream's ETag.
        etag: String,
        /// When it was stored.
        last_modified: SystemTime,
    },
    /// A folded group of keys.
    CommonPrefix(String),
}

impl ListEntry {
    /// The key or the common prefix.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Object { key, .. } => key,
            Self::CommonPrefix(prefix) => prefix,
        }
    }
}

/// Entries in byte order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    /// At most [`ListRequest::limit`] of them.
    pub entries: Vec<ListEntry>,
    /// Whether more follow: continue after the last entry's name.
    pub truncated: bool,
}

/// The outcome of one deletion among many.
pub type Deleted = Result<(), crate::UpstreamError>;

/// Begins a multipart upload.
#[derive(Clone, Debug, Default)]
pub struct MultipartRequest {
    /// Attributes of the object to be.
    pub attributes: Attributes,
    /// Tags of the object to be.
    pub tags: Vec<(String, String)>,
    /// Whether ETags of parts must be MD5s, as clients of a passthrough bucket expect. Stores of real S3 have no choice; `fs`
    /// otherwise names parts by checksum and length, which is 20 times cheaper.
    pub part_md5: bool,
}

/// A part of an existing object becomes a part of an upload.
#[derive(Clone, Debug)]
pub struct PartCopyRequest {
    /// Bucket to read from.
    pub source_bucket: String,
    /// Key to read from.
    pub source_key: String,
    /// Bytes to take; all when `None`. Must lie within the object.
    pub source_range: Option<Range<u64>>,
    /// Conditions on the source, by the upstream's ETags.
    pub source_conditions: Conditions,
    /// Bucket of the upload.
    pub bucket: String,
    /// Key of the upload.
    pub key: String,
    /// The upload.
    pub upload_id: String,
    /// Part number.
    pub number: u32,
}

/// A part named in Complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartRef {
    /// Part number.
    pub number: u32,
    /// The upstream's ETag of the part, without quotes.
    pub etag: String,
}

/// A part that is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartInfo {
    /// Part number.
    pub number: u32,
    /// The upstream's ETag of the part, without quotes.
    pub etag: String,
    /// Its length.
    pub size_bytes: u64,
    /// When it was stored.
    pub last_modified: SystemTime,
}

/// One page of parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartList {
    /// In order of number.
    pub parts: Vec<PartInfo>,
    /// Whether more follow.
    pub truncated: bool,
}

/// One page of unfinished uploads.
#[derive(Clone, Debug, Default)]
pub struct UploadListRequest {
    /// Only keys that begin so.
    pub prefix: String,
    /// Only uploads after this key, or after this key and upload id.
    pub after: Option<(String, Option<String>)>,
    /// Most uploads returned.
    pub limit: u32,
}

/// An unfinished upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadInfo {
    /// Its key.
    pub key: String,
    /// Its id.
    pub upload_id: String,
    /// When it was begun.
    pub initiated_at: SystemTime,
}

/// Uploads in order of key and id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UploadList {
    /// At most [`UploadListRequest::limit`] of them.
    pub uploads: Vec<UploadInfo>,
    /// Whether more follow.
    pub truncated: bool,
}
