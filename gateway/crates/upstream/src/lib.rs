//! The shared store behind the gateway: one trait, its implementations, decorators, and the suite they all pass.
//!
//! An upstream keeps objects under the exact keys it is given, with the attributes it is given. It knows nothing of
//! tiers, of TTLs or of checksums beyond carrying the metadata that describes them.

mod breaker;
pub mod conformance;
mod decorator;
mod error;
mod fault;
mod fs;
mod mapped;
mod s3;
mod types;

use std::ops::Range;
use std::time::SystemTime;

use async_trait::async_trait;
use blockgate_block::{Attributes, BlockRecord, ObjectInfo};

pub use breaker::{Admitted, Breaker, BreakerLimits};
pub use decorator::{Decorator, Op};
pub use error::{Result, UpstreamError};
pub use fault::{Fault, FaultUpstream};
pub use fs::FsUpstream;
pub use mapped::{Mapped, stored_name};
pub use s3::{S3Settings, S3Upstream};
pub use types::{
    BodyError, BucketInfo, ByteStream, Capabilities, Conditions, CopyRequest, Deleted, GetReply, ListEntry, ListPage,
    ListRequest, MultipartRequest, PartCopyRequest, PartInfo, PartList, PartRef, Payload, PutRequest, Stored,
    UploadInfo, UploadList, UploadListRequest, byte_stream_of,
};

/// A shared store of objects.
///
/// Keys are opaque UTF-8 without NUL, at most 1,024 bytes; two different keys are two different objects. Listings are in
/// byte order of the keys. A write is visible to every later read through any gateway, whole or not at all; a write whose
/// body fails, or is shorter or longer than announced, leaves what was there before. All methods may be dropped at any
/// await point: the operation then happened whole or not at all.
#[async_trait]
pub trait Upstream: Send + Sync + 'static {
    /// A name for logs and metrics: `fs`, `s3`.
    fn name(&self) -> &'static str;

    /// What this store can do; found out when it was opened.
    fn capabilities(&self) -> Capabilities;

    /// The store's clock now: the only clock by which blocks expire.
    fn now(&self) -> SystemTime;

    /// Whether the store answers at all. Cheap; used for readiness.
    async fn ping(&self) -> Result<()>;

    /// All buckets in order of name.
    async fn list_buckets(&self) -> Result<Vec<BucketInfo>>;
    /// Creates a bucket. [`UpstreamError::BucketExists`] when it is there.
    async fn create_bucket(&self, bucket: &str) -> Result<()>;
    /// Removes an empty bucket ([`UpstreamError::BucketNotEmpty`]); what is under `.blockgate/` does not count and goes too.
    async fn delete_bucket(&self, bucket: &str) -> Result<()>;
    /// [`UpstreamError::NoSuchBucket`] when it is not there.
    async fn head_bucket(&self, bucket: &str) -> Result<BucketInfo>;

    /// Describes an object, [`Conditions`] judged by the store's own ETags and times.
    async fn head(&self, bucket: &str, key: &str, conditions: &Conditions) -> Result<ObjectInfo>;
    /// Reads an object, or the bytes `range` of it. `range` is absolute and may end beyond the object, which cuts it;
    /// beginning at or beyond the end is [`UpstreamError::InvalidRange`]. The body is as long as [`GetReply::range`] or
    /// ends with an error.
    async fn get(
        &self,
        bucket: &str,
        key: &str,
        range: Option<Range<u64>>,
        conditions: &Conditions,
    ) -> Result<GetReply>;
    /// Writes an object, replacing what was there if the conditions hold at that instant. Conditions that the store can't
    /// judge atomically are [`UpstreamError::NotSupported`], here and in `complete_multipart`.
    async fn put(&self, bucket: &str, key: &str, request: PutRequest, payload: Payload) -> Result<Stored>;
    /// Removes an object; one that isn't there counts as removed.
    async fn delete(&self, bucket: &str, key: &str) -> Result<()>;
    /// Removes many (at most 1,000), with the outcome of each in the order asked.
    async fn delete_many(&self, bucket: &str, keys: &[String]) -> Result<Vec<Deleted>>;
    /// Copies an object without its bytes passing through here; attributes are replaced by the request's.
    async fn copy(&self, request: CopyRequest) -> Result<Stored>;
    /// One page of a listing; keys under `.blockgate/` are left out, unless the prefix asked for begins so.
    async fn list(&self, bucket: &str, request: &ListRequest) -> Result<ListPage>;

    /// Reads an object's tags, in order.
    async fn tags(&self, bucket: &str, key: &str) -> Result<Vec<(String, String)>>;
    /// Replaces an object's tags; none removes them.
    async fn set_tags(&self, bucket: &str, key: &str, tags: &[(String, String)]) -> Result<()>;

    /// Begins a multipart upload and names it.
    async fn create_multipart(&self, bucket: &str, key: &str, request: MultipartRequest) -> Result<String>;
    /// Stores part `number` (1 to 10,000), replacing an earlier one; returns its ETag without quotes.
    async fn upload_part(
        &self,
        bucket: &str,
        key: &str,
        upload_id: &str,
        number: u32,
        payload: Payload,
    ) -> Result<String>;
    /// Makes a part of (a range of) an existing object; returns its ETag without quotes.
    async fn upload_part_copy(&self, request: PartCopyRequest) -> Result<Stored>;
    /// Joins the parts, in order, to one object. With a `record`, the finished object carries it (and the attributes given
    /// to `create_multipart`, repeated in `attributes`); stores that can't do so at once let the object be seen without it
    /// for a moment.
    async fn complete_multipart(
        &self,
        bucket: &str,
        key: &str,
        upload_id: &str,
        parts: &[PartRef],
        conditions: &Conditions,
        record: Option<(&Attributes, BlockRecord)>,
    ) -> Result<Stored>;
    /// Forgets a multipart upload and its parts.
    async fn abort_multipart(&self, bucket: &str, key: &str, upload_id: &str) -> Result<()>;
    /// The parts stored so far, numbers above `after`, at most `limit`.
    async fn list_parts(&self, bucket: &str, key: &str, upload_id: &str, after: u32, limit: u32) -> Result<PartList>;
    /// Unfinished uploads in order of key and upload id; those under `.blockgate/` as in `list`.
    async fn list_uploads(&self, bucket: &str, request: &UploadListRequest) -> Result<UploadList>;
}
